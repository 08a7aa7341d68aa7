//! How fast lineitem is parsed on one core: `cargo run --release --example parse_speed FILE...`.
//! Prints CPU seconds per GB of text and MB/s, for each repeat.

use std::sync::Arc;

use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};

/// CPU seconds of this thread: what a noisy neighbour can't stretch.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

fn main() {
    use FieldType::*;
    let money = Decimal { precision: 15, scale: 2 };
    let text = || FieldType::text();
    let columns: Vec<(&str, FieldType)> = vec![
        ("l_orderkey", Int64),
        ("l_partkey", Int64),
        ("l_suppkey", Int64),
        ("l_linenumber", Int32),
        ("l_quantity", money.clone()),
        ("l_extendedprice", money.clone()),
        ("l_discount", money.clone()),
        ("l_tax", money),
        ("l_returnflag", text()),
        ("l_linestatus", text()),
        ("l_shipdate", Date),
        ("l_commitdate", Date),
        ("l_receiptdate", Date),
        ("l_shipinstruct", text()),
        ("l_shipmode", text()),
        ("l_comment", text()),
    ];
    let shape = ParseShape {
        fields: columns.len(),
        field_names: columns.iter().map(|(name, _)| name.to_string()).collect(),
        columns: columns
            .into_iter()
            .enumerate()
            .map(|(field, (name, field_type))| ParseColumn {
                name: name.into(),
                field,
                field_type,
                guess: None,
            })
            .filter(|c| {
                std::env::var("COLS")
                    .map_or(true, |v| v.split(',').any(|x| x == c.field.to_string()))
            })
            .collect(),
        orders: Default::default(),
        json: None,
    };
    let mut parser = Parser::new(Dialect::tbl(), Arc::new(shape));
    let mut block = Block::default();
    for path in std::env::args().skip(1) {
        let text = std::fs::read(&path).expect("readable");
        for _ in 0..5 {
            let began = cpu_seconds();
            let (mut at, mut rows) = (0, 0);
            while at < text.len() {
                let end = (at + std::env::var("BB").map_or(BLOCK_BYTES, |v| v.parse().unwrap()))
                    .min(text.len());
                let cut = at + memchr::memrchr(b'\n', &text[at..end]).expect("a line") + 1;
                block.space(cut - at)[..cut - at].copy_from_slice(&text[at..cut]);
                block.set_len(cut - at);
                let parsed = parser.parse(&block);
                assert!(parsed.faults.is_empty() && parsed.odd.is_empty());
                rows += parsed.batch.num_rows();
                at = cut;
            }
            let seconds = cpu_seconds() - began;
            let gigabytes = text.len() as f64 / 1e9;
            println!(
                "{rows} rows, {:.3} s/GB, {:.0} MB/s",
                seconds / gigabytes,
                gigabytes * 1e3 / seconds
            );
        }
    }
}
