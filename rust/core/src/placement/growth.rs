//! A part that grows by one unit at a time, with its sums and transfers.
//!
//! Every unit is *in* the part, *out* of it for good (below it, or ruled out), or undecided. For every net it is counted
//! how many of its readers are in and how many are out, so that a unit's joining costs its degree. Two sums of transfers
//! are kept: those of the part as it is, and those that every part has that grows from this one.

use crate::placement::problem::{Load, Moved, Net, Problem, add};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Undecided,
    In,
    Out,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    source: Place,
    /// Readers in the part, and readers out of it for good.
    inside: u32,
    outside: u32,
}

/// What a part has come to; to be put back when its last unit leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) moved: Moved,
    /// Times of transfers that no growth can avoid, by pass.
    pub(crate) kept: Load,
}

/// A growing part.
pub(crate) struct Growth<'a> {
    problem: &'a Problem,
    counts: Vec<Count>,
    /// Sums over the units so far, one row for every unit that joined.
    rows: Vec<f64>,
    /// The present transfers.
    pub(crate) mark: Mark,
}

impl<'a> Growth<'a> {
    /// The empty part with nothing below it.
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let none = Count { source: Place::Undecided, inside: 0, outside: 0 };
        Self {
            problem,
            counts: vec![none; problem.nets.len()],
            rows: vec![0.0; problem.width],
            mark: Mark::default(),
        }
    }

    /// Empties the part and all below it.
    pub(crate) fn reset(&mut self) {
        self.counts.fill(Count { source: Place::Undecided, inside: 0, outside: 0 });
        self.rows.truncate(self.problem.width);
        self.mark = Mark::default();
    }

    /// Sums over the part.
    pub(crate) fn row(&self) -> &[f64] {
        &self.rows[self.rows.len() - self.problem.width..]
    }

    /// Adds an undecided unit; [`Growth::leave`] with the mark before undoes it. Time: the unit's nets.
    pub(crate) fn join(&mut self, unit: u32) {
        let width = self.problem.width;
        let top = self.rows.len();
        self.rows.extend_from_within(top - width..);
        add(&mut self.rows[top..], self.problem.row(unit));
        let mark = &mut self.mark;
        for &id in &self.problem.sourced[unit as usize] {
            let (net, count) = (&self.problem.nets[id as usize], &mut self.counts[id as usize]);
            count.source = Place::In;
            if count.inside > 0 {
                mark.moved.into[net.pass] -= net.cost;
            }
            if (count.inside as usize) < net.targets.len() {
                mark.moved.out[net.pass] += net.cost;
            }
            if count.outside > 0 {
                mark.kept[net.pass] += net.cost;
            }
        }
        for &id in &self.problem.targeted[unit as usize] {
            let (net, count) = (&self.problem.nets[id as usize], &mut self.counts[id as usize]);
            count.inside += 1;
            let first = count.inside == 1;
            match count.source {
                Place::In if count.inside as usize == net.targets.len() => mark.moved.out[net.pass] -= net.cost,
                Place::In => {}
                Place::Out if first => {
                    mark.moved.into[net.pass] += net.cost;
                    mark.kept[net.pass] += net.cost;
                }
                Place::Undecided if first => mark.moved.into[net.pass] += net.cost,
                Place::Out | Place::Undecided => {}
            }
        }
    }

    /// Takes out the unit that joined last.
    pub(crate) fn leave(&mut self, unit: u32, before: Mark) {
        self.rows.truncate(self.rows.len() - self.problem.width);
        for &id in &self.problem.sourced[unit as usize] {
            self.counts[id as usize].source = Place::Undecided;
        }
        for &id in &self.problem.targeted[unit as usize] {
            self.counts[id as usize].inside -= 1;
        }
        self.mark = before;
    }

    /// Puts an undecided unit out of the part for good: below it, or ruled out.
    pub(crate) fn exclude(&mut self, unit: u32) {
        for &id in &self.problem.sourced[unit as usize] {
            let count = &mut self.counts[id as usize];
            count.source = Place::Out;
            if count.inside > 0 {
                keep(&mut self.mark, &self.problem.nets[id as usize]);
            }
        }
        for &id in &self.problem.targeted[unit as usize] {
            let count = &mut self.counts[id as usize];
            count.outside += 1;
            if count.source == Place::In && count.outside == 1 {
                keep(&mut self.mark, &self.problem.nets[id as usize]);
            }
        }
    }

    /// Makes an excluded unit undecided again. The caller puts back the mark.
    pub(crate) fn readmit(&mut self, unit: u32) {
        for &id in &self.problem.sourced[unit as usize] {
            self.counts[id as usize].source = Place::Undecided;
        }
        for &id in &self.problem.targeted[unit as usize] {
            self.counts[id as usize].outside -= 1;
        }
    }
}

fn keep(mark: &mut Mark, net: &Net) {
    mark.kept[net.pass] += net.cost;
}
