//! What a stage costs, from additive tables over downsets.
//!
//! A stage is the difference of two downsets. Most of what the search needs is a sum over layers, so one row of sums a
//! downset gives it by subtraction; only the bytes that cross its borders depend on both ends.

use crate::downsets::{DownsetId, Lattice, NodeSet};
use crate::graph::{EdgeId, NodeId};
use crate::pipeline::knapsack::{Choice, MenuId, Menus};
use crate::pipeline::problem::{Alternatives, Degree, Problem};
use crate::pipeline::{Tmpc, Transfer};
use crate::progress::Stop;

/// Sums over the layers of a downset at one tensor-parallel degree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Least times.
    pub(crate) fastest: f64,
    /// `w` and `o` of layers whose alternatives agree on them.
    pub(crate) weight: f64,
    pub(crate) sharded: f64,
    /// `a` and `b` of the fastest alternatives.
    pub(crate) per_microbatch: f64,
    pub(crate) fixed: f64,
    /// Least bytes with one microbatch in flight, and what each further one adds at least.
    pub(crate) least: f64,
    pub(crate) least_each: f64,
    /// Layers that have no alternative, and layers whose alternatives differ in more than time and memory.
    pub(crate) lacking: u32,
    pub(crate) irregular: u32,
    /// Names the multiset of menus.
    pub(crate) signature: u128,
}

impl Sums {
    /// A lower bound on the bytes with `y` in flight.
    pub(crate) fn least_bytes(&self, y: u32) -> f64 {
        self.least + self.least_each * f64::from(y - 1)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            fastest: self.fastest + other.fastest,
            weight: self.weight + other.weight,
            sharded: self.sharded + other.sharded,
            per_microbatch: self.per_microbatch + other.per_microbatch,
            fixed: self.fixed + other.fixed,
            least: self.least + other.least,
            least_each: self.least_each + other.least_each,
            lacking: self.lacking + other.lacking,
            irregular: self.irregular + other.irregular,
            signature: self.signature.wrapping_add(other.signature),
        }
    }

    fn minus(&self, other: &Self) -> Self {
        Self {
            fastest: (self.fastest - other.fastest).max(0.0),
            weight: (self.weight - other.weight).max(0.0),
            sharded: (self.sharded - other.sharded).max(0.0),
            per_microbatch: (self.per_microbatch - other.per_microbatch).max(0.0),
            fixed: (self.fixed - other.fixed).max(0.0),
            least: (self.least - other.least).max(0.0),
            least_each: (self.least_each - other.least_each).max(0.0),
            lacking: self.lacking - other.lacking,
            irregular: self.irregular - other.irregular,
            signature: self.signature.wrapping_sub(other.signature),
        }
    }
}

/// Two nested downsets; the stage is what is in `upper` and not in `lower`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) lower: DownsetId,
    pub(crate) upper: DownsetId,
}

/// What does not depend on `d`, `y` or the choice of alternatives, for one pair and tensor-parallel degree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    pub(crate) sums: Sums,
    /// Time of all transfers of one microbatch, forward and backward.
    pub(crate) transfer: f64,
    /// Time per microbatch that keeping copies of shared weights equal takes.
    pub(crate) copies: f64,
    /// Bytes that second copies of shared weights take.
    pub(crate) copy_fixed: f64,
    pub(crate) copy_sharded: f64,
}

impl Fixed {
    /// The time that is left for computation when `d` replicas shall have a load of at most `threshold`.
    pub(crate) fn time_within(&self, threshold: f64, degree: &Degree) -> f64 {
        f64::from(degree.data_parallel) * (threshold - self.copies) - self.transfer - degree.resync * self.sums.weight
    }

    /// The load of `d` replicas whose computation takes `time`.
    pub(crate) fn load(&self, time: f64, degree: &Degree) -> f64 {
        (time + self.transfer + degree.resync * self.sums.weight) / f64::from(degree.data_parallel) + self.copies
    }

    /// Whether everything about the memory is the same for all `d`.
    pub(crate) fn same_for_all_degrees(&self) -> bool {
        self.sums.irregular == 0 && self.sums.sharded == 0.0 && self.copy_sharded == 0.0
    }
}

