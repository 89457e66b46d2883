//! How many microbatches a stage can keep in flight within a given time.
//!
//! Where memory is short, slower alternatives make room: the least time of a stage is a [`Staircase`] over the
//! microbatches in flight. It is known only where it was asked for, and shared by all stages with the same layers up to
//! order.

use std::collections::HashMap;

use crate::graph::NodeId;
use crate::pipeline::knapsack::{self, Bag, Bounds, Choice, MenuId, Menus};
use crate::pipeline::problem::SLACK;
use crate::pipeline::tables::{Pair, StageRun};

/// The least time of a stage as a function of the microbatches in flight: a staircase, known where it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Staircase {
    bag: Bag,
    capacity: f64,
    /// Least time without regard to memory.
    fastest: f64,
    /// Up to this many in flight the fastest alternatives fit; beyond `most` nothing does.
    free: u32,
    most: u32,
    /// Bounds at the numbers in flight that were asked for, increasing.
    known: Vec<(u32, Bounds)>,
    /// The least times that were asked for, by the number in flight, increasing.
    least: Vec<(u32, Bounds)>,
}

impl Staircase {
    fn new(menus: &Menus, bag: Bag, capacity: f64, limit: u32) -> Self {
        let (mut fastest, mut per_microbatch, mut fixed) = (0.0, 0.0, 0.0);
        for &(menu, count) in &bag {
            let faster = |a: &&Choice, b: &&Choice| a.time.total_cmp(&b.time).then(a.bytes(1).total_cmp(&b.bytes(1)));
            if let Some(choice) = menus.get(menu).iter().min_by(faster) {
                fastest += f64::from(count) * choice.time;
                per_microbatch += f64::from(count) * choice.per_microbatch;
                fixed += f64::from(count) * choice.fixed;
            }
        }
        let least = |y: u32| -> f64 {
            let of = |menu: MenuId| menus.get(menu).iter().map(|c| c.bytes(y)).fold(f64::INFINITY, f64::min);
            bag.iter().map(|&(menu, count)| f64::from(count) * of(menu)).sum()
        };
        let most = last_where(0, limit, |y| least(y) <= capacity);
        let free = last_where(0, most, |y| per_microbatch * f64::from(y) + fixed <= capacity);
        Self { bag, capacity, fastest, free, most, known: Vec::new(), least: Vec::new() }
    }

    /// The largest `y` up to `wanted` whose least time is at most `time`; 0 when there is none.
    fn reach(&mut self, menus: &Menus, time: f64, wanted: u32, trust: &mut Trust) -> u32 {
        if time < self.fastest {
            return 0;
        }
        let most = wanted.min(self.most);
        if most <= self.free {
            return most;
        }
        last_where(self.free, most, |y| self.within(menus, y, time, trust))
    }

    /// The least time with `y` in flight: a lower bound of it where the knapsack is too hard, `None` where nothing fits.
    fn least(&mut self, menus: &Menus, y: u32) -> Option<f64> {
        if y > self.most {
            return None;
        }
        if y <= self.free {
            return Some(self.fastest);
        }
        let at = match self.least.binary_search_by_key(&y, |k| k.0) {
            Ok(at) => at,
            Err(at) => {
                self.least.insert(at, (y, self.settled(menus, y)));
                at
            }
        };
        Some(self.least[at].1.low).filter(|low| low.is_finite())
    }

    /// Bounds on the least time with `y` in flight, as good as can be.
    fn settled(&self, menus: &Menus, y: u32) -> Bounds {
        let bounds = knapsack::bounds(menus, &self.bag, y, self.capacity);
        if bounds.low == bounds.high {
            return bounds;
        }
        match knapsack::solve(menus, &self.bag, y, self.capacity) {
            Some(found) if found.exact => Bounds { low: found.time, high: found.time },
            Some(found) => Bounds { high: found.time, ..bounds },
            None => bounds,
        }
    }

    fn within(&mut self, menus: &Menus, y: u32, time: f64, trust: &mut Trust) -> bool {
        let at = match self.known.binary_search_by_key(&y, |k| k.0) {
            Ok(at) => at,
            Err(at) => {
                let bounds = knapsack::bounds(menus, &self.bag, y, self.capacity);
                self.known.insert(at, (y, bounds));
                at
            }
        };
        let bounds = &mut self.known[at].1;
        if bounds.low <= time
            && time < bounds.high
            && let Some(found) = knapsack::solve(menus, &self.bag, y, self.capacity)
        {
            bounds.high = found.time;
            if found.exact {
                bounds.low = found.time;
            }
        }
        if bounds.low <= time && time < bounds.high {
            trust.doubted = true;
            return trust.optimistic;
        }
        bounds.high <= time
    }
}

/// What to do where a knapsack was too hard to be solved exactly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trust {
    /// Take the lower bound for the truth, so that the search bounds the optimum from below.
    pub(crate) optimistic: bool,
    /// Whether that ever made a difference.
    pub(crate) doubted: bool,
}

