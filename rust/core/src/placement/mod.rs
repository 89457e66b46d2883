//! Device placement: the problem of Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino, "Efficient Algorithms
//! for Device Placement of DNN Graph Operators", `NeurIPS` 2020, for throughput.

pub mod baselines;
pub mod judge;
pub mod split;
pub mod workload;

pub use judge::{PartScore, PassScore, Rule, Score, Violation, score};
pub use split::{Device, LoadRule, Part, Rules, Split, TrainingObjective};
pub use workload::{AcceleratorClass, Node, Workload, WorkloadError};
