//! A workload under its limits, in the form in which the search asks for it.

use crate::downsets::Blocks;
use crate::graph::NodeId;
use crate::pipeline::knapsack::{Choice, MenuId, Menus};
use crate::pipeline::{Limits, Recompute, Tmpc, Workload, WorkloadError};

/// Relative slack of comparisons between sums that were added up in different orders.
pub(crate) const SLACK: f64 = 1e-12;

/// One data-parallel degree at some tensor-parallel degree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Degree {
    /// `d`.
    pub(crate) data_parallel: u32,
    /// `t * d`.
    pub(crate) devices: u32,
    /// Time that one byte of `w` adds to `d * load`.
    pub(crate) resync: f64,
}

/// The alternatives of one layer at one tensor-parallel degree that no other one beats in everything.
#[derive(Clone, Debug)]
pub(crate) struct Alternatives {
    /// Positions in the workload's list.
    pub(crate) positions: Vec<u32>,
    /// The menu of times and memories, when the alternatives differ in nothing else.
    pub(crate) menu: Option<MenuId>,
    /// Least time.
    pub(crate) fastest: f64,
}

/// A workload under its limits.
pub(crate) struct Problem<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) limits: &'a Limits,
    pub(crate) blocks: Blocks,
    /// Tensor-parallel degrees that a stage may have, increasing.
    pub(crate) tensor_parallel: Vec<u32>,
    /// For each of them the data-parallel degrees, increasing.
    pub(crate) degrees: Vec<Vec<Degree>>,
    /// By layer, then by position in `tensor_parallel`.
    pub(crate) alternatives: Vec<Vec<Option<Alternatives>>>,
    pub(crate) menus: Menus,
    /// Least device time of each layer: `t * p`, over all alternatives.
    pub(crate) work: Vec<f64>,
    /// Usable bytes of a device, with slack.
    pub(crate) capacity: f64,
}

impl<'a> Problem<'a> {
    /// Checks the limits and compiles the tables.
    ///
    /// Time `O(V T A^2)` for `T` degrees and `A` alternatives.
    pub(crate) fn new(workload: &'a Workload, limits: &'a Limits) -> Result<Self, WorkloadError> {
        check(workload, limits)?;
        let tensor_parallel = tensor_parallel_degrees(workload, limits);
        let degrees = tensor_parallel.iter().map(|&t| data_parallel_degrees(workload, limits, t)).collect();
        let mut menus = Menus::default();
        let mut work = Vec::with_capacity(workload.layers().len());
        let mut alternatives = Vec::with_capacity(workload.layers().len());
        for layer in workload.layers() {
            let mut by_degree = Vec::with_capacity(tensor_parallel.len());
            let mut least = f64::INFINITY;
            for &t in &tensor_parallel {
                let tmpcs = layer.tmpcs.get(&t).map_or(&[][..], Vec::as_slice);
                let found = undominated(tmpcs, limits.recompute, &mut menus);
                if let Some(found) = &found {
                    least = least.min(f64::from(t) * found.fastest);
                }
                by_degree.push(found);
            }
            alternatives.push(by_degree);
            work.push(least);
        }
        Ok(Self {
            workload,
            limits,
            blocks: Blocks::new(workload.graph(), &limits.together),
            tensor_parallel,
            degrees,
            alternatives,
            menus,
            work,
            capacity: workload.memory * (1.0 + SLACK),
        })
    }

    /// One TMPC of the workload.
    pub(crate) fn tmpc(&self, node: NodeId, degree: usize, position: u32) -> &'a Tmpc {
        &self.workload.layer(node).tmpcs[&self.tensor_parallel[degree]][position as usize]
    }

    /// The largest sum of data-parallel degrees.
    pub(crate) fn most_replicas(&self) -> u32 {
        self.workload.devices.min(self.workload.microbatches)
    }
}

fn check(workload: &Workload, limits: &Limits) -> Result<(), WorkloadError> {
    let layers = workload.layers().len();
    let bad = |text: String| Err(WorkloadError::BadShape(text));
    let named = limits.pins.iter().map(|p| p.0).chain(limits.together.iter().chain(&limits.apart).flatten().copied());
    for node in named {
        if node.index() >= layers {
            return bad(format!("a restriction names layer {}; there are {layers}", node.0));
        }
    }
    for &(node, stage) in &limits.pins {
        if stage as usize >= layers {
            return bad(format!("layer {} is pinned to stage {stage}; {layers} layers make fewer stages", node.0));
        }
    }
    let degrees = [
        ("the largest data-parallel degree", limits.max_data_parallel),
        ("the largest tensor-parallel degree", limits.max_tensor_parallel),
        ("the data-parallel degree", limits.data_parallel),
        ("the tensor-parallel degree", limits.tensor_parallel),
        ("the number of stages", limits.stages),
        ("the largest number of stages", limits.max_stages),
    ];
    for (what, value) in degrees {
        if value == Some(0) {
            return bad(format!("{what} is 0; expected at least 1"));
        }
    }
    Ok(())
}

