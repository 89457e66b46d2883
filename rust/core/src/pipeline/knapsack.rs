//! The exact choice of one TMPC per layer: a multiple-choice knapsack over few distinct kinds of items.
//!
//! Layers of a stage that have the same alternatives are interchangeable, so a stage is a *bag*: how often each *menu*
//! (list of alternatives) occurs. With `y` microbatches in flight an alternative takes `a * y + b` bytes; wanted is the
//! least sum of times whose bytes fit.
//!
//! Everything starts from the fastest alternative of each item and asks for the cheapest way to save the bytes that
//! are too many. The linear relaxation (Sinha and Zoltners 1979) bounds the answer from below and, rounded up, from
//! above; where the two differ, a dynamic program over the menus keeps the Pareto-optimal pairs (bytes saved, time
//! added) whose Lagrangian bound is below the incumbent, which leaves a handful of them.

use std::collections::HashMap;

/// One alternative on a menu.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Cost: time of one microbatch, with all that depends on the choice.
    pub(crate) time: f64,
    /// `a`: bytes for each microbatch in flight.
    pub(crate) per_microbatch: f64,
    /// `b`: bytes whatever is in flight.
    pub(crate) fixed: f64,
}

impl Choice {
    /// Bytes with `y` microbatches in flight.
    pub(crate) fn bytes(&self, y: u32) -> f64 {
        self.per_microbatch * f64::from(y) + self.fixed
    }
}

/// Index of a menu in [`Menus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MenuId(pub(crate) u32);

/// Distinct menus. The alternatives of a menu stay in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Menus {
    menus: Vec<Vec<Choice>>,
    index: HashMap<Vec<[u64; 3]>, MenuId>,
}

impl Menus {
    /// The menu with these alternatives.
    pub(crate) fn intern(&mut self, choices: Vec<Choice>) -> MenuId {
        let key = choices.iter().map(|c| [c.time, c.per_microbatch, c.fixed].map(f64::to_bits)).collect();
        *self.index.entry(key).or_insert_with(|| {
            self.menus.push(choices);
            MenuId(self.menus.len() as u32 - 1)
        })
    }

    /// Alternatives of a menu.
    pub(crate) fn get(&self, id: MenuId) -> &[Choice] {
        &self.menus[id.0 as usize]
    }
}

/// How often each menu occurs in a stage; every menu at most once in the list.
pub(crate) type Bag = Vec<(MenuId, u32)>;

/// Bounds on the least time; equal when it is known. Both infinite when nothing fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Bounds {
    const IMPOSSIBLE: Self = Self { low: f64::INFINITY, high: f64::INFINITY };

    fn exactly(time: f64) -> Self {
        Self { low: time, high: time }
    }
}

/// For each menu of a bag, how many of its items take each alternative.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) time: f64,
    pub(crate) counts: Vec<Vec<u32>>,
    /// Whether no other selection is proven to be better.
    pub(crate) exact: bool,
}

/// A step from one alternative to a smaller, slower one.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Time added for each byte saved.
    slope: f64,
    saved: f64,
    added: f64,
    /// Position of the menu in the bag, and of the alternatives before and after the step on the menu.
    item: u32,
    from: u32,
    to: u32,
}

/// The alternatives of one menu that are worth taking at some `y`, fastest first, each smaller than the one before.
fn efficient(menu: &[Choice], y: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..menu.len() as u32).collect();
    let key = |i: u32| (menu[i as usize].time, menu[i as usize].bytes(y));
    order.sort_by(|&i, &j| {
        let ((time_i, bytes_i), (time_j, bytes_j)) = (key(i), key(j));
        time_i.total_cmp(&time_j).then(bytes_i.total_cmp(&bytes_j))
    });
    let mut least = f64::INFINITY;
    order.retain(|&i| {
        let bytes = key(i).1;
        let better = bytes < least;
        least = least.min(bytes);
        better
    });
    order
}

