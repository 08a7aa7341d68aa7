//! The direct encoder: any typed values become frames from which a slow reader gets them back, and
//! what can't be laid out travels out of band, each row once and in order.

#![no_main]

#[path = "support/body.rs"]
mod body;
#[path = "support/values.rs"]
mod values;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use fullbore_load::destination::Encoder;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_postgres::direct::{ColumnDescriptor, Descriptor};
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn};
use fullbore_postgres::encode_direct::{DirectEncoder, Layout};
use fullbore_record::terms::Codec;
use libfuzzer_sys::fuzz_target;

use values::{FIRST_LABEL, LABELS, Source, Tried, Value};

/// A column, and what a reader is to find of it.
type Made = (ArrayRef, Vec<Option<Value>>);

/// Short, so that many rows don't fit.
const BODY_BYTES_MAX: usize = 700;

fn described(number: usize, column: &Tried) -> ColumnDescriptor {
    let labels = LABELS.iter().zip(FIRST_LABEL..).map(|(label, oid)| ((*label).to_owned(), oid));
    ColumnDescriptor {
        name: format!("c{number}"),
        type_name: column.form.to_owned(),
        modifier: column.modifier,
        align: column.align,
        storage: if column.plain { "plain" } else { "extended" }.to_owned(),
        form: Some(column.form.to_owned()),
        labels: Some(labels.collect()),
    }
}

fn encoder(columns: &[Tried]) -> DirectEncoder {
    let descriptor = Descriptor {
        protocol: 1,
        extension: String::new(),
        encoding: "UTF8".into(),
        maxalign: 8,
        little_endian: true,
        body_bytes_max: BODY_BYTES_MAX,
        codecs: vec!["none".into()],
        columns: columns.iter().enumerate().map(|(n, column)| described(n, column)).collect(),
        refusal: None,
        hash: String::new(),
    };
    let parsed = |(field, column): (usize, &Tried)| ParseColumn {
        name: format!("c{field}"),
        field,
        field_type: column.field_type.clone(),
        guess: None,
    };
    let shape = ParseShape {
        fields: columns.len(),
        field_names: Vec::new(),
        columns: columns.iter().enumerate().map(parsed).collect(),
        orders: Default::default(),
        json: None,
    };
    let layout = Layout::new(&descriptor, &shape).expect("every type can be laid out");
    let sent = |c: &Tried| SentColumn { field_type: c.field_type.clone(), element_oid: 0 };
    let copy = BinaryEncoder::new(columns.iter().map(sent).collect());
    DirectEncoder::new(Some(layout), copy, Codec::None)
}

/// The first column of each row of COPY binary: its number among the rows.
fn numbers_of_copied(frame: &body::Frame<'_>, columns: usize) -> Vec<usize> {
    let mut rest = frame.payload;
    let numbers = (0..frame.rows)
        .map(|_| {
            assert_eq!(u16::from_be_bytes([rest[0], rest[1]]) as usize, columns);
            rest = &rest[2..];
            let mut number = None;
            for _ in 0..columns {
                let length = i32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
                let (value, after) = rest[4..].split_at(length.max(0) as usize);
                number = number.or_else(|| value.try_into().ok().map(i64::from_be_bytes));
                rest = after;
            }
            number.expect("the first column is never NULL") as usize
        })
        .collect();
    assert!(rest.is_empty());
    numbers
}

/// The bytes that a row's values have before they are laid out, by which it is judged: text as it was
/// written, zeros before a number included.
fn counted(arrays: &[Made], row: usize) -> usize {
    arrays
        .iter()
        .map(|(array, found)| match (array.as_string_opt::<i32>(), &found[row]) {
            (_, None | Some(Value::Unknown)) => 0,
            (Some(text), Some(Value::Numeric(_))) => text.value(row).len(),
            (_, Some(Value::Numeric(text))) => text.len(),
            (_, Some(Value::Bytes(bytes) | Value::Fixed(bytes))) => bytes.len(),
        })
        .sum()
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source::new(data);
    let rows = 1 + usize::from(source.byte() % 40);
    let numbered =
        Tried { field_type: FieldType::Int64, form: "int8", modifier: -1, align: 8, plain: false };
    let mut columns = vec![numbered];
    columns.extend((0..source.byte() % 20).map(|_| values::tried(&mut source)));
    let numbers = (0..rows as i64).map(|n| Some(Value::Fixed(n.to_le_bytes().to_vec())));
    let mut arrays: Vec<Made> =
        vec![(Arc::new(Int64Array::from_iter_values(0..rows as i64)), numbers.collect())];
    arrays.extend(columns[1..].iter().map(|column| values::column(column, rows, &mut source)));
    let expected: Vec<Vec<Option<Value>>> =
        (0..rows).map(|row| arrays.iter().map(|(_, found)| found[row].clone()).collect()).collect();
    let named =
        arrays.iter().enumerate().map(|(n, (array, _))| (format!("c{n}"), array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(named).expect("a batch");

    // Any stretch of a batch is encoded as if it were one of its own.
    let cut = usize::from(source.byte()) % (rows + 1);
    let mut encoder = encoder(&columns);
    for (from, to) in [(0, cut), (cut, rows)] {
        let mut stream = Vec::new();
        encoder.encode(&batch.slice(from, to - from), &mut stream).expect("it encodes");
        let (mut laid_out, mut copied) = (Vec::new(), Vec::new());
        for frame in body::frames(&stream) {
            match frame.kind {
                b'B' => laid_out.extend(body::rows(&frame, &columns, BODY_BYTES_MAX)),
                b'C' => copied.extend(numbers_of_copied(&frame, columns.len())),
                kind => panic!("a frame of kind {kind}"),
            }
        }
        let mut laid_out = laid_out.into_iter();
        let mut copied = copied.into_iter().peekable();
        for (number, row) in expected.iter().enumerate().take(to).skip(from) {
            if copied.next_if_eq(&number).is_some() {
                let is_unknown = row.contains(&Some(Value::Unknown));
                // Heads and padding of each column, and the bitmap.
                let room = counted(&arrays, number) + columns.len() * 12 + 16;
                assert!(is_unknown || room > BODY_BYTES_MAX, "row {number} would have fitted");
            } else {
                assert_eq!(laid_out.next().as_ref(), Some(row), "row {number}");
            }
        }
        assert!(laid_out.next().is_none() && copied.next().is_none(), "rows that nobody sent");
    }
});
