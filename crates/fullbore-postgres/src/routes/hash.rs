//! The hash by which PostgreSQL divides rows among HASH partitions: `compute_partition_hash_value` of partbounds.c, over
//! Bob Jenkins' lookup3 as hashfn.c has it, from version 11 to 18 the same.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::encode_copy::{EPOCH_DAYS, EPOCH_MICROSECONDS};

/// `HASH_PARTITION_SEED`.
const SEED: u64 = 0x7a5b_2236_7996_dcfd;

/// Adds a column's hashes to those of the rows; NULLs add nothing. None for a type that is not known here.
pub fn add(hashes: &mut [u64], column: &ArrayRef) -> Option<()> {
    let mut each = |hash: &dyn Fn(usize) -> u64| {
        for (row, hashed) in hashes.iter_mut().enumerate() {
            if column.is_valid(row) {
                *hashed = combined(*hashed, hash(row));
            }
        }
    };
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean();
            each(&|row| of_u32(u32::from(values.value(row))));
        }
        DataType::Int16 => {
            let values = column.as_primitive::<Int16Type>().values();
            each(&|row| of_u32(i32::from(values[row]) as u32));
        }
        DataType::Int32 => {
            let values = column.as_primitive::<Int32Type>().values();
            each(&|row| of_u32(values[row] as u32));
        }
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            each(&|row| of_i64(values[row]));
        }
        DataType::Date32 => {
            let values = column.as_primitive::<Date32Type>().values();
            each(&|row| of_u32((values[row] - EPOCH_DAYS) as u32));
        }
        DataType::Timestamp(..) => {
            let values = column.as_primitive::<TimestampMicrosecondType>().values();
            each(&|row| of_i64(values[row] - EPOCH_MICROSECONDS));
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            each(&|row| of_bytes(values.value(row).as_bytes()));
        }
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            each(&|row| of_bytes(values.value(row)));
        }
        _ => return None,
    }
    Some(())
}

/// `hash_combine64`.
fn combined(one: u64, other: u64) -> u64 {
    let other =
        other.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(one << 54).wrapping_add(one >> 7);
    one ^ other
}

/// `hashint8extended`: a number that fits 32 bits has the hash of one that has only these.
fn of_i64(value: i64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    of_u32(low ^ if value >= 0 { high } else { !high })
}

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    /// For so many bytes, with the seed taken in.
    fn new(bytes: u32) -> Self {
        let begin = 0x9e37_79b9_u32.wrapping_add(bytes).wrapping_add(3_923_095);
        let mut state = Self { a: begin, b: begin, c: begin };
        state.add([(SEED >> 32) as u32, SEED as u32, 0]);
        state.mix();
        state
    }

    fn add(&mut self, [a, b, c]: [u32; 3]) {
        self.a = self.a.wrapping_add(a);
        self.b = self.b.wrapping_add(b);
        self.c = self.c.wrapping_add(c);
    }

    fn mix(&mut self) {
        let Self { a, b, c } = self;
        let step = |x: &mut u32, y: u32, z: &mut u32, by: u32| {
            *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
            *z = z.wrapping_add(y);
        };
        step(a, *b, c, 4);
        step(b, *c, a, 6);
        step(c, *a, b, 8);
        step(a, *b, c, 16);
        step(b, *c, a, 19);
        step(c, *a, b, 4);
    }

    fn end(mut self) -> u64 {
        let Self { a, b, c } = &mut self;
        let step = |x: &mut u32, y: u32, by: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
        step(c, *b, 14);
        step(a, *c, 11);
        step(b, *a, 25);
        step(c, *b, 16);
        step(a, *c, 4);
        step(b, *a, 14);
        step(c, *b, 24);
        u64::from(self.b) << 32 | u64::from(self.c)
    }
}

/// `hash_bytes_uint32_extended`.
fn of_u32(value: u32) -> u64 {
    let mut state = State::new(4);
    state.add([value, 0, 0]);
    state.end()
}

/// `hash_bytes_extended`, on machines that keep a number's lowest byte first.
fn of_bytes(bytes: &[u8]) -> u64 {
    // Values have at most 1 GiB.
    let mut state = State::new(bytes.len() as u32);
    let words = |part: &[u8], shift: u32| {
        let byte = |at: usize| part.get(at).copied().map_or(0, u32::from);
        let word = |at| byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
        [word(0), word(4), word(8) << shift]
    };
    let (whole, rest) = bytes.as_chunks::<12>();
    for part in whole {
        state.add(words(part, 0));
        state.mix();
    }
    // The lowest byte of the last word is the length's.
    state.add(words(rest, 8));
    state.end()
}
