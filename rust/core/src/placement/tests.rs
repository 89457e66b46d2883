//! The solver against every assignment there is, on tiny graphs.

use crate::graph::NodeId;
use crate::placement::search::{Settings, solve, solve_linear};
use crate::placement::{
    AcceleratorClass, Device, LoadRule, Node, Part, Rules, Split, TrainingObjective, Workload, score,
};
use crate::progress::Unobserved;

/// A reproducible source of small numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

fn random(dice: &mut Dice) -> (Workload, Rules) {
    let forward = 2 + dice.roll(3) as usize;
    let backward = if dice.one_in(2) { dice.roll(3) as usize } else { 0 };
    let classes = 1 + dice.roll(2) as usize;
    let nodes: Vec<Node> = (0..forward + backward)
        .map(|id| {
            let idle = dice.one_in(3);
            let mut time = |most: u64| if idle { 0.0 } else { dice.roll(most) as f64 };
            let cpu = time(30);
            let accelerators = (0..classes).map(|_| Some(time(9))).collect();
            let mut node = Node { cpu, accelerators, ..Node::default() };
            for time in &mut node.accelerators {
                if dice.one_in(12) {
                    *time = None;
                }
            }
            node.size = dice.roll(3) as f64;
            node.transfer = dice.roll(4) as f64 * 0.7;
            node.sync = if dice.one_in(2) { dice.roll(4) as f64 } else { 0.0 };
            node.backward = id >= forward;
            node.color = match dice.roll(3) {
                0 => None,
                _ if id >= forward => Some(dice.roll(forward as u64 + 1) as u32),
                1 => Some(id as u32),
                _ => Some(dice.roll(forward as u64) as u32),
            };
            node
        })
        .collect();
    let mut edges = Vec::new();
    for target in 1..nodes.len() as u32 {
        for source in 0..target {
            if dice.one_in(2) {
                edges.push((source, target));
            }
        }
    }
    let class = |i: usize, dice: &mut Dice| AcceleratorClass {
        name: i.to_string(),
        count: 1 + dice.roll(2) as u32,
        memory: if dice.one_in(2) { 100.0 } else { 2.0 + dice.roll(4) as f64 },
    };
    let classes = (0..classes).map(|i| class(i, dice)).collect();
    let rules = Rules {
        load: [LoadRule::Sequential, LoadRule::Overlap, LoadRule::Duplex][dice.roll(3) as usize],
        objective: if dice.one_in(2) { TrainingObjective::Split } else { TrainingObjective::Sum },
        contiguous: true,
        max_replicas: 1 + dice.roll(2) as u32,
    };
    (Workload::new(nodes, &edges, classes, dice.roll(3) as u32).unwrap(), rules)
}

/// The best feasible value over all ways to make parts of the nodes and to put parts on devices.
fn exhaustive(workload: &Workload, rules: &Rules) -> f64 {
    let mut devices = vec![Device::Cpu];
    for class in 0..workload.classes().len() as u32 {
        for replicas in 1..=rules.max_replicas {
            devices.push(Device::Accelerator { class, replicas });
        }
    }
    let mut best = f64::INFINITY;
    let mut split = Split::default();
    assign(workload, rules, &devices, 0, &mut split, &mut best);
    best
}

fn assign(workload: &Workload, rules: &Rules, devices: &[Device], node: u32, split: &mut Split, best: &mut f64) {
    if node as usize == workload.nodes().len() {
        let verdict = score(workload, rules, split);
        if verdict.feasible() {
            *best = best.min(verdict.value);
        }
        return;
    }
    for part in 0..split.parts.len() {
        split.parts[part].nodes.push(NodeId(node));
        assign(workload, rules, devices, node + 1, split, best);
        split.parts[part].nodes.pop();
    }
    for &device in devices {
        split.parts.push(Part { device, nodes: vec![NodeId(node)] });
        assign(workload, rules, devices, node + 1, split, best);
        split.parts.pop();
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn the_optimum_is_that_of_all_assignments() {
    let mut feasible = 0;
    for seed in 1..=400_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (workload, rules) = random(&mut dice);
        let devices = 1 + workload.classes().len() * rules.max_replicas as usize;
        if devices.pow(workload.nodes().len() as u32) > 700 {
            continue;
        }
        let outcome = solve(&workload, &rules, &Settings::default(), &mut Unobserved);
        let expected = exhaustive(&workload, &rules);
        assert!(same(outcome.value, expected), "seed {seed}: {} is not {expected}", outcome.value);
        assert!(outcome.complete && same(outcome.lower_bound, expected), "seed {seed}: {outcome:?}");
        let linear = solve_linear(&workload, &rules, &Settings::default(), &mut Unobserved);
        assert!(linear.value >= expected - 1e-9 && linear.lower_bound <= expected + 1e-9, "seed {seed}");
        if let Some(split) = &outcome.split {
            feasible += 1;
            let verdict = score(&workload, &rules, split);
            assert!(verdict.feasible(), "seed {seed}: {:?}", verdict.violations);
            assert!(same(verdict.value, outcome.value), "seed {seed}");
        }
    }
    assert!(feasible > 100, "{feasible} feasible cases test little");
}

#[test]
fn a_gap_is_kept() {
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (workload, rules) = random(&mut dice);
        let exact = solve(&workload, &rules, &Settings::default(), &mut Unobserved);
        let near = solve(&workload, &rules, &Settings { gap: 0.2, ..Settings::default() }, &mut Unobserved);
        assert!(near.lower_bound <= exact.value * (1.0 + 1e-9), "seed {seed}");
        assert!(!exact.value.is_finite() || near.value <= near.lower_bound * 1.2 * (1.0 + 1e-9), "seed {seed}");
    }
}
