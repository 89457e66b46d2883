//! One question, asked many times: is there a plan in which no stage has a load above a threshold `T`?
//!
//! For fixed `T` let `g[I][s]` be the fewest devices that run downset `I` with data-parallel degrees that sum to at most
//! `s` and all loads at most `T`. A stage with degrees `(t, d)` in front of `I'` has at most `ceil(s / d)` microbatches
//! in flight, and its load grows with them, so it is allowed up to some `s = reach`:
//!
//! `g[I][s] = min over I' and (t, d) with s <= reach of g[I'][s - d] + t * d`, then `g[I][s] = min(g[I][s], g[I][s - 1])`.
//!
//! A row is constant beyond some `s` and useless below another, and only the span between is stored. A first pass over
//! the pairs with scalars instead of rows gives `h[I]`, the fewest devices for the layers that are not in `I` when memory
//! is no object; what `g + h` shows to need too many devices is dropped.

use rayon::prelude::*;

use crate::downsets::{DownsetId, Lattice};
use crate::pipeline::levels::{Levels, Tag};
use crate::pipeline::problem::{Problem, SLACK};
use crate::pipeline::staircases::{StaircaseId, Staircases};
use crate::pipeline::tables::{Fixed, Pair, StageRun, Tables, breaks_apart};
use crate::progress::Stop;

/// All stages that may be worth a look.
pub(crate) struct Pairs {
    /// Pairs of each upper downset: `start[upper]..start[upper + 1]`, lower downsets increasing.
    start: Vec<usize>,
    lower: Vec<DownsetId>,
    tags: Vec<Tag>,
    /// By pair and tensor-parallel degree.
    transfer: Vec<f64>,
    slots: Vec<StaircaseId>,
    degrees: usize,
}

/// Why pairs were not all collected.
pub(crate) enum Uncollected {
    TooMany,
    Stopped(Stop),
}

