//! PostgreSQL's numeric as it stands in a row: a 16-bit header with sign, display scale and weight,
//! or two words where they don't fit it, then the digits to the base 10,000 (see `make_result` in
//! PostgreSQL's numeric.c). Zeros at either end are left out; zero has no digits and weight 0.

use arrow_buffer::NullBuffer;

use super::column::{Slot, varlena_head};
use crate::cursor::Place;
use crate::digits::{GROUPS_MAX, Groups, PlainDecimal, SHORT_BYTES, Scale, short_decimal};
use crate::small_decimals::{Tables, Written};

const SHORT: u16 = 0x8000;
const SHORT_NEGATIVE: u16 = 0x2000;
const LONG_NEGATIVE: u16 = 0x4000;
/// What the short header has room for.
const SHORT_SCALE_MAX: usize = 63;
const SHORT_WEIGHTS: std::ops::RangeInclusive<i32> = -64..=63;

/// Most bytes that a decimal of 128 bits takes, a long varlena header and its padding included.
pub const BYTES_MAX: usize = 3 + 4 + 4 + 2 * GROUPS_MAX;

/// As [`BYTES_MAX`], beside half of the text's bytes: the groups at either side of the point.
pub const TEXT_OVERHEAD_BYTES: usize = 3 + 4 + 4 + 2 * 2;

/// A column's scale, and the header of its values by how many of their three groups are zero before
/// the others; of zero, which has none, the last.
#[derive(Clone, Copy)]
pub struct Heads {
    scale: Scale,
    heads: [u16; 8],
}

impl Heads {
    pub const fn new(scale: u8) -> Self {
        let scale = Scale::new(scale);
        let plain = SHORT | (scale.scale as u16) << 7;
        let mut heads = [plain; 8];
        let mut leading = 0;
        while leading < 3 {
            let weight = 2 - scale.fraction_groups - leading as i16;
            heads[leading] |= weight as u16 & 0x7f;
            leading += 1;
        }
        Self { scale, heads }
    }
}

/// Headers by scale, for short values that bring their own.
static HEADS: [Heads; SHORT_BYTES + 1] = {
    let mut heads = [Heads::new(0); SHORT_BYTES + 1];
    let mut scale = 0;
    while scale <= SHORT_BYTES {
        heads[scale] = Heads::new(scale as u8);
        scale += 1;
    }
    heads
};

/// Writes `units` * 10^-`scale` with a short varlena header.
///
/// Nearly every value has at most three groups, which fit one register: no loop, no branch.
#[inline(always)]
pub fn write_64(units: i64, heads: &Heads, slot: Slot, place: Place) -> Place {
    let scale = heads.scale;
    let magnitude = units.unsigned_abs();
    if magnitude >= scale.three_groups || !slot.short() {
        return write_128(i128::from(units), scale.scale, slot, place);
    }
    let [high, middle, low] = scale.three(magnitude);
    // In the order of memory, the first digit lowest.
    let groups = low << 32 | middle << 16 | high;
    // Zero has four leading groups and none up to its last: no branch for it, since discounts are
    // zero now and then, which no processor foresees.
    let zeros = groups.trailing_zeros();
    let leading = zeros / 16;
    let digits = ((79 - groups.leading_zeros()) / 16).saturating_sub(leading);
    let head = heads.heads[leading as usize & 7] | (units >> 63) as u16 & SHORT_NEGATIVE;
    let varlena = (3 + 2 * digits) << 1 | 1;
    place
        .put_some((u32::from(head) << 8 | varlena).to_le_bytes(), 3)
        .put_some((groups >> (zeros & 0x30)).to_le_bytes(), 2 * digits as usize)
}

/// What [`write_64`] writes of each of these values, where it may have a short varlena header and all
/// are small.
pub fn small(values: &[i64], scale: u8, nulls: Option<&NullBuffer>) -> Option<&'static Written> {
    static TABLES: Tables = Tables::new();
    let heads = Heads::new(scale);
    let write = |units, place| write_64(units, &heads, Slot::unaligned(place), place);
    TABLES.of_all(scale, values, nulls, write)
}

/// As [`write_64`], for 128 bits.
#[inline(never)]
pub fn write_128(units: i128, scale: u8, slot: Slot, place: Place) -> Place {
    let groups = Groups::of(units.unsigned_abs(), scale);
    let digits = groups.as_slice();
    let place = head(units < 0, usize::from(scale), groups.weight, digits.len(), slot, place);
    digits.iter().fold(place, |place, group| place.put(group.to_le_bytes()))
}

/// Writes a plain decimal of any size (`-12.340`); with the scale of its column where that has one.
///
/// Not part of the loop over rows: such columns are rare, and the loop is faster for being short.
#[inline(never)]
pub fn write_text(text: &[u8], scale: Option<u16>, slot: Slot, place: Place) -> Place {
    match short_decimal(text) {
        Some((units, own)) if scale.is_none_or(|scale| scale == u16::from(own.scale)) => {
            write_64(units, &HEADS[usize::from(own.scale)], slot, place)
        }
        _ => write_long_text(text, scale, slot, place),
    }
}

#[inline(never)]
fn write_long_text(text: &[u8], scale: Option<u16>, slot: Slot, place: Place) -> Place {
    let decimal = PlainDecimal::new(text);
    let scale = scale.map_or(decimal.scale(), usize::from);
    let place = head(decimal.negative, scale, decimal.weight(), decimal.count(), slot, place);
    decimal.groups().fold(place, |place, group| place.put(group.to_le_bytes()))
}

/// What stands before the digits.
fn head(
    negative: bool,
    scale: usize,
    weight: i32,
    digits: usize,
    slot: Slot,
    place: Place,
) -> Place {
    if scale <= SHORT_SCALE_MAX && SHORT_WEIGHTS.contains(&weight) {
        let sign = if negative { SHORT_NEGATIVE } else { 0 };
        let head = SHORT | sign | (scale as u16) << 7 | weight as u16 & 0x7f;
        return varlena_head(2 + 2 * digits, slot, place).put(head.to_le_bytes());
    }
    let sign = if negative { LONG_NEGATIVE } else { 0 };
    varlena_head(4 + 2 * digits, slot, place)
        .put((sign | scale as u16).to_le_bytes())
        .put((weight as i16).to_le_bytes())
}
