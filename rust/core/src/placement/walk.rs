//! The walk over the lattice of downsets that labels still live in.
//!
//! Partial splits grow from the empty downset, smallest downsets first. From a downset `D`, every downset `D + S` is met
//! exactly once: a unit that may join `S` either joins or is excluded for good, with all that comes after it. So no
//! table of pairs or covers is needed, and what is excluded rules out more: transfers across it cannot be avoided any
//! more, and what is left may be too little. A branch ends when its part cannot have a load below the ceiling on any
//! device, or when even with everything not excluded the devices left could not do the rest.
//!
//! After the dynamic program of Tarnawski et al., `NeurIPS` 2020, section 5.1.1 (`dp[#cpu][#acc][downset]` over all
//! pairs of nested downsets), of which this is a branch-and-bound form.

use crate::placement::LoadRule;
use crate::placement::chain::{Chain, Offers};
use crate::placement::growth::{Growth, Mark};
use crate::placement::labels::{self, Fields, Label};
use crate::placement::linear::{Found, options};
use crate::placement::problem::{Load, Net, Placed, Problem, SAFETY, add};
use crate::placement::steps::{self, Left, Step, Steps};
use crate::placement::table::Table;
use crate::progress::Stop;

/// Steps (a unit that joins, about) between two looks at the observer.
const STEPS_A_TICK: usize = 1 << 15;
/// Most units for which it is known how much comes after each.
const MOST_CLOSURES: usize = 1 << 12;

/// Where a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progression {
    /// Every split with a value below the ceiling was looked at.
    Through,
    /// There are steps left to do.
    Paused,
    /// The table is full.
    Full,
}

/// One level of the walk: what can join, and what was there before.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Candidates: `pool[start..end]`, of which those before `next` joined or were excluded.
    start: usize,
    end: usize,
    next: usize,
    /// The unit whose joining opened the level.
    unit: u32,
    before: Mark,
    /// The largest price of what comes after an excluded unit, it included.
    lost: f64,
}