/// A bag at one `y` and capacity, ready to be bounded and solved.
struct Instance<'a> {
    bag: &'a [(MenuId, u32)],
    menus: &'a Menus,
    y: u32,
    /// Efficient alternatives of each menu of the bag.
    efficient: Vec<Vec<u32>>,
    /// Least time of all, whatever the bytes.
    fastest: f64,
    /// Bytes to be saved from the fastest choice.
    excess: f64,
    /// Bytes that can be saved at all.
    savable: f64,
}

impl<'a> Instance<'a> {
    fn new(menus: &'a Menus, bag: &'a [(MenuId, u32)], y: u32, capacity: f64) -> Self {
        let efficient: Vec<Vec<u32>> = bag.iter().map(|&(menu, _)| efficient(menus.get(menu), y)).collect();
        let (mut fastest, mut bytes, mut savable) = (0.0, 0.0, 0.0);
        for (&(menu, count), good) in bag.iter().zip(&efficient) {
            let (Some(&first), Some(&last)) = (good.first(), good.last()) else { continue };
            let (first, last) = (menus.get(menu)[first as usize], menus.get(menu)[last as usize]);
            fastest += f64::from(count) * first.time;
            bytes += f64::from(count) * first.bytes(y);
            savable += f64::from(count) * (first.bytes(y) - last.bytes(y));
        }
        Self { bag, menus, y, efficient, fastest, excess: bytes - capacity, savable }
    }

    fn choice(&self, item: u32, option: u32) -> Choice {
        self.menus.get(self.bag[item as usize].0)[option as usize]
    }

    fn feasible(&self) -> bool {
        self.excess <= self.savable * (1.0 + ROUNDING)
    }

