//! One column of a batch, ready to be laid out row by row.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::NullBuffer;

use super::layout::{Form, LayoutColumn};
use super::numeric;
use super::prepared::Prepared;
use crate::cursor::Place;
use crate::encode_copy::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use crate::small_decimals::Written;

/// Longest value that a varlena header of one byte can tell.
const SHORT_BYTES_MAX: usize = 126;
/// A long varlena header and the most padding before it.
const LONG_HEAD_BYTES: usize = 3 + 4;

/// Where a value is to stand. Two words, so that it travels in registers.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Where the row's data begins: values are aligned from there.
    start: Place,
    rules: Rules,
}

/// Alignment less one, 0 where the place is known to be aligned; and whether a varlena may have a
/// header of one byte.
#[derive(Clone, Copy)]
struct Rules(usize);

impl Rules {
    const SHORT: usize = 1 << 8;

    fn new(mask: usize, short: bool) -> Self {
        Self(mask | if short { Self::SHORT } else { 0 })
    }

    #[inline(always)]
    fn mask(self) -> usize {
        self.0 & (super::layout::MAXALIGN - 1)
    }
}

impl Slot {
    /// For a varlena that may have a header of one byte, and so is not aligned.
    pub fn unaligned(start: Place) -> Self {
        Self { start, rules: Rules::new(0, true) }
    }

    /// Whether a varlena may have a header of one byte.
    #[inline(always)]
    pub fn short(self) -> bool {
        self.rules.0 & Rules::SHORT != 0
    }
}

