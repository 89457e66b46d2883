//! What a stage costs: additive tables over downsets, and for each stage the microbatches that it can keep in flight.
//!
//! A stage is the difference of two downsets. Most of what the search needs is a sum over layers, so one row of sums a
//! downset gives it by subtraction. The rest, which depends on both ends, is kept per pair: the bytes that cross its
//! borders and, where memory is short, a [`Staircase`] (the least time as a function of the microbatches in flight),
//! filled in as questions come and shared by all stages with the same layers up to order.

use std::collections::HashMap;

use crate::downsets::{DownsetId, Lattice, NodeSet};
use crate::graph::{EdgeId, NodeId};
use crate::pipeline::Transfer;
use crate::pipeline::knapsack::{self, Bag, Bounds, Choice, MenuId, Menus};
use crate::pipeline::problem::{Degree, Problem, SLACK};
use crate::progress::Stop;

/// Sums over the layers of a downset at one tensor-parallel degree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Least times.
    pub(crate) fastest: f64,
    /// `w` and `o` of layers whose alternatives agree on them.
    pub(crate) weight: f64,
    pub(crate) sharded: f64,
    /// `a` and `b` of the fastest alternatives.
    pub(crate) per_microbatch: f64,
    pub(crate) fixed: f64,
    /// Least bytes with one microbatch in flight.
    pub(crate) least: f64,
    /// Layers that have no alternative, and layers whose alternatives differ in more than time and memory.
    pub(crate) lacking: u32,
    pub(crate) irregular: u32,
    /// Names the multiset of menus.
    pub(crate) signature: u128,
}

impl Sums {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            fastest: self.fastest + other.fastest,
            weight: self.weight + other.weight,
            sharded: self.sharded + other.sharded,
            per_microbatch: self.per_microbatch + other.per_microbatch,
            fixed: self.fixed + other.fixed,
            least: self.least + other.least,
            lacking: self.lacking + other.lacking,
            irregular: self.irregular + other.irregular,
            signature: self.signature.wrapping_add(other.signature),
        }
    }

    fn minus(&self, other: &Self) -> Self {
        Self {
            fastest: (self.fastest - other.fastest).max(0.0),
            weight: (self.weight - other.weight).max(0.0),
            sharded: (self.sharded - other.sharded).max(0.0),
            per_microbatch: (self.per_microbatch - other.per_microbatch).max(0.0),
            fixed: (self.fixed - other.fixed).max(0.0),
            least: (self.least - other.least).max(0.0),
            lacking: self.lacking - other.lacking,
            irregular: self.irregular - other.irregular,
            signature: self.signature.wrapping_sub(other.signature),
        }
    }
}

/// Two nested downsets; the stage is what is in `upper` and not in `lower`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) lower: DownsetId,
    pub(crate) upper: DownsetId,
}

/// What does not depend on `d`, `y` or the choice of alternatives, for one pair and tensor-parallel degree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    pub(crate) sums: Sums,
    /// Time of all transfers of one microbatch, forward and backward.
    pub(crate) transfer: f64,
    /// Time per microbatch that keeping copies of shared weights equal takes.
    pub(crate) copies: f64,
    /// Bytes that second copies of shared weights take.
    pub(crate) copy_fixed: f64,
    pub(crate) copy_sharded: f64,
}

impl Fixed {
    /// The time that is left for computation when `d` replicas shall have a load of at most `threshold`.
    pub(crate) fn time_within(&self, threshold: f64, degree: &Degree) -> f64 {
        f64::from(degree.data_parallel) * (threshold - self.copies) - self.transfer - degree.resync * self.sums.weight
    }

    /// The load of `d` replicas whose computation takes `time`.
    pub(crate) fn load(&self, time: f64, degree: &Degree) -> f64 {
        (time + self.transfer + degree.resync * self.sums.weight) / f64::from(degree.data_parallel) + self.copies
    }

    /// Whether everything about the memory is the same for all `d`.
    fn same_for_all_degrees(&self) -> bool {
        self.sums.irregular == 0 && self.sums.sharded == 0.0 && self.copy_sharded == 0.0
    }
}

