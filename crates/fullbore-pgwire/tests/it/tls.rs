//! Logging in, with encryption and without: every method, every sslmode, wrong certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use fullbore_pgwire::{ConnectionError, ConnectionOptions, Environment, Session};
use fullbore_testing::{TestCluster, TestServer, skip};

use super::tls_server::{PASSWORD, Server, self_signed, start, start_with_authority};

pub fn connect(text: &str) -> Result<Session, ConnectionError> {
    let options = ConnectionOptions::resolve(Some(text), &Environment::empty())?;
    let result = Session::connect(&options);
    if let Err(error) = &result {
        for shown in [error.to_string(), format!("{error:?}"), format!("{options:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    result
}

fn tls_error(result: Result<Session, ConnectionError>) -> String {
    match result {
        Err(error @ ConnectionError::Tls { .. }) => error.to_string(),
        other => panic!("expected a TLS error, got {other:?}"),
    }
}

fn login_error(result: Result<Session, ConnectionError>) -> String {
    match result {
        Err(error @ ConnectionError::Authentication { .. }) => error.to_string(),
        other => panic!("expected an authentication error, got {other:?}"),
    }
}

/// One server for the tests of this file; nothing where it is not installed.
fn shared() -> Result<&'static Server, String> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    let start = || start_with_authority(TestServer::Debian15).map_err(|error| error.to_string());
    SERVER.get_or_init(start).as_ref().map_err(Clone::clone)
}

macro_rules! shared_or_skip {
    () => {
        match shared() {
            Ok(server) => server,
            Err(missing) => skip!("{missing}"),
        }
    };
}

#[test]
fn every_sslmode() {
    let server = shared_or_skip!();
    for (mode, encrypted) in [
        ("disable", false),
        ("allow", false),
        ("prefer", true),
        ("require", true),
        ("verify-ca", true),
        ("verify-full", true),
    ] {
        let mut session = server.connect("scram_user", &format!("sslmode={mode}")).unwrap();
        assert_eq!(session.is_encrypted(), encrypted, "{mode}");
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let rows = session.query(sql).unwrap();
        assert_eq!(rows[0].get(0), Some(if encrypted { "t" } else { "f" }), "{mode}");
    }
    let minimum = "sslmode=require ssl_min_protocol_version=TLSv1.3";
    server.connect("scram_user", minimum).unwrap();
}

#[test]
fn the_wrong_name() {
    let server = shared_or_skip!();
    let text = |mode: &str| server.text("scram_user", "other.test", &format!("sslmode={mode}"));
    let said = tls_error(connect(&text("verify-full")));
    assert!(said.contains("not for other.test"), "{said}");
    assert!(connect(&text("verify-ca")).unwrap().is_encrypted());
    let by_address = server.text("scram_user", "127.0.0.1", "sslmode=verify-full");
    tls_error(connect(&by_address));
    let by_other_name = server.text("scram_user", "DB.test", "sslmode=verify-full");
    connect(&by_other_name).unwrap();
}

#[test]
fn the_wrong_authority() {
    let server = shared_or_skip!();
    let with = |mode: &str, root: &str| {
        server.connect("scram_user", &format!("sslmode={mode} sslrootcert={root}"))
    };
    let other = server.file("other.crt");
    // A root certificate that is there counts with sslmode=require as well.
    for mode in ["require", "verify-ca", "verify-full"] {
        let said = tls_error(with(mode, &other));
        assert!(said.contains("not signed by a trusted authority"), "{said}");
    }
    assert!(!with("prefer", &other).unwrap().is_encrypted());
    assert!(with("require", "/no/such/file").unwrap().is_encrypted());
    let said = tls_error(with("verify-ca", "/no/such/file"));
    assert!(said.contains("/no/such/file"), "{said}");
    tls_error(with("verify-full", "system"));
    let empty = server.file("empty.crt");
    fs::write(&empty, "").unwrap();
    tls_error(with("verify-ca", &empty));
}

#[test]
fn channel_binding() {
    let server = shared_or_skip!();
    for more in [
        "sslmode=require channel_binding=require",
        "sslmode=require channel_binding=require ssl_min_protocol_version=TLSv1.3",
        "sslmode=prefer channel_binding=require require_auth=scram-sha-256",
        "sslmode=require channel_binding=prefer",
        "sslmode=require channel_binding=disable",
        "sslmode=disable channel_binding=prefer",
    ] {
        server.connect("scram_user", more).unwrap();
    }
    login_error(server.connect("scram_user", "sslmode=disable channel_binding=require"));
    for user in ["md5_user", "clear_user", "trusted_user"] {
        let said = login_error(server.connect(user, "sslmode=require channel_binding=require"));
        assert!(said.contains("channel binding"), "{said}");
    }
}

#[test]
fn every_method_of_login() {
    let server = shared_or_skip!();
    for user in ["scram_user", "md5_user", "clear_user", "trusted_user"] {
        for mode in ["disable", "require"] {
            let mut session = server.connect(user, &format!("sslmode={mode}")).unwrap();
            assert_eq!(session.query("SELECT current_user").unwrap()[0].get(0), Some(user));
        }
    }
    for (user, method) in [
        ("scram_user", "scram-sha-256"),
        ("md5_user", "md5"),
        ("clear_user", "password"),
        ("trusted_user", "none"),
    ] {
        server.connect(user, &format!("require_auth={method}")).unwrap();
        let said = login_error(server.connect(user, &format!("require_auth=!{method}")));
        assert!(said.contains(method), "{said}");
    }
}

#[test]
fn a_wrong_password() {
    let server = shared_or_skip!();
    for user in ["scram_user", "md5_user", "clear_user"] {
        let error = server.connect(user, "password=hunter2-but-wrong").unwrap_err();
        assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
        assert!(matches!(error, ConnectionError::Authentication { .. }), "{error}");
        assert!(error.hint().is_some());
        let said = login_error(server.connect(user, "password=''"));
        assert!(said.contains("asks for a password"), "{said}");
    }
}

#[test]
fn the_other_way_is_tried_where_the_options_leave_it_open() {
    let server = shared_or_skip!();
    assert!(!server.connect("plain_only", "sslmode=prefer").unwrap().is_encrypted());
    assert!(server.connect("ssl_only", "sslmode=allow").unwrap().is_encrypted());
    let error = server.connect("plain_only", "sslmode=require").unwrap_err();
    assert_eq!(error.sqlstate(), Some("28000"), "{error}");
    let error = server.connect("ssl_only", "sslmode=disable").unwrap_err();
    assert_eq!(error.sqlstate(), Some("28000"), "{error}");
}

#[test]
fn client_certificates() {
    let server = shared_or_skip!();
    let (certificate, key) = (server.file("client.crt"), server.file("client.key"));
    let more = format!("sslmode=verify-full sslcert={certificate} sslkey={key}");
    server.connect("cert_user", &more).unwrap();
    let error = server.connect("cert_user", "sslmode=verify-full").unwrap_err();
    assert_eq!(error.sqlstate(), Some("28000"), "{error}");
    let disabled = format!("{more} sslcertmode=disable");
    server.connect("cert_user", &disabled).unwrap_err();
    let open = server.file("open.key");
    fs::copy(&key, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let more = format!("sslmode=verify-full sslcert={certificate} sslkey={open}");
    let said = tls_error(server.connect("cert_user", &more));
    assert!(said.contains("chmod 600"), "{said}");
}

/// Everything that a session does, through the encryption.
#[test]
fn an_encrypted_session_works() {
    let server = shared_or_skip!();
    let mut session = server.connect("scram_user", "sslmode=verify-full").unwrap();
    session
        .execute(
            "CREATE TEMP TABLE t (a int);
             CREATE FUNCTION pg_temp.shout() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE NOTICE '%', repeat('x', 1000); RETURN NEW; END $$;
             CREATE TRIGGER shout BEFORE INSERT ON t
             FOR EACH ROW EXECUTE FUNCTION pg_temp.shout()",
        )
        .unwrap();
    let block = b"1\n".repeat(5_000);
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    for _ in 0..3 {
        copy.send(&block).unwrap();
    }
    assert_eq!(copy.finish().unwrap(), 15_000);
    assert_eq!(session.take_notices().len(), 10_000);
    session.execute("DROP TRIGGER shout ON t").unwrap();

    let block = b"1\n".repeat(2_000_000);
    let mut copy = session.copy_in("COPY t FROM STDIN").unwrap();
    copy.send(&block).unwrap();
    copy.send(b"x\n").unwrap();
    let error = loop {
        if let Err(error) = copy.send(&block) {
            break error;
        }
    };
    assert_eq!(error.sqlstate(), Some("22P02"), "{error}");
    drop(copy);

    let mut bytes = 0;
    let rows = session
        .copy_out("COPY t TO STDOUT", &mut |data| {
            bytes += data.len();
            Ok(())
        })
        .unwrap();
    assert_eq!((rows, bytes), (15_000, 30_000));
    let long = session.query("SELECT repeat('x', 10000000)").unwrap();
    assert_eq!(long[0].get(0).map(str::len), Some(10_000_000));

    let handle = session.cancel_handle();
    let pid = session.backend_pid();
    let url = server.cluster.url();
    let other = std::thread::spawn(move || {
        let mut watcher = connect(&url).unwrap();
        let running = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'"
        );
        while watcher.query(&running).unwrap()[0].get(0) == Some("0") {
            std::thread::yield_now();
        }
        handle.cancel()
    });
    let error = session.execute("SELECT pg_sleep(600)").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57014"));
    other.join().unwrap().unwrap();
}

#[test]
fn a_self_signed_certificate() {
    let (certificate, key) = self_signed();
    let files = [("root.crt", certificate.as_str())];
    let server = match start(TestServer::Debian15, &certificate, &key, &certificate, &files) {
        Ok(server) => server,
        Err(missing) => skip!("{missing}"),
    };
    server.connect("scram_user", "sslmode=verify-full channel_binding=require").unwrap();
    let other = server.text("scram_user", "other.test", "sslmode=verify-full");
    tls_error(connect(&other));
}

#[test]
fn direct_negotiation() {
    let direct = "sslmode=verify-full sslnegotiation=direct";
    let old = shared_or_skip!();
    tls_error(old.connect("scram_user", direct));
    let server = match start_with_authority(TestServer::Debian17) {
        Ok(server) => server,
        Err(missing) => skip!("{missing}"),
    };
    let session = server.connect("scram_user", direct).unwrap();
    session.cancel_handle().cancel().unwrap();
    server.connect("scram_user", "sslmode=verify-full channel_binding=require").unwrap();
}

#[test]
fn a_server_without_encryption() {
    let cluster = match TestCluster::builder(TestServer::Embedded18).tcp(PASSWORD).start() {
        Ok(cluster) => cluster,
        Err(missing) => skip!("{missing}"),
    };
    let url = cluster.cluster().tcp_url("postgres").unwrap();
    let connect_with = |parameters: &str| connect(&format!("{url}?{parameters}"));
    assert!(!connect_with("sslmode=prefer").unwrap().is_encrypted());
    connect_with("sslmode=disable&channel_binding=prefer&keepalives_idle=5&tcp_user_timeout=900")
        .unwrap();
    let said = tls_error(connect_with("sslmode=require"));
    assert!(said.contains("does not encrypt"), "{said}");
    login_error(connect_with("sslmode=disable&channel_binding=require"));
    let session = connect_with("connect_timeout=5").unwrap();
    session.cancel_handle().cancel().unwrap();
}