impl Pairs {
    /// Collects the pairs that can be a stage of a plan with all loads at most `threshold`, as far as device time tells.
    ///
    /// Time `O(D^2 V / 64)`, space `O(P T)` for the `P` pairs that are kept.
    pub(crate) fn collect(
        tables: &Tables<'_>,
        levels: &Levels,
        threshold: f64,
        most: usize,
        mut tick: impl FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Uncollected> {
        let lattice = tables.lattice;
        let degrees = tables.problem.tensor_parallel.len();
        let budget = Budget::new(tables, threshold);
        let alive: Vec<DownsetId> = lattice.ids().filter(|&id| budget.keeps(tables, id)).collect();
        if alive.len() > MOST_CUTS {
            return Err(Uncollected::TooMany);
        }
        let mut pairs = Self {
            start: vec![0],
            lower: Vec::new(),
            tags: Vec::new(),
            transfer: Vec::new(),
            slots: Vec::new(),
            degrees,
        };
        for uppers in (0..lattice.len() as u32).collect::<Vec<_>>().chunks(CHUNK) {
            tick().map_err(Uncollected::Stopped)?;
            let found: Vec<Stages> = uppers
                .par_iter()
                .map(|&upper| Stages::below(tables, levels, &budget, &alive, DownsetId(upper)))
                .collect();
            for mut stages in found {
                pairs.lower.append(&mut stages.lower);
                pairs.tags.append(&mut stages.tags);
                pairs.transfer.append(&mut stages.transfer);
                pairs.start.push(pairs.lower.len());
            }
            if pairs.lower.len() > most {
                return Err(Uncollected::TooMany);
            }
        }
        pairs.slots = vec![StaircaseId::UNKNOWN; pairs.lower.len() * degrees];
        Ok(pairs)
    }

    /// Bytes that one pair takes.
    pub(crate) fn bytes_each(degrees: usize) -> usize {
        size_of::<DownsetId>() + size_of::<Tag>() + degrees * (size_of::<f64>() + size_of::<StaircaseId>())
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.lower.len()
    }

    /// Drops the pairs that are not marked.
    fn retain(&mut self, kept: &[bool]) {
        // For each position, how many kept ones there are before it.
        let places: Vec<usize> = kept
            .iter()
            .scan(0, |count, &keep| {
                let place = *count;
                *count += usize::from(keep);
                Some(place)
            })
            .collect();
        let all = kept.iter().filter(|&&keep| keep).count();
        for start in &mut self.start {
            *start = places.get(*start).copied().unwrap_or(all);
        }
        let mut marks = kept.iter();
        self.lower.retain(|_| marks.next() == Some(&true));
        let mut marks = kept.iter();
        self.tags.retain(|_| marks.next() == Some(&true));
        let each = |i: usize| kept[i / self.degrees.max(1)];
        let mut at = 0..;
        self.transfer.retain(|_| at.next().is_some_and(each));
        let mut at = 0..;
        self.slots.retain(|_| at.next().is_some_and(each));
    }

    /// Positions of the pairs of `upper`.
    pub(crate) fn of(&self, upper: DownsetId) -> std::ops::Range<usize> {
        self.start[upper.index()]..self.start[upper.index() + 1]
    }

    pub(crate) fn lower(&self, pair: usize) -> DownsetId {
        self.lower[pair]
    }

    pub(crate) fn tag(&self, pair: usize) -> Tag {
        self.tags[pair]
    }

    /// Where the staircase of a pair is remembered.
    pub(crate) fn slot(&mut self, pair: usize, degree: usize) -> &mut StaircaseId {
        &mut self.slots[pair * self.degrees + degree]
    }

    /// To be called when the staircases that the pairs remember are gone.
    pub(crate) fn forget_staircases(&mut self) {
        self.slots.fill(StaircaseId::UNKNOWN);
    }

    pub(crate) fn fixed(&self, tables: &Tables<'_>, upper: DownsetId, pair: usize, degree: usize) -> Fixed {
        let ends = Pair { lower: self.lower[pair], upper };
        tables.fixed(ends, degree, self.transfer[pair * self.degrees + degree])
    }
}

/// Upper downsets between two looks at the observer.
const CHUNK: usize = 64;
/// Cuts of which all pairs are looked at; beyond, it would take minutes.
const MOST_CUTS: usize = 1 << 16;

/// The stages under one upper downset.
#[derive(Default)]
struct Stages {
    lower: Vec<DownsetId>,
    tags: Vec<Tag>,
    transfer: Vec<f64>,
}

impl Stages {
    fn below(tables: &Tables<'_>, levels: &Levels, budget: &Budget, alive: &[DownsetId], upper: DownsetId) -> Self {
        let lattice = tables.lattice;
        let mut stages = Self::default();
        if !budget.keeps(tables, upper) {
            return stages;
        }
        let set = lattice.get(upper);
        let mut transfer = vec![0.0; tables.problem.tensor_parallel.len()];
        for &lower in &alive[..alive.partition_point(|&id| id < upper)] {
            let (pair, below) = (Pair { lower, upper }, lattice.get(lower));
            if !budget.allows(tables, pair)
                || !below.is_subset(set)
                || breaks_apart(&tables.problem.limits.apart, below, set)
                || !budget.devices(tables, pair).is_some_and(|n| budget.affords(tables, pair, n))
            {
                continue;
            }
            if let Some(tag) = levels.tag(below, set) {
                tables.transfers(pair, &mut transfer);
                stages.lower.push(lower);
                stages.tags.push(tag);
                stages.transfer.extend_from_slice(&transfer);
            }
        }
        stages
    }
}

/// How many devices the layers around a stage need at least, from their device time alone.
struct Budget {
    threshold: f64,
    devices: u32,
    total: f64,
}

impl Budget {
    fn new(tables: &Tables<'_>, threshold: f64) -> Self {
        let total = tables.work(tables.lattice.full());
        Self { threshold, devices: tables.problem.workload.devices, total }
    }

