//! The judge against numbers worked out by hand.

use std::collections::BTreeMap;

use super::*;
use crate::graph::NodeId;
use crate::pipeline::{Layer, Network, Recompute, Stage, Tie, TieCost, Tmpc, Transfer};

const NETWORK: Network = Network {
    stage_bandwidth: 10.0,
    data_parallel_bandwidth_within: 10.0,
    data_parallel_bandwidth_between: 10.0,
    devices_per_node: None,
    resync_factor: 4.0,
};

fn tmpc(id: &str, time: f64, w: f64, a: f64, b: f64, ins: &[f64], outs: &[f64]) -> Tmpc {
    Tmpc {
        id: id.to_owned(),
        time,
        weight_bytes: w,
        memory_per_microbatch: a,
        memory_fixed: b,
        memory_sharded: 0.0,
        sync_forward: ins.to_vec(),
        sync_backward: outs.to_vec(),
    }
}

fn layer(alternatives: &[(u32, Vec<Tmpc>)]) -> Layer {
    Layer { tmpcs: alternatives.iter().cloned().collect() }
}

fn ids(layers: &[u32]) -> Vec<NodeId> {
    layers.iter().copied().map(NodeId).collect()
}

fn stage(layers: &[u32], d: u32, t: u32, choices: &[u32]) -> Stage {
    Stage { layers: ids(layers), data_parallel: d, tensor_parallel: t, choices: choices.to_vec() }
}

fn plan(stages: &[Stage]) -> Plan {
    Plan { stages: stages.to_vec() }
}

/// Layers 0 -> 1 -> 2 and 0 -> 2; edges carry 5, 7 and 3 bytes.
fn diamond(ties: Vec<Tie>, transfer: Transfer, network: Network) -> Workload {
    let layers = vec![
        layer(&[(1, vec![tmpc("vanilla", 4.0, 20.0, 10.0, 1.0, &[], &[1.0, 2.0])])]),
        layer(&[
            (
                1,
                vec![
                    tmpc("vanilla", 6.0, 40.0, 20.0, 2.0, &[0.5], &[0.25]),
                    tmpc("full recomp", 8.0, 40.0, 5.0, 3.0, &[0.5], &[0.25]),
                ],
            ),
            (2, vec![tmpc("vanilla", 3.5, 20.0, 10.0, 1.0, &[4.0], &[8.0])]),
        ]),
        layer(&[(1, vec![tmpc("vanilla", 2.0, 8.0, 30.0, 4.0, &[1.5, 2.5], &[])])]),
    ];
    let edges = [(0, 1, 5.0), (1, 2, 7.0), (0, 2, 3.0)];
    Workload::new(layers, &edges, ties, 8, 100.0, 8, network, transfer).unwrap()
}

fn published() -> Workload {
    diamond(Vec::new(), Transfer::Edge, NETWORK)
}

fn judge(workload: &Workload, plan: &Plan) -> Score {
    score(workload, &Limits::default(), Schedule::Asynchronous, plan)
}

fn close(left: f64, right: f64) {
    assert!((left - right).abs() <= 1e-12 * right.abs().max(1.0), "{left} is not {right}");
}

fn rules(score: &Score) -> Vec<(Rule, &str, f64)> {
    score.violations.iter().map(|v| (v.rule, v.place.as_str(), v.excess)).collect()
}

#[test]
fn one_stage_only_computes() {
    let score = judge(&published(), &plan(&[stage(&[0, 1, 2], 1, 1, &[0, 0, 0])]));
    assert_eq!(rules(&score), []);
    assert_eq!((score.value, score.devices), (12.0, 1));
    assert_eq!((score.stages[0].memory, score.stages[0].in_flight), (67.0, 1));
}

#[test]
fn loads_follow_the_published_formula() {
    let score = judge(&published(), &plan(&[stage(&[0], 4, 1, &[0]), stage(&[1, 2], 2, 1, &[1, 0])]));
    assert_eq!(rules(&score), []);
    assert_eq!(score.devices, 6);
    // Out of layer 0: 5 + 1 and 3 + 2 bytes, over four replicas; 4 * 3 * 20 / (4 * 8 * 10) to synchronise.
    let first = score.stages[0];
    close(first.compute, 1.0);
    close(first.transfer, 2.0 / 40.0 * 11.0);
    close(first.resync, 0.75);
    close(first.load, 1.0 + 0.55 + 0.75);
    // Six replicas follow, so each of four has two microbatches in flight.
    assert_eq!(first.in_flight, 2);
    close(first.memory, 21.0);
    // Into 1: 5 + 0.5; into 2 from 0: 3 + 2.5; over two replicas; 4 * 1 * 48 / (2 * 8 * 10).
    let second = score.stages[1];
    close(second.compute, 5.0);
    close(second.transfer, 2.0 / 20.0 * 11.0);
    close(second.resync, 1.2);
    assert_eq!(second.in_flight, 1);
    close(second.memory, 5.0 + 3.0 + 30.0 + 4.0);
    close(score.value, 5.0 + 1.1 + 1.2);
}

