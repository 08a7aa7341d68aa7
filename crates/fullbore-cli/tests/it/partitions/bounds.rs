//! Partitions whose ranges are given: by the job, or by partitions that the target has already.

use crate::common;
use crate::common::codes::REFUSED;
use crate::common::{Files, assert_no_leftovers, assert_same, checksum};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip, wanted};

const SERVERS: [TestServer; 2] = [TestServer::Embedded18, TestServer::Pg14];
const PARTITIONS: [&str; 6] = ["--format", "csv", "--header", "none", "--publish", "partitions"];

/// A table of days with partitions for two months, and what it should hold in the end.
fn months(database: &TestDatabase<'_>) {
    database.psql(
        "CREATE TABLE ours (day date NOT NULL, n int, v text DEFAULT 'x') PARTITION BY RANGE (day);
         CREATE TABLE january PARTITION OF ours FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
         CREATE SCHEMA \"old; er\";
         CREATE TABLE \"old; er\".\"Feb; ruary\" PARTITION OF ours FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
         CREATE INDEX by_n ON ours (n);
         ALTER TABLE ours ADD PRIMARY KEY (day, n)",
    );
}

/// 50 rows for each day of the year from the `first` to before the `end`.
fn days(first: u32, end: u32) -> String {
    (first..end)
        .flat_map(|day| (0..50).map(move |n| (day, n)))
        .map(|(day, n)| {
            let (month, day) =
                if day < 31 { (1, day) } else { (2 + (day - 31) / 29, (day - 31) % 29) };
            format!("2024-{month:02}-{:02},{n},some text\n", day + 1)
        })
        .collect()
}

fn plain(database: &TestDatabase<'_>, columns: &str, files: &[&str]) {
    database.psql(&format!("CREATE TABLE plain ({columns})"));
    for file in files {
        database.psql(&format!("COPY plain FROM '{file}' (FORMAT csv)"));
    }
}

fn partitions_of(database: &TestDatabase<'_>) -> String {
    database.psql(
        "SELECT string_agg(inhrelid::regclass || ' ' || pg_get_expr(relpartbound, c.oid), '; ' ORDER BY pg_get_expr(relpartbound, c.oid))
           FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'ours'::regclass",
    )
}

#[test]
fn a_file_is_cut_by_the_empty_partitions_of_its_target() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        // The second file is compressed and goes on past the partitions that are there.
        let first = days(10, 45);
        let second = days(45, 80);
        let (_, packed) = common::packed(second.as_bytes()).into_iter().nth(1).expect("zstd");
        files.write("1.csv", &first);
        files.write("2.csv", packed);
        let both = files.write("both.txt", first + &second);
        let database = cluster.fresh_database();
        months(&database);
        plain(&database, "day date, n int, v text", &[&both]);
        let before = database.psql("SELECT 'january'::regclass::oid");
        let mut plan = vec!["plan", "?.csv", "--table", "ours", "--to", database.url()];
        plan.extend(PARTITIONS);
        let planned = files.fullbore(&plan);
        assert!(
            planned.stdout.contains("in place of the empty partition \"old; er\".\"Feb; ruary\""),
            "{}",
            planned.stdout
        );
        let output = files.load(&database, "?.csv", "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_same(&database, "ours", "plain");
        assert_no_leftovers(&database);
        let made = partitions_of(&database);
        for bounds in [
            "january FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
            "\"old; er\".\"Feb; ruary\" FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
            "FOR VALUES FROM ('2024-03-01') TO ('2024-04-01')",
        ] {
            assert!(made.contains(bounds), "{made} lacks {bounds}");
        }
        assert_ne!(database.psql("SELECT 'january'::regclass::oid"), before, "it was not replaced");
        // Indexes have the old names, belong to the parent's, and statistics are there.
        assert_eq!(
            database.psql("SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'january'::regclass"),
            "january_n_idx january_pkey"
        );
        assert_eq!(
            database.psql(
                "SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid = 'ours'::regclass"
            ),
            "t"
        );
        assert_eq!(
            database.psql("SELECT reltuples FROM pg_class WHERE relname = 'january'"),
            "1050"
        );
        // Once they hold rows they are refused, by name, and nothing happens.
        let loaded = checksum(&database, "ours");
        let output = files.load(&database, "1.csv", "ours", &PARTITIONS);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        for words in ["january", "already has rows", "--publish append"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_eq!(checksum(&database, "ours"), loaded);
    }
}

