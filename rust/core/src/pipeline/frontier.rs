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

/// The best value for every number of devices up to `K` at which it improves, increasing in devices.
///
/// Goes down from `K`: an optimal plan on the fewest devices tells the next smaller number worth a search, and its value
/// is a lower bound there. Everything but the thresholds is shared between the searches. Time: that of [`search::solve`]
/// for each point of the frontier.
///
/// # Errors
/// As [`search::solve`]; and [`Stop`] when the observer ended the search, or it needs more memory than it may use.
pub fn frontier(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Result<Vec<(u32, f64)>, Stop>, WorkloadError> {
    let problem = Problem::new(workload, limits)?;
    let mut tick = |_| progress.tick(Status { best: f64::INFINITY, bound: 0.0 });
    let small = schedule == Schedule::Asynchronous;
    match Lattice::enumerate(&problem.blocks, FEW_DOWNSETS, &mut tick) {
        Ok(lattice) if small => Ok(shared(&problem, &lattice, progress)),
        Err(Unfinished::Stopped(stop)) => Ok(Err(stop)),
        Ok(_) | Err(Unfinished::TooMany) => separate(workload, limits, schedule, settings, progress),
    }
}

/// All searches over the same stages.
fn shared(problem: &Problem<'_>, lattice: &Lattice, progress: &mut dyn Progress) -> Result<Vec<(u32, f64)>, Stop> {
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
    let mut points = Vec::new();
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
        bracket.close(progress)?;
        let Some(best) = bracket.best else { break };
        points.push((best.devices, best.value));
        (devices, low) = (best.devices - 1, best.value);
    }
    points.reverse();
    Ok(points)
}

/// One search after the other.
fn separate(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<Result<Vec<(u32, f64)>, Stop>, WorkloadError> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut devices = workload.devices;
    while devices > 0 {
        let outcome = search::solve(&workload.with_devices(devices), limits, schedule, settings, progress)?;
        if let Some(stop) = outcome.stopped {
            return Ok(Err(stop));
        }
        let (Some(plan), value) = (outcome.plan, outcome.value) else { break };
        let used: u32 = plan.stages.iter().map(|s| s.data_parallel * s.tensor_parallel).sum();
        // More devices never hurt: what a restricted search found for fewer of them holds here too.
        while points.last().is_some_and(|&(_, worse)| worse >= value) {
            points.pop();
        }
        points.push((used, value));
        devices = used - 1;
    }
    points.reverse();
    Ok(Ok(points))
}
