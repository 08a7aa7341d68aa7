//! A pipe whose first bytes were read and will be returned again.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex};

use crate::cancellable::{CancellablePipe, Cancellation};

/// A pipe that was opened, and its first bytes.
#[derive(Debug, Clone)]
pub struct Peeked {
    pub first: Arc<Vec<u8>>,
    /// It ended within the first bytes.
    pub is_whole: bool,
    /// Taken by the one who reads it to its end.
    rest: Arc<Mutex<Option<CancellablePipe>>>,
}

impl Peeked {
    /// Of a pipe, without the bytes that were read of it.
    pub(crate) fn new(first: Vec<u8>, is_whole: bool, rest: CancellablePipe) -> Self {
        Self { first: Arc::new(first), is_whole, rest: Arc::new(Mutex::new(Some(rest))) }
    }

    /// The pipe from its first byte on; it can be had once.
    pub fn reader(&self, attention: &Cancellation) -> io::Result<impl Read + Send + use<>> {
        let rest = self.rest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let rest = rest.ok_or_else(|| io::Error::other("a pipe can be read only once"))?;
        Ok(Cursor::new(self.first.as_ref().clone()).chain(rest.by(attention)))
    }
}