#[test]
fn in_flight_rounds_up() {
    let stages = [stage(&[0], 2, 1, &[0]), stage(&[1], 1, 2, &[0]), stage(&[2], 4, 1, &[0])];
    let score = judge(&published(), &plan(&stages));
    let in_flight: Vec<u64> = score.stages.iter().map(|s| s.in_flight).collect();
    assert_eq!(in_flight, [4, 5, 1]);
    assert_eq!(score.devices, 8);
    assert_eq!(rules(&score), []);
    // Into layer 1 at degree 2: 5 + 4; out of it: 7 + 8.
    close(score.stages[1].transfer, 2.0 / 10.0 * 24.0);
}

#[test]
fn a_flush_adds_the_other_stages_and_the_longest_resync() {
    let stages = plan(&[stage(&[0], 2, 1, &[0]), stage(&[1, 2], 1, 1, &[0, 0])]);
    let score = score(&published(), &Limits::default(), Schedule::GPipe, &stages);
    // Microbatch times 4 + 2.2 and 8 + 2.2; stage 0 takes half of the 8 microbatches on each replica.
    let (first, second, resync) = (6.2, 10.2, 4.0 * 20.0 / (2.0 * 10.0));
    close(score.value, (8.0 * second + first + resync) / 8.0);
    let in_flight: Vec<u64> = score.stages.iter().map(|s| s.in_flight).collect();
    assert_eq!(in_flight, [4, 8]);
    // 8 * (20 + 30) + 2 + 4 bytes of 100.
    assert_eq!(rules(&score), [(Rule::Memory, "stage 1", 306.0)]);
}

#[test]
fn one_forward_one_backward_keeps_at_most_the_batch() {
    let stages = plan(&[stage(&[0], 1, 1, &[0]), stage(&[1], 4, 1, &[0]), stage(&[2], 1, 1, &[0])]);
    let mut workload = published();
    let flush = |workload: &Workload| score(workload, &Limits::default(), Schedule::OneFOneB, &stages);
    assert_eq!(flush(&workload).stages.iter().map(|s| s.in_flight).collect::<Vec<_>>(), [6, 2, 1]);
    workload.microbatches = 4;
    let score = flush(&workload);
    assert_eq!(score.stages.iter().map(|s| s.in_flight).collect::<Vec<_>>(), [4, 1, 1]);
    assert_eq!(rules(&score), [(Rule::Replicas, "plan", 2.0)]);
    // Microbatch times 6.2, 6 + 2 * (5.5 + 7.25) / 10 and 2 + 2 * (8.5 + 5.5) / 10; the first stage is the slowest.
    let resync = 4.0 * 3.0 * 40.0 / (4.0 * 10.0);
    close(score.value, (4.0 * 6.2 + 8.55 + 4.8 + resync) / 4.0);
}

#[test]
fn a_tensor_crosses_once() {
    // The graph with every byte count of layer 0's tensor made 5.
    let layers = published().layers().to_vec();
    let edges = [(0, 1, 5.0), (1, 2, 7.0), (0, 2, 5.0)];
    let workload = Workload::new(layers, &edges, Vec::new(), 8, 100.0, 8, NETWORK, Transfer::Tensor).unwrap();
    let two = judge(&workload, &plan(&[stage(&[0], 1, 1, &[0]), stage(&[1, 2], 1, 1, &[0, 0])]));
    close(two.stages[0].transfer, 0.2 * (5.0 + 2.0));
    close(two.stages[1].transfer, 0.2 * (5.0 + 2.5));
    let three = judge(&workload, &plan(&[stage(&[0], 1, 1, &[0]), stage(&[1], 1, 1, &[0]), stage(&[2], 1, 1, &[0])]));
    close(three.stages[0].transfer, 0.2 * (5.0 + 2.0));
    close(three.stages[1].transfer, 0.2 * (5.5 + 7.25));
    close(three.stages[2].transfer, 0.2 * (8.5 + 7.5));
}

