//! Streams a range of an object: requests are made ahead, their bytes handed out in order.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::error::{Kind, Result};
use crate::object::{Bound, Object};

/// Bytes of a request where much is read. Stores give one request 50 to 100 MB/s, and take 10 to 30 ms to
/// begin (AWS, Performance Guidelines for Amazon S3).
const REQUEST_BYTES: u64 = 4 << 20;

/// Requests in flight of all that are read at full pace; each has one at least. So their memory has a
/// limit: 64 MiB, or 4 MiB each where there are more of them.
const REQUESTS: usize = 16;

/// Bytes of the first request where it is not known how much is read. The next ones are larger.
const RAMP_BYTES: u64 = 256 << 10;

/// A request is repeated until nothing came for so long.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(200);

/// Readers at full pace.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// How a range is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All of it will be read: as many requests at a time as there may be.
    Full,
    /// Perhaps little of it will be read: one request at a time, each larger than the one before.
    Ramp,
    /// Two requests of so many bytes at a time, where many such ranges are read side by side.
    Steady(u64),
}

/// Reads a range of an object from its beginning.
#[derive(Debug)]
pub struct Reader {
    object: Arc<Object>,
    pace: Pace,
    request_bytes: u64,
    /// What is asked for next, up to the range's end.
    rest: Range<u64>,
    queue: VecDeque<Request>,
    current: Bytes,
}

/// A request on its way.
#[derive(Debug)]
struct Request {
    bytes: UnboundedReceiver<Result<Bytes>>,
    task: AbortHandle,
}

impl Reader {
    /// Begins to read a range; what lies beyond the object's end is left out.
    pub fn new(object: &Arc<Object>, range: Range<u64>, pace: Pace) -> Self {
        if pace == Pace::Full {
            READERS.fetch_add(1, Ordering::Relaxed);
        }
        let end = range.end.min(object.size());
        let start = range.start.min(end);
        // What was fetched to look at it is not asked for again.
        let head = object.head.get().filter(|head| start < head.len() as u64);
        let current = head.map_or_else(Bytes::new, |head| {
            head.slice(start as usize..end.min(head.len() as u64) as usize)
        });
        Self {
            object: object.clone(),
            pace,
            request_bytes: match pace {
                Pace::Full => REQUEST_BYTES,
                Pace::Ramp => RAMP_BYTES,
                Pace::Steady(bytes) => bytes.clamp(1, REQUEST_BYTES),
            },
            rest: start + current.len() as u64..end,
            queue: VecDeque::new(),
            current,
        }
    }

    /// Makes the first requests, before somebody reads.
    pub fn begin(&mut self) {
        self.ask();
    }

    fn depth(&self) -> usize {
        match self.pace {
            Pace::Full => (REQUESTS / READERS.load(Ordering::Relaxed).max(1)).max(1),
            Pace::Ramp => 1,
            Pace::Steady(_) => 2,
        }
    }

    /// Makes requests up to the depth.
    fn ask(&mut self) {
        while !self.rest.is_empty() && self.queue.len() < self.depth() {
            let end = self.rest.end.min(self.rest.start + self.request_bytes);
            let range = self.rest.start..end;
            self.rest.start = end;
            let (sender, bytes) = unbounded_channel();
            let handle = self.object.store.fetching.handle();
            let task = handle.spawn(fetch(self.object.bound.clone(), range, sender)).abort_handle();
            self.queue.push_back(Request { bytes, task });
            if self.pace == Pace::Ramp {
                self.request_bytes = (2 * self.request_bytes).min(REQUEST_BYTES);
            }
        }
    }

    /// The next bytes, as many as came at once; none at the end.
    fn next(&mut self) -> Result<Bytes> {
        loop {
            self.ask();
            let Some(request) = self.queue.front_mut() else { return Ok(Bytes::new()) };
            match request.bytes.blocking_recv() {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(received) => return received,
                None => {
                    self.queue.pop_front();
                }
            }
        }
    }
}

impl Read for Reader {
    /// # Errors
    /// A [`Error`](crate::error::Error) within an [`io::Error`].
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            self.current = self.next().map_err(io::Error::other)?;
        }
        let count = out.len().min(self.current.len());
        out[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.pace == Pace::Full {
            READERS.fetch_sub(1, Ordering::Relaxed);
        }
        for request in &self.queue {
            request.task.abort();
        }
    }
}

/// Fetches a range and sends it as it comes. The library repeats a request that fails, and a body that
/// breaks off where there is an ETag; what it gives up is asked for again here, from where it broke off.
async fn fetch(bound: Arc<Bound>, mut range: Range<u64>, sender: UnboundedSender<Result<Bytes>>) {
    let mut last = Instant::now();
    loop {
        let before = range.start;
        let Err(error) = attempt(&bound, &mut range, &sender).await else { return };
        if range.start > before {
            last = Instant::now();
        }
        if error.kind != Kind::Failed || last.elapsed() > PATIENCE {
            let _ = sender.send(Err(error));
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One try; the range becomes what is left.
async fn attempt(
    bound: &Bound,
    range: &mut Range<u64>,
    sender: &UnboundedSender<Result<Bytes>>,
) -> Result<()> {
    let mut body = bound.get(range.clone()).await?.into_stream();
    while let Some(bytes) = body.next().await {
        let mut bytes = bytes.map_err(|error| bound.failed(&error))?;
        // A server may send more than was asked for.
        bytes.truncate((range.end - range.start) as usize);
        range.start += bytes.len() as u64;
        if sender.send(Ok(bytes)).is_err() || range.is_empty() {
            return Ok(());
        }
    }
    Err(bound.ended_early(range.end - range.start))
}
