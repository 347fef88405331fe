//! Numbered jobs on a few threads.
//!
//! Jobs are claimed in order, so when one fails all earlier ones have been claimed; they are finished and the fault of
//! the earliest job is the one reported, whatever the number of threads. With one thread nothing is spawned.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::Result;

/// How many threads to use for `jobs` jobs: `asked`, or one a core where it is 0, and never more than jobs.
pub(crate) fn threads_for(asked: usize, jobs: usize) -> usize {
    let all = || thread::available_parallelism().map_or(1, |count| count.get());
    (if asked == 0 { all() } else { asked }).min(jobs).max(1)
}

/// Does the jobs `0..jobs` with one state a thread, and gives the states back.
pub(crate) fn run<W: Send>(
    workers: Vec<W>,
    jobs: usize,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let next = AtomicUsize::new(0);
    let claim = |mut worker: W| {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(worker);
            }
            if let Err(error) = work(&mut worker, job) {
                // Nobody starts another job; those that are claimed are finished.
                next.fetch_max(jobs, Ordering::Relaxed);
                return Err((job, error));
            }
        }
    };
    // A worker waits in its slot, so that one whose thread the system refuses is still there: it does its share here.
    let slots: Vec<_> = workers.into_iter().map(|worker| Mutex::new(Some(worker))).collect();
    let take = |slot: &Mutex<Option<W>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let (claim, take) = (&claim, &take);
        let spawned: Vec<_> = slots[slots.len().min(1)..]
            .iter()
            .filter_map(|slot| thread::Builder::new().spawn_scoped(scope, move || take(slot).map(claim)).ok())
            .collect();
        let mut outcomes: Vec<_> = slots.first().and_then(take).map(claim).into_iter().collect();
        for handle in spawned {
            match handle.join() {
                Ok(outcome) => outcomes.extend(outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcomes.extend(slots.iter().filter_map(take).map(claim));
        outcomes
    });
    let mut done = Vec::with_capacity(outcomes.len());
    let mut earliest: Option<(usize, crate::Error)> = None;
    for outcome in outcomes {
        match outcome {
            Ok(worker) => done.push(worker),
            Err((job, error)) if earliest.as_ref().is_none_or(|(first, _)| job < *first) => {
                earliest = Some((job, error));
            }
            Err(_) => {}
        }
    }
    match earliest {
        Some((_, error)) => Err(error),
        None => Ok(done),
    }
}

/// Does `work` on each item and gives the results in the order of the items.
pub(crate) fn each<I: Send, T: Send>(
    threads: usize,
    items: Vec<I>,
    work: impl Fn(I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let jobs = items.len();
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let workers = (0..threads_for(threads, jobs)).map(|_| ()).collect();
    map(workers, jobs, |(), job| {
        let item = items[job].lock().unwrap_or_else(PoisonError::into_inner).take();
        work(item.expect("a job is done once"))
    })
}

/// Does the jobs `0..jobs`, with one state a thread, and gives the results in the order of the jobs.
pub(crate) fn map<W: Send, T: Send>(
    workers: Vec<W>,
    jobs: usize,
    work: impl Fn(&mut W, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let workers = workers.into_iter().map(|worker| (worker, Vec::new())).collect();
    let done = run(workers, jobs, |(worker, results): &mut (W, Vec<(usize, T)>), job| {
        results.push((job, work(worker, job)?));
        Ok(())
    })?;
    let mut results: Vec<_> = done.into_iter().flat_map(|(_, results)| results).collect();
    results.sort_unstable_by_key(|(job, _)| *job);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn results_come_in_the_order_of_jobs() {
        for threads in [1, 2, 7] {
            let squares = each(threads, (0..1000).collect(), |job: usize| Ok(job * job)).unwrap();
            assert!(squares.iter().enumerate().all(|(job, square)| *square == job * job));
        }
        assert!(each(3, Vec::new(), |()| Ok(())).unwrap().is_empty());
    }

    #[test]
    fn the_earliest_fault_is_reported() {
        for threads in [1, 2, 7] {
            let error = each(threads, (0..1000).collect(), |job: usize| match job % 10 {
                7 => Err(Error::new(ErrorKind::Row, job.to_string())),
                _ => Ok(()),
            });
            assert_eq!(error.unwrap_err().what(), "7");
        }
    }
}
