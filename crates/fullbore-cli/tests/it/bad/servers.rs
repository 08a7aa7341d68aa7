//! Servers that are not there, full, or gone in the middle of a load; and secrets, which are told
//! nowhere.

use fullbore_pgwire::{ConnectionOptions, Environment, Session};
use fullbore_testing::{TestServer, start_or_skip};

use crate::common::Files;
use crate::common::codes::{FAILED, REFUSED, STOPPED};
use crate::common::held::{Held, end_of, session, wait_for};

#[test]
fn servers_that_can_not_be_reached() {
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let url = "postgresql://someone:s3cret-w0rd@127.0.0.1:1/nothing";
    let output = files.fullbore(&["load", &file, "--to", url, "--table", "t"]);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(!output.stderr.contains("s3cret"), "{}", output.stderr);
    assert!(output.stderr.contains("hint:"), "{}", output.stderr);
}

#[test]
#[ignore = "make test-all: long"]
fn servers_that_are_full() {
    let settings = [("max_connections", "5"), ("superuser_reserved_connections", "0")];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    cluster.psql("CREATE TABLE t (a int); CREATE ROLE alone LOGIN CONNECTION LIMIT 1");
    cluster.psql("GRANT INSERT ON t TO alone");
    let files = Files::new();
    let file = files.write("x.csv", "1\n");
    let load = |url: &str| {
        let args = ["load", &file, "--to", url, "--table", "t", "--header", "none"];
        files.fullbore(&args)
    };
    // Room for the first session, none for the second: nothing was sent yet.
    let url = cluster.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let output = load(&format!("{url}{separator}user=alone"));
    assert_eq!(output.code, FAILED, "{}", output.stderr);
    assert!(output.stderr.contains("too many connections"), "{}", output.stderr);
    assert!(output.stderr.contains("--streams"), "{}", output.stderr);
    // No room at all: refused before anything was touched.
    let mut first = session(&url);
    // The sessions of before take a moment to go.
    first
        .execute(
            "DO $$ BEGIN
                WHILE (SELECT count(*) FROM pg_stat_activity
                        WHERE backend_type = 'client backend') > 1 LOOP
                    PERFORM pg_sleep(0.01);
                    PERFORM pg_stat_clear_snapshot();
                END LOOP;
            END $$",
        )
        .expect("alone");
    // One that is not listed any more may still have its place.
    let options = ConnectionOptions::resolve(Some(&url), &Environment::empty()).expect("a URL");
    let mut held = Vec::new();
    wait_for("four places", || {
        held.extend(Session::connect(&options));
        held.len() == 4
    });
    let output = load(&url);
    assert_eq!(output.code, REFUSED, "{}", output.stderr);
    assert!(output.stderr.contains("too many clients"), "{}", output.stderr);
    assert!(output.stderr.contains("max_connections"), "{}", output.stderr);
    drop(held);
    assert_eq!(first.query("SELECT count(*) FROM t").expect("read")[0].get(0), Some("0"));
}

#[test]
fn servers_that_go_in_the_middle_of_a_load() {
    // SIGQUIT is a server that is stopped at once; SIGKILL one that the kernel ended.
    for (signal, publish) in
        [(libc::SIGQUIT, &[][..]), (libc::SIGKILL, &[]), (libc::SIGQUIT, &["--atomic"])]
    {
        let cluster = start_or_skip!(TestServer::Embedded18);
        cluster.psql("CREATE TABLE t (a text)");
        let files = Files::new();
        let file = files.write("x.csv", "a line of some length, to fill blocks\n".repeat(100_000));
        let url = cluster.url();
        let mut held = Held::lock(&url, "t");
        let mut args = vec!["load", &file, "--to", &url, "--table", "t", "--header", "none"];
        args.extend(["--delimiter", "|", "--format", "csv", "--streams", "2"]);
        args.extend(publish);
        args.extend(["--retry-for", "0"]);
        let load = files.start(&args);
        held.wait_for_load();
        let pid = cluster.cluster().pid().expect("it runs");
        // SAFETY: the id is that of the server started above.
        unsafe { libc::kill(pid.cast_signed(), signal) };
        let output = end_of(load);
        assert_eq!(output.code, STOPPED, "{signal} {publish:?}: {}", output.stderr);
        assert!(
            output.stderr.contains("connection") || output.stderr.contains("shutdown"),
            "{}",
            output.stderr
        );
        assert!(output.stderr.contains("hint:"), "{}", output.stderr);
        assert!(output.stderr.contains("fullbore runs abort"), "{}", output.stderr);
        let runs = files.fullbore(&["runs", "list", "--json"]);
        assert!(runs.stdout.contains("\"stopped\""), "{}", runs.stdout);
    }
}
