//! `load` over TLS, with SCRAM passwords from each place where people keep them, and over the
//! unix socket; against a server built with OpenSSL.

use std::os::unix::fs::PermissionsExt;

use crate::common::Files;
use crate::common::tls::{PASSWORD, server};
use fullbore_testing::{Output, fullbore_command, output_of, skip};

/// A load of two rows; the environment decides on what the target leaves open.
fn load(files: &Files, target: &str, environment: &[(&str, &str)]) -> Output {
    let file = files.write("x.csv", "1\n2\n");
    let mut command = fullbore_command();
    command.args(["load", &file, "--to", target, "--table", "t", "--header", "none", "--atomic"]);
    command.args(["--if-loaded", "again"]);
    command.current_dir(files.folder()).env("FULLBORE_HOME", files.path("state"));
    command.env("HOME", files.folder()).env_remove("DATABASE_URL");
    command.envs(environment.iter().copied());
    let output = output_of(command);
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    output
}

#[test]
fn loads_over_tls_with_passwords_from_everywhere() {
    let files = Files::new();
    let Some(cluster) = server(&files) else { skip!("no PostgreSQL with OpenSSL") };
    cluster.psql("CREATE TABLE t (a int)");
    let port = cluster.cluster().port;
    let rows = |wanted: &str| assert_eq!(cluster.psql("SELECT count(*) FROM t"), wanted);
    let root = files.path("root.crt").display().to_string();
    let secure = format!("sslmode=verify-full&sslrootcert={root}");
    let url = |login: &str, more: &str| {
        format!("postgresql://{login}@localhost:{port}/postgres?hostaddr=127.0.0.1&{more}")
    };
    // From the URL, percent-encoded.
    let in_url = "postgres:s3cret%3A%20with%20%5C%20and%20%27quotes%27";
    let output = load(&files, &url(in_url, &secure), &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    rows("2");
    // From the environment, bound to the channel.
    let bound = format!("{secure}&channel_binding=require");
    let output = load(&files, &url("postgres", &bound), &[("PGPASSWORD", PASSWORD)]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    rows("4");
    // From the password file, in its own quoting, found in the home folder and by name.
    let quoted = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
    let line = format!("# ours\nlocalhost:{port}:*:postgres:{quoted}\n");
    for (name, environment) in [(".pgpass", None), ("elsewhere", Some("PGPASSFILE"))] {
        let path = files.write(name, &line);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("private");
        let environment: Vec<_> =
            environment.map(|name| (name, path.as_str())).into_iter().collect();
        let output = load(&files, &url("postgres", &secure), &environment);
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        std::fs::remove_file(&path).expect("removed");
    }
    rows("8");
    // A wrong authority, a wrong name, no password, a wrong one, no TLS: refused, with a reason.
    let other = files.path("other.crt").display().to_string();
    let password = [("PGPASSWORD", PASSWORD)];
    let wrong = [("PGPASSWORD", "s3cret but wrong")];
    let other_root = format!("sslmode=verify-full&sslrootcert={other}");
    let by_address = format!("postgresql://postgres@127.0.0.1:{port}/postgres?{secure}");
    for (target, environment, words) in [
        (url("postgres", &other_root), &password[..], "not signed by a trusted authority"),
        (by_address, &password, "not for 127.0.0.1"),
        (url("postgres", &secure), &[], "asks for a password"),
        (url("postgres", &secure), &wrong, "password authentication failed"),
        (url("postgres", "sslmode=disable"), &password, "no encryption"),
    ] {
        let output = load(&files, &target, environment);
        assert_eq!(output.code, 2, "{target}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{} lacks {words}", output.stderr);
    }
    rows("8");
}

#[test]
fn loads_over_the_unix_socket() {
    let files = Files::new();
    let Some(cluster) = server(&files) else { skip!("no PostgreSQL with OpenSSL") };
    cluster.psql("CREATE TABLE t (a int)");
    // The server of the tests listens in its own folder; its URL names it.
    let url = cluster.url();
    let folder = cluster.cluster().socket_dir.display().to_string();
    assert!(folder.starts_with('/'), "{folder}");
    let port = cluster.cluster().port.to_string();
    let environment = [("PGHOST", folder.as_str()), ("PGPORT", &port), ("PGUSER", "postgres")];
    // By URL; by the environment, TLS asked for or not: a socket has none to offer.
    for (target, environment) in [
        (url.as_str(), &[][..]),
        ("dbname=postgres", &environment),
        ("dbname=postgres sslmode=verify-full", &environment),
    ] {
        let output = load(&files, target, environment);
        assert_eq!(output.code, 0, "{target}: {}", output.stderr);
    }
    assert_eq!(cluster.psql("SELECT count(*) FROM t"), "6");
}
