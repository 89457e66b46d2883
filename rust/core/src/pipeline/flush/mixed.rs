//! Stages with layers whose alternatives differ in more than time and memory: `tau` and resync trade off.
//!
//! Layer by layer, all choices that no other one beats in time, weight and bytes. Such stages are rare, so this is
//! plain.

use std::collections::HashMap;

use crate::graph::NodeId;
use crate::pipeline::problem::Degree;
use crate::pipeline::tables::{Fixed, Pair, StageRun, Tables};
use crate::pipeline::{Tmpc, Transfer};

/// Choices kept at a time beyond which only a bound is given.
const MOST_MIXES: usize = 1 << 11;

/// The cost of one choice of alternatives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) tau: f64,
    /// `w` of all layers and copies.
    pub(super) weight: f64,
}

/// A choice of alternatives: its cost, and by layer the position of the TMPC.
pub(super) type Chosen = (Point, Vec<(NodeId, u32)>);

/// The stages that were asked for.
#[derive(Default)]
pub(super) struct MixedStages {
    /// By pair, positions of the degrees, and microbatches in flight.
    known: HashMap<Question, Vec<Point>>,
    points: usize,
}

type Question = (Pair, usize, usize, u32);

impl MixedStages {
    /// The choices that fit and that no other one beats, fastest first. Where there are too many, a single point that
    /// is a lower bound of all.
    ///
    /// Time `O(V m^2)` when it is asked for the first time, with `m` choices of some of the layers that no other one
    /// beats.
    pub(super) fn points(
        &mut self,
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        option: usize,
        fixed: &Fixed,
        in_flight: u32,
    ) -> &[Point] {
        self.known.entry((pair, degree, option, in_flight)).or_insert_with(|| {
            let points = match Mixer::new(tables, pair, degree, option, fixed, in_flight).mixes() {
                Some(mixes) => mixes.iter().map(|mix| mix.point).collect(),
                None => vec![Point { tau: fixed.sums.fastest + fixed.transfer, weight: fixed.sums.weight }],
            };
            self.points += points.len();
            points
        })
    }

    /// Bytes that the known stages take, about.
    pub(super) fn bytes(&self) -> usize {
        self.known.len() * size_of::<(Question, Vec<Point>)>() + self.points * size_of::<Point>()
    }

    /// The fastest choice with an allowed weight. Where there are too many choices, the one with the fewest bytes.
    pub(super) fn choose(
        tables: &Tables<'_>,
        pair: Pair,
        degree: usize,
        option: usize,
        fixed: &Fixed,
        in_flight: u32,
        allowed: impl Fn(f64) -> bool,
    ) -> Option<Chosen> {
        let mixer = Mixer::new(tables, pair, degree, option, fixed, in_flight);
        let mix = match mixer.mixes() {
            Some(mixes) => mixes.into_iter().find(|mix| allowed(mix.point.weight)),
            None => mixer.smallest(),
        }?;
        Some((mix.point, tables.layers(pair).zip(mix.positions).collect()))
    }
}

/// A choice for the first layers of a stage.
#[derive(Clone, Debug)]
struct Mix {
    point: Point,
    bytes: f64,
    positions: Vec<u32>,
}

impl Mix {
    fn key(&self) -> [f64; 3] {
        [self.point.tau, self.point.weight, self.bytes]
    }

    fn beats(&self, other: &Self) -> bool {
        self.key().iter().zip(other.key()).all(|(a, b)| *a <= b)
    }
}

struct Mixer<'a> {
    tables: &'a Tables<'a>,
    pair: Pair,
    degree: usize,
    at: &'a Degree,
    in_flight: u32,
    capacity: f64,
    /// All transfers but the synchronisation of irregular layers, and the weight of regular layers and copies.
    start: Point,
}

impl<'a> Mixer<'a> {
    fn new(tables: &'a Tables<'a>, pair: Pair, degree: usize, option: usize, fixed: &Fixed, in_flight: u32) -> Self {
        let at = &tables.problem.degrees[degree][option];
        let start = Point { tau: fixed.transfer, weight: fixed.sums.weight };
        let run = StageRun { tables, pair, degree, at, fixed };
        Self { tables, pair, degree, at, in_flight, capacity: run.capacity(), start }
    }

