//! A table of encoded small decimals. If a batch's quantities, percentages or prices are all small, each
//! is copied from the table, in a fifth of the time of encoding its digits.
//!
//! A load reads few of the entries, so they stay in the L1 cache.

use std::sync::OnceLock;

use arrow_buffer::NullBuffer;

use crate::cursor::{self, Place};
use crate::digits::SHORT_BYTES;

/// Units below this are small; a power of two.
const SMALL: usize = 1 << 12;
/// What any of them takes, in either form: length, header, and digits to the base 10,000.
const ENTRY_BYTES: usize = 20;

/// The values of one scale from 0 on.
pub struct Written {
    entries: Box<[Entry; SMALL]>,
}

#[derive(Clone, Copy)]
struct Entry {
    bytes: [u8; ENTRY_BYTES],
    length: u32,
}

/// Tables by scale, each made when it is first asked for.
pub struct Tables {
    of: [OnceLock<Written>; SHORT_BYTES + 1],
}

impl Tables {
    pub const fn new() -> Self {
        Self { of: [const { OnceLock::new() }; SHORT_BYTES + 1] }
    }

    /// The table that holds all of these values, as `write` writes them; `None` where one of them is
    /// not small. NULLs don't count.
    pub fn of_all(
        &self,
        scale: u8,
        values: &[i64],
        nulls: Option<&NullBuffer>,
        write: impl Fn(i64, Place) -> Place,
    ) -> Option<&Written> {
        let table = self.of.get(usize::from(scale))?;
        let any_bits = |values: &[i64]| values.iter().fold(0, |bits, value| bits | value);
        let bits = match nulls {
            None => any_bits(values),
            Some(nulls) => nulls
                .valid_slices()
                .fold(0, |bits, (start, end)| bits | any_bits(&values[start..end])),
        };
        let all_small = (0..SMALL as i64).contains(&bits);
        all_small.then(|| table.get_or_init(|| Written::new(write)))
    }
}

impl Written {
    fn new(write: impl Fn(i64, Place) -> Place) -> Self {
        let mut entries = Box::new([Entry { bytes: [0; ENTRY_BYTES], length: 0 }; SMALL]);
        let mut bytes = Vec::new();
        for (units, entry) in entries.iter_mut().enumerate() {
            bytes.clear();
            let place = cursor::start(&mut bytes, ENTRY_BYTES);
            let place = write(units as i64, place);
            // SAFETY: a small value has two groups at most, whatever its scale: 16 bytes with the
            // longer head.
            unsafe { cursor::finish(&mut bytes, place) };
            entry.bytes[..bytes.len()].copy_from_slice(&bytes);
            entry.length = bytes.len() as u32;
        }
        Self { entries }
    }

    /// Writes one of the values that the table was asked for; of any other some bytes.
    #[inline(always)]
    pub fn write(&self, units: i64, place: Place) -> Place {
        let entry = &self.entries[units as usize % SMALL];
        place.put_some(entry.bytes, entry.length as usize)
    }
}
