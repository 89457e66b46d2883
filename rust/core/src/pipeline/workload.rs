//! The numbers that a pipeline planner needs: layers with their costs, devices, links.

use std::collections::BTreeMap;
use std::fmt;

use crate::graph::{Graph, GraphError, NodeId};

/// One way to run a layer on `t` devices: a time-memory-parallelism configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Tmpc {
    /// Name, such as `vanilla` or `activation recomp`.
    pub id: String,
    /// `p`: time of one microbatch, forward and backward, in the unit of the workload.
    pub time: f64,
    /// `w`: bytes that one device sends around to synchronise data-parallel replicas.
    pub weight_bytes: f64,
    /// `a`: bytes for each microbatch in flight.
    pub memory_per_microbatch: f64,
    /// `b`: bytes whatever is in flight.
    pub memory_fixed: f64,
    /// `o`: bytes that are shared out over the data-parallel replicas.
    pub memory_sharded: f64,
    /// `cfw`: for each edge into the layer, in the graph's order, the bytes that the `t` devices exchange when the
    /// edge crosses a stage boundary.
    pub sync_forward: Vec<f64>,
    /// `cbw`: the same for each edge out of the layer.
    pub sync_backward: Vec<f64>,
}

impl Tmpc {
    /// Whether this is a recomputation variant.
    #[must_use]
    pub fn recomputes(&self) -> bool {
        self.id.contains("recomp")
    }
}

/// A layer: its TMPCs by tensor-parallel degree. A degree that is missing is not possible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Degree `t` to the alternatives on `t` devices.
    pub tmpcs: BTreeMap<u32, Vec<Tmpc>>,
}

/// Whether a tensor with several consumers crosses a stage boundary once an edge or once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// Every edge pays for itself, as the published workloads have it.
    #[default]
    Edge,
    /// A tensor leaves its stage once, and enters each later stage that uses it once. Of the consumers' (or, going
    /// out, the edges') synchronisation bytes the largest counts. All edges out of one layer carry the same tensor, and
    /// the alternatives of a layer at one degree must synchronise the same bytes.
    Tensor,
}

/// Links between devices, in bytes per unit of the workload's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// From each device to other stages.
    pub stage_bandwidth: f64,
    /// Of a data-parallel group inside one node.
    pub data_parallel_bandwidth_within: f64,
    /// Of a data-parallel group that spans nodes.
    pub data_parallel_bandwidth_between: f64,
    /// A group spans nodes when `d * t` is larger than this; also, `t` must divide it.
    /// `None`: one level only, and any `t`.
    pub devices_per_node: Option<u32>,
    /// `f` in the resync term `f * (d - 1) / d * w / (N * bandwidth)`: 4 for the published workloads (distributed
    /// parameter server), 2 for a ring all-reduce.
    pub resync_factor: f64,
}

impl Network {
    /// Bandwidth of the all-reduce among the `d` replicas of a stage of degree `t`.
    #[must_use]
    pub fn data_parallel_bandwidth(&self, d: u32, t: u32) -> f64 {
        match self.devices_per_node {
            Some(node) if u64::from(d) * u64::from(t) > u64::from(node) => self.data_parallel_bandwidth_between,
            _ => self.data_parallel_bandwidth_within,
        }
    }

    /// Whether a tensor-parallel group of `t` devices fits into nodes.
    #[must_use]
    pub fn allows_tensor_parallel(&self, t: u32) -> bool {
        self.devices_per_node.is_none_or(|node| node % t == 0)
    }
}

/// What another copy of shared weights costs, per device, at one tensor-parallel degree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TieCost {
    /// Bytes of the weights' gradient: added to `w` of a stage that holds a second copy, and exchanged with the
    /// other copies once a batch.
    pub weight_bytes: f64,
    /// Added to `b` of a stage that holds a second copy.
    pub memory_fixed: f64,
    /// Added to `o` of a stage that holds a second copy.
    pub memory_sharded: f64,
}

/// Layers that use the same weights (tied embeddings).
///
/// The first layer owns them: its own TMPCs pay for one copy. A stage that holds another of the layers but not the
/// owner pays [`TieCost`] once. Every stage that holds some but not all of the layers also spends
/// `f / 2 * weight_bytes / (N * stage_bandwidth)` on keeping the copies equal (part of its resync term).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tie {
    /// The layers; the first is the owner.
    pub layers: Vec<NodeId>,
    /// Degree `t` to the cost of a copy. A missing degree costs nothing.
    pub costs: BTreeMap<u32, TieCost>,
}

