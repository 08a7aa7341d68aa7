//! Rejects NULLs in NOT NULL columns before rows are sent.
//!
//! One of them would make the destination refuse the whole piece.

use arrow_array::{Array, BooleanArray, RecordBatch};
use fullbore_parse::Lane;
use fullbore_read::error::{Error, Result};

use super::reject_record::Reject;
use super::source_row::SourceRow;
use crate::plan::{Plan, TablePlan};
use crate::sink::Sink;

/// The SQLSTATE of a NULL that may not be.
const NOT_NULL_VIOLATION: &str = "23502";

/// Rows of a typed batch with a NULL that may not be, ascending, each with the first such column.
pub fn broken(table: &TablePlan, batch: &RecordBatch) -> Vec<(usize, usize)> {
    let mut broken: Vec<(usize, usize)> = Vec::new();
    for column in &table.not_null {
        let array = batch.column(*column);
        let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
        broken.extend((0..array.len()).filter(|row| nulls.is_null(*row)).map(|row| (row, *column)));
    }
    // The target's order of columns is kept among those of one row.
    broken.sort_by_key(|(row, _)| *row);
    broken.dedup_by_key(|(row, _)| *row);
    broken
}

/// Their rejects, in the words of a server.
pub fn rejects(
    table: &TablePlan,
    broken: &[(usize, usize)],
    mut place: impl FnMut(usize) -> SourceRow,
) -> Vec<Reject> {
    let bare = table.name.rsplit('.').next().unwrap_or_default().trim_matches('"');
    broken
        .iter()
        .map(|(row, column)| {
            let column = &table.shape.columns[*column].name;
            let reason = format!(
                "null value in column \"{column}\" of relation \"{bare}\" violates not-null constraint"
            );
            Reject {
                column: Some(column.clone()),
                code: Some(NOT_NULL_VIOLATION.into()),
                ..Reject::of(place(*row), reason)
            }
        })
        .collect()
}

/// The batch without them, and the lines of its rows, where there are any.
pub fn without(
    batch: &RecordBatch,
    broken: &[(usize, usize)],
    lines: &mut Vec<u64>,
) -> Result<RecordBatch> {
    let mut kept = vec![true; batch.num_rows()];
    broken.iter().for_each(|(row, _)| kept[*row] = false);
    let mut at = 0;
    lines.retain(|_| {
        at += 1;
        kept[at - 1]
    });
    arrow_select::filter::filter_record_batch(batch, &BooleanArray::from(kept))
        .map_err(|error| Error::usage(format!("rows could not be picked: {error}")))
}

/// Rows of a source without raw records as lines of COPY text.
pub fn as_lines(
    plan: &Plan,
    sink: &dyn Sink,
    table: usize,
    batch: &RecordBatch,
    broken: &[(usize, usize)],
) -> Result<Vec<Vec<u8>>> {
    let mut mask = vec![false; batch.num_rows()];
    broken.iter().for_each(|(row, _)| mask[*row] = true);
    let picked = arrow_select::filter::filter_record_batch(batch, &BooleanArray::from(mask));
    let as_text = picked.and_then(|picked| {
        let columns = picked.columns().iter().zip(&plan.tables[table].shape.columns);
        let columns: std::result::Result<Vec<_>, _> = columns
            .map(|(column, of)| {
                fullbore_read::cast::as_text(column, &of.field_type)
                    .map(|cast| cast.array)
                    .map_err(arrow_schema::ArrowError::CastError)
            })
            .collect();
        let fields: Vec<_> = batch
            .schema()
            .fields()
            .iter()
            .map(|field| arrow_schema::Field::new(field.name(), arrow_schema::DataType::Utf8, true))
            .collect();
        RecordBatch::try_new(std::sync::Arc::new(arrow_schema::Schema::new(fields)), columns?)
    });
    let as_text = as_text
        .map_err(|error| Error::usage(format!("rows could not be written as text: {error}")))?;
    let mut lines = Vec::new();
    sink.encoder(plan, table, Lane::Text)?.encode(&as_text, &mut lines)?;
    Ok(lines.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}