    /// Steps along the lower convex hulls of all menus, flattest first.
    fn hull_steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (item, good) in self.efficient.iter().enumerate() {
            let start = steps.len();
            for pair in good.windows(2) {
                let mut step = self.step(item as u32, pair[0], pair[1]);
                while steps.len() > start && steps[steps.len() - 1].slope >= step.slope {
                    let from = steps.pop().map_or(step.from, |s| s.from);
                    step = self.step(item as u32, from, step.to);
                }
                steps.push(step);
            }
        }
        steps.sort_by(|a, b| a.slope.total_cmp(&b.slope).then(a.item.cmp(&b.item)));
        steps
    }

    fn step(&self, item: u32, from: u32, to: u32) -> Step {
        let (a, b) = (self.choice(item, from), self.choice(item, to));
        let (saved, added) = (a.bytes(self.y) - b.bytes(self.y), b.time - a.time);
        Step { slope: added / saved, saved, added, item, from, to }
    }

    /// The linear relaxation: the time added, the critical slope, and the relaxed choice rounded up.
    fn relaxed(&self) -> Relaxed {
        let mut left = self.excess;
        let mut counts = self.fastest_counts();
        let mut low = 0.0;
        let steps = self.hull_steps();
        for (taken, step) in steps.iter().enumerate() {
            let count = f64::from(counts[step.item as usize][step.from as usize]);
            let wanted = (left / step.saved).min(count);
            low += wanted * step.added;
            let whole = wanted.ceil().min(count);
            counts[step.item as usize][step.from as usize] -= whole as u32;
            counts[step.item as usize][step.to as usize] += whole as u32;
            left -= whole * step.saved;
            if left <= 0.0 {
                self.take_back(&steps[..=taken], -left, &mut counts);
                return Relaxed { added: low, slope: step.slope, counts };
            }
        }
        // Only rounding is left over: everything is at its smallest.
        Relaxed { added: low, slope: 0.0, counts }
    }

    /// Undoes steps, the dearest first, as long as `spare` bytes allow it: rounding up has saved more than was needed.
    fn take_back(&self, taken: &[Step], mut spare: f64, counts: &mut [Vec<u32>]) {
        for step in taken.iter().rev().filter(|s| s.added > 0.0) {
            let counts = &mut counts[step.item as usize];
            let whole = (spare / step.saved).floor().min(f64::from(counts[step.to as usize])) as u32;
            counts[step.to as usize] -= whole;
            counts[step.from as usize] += whole;
            spare -= f64::from(whole) * step.saved;
        }
    }

    fn fastest_counts(&self) -> Vec<Vec<u32>> {
        let mut all = Vec::with_capacity(self.bag.len());
        for (&(menu, count), good) in self.bag.iter().zip(&self.efficient) {
            let mut counts = vec![0; self.menus.get(menu).len()];
            counts[good[0] as usize] = count;
            all.push(counts);
        }
        all
    }

    fn time_of(&self, counts: &[Vec<u32>]) -> f64 {
        let mut time = 0.0;
        for (&(menu, _), counts) in self.bag.iter().zip(counts) {
            for (choice, &count) in self.menus.get(menu).iter().zip(counts) {
                time += f64::from(count) * choice.time;
            }
        }
        time
    }

    fn quick(&self) -> Bounds {
        if self.excess <= 0.0 {
            return Bounds::exactly(self.fastest);
        }
        if !self.feasible() {
            return Bounds::IMPOSSIBLE;
        }
        let relaxed = self.relaxed();
        let high = self.time_of(&relaxed.counts);
        Bounds { low: (self.fastest + relaxed.added).min(high), high }
    }

    /// The cheapest selection that fits.
    fn solve(&self) -> Option<Selection> {
        if self.excess <= 0.0 {
            let counts = self.fastest_counts();
            return Some(Selection { time: self.time_of(&counts), counts, exact: true });
        }
        if !self.feasible() {
            return None;
        }
        let relaxed = self.relaxed();
        let high = self.time_of(&relaxed.counts);
        let rounded = Selection { time: high, counts: relaxed.counts.clone(), exact: true };
        if high <= (self.fastest + relaxed.added) * (1.0 + ROUNDING) {
            return Some(rounded);
        }
        Some(match self.search(&relaxed, high - self.fastest) {
            Found::Better(counts) => Selection { time: self.time_of(&counts), counts, exact: true },
            Found::Nothing => rounded,
            Found::TooMany => Selection { exact: false, ..rounded },
        })
    }

    /// A selection that adds less time than `incumbent`.
    ///
    /// A state is a pair (saved, added) for the menus so far. With the critical slope `l` of the relaxation, every
    /// alternative has a penalty `added - l * saved`, counted from the least on its menu; the relaxation's value plus
    /// all penalties bounds what a state can become, so states whose penalties reach the gap are dropped.
    fn search(&self, relaxed: &Relaxed, incumbent: f64) -> Found {
        let gap = incumbent * (1.0 - ROUNDING) - relaxed.added;
        let items: Vec<Item> = (0..self.bag.len() as u32).map(|i| self.item(i, relaxed.slope)).collect();
        let mut rest: f64 = items.iter().map(|item| item.savable).sum();
        let mut levels: Vec<Vec<State>> = vec![vec![State::default()]];
        let mut combinations = Vec::new();
        for item in &items {
            rest -= item.savable;
            let mixes = item.mixes(gap);
            let mut next = Vec::new();
            for (parent, state) in levels[levels.len() - 1].iter().enumerate() {
                for (mix, m) in mixes.iter().enumerate() {
                    let penalty = state.penalty + m.penalty;
                    let saved = state.saved + m.saved;
                    if penalty < gap && saved + rest >= self.excess * (1.0 - ROUNDING) {
                        let (parent, mix) = (parent as u32, mix as u32);
                        next.push(State { saved, added: state.added + m.added, penalty, parent, mix });
                    }
                }
                if next.len() > MOST_STATES {
                    return Found::TooMany;
                }
            }
            keep_pareto(&mut next, self.excess);
            levels.push(next);
            combinations.push(mixes);
        }
        let last = &levels[levels.len() - 1];
        let fits = |s: &&State| s.saved >= self.excess * (1.0 - ROUNDING) && s.added < incumbent * (1.0 - ROUNDING);
        let Some(best) = last.iter().filter(fits).min_by(|a, b| a.added.total_cmp(&b.added)) else {
            return Found::Nothing;
        };
        let mut state = *best;
        let mut counts = self.fastest_counts();
        for item in (0..items.len()).rev() {
            let taken = &combinations[item][state.mix as usize].taken;
            for &(option, count) in taken {
                counts[item][self.efficient[item][0] as usize] -= count;
                counts[item][option as usize] += count;
            }
            state = levels[item][state.parent as usize];
        }
        Found::Better(counts)
    }

    fn item(&self, item: u32, slope: f64) -> Item {
        let good = &self.efficient[item as usize];
        let fastest = self.choice(item, good[0]);
        let mut options: Vec<ItemOption> = good
            .iter()
            .map(|&option| {
                let choice = self.choice(item, option);
                let saved = fastest.bytes(self.y) - choice.bytes(self.y);
                let added = choice.time - fastest.time;
                ItemOption { option, saved, added, penalty: added - slope * saved }
            })
            .collect();
        let least = options.iter().map(|o| o.penalty).fold(f64::INFINITY, f64::min);
        for option in &mut options {
            option.penalty -= least;
        }
        let count = self.bag[item as usize].1;
        let savable = f64::from(count) * options[options.len() - 1].saved;
        Item { count, options, savable }
    }
}

