//! Sessions with real servers: queries, COPY both ways, errors, notices.

mod hostile;
mod tls;
mod tls_server;
mod trouble;

use std::io;

use fullbore_pgwire::{
    ConnectionError, ConnectionOptions, Environment, Session, TransactionStatus, quote_literal,
};
use fullbore_testing::{TestServer, shared_or_skip};

fn options(url: &str) -> ConnectionOptions {
    ConnectionOptions::resolve(Some(url), &Environment::empty()).unwrap()
}

fn connect(url: &str) -> Session {
    Session::connect(&options(url)).unwrap()
}

fn value(session: &mut Session, sql: &str) -> String {
    session.query(sql).unwrap()[0].get(0).unwrap().to_owned()
}

#[test]
fn a_session_over_the_socket() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let mut options = options(&cluster.url());
    options.runtime.push(("synchronous_commit".into(), "off".into()));
    options.options = Some("-c work_mem=7MB".into());
    let mut session = Session::connect(&options).unwrap();
    assert!(session.server_version_num() >= 180_000);
    assert!(session.backend_pid() > 0);
    assert!(session.raw_fd() >= 0);
    assert!(!session.is_encrypted());
    assert_eq!(session.parameter("client_encoding"), Some("UTF8"));
    assert_eq!(session.transaction_status(), TransactionStatus::Idle);
    assert_eq!(value(&mut session, "SHOW synchronous_commit"), "off");
    assert_eq!(value(&mut session, "SHOW work_mem"), "7MB");
    assert_eq!(value(&mut session, "SHOW application_name"), "fullbore");

    let rows = session
        .query("SELECT 1; SELECT 'é' AS a, NULL AS b, '' AS c UNION ALL SELECT 'x', 'y', 'z'")
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].columns(), ["a", "b", "c"]);
    assert_eq!(rows[0].get("a"), Some("é"));
    assert_eq!(rows[0].get("b"), None);
    assert_eq!(rows[0].get(2), Some(""));
    assert_eq!(rows[1].get(2), Some("z"));
    assert_eq!(rows[0].get("nothing"), None);
    assert_eq!(rows[0].get(3), None);
    assert!(session.query("").unwrap().is_empty());
    assert!(matches!(session.query("SELECT '\0'"), Err(ConnectionError::Usage { .. })));
    // A statement larger than any buffer on the way, and back.
    let long = "x".repeat(3_000_000);
    assert_eq!(value(&mut session, &format!("SELECT '{long}'")), long);
}

#[test]
fn transactions_and_errors() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    assert_eq!(session.execute("CREATE TABLE t (a int PRIMARY KEY)").unwrap(), 0);
    session.execute("BEGIN").unwrap();
    assert_eq!(session.transaction_status(), TransactionStatus::InTransaction);
    assert_eq!(session.execute("INSERT INTO t VALUES (1), (2)").unwrap(), 2);
    let error = session.execute("INSERT INTO t VALUES (1)").unwrap_err();
    assert_eq!(error.sqlstate(), Some("23505"));
    let message = error.server_message().unwrap();
    assert_eq!(message.severity, "ERROR");
    assert_eq!(message.table.as_deref(), Some("t"));
    assert_eq!(message.constraint.as_deref(), Some("t_pkey"));
    assert!(message.detail.is_some() && !error.ends_session());
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(value(&mut session, "SELECT count(*) FROM t"), "0");

    let error = session.execute("SELEC 1").unwrap_err();
    assert_eq!(error.server_message().unwrap().position, Some(1));
    // The first failing statement ends the lot.
    session.execute("SELECT 1; SELECT 1/0; SELECT 2").unwrap_err();
    assert_eq!(value(&mut session, "SELECT 1"), "1");
    // COPY by the wrong door.
    session.query("COPY t FROM STDIN").unwrap_err();
    session.query("COPY t TO STDOUT").unwrap_err();
    session.copy_in("SELECT 1").unwrap_err();
    session.copy_in("COPY t TO STDOUT").unwrap_err();
    session.copy_in("COPY nowhere FROM STDIN").unwrap_err();
    session.copy_out("COPY t FROM STDIN", &mut |_| Ok(())).unwrap_err();
    session.copy_out("SELECT 1", &mut |_| Ok(())).unwrap_err();
    assert_eq!(value(&mut session, "SELECT 1"), "1");
}

#[test]
fn quoting_is_right_under_either_setting() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let mut session = connect(&cluster.url());
    for setting in ["on", "off"] {
        session.execute(&format!("SET standard_conforming_strings = {setting}")).unwrap();
        for text in ["", "it's", "\\", "\\'; --", "é\n", "E'"] {
            let sql = format!("SELECT {}", quote_literal(text).unwrap());
            assert_eq!(value(&mut session, &sql), text);
        }
    }
}

