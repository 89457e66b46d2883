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
use crate::placement::labels::{self, Fields, Label, Rest};
use crate::placement::linear::{Found, options};
use crate::placement::problem::{Load, Net, Placed, Problem, SAFETY, add};
use crate::placement::table::Table;
use crate::progress::Stop;

/// Steps between two looks at the observer.
const STEPS_A_TICK: usize = 1 << 14;
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
}

impl<'a> Walk<'a> {
    pub(crate) fn new(problem: &'a Problem<'a>, chains: &'a [Chain<'a>], ceiling: f64, most_bytes: usize) -> Self {
        let bounds = chains.iter().map(|chain| {
            let offers = chain.offers(ceiling);
            Bound { chain, from_place_on: offers.from_place_on(), offers, place: 0 }
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
        tick: &mut dyn FnMut(usize) -> Result<(), Stop>,
    ) -> Result<Progression, Stop> {
        let mut taken = 0;
        while self.next.0 < self.problem.len() {
            let Some(&start) = self.waiting[self.next.0].get(self.next.1) else {
                self.next = (self.next.0 + 1, 0);
                continue;
            };
            if taken >= steps {
                return Ok(Progression::Paused);
            }
            if self.table.bytes() > self.most_bytes {
                return Ok(Progression::Full);
            }
            self.next.1 += 1;
            self.from(start, &mut taken, tick)?;
        }
        Ok(Progression::Through)
    }

    /// Walks up from one downset.
    fn from(
        &mut self,
        start: u32,
        taken: &mut usize,
        tick: &mut dyn FnMut(usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let ceiling = self.ceiling;
        let labels = self.table.entry(start).labels.clone();
        if labels.iter().all(|label| label.value() >= ceiling) {
            return Ok(());
        }
        self.open(start);
        let Some(window) = self.window(&labels) else { return Ok(()) };
        while let Some(&frame) = self.frames.last() {
            *taken += 1;
            if taken.is_multiple_of(STEPS_A_TICK) {
                tick(self.table.len())?;
            }
            let unit = self.candidate(frame, &window);
            let Some(unit) = unit else {
                self.close();
                continue;
            };
            let before = self.growth.mark;
            self.join(unit);
            if self.visit(start, &window) {
                self.push(unit, before, &window);
            } else {
                self.leave(unit, before);
            }
        }
        Ok(())
    }

    /// Makes everything ready for the empty part on top of a downset.
    fn open(&mut self, start: u32) {
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
        let (start, end) = (0, self.pool.len());
        self.frames.push(Frame { start, end, next: 0, unit: u32::MAX, before: Mark::default(), lost: 0.0 });
    }

    /// What a part on top of a downset must come to.
    fn window(&mut self, labels: &[Label]) -> Option<Window> {
        let problem = self.problem;
        let mut union = vec![0; problem.kinds.len()];
        for label in labels {
            self.fields.all_left(label.usage, &mut self.left);
            for (most, &left) in union.iter_mut().zip(&self.left) {
                *most = left.max(*most);
            }
        }
        let set = problem.prices.set(&union)?;
        let mut most = f64::NEG_INFINITY;
        for label in labels {
            self.fields.all_left(label.usage, &mut self.left);
            for kind in 0..union.len() {
                if self.left[kind] > 0 {
                    self.left[kind] -= 1;
                    let worth = problem.prices.worth(set, &self.left) * self.ceiling;
                    let offers = self.bounds.iter().map(|b| b.from_place_on.most(set, b.place, &self.left));
                    most = most.max(offers.fold(worth, f64::min));
                    self.left[kind] += 1;
                }
            }
        }
        let column = problem.prices.column(set);
        let total = problem.total[column];
        if problem.total[column + 1] - self.done[column + 1] > 0.5 {
            return None;
        }
        let needed = total - most - SAFETY * total;
        let order = self.above.get(set).map_or(usize::MAX, |_| set);
        self.pool.sort_unstable_by(|&a, &b| by_above(&self.above, order, a, b));
        Some(Window {
            kinds: (0..union.len()).filter(|&kind| union[kind] > 0).collect(),
            labels: labels.to_vec(),
            column,
            order,
            total,
            missing: needed - self.done[column],
            needed,
        })
    }

    /// The next unit that may join on the present level; those before it are out.
    fn candidate(&mut self, frame: Frame, window: &Window) -> Option<u32> {
        let level = self.frames.len() - 1;
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
        let top = &mut self.frames[level];
        top.lost = lost;
        top.next += 1;
        Some(self.pool[frame.next])
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
    fn visit(&mut self, start: u32, window: &Window) -> bool {
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
            self.offer(start, window);
        }
        true
    }

    /// Puts the part on every device that may hold it, on top of every label.
    fn offer(&mut self, start: u32, window: &Window) {
        let problem = self.problem;
        let full = self.size == problem.len();
        let mut target = None;
        for (index, label) in window.labels.iter().enumerate() {
            for option in 0..self.options.len() {
                let (load, kind, replicas) = self.options[option];
                let load = [load[0].max(label.load[0]), load[1].max(label.load[1])];
                if load[0] + load[1] >= self.ceiling {
                    continue;
                }
                let Some(usage) = self.fields.take(label.usage, kind, replicas) else { continue };
                let parent = (start, index as u32);
                let new = Label { usage, load, parent, kind: kind as u32, replicas };
                if full {
                    self.finish(new);
                    continue;
                }
                self.fields.all_left(usage, &mut self.left);
                let mut rest = Rest { done: &self.done, part: self.growth.row(), crossing: 0.0 };
                if !rest.possible(problem, &self.left, self.ceiling) {
                    continue;
                }
                if !self.bounds.iter().all(|bound| bound.possible(&rest, &self.left, 0.0)) {
                    continue;
                }
                let (id, entered) = *target.get_or_insert_with(|| self.table.intern(&self.set));
                if entered {
                    self.table.entry_mut(id).crossing = self.crossing();
                    self.waiting[self.size].push(id);
                    target = Some((id, false));
                }
                let crossing = &self.table.entry(id).crossing;
                rest.crossing = crossing[0];
                let bounds = self.bounds.iter().zip(&crossing[1..]);
                if rest.possible(problem, &self.left, self.ceiling)
                    && bounds.into_iter().all(|(bound, &side)| bound.possible(&rest, &self.left, side))
                {
                    let fields = &self.fields;
                    self.table.update(id, |labels| labels::insert(labels, fields, new));
                }
            }
        }
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

impl Bound<'_> {
    /// Whether devices left over might do the rest, of which `side` is the time for transfers on the side.
    fn possible(&self, rest: &Rest<'_>, left: &[u32], side: f64) -> bool {
        self.chain.possible_rest(&self.offers, self.place, rest, left, side)
    }
}

/// What a part on top of some downset is for.
struct Window {
    /// Kinds that some label has left.
    kinds: Vec<usize>,
    labels: Vec<Label>,
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