    fn least(&self, work: f64) -> f64 {
        if work > 0.0 { (work / self.threshold * (1.0 - SLACK)).ceil() } else { 0.0 }
    }

    /// Whether a downset can be a cut, or the start or the end.
    fn keeps(&self, tables: &Tables<'_>, id: DownsetId) -> bool {
        self.around(tables, Pair { lower: id, upper: id }) <= f64::from(self.devices)
    }

    fn around(&self, tables: &Tables<'_>, pair: Pair) -> f64 {
        self.least(tables.work(pair.lower)) + self.least(self.total - tables.work(pair.upper) - self.total * SLACK)
    }

    fn allows(&self, tables: &Tables<'_>, pair: Pair) -> bool {
        let stage = self.least(tables.work(pair.upper) - tables.work(pair.lower) - self.total * SLACK);
        self.around(tables, pair) + stage.max(1.0) <= f64::from(self.devices)
    }

    fn affords(&self, tables: &Tables<'_>, pair: Pair, devices: u32) -> bool {
        self.around(tables, pair) + f64::from(devices) <= f64::from(self.devices)
    }

    /// The fewest devices for a stage, transfers and copies left out.
    fn devices(&self, tables: &Tables<'_>, pair: Pair) -> Option<u32> {
        let problem = tables.problem;
        let mut fewest: Option<u32> = None;
        for degree in 0..problem.degrees.len() {
            let fixed = Fixed {
                sums: tables.sums(pair, degree),
                transfer: 0.0,
                copies: 0.0,
                copy_fixed: 0.0,
                copy_sharded: 0.0,
            };
            if let Some(found) = fewest_devices(problem, &fixed, degree, self.threshold, fewest.unwrap_or(u32::MAX)) {
                fewest = Some(found);
            }
        }
        fewest
    }
}

/// The fewest devices below `bound` on which a stage has a load of at most `threshold` when memory is no object (but
/// one microbatch must fit).
fn fewest_devices(problem: &Problem<'_>, fixed: &Fixed, degree: usize, threshold: f64, bound: u32) -> Option<u32> {
    let sums = &fixed.sums;
    if sums.lacking > 0 || sums.least > problem.capacity {
        return None;
    }
    let list = &problem.degrees[degree];
    let enough = |d: &crate::pipeline::problem::Degree| {
        f64::from(d.data_parallel) * threshold < (sums.fastest + fixed.transfer) * (1.0 - SLACK)
    };
    let from = list.partition_point(enough);
    let fits =
        |d: &&crate::pipeline::problem::Degree| fixed.time_within(threshold, d) >= sums.fastest * (1.0 - SLACK);
    list[from..].iter().take_while(|d| d.devices < bound).find(fits).map(|d| d.devices)
}

/// A number of devices, possibly with something less important in the low bits.
pub(crate) trait Cell: Copy + Ord {
    const NEVER: Self;
    fn new(value: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn value(self) -> u64;
}

macro_rules! cell {
    ($type:ty) => {
        impl Cell for $type {
            const NEVER: Self = <$type>::MAX;
            fn new(value: u64) -> Self {
                <$type>::try_from(value).unwrap_or(<$type>::MAX)
            }
            fn plus(self, other: Self) -> Self {
                self.saturating_add(other)
            }
            fn value(self) -> u64 {
                u64::from(self)
            }
        }
    };
}
cell!(u16);
cell!(u32);
cell!(u64);

/// The interesting part of a row `g[I][..]`: useless before `first`, constant after the last cell.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: u32,
    start: usize,
    len: u32,
}

/// Rows of all downsets at all levels.
pub(crate) struct Rows<C> {
    cells: Vec<C>,
    spans: Vec<Span>,
    downsets: usize,
}

impl<C: Cell> Rows<C> {
    fn span(&self, level: usize, id: DownsetId) -> Option<Span> {
        Some(self.spans[level * self.downsets + id.index()]).filter(|s| s.len > 0)
    }

