//! A transform of batches: rows are filtered, checked, and get their computed columns; each row that fails is reported.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter;
use fullbore_parse::Lane;
use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseShape};
use fullbore_read::cast::shown;
use fullbore_read::error::{Error, Result};
use fullbore_transform::{Compiler, Expression, Frame, assign};

use super::asked::{Asked, Computed, Filter};
use super::found::UsedLookup;
use super::inputs::Input;
use crate::plan::sql_types;

/// What is made of the rows of a table.
pub struct Transform {
    of_fields: Compiler,
    compiler: Compiler,
    /// What the sources are read into: the columns that are sent as they are read, then the inputs.
    typed: Arc<ParseShape>,
    text: Arc<ParseShape>,
    inputs: Vec<Input>,
    lookups: Vec<UsedLookup>,
    looked_up: Vec<(usize, usize)>,
    pub computed: Vec<Computed>,
    filter: Option<Filter>,
    checks: Vec<(String, String, Expression)>,
}

/// What became of a batch.
pub struct Applied {
    pub batch: RecordBatch,
    /// The row that each row of the batch was, ascending; none where all are there.
    pub kept: Option<Vec<usize>>,
    /// Rows that the filter left out.
    pub filtered: u64,
    pub failed: Vec<Failed>,
}

/// A row that an expression has no value for, or that a check refuses.
pub struct Failed {
    pub row: usize,
    pub column: Option<String>,
    pub value: Option<String>,
    pub constraint: Option<String>,
    pub reason: String,
    pub hint: Option<&'static str>,
}

const AS_TEXT: &str = "--field-type FIELD=text reads a field as it is written, for an expression that casts it; or correct \
     the rows in the source (the reject file lists them), or allow more with --max-rejects N or P%";

const MISSING: &str = "missing = \"null\" or default = { ... } of the lookup loads such rows; or correct the rows in \
     the source (the reject file lists them), or allow more with --max-rejects N or P%";

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
            let mut bad = Vec::new();
            halve(
                texts.len(),
                &|start, length| read(&texts.slice(start, length)).map(drop),
                &mut bad,
            );
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

/// What an array of the engine's, or of ours, can't be made of: no row is to blame.
fn broken(why: String) -> Error {
    Error::usage(format!("rows can't be transformed: {why}"))
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
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let trimmed: arrow_array::StringArray = arrow_cast::cast(texts, &DataType::Utf8)
        .map_err(|error| error.to_string())?
        .as_any()
        .downcast_ref::<arrow_array::StringArray>()
        .expect("it was just cast")
        .iter()
        .map(|text| text.map(str::trim))
        .collect();
    cast_with_options(&trimmed, &input.field_type.arrow(), &options)
        .map_err(|_| format!("it is not a valid {}", sql_types::type_name(&input.field_type)))
}

/// What an expression is for.
enum Of<'a> {
    Where(&'a str),
    Check(&'a str, &'a str),
    Key(&'a str, &'a str),
    Column(&'a str, &'a str),
}

impl Of<'_> {
    fn failed(&self, row: usize, why: String, value: Option<String>) -> Failed {
        let (column, constraint, words) = match self {
            Self::Where(sql) => (None, None, format!("--where {sql}")),
            Self::Check(name, sql) => {
                (None, Some((*name).to_owned()), format!("check {name}: {sql}"))
            }
            Self::Key(name, sql) => {
                (None, Some((*name).to_owned()), format!("key {sql} of lookup {name}"))
            }
            Self::Column(name, sql) => (Some((*name).to_owned()), None, format!("{name} = {sql}")),
        };
        Failed { row, column, value, constraint, reason: format!("{why} ({words})"), hint: None }
    }
}

/// Which rows of a batch are left.
struct Rows {
    count: usize,
    kept: Option<Vec<usize>>,
    failed: Vec<Failed>,
}

impl Rows {
    fn new(count: usize) -> Self {
        Self { count, kept: None, failed: Vec::new() }
    }

    /// The row of the batch that is the `nth` of those left.
    fn row(&self, nth: usize) -> usize {
        self.kept.as_ref().map_or(nth, |kept| kept[nth])
    }

    /// Keeps those of the rows left for which the mask holds.
    fn keep(&mut self, mask: &BooleanArray) {
        let kept = (0..mask.len()).filter(|nth| mask.value(*nth)).map(|nth| self.row(nth));
        self.kept = Some(kept.collect());
    }
}

