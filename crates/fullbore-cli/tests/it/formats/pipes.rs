//! Named pipes, process substitution and standard input: looked at without losing a byte.

use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common;
use crate::common::Files;
use crate::common::held::end_of;
use fullbore_testing::{Output, TestServer, fullbore_command, output_of, shared_or_skip};

fn write_to(path: &str, content: &[u8]) {
    let mut pipe = std::fs::OpenOptions::new().write(true).open(Path::new(path)).expect("opened");
    // A load that refuses closes its end; its message says more than ours would.
    let _ = pipe.write_all(content);
}

/// Long enough to be more than what is looked at.
fn rows(from: u64, count: u64) -> String {
    (from..from + count).map(|i| format!("\"note, {i}\",{i},2024-01-{:02}\n", i % 28 + 1)).collect()
}

const COUNT_AND_SUM: &str = "SELECT count(*), sum(id), min(day), max(length(note)) FROM t";

#[test]
fn named_pipes_need_no_columns() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let header = "note,id,day\n";
    let text = format!("{header}{}", rows(1, 60_000));
    let small = format!("\u{feff}{header}{}", rows(1, 3));
    let mut contents = vec![("plain", text.as_bytes().to_vec(), 60_000u64)];
    contents.push(("small, with a mark", small.into_bytes(), 3));
    for (packer, packed) in common::packed(text.as_bytes()) {
        contents.push((packer, packed, 60_000));
    }
    for (what, content, count) in contents {
        let database = cluster.fresh_database();
        let files = Files::new();
        let pipe = files.make_pipe("orders.pipe");
        // The table is made from what is seen in the pipe; the header is in another order.
        let load =
            files.start(&["load", &pipe, "--to", database.url(), "--table", "t", "--create"]);
        write_to(&pipe, &content);
        let output = end_of(load);
        assert_eq!(output.code, 0, "{what}: {}", output.stderr);
        let sum = count * (count + 1) / 2;
        let said = database.psql(COUNT_AND_SUM);
        assert!(said.starts_with(&format!("{count}|{sum}|2024-01-")), "{what}: {said}");
    }
}

#[test]
fn pipes_written_one_after_the_other_do_not_wait_for_each_other() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id bigint, day date, note text)");
    let files = Files::new();
    let pipes = ["a.pipe", "b.pipe"].map(|name| files.make_pipe(name));
    let mut args = vec!["load", &pipes[0], &pipes[1], "--to", database.url(), "--table", "t"];
    args.extend(["--streams", "2"]);
    let load = files.start(&args);
    let text = |from| format!("note,id,day\n{}", rows(from, 40_000));
    write_to(&pipes[0], text(1).as_bytes());
    let [(_, gzip), ..] = common::packed(text(40_001).as_bytes());
    write_to(&pipes[1], &gzip);
    let output = end_of(load);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(database.psql(COUNT_AND_SUM).starts_with("80000|3200040000|"));
    // A second one of another shape is refused once it is opened, and nothing is kept.
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id bigint, day date, note text)");
    let mut args = vec!["load", &pipes[0], &pipes[1], "--to", database.url(), "--table", "t"];
    args.extend(["--streams", "2", "--atomic"]);
    let load = files.start(&args);
    write_to(&pipes[0], b"note,id,day\nx,1,2024-01-01\n");
    write_to(&pipes[1], b"day,id,note\n2024-01-01,2,y\n");
    let output = end_of(load);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("b.pipe: its header is"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
}

#[test]
fn process_substitution_works() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let [(_, gzip), ..] = common::packed(format!("note,id,day\n{}", rows(1, 60_000)).as_bytes());
    let file = files.write("orders.csv.gz", gzip);
    for (number, command) in ["zcat", "cat"].into_iter().enumerate() {
        let fullbore = fullbore_command().get_program().to_str().expect("UTF-8").to_owned();
        let mut bash = std::process::Command::new("bash");
        let script = format!(
            "\"$0\" load <({command} {file}) --to '{}' --table t{number} --create --quiet",
            database.url()
        );
        bash.args(["-c", &script, &fullbore]).env("FULLBORE_HOME", files.path("state"));
        let output: Output = output_of(bash);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql(&format!("SELECT count(*) FROM t{number}")), "60000");
    }
}

