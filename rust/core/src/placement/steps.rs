//! What the labels of one downset can be followed by: one more part on some devices.

use crate::placement::labels::{Fields, Label, Usage};
use crate::placement::problem::{Load, Problem, SAFETY};

/// A label with one more part on top: the devices it has used then, and what the devices left can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Position of the label.
    pub(crate) index: u32,
    pub(crate) usage: Usage,
    /// The largest loads so far.
    pub(crate) load: Load,
    /// The prices that fit the devices left, and their column; no set when no device is left.
    pub(crate) set: Option<usize>,
    pub(crate) column: usize,
    /// Worth of the devices left, with slack.
    worth: f64,
    /// Price of time spent on what crosses the cut.
    pub(crate) crossing: f64,
    /// Index of the devices left, as the caller has it.
    pub(crate) left: usize,
}

/// All steps from one downset.
pub(crate) struct Steps {
    /// By kind and replicas, see [`slots`].
    pub(crate) by_slot: Vec<Vec<Step>>,
    /// Kinds that some label has left.
    pub(crate) kinds: Vec<usize>,
    /// Sums over all that is not in the downset.
    pub(crate) rest: Vec<f64>,
    /// Prices that fit all labels, and their column.
    pub(crate) set: usize,
    pub(crate) column: usize,
    /// Price of the least that a part must hold so that the devices left can do the rest.
    pub(crate) least: f64,
}

/// What a caller knows about devices left over.
pub(crate) trait Left {
    /// The most that they can do, at the prices of a set; infinite when that is not known.
    fn most(&self, set: usize, left: &[u32]) -> f64;
    /// An index of the caller's for them.
    fn index(&self, left: &[u32]) -> usize;
}

/// Nothing is known.
pub(crate) struct Unknown;

impl Left for Unknown {
    fn most(&self, _: usize, _: &[u32]) -> f64 {
        f64::INFINITY
    }

    fn index(&self, _: &[u32]) -> usize {
        0
    }
}

/// By kind: position of its steps with one replica in [`Steps::by_slot`]; then the number of all slots.
pub(crate) fn slots(problem: &Problem) -> Vec<usize> {
    let mut slots = vec![0];
    for kind in &problem.kinds {
        slots.push(slots[slots.len() - 1] + kind.replicas as usize);
    }
    slots
}

impl Steps {
    /// The steps from a downset with these labels and sums; `None` when there is no way on.
    ///
    /// Time `O(L K R)` for `L` labels and `K` kinds with up to `R` replicas.
    pub(crate) fn new(
        problem: &Problem,
        fields: &Fields,
        labels: &[Label],
        done: &[f64],
        ceiling: f64,
        known: &impl Left,
    ) -> Option<Self> {
        let slots = slots(problem);
        let mut left = Vec::with_capacity(problem.kinds.len());
        let mut union = vec![0; problem.kinds.len()];
        for label in labels.iter().filter(|label| label.value() < ceiling) {
            fields.all_left(label.usage, &mut left);
            for (most, &left) in union.iter_mut().zip(&left) {
                *most = left.max(*most);
            }
        }
        let set = problem.prices.set(&union)?;
        let column = problem.prices.column(set);
        let rest: Vec<f64> = problem.total.iter().zip(done).map(|(total, done)| total - done).collect();
        if rest[column + 1] > 0.5 {
            return None;
        }
        let mut most = f64::NEG_INFINITY;
        let mut by_slot = vec![Vec::new(); slots[problem.kinds.len()]];
        for (index, label) in labels.iter().enumerate().filter(|(_, label)| label.value() < ceiling) {
            for (kind, devices) in problem.kinds.iter().enumerate() {
                for replicas in 1..=devices.replicas {
                    let Some(usage) = fields.take(label.usage, kind, replicas) else { break };
                    fields.all_left(usage, &mut left);
                    if replicas == 1 {
                        let worth = problem.prices.worth(set, &left) * ceiling;
                        most = most.max(worth.min(known.most(set, &left)));
                    }
                    let slot = slots[kind] + replicas as usize - 1;
                    by_slot[slot].push(step(problem, index as u32, label, usage, &left, ceiling, known));
                }
            }
        }
        let least = rest[column] - most - SAFETY * problem.total[column];
        let kinds = (0..union.len()).filter(|&kind| union[kind] > 0).collect();
        Some(Self { by_slot, kinds, rest, set, column, least })
    }

    /// Whether no part that grows from one with these sums can have a value below the ceiling.
    pub(crate) fn hopeless(&self, problem: &Problem, row: &[f64], kept: Load, ceiling: f64) -> bool {
        self.kinds.iter().all(|&kind| problem.least(row, kept, kind) >= ceiling)
    }

    /// Price of what is left to do on top of a part with these sums; `None` when the devices left cannot.
    pub(crate) fn work(&self, row: &[f64], step: &Step, crossing: f64) -> Option<f64> {
        step.set?;
        let work = self.rest[step.column] - row[step.column];
        let nowhere = self.rest[step.column + 1] - row[step.column + 1];
        (nowhere <= 0.5 && work + crossing * step.crossing <= step.worth).then_some(work)
    }
}

fn step(
    problem: &Problem,
    index: u32,
    label: &Label,
    usage: Usage,
    left: &[u32],
    ceiling: f64,
    known: &impl Left,
) -> Step {
    let none = Step { index, usage, load: label.load, set: None, column: 0, worth: 0.0, crossing: 0.0, left: 0 };
    let Some(set) = problem.prices.set(left) else { return none };
    let (prices, column) = (&problem.prices.sets[set], problem.prices.column(set));
    Step {
        set: Some(set),
        column,
        worth: problem.prices.worth(set, left) * ceiling + SAFETY * problem.total[column],
        crossing: if prices.member[0] { 0.0 } else { prices.least },
        left: known.index(left),
        ..none
    }
}