    fn cells(&self, span: Span) -> &[C] {
        &self.cells[span.start..span.start + span.len as usize]
    }

    /// Fewest devices of a downset at a level, whatever the replicas.
    pub(crate) fn least(&self, level: usize, id: DownsetId) -> C {
        self.span(level, id).map_or(C::NEVER, |s| self.cells[s.start + s.len as usize - 1])
    }

    fn at(&self, level: usize, id: DownsetId, s: u32) -> C {
        match self.span(level, id) {
            Some(span) if s >= span.first => self.cells[span.start + (s - span.first).min(span.len - 1) as usize],
            _ => C::NEVER,
        }
    }

    /// The smallest `s` that needs no more devices than any other.
    fn saturation(&self, level: usize, id: DownsetId) -> u32 {
        self.span(level, id).map_or(0, |s| s.first + s.len - 1)
    }
}

/// A stage with its degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) devices: u32,
    pub(crate) data_parallel: u32,
    /// Largest sum of data-parallel degrees from this stage on.
    pub(crate) reach: u32,
    /// Positions in `tensor_parallel` and in its list of degrees.
    pub(crate) degree: usize,
    pub(crate) option: usize,
}

/// What is known of the stages behind a cut.
#[derive(Clone, Copy, Debug)]
struct Below {
    /// Fewest devices.
    devices: u32,
    /// Smallest and largest useful sum of replicas.
    first: u32,
    saturation: u32,
}

impl Below {
    fn or(self, other: Self) -> Self {
        Self {
            devices: self.devices.min(other.devices),
            first: self.first.min(other.first),
            saturation: self.saturation.max(other.saturation),
        }
    }
}

/// One stage of a plan that is being put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) upper: DownsetId,
    pub(crate) pair: usize,
    pub(crate) offer: Offer,
    /// Microbatches in flight.
    pub(crate) in_flight: u32,
}

/// How cells count: `devices * scale + stages * bonus`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) scale: u64,
    pub(crate) bonus: u64,
}

impl Weights {
    pub(crate) const DEVICES: Self = Self { scale: 1, bonus: 0 };

    /// Fewest devices first, then fewest stages.
    pub(crate) fn then_stages(layers: usize) -> Self {
        Self { scale: (layers as u64 + 1).next_power_of_two(), bonus: 1 }
    }

    fn of(self, devices: u32) -> u64 {
        u64::from(devices) * self.scale + self.bonus
    }

    fn most(self, devices: u32) -> u64 {
        u64::from(devices) * self.scale + (self.scale - 1)
    }
}

/// Everything that stays the same while thresholds are tried.
pub(crate) struct Walk<'a> {
    pub(crate) tables: &'a Tables<'a>,
    pub(crate) levels: &'a Levels,
    pub(crate) pairs: &'a mut Pairs,
    pub(crate) staircases: &'a mut Staircases,
    /// `K`, which may be below the workload's.
    pub(crate) devices: u32,
    /// Cells that the rows of one threshold may have in all.
    pub(crate) most_cells: usize,
}

/// The fewest devices above each downset; `u32::MAX` where there are never enough.
pub(crate) type Above = Vec<u32>;

