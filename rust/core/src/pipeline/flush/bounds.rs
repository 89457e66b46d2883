//! Bounds on what is behind and in front of a downset, for one region.

use crate::downsets::DownsetId;
use crate::pipeline::flush::stages::{Maxima, Stages};
use crate::pipeline::problem::SLACK;
use crate::progress::Stop;

/// Falling staircases over numbers of devices: where each of them falls, and to what.
struct Staircases<T> {
    steps: Vec<(u32, T)>,
    spans: Vec<(usize, usize)>,
}

impl<T: Copy + PartialOrd> Staircases<T> {
    /// `count` of them that are nowhere defined.
    fn new(count: usize) -> Self {
        Self { steps: Vec::new(), spans: vec![(0, 0); count] }
    }

    fn get(&self, index: usize) -> &[(u32, T)] {
        let (start, end) = self.spans[index];
        &self.steps[start..end]
    }

    fn bytes(&self) -> usize {
        self.steps.len() * size_of::<(u32, T)>()
    }

    fn constant(&mut self, index: usize, value: T) {
        self.spans[index] = (self.steps.len(), self.steps.len() + 1);
        self.steps.push((0, value));
    }

    /// Stores a row of values by number of devices, and fills the row with `none` again.
    fn store(&mut self, index: usize, row: &mut [T], none: T) {
        let start = self.steps.len();
        let mut least = none;
        for (devices, cell) in row.iter_mut().enumerate() {
            if *cell < least {
                least = *cell;
                self.steps.push((devices as u32, least));
            }
            *cell = none;
        }
        self.spans[index] = (start, self.steps.len());
    }
}

/// For each downset what its layers need at least, memory left out.
pub(super) struct Behind {
    /// Sum of `tau`, whatever the devices.
    pub(super) sum: Vec<f64>,
    /// Replicas as a function of the devices.
    replicas: Staircases<u32>,
}

impl Behind {
    /// Time `O(P T (log d + K))`, space `O(D K)`.
    pub(super) fn new(
        stages: &Stages<'_>,
        devices: u32,
        limits: Maxima,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let downsets = stages.downsets();
        let mut behind = Self { sum: vec![f64::INFINITY; downsets], replicas: Staircases::new(downsets) };
        behind.sum[0] = 0.0;
        behind.replicas.constant(0, 0);
        let mut row = vec![u32::MAX; devices as usize + 1];
        for upper in stages.tables.lattice.ids().skip(1) {
            tick()?;
            for pair in stages.pairs().of(upper) {
                let lower = stages.pairs().lower(pair);
                let Some(least) = behind.devices(lower).filter(|&n| n < devices) else { continue };
                for (at, tau) in stages.outlook(limits, pair) {
                    if at.devices > devices - least {
                        continue;
                    }
                    let sum = behind.sum[lower.index()] + tau;
                    behind.sum[upper.index()] = behind.sum[upper.index()].min(sum);
                    for &(used, replicas) in behind.replicas.get(lower.index()) {
                        let Some(cell) = row.get_mut((used + at.devices) as usize) else { break };
                        *cell = (*cell).min(replicas + at.data_parallel);
                    }
                }
            }
            behind.replicas.store(upper.index(), &mut row, u32::MAX);
            if behind.replicas.bytes() > stages.most_bytes() {
                return Err(Stop::MemoryLimit);
            }
        }
        Ok(behind)
    }

    /// The fewest devices of a downset; `None` when there are never enough.
    pub(super) fn devices(&self, id: DownsetId) -> Option<u32> {
        self.replicas.get(id.index()).first().map(|step| step.0)
    }
}

/// For each downset and level, the least sum of `tau` of the stages in front of it as a function of their devices, when
/// behind each of them are as few replicas as the devices that are left allow.
pub(super) struct Ahead {
    sums: Staircases<f64>,
    levels: usize,
}

