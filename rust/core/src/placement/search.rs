//! The search for contiguous splits with the smallest largest load.

pub use crate::effort::Settings;
use crate::placement::chain::{self, Chain};
use crate::placement::greedy;
use crate::placement::improve::Improver;
use crate::placement::linear::{self, Found};
use crate::placement::orders;
use crate::placement::problem::{Problem, SAFETY, SLACK};
use crate::placement::walk::{Progression, Walk};
use crate::placement::{Rules, Split, Workload};
use crate::progress::{Progress, Status, Stop};

/// What a search ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The best split; `None` when there is none, or none was found in time.
    pub split: Option<Split>,
    /// Value of the split, in the unit of the workload's times; infinite when there is none.
    pub value: f64,
    /// No contiguous split is better than this. Infinite when there is provably none.
    pub lower_bound: f64,
    /// Why the search ended early; `None` when it went through or reached the gap.
    pub stopped: Option<Stop>,
    /// Number of downsets that partial splits were looked at for.
    pub downsets: usize,
    /// Whether all contiguous splits are covered by the bound that was proven, so that the value is the optimum (to
    /// the gap).
    pub complete: bool,
}

/// Factors of the lower bound at which a first split is looked for.
const CLIMB: [f64; 6] = [1.02, 1.08, 1.2, 1.5, 2.5, f64::INFINITY];
/// The same for a split that is filled greedily.
const GREEDY: [f64; 8] = [1.05, 1.1, 1.2, 1.4, 2.0, 4.0, 16.0, f64::INFINITY];
/// Most steps over other orders before the walk, in all and for each unit.
const FIRST_DRAWS: usize = 1 << 16;
const FIRST_DRAWS_EACH: usize = 1 << 7;
/// Steps of the walk before the next look at other orders; doubled each time.
const STEPS: usize = 1 << 22;
/// How often they are doubled at most.
const LONGEST: u32 = 4;
/// Thresholds tried for the lower bound along a chain.
const BISECTIONS: usize = 24;

/// Finds a contiguous split with the smallest value.
///
/// The linearised program gives a first split; bounds along chains of units and the walk over the lattice of forward
/// downsets prove that nothing is better, or find what is. Between stretches of the walk other linear orders are tried,
/// so that large lattices get a good split early; where the walk fills the memory, the lower bound is that of the
/// chains. Same input, same output: one thread, and steps are counted, not timed.
///
/// Time `O(P (L K R + d))` for `P` pairs of nested downsets that the bounds leave, `L` undominated labels (devices used,
/// largest load) a downset, `K` kinds of devices with up to `R` replicas, and units with `d` outputs to move. Space `O(D
/// (n / 64 + L))` for `D` downsets that a label reaches, and `O(N^2)` for chains of `N <= 512` places.
///
/// After Tarnawski et al., `NeurIPS` 2020, section 5.1 (dynamic program over downsets, DPL) and its extensions.
pub fn solve(workload: &Workload, rules: &Rules, settings: &Settings, progress: &mut dyn Progress) -> Outcome {
    let problem = Problem::new(workload, rules);
    let mut search = Search::new(&problem, settings);
    let stopped = search.exact(progress).err();
    search.outcome(stopped)
}

/// Finds the best split along each of several linear orders (DPL), with a lower bound on all contiguous splits.
///
/// Time `O(n^2)` intervals an order at most, `O(N^2)` a threshold for the bound along chains of `N <= 512` places.
/// Tarnawski et al., `NeurIPS` 2020, section 5.1.2.
pub fn solve_linear(workload: &Workload, rules: &Rules, settings: &Settings, progress: &mut dyn Progress) -> Outcome {
    let problem = Problem::new(workload, rules);
    let mut search = Search::new(&problem, settings);
    let stopped = search.linear_only(progress).err();
    search.outcome(stopped)
}

