//! The exact search for schedules with a flush: `GPipe` and synchronous 1F1B.
//!
//! With `tau` the time of one microbatch on one replica of a stage (computation and transfers), a batch takes
//!
//! `sum of tau + max (N / d - 1) * tau + max N * resync`
//!
//! (Huang et al., "`GPipe`", `NeurIPS` 2019, section 2.3, with stages of unequal speed, replicas, and the
//! synchronisation of weights that all stages wait for). The two maxima are what makes it hard, so they are guessed: let
//! `S(T, R)` be the least sum of `tau` over the plans whose stages keep `(N / d - 1) * tau <= T` and `N * resync <= R`.
//! The optimum is the least `T + R + S(T, R)`.
//!
//! `S` falls in both arguments, so `T1 + R1 + S(T2, R2)` bounds all plans whose maxima are in the box `[T1, T2] x
//! [R1, R2]`, and the plan behind `S(T2, R2)`, whose true maxima `(T', R')` may be smaller, is a candidate. It also
//! shows that a better plan in the box has a maximum below `T'` or one below `R'`. The search takes the box with the
//! least bound and splits it accordingly until the least bound reaches the best plan.
//!
//! `S` itself is a shortest path over downsets with two resources, devices and replicas (which decide how many
//! microbatches are in flight, and so the memory): [`bounds`] relaxes the replicas, and [`labels`] is an A* search that
//! is guided by the relaxation. Where the replicas do not matter, the relaxation is exact and the A* search only walks
//! along it.

mod bounds;
mod labels;
mod mixed;
mod stages;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::pipeline::Schedule;
use crate::pipeline::bracket::Incumbent;
use crate::pipeline::problem::SLACK;
use crate::pipeline::threshold::Walk;
use crate::progress::{Progress, Status, Stop};

use stages::{Maxima, Parts, Stages};

/// A search for the best plan, as [`crate::pipeline::bracket::Bracket`] is for the asynchronous schedule.
pub(crate) struct Flush<'a> {
    stages: Stages<'a>,
    devices: u32,
    /// Relative width at which to stop; infinite when any plan will do.
    gap: f64,
    /// No plan over this lattice has a smaller time per microbatch.
    pub(crate) low: f64,
    pub(crate) best: Option<Incumbent>,
}

impl<'a> Flush<'a> {
    /// `low` must bound all plans from below; `best` is where to start from, if there is a plan yet. The walk's pairs
    /// must hold every stage whose load is at most the value of `best`: no load of a plan exceeds its time per
    /// microbatch.
    pub(crate) fn new(walk: Walk<'a>, schedule: Schedule, gap: f64, low: f64, best: Option<Incumbent>) -> Self {
        let devices = walk.devices;
        Self { stages: Stages::new(walk, schedule), devices, gap, low, best }
    }

    /// Finds an optimal plan, or proves that there is none (then `low` becomes infinite). Among plans whose values
    /// agree up to rounding it is one with the fewest devices.
    ///
    /// Time `O(B (P T + P O K + L))` for `B` regions (some tens to hundreds), `P` pairs, `T` tensor-parallel degrees,
    /// `O` degrees a pair that no other one beats, `K` devices, and `L` extensions of labels; space `O(P + D K)` for `D`
    /// downsets, and the labels.
    ///
    /// # Errors
    /// [`Stop`] when the observer said so, or there are too many labels; `low` and `best` are valid all the same.
    pub(crate) fn close(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        let mut search = Search::new(&self.stages, self.devices, self.low, self.gap, self.best.take());
        let ended = search.run(&mut self.stages, progress);
        self.low = self.low.max(search.bound() / search.batch);
        let ended = ended.and_then(|()| search.use_fewer_devices(&mut self.stages, progress));
        self.best = search.best;
        ended
    }
}

/// All plans whose maxima are between two corners.
#[derive(Clone, Copy, Debug)]
struct Region {
    low: Maxima,
    high: Maxima,
    /// No plan in it has a smaller value.
    bound: f64,
}

