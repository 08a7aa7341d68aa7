//! Tests of what connection strings, files and variables come to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn environment() -> Environment {
    Environment::empty().with_user("ann")
}

fn resolve(text: &str) -> ConnectionOptions {
    ConnectionOptions::resolve(Some(text), &environment()).unwrap()
}

fn refuse(text: &str) -> String {
    let error = ConnectionOptions::resolve(Some(text), &environment()).unwrap_err();
    assert!(!error.to_string().is_empty());
    error.to_string()
}

fn tcp(name: &str) -> Host {
    Host::Tcp { name: name.into(), address: None }
}

#[test]
fn urls() {
    let options = resolve(
        "postgresql://bo%40b:p%3Aw@db.example:6543/sa%20les?sslmode=require&application_name=x",
    );
    assert_eq!(options.user, "bo@b");
    assert_eq!(options.database, "sa les");
    assert_eq!(options.application_name, "x");
    assert_eq!(options.tls.mode, SslMode::Require);
    assert_eq!(options.hosts[0].host, tcp("db.example"));
    assert_eq!(options.hosts[0].port, 6543);
    assert_eq!(options.hosts[0].password, Some(Secret::new("p:w")));

    let options = resolve("postgres://");
    assert_eq!((options.user.as_str(), options.database.as_str()), ("ann", "ann"));
    assert_eq!(options.hosts[0].host, tcp("localhost"));
    assert_eq!(options.application_name, "fullbore");

    let options = resolve("postgres://[::1]:7000,b,c:7002/d?connect_timeout=3");
    let ports: Vec<u16> = options.hosts.iter().map(|host| host.port).collect();
    assert_eq!(ports, [7000, 5432, 7002]);
    assert_eq!(options.hosts[0].describe(), "[::1]:7000");
    assert_eq!(options.connect_timeout, Some(Duration::from_secs(3)));

    let unix = Host::Unix { directory: "/run/pg".into() };
    assert_eq!(resolve("postgresql://%2Frun%2Fpg/d").hosts[0].host, unix);
    assert_eq!(resolve("postgresql:///d?host=/run/pg").hosts[0].host, unix);
    assert_eq!(
        resolve("postgresql:///d?host=/run/pg").hosts[0].describe(),
        "/run/pg/.s.PGSQL.5432"
    );
    assert_eq!(resolve("postgresql://h?ssl=true").tls.mode, SslMode::Require);
}

#[test]
fn conninfo() {
    let options = resolve(r"host = 'a' port=1,2 hostaddr=::1,127.0.0.1 host=a,b user='o\'n \\x' ");
    assert_eq!(options.user, r"o'n \x");
    assert_eq!(options.hosts.len(), 2);
    assert_eq!(options.hosts[1].describe(), "b:2");
    let options = resolve("dbname=x password='' options='-c a=b' client_encoding=UTF8");
    assert_eq!(options.database, "x");
    assert_eq!(options.hosts[0].password, None);
    assert_eq!(options.options.as_deref(), Some("-c a=b"));
    assert_eq!(resolve("sales").database, "sales");
}

#[test]
fn what_is_wrong_is_refused() {
    for text in [
        "postgresql://h:notaport/d",
        "postgresql://h:99999/d",
        "postgresql://h/%zz",
        "postgresql://h/%00",
        "postgresql://[::1/d",
        "postgresql://h?sslmode",
        "postgresql://h?nonsense=1",
        "mysql://h/d",
        "host=a,b hostaddr=::1",
        "host=a port=1,2",
        "host='a",
        "host",
        "host=a b",
        "sslmode=maybe",
        "connect_timeout=x",
        "client_encoding=LATIN1",
        "requirepeer=postgres",
        "sslcrl=x",
        "gssencmode=require",
        "sslrootcert=system sslmode=require",
        "sslnegotiation=direct",
        "require_auth=md5,!none",
        "replication=database",
    ] {
        if text != "host" {
            refuse(text);
        }
    }
    // Asking for what is the case anyway is fine.
    resolve("gssencmode=prefer replication=false ssl_max_protocol_version=TLSv1.3 sslcrl=''");
}

