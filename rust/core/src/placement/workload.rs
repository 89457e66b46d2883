//! Operators with their times, and the devices to put them on.

use std::fmt;

use crate::graph::{Graph, GraphError, NodeId};

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
    pub(crate) order: Vec<NodeId>,
    pub(crate) nodes: Vec<Node>,
    /// Classes of accelerators; one in the published workloads.
    pub(crate) classes: Vec<AcceleratorClass>,
    /// Number of CPUs.
    pub(crate) cpus: u32,
}

/// What is wrong with the numbers of a would-be workload.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadError {
    /// There is no node.
    NoNodes,
    /// The edges are no acyclic graph.
    Graph(GraphError),
    /// An edge runs from the backward pass into the forward pass.
    BackwardToForward {
        /// Its source, a backward node.
        source: NodeId,
        /// Its target, a forward node.
        target: NodeId,
    },
    /// A number is negative, not finite or too large.
    BadNumber {
        /// Which number, in words.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A list has the wrong length, or there are too many devices.
    BadShape(String),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => write!(f, "the workload has no nodes"),
            Self::Graph(GraphError::NoSuchNode { edge, node }) => {
                write!(f, "edge {edge} names node {node}, which does not exist")
            }
            Self::Graph(GraphError::Cycle(nodes)) => {
                let names: Vec<String> = nodes.iter().take(8).map(|v| v.0.to_string()).collect();
                let more = if nodes.len() > names.len() { " -> ..." } else { "" };
                write!(f, "the edges close a cycle: {}{more}", names.join(" -> "))
            }
            Self::BackwardToForward { source, target } => {
                write!(f, "edge {} -> {} runs from the backward pass into the forward pass", source.0, target.0)
            }
            Self::BadNumber { what, value } => {
                write!(f, "{what} is {value:?}; expected a finite number that is not negative and below 1e30")
            }
            Self::BadShape(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// Largest number of CPUs, and of accelerators of all classes together.
pub const MAX_DEVICES: u32 = 1 << 20;
/// Largest number of classes of accelerators.
pub const MAX_CLASSES: usize = 64;
/// Numbers at or above this are refused, so that sums stay finite.
const TOO_LARGE: f64 = 1e30;

impl Workload {
    /// Checks and stores the numbers. `edges` are `(source, target)`; parallel edges carry the same output and count
    /// once.
    ///
    /// Time and space linear in the input.
    ///
    /// # Errors
    /// [`WorkloadError`] names the first number, list or edge that cannot be.
    pub fn new(
        nodes: Vec<Node>,
        edges: &[(u32, u32)],
        classes: Vec<AcceleratorClass>,
        cpus: u32,
    ) -> Result<Self, WorkloadError> {
        if nodes.is_empty() {
            return Err(WorkloadError::NoNodes);
        }
        let graph = Graph::new(nodes.len(), edges).map_err(WorkloadError::Graph)?;
        let order = graph.topological_order().map_err(WorkloadError::Graph)?;
        let workload = Self { graph, order, nodes, classes, cpus };
        workload.check()?;
        Ok(workload)
    }

    /// The nodes' graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// A topological order of the nodes.
    #[must_use]
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The nodes, by [`NodeId`].
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// Classes of accelerators.
    #[must_use]
    pub fn classes(&self) -> &[AcceleratorClass] {
        &self.classes
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether there is a backward pass.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.nodes.iter().any(|node| node.backward)
    }

    /// The same with other devices of the same classes.
    ///
    /// # Errors
    /// [`WorkloadError`] as in [`Workload::new`].
    pub fn with_devices(&self, classes: Vec<AcceleratorClass>, cpus: u32) -> Result<Self, WorkloadError> {
        let workload = Self { classes, cpus, ..self.clone() };
        workload.check()?;
        Ok(workload)
    }

    fn check(&self) -> Result<(), WorkloadError> {
        self.check_devices()?;
        for node in self.graph.nodes() {
            self.check_node(node)?;
        }
        for &(source, target) in self.graph.edges() {
            if self.node(source).backward && !self.node(target).backward {
                return Err(WorkloadError::BackwardToForward { source, target });
            }
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<(), WorkloadError> {
        let accelerators: u64 = self.classes.iter().map(|class| u64::from(class.count)).sum();
        for (what, count) in [("CPUs", u64::from(self.cpus)), ("accelerators", accelerators)] {
            if count > u64::from(MAX_DEVICES) {
                return Err(WorkloadError::BadShape(format!(
                    "the number of {what} is {count}; expected at most {MAX_DEVICES}"
                )));
            }
        }
        if self.classes.len() > MAX_CLASSES {
            return Err(WorkloadError::BadShape(format!(
                "there are {} classes of accelerators; expected at most {MAX_CLASSES}",
                self.classes.len()
            )));
        }
        for class in &self.classes {
            amount(|| format!("the memory of accelerator class `{}`", class.name), class.memory)?;
        }
        Ok(())
    }

    fn check_node(&self, id: NodeId) -> Result<(), WorkloadError> {
        let node = self.node(id);
        if node.accelerators.len() != self.classes.len() {
            return Err(WorkloadError::BadShape(format!(
                "node {} has times for {} classes of accelerators; expected {}",
                id.0,
                node.accelerators.len(),
                self.classes.len()
            )));
        }
        let scalars = [
            ("CPU time", node.cpu),
            ("size", node.size),
            ("transfer time", node.transfer),
            ("synchronisation time", node.sync),
        ];
        let times = node.accelerators.iter().flatten().map(|&time| ("accelerator time", time));
        for (what, value) in scalars.into_iter().chain(times) {
            amount(|| format!("the {what} of node {}", id.0), value)?;
        }
        Ok(())
    }
}

fn amount(what: impl Fn() -> String, value: f64) -> Result<(), WorkloadError> {
    if (0.0..TOO_LARGE).contains(&value) { Ok(()) } else { Err(WorkloadError::BadNumber { what: what(), value }) }
}
