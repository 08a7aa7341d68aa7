//! Sifting where a table is not alone: rows of other tables of the run that it refers to, tables that
//! inherit from it, triggers that change rows or look at them together.

use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{Output, TestDatabase, TestServer, shared_or_skip, wanted};

const REJECTS: i32 = 3;
const SERVERS: [TestServer; 3] = [TestServer::Pg14, TestServer::Pg16, TestServer::Embedded18];

fn load(files: &Files, database: &TestDatabase<'_>, file: &str, table: &str) -> Output {
    let options = ["--header", "none", "--format", "csv", "--max-rejects", "10"];
    files.load(database, file, table, &options)
}

fn codes(files: &Files) -> Vec<(u64, String)> {
    let told = files.reasons().into_iter().map(|reason| {
        let code = reason["code"].as_str().unwrap_or_default().to_owned();
        (reason["line"].as_u64().unwrap_or(0), code)
    });
    told.collect()
}

/// Orders of customers who come with the same run; one of them twice, or one that a trigger refuses.
#[test]
fn rows_may_refer_to_rows_of_another_table_of_the_run() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        for (asked, bad) in [
            ("PRIMARY KEY (id)", "7,3\n"),
            ("CHECK (id >= 0)", "-7,3\n"),
            ("EXCLUDE USING btree (id WITH =)", "7,3\n"),
        ] {
            let database = cluster.fresh_database();
            database.psql(&format!(
                "CREATE TABLE customers (id int PRIMARY KEY);
                 CREATE TABLE orders (id int, c int REFERENCES customers, {asked});
                 INSERT INTO customers VALUES (1000)"
            ));
            let files = Files::new();
            let customers: String = (0..50).map(|n| format!("{n}\n")).collect();
            let orders: String = (0..60).map(|n| format!("{n},{}\n", n % 50)).collect();
            files.write("customers.csv", customers);
            files.write("orders.csv", format!("{orders}{bad}60,1000\n61,777\n"));
            let job = files.write(
                "job.toml",
                "max_rejects = 10\n[[table]]\nname = \"customers\"\nsources = [\"customers.csv\"]\n\
                 header = \"none\"\n[[table]]\nname = \"orders\"\nsources = [\"orders.csv\"]\n\
                 header = \"none\"\n",
            );
            let output = files.fullbore(&["load", &job, "--to", database.url()]);
            assert_eq!(output.code, REJECTS, "{server:?} {asked}: {}", output.stderr);
            let counts = "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders)";
            assert_eq!(database.psql(counts), "51|61", "{server:?} {asked}");
            let told: Vec<u64> = codes(&files).into_iter().map(|(line, _)| line).collect();
            assert_eq!(told, [61, 63], "{server:?} {asked}");
            assert_no_leftovers(&database);
        }
    }
}

#[test]
fn rows_that_a_trigger_changes_first_are_judged_as_it_leaves_them() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE stock (sku text PRIMARY KEY, qty int CHECK (qty >= 0));
             CREATE FUNCTION merge() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 UPDATE stock SET qty = qty + NEW.qty WHERE sku = NEW.sku;
                 IF FOUND THEN RETURN NULL; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER merge BEFORE INSERT ON stock FOR EACH ROW EXECUTE FUNCTION merge()",
        );
        let files = Files::new();
        let file = files.write("stock.csv", "A,1\nA,2\nB,-5\nC,4\n");
        let output = load(&files, &database, &file, "stock");
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        assert_eq!(codes(&files), [(3, "23514".to_owned())], "{server:?}");
        let rows = database.psql("SELECT string_agg(sku || qty, ' ' ORDER BY sku) FROM stock");
        assert_eq!(rows, "A3 C4", "{server:?}");
    }
}

#[test]
fn a_trigger_that_looks_at_all_rows_at_the_end_refuses_none_of_them_alone() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE entries (tx int, amount int);
             CREATE FUNCTION balanced() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF (SELECT sum(amount) FROM entries WHERE tx = NEW.tx) <> 0 THEN
                     RAISE 'transaction % is not balanced', NEW.tx;
                 END IF;
                 RETURN NULL;
             END $$;
             CREATE CONSTRAINT TRIGGER balanced AFTER INSERT ON entries
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION balanced()",
        );
        let files = Files::new();
        let file = files.write("entries.csv", "1,5\n1,-5\n2,7\n2,-7\n3,9\n");
        let output = load(&files, &database, &file, "entries");
        assert_ne!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        assert!(output.stderr.contains("transaction 3 is not balanced"), "{}", output.stderr);
        assert!(!files.has_ending(".rejected.jsonl"), "{server:?}");
        assert_eq!(database.psql("SELECT count(*) FROM entries"), "0", "{server:?}");
    }
}

