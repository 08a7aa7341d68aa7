//! Tables that refer to each other are replaced together.

use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

use crate::common::{Files, assert_no_leftovers};

const TABLES: &str = "
    CREATE TABLE customers (id int PRIMARY KEY, boss int REFERENCES customers);
    CREATE TABLE orders (id bigint, customer int REFERENCES customers ON DELETE CASCADE, PRIMARY KEY (id));
    CREATE TABLE lines (order_id bigint CONSTRAINT of_order REFERENCES orders DEFERRABLE, number int,
                        PRIMARY KEY (order_id, number));
    CREATE TABLE kept (customer int REFERENCES customers)";
const OLD: &str = "
    INSERT INTO customers VALUES (1, NULL), (2, 1);
    INSERT INTO orders VALUES (10, 1), (11, 2);
    INSERT INTO lines VALUES (10, 1), (11, 1)";

const KEYS: &str = "
    SELECT conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint
     WHERE contype = 'f' AND connamespace = 'public'::regnamespace ORDER BY 2";

/// Writes the files and a job that replaces these tables.
fn job(files: &Files, tables: &[(&str, String)], more: &str) -> String {
    let mut text = format!("{more}\n");
    for (name, rows) in tables {
        files.write(&format!("{name}.csv"), rows);
        text.push_str(&format!(
            "[[table]]\nname = \"{name}\"\nsources = [\"{name}.csv\"]\nheader = \"none\"\n\
             publish = \"replace\"\n"
        ));
    }
    files.write("job.toml", text)
}

fn new_rows() -> [(&'static str, String); 3] {
    let orders: String = (0..3_000).map(|n| format!("{n},{}\n", n % 500)).collect();
    let lines: String = (0..9_000).map(|n| format!("{},{}\n", n / 3, n % 3)).collect();
    let customers: String = (0..500).map(|n| format!("{n},{}\n", n / 2)).collect();
    // Those that refer come first: the order of a job is no matter.
    [("lines", lines), ("orders", orders), ("customers", customers)]
}

fn made(database: &TestDatabase<'_>) {
    database.psql(&format!("{TABLES}; DROP TABLE kept; {OLD}"));
}

#[test]
fn their_foreign_keys_are_made_on_the_new_ones() {
    let mut clusters = Vec::new();
    for server in wanted([TestServer::Embedded18, TestServer::Pg14]) {
        clusters.push((shared_or_skip!(server), "copy"));
    }
    clusters.push((extended_or_skip!(TestServer::Embedded18), "direct"));
    for (cluster, method) in clusters {
        let database = cluster.fresh_database();
        if method == "direct" {
            database.psql("CREATE EXTENSION fullbore");
        }
        made(&database);
        let mut before = database.psql(KEYS);
        let files = Files::new();
        let job = job(&files, &new_rows(), "tables_at_once = true");
        let args = ["load", &job, "--to", database.url(), "--method", method, "--streams", "3"];
        for _ in 0..2 {
            let output = files.fullbore(&args);
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_eq!(database.psql(KEYS), before);
            let counts = "SELECT count(*) FROM lines; SELECT count(*) FROM orders; SELECT count(*) FROM customers";
            assert_eq!(database.psql(counts), "9000\n3000\n500");
            // One that nobody has validated stays as it is the next time.
            database.psql(
                "ALTER TABLE lines DROP CONSTRAINT IF EXISTS unproved;
                 ALTER TABLE lines ADD CONSTRAINT unproved FOREIGN KEY (number)
                     REFERENCES customers NOT VALID",
            );
            before = database.psql(KEYS);
        }
        // They hold.
        let refused = database.psql(
            "DO $$ BEGIN
                INSERT INTO lines VALUES (-1, 1); SET CONSTRAINTS ALL IMMEDIATE; RAISE 'taken';
             EXCEPTION WHEN foreign_key_violation THEN NULL; END $$;
             DELETE FROM lines; DELETE FROM customers WHERE id = 499;
             SELECT count(*) FROM orders",
        );
        assert_eq!(refused.lines().last(), Some("2994"), "{refused}");
        assert_no_leftovers(&database);
    }
}

#[test]
fn rows_that_refer_to_nothing_are_refused_or_rejected() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    made(&database);
    let files = Files::new();
    let mut rows = new_rows();
    // There was such an order, and will not be.
    rows[0].1.push_str("5000,1\n");
    database.psql("INSERT INTO orders VALUES (5000, 1)");
    let job = job(&files, &rows, "");
    let args = ["load", &job, "--to", database.url()];
    let output = files.fullbore(&args);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("of_order"), "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM lines"), "2");
    assert_no_leftovers(&database);
    let output = files.fullbore(&[&args[..], &["--max-rejects", "1"]].concat());
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM lines"), "9000");
    let rejects = std::fs::read_dir(files.path(".")).expect("a folder").filter_map(|entry| {
        let path = entry.expect("an entry").path();
        path.extension().is_some_and(|end| end == "jsonl").then(|| std::fs::read_to_string(path))
    });
    let told: String = rejects.map(|text| text.expect("text")).collect();
    assert!(told.contains("9001") && told.contains("of_order"), "{told}");
}

#[test]
fn what_refers_to_a_rejected_row_is_rejected_too() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    for method in ["copy", "direct"] {
        let database = cluster.fresh_database();
        database.psql("CREATE EXTENSION fullbore");
        made(&database);
        let files = Files::new();
        let mut rows = new_rows();
        // Its boss is nobody; six orders are its own, and eighteen lines are theirs.
        rows[2].1 = rows[2].1.replace("\n499,249\n", "\n499,5000\n");
        let job = job(&files, &rows, "");
        let args = ["load", &job, "--to", database.url(), "--method", method];
        let output = files.fullbore(&[&args[..], &["--max-rejects", "24"]].concat());
        assert_eq!(output.code, 4, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM lines"), "2");
        files.fullbore(&["runs", "abort", "last"]);
        let output = files.fullbore(&[&args[..], &["--max-rejects", "25"]].concat());
        assert_eq!(output.code, 3, "{}", output.stderr);
        assert!(output.stderr.contains("25 rows rejected"), "{}", output.stderr);
        let counts = "SELECT count(*) FROM lines; SELECT count(*) FROM orders; SELECT count(*) FROM customers";
        assert_eq!(database.psql(counts), "8982\n2994\n499");
        assert_no_leftovers(&database);
    }
}

#[test]
fn what_refers_from_elsewhere_stays_an_obstacle() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(&format!("{TABLES}; {OLD}"));
    let all = job(&files, &new_rows(), "");
    let output = files.fullbore(&["load", &all, "--to", database.url()]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("kept_customer_fkey on table public.kept"), "{}", output.stderr);
    database.psql("DROP TABLE kept");
    let [_, orders, customers] = new_rows();
    let some = job(&files, &[orders, customers], "");
    let output = files.fullbore(&["load", &some, "--to", database.url()]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("of_order on table public.lines"), "{}", output.stderr);
    assert!(
        output.stderr.contains("together with the tables that refer to it"),
        "{}",
        output.stderr
    );
    // What is kept could not be put back one by one.
    let kept = job(&files, &new_rows(), "");
    let keeps = ["--set", "table.lines.keep_old=true"];
    let output = files.fullbore(&[&["load", &kept, "--to", database.url()][..], &keeps].concat());
    assert_eq!(output.code, 2, "{}", output.stderr);
}
