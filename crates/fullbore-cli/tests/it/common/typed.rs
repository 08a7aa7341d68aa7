//! A table with every type that has a binary encoder, and rows for it.

use fullbore_testing::TestDatabase;

/// Every type with a binary encoder.
pub const TYPED: &str = "id bigint, flag boolean, small smallint, number integer, r real, d double precision,
    price numeric(15,2), big numeric(30,10), huge numeric(60,20), free numeric, note text, short varchar(10),
    padded char(5), day date, at time, moment timestamp, zoned timestamptz, key uuid, raw bytea, doc json,
    docb jsonb, mood mood, numbers integer[], words text[]";

pub fn make_types(database: &TestDatabase<'_>) {
    database.psql(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s, fine');
         CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
         CREATE TYPE pair AS (a integer, b text);",
    );
}

/// Rows of TYPED; every `odd_every`-th has a field that only the server understands.
pub fn typed_rows(rows: usize, odd_every: usize) -> String {
    let mut text = String::new();
    for i in 0..rows {
        let odd = odd_every > 0 && i % odd_every == odd_every - 1;
        if i % 17 == 16 {
            // All NULL but the key.
            text.push_str(&format!("{i}{}\n", ",".repeat(23)));
            continue;
        }
        let day = if odd {
            "\"Jan 5, 2020\"".to_owned()
        } else {
            format!("20{:02}-{:02}-{:02}", i % 100, i % 12 + 1, i % 28 + 1)
        };
        let number = if odd && i % 2 == 0 {
            " 42 ".to_owned()
        } else {
            (i as i64 * 7919 % 100_000 - 50_000).to_string()
        };
        text.push_str(&format!(
            "{i},{flag},{small},{number},{r},{d},{price:.2},{big}.{uuid:010},{huge}123456789012345678901234567890.{m:05},{free},\"note {i}, \"\"quoted\"\"\nsecond line\",\
             s{short},p{padded},{day},{h:02}:{m:02}:{s:02}.{us:06},2024-02-{dd:02} {h:02}:{m:02}:{s:02},\
             2024-07-{dd:02} {h:02}:{m:02}:{s:02}+02,{uuid:08x}-0000-4000-8000-{uuid:012x},\\x{raw:08x},\"{{\"\"a\"\": {i}}}\",\"[{i}, null]\",{mood},\
             \"{{{i},NULL,-1}}\",\"{{a,\"\"b c\"\",\"\"\"\"}}\"\n",
            flag = if i % 2 == 0 { "t" } else { "false" },
            small = i as i64 % 65_536 - 32_768,
            r = i as f32 / 3.0,
            d = (i as f64).sqrt() * 1e-5,
            price = i as f64 * 37.25 - 5000.0,
            big = i * 1_000_003,
            huge = i + 1,
            free = match i % 4 { 0 => "0.0".to_owned(), 1 => format!("-{i}.500"), 2 => format!("{i}000000"), _ => format!("0.000{i}") },
            short = i % 1000,
            padded = i % 100,
            h = i % 24, m = i % 60, s = i % 60, us = i * 31 % 1_000_000, dd = i % 28 + 1,
            uuid = i,
            raw = i,
            mood = ["sad", "ok", "\"it's, fine\""][i % 3],
        ));
    }
    text
}
