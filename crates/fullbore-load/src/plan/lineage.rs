//! Lineage: columns that say of each row which run loaded it, when, and from which line of which file.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow_schema::{Field, Schema};
use fullbore_parse::Lane;
use fullbore_parse::calendar::civil;
use fullbore_parse::guess::gives_back;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseColumn};
use fullbore_read::SourceFile;
use fullbore_read::cast;
use fullbore_read::columnar::Columnar;
use fullbore_read::error::{Error, Result};
use fullbore_read::percent::decoded;
use fullbore_record::terms::Publish;

use crate::TargetColumn;
use crate::job::TableJob;
use crate::plan::format::Format;
use crate::plan::look::Sources;

/// What a column says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    Run,
    File,
    /// The line at which its record begins, from 1; of a Parquet file the row.
    Line,
    /// When the load, or its resumption, began.
    LoadedAt,
    /// What the folders of its file say: `year=2024/`.
    Folder,
    /// Where it stands among all rows: those of earlier files, and of earlier lines of its own, have less. It never
    /// reaches the target.
    Order,
}

/// The column of a staging table that rows are ordered by.
pub const ORDER_COLUMN: &str = "fullbore_order";
/// How many bits of an order tell places within a file; the others tell the file.
const PLACE_BITS: u32 = 44;

impl Says {
    pub const ALL: [Self; 4] = [Self::Run, Self::File, Self::Line, Self::LoadedAt];

    /// The name of the value in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::File => "file",
            Self::Line => "line",
            Self::LoadedAt => "loaded_at",
            Self::Folder => "folder",
            Self::Order => "order",
        }
    }

    /// The type of a column that is made for it.
    pub fn field_type(self) -> FieldType {
        match self {
            Self::Run | Self::File | Self::Folder => FieldType::text(),
            Self::Line | Self::Order => FieldType::Int64,
            Self::LoadedAt => FieldType::TimestampTz { zoneless_is_utc: true },
        }
    }

    fn fits(self, field_type: Option<&FieldType>) -> bool {
        use FieldType::{Int64, Text, Timestamp, TimestampTz};
        matches!(
            (self, field_type),
            (Self::Run | Self::File, Some(Text { .. }))
                | (Self::Line, Some(Int64))
                | (Self::LoadedAt, Some(TimestampTz { .. } | Timestamp))
        )
    }

    fn types(self) -> &'static str {
        match self {
            Self::Run | Self::File | Self::Folder => "text",
            Self::Line | Self::Order => "bigint",
            Self::LoadedAt => "timestamptz or timestamp",
        }
    }
}

/// A column of a lineage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageColumn {
    pub says: Says,
    pub name: String,
    pub field_type: FieldType,
}

/// The lineage columns of a table: the last ones that are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    pub columns: Vec<LineageColumn>,
    pub run_id: String,
    /// Microseconds since 1970 UTC.
    pub loaded_at: i64,
}

/// `value=column` of the job, read.
pub fn wanted(job: &TableJob) -> Result<Vec<(Says, String)>> {
    let mut wanted: Vec<(Says, String)> = Vec::new();
    for given in &job.lineage {
        let found = given.split_once('=').and_then(|(value, column)| {
            let says = Says::ALL.into_iter().find(|says| says.name() == value)?;
            (!column.is_empty()).then(|| (says, column.to_owned()))
        });
        let Some((says, column)) = found else {
            return Err(Error::usage_with_hint(
                format!("--lineage {given}: no such value"),
                "write --lineage run=COLUMN,file=COLUMN,line=COLUMN,loaded_at=COLUMN, or some of them",
            ));
        };
        if wanted.iter().any(|(known, name)| *known == says || *name == column) {
            return Err(Error::usage_with_hint(
                format!("--lineage {given}: its value or its column is named twice"),
                "each value goes into a column of its own",
            ));
        }
        wanted.push((says, column));
    }
    Ok(wanted)
}

/// What a folder without a value is called.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// The keys and values in the folders of a path: `year=2024/month=01/`.
fn keys_of(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders
        .split('/')
        .filter_map(|folder| folder.split_once('='))
        .filter(|(key, _)| !key.is_empty())
}

/// The value that a path has for a column; none where it is NULL.
fn folder_value(path: &str, column: &str) -> Option<String> {
    let (_, value) = keys_of(path).filter(|(key, _)| key.eq_ignore_ascii_case(column)).last()?;
    (value != NO_VALUE).then(|| decoded(value))
}

