//! A transform of batches: rows are filtered, checked, and get their computed columns; each row that fails is reported.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter;
use fullbore_parse::Lane;
use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_parse::sql_types;
use fullbore_parse::types::{FieldType, ParseShape};
use fullbore_read::bad_rows::bad_rows;
use fullbore_read::cast::shown;
use fullbore_read::error::Result;
use fullbore_transform::{Compiler, Expression, assign};

use super::asked::{Asked, Computed, Filter};
use super::found::UsedLookup;
use super::inputs::Input;
use super::work::{Of, Rows, Work, broken};
use crate::plan::applied::{Applied, Failed};

/// What is made of the rows of a table.
pub struct Transform {
    pub(super) of_fields: Compiler,
    pub(super) compiler: Compiler,
    /// What the sources are read into: the columns that are sent as they are read, then the inputs.
    typed: Arc<ParseShape>,
    text: Arc<ParseShape>,
    pub(super) inputs: Vec<Input>,
    pub(super) lookups: Vec<UsedLookup>,
    pub(super) looked_up: Vec<(usize, usize)>,
    pub computed: Vec<Computed>,
    pub(super) filter: Option<Filter>,
    checks: Vec<(String, String, Expression)>,
}

const AS_TEXT: &str = "--field-type FIELD=text reads a field as it is written, for an expression that casts it; or correct \
     the rows in the source (the reject file lists them), or allow more with --max-rejects N or P%";

impl std::fmt::Debug for Transform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transform").field("computed", &self.computed).finish_non_exhaustive()
    }
}

impl Transform {
    pub fn new(asked: Asked, typed: Arc<ParseShape>, text: Arc<ParseShape>) -> Self {
        let Asked { of_fields, compiler, inputs, lookups, looked_up, .. } = asked;
        let Asked { computed, filter, checks, .. } = asked;
        Self {
            of_fields,
            compiler,
            typed,
            text,
            inputs,
            lookups,
            looked_up,
            computed,
            filter,
            checks,
        }
    }

    /// What the sources are read into.
    pub fn shape(&self, lane: Lane) -> &Arc<ParseShape> {
        match lane {
            Lane::Binary => &self.typed,
            Lane::Text => &self.text,
        }
    }

    /// The expression of a computed column.
    pub fn expression(&self, column: &str) -> Option<&str> {
        let found = self.computed.iter().find(|computed| computed.name == column);
        found.map(|computed| computed.sql.as_str())
    }

    /// What is done beside computing columns, in words.
    pub fn conditions(&self) -> Vec<String> {
        let lookups = self.lookups.iter().map(UsedLookup::words);
        let filter = self.filter.iter().map(|filter| format!("only rows where {}", filter.sql));
        let checks = self.checks.iter();
        let checks = checks.map(|(name, sql, _)| format!("check {name}: {sql}"));
        lookups.chain(filter).chain(checks).collect()
    }

