//! What is asked for and what comes back.

use crate::graph::NodeId;

/// When the replicas of a pipeline exchange gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// 1F1B without a flush (`PipeDream-2BW`): the slowest stage sets the pace. The problem of the Piper paper.
    #[default]
    Asynchronous,
    /// All forward passes, then all backward passes, then the flush.
    GPipe,
    /// 1F1B with a flush at the end of every batch.
    OneFOneB,
}

/// Which recomputation variants may be used. A TMPC is one when its id contains `recomp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recompute {
    /// Both kinds, wherever they serve.
    #[default]
    Auto,
    /// None of them.
    Never,
    /// Only them, wherever a layer has one for the tensor-parallel degree.
    Always,
}

/// Restrictions that the user puts on plans. Everything open by default.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Largest data-parallel degree of a stage.
    pub max_data_parallel: Option<u32>,
    /// Largest tensor-parallel degree of a stage.
    pub max_tensor_parallel: Option<u32>,
    /// The one data-parallel degree that every stage must have.
    pub data_parallel: Option<u32>,
    /// The one tensor-parallel degree that every stage must have.
    pub tensor_parallel: Option<u32>,
    /// Exact number of stages.
    pub stages: Option<u32>,
    /// Largest number of stages.
    pub max_stages: Option<u32>,
    /// Which recomputation variants may be used.
    pub recompute: Recompute,
    /// `(layer, stage)`: the layer is in that stage, counted from 0 at the input.
    pub pins: Vec<(NodeId, u32)>,
    /// Layers of one group are in one stage.
    pub together: Vec<Vec<NodeId>>,
    /// No two layers of one group are in one stage.
    pub apart: Vec<Vec<NodeId>>,
}

/// One stage of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The layers, in increasing order.
    pub layers: Vec<NodeId>,
    /// Number of replicas, `d`.
    pub data_parallel: u32,
    /// Devices of one replica, `t`.
    pub tensor_parallel: u32,
    /// For each of `layers` the position of its TMPC in the layer's list for `t`.
    pub choices: Vec<u32>,
}

/// Stages in pipeline order, the input's first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The stages.
    pub stages: Vec<Stage>,
}