/// A batch on its way.
struct Work<'a> {
    transform: &'a Transform,
    /// As they were read, of all rows.
    inputs: &'a [ArrayRef],
    /// Of the rows that are left.
    frame: Frame,
    rows: Rows,
    /// Columns that are computed, of the rows that are left.
    done: Vec<ArrayRef>,
}

impl Work<'_> {
    /// Evaluates something; rows for which it fails are rejected and left out.
    fn value(
        &mut self,
        expression: &Expression,
        of: &Of<'_>,
        evaluate: &dyn Fn(&Frame) -> std::result::Result<ArrayRef, String>,
    ) -> Result<ArrayRef> {
        match evaluate(&self.frame) {
            Ok(array) => Ok(array),
            Err(why) => {
                let mut bad = Vec::new();
                let part = |start, length| evaluate(&self.frame.slice(start, length)).map(drop);
                halve(self.frame.rows(), &part, &mut bad);
                if bad.is_empty() {
                    // No row fails by itself.
                    return Err(broken(why));
                }
                let mut mask = vec![true; self.frame.rows()];
                for (nth, why) in bad {
                    mask[nth] = false;
                    let row = self.rows.row(nth);
                    let value = self.values(expression, row);
                    self.rows.failed.push(of.failed(row, why, value));
                }
                self.keep(&BooleanArray::from(mask))?;
                evaluate(&self.frame).map_err(broken)
            }
        }
    }

    /// Leaves out the rows that the filter does, if it comes so early; how many these are.
    fn filter(&mut self, is_early: bool) -> Result<u64> {
        let Some(filter) = self.transform.filter.as_ref().filter(|f| f.is_early == is_early) else {
            return Ok(0);
        };
        let condition = &filter.expression;
        let of = Of::Where(&filter.sql);
        let mask = self.value(condition, &of, &|frame| condition.evaluate(frame))?;
        self.keep_where(&mask)
    }

    /// Finds the rows of lookups, and puts their columns behind the inputs.
    fn look_up(&mut self) -> Result<()> {
        for used in &self.transform.lookups {
            let lookup = used.lookup();
            let mut keys = Vec::new();
            // What is evaluated goes with the rows that are left.
            let before = self.done.len();
            for (nth, (sql, expression)) in used.keys.iter().enumerate() {
                let of = Of::Key(used.name(), sql);
                let key = self.value(expression, &of, &|frame| {
                    lookup.as_key(nth, &expression.evaluate(frame)?)
                })?;
                self.done.push(key);
            }
            if let Some((sql, expression)) = &used.at {
                let of = Of::Key(used.name(), sql);
                let at = self.value(expression, &of, &|frame| {
                    lookup.as_moment(&expression.evaluate(frame)?)
                })?;
                self.done.push(at);
            }
            keys.extend(self.done.drain(before..));
            let at = used.at.is_some().then(|| keys.pop()).flatten();
            let mut found = lookup.find_all(&keys, at.as_ref()).map_err(broken)?;
            if found.null_count() > 0 {
                found = used.insert(&keys, found)?;
            }
            let is_missing = found.null_count() > 0 && used.rejects_missing();
            let mask =
                BooleanArray::from_iter((0..found.len()).map(|row| Some(found.is_valid(row))));
            self.done.push(Arc::new(found));
            if is_missing {
                self.reject_missing(used, &keys, &mask);
                self.keep(&mask)?;
            }
        }
        let found: Vec<ArrayRef> = self.done.drain(..).collect();
        let columns = self.transform.looked_up.iter().map(|(lookup, column)| {
            let rows = found[*lookup].as_primitive::<UInt32Type>();
            self.transform.lookups[*lookup].lookup().taken(*column, rows)
        });
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(broken)?;
        let extended = self.transform.compiler.extended(&self.frame, &columns);
        self.frame = extended.map_err(broken)?;
        Ok(())
    }

    fn reject_missing(&mut self, used: &UsedLookup, keys: &[ArrayRef], mask: &BooleanArray) {
        let names: Vec<&str> = used.lookup().key_names().collect();
        for nth in (0..mask.len()).filter(|nth| !mask.value(*nth)) {
            let row = self.rows.row(nth);
            let one = |(name, key): (&&str, &ArrayRef)| {
                format!("{name} = {}", shown(key, nth, REJECT_VALUE_BYTES))
            };
            let key = names.iter().zip(keys).map(one).collect::<Vec<_>>().join(", ");
            self.rows.failed.push(Failed {
                row,
                column: None,
                value: keys.first().map(|key| shown(key, nth, REJECT_VALUE_BYTES)),
                constraint: Some(used.name().to_owned()),
                reason: format!("no row of lookup {} has {key}", used.name()),
                hint: Some(MISSING),
            });
        }
    }

    /// The inputs of an expression, in words.
    fn values(&self, expression: &Expression, row: usize) -> Option<String> {
        let one = |input: &usize| shown(&self.inputs[*input], row, REJECT_VALUE_BYTES);
        let fields = expression.uses.iter().filter(|input| **input < self.inputs.len());
        match fields.copied().collect::<Vec<_>>().as_slice() {
            [] => None,
            [only] => Some(one(only)),
            several => {
                let named = |input: &usize| {
                    format!("{}={}", self.transform.inputs[*input].name, one(input))
                };
                Some(several.iter().map(named).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn leave_out_failed(&mut self) -> Result<()> {
        if self.rows.failed.is_empty() {
            return Ok(());
        }
        let mut mask = vec![true; self.rows.count];
        self.rows.failed.iter().for_each(|failed| mask[failed.row] = false);
        // A row is rejected once, for the first of its fields.
        let mut seen = vec![false; self.rows.count];
        self.rows.failed.retain(|failed| !std::mem::replace(&mut seen[failed.row], true));
        self.keep(&BooleanArray::from(mask))
    }

    /// Leaves out the rows for which a condition does not hold; how many these are.
    fn keep_where(&mut self, condition: &ArrayRef) -> Result<u64> {
        let condition = as_condition(condition);
        let holds = match condition.null_count() {
            0 => condition.clone(),
            _ => arrow_select::filter::prep_null_mask_filter(condition),
        };
        let left = holds.len() - holds.true_count();
        if left > 0 {
            self.keep(&holds)?;
        }
        Ok(left as u64)
    }

    /// Rejects the rows for which a condition is false.
    fn reject_where_false(
        &mut self,
        condition: &ArrayRef,
        of: &Of<'_>,
        expression: &Expression,
    ) -> Result<()> {
        let condition = as_condition(condition);
        if condition.false_count() == 0 {
            return Ok(());
        }
        let mask = condition.iter().map(|holds| holds != Some(false));
        let mask = BooleanArray::from(mask.collect::<Vec<_>>());
        for nth in (0..mask.len()).filter(|nth| !mask.value(*nth)) {
            let row = self.rows.row(nth);
            let value = self.values(expression, row);
            let why = "row violates check constraint".to_owned();
            self.rows.failed.push(of.failed(row, why, value));
        }
        self.keep(&mask)
    }

    fn keep(&mut self, mask: &BooleanArray) -> Result<()> {
        self.frame = self.frame.filter(mask).map_err(broken)?;
        for done in &mut self.done {
            *done = filter(done, mask).map_err(|error| broken(error.to_string()))?;
        }
        self.rows.keep(mask);
        Ok(())
    }
}

fn as_condition(array: &ArrayRef) -> &BooleanArray {
    array.as_any().downcast_ref().expect("conditions are true or false")
}

/// Finds all rows for which something fails, in time that grows with their number.
fn halve(
    rows: usize,
    evaluate: &dyn Fn(usize, usize) -> std::result::Result<(), String>,
    bad: &mut Vec<(usize, String)>,
) {
    let mut left = vec![(0, rows)];
    while let Some((start, length)) = left.pop() {
        if length == 0 {
            continue;
        }
        match (evaluate(start, length), length) {
            (Ok(()), _) => {}
            (Err(why), 1) => bad.push((start, why)),
            (Err(_), _) => {
                let half = length / 2;
                left.push((start + half, length - half));
                left.push((start, half));
            }
        }
    }
}

/// A row as it was read, as a line of COPY text: what stands for a row without a text of its own.
pub fn line_of(batch: &RecordBatch, row: usize) -> Vec<u8> {
    let mut line = Vec::new();
    for (at, array) in batch.columns().iter().enumerate() {
        if at > 0 {
            line.push(b'\t');
        }
        match array.is_null(row) {
            true => line.extend_from_slice(b"\\N"),
            false => write_copy_text(shown(array, row, LINE_VALUE_BYTES).as_bytes(), &mut line),
        }
    }
    line.push(b'\n');
    line
}

/// Bytes of a value that are kept of such a row.
const LINE_VALUE_BYTES: usize = 5 * REJECT_VALUE_BYTES;
