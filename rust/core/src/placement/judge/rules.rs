//! The rules that splits must keep.

use std::collections::BTreeMap;

use crate::graph::NodeId;
use crate::placement::judge::{MEMORY_TOLERANCE, PartScore, contiguous};
use crate::placement::{Device, Rules, Split, Workload};

/// A rule of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A part lists a node that does not exist.
    NodeUnknown,
    /// A node is listed more than once.
    NodeRepeated,
    /// A node is on no device.
    NodeMissing,
    /// A part is on a class of accelerators that does not exist.
    ClassUnknown,
    /// A part has no replica, or more than are allowed.
    Replicas,
    /// There are more parts on CPUs than CPUs.
    Cpus,
    /// There are more parts, or replicas of them, on accelerators of a class than accelerators.
    Accelerators,
    /// The nodes of an accelerator do not fit into its memory.
    Memory,
    /// An accelerator holds nodes that it does not support.
    Unsupported,
    /// Nodes of one colour class are on several devices.
    ColorClass,
    /// The parts cannot be ordered so that no edge of the forward graph runs back.
    Contiguous,
}

impl Rule {
    /// Name for messages and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeUnknown => "node-unknown",
            Self::NodeRepeated => "node-repeated",
            Self::NodeMissing => "node-missing",
            Self::ClassUnknown => "class-unknown",
            Self::Replicas => "replicas",
            Self::Cpus => "cpus",
            Self::Accelerators => "accelerators",
            Self::Memory => "memory",
            Self::Unsupported => "unsupported",
            Self::ColorClass => "color-class",
            Self::Contiguous => "contiguous",
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which one.
    pub rule: Rule,
    /// The part that breaks it, by position; `None` where it takes several.
    pub part: Option<u32>,
    /// The nodes that break it, increasing, except along a cycle of [`Rule::Contiguous`]; may be empty.
    pub nodes: Vec<NodeId>,
    /// By how much: bytes, devices or nodes.
    pub excess: f64,
}

/// All broken rules, in the order of [`Rule`], then by part.
pub(super) fn violations(
    workload: &Workload,
    rules: &Rules,
    split: &Split,
    home: &[Option<usize>],
    scores: &[PartScore],
) -> Vec<Violation> {
    let mut found = Vec::new();
    listing(workload, split, home, &mut found);
    devices(workload, rules, split, &mut found);
    contents(workload, split, scores, &mut found);
    found.extend(colors(workload, home));
    if rules.contiguous
        && let Some(cycle) = contiguous::cycle(workload, home, split.parts.len())
    {
        let nodes: Vec<NodeId> = cycle.iter().flat_map(|step| [step.first, step.then]).collect();
        found.push(Violation { rule: Rule::Contiguous, part: None, excess: cycle.len() as f64, nodes });
    }
    found.sort_by_key(|violation| (violation.rule, violation.part));
    found
}

fn of_nodes(rule: Rule, part: Option<u32>, mut nodes: Vec<NodeId>) -> Option<Violation> {
    nodes.sort_unstable();
    nodes.dedup();
    let excess = nodes.len() as f64;
    (!nodes.is_empty()).then_some(Violation { rule, part, nodes, excess })
}

/// Every node is listed once.
fn listing(workload: &Workload, split: &Split, home: &[Option<usize>], found: &mut Vec<Violation>) {
    let mut seen = vec![false; home.len()];
    for (number, part) in split.parts.iter().enumerate() {
        let (mut unknown, mut repeated) = (Vec::new(), Vec::new());
        for &node in &part.nodes {
            match seen.get_mut(node.index()) {
                None => unknown.push(node),
                Some(true) => repeated.push(node),
                Some(first) => *first = true,
            }
        }
        found.extend(of_nodes(Rule::NodeUnknown, Some(number as u32), unknown));
        found.extend(of_nodes(Rule::NodeRepeated, Some(number as u32), repeated));
    }
    let missing = workload.graph().nodes().filter(|node| home[node.index()].is_none()).collect();
    found.extend(of_nodes(Rule::NodeMissing, None, missing));
}

/// Parts without nodes take no device.
fn devices(workload: &Workload, rules: &Rules, split: &Split, found: &mut Vec<Violation>) {
    let mut cpus = 0_u64;
    let mut used = vec![0_u64; workload.classes().len()];
    for (number, part) in split.parts.iter().enumerate().filter(|(_, part)| !part.nodes.is_empty()) {
        let number = Some(number as u32);
        let broken = |rule, excess| Violation { rule, part: number, nodes: Vec::new(), excess };
        match part.device {
            Device::Cpu => cpus += 1,
            Device::Accelerator { class, replicas } => {
                match used.get_mut(class as usize) {
                    Some(count) => *count += u64::from(replicas.max(1)),
                    None => found.push(broken(Rule::ClassUnknown, 1.0)),
                }
                let most = rules.max_replicas.max(1);
                if replicas == 0 {
                    found.push(broken(Rule::Replicas, 1.0));
                } else if replicas > most {
                    found.push(broken(Rule::Replicas, f64::from(replicas - most)));
                }
            }
        }
    }
    let limits = std::iter::once((Rule::Cpus, cpus, workload.cpus()))
        .chain(used.into_iter().zip(workload.classes()).map(|(used, class)| (Rule::Accelerators, used, class.count)));
    for (rule, used, limit) in limits {
        if used > u64::from(limit) {
            let excess = (used - u64::from(limit)) as f64;
            found.push(Violation { rule, part: None, nodes: Vec::new(), excess });
        }
    }
}

/// Accelerators hold what they can.
fn contents(workload: &Workload, split: &Split, scores: &[PartScore], found: &mut Vec<Violation>) {
    for (number, (part, score)) in split.parts.iter().zip(scores).enumerate() {
        let Device::Accelerator { class, .. } = part.device else { continue };
        let Some(limit) = workload.classes().get(class as usize).map(|class| class.memory) else { continue };
        let number = Some(number as u32);
        if score.memory > limit * (1.0 + MEMORY_TOLERANCE) {
            let excess = score.memory - limit;
            found.push(Violation { rule: Rule::Memory, part: number, nodes: Vec::new(), excess });
        }
        let unsupported = |node: &NodeId| {
            workload.nodes().get(node.index()).is_some_and(|node| node.accelerators[class as usize].is_none())
        };
        found.extend(of_nodes(Rule::Unsupported, number, part.nodes.iter().copied().filter(unsupported).collect()));
    }
}

/// One violation a class that is on several devices.
fn colors(workload: &Workload, home: &[Option<usize>]) -> Vec<Violation> {
    let mut classes: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for node in workload.graph().nodes().filter(|node| home[node.index()].is_some()) {
        if let Some(color) = workload.node(node).color {
            classes.entry(color).or_default().push(node);
        }
    }
    let torn = |nodes: &Vec<NodeId>| nodes.iter().any(|node| home[node.index()] != home[nodes[0].index()]);
    classes.into_values().filter(torn).filter_map(|nodes| of_nodes(Rule::ColorClass, None, nodes)).collect()
}
