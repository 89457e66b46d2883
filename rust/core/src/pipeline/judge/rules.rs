//! The rules of a plan.

use std::collections::BTreeMap;
use std::fmt;

use super::{MEMORY_TOLERANCE, StageScore, numbers};
use crate::graph::NodeId;
use crate::pipeline::{Limits, Plan, Recompute, Stage, Workload};

/// A rule that a plan can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every stage has a layer.
    StageEmpty,
    /// A stage has one choice for each of its layers. Excess: how many are missing or too many.
    ChoiceCount,
    /// Layers exist.
    LayerUnknown,
    /// No layer is listed twice. Excess: how often beyond once.
    LayerRepeated,
    /// Every layer is in a stage.
    LayerMissing,
    /// No edge runs from a later stage to an earlier one.
    EdgeBackward,
    /// The layer has the chosen TMPC for the stage's tensor-parallel degree.
    TmpcUnknown,
    /// Degrees are at least 1.
    DegreeZero,
    /// `d` divides `N`. Excess: the remainder.
    DataParallelDivides,
    /// `t` divides the devices of a node. Excess: the remainder.
    TensorParallelInNode,
    /// `sum d * t <= K`.
    Devices,
    /// `sum d <= N`.
    Replicas,
    /// `sum (a * y + b + o / d) <= M`, within [`MEMORY_TOLERANCE`]. Excess in bytes.
    Memory,
    /// [`Limits::max_data_parallel`].
    MaxDataParallel,
    /// [`Limits::max_tensor_parallel`].
    MaxTensorParallel,
    /// [`Limits::data_parallel`].
    DataParallel,
    /// [`Limits::tensor_parallel`].
    TensorParallel,
    /// [`Limits::stages`].
    Stages,
    /// [`Limits::max_stages`].
    MaxStages,
    /// [`Limits::recompute`].
    Recompute,
    /// [`Limits::pins`].
    Pin,
    /// [`Limits::together`]. Excess: how many stages beyond one.
    Together,
    /// [`Limits::apart`]. Excess: how many layers of the stage beyond one.
    Apart,
}

impl Rule {
    /// The rule's name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StageEmpty => "stage-empty",
            Self::ChoiceCount => "choice-count",
            Self::LayerUnknown => "layer-unknown",
            Self::LayerRepeated => "layer-repeated",
            Self::LayerMissing => "layer-missing",
            Self::EdgeBackward => "edge-backward",
            Self::TmpcUnknown => "tmpc-unknown",
            Self::DegreeZero => "degree-zero",
            Self::DataParallelDivides => "data-parallel-divides",
            Self::TensorParallelInNode => "tensor-parallel-in-node",
            Self::Devices => "devices",
            Self::Replicas => "replicas",
            Self::Memory => "memory",
            Self::MaxDataParallel => "max-data-parallel",
            Self::MaxTensorParallel => "max-tensor-parallel",
            Self::DataParallel => "data-parallel",
            Self::TensorParallel => "tensor-parallel",
            Self::Stages => "stages",
            Self::MaxStages => "max-stages",
            Self::Recompute => "recompute",
            Self::Pin => "pin",
            Self::Together => "together",
            Self::Apart => "apart",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Where: `plan`, `stage 2`, `stage 2, layer 5`, `layer 5`, `edge 3 -> 5`. Stages count from 0 at the input.
    pub place: String,
    /// By how much; 1 where the rule is not about a quantity.
    pub excess: f64,
}

/// Every rule that `plan` breaks: the plan's form, then the problem's constraints, then the user's limits.
pub(super) fn violations(workload: &Workload, limits: &Limits, plan: &Plan, scores: &[StageScore]) -> Vec<Violation> {
    let mut inspection = Inspection { workload, limits, plan, found: Vec::new() };
    let stage_of = inspection.partition();
    inspection.edges(&stage_of);
    for (index, (stage, score)) in plan.stages.iter().zip(scores).enumerate() {
        let place = format!("stage {index}");
        inspection.choices(stage, &place);
        inspection.degrees(stage, &place);
        if score.memory > workload.memory * (1.0 + MEMORY_TOLERANCE) {
            inspection.report(Rule::Memory, &place, score.memory - workload.memory);
        }
    }
    inspection.totals();
    inspection.groups(&stage_of);
    inspection.found
}

struct Inspection<'a> {
    workload: &'a Workload,
    limits: &'a Limits,
    plan: &'a Plan,
    found: Vec<Violation>,
}

