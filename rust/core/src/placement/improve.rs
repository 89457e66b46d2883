//! Better splits along other linear orders.
//!
//! Any split is one of those along some order: its parts one after the other. So the linearised program, run on an order
//! near that of the best split, finds one at least as good. Orders are drawn by shaking the positions of units, a little
//! or a lot, and sorting topologically by them.

use crate::placement::linear::{self, Found};
use crate::placement::orders;
use crate::placement::problem::Problem;
use crate::progress::Stop;

/// How far units are moved: the mean number of units in a part, divided by this.
const REACH: [f64; 8] = [0.25, 1.0, 2.0, 8.0, 16.0, 32.0, 1.0, 4.0];
/// The part of the units that are moved.
const SHARE: [f64; 4] = [1.0, 0.3, 0.1, 0.03];

/// Draws orders, the same ones every time.
pub(crate) struct Improver<'a> {
    problem: &'a Problem,
    bases: Vec<Vec<u32>>,
    random: u64,
    draws: usize,
    /// Steps so far.
    pub(crate) steps: usize,
}

impl<'a> Improver<'a> {
    pub(crate) fn new(problem: &'a Problem, bases: Vec<Vec<u32>>) -> Self {
        Self { problem, bases, random: 0x9e37_79b9_7f4a_7c15, draws: 0, steps: 0 }
    }

    /// Tries one more order; returns a split with a value below `ceiling` if there is one along it.
    pub(crate) fn draw(
        &mut self,
        best: Option<&Found>,
        ceiling: f64,
        tick: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Option<Found>, Stop> {
        self.draws += 1;
        self.steps += self.problem.len();
        let n = self.problem.len() as f64;
        let parts = best.map_or(1, |found| found.parts.len().max(1)) as f64;
        let reach = n / parts / REACH[self.draws % REACH.len()];
        let share = SHARE[self.draws / REACH.len() % SHARE.len()];
        let base: Vec<u32> = match best {
            Some(found) if !self.draws.is_multiple_of(REACH.len() * SHARE.len()) => {
                found.parts.iter().flat_map(|part| part.units.iter().copied()).collect()
            }
            _ => self.bases[self.draws % self.bases.len()].clone(),
        };
        let mut key = vec![0; self.problem.len()];
        for (position, &unit) in base.iter().enumerate() {
            let shake = if self.roll() < share { (self.roll() + self.roll() - 1.0) * reach } else { 0.0 };
            // Positions are in range, and shaken ones are not far below 0.
            key[unit as usize] = ((position as f64 + shake + 4.0 * n) * 1024.0) as u64;
        }
        let order = orders::by_key(self.problem, &key);
        linear::best(self.problem, &order, ceiling, &mut self.steps, tick)
    }

    /// A number between 0 and 1 (xorshift).
    fn roll(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}
