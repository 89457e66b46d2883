//! Finds the best of many candidates while judging few of them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::choices::{Choice, choices};
use super::splits::{Line, Split};
use crate::pipeline::{Limits, Plan, Schedule, Stage, Workload, judge};
use crate::progress::{Progress, Status, Stop};

/// Bounds are lowered, and limits raised, by this part, as sums in another order round differently.
const SLACK: f64 = 1e-9;

/// All combinations of splits, degrees and TMPC kinds.
pub(super) struct Race<'a> {
    workload: &'a Workload,
    limits: &'a Limits,
    schedule: Schedule,
    line: Line,
    choices: Vec<Choice>,
    /// Running sums over the topological order, by choice.
    sums: Vec<Vec<Sums>>,
    /// Data-parallel degrees, decreasing.
    degrees: Vec<u32>,
}

/// Costs of the first layers of the topological order.
#[derive(Clone, Copy, Default)]
struct Sums {
    time: f64,
    weights: f64,
    per_microbatch: f64,
    fixed: f64,
    sharded: f64,
}

/// A split with one choice and one data-parallel degree.
#[derive(Clone, Copy)]
struct Candidate {
    /// The plan is not better than this.
    bound: f64,
    split: usize,
    choice: usize,
    /// Position of `d` in the degrees.
    degree: usize,
    /// Whether the bound is as good as it gets without the judge.
    refined: bool,
}

impl<'a> Race<'a> {
    pub(super) fn new(workload: &'a Workload, limits: &'a Limits, schedule: Schedule, widest: u32) -> Self {
        let line = Line::new(workload);
        let choices = choices(workload, limits, widest);
        let sums = choices.iter().map(|choice| running_sums(workload, choice)).collect();
        Self { workload, limits, schedule, line, choices, sums, degrees: degrees(workload, limits) }
    }

    /// Every equal split that the devices and microbatches allow.
    pub(super) fn splits(&self) -> Vec<Split> {
        self.line.splits(self.workload.devices.min(self.workload.microbatches) as usize)
    }

    /// The best feasible plan; of equal ones that with the fewest devices, then the earliest candidate.
    pub(super) fn run(&self, splits: &[Split], progress: &mut dyn Progress) -> Result<Option<Plan>, Stop> {
        let mut heap = self.start(splits);
        let mut hopeless = vec![false; splits.len() * self.choices.len()];
        let mut best: Option<(f64, u64, Plan)> = None;
        while let Some(candidate) = heap.pop() {
            let value = best.as_ref().map_or(f64::INFINITY, |b| b.0);
            progress.tick(Status { best: value, bound: candidate.bound.min(value) })?;
            if candidate.bound >= value {
                break;
            }
            let pair = candidate.split * self.choices.len() + candidate.choice;
            let split = &splits[candidate.split];
            if hopeless[pair] {
                continue;
            }
            if !candidate.refined {
                let bounds = self.line.bounds(split);
                if self.fits(&bounds, &candidate) {
                    heap.push(Candidate {
                        bound: self.refined_bound(&bounds, &candidate),
                        refined: true,
                        ..candidate
                    });
                    heap.extend(self.candidate(splits, candidate.split, candidate.choice, candidate.degree + 1));
                }
                continue;
            }
            let plan = self.plan(split, &candidate);
            let score = judge::score(self.workload, self.limits, self.schedule, &plan);
            let better = best.as_ref().is_none_or(|b| (score.value, score.devices) < (b.0, b.1));
            if !score.feasible() {
                // A smaller data-parallel degree never needs less memory, and nothing else depends on it.
                hopeless[pair] = true;
            } else if better {
                best = Some((score.value, score.devices, plan));
            }
        }
        Ok(best.map(|(_, _, plan)| plan))
    }

    /// Every split and choice with its largest data-parallel degree.
    fn start(&self, splits: &[Split]) -> BinaryHeap<Candidate> {
        let pairs = splits.iter().enumerate().filter(|(_, split)| self.stages_allowed(split.stages()));
        let candidates = pairs.flat_map(|(split, _)| {
            (0..self.choices.len()).filter_map(move |choice| self.candidate(splits, split, choice, 0))
        });
        candidates.collect()
    }

    fn stages_allowed(&self, stages: usize) -> bool {
        self.limits.stages.is_none_or(|only| only as usize == stages)
            && self.limits.max_stages.is_none_or(|most| stages <= most as usize)
    }

    /// The candidate with the largest degree from position `from` on that the devices and microbatches allow.
    fn candidate(&self, splits: &[Split], split: usize, choice: usize, from: usize) -> Option<Candidate> {
        let stages = splits[split].stages();
        let width = u64::from(self.choices[choice].degree);
        let fits = |&d: &u32| {
            let replicas = stages as u64 * u64::from(d);
            replicas * width <= u64::from(self.workload.devices) && replicas <= u64::from(self.workload.microbatches)
        };
        let degree = from + self.degrees.get(from..)?.iter().position(fits)?;
        let total = self.total(choice);
        let bound = self.bound(total / stages as f64, total, self.degrees[degree], 0.0);
        Some(Candidate { bound, split, choice, degree, refined: false })
    }

