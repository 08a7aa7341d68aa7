//! Stored values as the target's types, and nothing lost on the way.
//!
//! Arrow's casts cut silently what COPY would round (nanoseconds) or refuse (1.7 as an integer).

mod json;
mod judged;
mod text;

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, ListArray, PrimitiveArray, StringArray, cast::AsArray, new_null_array,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};

pub use judged::{is_of_another_kind, judged_by_server};
pub use text::as_text;

/// Texts as values of a type, read as fields of a file are; none where one of them is not in the type's form.
pub fn as_fields<'a>(
    texts: impl ExactSizeIterator<Item = Option<&'a str>>,
    field_type: &FieldType,
) -> Option<ArrayRef> {
    let count = texts.len();
    let mut lines = Vec::new();
    for text in texts {
        match text {
            Some(text) => write_copy_text(text.as_bytes(), &mut lines),
            None => lines.extend_from_slice(b"\\N"),
        }
        lines.push(b'\n');
    }
    let (name, field_type) = (String::new(), field_type.clone());
    let column = ParseColumn { name, field: 0, field_type, guess: None };
    let mut parser = Parser::new(Dialect::text(), Arc::new(ParseShape::of_one(column)));
    let parsed = parser.parse(&Block::of(&lines));
    (parsed.batch.num_rows() == count).then(|| parsed.batch.column(0).clone())
}

/// Values cast, and how many of them lost digits that the server does not keep.
#[derive(Debug)]
pub struct Cast {
    pub array: ArrayRef,
    /// Moments and times whose nanoseconds were rounded to microseconds.
    pub rounded: u64,
}

/// Why an array can't be cast, in words for its first value that can't.
pub type Unfit = String;

/// The array as what the target is sent.
pub fn typed(array: &ArrayRef, target: &FieldType) -> Result<Cast, Unfit> {
    match (array.data_type(), target) {
        (DataType::Null, _) => {
            let array = new_null_array(&target.arrow(), array.len());
            Ok(Cast { array, rounded: 0 })
        }
        (stored, FieldType::Json | FieldType::Jsonb) if !is_text(stored) => {
            Ok(Cast { array: json::texts(array)?, rounded: 0 })
        }
        (_, FieldType::Text { characters_max: Some(most) }) => {
            let cast = exact(array, &target.arrow())?;
            Ok(Cast { array: within(&cast.array, *most as usize)?, ..cast })
        }
        _ => exact(array, &target.arrow()),
    }
}

/// Texts of at most so many characters: blanks beyond are cut, as SQL has it, and nothing else.
pub fn within(texts: &ArrayRef, most: usize) -> Result<ArrayRef, Unfit> {
    let found = texts.as_string::<i32>();
    let is_long = |text: &str| text.len() > most && text.chars().count() > most;
    if !found.iter().flatten().any(is_long) {
        return Ok(texts.clone());
    }
    let cut = found.iter().map(|text| match text {
        Some(text) if is_long(text) => {
            let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
            match text[end..].bytes().all(|byte| byte == b' ') {
                true => Ok(Some(&text[..end])),
                false => Err(format!("value too long for type character varying({most})")),
            }
        }
        other => Ok(other),
    });
    Ok(Arc::new(cut.collect::<Result<StringArray, Unfit>>()?))
}

/// The array as another type, nothing lost but nanoseconds.
pub fn exact(array: &ArrayRef, wanted: &DataType) -> Result<Cast, Unfit> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let (array, rounded) = in_microseconds(array, wanted);
    let array = &array;
    let unfit = |row: usize, what: &str| {
        format!("{} {what} {}", shown(array, row, SHOWN_BYTES), sql_words(wanted))
    };
    // A single value: whatever is wrong is wrong with that.
    let cast = in_the_zone(array, wanted, &options).map_err(|_| unfit(0, "does not fit"))?;
    if let Some(row) = beyond_the_server(&cast).or_else(|| left_its_range(array, &cast)) {
        return Err(unfit(row, "is out of range for"));
    }
    if may_lose(array.data_type(), wanted) {
        let back = cast_with_options(&cast, array.data_type(), &options)
            .map_err(|_| unfit(0, "does not fit"))?;
        if back.as_ref() != array.as_ref() {
            let differs =
                |row: &usize| back.slice(*row, 1).as_ref() != array.slice(*row, 1).as_ref();
            let row = (0..array.len()).find(differs).unwrap_or(0);
            return Err(unfit(row, "is not exact as"));
        }
    }
    Ok(Cast { array: cast, rounded })
}

/// Bytes of a value that are shown of it.
const SHOWN_BYTES: usize = 100;

