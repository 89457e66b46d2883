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
    progress: &mut dyn Progress,
) -> Result<Result<Needs, Stop>, WorkloadError> {
    let mut ask = Ask { limits, schedule, progress };
    let memory = match ask.least_memory(workload)? {
        Ok(memory) => memory,
        Err(stop) => return Ok(Err(stop)),
    };
    let devices = match ask.fewest_devices(workload)? {
        Ok(devices) => devices,
        Err(stop) => return Ok(Err(stop)),
    };
    Ok(Ok(Needs { memory, devices }))
}

struct Ask<'a> {
    limits: &'a Limits,
    schedule: Schedule,
    progress: &'a mut dyn Progress,
}

type Answer<T> = Result<Result<Option<T>, Stop>, WorkloadError>;

impl Ask<'_> {
    /// Devices and largest memory of a stage of some plan.
    fn plan(&mut self, workload: &Workload) -> Answer<(u32, f64)> {
        let settings = Settings { gap: f64::INFINITY, ..Settings::default() };
        let outcome = search::solve(workload, self.limits, self.schedule, &settings, self.progress)?;
        if let Some(stop) = outcome.stopped {
            return Ok(Err(stop));
        }
        Ok(Ok(outcome.plan.map(|plan| {
            let score = crate::pipeline::score(workload, self.limits, self.schedule, &plan);
            let memory = score.stages.iter().map(|s| s.memory).fold(0.0, f64::max);
            (score.devices as u32, memory)
        })))
    }

    fn least_memory(&mut self, workload: &Workload) -> Answer<f64> {
        let (mut low, mut high) = (workload.memory, 1e30);
        match self.plan(&workload.with_memory(high))? {
            Ok(Some((_, memory))) => high = memory,
            other => return Ok(other.map(|_| None)),
        }
        while high > low * (1.0 + PRECISION) && high > 1.0 {
            let middle = (low.max(high * 1e-3) * high).sqrt();
            match self.plan(&workload.with_memory(middle))? {
                // The plan's own memory is often well below; it can only be above by rounding.
                Ok(Some((_, memory))) => high = memory.min(middle),
                Ok(None) => low = middle,
                Err(stop) => return Ok(Err(stop)),
            }
        }
        Ok(Ok(Some(high)))
    }

    fn fewest_devices(&mut self, workload: &Workload) -> Answer<u32> {
        let (mut low, mut high) = (workload.devices, MOST_DEVICES.max(workload.devices));
        match self.plan(&workload.with_devices(high))? {
            Ok(Some((devices, _))) => high = devices,
            other => return Ok(other.map(|_| None)),
        }
        while high > low + 1 {
            let middle = low + (high - low) / 2;
            match self.plan(&workload.with_devices(middle))? {
                Ok(Some((devices, _))) => high = devices.min(middle),
                Ok(None) => low = middle,
                Err(stop) => return Ok(Err(stop)),
            }
        }
        Ok(Ok(Some(high)))
    }
}
