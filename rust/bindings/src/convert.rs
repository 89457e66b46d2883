//! Python's dataclasses to the core's types and back.
//!
//! The structs here mirror those of `piper.workload`, field by field; extraction errors name them by the same words.

use std::collections::BTreeMap;

use piper_core::graph::NodeId;
use piper_core::pipeline as core;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PySequence};

use crate::errors::Failure;

/// A stage as Python gets it: layers, data-parallel degree, tensor-parallel degree, choices.
pub(crate) type StageTuple = (Vec<u32>, u32, u32, Vec<u32>);
/// A plan as Python gets it.
pub(crate) type StageTuples = Vec<StageTuple>;

/// A sequence whose extraction errors say which item is wrong.
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Items<T> {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let sequence = obj.cast::<PySequence>()?;
        let mut items = Vec::new();
        for (index, item) in sequence.try_iter()?.enumerate() {
            items.push(extract(&item?).map_err(|error| at(obj.py(), &index.to_string(), error))?);
        }
        Ok(Self(items))
    }
}

/// A mapping from tensor-parallel degrees.
struct ByDegree<T>(BTreeMap<u32, T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for ByDegree<T> {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut map = BTreeMap::new();
        for item in obj.cast::<PyMapping>()?.items()? {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
            let place = |error: PyErr| at(obj.py(), &key.to_string(), error);
            map.insert(extract(&key).map_err(place)?, extract(&value).map_err(place)?);
        }
        Ok(Self(map))
    }
}

/// Extracts with a uniform error.
pub(crate) fn extract<'py, T: FromPyObjectOwned<'py>>(obj: &Bound<'py, PyAny>) -> PyResult<T> {
    obj.extract().map_err(Into::into)
}

/// Extracts an argument; errors name it.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py>>(
    name: &'static str,
    value: &Bound<'py, PyAny>,
) -> Result<T, Failure> {
    extract(value).map_err(|error| Failure::Conversion { argument: name, error })
}

/// Prefix of the errors that [`at`] makes.
const ITEM: &str = "failed to extract item ";

fn at(py: Python<'_>, index: &str, cause: PyErr) -> PyErr {
    let error = PyTypeError::new_err(format!("{ITEM}{index}"));
    error.set_cause(py, Some(cause));
    error
}

/// One line out of a chain of extraction errors: `workload.layers[3].tmpcs[1][0].time: must be real number, not str`.
pub(crate) fn describe(py: Python<'_>, argument: &str, error: PyErr) -> String {
    let mut path = argument.to_owned();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.value(py).to_string();
        if let Some(index) = text.strip_prefix(ITEM) {
            path.push_str(&format!("[{}]", index.lines().next().unwrap_or_default()));
        } else if let Some(field) = text.strip_prefix("failed to extract field ") {
            path.push('.');
            path.push_str(field.rsplit('.').next().unwrap_or(field));
        } else {
            return format!("{path}: {}", text.lines().next().unwrap_or_default());
        }
        next = error.cause(py);
    }
    path
}

/// A limit such as a number of bytes: larger integers than the core can count are no limit at all.
#[derive(Clone, Copy)]
pub(crate) struct Amount(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Amount {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match obj.extract() {
            Ok(amount) => Ok(Self(amount)),
            Err(error) if error.is_instance_of::<PyOverflowError>(obj.py()) && obj.gt(0)? => Ok(Self(u64::MAX)),
            Err(error) => Err(error),
        }
    }
}

#[derive(FromPyObject)]
struct Tmpc {
    id: String,
    time: f64,
    weight_bytes: f64,
    memory_per_microbatch: f64,
    memory_fixed: f64,
    memory_sharded: f64,
    sync_forward: Items<f64>,
    sync_backward: Items<f64>,
}

#[derive(FromPyObject)]
struct Layer {
    tmpcs: ByDegree<Items<Tmpc>>,
}

#[derive(FromPyObject)]
struct Edge {
    source: u32,
    target: u32,
    bytes: f64,
}

#[derive(FromPyObject)]
struct Network {
    stage_bandwidth: f64,
    data_parallel_bandwidth_within: f64,
    data_parallel_bandwidth_between: f64,
    devices_per_node: Option<u32>,
    resync_factor: f64,
}

#[derive(FromPyObject)]
struct TieCost {
    weight_bytes: f64,
    memory_fixed: f64,
    memory_sharded: f64,
}

#[derive(FromPyObject)]
struct Tie {
    layers: Items<u32>,
    costs: ByDegree<TieCost>,
}

/// `piper.workload.Workload`.
#[derive(FromPyObject)]
pub(crate) struct Workload {
    layers: Items<Layer>,
    edges: Items<Edge>,
    devices: u32,
    memory_bytes: f64,
    microbatches: u32,
    network: Network,
    reserve_bytes: f64,
    transfer: Transfer,
    ties: Items<Tie>,
}

/// `piper.workload.Limits`.
#[derive(FromPyObject)]
pub(crate) struct Limits {
    max_data_parallel: Option<u32>,
    max_tensor_parallel: Option<u32>,
    data_parallel: Option<u32>,
    tensor_parallel: Option<u32>,
    stages: Option<u32>,
    max_stages: Option<u32>,
    recompute: Recompute,
    pins: Items<(u32, u32)>,
    together: Items<Items<u32>>,
    apart: Items<Items<u32>>,
}