    /// Makes what is sent of what was read in a lane.
    pub fn apply(&self, batch: &RecordBatch, lane: Lane) -> Result<Applied> {
        let (sent, inputs) = batch.columns().split_at(batch.num_columns() - self.inputs.len());
        let mut rows = Rows::new(batch.num_rows());
        let inputs = match lane {
            Lane::Binary => inputs.to_vec(),
            Lane::Text => self.read_as_text(inputs, &mut rows),
        };
        let frame = self.of_fields.frame(&inputs, batch.num_rows()).map_err(broken)?;
        let mut work = Work { transform: self, inputs: &inputs, frame, rows, done: Vec::new() };
        work.leave_out_failed()?;
        let mut filtered = work.filter(true)?;
        if !self.lookups.is_empty() {
            work.look_up()?;
        }
        filtered += work.filter(false)?;
        for computed in &self.computed {
            let of = Of::Column(&computed.name, &computed.sql);
            let array = work.value(&computed.expression, &of, &|frame| {
                let value = computed.expression.evaluate(frame)?;
                match (lane, &computed.field_type) {
                    (Lane::Binary, Some(wanted)) => assign::assigned(&value, wanted),
                    (_, wanted) => assign::as_text(&value, wanted.as_ref()),
                }
            })?;
            work.done.push(array);
        }
        // Last, so that what has no value is told by its column.
        for (name, sql, condition) in &self.checks {
            let of = Of::Check(name, sql);
            let mask = work.value(condition, &of, &|frame| condition.evaluate(frame))?;
            work.reject_where_false(&mask, &of, condition)?;
        }
        let Work { mut rows, done, .. } = work;
        rows.failed.sort_by_key(|failed| failed.row);
        let sent = match &rows.kept {
            None => sent.to_vec(),
            Some(kept) => {
                let mask = mask_of(batch.num_rows(), kept);
                let sent = sent.iter().map(|array| filter(array, &mask));
                sent.collect::<std::result::Result<_, _>>().map_err(|e| broken(e.to_string()))?
            }
        };
        let names = batch.schema();
        let names = names.fields().iter().map(|field| field.name().clone());
        let names = names.take(sent.len()).chain(self.computed.iter().map(|c| c.name.clone()));
        let arrays: Vec<ArrayRef> = sent.into_iter().chain(done).collect();
        let fields =
            names.zip(&arrays).map(|(name, a)| Field::new(name, a.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let count = rows.kept.as_ref().map_or(batch.num_rows(), Vec::len);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|error| broken(error.to_string()))?;
        Ok(Applied { batch, kept: rows.kept, filtered, failed: rows.failed })
    }

    /// Inputs that were read as text, as what they are. What is not in its type's canonical form is cast, unless the
    /// type was guessed.
    fn read_as_text(&self, texts: &[ArrayRef], rows: &mut Rows) -> Vec<ArrayRef> {
        let each = self.inputs.iter().zip(texts);
        each.map(|(input, texts)| {
            let read = |texts: &ArrayRef| input_of_text(texts, input);
            if let Ok(array) = read(texts) {
                return array;
            }
            let part = |start, length| read(&texts.slice(start, length)).map(drop);
            let bad = bad_rows(texts.len(), &part);
            let mut mask = vec![true; texts.len()];
            for (row, why) in bad {
                mask[row] = false;
                let name = input.name.clone();
                rows.failed.push(Failed {
                    row,
                    column: Some(name),
                    value: Some(shown(texts, row, REJECT_VALUE_BYTES)),
                    constraint: None,
                    reason: why,
                    hint: Some(AS_TEXT),
                });
            }
            let usable = arrow_select::zip::zip(
                &BooleanArray::from(mask),
                texts,
                &arrow_array::new_null_array(texts.data_type(), texts.len()),
            );
            usable.map_err(|error| error.to_string()).and_then(|texts| read(&texts)).unwrap_or_else(
                |_| arrow_array::new_null_array(&input.field_type.arrow(), texts.len()),
            )
        })
        .collect()
    }
}

fn mask_of(rows: usize, kept: &[usize]) -> BooleanArray {
    let mut mask = vec![false; rows];
    kept.iter().for_each(|row| mask[*row] = true);
    BooleanArray::from(mask)
}

fn input_of_text(texts: &ArrayRef, input: &Input) -> std::result::Result<ArrayRef, String> {
    let canonical = assign::assigned(texts, &input.field_type);
    let is_moment = matches!(input.field_type, FieldType::TimestampTz { zoneless_is_utc: false });
    if canonical.is_ok() || input.is_guessed || is_moment {
        return canonical.map_err(|_| {
            let guessed = if input.is_guessed { ", which its samples are" } else { "" };
            format!("it is not a valid {}{guessed}", sql_types::type_name(&input.field_type))
        });
    }
    // The server ignores the zone of a timestamp that has none.
    let is_zoneless = matches!(input.field_type, FieldType::Timestamp | FieldType::Date);
    let as_read = |text| if is_zoneless { without_zone(text) } else { text };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let trimmed: arrow_array::StringArray = arrow_cast::cast(texts, &DataType::Utf8)
        .map_err(|error| error.to_string())?
        .as_any()
        .downcast_ref::<arrow_array::StringArray>()
        .expect("it was just cast")
        .iter()
        .map(|text| text.map(str::trim).map(as_read))
        .collect();
    cast_with_options(&trimmed, &input.field_type.arrow(), &options)
        .map_err(|_| format!("it is not a valid {}", sql_types::type_name(&input.field_type)))
}

/// A moment as it stands on the clock, without what says where: `2024-01-02 00:30+02` as `2024-01-02 00:30`.
fn without_zone(text: &str) -> &str {
    let Some(time) = text.find(':') else { return text };
    let end = match text.strip_suffix(['Z', 'z']) {
        Some(rest) => rest.len(),
        None => text[time..].rfind(['+', '-']).map_or(text.len(), |sign| time + sign),
    };
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_stands_on_the_clock() {
        for (text, clock) in [
            ("2024-01-02T00:30:00+02:00", "2024-01-02T00:30:00"),
            ("2024-01-02 00:30:00.5 -03", "2024-01-02 00:30:00.5"),
            ("2024-01-02 00:30Z", "2024-01-02 00:30"),
            ("2024-01-02 00:30", "2024-01-02 00:30"),
            ("2024-01-02", "2024-01-02"),
            ("", ""),
        ] {
            assert_eq!(without_zone(text), clock);
        }
    }
}