    /// Every choice that fits and that no other one beats, fastest first; `None` when there are too many.
    fn mixes(&self) -> Option<Vec<Mix>> {
        let mut mixes = vec![Mix { point: self.start, bytes: 0.0, positions: Vec::new() }];
        for node in self.tables.layers(self.pair) {
            let choices = self.choices(node);
            let mut next = Vec::with_capacity(mixes.len() * choices.len());
            for choice in &choices {
                next.extend(mixes.iter().map(|mix| mix.with(choice)).filter(|mix| mix.bytes <= self.capacity));
            }
            mixes = undominated(next)?;
        }
        Some(mixes)
    }

    /// The choice with the fewest bytes, if it fits.
    fn smallest(&self) -> Option<Mix> {
        let mut mix = Mix { point: self.start, bytes: 0.0, positions: Vec::new() };
        for node in self.tables.layers(self.pair) {
            let choices = self.choices(node);
            mix = mix.with(choices.iter().min_by(|a, b| a.bytes.total_cmp(&b.bytes))?);
        }
        (mix.bytes <= self.capacity).then_some(mix)
    }

    /// The alternatives of one layer.
    fn choices(&self, node: NodeId) -> Vec<Choice> {
        let problem = self.tables.problem;
        let Some(alternatives) = &problem.alternatives[node.index()][self.degree] else { return Vec::new() };
        let choice = |&position: &u32| {
            let tmpc = problem.tmpc(node, self.degree, position);
            let bytes = tmpc.memory_per_microbatch * f64::from(self.in_flight) + tmpc.memory_fixed;
            if alternatives.menu.is_some() {
                // What all alternatives share is counted already.
                return Choice { position, tau: tmpc.time, weight: 0.0, bytes };
            }
            Choice {
                position,
                tau: tmpc.time + self.synchronisation(node, tmpc),
                weight: tmpc.weight_bytes,
                bytes: bytes + tmpc.memory_sharded / f64::from(self.at.data_parallel),
            }
        };
        alternatives.positions.iter().map(choice).collect()
    }

    /// Time that an irregular layer synchronises activations, both directions.
    fn synchronisation(&self, node: NodeId, tmpc: &Tmpc) -> f64 {
        let (workload, lattice) = (self.tables.problem.workload, self.tables.lattice);
        if workload.transfer == Transfer::Tensor {
            // The same for all alternatives, and counted with the tensors.
            return 0.0;
        }
        let (lower, upper) = (lattice.get(self.pair.lower), lattice.get(self.pair.upper));
        let outside = |v: NodeId| lower.contains(v) || !upper.contains(v);
        let graph = workload.graph();
        let entering =
            graph.incoming(node).iter().zip(&tmpc.sync_forward).filter(|&(&e, _)| outside(graph.source(e)));
        let leaving =
            graph.outgoing(node).iter().zip(&tmpc.sync_backward).filter(|&(&e, _)| outside(graph.target(e)));
        2.0 / workload.network.stage_bandwidth * entering.chain(leaving).map(|(_, bytes)| bytes).sum::<f64>()
    }
}

/// One alternative of a layer.
#[derive(Clone, Copy, Debug)]
struct Choice {
    position: u32,
    tau: f64,
    weight: f64,
    bytes: f64,
}

impl Mix {
    fn with(&self, choice: &Choice) -> Self {
        let mut positions = self.positions.clone();
        positions.push(choice.position);
        let point = Point { tau: self.point.tau + choice.tau, weight: self.point.weight + choice.weight };
        Self { point, bytes: self.bytes + choice.bytes, positions }
    }
}

/// Those that no other one beats, fastest first; `None` when there are too many.
fn undominated(mut mixes: Vec<Mix>) -> Option<Vec<Mix>> {
    mixes.sort_by(|a, b| {
        let (a, b) = (a.key(), b.key());
        a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])).then(a[2].total_cmp(&b[2]))
    });
    let mut kept: Vec<Mix> = Vec::new();
    for mix in mixes {
        if kept.iter().any(|other| other.beats(&mix)) {
            continue;
        }
        if kept.len() == MOST_MIXES {
            return None;
        }
        kept.push(mix);
    }
    Some(kept)
}
