//! Records in the order of their keys. The first bytes of keys stand next to one another, so that few keys are looked
//! at.

use std::ops::Range;

use arrow_schema::ArrowError;

use super::bytes::broken;
use super::keys::{Common, PREFIX_BYTES, prefix};
use super::records::Record;
use super::spill::{Run, RunWriter};

/// Most bytes that are sorted at a time: half of what a place can tell, since records are added before their
/// memory is looked at.
pub const BYTES_MAX: usize = 2 << 30;

/// Where a record is, with the prefix of its key in two halves: aligned as a whole, it would take a third more.
struct Place {
    prefix: [u64; 2],
    at: u32,
    bytes: u32,
}

impl Place {
    fn prefix(&self) -> u128 {
        let [high, low] = self.prefix;
        u128::from(high) << 64 | u128::from(low)
    }

    fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.bytes as usize
    }
}

/// Records that are collected to be sorted.
#[derive(Default)]
pub struct Unsorted {
    records: Vec<u8>,
    pub rows: usize,
    /// Of their keys: noted while records are at hand, since going through all of them again is slow.
    common: Common,
    longest_key: usize,
    /// Kept from one run to the next, as the memory of `records` is.
    places: Vec<Place>,
}

impl Unsorted {
    /// Bytes of memory that all of it takes when it is sorted.
    pub fn memory(&self) -> usize {
        self.records.len() + self.rows * size_of::<Place>()
    }

    /// Adds records, in memory that is made for so many bytes of them; how many they are.
    pub fn add(&mut self, records: &[u8], bytes: usize) -> Result<usize, ArrowError> {
        if u32::try_from(self.records.len() + records.len()).is_err() {
            let words = "more than 4 GiB of rows came at once";
            return Err(ArrowError::InvalidArgumentError(words.into()));
        }
        let mut count = 0;
        for (_, record) in Record::each(records) {
            self.longest_key = self.longest_key.max(record.key.len());
            self.common.note(&records[record.key]);
            count += 1;
        }
        if self.records.capacity() - self.records.len() < records.len() {
            // All at once: growing would copy, and leave holes.
            let more = bytes.saturating_sub(self.records.len());
            self.records.reserve_exact(more + records.len());
        }
        self.records.extend_from_slice(records);
        self.rows += count;
        Ok(count)
    }

    /// Writes them in their order, and has none afterwards; of rows that are alike the earlier comes first.
    pub fn write(&mut self, mut run: RunWriter) -> Result<Run, ArrowError> {
        let Self { records, places, .. } = self;
        let common = self.common.bytes().len();
        places.clear();
        places.reserve_exact(self.rows);
        for (at, record) in Record::each(records) {
            let prefix = prefix(records, &record.key, common);
            places.push(Place {
                prefix: [(prefix >> 64) as u64, prefix as u64],
                at: at as u32,
                bytes: (record.end - at) as u32,
            });
        }
        if places.len() != self.rows {
            return Err(broken());
        }
        places.sort_unstable_by_key(Place::prefix);
        // No key is the beginning of another: short ones are alike where their prefixes are.
        let key = |place: &Place| match self.longest_key <= common + PREFIX_BYTES {
            true => &[][..],
            false => Record::at(records, place.at as usize)
                .map_or(&[][..], |record| &records[record.key]),
        };
        for alike in places.chunk_by_mut(|one, other| one.prefix == other.prefix) {
            if alike.len() > 1 {
                alike.sort_unstable_by(|one, other| {
                    key(one).cmp(key(other)).then(one.at.cmp(&other.at))
                });
            }
        }
        for place in places.iter() {
            run.write(&records[place.range()])?;
        }
        records.clear();
        self.rows = 0;
        self.longest_key = 0;
        run.finish(std::mem::take(&mut self.common))
    }

    /// Gives its memory back where it is more than so many bytes need: there may be more streams than before.
    pub fn shrink(&mut self, bytes: usize) {
        if self.records.capacity() > bytes + bytes / 8 {
            *self = Self::default();
        }
    }
}
