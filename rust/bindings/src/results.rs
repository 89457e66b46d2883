//! What Python gets back.

use piper_core::pipeline as core;
use piper_core::progress::Stop;
use pyo3::prelude::*;

use crate::convert::{StageTuples, stage_tuples};

/// A gap up to this is rounding, not a gap.
const PROVEN: f64 = 1e-9;

/// Devices, value and lower bound of every point of a frontier.
pub(crate) type FrontierTuples = Vec<(u32, f64, f64)>;

/// What a search ended with.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct Solution {
    /// ``(layers, data_parallel, tensor_parallel, choices)`` by stage; None when no plan was found.
    stages: Option<StageTuples>,
    /// No plan is better than this; infinite when there is provably no plan.
    lower_bound: f64,
    /// Why the search ended.
    status: &'static str,
    /// Number of downsets that the search looked at.
    downsets: usize,
    /// Whether these are all downsets of the graph.
    complete: bool,
}

impl Solution {
    /// `value` is the judge's, of the outcome's plan.
    pub(crate) fn new(outcome: core::Outcome, value: Option<f64>, interrupted: bool) -> Self {
        let status = status(outcome.stopped, interrupted, value, outcome.lower_bound);
        Self {
            stages: outcome.plan.map(stage_tuples),
            lower_bound: outcome.lower_bound,
            status,
            downsets: outcome.downsets,
            complete: outcome.complete,
        }
    }
}

/// Why a search ended whose result has this value by the judge.
pub(crate) fn status(stopped: Option<Stop>, interrupted: bool, value: Option<f64>, lower_bound: f64) -> &'static str {
    let proven = value.is_none_or(|value| value <= lower_bound * (1.0 + PROVEN));
    self::stopped(stopped, interrupted).unwrap_or(if proven { "done" } else { "gap" })
}

/// Why a computation ended early.
pub(crate) fn stopped(stopped: Option<Stop>, interrupted: bool) -> Option<&'static str> {
    match stopped {
        _ if interrupted => Some("interrupted"),
        Some(Stop::Interrupted) => Some("interrupted"),
        Some(Stop::TimeLimit) => Some("time limit"),
        Some(Stop::MemoryLimit) => Some("memory limit"),
        None => None,
    }
}

/// The judge's view of one stage, in the units of the workload.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct StageScore {
    /// Time per microbatch of the whole stage.
    load: f64,
    /// Part of the load that computes.
    compute: f64,
    /// Part of the load that exchanges activations and gradients with other stages.
    transfer: f64,
    /// Part of the load that synchronises weights.
    resync: f64,
    /// Bytes on each device.
    memory: f64,
    /// Microbatches whose activations a replica keeps at a time.
    in_flight: u64,
}

impl From<core::StageScore> for StageScore {
    fn from(score: core::StageScore) -> Self {
        Self {
            load: score.load,
            compute: score.compute,
            transfer: score.transfer,
            resync: score.resync,
            memory: score.memory,
            in_flight: score.in_flight,
        }
    }
}

/// A rule that a plan breaks.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct Violation {
    /// Name of the rule.
    rule: &'static str,
    /// The stage, layer or edge.
    r#where: String,
    /// By how much; 1 where the rule is not about a quantity.
    by: f64,
}

impl From<core::Violation> for Violation {
    fn from(violation: core::Violation) -> Self {
        Self { rule: violation.rule.name(), r#where: violation.place, by: violation.excess }
    }
}

/// The judge's verdict on a plan.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct Score {
    /// Time per microbatch: the largest load, or the batch time divided by the microbatches for a flush.
    value: f64,
    /// Devices that the plan uses.
    devices: u64,
    /// By stage, in the plan's order.
    stages: Vec<Py<StageScore>>,
    /// Every rule that the plan breaks; none for a feasible plan.
    violations: Vec<Py<Violation>>,
}

impl Score {
    pub(crate) fn new(py: Python<'_>, score: core::Score) -> PyResult<Self> {
        Ok(Self {
            value: score.value,
            devices: score.devices,
            stages: score
                .stages
                .into_iter()
                .map(|stage| Py::new(py, StageScore::from(stage)))
                .collect::<PyResult<_>>()?,
            violations: (score.violations.into_iter())
                .map(|violation| Py::new(py, Violation::from(violation)))
                .collect::<PyResult<_>>()?,
        })
    }
}
