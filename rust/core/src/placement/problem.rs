//! A workload in the form in which the solvers ask for it: units, nets, and prices of device time.

use crate::downsets::Blocks;
use crate::graph::NodeId;
use crate::placement::contraction;
use crate::placement::idle;
use crate::placement::prices::{self, Prices};
use crate::placement::{Device, LoadRule, Part, Rules, Split, TrainingObjective, Workload};

/// Relative slack of comparisons between sums that were added up in different orders.
pub(crate) const SLACK: f64 = 1e-12;
/// Relative slack of bounds that rule something out.
pub(crate) const SAFETY: f64 = 1e-9;

/// An output that units other than its own read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Net {
    pub(crate) source: u32,
    /// Units that read it, increasing, without the source.
    pub(crate) targets: Vec<u32>,
    /// Time of one transfer.
    pub(crate) cost: f64,
    /// 0: forward, 1: backward.
    pub(crate) pass: usize,
}

/// Devices that are alike; kind 0 are the CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) count: u32,
    /// Bytes that each holds, with slack.
    pub(crate) memory: f64,
    /// Most of them that may share a part.
    pub(crate) replicas: u32,
    /// Whether more would be allowed, but are not looked at.
    pub(crate) capped: bool,
}

/// Most replicas that are looked at.
const REPLICAS: u32 = 128;

/// Load of a part, by what the objective tells apart: forward and backward for [`TrainingObjective::Split`], else all
/// of it and 0.
pub(crate) type Load = [f64; 2];

/// Columns of a row of sums over units.
pub(crate) mod column {
    /// Bytes.
    pub(crate) const MEMORY: usize = 0;
    /// Time to synchronise, by pass.
    pub(crate) const SYNC: usize = 1;
    /// First column of the first kind: time by pass, then the number of units that the kind does not support.
    pub(crate) const KINDS: usize = 3;
    /// Columns a kind.
    pub(crate) const EACH: usize = 3;
}

/// A workload under its rules.
pub(crate) struct Problem {
    pub(crate) load: LoadRule,
    pub(crate) split: bool,
    pub(crate) blocks: Blocks,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) nets: Vec<Net>,
    /// Nets by source unit.
    pub(crate) sourced: Vec<Vec<u32>>,
    /// Nets by target unit.
    pub(crate) targeted: Vec<Vec<u32>>,
    /// Columns a row.
    pub(crate) width: usize,
    /// A row a unit: see [`column`]; then prices.
    pub(crate) rows: Vec<f64>,
    pub(crate) total: Vec<f64>,
    pub(crate) prices: Prices,
}

impl Problem {
    /// Compiles the tables. Time `O((V + E) log V)`, and `O(V log V)` for each set of kinds that gets prices.
    pub(crate) fn new(workload: &Workload, rules: &Rules) -> Self {
        let split = rules.objective == TrainingObjective::Split;
        let one_pass = !split && rules.load == LoadRule::Sequential;
        let blocks = idle::merge(workload, rules, contraction::units(workload), one_pass);
        let kinds = kinds(workload, rules, blocks.len());
        let nets = nets(workload, &blocks, one_pass);
        let mut sourced = vec![Vec::new(); blocks.len()];
        let mut targeted = vec![Vec::new(); blocks.len()];
        for (id, net) in nets.iter().enumerate() {
            sourced[net.source as usize].push(id as u32);
            for &target in &net.targets {
                targeted[target as usize].push(id as u32);
            }
        }
        let sums: Vec<Vec<f64>> =
            (0..blocks.len()).map(|unit| sums(workload, blocks.members(unit), kinds.len(), one_pass)).collect();
        let prices = prices::Prices::new(&sums, &kinds);
        let width = column::KINDS + column::EACH * kinds.len() + 2 * prices.sets.len();
        let mut rows = Vec::with_capacity(width * sums.len());
        for sum in &sums {
            rows.extend_from_slice(sum);
            prices.extend(sum, &mut rows);
        }
        let mut total = vec![0.0; width];
        for row in rows.chunks_exact(width) {
            add(&mut total, row);
        }
        Self { load: rules.load, split, blocks, kinds, nets, sourced, targeted, width, rows, total, prices }
    }

