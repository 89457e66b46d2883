//! Local search over colour classes: from random assignments, one class moves at a time as long as that helps.

use crate::graph::NodeId;
use crate::placement::baselines::loads::{Loads, Quality};
use crate::placement::baselines::random::Random;
use crate::placement::baselines::units::units;
use crate::placement::{Device, Part, Rules, Split, Workload};
use crate::progress::{Progress, Status, Stop};

/// How long to search.
#[derive(Clone, Copy, Debug)]
pub struct LocalSearch {
    /// Random assignments to start from.
    pub restarts: u32,
    /// Of the random numbers.
    pub seed: u64,
}

/// Moves that are tried between two looks at the clock.
const TRIALS_BETWEEN_TICKS: usize = 1 << 10;

/// Entries of the table of edges by node and device: fewer devices of a kind are looked at where there would be more.
const MOST_ENTRIES: usize = 1 << 24;
/// Moves that are tried in all, times the devices that each of them looks at; some seconds.
const MOST_STEPS: usize = 1 << 29;

/// A split in which no colour class can be moved to another device with gain, the best of several.
///
/// The search also ends after so much work that a user would wonder, wherever it is then. Contiguity and replicas are
/// left aside. An assignment that fits into the memory goes before any that does not, so a
/// split that does not fit is returned only where none was found that does. `None` where some node can be nowhere. The
/// same seed gives the same split.
///
/// Time `O(R M U D (e + D))` for `R` restarts, `M` rounds of moves, `U` units, `D` devices, `e` edges of a unit; space
/// `O(V D)`. After Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", `NeurIPS` 2020,
/// section 5.
pub fn local_search(
    workload: &Workload,
    rules: &Rules,
    search: &LocalSearch,
    progress: &mut dyn Progress,
) -> (Option<Split>, Option<Stop>) {
    let units = units(workload);
    let classes = devices(workload, units.len());
    let options: Vec<Vec<usize>> = units.iter().map(|unit| options(workload, unit, &classes)).collect();
    if options.iter().any(Vec::is_empty) {
        return (None, None);
    }
    let mut random = Random(search.seed);
    let mut best: Option<(Quality, Loads<'_>)> = None;
    let mut stopped = None;
    let mut left = MOST_STEPS / classes.len().max(1);
    for _ in 0..search.restarts.max(1) {
        let mut device = vec![0; workload.nodes().len()];
        for (unit, options) in units.iter().zip(&options) {
            let chosen = options[random.below(options.len())];
            unit.iter().for_each(|node| device[node.index()] = chosen);
        }
        let mut loads = Loads::new(workload, rules, classes.clone(), device);
        let known = best.as_ref().map_or(f64::INFINITY, |best| best.0.value);
        let descent = Descent { units: &units, options: &options, known };
        stopped = descent.run(&mut loads, &mut random, &mut left, progress).err();
        let quality = loads.quality();
        if best.as_ref().is_none_or(|best| quality.beats(&best.0)) {
            best = Some((quality, loads));
        }
        if stopped.is_some() || left == 0 {
            break;
        }
    }
    (best.map(|(_, loads)| split(workload, &classes, &loads)), stopped)
}

/// One search downwards.
struct Descent<'a> {
    units: &'a [Vec<NodeId>],
    /// Devices that each unit may be on.
    options: &'a [Vec<usize>],
    /// The best value of the searches before.
    known: f64,
}

impl Descent<'_> {
    /// Moves units as long as one can be moved with gain, each where it gains most, and `left` trials are left.
    fn run(
        &self,
        loads: &mut Loads<'_>,
        random: &mut Random,
        left: &mut usize,
        progress: &mut dyn Progress,
    ) -> Result<(), Stop> {
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        let mut ticked = usize::MAX;
        loop {
            random.shuffle(&mut order);
            let mut moved = false;
            let mut current = loads.quality();
            for &unit in &order {
                let home = loads.device(self.units[unit][0]);
                let target = self.best_device(loads, unit, (current, home), left);
                place(loads, &self.units[unit], target.1);
                moved |= target.1 != home;
                current = target.0;
                if *left / TRIALS_BETWEEN_TICKS != ticked {
                    ticked = *left / TRIALS_BETWEEN_TICKS;
                    let best = if current.excess > 0.0 { self.known } else { self.known.min(current.value) };
                    progress.tick(Status { best, bound: 0.0 })?;
                }
            }
            loads.sum();
            if !moved || *left == 0 {
                return Ok(());
            }
        }
    }

    /// The device on which a unit is best, with the quality of that; its home unless another is better.
    fn best_device(
        &self,
        loads: &mut Loads<'_>,
        unit: usize,
        mut target: (Quality, usize),
        left: &mut usize,
    ) -> (Quality, usize) {
        let home = target.1;
        for &device in self.options[unit].iter().filter(|&&device| device != home) {
            if *left == 0 {
                break;
            }
            *left -= 1;
            place(loads, &self.units[unit], device);
            let quality = loads.quality();
            if quality.beats(&target.0) {
                target = (quality, device);
            }
        }
        target
    }
}

fn place(loads: &mut Loads<'_>, unit: &[NodeId], device: usize) {
    unit.iter().for_each(|&node| loads.assign(node, device));
}

/// The class of each device: accelerators by class, then CPUs. No more of a kind than there are units, or than fit into
/// the table.
fn devices(workload: &Workload, units: usize) -> Vec<Option<usize>> {
    let most = MOST_ENTRIES / (workload.nodes().len() * (workload.classes().len() + 1));
    let repeated =
        |kind: Option<usize>, count: u32| std::iter::repeat_n(kind, units.min(most.max(1)).min(count as usize));
    let accelerators =
        workload.classes().iter().enumerate().flat_map(|(class, row)| repeated(Some(class), row.count));
    accelerators.chain(repeated(None, workload.cpus())).collect()
}

/// Devices that support all nodes of a unit.
fn options(workload: &Workload, unit: &[NodeId], classes: &[Option<usize>]) -> Vec<usize> {
    let supports = |kind: Option<usize>| {
        kind.is_none_or(|class| unit.iter().all(|&node| workload.node(node).accelerators[class].is_some()))
    };
    (0..classes.len()).filter(|&device| supports(classes[device])).collect()
}

fn split(workload: &Workload, classes: &[Option<usize>], loads: &Loads<'_>) -> Split {
    let mut parts: Vec<Part> = classes
        .iter()
        .map(|kind| Part {
            device: kind.map_or(Device::Cpu, |class| Device::Accelerator { class: class as u32, replicas: 1 }),
            nodes: Vec::new(),
        })
        .collect();
    for node in workload.graph().nodes() {
        parts[loads.device(node)].nodes.push(node);
    }
    parts.retain(|part| !part.nodes.is_empty());
    Split { parts }
}