#[test]
fn copy_in_and_out() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    session.execute("CREATE UNLOGGED TABLE t (a int, b text)").unwrap();
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    assert!(!copy.is_binary());
    assert_eq!(copy.columns(), 2);
    let mut block = Vec::new();
    let mut rows = 0;
    let mut bytes = 0;
    for size in [1, 100, 40_000, 100_000] {
        block.clear();
        for number in 0..size {
            block.extend_from_slice(format!("{number}\trow number {number}\n").as_bytes());
        }
        copy.send(&block).unwrap();
        copy.send(b"").unwrap();
        rows += size;
        bytes += block.len() as u64;
    }
    assert_eq!(copy.bytes_sent(), bytes);
    assert_eq!(copy.finish().unwrap(), rows);

    let mut received = 0;
    let rows_out = session
        .copy_out("COPY t TO STDOUT", &mut |data| {
            received += data.len() as u64;
            Ok(())
        })
        .unwrap();
    assert_eq!((rows_out, received), (rows, bytes));

    let mut count = 0;
    let error = session
        .copy_out("COPY t TO STDOUT", &mut |_| {
            count += 1;
            if count == 10 { Err(io::Error::other("disk full")) } else { Ok(()) }
        })
        .unwrap_err();
    assert!(error.to_string().contains("disk full"), "{error}");
    assert_eq!(value(&mut session, "SELECT count(*) FROM t"), rows.to_string());
}

#[test]
fn a_copy_taken_back_leaves_nothing() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    session.execute("CREATE TABLE t (a int)").unwrap();
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(b"1\n2\n").unwrap();
    copy.abort("changed my mind").unwrap();
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(b"1\n2\n").unwrap();
    drop(copy);
    assert_eq!(value(&mut session, "SELECT count(*) FROM t"), "0");
    let copy = session.copy_in("COPY t FROM STDIN").unwrap();
    assert_eq!(copy.finish().unwrap(), 0);
}

#[test]
fn an_early_error_stops_a_copy_early() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    session.execute("CREATE TABLE t (a int)").unwrap();
    let good = b"1\n".repeat(200_000);
    for bad_block in [b"x\n".to_vec(), [&b"x\n"[..], &good].concat()] {
        let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
        copy.send(&bad_block).unwrap();
        let mut sent = 0_u64;
        let error = loop {
            match copy.send(&good) {
                Ok(()) => sent += good.len() as u64,
                Err(error) => break error,
            }
            assert!(sent < 4_000_000_000, "the error is never noticed");
        };
        assert_eq!(error.sqlstate(), Some("22P02"), "{error}");
        let context = error.server_message().unwrap().where_.as_deref().unwrap();
        assert!(context.contains("line 1"), "{context}");
        // The handle knows that it is over, and dropping it does nothing.
        assert!(copy.send(&good).is_err());
        drop(copy);
        assert_eq!(value(&mut session, "SELECT count(*) FROM t"), "0");
    }
    // An error at the very end.
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(b"1\nx\n").unwrap();
    assert_eq!(copy.finish().unwrap_err().sqlstate(), Some("22P02"));
    assert_eq!(value(&mut session, "SELECT 1"), "1");
}

/// Whoever only writes here waits for ever: the server's notices fill both sockets.
#[test]
fn a_copy_whose_rows_all_raise_notices_does_not_block() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let mut session = connect(database.url());
    session
        .execute(
            "CREATE TABLE t (a int);
             CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE NOTICE '%', repeat('x', 1000); RETURN NEW; END $$;
             CREATE TRIGGER shout BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION shout()",
        )
        .unwrap();
    session.set_notice_limit(500);
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    let block = b"1\n".repeat(5_000);
    for _ in 0..4 {
        copy.send(&block).unwrap();
    }
    assert_eq!(copy.finish().unwrap(), 20_000);
    let notices = session.take_notices();
    assert_eq!(notices.len(), 500);
    assert_eq!(notices[0].severity, "NOTICE");
    assert_eq!(notices[0].message.len(), 1000);
    assert!(session.take_notices().is_empty());
}

#[test]
fn messages_of_any_length_are_survived() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let mut session = connect(&cluster.url());
    session.execute("DO $$ BEGIN RAISE NOTICE '%', repeat('x', 50000000); END $$").unwrap();
    let notices = session.take_notices();
    assert_eq!(notices.len(), 1);
    assert!((1_000_000..=1_100_000).contains(&notices[0].message.len()));
    let error = session
        .execute("DO $$ BEGIN RAISE EXCEPTION '%', repeat('x', 2000000); END $$")
        .unwrap_err();
    assert_eq!(error.sqlstate(), Some("P0001"));
    assert_eq!(value(&mut session, "SELECT 1"), "1");
    assert_eq!(value(&mut session, "SELECT repeat('x', 30000000)").len(), 30_000_000);
}

#[test]
fn oldest_server_supported() {
    let cluster = shared_or_skip!(TestServer::Pg14);
    let mut session = connect(&cluster.url());
    assert_eq!(session.server_version_num() / 10_000, 14);
    session.execute("CREATE TEMP TABLE t (a int)").unwrap();
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(b"1\n").unwrap();
    assert_eq!(copy.finish().unwrap(), 1);
}