/// The additive tables of a problem over a lattice.
pub(crate) struct Tables<'a> {
    pub(crate) problem: &'a Problem<'a>,
    pub(crate) lattice: &'a Lattice,
    degrees: usize,
    sums: Vec<Sums>,
    work: Vec<f64>,
    /// Edges into each downset from outside, sorted by source.
    crossing: Vec<EdgeId>,
    crossing_start: Vec<u32>,
    /// Bytes of an edge that enters or leaves a stage, by edge and degree.
    entering: Vec<f64>,
    leaving: Vec<f64>,
}

impl<'a> Tables<'a> {
    /// Time `O(D (V T + E))` and space `O(D (T + E'))` for `D` downsets, `T` degrees and `E'` crossing edges a downset.
    ///
    /// # Errors
    /// [`Stop`] when `tick` says so.
    pub(crate) fn new(
        problem: &'a Problem<'a>,
        lattice: &'a Lattice,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let degrees = problem.tensor_parallel.len();
        let layer_sums = layer_sums(problem);
        let mut tables = Self {
            problem,
            lattice,
            degrees,
            sums: Vec::with_capacity(lattice.len() * degrees),
            work: Vec::with_capacity(lattice.len()),
            crossing: Vec::new(),
            crossing_start: vec![0],
            entering: Vec::new(),
            leaving: Vec::new(),
        };
        tables.price_edges();
        let empty = lattice.get(DownsetId(0));
        let mut sources: Vec<EdgeId> = (0..problem.workload.graph().edges().len() as u32).map(EdgeId).collect();
        sources.sort_by_key(|&e| (problem.workload.graph().source(e), e));
        for id in lattice.ids() {
            if id.0.is_multiple_of(256) {
                tick()?;
            }
            let set = lattice.get(id);
            let mut row = vec![Sums::default(); degrees];
            let mut work = 0.0;
            for node in set.difference(empty) {
                work += problem.work[node.index()];
                for (sum, layer) in row.iter_mut().zip(&layer_sums[node.index() * degrees..]) {
                    *sum = sum.plus(layer);
                }
            }
            tables.sums.append(&mut row);
            tables.work.push(work);
            let graph = problem.workload.graph();
            let crosses = |e: &EdgeId| !set.contains(graph.source(*e)) && set.contains(graph.target(*e));
            tables.crossing.extend(sources.iter().copied().filter(crosses));
            tables.crossing_start.push(tables.crossing.len() as u32);
        }
        Ok(tables)
    }

    /// Least device time of a downset.
    pub(crate) fn work(&self, id: DownsetId) -> f64 {
        self.work[id.index()]
    }

    /// Sums of the stage between two downsets.
    pub(crate) fn sums(&self, pair: Pair, degree: usize) -> Sums {
        let at = |id: DownsetId| &self.sums[id.index() * self.degrees + degree];
        at(pair.upper).minus(at(pair.lower))
    }

