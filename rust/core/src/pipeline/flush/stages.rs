//! Stages with their costs under a schedule with a flush.

use crate::downsets::DownsetId;
use crate::pipeline::flush::mixed::{MixedStages, Point};
use crate::pipeline::levels::Levels;
use crate::pipeline::problem::{Degree, SLACK};
use crate::pipeline::staircases::Staircases;
use crate::pipeline::tables::{Fixed, Pair, StageRun, Tables};
use crate::pipeline::threshold::{Pairs, Walk};
use crate::pipeline::{Plan, Schedule, Stage};

/// The two maxima in the time of a batch, or limits of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Maxima {
    /// `(N / d - 1) * tau`.
    pub(super) pace: f64,
    /// `N * resync`.
    pub(super) resync: f64,
}

impl Maxima {
    pub(super) fn sum(self) -> f64 {
        self.pace + self.resync
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { pace: self.pace * factor, resync: self.resync * factor }
    }

    fn with(self, other: Self) -> Self {
        Self { pace: self.pace.max(other.pace), resync: self.resync.max(other.resync) }
    }
}

/// A stage with its degrees and what it costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    pub(super) devices: u32,
    pub(super) data_parallel: u32,
    /// Positions in `tensor_parallel` and in its list of degrees.
    pub(super) degree: u32,
    pub(super) option: u32,
    pub(super) in_flight: u32,
    /// Time of one microbatch on one replica.
    pub(super) tau: f64,
    /// `N * resync`.
    pub(super) resync: f64,
}

/// The stages of a plan, the input's first.
pub(super) struct Parts {
    pub(super) stages: Vec<(usize, Candidate)>,
    pub(super) devices: u32,
    /// Sum of `tau`.
    pub(super) sum: f64,
    pub(super) maxima: Maxima,
}

/// Everything about stages that is the same for all regions.
pub(super) struct Stages<'a> {
    pub(super) tables: &'a Tables<'a>,
    pub(super) levels: &'a Levels,
    pairs: &'a mut Pairs,
    staircases: &'a mut Staircases,
    mixed: MixedStages,
    schedule: Schedule,
    microbatches: u32,
    most_bytes: usize,
    /// Upper downset of each pair.
    upper: Vec<DownsetId>,
    /// The pairs by lower downset: positions `start[lower]..start[lower + 1]` of `by_lower`.
    by_lower: Vec<u32>,
    start: Vec<usize>,
}

impl<'a> Stages<'a> {
    /// Time and space `O(P + D)`.
    pub(super) fn new(walk: Walk<'a>, schedule: Schedule) -> Self {
        let Walk { tables, levels, pairs, staircases, most_cells, .. } = walk;
        let most_bytes = most_cells.saturating_mul(size_of::<f64>());
        let microbatches = tables.problem.workload.microbatches;
        // With GPipe a whole batch may be in flight, whatever the replicas.
        *staircases = Staircases::new(tables.problem.menus.clone(), microbatches);
        pairs.forget_staircases();
        let count = pairs.of(tables.lattice.full()).end;
        let mut upper = vec![DownsetId(0); count];
        let mut start = vec![0; tables.lattice.len() + 1];
        for id in tables.lattice.ids().skip(1) {
            for pair in pairs.of(id) {
                upper[pair] = id;
                start[pairs.lower(pair).index() + 1] += 1;
            }
        }
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut next = start.clone();
        let mut by_lower = vec![0; count];
        for pair in 0..count {
            let place = &mut next[pairs.lower(pair).index()];
            by_lower[*place] = pair as u32;
            *place += 1;
        }
        let mixed = MixedStages::default();
        Self { tables, levels, pairs, staircases, mixed, schedule, microbatches, most_bytes, upper, by_lower, start }
    }

    pub(super) fn downsets(&self) -> usize {
        self.tables.lattice.len()
    }

    /// `N`.
    pub(super) fn batch(&self) -> f64 {
        f64::from(self.microbatches)
    }

