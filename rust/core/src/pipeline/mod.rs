//! Pipeline planning: the problem of Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN
//! Parallelization", `NeurIPS` 2021, with its extensions.

pub mod baselines;
mod bracket;
mod chain_bound;
mod flush;
mod frontier;
pub mod judge;
mod knapsack;
mod levels;
mod needs;
pub mod plan;
mod problem;
mod restricted;
pub mod search;
mod staircases;
mod tables;
mod threshold;
pub mod workload;

pub use baselines::{Baseline, baselines};
pub use frontier::{Frontier, Point, frontier};
pub use judge::{Rule, Score, StageScore, Violation, score};
pub use needs::{Needs, needs};
pub use plan::{Limits, Plan, Recompute, Schedule, Stage};
pub use search::{Outcome, Settings, solve};
pub use workload::{Layer, Network, Tie, TieCost, Tmpc, Transfer, Workload, WorkloadError};
