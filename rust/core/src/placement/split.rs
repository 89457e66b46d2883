//! What is asked for and what comes back.

use crate::graph::NodeId;

/// How compute and transfers of an accelerator add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadRule {
    /// Their sum.
    #[default]
    Sequential,
    /// `max(compute, transfers in and out)`.
    Overlap,
    /// `max(compute, in, out)`.
    Duplex,
}

/// How forward and backward passes of a device add up over devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrainingObjective {
    /// `max_i (FW_i + BW_i)`, as 1F1B has it.
    #[default]
    Sum,
    /// `max_i FW_i + max_i BW_i`, as `GPipe` has it.
    Split,
}

/// The variant of the problem.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Of an accelerator.
    pub load: LoadRule,
    /// Of a training workload.
    pub objective: TrainingObjective,
    /// Whether the devices must be consecutive in some order (see the judge).
    pub contiguous: bool,
    /// Most accelerators of one class that may share a part as replicas; 1: no replication.
    pub max_replicas: u32,
}

/// Where a part runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A CPU.
    Cpu,
    /// Accelerators of a class: one, or several replicas.
    Accelerator {
        /// Position of the class.
        class: u32,
        /// How many of them hold the part.
        replicas: u32,
    },
}

/// The nodes of one device, or of one set of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it runs.
    pub device: Device,
    /// The nodes, in increasing order.
    pub nodes: Vec<NodeId>,
}

/// Parts in pipeline order where the split is contiguous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The parts.
    pub parts: Vec<Part>,
}