/// The additive tables of a problem over a lattice.
pub(crate) struct Tables<'a> {
    pub(crate) problem: &'a Problem<'a>,
    pub(crate) lattice: &'a Lattice,
    degrees: usize,
    sums: Vec<Sums>,
    work: Vec<f64>,
    /// Edges into each downset from outside, sorted by source.
    crossing: Vec<EdgeId>,
    crossing_start: Vec<u32>,
    /// Bytes of an edge that enters or leaves a stage, by edge and degree.
    entering: Vec<f64>,
    leaving: Vec<f64>,
}

impl<'a> Tables<'a> {
    /// Time `O(D (V T + E))` and space `O(D (T + E'))` for `D` downsets, `T` degrees and `E'` crossing edges a downset.
    ///
    /// # Errors
    /// [`Stop`] when `tick` says so.
    pub(crate) fn new(
        problem: &'a Problem<'a>,
        lattice: &'a Lattice,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let degrees = problem.tensor_parallel.len();
        let layer_sums = layer_sums(problem);
        let mut tables = Self {
            problem,
            lattice,
            degrees,
            sums: Vec::with_capacity(lattice.len() * degrees),
            work: Vec::with_capacity(lattice.len()),
            crossing: Vec::new(),
            crossing_start: vec![0],
            entering: Vec::new(),
            leaving: Vec::new(),
        };
        tables.price_edges();
        let empty = lattice.get(DownsetId(0));
        let mut sources: Vec<EdgeId> = (0..problem.workload.graph().edges().len() as u32).map(EdgeId).collect();
        sources.sort_by_key(|&e| (problem.workload.graph().source(e), e));
        for id in lattice.ids() {
            if id.0.is_multiple_of(256) {
                tick()?;
            }
            let set = lattice.get(id);
            let mut row = vec![Sums::default(); degrees];
            let mut work = 0.0;
            for node in set.difference(empty) {
                work += problem.work[node.index()];
                for (sum, layer) in row.iter_mut().zip(&layer_sums[node.index() * degrees..]) {
                    *sum = sum.plus(layer);
                }
            }
            tables.sums.append(&mut row);
            tables.work.push(work);
            let graph = problem.workload.graph();
            let crosses = |e: &EdgeId| !set.contains(graph.source(*e)) && set.contains(graph.target(*e));
            tables.crossing.extend(sources.iter().copied().filter(crosses));
            tables.crossing_start.push(tables.crossing.len() as u32);
        }
        Ok(tables)
    }

    /// Least device time of a downset.
    pub(crate) fn work(&self, id: DownsetId) -> f64 {
        self.work[id.index()]
    }

    /// Sums of the stage between two downsets.
    pub(crate) fn sums(&self, pair: Pair, degree: usize) -> Sums {
        let at = |id: DownsetId| &self.sums[id.index() * self.degrees + degree];
        at(pair.upper).minus(at(pair.lower))
    }

