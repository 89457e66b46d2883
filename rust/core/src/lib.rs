//! Exact planning of neural networks over devices.
//!
//! The crate knows no Python and no file format. Data flows one way: a [`pipeline::Workload`] (numbers) goes into
//! a solver, a plan comes out, and [`pipeline::judge`] scores it without sharing code with the solver.

pub mod downsets;
pub mod effort;
pub mod graph;
pub mod pipeline;
pub mod placement;
pub mod progress;