/// A value in words, at most so many bytes of it.
pub fn shown(array: &dyn Array, row: usize, bytes_max: usize) -> String {
    let mut text = Shortened { text: String::new(), left: bytes_max };
    let options = FormatOptions::default().with_null("NULL");
    if row < array.len()
        && let Ok(formatter) = ArrayFormatter::try_new(array, &options)
    {
        // That it is full is no error.
        let _ = write!(text, "{}", formatter.value(row));
    }
    text.text
}

/// Takes text until it is full.
struct Shortened {
    text: String,
    left: usize,
}

impl std::fmt::Write for Shortened {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        let end = more.floor_char_boundary(self.left);
        self.text.push_str(&more[..end]);
        self.left -= end;
        if end == more.len() { Ok(()) } else { Err(std::fmt::Error) }
    }
}

/// What the server calls a type.
fn sql_words(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "boolean".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale) => {
            format!("numeric({precision},{scale})")
        }
        DataType::Date32 => "date".into(),
        DataType::Time64(_) => "time".into(),
        DataType::Timestamp(_, None) => "timestamp".into(),
        DataType::Timestamp(_, Some(_)) => "timestamptz".into(),
        DataType::FixedSizeBinary(_) => "uuid".into(),
        DataType::Binary => "bytea".into(),
        DataType::List(item) => format!("{}[]", sql_words(item.data_type())),
        _ => "text".into(),
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Casts; what has no zone is of the wanted one, which is UTC. By its name arrow knows no zone without a
/// table of them, as an offset it does.
fn in_the_zone(
    array: &ArrayRef,
    wanted: &DataType,
    options: &CastOptions<'_>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match by_offset(wanted) {
        Some(offset) => {
            cast_with_options(&cast_with_options(array, &offset, options)?, wanted, options)
        }
        None => match short_decimals(array, wanted) {
            Some(decimals) => Ok(decimals),
            None => cast_with_options(array, wanted, options),
        },
    }
}

/// Decimals of 128 bits rounded to others of 64 with fewer places, where all of them are short enough: a division of 64
/// bits takes a fifth of one of 128. None where some are not, or do not fit.
fn short_decimals(array: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    let (DataType::Decimal128(_, from), DataType::Decimal64(precision, to)) =
        (array.data_type(), wanted)
    else {
        return None;
    };
    let places = u32::try_from(from.checked_sub(*to)?).ok()?;
    let unit = 10_i64.checked_pow(places)?;
    let limit = 10_i64.checked_pow(u32::from(*precision))?;
    let round = |value: i128| {
        let value = i64::try_from(value).map_err(drop)?;
        let (whole, rest) = (value / unit, value % unit);
        // Half and more goes away from zero.
        let up = i64::from(rest.unsigned_abs() >= (unit as u64).div_ceil(2) && unit > 1);
        let rounded = if value < 0 { whole - up } else { whole + up };
        if -limit < rounded && rounded < limit { Ok(rounded) } else { Err(()) }
    };
    let decimals = array.as_primitive::<Decimal128Type>();
    let rounded = decimals.try_unary::<_, Decimal64Type, ()>(round).ok()?;
    rounded.with_precision_and_scale(*precision, *to).ok().map(|array| Arc::new(array) as ArrayRef)
}

/// The same type, moments in UTC by their offset; `None` for types without any.
fn by_offset(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Timestamp(unit, Some(zone)) if **zone == *"UTC" => {
            Some(DataType::Timestamp(*unit, Some("+00:00".into())))
        }
        DataType::List(item) => {
            let inner = by_offset(item.data_type())?;
            Some(DataType::List(Arc::new(item.as_ref().clone().with_data_type(inner))))
        }
        _ => None,
    }
}

/// The first row with a value of which something holds.
fn first_row(array: &ArrayRef, holds: impl Fn(usize) -> bool) -> Option<usize> {
    (0..array.len()).find(|row| array.is_valid(*row) && holds(*row))
}

/// The first row that counts from the server's epoch, 2000-01-01, can't reach, or that is no moment but DuckDB's
/// infinity, the largest number.
fn beyond_the_server(array: &ArrayRef) -> Option<usize> {
    const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;
    const EPOCH_DAYS: i32 = 10_957;
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values();
            first_row(array, |row| {
                values[row] < i64::MIN + EPOCH_MICROSECONDS || values[row] == i64::MAX
            })
        }
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>().values();
            first_row(array, |row| values[row] < i32::MIN + EPOCH_DAYS || values[row] == i32::MAX)
        }
        _ => None,
    }
}

/// The first row that became infinite or nothing in a float of half the width.
fn left_its_range(array: &ArrayRef, cast: &ArrayRef) -> Option<usize> {
    if (array.data_type(), cast.data_type()) != (&DataType::Float64, &DataType::Float32) {
        return None;
    }
    let (wide, narrow) = (array.as_primitive::<Float64Type>(), cast.as_primitive::<Float32Type>());
    first_row(array, |row| {
        let (wide, narrow) = (wide.value(row), narrow.value(row));
        wide.is_finite() && !narrow.is_finite() || wide != 0.0 && narrow == 0.0
    })
}