/// A walk that can be paused.
pub(crate) struct Walk<'a> {
    problem: &'a Problem,
    fields: Fields,
    pub(crate) table: Table,
    most_bytes: usize,
    /// Only splits with values below are looked for.
    pub(crate) ceiling: f64,
    pub(crate) best: Option<Found>,
    /// Downsets to start from, by size.
    waiting: Vec<Vec<u32>>,
    /// Size and position of the next one.
    next: (usize, usize),
    /// By kind: position of its steps (see [`steps::slots`]).
    slots: Vec<usize>,
    /// By set of prices and unit: price of the unit and all that must come after it.
    above: Vec<Vec<f64>>,
    bounds: Vec<Bound<'a>>,
    growth: Growth<'a>,
    /// Units before each one that are not in the downset.
    missing: Vec<u32>,
    set: Vec<u64>,
    size: usize,
    pool: Vec<u32>,
    frames: Vec<Frame>,
    done: Vec<f64>,
    options: Vec<(Load, usize, u32)>,
    /// Steps so far, and at which one to look at the observer next.
    steps: usize,
    next_tick: usize,
    /// The downset that is being walked up from.
    open: Option<Window>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(problem: &'a Problem, chains: &'a [Chain<'a>], ceiling: f64, most_bytes: usize) -> Self {
        let bounds = chains.iter().map(|chain| {
            let offers = chain.offers(ceiling);
            Bound { chain, onwards: offers.onwards(), offers, place: 0 }
        });
        let n = problem.len();
        let mut table = Table::new(problem.words());
        let (root, _) = table.intern(&vec![0; problem.words()]);
        table.update(root, |labels| labels.push(Label::ROOT));
        let mut waiting = vec![Vec::new(); n + 1];
        waiting[0].push(root);
        Self {
            problem,
            fields: Fields::new(&problem.kinds),
            table,
            most_bytes,
            ceiling,
            best: None,
            waiting,
            next: (0, 0),
            slots: steps::slots(problem),
            above: above(problem),
            bounds: bounds.collect(),
            growth: Growth::new(problem),
            missing: vec![0; n],
            set: vec![0; problem.words()],
            size: 0,
            pool: Vec::new(),
            frames: Vec::new(),
            done: vec![0.0; problem.width],
            options: Vec::new(),
            steps: 0,
            next_tick: STEPS_A_TICK,
            open: None,
        }
    }

    /// Goes on for about so many steps.
    ///
    /// Time `O(P (L K R + d))` in all for `P` pairs of nested downsets that the bounds leave, `L` labels a downset, `K`
    /// kinds of devices with up to `R` replicas, and units with `d` nets. Space `O(D (n / 64 + L))` for the `D` downsets
    /// that a label reaches.
    pub(crate) fn advance(
        &mut self,
        steps: usize,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Progression, Stop> {
        let until = self.steps + steps;
        while self.open.is_some() || self.next() {
            if self.table.bytes() > self.most_bytes {
                return Ok(Progression::Full);
            }
            if self.climb(until, tick)? == Progression::Paused {
                return Ok(Progression::Paused);
            }
        }
        Ok(Progression::Through)
    }

    /// Opens the next downset that some label lives in; false when there is none.
    fn next(&mut self) -> bool {
        while self.next.0 < self.problem.len() {
            let Some(&start) = self.waiting[self.next.0].get(self.next.1) else {
                self.next = (self.next.0 + 1, 0);
                continue;
            };
            self.next.1 += 1;
            self.steps += 1;
            if self.table.entry(start).labels.iter().any(|label| label.value() < self.ceiling) {
                self.ground(start);
                self.open = self.window(start);
                if self.open.is_some() {
                    return true;
                }
            }
        }
        false
    }

    /// Whether all devices are counted, so that a walk that is through proves its ceiling.
    pub(crate) fn exact(&self) -> bool {
        !self.fields.clamped && !self.problem.capped()
    }

    /// Looks only for splits with values below `ceiling` from here on.
    pub(crate) fn lower(&mut self, ceiling: f64) {
        if ceiling < self.ceiling {
            self.ceiling = ceiling;
            for bound in &mut self.bounds {
                bound.offers = bound.chain.offers(ceiling);
                bound.onwards = bound.offers.onwards();
            }
        }
    }

    /// Walks on from the open downset.
    fn climb(&mut self, until: usize, tick: &mut dyn FnMut() -> Result<(), Stop>) -> Result<Progression, Stop> {
        let Some(window) = self.open.take() else { return Ok(Progression::Through) };
        while !self.frames.is_empty() {
            self.steps += 1;
            if self.steps >= self.next_tick {
                self.next_tick = self.steps + STEPS_A_TICK;
                tick()?;
                if self.steps >= until || self.table.bytes() > self.most_bytes {
                    self.open = Some(window);
                    return Ok(Progression::Paused);
                }
            }
            let Some(unit) = self.candidate(&window) else {
                self.close();
                continue;
            };
            let before = self.growth.mark;
            self.join(unit);
            if self.visit(&window) {
                self.push(unit, before, &window);
            } else {
                self.leave(unit, before);
            }
        }
        Ok(Progression::Through)
    }

    /// Makes everything ready for the empty part on top of a downset.
    fn ground(&mut self, start: u32) {
        let problem = self.problem;
        self.set.copy_from_slice(self.table.set(start));
        self.size = self.set.iter().map(|word| word.count_ones() as usize).sum();
        self.growth.reset();
        self.done.fill(0.0);
        self.pool.clear();
        self.frames.clear();
        for bound in &mut self.bounds {
            bound.place = 0;
        }
        for unit in 0..problem.len() as u32 {
            let inside = |other: &u32| self.set[*other as usize / 64] >> (other % 64) & 1 == 1;
            if inside(&unit) {
                self.growth.exclude(unit);
                add(&mut self.done, problem.row(unit));
                for bound in &mut self.bounds {
                    bound.place += usize::from(bound.chain.member[unit as usize]);
                }
                self.missing[unit as usize] = 0;
                continue;
            }
            let missing = problem.before(unit).iter().filter(|&other| !inside(other)).count();
            self.missing[unit as usize] = missing as u32;
            if missing == 0 {
                self.pool.push(unit);
            }
        }
        self.growth.mark = Mark::default();
        self.steps += (problem.len() + problem.nets.len()) / 2;
        let (start, end) = (0, self.pool.len());
        self.frames.push(Frame { start, end, next: 0, unit: u32::MAX, before: Mark::default(), lost: 0.0 });
    }

    /// What a part on top of a downset must come to, and what it can be put on.
    fn window(&mut self, start: u32) -> Option<Window> {
        let labels = &self.table.entry(start).labels;
        let steps = Steps::new(self.problem, &self.fields, labels, &self.done, self.ceiling, &Bounds(&self.bounds))?;
        let total = self.problem.total[steps.column];
        let needed = steps.least + self.done[steps.column];
        let order = self.above.get(steps.set).map_or(usize::MAX, |_| steps.set);
        self.pool.sort_unstable_by(|&a, &b| by_above(&self.above, order, a, b));
        Some(Window { start, steps, order, spare: total - needed })
    }

    /// The next unit that may join on the present level; those before it are out.
    fn candidate(&mut self, window: &Window) -> Option<u32> {
        let frame = self.frames.last_mut()?;
        let mut lost = frame.lost;
        if frame.next > frame.start {
            let out = self.pool[frame.next - 1];
            if window.order != usize::MAX {
                lost = lost.max(self.above[window.order][out as usize]);
            }
            if lost > window.spare || frame.next == frame.end {
                return None;
            }
            self.growth.exclude(out);
        } else if frame.next == frame.end {
            return None;
        }
        frame.lost = lost;
        frame.next += 1;
        Some(self.pool[frame.next - 1])
    }

    /// Leaves the present level and the unit that opened it.
    fn close(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        // The last candidate that was met was not excluded.
        for at in frame.start..frame.next.max(frame.start + 1) - 1 {
            self.growth.readmit(self.pool[at]);
        }
        self.pool.truncate(frame.start);
        if frame.unit != u32::MAX {
            self.leave(frame.unit, frame.before);
        }
    }

    fn join(&mut self, unit: u32) {
        self.growth.join(unit);
        self.set[unit as usize / 64] |= 1 << (unit % 64);
        self.size += 1;
        for bound in &mut self.bounds {
            bound.place += usize::from(bound.chain.member[unit as usize]);
        }
        for &next in self.problem.after(unit) {
            self.missing[next as usize] -= 1;
        }
    }

    fn leave(&mut self, unit: u32, before: Mark) {
        self.growth.leave(unit, before);
        self.set[unit as usize / 64] &= !(1 << (unit % 64));
        self.size -= 1;
        for bound in &mut self.bounds {
            bound.place -= usize::from(bound.chain.member[unit as usize]);
        }
        for &next in self.problem.after(unit) {
            self.missing[next as usize] += 1;
        }
    }

    /// Opens the level above the unit that just joined.
    fn push(&mut self, unit: u32, before: Mark, window: &Window) {
        let Some(&below) = self.frames.last() else { return };
        let start = self.pool.len();
        self.pool.extend_from_within(below.next..below.end);
        for &next in self.problem.after(unit) {
            if self.missing[next as usize] == 0 {
                self.pool.push(next);
            }
        }
        self.pool[start..].sort_unstable_by(|&a, &b| by_above(&self.above, window.order, a, b));
        let end = self.pool.len();
        self.frames.push(Frame { start, end, next: start, unit, before, lost: below.lost });
    }

    /// Looks at the part as it is; false when nothing that it grows into can be of use.
    fn visit(&mut self, window: &Window) -> bool {
        let (row, kept) = (self.growth.row(), self.growth.mark.kept);
        if window.steps.hopeless(self.problem, row, kept, self.ceiling) {
            return false;
        }
        if row[window.steps.column] >= window.steps.least {
            options(self.problem, &self.growth, self.ceiling, &mut self.options);
            self.offer(window);
        }
        true
    }

    /// Puts the part on every device that may hold it, on top of every label.
    fn offer(&mut self, window: &Window) {
        let full = self.size == self.problem.len();
        let mut target = None;
        for option in 0..self.options.len() {
            let (own, kind, replicas) = self.options[option];
            let steps = &window.steps.by_slot[self.slots[kind] + replicas as usize - 1];
            self.steps += steps.len() * (4 + steps.len()) / 16;
            for step in steps {
                let load = [own[0].max(step.load[0]), own[1].max(step.load[1])];
                if load[0] + load[1] >= self.ceiling {
                    continue;
                }
                let new = Label {
                    usage: step.usage,
                    load,
                    parent: (window.start, step.index),
                    kind: kind as u32,
                    replicas,
                };
                if full {
                    self.finish(new);
                } else if self.possible(window, step, &[0.0; 3]) {
                    let id = *target.get_or_insert_with(|| self.enter());
                    if self.possible(window, step, &self.table.entry(id).crossing) {
                        self.table.update(id, |labels| labels::insert(labels, &self.fields, new));
                    }
                }
            }
        }
    }

    /// Whether the devices left over might do the rest, transfers across the cut included.
    fn possible(&self, window: &Window, step: &Step, crossing: &[f64; 3]) -> bool {
        let (row, Some(set)) = (self.growth.row(), step.set) else { return false };
        let Some(work) = window.steps.work(row, step, crossing[0]) else { return false };
        let slack = SAFETY * self.problem.total[step.column];
        self.bounds
            .iter()
            .zip(&crossing[1..])
            .all(|(bound, side)| work + side * step.crossing <= bound.offers.at(set, bound.place, step.left) + slack)
    }

    /// Index of the present downset.
    fn enter(&mut self) -> u32 {
        let (id, new) = self.table.intern(&self.set);
        if new {
            self.steps += self.problem.nets.len() / 4;
            self.table.entry_mut(id).crossing = self.crossing();
            self.waiting[self.size].push(id);
        }
        id
    }

    /// The least time that devices above the cut spend on what crosses it: on all of it, and on what each chain does
    /// not account for.
    fn crossing(&self) -> [f64; 3] {
        let mut crossing = [0.0; 3];
        if self.problem.load == LoadRule::Sequential {
            let inside = |unit: u32| self.set[unit as usize / 64] >> (unit % 64) & 1 == 1;
            let crosses = |net: &&Net| net.targets.iter().any(|&target| inside(target) != inside(net.source));
            crossing[0] = self.problem.nets.iter().filter(crosses).map(|net| net.cost).sum();
            for (side, bound) in crossing[1..].iter_mut().zip(&self.bounds) {
                *side = bound.chain.crossing(inside);
            }
        }
        crossing
    }

    /// A split of everything.
    fn finish(&mut self, last: Label) {
        let mut parts = Vec::new();
        let mut above: Vec<u64> = self.set.clone();
        let mut label = last;
        while label.parent.0 != u32::MAX {
            let below = self.table.set(label.parent.0);
            let units = difference(&above, below);
            parts.push(Placed { units, kind: label.kind as usize, replicas: label.replicas });
            above.copy_from_slice(below);
            label = self.table.entry(label.parent.0).labels[label.parent.1 as usize];
        }
        parts.reverse();
        self.ceiling = last.value();
        self.best = Some(Found { parts, value: last.value() });
    }
}

/// A chain with its offers, and the place of the present downset on it.
struct Bound<'a> {
    chain: &'a Chain<'a>,
    offers: Offers,
    /// The largest offers from each place on.
    onwards: Offers,
    place: usize,
}

