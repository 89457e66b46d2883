//! What an infeasible workload lacks.

use crate::pipeline::search::{self, Settings};
use crate::pipeline::{Limits, Schedule, Workload, WorkloadError};
use crate::progress::{Progress, Stop};

/// The least that would make a plan possible.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Bytes per device, with the workload's number of devices; `None` where no memory does.
    pub memory: Option<f64>,
    /// Devices, with the workload's memory; `None` where none up to 16,384 does.
    pub devices: Option<u32>,
    /// Why the search for them ended early: then what is given would do, but less may do, and what is not given may
    /// only not have been found.
    pub stopped: Option<Stop>,
}

/// Largest number of devices that [`needs`] proposes.
const MOST_DEVICES: u32 = 1 << 14;

/// Relative precision of the memory.
const PRECISION: f64 = 1e-9;

/// What an infeasible workload needs: the least memory, and, apart from it, the fewest devices.
///
/// Both by bisection over searches that stop at the first plan. Where the lattice is too large to be searched as a whole,
/// the figures are enough, but may not be the least.
///
/// # Errors
/// As [`search::solve`].
pub fn needs(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    memory_limit: Option<u64>,
    progress: &mut dyn Progress,
) -> Result<Needs, WorkloadError> {
    let settings = Settings { gap: f64::INFINITY, memory_limit };
    let mut ask = Ask { limits, schedule, settings, progress, stopped: None };
    let memory = ask.least_memory(workload)?;
    let devices = match ask.stopped {
        Some(Stop::Interrupted | Stop::TimeLimit) => None,
        _ => ask.fewest_devices(workload)?,
    };
    Ok(Needs { memory, devices, stopped: ask.stopped })
}

struct Ask<'a> {
    limits: &'a Limits,
    schedule: Schedule,
    settings: Settings,
    progress: &'a mut dyn Progress,
    /// Why some question has no answer.
    stopped: Option<Stop>,
}

/// The answer to one question.
enum Answer {
    /// There is a plan, of so many devices and this largest memory of a stage.
    Yes(u32, f64),
    /// There is none.
    No,
    /// The search ended before it was known.
    Unknown,
}

impl Ask<'_> {
    /// Whether there is a plan.
    fn plan(&mut self, workload: &Workload) -> Result<Answer, WorkloadError> {
        let outcome = search::solve(workload, self.limits, self.schedule, &self.settings, self.progress)?;
        if let Some(plan) = outcome.plan {
            let score = crate::pipeline::score(workload, self.limits, self.schedule, &plan);
            let memory = score.stages.iter().map(|s| s.memory).fold(0.0, f64::max);
            return Ok(Answer::Yes(score.devices as u32, memory));
        }
        if outcome.stopped.is_none() && outcome.lower_bound.is_infinite() {
            return Ok(Answer::No);
        }
        // Of a search that went through without a proof, it is the memory that did not do.
        self.stopped = outcome.stopped.or(self.stopped).or(Some(Stop::MemoryLimit));
        Ok(Answer::Unknown)
    }

    /// Whether to go on after a question without an answer, as if the answer were no.
    fn goes_on(&self) -> bool {
        !matches!(self.stopped, Some(Stop::Interrupted | Stop::TimeLimit))
    }

    fn least_memory(&mut self, workload: &Workload) -> Result<Option<f64>, WorkloadError> {
        let (mut low, mut high) = (workload.memory, 1e30);
        match self.plan(&workload.with_memory(high))? {
            Answer::Yes(_, memory) => high = memory,
            Answer::No | Answer::Unknown => return Ok(None),
        }
        while self.goes_on() && high > low * (1.0 + PRECISION) && high > 1.0 {
            let middle = (low.max(high * 1e-3) * high).sqrt();
            match self.plan(&workload.with_memory(middle))? {
                // The plan's own memory is often well below; it can only be above by rounding.
                Answer::Yes(_, memory) => high = memory.min(middle),
                Answer::No | Answer::Unknown => low = middle,
            }
        }
        Ok(Some(high))
    }

    fn fewest_devices(&mut self, workload: &Workload) -> Result<Option<u32>, WorkloadError> {
        let (mut low, mut high) = (workload.devices, MOST_DEVICES.max(workload.devices));
        match self.plan(&workload.with_devices(high))? {
            Answer::Yes(devices, _) => high = devices,
            Answer::No | Answer::Unknown => return Ok(None),
        }
        while self.goes_on() && high > low + 1 {
            let middle = low + (high - low) / 2;
            match self.plan(&workload.with_devices(middle))? {
                Answer::Yes(devices, _) => high = devices.min(middle),
                Answer::No | Answer::Unknown => low = middle,
            }
        }
        Ok(Some(high))
    }
}
