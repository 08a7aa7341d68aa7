//! Moments of a load at which a test can do something: the ledger's own tables stop it there.
//!
//! A trigger waits for an advisory lock that the test holds. One on the row of a piece or of the run
//! stops the statement; a deferred one stops the very COMMIT, so that a client can be killed that will
//! never hear of it.

use std::process::{Child, Stdio};

use fullbore_pgwire::Session;
use fullbore_testing::{Output, TestDatabase, fullbore_command};

use super::Files;
use super::held::session;

/// The lock that the triggers wait for.
const KEY: i64 = 4_711;

/// Other tests stop loads in other databases of the server.
const HERE: &str = "database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Where a load is to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The run's first row in the ledger is being written.
    Begins,
    /// The COMMIT of that row is under way.
    BeginCommits,
    /// What the run needs is made, which is about to be said.
    IsPrepared,
    /// The first statement of a piece, so many others being committed.
    PieceBegins(usize),
    /// The rows of such a piece are sent; its COMMIT is under way.
    PieceCommits(usize),
    /// All rows are loaded, and shown to nobody yet.
    Publishes,
    /// The COMMIT that shows them is under way.
    PublishCommits,
    /// They are shown, and nothing is left to do but to say so.
    Finishes,
}

/// A moment that is waited for.
pub struct Gate {
    session: Session,
}

impl Gate {
    /// Makes loads into the database stop at a moment. Its ledger must be there.
    pub fn at(database: &TestDatabase<'_>, moment: Moment) -> Self {
        let (table, event, condition, is_deferred) = match moment {
            Moment::PieceBegins(_) => ("pieces", "INSERT", "true", false),
            Moment::PieceCommits(_) => ("pieces", "UPDATE", "true", true),
            Moment::Begins => ("runs", "INSERT", "true", false),
            Moment::BeginCommits => ("runs", "INSERT", "true", true),
            Moment::IsPrepared => ("runs", "UPDATE", "NEW.state = 'loading'", false),
            Moment::Publishes => ("runs", "UPDATE", "NEW.state = 'published'", false),
            Moment::PublishCommits => ("runs", "UPDATE", "NEW.state = 'published'", true),
            Moment::Finishes => ("runs", "UPDATE", "NEW.state = 'finished'", false),
        };
        let committed = match moment {
            Moment::PieceBegins(committed) | Moment::PieceCommits(committed) => committed as i64,
            Moment::Begins | Moment::BeginCommits | Moment::IsPrepared => -1,
            Moment::Publishes | Moment::PublishCommits | Moment::Finishes => 0,
        };
        // The piece itself is seen too.
        database.psql(&format!(
            "CREATE OR REPLACE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF (SELECT count(*) FROM fullbore_ledger.pieces WHERE run = NEW.run) > {committed} THEN
                    PERFORM pg_advisory_xact_lock_shared({KEY});
                END IF;
                RETURN NULL;
             END $$"
        ));
        let tables =
            if table == "pieces" { vec!["pieces", "pieces_unlogged"] } else { vec![table] };
        for table in tables {
            let (kind, timing) = match is_deferred {
                true => ("CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED"),
                false => ("TRIGGER", ""),
            };
            database.psql(&format!(
                "CREATE {kind} stop_here AFTER {event} ON fullbore_ledger.{table} {timing}
                 FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION stop_here()"
            ));
        }
        let mut session = session(database.url());
        session.execute(&format!("SELECT pg_advisory_lock({KEY})")).expect("locked");
        Self { session }
    }

    /// Returns once somebody stands there; how many do.
    pub fn wait(&mut self) {
        // The server waits, within one statement; it gives up after a minute.
        self.session
            .execute(&format!(
                "DO $$ BEGIN
                    FOR i IN 1..6000 LOOP
                        PERFORM FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
                            AND objid = {KEY} AND {HERE};
                        EXIT WHEN FOUND;
                        PERFORM pg_sleep(0.01);
                    END LOOP;
                    IF NOT FOUND THEN RAISE 'no load came there'; END IF;
                END $$"
            ))
            .expect("a load comes there");
    }

    /// Ends the sessions that stand there, as an administrator would.
    pub fn terminate_waiting(&mut self) {
        self.session
            .execute(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_locks
                  WHERE NOT granted AND locktype = 'advisory' AND objid = {KEY} AND {HERE}"
            ))
            .expect("terminated");
    }

    /// Ends the load's control session, and with it the lock of the job: it alone has a lock of its
    /// own that is not the test's.
    pub fn terminate_control(&mut self) {
        self.session
            .execute(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_locks
                  WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
                    AND objid <> {KEY} AND {HERE}"
            ))
            .expect("terminated");
    }

    /// After a crash of the server, which nobody's lock survives: nothing stops any more.
    pub fn forget(self, database: &TestDatabase<'_>) {
        drop(self.session);
        drop_triggers(database);
    }

    /// Lets everybody pass from now on.
    pub fn release(&mut self) {
        self.session.execute("SELECT pg_advisory_unlock_all()").expect("unlocked");
    }

    /// Lets everybody pass, and waits for those who stood there to end their transactions.
    pub fn open(mut self, database: &TestDatabase<'_>) {
        self.release();
        drop_triggers(database);
    }
}

/// Waits for those who stand there, as it should.
fn drop_triggers(database: &TestDatabase<'_>) {
    for table in ["pieces", "pieces_unlogged", "runs"] {
        database.psql(&format!("DROP TRIGGER IF EXISTS stop_here ON fullbore_ledger.{table}"));
    }
}

impl Files {
    /// Starts a load and leaves it running.
    pub fn start_load(&self, url: &str, file: &str, table: &str, more: &[&str]) -> Child {
        let mut command = fullbore_command();
        command.args(self.load_args(url, file, table, more)).current_dir(self.folder());
        command.env("FULLBORE_HOME", self.path("state")).env_remove("DATABASE_URL");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("fullbore starts")
    }

    /// Starts a load and kills it at a moment, where nobody stops from then on.
    pub fn kill_load_at(
        &self,
        database: &TestDatabase<'_>,
        moment: Moment,
        file: &str,
        table: &str,
        more: &[&str],
    ) {
        let mut gate = Gate::at(database, moment);
        let child = self.start_load(database.url(), file, table, more);
        gate.wait();
        kill(child);
        gate.open(database);
    }
}

/// Kills a load as `kill -9` does.
pub fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("it has ended");
}

/// Sends a signal to a load; returns once it is taken.
pub fn signal(child: &Child, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let is_pending = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        pending.is_some_and(|set| set.trim().bytes().any(|digit| digit != b'0'))
    };
    while is_pending() {
        std::thread::yield_now();
    }
}

/// What the ledger says of the runs into a table, newest first: state and pieces.
pub fn ledger(database: &TestDatabase<'_>, table: &str) -> String {
    database.psql(&format!(
        "SELECT r.state, count(p.piece) FROM fullbore_ledger.runs r LEFT JOIN fullbore_ledger.pieces p USING (run)
          WHERE '\"{table}\"' = any (targets) OR '\"public\".\"{table}\"' = any (targets)
          GROUP BY r.run, r.state, r.started ORDER BY r.started DESC"
    ))
}

/// Asserts that a load has ended well.
pub fn assert_loaded(output: &Output) {
    assert_eq!(output.code, 0, "{}", output.stderr);
}