/// `piper.workload.Stage`.
#[derive(FromPyObject)]
struct Stage {
    layers: Items<u32>,
    data_parallel: u32,
    tensor_parallel: u32,
    choices: Items<u32>,
}

/// A list of stages.
pub(crate) struct Stages(Items<Stage>);

impl<'py> FromPyObject<'_, 'py> for Stages {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        obj.extract().map(Self)
    }
}

/// Declares a type that is one of a few words in Python.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $core:ty { $($word:literal => $value:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $core);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                match obj.extract::<String>()?.as_str() {
                    $($word => Ok(Self($value)),)+
                    other => {
                        let words = [$($word),+].join(", ");
                        Err(pyo3::exceptions::PyValueError::new_err(format!("{other:?}; expected one of {words}")))
                    }
                }
            }
        }
    };
}

pub(crate) use words;

words! {
    /// `piper.workload.Schedule`.
    Schedule: core::Schedule {
        "async" => core::Schedule::Asynchronous,
        "gpipe" => core::Schedule::GPipe,
        "1f1b" => core::Schedule::OneFOneB,
    }
}

words! {
    /// `piper.workload.Recompute`.
    Recompute: core::Recompute {
        "auto" => core::Recompute::Auto,
        "never" => core::Recompute::Never,
        "always" => core::Recompute::Always,
    }
}

words! {
    /// `piper.workload.Transfer`.
    Transfer: core::Transfer {
        "edge" => core::Transfer::Edge,
        "tensor" => core::Transfer::Tensor,
    }
}

impl Workload {
    pub(crate) fn into_core(self) -> Result<core::Workload, core::WorkloadError> {
        let usable = self.memory_bytes - self.reserve_bytes;
        let edges: Vec<(u32, u32, f64)> = self.edges.0.iter().map(|e| (e.source, e.target, e.bytes)).collect();
        core::Workload::new(
            self.layers.0.into_iter().map(Layer::into_core).collect(),
            &edges,
            self.ties.0.into_iter().map(Tie::into_core).collect(),
            self.devices,
            // Not `max`: that would turn a NaN into 0 instead of an error.
            if usable < 0.0 { 0.0 } else { usable },
            self.microbatches,
            self.network.into_core(),
            self.transfer.0,
        )
    }
}

impl Layer {
    fn into_core(self) -> core::Layer {
        let alternatives = |list: Items<Tmpc>| list.0.into_iter().map(Tmpc::into_core).collect();
        core::Layer { tmpcs: self.tmpcs.0.into_iter().map(|(t, list)| (t, alternatives(list))).collect() }
    }
}

impl Tmpc {
    fn into_core(self) -> core::Tmpc {
        core::Tmpc {
            id: self.id,
            time: self.time,
            weight_bytes: self.weight_bytes,
            memory_per_microbatch: self.memory_per_microbatch,
            memory_fixed: self.memory_fixed,
            memory_sharded: self.memory_sharded,
            sync_forward: self.sync_forward.0,
            sync_backward: self.sync_backward.0,
        }
    }
}

impl Tie {
    fn into_core(self) -> core::Tie {
        core::Tie {
            layers: nodes(self.layers),
            costs: self.costs.0.into_iter().map(|(t, c)| (t, c.into_core())).collect(),
        }
    }
}

impl TieCost {
    fn into_core(self) -> core::TieCost {
        core::TieCost {
            weight_bytes: self.weight_bytes,
            memory_fixed: self.memory_fixed,
            memory_sharded: self.memory_sharded,
        }
    }
}

impl Network {
    fn into_core(self) -> core::Network {
        core::Network {
            stage_bandwidth: self.stage_bandwidth,
            data_parallel_bandwidth_within: self.data_parallel_bandwidth_within,
            data_parallel_bandwidth_between: self.data_parallel_bandwidth_between,
            devices_per_node: self.devices_per_node,
            resync_factor: self.resync_factor,
        }
    }
}

impl Limits {
    pub(crate) fn into_core(self) -> core::Limits {
        core::Limits {
            max_data_parallel: self.max_data_parallel,
            max_tensor_parallel: self.max_tensor_parallel,
            data_parallel: self.data_parallel,
            tensor_parallel: self.tensor_parallel,
            stages: self.stages,
            max_stages: self.max_stages,
            recompute: self.recompute.0,
            pins: self.pins.0.into_iter().map(|(layer, stage)| (NodeId(layer), stage)).collect(),
            together: self.together.0.into_iter().map(nodes).collect(),
            apart: self.apart.0.into_iter().map(nodes).collect(),
        }
    }
}

impl Stages {
    pub(crate) fn into_core(self) -> core::Plan {
        let stage = |stage: Stage| core::Stage {
            layers: nodes(stage.layers),
            data_parallel: stage.data_parallel,
            tensor_parallel: stage.tensor_parallel,
            choices: stage.choices.0,
        };
        core::Plan { stages: self.0.0.into_iter().map(stage).collect() }
    }
}

pub(crate) fn nodes(positions: Items<u32>) -> Vec<NodeId> {
    positions.0.into_iter().map(NodeId).collect()
}

/// A plan for Python.
pub(crate) fn stage_tuples(plan: core::Plan) -> StageTuples {
    let tuple = |stage: core::Stage| {
        let layers = stage.layers.into_iter().map(|v| v.0).collect();
        (layers, stage.data_parallel, stage.tensor_parallel, stage.choices)
    };
    plan.stages.into_iter().map(tuple).collect()
}
