//! What the devices left can do at most, seen along a chain of units.
//!
//! Take units `v_1 < v_2 < ...` along a path. A downset has a place on the chain: how many of them it holds. The part
//! between two places holds for certain what lies between the interval's ends in the graph, and for certain it pays for
//! the outputs that must cross one of its cuts; what else it holds is free to choose, as long as all work is done
//! somewhere. With loads of at most `T`, its device has at most `T` minus those transfers for work, and none if the
//! part's own work does not fit. A dynamic program over (place, devices left) maximises the worth of that time (see
//! [`crate::placement::prices`]); a partial split is dead when what is left to do costs more.

use crate::placement::LoadRule;
use crate::placement::problem::{Load, Net, Problem, SAFETY, column};
use crate::progress::Stop;

/// Most places on a chain.
const PLACES: usize = 512;
/// Most steps of the dynamic program, for all sets of prices.
const STEPS: usize = 1 << 24;
/// Fewest places that are worth it.
const FEWEST: usize = 8;

/// Numbers of devices left, as one index.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    strides: Vec<usize>,
    sizes: Vec<usize>,
    pub(crate) len: usize,
}

impl Counts {
    /// `None` when there are more than `most`.
    fn new(problem: &Problem, most: usize) -> Option<Self> {
        let mut counts = Self { strides: Vec::new(), sizes: Vec::new(), len: 1 };
        for kind in &problem.kinds {
            counts.strides.push(counts.len);
            counts.sizes.push(kind.count as usize + 1);
            counts.len = counts.len.checked_mul(kind.count as usize + 1).filter(|&len| len <= most)?;
        }
        Some(counts)
    }

    pub(crate) fn index(&self, left: &[u32]) -> usize {
        left.iter().zip(&self.strides).map(|(&n, stride)| n as usize * stride).sum()
    }

    fn left(&self, index: usize, kind: usize) -> usize {
        index / self.strides[kind] % self.sizes[kind]
    }
}

/// A chain with what a part between any two of its places holds at least.
pub(crate) struct Chain<'a> {
    problem: &'a Problem,
    pub(crate) counts: Counts,
    places: usize,
    /// By unit: whether it is on the chain.
    pub(crate) member: Vec<bool>,
    /// By net: whether it is never seen to cross a cut for certain.
    side: Vec<bool>,
    /// By pair of places and kind: the least load of a part, and without transfers.
    least: Vec<[f64; 2]>,
    /// By pair of places: time that a device has not got for work, and that each replica but the first costs.
    lost: Vec<[f64; 2]>,
}

/// The worth of what devices left can do, by set of prices, place and devices left.
pub(crate) struct Offers {
    counts: Counts,
    places: usize,
    /// Empty for a set that is not asked for.
    worth: Vec<Vec<f64>>,
}

impl<'a> Chain<'a> {
    /// Chains along the path with the most work, and along the path with the costliest transfers.
    ///
    /// Time `O(N (V + E) + N^2 W)` for `N` places and rows of `W` columns.
    pub(crate) fn all(problem: &'a Problem) -> Vec<Self> {
        let Some(set) = problem.prices.all().filter(|_| !problem.capped()) else { return Vec::new() };
        let column = problem.prices.column(set);
        let work = heaviest_path(problem, |_, unit| problem.row(unit)[column]);
        let moved = heaviest_path(problem, |from, unit| {
            let between = |id: &&u32| problem.nets[**id as usize].targets.contains(&unit);
            problem.sourced[from as usize].iter().filter(between).map(|&id| problem.nets[id as usize].cost).sum()
        });
        let mut paths = vec![work, moved];
        paths.dedup();
        paths.iter().filter_map(|path| Self::new(problem, path)).collect()
    }