#[test]
fn rows_that_are_nearly_sorted_change_partitions_a_few_times() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        let mut lines: Vec<String> = days(20, 40).lines().map(str::to_owned).collect();
        let change = lines.iter().position(|line| line.starts_with("2024-02")).expect("a change");
        for n in 1..40 {
            lines.swap(change - n, change + 2 * n);
        }
        let file = files.write("near.csv", lines.join("\n"));
        let database = cluster.fresh_database();
        months(&database);
        plain(&database, "day date, n int, v text", &[&file]);
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_same(&database, "ours", "plain");
        // In no order at all it is refused.
        lines
            .sort_by_key(|line| line.bytes().rev().map(u64::from).fold(0, |a, b| a * 31 % 977 + b));
        let mut by_n: Vec<String> = days(0, 60).lines().map(str::to_owned).collect();
        by_n.sort_by_key(|line| {
            line.split(',').nth(1).map(|n| n.parse::<u32>().expect("a number"))
        });
        let mut long = Vec::new();
        (0..30).for_each(|_| long.extend(by_n.iter().cloned()));
        let file = files.write("mixed.csv", long.join("\n"));
        let database = cluster.fresh_database();
        months(&database);
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        for words in ["mixed.csv", "not sorted by day", "--publish append"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    }
}

#[test]
fn a_partition_with_properties_of_its_own_is_refused_by_name() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        let file = files.write("x.csv", days(0, 40));
        for (sql, words) in [
            ("CREATE INDEX own_index ON january (v)", "the index public.own_index"),
            ("ALTER TABLE january ADD CONSTRAINT own CHECK (n < 1000)", "the constraint own"),
            ("ALTER TABLE january ALTER v SET DEFAULT 'other'", "settings of the column v"),
            ("ALTER TABLE january SET (fillfactor = 70)", "storage options"),
            ("GRANT SELECT ON january TO PUBLIC", "grants"),
            ("COMMENT ON TABLE january IS 'of its own'", "a comment"),
            (
                "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
                 CREATE TRIGGER own BEFORE INSERT ON january FOR EACH ROW EXECUTE FUNCTION f()",
                "the trigger own",
            ),
            ("CREATE VIEW v AS SELECT * FROM january", "january"),
        ] {
            let database = cluster.fresh_database();
            months(&database);
            database.psql(sql);
            let output = files.load(&database, &file, "ours", &PARTITIONS);
            assert_ne!(output.code, 0, "{sql}");
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "0");
            assert_eq!(database.psql("SELECT count(*) FROM january"), "0", "it is still there");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn rejects_of_a_file_that_is_cut_keep_their_lines() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let mut lines: Vec<String> = days(10, 80).lines().map(str::to_owned).collect();
    for at in [100, 2000, 3333] {
        lines[at] = lines[at].replace("-0", "-99");
    }
    let text = lines.join("\n");
    let (_, packed) = common::packed(text.as_bytes()).into_iter().next().expect("gzip");
    for content in [text.into_bytes(), packed] {
        let files = Files::new();
        let file = files.write("x", content);
        let database = cluster.fresh_database();
        months(&database);
        let mut args = PARTITIONS.to_vec();
        args.extend(["--max-rejects", "3"]);
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 3, "{}", output.stderr);
        let mut found: Vec<u64> =
            files.reasons().iter().map(|r| r["line"].as_u64().expect("a line")).collect();
        found.sort_unstable();
        assert_eq!(found, [101, 2001, 3334]);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), (lines.len() - 3).to_string());
    }
}

#[test]
fn rows_of_the_default_partition_stand_in_the_way() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        months(&database);
        database.psql("CREATE TABLE rest PARTITION OF ours DEFAULT; INSERT INTO ours VALUES ('2024-03-05', 1)");
        let files = Files::new();
        // April is free, March is not: rows of it wait in the default partition.
        let file = files.write("april.csv", "2024-04-01,1,x\n2024-04-02,2,y\n");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let file = files.write("march.csv", "2024-03-01,1,x\n2024-03-31,2,y\n");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 1, "{}", output.stderr);
        for words in ["rest", "key range can't be attached"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "3");
        assert_no_leftovers(&database);
    }
}

#[test]
fn a_failed_load_leaves_the_empty_partitions_alone() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    months(&database);
    let before = partitions_of(&database);
    let oid = database.psql("SELECT 'january'::regclass::oid");
    let files = Files::new();
    let file = files.write("x.csv", days(0, 40) + "2024-02-29,not a number,x\n");
    // One session, largest piece first: January is committed before February's row is judged.
    let mut args = PARTITIONS.to_vec();
    args.extend(["--streams", "1"]);
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert_eq!(partitions_of(&database), before);
    assert_eq!(database.psql("SELECT 'january'::regclass::oid"), oid);
    // January is kept, for a resume with a higher limit, until that is not wanted.
    assert_eq!(files.fullbore(&["runs", "abort", "last"]).code, 0);
    assert_no_leftovers(&database);
}

