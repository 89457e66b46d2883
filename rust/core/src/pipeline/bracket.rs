//! The search for the least threshold at which there is a plan.
//!
//! A bracket of a proven lower bound and the value of a plan is closed by asking for plans within thresholds between
//! them. A plan that is found moves the upper end to its own value, so the search runs over the finite set of loads:
//! once the bracket is narrow, it asks for anything better than the best, and a no is the proof.

use crate::pipeline::problem::SLACK;
use crate::pipeline::tables::{Pair, StageRun};
use crate::pipeline::threshold::{Cell, Part, Walk, Weights};
use crate::pipeline::{Plan, Stage};
use crate::progress::{Progress, Status, Stop};

/// How far below the best value a threshold is that asks for anything better: more than the slack of comparisons.
const LEAST_MARGIN: f64 = 8.0 * SLACK;
const MOST_MARGIN: f64 = 1e-9;

/// Width of the bracket from which on the next threshold is just below the best value.
const NARROW: f64 = 1e-4;

/// A lower bound of zero is taken for this part of the best value.
const SMALLEST_STEP: f64 = 1e-6;

/// Thresholds tried on the way up from the lower bound before the question is whether there is a plan at all.
const CLIMBS: u32 = 12;

/// Pairs from which on it pays to look which of them are still of use.
const MANY_PAIRS: usize = 1 << 14;

/// A threshold between two bounds, where a bisection of their logarithms would put it.
fn between(low: f64, high: f64) -> f64 {
    // Not the root of the product, which is 0 for the smallest numbers.
    low.max(high * SMALLEST_STEP).sqrt() * high.sqrt()
}

/// A plan with its value.
#[derive(Clone, Debug)]
pub(crate) struct Incumbent {
    pub(crate) plan: Plan,
    pub(crate) value: f64,
    pub(crate) devices: u32,
}

/// A bracket around the optimum.
pub(crate) struct Bracket<'a> {
    walk: Walk<'a>,
    /// Relative width at which to stop; infinite when any plan will do.
    gap: f64,
    /// No plan over this lattice has a value below.
    pub(crate) low: f64,
    pub(crate) best: Option<Incumbent>,
    /// Whether the walk's pairs are for this search alone.
    pub(crate) prunes: bool,
}

impl<'a> Bracket<'a> {
    /// `low` must bound all plans from below; `best` is where to start from, if there is a plan yet.
    pub(crate) fn new(walk: Walk<'a>, gap: f64, low: f64, best: Option<Incumbent>) -> Self {
        Self { walk, gap, low, best, prunes: true }
    }

