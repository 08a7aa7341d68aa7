//! Key lookups: rows of another table by their key, held in memory.

use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError, RwLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
    new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::nullif::nullif;
use arrow_select::take::take;
use fullbore_read::cast::shown;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::types::engine_type;
use crate::words::Words;

/// In which form texts of a column of a key are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyForm {
    #[default]
    AsItIs,
    /// Without the blanks that it is padded with: `char(n)`.
    Unpadded,
    /// A UUID, whatever its case and its hyphens.
    Uuid,
}

impl KeyForm {
    /// Texts in this form.
    pub fn of(self, texts: &ArrayRef) -> ArrayRef {
        let Some(given) = texts.as_string_opt::<i32>() else { return Arc::clone(texts) };
        let one = |text: &str| match self {
            Self::AsItIs => text.to_owned(),
            Self::Unpadded => text.trim_end_matches(' ').to_owned(),
            Self::Uuid => uuid(text),
        };
        match self {
            Self::AsItIs => Arc::clone(texts),
            _ => Arc::new(given.iter().map(|text| text.map(one)).collect::<StringArray>()),
        }
    }
}

/// A UUID as PostgreSQL writes it; what is none stays as it is.
fn uuid(text: &str) -> String {
    let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let digits = bare.replace('-', "").to_ascii_lowercase();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return text.to_owned();
    }
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

/// A table that rows are looked up in.
#[derive(Debug)]
pub struct Lookup {
    columns: Vec<(String, ArrayRef)>,
    /// The columns that are its key.
    keys: Vec<usize>,
    /// One for each of them, or none.
    forms: Vec<KeyForm>,
    converter: RowConverter,
    rows: Rows,
    /// The first row of each key; those of the same key follow by `next`.
    first: HashTable<u32>,
    hasher: DefaultHashBuilder,
    versions: Option<Versions>,
    /// The row that stands for a key that is missing.
    default: Option<u32>,
    /// Rows that were added since; they are counted behind the others.
    grown: RwLock<Option<Box<Lookup>>>,
}

/// When each row is valid, and which row of its key follows in time.
#[derive(Debug)]
struct Versions {
    data_type: DataType,
    from: Int64Array,
    to: Int64Array,
    next: Vec<u32>,
}

/// No row follows.
const NONE: u32 = u32::MAX;

