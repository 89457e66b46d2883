//! Whether the parts of a split can be put in an order in which nothing runs back.
//!
//! What must not run back are the edges between forward nodes, and mirror edges. A colour class without forward nodes (a
//! backward node without a colour is one of its own) has an artificial forward mate on its device. For every edge
//! `u -> v` between backward nodes of which at least one is in such a class there is a mirror edge from the mate of `v`,
//! that is `v`'s device, to the mate of `u`.
//!
//! Where every class is on one device, a mate's device is that of its class, so the mates themselves need not be made.

use std::collections::BTreeSet;

use crate::graph::{Graph, GraphError, NodeId};
use crate::placement::Workload;

/// Two nodes on two parts, of which the first part must come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constraint {
    pub(super) first: NodeId,
    pub(super) then: NodeId,
}

/// A cycle of constraints among the parts; `None` for a contiguous split.
pub(super) fn cycle(workload: &Workload, home: &[Option<usize>], parts: usize) -> Option<Vec<Constraint>> {
    let mut arcs: Vec<(u32, u32, Constraint)> = Vec::new();
    for constraint in constraints(workload) {
        let ends = (home[constraint.first.index()], home[constraint.then.index()]);
        if let (Some(first), Some(then)) = ends
            && first != then
        {
            arcs.push((first as u32, then as u32, constraint));
        }
    }
    let pairs: Vec<(u32, u32)> = arcs.iter().map(|&(first, then, _)| (first, then)).collect();
    let graph = Graph::new(parts, &pairs).ok()?;
    let Err(GraphError::Cycle(cycle)) = graph.topological_order() else {
        return None;
    };
    let step = |i: usize| {
        let (from, to) = (cycle[i].0, cycle[(i + 1) % cycle.len()].0);
        arcs.iter().find(|&&(first, then, _)| (first, then) == (from, to)).map(|arc| arc.2)
    };
    Some((0..cycle.len()).filter_map(step).collect())
}

fn constraints(workload: &Workload) -> impl Iterator<Item = Constraint> + '_ {
    let forward: BTreeSet<u32> =
        workload.nodes().iter().filter(|node| !node.backward).filter_map(|node| node.color).collect();
    let orphan = move |node: NodeId| workload.node(node).color.is_none_or(|color| !forward.contains(&color));
    workload.graph().edges().iter().filter_map(move |&(source, target)| {
        match (workload.node(source).backward, workload.node(target).backward) {
            (false, false) => Some(Constraint { first: source, then: target }),
            (true, true) if orphan(source) || orphan(target) => Some(Constraint { first: target, then: source }),
            _ => None,
        }
    })
}
