//! Loads of devices while nodes move between them.

use crate::graph::NodeId;
use crate::placement::{LoadRule, Rules, TrainingObjective, Workload};

/// One pass of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    compute: f64,
    read: f64,
    write: f64,
}

impl Pass {
    fn load(&self, rule: LoadRule) -> f64 {
        match rule {
            LoadRule::Sequential => self.compute + self.read + self.write,
            LoadRule::Overlap => self.compute.max(self.read + self.write),
            LoadRule::Duplex => self.compute.max(self.read).max(self.write),
        }
    }
}

/// How good an assignment is; smaller is better, field by field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quality {
    /// Bytes beyond the memory of accelerators.
    pub(super) excess: f64,
    /// The objective.
    pub(super) value: f64,
    /// Sum of squared loads: of equal maxima the one that is easier to lower.
    pub(super) spread: f64,
}

impl Quality {
    /// Whether it is better by more than rounding.
    pub(super) fn beats(&self, other: &Self) -> bool {
        let pairs = [(self.excess, other.excess), (self.value, other.value), (self.spread, other.spread)];
        for (own, theirs) in pairs {
            let slack = 1e-12 * own.abs().max(theirs.abs());
            if own < theirs - slack {
                return true;
            }
            if own > theirs + slack {
                return false;
            }
        }
        false
    }
}

/// An assignment of nodes to devices, numbered from 0: accelerators by class, then CPUs.
#[derive(Clone, Debug)]
pub(super) struct Loads<'a> {
    workload: &'a Workload,
    rules: &'a Rules,
    /// The class of each device; `None` for a CPU.
    classes: Vec<Option<usize>>,
    device: Vec<usize>,
    /// For each node and device the number of edges that lead there.
    users: Vec<u32>,
    /// Forward and backward.
    passes: Vec<[Pass; 2]>,
    memory: Vec<f64>,
}

impl<'a> Loads<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        rules: &'a Rules,
        classes: Vec<Option<usize>>,
        device: Vec<usize>,
    ) -> Self {
        let (nodes, devices) = (device.len(), classes.len());
        let mut loads = Self {
            workload,
            rules,
            classes,
            device,
            users: vec![0; nodes * devices],
            passes: Vec::new(),
            memory: Vec::new(),
        };
        for &(source, target) in workload.graph().edges() {
            loads.users[source.index() * devices + loads.device[target.index()]] += 1;
        }
        loads.sum();
        loads
    }

    /// The device of a node.
    pub(super) fn device(&self, node: NodeId) -> usize {
        self.device[node.index()]
    }

    /// Moves a node; [`Loads::quality`] is then that of the new assignment, but for rounding.
    pub(super) fn assign(&mut self, node: NodeId, to: usize) {
        let from = self.device(node);
        if from == to {
            return;
        }
        let graph = self.workload.graph();
        self.output(node, -1.0);
        for &edge in graph.incoming(node) {
            self.output(graph.source(edge), -1.0);
            let row = graph.source(edge).index() * self.classes.len();
            self.users[row + from] -= 1;
            self.users[row + to] += 1;
            self.output(graph.source(edge), 1.0);
        }
        self.content(node, -1.0);
        self.device[node.index()] = to;
        self.content(node, 1.0);
        self.output(node, 1.0);
    }

    /// Sums everything anew, without what rounding has left.
    pub(super) fn sum(&mut self) {
        self.passes = vec![[Pass::default(); 2]; self.classes.len()];
        self.memory = vec![0.0; self.classes.len()];
        for node in self.workload.graph().nodes() {
            self.content(node, 1.0);
            self.output(node, 1.0);
        }
    }

    pub(super) fn quality(&self) -> Quality {
        let mut quality = Quality { excess: 0.0, value: 0.0, spread: 0.0 };
        let mut largest = [0.0_f64; 2];
        for ((passes, class), &memory) in self.passes.iter().zip(&self.classes).zip(&self.memory) {
            let loads = passes.map(|pass| pass.load(self.rules.load));
            let load = loads[0] + loads[1];
            quality.value = quality.value.max(load);
            quality.spread += load * load;
            largest = [largest[0].max(loads[0]), largest[1].max(loads[1])];
            if let Some(class) = class {
                quality.excess += (memory - self.workload.classes()[*class].memory).max(0.0);
            }
        }
        if self.rules.objective == TrainingObjective::Split {
            quality.value = largest[0] + largest[1];
        }
        quality
    }

    /// Adds, or takes away, the time and bytes of a node on its device.
    fn content(&mut self, node: NodeId, sign: f64) {
        let device = self.device(node);
        let numbers = self.workload.node(node);
        let compute = match self.classes[device] {
            None => numbers.cpu,
            Some(class) => {
                self.memory[device] += sign * numbers.size;
                numbers.accelerators[class].unwrap_or(0.0)
            }
        };
        self.passes[device][usize::from(numbers.backward)].compute += sign * compute;
    }

    /// Adds, or takes away, the transfers of a node's output.
    fn output(&mut self, node: NodeId, sign: f64) {
        let (own, devices) = (self.device(node), self.classes.len());
        let numbers = self.workload.node(node);
        let cost = sign * numbers.transfer;
        let pass = usize::from(numbers.backward);
        let mut leaves = false;
        for device in (0..devices).filter(|&device| device != own) {
            if self.users[node.index() * devices + device] > 0 {
                leaves = true;
                if self.classes[device].is_some() {
                    self.passes[device][pass].read += cost;
                }
            }
        }
        if leaves && self.classes[own].is_some() {
            self.passes[own][pass].write += cost;
        }
    }
}
