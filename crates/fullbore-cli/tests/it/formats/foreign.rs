//! xz, which is read; and what is refused by its name, with what to do instead.

use std::io::{Read, Write};

use fullbore_testing::{TestServer, shared_or_skip};

use crate::common::{Files, assert_no_leftovers};

fn xz(text: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(text, 1).read_to_end(&mut packed).expect("packed");
    packed
}

#[test]
fn xz_is_read_from_files_and_pipes_stream_after_stream() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int, b text)");
    let files = Files::new();
    let rows = |from: u32, to: u32| -> String {
        (from..to).map(|n| format!("{n},{}\n", "x".repeat(n as usize % 50))).collect()
    };
    // Two streams, one after the other, are one file, as xz itself has it.
    let mut packed = xz(rows(0, 100_000).as_bytes());
    packed.extend(xz(rows(100_000, 100_007).as_bytes()));
    let file = files.write("rows.csv.xz", &packed);
    let args = ["--header", "none", "--verify", "full"];
    assert_eq!(files.load(&database, &file, "t", &args).code, 0);
    assert_eq!(database.psql("SELECT count(*), sum(a) FROM t"), "100007|5000650021");
    let url = database.url();
    let args = ["load", "-", "--to", url, "--table", "t", "--header", "none", "--format", "csv"];
    assert_eq!(files.fullbore_with_input(&args, &packed).code, 0);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "200014");
    let cut = files.write("cut.csv.xz", &packed[..packed.len() / 2]);
    let output = files.load(&database, &cut, "t", &["--header", "none", "--atomic"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    for words in ["damaged or truncated", "xz -t"] {
        assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
    }
    assert_no_leftovers(&database);
}

#[test]
fn the_memory_of_unpacking_xz_is_bounded() {
    let files = Files::new();
    let mut options = liblzma::stream::LzmaOptions::new_preset(0).expect("a preset");
    options.dict_size(1 << 30);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let stream =
        liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc64);
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream.expect("a stream"));
    encoder.write_all(b"1,2\n").expect("packed");
    let file = files.write("big.csv.xz", encoder.finish().expect("packed"));
    let output = files.fullbore(&["load", &file, "--to", "null:", "--header", "none"]);
    assert_ne!(output.code, 0);
    assert!(output.stderr.contains("needs more than 128 MiB of memory"), "{}", output.stderr);
}

#[test]
fn what_is_no_table_of_text_is_refused_by_its_name() {
    let files = Files::new();
    let nowhere = "postgresql://127.0.0.1:1/nowhere";
    let refused = |source: &str, words: &[&str]| {
        let output = files.fullbore(&["load", source, "--to", nowhere, "--table", "t"]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        for words in words {
            assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
        }
    };
    refused(
        "ftp://host/a.csv",
        &["ftp:// is not supported yet; download it, or pipe it to `-`", "curl -sSfL"],
    );
    let here = |name: &str, bytes: &[u8], words: &[&str]| {
        let file = files.write(name, bytes);
        let output = files.fullbore(&["load", &file, "--to", "null:", "--table", "t"]);
        assert_ne!(output.code, 0, "{}", output.stderr);
        for words in words {
            assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
        }
        // By what it is, not by what it is called.
        let args = ["load", "-", "--to", "null:", "--table", "t"];
        assert_ne!(files.fullbore_with_input(&args, bytes).code, 0);
    };
    here("a.zip", b"PK\x03\x04\x14\0\0\0\0\0a.csv1,2\n", &["is a zip archive", "unzip -p"]);
    here(
        "a.csv",
        b"PK\x03\x04\x14\0\0\0\0\0[Content_Types].xml",
        &["Excel", "save the sheet as CSV"],
    );
    here("a.bz2", b"BZh91AY&SY\0\0", &["bzip2", "bunzip2 -c"]);
    here("a.json", b"[\n {\"a\": 1},\n {\"a\": 2}\n]\n", &["one JSON array", "jq -c '.[]'"]);
    here("b.json", b"{\n  \"a\": 1,\n  \"b\": [1]\n}\n", &["over several lines", "jq -c ."]);
}

#[test]
fn options_of_text_are_refused_for_files_that_are_none() {
    let files = Files::new();
    let file = files.write("x.ndjson", "{\"a\":1}\n");
    for (option, value) in [("--delimiter", ";"), ("--null", "NA"), ("--skip-lines", "1")] {
        let output =
            files.fullbore(&["load", &file, "--to", "null:", "--format", "ndjson", option, value]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        for words in [option, "applies to delimited text, not to JSON lines"] {
            assert!(output.stderr.contains(words), "{words} is not in {}", output.stderr);
        }
    }
}
