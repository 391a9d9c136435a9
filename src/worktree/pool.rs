//! A bounded amount of parallel work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads worth starting for `items` small things. File creation and hashing scale to two threads on any machine;
/// more of them mostly wait for each other in the kernel.
pub(super) fn threads_for(items: usize) -> usize {
    const WORTH_A_THREAD: usize = 300;
    if items < WORTH_A_THREAD {
        1
    } else {
        std::thread::available_parallelism().map_or(1, |n| n.get().min(2))
    }
}

/// Calls `work` once for every unit, on as many threads as there are `locals` (each thread owns one of them). Returns
/// the results in no order, or the first error; after an error no new unit is begun.
pub(super) fn each<U, L, R, E>(
    units: &[U],
    locals: Vec<L>,
    work: impl Fn(&mut L, &U) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E>
where
    U: Sync,
    L: Send,
    R: Send,
    E: Send,
{
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let outcome = Mutex::new(Ok(Vec::with_capacity(units.len())));
    let run = |mut local: L| {
        let mut done = Vec::new();
        let mut error = None;
        while !failed.load(Ordering::Relaxed) {
            let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            match work(&mut local, unit) {
                Ok(result) => done.push(result),
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    error = Some(failure);
                }
            }
        }
        let mut outcome = outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (error, outcome.as_mut()) {
            (Some(error), Ok(_)) => *outcome = Err(error),
            (None, Ok(all)) => all.append(&mut done),
            (_, Err(_)) => {}
        }
    };
    let mut locals = locals.into_iter();
    let first = locals.next();
    std::thread::scope(|scope| {
        for local in locals {
            scope.spawn(|| run(local));
        }
        first.map(run);
    });
    outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn every_unit_is_done_once_and_errors_win() {
        let units: Vec<u32> = (0..1000).collect();
        let mut all = each(&units, vec![(), ()], |(), unit| Ok::<_, ()>(*unit)).unwrap();
        all.sort_unstable();
        assert_eq!(all, units);
        let error = each(&units, vec![(), ()], |(), unit| if *unit == 500 { Err(*unit) } else { Ok(()) });
        assert_eq!(error, Err(500));
    }
}
