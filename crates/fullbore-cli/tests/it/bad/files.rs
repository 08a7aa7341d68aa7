//! Files that are empty, unreadable, damaged, or change under the load; headers that do not fit.

use crate::common;
use crate::common::bad::{refused, with};
use crate::common::codes::{FAILED, REFUSED};
use crate::common::held::{Held, end_of};
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip};

#[test]
fn empty_files_and_headers_alone_load_nothing() {
    for (text, header) in [("", "none"), ("", "true"), ("a,b\n", "true"), ("a,b", "true")] {
        with(
            "a int, b int",
            text,
            &["--header", header, "--columns", "a,b"],
            |output, database, _| {
                assert_eq!(output.code, 0, "{}", output.stderr);
                assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
            },
        );
    }
}

#[test]
fn headers_that_do_not_match() {
    refused("a int, b int", "a,c\n1,2\n", &["--header", "true"], "no column \"c\"");
    refused("a int, b int", "a\n1\n", &["--header", "true"], "lacks the table's columns b");
    refused("a int, b int", "a,b,a\n1,2,3\n", &["--header", "true"], "\"a\" twice");
    refused("a int, b int", "b,a\n1,2\n", &["--header", "match"], "the table's columns are");
    refused("a int, b int", "1,2,3\n", &["--header", "none"], "records have 3 fields");
    let listed = |columns| ["--header", "none", "--columns", columns];
    refused("a int, b int", "1,2\n", &listed("a,c"), "no column \"c\"");
    refused("a int, b int", "1,2\n", &listed("a,a"), "\"a\" twice");
}

#[test]
fn headers_match_in_any_order_and_fields_can_be_skipped() {
    with("a int, b int", "b,a\n2,1\n", &["--header", "true"], |output, database, _| {
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT a, b FROM t"), "1|2");
    });
    with(
        "a int, b int",
        "2,x,1\n",
        &["--header", "none", "--columns", "b,-,a"],
        |output, database, _| {
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_eq!(database.psql("SELECT a, b FROM t"), "1|2");
        },
    );
}

#[test]
fn files_that_can_not_be_read() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let output = files.load(&database, "nowhere.csv", "t", &[]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("nowhere.csv"), "{}", output.stderr);
    let output = files.load(&database, "no*.csv", "t", &[]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    // Cut off in the middle: what was read before must not stay.
    let text: String = (0..1_000_000).map(|i| format!("{i}\n")).collect();
    for (packer, mut content) in common::packed(text.as_bytes()) {
        content.truncate(content.len() * 3 / 4);
        let cut = files.write("cut.csv", content);
        let args = ["--format", "csv", "--header", "none", "--atomic"];
        let output = files.load(&database, &cut, "t", &args);
        assert_eq!(output.code, FAILED, "{packer}: {}", output.stderr);
        assert!(output.stderr.contains("damaged or truncated"), "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
        assert_no_leftovers(&database);
    }
}

#[test]
fn packed_files_of_which_nothing_comes() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE EXTENSION IF NOT EXISTS fullbore");
    let files = Files::new();
    let some: String = "a,b\n".chars().chain((0..50).flat_map(|_| "1,2\n".chars())).collect();
    let (headers, rows) = (common::packed(b"a,b\n"), common::packed(some.as_bytes()));
    for ((packer, header), (_, rows)) in headers.into_iter().zip(rows) {
        std::fs::create_dir(files.path(packer)).expect("made");
        files.write(&format!("{packer}/empty.csv"), header);
        files.write(&format!("{packer}/rows.csv"), rows);
        for (name, count) in [("empty.csv", "0"), ("rows.csv", "50"), ("*.csv", "50")] {
            for how in [
                &["--publish", "append", "--method", "copy"][..],
                &["--publish", "append", "--atomic"],
                &["--publish", "replace", "--method", "copy"],
                &["--publish", "replace", "--method", "direct"],
                &["--publish", "append", "--no-ledger"],
            ] {
                database.psql("DROP TABLE IF EXISTS t; CREATE TABLE t (a int, b int)");
                let source = format!("{packer}/{name}");
                let mut args = vec!["--header", "true", "--streams", "4"];
                args.extend(how);
                let output = files.load(&database, &source, "t", &args);
                assert_eq!(output.code, 0, "{source} {how:?}: {}", output.stderr);
                assert!(!output.stderr.contains("restarted"), "{source}: {}", output.stderr);
                assert_eq!(database.psql("SELECT count(*) FROM t"), count, "{source} {how:?}");
                assert_no_leftovers(&database);
            }
        }
    }
}

#[test]
fn more_packed_files_than_may_be_open() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let mut expected = 0_u64;
    for n in 0..300_u64 {
        let (_, packed) =
            common::packed(format!("{n}\n").as_bytes()).into_iter().next().expect("gz");
        files.write(&format!("{n}.csv"), packed);
        expected += n;
    }
    let command = fullbore_testing::fullbore_command();
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 128 && exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(["load", "*.csv", "--table", "t", "--to", database.url()])
        .args(["--header", "none", "--format", "csv", "--streams", "2"])
        .current_dir(files.folder())
        .env("FULLBORE_HOME", files.path("state"))
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(database.psql("SELECT count(*), sum(a) FROM t"), format!("300|{expected}"));
}