    fn new(problem: &'a Problem, path: &[u32]) -> Option<Self> {
        let sets = problem.prices.sets.len().max(1);
        let counts = Counts::new(problem, STEPS / FEWEST.pow(2) / sets)?;
        let places = path.len().min(PLACES).min((STEPS / counts.len / sets).isqrt());
        let chosen: Vec<u32> = (0..places).map(|i| path[i * path.len() / places]).collect();
        let mut member = vec![false; problem.len()];
        for &unit in &chosen {
            member[unit as usize] = true;
        }
        let spans = Spans::new(problem, &chosen);
        let rows = spans.rows(problem);
        let kept = spans.kept(problem);
        let kinds = problem.kinds.len();
        let width = problem.width;
        let size = (places + 1) * (places + 1);
        let mut least = vec![[f64::INFINITY; 2]; size * kinds];
        let mut lost = vec![[0.0; 2]; size];
        for pair in 0..size {
            let row = &rows[pair * width..(pair + 1) * width];
            for kind in 0..kinds {
                least[pair * kinds + kind] = [kept[pair], [0.0; 2]].map(|kept| problem.least(row, kept, kind));
            }
            let moved = if problem.load == LoadRule::Sequential { kept[pair][0] + kept[pair][1] } else { 0.0 };
            lost[pair] = [moved, row[column::SYNC] + row[column::SYNC + 1]];
        }
        let side = problem.nets.iter().map(|net| !spans.certain(net)).collect();
        Some(Self { problem, counts, places, member, side, least, lost })
    }

    /// Costs of the nets that cross a cut and that no offer has paid for.
    pub(crate) fn crossing(&self, inside: impl Fn(u32) -> bool) -> f64 {
        let crosses = |net: &Net| {
            let source = inside(net.source);
            net.targets.iter().any(|&target| inside(target) != source)
        };
        let nets = self.problem.nets.iter().zip(&self.side);
        nets.filter(|(net, side)| **side && crosses(net)).map(|(net, _)| net.cost).sum()
    }

    /// The offers with loads of at most `threshold`.
    ///
    /// Time `O(N^2 C K R)` for `C` numbers of devices left; space `O(N C)`, for each set of prices.
    pub(crate) fn offers(&self, threshold: f64) -> Offers {
        let sets = self.problem.prices.sets.len();
        let worth = (0..sets).map(|set| self.offers_at(set, threshold)).collect();
        Offers { counts: self.counts.clone(), places: self.places, worth }
    }

    /// Whether devices as they are could do all work with loads of at most `threshold`.
    pub(crate) fn possible(&self, threshold: f64) -> bool {
        let Some(set) = self.problem.prices.all() else { return false };
        let total = self.problem.total[self.problem.prices.column(set)];
        let offers = self.offers_at(set, threshold);
        offers[self.counts.len - 1] >= total * (1.0 - SAFETY)
    }

    fn offers_at(&self, set: usize, threshold: f64) -> Vec<f64> {
        let (counts, kinds) = (&self.counts, &self.problem.kinds);
        let prices = &self.problem.prices.sets[set];
        let members: Vec<usize> = (0..kinds.len()).filter(|&kind| prices.member[kind]).collect();
        let mut offers = vec![f64::NEG_INFINITY; (self.places + 1) * counts.len];
        let asked: Vec<usize> = (0..counts.len)
            .filter(|&index| (0..kinds.len()).all(|kind| prices.member[kind] || counts.left(index, kind) == 0))
            .collect();
        for &index in &asked {
            let time = |&kind: &usize| prices.price[kind] * counts.left(index, kind) as f64;
            offers[self.places * counts.len + index] = threshold * members.iter().map(time).sum::<f64>();
        }
        for from in (0..self.places).rev() {
            for to in from + 1..=self.places {
                let pair = from * (self.places + 1) + to;
                let (before, after) = offers.split_at_mut(to * counts.len);
                let row = &mut before[from * counts.len..(from + 1) * counts.len];
                let mut fits = false;
                for &kind in &members {
                    if self.least[pair * kinds.len() + kind][0] > threshold * (1.0 + SAFETY) {
                        continue;
                    }
                    fits = true;
                    let lost = if kind == 0 { [0.0; 2] } else { self.lost[pair] };
                    for replicas in 1..=kinds[kind].replicas as usize {
                        let r = replicas as f64;
                        let gain = prices.price[kind] * (r * threshold - lost[0] - (r - 1.0) * lost[1]);
                        let step = replicas * counts.strides[kind];
                        for &index in &asked {
                            if counts.left(index, kind) >= replicas {
                                row[index] = row[index].max(gain + after[index - step]);
                            }
                        }
                    }
                }
                if !fits && self.hopeless(pair, threshold) {
                    break;
                }
            }
        }
        offers
    }