    /// Number of units.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Words of a set of units.
    pub(crate) fn words(&self) -> usize {
        self.len().div_ceil(64).max(1)
    }

    /// Sums of one unit.
    pub(crate) fn row(&self, unit: u32) -> &[f64] {
        &self.rows[unit as usize * self.width..(unit as usize + 1) * self.width]
    }

    /// Units that must come after `unit`.
    pub(crate) fn after(&self, unit: u32) -> &[u32] {
        self.blocks.predecessors(unit as usize)
    }

    /// Units that must come before `unit`.
    pub(crate) fn before(&self, unit: u32) -> &[u32] {
        self.blocks.successors(unit as usize)
    }

    /// Load of a part with these sums and transfers on `replicas` devices of a kind, if it may be there.
    pub(crate) fn load(&self, row: &[f64], moved: &Moved, kind: usize, replicas: u32) -> Option<Load> {
        let at = column::KINDS + column::EACH * kind;
        if row[at + 2] > 0.0 || row[column::MEMORY] > self.kinds[kind].memory {
            return None;
        }
        if kind == 0 {
            return Some(self.combine(row[at], row[at + 1]));
        }
        let pass = |p: usize| {
            let (compute, into, out) = (row[at + p], moved.into[p], moved.out[p]);
            let one = match self.load {
                LoadRule::Sequential => compute + into + out,
                LoadRule::Overlap => compute.max(into + out),
                LoadRule::Duplex => compute.max(into).max(out),
            };
            if replicas == 1 {
                return one;
            }
            let r = f64::from(replicas);
            one / r + (r - 1.0) / r * row[column::SYNC + p]
        };
        Some(self.combine(pass(0), pass(1)))
    }

    /// A lower bound on `load[0] + load[1]` of all parts that hold one with these sums and that keep its `kept`
    /// transfers, on any number of devices of a kind. Infinite when there is none.
    pub(crate) fn least(&self, row: &[f64], kept: Load, kind: usize) -> f64 {
        let at = column::KINDS + column::EACH * kind;
        if row[at + 2] > 0.0 || row[column::MEMORY] > self.kinds[kind].memory {
            return f64::INFINITY;
        }
        if kind == 0 {
            return row[at] + row[at + 1];
        }
        let r = f64::from(self.kinds[kind].replicas);
        let mut least = 0.0;
        for pass in 0..2 {
            let compute = row[at + pass];
            let one = match self.load {
                LoadRule::Sequential => compute + kept[pass],
                LoadRule::Overlap => compute.max(kept[pass]),
                LoadRule::Duplex => compute.max(kept[pass] / 2.0),
            };
            least += if r > 1.0 { one.min(one / r + (r - 1.0) / r * row[column::SYNC + pass]) } else { one };
        }
        least
    }

    /// Whether some ways to use devices are not looked at, so that only the prices bound all splits.
    pub(crate) fn capped(&self) -> bool {
        self.kinds.iter().any(|kind| kind.capped)
    }

    /// A finite bound above all values.
    pub(crate) fn ceiling(&self) -> f64 {
        let rest: f64 = self.total[column::SYNC..].iter().sum();
        let moved: f64 = self.nets.iter().map(|net| net.cost).sum();
        4.0 * (rest + moved) + 1.0
    }

    fn combine(&self, forward: f64, backward: f64) -> Load {
        if self.split { [forward, backward] } else { [forward + backward, 0.0] }
    }

