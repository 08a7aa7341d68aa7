//! What is kept of a plan so that its run can be resumed: how the sources were cut, and what they
//! and their reading were.
//!
//! Only the cuts are taken over from a record. Everything else is planned again from the job, and
//! must come out as it was recorded: a file of another size or time, or one that would be read
//! otherwise, has other rows at the same places.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_read::content::Content;
use fullbore_read::discover::absolute;
use fullbore_read::error::{Error, Result};
use fullbore_read::{FileRange, SourceFile};
use fullbore_record::terms::Method;
use serde::{Deserialize, Serialize};

use super::{Format, PieceInput, Plan, PlannedPiece, TablePlan};

/// What is kept of one table's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTable {
    pub name: String,
    pub method: Method,
    pub files: Vec<RecordedFile>,
    /// How records become columns, in words that differ where it does.
    pub reading: String,
    /// Options that decide more than the rest of this tells. Runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<BTreeMap<String, String>>,
}

/// What is kept of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    pub path: String,
    pub size: u64,
    /// Nanoseconds since 1970, as text: JSON's numbers are shorter.
    pub modified_ns: String,
    /// The same of its last change of any kind. Runs of older versions have none, nor the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_ns: Option<String>,
    /// Of an object, its ETag: what tells its contents from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// What lineage and rejects call it, where that is not the path: it may have been given from a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The path without links, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// The checksums of the contents, where they were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
}

/// What is kept of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    pub run_id: String,
    pub tables: Vec<RecordedTable>,
    pub pieces: Vec<PlannedPiece>,
    /// Its rows are shown: it can't be closed any more. The ledger says it apart.
    #[serde(skip)]
    pub is_shown: bool,
}

impl RecordedTable {
    pub fn of(table: &TablePlan) -> Self {
        Self {
            name: table.name.clone(),
            method: table.method,
            files: table.files.iter().map(|file| RecordedFile::of(file)).collect(),
            reading: reading(table),
            asked: Some(table.asked.clone()),
        }
    }
}

impl RecordedFile {
    pub fn of(file: &SourceFile) -> Self {
        let path = absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        let canonical = match &file.object {
            Some(_) => None,
            None => std::fs::canonicalize(&path).ok(),
        };
        let canonical = canonical.filter(|canonical| *canonical != path);
        let path = path.display().to_string();
        Self {
            canonical: canonical.map(|canonical| canonical.display().to_string()),
            content: file.content.clone(),
            etag: file.object.as_ref().and_then(|object| object.etag().map(str::to_owned)),
            told: Some(file.told()).filter(|told| *told != path),
            path,
            size: file.size,
            modified_ns: file.modified_ns.to_string(),
            changed_ns: Some(file.changed_ns.to_string()),
        }
    }

    /// The path without links.
    fn canonical(&self) -> &str {
        self.canonical.as_ref().unwrap_or(&self.path)
    }

    /// Whether it is the same file, however its path is written.
    pub fn is_at(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }

    /// How another state of the file differs from this one.
    pub fn difference(&self, now: &Self) -> Option<String> {
        Some(if now.size != self.size {
            format!("{} had {} bytes, now {}", self.path, self.size, now.size)
        } else if self.etag.is_some() && now.etag != self.etag {
            format!("{} was replaced since (its ETag differs)", self.path)
        } else if self.etag.is_none() && now.modified_ns != self.modified_ns {
            format!("{} was modified since (its modification time differs)", self.path)
        } else {
            return None;
        })
    }
}

/// Dialect, fields and columns, as text.
fn reading(table: &TablePlan) -> String {
    let format = match &table.format {
        Format::Columnar(kind) => kind.name().to_owned(),
        Format::Delimited(dialect) => {
            serde_json::to_string(dialect).expect("plain data becomes JSON")
        }
    };
    let columns: Vec<String> = table
        .shape
        .columns
        .iter()
        .map(|column| format!("{}<-{}", column.name, column.field))
        .collect();
    let encoding = table.files.first().and_then(|file| file.encoding).map_or("", |e| e.name());
    format!("{format} {encoding} {} fields: {}", table.shape.fields, columns.join(", "))
}

/// A reading without its dialect, which stands before the rest where there is one.
fn split_reading(reading: &str) -> (serde_json::Map<String, serde_json::Value>, &str) {
    let mut values = serde_json::Deserializer::from_str(reading).into_iter();
    match values.next() {
        Some(Ok(serde_json::Value::Object(dialect))) => {
            let rest = reading.get(values.byte_offset()..).unwrap_or_default();
            (dialect, rest)
        }
        _ => (serde_json::Map::new(), reading),
    }
}

/// A value of a dialect, bytes as text.
fn shown(key: &str, value: &serde_json::Value) -> String {
    let byte = |value: &serde_json::Value| value.as_u64().and_then(|n| u8::try_from(n).ok());
    let is_byte = ["delimiter", "quote", "escape", "comment"].contains(&key);
    let bytes: Option<Vec<u8>> = match value {
        serde_json::Value::Array(items) => items.iter().map(byte).collect(),
        other if is_byte => byte(other).map(|byte| vec![byte]),
        _ => None,
    };
    match bytes {
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes)),
        None => value.to_string(),
    }
}

/// How two readings differ, item by item.
fn reading_differences(then: &str, now: &str) -> Vec<String> {
    let ((then, then_rest), (now, now_rest)) = (split_reading(then), split_reading(now));
    let none = serde_json::Value::Null;
    let mut keys: Vec<&String> = then.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    let value = |of: &serde_json::Map<_, _>, key: &String| of.get(key).unwrap_or(&none).clone();
    let mut differences: Vec<String> = keys
        .into_iter()
        .map(|key| (key, value(&then, key), value(&now, key)))
        .filter(|(_, then, now)| then != now)
        .map(|(key, then, now)| {
            let (then, now) = (shown(key, &then), shown(key, &now));
            format!("{} was {then}, is {now}", key.replace('_', " "))
        })
        .collect();
    if then_rest != now_rest {
        differences.push(format!("columns were {}, are {}", then_rest.trim(), now_rest.trim()));
    }
    differences
}