    /// Layers of a stage, in increasing order.
    pub(crate) fn layers(&self, pair: Pair) -> impl Iterator<Item = NodeId> + '_ {
        self.lattice.get(pair.upper).difference(self.lattice.get(pair.lower))
    }

    /// Everything about a stage that neither `d` nor memory changes.
    pub(crate) fn fixed(&self, pair: Pair, degree: usize, transfer: f64) -> Fixed {
        let mut fixed =
            Fixed { sums: self.sums(pair, degree), transfer, copies: 0.0, copy_fixed: 0.0, copy_sharded: 0.0 };
        if !self.problem.workload.ties().is_empty() {
            self.add_copies(pair, degree, &mut fixed);
        }
        fixed
    }

    fn add_copies(&self, pair: Pair, degree: usize, fixed: &mut Fixed) {
        let workload = self.problem.workload;
        let (lower, upper) = (self.lattice.get(pair.lower), self.lattice.get(pair.upper));
        let inside = |v: NodeId| upper.contains(v) && !lower.contains(v);
        for tie in workload.ties() {
            let Some(cost) = tie.costs.get(&self.problem.tensor_parallel[degree]) else { continue };
            let here = tie.layers.iter().filter(|&&v| inside(v)).count();
            if here == 0 {
                continue;
            }
            if !inside(tie.layers[0]) {
                fixed.sums.weight += cost.weight_bytes;
                fixed.copy_fixed += cost.memory_fixed;
                fixed.copy_sharded += cost.memory_sharded;
            }
            if here < tie.layers.len() {
                let network = &workload.network;
                let batch = f64::from(workload.microbatches) * network.stage_bandwidth;
                fixed.copies += network.resync_factor / 2.0 * cost.weight_bytes / batch;
            }
        }
    }

    /// Time of the transfers of one microbatch over both borders of a stage, for every degree.
    ///
    /// What irregular layers synchronise is left out; it belongs to their alternatives.
    pub(crate) fn transfers(&self, pair: Pair, out: &mut [f64]) {
        out.fill(0.0);
        let graph = self.problem.workload.graph();
        let (lower, upper) = (self.lattice.get(pair.lower), self.lattice.get(pair.upper));
        let entering = self.crossing(pair.upper).iter().filter(|&&e| !lower.contains(graph.target(e)));
        let leaving = self.crossing(pair.lower).iter().filter(|&&e| upper.contains(graph.source(e)));
        match self.problem.workload.transfer {
            Transfer::Edge => {
                self.add_edges(entering, &self.entering, out);
                self.add_edges(leaving, &self.leaving, out);
            }
            Transfer::Tensor => {
                self.add_tensors(entering, &self.entering, out);
                self.add_tensors(leaving, &self.leaving, out);
            }
        }
        for bytes in out {
            *bytes *= 2.0 / self.problem.workload.network.stage_bandwidth;
        }
    }

    fn crossing(&self, id: DownsetId) -> &[EdgeId] {
        &self.crossing[self.crossing_start[id.index()] as usize..self.crossing_start[id.index() + 1] as usize]
    }

    fn add_edges<'e>(&self, edges: impl Iterator<Item = &'e EdgeId>, price: &[f64], out: &mut [f64]) {
        let bytes = self.problem.workload.edge_bytes();
        for &edge in edges {
            let sync = &price[edge.index() * self.degrees..];
            for (sum, sync) in out.iter_mut().zip(sync) {
                *sum += bytes[edge.index()] + sync;
            }
        }
    }

    /// Edges come sorted by source: each run of one source is one tensor.
    fn add_tensors<'e>(&self, edges: impl Iterator<Item = &'e EdgeId>, price: &[f64], out: &mut [f64]) {
        let workload = self.problem.workload;
        let mut source = None;
        let (mut size, mut sync) = (0.0, vec![0.0; self.degrees]);
        let mut close = |size: &mut f64, sync: &mut [f64]| {
            for (sum, sync) in out.iter_mut().zip(sync) {
                *sum += *size + *sync;
                *sync = 0.0;
            }
            *size = 0.0;
        };
        for &edge in edges {
            if source != Some(workload.graph().source(edge)) {
                close(&mut size, &mut sync);
                source = Some(workload.graph().source(edge));
            }
            size = f64::max(size, workload.edge_bytes()[edge.index()]);
            for (most, &next) in sync.iter_mut().zip(&price[edge.index() * self.degrees..]) {
                *most = f64::max(*most, next);
            }
        }
        close(&mut size, &mut sync);
    }

    fn price_edges(&mut self) {
        let problem = self.problem;
        let graph = problem.workload.graph();
        let shared = |node: NodeId, degree: usize| {
            let alternatives = problem.alternatives[node.index()][degree].as_ref()?;
            let alike = alternatives.menu.is_some() || problem.workload.transfer == Transfer::Tensor;
            alike.then(|| problem.tmpc(node, degree, alternatives.positions[0]))
        };
        for (edge, &(source, target)) in graph.edges().iter().enumerate() {
            let place = |list: &[EdgeId]| list.iter().position(|e| e.index() == edge).unwrap_or(0);
            let (in_place, out_place) = (place(graph.incoming(target)), place(graph.outgoing(source)));
            for degree in 0..self.degrees {
                self.entering.push(shared(target, degree).map_or(0.0, |t| t.sync_forward[in_place]));
                self.leaving.push(shared(source, degree).map_or(0.0, |t| t.sync_backward[out_place]));
            }
        }
    }

    /// The bag of a stage, and for each menu of it the layers that have it.
    pub(crate) fn bag(&self, pair: Pair, degree: usize, at: &Degree, menus: &mut Menus) -> (Bag, Vec<Vec<NodeId>>) {
        let mut items: Vec<(MenuId, NodeId)> = Vec::new();
        for node in self.layers(pair) {
            if let Some(alternatives) = &self.problem.alternatives[node.index()][degree] {
                let menu = alternatives.menu.unwrap_or_else(|| menus.intern(self.own_menu(pair, degree, at, node)));
                items.push((menu, node));
            }
        }
        items.sort_unstable();
        let mut bag: Bag = Vec::new();
        let mut members: Vec<Vec<NodeId>> = Vec::new();
        for (menu, node) in items {
            match (bag.last_mut(), members.last_mut()) {
                (Some((last, count)), Some(list)) if *last == menu => {
                    *count += 1;
                    list.push(node);
                }
                _ => {
                    bag.push((menu, 1));
                    members.push(vec![node]);
                }
            }
        }
        (bag, members)
    }

    /// Alternatives of an irregular layer, with everything that depends on the choice put into time and memory.
    fn own_menu(&self, pair: Pair, degree: usize, at: &Degree, node: NodeId) -> Vec<Choice> {
        let problem = self.problem;
        let graph = problem.workload.graph();
        let (lower, upper) = (self.lattice.get(pair.lower), self.lattice.get(pair.upper));
        let outside = |v: NodeId| lower.contains(v) || !upper.contains(v);
        let Some(alternatives) = &problem.alternatives[node.index()][degree] else { return Vec::new() };
        // Bytes that all alternatives share are priced with the edges.
        let own_sync = problem.workload.transfer == Transfer::Edge;
        let cut = |edges: &[EdgeId], other: &dyn Fn(EdgeId) -> NodeId, sync: &[f64]| -> f64 {
            edges.iter().zip(sync).filter(|&(&e, _)| own_sync && outside(other(e))).map(|(_, s)| s).sum()
        };
        let choice = |&position: &u32| {
            let tmpc = problem.tmpc(node, degree, position);
            let sync = cut(graph.incoming(node), &|e| graph.source(e), &tmpc.sync_forward)
                + cut(graph.outgoing(node), &|e| graph.target(e), &tmpc.sync_backward);
            Choice {
                time: tmpc.time
                    + 2.0 / problem.workload.network.stage_bandwidth * sync
                    + at.resync * tmpc.weight_bytes,
                per_microbatch: tmpc.memory_per_microbatch,
                fixed: tmpc.memory_fixed + tmpc.memory_sharded / f64::from(at.data_parallel),
            }
        };
        alternatives.positions.iter().map(choice).collect()
    }
}

