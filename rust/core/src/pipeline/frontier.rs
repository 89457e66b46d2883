//! The best value for every number of devices.

use crate::downsets::{Lattice, Unfinished};
use crate::pipeline::bracket::Bracket;
use crate::pipeline::levels::Levels;
use crate::pipeline::problem::Problem;
use crate::pipeline::search::{self, FEW_DOWNSETS, Settings};
use crate::pipeline::staircases::Staircases;
use crate::pipeline::tables::Tables;
use crate::pipeline::threshold::{Pairs, Uncollected, Walk};
use crate::pipeline::{Limits, Schedule, Workload, WorkloadError};
use crate::progress::{Progress, Status, Stop};

/// What is known of the frontier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frontier {
    /// Increasing in devices, decreasing in value.
    pub points: Vec<Point>,
    /// Why the search ended before it came down to one device: smaller numbers of devices than the first point's are then
    /// missing. `None` when it went through.
    pub stopped: Option<Stop>,
}

/// A number of devices at which the best value improves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Devices that the best plan uses.
    pub devices: u32,
    /// Its value.
    pub value: f64,
    /// No plan on so many devices has a smaller value; equal to `value` up to rounding where that is proven optimal.
    pub lower_bound: f64,
}

impl Frontier {
    /// Adds the best of fewer devices than before, and forgets points that are no better on more devices.
    fn push(&mut self, point: Point) {
        while self.points.last().is_some_and(|last| last.value >= point.value) {
            self.points.pop();
        }
        self.points.push(point);
    }

    fn ended(mut self, stopped: Option<Stop>) -> Self {
        self.points.reverse();
        self.stopped = stopped;
        self
    }
}

/// The best value for every number of devices up to `K` at which it improves, increasing in devices.
///
/// Goes down from `K`: an optimal plan on the fewest devices tells the next smaller number worth a search, and its value
/// is a lower bound there. Everything but the thresholds is shared between the searches. Time: that of [`search::solve`]
/// for each point of the frontier. A search that is ended early leaves the points above, and the best so far of the one
/// at which it was.
///
/// # Errors
/// As [`search::solve`].
pub fn frontier(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Frontier, WorkloadError> {
    let problem = Problem::new(workload, limits)?;
    let mut tick = |_| progress.tick(Status { best: f64::INFINITY, bound: 0.0 });
    let small = schedule == Schedule::Asynchronous;
    match Lattice::enumerate(&problem.blocks, FEW_DOWNSETS, &mut tick) {
        Ok(lattice) if small => Ok(shared(&problem, &lattice, progress)),
        Err(Unfinished::Stopped(stop)) => Ok(Frontier::default().ended(Some(stop))),
        Ok(_) | Err(Unfinished::TooMany) => separate(workload, limits, schedule, settings, progress),
    }
}

/// All searches over the same stages.
fn shared(problem: &Problem<'_>, lattice: &Lattice, progress: &mut dyn Progress) -> Frontier {
    let mut found = Frontier::default();
    let stopped = descend(problem, lattice, &mut found, progress).err();
    found.ended(stopped)
}

fn descend(
    problem: &Problem<'_>,
    lattice: &Lattice,
    found: &mut Frontier,
    progress: &mut dyn Progress,
) -> Result<(), Stop> {
    let mut tick = || progress.tick(Status { best: f64::INFINITY, bound: 0.0 });
    let tables = Tables::new(problem, lattice, &mut tick)?;
    let levels = Levels::new(problem.limits, problem.workload.layers().len());
    let mut pairs = match Pairs::collect(&tables, &levels, f64::INFINITY, usize::MAX, &mut tick) {
        Ok(pairs) => pairs,
        Err(Uncollected::Stopped(stop)) => return Err(stop),
        Err(Uncollected::TooMany) => return Err(Stop::MemoryLimit),
    };
    let mut staircases = Staircases::new(problem.menus.clone(), problem.most_replicas());
    let work = tables.work(lattice.full());
    let (mut devices, mut low) = (problem.workload.devices, 0.0_f64);
    while devices > 0 {
        let walk = Walk {
            tables: &tables,
            levels: &levels,
            pairs: &mut pairs,
            staircases: &mut staircases,
            devices,
            most_cells: usize::MAX,
        };
        let mut bracket = Bracket::new(walk, 0.0, low.max(work / f64::from(devices) * (1.0 - 1e-9)), None);
        bracket.prunes = false;
        let closed = bracket.close(progress);
        let Some(best) = bracket.best else { return closed };
        low = bracket.low.min(best.value);
        found.push(Point { devices: best.devices, value: best.value, lower_bound: low });
        closed?;
        devices = best.devices - 1;
    }
    Ok(())
}

/// One search after the other.
fn separate(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Frontier, WorkloadError> {
    let mut found = Frontier::default();
    let mut devices = workload.devices;
    while devices > 0 {
        let outcome = search::solve(&workload.with_devices(devices), limits, schedule, settings, progress)?;
        let Some(plan) = outcome.plan else {
            // Of a search that went through without a proof, it is the memory that did not do.
            let proven = outcome.lower_bound.is_infinite();
            return Ok(found.ended(outcome.stopped.or((!proven).then_some(Stop::MemoryLimit))));
        };
        let used: u32 = plan.stages.iter().map(|s| s.data_parallel * s.tensor_parallel).sum();
        // More devices never hurt: what a restricted search found for fewer of them holds here too.
        found.push(Point { devices: used, value: outcome.value, lower_bound: outcome.lower_bound });
        if outcome.stopped.is_some() {
            return Ok(found.ended(outcome.stopped));
        }
        devices = used - 1;
    }
    Ok(found.ended(None))
}
