//! `piper._core`: conversion, errors, one door. Everything else is in `piper-core`.

mod convert;
mod enter;
mod errors;
mod placement;
mod results;

use pyo3::prelude::*;

/// The compiled half of Piper.
#[pymodule]
mod _core {
    use piper_core::pipeline as core;
    use pyo3::prelude::*;

    use crate::convert::{Amount, Limits, Schedule, StageTuples, Stages, Workload, argument, stage_tuples};
    use crate::enter::{Terms, checked_gap, enter};
    use crate::errors::Failure;
    #[pymodule_export]
    use crate::placement::{
        PartScore, PassScore, PlacementScore, PlacementSolution, PlacementViolation, place, place_local_search,
        place_score, place_single,
    };
    #[pymodule_export]
    use crate::results::{Score, Solution, StageScore, Violation};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name is Python's")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Find an optimal plan. `progress` gets best value and bound about ten times a second.
    #[pyfunction]
    #[pyo3(signature = (
        workload, limits, schedule, *, threads=None, time_limit=None, memory_limit=None, gap=0.0, progress=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn solve(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
        threads: Option<Amount>,
        time_limit: Option<f64>,
        memory_limit: Option<Amount>,
        gap: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Solution> {
        let problem = Problem::new(workload, limits, schedule)?;
        let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress };
        let settings = core::Settings { memory_limit: memory_limit.map(|n| n.0), gap: checked_gap(gap)? };
        let ended = enter(py, &terms, |progress| {
            let Problem { workload, limits, schedule } = &problem;
            core::solve(workload, limits, *schedule, &settings, progress).map(|outcome| {
                let value = outcome.plan.as_ref().map(|plan| core::score(workload, limits, *schedule, plan).value);
                (outcome, value)
            })
        })?;
        let (outcome, value) = ended.value.map_err(Failure::from)?;
        Ok(Solution::new(outcome, value, ended.interrupted))
    }

    /// Best value for every number of devices at which it improves, increasing in devices.
    #[pyfunction]
    #[pyo3(signature = (
        workload, limits, schedule, *, threads=None, time_limit=None, memory_limit=None, progress=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn frontier(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
        threads: Option<Amount>,
        time_limit: Option<f64>,
        memory_limit: Option<Amount>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(u32, f64)>> {
        let problem = Problem::new(workload, limits, schedule)?;
        let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress };
        let settings = core::Settings { memory_limit: memory_limit.map(|n| n.0), gap: 0.0 };
        let ended = enter(py, &terms, |progress| {
            core::frontier(&problem.workload, &problem.limits, problem.schedule, &settings, progress)
        })?;
        let points = ended.uninterrupted()?.map_err(Failure::from)?;
        Ok(points.map_err(Failure::Stopped)?)
    }

    /// Least memory per device, and least number of devices, that make a plan possible; None where none does.
    #[pyfunction]
    fn needs(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
    ) -> PyResult<(Option<f64>, Option<u32>)> {
        let problem = Problem::new(workload, limits, schedule)?;
        let ended = enter(py, &Terms::default(), |progress| {
            core::needs(&problem.workload, &problem.limits, problem.schedule, progress)
        })?;
        let needs = ended.uninterrupted()?.map_err(Failure::from)?.map_err(Failure::Stopped)?;
        Ok((needs.memory, needs.devices))
    }

    /// Judge a plan by the formulas of the problem.
    #[pyfunction]
    fn score(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
        stages: &Bound<'_, PyAny>,
    ) -> PyResult<Score> {
        let problem = Problem::new(workload, limits, schedule)?;
        let plan = argument::<Stages>("stages", stages)?.into_core();
        Score::new(py, py.detach(|| core::score(&problem.workload, &problem.limits, problem.schedule, &plan)))
    }

    /// Plans of simpler planners, by name; None where one of them finds none.
    #[pyfunction]
    fn baselines(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(&'static str, Option<StageTuples>)>> {
        let problem = Problem::new(workload, limits, schedule)?;
        let ended = enter(py, &Terms::default(), |progress| {
            core::baselines(&problem.workload, &problem.limits, problem.schedule, progress)
        })?;
        let found = ended.uninterrupted()?.map_err(Failure::Stopped)?;
        Ok(found.into_iter().map(|baseline| (baseline.name, baseline.plan.map(stage_tuples))).collect())
    }

    /// The three arguments of every function.
    struct Problem {
        workload: core::Workload,
        limits: core::Limits,
        schedule: core::Schedule,
    }

    impl Problem {
        fn new(
            workload: &Bound<'_, PyAny>,
            limits: &Bound<'_, PyAny>,
            schedule: &Bound<'_, PyAny>,
        ) -> Result<Self, Failure> {
            Ok(Self {
                workload: argument::<Workload>("workload", workload)?.into_core()?,
                limits: argument::<Limits>("limits", limits)?.into_core(),
                schedule: argument::<Schedule>("schedule", schedule)?.0,
            })
        }
    }
}