impl Inspection<'_> {
    fn report(&mut self, rule: Rule, place: &str, excess: f64) {
        self.found.push(Violation { rule, place: place.to_owned(), excess });
    }

    fn at_most(&mut self, rule: Rule, place: &str, value: f64, limit: f64) {
        if value > limit {
            self.report(rule, place, value - limit);
        }
    }

    fn at_most_if_set(&mut self, rule: Rule, place: &str, value: u32, limit: Option<u32>) {
        if let Some(limit) = limit {
            self.at_most(rule, place, f64::from(value), f64::from(limit));
        }
    }

    fn equal_if_set(&mut self, rule: Rule, place: &str, value: usize, wanted: Option<u32>) {
        if let Some(wanted) = wanted.map(|w| w as usize)
            && wanted != value
        {
            self.report(rule, place, value.abs_diff(wanted) as f64);
        }
    }

    /// The stages partition the layers. Returns the (first) stage of each layer.
    fn partition(&mut self) -> Vec<Option<usize>> {
        let mut stage_of = vec![None; self.workload.layers().len()];
        let mut times = vec![0_u64; stage_of.len()];
        for (index, stage) in self.plan.stages.iter().enumerate() {
            if stage.layers.is_empty() {
                self.report(Rule::StageEmpty, &format!("stage {index}"), 1.0);
            }
            for &node in &stage.layers {
                let Some(entry) = stage_of.get_mut(node.index()) else {
                    self.report(Rule::LayerUnknown, &in_stage(index, node), 1.0);
                    continue;
                };
                entry.get_or_insert(index);
                times[node.index()] += 1;
            }
        }
        for (node, &count) in times.iter().enumerate() {
            match count {
                0 => self.report(Rule::LayerMissing, &format!("layer {node}"), 1.0),
                1 => {}
                _ => self.report(Rule::LayerRepeated, &format!("layer {node}"), (count - 1) as f64),
            }
        }
        stage_of
    }

    fn edges(&mut self, stage_of: &[Option<usize>]) {
        let workload = self.workload;
        for &(u, v) in workload.graph().edges() {
            if let (Some(source), Some(target)) = (stage_of[u.index()], stage_of[v.index()])
                && source > target
            {
                self.report(Rule::EdgeBackward, &format!("edge {} -> {}", u.0, v.0), 1.0);
            }
        }
    }

    fn choices(&mut self, stage: &Stage, place: &str) {
        let (layers, choices) = (stage.layers.len(), stage.choices.len());
        if layers != choices {
            self.report(Rule::ChoiceCount, place, layers.abs_diff(choices) as f64);
        }
        let exists = |node: &NodeId| node.index() < self.workload.layers().len();
        let known: Vec<(usize, NodeId)> =
            stage.layers.iter().copied().enumerate().take(choices).filter(|(_, node)| exists(node)).collect();
        for (index, node) in known {
            let place = format!("{place}, layer {}", node.0);
            match numbers::chosen(self.workload, stage, index) {
                None => self.report(Rule::TmpcUnknown, &place, 1.0),
                Some(tmpc) if !self.recompute_allows(stage, node, tmpc.recomputes()) => {
                    self.report(Rule::Recompute, &place, 1.0);
                }
                Some(_) => {}
            }
        }
    }

    fn recompute_allows(&self, stage: &Stage, node: NodeId, recomputes: bool) -> bool {
        match self.limits.recompute {
            Recompute::Auto => true,
            Recompute::Never => !recomputes,
            Recompute::Always => {
                let alternatives = self.workload.layer(node).tmpcs.get(&stage.tensor_parallel);
                recomputes || !alternatives.is_some_and(|list| list.iter().any(|tmpc| tmpc.recomputes()))
            }
        }
    }

    fn degrees(&mut self, stage: &Stage, place: &str) {
        let (d, t) = (stage.data_parallel, stage.tensor_parallel);
        for degree in [d, t] {
            if degree == 0 {
                self.report(Rule::DegreeZero, place, 1.0);
            }
        }
        if d > 0 && !self.workload.microbatches.is_multiple_of(d) {
            self.report(Rule::DataParallelDivides, place, f64::from(self.workload.microbatches % d));
        }
        if let Some(node) = self.workload.network.devices_per_node
            && t > 0
            && !node.is_multiple_of(t)
        {
            self.report(Rule::TensorParallelInNode, place, f64::from(node % t));
        }
        let limits = self.limits;
        self.at_most_if_set(Rule::MaxDataParallel, place, d, limits.max_data_parallel);
        self.at_most_if_set(Rule::MaxTensorParallel, place, t, limits.max_tensor_parallel);
        self.equal_if_set(Rule::DataParallel, place, d as usize, limits.data_parallel);
        self.equal_if_set(Rule::TensorParallel, place, t as usize, limits.tensor_parallel);
    }

    fn totals(&mut self) {
        let stages = self.plan.stages.len();
        let replicas: u64 = self.plan.stages.iter().map(|s| u64::from(s.data_parallel)).sum();
        let devices = numbers::devices(self.plan) as f64;
        self.at_most(Rule::Devices, "plan", devices, f64::from(self.workload.devices));
        self.at_most(Rule::Replicas, "plan", replicas as f64, f64::from(self.workload.microbatches));
        self.equal_if_set(Rule::Stages, "plan", stages, self.limits.stages);
        if let Some(limit) = self.limits.max_stages {
            self.at_most(Rule::MaxStages, "plan", stages as f64, f64::from(limit));
        }
    }

    fn groups(&mut self, stage_of: &[Option<usize>]) {
        let find = |node: NodeId| stage_of.get(node.index()).copied().flatten();
        let limits = self.limits;
        for &(node, stage) in &limits.pins {
            if find(node) != Some(stage as usize) {
                self.report(Rule::Pin, &format!("layer {}", node.0), 1.0);
            }
        }
        for group in &limits.together {
            let stages = by_stage(group, find);
            if stages.len() > 1 {
                self.report(Rule::Together, &layers(group), (stages.len() - 1) as f64);
            }
        }
        for group in &limits.apart {
            for (stage, members) in by_stage(group, find) {
                if members.len() > 1 {
                    let place = format!("stage {stage}, {}", layers(&members));
                    self.report(Rule::Apart, &place, (members.len() - 1) as f64);
                }
            }
        }
    }
}

/// The distinct layers of a group, by the stage that they are in.
fn by_stage(group: &[NodeId], find: impl Fn(NodeId) -> Option<usize>) -> BTreeMap<usize, Vec<NodeId>> {
    let mut sorted = group.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut stages: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for node in sorted {
        if let Some(stage) = find(node) {
            stages.entry(stage).or_default().push(node);
        }
    }
    stages
}

fn in_stage(index: usize, node: NodeId) -> String {
    format!("stage {index}, layer {}", node.0)
}

fn layers(group: &[NodeId]) -> String {
    let names: Vec<String> = group.iter().map(|node| node.0.to_string()).collect();
    format!("layers {}", names.join(", "))
}
