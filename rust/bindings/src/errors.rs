//! Everything that goes wrong here, as the exceptions of `piper.errors`.

use piper_core::pipeline::WorkloadError;
use piper_core::placement;
use piper_core::progress::Stop;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::convert::describe;

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument that is no workload, limit, plan or schedule.
    Conversion {
        /// The argument's name.
        argument: &'static str,
        /// What the extraction said.
        error: PyErr,
    },
    /// An option that is out of range.
    Option(String),
    /// Numbers that are no workload.
    Workload(WorkloadError),
    /// Numbers that are no placement workload.
    Placement(placement::WorkloadError),
    /// A search that had to end before it had a result. An interruption has its own exception.
    Stopped(Stop),
    /// No threads to be had.
    Threads(String),
    /// A bug of ours.
    Panic(String),
    /// What a callback or a signal handler raised.
    Raised(PyErr),
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Self::Workload(error)
    }
}

impl From<placement::WorkloadError> for Failure {
    fn from(error: placement::WorkloadError) -> Self {
        Self::Placement(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| match failure {
            Failure::Conversion { argument, error } => conversion(py, argument, error),
            Failure::Option(text) => raise(py, "InputError", text),
            Failure::Workload(error) => raise(py, "InputError", error.to_string()),
            Failure::Placement(error) => raise(py, "InputError", error.to_string()),
            Failure::Stopped(Stop::TimeLimit) => {
                raise(py, "LimitError", "the time limit ended the search before it was through".to_owned())
            }
            Failure::Stopped(Stop::MemoryLimit) => {
                raise(py, "LimitError", "the memory limit ended the search before it was through".to_owned())
            }
            Failure::Stopped(Stop::Interrupted) => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
            Failure::Threads(text) => raise(py, "PiperError", format!("no threads for the search: {text}")),
            Failure::Panic(text) => raise(py, "PiperError", format!("internal error, please report it: {text}")),
            Failure::Raised(error) => error,
        })
    }
}

/// What is wrong with an argument; interruptions and exhausted memory stay what they are.
fn conversion(py: Python<'_>, argument: &str, error: PyErr) -> PyErr {
    if error.is_instance_of::<pyo3::exceptions::PyException>(py)
        && !error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py)
    {
        raise(py, "InputError", describe(py, argument, error))
    } else {
        error
    }
}

/// An exception of the class `name` of `piper.errors`, which is imported when first needed: that module belongs to the
/// package that imports this one.
fn raise(py: Python<'_>, name: &str, text: String) -> PyErr {
    static CLASSES: [(&str, PyOnceLock<Py<PyType>>); 3] =
        [("PiperError", PyOnceLock::new()), ("InputError", PyOnceLock::new()), ("LimitError", PyOnceLock::new())];
    let class = CLASSES.iter().find(|class| class.0 == name).unwrap_or(&CLASSES[0]);
    match class.1.import(py, "piper.errors", class.0) {
        Ok(class) => PyErr::from_type(class.clone(), (text,)),
        Err(error) => error,
    }
}