    /// Whether no longer interval fits, either: its transfers may shrink, the rest only grows.
    fn hopeless(&self, pair: usize, threshold: f64) -> bool {
        let kinds = self.problem.kinds.len();
        (0..kinds).all(|kind| self.least[pair * kinds + kind][1] > threshold * (1.0 + SAFETY))
    }
}

impl Offers {
    /// The most that devices left can do from a place on.
    pub(crate) fn most(&self, set: usize, place: usize, left: &[u32]) -> f64 {
        self.worth[set][place * self.counts.len + self.counts.index(left)]
    }

    /// The same for an index of devices left (see [`Counts::index`]).
    pub(crate) fn at(&self, set: usize, place: usize, left: usize) -> f64 {
        self.worth[set][place * self.counts.len + left]
    }

    /// Makes each offer the largest one from its place on.
    pub(crate) fn onwards(&self) -> Self {
        let len = self.counts.len;
        let mut worth = self.worth.clone();
        for offers in &mut worth {
            for at in (0..self.places * len).rev() {
                offers[at] = offers[at].max(offers[at + len]);
            }
        }
        Self { counts: self.counts.clone(), places: self.places, worth }
    }
}

/// For every unit, between which places it is sure to be.
struct Spans {
    places: usize,
    /// The first place whose unit it can reach or is: from the next place on, it is below every cut.
    first: Vec<usize>,
    /// The last place whose unit reaches it or is it, plus one: up to it exclusively, it is above every cut.
    last: Vec<usize>,
}

impl Spans {
    fn new(problem: &Problem, chosen: &[u32]) -> Self {
        let places = chosen.len();
        let (mut first, mut last) = (vec![places; problem.len()], vec![0; problem.len()]);
        for (place, &unit) in chosen.iter().enumerate() {
            first[unit as usize] = place;
            last[unit as usize] = place + 1;
        }
        for unit in 0..problem.len() {
            for &next in problem.after(unit as u32) {
                last[next as usize] = last[next as usize].max(last[unit]);
            }
        }
        for unit in (0..problem.len()).rev() {
            for &next in problem.after(unit as u32) {
                first[unit] = first[unit].min(first[next as usize]);
            }
        }
        Self { places, first, last }
    }

    /// Whether some cut is sure to have the source on one side and a reader on the other.
    fn certain(&self, net: &Net) -> bool {
        let apart = |below: u32, above: u32| self.first[below as usize] + 2 <= self.last[above as usize];
        net.targets.iter().any(|&target| apart(net.source, target) || apart(target, net.source))
    }

    /// Sums over the units that are sure to be between two places, by pair of places.
    fn rows(&self, problem: &Problem) -> Vec<f64> {
        let (n, width) = (self.places + 1, problem.width);
        let mut rows = vec![0.0; n * n * width];
        // A unit is between `from` and `to` when `from < last` and `first < to`.
        for unit in 0..problem.len() {
            let (first, last) = (self.first[unit], self.last[unit]);
            if first < self.places && last > 0 {
                let at = ((last - 1) * n + first + 1) * width;
                for (sum, value) in rows[at..at + width].iter_mut().zip(problem.row(unit as u32)) {
                    *sum += value;
                }
            }
        }
        accumulate(&mut rows, n, width);
        rows
    }

