use super::*;
use crate::graph::NodeId;
use crate::placement::{AcceleratorClass, Device, LoadRule, Node, Part, TrainingObjective};

fn node(time: f64, transfer: f64) -> Node {
    Node { cpu: 10.0 * time, accelerators: vec![Some(time)], size: 1.0, transfer, ..Node::default() }
}

fn workload(nodes: Vec<Node>, edges: &[(u32, u32)]) -> Workload {
    let class = AcceleratorClass { name: "accelerator".to_owned(), count: 2, memory: 3.0 };
    Workload::new(nodes, edges, vec![class], 1).unwrap()
}

fn accelerator(nodes: &[u32]) -> Part {
    Part { device: Device::Accelerator { class: 0, replicas: 1 }, nodes: nodes.iter().copied().map(NodeId).collect() }
}

fn rules() -> Rules {
    Rules { contiguous: true, max_replicas: 1, ..Rules::default() }
}

#[test]
fn an_output_is_moved_once_however_many_edges_cross() {
    let fan = workload(vec![node(1.0, 0.5), node(2.0, 0.0), node(3.0, 0.0)], &[(0, 1), (0, 2)]);
    let split = Split { parts: vec![accelerator(&[0]), accelerator(&[1, 2])] };
    let score = score(&fan, &rules(), &split);
    assert!(score.feasible());
    assert_eq!((score.parts[0].load(), score.parts[1].load(), score.value), (1.5, 5.5, 5.5));
}

#[test]
fn load_rules_apply_to_each_pass() {
    let mut chain = vec![node(1.0, 4.0), node(1.0, 3.0), node(2.0, 1.0), node(2.0, 0.0)];
    for (id, color) in [(0, 0), (1, 1), (2, 1), (3, 0)] {
        chain[id].color = Some(color);
        chain[id].backward = id > 1;
    }
    let chain = workload(chain, &[(0, 1), (1, 2), (2, 3)]);
    let split = Split { parts: vec![accelerator(&[0, 3]), accelerator(&[1, 2])] };
    let value = |load, objective| score(&chain, &Rules { load, objective, ..rules() }, &split).value;
    // Part 0: forward 1 and 4 out, backward 2 and 1 in. Part 1: forward 1 and 4 in, backward 2 and 1 out.
    assert_eq!(value(LoadRule::Sequential, TrainingObjective::Sum), 8.0);
    assert_eq!(value(LoadRule::Overlap, TrainingObjective::Sum), 6.0);
    assert_eq!(value(LoadRule::Duplex, TrainingObjective::Split), 6.0);
}

#[test]
fn replicas_share_the_load_and_synchronise() {
    let mut one = node(4.0, 0.0);
    one.sync = 3.0;
    let one = workload(vec![one], &[]);
    let split =
        Split { parts: vec![Part { device: Device::Accelerator { class: 0, replicas: 2 }, ..accelerator(&[0]) }] };
    let verdict = score(&one, &Rules { max_replicas: 2, ..rules() }, &split);
    assert_eq!((verdict.value, verdict.feasible()), (3.5, true));
    assert_eq!(score(&one, &rules(), &split).violations[0].rule, Rule::Replicas);
}

#[test]
fn a_device_between_the_halves_of_another_is_not_contiguous() {
    let chain = workload(vec![node(1.0, 1.0), node(1.0, 1.0), node(1.0, 0.0)], &[(0, 1), (1, 2)]);
    let split = Split { parts: vec![accelerator(&[0, 2]), accelerator(&[1])] };
    let broken = score(&chain, &rules(), &split).violations;
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].rule, Rule::Contiguous);
    assert!(score(&chain, &Rules { contiguous: false, ..rules() }, &split).feasible());
}

#[test]
fn orphans_follow_the_mirrored_backward_graph() {
    // Forward 0 -> 1; backward 2 -> 3 -> 4, where 3 has no forward mate and 2, 4 are those of 1, 0.
    let mut nodes: Vec<Node> = (0..5).map(|_| node(1.0, 1.0)).collect();
    for (id, color) in [(0, 0), (1, 1), (2, 1), (4, 0)] {
        nodes[id].color = Some(color);
    }
    nodes[2..].iter_mut().for_each(|node| node.backward = true);
    let graph = workload(nodes, &[(0, 1), (2, 3), (3, 4)]);
    let verdict = |parts| score(&graph, &rules(), &Split { parts }).violations;
    assert!(verdict(vec![accelerator(&[0, 3, 4]), accelerator(&[1, 2])]).is_empty());
    let mut cpu = accelerator(&[3]);
    cpu.device = Device::Cpu;
    assert!(verdict(vec![accelerator(&[0, 4]), cpu.clone(), accelerator(&[1, 2])]).is_empty());
    assert_eq!(
        verdict(vec![accelerator(&[0, 1, 2, 4]), cpu]).iter().map(|v| v.rule).collect::<Vec<_>>(),
        [Rule::Memory, Rule::Contiguous]
    );
}

#[test]
fn malformed_splits_get_a_verdict() {
    let mut nodes = vec![node(1.0, 1.0), node(1.0, 1.0), node(1.0, 0.0)];
    nodes[0].accelerators = vec![None];
    let chain = workload(nodes, &[(0, 1), (1, 2)]);
    let mut stray = accelerator(&[0, 1, 7]);
    stray.device = Device::Accelerator { class: 3, replicas: 0 };
    let split = Split { parts: vec![accelerator(&[0, 0]), stray] };
    let broken: Vec<Rule> = score(&chain, &rules(), &split).violations.iter().map(|v| v.rule).collect();
    let expected = [
        Rule::NodeUnknown,
        Rule::NodeRepeated,
        Rule::NodeRepeated,
        Rule::NodeMissing,
        Rule::ClassUnknown,
        Rule::Replicas,
        Rule::Unsupported,
    ];
    assert_eq!(broken, expected);
}