/// Relative slack in comparisons of sums that were rounded.
const ROUNDING: f64 = 1e-13;

/// States of one level beyond which the dynamic program gives up and the relaxation's bounds stand.
const MOST_STATES: usize = 1 << 18;

struct Relaxed {
    added: f64,
    slope: f64,
    counts: Vec<Vec<u32>>,
}

enum Found {
    Better(Vec<Vec<u32>>),
    Nothing,
    TooMany,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    saved: f64,
    added: f64,
    penalty: f64,
    parent: u32,
    mix: u32,
}

struct ItemOption {
    option: u32,
    saved: f64,
    added: f64,
    penalty: f64,
}

/// All items of one menu.
struct Item {
    count: u32,
    options: Vec<ItemOption>,
    savable: f64,
}

/// One way to distribute the items of one menu over its alternatives.
#[derive(Clone, Default)]
struct Mix {
    saved: f64,
    added: f64,
    penalty: f64,
    /// `(alternative, how many)`, the fastest left out.
    taken: Vec<(u32, u32)>,
}

impl Item {
    /// Every distribution whose penalty is below `gap`.
    fn mixes(&self, gap: f64) -> Vec<Mix> {
        let mut out = Vec::new();
        self.extend_mixes(1, self.count, Mix::default(), gap, &mut out);
        out
    }

    fn extend_mixes(&self, option: usize, left: u32, mix: Mix, gap: f64, out: &mut Vec<Mix>) {
        if mix.penalty >= gap || out.len() > MOST_STATES {
            return;
        }
        let Some(o) = self.options.get(option) else {
            let penalty = mix.penalty + f64::from(left) * self.options[0].penalty;
            if penalty < gap {
                out.push(Mix { penalty, ..mix });
            }
            return;
        };
        for count in 0..=left {
            let n = f64::from(count);
            let mut taken = mix.taken.clone();
            if count > 0 {
                taken.push((o.option, count));
            }
            let next = Mix {
                saved: mix.saved + n * o.saved,
                added: mix.added + n * o.added,
                penalty: mix.penalty + n * o.penalty,
                taken,
            };
            self.extend_mixes(option + 1, left - count, next, gap, out);
        }
    }
}

