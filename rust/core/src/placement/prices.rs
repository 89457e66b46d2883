//! Prices of device time: the dual of sharing out work by the fraction over devices of several kinds.
//!
//! Give a unit of time on a device of kind `i` the price `l_i`. Wherever a piece of work is done, it costs at least the
//! least of `l_i t_i` over the kinds; devices with loads of at most `T` have time worth `T sum n_i l_i`. When the work
//! costs more, `T` is too low, whatever the prices. Good prices are found one kind at a time: as a function of one of
//! them, the quotient of both sums has its largest value where some piece of work changes kinds.

use crate::placement::problem::{Kind, SAFETY, column};

/// Up to so many kinds, every set of them has prices of its own.
const FEW_KINDS: usize = 3;
/// Rounds over the kinds.
const ROUNDS: usize = 4;

/// Prices for a set of kinds that still have devices.
#[derive(Clone, Debug)]
pub(crate) struct PriceSet {
    /// By kind; 0 where the kind is not in the set.
    pub(crate) price: Vec<f64>,
    /// Whether a kind is in the set.
    pub(crate) member: Vec<bool>,
    /// The least price of a member.
    pub(crate) least: f64,
}

/// Prices for sets of kinds.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    /// The last one holds all kinds with a device.
    pub(crate) sets: Vec<PriceSet>,
    /// By mask of kinds: position in `sets`. Empty when there are too many kinds for that.
    by_mask: Vec<usize>,
    /// First column of the prices.
    start: usize,
}

impl Prices {
    /// Prices for rows of sums over units. Time `O(2^K V log V)` for `K <= 3` kinds, else `O(K V log V)`.
    pub(crate) fn new(rows: &[Vec<f64>], kinds: &[Kind]) -> Self {
        let start = column::KINDS + column::EACH * kinds.len();
        let all: Vec<bool> = kinds.iter().map(|kind| kind.count > 0).collect();
        let mut sets = Vec::new();
        let mut by_mask = Vec::new();
        if kinds.len() <= FEW_KINDS {
            let full = mask(&all);
            by_mask = vec![usize::MAX; 1 << kinds.len()];
            for (subset, position) in by_mask.iter_mut().enumerate().take(full + 1).skip(1) {
                if subset & !full == 0 {
                    *position = sets.len();
                    sets.push(find(rows, kinds, (0..kinds.len()).map(|k| subset >> k & 1 == 1).collect()));
                }
            }
        } else {
            sets.push(find(rows, kinds, all));
        }
        Self { sets, by_mask, start }
    }

    /// Appends the price of a unit and whether it can be nowhere, for every set.
    pub(crate) fn extend(&self, unit: &[f64], rows: &mut Vec<f64>) {
        for set in &self.sets {
            let price = price(unit, set);
            rows.push(price.unwrap_or(0.0));
            rows.push(if price.is_none() { 1.0 } else { 0.0 });
        }
    }

    /// The set for devices left over, by kind: the smallest that has them all.
    pub(crate) fn set(&self, left: &[u32]) -> Option<usize> {
        let mask = left.iter().enumerate().fold(0, |mask, (kind, &n)| mask | usize::from(n > 0) << kind.min(63));
        if mask == 0 {
            return None;
        }
        if self.by_mask.is_empty() { Some(0) } else { self.by_mask.get(mask).copied() }
    }

    /// Position of the set of all kinds.
    pub(crate) fn all(&self) -> Option<usize> {
        self.sets.len().checked_sub(1)
    }

    /// Column of the price of a set; the next one counts what can be nowhere.
    pub(crate) fn column(&self, set: usize) -> usize {
        self.start + 2 * set
    }

    /// What the time of the devices is worth, for each unit of time that one of them has.
    pub(crate) fn worth(&self, set: usize, left: &[u32]) -> f64 {
        self.sets[set].price.iter().zip(left).map(|(price, &n)| price * f64::from(n)).sum()
    }

    /// A lower bound on every value, from a row of sums over all units.
    pub(crate) fn bound(&self, total: &[f64], kinds: &[Kind]) -> f64 {
        let counts: Vec<u32> = kinds.iter().map(|kind| kind.count).collect();
        let Some(set) = self.all().filter(|_| counts.iter().any(|&n| n > 0)) else { return f64::INFINITY };
        let at = self.column(set);
        if total[at + 1] > 0.0 {
            return f64::INFINITY;
        }
        total[at] / self.worth(set, &counts) * (1.0 - SAFETY)
    }
}

fn mask(members: &[bool]) -> usize {
    members.iter().enumerate().fold(0, |mask, (kind, &is)| mask | usize::from(is) << kind)
}

/// Time of a unit on a kind.
fn time(unit: &[f64], kind: usize) -> Option<f64> {
    let at = column::KINDS + column::EACH * kind;
    (unit[at + 2] == 0.0).then(|| unit[at] + unit[at + 1])
}

/// The least price of a unit.
fn price(unit: &[f64], set: &PriceSet) -> Option<f64> {
    let members = (0..set.price.len()).filter(|&kind| set.member[kind]);
    members.filter_map(|kind| time(unit, kind).map(|t| t * set.price[kind])).reduce(f64::min)
}

fn find(rows: &[Vec<f64>], kinds: &[Kind], member: Vec<bool>) -> PriceSet {
    let first = kinds.len() - 1 - member.iter().rev().position(|&is| is).unwrap_or(0);
    let mut set = PriceSet { price: member.iter().map(|&is| f64::from(u8::from(is))).collect(), member, least: 1.0 };
    for _ in 0..ROUNDS {
        for kind in (0..kinds.len()).filter(|&kind| set.member[kind] && kind != first) {
            set.price[kind] = best_price(rows, kinds, &set, kind);
        }
    }
    let members = set.price.iter().zip(&set.member).filter(|(_, is)| **is);
    set.least = members.map(|(&price, _)| price).fold(f64::INFINITY, f64::min);
    set
}

/// The price of one kind with the largest quotient, the others fixed.
fn best_price(rows: &[Vec<f64>], kinds: &[Kind], set: &PriceSet, kind: usize) -> f64 {
    let others =
        PriceSet { member: set.member.iter().enumerate().map(|(k, &is)| is && k != kind).collect(), ..set.clone() };
    // (price at which the work leaves the kind, its time on the kind, its price elsewhere)
    let mut leaves: Vec<(f64, f64, f64)> = Vec::new();
    let mut forced = 0.0;
    let mut elsewhere_only = 0.0;
    for unit in rows {
        match (time(unit, kind), price(unit, &others)) {
            (Some(time), Some(elsewhere)) if time > 0.0 => leaves.push((elsewhere / time, time, elsewhere)),
            (Some(time), None) => forced += time,
            (None, Some(elsewhere)) => elsewhere_only += elsewhere,
            _ => {}
        }
    }
    leaves.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let worth: f64 =
        (0..kinds.len()).filter(|&k| others.member[k]).map(|k| others.price[k] * f64::from(kinds[k].count)).sum();
    let own = f64::from(kinds[kind].count);
    // At the price of the i-th, those before it are on the kind still, and those from it on are elsewhere.
    let mut here: f64 = forced;
    let mut there: f64 = elsewhere_only + leaves.iter().map(|leave| leave.2).sum::<f64>();
    let mut best = (f64::NEG_INFINITY, set.price[kind]);
    for &(at, time, elsewhere) in &leaves {
        let quotient = (at * here + there) / (worth + at * own);
        if quotient > best.0 && at.is_finite() && at > 0.0 {
            best = (quotient, at);
        }
        here += time;
        there -= elsewhere;
    }
    best.1
}
