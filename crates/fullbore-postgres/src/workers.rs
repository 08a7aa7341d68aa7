//! Work that several sessions do at once.

use std::sync::Mutex;

use fullbore_read::error::Result;

/// Runs `work` on so many threads, each with its number from 0 and with what says whether another one has
/// failed; the first error of any of them.
pub fn side_by_side(
    workers: usize,
    work: impl Fn(usize, &dyn Fn() -> bool) -> Result<()> + Sync,
) -> Result<()> {
    let failure = Mutex::new(None);
    let has_failed = || failure.lock().unwrap_or_else(|p| p.into_inner()).is_some();
    std::thread::scope(|scope| {
        for number in 0..workers {
            let (work, failure, has_failed) = (&work, &failure, &has_failed);
            scope.spawn(move || {
                if let Err(error) = work(number, has_failed) {
                    failure.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(error);
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(|p| p.into_inner()).map_or(Ok(()), Err)
}