    /// Layers of a stage, in increasing order.
    pub(crate) fn layers(&self, pair: Pair) -> impl Iterator<Item = NodeId> + '_ {
        self.lattice.get(pair.upper).difference(self.lattice.get(pair.lower))
    }

    /// Everything about a stage that neither `d` nor memory changes.
    pub(crate) fn fixed(&self, pair: Pair, degree: usize, transfer: f64) -> Fixed {
        let mut fixed =
            Fixed { sums: self.sums(pair, degree), transfer, copies: 0.0, copy_fixed: 0.0, copy_sharded: 0.0 };
        if !self.problem.workload.ties().is_empty() {
            self.add_copies(pair, degree, &mut fixed);
        }
        fixed
    }

    fn add_copies(&self, pair: Pair, degree: usize, fixed: &mut Fixed) {
        let workload = self.problem.workload;
        let (lower, upper) = (self.lattice.get(pair.lower), self.lattice.get(pair.upper));
        let inside = |v: NodeId| upper.contains(v) && !lower.contains(v);
        for tie in workload.ties() {
            let Some(cost) = tie.costs.get(&self.problem.tensor_parallel[degree]) else { continue };
            let here = tie.layers.iter().filter(|&&v| inside(v)).count();
            if here == 0 {
                continue;
            }
            if !inside(tie.layers[0]) {
                fixed.sums.weight += cost.weight_bytes;
                fixed.copy_fixed += cost.memory_fixed;
                fixed.copy_sharded += cost.memory_sharded;
            }
            if here < tie.layers.len() {
                let network = &workload.network;
                let batch = f64::from(workload.microbatches) * network.stage_bandwidth;
                fixed.copies += network.resync_factor / 2.0 * cost.weight_bytes / batch;
            }
        }
    }

    /// Time of the transfers of one microbatch over both borders of a stage, for every degree.
    ///
    /// What irregular layers synchronise is left out; it belongs to their alternatives.
    pub(crate) fn transfers(&self, pair: Pair, out: &mut [f64]) {
        out.fill(0.0);
        let graph = self.problem.workload.graph();
        let (lower, upper) = (self.lattice.get(pair.lower), self.lattice.get(pair.upper));
        let entering = self.crossing(pair.upper).iter().filter(|&&e| !lower.contains(graph.target(e)));
        let leaving = self.crossing(pair.lower).iter().filter(|&&e| upper.contains(graph.source(e)));
        match self.problem.workload.transfer {
            Transfer::Edge => {
                self.add_edges(entering, &self.entering, out);
                self.add_edges(leaving, &self.leaving, out);
            }
            Transfer::Tensor => {
                self.add_tensors(entering, &self.entering, out);
                self.add_tensors(leaving, &self.leaving, out);
            }
        }
        for bytes in out {
            *bytes *= 2.0 / self.problem.workload.network.stage_bandwidth;
        }
    }

    fn crossing(&self, id: DownsetId) -> &[EdgeId] {
        &self.crossing[self.crossing_start[id.index()] as usize..self.crossing_start[id.index() + 1] as usize]
    }

    fn add_edges<'e>(&self, edges: impl Iterator<Item = &'e EdgeId>, price: &[f64], out: &mut [f64]) {
        let bytes = self.problem.workload.edge_bytes();
        for &edge in edges {
            let sync = &price[edge.index() * self.degrees..];
            for (sum, sync) in out.iter_mut().zip(sync) {
                *sum += bytes[edge.index()] + sync;
            }
        }
    }

    /// Edges come sorted by source: each run of one source is one tensor.
    fn add_tensors<'e>(&self, edges: impl Iterator<Item = &'e EdgeId>, price: &[f64], out: &mut [f64]) {
        let workload = self.problem.workload;
        let mut source = None;
        let (mut size, mut sync) = (0.0, vec![0.0; self.degrees]);
        let mut close = |size: &mut f64, sync: &mut [f64]| {
            for (sum, sync) in out.iter_mut().zip(sync) {
                *sum += *size + *sync;
                *sync = 0.0;
            }
            *size = 0.0;
        };
        for &edge in edges {
            if source != Some(workload.graph().source(edge)) {
                close(&mut size, &mut sync);
                source = Some(workload.graph().source(edge));
            }
            size = f64::max(size, workload.edge_bytes()[edge.index()]);
            for (most, &next) in sync.iter_mut().zip(&price[edge.index() * self.degrees..]) {
                *most = f64::max(*most, next);
            }
        }
        close(&mut size, &mut sync);
    }

    fn price_edges(&mut self) {
        let problem = self.problem;
        let graph = problem.workload.graph();
        let shared = |node: NodeId, degree: usize| {
            let alternatives = problem.alternatives[node.index()][degree].as_ref()?;
            let alike = alternatives.menu.is_some() || problem.workload.transfer == Transfer::Tensor;
            alike.then(|| problem.tmpc(node, degree, alternatives.positions[0]))
        };
        for (edge, &(source, target)) in graph.edges().iter().enumerate() {
            let place = |list: &[EdgeId]| list.iter().position(|e| e.index() == edge).unwrap_or(0);
            let (in_place, out_place) = (place(graph.incoming(target)), place(graph.outgoing(source)));
            for degree in 0..self.degrees {
                self.entering.push(shared(target, degree).map_or(0.0, |t| t.sync_forward[in_place]));
                self.leaving.push(shared(source, degree).map_or(0.0, |t| t.sync_backward[out_place]));
            }
        }
    }
}

