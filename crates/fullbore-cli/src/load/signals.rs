//! SIGINT and SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use fullbore::Ended;

/// Set by SIGINT and SIGTERM.
pub static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What a second signal says where nothing more is known.
const SECOND: &str = "fullbore: stopped at once by a second signal\n";

/// What it says of a load.
static AT_ONCE: OnceLock<String> = OnceLock::new();

/// Says what a second signal is to say: there is no time then.
pub fn say_at_once(words: &str) {
    let _ = AT_ONCE.set(format!("fullbore: stopped at once by a second signal: {words}\n"));
}

/// Sends the first signal on to a child, which is in a process group of its own and is waited for only once this has
/// returned. A second signal ends this process at once.
pub fn pass_signals_on(child: u32, has_ended: &AtomicBool) {
    while !has_ended.load(Ordering::Relaxed) {
        if INTERRUPTED.load(Ordering::Relaxed) {
            // SAFETY: it is our child, and has not been waited for.
            unsafe { libc::kill(child as libc::pid_t, libc::SIGINT) };
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The first signal asks the run to stop, after the pieces that are under way; a second one ends the
/// process at once, and the server rolls them back.
pub fn listen_for_signals() {
    // Made before a handler may look at it, which must not allocate.
    LazyLock::force(&INTERRUPTED);
    extern "C" fn stop(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            let words = AT_ONCE.get().map_or(SECOND, String::as_str);
            // SAFETY: write and _exit may be called from a signal handler, and the words stay.
            unsafe {
                libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
                libc::_exit(i32::from(Ended::Stopped.code()));
            }
        }
    }
    let handler = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic, or ends the process.
        unsafe { libc::signal(signal, handler) };
    }
}
