//! Bounds on what is behind and in front of a downset, for one region.

use crate::downsets::DownsetId;
use crate::pipeline::flush::stages::{Maxima, Stages};
use crate::pipeline::problem::SLACK;
use crate::progress::Stop;

/// For each downset what its layers need at least, each number by itself, memory left out.
pub(super) struct Behind {
    /// `u32::MAX` where there are never enough.
    pub(super) devices: Vec<u32>,
    pub(super) replicas: Vec<u32>,
    /// Sum of `tau`.
    pub(super) sum: Vec<f64>,
}

impl Behind {
    /// Time `O(P T log d)`.
    pub(super) fn new(
        stages: &Stages<'_>,
        devices: u32,
        limits: Maxima,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let downsets = stages.downsets();
        let mut behind = Self {
            devices: vec![u32::MAX; downsets],
            replicas: vec![u32::MAX; downsets],
            sum: vec![f64::INFINITY; downsets],
        };
        (behind.devices[0], behind.replicas[0], behind.sum[0]) = (0, 0, 0.0);
        for upper in stages.tables.lattice.ids().skip(1) {
            tick()?;
            let mut best = (u32::MAX, u32::MAX, f64::INFINITY);
            for pair in stages.pairs().of(upper) {
                let lower = stages.pairs().lower(pair).index();
                let below = behind.devices[lower];
                if below >= devices {
                    continue;
                }
                for (at, tau) in stages.outlook(limits, pair) {
                    if at.devices <= devices - below {
                        best.0 = best.0.min(below + at.devices);
                        best.1 = best.1.min(behind.replicas[lower] + at.data_parallel);
                        best.2 = best.2.min(behind.sum[lower] + tau);
                    }
                }
            }
            (behind.devices[upper.index()], behind.replicas[upper.index()], behind.sum[upper.index()]) = best;
        }
        Ok(behind)
    }
}

/// For each downset and level, the least sum of `tau` of the stages in front of it as a function of their devices, when
/// as few replicas as possible are behind each of them. A falling staircase.
pub(super) struct Ahead {
    /// Devices and sum where the function falls.
    steps: Vec<(u32, f64)>,
    spans: Vec<(usize, usize)>,
    levels: usize,
}

impl Ahead {
    /// Sums that exceed `budget` together with what is behind are left out.
    ///
    /// Time `O(P (T + O K))` for `O` candidates a pair, space `O(D K)`.
    pub(super) fn new(
        stages: &mut Stages<'_>,
        devices: u32,
        limits: Maxima,
        behind: &Behind,
        budget: f64,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let (tables, levels) = (stages.tables, stages.levels);
        let mut ahead = Self {
            steps: vec![(0, 0.0)],
            spans: vec![(0, 0); stages.downsets() * levels.count],
            levels: levels.count,
        };
        let full = tables.lattice.full();
        for &level in &levels.accepting {
            *ahead.span_mut(full, level) = (0, 1);
        }
        let width = devices as usize + 1;
        let mut rows = vec![vec![f64::INFINITY; width]; levels.count];
        let mut candidates = Vec::new();
        for lower in tables.lattice.ids().rev().skip(1) {
            tick()?;
            let needed = behind.devices[lower.index()];
            if needed > devices {
                continue;
            }
            let replicas = behind.replicas[lower.index()];
            let least = behind.sum[lower.index()] * (1.0 - SLACK);
            for position in stages.positions_above(lower) {
                let pair = stages.above(position);
                let upper = stages.upper(pair);
                let Some(fewest) = ahead.fewest(upper).filter(|&n| n + needed < devices) else { continue };
                let left = devices - needed - fewest;
                let most = stages.most_replicas(devices) - replicas.min(stages.most_replicas(devices));
                stages.candidates(limits, pair, replicas, left, most, &mut candidates);
                for step in levels.steps.iter().filter(|step| step.tag == stages.pairs().tag(pair)) {
                    for &(used, sum) in ahead.row(upper, step.to) {
                        for candidate in &candidates {
                            let (used, sum) = (used + candidate.devices, sum + candidate.tau);
                            if used + needed <= devices && sum + least <= budget {
                                let cell = &mut rows[step.from][used as usize];
                                *cell = cell.min(sum);
                            }
                        }
                    }
                }
            }
            for (level, row) in rows.iter_mut().enumerate() {
                ahead.store(lower, level, row);
            }
        }
        Ok(ahead)
    }

    /// The least sum in front of a downset on at most so many devices.
    pub(super) fn least(&self, id: DownsetId, level: usize, devices: u32) -> Option<f64> {
        let row = self.row(id, level);
        let count = row.partition_point(|&(used, _)| used <= devices);
        count.checked_sub(1).map(|last| row[last].1)
    }

    fn fewest(&self, id: DownsetId) -> Option<u32> {
        (0..self.levels).filter_map(|level| self.row(id, level).first()).map(|step| step.0).min()
    }

    fn row(&self, id: DownsetId, level: usize) -> &[(u32, f64)] {
        let (start, end) = self.spans[id.index() * self.levels + level];
        &self.steps[start..end]
    }

    fn span_mut(&mut self, id: DownsetId, level: usize) -> &mut (usize, usize) {
        &mut self.spans[id.index() * self.levels + level]
    }

    /// Keeps the places where a row falls, and clears it.
    fn store(&mut self, id: DownsetId, level: usize, row: &mut [f64]) {
        let start = self.steps.len();
        let mut least = f64::INFINITY;
        for (used, cell) in row.iter_mut().enumerate() {
            if *cell < least {
                least = *cell;
                self.steps.push((used as u32, least));
            }
            *cell = f64::INFINITY;
        }
        *self.span_mut(id, level) = (start, self.steps.len());
    }
}
