//! What partitions that are loaded before they are attached would pass by, or would take away.

mod common;
#[path = "common/parted.rs"]
mod parted;

use common::held::{end_of, session, wait_for};
use common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip};
use parted::{PARTITIONS, REFUSED, SERVERS, assert_refused, partitioned, rows};

#[test]
fn triggers_of_the_parent_are_not_passed_by() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql(
            "CREATE TABLE audit (n int);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO audit VALUES (1); RETURN NEW; END $$;
             CREATE TRIGGER \"each; one\" AFTER INSERT ON ours FOR EACH ROW EXECUTE FUNCTION note()",
        );
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        let words = ["its trigger \"each; one\" would not see", "--publish append"];
        assert_refused(&database, &output, REFUSED, &words);
        database.psql("ALTER TABLE ours DISABLE TRIGGER \"each; one\"");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "30");
    }
}

#[test]
fn publications_of_the_parent_are_not_passed_by() {
    for server in SERVERS {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql("CREATE PUBLICATION \"of; ours\" FOR TABLE ours");
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        let words = ["the publication \"of; ours\" would not pass on", "--allow-publication"];
        assert_refused(&database, &output, REFUSED, &words);
        let mut args = PARTITIONS.to_vec();
        args.push("--allow-publication");
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "30");
    }
}

#[test]
fn what_an_empty_partition_got_during_the_load_is_kept() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    // Rows and policies alike, whatever isolation the database has for its transactions.
    for (meanwhile, words) in [
        ("ALTER TABLE low ENABLE ROW LEVEL SECURITY", "during the load"),
        ("CREATE INDEX mine ON low (v)", "the index mine"),
        ("INSERT INTO ours VALUES (1, 'meanwhile')", "rows came into the partition"),
    ] {
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql("CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (10000)");
        database.psql(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
             ''repeatable read''', current_database()); END $$",
        );
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        let mut args = vec!["load", &file, "--table", "ours", "--to", database.url()];
        args.extend(PARTITIONS);
        // It has been planned when it waits for the parent, and the partition was empty then.
        let mut other = session(database.url());
        other.execute("BEGIN; LOCK TABLE ours IN EXCLUSIVE MODE").expect("locked");
        let child = files.start(&args);
        wait_for("load that waits", || {
            let waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND database = \
                           (SELECT oid FROM pg_database WHERE datname = current_database())";
            database.psql(waiting) == "t"
        });
        other.execute(meanwhile).expect("done");
        other.execute("COMMIT").expect("committed");
        let output = end_of(child);
        assert_ne!(output.code, 0, "{meanwhile}: {}", output.stdout);
        assert!(output.stderr.contains(words), "{meanwhile}: {}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours WHERE v <> 'meanwhile'"), "0");
        assert_eq!(database.psql("SELECT count(*) FROM pg_class WHERE relname = 'low'"), "1");
        assert_no_leftovers(&database);
    }
}

#[test]
fn partitions_lie_where_their_parent_wants_them() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let names = ["parents", "asked"].map(|name| format!("fb_{name}_{}", std::process::id()));
    for name in &names {
        let options = "-c allow_in_place_tablespaces=on";
        let url = format!("{}&options={}", database.url(), options.replace(' ', "%20"));
        session(&url).execute(&format!("CREATE TABLESPACE {name} LOCATION ''")).expect("made");
    }
    partitioned(&database);
    database.psql(&format!(
        "ALTER TABLE ours SET TABLESPACE {0};
         CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (1000)",
        names[0]
    ));
    let files = Files::new();
    let file = files.write("x.csv", rows(0..10));
    // The empty partition lies where the loaded one will: nothing is lost with it.
    let output = files.load(&database, &file, "ours", &PARTITIONS);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let file = files.write("y.csv", rows(2000..2010));
    let mut args = PARTITIONS.to_vec();
    args.extend(["--tablespaces", &names[1]]);
    let output = files.load(&database, &file, "ours", &args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql(
        "SELECT string_agg(spcname, ' ' ORDER BY c.oid) FROM pg_inherits
           JOIN pg_class c ON c.oid = inhrelid JOIN pg_tablespace s ON s.oid = c.reltablespace
          WHERE inhparent = 'ours'::regclass",
    );
    assert_eq!(found, names.join(" "));
    database.psql("DROP TABLE ours");
    for name in &names {
        session(database.url()).execute(&format!("DROP TABLESPACE {name}")).expect("dropped");
    }
}