/// The columns that the folders of Parquet files stand for, which the files lack, and what type all of
/// their values have.
pub fn folders(sources: &Sources) -> Result<Vec<(String, FieldType)>> {
    if sources.format != Format::Columnar(Columnar::Parquet) {
        return Ok(Vec::new());
    }
    let told: Vec<String> = sources.files.iter().map(|file| file.told()).collect();
    let keys =
        |path: &str| -> Vec<String> { keys_of(path).map(|(key, _)| key.to_owned()).collect() };
    let first = told.first().map(|path| keys(path)).unwrap_or_default();
    if let Some(other) = told.iter().find(|path| keys(path) != first) {
        return Err(Error::usage_with_hint(
            format!(
                "{other}: its folders have keys {:?}, those of {} {first:?}",
                keys(other),
                told[0]
            ),
            "load files of one layout at a time",
        ));
    }
    let names = sources.names.as_deref().unwrap_or_default();
    let lacks = |key: &String| !names.iter().any(|name| name.eq_ignore_ascii_case(key));
    let typed = first.into_iter().filter(lacks).map(|key| {
        let values: Vec<String> = told.iter().filter_map(|path| folder_value(path, &key)).collect();
        let known = [FieldType::Int64, FieldType::Date];
        let all = |kind: &FieldType| values.iter().all(|value| gives_back(kind, value.as_bytes()));
        let found = known.into_iter().find(|kind| !values.is_empty() && all(kind));
        (key, found.unwrap_or_else(FieldType::text))
    });
    Ok(typed.collect())
}

/// The columns of the target that the folders of its files fill; what is left out is noted.
pub fn of_folders(
    job: &TableJob,
    sources: &Sources,
    target: &[TargetColumn],
    notes: &mut Vec<String>,
) -> Result<Vec<LineageColumn>> {
    let mut columns = Vec::new();
    for (key, _) in folders(sources)? {
        let found = target.iter().find(|column| column.name.eq_ignore_ascii_case(&key));
        let is_listed = job.columns.as_ref().is_some_and(|listed| listed.contains(&key));
        let Some(column) = found.filter(|column| !column.is_generated && !is_listed) else {
            notes.push(format!("the folder key {key} is not a column of the table and is ignored"));
            continue;
        };
        let Some(field_type) = column.field_type.clone() else {
            return Err(Error::usage_with_hint(
                format!(
                    "column {:?} is {}: folder names can't fill it",
                    column.name, column.type_name
                ),
                "change its type to text, or to one such as bigint or date",
            ));
        };
        for file in &sources.files {
            let value = folder_value(&file.told(), &column.name);
            if one_value(&field_type, value.as_deref()).is_none() {
                return Err(Error::usage_with_hint(
                    format!(
                        "{}: {key}={} is not a valid value of column {:?} ({})",
                        file.path.display(),
                        value.unwrap_or_default(),
                        column.name,
                        column.type_name
                    ),
                    "change the column's type to text, or rename the folder",
                ));
            }
        }
        notes.push(format!("column {} is filled from folder names ({key}=...)", column.name));
        columns.push(LineageColumn { says: Says::Folder, name: column.name.clone(), field_type });
    }
    Ok(columns)
}

/// A value as an array of one; `None` where it is not written as its type has it.
fn one_value(field_type: &FieldType, value: Option<&str>) -> Option<ArrayRef> {
    cast::as_fields([value].into_iter(), field_type)
}

/// The columns among those of the target.
pub fn columns(job: &TableJob, target: &[TargetColumn]) -> Result<Vec<LineageColumn>> {
    let table = job.name.as_deref().unwrap_or("the table");
    wanted(job)?
        .into_iter()
        .map(|(says, name)| {
            let option = format!("--lineage {}={name}", says.name());
            let found = target.iter().find(|column| column.name == name);
            let Some(column) = found.filter(|column| !column.is_generated) else {
                return Err(Error::usage_with_hint(
                    format!("{option}: {table} has no such column to load"),
                    format!(
                        "ALTER TABLE {table} ADD \"{name}\" {}, or create the table with --create",
                        says.types()
                    ),
                ));
            };
            if !says.fits(column.field_type.as_ref()) {
                return Err(Error::usage_with_hint(
                    format!("{option}: column {name:?} is {}", column.type_name),
                    format!("it must be {}", says.types()),
                ));
            }
            let field_type = column.field_type.clone().expect("it was looked at");
            Ok(LineageColumn { says, name, field_type })
        })
        .collect()
}