#[test]
fn standard_input_is_looked_at_too() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let text = format!("note,id,day\n{}", rows(1, 60_000));
    let args = ["load", "-", "--to", database.url(), "--table", "t", "--create"];
    let output = files.fullbore_with_input(&args, text.as_bytes());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(database.psql(COUNT_AND_SUM).starts_with("60000|1800030000|"));
    // Rejects of a stream have their lines.
    let bad = "note,id,day\nx,1,2024-01-01\ny,2,someday\n";
    let mut args = vec!["load", "-", "--to", database.url(), "--table", "t"];
    args.extend(["--max-rejects", "1"]);
    let output = files.fullbore_with_input(&args, bad.as_bytes());
    assert_eq!(output.code, 3, "{}", output.stderr);
    let reasons = files.reasons();
    assert_eq!((&reasons[0]["line"], &reasons[0]["value"]), (&3.into(), &"someday".into()));
    let twice = files.fullbore_with_input(&["load", "-", "-", "--table", "t"], b"1\n");
    assert_eq!(twice.code, 2, "{}", twice.stderr);
}

/// The writer's end of a pipe, held open by a thread of its own.
struct Silent {
    enough: Sender<()>,
    held: JoinHandle<()>,
}

/// Writes into a pipe, and keeps it open and silent until it is told, or a minute has passed.
fn write_and_fall_silent(path: &str, content: &[u8]) -> Silent {
    let mut pipe = std::fs::OpenOptions::new().write(true).open(Path::new(path)).expect("opened");
    pipe.write_all(content).expect("the load reads");
    let (enough, told) = channel();
    let held = std::thread::spawn(move || {
        let _ = told.recv_timeout(Duration::from_secs(60));
        drop(pipe);
    });
    Silent { enough, held }
}

/// The end of a load, which must not have waited for its pipe's.
///
/// The pipe's writer is gone afterwards: the next load to open it would else see the end of
/// this one's.
fn end_before(load: Child, silent: Silent) -> Output {
    let output = end_of(load);
    assert!(silent.enough.send(()).is_ok(), "the load waited for its pipe: {}", output.stderr);
    silent.held.join().expect("closed");
    output
}

#[test]
fn silent_pipes_are_not_waited_for_in_vain() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (id bigint, day date, note text)");
    let files = Files::new();
    let [pipe, other] = ["a.pipe", "b.pipe"].map(|name| files.make_pipe(name));
    let good = format!("note,id,day\n{}", rows(1, 60_000));
    let to = ["--to", database.url(), "--table", "t", "--atomic", "--streams", "2"];
    // A failure of another source is told when it is seen.
    let load = files.start(&[&["load", &pipe, &other], &to[..]].concat());
    let silent = write_and_fall_silent(&pipe, good.as_bytes());
    write_to(&other, b"day,id,note\n2024-01-01,2,y\n");
    let output = end_before(load, silent);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("b.pipe: its header is"), "{}", output.stderr);
    // So is a signal heard.
    let load = files.start(&[&["load", &pipe], &to[..]].concat());
    let silent = write_and_fall_silent(&pipe, good.as_bytes());
    let mut asking = common::held::session(database.url());
    common::held::wait_for("session that loads", || {
        let loading =
            "SELECT FROM pg_stat_activity WHERE query LIKE '%COPY%' AND pid <> pg_backend_pid()
                          AND datname = current_database()";
        !asking.query(loading).expect("answered").is_empty()
    });
    common::held::interrupt(&load);
    let output = end_before(load, silent);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM t"), "0");
}