#[test]
fn rows_of_tables_that_inherit_are_not_the_table_s_own() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE parents (id int PRIMARY KEY); CREATE TABLE heirs () INHERITS (parents);
             CREATE TABLE logged (id int PRIMARY KEY, p int REFERENCES parents);
             CREATE TABLE logged_old () INHERITS (logged);
             INSERT INTO parents VALUES (1); INSERT INTO heirs VALUES (2);
             INSERT INTO logged_old VALUES (7, NULL)",
        );
        let files = Files::new();
        let file = files.write("logged.csv", "7,1\n8,1\n8,1\n9,2\n");
        let output = load(&files, &database, &file, "logged");
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        let expected = [(3, "23505".to_owned()), (4, "23503".to_owned())];
        let mut told = codes(&files);
        told.sort();
        assert_eq!(told, expected, "{server:?}");
        let rows = database.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM ONLY logged");
        assert_eq!(rows, "7 8", "{server:?}");
    }
}

/// A key to itself can't be tried; what its keys say decides then, triggers or not. And a trigger that
/// is not about new rows waits for nothing.
#[test]
fn what_cannot_be_tried_is_told_by_its_keys() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE staff (id int PRIMARY KEY, boss int REFERENCES staff, at timestamptz);
             CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN NEW.at := now(); RETURN NEW; END $$;
             CREATE TRIGGER touch BEFORE INSERT ON staff FOR EACH ROW EXECUTE FUNCTION touch();
             CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RETURN NULL; END $$;
             CREATE TABLE spans (a int, b int, EXCLUDE USING btree (a WITH =));
             CREATE CONSTRAINT TRIGGER kept AFTER DELETE ON spans
                 DEFERRABLE FOR EACH ROW EXECUTE FUNCTION kept();
             CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN IF NEW.b = 13 THEN RAISE 'no 13'; END IF; RETURN NULL; END $$;
             CREATE TRIGGER odd AFTER INSERT ON spans FOR EACH ROW EXECUTE FUNCTION odd()",
        );
        let files = Files::new();
        let file = files.write("staff.csv", "1,\n2,1\n2,1\n3,2\n");
        let options = ["--header", "none", "--format", "csv", "--max-rejects", "10"];
        let options = [&options[..], &["--columns", "id,boss"]].concat();
        let output = files.load(&database, &file, "staff", &options);
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        assert_eq!(codes(&files), [(3, "23505".to_owned())], "{server:?}");
        assert_eq!(database.psql("SELECT count(*) FROM staff"), "3", "{server:?}");

        let files = Files::new();
        let file = files.write("spans.csv", "1,1\n2,13\n3,1\n");
        let output = load(&files, &database, &file, "spans");
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        assert_eq!(codes(&files), [(2, "P0001".to_owned())], "{server:?}");
        assert_eq!(database.psql("SELECT count(*) FROM spans"), "2", "{server:?}");
    }
}

/// Keys between tables of the run that are looked at when the transaction ends.
#[test]
fn deferred_keys_between_tables_of_the_run_blame_no_row() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE customers (id int PRIMARY KEY, CHECK (id <> 13));
             CREATE TABLE orders (id int, c int REFERENCES customers DEFERRABLE INITIALLY DEFERRED);
             CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN IF NEW.id = 7 THEN RAISE 'no 7'; END IF; RETURN NULL; END $$;
             CREATE TRIGGER odd AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION odd()",
        );
        let files = Files::new();
        files.write("customers.csv", (0..10).map(|n| format!("{n}\n")).collect::<String>());
        files.write("orders.csv", (0..20).map(|n| format!("{n},{}\n", n % 10)).collect::<String>());
        let job = files.write(
            "job.toml",
            "max_rejects = 5\n[[table]]\nname = \"orders\"\nsources = [\"orders.csv\"]\n\
             header = \"none\"\n[[table]]\nname = \"customers\"\nsources = [\"customers.csv\"]\n\
             header = \"none\"\n",
        );
        let output = files.fullbore(&["load", &job, "--to", database.url()]);
        assert_eq!(output.code, REJECTS, "{server:?}: {}", output.stderr);
        assert_eq!(codes(&files), [(8, "P0001".to_owned())], "{server:?}");
        let counts = "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders)";
        assert_eq!(database.psql(counts), "10|19", "{server:?}");
    }
}
