//! A lower bound on the largest load that needs no lattice.
//!
//! Take layers `v_1 < v_2 < ...` along a directed path. Every cut of a plan splits the path at one place, so a stage
//! between two cuts holds an interval of it, and everything that lies between the interval's ends in the graph; it pays
//! for the path's edges that it cuts. What else it holds is free to choose, as long as all work is done somewhere: with
//! loads of at most `T`, a stage of `t * d` devices offers `t * d * T` of device time, less `t` times what its transfers
//! and its resync take. A dynamic program over (place on the path, devices used) maximises what is offered; `T` is too
//! low when that is less than the work of the whole model.

use crate::graph::NodeId;
use crate::pipeline::problem::{Problem, SLACK};
use crate::pipeline::tables::{Sums, layer_sums};
use crate::progress::Stop;

/// Steps of the dynamic program that one threshold may take.
const STEPS: usize = 1 << 22;
/// Most places on a path.
const PLACES: usize = 256;
/// Relative width at which the search for the largest impossible threshold ends.
const WIDTH: f64 = 1e-7;

/// The largest `T` found below which no plan has all its loads; at most `high`.
///
/// Time `O(L^2 (V + K O))` for `L` places on a path and `O` pairs of degrees, times some thirty thresholds; space
/// `O(L^2 T)`.
pub(crate) fn lower_bound(
    problem: &Problem<'_>,
    high: f64,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<f64, Stop> {
    let total: f64 = problem.work.iter().sum();
    let mut low = total / f64::from(problem.workload.devices) * (1.0 - SLACK);
    let bytes = problem.workload.edge_bytes();
    let by_work = |v: NodeId, _: usize| problem.work[v.index()];
    let by_bytes = |_: NodeId, edge: usize| bytes[edge];
    for path in [heaviest_path(problem, by_work), heaviest_path(problem, by_bytes)] {
        tick()?;
        let chain = Chain::new(problem, &path, total);
        let mut top = if high.is_finite() { high } else { total.max(low * 2.0) };
        while low > 0.0 && top > low * (1.0 + WIDTH) {
            tick()?;
            let threshold = (low * top).sqrt();
            if chain.possible(threshold) {
                top = threshold;
            } else {
                low = threshold;
            }
        }
    }
    Ok(low)
}

/// The path with the largest sum of a weight of edges (and their targets).
fn heaviest_path(problem: &Problem<'_>, weight: impl Fn(NodeId, usize) -> f64) -> Vec<NodeId> {
    let graph = problem.workload.graph();
    let mut best = vec![(0.0, None); graph.len()];
    for &node in problem.workload.order() {
        for &edge in graph.outgoing(node) {
            let target = graph.target(edge);
            let sum = best[node.index()].0 + weight(target, edge.index());
            if best[target.index()].1.is_none() || sum > best[target.index()].0 {
                best[target.index()] = (sum, Some(node));
            }
        }
    }
    let mut end = problem.workload.order().iter().copied().max_by(|a, b| {
        let value = |v: &NodeId| best[v.index()].0;
        value(a).total_cmp(&value(b)).then(b.cmp(a))
    });
    let mut path = Vec::new();
    while let Some(node) = end {
        path.push(node);
        end = best[node.index()].1;
    }
    path.reverse();
    path
}

/// A path with what a stage over each of its intervals holds at least.
struct Chain<'a> {
    problem: &'a Problem<'a>,
    total: f64,
    /// Number of places.
    places: usize,
    /// Bytes of the smallest edge of the path between places `i - 1` and `i`; 0 at both ends.
    cut: Vec<f64>,
    /// Sums of the layers that an interval `i..j` of places forces into a stage, by interval and degree.
    held: Vec<Sums>,
}

impl<'a> Chain<'a> {
    fn new(problem: &'a Problem<'a>, path: &[NodeId], total: f64) -> Self {
        let options: usize = problem.degrees.iter().map(Vec::len).sum();
        let devices = problem.workload.devices as usize;
        let affordable = (STEPS / (options.max(1) * devices)).isqrt().clamp(4, PLACES);
        let places = path.len().min(affordable);
        let at = |i: usize| i * path.len() / places;
        let chosen: Vec<NodeId> = (0..places).map(|i| path[at(i)]).collect();
        let mut cut = vec![0.0; places + 1];
        for i in 1..places {
            cut[i] = path[at(i - 1)..=at(i)]
                .windows(2)
                .map(|e| largest_edge(problem, e[0], e[1]))
                .fold(f64::MAX, f64::min);
        }
        let held = held_sums(problem, &chosen);
        Self { problem, total, places, cut, held }
    }

    fn held(&self, from: usize, to: usize, degree: usize) -> &Sums {
        &self.held[(from * (self.places + 1) + to) * self.problem.degrees.len() + degree]
    }

