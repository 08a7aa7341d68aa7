//! What partitions that are loaded before they are attached would pass by, or would take away.

use crate::common::codes::REFUSED;
use crate::common::held::{end_of, session, wait_for};
use crate::common::parted::{PARTITIONS, SERVERS, assert_refused, partitioned, rows};
use crate::common::{Files, assert_no_leftovers};
use fullbore_testing::{TestServer, shared_or_skip, wanted};

#[test]
fn triggers_of_the_parent_are_not_passed_by() {
    for server in wanted(SERVERS) {
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
        let words = ["its trigger \"each; one\" would not fire for", "--publish append"];
        assert_refused(&database, &output, REFUSED, &words);
        database.psql("ALTER TABLE ours DISABLE TRIGGER \"each; one\"");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM ours"), "30");
    }
}

#[test]
fn publications_of_the_parent_are_not_passed_by() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql("CREATE PUBLICATION \"of; ours\" FOR TABLE ours");
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        let words = ["the publication \"of; ours\" would not publish", "--allow-publication"];
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
        ("CREATE INDEX mine ON low (v)", "the index public.mine"),
        ("INSERT INTO ours VALUES (1, 'meanwhile')", "rows were inserted into the partition"),
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

#[test]
fn row_security_of_the_parent_is_not_passed_by() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    partitioned(&database);
    let role = format!("fb_owner_{}", std::process::id());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT CREATE ON SCHEMA public TO {role};
         ALTER TABLE ours OWNER TO {role}; ALTER TABLE ours ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON ours WITH CHECK (v = 'a')"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let files = Files::new();
    let file = files.write("x.csv", rows(0..10));
    let mut args = vec!["load", &file, "--table", "ours", "--to", &url, "--no-ledger"];
    args.extend(PARTITIONS);
    // It does not hold for the owner, unless it is forced.
    let output = files.fullbore(&args);
    assert_eq!(output.code, 0, "{}", output.stderr);
    database.psql("TRUNCATE ours; ALTER TABLE ours FORCE ROW LEVEL SECURITY");
    let output = files.fullbore(&args);
    assert_eq!(output.code, REFUSED, "{}", output.stdout);
    assert!(output.stderr.contains("its row security would not apply to"), "{}", output.stderr);
    database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

#[test]
fn rows_are_held_to_what_the_target_is_held_to() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql(
            "CREATE TABLE whole (k int, v text) PARTITION BY LIST (v);
             CREATE TABLE ours PARTITION OF whole FOR VALUES IN ('some text') PARTITION BY RANGE (k)",
        );
        let files = Files::new();
        let text: String = (0..7).map(|k| format!("{k},some text\n")).collect();
        let file = files.write("x.csv", format!("{text}7,other\n"));
        let mut args = PARTITIONS.to_vec();
        args.extend(["--max-rejects", "1"]);
        let output = files.load(&database, &file, "ours", &args);
        assert_eq!(output.code, 3, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*), max(k) FROM whole"), "7|6");
        assert_eq!(
            database.psql(
                "SELECT count(*) FROM pg_constraint JOIN pg_inherits ON inhrelid = conrelid
                  WHERE contype = 'c' AND conname LIKE 'fullbore%'"
            ),
            "0",
            "the parents' constraint says it from there on"
        );
        assert_no_leftovers(&database);
    }
}

#[test]
fn grants_that_every_new_table_gets_are_nothing_to_lose() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        database.psql("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO pg_monitor");
        partitioned(&database);
        database.psql("CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (10)");
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        database.psql("GRANT INSERT ON low TO pg_monitor");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_refused(&database, &output, REFUSED, &["has grants that would be lost"]);
        database.psql("REVOKE INSERT ON low FROM pg_monitor");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let granted = "SELECT has_table_privilege('pg_monitor', 'low', 'SELECT')";
        assert_eq!(database.psql(granted), "t");
    }
}

#[test]
fn indexes_of_partitions_are_as_their_parents_say() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    partitioned(&database);
    let space = format!("fb_indexes_{}", std::process::id());
    let url = format!("{}&options=-c%20allow_in_place_tablespaces=on", database.url());
    session(&url).execute(&format!("CREATE TABLESPACE {space} LOCATION ''")).expect("made");
    database.psql(&format!(
        "ALTER TABLE ours DROP CONSTRAINT IF EXISTS ours_pkey;
         ALTER TABLE ours ADD CONSTRAINT one UNIQUE (k) WITH (fillfactor = 70)
               USING INDEX TABLESPACE {space} DEFERRABLE;
         CREATE INDEX two ON ours (v) TABLESPACE {space}"
    ));
    let files = Files::new();
    let file = files.write("x.csv", "2000,a\n2001,b\n");
    let output = files.load(&database, &file, "ours", &PARTITIONS);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let found = database.psql(
        "SELECT DISTINCT coalesce(spcname, '') || coalesce(c.reloptions[1], '') || p.relname
           FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_class p ON p.oid = inhparent
           LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
          WHERE p.relname IN ('one', 'two') ORDER BY 1",
    );
    assert_eq!(found, format!("{space}fillfactor=70one\n{space}two"));
    // One whose index lies elsewhere would lose that.
    database.psql(
        "CREATE TABLE low PARTITION OF ours FOR VALUES FROM (5000) TO (5010);
         ALTER INDEX low_v_idx SET TABLESPACE pg_default",
    );
    let file = files.write("y.csv", "5000,c\n");
    let output = files.load(&database, &file, "ours", &PARTITIONS);
    assert_eq!(output.code, REFUSED, "{}", output.stdout);
    assert!(output.stderr.contains("settings of the index low_v_idx"), "{}", output.stderr);
    database.psql("DROP TABLE ours");
    session(database.url()).execute(&format!("DROP TABLESPACE {space}")).expect("dropped");
}

/// Debian's 15.20 keeps the version of the catalog's entry in every column's options.
#[test]
fn what_a_server_keeps_in_a_columns_options_is_no_property_of_a_partition() {
    for server in wanted(SERVERS) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        partitioned(&database);
        database.psql(
            "CREATE TABLE low PARTITION OF ours FOR VALUES FROM (0) TO (10000);
             UPDATE pg_attribute SET attoptions = array_append(attoptions, 'pg_attver=22161832')
              WHERE attrelid IN ('ours'::regclass, 'low'::regclass)
                AND attnum > 0 AND attoptions IS NULL",
        );
        let files = Files::new();
        let file = files.write("x.csv", rows(0..10));
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(database.psql("SELECT count(*) FROM low"), "30");

        database.psql("TRUNCATE low; ALTER TABLE low ALTER v SET (n_distinct = 5)");
        let output = files.load(&database, &file, "ours", &PARTITIONS);
        assert_refused(&database, &output, REFUSED, &["settings of the column v"]);

        // Nor is it carried from a table that is replaced.
        database.psql(
            "CREATE TABLE t (k bigint, v text); ALTER TABLE t ALTER v SET (n_distinct = 5);
             UPDATE pg_attribute SET attoptions = array_append(attoptions, 'pg_attver=22161832')
              WHERE attrelid = 't'::regclass AND attname = 'v'",
        );
        let args = ["--publish", "replace", "--header", "none"];
        let output = files.load(&database, &file, "t", &args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let kept = "SELECT 'n_distinct=5' = ANY (attoptions) FROM pg_attribute
                     WHERE attrelid = 't'::regclass AND attname = 'v'";
        assert_eq!(database.psql(kept), "t");
    }
}
