//! The exact search for pipeline plans.
//!
//! Where the lattice of downsets is small, all stages over it are collected and the [`Bracket`] is closed. Where it is
//! large, a plan over linear orders comes first: its value rules out most downsets and stages before they are looked at.
//! Where even that is too much, the lattice is restricted to linear orders and the neighbourhood of the best plan's
//! cuts, and the lower bound comes from a relaxation that needs no lattice ([`crate::pipeline::chain_bound`]).

use crate::downsets::{Lattice, Unfinished};
pub use crate::effort::Settings;
use crate::pipeline::bracket::{Bracket, Incumbent};
use crate::pipeline::chain_bound;
use crate::pipeline::flush::Flush;
use crate::pipeline::levels::Levels;
use crate::pipeline::problem::{Problem, SLACK};
use crate::pipeline::restricted;
use crate::pipeline::staircases::Staircases;
use crate::pipeline::tables::{Sums, Tables};
use crate::pipeline::threshold::{Pairs, Uncollected, Walk};
use crate::pipeline::{Limits, Plan, Schedule, Workload, WorkloadError};
use crate::progress::{Progress, Status, Stop};

/// What a search ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The best plan; `None` when there is none, or none was found in time.
    pub plan: Option<Plan>,
    /// Value of the plan; infinite when there is none.
    pub value: f64,
    /// No plan is better than this. Infinite when there is provably no plan.
    pub lower_bound: f64,
    /// Why the search ended early; `None` when it went through or reached the gap. [`Stop::MemoryLimit`] also when the
    /// part of a large lattice that was looked at has no plan.
    pub stopped: Option<Stop>,
    /// Number of downsets that were looked at.
    pub downsets: usize,
    /// Whether these are all downsets of the graph.
    pub complete: bool,
}

/// Downsets up to which all pairs are collected without a plan that would rule some out.
pub(crate) const FEW_DOWNSETS: usize = 1 << 11;
/// Downsets beyond which their pairs could not be looked at in time anyway.
const MOST_DOWNSETS: usize = 1 << 19;
/// Rounds of improving a plan over the neighbourhoods of its cuts.
const ROUNDS: u32 = 8;

/// What the search has come to.
struct State {
    best: Option<Incumbent>,
    low: f64,
    downsets: usize,
    complete: bool,
}

impl State {
    fn outcome(self, stopped: Option<Stop>) -> Outcome {
        let high = self.best.as_ref().map_or(f64::INFINITY, |b| b.value);
        Outcome {
            plan: self.best.map(|b| b.plan),
            value: high,
            lower_bound: self.low.min(high),
            stopped,
            downsets: self.downsets,
            complete: self.complete,
        }
    }
}