    /// Whether the relaxation has a plan with all loads at most `threshold`.
    fn possible(&self, threshold: f64) -> bool {
        let devices = self.problem.workload.devices as usize;
        // offered[place][k]: the most device time that stages up to a place offer on k devices.
        let mut offered = vec![vec![f64::NEG_INFINITY; devices + 1]; self.places + 1];
        offered[0][0] = 0.0;
        for to in 0..=self.places {
            for from in 0..to {
                self.extend(threshold, from, to, &mut offered);
            }
            self.add_idle(threshold, &mut offered[to]);
        }
        offered[self.places].iter().any(|&most| most >= self.total * (1.0 - SLACK))
    }

    fn extend(&self, threshold: f64, from: usize, to: usize, offered: &mut [Vec<f64>]) {
        let problem = self.problem;
        let seconds = 2.0 / problem.workload.network.stage_bandwidth;
        let transfer = seconds * (self.cut[from] + self.cut[to]);
        let (before, after) = offered.split_at_mut(to);
        for (degree, list) in problem.degrees.iter().enumerate() {
            let held = self.held(from, to, degree);
            if held.lacking > 0 || held.least > problem.capacity {
                continue;
            }
            let t = f64::from(problem.tensor_parallel[degree]);
            for at in list {
                let lost = transfer + at.resync * held.weight;
                let time = f64::from(at.data_parallel) * threshold - lost;
                if time < held.fastest * (1.0 - SLACK) {
                    continue;
                }
                let gain = f64::from(at.devices) * threshold - t * lost;
                raise(&before[from], &mut after[0], at.devices as usize, gain);
            }
        }
    }

    /// Stages without a layer of the path: they offer their time and pay for nothing.
    fn add_idle(&self, threshold: f64, row: &mut [f64]) {
        for k in 1..row.len() {
            row[k] = row[k].max(row[k - 1] + threshold);
        }
    }
}

fn raise(below: &[f64], row: &mut [f64], devices: usize, gain: f64) {
    for (cell, &before) in row.iter_mut().skip(devices).zip(below) {
        *cell = cell.max(before + gain);
    }
}

fn largest_edge(problem: &Problem<'_>, source: NodeId, target: NodeId) -> f64 {
    let graph = problem.workload.graph();
    let between = graph.outgoing(source).iter().filter(|&&e| graph.target(e) == target);
    between.map(|e| problem.workload.edge_bytes()[e.index()]).fold(0.0, f64::max)
}

/// For every interval `from..to` of places, sums over the layers between its first and its last one in the graph.
fn held_sums(problem: &Problem<'_>, chosen: &[NodeId]) -> Vec<Sums> {
    let (places, degrees) = (chosen.len(), problem.degrees.len());
    let single = layer_sums(problem);
    let mut all = vec![Sums::default(); (places + 1) * (places + 1) * degrees];
    let first_place = first_reached(problem, chosen);
    for from in 0..places {
        let reached = descendants(problem, chosen[from]);
        let mut by_end = vec![Sums::default(); (places + 1) * degrees];
        for (node, _) in reached.iter().enumerate().filter(|r| *r.1) {
            // A descendant of the interval's first layer; from this place on, also an ancestor of its last.
            let Some(first) = first_place[node].filter(|&place| place >= from) else { continue };
            for degree in 0..degrees {
                let sum = &mut by_end[(first + 1) * degrees + degree];
                *sum = sum.plus(&single[node * degrees + degree]);
            }
        }
        for to in from + 1..=places {
            for degree in 0..degrees {
                let earlier = if to == from + 1 { Sums::default() } else { by_end[(to - 1) * degrees + degree] };
                let sum = &mut by_end[to * degrees + degree];
                *sum = sum.plus(&earlier);
                all[(from * (places + 1) + to) * degrees + degree] = *sum;
            }
        }
    }
    all
}

/// For each layer the first place whose layer it can reach or is.
fn first_reached(problem: &Problem<'_>, chosen: &[NodeId]) -> Vec<Option<usize>> {
    let graph = problem.workload.graph();
    let mut first: Vec<Option<usize>> = vec![None; graph.len()];
    for (place, node) in chosen.iter().enumerate() {
        first[node.index()] = Some(place);
    }
    for &node in problem.workload.order().iter().rev() {
        let next = graph.outgoing(node).iter().filter_map(|&e| first[graph.target(e).index()]).min();
        first[node.index()] = first[node.index()].into_iter().chain(next).min();
    }
    first
}

fn descendants(problem: &Problem<'_>, start: NodeId) -> Vec<bool> {
    let graph = problem.workload.graph();
    let mut reached = vec![false; graph.len()];
    reached[start.index()] = true;
    for &node in problem.workload.order() {
        if reached[node.index()] {
            for &edge in graph.outgoing(node) {
                reached[graph.target(edge).index()] = true;
            }
        }
    }
    reached
}
