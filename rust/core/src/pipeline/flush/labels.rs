//! The least sum of `tau` within limits on both maxima: a shortest path with two resources.
//!
//! A label is a way to run the layers of a downset: its devices, its replicas and its sum. A* (Hart, Nilsson and
//! Raphael 1968) takes the label with the least possible total first, by the bound of [`Ahead`], so the first one that
//! holds all layers is optimal; a label that another one of the same downset and level beats in all three is dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::downsets::DownsetId;
use crate::pipeline::flush::bounds::{Ahead, Behind};
use crate::pipeline::flush::stages::{Candidate, Maxima, Parts, Stages};
use crate::progress::Stop;

/// Labels beyond which the search gives up.
const MOST_LABELS: usize = 1 << 22;

/// Totals that differ by less than this part of the least one count as equal, so that rounding does not lead astray.
const RESOLUTION: f64 = 1e-13;

/// The best plan for the limits whose sum of `tau` is at most `budget`.
///
/// Time `O(L P' O log L)` for `L` labels with totals up to the optimum and `P'` stages in front of a downset.
pub(super) fn least_sum(
    stages: &mut Stages<'_>,
    devices: u32,
    limits: Maxima,
    budget: f64,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<Option<Parts>, Stop> {
    let full = stages.tables.lattice.full();
    let behind = Behind::new(stages, devices, limits, tick)?;
    if behind.devices[full.index()] > devices || behind.sum[full.index()] > budget {
        return Ok(None);
    }
    let ahead = Ahead::new(stages, devices, limits, &behind, budget, tick)?;
    let Some(least) = ahead.least(DownsetId(0), 0, devices) else { return Ok(None) };
    let mut search = Labels {
        devices,
        ahead: &ahead,
        budget,
        quantum: (least * RESOLUTION).max(f64::MIN_POSITIVE),
        labels: Vec::new(),
        open: BinaryHeap::new(),
        closed: vec![Vec::new(); stages.downsets() * stages.levels.count],
    };
    search.add(Label::default(), least);
    let Some(last) = search.run(stages, limits, tick)? else { return Ok(None) };
    Ok(Some(Parts::new(search.trace(last), |c| stages.pace(c.tau, c.data_parallel))))
}

#[derive(Clone, Copy, Debug, Default)]
struct Label {
    sum: f64,
    devices: u32,
    replicas: u32,
    downset: u32,
    level: u32,
    /// The label of the layers behind its first stage, and that stage.
    parent: u32,
    pair: u32,
    stage: Candidate,
}

/// Total in quanta, then larger downsets, then fewer devices, then older labels.
type Key = Reverse<(u64, Reverse<u32>, u32, u32)>;

struct Labels<'a> {
    devices: u32,
    ahead: &'a Ahead,
    budget: f64,
    quantum: f64,
    labels: Vec<Label>,
    open: BinaryHeap<Key>,
    /// Devices, replicas and sums of the labels that were taken, by downset and level.
    closed: Vec<Vec<(u32, u32, f64)>>,
}

impl Labels<'_> {
    fn add(&mut self, label: Label, total: f64) {
        let key = ((total / self.quantum) as u64, Reverse(label.downset), label.devices, self.labels.len() as u32);
        self.open.push(Reverse(key));
        self.labels.push(label);
    }

    fn run(
        &mut self,
        stages: &mut Stages<'_>,
        limits: Maxima,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Option<u32>, Stop> {
        let full = stages.tables.lattice.full();
        let mut candidates = Vec::new();
        let mut taken = 0_u32;
        while let Some(Reverse((.., index))) = self.open.pop() {
            let label = self.labels[index as usize];
            if label.downset == full.0 {
                return Ok(Some(index));
            }
            if taken % 16 == 0 {
                tick()?;
            }
            taken = taken.wrapping_add(1);
            if !self.close(&label, stages.levels.count) {
                continue;
            }
            if self.labels.len() > MOST_LABELS {
                return Err(Stop::MemoryLimit);
            }
            self.extend(stages, limits, index, &mut candidates);
        }
        Ok(None)
    }

    /// Takes a label; false when another one beats it.
    fn close(&mut self, label: &Label, levels: usize) -> bool {
        let closed = &mut self.closed[label.downset as usize * levels + label.level as usize];
        let beats = |&(devices, replicas, sum): &(u32, u32, f64)| {
            devices <= label.devices && replicas <= label.replicas && sum <= label.sum * (1.0 + RESOLUTION / 8.0)
        };
        if closed.iter().any(beats) {
            return false;
        }
        closed.push((label.devices, label.replicas, label.sum));
        true
    }

    /// Puts every possible stage in front of a label.
    fn extend(&mut self, stages: &mut Stages<'_>, limits: Maxima, parent: u32, candidates: &mut Vec<Candidate>) {
        let label = self.labels[parent as usize];
        let left = self.devices - label.devices;
        let replicas = stages.most_replicas(self.devices) - label.replicas;
        let levels = stages.levels;
        for position in stages.positions_above(DownsetId(label.downset)) {
            let pair = stages.above(position);
            let upper = stages.upper(pair);
            let tag = stages.pairs().tag(pair);
            let mut steps = levels.steps.iter().filter(|s| s.from == label.level as usize && s.tag == tag).peekable();
            if steps.peek().is_none() {
                continue;
            }
            stages.candidates(limits, pair, label.replicas, left, replicas, candidates);
            for step in steps {
                for candidate in candidates.iter() {
                    let Some(rest) = self.ahead.least(upper, step.to, left - candidate.devices) else { continue };
                    let sum = label.sum + candidate.tau;
                    if sum + rest > self.budget {
                        continue;
                    }
                    let next = Label {
                        sum,
                        devices: label.devices + candidate.devices,
                        replicas: label.replicas + candidate.data_parallel,
                        downset: upper.0,
                        level: step.to as u32,
                        parent,
                        pair: pair as u32,
                        stage: *candidate,
                    };
                    self.add(next, sum + rest);
                }
            }
        }
    }

    /// The stages of a label, the input's first.
    fn trace(&self, last: u32) -> Vec<(usize, Candidate)> {
        let mut stages = Vec::new();
        let mut label = &self.labels[last as usize];
        while label.downset > 0 {
            stages.push((label.pair as usize, label.stage));
            label = &self.labels[label.parent as usize];
        }
        stages
    }
}