#[test]
fn levels_choose_the_bandwidth_and_the_degrees() {
    let network = Network {
        data_parallel_bandwidth_within: 100.0,
        data_parallel_bandwidth_between: 1.0,
        devices_per_node: Some(3),
        resync_factor: 2.0,
        ..NETWORK
    };
    let workload = diamond(Vec::new(), Transfer::Edge, network);
    let inside = judge(&workload, &plan(&[stage(&[0, 1, 2], 2, 1, &[0, 0, 0])]));
    close(inside.stages[0].resync, 2.0 * 68.0 / (2.0 * 8.0 * 100.0));
    let across = judge(&workload, &plan(&[stage(&[0, 1, 2], 4, 1, &[0, 0, 0])]));
    close(across.stages[0].resync, 2.0 * 3.0 * 68.0 / (4.0 * 8.0 * 1.0));
    let split = judge(&workload, &plan(&[stage(&[0], 1, 1, &[0]), stage(&[1], 2, 2, &[0]), stage(&[2], 1, 1, &[0])]));
    assert_eq!(rules(&split), [(Rule::TensorParallelInNode, "stage 1", 1.0)]);
    close(split.stages[1].resync, 2.0 * 20.0 / (2.0 * 8.0 * 1.0));
}

#[test]
fn sharded_memory_is_divided() {
    let mut layer = published().layer(NodeId(0)).clone();
    for alternative in layer.tmpcs.values_mut().flatten() {
        alternative.memory_sharded = 8.0;
        alternative.sync_backward.clear();
    }
    let workload = Workload::new(vec![layer], &[], Vec::new(), 8, 100.0, 8, NETWORK, Transfer::Edge).unwrap();
    close(judge(&workload, &plan(&[stage(&[0], 4, 1, &[0])])).stages[0].memory, 10.0 + 1.0 + 2.0);
}

#[test]
fn a_second_copy_of_shared_weights_is_paid_for() {
    let cost = TieCost { weight_bytes: 16.0, memory_fixed: 5.0, memory_sharded: 6.0 };
    let tie = Tie { layers: ids(&[0, 2]), costs: BTreeMap::from([(1, cost)]) };
    let workload = diamond(vec![tie], Transfer::Edge, NETWORK);
    let whole = judge(&workload, &plan(&[stage(&[0, 1, 2], 1, 1, &[0, 0, 0])]));
    assert_eq!((whole.stages[0].resync, whole.stages[0].memory), (0.0, 67.0));

    let apart = judge(&workload, &plan(&[stage(&[0], 1, 1, &[0]), stage(&[1, 2], 2, 1, &[0, 0])]));
    let keep_equal = 4.0 / 2.0 * 16.0 / (8.0 * 10.0);
    close(apart.stages[0].resync, keep_equal);
    close(apart.stages[0].memory, 3.0 * 10.0 + 1.0);
    close(apart.stages[1].resync, 4.0 * (48.0 + 16.0) / (2.0 * 8.0 * 10.0) + keep_equal);
    close(apart.stages[1].memory, 50.0 + 6.0 + 5.0 + 6.0 / 2.0);

    let untied =
        judge(&workload, &plan(&[stage(&[0], 1, 1, &[0]), stage(&[1], 1, 2, &[0]), stage(&[2], 1, 1, &[0])]));
    assert_eq!(untied.stages[1].resync, 0.0);
}

#[test]
fn memory_has_a_relative_tolerance() {
    let stages = plan(&[stage(&[0, 1, 2], 1, 1, &[0, 0, 0])]);
    let mut workload = published();
    workload.memory = 67.0 * (1.0 - 0.9e-9);
    assert_eq!(rules(&judge(&workload, &stages)), []);
    workload.memory = 67.0 * (1.0 - 1.1e-9);
    assert_eq!(rules(&judge(&workload, &stages))[0].0, Rule::Memory);
    workload.memory = 60.0;
    assert_eq!(rules(&judge(&workload, &stages)), [(Rule::Memory, "stage 0", 7.0)]);
}

#[test]
fn the_problem_s_constraints_are_named() {
    let mut workload = published();
    workload.devices = 4;
    let score = judge(&workload, &plan(&[stage(&[2, 0], 3, 1, &[0, 0]), stage(&[1], 8, 2, &[0])]));
    assert_eq!(
        rules(&score),
        [
            (Rule::EdgeBackward, "edge 1 -> 2", 1.0),
            // Eleven replicas over three: four in flight.
            (Rule::DataParallelDivides, "stage 0", 2.0),
            (Rule::Memory, "stage 0", 4.0 * 40.0 + 5.0 - 100.0),
            (Rule::Devices, "plan", 15.0),
            (Rule::Replicas, "plan", 3.0),
        ]
    );
}

