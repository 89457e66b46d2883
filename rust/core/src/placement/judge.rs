//! The judge: scores any split straight from the definition of the problem and names every rule that it breaks.
//!
//! It shares no code with the solvers, so that each can catch the other's mistakes. Definitions: Tarnawski,
//! Phanishayee, Devanur, Mahajan and Nina Paravecino, "Efficient Algorithms for Device Placement of DNN Graph
//! Operators", `NeurIPS` 2020, section 3 and (training, overlap, replication) its extensions.

mod contiguous;
mod numbers;
mod rules;
#[cfg(test)]
mod tests;

use crate::placement::{Rules, Split, Workload};
pub use rules::{Rule, Violation};

/// An accelerator may exceed its memory by this part of it: sums in another order round differently.
pub const MEMORY_TOLERANCE: f64 = 1e-9;

/// Times of one pass (forward or backward) of one part, in the unit of the workload. For replicas: of the part as one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassScore {
    /// Time of the nodes.
    pub compute: f64,
    /// Time to read what other devices made; always 0 for a CPU.
    pub read: f64,
    /// Time to write what other devices need; always 0 for a CPU.
    pub write: f64,
    /// Time to synchronise the weights of replicas, before the factor `(r - 1) / r`.
    pub sync: f64,
    /// All of it by the load rule, shared out over the replicas.
    pub load: f64,
}

/// The judge's view of one part, in the units of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartScore {
    /// The forward pass.
    pub forward: PassScore,
    /// The backward pass.
    pub backward: PassScore,
    /// Bytes on each accelerator; 0 for a CPU.
    pub memory: f64,
}

impl PartScore {
    /// Load of both passes.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.forward.load + self.backward.load
    }
}

/// The judge's verdict on a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The largest load, or for the split objective the largest forward plus the largest backward load.
    pub value: f64,
    /// The parts, in the split's order.
    pub parts: Vec<PartScore>,
    /// Every broken rule; a split is feasible when there is none.
    pub violations: Vec<Violation>,
}

impl Score {
    /// Whether the split keeps all rules.
    #[must_use]
    pub fn feasible(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Judges a split.
///
/// Any split gets a verdict. Where one is malformed (nodes that do not exist, are missing or repeated, classes that do
/// not exist) its numbers count what can be counted: a repeated node where it is listed first, a missing one as outside
/// of every part, no time where a node is not supported, and 0 replicas as 1.
///
/// Time `O(V + E + L)` for parts that list `L` nodes in all, apart from sorting.
#[must_use]
pub fn score(workload: &Workload, rules: &Rules, split: &Split) -> Score {
    let home = numbers::home(workload, split);
    let parts = numbers::parts(workload, rules.load, split, &home);
    let violations = rules::violations(workload, rules, split, &home, &parts);
    Score { value: numbers::value(rules.objective, &parts), parts, violations }
}
