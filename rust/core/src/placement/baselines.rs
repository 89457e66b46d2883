//! Simpler ways to place operators, to compare with: one accelerator, local search, and what `PipeDream` does.
//!
//! They are those of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", `NeurIPS`
//! 2020, section 5.

mod blocks;
mod loads;
mod local_search;
mod random;
#[cfg(test)]
mod tests;
mod units;

use crate::placement::{Device, Part, Rules, Split, Workload, score};
pub use blocks::contract_blocks;
pub use local_search::{LocalSearch, local_search};

/// All nodes on one accelerator, of the class where they take the least time among those that can hold them; of the
/// first class if none can. `None` without accelerators.
///
/// Time `O(C (V + E))` for `C` classes.
#[must_use]
pub fn single(workload: &Workload, rules: &Rules) -> Option<Split> {
    let on_class = |class: usize| Split {
        parts: vec![Part {
            device: Device::Accelerator { class: class as u32, replicas: 1 },
            nodes: workload.graph().nodes().collect(),
        }],
    };
    let judged = (0..workload.classes().len()).filter(|&class| workload.classes()[class].count > 0).map(|class| {
        let split = on_class(class);
        let verdict = score(workload, rules, &split);
        (!verdict.feasible(), verdict.value, split)
    });
    judged.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|best| best.2)
}