/// Finds an optimal plan.
///
/// The value is the largest load for [`Schedule::Asynchronous`] and the time of a batch divided by its microbatches
/// for the others. Of several optimal plans (to 1e-12) it takes the one with the fewest devices, then with the fewest
/// stages, then with the earliest splits.
///
/// Time `O(D^2 V / 64)` to collect `P` pairs of nested downsets, then some tens of passes of `O(P T + P O S)`: `T`
/// tensor-parallel degrees, `O` offers a pair that no other one beats, spans of `S` cells. Space `O(D V / 64 + P T)`.
/// After Tarnawski, Narayanan and Phanishayee, "Piper", `NeurIPS` 2021, section 4.
///
/// # Errors
/// [`WorkloadError`] when the limits name layers or stages that cannot be.
pub fn solve(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Outcome, WorkloadError> {
    let problem = Problem::new(workload, limits)?;
    let mut search = Search {
        levels: Levels::new(limits, workload.layers().len()),
        schedule,
        gap: settings.gap,
        memory: settings.memory(),
        state: State { best: None, low: 0.0, downsets: 0, complete: false },
        problem: &problem,
    };
    let stopped = search.run(progress).err();
    // A part of the lattice without a plan proves nothing.
    let undecided = search.state.best.is_none() && search.state.low.is_finite();
    Ok(search.state.outcome(stopped.or(undecided.then_some(Stop::MemoryLimit))))
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    levels: Levels,
    schedule: Schedule,
    gap: f64,
    memory: u64,
    state: State,
}

impl Search<'_> {
    fn run(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        let work: f64 = self.problem.work.iter().sum();
        self.state.low = work / f64::from(self.problem.workload.devices) * (1.0 - SLACK);
        if !self.state.low.is_finite() {
            // Some layer has no alternative at all.
            self.state.low = f64::INFINITY;
            return Ok(());
        }
        if let Some(lattice) = self.enumerate(FEW_DOWNSETS, progress)?
            && let Some(low) = self.improve(&lattice, progress)?
        {
            self.state.low = self.state.low.max(low);
            return Ok(());
        }
        self.linear(progress)?;
        if let Some(lattice) = self.enumerate(self.most_downsets(), progress)?
            && let Some(low) = self.improve(&lattice, progress)?
        {
            self.state.low = self.state.low.max(low);
            return Ok(());
        }
        self.restricted(progress)
    }

    /// All downsets, if they are not more than `most`.
    fn enumerate(&self, most: usize, progress: &mut dyn Progress) -> Result<Option<Lattice>, Stop> {
        let status = self.status();
        match Lattice::enumerate(&self.problem.blocks, most, |_| progress.tick(status)) {
            Ok(lattice) => Ok(Some(lattice)),
            Err(Unfinished::TooMany) => Ok(None),
            Err(Unfinished::Stopped(stop)) => Err(stop),
        }
    }

    fn status(&self) -> Status {
        Status { best: self.high(), bound: self.state.low }
    }

    fn high(&self) -> f64 {
        self.state.best.as_ref().map_or(f64::INFINITY, |b| b.value)
    }

    fn closed(&self) -> bool {
        self.high() <= self.state.low * (1.0 + self.gap.max(SLACK))
    }

    /// Downsets that a quarter of the memory holds, with their tables.
    fn most_downsets(&self) -> usize {
        let layers = self.problem.workload.layers().len();
        let edges = self.problem.workload.graph().edges().len();
        let each = layers / 4 + 128 + self.problem.tensor_parallel.len() * size_of::<Sums>() + edges.min(256);
        ((self.memory / 4) as usize / each).min(MOST_DOWNSETS)
    }

    fn most_pairs(&self) -> usize {
        (self.memory / 2) as usize / Pairs::bytes_each(self.problem.tensor_parallel.len())
    }

    /// The best plan over a lattice, starting from the best one so far. Returns a lower bound on all plans over the
    /// lattice, or nothing where there are too many stages to look at.
    fn improve(&mut self, lattice: &Lattice, progress: &mut dyn Progress) -> Result<Option<f64>, Stop> {
        let status = self.status();
        let mut tick = || progress.tick(status);
        let tables = Tables::new(self.problem, lattice, &mut tick)?;
        let ceiling = self.high() * (1.0 + 3.0 * SLACK);
        let mut pairs = match Pairs::collect(&tables, &self.levels, ceiling, self.most_pairs(), &mut tick) {
            Ok(pairs) => pairs,
            Err(Uncollected::Stopped(stop)) => return Err(stop),
            Err(Uncollected::TooMany) => return Ok(None),
        };
        self.state.downsets = lattice.len();
        self.state.complete = lattice.complete();
        let mut staircases = Staircases::new(self.problem.menus.clone(), self.problem.most_replicas());
        let walk = Walk {
            tables: &tables,
            levels: &self.levels,
            pairs: &mut pairs,
            staircases: &mut staircases,
            devices: self.problem.workload.devices,
            most_cells: (self.memory / 4) as usize / size_of::<u64>(),
        };
        let (low, best) = (self.state.low, self.state.best.take());
        let (low, closed) = if self.schedule == Schedule::Asynchronous {
            let mut bracket = Bracket::new(walk, self.gap, low, best);
            let closed = bracket.close(progress);
            self.state.best = bracket.best;
            (bracket.low, closed)
        } else {
            let mut flush = Flush::new(walk, self.schedule, self.gap, low, best);
            let closed = flush.close(progress);
            self.state.best = flush.best;
            (flush.low, closed)
        };
        if closed.is_err() && lattice.complete() {
            self.state.low = low;
        }
        closed.map(|()| Some(low))
    }

    /// A first plan over linear orders.
    fn linear(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        for order in restricted::orders(&self.problem.blocks) {
            let lattice = restricted::chain(&self.problem.blocks, &order);
            self.improve(&lattice, progress)?;
        }
        Ok(())
    }

    /// Improves the plan over the neighbourhoods of its cuts, and bounds it by chains through the graph.
    fn restricted(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        let status = self.status();
        let bound = chain_bound::lower_bound(self.problem, self.high(), &mut || progress.tick(status))?;
        self.state.low = self.state.low.max(bound);
        self.state.complete = false;
        for _ in 0..ROUNDS {
            let before = self.high();
            let Some(best) = self.state.best.as_ref().filter(|_| !self.closed()) else { break };
            let lattice = restricted::around(&self.problem.blocks, &best.plan);
            self.improve(&lattice, progress)?;
            if self.high() >= before * (1.0 - 1e-4) {
                break;
            }
        }
        Ok(())
    }
}
