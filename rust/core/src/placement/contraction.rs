//! Which nodes only move together, and what must come first.
//!
//! A split is contiguous when its devices can be ordered so that no edge between forward nodes runs back, and no mirror
//! edge. A colour class without forward nodes (a backward node without a colour is one of its own) gets an artificial
//! forward mate; for every edge `u -> v` between backward nodes, one of them in such a class, the mirror edge runs from
//! the forward mate of `v` to that of `u`. A device that holds one node of a colour class holds all, so a class with its
//! mate is one unit here, and so are classes on a cycle: they cannot be on two devices that come one after the other.
//!
//! Nothing else is merged here, so no split is lost. Tarnawski et al., `NeurIPS` 2020, section 3 and its appendix on training.

use std::collections::BTreeMap;

use crate::downsets::Blocks;
use crate::graph::{Graph, NodeId};
use crate::placement::Workload;

/// The units of a workload: the condensation of what must not run back, colour classes taken together.
///
/// Edges are turned around, so that downsets (which hold the successors of their members) are what a pipeline has done
/// so far. A unit has a smaller number than all that must come after it.
///
/// Time and space `O((V + E) log V)`; the components themselves take linear time.
pub(crate) fn units(workload: &Workload) -> Blocks {
    regroup(workload, &[])
}

/// The same with the nodes of every group taken together, too.
pub(crate) fn regroup(workload: &Workload, groups: &[Vec<NodeId>]) -> Blocks {
    let mut classes: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for node in workload.graph().nodes() {
        if let Some(color) = workload.node(node).color {
            classes.entry(color).or_default().push(node);
        }
    }
    let turned: Vec<(u32, u32)> = precedences(workload, &classes).map(|(first, then)| (then.0, first.0)).collect();
    let graph = Graph::new(workload.nodes().len(), &turned).unwrap_or_default();
    let together: Vec<Vec<NodeId>> = classes.into_values().chain(groups.iter().cloned()).collect();
    Blocks::new(&graph, &together)
}

/// Pairs of nodes of which the first must not be on a later device than the second.
fn precedences<'a>(
    workload: &'a Workload,
    classes: &'a BTreeMap<u32, Vec<NodeId>>,
) -> impl Iterator<Item = (NodeId, NodeId)> + 'a {
    let forward = |nodes: &Vec<NodeId>| nodes.iter().any(|&v| !workload.node(v).backward);
    let with_forward: BTreeMap<u32, bool> = classes.iter().map(|(&color, nodes)| (color, forward(nodes))).collect();
    let orphan = move |v: NodeId| workload.node(v).color.is_none_or(|color| !with_forward[&color]);
    workload.graph().edges().iter().filter_map(move |&(u, v)| {
        match (workload.node(u).backward, workload.node(v).backward) {
            (false, false) => Some((u, v)),
            (true, true) if orphan(u) || orphan(v) => Some((v, u)),
            _ => None,
        }
    })
}