#[test]
fn bounds_of_the_job_make_the_partitions() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        // Both files have keys of both ranges: that is no overlap where ranges are given.
        let rows =
            |from: i64| -> String { (from..from + 300).map(|k| format!("{k},{k}\n")).collect() };
        let (one, two) = (files.write("1.csv", rows(-150)), files.write("2.csv", rows(-100)));
        let job = files.write(
            "job.toml",
            "[[table]]\nname = \"ours\"\nsources = [\"1.csv\", \"2.csv\"]\nheader = \"none\"\n\
             publish = \"partitions\"\npartition_bounds = [\"MINVALUE\", 0, \"200\"]\n",
        );
        for from_file in [true, false] {
            let database = cluster.fresh_database();
            database.psql("CREATE TABLE ours (k bigint, n int) PARTITION BY RANGE (k)");
            plain(&database, "k bigint, n int", &[&one, &two]);
            let output = if from_file {
                files.fullbore(&["load", &job, "--to", database.url()])
            } else {
                let mut args = PARTITIONS.to_vec();
                args.extend(["--partition-bounds", "MINVALUE,0,200"]);
                files.load(&database, "?.csv", "ours", &args)
            };
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_same(&database, "ours", "plain");
            assert_no_leftovers(&database);
            let made = partitions_of(&database);
            assert!(made.contains("FROM (MINVALUE) TO ('0')"), "{made}");
            assert!(made.contains("FROM ('0') TO ('200')"), "{made}");
        }
        for (bounds, words) in [
            ("-100,0,200", "1.csv: k from -150 to -101 is outside the partition bounds"),
            ("0", "fewer than two"),
            ("0,200,100", "does not ascend at 100"),
            ("0,MINVALUE", "does not ascend at MINVALUE"),
            ("0,much", "invalid input syntax"),
        ] {
            let database = cluster.fresh_database();
            database.psql("CREATE TABLE ours (k bigint, n int) PARTITION BY RANGE (k)");
            let mut args = PARTITIONS.to_vec();
            args.extend(["--partition-bounds", bounds]);
            let output = files.load(&database, "1.csv", "ours", &args);
            assert_eq!(output.code, REFUSED, "{bounds}: {}", output.stderr);
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
    }
}

#[test]
fn standard_input_becomes_one_partition_or_is_refused() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let files = Files::new();
        let text: String = (0..50_000).map(|k| format!("{},{k}\n", k * 7919 % 50_000)).collect();
        let file = files.write("x.csv", &text);
        let database = cluster.fresh_database();
        database.psql("CREATE TABLE ours (k bigint, n int) PARTITION BY RANGE (k)");
        plain(&database, "k bigint, n int", &[&file]);
        let mut args = vec!["load", "-", "--table", "ours", "--to", database.url()];
        args.extend(PARTITIONS);
        let output = files.fullbore_with_input(&args, text.as_bytes());
        assert_eq!(output.code, REFUSED, "{}", output.stderr);
        assert!(output.stderr.contains("--partition-bounds"), "{}", output.stderr);
        args.extend(["--partition-bounds", "0,50000"]);
        let output = files.fullbore_with_input(&args, text.as_bytes());
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_same(&database, "ours", "plain");
        // A key outside is seen as its row comes.
        args.pop();
        args.push("50000,99000");
        let output = files.fullbore_with_input(&args, b"50001,1\n99000,2\n");
        assert_eq!(output.code, 1, "{}", output.stderr);
        for words in ["line 2", "k is 99000"] {
            assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
        }
        assert_same(&database, "ours", "plain");
        assert_no_leftovers(&database);
    }
}

#[test]
fn attaching_scans_no_piece() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE ours (k bigint, n int) PARTITION BY RANGE (k);
         CREATE TABLE low PARTITION OF ours FOR VALUES FROM (MINVALUE) TO (500)",
    );
    let files = Files::new();
    let text: String = (0..1000).map(|k| format!("{k},{k}\n")).collect();
    let file = files.write("x.csv", &text);
    let output = files.load(&database, &file, "ours", &PARTITIONS);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let scans = "SELECT count(*), coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables
                  WHERE relid IN (SELECT inhrelid FROM pg_inherits
                                   WHERE inhparent = 'ours'::regclass)";
    // Nor does verification: nothing was deleted. ATTACH would be a scan.
    assert_eq!(database.psql(scans), "2|0");
    // That the server counts them:
    database.psql("SELECT count(*) FROM ours; SELECT pg_stat_force_next_flush()");
    assert_eq!(database.psql(scans), "2|2");
}

