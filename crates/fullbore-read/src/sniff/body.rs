//! The contents of a table's columns in the samples, to compare with a header, a footer or a unit.

use std::borrow::Cow;
use std::collections::HashSet;

use super::cut::{Cuts, Row};
use super::kind::Kind;

/// Rows of each text by which it is known what the columns hold.
const ROWS_MAX: usize = 500;
/// Values of a column that are kept.
const VALUES_MAX: usize = 500;

/// What the samples of one column hold.
#[derive(Debug, Default)]
pub struct Column<'a> {
    /// Values that are given, the first of them.
    pub values: Vec<Cow<'a, [u8]>>,
    pub empty: usize,
    pub null_words: usize,
    kinds: [usize; 10],
    pub quoted: usize,
}

impl<'a> Column<'a> {
    fn take(&mut self, value: Cow<'a, [u8]>, is_quoted: bool) {
        let kind = Kind::of(&value);
        self.kinds[kind as usize] += 1;
        self.quoted += usize::from(is_quoted);
        match kind {
            Kind::Empty => self.empty += 1,
            Kind::NullWord => self.null_words += 1,
            _ if self.values.len() < VALUES_MAX => self.values.push(value),
            _ => {}
        }
    }

    /// How many cells are given.
    pub fn given(&self) -> usize {
        self.kinds.iter().sum::<usize>() - self.empty - self.null_words
    }

    /// Whether its values name the rows, as R writes these: all in quotes, and none twice.
    pub fn names_rows(&self) -> bool {
        let distinct: HashSet<&[u8]> = self.values.iter().map(AsRef::as_ref).collect();
        self.values.len() > 1
            && self.empty + self.null_words == 0
            && self.quoted == self.given()
            && distinct.len() == self.values.len()
    }

    /// How many cells are of a kind.
    pub fn of_kind(&self, kind: Kind) -> usize {
        self.kinds[kind as usize]
    }

    /// The kind of values it holds, if nearly all given cells are of one.
    pub fn kind(&self) -> Option<Kind> {
        use Kind::{Boolean, Date, LocalDate, LocalNumber, Number, Time, Uuid};
        let given = self.given();
        let numbers = self.of_kind(Number) + self.of_kind(LocalNumber);
        let dates = self.of_kind(Date) + self.of_kind(LocalDate);
        let found = [
            (Number, numbers),
            (Date, dates),
            (Boolean, self.of_kind(Boolean)),
            (Time, self.of_kind(Time)),
            (Uuid, self.of_kind(Uuid)),
        ];
        let found = found.into_iter().find(|(_, count)| given > 0 && count * 10 >= given * 8);
        found.map(|(kind, _)| kind)
    }
}

/// The columns of a table's records.
#[derive(Debug, Default)]
pub struct Body<'a> {
    pub columns: Vec<Column<'a>>,
    /// Records that were looked at.
    pub rows: usize,
    /// How many of their cells are not empty, sorted.
    filled: Vec<usize>,
}

impl<'a> Body<'a> {
    pub fn new(width: usize) -> Self {
        Self { columns: (0..width).map(|_| Column::default()).collect(), ..Self::default() }
    }

    /// Takes a record, if it is as wide as all.
    fn take(&mut self, cuts: &Cuts<'a>, row: &Row) {
        if row.width() != self.columns.len() {
            return;
        }
        let mut filled = 0;
        for (column, cell) in self.columns.iter_mut().zip(cuts.cells(row)) {
            let value = cuts.value(cell);
            filled += usize::from(!value.trim_ascii().is_empty());
            column.take(value, cell.is_quoted);
        }
        self.rows += 1;
        let at = self.filled.partition_point(|other| *other <= filled);
        self.filled.insert(at, filled);
    }

    /// Takes the first records of a text, as many as are needed.
    pub fn take_first<'r>(&mut self, cuts: &Cuts<'a>, rows: impl IntoIterator<Item = &'r Row>) {
        for row in rows.into_iter().take(ROWS_MAX) {
            self.take(cuts, row);
        }
    }

    /// Cells that half of the records have at least.
    pub fn filled_median(&self) -> usize {
        self.filled.get(self.filled.len() / 2).copied().unwrap_or(0)
    }

    /// Cells that nearly all records have at least.
    pub fn filled_least(&self) -> usize {
        self.filled.get(self.filled.len() / 50).copied().unwrap_or(0)
    }

    /// Columns of values, by place.
    pub fn typed(&self) -> impl Iterator<Item = (usize, Kind)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(place, column)| column.kind().map(|kind| (place, kind)))
    }
}

/// Whether a value is of the kind that a column holds.
pub fn is_of(kind: Kind, value: &[u8]) -> bool {
    let found = Kind::of(value);
    match kind {
        Kind::Number => matches!(found, Kind::Number | Kind::LocalNumber),
        Kind::Date => matches!(found, Kind::Date | Kind::LocalDate),
        kind => found == kind,
    }
}
