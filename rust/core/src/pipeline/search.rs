//! The exact search for pipeline plans.

use crate::downsets::{Lattice, Unfinished};
use crate::pipeline::levels::Levels;
use crate::pipeline::problem::{Problem, SLACK};
use crate::pipeline::stages::{Pair, Staircases, Tables};
use crate::pipeline::threshold::{Cell, Pairs, Part, Uncollected, Walk, Weights};
use crate::pipeline::{Limits, Plan, Schedule, Stage, Workload, WorkloadError};
use crate::progress::{Progress, Status, Stop};

/// How far a search may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Bytes that the search itself may use; `None`: no limit.
    pub memory_limit: Option<u64>,
    /// The search may stop once `best / bound - 1` is at most this.
    pub gap: f64,
}

/// What a search ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The best plan; `None` when there is none, or none was found in time.
    pub plan: Option<Plan>,
    /// No plan is better than this. Infinite when there is provably no plan.
    pub lower_bound: f64,
    /// Why the search ended early; `None` when it went through or reached the gap.
    pub stopped: Option<Stop>,
    /// Number of downsets that were looked at.
    pub downsets: usize,
    /// Whether these are all downsets of the graph.
    pub complete: bool,
}

/// Finds an optimal plan.
///
/// # Errors
/// [`WorkloadError`] when the limits name layers or stages that cannot be.
pub fn solve(
    workload: &Workload,
    limits: &Limits,
    _schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Outcome, WorkloadError> {
    let problem = Problem::new(workload, limits)?;
    let levels = Levels::new(limits, workload.layers().len());
    let mut tick = |_| progress.tick(Status { best: f64::INFINITY, bound: 0.0 });
    let lattice = match Lattice::enumerate(&problem.blocks, MOST_DOWNSETS, &mut tick) {
        Ok(lattice) => lattice,
        Err(Unfinished::Stopped(stop)) => return Ok(Outcome::nothing(Some(stop))),
        Err(Unfinished::TooMany) => return Ok(Outcome::nothing(Some(Stop::MemoryLimit))),
    };
    let tables = Tables::new(&problem, &lattice);
    let mut none = || progress.tick(Status { best: f64::INFINITY, bound: 0.0 });
    let mut pairs = match Pairs::collect(&tables, &levels, f64::INFINITY, MOST_PAIRS, &mut none) {
        Ok(pairs) => pairs,
        Err(Uncollected::Stopped(stop)) => return Ok(Outcome::nothing(Some(stop))),
        Err(Uncollected::TooMany) => return Ok(Outcome::nothing(Some(Stop::MemoryLimit))),
    };
    let mut staircases = Staircases::new(problem.menus.clone(), problem.most_replicas());
    let walk = Walk {
        tables: &tables,
        levels: &levels,
        pairs: &mut pairs,
        staircases: &mut staircases,
        devices: workload.devices,
    };
    let mut search = ThresholdSearch::new(walk, settings.gap);
    let stopped = search.run(progress).err();
    Ok(search.outcome(stopped))
}

const MOST_DOWNSETS: usize = 1 << 21;
const MOST_PAIRS: usize = 1 << 24;

impl Outcome {
    fn nothing(stopped: Option<Stop>) -> Self {
        Self { plan: None, lower_bound: 0.0, stopped, downsets: 0, complete: false }
    }
}

/// A bracket around the optimum that closes.
struct ThresholdSearch<'a> {
    walk: Walk<'a>,
    gap: f64,
    /// No plan has a value below.
    low: f64,
    /// Value of `best`.
    high: f64,
    best: Option<Plan>,
}

impl<'a> ThresholdSearch<'a> {
    fn new(walk: Walk<'a>, gap: f64) -> Self {
        let work = walk.tables.work(walk.tables.lattice.full());
        let low = work / f64::from(walk.devices) * (1.0 - SLACK);
        Self { walk, gap, low, high: f64::INFINITY, best: None }
    }

    fn outcome(self, stopped: Option<Stop>) -> Outcome {
        let lattice = self.walk.tables.lattice;
        Outcome {
            lower_bound: self.low.min(self.high),
            plan: self.best,
            stopped,
            downsets: lattice.len(),
            complete: lattice.complete(),
        }
    }

    fn run(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        if !self.find_any(progress)? {
            return Ok(());
        }
        while self.high > self.low * (1.0 + self.gap.max(SLACK)) {
            let ratio = self.high / self.low;
            // Loads are finitely many: once the bracket is narrow, ask whether any is left in it.
            let last = ratio < 1.0 + LAST_RATIO;
            let threshold = if last {
                self.high * (1.0 - SLACK)
            } else {
                (self.low.max(self.high * SMALLEST_STEP) * self.high).sqrt()
            };
            let before = self.high;
            if self.attempt(threshold, progress)? && self.high < before {
                continue;
            }
            self.low = if last { self.high } else { threshold };
        }
        self.polish(progress)
    }