/// Whether a cast goes through with values that it changes, and COPY would neither round nor cut them
/// in the same way.
fn may_lose(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Dictionary, LargeList, List, Time64, Timestamp};
    let is_fraction = |kind: &DataType| {
        kind.is_floating() || kind.is_decimal() && !matches!(scale(kind), Some(0))
    };
    match (from, to) {
        (Dictionary(_, value), _) => may_lose(value, to),
        (List(from) | LargeList(from), List(to) | LargeList(to)) => {
            may_lose(from.data_type(), to.data_type())
        }
        (Timestamp(TimeUnit::Nanosecond, _), Timestamp(unit, _))
        | (Time64(TimeUnit::Nanosecond), Time64(unit)) => *unit != TimeUnit::Nanosecond,
        (from, to) => is_fraction(from) && to.is_integer() || from.is_numeric() && *to == Boolean,
    }
}

fn scale(decimal: &DataType) -> Option<i8> {
    match decimal {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// Nanoseconds as microseconds, rounded to the nearest one as the server rounds what it reads, where the
/// wanted type has no finer ones; and how many values lost digits by it.
fn in_microseconds(array: &ArrayRef, wanted: &DataType) -> (ArrayRef, u64) {
    let rounded: ArrayRef = match (array.data_type(), wanted) {
        (DataType::Timestamp(TimeUnit::Nanosecond, zone), DataType::Timestamp(unit, _))
            if *unit != TimeUnit::Nanosecond =>
        {
            let array = array.as_primitive::<TimestampNanosecondType>();
            let rounded: PrimitiveArray<TimestampMicrosecondType> = nearest(array);
            return (Arc::new(rounded.with_timezone_opt(zone.clone())), finer(array));
        }
        (DataType::Time64(TimeUnit::Nanosecond), DataType::Time64(unit))
            if *unit != TimeUnit::Nanosecond =>
        {
            let array = array.as_primitive::<Time64NanosecondType>();
            let rounded: PrimitiveArray<Time64MicrosecondType> = nearest(array);
            return (Arc::new(rounded), finer(array));
        }
        (DataType::List(item), DataType::List(wanted)) => {
            let list = array.as_list::<i32>();
            let (values, count) = in_microseconds(list.values(), wanted.data_type());
            if values.data_type() == item.data_type() {
                return (array.clone(), 0);
            }
            let item = Arc::new(item.as_ref().clone().with_data_type(values.data_type().clone()));
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            return (Arc::new(ListArray::new(item, offsets, values, nulls)), count);
        }
        _ => array.clone(),
    };
    (rounded, 0)
}

fn nearest<F, T>(array: &PrimitiveArray<F>) -> PrimitiveArray<T>
where
    F: ArrowPrimitiveType<Native = i64>,
    T: ArrowPrimitiveType<Native = i64>,
{
    array.unary(|nanoseconds| {
        let (whole, rest) = (nanoseconds.div_euclid(1000), nanoseconds.rem_euclid(1000));
        whole + i64::from(rest > 500 || rest == 500 && whole % 2 != 0)
    })
}

/// Values with digits below a microsecond.
fn finer<F: ArrowPrimitiveType<Native = i64>>(array: &PrimitiveArray<F>) -> u64 {
    array.iter().flatten().filter(|nanoseconds| nanoseconds % 1000 != 0).count() as u64
}

/// The field of a list's items.
fn item_of(kind: &DataType) -> Option<&FieldRef> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BooleanArray, Decimal128Array, Float64Array, Int32Array, ListArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };

    use super::*;

    fn cast(array: impl Array + 'static, wanted: &DataType) -> Result<ArrayRef, String> {
        let array: ArrayRef = Arc::new(array);
        exact(&array, wanted).map(|cast| cast.array)
    }

    #[test]
    fn what_is_exact_is_cast() {
        let floats = Float64Array::from(vec![Some(1.0), None, Some(-3.0)]);
        let found = cast(floats, &DataType::Int32).expect("exact");
        assert_eq!(*found, Int32Array::from(vec![Some(1), None, Some(-3)]));
        let decimals = Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(9, 1);
        let found = cast(decimals.expect("fits"), &DataType::Int32).expect("exact");
        assert_eq!(*found, Int32Array::from(vec![Some(15), None]));
        let bits = cast(Int32Array::from(vec![0, 1]), &DataType::Boolean).expect("exact");
        assert_eq!(*bits, BooleanArray::from(vec![false, true]));
    }

    #[test]
    fn short_decimals_are_rounded_as_long_ones_are() {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let numbers = [0, 4, 5, 49, 50, 149, 150, 250, 999_949, 999_950, 12_345_678];
        let signed = numbers.iter().flat_map(|number| [Some(*number), Some(-number), None]);
        let long = Decimal128Array::from(signed.collect::<Vec<Option<i128>>>());
        for (from, precision, to) in [(4, 15, 2), (2, 15, 2), (1, 7, 0), (3, 10, 2), (4, 2, 2)] {
            let long = long.clone().with_precision_and_scale(30, from).expect("fits");
            let long: ArrayRef = Arc::new(long);
            let wanted = DataType::Decimal64(precision, to);
            let short = short_decimals(&long, &wanted);
            match cast_with_options(&long, &wanted, &options) {
                Ok(cast) => assert_eq!(&short.expect("all fit"), &cast),
                Err(_) => assert!(short.is_none()),
            }
        }
        let long = Decimal128Array::from(vec![i128::from(i64::MAX) + 1]);
        let long: ArrayRef = Arc::new(long.with_precision_and_scale(38, 4).expect("fits"));
        assert!(short_decimals(&long, &DataType::Decimal64(18, 2)).is_none());
    }

    #[test]
    fn what_would_change_is_named() {
        let floats = Float64Array::from(vec![Some(1.0), None, Some(1.7)]);
        let error = cast(floats, &DataType::Int32).expect_err("a fraction");
        assert_eq!(error, "1.7 is not exact as integer");
        let decimals = Decimal128Array::from(vec![150, 151]).with_precision_and_scale(9, 1);
        let error = cast(decimals.expect("fits"), &DataType::Int64).expect_err("a fraction");
        assert_eq!(error, "15.1 is not exact as bigint");
        assert!(cast(Int32Array::from(vec![0, 2]), &DataType::Boolean).is_err());
    }

    #[test]
    fn nanoseconds_of_list_items_are_rounded_and_counted() {
        let moments = Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001])) as ArrayRef;
        let item = |kind| Arc::new(arrow_schema::Field::new_list_field(kind, true));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 1]);
        let stored = item(moments.data_type().clone());
        let lists = ListArray::new(stored, offsets, moments, None);
        let wanted = DataType::List(item(DataType::Timestamp(TimeUnit::Microsecond, None)));
        let lists: ArrayRef = Arc::new(lists);
        let found = exact(&lists, &wanted).expect("rounded");
        assert_eq!(found.rounded, 1);
        let moments = TimestampMicrosecondArray::from(vec![1]);
        assert_eq!(*found.array.as_list::<i32>().value(1), moments);
        // As text they keep all of their digits.
        let found = exact(lists.as_list::<i32>().values(), &DataType::Utf8).expect("text");
        assert_eq!(found.rounded, 0);
        assert_eq!(found.array.as_string::<i32>().value(1), "1970-01-01T00:00:00.000001001");
    }

    #[test]
    fn nanoseconds_are_rounded() {
        let stored = [1_499, 1_500, 1_501, 2_500, -1_499, -1_500, -1_501, i64::MIN, i64::MAX];
        let found = cast(
            TimestampNanosecondArray::from(stored.to_vec()).with_timezone("UTC"),
            &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        );
        let micros = [1, 2, 2, 2, -1, -2, -2, -9_223_372_036_854_776, 9_223_372_036_854_776];
        let wanted = TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("UTC");
        assert_eq!(*found.expect("rounded"), wanted);
    }

    #[test]
    fn moments_without_a_zone_are_utc_where_the_session_is() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let wanted = TimestampMicrosecondArray::from(vec![Some(86_400_000_000), None]);
        let wanted = wanted.with_timezone("UTC");
        let moments = TimestampMicrosecondArray::from(vec![Some(86_400_000_000), None]);
        assert_eq!(*cast(moments.clone(), &utc).expect("cast"), wanted);
        let days = arrow_array::Date32Array::from(vec![Some(1), None]);
        assert_eq!(*cast(days, &utc).expect("cast"), wanted);
        // What has a zone stays the moment that it is.
        let elsewhere = moments.clone().with_timezone("Europe/Zurich");
        assert_eq!(*cast(elsewhere, &utc).expect("cast"), wanted);
        let item = |kind| Arc::new(arrow_schema::Field::new_list_field(kind, true));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([2]);
        let stored = item(moments.data_type().clone());
        let lists = ListArray::new(stored, offsets, Arc::new(moments), None);
        let found = cast(lists, &DataType::List(item(utc))).expect("cast");
        assert_eq!(*found.as_list::<i32>().value(0), wanted);
    }

    #[test]
    fn moments_that_the_server_can_not_count_are_out_of_range() {
        let wanted = DataType::Timestamp(TimeUnit::Microsecond, None);
        let early = arrow_array::TimestampMillisecondArray::from(vec![i64::MIN / 1000]);
        assert!(cast(early, &wanted).expect_err("out of range").contains("out of range"));
    }
}