impl Lookup {
    /// # Errors
    /// Two rows of one key; with `valid` (the columns from and to), two that are valid at the same time.
    pub fn new(
        columns: Vec<(String, ArrayRef)>,
        keys: Vec<usize>,
        valid: Option<(usize, usize)>,
    ) -> Result<Self, Words> {
        let plain = columns.into_iter().map(|(name, array)| {
            let wanted = engine_type(array.data_type());
            cast(&array, &wanted).map(|array| (name, array))
        });
        let columns = plain.collect::<Result<Vec<_>, _>>()?;
        let key_arrays: Vec<ArrayRef> = keys.iter().map(|key| columns[*key].1.clone()).collect();
        let fields = key_arrays.iter().map(|array| SortField::new(array.data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(|error| error.to_string())?;
        let rows = converter.convert_columns(&key_arrays).map_err(|error| error.to_string())?;
        let count = u32::try_from(rows.num_rows()).map_err(|_| "it has too many rows")?;
        let versions = valid.map(|(from, to)| Versions::new(&columns[from].1, &columns[to].1));
        let mut lookup = Self {
            columns,
            keys,
            forms: Vec::new(),
            converter,
            rows,
            first: HashTable::with_capacity(count as usize),
            hasher: DefaultHashBuilder::default(),
            versions: versions.transpose()?,
            default: None,
            grown: RwLock::new(None),
        };
        for row in 0..count {
            // What has no key is found by none.
            if key_arrays.iter().all(|array| array.is_valid(row as usize)) {
                lookup.add(row)?;
            }
        }
        Ok(lookup)
    }

    fn add(&mut self, row: u32) -> Result<(), Words> {
        let key = self.rows.row(row as usize);
        let hash = self.hasher.hash_one(key.as_ref());
        let is_same = |other: &u32| self.rows.row(*other as usize) == key;
        let Some(first) = self.first.find_mut(hash, is_same) else {
            let (rows, hasher) = (&self.rows, &self.hasher);
            let hash_of = |row: &u32| hasher.hash_one(rows.row(*row as usize).as_ref());
            self.first.insert_unique(hash, row, hash_of);
            return Ok(());
        };
        let words = key_words(&self.columns, &self.keys, row as usize);
        let Some(versions) = &mut self.versions else {
            return Err(format!("its key {words} is there more than once"));
        };
        if !versions.link(first, row) {
            return Err(format!("two rows of its key {words} are valid at the same time"));
        }
        Ok(())
    }

    /// Compares texts of its key in these forms, which its own have already.
    #[must_use]
    pub fn with_forms(self, forms: Vec<KeyForm>) -> Self {
        Self { forms, ..self }
    }

    /// Adds the row that stands for missing keys; one array of one value for each column.
    pub fn with_default(mut self, values: &[ArrayRef]) -> Result<Self, Words> {
        let row = self.rows();
        for ((_, column), value) in self.columns.iter_mut().zip(values) {
            let value = cast(value, column.data_type())?;
            *column = concat(&[column, &value]).map_err(|error| error.to_string())?;
        }
        self.default = Some(u32::try_from(row).map_err(|_| "it has too many rows")?);
        Ok(self)
    }

    /// Rows, that for missing keys included.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, array)| array.len())
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let columns = self.columns.iter().map(|(_, array)| array.get_array_memory_size());
        columns.sum::<usize>() + self.rows.size() + self.first.capacity() * 5
    }

    pub fn columns(&self) -> impl Iterator<Item = (&str, &DataType)> {
        self.columns.iter().map(|(name, array)| (name.as_str(), array.data_type()))
    }

    /// The names of its key's columns.
    pub fn key_names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| self.columns[*key].0.as_str())
    }

    /// Values as those of the `nth` column of its key; NULL where no key can be equal.
    pub fn as_key(&self, nth: usize, values: &ArrayRef) -> Result<ArrayRef, Words> {
        let wanted = self.columns[self.keys[nth]].1.data_type();
        Ok(self.forms.get(nth).copied().unwrap_or_default().of(&exactly(values, wanted)?))
    }

    /// Moments as its versions have them.
    pub fn as_moment(&self, values: &ArrayRef) -> Result<ArrayRef, Words> {
        match &self.versions {
            Some(versions) => cast(values, &versions.data_type),
            None => Ok(Arc::clone(values)),
        }
    }

    /// The row of each key, as of a moment where there are versions; NULL where there is none.
    pub fn find(&self, keys: &[ArrayRef], at: Option<&ArrayRef>) -> Result<UInt32Array, Words> {
        let wanted = self.keys.iter().map(|key| self.columns[*key].1.data_type());
        let keys = keys.iter().zip(wanted).map(|(array, wanted)| cast(array, wanted));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let at = match (&self.versions, at) {
            (Some(versions), Some(at)) => Some(as_ticks(&cast(at, &versions.data_type)?)?),
            _ => None,
        };
        let rows = self.converter.convert_columns(&keys).map_err(|error| error.to_string())?;
        let find = |row: usize| {
            if keys.iter().any(|key| key.is_null(row)) {
                return None;
            }
            let key = rows.row(row);
            let is_it = |other: &u32| self.rows.row(*other as usize).as_ref() == key.as_ref();
            let first = *self.first.find(self.hasher.hash_one(key.as_ref()), is_it)?;
            match (&self.versions, &at) {
                (Some(versions), Some(at)) if at.is_valid(row) => versions.at(first, at.value(row)),
                (Some(_), _) => None,
                (None, _) => Some(first),
            }
        };
        let found = (0..rows.num_rows()).map(|row| find(row).or(self.default));
        Ok(found.collect())
    }

    /// Adds rows with further keys.
    pub fn grow(&self, columns: Vec<(String, ArrayRef)>) -> Result<(), Words> {
        let mut grown = self.grown.write().unwrap_or_else(PoisonError::into_inner);
        let before = grown.take().map(|grown| grown.columns).unwrap_or_default();
        let mut all = Vec::new();
        for (at, (name, array)) in columns.into_iter().enumerate() {
            let array = cast(&array, self.columns[at].1.data_type())?;
            let whole = match before.get(at) {
                Some((_, before)) => concat(&[before, &array]).map_err(|e| e.to_string())?,
                None => array,
            };
            all.push((name, whole));
        }
        *grown = Some(Box::new(Self::new(all, self.keys.clone(), None)?));
        Ok(())
    }

    /// The same as [`Self::find`], with the rows that were added.
    pub fn find_all(&self, keys: &[ArrayRef], at: Option<&ArrayRef>) -> Result<UInt32Array, Words> {
        let found = self.find(keys, at)?;
        let grown = self.grown.read().unwrap_or_else(PoisonError::into_inner);
        let Some(grown) = grown.as_deref().filter(|_| found.null_count() > 0) else {
            return Ok(found);
        };
        let (more, behind) = (grown.find(keys, None)?, self.rows() as u32);
        let of_row = |(row, more): (Option<u32>, Option<u32>)| row.or(more.map(|row| behind + row));
        Ok(found.iter().zip(more.iter()).map(of_row).collect())
    }

    /// What rows have in a column; NULL for no row.
    pub fn taken(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef, Words> {
        let array = &self.columns[column].1;
        let grown = self.grown.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(grown) = grown.as_deref() {
            let nothing = new_null_array(array.data_type(), 1);
            let count = array.len();
            let places: Vec<(usize, usize)> = rows
                .iter()
                .map(|row| match row.map(|row| row as usize) {
                    None => (2, 0),
                    Some(row) if row < count => (0, row),
                    Some(row) => (1, row - count),
                })
                .collect();
            let parts: [&dyn Array; 3] = [array, &grown.columns[column].1, &nothing];
            return interleave(&parts, &places).map_err(|error| error.to_string());
        }
        if array.is_empty() {
            return Ok(new_null_array(array.data_type(), rows.len()));
        }
        take(array, rows, None).map_err(|error| error.to_string())
    }
}