impl Recorded {
    pub fn of(plan: &Plan) -> Self {
        Self {
            run_id: plan.run_id.clone(),
            tables: plan.tables.iter().map(RecordedTable::of).collect(),
            pieces: plan.pieces.clone(),
            is_shown: false,
        }
    }

    /// How a table's sources, as they are now, differ from those that were recorded.
    pub fn source_change(&self, table: usize, now: &[RecordedFile]) -> Option<String> {
        let Some(recorded) = self.tables.get(table) else {
            return Some("the job has more tables".into());
        };
        let changed = recorded.files.iter().zip(now).find_map(|(then, now)| {
            if then.is_at(now) {
                then.difference(now)
            } else {
                Some(format!("{} takes the place of {}", now.path, then.path))
            }
        });
        let count = || {
            let (then, now) = (recorded.files.len(), now.len());
            (then != now).then(|| format!("there were {then} files, now there are {now}"))
        };
        // A file more or less is told before the shift that it causes.
        count().or(changed)
    }

    /// Has the files of a table, planned anew and found to be the same, called in lineage and rejects as
    /// they were: a run's rows must be known again by what stands in them. And notes those that may have
    /// another content all the same.
    ///
    /// A file's change time tells more than its modification time, which can be set back. But it changes
    /// with a file's owner, permissions, name and links too, with a copy that is put in its place, and with
    /// the server that it is mounted from. So it is no reason to refuse a run that may be hours old, where
    /// all of its rows can be compared with the files afterwards.
    pub fn go_on_with(&self, number: usize, table: &mut TablePlan) {
        let Some(recorded) = self.tables.get(number) else { return };
        let mut touched = Vec::new();
        for (file, then) in table.files.iter_mut().zip(&recorded.files) {
            let now = RecordedFile::of(file);
            if then.changed_ns.is_some() && then.changed_ns != now.changed_ns {
                touched.push(file.told());
            }
            let told = then.told.as_ref().unwrap_or(&then.path);
            if file.told() != *told {
                Arc::make_mut(file).told = Some(told.clone());
            }
        }
        let Some(first) = touched.first() else { return };
        let more = match touched.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        table.notes.push(format!(
            "{first}{more}: touched or replaced since the run began, though size and modification \
             time are the same; if the content may differ, compare it with the loaded rows: \
             `fullbore runs verify {} --against`",
            self.run_id
        ));
    }

    /// Refuses where a table, planned anew, does not come out as it was recorded.
    pub fn check(&self, number: usize, table: &TablePlan) -> Result<()> {
        let now = RecordedTable::of(table);
        if let Some(change) = self.source_change(number, &now.files) {
            return Err(self.refusal(&format!("its sources changed: {change}")));
        }
        let then = &self.tables[number];
        if then.reading != now.reading {
            let differences = reading_differences(&then.reading, &now.reading).join("; ");
            return Err(self.refusal(&format!(
                "the files of {} would be read differently than before: {differences}",
                now.name
            )));
        }
        self.check_cuts(number, table)
    }

    /// Refuses cuts that leave out or repeat bytes of a file: a record that was tampered with.
    fn check_cuts(&self, number: usize, table: &TablePlan) -> Result<()> {
        let mut ranges: Vec<&FileRange> = Vec::new();
        let mut streamed = Vec::new();
        for piece in self.pieces.iter().filter(|piece| piece.table == number) {
            match &piece.input {
                PieceInput::Ranges(more) | PieceInput::Rows(more) => ranges.extend(more),
                PieceInput::Stream { file } => streamed.push(*file),
            }
        }
        ranges.sort_by_key(|range| (range.file, range.start));
        for (file, source) in table.files.iter().enumerate() {
            let mut at = if table.format.is_columnar() { 0 } else { source.data_start };
            let mut its = ranges.iter().filter(|range| range.file == file).peekable();
            let is_streamed = streamed.contains(&file);
            let is_cut = its.peek().is_some();
            let unbroken = its.all(|range| {
                let follows = range.start == at && range.end > range.start;
                at = range.end;
                follows
            });
            // How many rows a Parquet file has, and how long a packed one is, is not known here.
            let is_whole = at == source.end() || !source.is_seekable() || is_cut && at == u64::MAX;
            let is_empty = source.end() <= source.data_start;
            if !unbroken || is_streamed && is_cut || !is_streamed && !is_whole && !is_empty {
                return Err(self.refusal(&format!(
                    "its recorded pieces don't cover {} exactly once",
                    source.path.display()
                )));
            }
        }
        Ok(())
    }

    /// The refusal to go on with the run.
    pub fn refusal(&self, why: &str) -> Error {
        let run = &self.run_id;
        let resumes =
            format!("resume with the run's original options (`fullbore runs resume {run}`)");
        let ways = match self.is_shown {
            true => format!("undo that change, or {resumes}"),
            false => format!(
                "undo that change, {resumes}, or close it with `fullbore runs abort {run}` and load again"
            ),
        };
        Error::usage_with_hint(format!("run {run} can't be resumed: {why}"), ways)
    }
}

/// Keys as text, since JSON's numbers are shorter.
pub mod key {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::plan::keys::Key;

    pub fn serialize<S: Serializer>(key: &Option<Key>, to: S) -> Result<S::Ok, S::Error> {
        match key {
            Some(key) => to.serialize_some(&key.to_string()),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Key>, D::Error> {
        let text: Option<String> = Deserialize::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}
