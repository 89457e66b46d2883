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
use crate::pipeline::levels::Step;
use crate::pipeline::problem::SLACK;
use crate::progress::Stop;

/// Totals that differ by less than about this part of them count as equal, so that rounding does not lead astray.
const RESOLUTION: f64 = 1e-13;

/// A number that grows with a total (not negative) and is the same for totals that agree in their first 43 bits.
fn rounded(total: f64) -> u64 {
    total.max(0.0).to_bits() >> 9
}

/// The best plan for the limits whose sum of `tau` is at most `budget`.
///
/// Time `O(P (T + O K) + L P' O log L)` for `L` labels with totals up to the optimum and `P'` stages in front of a
/// downset.
///
/// # Errors
/// [`Stop`] when the observer said so, or the tables or the labels take more memory than they may.
pub(super) fn least_sum(
    stages: &mut Stages<'_>,
    devices: u32,
    limits: Maxima,
    budget: f64,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<Option<Parts>, Stop> {
    let full = stages.tables.lattice.full();
    let behind = Behind::new(stages, devices, limits, tick)?;
    if behind.devices(full).is_none() || behind.sum[full.index()] * (1.0 - SLACK) > budget {
        return Ok(None);
    }
    let ahead = Ahead::new(stages, devices, limits, &behind, budget, tick)?;
    let Some(least) = ahead.least(DownsetId(0), 0, devices) else { return Ok(None) };
    let mut search = Labels {
        devices,
        ahead: &ahead,
        budget,
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

impl Label {
    fn extended(&self, parent: u32, upper: DownsetId, level: usize, pair: usize, stage: &Candidate) -> Self {
        Self {
            sum: self.sum + stage.tau,
            devices: self.devices + stage.devices,
            replicas: self.replicas + stage.data_parallel,
            downset: upper.0,
            level: level as u32,
            parent,
            pair: pair as u32,
            stage: *stage,
        }
    }
}

/// Total, rounded; then larger downsets, then fewer devices, then older labels.
type Key = Reverse<(u64, Reverse<u32>, u32, u32)>;

struct Labels<'a> {
    devices: u32,
    ahead: &'a Ahead,
    budget: f64,
    labels: Vec<Label>,
    open: BinaryHeap<Key>,
    /// Devices, replicas and sums of the labels that were taken, by downset and level.
    closed: Vec<Vec<(u32, u32, f64)>>,
}

impl Labels<'_> {
    fn add(&mut self, label: Label, total: f64) {
        let key = (rounded(total), Reverse(label.downset), label.devices, self.labels.len() as u32);
        self.open.push(Reverse(key));
        self.labels.push(label);
    }

    /// Takes labels until one holds all layers.
    fn run(
        &mut self,
        stages: &mut Stages<'_>,
        limits: Maxima,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Option<u32>, Stop> {
        let full = stages.tables.lattice.full();
        let most = (stages.most_bytes() / (size_of::<Label>() + size_of::<Key>())).min(u32::MAX as usize);
        let mut candidates = Vec::new();
        let mut taken = 0_u32;
        while let Some(Reverse((.., index))) = self.open.pop() {
            let label = self.labels[index as usize];
            if label.downset == full.0 {
                return Ok(Some(index));
            }
            if !self.close(&label, stages.levels.count) {
                continue;
            }
            if taken.is_multiple_of(16) {
                tick()?;
                stages.make_room();
            }
            taken = taken.wrapping_add(1);
            self.extend(stages, limits, index, &mut candidates);
            if self.labels.len() > most {
                return Err(Stop::MemoryLimit);
            }
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
        let (ahead, budget, levels) = (self.ahead, self.budget, stages.levels);
        for position in stages.positions_above(DownsetId(label.downset)) {
            let pair = stages.above(position);
            let upper = stages.upper(pair);
            let tag = stages.pairs().tag(pair);
            let steps = levels.steps.iter().filter(|s| s.from == label.level as usize && s.tag == tag);
            let total = |step: &Step, devices: u32, tau: f64| {
                let rest = ahead.least(upper, step.to, left.checked_sub(devices)?)?;
                Some(label.sum + tau + rest).filter(|&total| total <= budget)
            };
            let worth = |devices: u32, tau: f64| steps.clone().any(|step| total(step, devices, tau).is_some());
            if !worth(1, 0.0) {
                continue;
            }
            stages.candidates(limits, pair, label.replicas, replicas, worth, candidates);
            for step in steps.clone() {
                for candidate in candidates.iter() {
                    if let Some(total) = total(step, candidate.devices, candidate.tau) {
                        self.add(label.extended(parent, upper, step.to, pair, candidate), total);
                    }
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
