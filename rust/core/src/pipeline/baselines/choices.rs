//! One kind of TMPC for a whole network.

use crate::graph::NodeId;
use crate::pipeline::{Limits, Recompute, Tmpc, Workload};

/// Most kinds that are tried at one degree; networks have two or three.
const MOST_KINDS: usize = 8;

/// A tensor-parallel degree with a TMPC for every layer, by [`NodeId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub degree: u32,
    pub positions: Vec<u32>,
}

/// Every degree up to `widest` that all layers support, with every kind of TMPC that the limits allow. A kind is an id;
/// a layer without it takes one that recomputes as the kind does, or else its first.
pub(super) fn choices(workload: &Workload, limits: &Limits, widest: u32) -> Vec<Choice> {
    let Some(first) = workload.layers().iter().min_by_key(|layer| layer.tmpcs.len()) else {
        return Vec::new();
    };
    let widest = widest.min(limits.max_tensor_parallel.unwrap_or(u32::MAX)).min(workload.devices);
    let degrees = first.tmpcs.keys().copied().filter(|&t| {
        t <= widest
            && limits.tensor_parallel.is_none_or(|only| only == t)
            && workload.network.allows_tensor_parallel(t)
    });
    let mut found: Vec<Choice> = Vec::new();
    for degree in degrees {
        for kind in kinds(workload, degree) {
            let nodes = workload.graph().nodes();
            let positions: Option<Vec<u32>> =
                nodes.map(|node| position(workload, limits.recompute, node, degree, kind)).collect();
            if let Some(choice) = positions.map(|positions| Choice { degree, positions })
                && !found.contains(&choice)
            {
                found.push(choice);
            }
        }
    }
    found
}

/// The TMPCs that stand for the kinds at one degree, in order of first appearance.
fn kinds(workload: &Workload, degree: u32) -> Vec<&Tmpc> {
    let mut kinds: Vec<&Tmpc> = Vec::new();
    for tmpc in workload.layers().iter().filter_map(|layer| layer.tmpcs.get(&degree)).flatten() {
        if kinds.len() < MOST_KINDS && kinds.iter().all(|kind| kind.id != tmpc.id) {
            kinds.push(tmpc);
        }
    }
    kinds
}

/// Position of the TMPC that comes closest to `kind`.
fn position(workload: &Workload, recompute: Recompute, node: NodeId, degree: u32, kind: &Tmpc) -> Option<u32> {
    let list = workload.layer(node).tmpcs.get(&degree)?;
    let any_recomputes = list.iter().any(Tmpc::recomputes);
    let allowed = |tmpc: &Tmpc| match recompute {
        Recompute::Auto => true,
        Recompute::Never => !tmpc.recomputes(),
        Recompute::Always => tmpc.recomputes() || !any_recomputes,
    };
    let find = |wanted: &dyn Fn(&Tmpc) -> bool| list.iter().position(|tmpc| allowed(tmpc) && wanted(tmpc));
    find(&|tmpc| tmpc.id == kind.id)
        .or_else(|| find(&|tmpc| tmpc.recomputes() == kind.recomputes()))
        .or_else(|| find(&|_| true))
        .map(|position| position as u32)
}