#[test]
fn bounds_that_no_key_reaches_are_in_nobodys_way() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        months(&database);
        database.psql(
            "CREATE TABLE before PARTITION OF ours FOR VALUES FROM ('-infinity') TO ('2020-01-01');
             CREATE TABLE ancient PARTITION OF ours FOR VALUES FROM (MINVALUE) TO ('-infinity');
             CREATE TABLE later PARTITION OF ours FOR VALUES FROM ('2030-01-01') TO ('20000-01-01')",
        );
        let files = Files::new();
        let text = format!("2019-12-31,1,x\n{}2031-01-01,1,x\n", days(0, 40));
        let file = files.write("x.csv", text);
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        plain(&database, "day date, n int, v text", &[&file]);
        assert_same(&database, "ours", "plain");
        assert_eq!(database.psql("SELECT count(*) FROM before"), "1");
        assert_eq!(database.psql("SELECT count(*) FROM later"), "1");
        assert_no_leftovers(&database);
    }
}

/// A table of moments with a partition for January, in a zone whose clocks change in March.
fn moments(database: &TestDatabase<'_>, column: &str) {
    database.psql(&format!("ALTER DATABASE {} SET timezone = 'Europe/Berlin'", database.name()));
    database.psql(&format!(
        "CREATE TABLE ours (at {column} NOT NULL, n int) PARTITION BY RANGE (at);
         CREATE TABLE january PARTITION OF ours FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')"
    ));
}

#[test]
fn a_row_outside_the_months_gets_a_month() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for (column, time, march) in [
            ("timestamp", " 10:00:00", "('2024-03-01 00:00:00') TO ('2024-04-01 00:00:00')"),
            (
                "timestamptz",
                " 10:00:00+00",
                "('2024-03-01 00:00:00+01') TO ('2024-04-01 00:00:00+02')",
            ),
            ("date", "", "('2024-03-01') TO ('2024-04-01')"),
        ] {
            let database = cluster.fresh_database();
            moments(&database, column);
            let files = Files::new();
            // A stray row, and nothing of January.
            let file = files.write("x.csv", format!("2024-03-15{time},1\n"));
            let output = files.load(&database, &file, "ours", &PARTITIONS);
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert!(
                output.stderr.contains("by the same pattern, 1 month each"),
                "{}",
                output.stderr
            );
            let made = partitions_of(&database);
            assert!(made.contains(march), "{column}: {made} lacks {march}");
            // The next load has its own month free, beside the one that is full.
            let days = ["2024-02-29", "2024-04-01", "2024-04-30"];
            let next = files.write("y.csv", days.map(|day| format!("{day}{time},1\n")).concat());
            let output = files.load(&database, &next, "ours", &PARTITIONS);
            assert_eq!(output.code, 0, "{}", output.stderr);
            let made = partitions_of(&database);
            assert_eq!(made.split("; ").count(), 4, "{made}");
            assert_eq!(database.psql("SELECT count(*) FROM ours"), "4");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn rows_outside_partitions_of_one_width_get_some_of_that_width() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE ours (k bigint, n int) PARTITION BY RANGE (k);
         CREATE TABLE below PARTITION OF ours FOR VALUES FROM (MINVALUE) TO (-250);
         CREATE TABLE first PARTITION OF ours FOR VALUES FROM (0) TO (100);
         CREATE TABLE second PARTITION OF ours FOR VALUES FROM (100) TO (200)",
    );
    let files = Files::new();
    // Two files with keys of one partition: that is no overlap where its range is given.
    files.write("1.csv", "-220,1\n50,2\n310,3\n");
    files.write("2.csv", "-201,1\n320,2\n330,3\n");
    let output = files.load(&database, "?.csv", "ours", &PARTITIONS);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let made = partitions_of(&database);
    for bounds in ["FROM ('-250') TO ('-200')", "FROM ('300') TO ('400')"] {
        assert!(made.contains(bounds), "{made} lacks {bounds}");
    }
    assert_eq!(made.split("; ").count(), 5, "{made}");
    assert_eq!(database.psql("SELECT count(*) FROM ours"), "6");
}

#[test]
fn a_row_centuries_away_from_the_days_is_refused() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    database.psql(
        "CREATE TABLE ours (day date NOT NULL, n int) PARTITION BY RANGE (day);
         CREATE TABLE monday PARTITION OF ours FOR VALUES FROM ('2024-01-01') TO ('2024-01-02')",
    );
    let files = Files::new();
    let file = files.write("x.csv", "0024-01-01,1\n2023-12-30,2\n");
    let output = files.load(&database, &file, "ours", &PARTITIONS);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    for words in ["day from 0024-01-01", "1 day each", "more than 1000", "--partition-bounds"] {
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
}
