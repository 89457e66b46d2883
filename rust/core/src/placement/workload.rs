//! Operators with their times, and the devices to put them on.

use crate::graph::Graph;

/// One operator (or layer).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Time on a CPU.
    pub cpu: f64,
    /// Time on an accelerator of each class; `None` where it is not supported.
    pub accelerators: Vec<Option<f64>>,
    /// Bytes on an accelerator.
    pub size: f64,
    /// `c(u)`: time to move the output between an accelerator and host memory. 0 for a node without successors.
    pub transfer: f64,
    /// Time to synchronise the node's weights among replicas.
    pub sync: f64,
    /// Whether it belongs to the backward pass.
    pub backward: bool,
    /// Nodes of one colour class are on one device.
    pub color: Option<u32>,
}

/// Accelerators that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceleratorClass {
    /// Name, for results.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// Bytes that each holds.
    pub memory: f64,
}

/// A device-placement problem. Construction checks it (see [`Workload::new`]).
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) graph: Graph,
    pub(crate) nodes: Vec<Node>,
    /// Classes of accelerators; one in the published workloads.
    pub(crate) classes: Vec<AcceleratorClass>,
    /// Number of CPUs.
    pub(crate) cpus: u32,
}