    /// The split with the given parts, each a list of units on `replicas` devices of a kind, and its value.
    pub(crate) fn build(&self, parts: &[Placed]) -> (Split, f64) {
        let mut home = vec![u32::MAX; self.len()];
        for (number, part) in parts.iter().enumerate() {
            for &unit in &part.units {
                home[unit as usize] = number as u32;
            }
        }
        let mut moved = vec![Moved::default(); parts.len()];
        let mut readers: Vec<u32> = Vec::new();
        for net in &self.nets {
            let source = home[net.source as usize];
            readers.clear();
            readers.extend(net.targets.iter().map(|&t| home[t as usize]).filter(|&part| part != source));
            readers.sort_unstable();
            readers.dedup();
            if !readers.is_empty() {
                moved[source as usize].out[net.pass] += net.cost;
            }
            for &reader in &readers {
                moved[reader as usize].into[net.pass] += net.cost;
            }
        }
        let mut most = [0.0_f64; 2];
        let mut split = Split::default();
        for (part, moved) in parts.iter().zip(&moved) {
            let mut row = vec![0.0; self.width];
            let mut nodes: Vec<NodeId> = Vec::new();
            for &unit in &part.units {
                add(&mut row, self.row(unit));
                nodes.extend_from_slice(self.blocks.members(unit as usize));
            }
            nodes.sort_unstable();
            let load = self.load(&row, moved, part.kind, part.replicas).unwrap_or([f64::INFINITY; 2]);
            most = [most[0].max(load[0]), most[1].max(load[1])];
            let device = match part.kind {
                0 => Device::Cpu,
                kind => Device::Accelerator { class: kind as u32 - 1, replicas: part.replicas },
            };
            split.parts.push(Part { device, nodes });
        }
        (split, most[0] + most[1])
    }
}

/// A part by its units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) units: Vec<u32>,
    pub(crate) kind: usize,
    pub(crate) replicas: u32,
}

/// Times of the transfers of a part, by pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moved {
    pub(crate) into: [f64; 2],
    pub(crate) out: [f64; 2],
}

/// Adds a row to a row.
pub(crate) fn add(sum: &mut [f64], row: &[f64]) {
    for (a, b) in sum.iter_mut().zip(row) {
        *a += b;
    }
}

/// More devices than parts (or replicas of them) are of no use.
fn kinds(workload: &Workload, rules: &Rules, units: usize) -> Vec<Kind> {
    let most = rules.max_replicas.max(1);
    let parts = units.min(u32::MAX as usize) as u32;
    let cpus = Kind { count: workload.cpus().min(parts), memory: f64::INFINITY, replicas: 1, capped: false };
    let accelerators = workload.classes().iter().map(|class| Kind {
        count: class.count.min(parts.saturating_mul(most)),
        memory: class.memory * (1.0 + SLACK),
        replicas: most.min(class.count).clamp(1, REPLICAS),
        capped: most.min(class.count) > REPLICAS,
    });
    std::iter::once(cpus).chain(accelerators).collect()
}

/// Sums over the nodes of a unit, without prices.
fn sums(workload: &Workload, nodes: &[NodeId], kinds: usize, one_pass: bool) -> Vec<f64> {
    let mut row = vec![0.0; column::KINDS + column::EACH * kinds];
    for &node in nodes {
        let node = workload.node(node);
        let pass = usize::from(node.backward && !one_pass);
        row[column::MEMORY] += node.size;
        row[column::SYNC + pass] += node.sync;
        row[column::KINDS + pass] += node.cpu;
        for (class, time) in node.accelerators.iter().enumerate() {
            let at = column::KINDS + column::EACH * (class + 1);
            match time {
                Some(time) => row[at + pass] += time,
                None => row[at + 2] = 1.0,
            }
        }
    }
    row
}

/// Outputs that leave their unit; those of one unit that the same units read are one net.
pub(crate) fn nets(workload: &Workload, blocks: &Blocks, one_pass: bool) -> Vec<Net> {
    let graph = workload.graph();
    let mut home = vec![0; graph.len()];
    for unit in 0..blocks.len() {
        for node in blocks.members(unit) {
            home[node.index()] = unit as u32;
        }
    }
    let mut nets: Vec<Net> = Vec::new();
    for node in graph.nodes() {
        let source = home[node.index()];
        let mut targets: Vec<u32> = graph.outgoing(node).iter().map(|&e| home[graph.target(e).index()]).collect();
        targets.retain(|&target| target != source);
        targets.sort_unstable();
        targets.dedup();
        let node = workload.node(node);
        if !targets.is_empty() && node.transfer > 0.0 {
            nets.push(Net { source, targets, cost: node.transfer, pass: usize::from(node.backward && !one_pass) });
        }
    }
    let key = |net: &Net| (net.source, net.pass, net.targets.clone());
    nets.sort_by_cached_key(key);
    nets.dedup_by(|next, kept| {
        let same = key(next) == key(kept);
        if same {
            kept.cost += next.cost;
        }
        same
    });
    nets
}