fn tensor_parallel_degrees(workload: &Workload, limits: &Limits) -> Vec<u32> {
    let mut degrees: Vec<u32> = workload.layers().iter().flat_map(|l| l.tmpcs.keys().copied()).collect();
    degrees.sort_unstable();
    degrees.dedup();
    degrees.retain(|&t| {
        t <= workload.devices
            && limits.max_tensor_parallel.is_none_or(|most| t <= most)
            && limits.tensor_parallel.is_none_or(|only| t == only)
            && workload.network.allows_tensor_parallel(t)
    });
    degrees
}

fn data_parallel_degrees(workload: &Workload, limits: &Limits, t: u32) -> Vec<Degree> {
    let n = workload.microbatches;
    let most = (workload.devices / t).min(n).min(limits.max_data_parallel.unwrap_or(u32::MAX));
    let allowed = |d: &u32| limits.data_parallel.is_none_or(|only| *d == only);
    divisors(n)
        .into_iter()
        .take_while(|&d| d <= most)
        .filter(allowed)
        .map(|d| {
            let bandwidth = workload.network.data_parallel_bandwidth(d, t);
            let resync = workload.network.resync_factor * f64::from(d - 1) / (f64::from(n) * bandwidth);
            Degree { data_parallel: d, devices: d * t, resync }
        })
        .collect()
}

/// Divisors of `n`, increasing. Time `O(sqrt n)`.
fn divisors(n: u32) -> Vec<u32> {
    let small: Vec<u32> = (1..)
        .take_while(|d| u64::from(*d) * u64::from(*d) <= u64::from(n))
        .filter(|&d| n.is_multiple_of(d))
        .collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| u64::from(*d) * u64::from(*d) > u64::from(n));
    small.iter().copied().chain(large).collect()
}

/// What the alternatives of a layer share when only time and memory set them apart.
fn shared(tmpc: &Tmpc) -> (f64, f64, &[f64], &[f64]) {
    (tmpc.weight_bytes, tmpc.memory_sharded, &tmpc.sync_forward, &tmpc.sync_backward)
}

fn undominated(tmpcs: &[Tmpc], recompute: Recompute, menus: &mut Menus) -> Option<Alternatives> {
    let some_recompute = tmpcs.iter().any(Tmpc::recomputes);
    let allowed = |tmpc: &Tmpc| match recompute {
        Recompute::Auto => true,
        Recompute::Never => !tmpc.recomputes(),
        Recompute::Always => tmpc.recomputes() || !some_recompute,
    };
    let candidates: Vec<u32> = (0..tmpcs.len() as u32).filter(|&i| allowed(&tmpcs[i as usize])).collect();
    let beaten = |i: u32| {
        candidates.iter().any(|&j| {
            let (a, b) = (&tmpcs[j as usize], &tmpcs[i as usize]);
            j != i && beats(a, b) && (j < i || !beats(b, a))
        })
    };
    let positions: Vec<u32> = candidates.iter().copied().filter(|&i| !beaten(i)).collect();
    let first = tmpcs.get(*positions.first()? as usize)?;
    let of = |&i: &u32| &tmpcs[i as usize];
    let menu = positions.iter().map(of).all(|tmpc| shared(tmpc) == shared(first)).then(|| {
        let choice = |tmpc: &Tmpc| Choice {
            time: tmpc.time,
            per_microbatch: tmpc.memory_per_microbatch,
            fixed: tmpc.memory_fixed,
        };
        menus.intern(positions.iter().map(of).map(choice).collect())
    });
    let fastest = positions.iter().map(of).map(|tmpc| tmpc.time).fold(f64::INFINITY, f64::min);
    Some(Alternatives { positions, menu, fastest })
}

/// Whether `a` is at least as good as `b` in every number.
fn beats(a: &Tmpc, b: &Tmpc) -> bool {
    let scalars = |t: &Tmpc| [t.time, t.weight_bytes, t.memory_per_microbatch, t.memory_fixed, t.memory_sharded];
    let no_more = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| x <= y);
    no_more(&scalars(a), &scalars(b))
        && no_more(&a.sync_forward, &b.sync_forward)
        && no_more(&a.sync_backward, &b.sync_backward)
}
