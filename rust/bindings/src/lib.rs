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
    use crate::results::{FrontierTuples, stopped};
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

    /// Best value for every number of devices at which it improves, increasing in devices, with its lower bound; and why
    /// the search ended early.
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
    ) -> PyResult<(FrontierTuples, Option<&'static str>)> {
        let problem = Problem::new(workload, limits, schedule)?;
        let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress };
        let settings = core::Settings { memory_limit: memory_limit.map(|n| n.0), gap: 0.0 };
        let ended = enter(py, &terms, |progress| {
            core::frontier(&problem.workload, &problem.limits, problem.schedule, &settings, progress)
        })?;
        let frontier = ended.value.map_err(Failure::from)?;
        let points = frontier.points.iter().map(|p| (p.devices, p.value, p.lower_bound)).collect();
        Ok((points, stopped(frontier.stopped, ended.interrupted)))
    }

    /// Least memory per device, and least number of devices, that make a plan possible; None where none does. And why
    /// the search for them ended early.
    #[pyfunction]
    #[pyo3(signature = (workload, limits, schedule, *, threads=None, time_limit=None, memory_limit=None))]
    fn needs(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
        threads: Option<Amount>,
        time_limit: Option<f64>,
        memory_limit: Option<Amount>,
    ) -> PyResult<(Option<f64>, Option<u32>, Option<&'static str>)> {
        let problem = Problem::new(workload, limits, schedule)?;
        let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress: None };
        let memory = memory_limit.map(|n| n.0);
        let ended = enter(py, &terms, |progress| {
            core::needs(&problem.workload, &problem.limits, problem.schedule, memory, progress)
        })?;
        let needs = ended.value.map_err(Failure::from)?;
        Ok((needs.memory, needs.devices, stopped(needs.stopped, ended.interrupted)))
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
    #[pyo3(signature = (workload, limits, schedule, *, threads=None, time_limit=None))]
    fn baselines(
        py: Python<'_>,
        workload: &Bound<'_, PyAny>,
        limits: &Bound<'_, PyAny>,
        schedule: &Bound<'_, PyAny>,
        threads: Option<Amount>,
        time_limit: Option<f64>,
    ) -> PyResult<Vec<(&'static str, Option<StageTuples>)>> {
        let problem = Problem::new(workload, limits, schedule)?;
        let terms = Terms { threads: threads.map(|n| n.0), time_limit, progress: None };
        let ended = enter(py, &terms, |progress| {
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
