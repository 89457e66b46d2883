//! Python's dataclasses of placement to the core's types and back.
//!
//! The structs here mirror those of `piper.placement.workload`, field by field.

use piper_core::placement as core;
use pyo3::prelude::*;

use crate::convert::{Items, nodes, words};

/// A part as Python gets it: class of accelerators (None: CPU), replicas, nodes.
pub(crate) type PartTuple = (Option<u32>, u32, Vec<u32>);
/// A split as Python gets it.
pub(crate) type PartTuples = Vec<PartTuple>;

#[derive(FromPyObject)]
struct Node {
    cpu: f64,
    accelerators: Items<Option<f64>>,
    size: f64,
    transfer: f64,
    sync: f64,
    backward: bool,
    color: Option<u32>,
}

#[derive(FromPyObject)]
struct AcceleratorClass {
    name: String,
    count: u32,
    memory_bytes: f64,
}

/// `piper.placement.workload.PlacementWorkload`.
#[derive(FromPyObject)]
pub(crate) struct Workload {
    nodes: Items<Node>,
    edges: Items<(u32, u32)>,
    classes: Items<AcceleratorClass>,
    cpus: u32,
}

/// `piper.placement.workload.Rules`.
#[derive(FromPyObject)]
pub(crate) struct Rules {
    load: LoadRule,
    training_objective: TrainingObjective,
    contiguous: bool,
    max_replicas: u32,
}

/// `piper.placement.workload.Part`.
#[derive(FromPyObject)]
struct Part {
    accelerator_class: Option<u32>,
    replicas: u32,
    nodes: Items<u32>,
}

/// A list of parts.
pub(crate) struct Parts(Items<Part>);

impl<'py> FromPyObject<'_, 'py> for Parts {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        obj.extract().map(Self)
    }
}

/// How a split is searched for.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// All contiguous splits.
    Exact,
    /// Splits along linear orders.
    Linear,
    /// The same with branches contracted.
    PipeDream,
}

words! {
    /// How a split is searched for.
    Algorithm: Method {
        "dp" => Method::Exact,
        "dpl" => Method::Linear,
        "pipedream" => Method::PipeDream,
    }
}

words! {
    /// `piper.placement.workload.LoadRule`.
    LoadRule: core::LoadRule {
        "sequential" => core::LoadRule::Sequential,
        "overlap" => core::LoadRule::Overlap,
        "duplex" => core::LoadRule::Duplex,
    }
}

words! {
    /// `piper.placement.workload.TrainingObjective`.
    TrainingObjective: core::TrainingObjective {
        "sum" => core::TrainingObjective::Sum,
        "split" => core::TrainingObjective::Split,
    }
}

impl Workload {
    pub(crate) fn into_core(self) -> Result<core::Workload, core::WorkloadError> {
        let nodes = self.nodes.0.into_iter().map(Node::into_core).collect();
        let classes = self.classes.0.into_iter().map(AcceleratorClass::into_core).collect();
        core::Workload::new(nodes, &self.edges.0, classes, self.cpus)
    }
}

impl Node {
    fn into_core(self) -> core::Node {
        core::Node {
            cpu: self.cpu,
            accelerators: self.accelerators.0,
            size: self.size,
            transfer: self.transfer,
            sync: self.sync,
            backward: self.backward,
            color: self.color,
        }
    }
}

impl AcceleratorClass {
    fn into_core(self) -> core::AcceleratorClass {
        core::AcceleratorClass { name: self.name, count: self.count, memory: self.memory_bytes }
    }
}

impl Rules {
    pub(crate) fn into_core(self) -> core::Rules {
        core::Rules {
            load: self.load.0,
            objective: self.training_objective.0,
            contiguous: self.contiguous,
            max_replicas: self.max_replicas,
        }
    }
}

impl Parts {
    pub(crate) fn into_core(self) -> core::Split {
        let device = |part: &Part| match part.accelerator_class {
            None => core::Device::Cpu,
            Some(class) => core::Device::Accelerator { class, replicas: part.replicas },
        };
        let part = |part: Part| core::Part { device: device(&part), nodes: nodes(part.nodes) };
        core::Split { parts: self.0.0.into_iter().map(part).collect() }
    }
}

/// A split for Python.
pub(crate) fn part_tuples(split: core::Split) -> PartTuples {
    let tuple = |part: core::Part| {
        let nodes = part.nodes.into_iter().map(|v| v.0).collect();
        match part.device {
            core::Device::Cpu => (None, 1, nodes),
            core::Device::Accelerator { class, replicas } => (Some(class), replicas, nodes),
        }
    };
    split.parts.into_iter().map(tuple).collect()
}
