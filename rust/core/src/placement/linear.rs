//! The linearised dynamic program (DPL): exact among the splits whose parts are intervals of one linear order.
//!
//! Tarnawski et al., `NeurIPS` 2020, section 5.1.2: a Hamiltonian path along a topological order leaves `n + 1` downsets.

use crate::placement::growth::Growth;
use crate::placement::labels::{self, Fields, Label};
use crate::placement::problem::{Load, Placed, Problem, add};
use crate::placement::steps::{self, Steps, Unknown};
use crate::progress::Stop;

/// Steps between two looks at the observer.
const STEPS_A_TICK: usize = 1 << 14;
/// Most labels at all positions together.
const MOST_LABELS: usize = 1 << 22;

/// A split of all units.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) parts: Vec<Placed>,
    pub(crate) value: f64,
}

/// The best split along `order` among those with a value below `ceiling`; adds to the number of steps.
///
/// Ends with [`Stop::MemoryLimit`] when there are millions of labels.
///
/// Time `O(P (L K R + d))` for `P` intervals whose load can be below the ceiling (at most `n^2 / 2`), `L` labels a
/// position, `K` kinds of devices with up to `R` replicas, and units with `d` nets; space `O(n (L + K))`.
pub(crate) fn best(
    problem: &Problem,
    order: &[u32],
    ceiling: f64,
    taken: &mut usize,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<Option<Found>, Stop> {
    let mut line = Line {
        problem,
        fields: Fields::new(&problem.kinds),
        slots: steps::slots(problem),
        ceiling,
        at: vec![Vec::new(); order.len() + 1],
        options: Vec::new(),
    };
    line.at[0].push(Label::ROOT);
    let crossing = crossings(problem, order);
    let mut growth = Growth::new(problem);
    let mut done = vec![0.0; problem.width];
    let mut marks = Vec::new();
    let mut labels = 0;
    let mut next_tick = *taken + STEPS_A_TICK;
    for start in 0..order.len() {
        if let Some(steps) = Steps::new(problem, &line.fields, &line.at[start], &done, ceiling, &Unknown) {
            for end in start + 1..=order.len() {
                let from = line.at[start].len();
                *taken += 1 + line.options.len() * from * (4 + line.at[end].len()) / 16;
                if *taken >= next_tick {
                    next_tick = *taken + STEPS_A_TICK;
                    tick()?;
                }
                marks.push(growth.mark);
                growth.join(order[end - 1]);
                if steps.hopeless(problem, growth.row(), growth.mark.kept, ceiling) {
                    break;
                }
                line.extend(start, end, &growth, &steps, crossing[end]);
            }
            while let Some(mark) = marks.pop() {
                growth.leave(order[start + marks.len()], mark);
            }
        }
        labels += line.at[start].len();
        if labels > MOST_LABELS {
            return Err(Stop::MemoryLimit);
        }
        growth.exclude(order[start]);
        add(&mut done, problem.row(order[start]));
    }
    tick()?;
    Ok(line.trace(order))
}

struct Line<'a> {
    problem: &'a Problem,
    fields: Fields,
    slots: Vec<usize>,
    ceiling: f64,
    at: Vec<Vec<Label>>,
    options: Vec<(Load, usize, u32)>,
}

impl Line<'_> {
    /// Puts an interval on every device, on top of every label.
    fn extend(&mut self, start: usize, end: usize, growth: &Growth<'_>, steps: &Steps, crossing: f64) {
        let row = growth.row();
        if row[steps.column] < steps.least {
            return;
        }
        options(self.problem, growth, self.ceiling, &mut self.options);
        let last = end + 1 == self.at.len();
        for &(own, kind, replicas) in &self.options {
            for step in &steps.by_slot[self.slots[kind] + replicas as usize - 1] {
                let load = [own[0].max(step.load[0]), own[1].max(step.load[1])];
                if load[0] + load[1] < self.ceiling && (last || steps.work(row, step, crossing).is_some()) {
                    let parent = (start as u32, step.index);
                    let new = Label { usage: step.usage, load, parent, kind: kind as u32, replicas };
                    labels::insert(&mut self.at[end], &self.fields, new);
                }
            }
        }
    }

    fn trace(&self, order: &[u32]) -> Option<Found> {
        let last = self.at.last()?.iter().min_by(|a, b| a.value().total_cmp(&b.value()))?;
        let mut parts = Vec::new();
        let (mut label, mut end) = (last, order.len());
        while label.parent.0 != u32::MAX {
            let start = label.parent.0 as usize;
            let units = order[start..end].to_vec();
            parts.push(Placed { units, kind: label.kind as usize, replicas: label.replicas });
            end = start;
            label = &self.at[start][label.parent.1 as usize];
        }
        parts.reverse();
        Some(Found { parts, value: last.value() })
    }
}

/// The devices that may hold the part with a value below `ceiling`.
pub(crate) fn options(problem: &Problem, growth: &Growth<'_>, ceiling: f64, options: &mut Vec<(Load, usize, u32)>) {
    options.clear();
    for (kind, devices) in problem.kinds.iter().enumerate().filter(|(_, kind)| kind.count > 0) {
        for replicas in 1..=devices.replicas {
            match problem.load(growth.row(), &growth.mark.moved, kind, replicas) {
                Some(load) if load[0] + load[1] < ceiling => options.push((load, kind, replicas)),
                Some(_) => {}
                None => break,
            }
        }
    }
}

/// For every position of an order, the cost of the nets that cross it.
fn crossings(problem: &Problem, order: &[u32]) -> Vec<f64> {
    let mut position = vec![0; order.len()];
    for (place, &unit) in order.iter().enumerate() {
        position[unit as usize] = place;
    }
    let mut change = vec![0.0; order.len() + 1];
    if problem.load == crate::placement::LoadRule::Sequential {
        for net in &problem.nets {
            let ends = net.targets.iter().chain([&net.source]).map(|&unit| position[unit as usize]);
            let (first, last) = ends.fold((usize::MAX, 0), |(low, high), place| (low.min(place), high.max(place)));
            change[first + 1] += net.cost;
            change[last + 1] -= net.cost;
        }
    }
    let mut sum = 0.0;
    for value in &mut change {
        sum += *value;
        *value = sum;
    }
    change
}
