//! Loads, memory and time of a plan.

use std::collections::BTreeMap;

use super::StageScore;
use crate::graph::{EdgeId, NodeId};
use crate::pipeline::{Plan, Schedule, Stage, Tie, TieCost, Tmpc, Transfer, Workload};

/// The TMPC at position `index` of a stage, if the plan names one that exists.
pub(super) fn chosen<'a>(workload: &'a Workload, stage: &Stage, index: usize) -> Option<&'a Tmpc> {
    let layer = workload.layers().get(stage.layers.get(index)?.index())?;
    layer.tmpcs.get(&stage.tensor_parallel)?.get(*stage.choices.get(index)? as usize)
}

/// `sum d * t`.
pub(super) fn devices(plan: &Plan) -> u64 {
    let products = plan.stages.iter().map(|s| u64::from(s.data_parallel) * u64::from(s.tensor_parallel));
    products.fold(0, u64::saturating_add)
}

/// The score of every stage.
pub(super) fn stages(workload: &Workload, schedule: Schedule, plan: &Plan) -> Vec<StageScore> {
    let mut scores = vec![StageScore::default(); plan.stages.len()];
    let mut replicas = 0;
    for (score, stage) in scores.iter_mut().zip(&plan.stages).rev() {
        replicas += replicas_of(stage);
        *score = Members::new(workload, stage).score(in_flight(workload, schedule, stage, replicas));
    }
    scores
}

/// Time per microbatch.
pub(super) fn value(workload: &Workload, schedule: Schedule, plan: &Plan, stages: &[StageScore]) -> f64 {
    match schedule {
        Schedule::Asynchronous => stages.iter().map(|s| s.load).fold(0.0, f64::max),
        Schedule::GPipe | Schedule::OneFOneB => batch_time(workload, plan, stages) / f64::from(workload.microbatches),
    }
}

/// Time of a batch with a flush: every stage's first microbatch, the rest on the stage that holds all others up, and
/// the longest synchronisation.
fn batch_time(workload: &Workload, plan: &Plan, stages: &[StageScore]) -> f64 {
    let microbatches = f64::from(workload.microbatches);
    let (mut fill, mut steady, mut resync) = (0.0, f64::NEG_INFINITY, 0.0_f64);
    for (stage, score) in plan.stages.iter().zip(stages) {
        let d = replicas_of(stage) as f64;
        let microbatch_time = d * (score.compute + score.transfer);
        fill += microbatch_time;
        steady = f64::max(steady, (microbatches / d - 1.0) * microbatch_time);
        resync = resync.max(microbatches * score.resync);
    }
    if stages.is_empty() { 0.0 } else { fill + steady + resync }
}

/// `y`, given the number of `replicas` of this stage and all later ones.
fn in_flight(workload: &Workload, schedule: Schedule, stage: &Stage, replicas: u64) -> u64 {
    let d = replicas_of(stage);
    let whole_batch = u64::from(workload.microbatches).div_ceil(d);
    match schedule {
        Schedule::Asynchronous => replicas.div_ceil(d),
        Schedule::GPipe => whole_batch,
        Schedule::OneFOneB => whole_batch.min(replicas.div_ceil(d)),
    }
}

/// `d`, with the 0 of a malformed plan taken as 1.
fn replicas_of(stage: &Stage) -> u64 {
    u64::from(stage.data_parallel.max(1))
}

/// A stage with the parts of it that exist.
struct Members<'a> {
    workload: &'a Workload,
    stage: &'a Stage,
    /// Its layers, sorted for look-up.
    layers: Vec<NodeId>,
    /// Those with a TMPC.
    chosen: Vec<(NodeId, &'a Tmpc)>,
    /// What its extra copies of shared weights cost.
    copies: Vec<TieCost>,
}

impl<'a> Members<'a> {
    fn new(workload: &'a Workload, stage: &'a Stage) -> Self {
        let mut layers = stage.layers.clone();
        layers.sort_unstable();
        let chosen = (0..stage.layers.len())
            .filter_map(|index| Some((stage.layers[index], chosen(workload, stage, index)?)))
            .collect();
        let mut members = Self { workload, stage, layers, chosen, copies: Vec::new() };
        members.copies = workload.ties().iter().filter_map(|tie| members.copy(tie)).collect();
        members
    }

    fn score(&self, in_flight: u64) -> StageScore {
        let d = replicas_of(self.stage) as f64;
        let compute = self.sum(|tmpc| tmpc.time) / d;
        let transfer = 2.0 / (d * self.workload.network.stage_bandwidth) * self.transfer_bytes();
        let resync = self.replica_resync() + self.copy_resync();
        StageScore {
            load: compute + transfer + resync,
            compute,
            transfer,
            resync,
            memory: self.memory(in_flight),
            in_flight,
        }
    }

