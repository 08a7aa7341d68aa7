//! Loads that stand still at their first row, or wait for more, so that a test can do something
//! meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use fullbore_pgwire::{ConnectionOptions, Environment, Session};
use fullbore_testing::{Output, TestDatabase, fullbore_command};

use super::Files;
use super::ways::Way;

/// Asks until the answer is as wished.
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {what} within a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A session of the test's own.
pub fn session(url: &str) -> Session {
    let options = ConnectionOptions::resolve(Some(url), &Environment::empty()).expect("a URL");
    Session::connect(&options).expect("the server lets us in")
}

/// A transaction of another session, which is open and holds what it has locked.
pub struct Held {
    session: Session,
}

impl Held {
    pub fn begin(url: &str, sql: &str) -> Self {
        let mut session = session(url);
        session.execute("BEGIN").expect("begun");
        session.execute(sql).expect("done");
        Self { session }
    }

    /// One that has locked a table against writing.
    pub fn lock(url: &str, table: &str) -> Self {
        Self::begin(url, &format!("LOCK TABLE {table} IN EXCLUSIVE MODE"))
    }

    /// Returns once somebody waits for the table.
    pub fn wait_for_load(&mut self) {
        // The server waits, within one statement; it gives up after a minute.
        self.session
            .execute(
                "DO $$ BEGIN
                    FOR i IN 1..6000 LOOP
                        PERFORM FROM pg_locks WHERE NOT granted
                            AND database = (SELECT oid FROM pg_database
                                             WHERE datname = current_database());
                        EXIT WHEN FOUND;
                        PERFORM pg_sleep(0.01);
                    END LOOP;
                    IF NOT FOUND THEN RAISE 'no load came'; END IF;
                END $$",
            )
            .expect("a load waits");
    }

    /// The session that holds it, in its transaction.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub fn release(mut self) {
        self.session.execute("COMMIT").expect("committed");
    }
}

impl Files {
    /// Starts `fullbore` and leaves it running.
    pub fn start(&self, args: &[&str]) -> Child {
        self.start_reading(args, Stdio::null())
    }

    /// The same, with a pipe that a test writes rows into when it likes.
    pub fn start_with_stdin(&self, args: &[&str]) -> Child {
        self.start_reading(args, Stdio::piped())
    }

    fn start_reading(&self, args: &[&str], stdin: Stdio) -> Child {
        let mut command = fullbore_command();
        command.stdin(stdin);
        command.args(args).current_dir(self.folder());
        command.env("FULLBORE_HOME", self.path("state")).env_remove("DATABASE_URL");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("fullbore starts")
    }
}

/// Sends SIGINT, as ^C does.
pub fn interrupt(load: &Child) {
    // SAFETY: the id is that of a process that was started here and not waited for yet.
    unsafe { libc::kill(load.id().cast_signed(), libc::SIGINT) };
}

/// The end of a load that was started.
pub fn end_of(child: Child) -> Output {
    let output = child.wait_with_output().expect("fullbore ends");
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A load whose words are read as they come.
pub struct Load {
    child: Child,
    said: BufReader<ChildStderr>,
    all: String,
}

impl Load {
    pub fn begin(
        database: &TestDatabase<'_>,
        files: &Files,
        file: &str,
        way: &Way,
        more: &[&str],
    ) -> Self {
        let mut args = way.args();
        args.extend(more);
        Self::of(files.start_load(database.url(), file, way.name, &args))
    }

    pub fn of(mut child: Child) -> Self {
        let said = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, said, all: String::new() }
    }

    /// Returns once it says so; fails if it ends before.
    pub fn wait_for(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.said.read_line(&mut line).expect("read");
            assert!(read > 0, "it never said {words:?}, but: {}", self.all);
            self.all += &line;
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Its exit code, and all that it said.
    pub fn end(mut self) -> (i32, String) {
        self.said.read_to_string(&mut self.all).expect("read");
        let status = self.child.wait().expect("it ends");
        (status.code().unwrap_or(-1), self.all)
    }
}