impl Versions {
    fn new(from: &ArrayRef, to: &ArrayRef) -> Result<Self, Words> {
        let data_type = from.data_type().clone();
        let to = cast(to, &data_type)?;
        let next = vec![NONE; from.len()];
        Ok(Self { from: as_ticks(from)?, to: as_ticks(&to)?, next, data_type })
    }

    /// From when a row is valid; always if it has no beginning.
    fn begin(&self, row: u32) -> i64 {
        if self.from.is_null(row as usize) { i64::MIN } else { self.from.value(row as usize) }
    }

    /// Until when a row is valid, itself excluded.
    fn end(&self, row: u32) -> i64 {
        if self.to.is_null(row as usize) { i64::MAX } else { self.to.value(row as usize) }
    }

    /// Puts a row among those of its key, by time; false where another is valid at the same time.
    fn link(&mut self, first: &mut u32, row: u32) -> bool {
        let (mut before, mut after) = (NONE, *first);
        while after != NONE && self.begin(after) < self.begin(row) {
            (before, after) = (after, self.next[after as usize]);
        }
        let begins_after = before == NONE || self.end(before) <= self.begin(row);
        let ends_before = after == NONE || self.end(row) <= self.begin(after);
        self.next[row as usize] = after;
        match before {
            NONE => *first = row,
            before => self.next[before as usize] = row,
        }
        begins_after && ends_before
    }

    fn at(&self, first: u32, moment: i64) -> Option<u32> {
        let mut row = first;
        while row != NONE && self.begin(row) <= moment {
            if moment < self.end(row) {
                return Some(row);
            }
            row = self.next[row as usize];
        }
        None
    }
}

fn cast(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Words> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, wanted, &options).map_err(|error| error.to_string())
}

