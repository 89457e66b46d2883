//! The one door to long computations.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use piper_core::progress::{Progress, Status, Stop};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::Failure;

/// How often the calling thread looks for signals.
const POLL: Duration = Duration::from_millis(50);
/// How often it calls the progress callback.
const REPORT: Duration = Duration::from_millis(100);
/// Most threads that a call may ask for.
const MOST_THREADS: u64 = 1024;

/// What the caller allows and wants to know.
#[derive(Default)]
pub(crate) struct Terms {
    /// Threads to use; `None`: all cores.
    pub(crate) threads: Option<u64>,
    /// Seconds.
    pub(crate) time_limit: Option<f64>,
    /// Called with best value and bound.
    pub(crate) progress: Option<Py<PyAny>>,
}

/// What a computation ended with.
pub(crate) struct Ended<T> {
    pub(crate) value: T,
    /// Whether Ctrl-C was pressed meanwhile.
    pub(crate) interrupted: bool,
}

impl<T> Ended<T> {
    /// The value, unless Ctrl-C was pressed.
    pub(crate) fn uninterrupted(self) -> Result<T, Failure> {
        if self.interrupted { Err(Failure::Stopped(Stop::Interrupted)) } else { Ok(self.value) }
    }
}

/// Runs `job` on its own threads with the GIL released.
///
/// Signals reach only the thread that Python runs on, so that one stays here: it polls for Ctrl-C and calls the progress
/// callback, and tells the job through [`Progress::tick`] when to end. Ctrl-C is no error: the job returns the best it
/// has. Any other exception is raised once the job has ended.
///
/// # Errors
/// [`Failure`] for bad terms, a panic in the job, or an exception in a callback or signal handler.
pub(crate) fn enter<T: Send>(
    py: Python<'_>,
    terms: &Terms,
    job: impl FnOnce(&mut dyn Progress) -> T + Send,
) -> Result<Ended<T>, Failure> {
    let pool = pool(terms.threads)?;
    let link = Link::new(deadline(terms.time_limit)?);
    let (result, raised) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| job(&mut Reporter(&link)))));
            link.finish();
            result
        });
        let raised = watch(py, &link, terms.progress.as_ref());
        (py.detach(|| worker.join()), raised)
    });
    let value = result.and_then(|result| result).map_err(|payload| Failure::Panic(panic_text(payload.as_ref())))?;
    match raised {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(Failure::Raised(error)),
        interrupt => Ok(Ended { value, interrupted: interrupt.is_some() }),
    }
}

fn pool(threads: Option<u64>) -> Result<ThreadPool, Failure> {
    let threads = match threads {
        None => thread::available_parallelism().map_or(1, usize::from),
        Some(threads @ 1..=MOST_THREADS) => threads as usize,
        Some(threads) => {
            return Err(Failure::Option(format!("threads is {threads}; expected 1 to {MOST_THREADS}")));
        }
    };
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| Failure::Threads(error.to_string()))
}

/// A relative gap at which a search may stop.
pub(crate) fn checked_gap(gap: f64) -> Result<f64, Failure> {
    if gap >= 0.0 {
        Ok(gap)
    } else {
        Err(Failure::Option(format!("gap is {gap}; expected a number that is not negative")))
    }
}

/// The moment at which the time is up; a limit beyond what a clock can say is none.
fn deadline(seconds: Option<f64>) -> Result<Option<Instant>, Failure> {
    match seconds {
        Some(seconds) if seconds.is_nan() || seconds < 0.0 => Err(Failure::Option(format!(
            "time_limit is {seconds}; expected a number of seconds that is not negative"
        ))),
        Some(seconds) => {
            Ok(Duration::try_from_secs_f64(seconds).ok().and_then(|span| Instant::now().checked_add(span)))
        }
        None => Ok(None),
    }
}

/// Waits for the job to finish, with the GIL only held to look for signals and to report. Returns the first exception;
/// later ones come from an impatient user and say nothing new.
fn watch(py: Python<'_>, link: &Link, progress: Option<&Py<PyAny>>) -> Option<PyErr> {
    let mut raised = None;
    let mut reported = Instant::now();
    while !py.detach(|| link.wait(POLL)) {
        let mut looked = py.check_signals();
        if let (Some(callback), None, Ok(())) = (progress, &raised, &looked)
            && reported.elapsed() >= REPORT
            && let Some(status) = link.take_status()
        {
            reported = Instant::now();
            looked = callback.call1(py, (status.best, status.bound)).map(drop);
        }
        if let Err(error) = looked {
            link.interrupt();
            raised.get_or_insert(error);
        }
    }
    raised
}

/// What the calling thread and the job tell each other.
struct Link {
    deadline: Option<Instant>,
    interrupted: AtomicBool,
    news: Mutex<News>,
    finished: Condvar,
}

#[derive(Default)]
struct News {
    /// The latest status that was not yet taken.
    status: Option<Status>,
    finished: bool,
}

