//! Records in the order of their keys. The first bytes of keys stand next to one another, so that few keys are looked at.

use arrow_schema::ArrowError;

use super::records::{Record, broken};
use super::spill::{Run, RunWriter};

/// What a key has after the bytes that all keys have in common.
pub type Prefix = [u64; 2];

/// Of keys that begin with the same `common` bytes.
pub fn prefix(key: &[u8], common: usize) -> Prefix {
    let mut first = [[0; 8]; 2];
    let rest = key.get(common..).unwrap_or_default();
    let count = rest.len().min(16);
    first.as_flattened_mut()[..count].copy_from_slice(&rest[..count]);
    first.map(u64::from_be_bytes)
}

/// The bytes that all keys begin with.
#[derive(Default)]
pub struct Common(Option<Vec<u8>>);

impl Common {
    pub fn note(&mut self, key: &[u8]) {
        match &mut self.0 {
            None => self.0 = Some(key.to_vec()),
            Some(common) => {
                let alike = common.iter().zip(key).take_while(|(one, other)| one == other);
                common.truncate(alike.count());
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }
}

/// Where a record is, with the first bytes of its key.
struct Place {
    prefix: Prefix,
    at: usize,
}

/// Records that are found before they are written: memory is slow to answer, but answers several at once.
const FOUND: usize = 64;

/// Records that are collected to be sorted.
#[derive(Default)]
pub struct Unsorted {
    records: Vec<u8>,
    pub rows: usize,
    /// Of their keys: noted while records are at hand, since going through all of them again is slow.
    common: Common,
    /// Kept from one run to the next, as the memory of `records` is.
    places: Vec<Place>,
}

impl Unsorted {
    /// Bytes of memory that all of it takes when it is sorted.
    pub fn memory(&self) -> usize {
        self.records.len() + self.rows * size_of::<Place>()
    }

    /// Adds records, in memory that is made for so many bytes of them; how many they are.
    pub fn add(&mut self, records: &[u8], bytes: usize) -> usize {
        let mut count = 0;
        for (_, record) in Record::each(records) {
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
        count
    }

    /// Writes them in their order, and has none afterwards; of rows that are alike the earlier comes first.
    pub fn write(&mut self, mut run: RunWriter) -> Result<Run, ArrowError> {
        let Self { records, places, .. } = self;
        let common = std::mem::take(&mut self.common).bytes();
        places.clear();
        places.reserve_exact(self.rows);
        places.extend(
            Record::each(records)
                .map(|(at, record)| Place { prefix: prefix(&records[record.key], common), at }),
        );
        let key = |place: &Place| {
            Record::at(records, place.at).map_or(&[][..], |record| &records[record.key])
        };
        places.sort_unstable_by(|one, other| {
            one.prefix
                .cmp(&other.prefix)
                .then_with(|| key(one).cmp(key(other)))
                .then_with(|| one.at.cmp(&other.at))
        });
        let mut found = Vec::with_capacity(FOUND);
        for some in places.chunks(FOUND) {
            found.clear();
            found.extend(some.iter().map(|place| Record::at(records, place.at)));
            for (place, record) in some.iter().zip(&found) {
                let record = record.as_ref().ok_or_else(broken)?;
                run.write(&records[place.at..record.end], &records[record.key.clone()])?;
            }
        }
        if places.len() != self.rows {
            return Err(broken());
        }
        records.clear();
        self.rows = 0;
        run.finish()
    }

    /// Gives its memory back where it is more than so many bytes need: there may be more streams than before.
    pub fn shrink(&mut self, bytes: usize) {
        if self.records.capacity() > bytes + bytes / 8 {
            *self = Self::default();
        }
    }
}
