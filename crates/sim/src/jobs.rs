//! Many runs on all processors.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{RunError, RunErrorKind};

/// Most threads that are started.
const THREADS_MAX: usize = 1024;

/// How many threads run them, as asked for.
///
/// # Errors
/// When none are.
pub(crate) fn threads(asked: Option<usize>) -> Result<usize, RunError> {
    match asked {
        Some(0) => {
            let message = "`0` threads: must be at least 1";
            Err(RunError::new(RunErrorKind::Usage, message))
        }
        Some(threads) => Ok(threads.min(THREADS_MAX)),
        None => Ok(thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Does each job once, in this order, on so many threads; what came of them by number of the job,
/// none of one that was not begun. The first mistake ends it.
pub(crate) fn run<T: Send>(
    order: &[usize],
    (threads, quiet): (usize, bool),
    job: impl Fn(usize) -> Result<T, RunError> + Sync,
) -> Result<Vec<Option<T>>, RunError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T, RunError>>>> =
        order.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = order.get(turn) else {
                break;
            };
            let result = job(number);
            if result.is_err() {
                next.store(order.len(), Ordering::Relaxed);
            }
            if !quiet {
                progress(turn + 1, order.len());
            }
            // A thread that panicked has ended the run in any case.
            *results[number]
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(order.len()) {
            scope.spawn(work);
        }
    });
    let results = results.into_iter();
    let results = results.map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(Option::transpose).collect()
}

/// A line for every twentieth part, on standard error.
fn progress(ended: usize, all: usize) {
    let part = |ended: usize| ended * 20 / all.max(1);
    if part(ended) != part(ended - 1) {
        // Nobody reads; that is no reason to stop.
        drop(writeln!(io::stderr(), "{ended} of {all} runs"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_jobs_is_by_their_number_and_the_first_mistake_ends_it() {
        let order: Vec<usize> = (0..40).rev().collect();
        let twice = |number| Ok(number * 2);
        let done = run(&order, (3, true), twice).unwrap();
        assert_eq!(
            done,
            (0..40).map(|number| Some(number * 2)).collect::<Vec<_>>()
        );
        let wrong = |number| match number {
            30 => Err(RunError::new(RunErrorKind::Internal, "30")),
            _ => Ok(number),
        };
        assert_eq!(run(&order, (1, true), wrong).unwrap_err().message, "30");
        assert_eq!(threads(Some(0)).unwrap_err().kind, RunErrorKind::Usage);
        assert_eq!(threads(Some(9999)), Ok(THREADS_MAX));
    }
}