impl Link {
    fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, interrupted: AtomicBool::new(false), news: Mutex::default(), finished: Condvar::new() }
    }

    /// A panic elsewhere cannot leave a half-written [`News`], so a poisoned lock is as good as any.
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the job is finished, but not longer than `span`; says whether it is.
    fn wait(&self, span: Duration) -> bool {
        let waited = self.finished.wait_timeout_while(self.news(), span, |news| !news.finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.finished
    }

    fn finish(&self) {
        self.news().finished = true;
        self.finished.notify_all();
    }

    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    fn take_status(&self) -> Option<Status> {
        self.news().status.take()
    }
}

/// The job's end of the link.
struct Reporter<'a>(&'a Link);

impl Progress for Reporter<'_> {
    fn tick(&mut self, status: Status) -> Result<(), Stop> {
        self.0.news().status = Some(status);
        if self.0.interrupted.load(Ordering::Relaxed) {
            Err(Stop::Interrupted)
        } else if self.0.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Err(Stop::TimeLimit)
        } else {
            Ok(())
        }
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a thread panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: Status = Status { best: 3.0, bound: 2.0 };

    /// Ticks until it is told to stop.
    fn endless(progress: &mut dyn Progress) -> Stop {
        loop {
            if let Err(stop) = progress.tick(STATUS) {
                return stop;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn attached<T>(test: impl FnOnce(Python<'_>) -> T) -> T {
        Python::initialize();
        Python::attach(test)
    }

    /// A callback, and the list that it leaves its arguments in.
    fn callback<'py>(py: Python<'py>, body: &std::ffi::CStr) -> (Py<PyAny>, Bound<'py, PyAny>) {
        let scope = pyo3::types::PyDict::new(py);
        py.run(body, Some(&scope), Some(&scope)).unwrap();
        (scope.get_item("f").unwrap().unwrap().unbind(), scope.get_item("seen").unwrap().unwrap())
    }

    #[test]
    fn the_job_runs_in_a_pool_of_the_size_asked_for() {
        attached(|py| {
            let terms = Terms { threads: Some(3), ..Terms::default() };
            let ended = enter(py, &terms, |_| rayon::current_num_threads()).unwrap();
            assert_eq!((ended.value, ended.interrupted), (3, false));
            for threads in [0, MOST_THREADS + 1] {
                let terms = Terms { threads: Some(threads), ..Terms::default() };
                assert!(matches!(enter(py, &terms, |_| ()), Err(Failure::Option(_))));
            }
        });
    }

    #[test]
    fn the_time_limit_ends_the_job() {
        attached(|py| {
            for seconds in [0.0, 0.02] {
                let terms = Terms { time_limit: Some(seconds), ..Terms::default() };
                assert_eq!(enter(py, &terms, endless).unwrap().value, Stop::TimeLimit);
            }
            for seconds in [f64::INFINITY, 1e300] {
                let terms = Terms { time_limit: Some(seconds), ..Terms::default() };
                assert_eq!(enter(py, &terms, |progress| progress.tick(STATUS)).unwrap().value, Ok(()));
            }
            for seconds in [-1.0, f64::NAN] {
                let terms = Terms { time_limit: Some(seconds), ..Terms::default() };
                assert!(matches!(enter(py, &terms, endless), Err(Failure::Option(_))));
            }
        });
    }

    #[test]
    fn a_panic_is_an_error() {
        attached(|py| {
            let result = enter::<()>(py, &Terms::default(), |_| panic!("seven {}", 7));
            assert!(matches!(result, Err(Failure::Panic(text)) if text == "seven 7"));
        });
    }

    #[test]
    fn the_callback_hears_of_the_latest_status() {
        attached(|py| {
            let (f, seen) = callback(py, c"seen = []\ndef f(*status): seen.append(status)");
            let terms = Terms { time_limit: Some(0.35), progress: Some(f), ..Terms::default() };
            enter(py, &terms, endless).unwrap();
            let seen: Vec<(f64, f64)> = seen.extract().unwrap();
            assert!((1..=3).contains(&seen.len()), "{seen:?}");
            assert!(seen.iter().all(|&status| status == (3.0, 2.0)));
        });
    }

    #[test]
    fn an_exception_of_the_callback_ends_the_job_and_is_raised() {
        attached(|py| {
            let (f, seen) =
                callback(py, c"seen = []\ndef f(*status):\n  seen.append(status)\n  raise OSError('full')");
            let terms = Terms { progress: Some(f), ..Terms::default() };
            let Err(Failure::Raised(error)) = enter(py, &terms, endless) else { panic!("no exception") };
            assert!(error.is_instance_of::<pyo3::exceptions::PyOSError>(py));
            assert_eq!(seen.len().unwrap(), 1);
        });
    }

    #[test]
    fn ctrl_c_inside_the_callback_is_an_interruption() {
        attached(|py| {
            let (f, _) = callback(py, c"seen = []\ndef f(*status): raise KeyboardInterrupt");
            let ended = enter(py, &Terms { progress: Some(f), ..Terms::default() }, endless).unwrap();
            assert_eq!((ended.value, ended.interrupted), (Stop::Interrupted, true));
            assert!(matches!(ended.uninterrupted(), Err(Failure::Stopped(Stop::Interrupted))));
        });
    }
}
