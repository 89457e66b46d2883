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
use crate::placement::labels::{self, Fields, Label, Usage};
use crate::placement::linear::{Found, options};
use crate::placement::problem::{Load, Net, Placed, Problem, SAFETY, add};
use crate::placement::table::Table;
use crate::progress::Stop;

/// Steps (a unit that joins, about) between two looks at the observer.
const STEPS_A_TICK: usize = 1 << 15;
/// Most units for which it is known how much comes after each.
const MOST_CLOSURES: usize = 1 << 14;

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
    problem: &'a Problem<'a>,
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
    /// By kind: position of its steps in [`Window::steps`]; then their number.
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
    left: Vec<u32>,
    /// Steps so far, and at which one to look at the observer next.
    steps: usize,
    next_tick: usize,
    /// The downset that is being walked up from.
    open: Option<Window>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(problem: &'a Problem<'a>, chains: &'a [Chain<'a>], ceiling: f64, most_bytes: usize) -> Self {
        let bounds = chains.iter().map(|chain| {
            let offers = chain.offers(ceiling);
            Bound { chain, from_place_on: offers.from_place_on(), offers, place: 0 }
        });
        let mut slots = vec![0];
        for kind in &problem.kinds {
            slots.push(slots[slots.len() - 1] + kind.replicas as usize);
        }
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
            slots,
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
            left: Vec::new(),
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

    /// Looks only for splits with values below `ceiling` from here on.
    pub(crate) fn lower(&mut self, ceiling: f64) {
        if ceiling < self.ceiling {
            self.ceiling = ceiling;
            for bound in &mut self.bounds {
                bound.offers = bound.chain.offers(ceiling);
                bound.from_place_on = bound.offers.from_place_on();
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
        let problem = self.problem;
        let labels = &self.table.entry(start).labels;
        let mut union = vec![0; problem.kinds.len()];
        for label in labels {
            self.fields.all_left(label.usage, &mut self.left);
            for (most, &left) in union.iter_mut().zip(&self.left) {
                *most = left.max(*most);
            }
        }
        let set = problem.prices.set(&union)?;
        let column = problem.prices.column(set);
        let total = problem.total[column];
        let rest: Vec<f64> = problem.total.iter().zip(&self.done).map(|(total, done)| total - done).collect();
        if rest[column + 1] > 0.5 {
            return None;
        }
        let mut most = f64::NEG_INFINITY;
        let mut steps = vec![Vec::new(); self.slots.last().map_or(0, |last| last + 1)];
        for (index, label) in labels.iter().enumerate() {
            if label.value() >= self.ceiling {
                continue;
            }
            for kind in 0..union.len() {
                for replicas in 1..=problem.kinds[kind].replicas {
                    let Some(usage) = self.fields.take(label.usage, kind, replicas) else { break };
                    self.fields.all_left(usage, &mut self.left);
                    if replicas == 1 {
                        let worth = problem.prices.worth(set, &self.left) * self.ceiling;
                        let offers = self.bounds.iter().map(|b| b.from_place_on.most(set, b.place, &self.left));
                        most = most.max(offers.fold(worth, f64::min));
                    }
                    let slot = self.slots[kind] + replicas as usize - 1;
                    steps[slot].push(self.step(index as u32, label, usage));
                }
            }
        }
        let needed = total - most - SAFETY * total;
        let order = self.above.get(set).map_or(usize::MAX, |_| set);
        self.pool.sort_unstable_by(|&a, &b| by_above(&self.above, order, a, b));
        Some(Window {
            start,
            kinds: (0..union.len()).filter(|&kind| union[kind] > 0).collect(),
            missing: needed - self.done[column],
            steps,
            rest,
            column,
            order,
            total,
            needed,
        })
    }

    /// What a label comes to with the devices in `self.left` left over.
    fn step(&self, index: u32, label: &Label, usage: Usage) -> Step {
        let problem = self.problem;
        let none =
            Step { index, usage, load: label.load, set: usize::MAX, column: 0, worth: 0.0, crossing: 0.0, left: 0 };
        let Some(set) = problem.prices.set(&self.left) else { return none };
        let (prices, column) = (&problem.prices.sets[set], problem.prices.column(set));
        Step {
            set,
            column,
            worth: problem.prices.worth(set, &self.left) * self.ceiling + SAFETY * problem.total[column],
            crossing: if prices.member[0] { 0.0 } else { prices.least },
            left: self.bounds.first().map_or(0, |bound| bound.chain.counts.index(&self.left)),
            ..none
        }
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
            if window.total - lost < window.needed || frame.next == frame.end {
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
        let problem = self.problem;
        let (row, kept) = (self.growth.row(), self.growth.mark.kept);
        if window.kinds.iter().all(|&kind| problem.least(row, kept, kind) >= self.ceiling) {
            return false;
        }
        if row[window.column] < window.missing {
            return true;
        }
        options(problem, &self.growth, self.ceiling, &mut self.options);
        if !self.options.is_empty() {
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
            let steps = &window.steps[self.slots[kind] + replicas as usize - 1];
            self.steps += steps.len() / 4;
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
        if step.set == usize::MAX {
            return false;
        }
        let row = self.growth.row();
        if window.rest[step.column + 1] - row[step.column + 1] > 0.5 {
            return false;
        }
        let work = window.rest[step.column] - row[step.column];
        let slack = SAFETY * self.problem.total[step.column];
        work + crossing[0] * step.crossing <= step.worth
            && self.bounds.iter().zip(&crossing[1..]).all(|(bound, side)| {
                work + side * step.crossing <= bound.offers.at(step.set, bound.place, step.left) + slack
            })
    }

    /// Index of the present downset.
    fn enter(&mut self) -> u32 {
        let (id, new) = self.table.intern(&self.set);
        if new {
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
    from_place_on: Offers,
    place: usize,
}

/// A label with one more part on top: what it takes, and what the devices left can do.
#[derive(Clone, Copy, Debug)]
struct Step {
    index: u32,
    usage: Usage,
    load: Load,
    /// The prices that fit the devices left, and their column.
    set: usize,
    column: usize,
    /// Worth of the devices left, with slack.
    worth: f64,
    /// Price of time spent on what crosses the cut.
    crossing: f64,
    /// Index of the devices left among a chain's offers.
    left: usize,
}

/// What a part on top of some downset is for.
struct Window {
    start: u32,
    /// Kinds that some label has left.
    kinds: Vec<usize>,
    /// By kind and replicas.
    steps: Vec<Vec<Step>>,
    /// Sums over all that is not below.
    rest: Vec<f64>,
    /// Column of the prices, and their set's position where it is known what comes after each unit.
    column: usize,
    order: usize,
    /// Price of everything, of the least that must be done together with the part, and of the part's share of that.
    total: f64,
    needed: f64,
    missing: f64,
}

/// What has the most to come after it first, so that it is seen early that something cannot be left out.
fn by_above(above: &[Vec<f64>], set: usize, a: u32, b: u32) -> std::cmp::Ordering {
    above.get(set).map_or(a.cmp(&b), |above| above[b as usize].total_cmp(&above[a as usize]).then(a.cmp(&b)))
}

/// For every set of prices, what a unit and all that must come after it cost. Time `O(n (n + E) / 64 + n^2)`.
fn above(problem: &Problem<'_>) -> Vec<Vec<f64>> {
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