/// Sums of single layers, by layer and degree.
pub(crate) fn layer_sums(problem: &Problem<'_>) -> Vec<Sums> {
    let mut all = Vec::new();
    for (node, by_degree) in problem.alternatives.iter().enumerate() {
        for (degree, alternatives) in by_degree.iter().enumerate() {
            let Some(alternatives) = alternatives else {
                all.push(Sums { lacking: 1, ..Sums::default() });
                continue;
            };
            let tmpc = |position: u32| problem.tmpc(NodeId(node as u32), degree, position);
            let least = |of: fn(&Tmpc) -> f64| {
                alternatives.positions.iter().map(|&p| of(tmpc(p))).fold(f64::INFINITY, f64::min)
            };
            let mut sums = Sums {
                fastest: alternatives.fastest,
                least: least(|t| t.memory_per_microbatch + t.memory_fixed),
                least_each: least(|t| t.memory_per_microbatch),
                ..Sums::default()
            };
            if let Some(menu) = alternatives.menu {
                let first = tmpc(alternatives.positions[0]);
                let fast = problem.menus.get(menu).iter().filter(|c| c.time <= alternatives.fastest);
                if let Some(fast) = fast.min_by(|x, y| x.bytes(1).total_cmp(&y.bytes(1))) {
                    (sums.per_microbatch, sums.fixed) = (fast.per_microbatch, fast.fixed);
                }
                (sums.weight, sums.sharded) = (first.weight_bytes, first.memory_sharded);
                sums.signature = name_of(menu);
            } else {
                sums.irregular = 1;
            }
            all.push(sums);
        }
    }
    all
}

/// A number for a menu such that sums of these numbers differ for different multisets (128 random bits each).
fn name_of(menu: MenuId) -> u128 {
    let mix = |seed: u64| {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x243f_6a88_85a3_08d3);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let seed = u64::from(menu.0) * 2 + 1;
    u128::from(mix(seed)) << 64 | u128::from(mix(seed + 1))
}

/// Whether a stage has two layers that the user wants apart.
pub(crate) fn breaks_apart(groups: &[Vec<NodeId>], lower: NodeSet<'_>, upper: NodeSet<'_>) -> bool {
    groups.iter().any(|group| group.iter().filter(|&&v| upper.contains(v) && !lower.contains(v)).count() > 1)
}

/// A stage run with some degrees.
#[derive(Clone, Copy)]
pub(crate) struct StageRun<'a> {
    pub(crate) tables: &'a Tables<'a>,
    pub(crate) pair: Pair,
    /// Position in `tensor_parallel`.
    pub(crate) degree: usize,
    pub(crate) at: &'a Degree,
    pub(crate) fixed: &'a Fixed,
}

impl StageRun<'_> {
    /// Bytes of a device that are left for the alternatives.
    pub(crate) fn capacity(&self) -> f64 {
        let sharded = self.fixed.sums.sharded + self.fixed.copy_sharded;
        self.tables.problem.capacity - self.fixed.copy_fixed - sharded / f64::from(self.at.data_parallel)
    }

    /// Menu and number of each layer, sorted.
    pub(crate) fn items(&self, menus: &mut Menus) -> Vec<(MenuId, NodeId)> {
        let mut items = Vec::new();
        for node in self.tables.layers(self.pair) {
            if let Some(alternatives) = &self.tables.problem.alternatives[node.index()][self.degree] {
                let menu = alternatives.menu.unwrap_or_else(|| menus.intern(self.own_menu(node, alternatives)));
                items.push((menu, node));
            }
        }
        items.sort_unstable();
        items
    }

    /// Alternatives of an irregular layer, with everything that depends on the choice put into time and memory.
    fn own_menu(&self, node: NodeId, alternatives: &Alternatives) -> Vec<Choice> {
        let problem = self.tables.problem;
        let graph = problem.workload.graph();
        let (lower, upper) = (self.tables.lattice.get(self.pair.lower), self.tables.lattice.get(self.pair.upper));
        let outside = |v: NodeId| lower.contains(v) || !upper.contains(v);
        // Bytes that all alternatives share are priced with the edges.
        let own_sync = problem.workload.transfer == Transfer::Edge;
        let cut = |edges: &[EdgeId], other: &dyn Fn(EdgeId) -> NodeId, sync: &[f64]| -> f64 {
            edges.iter().zip(sync).filter(|&(&e, _)| own_sync && outside(other(e))).map(|(_, s)| s).sum()
        };
        let choice = |&position: &u32| {
            let tmpc = problem.tmpc(node, self.degree, position);
            let sync = cut(graph.incoming(node), &|e| graph.source(e), &tmpc.sync_forward)
                + cut(graph.outgoing(node), &|e| graph.target(e), &tmpc.sync_backward);
            Choice {
                time: tmpc.time
                    + 2.0 / problem.workload.network.stage_bandwidth * sync
                    + self.at.resync * tmpc.weight_bytes,
                per_microbatch: tmpc.memory_per_microbatch,
                fixed: tmpc.memory_fixed + tmpc.memory_sharded / f64::from(self.at.data_parallel),
            }
        };
        alternatives.positions.iter().map(choice).collect()
    }
}