impl Walk<'_> {
    fn lattice(&self) -> &Lattice {
        self.tables.lattice
    }

    /// `h`: the fewest devices for what is not in each downset, memory left out.
    ///
    /// Time `O(P T log d)` for `P` pairs.
    pub(crate) fn above(&self, threshold: f64, tick: &mut dyn FnMut() -> Result<(), Stop>) -> Result<Above, Stop> {
        let mut above = vec![u32::MAX; self.lattice().len()];
        above[self.lattice().full().index()] = 0;
        for upper in self.lattice().ids().skip(1).rev() {
            tick()?;
            let rest = above[upper.index()];
            if rest >= self.devices {
                continue;
            }
            for pair in self.pairs.of(upper) {
                let lower = self.pairs.lower(pair);
                let mut best = above[lower.index()];
                for degree in 0..self.tables.problem.tensor_parallel.len() {
                    let fixed = self.pairs.fixed(self.tables, upper, pair, degree);
                    // `best - rest` may be anything when nothing is known yet; only less is interesting.
                    let bound = best.saturating_sub(rest);
                    if let Some(n) = fewest_devices(self.tables.problem, &fixed, degree, threshold, bound) {
                        best = rest + n;
                    }
                }
                above[lower.index()] = best;
            }
        }
        Ok(above)
    }

    /// Drops the stages that no plan within `threshold` can have, as far as devices tell when memory is no object.
    ///
    /// Time `O(P T log d)`.
    pub(crate) fn prune(&mut self, threshold: f64, tick: &mut dyn FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        let above = self.above(threshold, tick)?;
        let mut below = vec![u32::MAX; self.lattice().len()];
        below[0] = 0;
        let mut kept = vec![false; self.pairs.len()];
        for upper in self.lattice().ids().skip(1) {
            tick()?;
            for pair in self.pairs.of(upper) {
                let others = below[self.pairs.lower(pair).index()].saturating_add(above[upper.index()]);
                let Some(left) = self.devices.checked_sub(others) else { continue };
                let fewest = (0..self.tables.problem.tensor_parallel.len()).filter_map(|degree| {
                    let fixed = self.pairs.fixed(self.tables, upper, pair, degree);
                    fewest_devices(self.tables.problem, &fixed, degree, threshold, left + 1)
                });
                if let Some(devices) = fewest.min() {
                    kept[pair] = true;
                    let sum = below[self.pairs.lower(pair).index()] + devices;
                    below[upper.index()] = below[upper.index()].min(sum);
                }
            }
        }
        self.pairs.retain(&kept);
        Ok(())
    }

    /// The degrees with which a stage is allowed at `threshold`, none of them beaten in all of devices, replicas and
    /// reach. `rest` is what others need of the devices, `below` what is known of the stages behind.
    fn offers(
        &mut self,
        threshold: f64,
        upper: DownsetId,
        pair: usize,
        rest: u32,
        below: Below,
        out: &mut Vec<Offer>,
    ) {
        out.clear();
        let problem = self.tables.problem;
        let most_replicas = problem.most_replicas();
        for degree in 0..problem.tensor_parallel.len() {
            let fixed = self.pairs.fixed(self.tables, upper, pair, degree);
            if fixed.sums.lacking > 0 || fixed.sums.least > problem.capacity {
                continue;
            }
            let list = &problem.degrees[degree];
            let needed = (fixed.sums.fastest + fixed.transfer) * (1.0 - SLACK);
            let from = list.partition_point(|d| f64::from(d.data_parallel) * threshold < needed);
            for (option, at) in list.iter().enumerate().skip(from) {
                let (d, devices) = (at.data_parallel, at.devices);
                if devices > self.devices || u64::from(devices) + u64::from(rest) > u64::from(self.devices) {
                    break;
                }
                let time = fixed.time_within(threshold, at);
                if time < fixed.sums.fastest * (1.0 - SLACK) {
                    continue;
                }
                let wanted = (d + below.saturation).min(most_replicas);
                let ends = Pair { lower: self.pairs.lower(pair), upper };
                let slot = &mut self.pairs.slots[pair * self.pairs.degrees + degree];
                let in_flight = ((d + below.first).div_ceil(d), wanted.div_ceil(d));
                let run = StageRun { tables: self.tables, pair: ends, degree, at, fixed: &fixed };
                let y = self.staircases.reach(run, slot, time, in_flight);
                if y == 0 {
                    continue;
                }
                let reach = wanted.min(y.saturating_mul(d));
                let full = reach == wanted;
                let beaten = |o: &Offer| {
                    o.devices <= devices
                        && o.data_parallel <= d
                        && (o.reach >= reach || o.reach >= o.data_parallel + below.saturation)
                };
                if !out.iter().any(beaten) {
                    out.push(Offer { devices, data_parallel: d, reach, degree, option });
                }
                if full {
                    break;
                }
            }
        }
    }

    /// All rows `g` for one threshold.
    ///
    /// Time `O(P O S)` for `P` pairs, `O` offers a pair that no other one beats, and spans of `S` cells.
    pub(crate) fn rows<C: Cell>(
        &mut self,
        threshold: f64,
        above: &[u32],
        weights: Weights,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Rows<C>, Stop> {
        let downsets = self.lattice().len();
        let width = self.tables.problem.most_replicas() as usize + 1;
        let mut rows =
            Rows { cells: vec![C::new(0)], spans: vec![Span::default(); downsets * self.levels.count], downsets };
        rows.spans[0] = Span { first: 0, start: 0, len: 1 };
        let mut scratch: Vec<Vec<C>> = vec![vec![C::NEVER; width]; self.levels.count];
        let mut touched: Vec<(usize, usize)> = vec![(width, 0); self.levels.count];
        let mut offers = Vec::new();
        for upper in self.lattice().ids().skip(1) {
            tick()?;
            let rest = above[upper.index()];
            if rest > self.devices {
                continue;
            }
            for pair in self.pairs.of(upper) {
                let lower = self.pairs.lower(pair);
                let Some(below) = self.below(&rows, lower, weights) else { continue };
                let needed = rest.saturating_add(below.devices);
                if needed >= self.devices {
                    continue;
                }
                self.offers(threshold, upper, pair, needed, below, &mut offers);
                for step in &self.levels.steps {
                    if step.tag != self.pairs.tags[pair] {
                        continue;
                    }
                    let Some(span) = rows.span(step.from, lower) else { continue };
                    for offer in &offers {
                        let cells = rows.cells(span);
                        let (from, to) = add_offer(&mut scratch[step.to], cells, span.first, offer, weights);
                        let (first, last) = &mut touched[step.to];
                        (*first, *last) = ((*first).min(from), (*last).max(to));
                    }
                }
            }
            let limit = weights.most(self.devices - rest);
            for level in 0..self.levels.count {
                let (first, last) = std::mem::replace(&mut touched[level], (width, 0));
                if first < last {
                    let span = rows.store(&mut scratch[level][first..last], first, limit);
                    rows.spans[level * downsets + upper.index()] = span;
                }
                if rows.cells.len() > self.most_cells {
                    return Err(Stop::MemoryLimit);
                }
                self.forget_staircases();
            }
        }
        Ok(rows)
    }

    /// Makes room when the staircases take more than the rows may; they come back when they are asked for.
    fn forget_staircases(&mut self) {
        if self.staircases.bytes() / size_of::<u64>() > self.most_cells {
            self.staircases.clear();
            self.pairs.slots.fill(StaircaseId::UNKNOWN);
        }
    }

    /// What the rows of a downset at all levels say.
    fn below<C: Cell>(&self, rows: &Rows<C>, id: DownsetId, weights: Weights) -> Option<Below> {
        let mut found: Option<Below> = None;
        for level in 0..self.levels.count {
            if let Some(span) = rows.span(level, id) {
                let devices = (rows.least(level, id).value() / weights.scale) as u32;
                let here = Below { devices, first: span.first, saturation: rows.saturation(level, id) };
                found = Some(found.map_or(here, |other| other.or(here)));
            }
        }
        found
    }

    /// Fewest devices of all plans within the threshold, as the cells count.
    pub(crate) fn best<C: Cell>(&self, rows: &Rows<C>) -> Option<(usize, C)> {
        let full = self.lattice().full();
        let all = self.levels.accepting.iter().map(|&level| (level, rows.least(level, full)));
        all.filter(|&(_, cell)| cell < C::NEVER).min_by_key(|&(_, cell)| cell)
    }

    /// The stages of a plan that has the value of `rows` at `level`, the input's first. Where several do, the first
    /// stage has as few layers as possible, then the second, and so on; then few devices a stage.
    pub(crate) fn trace<C: Cell>(
        &mut self,
        rows: &Rows<C>,
        threshold: f64,
        above: &[u32],
        weights: Weights,
        level: usize,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut level, mut upper) = (level, self.lattice().full());
        let mut s = rows.saturation(level, upper);
        let mut offers = Vec::new();
        while upper.0 > 0 {
            let value = rows.at(level, upper, s);
            while s > 0 && rows.at(level, upper, s - 1) == value {
                s -= 1;
            }
            let Some((part, from)) = self.step_back(rows, threshold, above, weights, (level, upper, s), &mut offers)
            else {
                debug_assert!(false, "a cell has no origin");
                return Vec::new();
            };
            parts.push(part);
            (level, upper, s) = (from, self.pairs.lower(part.pair), s - part.offer.data_parallel);
        }
        parts
    }

    fn step_back<C: Cell>(
        &mut self,
        rows: &Rows<C>,
        threshold: f64,
        above: &[u32],
        weights: Weights,
        (level, upper, s): (usize, DownsetId, u32),
        offers: &mut Vec<Offer>,
    ) -> Option<(Part, usize)> {
        let value = rows.at(level, upper, s);
        for pair in self.pairs.of(upper).rev() {
            let lower = self.pairs.lower(pair);
            let Some(below) = self.below(rows, lower, weights) else { continue };
            let needed = above[upper.index()].saturating_add(below.devices);
            if needed >= self.devices {
                continue;
            }
            self.offers(threshold, upper, pair, needed, below, offers);
            offers.sort_by_key(|o| (o.devices, o.data_parallel));
            for step in self.levels.steps.iter().filter(|x| x.to == level && x.tag == self.pairs.tags[pair]) {
                for &offer in offers.iter().filter(|o| o.data_parallel <= s && s <= o.reach) {
                    let before = rows.at(step.from, lower, s - offer.data_parallel);
                    if before < C::NEVER && before.plus(C::new(weights.of(offer.devices))) == value {
                        let in_flight = s.div_ceil(offer.data_parallel);
                        return Some((Part { upper, pair, offer, in_flight }, step.from));
                    }
                }
            }
        }
        None
    }
}

