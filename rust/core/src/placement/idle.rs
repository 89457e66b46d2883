//! Merging of units that take no time, where it is provably free.
//!
//! Let `v` take no time and no memory that could matter, and let `w` be the only unit that must come after it (or the
//! only one before it). In any contiguous split, `v` can move to the device of `w`: nothing runs back, and only the
//! transfers of the two devices change. When they cannot grow on either of them, whatever else is where, some optimal
//! split has `v` and `w` together, and they are one unit from here on.
//!
//! The published code merges any forward node without time that has one neighbour; without this condition on transfers
//! and memory that can lose the optimum.

use crate::downsets::Blocks;
use crate::graph::NodeId;
use crate::placement::problem::{Net, nets};
use crate::placement::{LoadRule, Rules, Workload, contraction};

/// Most rounds; each one merges pairs that have no unit in common.
const ROUNDS: usize = 64;

/// Merges until nothing is free any more. Time `O(V + E)` a round, apart from sorting.
pub(crate) fn merge(workload: &Workload, rules: &Rules, mut blocks: Blocks, one_pass: bool) -> Blocks {
    let roomy = roomy(workload);
    for _ in 0..ROUNDS {
        let groups = round(workload, rules, &blocks, roomy, one_pass);
        if groups.is_empty() {
            break;
        }
        let kept = (0..blocks.len()).map(|unit| blocks.members(unit)).filter(|members| members.len() > 1);
        let together: Vec<Vec<NodeId>> = kept.map(<[NodeId]>::to_vec).chain(groups).collect();
        blocks = contraction::regroup(workload, &together);
    }
    blocks
}

/// Whether every accelerator has room for all nodes.
fn roomy(workload: &Workload) -> bool {
    let size: f64 = workload.nodes().iter().map(|node| node.size).sum();
    workload.classes().iter().all(|class| class.count == 0 || size <= class.memory)
}

fn round(workload: &Workload, rules: &Rules, blocks: &Blocks, roomy: bool, one_pass: bool) -> Vec<Vec<NodeId>> {
    let nets = nets(workload, blocks, one_pass);
    let mut touching = vec![Vec::new(); blocks.len()];
    for (id, net) in nets.iter().enumerate() {
        for &unit in net.targets.iter().chain([&net.source]) {
            touching[unit as usize].push(id);
        }
    }
    let mut taken = vec![false; blocks.len()];
    let mut groups = Vec::new();
    for unit in 0..blocks.len() {
        if taken[unit] || !is_idle(workload, blocks.members(unit), roomy) {
            continue;
        }
        for neighbours in [blocks.predecessors(unit), blocks.successors(unit)] {
            let &[other] = neighbours else { continue };
            let around = touching[unit].iter().map(|&id| &nets[id]);
            if !taken[other as usize] && free(around, unit as u32, other, rules.load) {
                taken[unit] = true;
                taken[other as usize] = true;
                groups.push([blocks.members(unit), blocks.members(other as usize)].concat());
                break;
            }
        }
    }
    groups
}

fn is_idle(workload: &Workload, nodes: &[NodeId], roomy: bool) -> bool {
    nodes.iter().all(|&node| {
        let node = workload.node(node);
        let no_time = node.cpu == 0.0 && node.sync == 0.0 && node.accelerators.iter().all(|&t| t == Some(0.0));
        no_time && (roomy || node.size == 0.0)
    })
}

/// Most that moving a unit can add to the transfers of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    into: f64,
    out: f64,
}

/// Whether `v` can join `w` without more transfers on either device, given the nets around `v`.
fn free<'n>(nets: impl Iterator<Item = &'n Net>, v: u32, w: u32, load: LoadRule) -> bool {
    // By pass: the device of `w`, which `v` joins, and the one that it leaves.
    let mut joined = [Growth::default(); 2];
    let mut left = [Growth::default(); 2];
    for net in nets {
        let (joined, left, c) = (&mut joined[net.pass], &mut left[net.pass], net.cost);
        let among = net.targets.contains(&w);
        let only = net.targets.len() == 1;
        if net.source == v {
            match (among, only) {
                (true, true) => {
                    joined.into -= c;
                    left.out -= c;
                }
                (true, false) => {
                    joined.into -= c;
                    joined.out += c;
                    left.out -= c;
                    left.into += c;
                }
                (false, _) => {
                    joined.out += c;
                    left.into += c;
                }
            }
        } else if net.source == w {
            if only {
                joined.out -= c;
                left.into -= c;
            }
        } else if !among {
            joined.into += c;
            left.out += c;
        }
    }
    [joined, left].iter().flatten().all(|growth| match load {
        LoadRule::Sequential | LoadRule::Overlap => growth.into + growth.out <= 0.0,
        LoadRule::Duplex => growth.into <= 0.0 && growth.out <= 0.0,
    })
}