/// Where the rows of a batch stood.
pub struct Places<'a> {
    pub file: &'a str,
    /// Lines, or rows, from 1.
    pub lines: &'a [u64],
    pub anchor: Anchor,
}

/// Where lines are counted from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anchor {
    /// The number of their file.
    pub file: usize,
    /// A line, and the byte of the file that it begins at. Whatever counts the lines of a block, no two of its rows
    /// begin at the same one, and a later one has a later byte.
    pub line: u64,
    pub offset: u64,
}

impl Anchor {
    /// Where a row stands among all.
    fn order(self, line: u64) -> i64 {
        let place = self.offset + line.saturating_sub(self.line);
        ((self.file as i64) << PLACE_BITS) | (place as i64 & ((1 << PLACE_BITS) - 1))
    }
}

/// The column that tells the order of rows, for jobs that need it; refused where there are more files than it can
/// tell, or longer ones.
pub fn order(job: &TableJob, sources: &Sources) -> Result<Option<LineageColumn>> {
    if job.publish != Publish::Upsert {
        return Ok(None);
    }
    let is_long = |file: &Arc<SourceFile>| file.is_seekable() && file.end() >> PLACE_BITS > 0;
    if sources.files.len() >> (63 - PLACE_BITS) > 0 || sources.files.iter().any(is_long) {
        return Err(Error::usage_with_hint(
            "--publish upsert can't tell the order of so many files, or of a file of 16 TiB",
            "load the files with several commands",
        ));
    }
    let (says, name) = (Says::Order, ORDER_COLUMN.to_owned());
    Ok(Some(LineageColumn { says, name, field_type: says.field_type() }))
}

impl LineageColumn {
    /// The column as it is sent; no field of the files stands behind it.
    pub fn sent(&self, typed: bool) -> ParseColumn {
        let field_type = if typed { self.field_type.clone() } else { FieldType::text() };
        ParseColumn { name: self.name.clone(), field: usize::MAX, field_type, guess: None }
    }
}

impl Lineage {
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether the lines of rows are asked for.
    pub fn has_lines(&self) -> bool {
        self.columns.iter().any(|column| column.says == Says::Line)
    }

    /// A batch with the lineage of its rows.
    pub fn extend(
        &self,
        batch: &RecordBatch,
        lane: Lane,
        places: &Places<'_>,
    ) -> Result<RecordBatch> {
        if self.is_empty() {
            return Ok(batch.clone());
        }
        let rows = batch.num_rows();
        let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
        let mut arrays = batch.columns().to_vec();
        for LineageColumn { says, name, field_type } in &self.columns {
            let array: ArrayRef = match (lane, says, field_type) {
                (Lane::Binary, Says::Folder, field_type) => {
                    let value = folder_value(places.file, name);
                    let one = one_value(field_type, value.as_deref())
                        .ok_or_else(|| Error::usage(format!("{name} can't be {value:?}")))?;
                    let same = UInt32Array::from_value(0, rows);
                    arrow_select::take::take(&one, &same, None)
                        .map_err(|error| Error::usage(format!("{name}: {error}")))?
                }
                (Lane::Text, ..) | (_, Says::Run | Says::File, _) => {
                    let texts = places.lines.iter();
                    let texts = texts
                        .map(|line| self.text(*says, name, (places.file, places.anchor), *line));
                    Arc::new(StringArray::from_iter(texts))
                }
                (_, Says::Line, _) => {
                    let lines = places.lines.iter().map(|line| *line as i64);
                    Arc::new(Int64Array::from_iter_values(lines))
                }
                (_, Says::Order, _) => {
                    let orders = places.lines.iter().map(|line| places.anchor.order(*line));
                    Arc::new(Int64Array::from_iter_values(orders))
                }
                (_, Says::LoadedAt, field_type) => {
                    let times = TimestampMicrosecondArray::from_value(self.loaded_at, rows);
                    match field_type {
                        FieldType::Timestamp => Arc::new(times),
                        _ => Arc::new(times.with_timezone("UTC")),
                    }
                }
            };
            fields.push(Arc::new(Field::new(name, array.data_type().clone(), true)));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|error| Error::usage(format!("lineage could not be added: {error}")))
    }

