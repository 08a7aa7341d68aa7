//! CPU time of this process and of one thread.

use std::mem::MaybeUninit;

/// Seconds of CPU that this process has used, the kernel's work for it included.
pub fn process_seconds() -> f64 {
    used(libc::RUSAGE_SELF)
}

/// Seconds of CPU that the calling thread has used.
pub fn thread_seconds() -> f64 {
    used(libc::RUSAGE_THREAD)
}

fn used(who: libc::c_int) -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours and of the right type, and a zeroed one is valid, also where
    // the call fails (which it can't for these two).
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
