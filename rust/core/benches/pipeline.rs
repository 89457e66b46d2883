//! The pieces of the pipeline planner on transformer-like workloads of growing size.

#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use piper_core::downsets::{Blocks, Lattice};
use piper_core::graph::Graph;
use piper_core::pipeline::{Layer, Limits, Network, Schedule, Settings, Tmpc, Transfer, Workload, score, solve};
use piper_core::progress::Unobserved;

/// Alternatives of a layer that takes `time` seconds on one device and has `weights` bytes.
fn layer(time: f64, weights: f64, activations: f64, ins: usize, outs: usize) -> Layer {
    let tmpcs = [1_u32, 2, 4, 8].map(|t| {
        let share = f64::from(t);
        let slower = 1.0 + 0.08 * share.log2();
        let one = |id: &str, factor: f64, kept: f64, fixed: f64| Tmpc {
            id: id.to_owned(),
            time: time * factor * slower / share,
            weight_bytes: weights / share,
            memory_per_microbatch: kept,
            memory_fixed: 6.0 * weights / share + fixed,
            memory_sharded: 0.0,
            sync_forward: vec![0.0; ins],
            sync_backward: vec![0.0; outs],
        };
        let full = activations / share;
        (t, vec![one("vanilla", 1.0, full, 0.0), one("recomp", 4.0 / 3.0, activations / 20.0, full)])
    });
    Layer { tmpcs: BTreeMap::from(tmpcs) }
}

/// A transformer of `blocks` blocks whose times differ a little, as profiled ones do.
fn transformer(blocks: usize, devices: u32, microbatches: u32) -> Workload {
    let layers = (0..blocks + 2)
        .map(|i| {
            let (ins, outs) = (usize::from(i > 0), usize::from(i <= blocks));
            let noise = 1.0 + 1e-3 * ((i * 7919) % 13) as f64;
            layer(0.03 * noise, 1.8e8, 6e8, ins, outs)
        })
        .collect();
    let edges: Vec<(u32, u32, f64)> = (0..=blocks as u32).map(|i| (i, i + 1, 1.6e7)).collect();
    let network = Network {
        stage_bandwidth: 2.5e10,
        data_parallel_bandwidth_within: 2.5e10,
        data_parallel_bandwidth_between: 2.5e10,
        devices_per_node: None,
        resync_factor: 4.0,
    };
    Workload::new(
        layers,
        &edges,
        Vec::new(),
        devices,
        8.0 * f64::from(1 << 30),
        microbatches,
        network,
        Transfer::Edge,
    )
    .unwrap()
}

fn solving(c: &mut Criterion) {
    let mut group = c.benchmark_group("solve");
    for (blocks, devices) in [(32, 64), (32, 2048), (96, 2048), (96, 16384)] {
        let workload = transformer(blocks, devices, 1920);
        let id = BenchmarkId::from_parameter(format!("{blocks} blocks, {devices} devices"));
        group.bench_with_input(id, &workload, |b, workload| {
            b.iter(|| {
                let limits = Limits::default();
                solve(black_box(workload), &limits, Schedule::Asynchronous, &Settings::default(), &mut Unobserved)
            });
        });
    }
    group.finish();
}

fn judging(c: &mut Criterion) {
    let workload = transformer(96, 2048, 1920);
    let limits = Limits::default();
    let outcome = solve(&workload, &limits, Schedule::Asynchronous, &Settings::default(), &mut Unobserved).unwrap();
    let plan = outcome.plan.unwrap();
    c.bench_function("judge 96 blocks", |b| {
        b.iter(|| score(black_box(&workload), &limits, Schedule::Asynchronous, &plan));
    });
}

/// A ladder: two chains of the same length with rungs between them, as an encoder beside a decoder.
fn enumerating(c: &mut Criterion) {
    let mut group = c.benchmark_group("downsets of a ladder");
    for length in [40_u32, 120] {
        let chains = (0..length - 1).flat_map(|i| [(i, i + 1), (length + i, length + i + 1)]);
        let rungs = (0..length).step_by(8).map(|i| (i, length + i));
        let edges: Vec<(u32, u32)> = chains.chain(rungs).collect();
        let blocks = Blocks::new(&Graph::new(2 * length as usize, &edges).unwrap(), &[]);
        group.bench_with_input(BenchmarkId::from_parameter(length), &blocks, |b, blocks| {
            b.iter(|| Lattice::enumerate(black_box(blocks), usize::MAX, |_| Ok::<(), ()>(())).map(|l| l.len()));
        });
    }
    group.finish();
}

criterion_group!(benches, solving, judging, enumerating);
criterion_main!(benches);
