//! The ledger is used only where nobody else could have code run by it, with the rights of who loads.

use fullbore_testing::{TestDatabase, TestServer, extended_or_skip, shared_or_skip, wanted};

use super::LEDGER;
use crate::common::Files;
use crate::common::held::session;
use crate::common::moments::{Moment, assert_loaded, ledger};
use crate::common::ways::{APPEND, prepared};

const NO_HEADER: [&str; 2] = ["--header", "none"];
const RESUME: [&str; 3] = ["--header", "none", "--resume"];

/// A role that may log in, a function of its own, and a table for what that does.
fn neighbour(database: &TestDatabase<'_>) -> String {
    let role = format!("evil_{}", database.name());
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; CREATE TABLE canary (who name); GRANT INSERT ON canary TO PUBLIC;
         CREATE SCHEMA {role} AUTHORIZATION {role};
         CREATE FUNCTION {role}.f() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.canary VALUES (current_user); RETURN true; END $$;
         CREATE FUNCTION {role}.t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.canary VALUES (current_user); RETURN NEW; END $$;
         ALTER FUNCTION {role}.f OWNER TO {role}; ALTER FUNCTION {role}.t OWNER TO {role}"
    ));
    role
}

/// What a neighbour may have done to a ledger while it was his, each with what rolls it back.
const SABOTAGES: [(&str, &str, &str); 11] = [
    ("owned by role", "ALTER SCHEMA {s} OWNER TO {r}", "ALTER SCHEMA {s} OWNER TO postgres"),
    (
        "owned by role",
        "ALTER TABLE {s}.pieces OWNER TO {r}",
        "ALTER TABLE {s}.pieces OWNER TO postgres",
    ),
    (
        "has the trigger",
        "CREATE TRIGGER x BEFORE INSERT ON {s}.runs FOR EACH ROW EXECUTE FUNCTION {r}.t()",
        "DROP TRIGGER x ON {s}.runs",
    ),
    (
        "has the rule",
        "CREATE RULE x AS ON UPDATE TO {s}.runs DO ALSO SELECT {r}.f()",
        "DROP RULE x ON {s}.runs",
    ),
    (
        "row-level security",
        "CREATE POLICY x ON {s}.runs USING ({r}.f())",
        "DROP POLICY x ON {s}.runs",
    ),
    ("inherits from", "CREATE TABLE {r}.child () INHERITS ({s}.runs)", "DROP TABLE {r}.child"),
    (
        "refers to",
        "CREATE TABLE {r}.k (run text REFERENCES {s}.runs ON DELETE CASCADE)",
        "DROP TABLE {r}.k",
    ),
    (
        "grants TRIGGER or REFERENCES",
        "GRANT TRIGGER ON {s}.runs TO {r}",
        "REVOKE TRIGGER ON {s}.runs FROM {r}",
    ),
    (
        "has the default",
        "ALTER TABLE {s}.runs ALTER host SET DEFAULT {r}.f()::text",
        "ALTER TABLE {s}.runs ALTER host DROP DEFAULT",
    ),
    (
        "has the constraint",
        "ALTER TABLE {s}.runs ADD CONSTRAINT x CHECK ({r}.f()) NOT VALID",
        "ALTER TABLE {s}.runs DROP CONSTRAINT x",
    ),
    ("has an expression", "CREATE INDEX x ON {s}.runs (upper(host))", "DROP INDEX {s}.x"),
];

#[test]
fn a_ledger_by_which_others_could_have_code_run_is_neither_read_nor_written() {
    for server in wanted([TestServer::Pg14, TestServer::Embedded18]) {
        let cluster = shared_or_skip!(server);
        let database = cluster.fresh_database();
        let role = neighbour(&database);
        let files = Files::new();
        let file = files.write("x.csv", "1\n2\n");
        database.psql("CREATE TABLE t (a int)");
        assert_loaded(&files.load(&database, &file, "t", &NO_HEADER));
        let to = ["--to", database.url()];
        for (says, sabotage, undone) in SABOTAGES {
            let filled = |sql: &str| sql.replace("{s}", LEDGER).replace("{r}", &role);
            database.psql(&filled(sabotage));
            let refused = files.load(&database, &file, "t", &RESUME);
            assert_eq!(refused.code, 2, "{sabotage}: {}", refused.stderr);
            assert!(refused.stderr.contains(says), "{sabotage}: {}", refused.stderr);
            assert!(refused.stderr.contains("--ledger-schema"), "{}", refused.stderr);
            let listed = files.fullbore(&[&["runs", "list"][..], &to].concat());
            assert!(
                listed.code != 0 && listed.stderr.contains("can't be trusted"),
                "{}",
                listed.stderr
            );
            // It loads without one, and says so.
            let loaded = files.load(&database, &file, "t", &NO_HEADER);
            assert_loaded(&loaded);
            assert!(loaded.stderr.contains("note: no ledger is kept"), "{}", loaded.stderr);
            database.psql(&filled(undone));
        }
        assert_eq!(database.psql("SELECT count(*) FROM canary"), "0");
        let again = files.load(&database, &file, "t", &RESUME);
        assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
        database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    }
}

