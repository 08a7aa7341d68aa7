//! One object, bound to the version that was found.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use crate::error::{Error, Kind, Result};
use crate::location::Location;
use crate::store::Store;

/// An object, as it was found.
#[derive(Debug)]
pub struct Object {
    pub(crate) bound: Arc<Bound>,
    pub(crate) store: Arc<Store>,
    /// Its first and its last bytes, where they were fetched to look at it.
    pub(crate) head: OnceLock<Bytes>,
    pub(crate) tail: OnceLock<Bytes>,
}

/// What requests need of an object. It does not hold the store: a request that was the last to do so would
/// end its own runtime.
#[derive(Debug)]
pub(crate) struct Bound {
    pub client: Arc<dyn ObjectStore>,
    location: Location,
    url: String,
    path: Path,
    found: ObjectMeta,
}

impl Object {
    pub(crate) fn new(store: Arc<Store>, found: ObjectMeta) -> Self {
        let bound = Bound {
            client: store.client.clone(),
            location: store.location.clone(),
            url: store.url(&found.location),
            path: found.location.clone(),
            found,
        };
        Self { bound: Arc::new(bound), store, head: OnceLock::new(), tail: OnceLock::new() }
    }

    /// Its URL, without secrets.
    pub fn url(&self) -> &str {
        &self.bound.url
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.bound.found.size
    }

    /// What tells its contents from others, where the store says it: an ETag. (It is no checksum.)
    pub fn etag(&self) -> Option<&str> {
        bare(&self.bound.found)
    }

    /// Whether another object in its place would be noticed.
    pub(crate) fn tells_changes(&self) -> bool {
        let found = &self.bound.found;
        found.e_tag.is_some() || found.version.is_some() || self.modified_ns() > 0
    }

    /// When it was written, in nanoseconds since 1970; 0 where that is not known.
    pub fn modified_ns(&self) -> i128 {
        self.bound.modified_ns()
    }

    /// Some of its bytes; fewer where it ends.
    ///
    /// # Errors
    /// Where it was replaced, or can't be read.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let range = range.start.min(self.size())..range.end.min(self.size());
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(known) = self.known(&range) {
            return Ok(known);
        }
        self.store.fetching.wait(self.bound.fetch(range))
    }

    /// What was fetched already of a range; `None` where some of it was not.
    fn known(&self, range: &Range<u64>) -> Option<Bytes> {
        let begun = self.head.get().map(|head| (0, head));
        let ended = self.tail.get().map(|tail| (self.size() - tail.len() as u64, tail));
        [begun, ended].into_iter().flatten().find_map(|(at, bytes)| {
            let is_within = at <= range.start && range.end <= at + bytes.len() as u64;
            is_within.then(|| bytes.slice((range.start - at) as usize..(range.end - at) as usize))
        })
    }
}

/// An ETag without its quotes, which some lists leave out.
fn bare(found: &ObjectMeta) -> Option<&str> {
    found.e_tag.as_deref().map(|etag| etag.trim_matches('"'))
}

impl Bound {
    fn modified_ns(&self) -> i128 {
        self.found.last_modified.timestamp_nanos_opt().unwrap_or_default().into()
    }

    /// Asks for a range, so that another object in its place is refused.
    pub async fn get(&self, range: Range<u64>) -> Result<GetResult> {
        // A weak ETag never matches where bytes are asked for.
        let strong = self.found.e_tag.clone().filter(|etag| !etag.starts_with("W/"));
        // Stores without ETags have times; those of 1970 are none.
        let is_timed = strong.is_none() && self.modified_ns() > 0;
        let options = GetOptions {
            if_unmodified_since: is_timed.then_some(self.found.last_modified),
            // To name a version takes another permission than to read the newest one.
            version: self.found.version.clone().filter(|_| strong.is_none()),
            if_match: strong,
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let found = self.client.get_opts(&self.path, options).await;
        let found = found.map_err(|error| self.failed(&error))?;
        self.check(&found)?;
        Ok(found)
    }

    /// All of a range.
    pub async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        self.get(range).await?.bytes().await.map_err(|error| self.failed(&error))
    }

    /// Refuses an answer about another object: some servers know no conditions.
    fn check(&self, found: &GetResult) -> Result<()> {
        let changed = |what: String| Err(Error::new(Kind::Changed, &self.url, what));
        let (then, now) = (&self.found, &found.meta);
        if now.size != then.size {
            return changed(format!("{} bytes when planned, {} now", then.size, now.size));
        }
        match (bare(then), bare(now)) {
            (Some(then), Some(now)) if then != now => {
                changed(format!("its ETag was {then}, now {now}"))
            }
            (None, None) if self.modified_ns() > 0 && then.last_modified != now.last_modified => {
                changed("its modification time differs".to_owned())
            }
            _ => Ok(()),
        }
    }

    pub fn failed(&self, error: &object_store::Error) -> Error {
        Error::of(&self.location, &self.url, error)
    }

    pub fn ended_early(&self, missing: u64) -> Error {
        let message = format!("can't be read: a body ended {missing} bytes early");
        Error::new(Kind::Failed, &self.url, message)
    }
}
