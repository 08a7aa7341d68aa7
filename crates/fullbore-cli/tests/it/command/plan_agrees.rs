//! `plan`, `preflight all` and `load` agree about what a job comes to: what one of them refuses all
//! refuse, for the same reason and before a row moves; what none refuses is loaded.

use crate::common::Files;
use crate::common::codes::REFUSED;
use fullbore_testing::{Output, TestDatabase, TestServer, is_long, shared_or_skip};

const LOADED: i32 = 0;

/// Two files that most jobs load; both fit `SHOP`.
const ORDERS: &str = "id,customer,amount\n1,Ann,10.50\n2,Bob,20.25\n";
/// The target of most jobs.
const SHOP: &str = "CREATE TABLE t (id bigint, customer text, amount numeric)";

/// A job: what is there before it, its files, what it is told, and what a refusal of it names.
struct Job {
    name: &'static str,
    sql: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    args: &'static [&'static str],
    refusal: Option<&'static str>,
}

const fn loads(
    name: &'static str,
    sql: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    args: &'static [&'static str],
) -> Job {
    Job { name, sql, files, args, refusal: None }
}

const fn refused(
    name: &'static str,
    sql: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    args: &'static [&'static str],
    names: &'static str,
) -> Job {
    Job { name, sql, files, args, refusal: Some(names) }
}

const A: &[(&str, &[u8])] = &[("a.csv", ORDERS.as_bytes())];
const TWO: &[(&str, &[u8])] =
    &[("a.csv", ORDERS.as_bytes()), ("b.csv", b"amount,id,customer\n30,3,Eve\n")];
const BARE: &[(&str, &[u8])] = &[("a.csv", b"1,Ann,10.50\n2,Bob,20.25\n")];
const SEMICOLONS: &[(&str, &[u8])] = &[("a.csv", b"id;customer;amount\n1;Ann;10.50\n2;Bob;20\n")];

