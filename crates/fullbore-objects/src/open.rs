//! An object that is read here and there, as a file is.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::object::Object;
use crate::reader::{Pace, Reader};

/// Reads an object at any place. Who reads one stretch after the other is read ahead for.
#[derive(Debug)]
pub struct OpenObject {
    object: Arc<Object>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the last read ended.
    at: u64,
    /// What reads on from there, once two reads have followed each other.
    ahead: Option<Reader>,
}

impl OpenObject {
    pub fn new(object: Arc<Object>) -> Self {
        Self { object, state: Mutex::new(State::default()) }
    }

    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Reads from a place on; nothing at the end.
    ///
    /// # Errors
    /// A [`Error`](crate::error::Error) within an [`io::Error`].
    pub fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        let left = self.object.size().saturating_sub(at);
        let wanted = (out.len() as u64).min(left) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let out = &mut out[..wanted];
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = at == state.at && at > 0;
        if !follows {
            state.ahead = None;
            let read = self.object.read(at..at + wanted as u64).map_err(io::Error::other)?;
            let count = read.len().min(wanted);
            out[..count].copy_from_slice(&read[..count]);
            state.at = at + count as u64;
            return Ok(count);
        }
        let ahead =
            state.ahead.get_or_insert_with(|| Reader::new(&self.object, at..u64::MAX, Pace::Ramp));
        let read = io::Read::read(ahead, out);
        match &read {
            Ok(count) => state.at += *count as u64,
            Err(_) => state.ahead = None,
        }
        read
    }
}