    /// Bound from the compute time of the slowest stage and of all, without transfers.
    fn bound(&self, slowest: f64, total: f64, d: u32, resync: f64) -> f64 {
        let fill = match self.schedule {
            Schedule::Asynchronous => 0.0,
            Schedule::GPipe | Schedule::OneFOneB => (total - slowest) / f64::from(self.workload.microbatches),
        };
        (slowest / f64::from(d) + fill + resync) * (1.0 - SLACK)
    }

    fn total(&self, choice: usize) -> f64 {
        self.sums[choice].last().map_or(0.0, |sums| sums.time)
    }

    /// The costs of each stage.
    fn stages<'b>(&'b self, bounds: &'b [usize], choice: usize) -> impl Iterator<Item = Sums> + 'b {
        let sums = &self.sums[choice];
        bounds.windows(2).map(|ends| sums[ends[1]].minus(sums[ends[0]]))
    }

    /// Whether every stage fits into memory, second copies of shared weights aside.
    fn fits(&self, bounds: &[usize], candidate: &Candidate) -> bool {
        let d = self.degrees[candidate.degree];
        let batch = f64::from(self.workload.microbatches / d);
        let rounding = SLACK * self.sums[candidate.choice].last().map_or(0.0, Sums::bytes);
        let room = self.workload.memory * (1.0 + 2.0 * SLACK) + rounding;
        self.stages(bounds, candidate.choice).enumerate().all(|(index, stage)| {
            let later = (bounds.len() - 1 - index) as f64;
            let in_flight = match self.schedule {
                Schedule::Asynchronous => later,
                Schedule::GPipe => batch,
                Schedule::OneFOneB => batch.min(later),
            };
            stage.per_microbatch * in_flight + stage.fixed + stage.sharded / f64::from(d) <= room
        })
    }

    /// Bound from the compute and synchronisation of each stage.
    fn refined_bound(&self, bounds: &[usize], candidate: &Candidate) -> f64 {
        let (d, t) = (self.degrees[candidate.degree], self.choices[candidate.choice].degree);
        let (microbatches, network) = (f64::from(self.workload.microbatches), &self.workload.network);
        let seconds_per_byte = network.resync_factor * f64::from(d - 1)
            / (f64::from(d) * microbatches * network.data_parallel_bandwidth(d, t));
        let (mut slowest, mut longest_resync, mut largest_load) = (0.0, 0.0, 0.0);
        for stage in self.stages(bounds, candidate.choice) {
            let resync = stage.weights * seconds_per_byte;
            slowest = f64::max(slowest, stage.time);
            longest_resync = f64::max(longest_resync, resync);
            largest_load = f64::max(largest_load, stage.time / f64::from(d) + resync);
        }
        match self.schedule {
            Schedule::Asynchronous => largest_load * (1.0 - SLACK),
            Schedule::GPipe | Schedule::OneFOneB => {
                self.bound(slowest, self.total(candidate.choice), d, longest_resync)
            }
        }
    }

    fn plan(&self, split: &Split, candidate: &Candidate) -> Plan {
        let choice = &self.choices[candidate.choice];
        let stage = |ends: &[usize]| {
            let mut layers = self.workload.order()[ends[0]..ends[1]].to_vec();
            layers.sort_unstable();
            Stage {
                data_parallel: self.degrees[candidate.degree],
                tensor_parallel: choice.degree,
                choices: layers.iter().map(|v| choice.positions[v.index()]).collect(),
                layers,
            }
        };
        Plan { stages: self.line.bounds(split).windows(2).map(stage).collect() }
    }
}

/// The divisors of the number of microbatches that the limits allow, decreasing.
fn degrees(workload: &Workload, limits: &Limits) -> Vec<u32> {
    let most = workload.devices.min(workload.microbatches).min(limits.max_data_parallel.unwrap_or(u32::MAX));
    let allowed =
        |d: &u32| workload.microbatches.is_multiple_of(*d) && limits.data_parallel.is_none_or(|only| only == *d);
    (1..=most).rev().filter(allowed).collect()
}

fn running_sums(workload: &Workload, choice: &Choice) -> Vec<Sums> {
    let mut sums = vec![Sums::default()];
    let mut sum = Sums::default();
    for &node in workload.order() {
        let list = workload.layer(node).tmpcs.get(&choice.degree);
        if let Some(tmpc) = list.and_then(|list| list.get(choice.positions[node.index()] as usize)) {
            sum.time += tmpc.time;
            sum.weights += tmpc.weight_bytes;
            sum.per_microbatch += tmpc.memory_per_microbatch;
            sum.fixed += tmpc.memory_fixed;
            sum.sharded += tmpc.memory_sharded;
        }
        sums.push(sum);
    }
    sums
}

impl Sums {
    fn bytes(&self) -> f64 {
        self.per_microbatch + self.fixed + self.sharded
    }

    fn minus(self, other: Self) -> Self {
        Self {
            time: self.time - other.time,
            weights: self.weights - other.weights,
            per_microbatch: self.per_microbatch - other.per_microbatch,
            fixed: self.fixed - other.fixed,
            sharded: self.sharded - other.sharded,
        }
    }
}

/// The heap's largest candidate has the least bound; among equals the earliest comes first.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |c: &Self| (c.split, c.choice, c.degree);
        other.bound.total_cmp(&self.bound).then_with(|| key(other).cmp(&key(self)))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