const JOBS: &[Job] = &[
    // Headers.
    loads("names of the target", SHOP, A, &[]),
    loads("names in another order", SHOP, TWO, &[]),
    loads("no header, told", SHOP, BARE, &["--header", "none"]),
    loads("no header, found", SHOP, BARE, &[]),
    loads("semicolons", SHOP, SEMICOLONS, &[]),
    loads(
        "a header that is skipped",
        SHOP,
        &[("a.csv", b"Nr,Kunde,Betrag\n1,Ann,10.5\n")],
        &["--header", "skip"],
    ),
    loads(
        "a header of text above text, by the target's names",
        "CREATE TABLE t (email text, name text)",
        &[("a.csv", b"name,email\nAnn,a@x.org\nBob,b@x.org\n")],
        &[],
    ),
    loads(
        "columns that are named",
        SHOP,
        &[("a.csv", b"x,y,z\n1,Ann,10.5\n")],
        &["--header", "true", "--columns", "id,customer,amount"],
    ),
    loads("a field that is skipped", SHOP, A, &["--columns", "id,-,amount"]),
    refused(
        "a header with a name that the target has not",
        SHOP,
        &[("a.csv", b"id,client,amount\n1,Ann,10.5\n")],
        &["--header", "true"],
        "client",
    ),
    refused("columns that the target has not", SHOP, BARE, &["--columns", "id,who,amount"], "who"),
    refused("a column twice", SHOP, BARE, &["--columns", "id,id,amount"], "id"),
    refused(
        "more fields than columns",
        SHOP,
        &[("a.csv", b"1,Ann,10.5,x\n2,Bob,1,y\n")],
        &["--header", "none"],
        "4",
    ),
    // Targets.
    refused("no such table", "", A, &[], "--create"),
    refused("a view", "CREATE VIEW t AS SELECT 1 AS id", A, &[], "view"),
    refused(
        "a generated column is given",
        "CREATE TABLE t (id bigint, customer text, amount numeric GENERATED ALWAYS AS (1) STORED)",
        A,
        &[],
        "amount",
    ),
    loads(
        "columns with defaults are left out",
        "CREATE TABLE t (id bigint, customer text, amount numeric, made timestamptz DEFAULT now(),
                         no bigint GENERATED ALWAYS AS IDENTITY)",
        A,
        &[],
    ),
    loads("a table that is made", "", A, &["--create"]),
    refused("a type for a column that is there", SHOP, A, &["--type", "id=int"], "--type"),
    refused("a type for no column", "", A, &["--create", "--type", "nope=int"], "nope"),
    refused("a type that is not", "", A, &["--create", "--type", "id=nonsense"], "nonsense"),
    // Ways of publishing.
    loads("replaced", SHOP, A, &["--publish", "replace"]),
    loads("appended in one transaction", SHOP, A, &["--atomic"]),
    refused("partitions of a plain table", SHOP, A, &["--publish", "partitions"], "partition"),
    loads(
        "partitions",
        "CREATE TABLE t (id bigint, customer text, amount numeric) PARTITION BY RANGE (id)",
        A,
        &["--publish", "partitions"],
    ),
    refused(
        "partitions by list",
        "CREATE TABLE t (id bigint, customer text, amount numeric) PARTITION BY LIST (id)",
        A,
        &["--publish", "partitions"],
        "RANGE",
    ),
    refused("atomic and replace", SHOP, A, &["--atomic", "--publish", "replace"], "--atomic"),
    refused("bounds without partitions", SHOP, A, &["--partition-bounds", "1,2"], "partition"),
    refused("an old table that append keeps", SHOP, A, &["--keep-old"], "--keep-old"),
    refused(
        "replaced while others refer to it",
        "CREATE TABLE t (id bigint PRIMARY KEY, customer text, amount numeric);
         CREATE TABLE u (id bigint REFERENCES t)",
        A,
        &["--publish", "replace"],
        "u",
    ),
    loads(
        "appended while others refer to it",
        "CREATE TABLE t (id bigint PRIMARY KEY, customer text, amount numeric);
         CREATE TABLE u (id bigint REFERENCES t)",
        A,
        &[],
    ),
    // Methods.
    refused("direct appends", SHOP, A, &["--method", "direct"], "direct"),
    loads("copy, told", SHOP, A, &["--method", "copy"]),
    refused(
        "rows are packed for COPY",
        SHOP,
        A,
        &["--method", "copy", "--compress", "lz4"],
        "compress",
    ),
    // Formats and files.
    loads("text of COPY", SHOP, &[("a.txt", b"1\tAnn\t\\N\n2\tBob\t3\n")], &["--format", "text"]),
    loads("tabs", SHOP, &[("a.tsv", b"id\tcustomer\tamount\n1\tC:\\new\t2\n")], &[]),
    refused("no such file", SHOP, &[], &["nowhere.csv"], "nowhere.csv"),
    refused("no Parquet", SHOP, &[("a.parquet", b"PAR1 and no more")], &[], "a.parquet"),
    refused("no gzip", SHOP, &[("a.csv.gz", b"\x1f\x8b\x08 and no more")], &[], "a.csv.gz"),
    refused("an object store", SHOP, &[], &["s3://bucket/a.csv"], "s3://"),
    refused("a web page", SHOP, &[], &["https://localhost/a.csv"], "https://"),
    refused(
        "a zip archive",
        SHOP,
        &[("a.zip", b"PK\x03\x04 and more of it, as archives have")],
        &[],
        "zip",
    ),
    refused(
        "a workbook",
        SHOP,
        &[("a.xlsx", b"PK\x03\x04 and more of it, as workbooks have")],
        &[],
        "xlsx",
    ),
    refused("an encoding that is not", SHOP, A, &["--encoding", "klingon"], "klingon"),
    // Several NULLs, ragged rows, frames.
    loads(
        "several NULLs",
        SHOP,
        &[("a.csv", b"id,customer,amount\n1,Ann,NA\n2,Bob,-\n3,Eve,4\n")],
        &["--null", "NA", "--null", "-"],
    ),
    loads(
        "rows that are padded",
        SHOP,
        &[("a.csv", b"id,customer,amount\n1,Ann,5\n2,Bob\n3,Eve,7\n")],
        &["--ragged", "pad"],
    ),
    loads(
        "lines before and after",
        SHOP,
        &[("a.csv", b"Report\n\nid,customer,amount\n1,Ann,5\nTotal 1\n")],
        &["--skip-lines", "2", "--skip-footer", "1"],
    ),
    loads(
        "comments",
        SHOP,
        &[("a.csv", b"# made today\nid,customer,amount\n# none\n1,Ann,5\n")],
        &["--comment", "#"],
    ),
    // Rights and settings.
    refused(
        "a tablespace that is not",
        SHOP,
        A,
        &["--publish", "replace", "--tablespaces", "nope"],
        "nope",
    ),
    refused("no schema of that name", "", A, &["--create", "--table", "nowhere.t"], "nowhere"),
];

