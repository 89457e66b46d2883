//! The search against every plan of small chains, as the judge scores them.

use std::collections::BTreeMap;

use crate::graph::NodeId;
use crate::pipeline::{
    Layer, Limits, Network, Plan, Schedule, Settings, Stage, Tie, TieCost, Tmpc, Transfer, Workload, score, solve,
};
use crate::progress::{Progress, Status, Stop, Unobserved};

const SCHEDULES: [Schedule; 2] = [Schedule::GPipe, Schedule::OneFOneB];

/// A small deterministic generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn number(&mut self, n: u64) -> f64 {
        self.below(n) as f64
    }
}

/// A chain; every other one has alternatives that differ in weights, too.
fn chain(random: &mut Random, layers: usize, devices: u32, microbatches: u32) -> Workload {
    let mixed = random.below(2) == 0;
    let scale = if random.below(2) == 0 { 4 } else { 1000 };
    let mut all = Vec::new();
    for v in 0..layers {
        let mut tmpcs = BTreeMap::new();
        for t in [1, 2] {
            let weight_bytes = random.number(scale);
            let alternatives = (0..1 + random.below(2)).map(|_| Tmpc {
                id: "vanilla".to_owned(),
                time: random.number(scale),
                weight_bytes: if mixed { random.number(scale) } else { weight_bytes },
                memory_per_microbatch: random.number(scale),
                memory_fixed: random.number(scale),
                memory_sharded: if mixed { random.number(scale) } else { 0.0 },
                sync_forward: vec![1.0; usize::from(v > 0)],
                sync_backward: vec![2.0; usize::from(v + 1 < layers)],
            });
            tmpcs.insert(t, alternatives.collect());
        }
        all.push(Layer { tmpcs });
    }
    let edges: Vec<(u32, u32, f64)> = (1..layers as u32).map(|v| (v - 1, v, random.number(scale))).collect();
    let cost = TieCost { weight_bytes: random.number(scale), memory_fixed: 1.0, memory_sharded: 1.0 };
    let ends = vec![NodeId(0), NodeId(layers as u32 - 1)];
    let ties = if random.below(3) == 0 {
        vec![Tie { layers: ends, costs: BTreeMap::from([(1, cost), (2, cost)]) }]
    } else {
        Vec::new()
    };
    let network = Network {
        stage_bandwidth: 2.0,
        data_parallel_bandwidth_within: 3.0,
        data_parallel_bandwidth_between: 1.0,
        devices_per_node: Some(2),
        resync_factor: 4.0,
    };
    let memory = (1.0 + random.number(6)) * scale as f64;
    Workload::new(all, &edges, ties, devices, memory, microbatches, network, Transfer::Edge).unwrap()
}

/// Least value of the feasible plans, and the fewest devices of those that have it.
fn enumerate(workload: &Workload, schedule: Schedule) -> Option<(f64, u64)> {
    let mut best: Option<(f64, u64)> = None;
    extend(workload, 0, &mut Plan::default(), &mut |plan| {
        let verdict = score(workload, &Limits::default(), schedule, plan);
        if verdict.feasible() {
            let (value, devices) = best.unwrap_or((f64::INFINITY, u64::MAX));
            let equal = (verdict.value - value).abs() <= 1e-11 * value;
            if equal {
                best = Some((value.min(verdict.value), devices.min(verdict.devices)));
            } else if verdict.value < value {
                best = Some((verdict.value, verdict.devices));
            }
        }
    });
    best
}

