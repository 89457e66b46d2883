//! The exact search for pipeline plans.

use crate::pipeline::{Limits, Plan, Schedule, Workload, WorkloadError};
use crate::progress::{Progress, Stop};

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
    _workload: &Workload,
    _limits: &Limits,
    _schedule: Schedule,
    _settings: &Settings,
    _progress: &mut dyn Progress,
) -> Result<Outcome, WorkloadError> {
    Ok(Outcome { plan: None, lower_bound: 0.0, stopped: None, downsets: 0, complete: false })
}

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