    /// Value of the best plan; infinite when there is none.
    pub(crate) fn high(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |b| b.value)
    }

    /// Closes the bracket. Without any plan, `low` becomes infinite.
    ///
    /// Time: about twenty to forty passes of [`Walk::above`], most of them with [`Walk::rows`].
    ///
    /// # Errors
    /// [`Stop`] when the observer said so; the bracket is valid all the same.
    pub(crate) fn close(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        let proven = self.low;
        let bisected = self.bisect(progress);
        if self.walk.staircases.trust.doubted {
            // Also of a search that was ended.
            let claimed = std::mem::replace(&mut self.low, proven);
            bisected?;
            self.weaken(claimed, progress)?;
        } else {
            bisected?;
        }
        self.polish(progress)
    }

    fn bisect(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        if self.best.is_none() && !self.climb(progress)? {
            self.low = f64::INFINITY;
            return Ok(());
        }
        self.prune(progress)?;
        let mut margin = LEAST_MARGIN;
        while self.high() > self.low * (1.0 + self.gap.max(SLACK)) && margin <= MOST_MARGIN {
            let high = self.high();
            let last = high < self.low * (1.0 + NARROW);
            let middle = between(self.low, high);
            let last = last || middle <= self.low;
            let threshold = if last { high * (1.0 - margin) } else { middle };
            if !self.attempt(threshold, progress)? {
                self.low = if last { high } else { threshold };
            } else if self.high() < high {
                self.prune(progress)?;
            } else {
                // Rounding let the best plan itself through.
                margin *= 8.0;
            }
        }
        Ok(())
    }

    /// Climbs from the lower bound until there is a plan; false when there is none at all.
    fn climb(&mut self, progress: &mut dyn Progress) -> Result<bool, Stop> {
        let mut step = 1e-3;
        for _ in 0..CLIMBS {
            let threshold = self.low * (1.0 + step);
            if threshold <= 0.0 || self.gap.is_infinite() {
                break;
            }
            if self.attempt(threshold, progress)? {
                return Ok(true);
            }
            self.low = threshold;
            step *= 2.0;
        }
        self.attempt(f64::INFINITY, progress)
    }

    /// Some knapsack was too hard, and a "no" up to `claimed` may have been wrong: raises the lower bound as far as it is
    /// certain.
    fn weaken(&mut self, claimed: f64, progress: &mut dyn Progress) -> Result<(), Stop> {
        let mut high = claimed.min(self.high());
        self.walk.staircases.trust.optimistic = true;
        while high > self.low * (1.0 + NARROW) && high.is_finite() {
            let threshold = between(self.low, high);
            if threshold <= self.low || threshold >= high {
                break;
            }
            if self.possible(threshold, progress)? {
                high = threshold;
            } else {
                self.low = threshold;
            }
        }
        self.walk.staircases.trust.optimistic = false;
        Ok(())
    }

    fn possible(&mut self, threshold: f64, progress: &mut dyn Progress) -> Result<bool, Stop> {
        let status = Status { best: self.high(), bound: self.low };
        let mut tick = || progress.tick(status);
        let above = self.walk.above(threshold, &mut tick)?;
        if above[0] > self.walk.devices {
            return Ok(false);
        }
        let rows = self.walk.rows::<u32>(threshold, &above, Weights::DEVICES, &mut tick)?;
        Ok(self.walk.best(&rows).is_some())
    }

    /// Forgets the stages that only plans worse than the best have.
    fn prune(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        if !self.prunes || self.walk.pairs.len() < MANY_PAIRS {
            return Ok(());
        }
        let status = Status { best: self.high(), bound: self.low };
        self.walk.prune(self.high() * (1.0 + 2.0 * SLACK), &mut || progress.tick(status))
    }

    /// Looks for a plan within `threshold` and keeps it when it is better than the best.
    fn attempt(&mut self, threshold: f64, progress: &mut dyn Progress) -> Result<bool, Stop> {
        let found = if self.walk.devices < u32::from(u16::MAX) {
            self.find::<u16>(threshold, Weights::DEVICES, progress)?
        } else {
            self.find::<u32>(threshold, Weights::DEVICES, progress)?
        };
        let is_plan = found.is_some();
        if let Some(found) = found.filter(|f| f.value < self.high()) {
            self.best = Some(found);
        }
        Ok(is_plan)
    }

    fn find<C: Cell>(
        &mut self,
        threshold: f64,
        weights: Weights,
        progress: &mut dyn Progress,
    ) -> Result<Option<Incumbent>, Stop> {
        let status = Status { best: self.high(), bound: self.low };
        let mut tick = || progress.tick(status);
        let above = self.walk.above(threshold, &mut tick)?;
        if above[0] > self.walk.devices {
            return Ok(None);
        }
        let rows = self.walk.rows::<C>(threshold, &above, weights, &mut tick)?;
        let Some((level, _)) = self.walk.best(&rows) else { return Ok(None) };
        let parts = self.walk.trace(&rows, threshold, &above, weights, level);
        Ok(self.build(&parts))
    }

    /// Of all optimal plans, the one with the fewest devices, then the fewest stages, then the earliest splits.
    fn polish(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        if self.best.is_none() {
            return Ok(());
        }
        let weights = Weights::then_stages(self.walk.tables.problem.workload.layers().len());
        let threshold = self.high() * (1.0 + SLACK);
        let found = if weights.scale * (u64::from(self.walk.devices) + 1) < u64::from(u32::MAX) {
            self.find::<u32>(threshold, weights, progress)?
        } else {
            self.find::<u64>(threshold, weights, progress)?
        };
        self.best = found.or(self.best.take());
        Ok(())
    }

    /// The plan of `parts` with its value.
    fn build(&mut self, parts: &[Part]) -> Option<Incumbent> {
        let tables = self.walk.tables;
        let mut built = Incumbent { plan: Plan::default(), value: 0.0, devices: 0 };
        for part in parts {
            let pair = Pair { lower: self.walk.pairs.lower(part.pair), upper: part.upper };
            let degree = part.offer.degree;
            let at = &tables.problem.degrees[degree][part.offer.option];
            let fixed = self.walk.pairs.fixed(tables, part.upper, part.pair, degree);
            let run = StageRun { tables, pair, degree, at, fixed: &fixed };
            let (time, chosen) = self.walk.staircases.choose(run, part.in_flight)?;
            built.value = built.value.max(fixed.load(time, at));
            built.devices += at.devices;
            built.plan.stages.push(Stage {
                layers: chosen.iter().map(|c| c.0).collect(),
                data_parallel: at.data_parallel,
                tensor_parallel: tables.problem.tensor_parallel[degree],
                choices: chosen.iter().map(|c| c.1).collect(),
            });
        }
        Some(built).filter(|b| !b.plan.stages.is_empty())
    }
}
