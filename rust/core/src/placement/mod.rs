//! Device placement: the problem of Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino, "Efficient Algorithms
//! for Device Placement of DNN Graph Operators", `NeurIPS` 2020, for throughput.

pub mod baselines;
mod chain;
mod contraction;
mod greedy;
mod growth;
mod idle;
mod improve;
pub mod judge;
mod labels;
mod linear;
mod orders;
mod prices;
mod problem;
pub mod search;
pub mod split;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod walk;
pub mod workload;

pub use judge::{PartScore, PassScore, Rule, Score, Violation, score};
pub use split::{Device, LoadRule, Part, Rules, Split, TrainingObjective};
pub use workload::{AcceleratorClass, Node, Workload, WorkloadError};
