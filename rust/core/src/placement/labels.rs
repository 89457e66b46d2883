//! What partial splits have come to: devices used and largest loads, of which only the undominated ones are kept.

use crate::placement::problem::{Kind, Load};

/// Devices used, by kind: a field of bits a kind, with one bit to spare for comparisons of all fields at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage(u128);

/// The layout of [`Usage`].
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    shifts: Vec<u32>,
    widths: Vec<u32>,
    guards: u128,
    limit: u128,
    /// Whether some count was too large and was lowered.
    pub(crate) clamped: bool,
}

impl Fields {
    pub(crate) fn new(kinds: &[Kind]) -> Self {
        let mut counts: Vec<u32> = kinds.iter().map(|kind| kind.count).collect();
        let width = |count: u32| 33 - count.leading_zeros();
        let mut clamped = false;
        while counts.iter().map(|&n| width(n)).sum::<u32>() > 128 {
            let largest = (0..counts.len()).max_by_key(|&kind| counts[kind]).unwrap_or(0);
            if counts[largest] == 0 {
                // 65 kinds take at most 65 bits then.
                break;
            }
            counts[largest] /= 2;
            clamped = true;
        }
        let widths: Vec<u32> = counts.iter().map(|&n| width(n)).collect();
        let shifts: Vec<u32> = (0..widths.len()).map(|kind| widths[..kind].iter().sum()).collect();
        let guards = (0..widths.len()).fold(0, |bits, kind| bits | 1_u128 << (shifts[kind] + widths[kind] - 1));
        let limit = (0..widths.len()).fold(0, |bits, kind| bits | u128::from(counts[kind]) << shifts[kind]);
        Self { shifts, widths, guards, limit, clamped }
    }

    /// With so many more devices of a kind; `None` when there are not so many.
    pub(crate) fn take(&self, usage: Usage, kind: usize, devices: u32) -> Option<Usage> {
        if devices > self.left(usage, kind) {
            return None;
        }
        Some(Usage(usage.0 + (u128::from(devices) << self.shifts[kind])))
    }

    /// Devices of a kind that are left.
    pub(crate) fn left(&self, usage: Usage, kind: usize) -> u32 {
        let rest = (self.limit - usage.0) >> self.shifts[kind];
        (rest & ((1 << (self.widths[kind] - 1)) - 1)) as u32
    }

    /// Devices left, by kind.
    pub(crate) fn all_left(&self, usage: Usage, left: &mut Vec<u32>) {
        left.clear();
        left.extend((0..self.shifts.len()).map(|kind| self.left(usage, kind)));
    }

    /// Whether `a` uses no more than `b` of any kind.
    fn within(&self, a: Usage, b: Usage) -> bool {
        ((b.0 | self.guards) - a.0) & self.guards == self.guards
    }
}

/// A partial split up to some downset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) usage: Usage,
    /// The largest loads.
    pub(crate) load: Load,
    /// The downset before the last part, and the label there.
    pub(crate) parent: (u32, u32),
    pub(crate) kind: u32,
    pub(crate) replicas: u32,
}

impl Label {
    pub(crate) const ROOT: Self =
        Self { usage: Usage(0), load: [0.0; 2], parent: (u32::MAX, 0), kind: 0, replicas: 0 };

    pub(crate) fn value(&self) -> f64 {
        self.load[0] + self.load[1]
    }
}

/// Adds a label unless another one is at least as good in everything; drops those that it beats.
pub(crate) fn insert(labels: &mut Vec<Label>, fields: &Fields, new: Label) {
    let beats =
        |a: &Label, b: &Label| a.load[0] <= b.load[0] && a.load[1] <= b.load[1] && fields.within(a.usage, b.usage);
    if labels.iter().any(|old| beats(old, &new)) {
        return;
    }
    labels.retain(|old| !beats(&new, old));
    labels.push(new);
}