    fn sum(&self, part: impl Fn(&Tmpc) -> f64) -> f64 {
        self.chosen.iter().map(|(_, tmpc)| part(tmpc)).sum()
    }

    fn holds(&self, node: NodeId) -> bool {
        self.layers.binary_search(&node).is_ok()
    }

    /// `sum (a * y + b + o / d)`.
    fn memory(&self, in_flight: u64) -> f64 {
        let (y, d) = (in_flight as f64, replicas_of(self.stage) as f64);
        let layers = self.sum(|m| m.memory_per_microbatch * y + m.memory_fixed + m.memory_sharded / d);
        layers + self.copies.iter().map(|copy| copy.memory_fixed + copy.memory_sharded / d).sum::<f64>()
    }

    /// `f * (d - 1) * sum w / (d * N * B)`.
    fn replica_resync(&self) -> f64 {
        let (d, network) = (replicas_of(self.stage), &self.workload.network);
        let bandwidth = network.data_parallel_bandwidth(d as u32, self.stage.tensor_parallel);
        let weights = self.sum(|m| m.weight_bytes) + self.copies.iter().map(|copy| copy.weight_bytes).sum::<f64>();
        let batch = d as f64 * f64::from(self.workload.microbatches);
        network.resync_factor * (d - 1) as f64 * weights / (batch * bandwidth)
    }

    /// `f / 2 * weight bytes / (N * B)` for every tie that crosses the stage's boundary.
    fn copy_resync(&self) -> f64 {
        let network = &self.workload.network;
        let shared: f64 = (self.workload.ties().iter())
            .filter(|tie| tie.layers.iter().any(|&v| self.holds(v)) && !tie.layers.iter().all(|&v| self.holds(v)))
            .filter_map(|tie| tie.costs.get(&self.stage.tensor_parallel))
            .map(|cost| cost.weight_bytes)
            .sum();
        network.resync_factor / 2.0 * shared / (f64::from(self.workload.microbatches) * network.stage_bandwidth)
    }

    /// The cost of a tie's second copy, when this stage uses the weights without their owner.
    fn copy(&self, tie: &Tie) -> Option<TieCost> {
        let (owner, others) = tie.layers.split_first()?;
        let needs_copy = !self.holds(*owner) && others.iter().any(|&v| self.holds(v));
        if needs_copy { tie.costs.get(&self.stage.tensor_parallel).copied() } else { None }
    }

    /// Bytes of one microbatch that enter or leave the stage, one way.
    fn transfer_bytes(&self) -> f64 {
        match self.workload.transfer {
            Transfer::Edge => self.cut_in().chain(self.cut_out()).map(|cut| cut.bytes + cut.sync).sum(),
            Transfer::Tensor => tensor_bytes(self.cut_in()) + tensor_bytes(self.cut_out()),
        }
    }

    /// Edges from outside to the stage.
    fn cut_in(&self) -> impl Iterator<Item = Cut> {
        let graph = self.workload.graph();
        self.chosen.iter().flat_map(move |(v, tmpc)| {
            let edges = graph.incoming(*v).iter().zip(&tmpc.sync_forward);
            edges.filter(|&(&edge, _)| !self.holds(graph.source(edge))).map(|(&edge, &sync)| self.cut(edge, sync))
        })
    }

    /// Edges from the stage to the outside.
    fn cut_out(&self) -> impl Iterator<Item = Cut> {
        let graph = self.workload.graph();
        self.chosen.iter().flat_map(move |(v, tmpc)| {
            let edges = graph.outgoing(*v).iter().zip(&tmpc.sync_backward);
            edges.filter(|&(&edge, _)| !self.holds(graph.target(edge))).map(|(&edge, &sync)| self.cut(edge, sync))
        })
    }

    fn cut(&self, edge: EdgeId, sync: f64) -> Cut {
        Cut { source: self.workload.graph().source(edge), bytes: self.workload.edge_bytes()[edge.index()], sync }
    }
}

/// An edge that crosses the boundary of a stage.
struct Cut {
    source: NodeId,
    bytes: f64,
    sync: f64,
}

/// Counts each tensor once: all edges out of one layer carry the same one.
fn tensor_bytes(cuts: impl Iterator<Item = Cut>) -> f64 {
    let mut tensors: BTreeMap<NodeId, (f64, f64)> = BTreeMap::new();
    for cut in cuts {
        let (bytes, sync) = tensors.entry(cut.source).or_default();
        *bytes = bytes.max(cut.bytes);
        *sync = sync.max(cut.sync);
    }
    tensors.values().map(|(bytes, sync)| bytes + sync).sum()
}