/// A pipeline-planning problem without its restrictions.
#[derive(Clone, Debug)]
pub struct Workload {
    graph: Graph,
    order: Vec<NodeId>,
    layers: Vec<Layer>,
    edge_bytes: Vec<f64>,
    ties: Vec<Tie>,
    /// `K`.
    pub devices: u32,
    /// `M`: usable bytes of one device, any reserve already taken off.
    pub memory: f64,
    /// `N`: microbatches in a batch.
    pub microbatches: u32,
    /// The links.
    pub network: Network,
    /// How tensors with several consumers are counted.
    pub transfer: Transfer,
}

/// What is wrong with the numbers of a would-be workload.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadError {
    /// There is no layer.
    NoLayers,
    /// The edges are no acyclic graph.
    Graph(GraphError),
    /// A number is negative, not finite, too large, or zero where it must not be.
    BadNumber {
        /// Which number, in words.
        what: String,
        /// Its value.
        value: f64,
    },
    /// A list has the wrong length or an index names nothing.
    BadShape(String),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLayers => write!(f, "the workload has no layers"),
            Self::Graph(GraphError::NoSuchNode { edge, node }) => {
                write!(f, "edge {edge} names layer {node}, which does not exist")
            }
            Self::Graph(GraphError::Cycle(nodes)) => {
                let names: Vec<String> = nodes.iter().take(8).map(|v| v.0.to_string()).collect();
                let more = if nodes.len() > names.len() { " -> ..." } else { "" };
                write!(f, "the edges close a cycle: {}{more}", names.join(" -> "))
            }
            Self::BadNumber { what, value } => {
                write!(f, "{what} is {value:?}; expected a finite number that is not negative and below 1e30")
            }
            Self::BadShape(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// Largest number of devices that a workload may have.
pub const MAX_DEVICES: u32 = 1 << 20;
/// Largest number of microbatches that a workload may have.
pub const MAX_MICROBATCHES: u32 = 1 << 30;
/// Numbers at or above this are refused, so that sums stay finite.
const TOO_LARGE: f64 = 1e30;

impl Workload {
    /// Checks and stores the numbers. `edges` are `(source, target, bytes per microbatch)`.
    ///
    /// Time and space linear in the input.
    ///
    /// # Errors
    /// [`WorkloadError`] names the first number, list or edge that cannot be.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        layers: Vec<Layer>,
        edges: &[(u32, u32, f64)],
        ties: Vec<Tie>,
        devices: u32,
        memory: f64,
        microbatches: u32,
        network: Network,
        transfer: Transfer,
    ) -> Result<Self, WorkloadError> {
        if layers.is_empty() {
            return Err(WorkloadError::NoLayers);
        }
        let pairs: Vec<(u32, u32)> = edges.iter().map(|&(u, v, _)| (u, v)).collect();
        let graph = Graph::new(layers.len(), &pairs).map_err(WorkloadError::Graph)?;
        let order = graph.topological_order().map_err(WorkloadError::Graph)?;
        let workload = Self {
            graph,
            order,
            layers,
            edge_bytes: edges.iter().map(|e| e.2).collect(),
            ties,
            devices,
            memory,
            microbatches,
            network,
            transfer,
        };
        workload.check()?;
        Ok(workload)
    }

    /// The layers' graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// A topological order of the layers.
    #[must_use]
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The layers, by [`NodeId`].
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// One layer.
    #[must_use]
    pub fn layer(&self, node: NodeId) -> &Layer {
        &self.layers[node.index()]
    }

    /// `c`: bytes of one microbatch on each edge, by [`crate::graph::EdgeId`].
    #[must_use]
    pub fn edge_bytes(&self) -> &[f64] {
        &self.edge_bytes
    }

    /// Shared weights.
    #[must_use]
    pub fn ties(&self) -> &[Tie] {
        &self.ties
    }

    /// The same with another number of devices, at least 1.
    #[must_use]
    pub fn with_devices(&self, devices: u32) -> Self {
        Self { devices: devices.clamp(1, MAX_DEVICES), ..self.clone() }
    }

    /// The same with another memory per device, in bytes.
    #[must_use]
    pub fn with_memory(&self, memory: f64) -> Self {
        Self { memory, ..self.clone() }
    }

    fn check(&self) -> Result<(), WorkloadError> {
        integer("the number of devices", self.devices, MAX_DEVICES)?;
        integer("the number of microbatches", self.microbatches, MAX_MICROBATCHES)?;
        amount("the memory per device", self.memory)?;
        let net = &self.network;
        positive("the bandwidth between stages", net.stage_bandwidth)?;
        positive("the data-parallel bandwidth within a node", net.data_parallel_bandwidth_within)?;
        positive("the data-parallel bandwidth between nodes", net.data_parallel_bandwidth_between)?;
        amount("the resync factor", net.resync_factor)?;
        if let Some(node) = net.devices_per_node {
            integer("the number of devices in a node", node, MAX_DEVICES)?;
        }
        for (edge, &bytes) in self.edge_bytes.iter().enumerate() {
            amount(&format!("the bytes of edge {edge}"), bytes)?;
        }
        for node in self.graph.nodes() {
            self.check_layer(node)?;
        }
        self.ties.iter().try_for_each(|tie| self.check_tie(tie))
    }

    fn check_layer(&self, node: NodeId) -> Result<(), WorkloadError> {
        let (ins, outs) = (self.graph.incoming(node).len(), self.graph.outgoing(node).len());
        for (&t, tmpcs) in &self.layer(node).tmpcs {
            let alike = |pair: &[Tmpc]| {
                pair[0].sync_forward == pair[1].sync_forward && pair[0].sync_backward == pair[1].sync_backward
            };
            if self.transfer == Transfer::Tensor && !tmpcs.windows(2).all(alike) {
                return Err(WorkloadError::BadShape(format!(
                    "the alternatives of layer {}, degree {t}, synchronise different bytes; that is possible only when \
                     every edge is its own transfer",
                    node.0
                )));
            }
            integer(&format!("a tensor-parallel degree of layer {}", node.0), t, MAX_DEVICES)?;
            for tmpc in tmpcs {
                let place = || format!("of layer {}, degree {t}, `{}`", node.0, tmpc.id);
                if tmpc.sync_forward.len() != ins || tmpc.sync_backward.len() != outs {
                    return Err(WorkloadError::BadShape(format!(
                        "the synchronisation lists {} have {} and {} entries; expected {ins} and {outs}",
                        place(),
                        tmpc.sync_forward.len(),
                        tmpc.sync_backward.len()
                    )));
                }
                let scalars = [
                    ("time", tmpc.time),
                    ("weight bytes", tmpc.weight_bytes),
                    ("memory per microbatch", tmpc.memory_per_microbatch),
                    ("fixed memory", tmpc.memory_fixed),
                    ("sharded memory", tmpc.memory_sharded),
                ];
                for (what, value) in scalars {
                    amount_at(|| format!("the {what} {}", place()), value)?;
                }
                for &value in tmpc.sync_forward.iter().chain(&tmpc.sync_backward) {
                    amount_at(|| format!("a synchronisation entry {}", place()), value)?;
                }
            }
        }
        Ok(())
    }

    fn check_tie(&self, tie: &Tie) -> Result<(), WorkloadError> {
        if tie.layers.len() < 2 || tie.layers.iter().any(|v| v.index() >= self.layers.len()) {
            return Err(WorkloadError::BadShape("shared weights need two layers that exist".to_owned()));
        }
        for cost in tie.costs.values() {
            amount("the bytes of shared weights", cost.weight_bytes)?;
            amount("the fixed memory of shared weights", cost.memory_fixed)?;
            amount("the sharded memory of shared weights", cost.memory_sharded)?;
        }
        Ok(())
    }
}

fn amount(what: &str, value: f64) -> Result<(), WorkloadError> {
    amount_at(|| what.to_owned(), value)
}

fn amount_at(what: impl Fn() -> String, value: f64) -> Result<(), WorkloadError> {
    if (0.0..TOO_LARGE).contains(&value) { Ok(()) } else { Err(WorkloadError::BadNumber { what: what(), value }) }
}

fn positive(what: &str, value: f64) -> Result<(), WorkloadError> {
    amount(what, value)?;
    if value > 0.0 { Ok(()) } else { Err(WorkloadError::BadShape(format!("{what} is 0; it must be larger"))) }
}

fn integer(what: &str, value: u32, max: u32) -> Result<(), WorkloadError> {
    if (1..=max).contains(&value) {
        Ok(())
    } else {
        Err(WorkloadError::BadShape(format!("{what} is {value}; expected 1 to {max}")))
    }
}