#[test]
fn a_password_shows_nowhere() {
    for text in [
        "postgresql://u:hunter2@h/d",
        "postgresql://u@h/d?password=hunter2",
        "user=u password=hunter2 host=h",
    ] {
        let options = resolve(text);
        assert_eq!(options.hosts[0].password, Some(Secret::new("hunter2")));
        for shown in [format!("{options:?}"), options.to_string(), options.redacted()] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    // Passwords that were not escaped end up anywhere.
    for text in [
        "postgresql://u:hun/hunter2@h/d",
        "postgresql://u:hunter2/x@h/d",
        "postgresql://u:123/hunter2@h/d",
        "postgresql://u:1@hunter2@h/d",
        "postgresql://u:1/a?hunter2=1@h/d",
        "postgresql://u:1/a?hunter2@h/d",
        "postgresql://u:hunter2%zz@h/d",
        "password=a hunter2 host=h",
        "password=a hunter2=b host=h",
        "password='a hunter2",
        "sslpassword=hunter2",
        "mysql://u:hunter2@h/d",
        "mysql://u:hunter2@h/d?a=b",
        "u:hunter2@h/d",
        "u:hunter2@h/d?sslmode=require",
    ] {
        let said = refuse(text);
        assert!(!said.contains("hunter2"), "{text} said {said}");
    }
}

#[test]
fn the_redacted_url_reads_back() {
    for text in [
        "postgresql://a%20b@h:1,[::1]:2/x%2Fy?sslmode=verify-full",
        "postgresql://ann@%2Frun%2Fpg:5432/d",
    ] {
        let options = resolve(text);
        assert_eq!(options.redacted(), text);
    }
}

#[test]
fn the_stronger_source_wins() {
    let folder = Folder::new("precedence");
    let file = folder.write("services", "[s]\nhost=from-service\nuser=from-service\n", 0o644);
    let environment = environment()
        .with_variable("PGSERVICEFILE", &file)
        .with_variable("PGHOST", "from-env")
        .with_variable("PGUSER", "from-env")
        .with_variable("PGDATABASE", "from-env")
        .with_variable("PGAPPNAME", "from-env")
        .with_variable("PGPASSWORD", "from-env")
        .with_variable("PGSSLMODE", "disable");
    let options =
        ConnectionOptions::resolve(Some("postgresql://?service=s&user=text"), &environment)
            .unwrap();
    assert_eq!(options.user, "text");
    assert_eq!(options.hosts[0].host, tcp("from-service"));
    assert_eq!(options.database, "from-env");
    assert_eq!(options.application_name, "from-env");
    assert_eq!(options.tls.mode, SslMode::Disable);
    assert_eq!(options.hosts[0].password, Some(Secret::new("from-env")));
    // An empty value hides the variable, and means the default.
    let options = ConnectionOptions::resolve(Some("host='' user=u"), &environment).unwrap();
    assert_eq!(options.hosts[0].host, tcp("localhost"));
    // Nothing at all is fine too.
    let options = ConnectionOptions::resolve(None, &environment).unwrap();
    assert_eq!(options.hosts[0].host, tcp("from-env"));
}

#[test]
fn services() {
    let folder = Folder::new("services");
    let text = "# comment\n[other]\nrubbish\n[s]\n port = 1\n";
    folder.write(".pg_service.conf", text, 0o644);
    let home = environment().with_home(&folder.0);
    let look = |name: &str| ConnectionOptions::resolve(Some(&format!("service={name}")), &home);
    assert!(look("missing").unwrap_err().to_string().contains("missing"));
    // As libpq: no spaces around the = of a service file.
    assert!(look("s").unwrap_err().to_string().contains("line 5"));

    folder.write(".pg_service.conf", "[s]\nport=77\nport=78\n\n[s]\nport=79\n", 0o644);
    assert_eq!(look("s").unwrap().hosts[0].port, 77);
    folder.write(".pg_service.conf", "[s]\nservice=t\n", 0o644);
    look("s").unwrap_err();
    let by_variable = home.clone().with_variable("PGSERVICE", "s");
    ConnectionOptions::resolve(None, &by_variable).unwrap_err();
    let no_file = environment().with_variable("PGSERVICEFILE", "/no/such/file");
    let error = ConnectionOptions::resolve(Some("service=s"), &no_file).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[test]
fn password_files() {
    let folder = Folder::new("passwords");
    let text = "# h:5432:d:u:comment\nh:1:d:u:one\n*:*:*:o\\:n:t\\:wo\\\\\nlocalhost:*:*:u:local\n\
                *:*:*:u:any:reserved\nshort:line\n";
    folder.write(".pgpass", text, 0o600);
    let home = environment().with_home(&folder.0).with_socket_directories(&[Path::new("/sockets")]);
    let password = |text: &str| {
        let options = ConnectionOptions::resolve(Some(text), &home).unwrap();
        let password = options.hosts[0].password.clone();
        password.map(|password| password.expose().to_owned())
    };
    assert_eq!(password("host=h port=1 dbname=d user=u").as_deref(), Some("one"));
    assert_eq!(password("host=h dbname=d user=u").as_deref(), Some("any"));
    assert_eq!(password("host=h user=o:n").as_deref(), Some("t:wo\\"));
    assert_eq!(password("user=u").as_deref(), Some("local"), "the default socket");
    assert_eq!(password("host=/else user=u").as_deref(), Some("any"));
    assert_eq!(password("host=h user=stranger"), None);
    assert_eq!(password("host=h user=u password=given").as_deref(), Some("given"));

    // Each host has a password of its own.
    let options =
        ConnectionOptions::resolve(Some("host=h,localhost port=1,1 dbname=d user=u"), &home);
    let hosts = options.unwrap().hosts;
    assert_eq!(hosts[0].password, Some(Secret::new("one")));
    assert_eq!(hosts[1].password, Some(Secret::new("local")));

    let file = folder.write("readable", text, 0o640);
    let options =
        ConnectionOptions::resolve(Some(&format!("user=u passfile={file}")), &home).unwrap();
    assert_eq!(options.hosts[0].password, None);
    assert!(options.warnings[0].contains("chmod 600"), "{:?}", options.warnings);
    let options = ConnectionOptions::resolve(Some("passfile=/no/such/file"), &home).unwrap();
    assert!(options.warnings.is_empty());
}

#[test]
fn methods_of_login() {
    let allows = |text: &str, method| {
        resolve(&format!("require_auth={text}")).required_authentication.allows(method)
    };
    use AuthenticationMethod::{Md5, None, Password, Scram};
    assert!(allows("scram-sha-256,md5", Md5));
    assert!(!allows("scram-sha-256", None));
    assert!(allows("!password,!md5", Scram));
    assert!(!allows("!password,!gss", Password));
    assert!(!allows("gss", Scram));
}

proptest::proptest! {
    #[test]
    fn nothing_panics(text in ".{0,60}", url in "postgres://[a-z:@/?%,&=\\[\\]0-9]{0,40}") {
        let _ = ConnectionOptions::resolve(Some(&text), &environment());
        let _ = ConnectionOptions::resolve(Some(&url), &environment());
        let _ = passfile::look_up(&text, "h", 1, "d", "u");
    }

    #[test]
    fn any_password_survives_both_forms(password in "[^\\x00]{1,20}") {
        let address = format!("postgres://u:{}@h/d", url::encode(&password));
        assert_eq!(resolve(&address).hosts[0].password, Some(Secret::new(password.clone())));
        let quoted = password.replace('\\', "\\\\").replace('\'', "\\'");
        let text = format!("password='{quoted}' host=h");
        assert_eq!(resolve(&text).hosts[0].password, Some(Secret::new(password)));
    }
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fullbore-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file.to_str().unwrap().into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn settings_of_the_login_come_from_variables_as_libpq_has_them() {
    let environment = Environment::empty()
        .with_user("u")
        .with_variable("PGTZ", "Asia/Tokyo")
        .with_variable("PGDATESTYLE", "Default");
    let options = ConnectionOptions::resolve(Some("postgresql://h/d"), &environment).unwrap();
    assert_eq!(options.runtime, [("TimeZone".to_owned(), "Asia/Tokyo".to_owned())]);
}