/// Sums of single layers, by layer and degree.
pub(crate) fn layer_sums(problem: &Problem<'_>) -> Vec<Sums> {
    let mut all = Vec::new();
    for (node, by_degree) in problem.alternatives.iter().enumerate() {
        for (degree, alternatives) in by_degree.iter().enumerate() {
            let Some(alternatives) = alternatives else {
                all.push(Sums { lacking: 1, ..Sums::default() });
                continue;
            };
            let tmpc = |position: u32| problem.tmpc(NodeId(node as u32), degree, position);
            let least = alternatives.positions.iter().map(|&p| tmpc(p));
            let least = least.map(|t| t.memory_per_microbatch + t.memory_fixed).fold(f64::INFINITY, f64::min);
            let mut sums = Sums { fastest: alternatives.fastest, least, ..Sums::default() };
            if let Some(menu) = alternatives.menu {
                let first = tmpc(alternatives.positions[0]);
                let fast = problem.menus.get(menu).iter().filter(|c| c.time <= alternatives.fastest);
                if let Some(fast) = fast.min_by(|x, y| x.bytes(1).total_cmp(&y.bytes(1))) {
                    (sums.per_microbatch, sums.fixed) = (fast.per_microbatch, fast.fixed);
                }
                (sums.weight, sums.sharded) = (first.weight_bytes, first.memory_sharded);
                sums.signature = name_of(menu);
            } else {
                sums.irregular = 1;
            }
            all.push(sums);
        }
    }
    all
}