/// The first line of an error: what is refused, and why.
fn reason(output: &Output) -> String {
    output.stderr.lines().find(|line| line.starts_with("error")).unwrap_or_default().to_owned()
}

/// Rows of `t`, and all tables: what a refusal leaves as it was.
fn state(database: &TestDatabase<'_>) -> String {
    let tables = database.psql(
        "SELECT string_agg(c.oid::regclass::text, ',' ORDER BY c.oid::regclass::text)
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE relkind IN ('r', 'p', 'v') AND nspname = 'public'",
    );
    let is_there = database.psql("SELECT to_regclass('t') IS NOT NULL") == "t";
    let rows = if is_there { database.psql("SELECT count(*) FROM t") } else { String::new() };
    format!("{tables}: {rows}")
}

#[test]
fn fifty_jobs_are_refused_or_loaded_by_all_alike() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    assert_eq!(JOBS.len(), 50);
    let mut wrong = Vec::new();
    // `make test` runs every third.
    for job in JOBS.iter().step_by(if is_long() { 1 } else { 3 }) {
        let database = cluster.fresh_database();
        let files = Files::new();
        if !job.sql.is_empty() {
            database.psql(job.sql);
        }
        let sources: Vec<String> =
            job.files.iter().map(|(name, content)| files.write(name, content)).collect();
        let mut args: Vec<&str> = sources.iter().map(String::as_str).collect();
        args.extend(["--to", database.url()]);
        if !job.args.contains(&"--table") {
            args.extend(["--table", "t"]);
        }
        args.extend(job.args);
        let before = state(&database);
        let plan = files.fullbore(&[&["plan"], &args[..]].concat());
        let measured = [&["preflight", "all"], &args[..], &["--time", "0.1", "--bytes", "1M"]];
        let preflight = files.fullbore(&measured.concat());
        if state(&database) != before {
            wrong.push(format!("{}: looking changed {before} to {}", job.name, state(&database)));
        }
        let load = files.fullbore(&[&["load"], &args[..]].concat());
        let wanted = if job.refusal.is_some() { REFUSED } else { LOADED };
        for (who, output) in [("plan", &plan), ("preflight all", &preflight), ("load", &load)] {
            let names_it = job.refusal.is_none_or(|names| output.stderr.contains(names));
            if output.code != wanted || !names_it {
                let (code, said) = (output.code, &output.stderr);
                wrong.push(format!("{}: {who} ended with {code}, not {wanted}: {said}", job.name));
            }
        }
        if job.refusal.is_some() {
            if reason(&plan) != reason(&load) {
                let reasons = format!("{:?}, load {:?}", reason(&plan), reason(&load));
                wrong.push(format!("{}: plan said {reasons}", job.name));
            }
            if state(&database) != before {
                wrong.push(format!("{}: refused, and left {}", job.name, state(&database)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
