//! The encoder against a slow and obvious one that shares no code with it.

mod slow;
mod tried;

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use fullbore_parse::types::{ParseColumn, ParseShape};
use fullbore_record::terms::Codec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::direct::Descriptor;
use crate::encode_copy::SentColumn;
use slow::{Slow, slow_crc, slow_row};
use tried::{KINDS, LABELS, Tried, column, tried};

const BODY_BYTES_MAX: usize = 2009;

/// The frames of a stream: kind, rows, payload unpacked.
fn frames(mut stream: &[u8]) -> Vec<(u8, usize, Vec<u8>)> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let (header, rest) = stream.split_at(24);
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(&header[..4], b"FBF1");
        assert_eq!(header[6..8], [0, 0]);
        let (payload, rest) = rest.split_at(word(16) as usize);
        assert_eq!(word(20), slow_crc(payload), "the checksum");
        let raw_bytes = word(12) as usize;
        let raw = match header[5] {
            0 => payload.to_vec(),
            1 => lz4_flex::block::decompress(payload, raw_bytes).expect("lz4"),
            2 => zstd::bulk::decompress(payload, raw_bytes).expect("zstd"),
            other => panic!("codec {other}"),
        };
        assert_eq!(raw.len(), raw_bytes);
        assert!(header[4] != b'B' || raw_bytes <= 4 << 20);
        frames.push((header[4], word(8) as usize, raw));
        stream = rest;
    }
    frames
}

fn shape(columns: &[Tried]) -> ParseShape {
    let columns = columns.iter().enumerate();
    ParseShape {
        fields: columns.len(),
        field_names: Vec::new(),
        columns: columns
            .map(|(at, tried)| ParseColumn {
                name: format!("c{at}"),
                field: at,
                field_type: tried.field_type.clone(),
                guess: None,
            })
            .collect(),
        orders: Default::default(),
        json: None,
    }
}

fn descriptor(columns: &[Tried]) -> Descriptor {
    let columns: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| {
            json!({
                "number": at + 1, "name": format!("c{at}"), "type": tried.form, "type_oid": 0,
                "modifier": tried.modifier, "length": -1, "align": tried.align,
                "storage": if tried.plain { "plain" } else { "extended" }, "not_null": false,
                "form": tried.form,
                "labels": LABELS.iter().enumerate().map(|(at, l)| (l, 16_500 + at)).collect::<Vec<_>>(),
            })
        })
        .collect();
    serde_json::from_value(json!({
        "protocol": 1, "extension": "0.3.0", "server": 180_006, "relation": 1, "encoding": "UTF8",
        "block_bytes": 8192, "maxalign": 8, "little_endian": true, "body_bytes_max": BODY_BYTES_MAX,
        "needs_wal": false, "codecs": ["none"], "columns": columns, "refusal": null, "hash": "0",
    }))
    .expect("a descriptor")
}

fn encoder(columns: &[Tried], codec: Codec) -> (DirectEncoder, BinaryEncoder) {
    let layout = Layout::new(&descriptor(columns), &shape(columns)).expect("a layout");
    let sent = |tried: &Tried| SentColumn { field_type: tried.field_type.clone(), element_oid: 0 };
    let copy = || BinaryEncoder::new(columns.iter().map(sent).collect());
    (DirectEncoder::new(Some(layout), copy(), Arc::new(Packing::new(codec))), copy())
}

