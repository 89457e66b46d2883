//! `piper._core`.

use pyo3::prelude::*;

#[pymodule]
mod _core {}
