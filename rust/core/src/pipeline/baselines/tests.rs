//! Simpler planners against answers worked out by hand.

use super::*;
use crate::graph::NodeId;
use crate::pipeline::{Layer, Network, Recompute, Tmpc, Transfer, judge};
use crate::progress::Unobserved;

const NETWORK: Network = Network {
    stage_bandwidth: 1e6,
    data_parallel_bandwidth_within: 1e6,
    data_parallel_bandwidth_between: 1e6,
    devices_per_node: None,
    resync_factor: 4.0,
};

/// A chain of an embedding, `blocks` equal blocks of 10 bytes a microbatch, and a head. Recomputation takes a third
/// more time and keeps a tenth.
fn chain(blocks: usize, devices: u32, memory: f64) -> Workload {
    let last = blocks + 1;
    let tmpc = |v: usize, id: &str, time: f64, a: f64, b: f64| Tmpc {
        id: id.to_owned(),
        time,
        weight_bytes: b,
        memory_per_microbatch: a,
        memory_fixed: b,
        memory_sharded: 0.0,
        sync_forward: vec![0.0; usize::from(v > 0)],
        sync_backward: vec![0.0; usize::from(v < last)],
    };
    let layer = |v: usize| {
        let (time, b) = if v == 0 || v == last { (1.0, 3.0) } else { (6.0, 2.0) };
        let both = vec![tmpc(v, "vanilla", time, 10.0, b), tmpc(v, "full recomp", time * 4.0 / 3.0, 1.0, b)];
        Layer { tmpcs: [(1, both)].into() }
    };
    let edges: Vec<(u32, u32, f64)> = (0..=blocks as u32).map(|u| (u, u + 1, 0.0)).collect();
    let layers = (0..=last).map(layer).collect();
    Workload::new(layers, &edges, Vec::new(), devices, memory, 24, NETWORK, Transfer::Edge).unwrap()
}

fn equal(workload: &Workload, limits: &Limits) -> Option<(f64, Vec<Vec<u32>>)> {
    let plan = equal_split(workload, limits, Schedule::Asynchronous, &mut Unobserved).unwrap()?;
    let score = judge::score(workload, limits, Schedule::Asynchronous, &plan);
    assert_eq!(score.violations, []);
    Some((score.value, plan.stages.iter().map(|s| s.layers.iter().map(|v| v.0).collect()).collect()))
}

fn stages(count: u32) -> Limits {
    Limits { data_parallel: Some(1), stages: Some(count), recompute: Recompute::Never, ..Limits::default() }
}

#[test]
fn blocks_are_dealt_out_and_the_ends_attached() {
    let workload = chain(4, 8, 1e3);
    let (value, split) = equal(&workload, &stages(2)).unwrap();
    assert_eq!(split, [vec![0, 1, 2], vec![3, 4, 5]]);
    assert!((value - 13.0).abs() < 1e-9, "{value}");
}

#[test]
fn ends_stand_alone_where_that_is_better() {
    let (value, split) = equal(&chain(4, 8, 1e3), &stages(6)).unwrap();
    assert_eq!(split, [[0], [1], [2], [3], [4], [5]]);
    assert!((value - 6.0).abs() < 1e-9, "{value}");
}

#[test]
fn counts_differ_by_one_where_stages_do_not_divide() {
    let (_, split) = equal(&chain(5, 8, 1e3), &stages(3)).unwrap();
    let sizes: Vec<usize> = split.iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 7);
    assert!(sizes.iter().all(|&n| (2..=3).contains(&n)), "{sizes:?}");
}

#[test]
fn memory_forces_recomputation_everywhere() {
    let limits = Limits { stages: Some(2), data_parallel: Some(1), ..Limits::default() };
    let (value, _) = equal(&chain(4, 2, 40.0), &limits).unwrap();
    assert!((value - 13.0 * 4.0 / 3.0).abs() < 1e-9, "{value}");
    assert_eq!(equal(&chain(4, 2, 40.0), &Limits { recompute: Recompute::Never, ..limits }), None);
}