/// A number for a menu such that sums of these numbers differ for different multisets (128 random bits each).
fn name_of(menu: MenuId) -> u128 {
    let mix = |seed: u64| {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x243f_6a88_85a3_08d3);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let seed = u64::from(menu.0) * 2 + 1;
    u128::from(mix(seed)) << 64 | u128::from(mix(seed + 1))
}

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
    /// most `time`; 0 when there is none. `slot` remembers the staircase where it does not depend on `d`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn reach(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        at: &Degree,
        fixed: &Fixed,
        slot: &mut StaircaseId,
        time: f64,
        wanted: u32,
    ) -> u32 {
        let sums = &fixed.sums;
        if time < sums.fastest * (1.0 - SLACK) {
            return 0;
        }
        let time = time.max(sums.fastest);
        let capacity = capacity(tables, fixed, at);
        if sums.least > capacity {
            return 0;
        }
        if sums.irregular == 0 && sums.per_microbatch * f64::from(wanted) + sums.fixed <= capacity {
            return wanted;
        }
        let id = self.remembered(tables, pair, degree, at, fixed, slot, capacity);
        let staircase = &mut self.list[id as usize];
        let time = if sums.irregular == 0 { time.max(staircase.fastest) } else { time };
        staircase.reach(&self.menus, time, wanted, &mut self.trust)
    }

    /// The least computation time with `y` in flight of a stage without irregular layers; `None` where nothing fits.
    /// A lower bound of it where the knapsack is too hard to be solved exactly.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn least_time(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        at: &Degree,
        fixed: &Fixed,
        slot: &mut StaircaseId,
        y: u32,
    ) -> Option<f64> {
        let sums = &fixed.sums;
        let capacity = capacity(tables, fixed, at);
        if sums.least > capacity {
            return None;
        }
        if sums.per_microbatch * f64::from(y) + sums.fixed <= capacity {
            return Some(sums.fastest);
        }
        let id = self.remembered(tables, pair, degree, at, fixed, slot, capacity);
        self.list[id as usize].least(&self.menus, y)
    }

    /// The staircase of a stage. `slot` remembers it where it does not depend on `d`.
    #[allow(clippy::too_many_arguments)]
    fn remembered(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        at: &Degree,
        fixed: &Fixed,
        slot: &mut StaircaseId,
        capacity: f64,
    ) -> u32 {
        if *slot != StaircaseId::UNKNOWN {
            return slot.0;
        }
        let id = self.find(tables, pair, degree, at, fixed, capacity);
        if fixed.same_for_all_degrees() {
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

    fn find(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        at: &Degree,
        fixed: &Fixed,
        capacity: f64,
    ) -> u32 {
        let key = if fixed.sums.irregular == 0 {
            Key::Shared(fixed.sums.signature, capacity.to_bits())
        } else {
            Key::Own(pair, degree as u32, at.data_parallel)
        };
        if let Some(&id) = self.index.get(&key) {
            return id;
        }
        let (bag, _) = tables.bag(pair, degree, at, &mut self.menus);
        self.bytes += size_of::<Staircase>() + size_of::<Key>() + bag.capacity() * size_of::<(MenuId, u32)>();
        self.list.push(Staircase::new(&self.menus, bag, capacity, self.limit));
        let id = self.list.len() as u32 - 1;
        self.index.insert(key, id);
        id
    }

    /// The best choice of alternatives for a stage with `y` in flight: its time, and by layer the position of the TMPC.
    pub(crate) fn choose(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        at: &Degree,
        fixed: &Fixed,
        y: u32,
    ) -> Option<(f64, Vec<(NodeId, u32)>)> {
        let (bag, members) = tables.bag(pair, degree, at, &mut self.menus);
        let selection = knapsack::solve(&self.menus, &bag, y, capacity(tables, fixed, at))?;
        let mut chosen = Vec::new();
        for (nodes, counts) in members.iter().zip(&selection.counts) {
            let options = counts.iter().enumerate().flat_map(|(o, &n)| (0..n).map(move |_| o));
            for (&node, option) in nodes.iter().zip(options) {
                let alternatives = tables.problem.alternatives[node.index()][degree].as_ref()?;
                chosen.push((node, alternatives.positions[option]));
            }
        }
        chosen.sort_unstable();
        Some((selection.time, chosen))
    }
}

/// Bytes of a device that are left for the alternatives of a stage.
pub(crate) fn capacity(tables: &Tables<'_>, fixed: &Fixed, at: &Degree) -> f64 {
    tables.problem.capacity
        - fixed.copy_fixed
        - (fixed.sums.sharded + fixed.copy_sharded) / f64::from(at.data_parallel)
}

/// Whether a stage has two layers that the user wants apart.
pub(crate) fn breaks_apart(groups: &[Vec<NodeId>], lower: NodeSet<'_>, upper: NodeSet<'_>) -> bool {
    groups.iter().any(|group| group.iter().filter(|&&v| upper.contains(v) && !lower.contains(v)).count() > 1)
}
