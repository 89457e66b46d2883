//! What `PipeDream` makes of branches: it plans chains, so everything between two points that all paths pass is one.
//!
//! Narayanan et al., "`PipeDream`: Generalized Pipeline Parallelism for DNN Training", SOSP 2019; as a baseline after
//! Tarnawski et al., `NeurIPS` 2020, section 5.

use crate::graph::NodeId;
use crate::placement::baselines::units::units;
use crate::placement::{Workload, WorkloadError};

/// The workload with the inner nodes of each biconnected component in one colour class, to be placed by a linear order.
///
/// The components are those of the undirected graph of colour classes. Nodes at which components meet stay by themselves.
/// Time and space `O(V + E)`.
///
/// # Errors
/// [`WorkloadError`] never, for a workload that was constructed.
pub fn contract_blocks(workload: &Workload) -> Result<Workload, WorkloadError> {
    let units = units(workload);
    let mut unit_of = vec![0; workload.nodes().len()];
    for (unit, nodes) in units.iter().enumerate() {
        nodes.iter().for_each(|node| unit_of[node.index()] = unit);
    }
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); units.len()];
    for &(source, target) in workload.graph().edges() {
        let (from, to) = (unit_of[source.index()], unit_of[target.index()]);
        if from != to {
            neighbours[from].push(to);
            neighbours[to].push(from);
        }
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let block = inner_blocks(&neighbours);
    let mut nodes = workload.nodes().to_vec();
    for (unit, members) in units.iter().enumerate() {
        for node in members {
            nodes[node.index()].color = Some(block[unit]);
        }
    }
    let edges: Vec<(u32, u32)> = workload.graph().edges().iter().map(|&(NodeId(u), NodeId(v))| (u, v)).collect();
    Workload::new(nodes, &edges, workload.classes().to_vec(), workload.cpus())
}

/// A number for each node of an undirected graph: equal for the nodes of one biconnected component that are in no other
/// one. Depth-first search of Hopcroft and Tarjan, CACM 1973, without recursion.
fn inner_blocks(neighbours: &[Vec<usize>]) -> Vec<u32> {
    let count = neighbours.len();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut entered = vec![usize::MAX; count];
    let mut low = vec![0; count];
    let mut clock = 0;
    for root in 0..count {
        if entered[root] != usize::MAX {
            continue;
        }
        // Nodes that were entered and are in no finished component yet; then parent, node and next neighbour to look at.
        let mut open: Vec<usize> = vec![root];
        let mut path: Vec<(usize, usize, usize)> = vec![(usize::MAX, root, 0)];
        (entered[root], low[root]) = (clock, clock);
        clock += 1;
        while let Some((parent, node, next)) = path.last_mut() {
            let (parent, node) = (*parent, *node);
            if let Some(&other) = neighbours[node].get(*next) {
                *next += 1;
                if entered[other] == usize::MAX {
                    (entered[other], low[other]) = (clock, clock);
                    clock += 1;
                    open.push(other);
                    path.push((node, other, 0));
                } else if other != parent {
                    low[node] = low[node].min(entered[other]);
                }
                continue;
            }
            path.pop();
            if parent == usize::MAX {
                continue;
            }
            low[parent] = low[parent].min(low[node]);
            if low[node] >= entered[parent] {
                let at = open.iter().rposition(|&other| other == node).unwrap_or(0);
                let mut block = open.split_off(at);
                block.push(parent);
                blocks.push(block);
            }
        }
    }
    number(count, &blocks)
}

fn number(count: usize, blocks: &[Vec<usize>]) -> Vec<u32> {
    let mut memberships = vec![0_u32; count];
    blocks.iter().flatten().for_each(|&node| memberships[node] += 1);
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for block in blocks {
        let inner: Vec<usize> = block.iter().copied().filter(|&node| memberships[node] == 1).collect();
        if let Some(&least) = inner.iter().min() {
            inner.iter().for_each(|&node| numbers[node] = least as u32);
        }
    }
    numbers
}