/// What the chains know about devices left over.
struct Bounds<'b, 'a>(&'b [Bound<'a>]);

impl Left for Bounds<'_, '_> {
    fn most(&self, set: usize, left: &[u32]) -> f64 {
        self.0.iter().map(|b| b.onwards.most(set, b.place, left)).fold(f64::INFINITY, f64::min)
    }

    fn index(&self, left: &[u32]) -> usize {
        self.0.first().map_or(0, |bound| bound.chain.counts.index(left))
    }
}

/// What a part on top of some downset is for.
struct Window {
    start: u32,
    steps: Steps,
    /// The set of prices where it is known what comes after each unit.
    order: usize,
    /// Price of what may come after the part and all below it.
    spare: f64,
}

/// What has the most to come after it first, so that it is seen early that something cannot be left out.
fn by_above(above: &[Vec<f64>], set: usize, a: u32, b: u32) -> std::cmp::Ordering {
    above.get(set).map_or(a.cmp(&b), |above| above[b as usize].total_cmp(&above[a as usize]).then(a.cmp(&b)))
}

/// For every set of prices, what a unit and all that must come after it cost. Time `O(n (n + E) / 64 + n^2)`.
fn above(problem: &Problem) -> Vec<Vec<f64>> {
    let (n, words) = (problem.len(), problem.words());
    if n > MOST_CLOSURES {
        return Vec::new();
    }
    let mut closures = vec![0_u64; n * words];
    let mut above = vec![vec![0.0; n]; problem.prices.sets.len()];
    for unit in (0..n).rev() {
        let (own, later) = closures[unit * words..].split_at_mut(words);
        own[unit / 64] |= 1 << (unit % 64);
        for &next in problem.after(unit as u32) {
            let at = (next as usize - unit - 1) * words;
            for (a, b) in own.iter_mut().zip(&later[at..at + words]) {
                *a |= b;
            }
        }
        for member in difference(own, &vec![0; words]) {
            let row = problem.row(member);
            for (set, above) in above.iter_mut().enumerate() {
                above[unit] += row[problem.prices.column(set)];
            }
        }
    }
    above
}

/// Units of one set that are not in another.
fn difference(set: &[u64], without: &[u64]) -> Vec<u32> {
    let mut units = Vec::new();
    for (word, (a, b)) in set.iter().zip(without).enumerate() {
        let mut rest = a & !b;
        while rest != 0 {
            units.push(word as u32 * 64 + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
    units
}