/// The last of `from + 1..=to` at which a predicate that is true first and false later holds; `from` when none does.
fn last_where(from: u32, to: u32, mut holds: impl FnMut(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (from, to.saturating_add(1));
    while yes + 1 < no {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// Index of a staircase in [`Staircases`]; all bits set: not looked up yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaircaseId(u32);

impl StaircaseId {
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);
}

/// All staircases that were needed so far.
pub(crate) struct Staircases {
    menus: Menus,
    list: Vec<Staircase>,
    index: HashMap<Key, u32>,
    /// No question goes beyond this many in flight.
    limit: u32,
    bytes: usize,
    pub(crate) trust: Trust,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// The menus' names and the capacity.
    Shared(u128, u64),
    /// An irregular stage, its degree and `d`.
    Own(Pair, u32, u32),
}

impl Staircases {
    pub(crate) fn new(menus: Menus, limit: u32) -> Self {
        Self { menus, list: Vec::new(), index: HashMap::new(), limit, bytes: 0, trust: Trust::default() }
    }

    /// The largest number of microbatches in flight up to `wanted` that a stage can have with a computation time of at
    /// most `time`; 0 when that is less than `needed`. `slot` remembers the staircase where it does not depend on `d`.
    pub(crate) fn reach(
        &mut self,
        run: StageRun<'_>,
        slot: &mut StaircaseId,
        time: f64,
        (needed, wanted): (u32, u32),
    ) -> u32 {
        let sums = &run.fixed.sums;
        if time < sums.fastest * (1.0 - SLACK) {
            return 0;
        }
        let time = time.max(sums.fastest);
        let capacity = run.capacity();
        if sums.least_bytes(needed) > capacity {
            return 0;
        }
        if sums.irregular == 0 && sums.per_microbatch * f64::from(wanted) + sums.fixed <= capacity {
            return wanted;
        }
        let id = self.remembered(run, slot, capacity);
        let staircase = &mut self.list[id as usize];
        let time = if sums.irregular == 0 { time.max(staircase.fastest) } else { time };
        let reach = staircase.reach(&self.menus, time, wanted, &mut self.trust);
        if reach < needed { 0 } else { reach }
    }

    /// The least computation time with `y` in flight of a stage without irregular layers; `None` where nothing fits.
    /// A lower bound of it where the knapsack is too hard to be solved exactly.
    pub(crate) fn least_time(&mut self, run: StageRun<'_>, slot: &mut StaircaseId, y: u32) -> Option<f64> {
        let sums = &run.fixed.sums;
        let capacity = run.capacity();
        if sums.least > capacity {
            return None;
        }
        if sums.per_microbatch * f64::from(y) + sums.fixed <= capacity {
            return Some(sums.fastest);
        }
        let id = self.remembered(run, slot, capacity);
        self.list[id as usize].least(&self.menus, y)
    }

    /// The staircase of a stage. `slot` remembers it where it does not depend on `d`.
    fn remembered(&mut self, run: StageRun<'_>, slot: &mut StaircaseId, capacity: f64) -> u32 {
        if *slot != StaircaseId::UNKNOWN {
            return slot.0;
        }
        let id = self.find(run, capacity);
        if run.fixed.same_for_all_degrees() {
            *slot = StaircaseId(id);
        }
        id
    }

    /// Bytes that the staircases take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all staircases; the slots that remember them must be reset too.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.index.clear();
        self.bytes = 0;
    }

    fn find(&mut self, run: StageRun<'_>, capacity: f64) -> u32 {
        let key = if run.fixed.sums.irregular == 0 {
            Key::Shared(run.fixed.sums.signature, capacity.to_bits())
        } else {
            Key::Own(run.pair, run.degree as u32, run.at.data_parallel)
        };
        if let Some(&id) = self.index.get(&key) {
            return id;
        }
        let bag = bag(&run.items(&mut self.menus));
        self.bytes += size_of::<Staircase>() + size_of::<Key>() + bag.capacity() * size_of::<(MenuId, u32)>();
        self.list.push(Staircase::new(&self.menus, bag, capacity, self.limit));
        let id = self.list.len() as u32 - 1;
        self.index.insert(key, id);
        id
    }

    /// The best choice of alternatives for a stage with `y` in flight: its time, and by layer the position of the TMPC.
    pub(crate) fn choose(&mut self, run: StageRun<'_>, y: u32) -> Option<(f64, Vec<(NodeId, u32)>)> {
        let items = run.items(&mut self.menus);
        let selection = knapsack::solve(&self.menus, &bag(&items), y, run.capacity())?;
        let mut chosen = Vec::new();
        for (members, counts) in items.chunk_by(|a, b| a.0 == b.0).zip(&selection.counts) {
            let options = counts.iter().enumerate().flat_map(|(o, &n)| (0..n).map(move |_| o));
            for (&(_, node), option) in members.iter().zip(options) {
                let alternatives = run.tables.problem.alternatives[node.index()][run.degree].as_ref()?;
                chosen.push((node, alternatives.positions[option]));
            }
        }
        chosen.sort_unstable();
        Some((selection.time, chosen))
    }
}

/// How often each menu occurs among sorted items.
fn bag(items: &[(MenuId, NodeId)]) -> Bag {
    items.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].0, same.len() as u32)).collect()
}