    /// Bytes that the tables of one region may take, and as many again for its labels.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes / 2
    }

    /// Forgets what is known about memory when it takes more room than it may; it comes back when it is asked for.
    pub(super) fn make_room(&mut self) {
        if self.staircases.bytes() > self.most_bytes() {
            self.staircases.clear();
            self.pairs.forget_staircases();
        }
        if self.mixed.bytes() > self.most_bytes() {
            self.mixed = MixedStages::default();
        }
    }

    /// The largest sum of data-parallel degrees on so many devices.
    pub(super) fn most_replicas(&self, devices: u32) -> u32 {
        devices.min(self.microbatches)
    }

    pub(super) fn pairs(&self) -> &Pairs {
        self.pairs
    }

    pub(super) fn upper(&self, pair: usize) -> DownsetId {
        self.upper[pair]
    }

    /// Positions for [`Self::above`] of the stages that can be put in front of a downset, smaller ones first.
    pub(super) fn positions_above(&self, lower: DownsetId) -> std::ops::Range<usize> {
        self.start[lower.index()]..self.start[lower.index() + 1]
    }

    /// The pair at a position.
    pub(super) fn above(&self, position: usize) -> usize {
        self.by_lower[position] as usize
    }

    /// `(N / d - 1) * tau`.
    pub(super) fn pace(&self, tau: f64, data_parallel: u32) -> f64 {
        (self.batch() / f64::from(data_parallel) - 1.0) * tau
    }

    /// A lower bound on the first maximum of every plan on so many devices: `tau <= T * d / (N - d)` for all stages, and
    /// the sum of `t * tau` is at least the device time of all layers.
    pub(super) fn least_pace(&self, devices: u32) -> f64 {
        let problem = self.tables.problem;
        let degrees = problem.degrees.iter().flatten().filter(|d| d.devices <= devices);
        let most = degrees.map(|d| d.data_parallel).max().unwrap_or(1);
        let work = self.tables.work(self.tables.lattice.full());
        work * f64::from(self.microbatches - most) / f64::from(devices) * (1.0 - SLACK)
    }

    /// `y` of a stage in front of stages with so many replicas.
    pub(super) fn in_flight(&self, data_parallel: u32, behind: u32) -> u32 {
        let whole_batch = self.microbatches / data_parallel;
        match self.schedule {
            Schedule::GPipe => whole_batch,
            _ => whole_batch.min((data_parallel + behind).div_ceil(data_parallel)),
        }
    }

    pub(super) fn fixed(&self, pair: usize, degree: usize) -> Fixed {
        self.pairs.fixed(self.tables, self.upper[pair], pair, degree)
    }

    fn ends(&self, pair: usize) -> Pair {
        Pair { lower: self.pairs.lower(pair), upper: self.upper[pair] }
    }

    /// For one tensor-parallel degree of a stage, the data-parallel degrees (by position, increasing) that may keep the
    /// limits when memory is no object.
    pub(super) fn quick(
        &self,
        limits: Maxima,
        fixed: &Fixed,
        degree: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let problem = self.tables.problem;
        let list = &problem.degrees[degree];
        let possible = fixed.sums.lacking == 0 && fixed.sums.least <= problem.capacity;
        let least = (fixed.sums.fastest + fixed.transfer) * (1.0 - SLACK);
        let from = list.partition_point(|d| self.pace(least, d.data_parallel) > limits.pace);
        let from = if possible { from } else { list.len() };
        let (batch, weight, copies) = (self.batch(), fixed.sums.weight, fixed.copies);
        let within = move |at: &Degree| resync(batch, weight, copies, at) * (1.0 - SLACK) <= limits.resync;
        (from..list.len()).filter(move |&option| within(&list[option]))
    }

    /// The first of [`Self::quick`] for each tensor-parallel degree, with the least `tau` of the stage.
    pub(super) fn outlook(&self, limits: Maxima, pair: usize) -> impl Iterator<Item = (Degree, f64)> {
        (0..self.tables.problem.tensor_parallel.len()).filter_map(move |degree| {
            let fixed = self.fixed(pair, degree);
            let option = self.quick(limits, &fixed, degree).next()?;
            Some((self.tables.problem.degrees[degree][option], fixed.sums.fastest + fixed.transfer))
        })
    }

    /// The degrees with which a stage keeps the limits in front of `behind` replicas, with at most `replicas` of its
    /// own; none of them beaten in all of devices, replicas and `tau`. `worth` says whether a number of devices and a
    /// `tau` are of interest; when they are not, more of either are not.
    pub(super) fn candidates(
        &mut self,
        limits: Maxima,
        pair: usize,
        behind: u32,
        replicas: u32,
        worth: impl Fn(u32, f64) -> bool,
        out: &mut Vec<Candidate>,
    ) {
        out.clear();
        let tables = self.tables;
        for degree in 0..tables.problem.tensor_parallel.len() {
            let fixed = self.fixed(pair, degree);
            let fastest = fixed.sums.fastest + fixed.transfer;
            for option in self.quick(limits, &fixed, degree) {
                let at = &tables.problem.degrees[degree][option];
                if at.data_parallel > replicas || !worth(at.devices, fastest * (1.0 - SLACK)) {
                    break;
                }
                let in_flight = self.in_flight(at.data_parallel, behind);
                let Some((tau, resync)) = self.cost(limits, pair, degree, option, &fixed, in_flight) else {
                    continue;
                };
                if self.pace(tau, at.data_parallel) > limits.pace {
                    continue;
                }
                let beaten =
                    |c: &Candidate| c.devices <= at.devices && c.data_parallel <= at.data_parallel && c.tau <= tau;
                if worth(at.devices, tau) && !out.iter().any(beaten) {
                    let (degree, option) = (degree as u32, option as u32);
                    let (devices, data_parallel) = (at.devices, at.data_parallel);
                    out.push(Candidate { devices, data_parallel, degree, option, in_flight, tau, resync });
                }
                if tau <= fastest * (1.0 + SLACK) {
                    break;
                }
            }
        }
    }

    /// The least `tau` of a stage within a limit on its resync, and the latter; `None` where nothing fits.
    pub(super) fn cost(
        &mut self,
        limits: Maxima,
        pair: usize,
        degree: usize,
        option: usize,
        fixed: &Fixed,
        in_flight: u32,
    ) -> Option<(f64, f64)> {
        let ends = self.ends(pair);
        let at = &self.tables.problem.degrees[degree][option];
        if fixed.sums.irregular == 0 {
            let slot = self.pairs.slot(pair, degree);
            let run = StageRun { tables: self.tables, pair: ends, degree, at, fixed };
            let time = self.staircases.least_time(run, slot, in_flight)?;
            let resync = resync(self.batch(), fixed.sums.weight, fixed.copies, at);
            return (resync <= limits.resync).then_some((time + fixed.transfer, resync));
        }
        let batch = self.batch();
        let points = self.mixed.points(self.tables, ends, degree, option, fixed, in_flight);
        let mut costs = points.iter().map(|p| (p.tau, resync(batch, p.weight, fixed.copies, at)));
        costs.find(|&(_, resync)| resync <= limits.resync)
    }

    /// A plan with the stages of `parts`, and the time of a batch.
    pub(super) fn plan(&mut self, parts: &Parts, limits: Maxima) -> Option<(Plan, f64)> {
        let problem = self.tables.problem;
        let mut stages = Vec::with_capacity(parts.stages.len());
        let (mut sum, mut maxima) = (0.0, Maxima::default());
        for &(pair, part) in &parts.stages {
            let (degree, option) = (part.degree as usize, part.option as usize);
            let at = &problem.degrees[degree][option];
            let (fixed, ends) = (self.fixed(pair, degree), self.ends(pair));
            let (point, chosen) = if fixed.sums.irregular == 0 {
                let run = StageRun { tables: self.tables, pair: ends, degree, at, fixed: &fixed };
                let (time, chosen) = self.staircases.choose(run, part.in_flight)?;
                (Point { tau: time + fixed.transfer, weight: fixed.sums.weight }, chosen)
            } else {
                let allowed = |weight| resync(self.batch(), weight, fixed.copies, at) <= limits.resync;
                MixedStages::choose(self.tables, ends, degree, option, &fixed, part.in_flight, allowed)?
            };
            sum += point.tau;
            let resync = resync(self.batch(), point.weight, fixed.copies, at);
            maxima = maxima.with(Maxima { pace: self.pace(point.tau, at.data_parallel), resync });
            stages.push(Stage {
                layers: chosen.iter().map(|c| c.0).collect(),
                data_parallel: at.data_parallel,
                tensor_parallel: problem.tensor_parallel[degree],
                choices: chosen.iter().map(|c| c.1).collect(),
            });
        }
        Some((Plan { stages }, sum + maxima.sum()))
    }
}

/// `N * resync` of a stage.
fn resync(batch: f64, weight: f64, copies: f64, at: &Degree) -> f64 {
    batch * (at.resync * weight / f64::from(at.data_parallel) + copies)
}

impl Parts {
    /// Parts from their stages, the input's first.
    pub(super) fn new(stages: Vec<(usize, Candidate)>, pace: impl Fn(&Candidate) -> f64) -> Self {
        let mut parts = Self { stages: Vec::new(), devices: 0, sum: 0.0, maxima: Maxima::default() };
        for (_, stage) in &stages {
            parts.devices += stage.devices;
            parts.sum += stage.tau;
            parts.maxima = parts.maxima.with(Maxima { pace: pace(stage), resync: stage.resync });
        }
        Self { stages, ..parts }
    }

    /// Time of a batch.
    pub(super) fn value(&self) -> f64 {
        self.sum + self.maxima.sum()
    }
}