/// Takes an offer on top of a row into account; returns the cells that it touched.
fn add_offer<C: Cell>(row: &mut [C], below: &[C], first: u32, offer: &Offer, weights: Weights) -> (usize, usize) {
    let from = (first + offer.data_parallel) as usize;
    let to = (from + below.len()).min(offer.reach as usize + 1).min(row.len());
    if from >= to {
        return (row.len(), 0);
    }
    let cost = C::new(weights.of(offer.devices));
    for (cell, &before) in row[from..to].iter_mut().zip(below) {
        *cell = (*cell).min(before.plus(cost));
    }
    (from, to)
}

impl<C: Cell> Rows<C> {
    /// Carries minima forward, keeps the cells that are within `limit` and not yet constant, and clears the scratch.
    fn store(&mut self, cells: &mut [C], offset: usize, limit: u64) -> Span {
        let start = self.cells.len();
        let (mut first, mut len, mut least) = (0, 0, C::NEVER);
        for (i, cell) in cells.iter_mut().enumerate() {
            if *cell < least && cell.value() <= limit {
                least = *cell;
                if len == 0 {
                    first = (offset + i) as u32;
                }
                len = i + offset - first as usize + 1;
            }
            if len > 0 {
                self.cells.push(least);
            }
            *cell = C::NEVER;
        }
        self.cells.truncate(start + len);
        Span { first, start, len: len as u32 }
    }
}
