//! How a long computation talks to whoever started it.

use std::time::Instant;

/// What a solver knows at one moment. Both values are in the unit of the workload's times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// Value of the best plan found so far; infinite before there is one.
    pub best: f64,
    /// A proven lower bound on the value of every plan.
    pub bound: f64,
}

/// Why a computation ended before it was through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The caller asked (Ctrl-C).
    Interrupted,
    /// The caller's time limit passed.
    TimeLimit,
    /// The caller's memory limit was reached.
    MemoryLimit,
}

/// Receives the state of a computation and may end it.
///
/// Solvers call [`Progress::tick`] on the thread that called them, at least about ten times a second.
pub trait Progress {
    /// Takes the current status; an error ends the computation, which then returns its best answer so far.
    fn tick(&mut self, status: Status) -> Result<(), Stop>;
}

/// Never stops anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Progress for Unobserved {
    fn tick(&mut self, _: Status) -> Result<(), Stop> {
        Ok(())
    }
}

/// Ends a computation at a moment in time.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Instant);

impl Progress for Deadline {
    fn tick(&mut self, _: Status) -> Result<(), Stop> {
        if Instant::now() >= self.0 { Err(Stop::TimeLimit) } else { Ok(()) }
    }
}