/// A column's values by the way they are laid out.
enum Values<'a> {
    Boolean(&'a BooleanArray),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Date(&'a [i32]),
    Timestamp(&'a [i64]),
    Labels(&'a [u32]),
    Uuid(&'a [u8]),
    Bytes(&'a [i32], &'a [u8]),
    Padded(&'a [i32], &'a [u8], Padding),
    Decimal64(&'a [i64], numeric::Heads),
    SmallDecimal(&'a [i64], &'static Written),
    Decimal128(&'a [i128], u8),
    NumericText(&'a [i32], &'a [u8], Option<u16>),
}

/// How values are padded to their length in characters.
#[derive(Clone, Copy)]
struct Padding {
    characters: usize,
    /// Not 0 where no value of the batch has a character of several bytes. No `bool`: its unused
    /// values would hold the kind of the column, which then takes longer to tell.
    ascii: u8,
}

/// A column and its NULLs.
pub struct Column<'a> {
    values: Values<'a>,
    pub nulls: Option<&'a NullBuffer>,
    rules: Rules,
}

/// What is known of the place that columns so far have left: it is `residue` modulo `modulus`.
#[derive(Clone, Copy)]
pub struct Known {
    modulus: usize,
    residue: usize,
}

impl Known {
    /// Where a row's data begins.
    pub const START: Self = Self { modulus: super::layout::MAXALIGN, residue: 0 };
    const NOTHING: Self = Self { modulus: 1, residue: 0 };
}

impl<'a> Column<'a> {
    /// # Panics
    /// If the batch's column is not of the Arrow type that its field type names.
    pub fn new(
        layout: &LayoutColumn,
        prepared: &'a Prepared,
        batch: &'a RecordBatch,
        known: &mut Known,
    ) -> Self {
        let array = batch.column(layout.source).as_ref();
        let strings = || {
            let array = array.as_string::<i32>();
            (array.value_offsets(), array.value_data())
        };
        let values = match (&layout.form, prepared) {
            (_, Prepared::Labels(oids)) => Values::Labels(oids),
            (_, Prepared::Rounded(values)) => Values::Int64(values),
            (Form::Boolean, _) => Values::Boolean(array.as_boolean()),
            (Form::Int16, _) => Values::Int16(array.as_primitive::<Int16Type>().values()),
            (Form::Int32, _) => Values::Int32(array.as_primitive::<Int32Type>().values()),
            (Form::Int64, _) => Values::Int64(array.as_primitive::<Int64Type>().values()),
            (Form::Float32, _) => Values::Float32(array.as_primitive::<Float32Type>().values()),
            (Form::Float64, _) => Values::Float64(array.as_primitive::<Float64Type>().values()),
            (Form::Date, _) => Values::Date(array.as_primitive::<Date32Type>().values()),
            (Form::Time { .. }, _) => {
                Values::Int64(array.as_primitive::<Time64MicrosecondType>().values())
            }
            (Form::Timestamp { .. }, _) => {
                Values::Timestamp(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            (Form::Uuid, _) => Values::Uuid(array.as_fixed_size_binary().value_data()),
            (Form::Bytes, _) => match array.as_binary_opt::<i32>() {
                Some(array) => Values::Bytes(array.value_offsets(), array.value_data()),
                None => Values::Bytes(strings().0, strings().1),
            },
            (Form::Padded { characters }, _) => {
                let (offsets, bytes) = strings();
                let ends = (offsets[0] as usize, offsets[array.len()] as usize);
                let padding = Padding {
                    characters: *characters,
                    ascii: u8::from(bytes[ends.0..ends.1].is_ascii()),
                };
                Values::Padded(offsets, bytes, padding)
            }
            (Form::Decimal64 { scale }, _) => {
                let values = array.as_primitive::<Decimal64Type>().values();
                let small = layout.short.then(|| numeric::small(values, *scale, array.nulls()));
                match small.flatten() {
                    Some(written) => Values::SmallDecimal(values, written),
                    None => Values::Decimal64(values, numeric::Heads::new(*scale)),
                }
            }
            (Form::Decimal128 { scale }, _) => {
                Values::Decimal128(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            (Form::NumericText { scale }, _) => {
                Values::NumericText(strings().0, strings().1, *scale)
            }
            (Form::Enum(_), _) => unreachable!("labels are looked up beforehand"),
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let mask = mask(&values, layout.align, nulls.is_some(), known);
        Self { values, nulls, rules: Rules::new(mask, layout.short) }
    }

    /// Most bytes that a value takes beside those that [`Self::counted`] tells.
    pub fn overhead_bytes(&self) -> usize {
        match &self.values {
            Values::Padded(_, _, padding) => LONG_HEAD_BYTES + padding.characters,
            Values::Bytes(..) => LONG_HEAD_BYTES,
            Values::Decimal64(..) | Values::SmallDecimal(..) | Values::Decimal128(..) => {
                numeric::BYTES_MAX
            }
            Values::NumericText(..) => numeric::TEXT_OVERHEAD_BYTES,
            Values::Uuid(_) => 16,
            fixed => self.rules.mask() + fixed_bytes(fixed),
        }
    }

    /// Bytes of a row's value that vary from row to row.
    #[inline(always)]
    pub fn counted(&self, row: usize) -> usize {
        match &self.values {
            Values::Bytes(offsets, _) | Values::Padded(offsets, ..) => {
                (offsets[row + 1] - offsets[row]) as usize
            }
            Values::NumericText(offsets, ..) => (offsets[row + 1] - offsets[row]) as usize / 2,
            _ => 0,
        }
    }

    /// The most that [`Self::counted`] tells of a row; `None` where it tells nothing of any.
    pub fn counted_max(&self) -> Option<usize> {
        let (offsets, share) = match &self.values {
            Values::Bytes(offsets, _) | Values::Padded(offsets, ..) => (offsets, 1),
            Values::NumericText(offsets, ..) => (offsets, 2),
            _ => return None,
        };
        let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        Some(longest as usize / share)
    }

    /// Writes a row's value, which is not NULL, where the row's data begins at `start`.
    #[inline(always)]
    pub fn write(&self, row: usize, start: Place, place: Place) -> Place {
        let slot = Slot { start, rules: self.rules };
        match &self.values {
            Values::Int64(values) => fixed(values[row].to_le_bytes(), slot, place),
            Values::Int32(values) => fixed(values[row].to_le_bytes(), slot, place),
            Values::SmallDecimal(values, written) => written.write(values[row], place),
            Values::Decimal64(values, heads) => numeric::write_64(values[row], heads, slot, place),
            Values::Bytes(offsets, bytes) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                varlena_head(end - start, slot, place).put_range(bytes, start, end)
            }
            Values::Date(values) => {
                fixed(values[row].wrapping_sub(EPOCH_DAYS).to_le_bytes(), slot, place)
            }
            Values::Timestamp(values) => {
                fixed(values[row].wrapping_sub(EPOCH_MICROSECONDS).to_le_bytes(), slot, place)
            }
            Values::Boolean(values) => place.put([u8::from(values.value(row))]),
            Values::Int16(values) => fixed(values[row].to_le_bytes(), slot, place),
            Values::Float32(values) => fixed(values[row].to_le_bytes(), slot, place),
            Values::Float64(values) => fixed(values[row].to_le_bytes(), slot, place),
            Values::Labels(oids) => fixed(oids[row].to_le_bytes(), slot, place),
            Values::Uuid(values) => place.put_range(values, row * 16, row * 16 + 16),
            Values::Decimal128(values, scale) => {
                numeric::write_128(values[row], *scale, slot, place)
            }
            Values::Padded(offsets, bytes, padding) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                let characters = match padding.ascii {
                    1 => end - start,
                    _ => characters_in(&bytes[start..end]),
                };
                let missing = padding.characters.saturating_sub(characters);
                let place = varlena_head(end - start + missing, slot, place);
                put_spaces(missing, place.put_range(bytes, start, end))
            }
            Values::NumericText(offsets, text, scale) => {
                let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                numeric::write_text(&text[start..end], *scale, slot, place)
            }
        }
    }
}

/// Bytes of a value of fixed length.
fn fixed_bytes(values: &Values<'_>) -> usize {
    match values {
        Values::Boolean(_) => 1,
        Values::Int16(_) => 2,
        Values::Int32(_) | Values::Float32(_) | Values::Date(_) | Values::Labels(_) => 4,
        Values::Int64(_) | Values::Float64(_) | Values::Timestamp(_) => 8,
        Values::Uuid(_) => 16,
        _ => 0,
    }
}

/// The mask to align a column with, and what is known of the place after it.
fn mask(values: &Values<'_>, align: usize, has_nulls: bool, known: &mut Known) -> usize {
    let bytes = fixed_bytes(values);
    if bytes == 0 {
        *known = Known::NOTHING;
        return align - 1;
    }
    let is_aligned = known.modulus >= align && known.residue.is_multiple_of(align);
    let aligned = match is_aligned {
        true => *known,
        false if known.modulus >= align => {
            Known { residue: known.residue.next_multiple_of(align) % known.modulus, ..*known }
        }
        false => Known { modulus: align, residue: 0 },
    };
    *known = match has_nulls {
        true => Known::NOTHING,
        false => Known { residue: (aligned.residue + bytes) % aligned.modulus, ..aligned },
    };
    if is_aligned { 0 } else { align - 1 }
}

#[inline(always)]
fn fixed<const N: usize>(value: [u8; N], slot: Slot, place: Place) -> Place {
    place.align(slot.start, slot.rules.mask()).put(value)
}

/// The header of a varlena of so many bytes: one byte, unaligned, where they are few.
#[inline(always)]
pub fn varlena_head(bytes: usize, slot: Slot, place: Place) -> Place {
    if bytes <= SHORT_BYTES_MAX && slot.short() {
        return place.put([((bytes + 1) << 1 | 1) as u8]);
    }
    place.align(slot.start, slot.rules.mask()).put((((bytes + 4) << 2) as u32).to_le_bytes())
}

/// Every byte that does not go on with a character begins one.
fn characters_in(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Spaces that are written at a time.
const SPACES: usize = 32;

#[inline(always)]
fn put_spaces(mut count: usize, mut place: Place) -> Place {
    while count > SPACES {
        place = place.put([b' '; SPACES]);
        count -= SPACES;
    }
    place.put_some([b' '; SPACES], count)
}