/// Numbers and moments as another type has them; NULL where it has none that is equal.
fn exactly(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Words> {
    let is_text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    let given = array.data_type();
    if given == wanted || is_text(given) || is_text(wanted) {
        return cast(array, wanted);
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = |array: &ArrayRef, wanted: &DataType| {
        cast_with_options(array, wanted, &options).map_err(|error| error.to_string())
    };
    let there = cast(array, wanted)?;
    let back = cast(&there, given)?;
    if back.as_ref() == array.as_ref() {
        return Ok(there);
    }
    let differs = |row| back.slice(row, 1).as_ref() != array.slice(row, 1).as_ref();
    let mask: BooleanArray = (0..array.len()).map(|row| Some(differs(row))).collect();
    nullif(&there, &mask).map_err(|error| error.to_string())
}

/// Dates, moments and numbers as what is ordered as they are.
fn as_ticks(array: &ArrayRef) -> Result<Int64Array, Words> {
    let whole = match array.data_type() {
        DataType::Date32 => cast(array, &DataType::Int32)?,
        _ => Arc::clone(array),
    };
    match whole.data_type() {
        DataType::Timestamp(..) | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            cast(&whole, &DataType::Int64).map(|array| array.as_primitive::<Int64Type>().clone())
        }
        other => Err(format!(
            "rows can't be valid from a {other}: it must be a date, a timestamp or a whole number"
        )),
    }
}

fn key_words(columns: &[(String, ArrayRef)], keys: &[usize], row: usize) -> String {
    let one = |key: &usize| {
        let (name, array) = &columns[*key];
        format!("{name} = {}", shown(array, row, 60))
    };
    keys.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Rows of which a lookup is made.
pub fn columns_of(batches: &[RecordBatch]) -> Result<Vec<(String, ArrayRef)>, Words> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let names = first.schema();
    let each = names.fields().iter().enumerate().map(|(at, field)| {
        let parts: Vec<&dyn Array> =
            batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        let whole = concat(&parts).map_err(|error| error.to_string())?;
        Ok((field.name().clone(), whole))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Date32Array, Float64Array, Int16Array};

    use super::*;

    fn strings(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn longs(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn rows_are_found_by_keys_of_several_columns() {
        let columns = vec![
            ("a".into(), longs(&[Some(1), Some(1), Some(2), None])),
            ("b".into(), strings(&["x", "y", "x", "x"])),
            ("v".into(), longs(&[Some(10), Some(11), Some(20), Some(30)])),
        ];
        let lookup = Lookup::new(columns, vec![0, 1], None).unwrap();
        let narrow: ArrayRef =
            Arc::new(arrow_array::Int32Array::from(vec![Some(2), Some(1), Some(9), None]));
        let found = lookup.find(&[narrow, strings(&["x", "y", "x", "x"])], None).unwrap();
        assert_eq!(found, UInt32Array::from(vec![Some(2), Some(1), None, None]));
        let taken = lookup.taken(2, &found).unwrap();
        assert_eq!(&taken, &longs(&[Some(20), Some(11), None, None]));
        let again = vec![("a".into(), longs(&[Some(1), Some(2), Some(1)]))];
        let wrong = Lookup::new(again, vec![0], None).unwrap_err();
        assert_eq!(wrong, "its key a = 1 is there more than once");
    }

    #[test]
    fn what_is_not_equal_is_not_found_and_what_is_equal_is_however_it_is_written() {
        let columns = vec![
            ("n".into(), Arc::new(Int16Array::from(vec![1, 2])) as ArrayRef),
            ("c".into(), strings(&["A", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"])),
        ];
        let lookup = Lookup::new(columns, vec![0, 1], None).unwrap();
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(1.0), Some(1.7), Some(4e4), None]));
        let keys = lookup.as_key(0, &floats).unwrap();
        assert_eq!(
            &keys,
            &(Arc::new(Int16Array::from(vec![Some(1), None, None, None])) as ArrayRef)
        );
        let lookup = lookup.with_forms(vec![KeyForm::AsItIs, KeyForm::Unpadded]);
        assert_eq!(&lookup.as_key(1, &strings(&["A  ", " A"])).unwrap(), &strings(&["A", " A"]));
        let lookup = lookup.with_forms(vec![KeyForm::AsItIs, KeyForm::Uuid]);
        let written = strings(&["{A0EEBC99-9C0B4EF8BB6D-6BB9BD380A11}", "A0"]);
        let read = strings(&["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0"]);
        assert_eq!(&lookup.as_key(1, &written).unwrap(), &read);
    }

    #[test]
    fn missing_keys_have_the_default() {
        let columns = vec![("a".into(), longs(&[Some(1)])), ("v".into(), strings(&["one"]))];
        let lookup = Lookup::new(columns, vec![0], None).unwrap();
        let lookup = lookup.with_default(&[longs(&[None]), strings(&["none"])]).unwrap();
        let found = lookup.find(&[longs(&[Some(1), Some(7), None])], None).unwrap();
        assert_eq!(&lookup.taken(1, &found).unwrap(), &strings(&["one", "none", "none"]));
    }

    #[test]
    fn versions_are_those_of_the_moment() {
        let dates =
            |days: &[Option<i32>]| -> ArrayRef { Arc::new(Date32Array::from(days.to_vec())) };
        let columns = |to: &[Option<i32>]| {
            vec![
                ("k".into(), longs(&[Some(1), Some(1), Some(1), Some(2)])),
                ("from".into(), dates(&[Some(20), Some(10), None, Some(5)])),
                ("to".into(), dates(to)),
            ]
        };
        let to = [None, Some(20), Some(10), Some(6)];
        let lookup = Lookup::new(columns(&to), vec![0], Some((1, 2))).unwrap();
        let keys = longs(&[Some(1), Some(1), Some(1), Some(1), Some(2), Some(2), Some(1)]);
        let at = dates(&[Some(9), Some(10), Some(19), Some(99), Some(5), Some(6), None]);
        let found = lookup.find(&[keys], Some(&at)).unwrap();
        let expected = vec![Some(2), Some(1), Some(1), Some(0), Some(3), None, None];
        assert_eq!(found, UInt32Array::from(expected));
        let wrong =
            Lookup::new(columns(&[None, Some(21), Some(10), Some(6)]), vec![0], Some((1, 2)));
        assert!(wrong.unwrap_err().contains("valid at the same time"));
    }
}