struct Search<'a> {
    problem: &'a Problem,
    gap: f64,
    memory: u64,
    best: Option<Found>,
    low: f64,
    downsets: usize,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, settings: &Settings) -> Self {
        Self {
            problem,
            gap: settings.gap.max(0.0),
            memory: settings.memory(),
            best: None,
            low: problem.prices.bound(&problem.total, &problem.kinds),
            downsets: 0,
        }
    }

    fn high(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.value)
    }

    fn closed(&self) -> bool {
        self.high() <= self.low * (1.0 + self.gap + 4.0 * SLACK)
    }

    /// Splits with values from here on are of no use.
    fn ceiling(&self) -> f64 {
        match &self.best {
            Some(best) => best.value / (1.0 + self.gap.max(SLACK)),
            // A gap rules nothing out before there is a split.
            None => self.problem.ceiling(),
        }
    }

    fn status(&self) -> Status {
        Status { best: self.high(), bound: self.low }
    }

    fn keep(&mut self, found: Option<Found>) {
        if let Some(found) = found.filter(|found| found.value < self.high()) {
            self.best = Some(found);
        }
    }

    /// A quick split along an order, to have one.
    fn greedy(&mut self, order: &[u32], progress: &mut dyn Progress) -> Result<(), Stop> {
        for factor in GREEDY {
            let ceiling = (self.low * factor).min(self.ceiling());
            let status = self.status();
            let found = greedy::fill(self.problem, order, ceiling, &mut || progress.tick(status))?;
            let done = found.is_some() || ceiling >= self.ceiling();
            self.keep(found);
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Splits along linear orders.
    fn linear(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        if self.low.is_infinite() {
            return Ok(());
        }
        let orders = orders::structured(self.problem);
        for order in &orders {
            self.greedy(order, progress)?;
        }
        for order in &orders {
            for factor in CLIMB {
                if self.closed() {
                    return Ok(());
                }
                let ceiling = (self.low * factor).min(self.ceiling());
                let status = self.status();
                let found = linear::best(self.problem, order, ceiling, &mut 0, &mut || progress.tick(status))?;
                let first = found.is_some();
                self.keep(found);
                if first || ceiling >= self.ceiling() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A first split, then the walk, with looks at other orders in between.
    fn exact(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        self.linear(progress)?;
        if self.closed() {
            return Ok(());
        }
        let chains = Chain::all(self.problem);
        if self.proven(&chains) {
            return Ok(());
        }
        let mut improver = Improver::new(self.problem, orders::structured(self.problem));
        self.improve(&mut improver, FIRST_DRAWS.min(FIRST_DRAWS_EACH * self.problem.len()), progress)?;
        let mut walk = Walk::new(self.problem, &chains, self.ceiling(), self.memory as usize);
        for round in 0_u32.. {
            walk.lower(self.ceiling());
            let steps = STEPS << round.min(LONGEST);
            let status = self.status();
            let progression = walk.advance(steps, &mut || progress.tick(status));
            self.keep(walk.best.take());
            self.downsets = walk.table.len();
            let progression = progression?;
            if progression == Progression::Through {
                if walk.exact() {
                    self.low = if self.best.is_some() { walk.ceiling.min(self.high()) } else { f64::INFINITY };
                }
                return Ok(());
            }
            if round == 0 {
                self.bound(&chains, progress)?;
            }
            self.improve(&mut improver, if round == 0 { steps / 4 } else { steps }, progress)?;
            if self.closed() {
                return Ok(());
            }
            if progression == Progression::Full {
                return Err(Stop::MemoryLimit);
            }
        }
        Ok(())
    }

    /// Splits along linear orders, with a bound on all splits.
    fn linear_only(&mut self, progress: &mut dyn Progress) -> Result<(), Stop> {
        self.linear(progress)?;
        if self.closed() { Ok(()) } else { self.bound(&Chain::all(self.problem), progress) }
    }

    /// Raises the lower bound to what the chains show.
    fn bound(&mut self, chains: &[Chain<'_>], progress: &mut dyn Progress) -> Result<(), Stop> {
        let (low, high, status) = (self.low, self.high(), self.status());
        self.low = chain::lower_bound(chains, low, high, BISECTIONS, &mut || progress.tick(status))?;
        Ok(())
    }

    /// Whether the chains show that nothing is better than what there is.
    fn proven(&mut self, chains: &[Chain<'_>]) -> bool {
        let ceiling = self.ceiling();
        let proven = self.best.is_some() && chains.iter().any(|chain| !chain.possible(ceiling));
        if proven {
            self.low = self.low.max(ceiling);
        }
        proven
    }

    /// Tries other orders for about so many steps.
    fn improve(
        &mut self,
        improver: &mut Improver<'_>,
        steps: usize,
        progress: &mut dyn Progress,
    ) -> Result<(), Stop> {
        let until = improver.steps + steps;
        while improver.steps < until && !self.closed() {
            let status = self.status();
            let found = improver.draw(self.best.as_ref(), self.ceiling(), &mut || progress.tick(status))?;
            self.keep(found);
        }
        Ok(())
    }

    fn outcome(self, stopped: Option<Stop>) -> Outcome {
        let complete = self.closed() || self.low.is_infinite();
        let (split, value) = match &self.best {
            Some(found) => {
                let (split, value) = self.problem.build(&found.parts);
                (Some(split), value)
            }
            None => (None, f64::INFINITY),
        };
        let proven = complete && self.gap == 0.0;
        let lower_bound = if proven { value } else { (self.low * (1.0 - SAFETY)).min(value) };
        Outcome { split, value, lower_bound, stopped, downsets: self.downsets, complete }
    }
}