#[test]
fn a_look_alike_that_was_there_first_is_left_alone() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let role = neighbour(&database);
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    // In both schemas: where the ledger is, and where it was.
    for schema in [LEDGER, "fullbore"] {
        database.psql(&format!(
            "CREATE SCHEMA {schema} AUTHORIZATION {role};
             CREATE VIEW {schema}.runs AS SELECT 'x'::text AS run, 'y'::text AS job, 'loading'::text AS state
              WHERE {role}.f(); ALTER VIEW {schema}.runs OWNER TO {role}"
        ));
    }
    database.psql("CREATE TABLE t (a int)");
    let loaded = files.load(&database, &file, "t", &NO_HEADER);
    assert_loaded(&loaded);
    assert!(loaded.stderr.contains(&format!("owned by role {role}")), "{}", loaded.stderr);
    assert!(loaded.stderr.contains("no ledger was kept"), "{}", loaded.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM canary"), "0");
    database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

#[test]
fn a_ledger_in_the_extensions_schema_is_moved_and_its_runs_go_on() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    files.kill_load_at(&database, Moment::PieceBegins(1), &file, APPEND.name, &APPEND.args());
    // As earlier versions made it.
    let loader = format!("loader_{}", database.name());
    database.psql(&format!(
        "CREATE SCHEMA fullbore; CREATE ROLE {loader}; GRANT USAGE ON SCHEMA fullbore TO {loader};
         ALTER TABLE {LEDGER}.runs SET SCHEMA fullbore; ALTER TABLE {LEDGER}.pieces SET SCHEMA fullbore;
         ALTER TABLE {LEDGER}.pieces_unlogged SET SCHEMA fullbore; ALTER TABLE {LEDGER}.parts SET SCHEMA fullbore;
         ALTER TABLE {LEDGER}.checksums SET SCHEMA fullbore; DROP SCHEMA {LEDGER}"
    ));
    let listed = files.fullbore(&["runs", "list", "--to", database.url()]);
    assert!(listed.code == 0 && listed.stdout.contains(APPEND.name), "{}", listed.stdout);
    let resumed = files.load(&database, &file, APPEND.name, &APPEND.resume_args());
    assert_loaded(&resumed);
    let moved = format!("the ledger was moved from schema fullbore to {LEDGER}");
    assert!(resumed.stderr.contains(&moved), "{}", resumed.stderr);
    assert_eq!(
        database.psql(&format!("SELECT count(*), count(DISTINCT k) FROM {}", APPEND.name)),
        "25000|25000"
    );
    assert_eq!(ledger(&database, APPEND.name), "finished|3");
    let may = format!(
        "SELECT has_schema_privilege('{loader}', '{LEDGER}', 'USAGE'), to_regclass('fullbore.runs') IS NULL"
    );
    assert_eq!(database.psql(&may), "t|t");
    database.psql(&format!("DROP OWNED BY {loader}; DROP ROLE {loader}"));
}

#[test]
fn only_the_extensions_own_function_describes_tables() {
    let cluster = extended_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let role = neighbour(&database);
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    database.psql(&format!(
        "CREATE TABLE t (a int); CREATE SCHEMA fullbore AUTHORIZATION {role}; CREATE EXTENSION fullbore"
    ));
    let direct = ["--header", "none", "--publish", "replace", "--method", "direct"];
    let refused = files.load(&database, &file, "t", &direct);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains(&format!("owned by role {role}")), "{}", refused.stderr);
    database.psql("ALTER SCHEMA fullbore OWNER TO postgres");
    assert_loaded(&files.load(&database, &file, "t", &direct));
    database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

#[test]
fn a_lock_that_any_role_can_hold_is_waited_for_only_where_tables_are_missing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let role = neighbour(&database);
    let files = Files::new();
    let file = files.write("x.csv", "1\n2\n");
    database.psql("CREATE TABLE t (a int)");
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let mut holder = session(&url);
    holder.execute("SELECT pg_advisory_lock(x'66756c6c626f7265'::bigint)").expect("locked");
    let refused = files.load(&database, &file, "t", &NO_HEADER);
    assert_ne!(refused.code, 0);
    let says = format!("is held by server process {} of role {role}", holder.backend_pid());
    assert!(refused.stderr.contains(&says), "{}", refused.stderr);
    holder.execute("SELECT pg_advisory_unlock_all()").expect("unlocked");
    assert_loaded(&files.load(&database, &file, "t", &NO_HEADER));
    holder.execute("SELECT pg_advisory_lock(x'66756c6c626f7265'::bigint)").expect("locked");
    assert_loaded(&files.load(
        &database,
        &file,
        "t",
        &[&NO_HEADER[..], &["--verify", "full", "--if-loaded", "again"]].concat(),
    ));
    drop(holder);
    database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}
