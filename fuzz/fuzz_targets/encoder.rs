//! The encoder: any parsed batch becomes rows of COPY binary whose lengths add up.

#![no_main]

use std::sync::Arc;

use fullbore_load::destination::Encoder;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_postgres::encode_copy::{BinaryEncoder, SentColumn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let types = [
        FieldType::Int64,
        FieldType::Decimal { precision: 15, scale: 2 },
        FieldType::Decimal { precision: 38, scale: 9 },
        FieldType::NumericText { limits: None },
        FieldType::text(),
        FieldType::Timestamp,
        FieldType::Bytea,
        FieldType::Array(Box::new(FieldType::text())),
        FieldType::Array(Box::new(FieldType::Decimal { precision: 10, scale: 3 })),
    ];
    let shape = ParseShape {
        fields: 1,
        // The one field of each record is parsed as every type, so that one of them fits.
        columns: Vec::new(),
        field_names: vec!["f".into()],
        orders: Default::default(),
        json: None,
    };
    let mut text = text.to_vec();
    text.push(b'\n');
    for field_type in types {
        let column =
            ParseColumn { name: "f".into(), field: 0, field_type: field_type.clone(), guess: None };
        let shape = Arc::new(ParseShape { columns: vec![column], ..shape.clone() });
        let dialect = Dialect { trailing_delimiter: false, ..Dialect::tbl() };
        let batch = Parser::new(dialect, shape).parse(&Block::of(&text)).batch;
        let sent = SentColumn { field_type, element_oid: 25 };
        let mut out = Vec::new();
        BinaryEncoder::new(vec![sent]).encode(&batch, &mut out).expect("it encodes");
        let mut rest = out.as_slice();
        for _ in 0..batch.num_rows() {
            assert_eq!(rest[..2], [0, 1]);
            let length = i32::from_be_bytes(rest[2..6].try_into().expect("four bytes"));
            rest = &rest[6 + length.max(0) as usize..];
        }
        assert!(rest.is_empty());
    }
});
