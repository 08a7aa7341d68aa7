//! Selects the source records that may be rows which were noted or removed.
//!
//! The server sends these rows in binary COPY form, the encoder writes the same form of each record,
//! and their hashes are compared. Only columns whose stored form equals their sent form are included. A
//! false match is harmless: the server compares again.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use arrow_array::RecordBatch;
use fullbore_load::TargetColumn;
use fullbore_load::sink::Encoder;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;
use hashbrown::DefaultHashBuilder;

use super::keys::UniqueKey;
use super::{Checked, REMOVED};
use crate::encode_copy::{BINARY_HEADER, BinaryEncoder, SentColumn};
use crate::error::failed;

/// Picks records by their looks.
pub struct Picker {
    /// The places of the columns that are compared.
    columns: Vec<usize>,
    encoder: BinaryEncoder,
    hasher: DefaultHashBuilder,
    wanted: HashSet<u64, BuildHasherDefault<IsHash>>,
}

/// Whether a value is stored as it is sent: nothing is padded, cut or rounded.
fn is_comparable(column: &TargetColumn) -> bool {
    match &column.field_type {
        Some(
            FieldType::Boolean
            | FieldType::Int16
            | FieldType::Int32
            | FieldType::Int64
            | FieldType::Date
            | FieldType::Uuid
            | FieldType::Decimal { .. },
        ) => true,
        Some(FieldType::Text { .. }) => {
            column.type_name == "text" || column.type_name.starts_with("character varying")
        }
        Some(FieldType::Timestamp) => column.type_name == "timestamp without time zone",
        Some(FieldType::TimestampTz { .. }) => column.type_name == "timestamp with time zone",
        _ => false,
    }
}

impl Picker {
    /// Reads the rows, by the columns of these keys, or by all columns where there are none.
    pub fn of(session: &mut Session, table: &Checked<'_>, keys: &[UniqueKey]) -> Result<Self> {
        let plan = table.columns();
        let is_of_keys =
            |name: &String| keys.iter().any(|key| key.columns.iter().any(|column| column == name));
        let mut columns = Vec::new();
        for (number, column) in plan.shape.columns.iter().enumerate() {
            let target = plan.columns.iter().find(|target| target.name == column.name);
            // What records are read for has no lineage yet.
            if target.is_some_and(is_comparable) && plan.lineage_of(column).is_none() {
                columns.push(number);
            }
        }
        let name = |number: &usize| &plan.shape.columns[*number].name;
        if columns.iter().any(|number| is_of_keys(name(number))) {
            columns.retain(|number| is_of_keys(name(number)));
        }
        let sent = columns.iter().map(|number| SentColumn {
            field_type: plan.shape.columns[*number].field_type.clone(),
            element_oid: 0,
        });
        let sent = sent.collect();
        let mut picker = Self {
            encoder: BinaryEncoder::new(sent),
            columns,
            hasher: DefaultHashBuilder::default(),
            wanted: HashSet::default(),
        };
        if !picker.columns.is_empty() {
            let names: Vec<&str> =
                picker.columns.iter().map(|number| table.names[*number].as_str()).collect();
            let sql = format!(
                "COPY (SELECT {} FROM {REMOVED}) TO STDOUT (FORMAT binary)",
                names.join(", ")
            );
            picker.read(session, &sql).map_err(failed)?;
        }
        Ok(picker)
    }

    fn read(&mut self, session: &mut Session, sql: &str) -> Result<(), ConnectionError> {
        let mut left = Vec::new();
        let mut has_begun = false;
        let (wanted, hasher) = (&mut self.wanted, &self.hasher);
        session.copy_out(sql, &mut |data| {
            left.extend_from_slice(data);
            let mut at = 0;
            if !has_begun {
                if left.len() < BINARY_HEADER.len() {
                    return Ok(());
                }
                (has_begun, at) = (true, BINARY_HEADER.len());
            }
            while let Some(end) = row_end(&left, at) {
                wanted.insert(hasher.hash_one(&left[at..end]));
                at = end;
            }
            left.drain(..at);
            Ok(())
        })?;
        Ok(())
    }

    /// The columns that are compared, by their numbers among those that are sent.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Which rows of a batch of these columns may be among them.
    pub fn is_wanted(&self, batch: &RecordBatch) -> Result<Vec<bool>> {
        if self.columns.is_empty() {
            return Ok(vec![true; batch.num_rows()]);
        }
        let mut rows = Vec::new();
        self.encoder.clone().encode(batch, &mut rows)?;
        let mut at = 0;
        let mut wanted = Vec::with_capacity(batch.num_rows());
        while let Some(end) = row_end(&rows, at) {
            wanted.push(self.wanted.contains(&self.hasher.hash_one(&rows[at..end])));
            at = end;
        }
        Ok(wanted)
    }
}

/// Of what is a hash itself.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are looked up");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Where the row that begins at `at` ends, if it is there whole; the trailer is none.
fn row_end(data: &[u8], at: usize) -> Option<usize> {
    let fields = u16::from_be_bytes(*data.get(at..)?.first_chunk()?);
    if fields == u16::MAX {
        return None;
    }
    let mut end = at + 2;
    for _ in 0..fields {
        let length = i32::from_be_bytes(*data.get(end..)?.first_chunk()?);
        end += 4 + usize::try_from(length).unwrap_or(0);
    }
    (end <= data.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_where_their_fields_do() {
        let row = b"\0\x02\0\0\0\x01x\xff\xff\xff\xff";
        let mut data = row.to_vec();
        data.extend_from_slice(b"\0\x01\0\0\0\0");
        data.extend_from_slice(b"\xff\xff");
        assert_eq!(row_end(&data, 0), Some(row.len()));
        assert_eq!(row_end(&data, row.len()), Some(row.len() + 6));
        assert_eq!(row_end(&data, row.len() + 6), None);
        for cut in 0..row.len() {
            assert_eq!(row_end(&row[..cut], 0), None);
        }
    }
}