#[test]
fn a_network_without_a_body_is_dealt_out_by_count() {
    let mut layers = chain(4, 8, 1e3).layers().to_vec();
    for (v, layer) in layers.iter_mut().enumerate() {
        layer.tmpcs.values_mut().flatten().for_each(|tmpc| tmpc.memory_fixed = v as f64);
    }
    let edges: Vec<(u32, u32, f64)> = (0..5).map(|u| (u, u + 1, 0.0)).collect();
    let workload = Workload::new(layers, &edges, Vec::new(), 8, 1e3, 24, NETWORK, Transfer::Edge).unwrap();
    assert_eq!(equal(&workload, &stages(3)).unwrap().1, [[0, 1], [2, 3], [4, 5]]);
}

#[test]
fn data_parallelism_uses_the_largest_divisor() {
    let found = baselines(&chain(4, 7, 1e3), &Limits::default(), Schedule::Asynchronous, &mut Unobserved).unwrap();
    let names: Vec<&str> = found.iter().map(|b| b.name).collect();
    assert_eq!(names, ["equal split", "data and tensor parallel", "data parallel"]);
    let plan = found[2].plan.as_ref().unwrap();
    assert_eq!((plan.stages.len(), plan.stages[0].data_parallel), (1, 6));
    assert_eq!(plan.stages[0].choices, [0; 6]);
}

/// The race may skip candidates, never the best one.
#[test]
fn no_candidate_beats_the_winner() {
    for schedule in [Schedule::Asynchronous, Schedule::GPipe, Schedule::OneFOneB] {
        for memory in [20.0, 40.0, 90.0, 300.0] {
            let workload = chain(7, 12, memory);
            let limits = Limits::default();
            let value = |plan: &Plan| {
                let score = judge::score(&workload, &limits, schedule, plan);
                if score.feasible() { score.value } else { f64::INFINITY }
            };
            let winner = equal_split(&workload, &limits, schedule, &mut Unobserved).unwrap();
            let winner = winner.as_ref().map_or(f64::INFINITY, value);
            let all = every_equal_chain(&workload);
            let best = all.iter().map(value).fold(f64::INFINITY, f64::min);
            assert_eq!(winner, best, "{schedule:?}, {memory}");
        }
    }
}

/// Equal splits of a chain of seven blocks and two ends, written down by hand.
fn every_equal_chain(workload: &Workload) -> Vec<Plan> {
    let sizes: &[&[u32]] = &[
        &[7],
        &[3, 4],
        &[4, 3],
        &[3, 2, 2],
        &[2, 2, 3],
        &[2, 3, 2],
        &[2, 2, 2, 1],
        &[1, 2, 2, 2],
        &[2, 2, 1, 1, 1],
        &[1, 1, 1, 2, 2],
        &[1, 1, 2, 1, 2],
        &[2, 1, 1, 1, 1, 1],
        &[1, 1, 1, 1, 1, 2],
        &[1; 7],
    ];
    let mut plans = Vec::new();
    for sizes in sizes {
        for (head, tail) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut counts: Vec<u32> = sizes.to_vec();
            counts[0] += u32::from(!head);
            counts[sizes.len() - 1] += u32::from(!tail);
            counts.splice(0..0, head.then_some(1));
            counts.extend(tail.then_some(1));
            for d in [1, 2, 3, 4, 6, 8, 12] {
                for choice in [0, 1] {
                    plans.push(line_plan(workload, &counts, d, choice));
                }
            }
        }
    }
    plans
}

fn line_plan(workload: &Workload, counts: &[u32], d: u32, choice: u32) -> Plan {
    let mut start = 0;
    let mut stages = Vec::new();
    for &count in counts {
        let layers: Vec<NodeId> = (start..start + count).map(NodeId).collect();
        let choices = vec![choice; layers.len()];
        stages.push(crate::pipeline::Stage { layers, data_parallel: d, tensor_parallel: 1, choices });
        start += count;
    }
    assert_eq!(start as usize, workload.layers().len());
    Plan { stages }
}
