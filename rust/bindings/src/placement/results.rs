//! What Python gets back.

use piper_core::placement as core;
use pyo3::prelude::*;

use crate::placement::convert::{PartTuples, part_tuples};
use crate::results::status;

/// What a search for a split ended with.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct PlacementSolution {
    /// ``(class, replicas, nodes)`` by part, the class None for a CPU; None when no split was found.
    parts: Option<PartTuples>,
    /// No split is better than this; infinite when there is provably no split.
    lower_bound: f64,
    /// Why the search ended.
    status: &'static str,
    /// Number of downsets that the search looked at.
    downsets: usize,
    /// Whether these are all downsets of the graph.
    complete: bool,
}

impl PlacementSolution {
    /// `value` is the judge's, of the outcome's split.
    pub(crate) fn new(outcome: core::search::Outcome, value: Option<f64>, interrupted: bool) -> Self {
        let status = status(outcome.stopped, interrupted, value, outcome.lower_bound);
        Self {
            parts: outcome.split.map(part_tuples),
            lower_bound: outcome.lower_bound,
            status,
            downsets: outcome.downsets,
            complete: outcome.complete,
        }
    }
}

/// One pass (forward or backward) of one part, in the units of the workload.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct PassScore {
    /// Time of the nodes.
    compute: f64,
    /// Time to read what other devices made.
    read: f64,
    /// Time to write what other devices need.
    write: f64,
    /// Time to synchronise the weights of replicas, before the factor ``(r - 1) / r``.
    sync: f64,
    /// All of it by the load rule, shared out over the replicas.
    load: f64,
}

impl From<core::PassScore> for PassScore {
    fn from(score: core::PassScore) -> Self {
        Self { compute: score.compute, read: score.read, write: score.write, sync: score.sync, load: score.load }
    }
}

/// The judge's view of one part.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct PartScore {
    /// Load of both passes.
    load: f64,
    /// The forward pass.
    forward: Py<PassScore>,
    /// The backward pass.
    backward: Py<PassScore>,
    /// Bytes on each accelerator; 0 for a CPU.
    memory: f64,
}

impl PartScore {
    fn new(py: Python<'_>, score: core::PartScore) -> PyResult<Self> {
        Ok(Self {
            load: score.load(),
            forward: Py::new(py, PassScore::from(score.forward))?,
            backward: Py::new(py, PassScore::from(score.backward))?,
            memory: score.memory,
        })
    }
}

/// A rule that a split breaks.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct PlacementViolation {
    /// Name of the rule.
    rule: &'static str,
    /// Position of the part; None where it takes several.
    part: Option<u32>,
    /// Positions of the nodes.
    nodes: Vec<u32>,
    /// By how much: bytes, devices or nodes.
    by: f64,
}

impl From<core::Violation> for PlacementViolation {
    fn from(violation: core::Violation) -> Self {
        Self {
            rule: violation.rule.name(),
            part: violation.part,
            nodes: violation.nodes.into_iter().map(|v| v.0).collect(),
            by: violation.excess,
        }
    }
}

/// The judge's verdict on a split.
#[pyclass(frozen, get_all, module = "piper._core")]
pub(crate) struct PlacementScore {
    /// The largest load, or the largest forward plus the largest backward load.
    value: f64,
    /// By part, in the split's order.
    parts: Vec<Py<PartScore>>,
    /// Every rule that the split breaks; none for a feasible split.
    violations: Vec<Py<PlacementViolation>>,
}

impl PlacementScore {
    pub(crate) fn new(py: Python<'_>, score: core::Score) -> PyResult<Self> {
        Ok(Self {
            value: score.value,
            parts: score
                .parts
                .into_iter()
                .map(|part| Py::new(py, PartScore::new(py, part)?))
                .collect::<PyResult<_>>()?,
            violations: (score.violations.into_iter())
                .map(|violation| Py::new(py, PlacementViolation::from(violation)))
                .collect::<PyResult<_>>()?,
        })
    }
}
