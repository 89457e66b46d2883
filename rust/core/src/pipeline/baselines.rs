//! What simpler planners find, on the judge's scale.

mod choices;
mod race;
mod splits;
#[cfg(test)]
mod tests;

use crate::pipeline::{Limits, Plan, Schedule, Workload};
use crate::progress::{Progress, Stop};
use race::Race;
use splits::Split;

/// A simpler planner's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// Name of the planner.
    pub name: &'static str,
    /// Its best plan; `None` when none of its plans is feasible.
    pub plan: Option<Plan>,
}

/// Runs every simpler planner.
///
/// `equal split` is [`equal_split`]; the other two have one stage: `data parallel` on whole devices, copies of the
/// network and nothing else, `data and tensor parallel` with the best tensor-parallel degree.
///
/// # Errors
/// [`Stop`] when `progress` ended the search.
pub fn baselines(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    progress: &mut dyn Progress,
) -> Result<Vec<Baseline>, Stop> {
    let mut one_stage = |widest| Race::new(workload, limits, schedule, widest).run(&[Split::WHOLE], progress);
    let data = Baseline { name: "data parallel", plan: one_stage(1)? };
    let tensor = Baseline { name: "data and tensor parallel", plan: one_stage(u32::MAX)? };
    let equal = Baseline { name: "equal split", plan: equal_split(workload, limits, schedule, progress)? };
    Ok(vec![equal, tensor, data])
}

/// The best plan of equal stages: for every number of stages the repeated layers are dealt out equally and the layers
/// before and after them join the end stages or stand alone; all stages share one data-parallel degree, one
/// tensor-parallel degree and one kind of TMPC. Where the stages do not divide the layers, counts differ by one.
///
/// This is the planner of Narayanan, Phanishayee, Shi, Chen and Zaharia, "Memory-Efficient Pipeline-Parallel DNN
/// Training" (`PipeDream-2BW`), ICML 2021, in the form in which the Piper paper compares with it.
///
/// Best-first over candidates: bounds from compute and memory order them, and only those that could still win are
/// judged. For `S` splits into at most `L` stages and `T` pairs of degree and TMPC kind, time `O(S T L)` and the judging
/// of a few, space `O(S T)`.
///
/// # Errors
/// [`Stop`] when `progress` ended the search.
pub fn equal_split(
    workload: &Workload,
    limits: &Limits,
    schedule: Schedule,
    progress: &mut dyn Progress,
) -> Result<Option<Plan>, Stop> {
    let race = Race::new(workload, limits, schedule, u32::MAX);
    race.run(&race.splits(), progress)
}
