//! Equal splits of a network into stages.

use std::collections::BTreeMap;

use crate::pipeline::{Layer, Workload};

/// Repeated layers count as the body of a network when they hold at least this part of its compute time.
const CLEAR_SHARE: f64 = 2.0 / 3.0;

/// Where the larger chunks go when the chunks cannot be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Larger {
    First,
    Last,
    Spread,
}

/// One way to divide the topological order into stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Parts of the body.
    chunks: usize,
    larger: Larger,
    /// Whether the layers before the body stand alone; else they join its first part.
    head: bool,
    /// Whether the layers after the body stand alone; else they join its last part.
    tail: bool,
}

impl Split {
    /// Everything in one stage.
    pub(super) const WHOLE: Self = Self { chunks: 1, larger: Larger::First, head: false, tail: false };

    /// Number of stages.
    pub(super) fn stages(&self) -> usize {
        self.chunks + usize::from(self.head) + usize::from(self.tail)
    }
}

/// A network's layers in topological order, of which the body is dealt out.
pub(super) struct Line {
    /// Positions of the body, increasing.
    body: Vec<usize>,
    /// Number of layers.
    layers: usize,
}

impl Line {
    pub(super) fn new(workload: &Workload) -> Self {
        Self { body: body(workload), layers: workload.order().len() }
    }

    /// All equal splits with at most `most` stages.
    pub(super) fn splits(&self, most: usize) -> Vec<Split> {
        let ends = |alone_possible: bool| if alone_possible { 0..=1 } else { 0..=0 };
        let mut found = Vec::new();
        for chunks in 1..=self.body.len().min(most) {
            let even = self.body.len().is_multiple_of(chunks);
            let ways: &[Larger] =
                if even { &[Larger::First] } else { &[Larger::First, Larger::Last, Larger::Spread] };
            for &larger in ways {
                for head in ends(self.first() > 0) {
                    for tail in ends(self.end() < self.layers) {
                        found.push(Split { chunks, larger, head: head == 1, tail: tail == 1 });
                    }
                }
            }
        }
        found.retain(|split| split.stages() <= most);
        found
    }

    /// Where each stage starts in the order, and the number of layers. Layers between two layers of the body go with
    /// the first of them.
    pub(super) fn bounds(&self, split: &Split) -> Vec<usize> {
        let start = |chunk| self.body[chunk_start(self.body.len(), split.chunks, chunk, split.larger)];
        let mut bounds = vec![0];
        bounds.extend(split.head.then(|| self.first()));
        bounds.extend((1..split.chunks).map(start));
        bounds.extend(split.tail.then(|| self.end()));
        bounds.push(self.layers);
        bounds
    }

    fn first(&self) -> usize {
        self.body.first().copied().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.body.last().map_or(self.layers, |last| last + 1)
    }
}

/// Where chunk number `chunk` of `count` items in `chunks` chunks starts.
fn chunk_start(count: usize, chunks: usize, chunk: usize, larger: Larger) -> usize {
    let (size, extra) = (count / chunks, count % chunks);
    match larger {
        Larger::First => chunk * size + chunk.min(extra),
        Larger::Last => chunk * size + chunk.saturating_sub(chunks - extra),
        Larger::Spread => (chunk as u64 * count as u64 / chunks as u64) as usize,
    }
}

/// Positions, in the topological order, of the layers that are dealt out: the repeated layers of a network that has
/// clear ones, otherwise all.
///
/// Repeated layers are those that look alike in groups at least half as large as the largest: encoder and decoder layers
/// both.
fn body(workload: &Workload) -> Vec<usize> {
    let mut groups: BTreeMap<Looks, Vec<usize>> = BTreeMap::new();
    for (position, &node) in workload.order().iter().enumerate() {
        if let Some(looks) = Looks::of(workload.layer(node)) {
            groups.entry(looks).or_default().push(position);
        }
    }
    let largest = groups.values().map(Vec::len).max().unwrap_or(0);
    let mut repeated: Vec<usize> =
        groups.into_values().filter(|group| group.len() >= 2 && group.len() * 2 >= largest).flatten().collect();
    repeated.sort_unstable();
    let time = |position: &usize| time(workload.layer(workload.order()[*position]));
    let all: Vec<usize> = (0..workload.order().len()).collect();
    let share: f64 = repeated.iter().map(time).sum();
    let total: f64 = all.iter().map(time).sum();
    if !repeated.is_empty() && share >= CLEAR_SHARE * total { repeated } else { all }
}

/// Compute time at the smallest degree.
fn time(layer: &Layer) -> f64 {
    layer.tmpcs.values().find_map(|list| list.first()).map_or(0.0, |tmpc| tmpc.time)
}

/// What two instances of one layer have in common. Times are measured and differ a little, so they do not belong here.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Looks {
    degrees: Vec<u32>,
    bytes: [u64; 3],
}

impl Looks {
    /// `None` for a layer that takes no time: the inputs of a network look alike too.
    fn of(layer: &Layer) -> Option<Self> {
        let tmpc = layer.tmpcs.values().find_map(|list| list.first())?;
        let bytes = [tmpc.weight_bytes, tmpc.memory_per_microbatch, tmpc.memory_fixed].map(f64::to_bits);
        (tmpc.time > 0.0).then(|| Self { degrees: layer.tmpcs.keys().copied().collect(), bytes })
    }
}