    /// Climbs from the lower bound until there is a plan; false when there is none at all.
    fn find_any(&mut self, progress: &mut dyn Progress) -> Result<bool, Stop> {
        let mut step = 1e-3;
        for _ in 0..12 {
            let threshold = self.low * (1.0 + step);
            if threshold <= 0.0 {
                break;
            }
            if self.attempt(threshold, progress)? {
                return Ok(true);
            }
            self.low = threshold;
            step *= 2.0;
        }
        let found = self.attempt(f64::INFINITY, progress)?;
        if !found {
            self.low = f64::INFINITY;
        }
        Ok(found)
    }

    /// Looks for a plan within `threshold` and keeps it when there is one.
    fn attempt(&mut self, threshold: f64, progress: &mut dyn Progress) -> Result<bool, Stop> {
        if self.walk.devices < u32::from(u16::MAX) {
            self.attempt_with::<u16>(threshold, Weights::DEVICES, progress)
        } else {
            self.attempt_with::<u32>(threshold, Weights::DEVICES, progress)
        }
    }

    fn attempt_with<C: Cell>(
        &mut self,
        threshold: f64,
        weights: Weights,
        progress: &mut dyn Progress,
    ) -> Result<bool, Stop> {
        let status = Status { best: self.high, bound: self.low };
        let mut tick = || progress.tick(status);
        let above = self.walk.above(threshold, &mut tick)?;
        if above[0] > self.walk.devices {
            return Ok(false);
        }
        let rows = self.walk.rows::<C>(threshold, &above, weights, &mut tick)?;
        let Some((level, _)) = self.walk.best(&rows) else { return Ok(false) };
        let parts = self.walk.trace(&rows, threshold, &above, weights, level);
        let Some((plan, value)) = self.build(&parts) else { return Ok(false) };
        if value < self.high || weights.bonus > 0 {
            self.high = value;
            self.best = Some(plan);
        }
        Ok(true)
    }

    /// Of all optimal plans, one with the fewest devices, then the fewest stages.
    fn polish(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        let weights = Weights::then_stages(self.walk.tables.problem.workload.layers().len());
        let threshold = self.high * (1.0 + SLACK);
        if weights.scale * (u64::from(self.walk.devices) + 1) < u64::from(u32::MAX) {
            self.attempt_with::<u32>(threshold, weights, progress)?;
        } else {
            self.attempt_with::<u64>(threshold, weights, progress)?;
        }
        Ok(())
    }

    /// The plan of `parts` with its value.
    fn build(&mut self, parts: &[Part]) -> Option<(Plan, f64)> {
        let tables = self.walk.tables;
        let mut stages = Vec::with_capacity(parts.len());
        let mut value = 0.0_f64;
        for part in parts {
            let pair = Pair { lower: self.walk.pairs.lower(part.pair), upper: part.upper };
            let degree = part.offer.degree;
            let at = &tables.problem.degrees[degree][part.offer.option];
            let fixed = self.walk.pairs.fixed(tables, part.upper, part.pair, degree);
            let (time, chosen) = self.walk.staircases.choose(tables, pair, degree, at, &fixed, part.in_flight)?;
            value = value.max(fixed.load(time, at));
            stages.push(Stage {
                layers: chosen.iter().map(|c| c.0).collect(),
                data_parallel: at.data_parallel,
                tensor_parallel: tables.problem.tensor_parallel[degree],
                choices: chosen.iter().map(|c| c.1).collect(),
            });
        }
        Some((Plan { stages }, value))
    }
}

/// Width of the bracket from which on the next threshold is just below the best value.
const LAST_RATIO: f64 = 1e-4;

/// A lower bound of zero is taken for this part of the best value.
const SMALLEST_STEP: f64 = 1e-6;

/// The best value for every number of devices up to `K` at which it improves, increasing in devices.
///
/// # Errors
/// As [`solve`]; and [`Stop`] when the search was ended.
pub fn frontier(
    _workload: &Workload,
    _limits: &Limits,
    _schedule: Schedule,
    _settings: &Settings,
    _progress: &mut dyn Progress,
) -> Result<Result<Vec<(u32, f64)>, Stop>, WorkloadError> {
    Ok(Ok(Vec::new()))
}

/// The least that would make a plan possible.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Bytes per device, with the workload's number of devices; `None` where no memory does.
    pub memory: Option<f64>,
    /// Devices, with the workload's memory; `None` where no number does.
    pub devices: Option<u32>,
}

/// What an infeasible workload needs.
///
/// # Errors
/// As [`solve`].
pub fn needs(
    _workload: &Workload,
    _limits: &Limits,
    _schedule: Schedule,
    _progress: &mut dyn Progress,
) -> Result<Needs, WorkloadError> {
    Ok(Needs::default())
}