fn batch(columns: &[Tried], arrays: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| Field::new(format!("c{at}"), tried.field_type.arrow(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
}

/// What a value counts before it is laid out: decimal text half of its length, zeros included, so
/// that a row may travel out of band although it would just have fitted.
fn counted(tried: &Tried, array: &ArrayRef, row: usize) -> usize {
    let any = array.as_any();
    match (tried.form, any.downcast_ref::<StringArray>(), any.downcast_ref::<BinaryArray>()) {
        ("enum", ..) | (_, None, None) => 0,
        ("numeric", Some(text), _) => text.value(row).len() / 2,
        (_, Some(text), _) => text.value(row).len(),
        (_, None, Some(bytes)) => bytes.value(row).len(),
    }
}

/// Encodes rows of these seeds and holds every frame to the slow encoder's.
fn check(columns: &[Tried], seeds: &[Vec<Option<u64>>], codec: Codec) {
    let made: Vec<(ArrayRef, Vec<Option<Slow>>)> = columns
        .iter()
        .enumerate()
        .map(|(at, tried)| column(tried, &seeds.iter().map(|row| row[at]).collect::<Vec<_>>()))
        .collect();
    let batch = batch(columns, made.iter().map(|(array, _)| array.clone()).collect());
    let (mut direct, mut copy) = encoder(columns, codec);
    let mut stream = vec![];
    direct.encode(&batch, &mut stream).expect("it encodes");

    let (mut bodies, mut out_of_band) = (Vec::new(), Vec::new());
    let (mut rows, mut rows_out_of_band) = (0, 0);
    for row in 0..seeds.len() {
        let values: Vec<&Option<Slow>> = made.iter().map(|(_, slow)| &slow[row]).collect();
        let body = slow_row(columns, &values);
        let counted: usize =
            columns.iter().zip(&made).map(|(tried, made)| counted(tried, &made.0, row)).sum();
        if body.len() - 2 > BODY_BYTES_MAX || counted > BODY_BYTES_MAX {
            copy.encode(&batch.slice(row, 1), &mut out_of_band).expect("it encodes");
            rows_out_of_band += 1;
        } else {
            bodies.extend(body);
            rows += 1;
        }
    }
    let of = |kind: u8| {
        let frames = frames(&stream).into_iter().filter(move |frame| frame.0 == kind);
        frames.fold((0, Vec::new()), |all, frame| (all.0 + frame.1, [all.1, frame.2].concat()))
    };
    assert_eq!(of(b'B'), (rows, bodies));
    assert_eq!(of(b'C'), (rows_out_of_band, out_of_band));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_what_the_slow_encoder_makes_of_them(
        kinds in prop::collection::vec((0..KINDS, prop::bool::weighted(0.1)), 1..14),
        rows in prop::collection::vec(any::<u64>(), 1..40),
        nulls in 0u64..4,
        codec in prop::sample::select(vec![Codec::None, Codec::Lz4, Codec::Zstd]),
    ) {
        let columns: Vec<Tried> =
            kinds.iter().map(|(kind, plain)| tried(*kind, *plain && *kind > 10 && *kind != 19)).collect();
        let seeds: Vec<Vec<Option<u64>>> = rows
            .iter()
            .map(|row| {
                let cell = |at: usize| {
                    let seed = row.wrapping_mul(6_364_136_223_846_793_005).rotate_left(at as u32 * 7 + 5)
                        ^ at as u64;
                    (nulls == 0 || seed % 8 >= nulls).then_some(seed / 8)
                };
                (0..columns.len()).map(cell).collect()
            })
            .collect();
        check(&columns, &seeds, codec);
    }
}

#[test]
fn a_table_of_1600_columns_and_rows_of_nothing_but_nulls() {
    let columns: Vec<Tried> = (0..1600).map(|at| tried(at % 4, false)).collect();
    let rows = [vec![None; 1600], (0..1600).map(|at| (at % 9 == 0).then_some(at)).collect()];
    check(&columns, &rows, Codec::None);
}

#[test]
fn many_rows_make_several_frames() {
    let columns = [tried(3, false), tried(13, false)];
    let rows: Vec<_> = (0..20_000u64).map(|row| vec![Some(row), Some(row * 8 + 6)]).collect();
    check(&columns, &rows, Codec::None);
}

#[test]
fn a_label_that_the_server_did_not_tell_travels_out_of_band() {
    let columns = [tried(19, false), tried(2, false)];
    let labels = StringArray::from(vec![Some("ok"), Some("new"), None]);
    let numbers = Int32Array::from(vec![1, 2, 3]);
    let batch = batch(&columns, vec![Arc::new(labels), Arc::new(numbers)]);
    let mut stream = Vec::new();
    encoder(&columns, Codec::None).0.encode(&batch, &mut stream).unwrap();
    let kinds: Vec<_> = frames(&stream).iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(b'B', 2), (b'C', 1)]);
}

#[test]
fn a_table_without_a_layout_travels_out_of_band() {
    let columns = [tried(2, false)];
    let batch = batch(&columns, vec![Arc::new(Int32Array::from(vec![1, 2]))]);
    let copy = || encoder(&columns, Codec::None).1;
    let mut stream = Vec::new();
    DirectEncoder::new(None, copy(), Arc::default()).encode(&batch, &mut stream).unwrap();
    let mut rows = Vec::new();
    copy().encode(&batch, &mut rows).unwrap();
    assert_eq!(frames(&stream), [(b'C', 2, rows)]);
}

#[test]
fn checksums_are_crc_32c() {
    // The check value of the catalogue of CRC algorithms.
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xe306_9283);
    assert_eq!(slow_crc(b"123456789"), 0xe306_9283);
}
