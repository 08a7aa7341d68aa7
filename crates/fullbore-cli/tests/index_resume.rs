//! A client that is killed while indexes are built leaves sessions that go on building: who resumes
//! ends them first, or both would build the same.

mod common;

use common::Files;
use common::held::session;
use common::moments::{Gate, Moment, assert_loaded, kill};
use common::ways::{REPLACE, prepared};
use common::{assert_no_leftovers, assert_same};
use fullbore_postgres::connection::Session;
use fullbore_testing::{TestServer, shared_or_skip};

/// Returns once a session waits for a lock on a table, other than one that is named; its process.
fn waiting(session: &mut Session, table: &str, not: &str) -> String {
    session
        .execute(&format!(
            "DO $$ BEGIN
                FOR i IN 1..6000 LOOP
                    PERFORM FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass
                        AND pid <> {not};
                    EXIT WHEN FOUND;
                    PERFORM pg_sleep(0.01);
                END LOOP;
                IF NOT FOUND THEN RAISE 'nobody waits for {table}'; END IF;
            END $$"
        ))
        .expect("somebody waits");
    let rows = session
        .query(&format!(
            "SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass
                AND pid <> {not} ORDER BY waitstart LIMIT 1"
        ))
        .expect("asked");
    rows[0].get("pid").expect("a process").to_owned()
}

#[test]
fn an_index_that_a_killed_client_still_builds_is_not_built_twice() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    REPLACE.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(2));
    let child = files.start_load(database.url(), &file, "replaced", &REPLACE.args());
    gate.wait();
    let staging = database.psql("SELECT relname FROM pg_class WHERE relname ~ '_new$'");
    // Rows can still come in, an index can't be built.
    let mut holder = session(database.url());
    holder.execute("BEGIN").expect("begun");
    holder.execute(&format!("LOCK TABLE {staging} IN ROW EXCLUSIVE MODE")).expect("locked");
    gate.release();
    let mut watcher = session(database.url());
    let first = waiting(&mut watcher, &staging, "0");
    kill(child);
    let resumed = files.start(&["runs", "resume", "last"]);
    waiting(&mut watcher, &staging, &first);
    holder.execute("COMMIT").expect("released");
    let output = common::held::end_of(resumed);
    assert_loaded(&output);
    assert_same(&database, "replaced", "plain");
    assert_no_leftovers(&database);
    let built = "SELECT count(*) FROM pg_index WHERE indrelid = 'replaced'::regclass";
    assert_eq!(database.psql(built), "2");
    gate.open(&database);
}
