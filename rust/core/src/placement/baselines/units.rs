//! Colour classes as units that move together.

use std::collections::BTreeMap;

use crate::graph::NodeId;
use crate::placement::Workload;

/// Nodes by unit: each colour class is one, and each node without a colour. In the order of their first nodes.
pub(super) fn units(workload: &Workload) -> Vec<Vec<NodeId>> {
    let mut units: Vec<Vec<NodeId>> = Vec::new();
    let mut of_color: BTreeMap<u32, usize> = BTreeMap::new();
    for node in workload.graph().nodes() {
        let fresh = units.len();
        let unit = workload.node(node).color.map_or(fresh, |color| *of_color.entry(color).or_insert(fresh));
        if unit == fresh {
            units.push(Vec::new());
        }
        units[unit].push(node);
    }
    units
}
