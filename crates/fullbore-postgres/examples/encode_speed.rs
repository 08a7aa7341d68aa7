//! How fast lineitem is parsed and encoded on one core, into COPY binary and into frames of tuple
//! bodies: `cargo run --release -p fullbore-postgres --example encode_speed FILE...`.
//! Prints CPU seconds per GB of text for each step, and for the checksum alone; ENCODER names
//! the one that is measured: `COPY binary`, `bodies`, `bodies, lz4` or `bodies, zstd`. With
//! MONEY=numeric its decimals are columns without a scale, whose values come as text.

use std::sync::Arc;

use fullbore_load::sink::Encoder;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_postgres::direct::Descriptor;
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn};
use fullbore_postgres::encode_direct::packing::Packing;
use fullbore_postgres::encode_direct::{DirectEncoder, Layout};
use fullbore_record::terms::Codec;
use serde_json::json;

/// CPU seconds of this thread: what a noisy neighbour can't stretch. Asked for several times a
/// block, so by the clock rather than by a file under /proc, which costs as much as some steps.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is always there, and the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Names, types, and how the server describes them: form, alignment, storage.
fn lineitem() -> Vec<(&'static str, FieldType, &'static str, usize, &'static str)> {
    use FieldType::*;
    let key = |name| (name, Int64, "int8", 8, "plain");
    let decimal = match std::env::var("MONEY").as_deref() {
        Ok("numeric") => NumericText { limits: None },
        _ => Decimal { precision: 15, scale: 2 },
    };
    let money = |name| (name, decimal.clone(), "numeric", 4, "main");
    let text = |name, n| (name, Text { characters_max: Some(n) }, "varchar", 4, "extended");
    let code = |name, n| (name, Text { characters_max: Some(n) }, "bpchar", 4, "extended");
    let day = |name| (name, Date, "date", 4, "plain");
    vec![
        key("l_orderkey"),
        key("l_partkey"),
        key("l_suppkey"),
        ("l_linenumber", Int32, "int4", 4, "plain"),
        money("l_quantity"),
        money("l_extendedprice"),
        money("l_discount"),
        money("l_tax"),
        code("l_returnflag", 1),
        code("l_linestatus", 1),
        day("l_shipdate"),
        day("l_commitdate"),
        day("l_receiptdate"),
        code("l_shipinstruct", 25),
        code("l_shipmode", 10),
        text("l_comment", 44),
    ]
}

fn main() {
    let columns = lineitem();
    let described: Vec<_> = columns
        .iter()
        .map(|(name, _, form, align, storage)| {
            json!({ "name": name, "type": form, "modifier": -1, "align": align,
                    "storage": storage, "form": form })
        })
        .collect();
    let descriptor: Descriptor = serde_json::from_value(json!({
        "protocol": 1, "extension": "", "encoding": "UTF8", "maxalign": 8, "little_endian": true,
        "body_bytes_max": 2009, "codecs": ["none"], "columns": described, "refusal": null,
        "hash": "",
    }))
    .expect("a descriptor");
    let shape = Arc::new(ParseShape {
        fields: columns.len(),
        field_names: columns.iter().map(|column| column.0.to_owned()).collect(),
        columns: columns
            .iter()
            .enumerate()
            .map(|(field, column)| ParseColumn {
                name: column.0.into(),
                field,
                field_type: column.1.clone(),
                guess: None,
            })
            .collect(),
        orders: Default::default(),
        json: None,
    });
    let copy = || {
        let sent = |column: &ParseColumn| SentColumn {
            field_type: column.field_type.clone(),
            element_oid: 0,
        };
        BinaryEncoder::new(shape.columns.iter().map(sent).collect())
    };
    let direct = |codec| {
        let layout = Layout::new(&descriptor, &shape).expect("a layout");
        DirectEncoder::new(Some(layout), copy(), Arc::new(Packing::new(codec)))
    };
    let mut encoders: Vec<(&str, Box<dyn Encoder>)> =
        vec![("COPY binary", Box::new(copy())), ("bodies", Box::new(direct(Codec::None)))];
    encoders.push(("bodies, lz4", Box::new(direct(Codec::Lz4))));
    encoders.push(("bodies, zstd", Box::new(direct(Codec::Zstd))));
    // One at a time: they empty the caches for each other.
    let wanted = std::env::var("ENCODER").unwrap_or("bodies".into());
    encoders.retain(|(name, _)| *name == wanted);
    let mut parser = Parser::new(Dialect::tbl(), shape.clone());
    let (mut block, mut out) = (Block::default(), Vec::new());
    for path in std::env::args().skip(1) {
        let text = std::fs::read(&path).expect("readable");
        let gigabytes = text.len() as f64 / 1e9;
        for _ in 0..3 {
            let mut parsing = 0.0;
            let mut checksum = 0.0;
            let mut encoding = vec![(0.0, 0); encoders.len()];
            let mut at = 0;
            while at < text.len() {
                let began = cpu_seconds();
                let end = (at + BLOCK_BYTES).min(text.len());
                let cut = at + memchr::memrchr(b'\n', &text[at..end]).expect("a line") + 1;
                block.space(cut - at)[..cut - at].copy_from_slice(&text[at..cut]);
                block.set_len(cut - at);
                let batch = parser.parse(&block).batch;
                parsing += cpu_seconds() - began;
                for ((_, encoder), spent) in encoders.iter_mut().zip(&mut encoding) {
                    out.clear();
                    let began = cpu_seconds();
                    encoder.encode(&batch, &mut out).expect("it encodes");
                    spent.0 += cpu_seconds() - began;
                    spent.1 += out.len();
                    std::hint::black_box(&out);
                }
                let began = cpu_seconds();
                std::hint::black_box(crc_fast::crc32_iscsi(&text[at..cut]));
                checksum += cpu_seconds() - began;
                at = cut;
            }
            let per_gigabyte = |seconds: f64| seconds / gigabytes;
            print!(
                "parse {:.3} s/GB, CRC-32C of as many bytes {:.3}",
                per_gigabyte(parsing),
                per_gigabyte(checksum)
            );
            for ((name, _), (seconds, bytes)) in encoders.iter().zip(&encoding) {
                let share = *bytes as f64 / text.len() as f64;
                print!("; {name} {:.3} ({share:.2} x the text)", per_gigabyte(*seconds));
            }
            println!();
        }
    }
}