/// Keeps the states that no other one beats in both saved and added; beyond `enough` saved bytes do not count.
fn keep_pareto(states: &mut Vec<State>, enough: f64) {
    states.sort_by(|a, b| {
        let (saved_a, saved_b) = (a.saved.min(enough), b.saved.min(enough));
        saved_b.total_cmp(&saved_a).then(a.added.total_cmp(&b.added))
    });
    let mut least = f64::INFINITY;
    states.retain(|s| {
        let better = s.added < least;
        least = least.min(s.added);
        better
    });
}

/// Bounds on the least time of `bag` with `y` in flight and `capacity` bytes, without search.
///
/// Time `O(n log n)` for `n` alternatives on the menus of the bag.
pub(crate) fn bounds(menus: &Menus, bag: &[(MenuId, u32)], y: u32, capacity: f64) -> Bounds {
    Instance::new(menus, bag, y, capacity).quick()
}

/// The least time of `bag` with `y` in flight and `capacity` bytes, and a selection that has it.
///
/// Time `O(n s)` with `s` the number of undominated states within the relaxation's gap, at most [`MOST_STATES`]; then
/// the rounded relaxation is returned and not `exact`.
pub(crate) fn solve(menus: &Menus, bag: &[(MenuId, u32)], y: u32, capacity: f64) -> Option<Selection> {
    Instance::new(menus, bag, y, capacity).solve()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small deterministic generator (splitmix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % n
        }
    }

    fn enumerate(menus: &Menus, bag: &[(MenuId, u32)], y: u32, capacity: f64) -> f64 {
        let items: Vec<MenuId> = bag.iter().flat_map(|&(m, n)| (0..n).map(move |_| m)).collect();
        fn go(menus: &Menus, items: &[MenuId], y: u32, left: f64) -> f64 {
            let Some((&first, rest)) = items.split_first() else {
                return if left >= 0.0 { 0.0 } else { f64::INFINITY };
            };
            let least = |c: &Choice| c.time + go(menus, rest, y, left - c.bytes(y));
            menus.get(first).iter().map(least).fold(f64::INFINITY, f64::min)
        }
        go(menus, &items, y, capacity)
    }

    #[test]
    fn agrees_with_enumeration() {
        let mut random = Random(1);
        for round in 0..3000 {
            let mut menus = Menus::default();
            let scale = if round % 2 == 0 { 5 } else { 1000 };
            let mut bag: Bag = Vec::new();
            for _ in 0..1 + random.below(4) {
                let choices = (0..1 + random.below(4))
                    .map(|_| Choice {
                        time: random.below(scale) as f64,
                        per_microbatch: random.below(scale) as f64,
                        fixed: random.below(scale) as f64,
                    })
                    .collect();
                let menu = menus.intern(choices);
                if bag.iter().all(|&(m, _)| m != menu) {
                    bag.push((menu, 1 + random.below(3) as u32));
                }
            }
            let y = 1 + random.below(4) as u32;
            let capacity = random.below(scale * 20) as f64;
            let truth = enumerate(&menus, &bag, y, capacity);
            let quick = bounds(&menus, &bag, y, capacity);
            assert!(quick.low <= truth + 1e-9 && truth <= quick.high + 1e-9, "{quick:?} {truth}");
            match solve(&menus, &bag, y, capacity) {
                None => assert!(truth.is_infinite()),
                Some(found) => {
                    assert!(found.exact);
                    assert!((found.time - truth).abs() <= 1e-9, "{} {truth}", found.time);
                    let bytes: f64 = bag
                        .iter()
                        .zip(&found.counts)
                        .flat_map(|(&(m, _), counts)| menus.get(m).iter().zip(counts))
                        .map(|(c, &n)| c.bytes(y) * f64::from(n))
                        .sum();
                    assert!(bytes <= capacity + 1e-6);
                    for (&(_, n), counts) in bag.iter().zip(&found.counts) {
                        assert_eq!(counts.iter().sum::<u32>(), n);
                    }
                }
            }
        }
    }
}
