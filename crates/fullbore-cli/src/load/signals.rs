//! SIGINT and SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Ended;

/// Set by SIGINT and SIGTERM.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first signal asks the run to stop, after the pieces that are under way; a second one ends the
/// process at once, and the server takes them back.
pub fn listen_for_signals() {
    extern "C" fn stop(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            // SAFETY: _exit may be called from a signal handler.
            unsafe { libc::_exit(i32::from(Ended::Stopped.code())) };
        }
    }
    let handler = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic, or ends the process.
        unsafe { libc::signal(signal, handler) };
    }
}
