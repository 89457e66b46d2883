//! The judge: scores any plan straight from the formulas of the problem and names every rule that it breaks.
//!
//! It shares no code with the solver, so that each can catch the other's mistakes. Formulas: Tarnawski, Narayanan and
//! Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", `NeurIPS` 2021, section 3; with a flush, the
//! batch times of `GPipe` (Huang et al., `NeurIPS` 2019) and 1F1B (Narayanan et al., "Efficient Large-Scale Language
//! Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2).

mod numbers;
mod rules;
#[cfg(test)]
mod tests;

use crate::pipeline::{Limits, Plan, Schedule, Workload};
pub use rules::{Rule, Violation};

/// A stage may exceed the memory of a device by this part of it: sums in another order round differently.
pub const MEMORY_TOLERANCE: f64 = 1e-9;

/// The judge's view of one stage, in the units of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageScore {
    /// Time per microbatch of the whole stage: `compute + transfer + resync`.
    pub load: f64,
    /// `sum p / d`.
    pub compute: f64,
    /// Exchange with other stages, activations forward and gradients backward.
    pub transfer: f64,
    /// Synchronisation of weights among replicas and copies, spread over the microbatches of a batch.
    pub resync: f64,
    /// Bytes on each device.
    pub memory: f64,
    /// `y`: microbatches whose activations a replica keeps at a time.
    pub in_flight: u64,
}

/// The judge's verdict on a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Time per microbatch: the largest load, or the batch time divided by the microbatches for a flush.
    pub value: f64,
    /// `sum d * t`.
    pub devices: u64,
    /// The stages, in the plan's order.
    pub stages: Vec<StageScore>,
    /// Every broken rule; a plan is feasible when there is none.
    pub violations: Vec<Violation>,
}

impl Score {
    /// Whether the plan keeps all rules.
    #[must_use]
    pub fn feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Judges a plan.
///
/// Any plan gets a verdict. Where one is malformed (layers, TMPCs or degrees that do not exist) its numbers count what
/// can be counted, with a degree of 0 taken as 1, and the violations say what is wrong.
///
/// Time `O((V + E + P) log P)` for a plan that lists `P` layers in all, plus the size of the limits.
#[must_use]
pub fn score(workload: &Workload, limits: &Limits, schedule: Schedule, plan: &Plan) -> Score {
    let stages = numbers::stages(workload, schedule, plan);
    let violations = rules::violations(workload, limits, plan, &stages);
    Score {
        value: numbers::value(workload, schedule, plan, &stages),
        devices: numbers::devices(plan),
        stages,
        violations,
    }
}
