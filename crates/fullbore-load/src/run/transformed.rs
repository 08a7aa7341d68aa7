//! Rows on their way through a table's expressions: what these refuse is rejected, and rows that the destination
//! must judge are made text of.

use std::collections::HashMap;
use std::ops::Range;

use arrow_array::{Array, RecordBatch, cast::AsArray};
use fullbore_parse::block::Block;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::{Lane, OddRow, Parser};
use fullbore_read::error::Result;

use super::reject_record::Reject;
use super::source_row::{Records, SourceRow};
use crate::plan::Format;
use crate::plan::applied::{Applied, Failed};
use crate::plan::transform::apply::Transform;

/// The rejects of rows that an expression refused.
pub fn rejects(failed: Vec<Failed>, mut place: impl FnMut(usize) -> SourceRow) -> Vec<Reject> {
    let reject = |failed: Failed| {
        let Failed { row, column, value, constraint, reason, hint } = failed;
        Reject { column, value, constraint, hint, ..Reject::of(place(row), reason) }
    };
    failed.into_iter().map(reject).collect()
}

/// Keeps of something for each row what belongs to the rows that are left.
pub fn keep<T: Clone>(kept: Option<&[usize]>, of_rows: &mut Vec<T>) {
    if let Some(kept) = kept
        && !of_rows.is_empty()
    {
        *of_rows = kept.iter().map(|row| of_rows[*row].clone()).collect();
    }
}

/// What became of rows that the destination must judge.
#[derive(Default)]
pub struct Odd {
    pub rows: Vec<OddRow>,
    pub rejects: Vec<Reject>,
    pub filtered: u64,
}

/// Makes lines of what is sent of such records of a block. `parser`: reads them as text.
pub fn odd_rows(
    transform: &Transform,
    format: &Format,
    parser: &mut Parser,
    block: &Block,
    odd: Vec<OddRow>,
) -> Result<Odd> {
    let Format::Delimited(dialect) = format else { return Ok(Odd::default()) };
    let records: Vec<Range<usize>> = odd.into_iter().map(|odd| odd.range).collect();
    let part = block.of_records(&records);
    // Where the records of the part stand in the block.
    let (mut stands, mut at) = (HashMap::new(), 0);
    for record in records {
        let length = record.len();
        stands.insert(at, record);
        at += length;
    }
    let parsed = parser.parse(&part);
    let rows = parser.parsed_records(&part).into_iter();
    let rows: Vec<Range<usize>> = rows.map(|row| stands[&row.start].clone()).collect();
    let faults = parsed.faults.into_iter().map(|fault| {
        let range = stands[&fault.range.start].clone();
        let lines = block.lines_between(range.start, range.end);
        let row = SourceRow::of(block, range);
        Reject::fault(row, &fault.reason, lines, transform.shape(Lane::Text), dialect)
    });
    let mut refused: Vec<Reject> = faults.collect();
    let Applied { batch, kept, filtered, failed } = transform.apply(&parsed.batch, Lane::Text)?;
    let mut stood = Records::of(block);
    refused.extend(rejects(failed, |row| stood.at(rows[row].clone())));
    let kept = kept.unwrap_or_else(|| (0..rows.len()).collect());
    let left = kept.into_iter().zip(lines(&batch));
    let left = left.map(|(row, copy_text)| OddRow { range: rows[row].clone(), copy_text });
    Ok(Odd { rows: left.collect(), rejects: refused, filtered })
}

/// The rows of a batch of texts as lines of COPY text.
fn lines(batch: &RecordBatch) -> impl Iterator<Item = Vec<u8>> {
    (0..batch.num_rows()).map(|row| {
        let mut line = Vec::new();
        for (at, column) in batch.columns().iter().enumerate() {
            if at > 0 {
                line.push(b'\t');
            }
            let texts = column.as_string::<i32>();
            match texts.is_null(row) {
                true => line.extend_from_slice(b"\\N"),
                false => write_copy_text(texts.value(row).as_bytes(), &mut line),
            }
        }
        line.push(b'\n');
        line
    })
}