    /// Adds its lineage to a row of COPY text.
    pub fn extend_line(&self, line: &mut Vec<u8>, place: (&str, Anchor), number: u64) {
        if self.is_empty() {
            return;
        }
        line.pop();
        for column in &self.columns {
            line.push(b'\t');
            match self.text(column.says, &column.name, place, number) {
                Some(text) => write_copy_text(text.as_bytes(), line),
                None => line.extend_from_slice(b"\\N"),
            }
        }
        line.push(b'\n');
    }

    /// A line of COPY text as it was before it got its lineage.
    pub fn stripped(&self, line: &[u8]) -> Vec<u8> {
        let mut end = line.strip_suffix(b"\n").unwrap_or(line).len();
        for _ in &self.columns {
            // A tab inside of a value is escaped.
            end = memchr::memrchr(b'\t', &line[..end]).unwrap_or(end);
        }
        [&line[..end], b"\n"].concat()
    }

    fn text(
        &self,
        says: Says,
        column: &str,
        (file, anchor): (&str, Anchor),
        line: u64,
    ) -> Option<String> {
        match says {
            Says::Run => Some(self.run_id.clone()),
            Says::File => Some(file.to_owned()),
            Says::Line => Some(line.to_string()),
            Says::LoadedAt => Some(iso(self.loaded_at)),
            Says::Folder => folder_value(file, column),
            Says::Order => Some(anchor.order(line).to_string()),
        }
    }
}

/// Microseconds since 1970 as `2026-11-21 17:45:00.000001+00`; a type without a zone ignores it.
fn iso(microseconds: i64) -> String {
    let (days, of_day) =
        (microseconds.div_euclid(86_400_000_000), microseconds.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{fraction:06}+00",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn moments_are_written_as_the_server_reads_them() {
        assert_eq!(iso(0), "1970-01-01 00:00:00.000000+00");
        assert_eq!(iso(951_782_399_999_999), "2000-02-28 23:59:59.999999+00");
        assert_eq!(iso(951_868_800_000_000), "2000-03-01 00:00:00.000000+00");
        assert_eq!(iso(1_795_283_100_000_001), "2026-11-21 17:45:00.000001+00");
        assert_eq!(iso(-1), "1969-12-31 23:59:59.999999+00");
    }

    #[test]
    fn folders_are_read_as_hive_writes_them() {
        let path = "/data/x=1/day=2024-01-02/at=10%3A00/z=__HIVE_DEFAULT_PARTITION__/a=b.parquet";
        assert_eq!(folder_value(path, "day").as_deref(), Some("2024-01-02"));
        assert_eq!(folder_value(path, "AT").as_deref(), Some("10:00"));
        assert_eq!(folder_value(path, "z"), None);
        assert_eq!(folder_value(path, "a"), None, "that is the file itself");
        assert!(one_value(&FieldType::Date, Some("2024-01-02")).is_some());
        assert!(one_value(&FieldType::Int64, Some("2024-01-02")).is_none());
        assert_eq!(one_value(&FieldType::Int64, None).map(|one| one.null_count()), Some(1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let job = |given: &[&str]| TableJob {
            lineage: given.iter().map(|given| (*given).to_owned()).collect(),
            ..TableJob::default()
        };
        assert_eq!(
            wanted(&job(&["run=r", "line=l"])).unwrap(),
            [(Says::Run, "r".into()), (Says::Line, "l".into())]
        );
        for wrong in
            [&["when=w"][..], &["run"], &["run="], &["run=a", "run=b"], &["run=a", "file=a"]]
        {
            assert!(wanted(&job(wrong)).unwrap_err().hint().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn a_line_of_text_gets_its_lineage() {
        let column = |says: Says| LineageColumn {
            says,
            name: says.name().into(),
            field_type: says.field_type(),
        };
        let columns = Says::ALL.map(column).to_vec();
        let lineage = Lineage { columns, run_id: "ab".into(), loaded_at: 0 };
        let mut line = b"1\tx\n".to_vec();
        lineage.extend_line(&mut line, ("a\tb.csv", Anchor::default()), 7);
        let expected = "1\tx\tab\ta\\tb.csv\t7\t1970-01-01 00:00:00.000000+00\n";
        assert_eq!(lineage.stripped(&line), b"1\tx\n");
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
