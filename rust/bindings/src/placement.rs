//! Device placement for Python: `piper.placement.workload` in, splits and verdicts out.

mod convert;
mod results;

use piper_core::placement as core;
use piper_core::placement::baselines;
use piper_core::placement::search::{Settings, solve, solve_linear};
use pyo3::prelude::*;

use crate::convert::{Amount, argument};
use crate::enter::{Terms, checked_gap, enter};
use crate::errors::Failure;
use crate::placement::convert::{Algorithm, Method, PartTuples, Parts, Rules, Workload, part_tuples};
pub(crate) use crate::placement::results::{
    PartScore, PassScore, PlacementScore, PlacementSolution, PlacementViolation,
};
use crate::results::status;

/// Find an optimal split. `progress` gets best value and bound about ten times a second.
#[pyfunction]
#[pyo3(signature = (
    workload, rules, *, algorithm=None, threads=None, time_limit=None, memory_limit=None, gap=0.0, progress=None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn place(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    rules: &Bound<'_, PyAny>,
    algorithm: Option<&Bound<'_, PyAny>>,
    threads: Option<Amount>,
    time_limit: Option<f64>,
    memory_limit: Option<Amount>,
    gap: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<PlacementSolution> {
    let Problem { workload, rules } = Problem::new(workload, rules)?;
    let method = match algorithm {
        Some(word) => argument::<Algorithm>("algorithm", word)?.0,
        None => Method::Exact,
    };
    let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress };
    let settings = Settings { memory_limit: memory_limit.map(|n| n.0), gap: checked_gap(gap)? };
    let ended = enter(py, &terms, |progress| {
        let outcome = match method {
            Method::Exact => solve(&workload, &rules, &settings, progress),
            Method::Linear => solve_linear(&workload, &rules, &settings, progress),
            Method::PipeDream => {
                let contracted = baselines::contract_blocks(&workload)?;
                // Its bound holds for the contracted workload only.
                let outcome = solve_linear(&contracted, &rules, &settings, progress);
                core::search::Outcome { lower_bound: 0.0, ..outcome }
            }
        };
        let value = outcome.split.as_ref().map(|split| core::score(&workload, &rules, split).value);
        Ok::<_, Failure>((outcome, value))
    })?;
    let (outcome, value) = ended.value?;
    Ok(PlacementSolution::new(outcome, value, ended.interrupted))
}

/// Judge a split by the definition of the problem.
#[pyfunction]
pub(crate) fn place_score(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    rules: &Bound<'_, PyAny>,
    parts: &Bound<'_, PyAny>,
) -> PyResult<PlacementScore> {
    let Problem { workload, rules } = Problem::new(workload, rules)?;
    let split = argument::<Parts>("parts", parts)?.into_core();
    PlacementScore::new(py, py.detach(|| core::score(&workload, &rules, &split)))
}

/// All nodes on one accelerator; None without one.
#[pyfunction]
pub(crate) fn place_single(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    rules: &Bound<'_, PyAny>,
) -> PyResult<Option<PartTuples>> {
    let Problem { workload, rules } = Problem::new(workload, rules)?;
    Ok(py.detach(|| baselines::single(&workload, &rules)).map(part_tuples))
}

/// Local search over colour classes: the split, None where some node can be nowhere, and why the search ended.
#[pyfunction]
#[pyo3(signature = (workload, rules, *, restarts=10, seed=0, time_limit=None, progress=None))]
pub(crate) fn place_local_search(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    rules: &Bound<'_, PyAny>,
    restarts: u32,
    seed: u64,
    time_limit: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Option<PartTuples>, &'static str)> {
    let Problem { workload, rules } = Problem::new(workload, rules)?;
    let search = baselines::LocalSearch { restarts, seed };
    let terms = Terms { threads: Some(1), time_limit, progress };
    let ended = enter(py, &terms, |progress| baselines::local_search(&workload, &rules, &search, progress))?;
    let (split, stopped) = ended.value;
    Ok((split.map(part_tuples), status(stopped, ended.interrupted, None, 0.0)))
}

/// The two arguments of every function.
struct Problem {
    workload: core::Workload,
    rules: core::Rules,
}

impl Problem {
    fn new(workload: &Bound<'_, PyAny>, rules: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        Ok(Self {
            workload: argument::<Workload>("workload", workload)?.into_core()?,
            rules: argument::<Rules>("rules", rules)?.into_core(),
        })
    }
}
