//! A batch on its way through a transform: which of its rows are left, and why the others are not.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use fullbore_parse::constants::REJECT_VALUE_BYTES;
use fullbore_read::bad_rows::bad_rows;
use fullbore_read::cast::shown;
use fullbore_read::error::{Error, Result};
use fullbore_transform::{Expression, Frame};

use super::apply::Transform;
use super::found::UsedLookup;
use crate::plan::applied::Failed;

const MISSING: &str = "missing = \"null\" or default = { ... } of the lookup loads such rows; or correct the rows in \
     the source (the reject file lists them), or allow more with --max-rejects N or P%";

/// What an expression is for.
pub enum Of<'a> {
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
pub struct Rows {
    pub count: usize,
    pub kept: Option<Vec<usize>>,
    pub failed: Vec<Failed>,
}

impl Rows {
    pub fn new(count: usize) -> Self {
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

/// Evaluates something in parts as large as they can be: for rows none of which fails by itself.
fn in_parts(
    frame: &Frame,
    evaluate: &dyn Fn(&Frame) -> std::result::Result<ArrayRef, String>,
) -> std::result::Result<ArrayRef, String> {
    let rows = frame.rows();
    match evaluate(frame) {
        Err(_) if rows > 1 => {
            let half = rows / 2;
            let parts = [frame.slice(0, half), frame.slice(half, rows - half)];
            let [one, other] = parts.map(|part| in_parts(&part, evaluate));
            concat(&[&one?, &other?]).map_err(|error| error.to_string())
        }
        evaluated => evaluated,
    }
}

/// A batch on its way.
pub struct Work<'a> {
    pub transform: &'a Transform,
    /// As they were read, of all rows.
    pub inputs: &'a [ArrayRef],
    /// Of the rows that are left.
    pub frame: Frame,
    pub rows: Rows,
    /// Columns that are computed, of the rows that are left.
    pub done: Vec<ArrayRef>,
}

impl Work<'_> {
    /// Evaluates something; rows for which it fails are rejected and left out.
    pub fn value(
        &mut self,
        expression: &Expression,
        of: &Of<'_>,
        evaluate: &dyn Fn(&Frame) -> std::result::Result<ArrayRef, String>,
    ) -> Result<ArrayRef> {
        match evaluate(&self.frame) {
            Ok(array) => Ok(array),
            Err(why) => {
                let part = |start, length| evaluate(&self.frame.slice(start, length)).map(drop);
                let bad = bad_rows(self.frame.rows(), &part);
                if bad.is_empty() && self.frame.rows() < 2 {
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
                // What one half of a condition keeps from the other in a row is evaluated for all of a batch.
                in_parts(&self.frame, evaluate).map_err(broken)
            }
        }
    }

    /// Leaves out the rows that the filter does, if it comes so early; how many these are.
    pub fn filter(&mut self, is_early: bool) -> Result<u64> {
        let Some(filter) = self.transform.filter.as_ref().filter(|f| f.is_early == is_early) else {
            return Ok(0);
        };
        let condition = &filter.expression;
        let of = Of::Where(&filter.sql);
        let mask = self.value(condition, &of, &|frame| condition.evaluate(frame))?;
        self.keep_where(&mask)
    }

    /// Finds the rows of lookups, and puts their columns behind the inputs.
    pub fn look_up(&mut self) -> Result<()> {
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

    pub fn leave_out_failed(&mut self) -> Result<()> {
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
    pub fn reject_where_false(
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

/// What an array of the engine's, or of ours, can't be made of: no row is to blame.
pub fn broken(why: String) -> Error {
    Error::usage(format!("rows can't be transformed: {why}"))
}
