//! Sessions with real servers that end otherwise than planned, or don't begin.

use std::time::Duration;

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_testing::{TestServer, shared_or_skip, start_or_skip};

use super::{connect, options, value};

#[test]
fn cancelling() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let mut session = connect(&cluster.url());
    let handle = session.cancel_handle();
    let pid = session.backend_pid();
    let url = cluster.url();
    let other = std::thread::spawn(move || {
        let mut watcher = connect(&url);
        let running = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'"
        );
        while value(&mut watcher, &running) == "0" {
            std::thread::yield_now();
        }
        handle.cancel()
    });
    let error = session.execute("SELECT pg_sleep(600)").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57014"));
    other.join().unwrap().unwrap();
    assert_eq!(value(&mut session, "SELECT 1"), "1");
}

#[test]
fn a_lost_connection_is_told_apart() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    let mut other = connect(&cluster.url());
    // While idle: the server's last words are heard.
    let kill =
        |session: &Session| format!("SELECT pg_terminate_backend({})", session.backend_pid());
    let gone = |other: &mut Session, pid: i32| {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        while value(other, &sql) != "0" {
            std::thread::yield_now();
        }
    };
    other.execute(&kill(&session)).unwrap();
    gone(&mut other, session.backend_pid());
    let error = session.execute("SELECT 1").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57P01"), "{error}");
    assert!(error.ends_session() && session.is_broken());
    assert!(matches!(session.execute("SELECT 1"), Err(ConnectionError::Lost { .. })));

    // In the middle of a COPY.
    let mut session = connect(database.url());
    session.execute("CREATE TABLE t (a int)").unwrap();
    let pid = session.backend_pid();
    let sql = kill(&session);
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(b"1\n").unwrap();
    other.execute(&sql).unwrap();
    gone(&mut other, pid);
    let error = loop {
        if let Err(error) = copy.send(b"1\n") {
            break error;
        }
    };
    assert!(error.ends_session(), "{error}");
    drop(copy);
    assert!(matches!(session.execute("SELECT 1"), Err(ConnectionError::Lost { .. })));

    // A server that says nothing for too long.
    let mut session = connect(database.url());
    session.set_read_timeout(Some(Duration::from_millis(50)));
    let error = session.execute("SELECT pg_sleep(600)").unwrap_err();
    assert!(matches!(error, ConnectionError::Lost { .. }), "{error}");
}

#[test]
fn hosts_are_tried_in_order() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let socket_dir = cluster.cluster().socket_dir.display().to_string();
    let port = cluster.cluster().port;
    let text =
        |more: &str| format!("host=/no/such/folder,{socket_dir} port={port} user=postgres {more}");
    let mut session = connect(&text("target_session_attrs=read-write"));
    assert!(session.target().starts_with(&socket_dir), "{}", session.target());
    assert_eq!(value(&mut session, "SELECT 1"), "1");
    connect(&text("load_balance_hosts=random target_session_attrs=primary"));
    connect(&text("target_session_attrs=prefer-standby"));

    let error = Session::connect(&options(&text("target_session_attrs=standby"))).unwrap_err();
    assert!(matches!(error, ConnectionError::NoHost { .. }), "{error}");
    assert!(error.to_string().contains("no standby"), "{error}");
    assert!(error.hint().is_some());
    // The next host would say the same.
    let error = Session::connect(&options(&text("dbname=nowhere"))).unwrap_err();
    assert_eq!(error.sqlstate(), Some("3D000"), "{error}");
}

#[test]
fn a_full_server_says_so() {
    let settings = [
        ("max_connections", "4"),
        ("superuser_reserved_connections", "0"),
        ("max_wal_senders", "0"),
    ];
    let cluster = start_or_skip!(TestServer::Embedded18, &settings);
    let mut sessions = Vec::new();
    let error = loop {
        match Session::connect(&options(&cluster.url())) {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
        assert!(sessions.len() <= 4);
    };
    assert_eq!(error.sqlstate(), Some("53300"), "{error}");
}

#[test]
fn sessions_and_handles_change_threads() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Session>();
    send::<fullbore_pgwire::CancelHandle>();
    sync::<fullbore_pgwire::CancelHandle>();
    send::<ConnectionError>();
    sync::<ConnectionError>();
}
