//! Reads a range of a file ahead of its parsers and past the page cache.
//!
//! A few threads read aligned chunks in turn, straight into the memory that is parsed. So several reads
//! are in flight, and none is copied.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use fullbore_parse::block::Block;
use fullbore_parse::boundary::whole_records;
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;

use super::opened::Opened;
use super::source_file::SourceFile;
use crate::constants::{READ_ALIGNMENT, READ_DEPTH, READ_ROOM_BYTES};
use crate::error::{Error, Result};

/// Chunks of a range on their way.
pub(super) struct Ahead {
    /// In the order of their chunks, each reading every so manieth.
    readers: Vec<Reader>,
    turn: usize,
    /// Where the next chunk begins, and where the last one ends.
    chunk: u64,
    stop: u64,
    /// The next record's place, and what was read of it already.
    offset: u64,
    carried: Vec<u8>,
}

/// What came of the next chunk.
pub(super) enum Read {
    /// The block has records; their bytes in the file.
    Records(u64),
    /// There is no next chunk.
    Done,
    /// No record ends in it.
    TooLong,
}

struct Reader {
    ready: Option<Receiver<io::Result<Block>>>,
    free: Option<Sender<Block>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins to read what stands between two places; `past` was opened for direct reading.
    pub fn start(
        source: &SourceFile,
        past: &Arc<File>,
        through: &Arc<Opened>,
        offset: u64,
        stop: u64,
    ) -> Result<Self> {
        let first = offset - offset % READ_ALIGNMENT as u64;
        let chunks = (stop - first).div_ceil(BLOCK_BYTES as u64);
        let readers = (0..chunks.min(READ_DEPTH))
            .map(|number| {
                let (ready_in, ready) = sync_channel(1);
                let (free, free_out) = channel();
                // One in flight, one that waits.
                for _ in 0..2 {
                    let _ = free.send(Block::default());
                }
                let begin = first + number * BLOCK_BYTES as u64;
                let work = Chunks { past: past.clone(), through: through.clone(), begin, stop };
                let thread = std::thread::Builder::new()
                    .name("read-ahead".into())
                    .spawn(move || work.read(&free_out, &ready_in))
                    .map_err(|error| Error::Read { path: source.path.clone(), source: error })?;
                Ok(Reader { ready: Some(ready), free: Some(free), thread: Some(thread) })
            })
            .collect::<Result<_>>()?;
        Ok(Self { readers, turn: 0, chunk: first, stop, offset, carried: Vec::new() })
    }

    /// Fills the block with the records that end in the next chunk. `end` is the range's end, where a
    /// record ends too.
    pub fn next(
        &mut self,
        source: &SourceFile,
        end: u64,
        dialect: &Dialect,
        block: &mut Block,
    ) -> Result<Read> {
        if self.chunk >= self.stop {
            return Ok(Read::Done);
        }
        self.take(source, block)?;
        let chunk_end = (self.chunk + BLOCK_BYTES as u64).min(self.stop);
        let wanted = (chunk_end - self.chunk) as usize;
        if block.len() < wanted {
            return Err(source.ends_at(self.chunk + block.len() as u64));
        }
        block.set_len(wanted);
        block.skip(self.offset.saturating_sub(self.chunk) as usize);
        block.prepend(&self.carried);
        self.carried.clear();
        self.chunk = chunk_end;
        block.line_end = dialect.line_end;
        let is_end = chunk_end == end;
        let read = block.len();
        if is_end {
            // The range ends where a record does, or the file without a line end.
            block.end_last_line();
        }
        let Some(whole) = whole_records(block.text(), dialect, is_end) else {
            return Ok(Read::TooLong);
        };
        self.carried.extend_from_slice(&block.text()[whole.end..]);
        block.take(whole);
        let used = whole.end.min(read);
        self.offset += used as u64;
        Ok(Read::Records(used as u64))
    }

    /// Takes the next chunk in exchange for an empty block.
    fn take(&mut self, source: &SourceFile, block: &mut Block) -> Result<()> {
        let failed = |error| Error::Read { path: source.path.clone(), source: error };
        let reader = &self.readers[self.turn];
        self.turn = (self.turn + 1) % self.readers.len();
        let gone = || failed(io::Error::other("its reader has ended"));
        let ready = reader.ready.as_ref().and_then(|ready| ready.recv().ok());
        let chunk = ready.ok_or_else(gone)?.map_err(failed)?;
        let empty = std::mem::replace(block, chunk);
        // A reader that has read its last chunk wants none.
        let _ = reader.free.as_ref().map(|free| free.send(empty));
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        for reader in &mut self.readers {
            // Whoever waits for either end stops waiting.
            (reader.ready, reader.free) = (None, None);
        }
        for thread in self.readers.iter_mut().filter_map(|reader| reader.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// What one thread reads.
struct Chunks {
    past: Arc<File>,
    through: Arc<Opened>,
    begin: u64,
    stop: u64,
}

impl Chunks {
    fn read(self, free: &Receiver<Block>, ready: &SyncSender<io::Result<Block>>) {
        let mut begin = self.begin;
        while begin < self.stop {
            let Ok(mut block) = free.recv() else { return };
            let read = self.read_chunk(begin, &mut block);
            if ready.send(read.map(|()| block)).is_err() {
                return;
            }
            begin += READ_DEPTH * BLOCK_BYTES as u64;
        }
    }

    /// Reads a chunk; less where the file ends.
    fn read_chunk(&self, begin: u64, block: &mut Block) -> io::Result<()> {
        // To a multiple of the alignment, even where the range ends before: reads ask for it.
        let bytes =
            ((self.stop - begin).min(BLOCK_BYTES as u64) as usize).next_multiple_of(READ_ALIGNMENT);
        let space = block.aligned_space(bytes, READ_ALIGNMENT, READ_ROOM_BYTES);
        let mut have = 0;
        while have < bytes {
            let at = begin + have as u64;
            let read = match self.past.read_at(&mut space[have..], at) {
                // A device that asks for another alignment: the cache has none.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.through.read_at(&mut space[have..], at)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read,
            }?;
            have += read;
            // Only the file's end is no multiple.
            if read == 0 || !have.is_multiple_of(READ_ALIGNMENT) {
                break;
            }
        }
        block.set_len(have);
        Ok(())
    }
}
