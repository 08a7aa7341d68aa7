//! Writes an object whose bytes come bit by bit; it is there once it is completed, and not before.

use std::io::{self, Write};
use std::sync::Arc;

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload, UploadPart};
use tokio::task::JoinSet;

use crate::error::{Error, Kind, Result};
use crate::location::Scheme;
use crate::store::Store;

/// Bytes of a part: stores take 10,000 of them, so an object may have 80 GiB.
const PART_BYTES: usize = 8 << 20;
/// Parts on their way; with the one that is being filled they are what an upload holds.
const PARTS: usize = 2;

/// An object on its way.
#[derive(Debug)]
pub struct Upload {
    store: Arc<Store>,
    url: String,
    upload: Box<dyn MultipartUpload>,
    part: Vec<u8>,
    sent: JoinSet<object_store::Result<()>>,
    bytes: u64,
}

impl Upload {
    /// Begins to write an object under a key; one that is there stays until this one is completed.
    ///
    /// # Errors
    /// Where the store takes no objects, or refuses this one.
    pub fn begin(store: &Arc<Store>, key: &str) -> Result<Self> {
        let url = store.location.url_of(key);
        if store.location.scheme == Scheme::Http {
            return Err(Error::new(
                Kind::Usage,
                url,
                "can't be written: web servers take no files",
            )
            .hinted("write to s3://, gs:// or az://"));
        }
        let path: Path = store.path(key)?;
        let upload = store.fetching.wait(store.client.put_multipart(&path));
        let upload =
            upload.map_err(|error| Error::doing("written", &store.location, &url, &error))?;
        let (part, sent) = (Vec::new(), JoinSet::new());
        Ok(Self { store: store.clone(), url, upload, part, sent, bytes: 0 })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn failed(&self, error: &object_store::Error) -> Error {
        Error::doing("written", &self.store.location, &self.url, error)
    }

    /// Sends the part that was filled; waits while as many as may be are on their way.
    fn send(&mut self) -> Result<()> {
        let part = std::mem::take(&mut self.part);
        let sending: UploadPart = self.upload.put_part(PutPayload::from(part));
        self.sent.spawn_on(sending, self.store.fetching.handle());
        self.settle(PARTS)
    }

    /// Waits until no more than so many parts are on their way.
    fn settle(&mut self, most: usize) -> Result<()> {
        while self.sent.len() > most {
            let joined = self.store.fetching.wait(self.sent.join_next());
            match joined {
                Some(Ok(Err(error))) => return Err(self.failed(&error)),
                Some(Err(error)) => {
                    let message = format!("can't be written: {error}");
                    return Err(Error::new(Kind::Failed, &self.url, message));
                }
                Some(Ok(Ok(()))) | None => {}
            }
        }
        Ok(())
    }

    /// Waits until all that was written is in the store, which still shows nothing of it.
    ///
    /// # Errors
    /// Where a part was not taken.
    pub fn store_all(&mut self) -> Result<()> {
        // An object without any part can't be completed.
        if !self.part.is_empty() || self.bytes == 0 {
            self.send()?;
        }
        self.settle(0)
    }

    /// Shows the object.
    ///
    /// # Errors
    /// Where the store refuses.
    pub fn complete(&mut self) -> Result<()> {
        let done = self.store.fetching.wait(self.upload.complete());
        done.map(|_| ()).map_err(|error| self.failed(&error))
    }

    /// Has the store drop what was sent.
    ///
    /// # Errors
    /// Where the store refuses: then it keeps parts that nobody sees.
    pub fn abort(&mut self) -> Result<()> {
        self.sent.abort_all();
        let done = self.store.fetching.wait(self.upload.abort());
        done.map_err(|error| self.failed(&error))
    }
}

impl Write for Upload {
    /// # Errors
    /// An [`Error`] within an [`io::Error`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.capacity() == 0 {
            self.part.reserve_exact(PART_BYTES);
        }
        let count = bytes.len().min(PART_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        self.bytes += count as u64;
        if self.part.len() == PART_BYTES {
            self.send().map_err(io::Error::other)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