impl Ahead {
    /// Sums that exceed `budget` together with what is behind are left out.
    ///
    /// Time `O(P (T + O K))` for `O` degrees a pair, space `O(D K)`.
    pub(super) fn new(
        stages: &mut Stages<'_>,
        devices: u32,
        limits: Maxima,
        behind: &Behind,
        budget: f64,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let (tables, levels) = (stages.tables, stages.levels);
        let count = levels.count;
        let mut ahead = Self { sums: Staircases::new(stages.downsets() * count), levels: count };
        for &level in &levels.accepting {
            ahead.sums.constant(tables.lattice.full().index() * count + level, 0.0);
        }
        let mut rows = vec![vec![f64::INFINITY; devices as usize + 1]; count];
        for lower in tables.lattice.ids().rev().skip(1) {
            stages.make_room();
            let Some(needed) = behind.devices(lower) else { continue };
            let most = budget - behind.sum[lower.index()] * (1.0 - SLACK);
            for position in stages.positions_above(lower) {
                if position.is_multiple_of(64) {
                    tick()?;
                }
                let front = Front {
                    pair: stages.above(position),
                    devices,
                    needed,
                    replicas: behind.replicas.get(lower.index()),
                    most,
                };
                ahead.add(stages, limits, &front, &mut rows);
            }
            for (level, row) in rows.iter_mut().enumerate() {
                ahead.sums.store(lower.index() * count + level, row, f64::INFINITY);
            }
            if ahead.sums.bytes() > stages.most_bytes() {
                return Err(Stop::MemoryLimit);
            }
        }
        Ok(ahead)
    }

    /// Takes a stage into account in the rows of its lower downset, with all its degrees.
    fn add(&self, stages: &mut Stages<'_>, limits: Maxima, front: &Front<'_>, rows: &mut [Vec<f64>]) {
        let upper = stages.upper(front.pair);
        let Some(fewest) = (0..self.levels).filter_map(|level| self.fewest(upper, level)).min() else { return };
        let tag = stages.pairs().tag(front.pair);
        let levels = stages.levels;
        for degree in 0..stages.tables.problem.tensor_parallel.len() {
            let fixed = stages.fixed(front.pair, degree);
            for option in stages.quick(limits, &fixed, degree) {
                let at = stages.tables.problem.degrees[degree][option];
                if u64::from(at.devices) + u64::from(fewest) + u64::from(front.needed) > u64::from(front.devices) {
                    break;
                }
                let mut slowest = 0.0_f64;
                for step in levels.steps.iter().filter(|step| step.tag == tag) {
                    let row = &mut rows[step.from];
                    let mut known = (0, None);
                    for &(used, sum) in self.row(upper, step.to) {
                        let used = used + at.devices;
                        let Some(replicas) = front.replicas_behind(used) else { break };
                        let in_flight = stages.in_flight(at.data_parallel, replicas);
                        if in_flight != known.0 {
                            let cost = stages.cost(limits, front.pair, degree, option, &fixed, in_flight);
                            known = (in_flight, cost.filter(|c| stages.pace(c.0, at.data_parallel) <= limits.pace));
                        }
                        // More devices in front leave fewer behind, which takes more replicas and more memory.
                        let Some((tau, _)) = known.1 else {
                            slowest = f64::INFINITY;
                            break;
                        };
                        slowest = slowest.max(tau);
                        if sum + tau <= front.most {
                            row[used as usize] = row[used as usize].min(sum + tau);
                        }
                    }
                }
                if slowest <= (fixed.sums.fastest + fixed.transfer) * (1.0 + SLACK) {
                    break;
                }
            }
        }
    }

    /// The least sum in front of a downset on at most so many devices.
    pub(super) fn least(&self, id: DownsetId, level: usize, devices: u32) -> Option<f64> {
        let row = self.row(id, level);
        let count = row.partition_point(|&(used, _)| used <= devices);
        count.checked_sub(1).map(|last| row[last].1)
    }

    /// The fewest devices in front of a downset.
    pub(super) fn fewest(&self, id: DownsetId, level: usize) -> Option<u32> {
        self.row(id, level).first().map(|step| step.0)
    }

    fn row(&self, id: DownsetId, level: usize) -> &[(u32, f64)] {
        self.sums.get(id.index() * self.levels + level)
    }
}

/// A stage in front of a downset.
struct Front<'a> {
    pair: usize,
    /// `K`.
    devices: u32,
    /// Devices that the downset needs at least, and its replicas as a function of its devices.
    needed: u32,
    replicas: &'a [(u32, u32)],
    /// Largest sum of interest.
    most: f64,
}

impl Front<'_> {
    /// The fewest replicas behind when this stage and those in front of it use so many devices.
    fn replicas_behind(&self, used: u32) -> Option<u32> {
        let left = self.devices.checked_sub(used)?;
        let count = self.replicas.partition_point(|step| step.0 <= left);
        count.checked_sub(1).map(|last| self.replicas[last].1)
    }
}