    /// Transfers that a part between two places is sure to have, by pair of places.
    ///
    /// Time `O(N^2)` and `O(N)` a net, plus the places that it spans.
    fn kept(&self, problem: &Problem) -> Vec<Load> {
        let n = self.places + 1;
        let mut kept = vec![[0.0; 2]; n * n];
        // What begins at some end and goes on for all later ones.
        let mut lasting = vec![[0.0; 2]; n * n];
        for net in &problem.nets {
            for from in 0..self.places {
                for (low, high) in self.intervals(net, from) {
                    if low <= high && high == self.places {
                        lasting[from * n + low][net.pass] += net.cost;
                    } else {
                        for to in low..=high {
                            kept[from * n + to][net.pass] += net.cost;
                        }
                    }
                }
            }
        }
        for from in 0..n {
            let mut sum = [0.0; 2];
            for at in from * n..(from + 1) * n {
                for pass in 0..2 {
                    sum[pass] += lasting[at][pass];
                    kept[at][pass] += sum[pass];
                }
            }
        }
        kept
    }

    /// Ends of the parts that begin at a place and are sure to read a net, and of those that are sure to write it.
    ///
    /// A unit is below the part when `first < from`, above it when `to < last`, in it when `from < last` and
    /// `first < to`.
    fn intervals(&self, net: &Net, from: usize) -> [(usize, usize); 2] {
        const NEVER: (usize, usize) = (1, 0);
        let (first, last) = (&self.first, &self.last);
        let source = net.source as usize;
        let readers = || net.targets.iter().map(|&target| target as usize);
        let read_from = readers().filter(|&t| from < last[t]).map(|t| first[t] + 1).min();
        let read = match read_from {
            Some(low) if first[source] < from => (low.max(from + 1), self.places),
            Some(low) if last[source] > 0 => (low.max(from + 1), (last[source] - 1).min(self.places)),
            _ => NEVER,
        };
        if from >= last[source] {
            return [read, NEVER];
        }
        let low = (first[source] + 1).max(from + 1);
        if readers().any(|t| first[t] < from) {
            // A reader below the part: written wherever the part ends.
            return [read, (low, self.places)];
        }
        let reader_above = readers().map(|t| last[t]).max().unwrap_or(0);
        let written = if reader_above > 0 { (low, (reader_above - 1).min(self.places)) } else { NEVER };
        [read, written]
    }
}

/// Sums over all larger `from` and smaller `to`, by additions only.
fn accumulate(rows: &mut [f64], n: usize, width: usize) {
    let line = n * width;
    for at in (0..rows.len() - line).rev() {
        rows[at] += rows[at + line];
    }
    for row in rows.chunks_exact_mut(line) {
        for at in width..line {
            row[at] += row[at - width];
        }
    }
}

/// The path with the largest sum of a weight of its steps and their ends. Time `O(n + E)` weights.
fn heaviest_path(problem: &Problem, weight: impl Fn(u32, u32) -> f64) -> Vec<u32> {
    let mut best: Vec<(f64, Option<u32>)> = vec![(0.0, None); problem.len()];
    for unit in 0..problem.len() as u32 {
        for &next in problem.after(unit) {
            let sum = best[unit as usize].0 + weight(unit, next);
            if best[next as usize].1.is_none() || sum > best[next as usize].0 {
                best[next as usize] = (sum, Some(unit));
            }
        }
    }
    let value = |unit: &u32| best[*unit as usize].0;
    let mut end = (0..problem.len() as u32).max_by(|a, b| value(a).total_cmp(&value(b)).then(b.cmp(a)));
    let mut path = Vec::new();
    while let Some(unit) = end {
        path.push(unit);
        end = best[unit as usize].1;
    }
    path.reverse();
    path
}

/// The largest value below which no split is possible, found between `low` and `high` in so many steps.
pub(crate) fn lower_bound(
    chains: &[Chain<'_>],
    mut low: f64,
    high: f64,
    steps: usize,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<f64, Stop> {
    for chain in chains {
        let mut top = high;
        for _ in 0..steps {
            if top <= low * (1.0 + SAFETY) || !top.is_finite() || low <= 0.0 {
                break;
            }
            tick()?;
            let threshold = (low * top).sqrt();
            if chain.possible(threshold) {
                top = threshold;
            } else {
                low = threshold;
            }
        }
    }
    Ok(low)
}
