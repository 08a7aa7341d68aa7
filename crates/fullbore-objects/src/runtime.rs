//! The tokio runtime that makes requests.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

/// Threads that make requests: they move bytes and decrypt them; parsing is others' work.
const THREADS: usize = 2;

/// The runtime of all stores that are open; it ends with the last of them.
#[derive(Debug)]
pub(crate) struct Fetching {
    runtime: Option<Runtime>,
    handle: Handle,
    process: u32,
}

impl Fetching {
    /// The runtime, started if there is none.
    pub fn shared() -> std::io::Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Fetching>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade().filter(|running| running.is_of_this_process()) {
            return Ok(running);
        }
        // The library chooses none itself; somebody else may have chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("fetch")
            .enable_all()
            .build()?;
        let started = Arc::new(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            process: std::process::id(),
        });
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    /// Waits for a request in a thread that is none of the runtime's.
    pub fn wait<F: Future>(&self, request: F) -> F::Output {
        self.handle.block_on(request)
    }

    /// Whether its threads are there: a process that was forked off has none of them.
    pub fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        match self.is_of_this_process() {
            // Requests that nobody waits for are given up.
            true => runtime.shutdown_timeout(Duration::from_secs(1)),
            false => std::mem::forget(runtime),
        }
    }
}
