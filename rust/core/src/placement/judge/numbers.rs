//! Loads and memory of the parts.

use crate::graph::NodeId;
use crate::placement::judge::{PartScore, PassScore};
use crate::placement::{Device, LoadRule, Split, TrainingObjective, Workload};

/// The part that lists each node, the first one if there are several.
pub(super) fn home(workload: &Workload, split: &Split) -> Vec<Option<usize>> {
    let mut home = vec![None; workload.nodes().len()];
    for (number, part) in split.parts.iter().enumerate() {
        for node in &part.nodes {
            if let Some(place) = home.get_mut(node.index()) {
                place.get_or_insert(number);
            }
        }
    }
    home
}

/// Scores of all parts.
pub(super) fn parts(workload: &Workload, rule: LoadRule, split: &Split, home: &[Option<usize>]) -> Vec<PartScore> {
    let mut scores = vec![PartScore::default(); split.parts.len()];
    for node in workload.graph().nodes() {
        if let Some(part) = home[node.index()] {
            add_node(workload, node, split.parts[part].device, &mut scores[part]);
        }
        add_transfers(workload, node, split, home, &mut scores);
    }
    for (score, part) in scores.iter_mut().zip(&split.parts) {
        let replicas = match part.device {
            Device::Cpu => 1,
            Device::Accelerator { replicas, .. } => replicas.max(1),
        };
        score.forward.load = load(&score.forward, rule, replicas);
        score.backward.load = load(&score.backward, rule, replicas);
    }
    scores
}

/// Value of the parts together.
pub(super) fn value(objective: TrainingObjective, parts: &[PartScore]) -> f64 {
    let largest = |load: fn(&PartScore) -> f64| parts.iter().map(load).fold(0.0, f64::max);
    match objective {
        TrainingObjective::Sum => largest(PartScore::load),
        TrainingObjective::Split => largest(|part| part.forward.load) + largest(|part| part.backward.load),
    }
}

fn pass(score: &mut PartScore, backward: bool) -> &mut PassScore {
    if backward { &mut score.backward } else { &mut score.forward }
}

fn add_node(workload: &Workload, id: NodeId, device: Device, score: &mut PartScore) {
    let node = workload.node(id);
    match device {
        Device::Cpu => pass(score, node.backward).compute += node.cpu,
        Device::Accelerator { class, .. } => {
            score.memory += node.size;
            let pass = pass(score, node.backward);
            pass.compute += node.accelerators.get(class as usize).copied().flatten().unwrap_or(0.0);
            pass.sync += node.sync;
        }
    }
}

/// The output of a node leaves its part once, and enters every other part that uses it once.
fn add_transfers(workload: &Workload, id: NodeId, split: &Split, home: &[Option<usize>], scores: &mut [PartScore]) {
    let (graph, node, own) = (workload.graph(), workload.node(id), home[id.index()]);
    let mut users: Vec<Option<usize>> = graph.outgoing(id).iter().map(|&e| home[graph.target(e).index()]).collect();
    users.sort_unstable();
    users.dedup();
    users.retain(|&user| user != own || user.is_none());
    let accelerator = |part: usize| matches!(split.parts[part].device, Device::Accelerator { .. });
    if let Some(part) = own.filter(|&part| !users.is_empty() && accelerator(part)) {
        pass(&mut scores[part], node.backward).write += node.transfer;
    }
    for part in users.into_iter().flatten().filter(|&part| accelerator(part)) {
        pass(&mut scores[part], node.backward).read += node.transfer;
    }
}

fn load(pass: &PassScore, rule: LoadRule, replicas: u32) -> f64 {
    let one = match rule {
        LoadRule::Sequential => pass.compute + pass.read + pass.write,
        LoadRule::Overlap => pass.compute.max(pass.read + pass.write),
        LoadRule::Duplex => pass.compute.max(pass.read).max(pass.write),
    };
    let replicas = f64::from(replicas);
    one / replicas + (replicas - 1.0) / replicas * pass.sync
}
