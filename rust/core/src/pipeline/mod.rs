//! Pipeline planning: the problem of Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN
//! Parallelization", `NeurIPS` 2021, with its extensions.

pub mod baselines;
pub mod judge;
mod levels;
mod knapsack;
pub mod plan;
mod problem;
pub mod search;
mod stages;
mod threshold;
pub mod workload;

pub use baselines::{Baseline, baselines};
pub use judge::{Rule, Score, StageScore, Violation, score};
pub use plan::{Limits, Plan, Recompute, Schedule, Stage};
pub use search::{Needs, Outcome, Settings, frontier, needs, solve};
pub use workload::{Layer, Network, Tie, TieCost, Tmpc, Transfer, Workload, WorkloadError};