#[test]
fn malformed_plans_are_judged_not_trusted() {
    let stages = [
        stage(&[0, 0, 9], 0, 1, &[0, 0, 0]),
        stage(&[], u32::MAX, u32::MAX, &[]),
        stage(&[1], 1, 0, &[0, 4]),
        stage(&[1], u32::MAX, 1, &[7]),
    ];
    let score = judge(&published(), &plan(&stages));
    assert!(score.value.is_finite());
    let found = rules(&score);
    for expected in [
        (Rule::LayerUnknown, "stage 0, layer 9", 1.0),
        (Rule::StageEmpty, "stage 1", 1.0),
        (Rule::LayerRepeated, "layer 0", 1.0),
        (Rule::LayerRepeated, "layer 1", 1.0),
        (Rule::LayerMissing, "layer 2", 1.0),
        (Rule::DegreeZero, "stage 0", 1.0),
        (Rule::DegreeZero, "stage 2", 1.0),
        (Rule::ChoiceCount, "stage 2", 1.0),
        (Rule::TmpcUnknown, "stage 2, layer 1", 1.0),
        (Rule::TmpcUnknown, "stage 3, layer 1", 1.0),
        (Rule::DataParallelDivides, "stage 1", 8.0),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    }
    let empty = judge(&published(), &Plan::default());
    assert_eq!(empty.value, 0.0);
    assert_eq!(empty.violations.len(), 3);
    for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
        assert!(super::score(&published(), &Limits::default(), schedule, &plan(&stages)).value.is_finite());
        assert_eq!(super::score(&published(), &Limits::default(), schedule, &Plan::default()).value, 0.0);
    }
}

#[test]
fn the_user_s_limits_are_named() {
    let limits = Limits {
        max_data_parallel: Some(1),
        max_tensor_parallel: Some(1),
        data_parallel: Some(1),
        tensor_parallel: Some(1),
        stages: Some(5),
        max_stages: Some(2),
        recompute: Recompute::Never,
        pins: vec![(NodeId(0), 0), (NodeId(2), 0), (NodeId(7), 0)],
        together: vec![ids(&[0, 1, 2]), ids(&[1, 1])],
        apart: vec![ids(&[0, 1, 0])],
    };
    let stages = plan(&[stage(&[0], 4, 1, &[0]), stage(&[1], 1, 2, &[0]), stage(&[2], 1, 1, &[0])]);
    let score = score(&published(), &limits, Schedule::Asynchronous, &stages);
    assert_eq!(
        rules(&score),
        [
            (Rule::MaxDataParallel, "stage 0", 3.0),
            (Rule::DataParallel, "stage 0", 3.0),
            (Rule::MaxTensorParallel, "stage 1", 1.0),
            (Rule::TensorParallel, "stage 1", 1.0),
            (Rule::Stages, "plan", 2.0),
            (Rule::MaxStages, "plan", 1.0),
            (Rule::Pin, "layer 2", 1.0),
            (Rule::Pin, "layer 7", 1.0),
            (Rule::Together, "layers 0, 1, 2", 2.0),
        ]
    );
}

#[test]
fn layers_to_keep_apart_and_recomputation_are_limits_too() {
    let one = |choice| plan(&[stage(&[0, 1, 2], 1, 1, &[0, choice, 0])]);
    let find = |limits: &Limits, choice| -> Vec<(Rule, String)> {
        let score = score(&published(), limits, Schedule::Asynchronous, &one(choice));
        score.violations.into_iter().map(|v| (v.rule, v.place)).collect()
    };
    let apart = Limits { apart: vec![ids(&[2, 0])], ..Limits::default() };
    assert_eq!(find(&apart, 0), [(Rule::Apart, "stage 0, layers 0, 2".to_owned())]);
    let never = Limits { recompute: Recompute::Never, ..Limits::default() };
    assert_eq!(find(&never, 1), [(Rule::Recompute, "stage 0, layer 1".to_owned())]);
    assert_eq!(find(&never, 0), []);
    // Layers 0 and 2 have no recomputation variant, so the rule does not touch them.
    let always = Limits { recompute: Recompute::Always, ..Limits::default() };
    assert_eq!(find(&always, 0), [(Rule::Recompute, "stage 0, layer 1".to_owned())]);
    assert_eq!(find(&always, 1), []);
}