impl Ord for Region {
    /// The least bound is the greatest region: it is taken first from the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |r: &Self| [r.bound, r.low.pace, r.low.resync, r.high.pace, r.high.resync];
        let (left, right) = (key(self), key(other));
        let parts = left.iter().zip(&right).map(|(a, b)| b.total_cmp(a));
        parts.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for Region {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Region {}

/// Branch and bound over regions. All values but those of `best` are times of a batch.
struct Search {
    batch: f64,
    devices: u32,
    gap: f64,
    open: BinaryHeap<Region>,
    best: Option<Incumbent>,
    /// Value of `best`.
    cutoff: f64,
    /// Plans found that are as good as `best`, when the search is for an optimal one.
    equals: Vec<Parts>,
    /// Least value of the candidates as `S` saw them; below `cutoff` only where a knapsack was too hard.
    seen: f64,
}

impl Search {
    /// `least` is a lower bound on the time per microbatch of every plan.
    fn new(stages: &Stages<'_>, devices: u32, least: f64, gap: f64, best: Option<Incumbent>) -> Self {
        let batch = stages.batch();
        let low = Maxima { pace: stages.least_pace(devices), resync: 0.0 };
        let high = Maxima { pace: f64::INFINITY, resync: f64::INFINITY };
        let open = BinaryHeap::from([Region { low, high, bound: low.sum().max(least * batch) }]);
        let cutoff = best.as_ref().map_or(f64::INFINITY, |best| best.value * batch);
        Self { batch, devices, gap, open, best, cutoff, equals: Vec::new(), seen: f64::INFINITY }
    }

    /// Values above are of no interest. An optimal plan competes with all that equal it up to rounding.
    fn limit(&self) -> f64 {
        self.cutoff * if self.gap <= SLACK { 1.0 + 2.0 * SLACK } else { 1.0 - SLACK }
    }

    fn bound(&self) -> f64 {
        let open = self.open.peek().map_or(f64::INFINITY, |region| region.bound);
        open.min(self.cutoff).min(self.seen)
    }

    fn status(&self) -> Status {
        let best = self.best.as_ref().map_or(f64::INFINITY, |best| best.value);
        Status { best, bound: self.bound() / self.batch }
    }

    fn run(&mut self, stages: &mut Stages<'_>, progress: &mut dyn Progress) -> Result<(), Stop> {
        while let Some(&region) = self.open.peek() {
            if self.best.is_some() && self.gap > SLACK && self.good_enough(region.bound)
                || region.bound > self.limit()
            {
                break;
            }
            let status = self.status();
            let budget = self.limit() - region.low.sum();
            let found = labels::least_sum(stages, self.devices, region.high, budget, &mut || progress.tick(status))?;
            self.open.pop();
            if let Some(parts) = found {
                self.split(region, &parts);
                self.take(stages, region.high, parts);
            }
        }
        Ok(())
    }

    fn good_enough(&self, bound: f64) -> bool {
        self.gap.is_infinite() || bound * (1.0 + self.gap) >= self.cutoff
    }

    /// Makes a plan the best one if it is.
    fn take(&mut self, stages: &mut Stages<'_>, limits: Maxima, parts: Parts) {
        self.seen = self.seen.min(parts.value());
        if parts.value() > self.limit() {
            return;
        }
        let Some((plan, value)) = stages.plan(&parts, limits) else { return };
        if value < self.cutoff {
            self.cutoff = value;
            self.best = Some(Incumbent { plan, value: value / self.batch, devices: parts.devices });
        }
        let limit = self.limit();
        self.equals.push(parts);
        self.equals.retain(|parts| parts.value() <= limit);
    }

    /// Of the plans that equal the best one, takes one with the fewest devices.
    ///
    /// Plans with other maxima were found by themselves, so it remains to ask for fewer devices at those of each.
    fn use_fewer_devices(&mut self, stages: &mut Stages<'_>, progress: &mut dyn Progress) -> Result<(), Stop> {
        if self.gap > SLACK {
            return Ok(());
        }
        let status = self.status();
        for parts in std::mem::take(&mut self.equals) {
            let limits = parts.maxima.times(1.0 + SLACK);
            let budget = parts.sum * (1.0 + SLACK);
            while let Some(best) = &mut self.best
                && best.devices > 1
            {
                let fewer = best.devices - 1;
                let tick = &mut || progress.tick(status);
                let Some(parts) = labels::least_sum(stages, fewer, limits, budget, tick)? else { break };
                let Some((plan, value)) = stages.plan(&parts, limits) else { break };
                if value > self.cutoff * (1.0 + 8.0 * SLACK) {
                    break;
                }
                *best = Incumbent { plan, value: value / self.batch, devices: parts.devices };
            }
        }
        Ok(())
    }

    /// What may be better than `parts` in a region: a smaller first maximum, or a smaller second one.
    fn split(&mut self, region: Region, parts: &Parts) {
        let Region { low, high, .. } = region;
        let Maxima { pace, resync } = parts.maxima;
        let mut push = |low: Maxima, high: Maxima| {
            let bound = low.sum() + parts.sum;
            if low.pace <= high.pace && low.resync <= high.resync && bound <= self.limit() {
                self.open.push(Region { low, high, bound: bound.max(region.bound) });
            }
        };
        let (below_pace, below_resync) = (just_below(pace), just_below(resync));
        let (least_pace, least_resync) = (pace.max(low.pace), resync.max(low.resync));
        // A half first, so that the bound of the other half rises.
        if pace - low.pace >= resync - low.resync {
            let middle = middle(low.pace, below_pace);
            push(low, Maxima { pace: middle, ..high });
            push(Maxima { pace: middle, ..low }, Maxima { pace: below_pace, ..high });
            push(Maxima { pace: least_pace, ..low }, Maxima { resync: below_resync, ..high });
        } else {
            let middle = middle(low.resync, below_resync);
            push(low, Maxima { resync: middle, ..high });
            push(Maxima { resync: middle, ..low }, Maxima { resync: below_resync, ..high });
            push(Maxima { resync: least_resync, ..low }, Maxima { pace: below_pace, ..high });
        }
    }
}

/// The largest number that differs from a maximum by more than rounding; negative for 0.
fn just_below(maximum: f64) -> f64 {
    if maximum > 0.0 { maximum * (1.0 - SLACK / 8.0) } else { -1.0 }
}

/// Where an interval is split: in the middle, of its logarithms where it spans orders of magnitude.
fn middle(low: f64, high: f64) -> f64 {
    if low > 0.0 && high > 4.0 * low { (low * high).sqrt() } else { low + (high - low) / 2.0 }
}