fn extend(workload: &Workload, first: usize, plan: &mut Plan, visit: &mut impl FnMut(&Plan)) {
    let layers = workload.layers().len();
    if first == layers {
        visit(plan);
        return;
    }
    for end in first + 1..=layers {
        for tensor_parallel in [1, 2] {
            let counts: Vec<u32> =
                (first..end).map(|v| workload.layer(NodeId(v as u32)).tmpcs[&tensor_parallel].len() as u32).collect();
            for number in 0..counts.iter().product() {
                let mut rest = number;
                let choices = counts.iter().map(|count| (rest % count, rest /= count).0).collect();
                for data_parallel in 1..=workload.devices / tensor_parallel {
                    let layers = (first..end).map(|v| NodeId(v as u32)).collect();
                    let choices = Vec::clone(&choices);
                    plan.stages.push(Stage { layers, data_parallel, tensor_parallel, choices });
                    extend(workload, end, plan, visit);
                    plan.stages.pop();
                }
            }
        }
    }
}

#[test]
fn agrees_with_enumeration() {
    let mut random = Random(1);
    for round in 0..150 {
        let microbatches = [2, 4, 6][random.below(3) as usize];
        let layers = 1 + random.below(3) as usize;
        let workload = chain(&mut random, layers, 1 + round % 5, microbatches);
        for schedule in SCHEDULES {
            let truth = enumerate(&workload, schedule);
            let found =
                solve(&workload, &Limits::default(), schedule, &Settings::default(), &mut Unobserved).unwrap();
            assert!(found.stopped.is_none());
            let Some((value, devices)) = truth else {
                assert!(found.plan.is_none() && found.lower_bound.is_infinite(), "round {round}");
                continue;
            };
            let verdict = score(&workload, &Limits::default(), schedule, &found.plan.unwrap());
            assert_eq!(verdict.violations, Vec::new());
            assert!((verdict.value - value).abs() <= 1e-11 * value, "round {round}: {} {value}", verdict.value);
            assert!((found.lower_bound - value).abs() <= 1e-11 * value, "round {round}: {}", found.lower_bound);
            assert_eq!(verdict.devices, devices, "round {round}");
        }
    }
}

#[test]
fn a_gap_ends_the_search_with_a_true_bound() {
    let mut random = Random(2);
    for _ in 0..50 {
        let workload = chain(&mut random, 4, 8, 24);
        for schedule in SCHEDULES {
            let limits = Limits::default();
            let best = solve(&workload, &limits, schedule, &Settings::default(), &mut Unobserved).unwrap();
            let settings = Settings { gap: 0.2, ..Settings::default() };
            let rough = solve(&workload, &limits, schedule, &settings, &mut Unobserved).unwrap();
            assert_eq!(best.plan.is_some(), rough.plan.is_some());
            if let Some(plan) = rough.plan {
                let value = score(&workload, &limits, schedule, &plan).value;
                assert!(rough.lower_bound <= best.lower_bound * (1.0 + 1e-11));
                assert!(value <= rough.lower_bound * 1.2 * (1.0 + 1e-11));
            }
        }
    }
}

/// Stops after some calls.
struct After(u32);

impl Progress for After {
    fn tick(&mut self, _: Status) -> Result<(), Stop> {
        self.0 = self.0.checked_sub(1).ok_or(Stop::Interrupted)?;
        Ok(())
    }
}

#[test]
fn a_search_that_is_stopped_keeps_its_best_and_a_true_bound() {
    let mut random = Random(3);
    let (mut plans, limits) = (0, Limits::default());
    for round in 0..100 {
        let workload = chain(&mut random, 4, 8, 24);
        for schedule in SCHEDULES {
            let best = solve(&workload, &limits, schedule, &Settings::default(), &mut Unobserved).unwrap();
            let stopped = solve(&workload, &limits, schedule, &Settings::default(), &mut After(20 * round)).unwrap();
            assert!(stopped.lower_bound <= best.lower_bound * (1.0 + 1e-11));
            if let Some(plan) = stopped.plan {
                let verdict = score(&workload, &limits, schedule, &plan);
                assert!(verdict.feasible() && verdict.value >= best.lower_bound * (1.0 - 1e-11));
                plans += u32::from(stopped.stopped.is_some());
            }
        }
    }
    assert!(plans > 0, "no search was stopped after its first plan");
}