#[test]
fn packed_files_of_several_frames_are_read_to_their_end() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    let part = |from: u32| -> String { (from..from + 40_000).map(|n| format!("{n}\n")).collect() };
    let (first, second) =
        (common::packed(part(0).as_bytes()), common::packed(part(40_000).as_bytes()));
    for ((packer, first), (_, second)) in first.into_iter().zip(second) {
        database.psql("TRUNCATE t");
        let file = files.write(&format!("{packer}.csv"), [first.clone(), second.clone()].concat());
        let args = ["--format", "csv", "--header", "none"];
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, 0, "{packer}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), sum(a) FROM t"), "80000|3199960000", "{packer}");
        // Of lz4 the end is four zeros and no more: without them a block could follow.
        let whole = [first, second].concat();
        let file = files.write(&format!("{packer}.cut.csv"), &whole[..whole.len() - 4]);
        let output = files.load(&database, &file, "t", &[&args[..], &["--atomic"]].concat());
        assert_eq!(output.code, FAILED, "{packer}: {}", output.stderr);
        assert!(output.stderr.contains("damaged or truncated"), "{packer}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM t"), "80000", "{packer}");
    }
}

#[test]
fn packed_files_that_are_corrupt() {
    use std::io::Write;
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let text: String = (0..300_000u64).map(|i| format!("{}\n", i * 7919 % 1_000_003)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("packed");
    // With a checksum, as the zstd command writes it.
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    zstd.include_checksum(true).expect("a checksum");
    zstd.write_all(text.as_bytes()).expect("packed");
    let packed = [gzip.finish().expect("packed"), zstd.finish().expect("packed")];
    for (name, mut content) in ["a.csv.gz", "a.csv.zst"].into_iter().zip(packed) {
        let middle = content.len() / 2;
        content[middle] ^= 0x10;
        let files = Files::new();
        let file = files.write(name, content);
        for publish in [&["--atomic"][..], &["--publish", "replace"], &[]] {
            let mut args = vec!["--header", "none", "--max-rejects", "100%"];
            args.extend(publish);
            let output = files.load(&database, &file, "t", &args);
            assert_eq!(output.code, FAILED, "{name} {publish:?}: {}", output.stderr);
            assert!(output.stderr.contains("damaged or truncated"), "{}", output.stderr);
            assert!(output.stderr.contains(name), "{}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn files_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int)");
    let files = Files::new();
    // Reading this file of our own process fails for everybody, root included.
    let mut unreadable = vec!["/proc/self/mem".to_owned()];
    let locked = files.write("locked.csv", "1\n");
    let mode = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(&locked, mode).expect("permissions");
    // Root reads what it likes.
    if std::fs::read(&locked).is_err() {
        unreadable.push(locked);
    }
    for file in &unreadable {
        let output = files.load(&database, file, "t", &["--format", "csv", "--header", "none"]);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains(&format!("can't read {file}")), "{}", output.stderr);
    }
    // A folder without a file in it is no source either.
    std::fs::create_dir(files.path("empty")).expect("made");
    let output = files.load(&database, "empty", "t", &[]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("no file") && output.stderr.contains("empty"));
}

#[test]
fn files_that_change_under_the_load() {
    use std::io::Write;
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let line = "a line of text that makes the file long enough to be read in many blocks\n";
    let text = line.repeat(120_000);
    let grow = |path: &std::path::Path| {
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("opened");
        file.write_all(line.as_bytes()).expect("written");
    };
    let shrink = |path: &std::path::Path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
        file.set_len(6_000_000).expect("cut");
    };
    let rewrite = |path: &std::path::Path| std::fs::write(path, text.replace('m', "n")).unwrap();
    type Change<'a> = &'a dyn Fn(&std::path::Path);
    let changes: [(&str, Change<'_>); 3] =
        [("grows", &grow), ("shrinks", &shrink), ("is written anew", &rewrite)];
    // Read in ranges, and as one stream.
    for encoding in [&[][..], &["--encoding", "latin1"]] {
        for (what, change) in &changes {
            let database = cluster.fresh_database();
            database.psql("CREATE TABLE t (a text)");
            let files = Files::new();
            let file = files.write("x.csv", &text);
            let mut held = Held::lock(database.url(), "t");
            let mut args = vec!["load", &file, "--to", database.url(), "--table", "t"];
            args.extend(["--format", "csv", "--header", "none", "--streams", "1"]);
            args.extend(encoding);
            let load = files.start(&args);
            held.wait_for_load();
            change(&files.path("x.csv"));
            held.release();
            let output = end_of(load);
            assert_eq!(output.code, FAILED, "{what} {encoding:?}: {}", output.stderr);
            assert!(output.stderr.contains("changed during the load"), "{}", output.stderr);
            assert!(output.stderr.contains("hint:"), "{}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM t"), "0", "{what}");
        }
    }
}
