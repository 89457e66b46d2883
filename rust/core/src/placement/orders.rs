//! Linear orders to begin with.

use std::collections::{BTreeSet, VecDeque};

use crate::placement::problem::Problem;

/// Topological orders: breadth first, depth first, depth first from the end, and as given.
///
/// Time `O(n + E)` each.
pub(crate) fn structured(problem: &Problem) -> Vec<Vec<u32>> {
    let given: Vec<u32> = (0..problem.len() as u32).collect();
    let upward = |last_first: bool| sort(&given, last_first, |u| problem.before(u).len(), |u| problem.after(u));
    let mut downward = sort(&given, true, |u| problem.after(u).len(), |u| problem.before(u));
    downward.reverse();
    let mut orders = vec![upward(true), upward(false), downward, given.clone()];
    orders.dedup();
    orders
}

/// Kahn's algorithm; of the free units it takes the one freed last or first.
fn sort<'p>(
    all: &[u32],
    last_first: bool,
    waits_for: impl Fn(u32) -> usize,
    frees: impl Fn(u32) -> &'p [u32],
) -> Vec<u32> {
    let mut missing: Vec<usize> = all.iter().map(|&unit| waits_for(unit)).collect();
    let mut free: VecDeque<u32> = all.iter().copied().filter(|&unit| missing[unit as usize] == 0).collect();
    let mut order = Vec::with_capacity(all.len());
    while let Some(unit) = if last_first { free.pop_back() } else { free.pop_front() } {
        order.push(unit);
        for &next in frees(unit) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                free.push_back(next);
            }
        }
    }
    order
}

/// The topological order that takes the free unit with the smallest key. Time `O((n + E) log n)`.
pub(crate) fn by_key(problem: &Problem, key: &[u64]) -> Vec<u32> {
    let mut missing: Vec<usize> = (0..problem.len() as u32).map(|unit| problem.before(unit).len()).collect();
    let ready = |unit: u32| (key[unit as usize], unit);
    let mut free: BTreeSet<(u64, u32)> =
        (0..problem.len() as u32).filter(|&unit| missing[unit as usize] == 0).map(ready).collect();
    let mut order = Vec::with_capacity(problem.len());
    while let Some((_, unit)) = free.pop_first() {
        order.push(unit);
        for &next in problem.after(unit) {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                free.insert(ready(next));
            }
        }
    }
    order
}
