//! Parts of a lattice that is too large: linear orders, and the neighbourhood of given cuts.

use std::collections::{HashSet, VecDeque};

use crate::downsets::{Blocks, Lattice, insert};
use crate::graph::NodeId;
use crate::pipeline::Plan;

/// Most downsets in all neighbourhoods together.
const NEIGHBOURS: usize = 6000;

/// Orders in which blocks can be added to a growing downset: breadth first, depth first, and the reverse of a
/// depth-first order from the sources. Time `O(V + E)` each.
pub(crate) fn orders(blocks: &Blocks) -> Vec<Vec<u32>> {
    let all: Vec<u32> = (0..blocks.len() as u32).collect();
    let upward =
        |last_first: bool| sort(&all, last_first, |b| blocks.successors(b).len(), |b| blocks.predecessors(b));
    let mut downward = sort(&all, true, |b| blocks.predecessors(b).len(), |b| blocks.successors(b));
    downward.reverse();
    let mut orders = vec![upward(false), upward(true), downward];
    orders.dedup();
    orders
}

/// Kahn's algorithm; of the free blocks it takes the one freed last or first.
fn sort<'b>(
    all: &[u32],
    last_first: bool,
    waits_for: impl Fn(usize) -> usize,
    frees: impl Fn(usize) -> &'b [u32],
) -> Vec<u32> {
    let mut missing: Vec<usize> = all.iter().map(|&b| waits_for(b as usize)).collect();
    let mut free: VecDeque<u32> = all.iter().copied().filter(|&b| missing[b as usize] == 0).collect();
    let mut order = Vec::with_capacity(all.len());
    while let Some(block) = if last_first { free.pop_back() } else { free.pop_front() } {
        order.push(block);
        for &next in frees(block as usize) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                free.push_back(next);
            }
        }
    }
    order
}

/// The downsets along one order.
pub(crate) fn chain(blocks: &Blocks, order: &[u32]) -> Lattice {
    let sets = prefixes(blocks, order);
    Lattice::from_sets(blocks.nodes(), sets.iter().map(Vec::as_slice))
}

fn prefixes(blocks: &Blocks, order: &[u32]) -> Vec<Vec<u64>> {
    let mut set = vec![0; blocks.nodes().div_ceil(64)];
    let mut sets = Vec::with_capacity(order.len());
    for &block in order {
        insert(&mut set, blocks.members(block as usize));
        sets.push(set.clone());
    }
    sets
}

/// The downsets along all orders, and those that few additions and removals of a block make from the cuts of a plan.
pub(crate) fn around(blocks: &Blocks, plan: &Plan) -> Lattice {
    let mut sets: Vec<Vec<u64>> = orders(blocks).iter().flat_map(|order| prefixes(blocks, order)).collect();
    let mut cut = vec![0; blocks.nodes().div_ceil(64)];
    let cuts = plan.stages.len().max(2) - 1;
    for stage in plan.stages.iter().skip(1).rev() {
        insert(&mut cut, &stage.layers);
        sets.append(&mut neighbourhood(blocks, &cut, NEIGHBOURS / cuts));
    }
    Lattice::from_sets(blocks.nodes(), sets.iter().map(Vec::as_slice))
}

/// The `most` downsets nearest to `centre`, by breadth-first search.
fn neighbourhood(blocks: &Blocks, centre: &[u64], most: usize) -> Vec<Vec<u64>> {
    let mut seen: HashSet<Vec<u64>> = HashSet::from([centre.to_vec()]);
    let mut found = vec![centre.to_vec()];
    let mut next = 0;
    while next < found.len() && found.len() < most {
        let set = found[next].clone();
        next += 1;
        for block in 0..blocks.len() {
            let Some(changed) = flip(blocks, &set, block) else { continue };
            if seen.insert(changed.clone()) {
                found.push(changed);
            }
        }
    }
    found.truncate(most);
    found
}

/// The downset with one block more or less, where that is a downset.
fn flip(blocks: &Blocks, set: &[u64], block: usize) -> Option<Vec<u64>> {
    let has = |b: usize| {
        let NodeId(node) = blocks.members(b)[0];
        set[node as usize / 64] >> (node % 64) & 1 == 1
    };
    let inside = has(block);
    let possible = if inside {
        blocks.predecessors(block).iter().all(|&p| !has(p as usize))
    } else {
        blocks.successors(block).iter().all(|&s| has(s as usize))
    };
    possible.then(|| {
        let mut changed = set.to_vec();
        for node in blocks.members(block) {
            changed[node.index() / 64] ^= 1 << (node.index() % 64);
        }
        changed
    })
}
