//! Throw-away clusters, and databases in them.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use fullbore_server::{Access, Cluster, InitOptions, Installation, RunAs, StopMode};

use crate::reaper::Reaper;
use crate::servers::{Missing, TestServer};
use crate::template;

/// Where clusters are made; the path has to be short, for the socket's sake.
const BASE_DIR_VARIABLE: &str = "FULLBORE_TEST_DIR";

/// Tests' data may be lost with the machine; everything else is as a server has it by default.
pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("fsync", "off"), ("cluster_name", "fullbore-test")];

/// A running server that ends, and whose files go, when this is dropped.
#[derive(Debug)]
pub struct TestCluster {
    server: TestServer,
    cluster: Cluster,
    databases: AtomicU32,
    // The last field: it cleans up after the others.
    _reaper: Reaper,
}

/// Decides on a cluster before it starts.
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    server: TestServer,
    settings: Vec<(String, String)>,
    data_checksums: bool,
    tcp_password: Option<String>,
    files: Vec<(String, Vec<u8>)>,
}

impl ClusterBuilder {
    /// A setting of postgresql.conf.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Pages without checksums.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.data_checksums = false;
        self
    }

    /// Listens on 127.0.0.1 as well, with this password (SCRAM).
    #[must_use]
    pub fn tcp(mut self, password: &str) -> Self {
        self.tcp_password = Some(password.into());
        self
    }

    /// Speaks TLS with this certificate and key (PEM); the server must have OpenSSL.
    #[must_use]
    pub fn tls(self, certificate: &[u8], key: &[u8]) -> Self {
        self.file("server.crt", certificate).file("server.key", key).setting("ssl", "on")
    }

    /// A file in the data folder, the server's own, mode 0600.
    #[must_use]
    pub fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.files.push((name.into(), content.into()));
        self
    }

    /// Makes the cluster and starts it. A server that is installed but fails is a failed test:
    /// it panics.
    pub fn start(self) -> Result<TestCluster, Missing> {
        let installation = self.server.installation()?;
        Ok(self
            .make(installation)
            .unwrap_or_else(|error| panic!("{:?} does not run: {error}", self.server)))
    }

    fn make(&self, installation: Installation) -> Result<TestCluster, Box<dyn std::error::Error>> {
        let run_as = RunAs::for_this_process()?;
        let folder = make_folder(&run_as)?;
        let mut cluster = Cluster::new(installation, folder.join("data"))
            .inspect_err(|_| drop(fs::remove_dir(&folder)))?;
        let reaper = Reaper::watch(&folder, &cluster.installation, &run_as)?;
        // From here on everything is cleaned up, also where a step below fails.

        if let Some(password) = &self.tcp_password {
            cluster.port = free_port()?;
            cluster.access =
                Access::Tcp { address: "127.0.0.1".into(), password: password.clone() };
        }
        let general = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        cluster.settings = general.into_iter().chain(self.settings.clone()).collect();
        let options = InitOptions { data_checksums: self.data_checksums, sync: false };
        match cluster.access {
            Access::PrivateSocket => template::init(self.server, &cluster, &options)?,
            // Its password is set as it is made.
            Access::Tcp { .. } => cluster.init(&options)?,
        }
        for (name, content) in &self.files {
            let path = cluster.data_dir.join(name);
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            run_as.give(&path)?;
        }
        cluster.start()?;
        Ok(TestCluster::of(self.server, cluster, reaper))
    }
}

impl TestCluster {
    /// A cluster that runs, and what cleans up after it.
    pub(crate) fn of(server: TestServer, cluster: Cluster, reaper: Reaper) -> Self {
        Self { server, cluster, databases: AtomicU32::new(0), _reaper: reaper }
    }

    /// Begins to decide on a cluster.
    pub fn builder(server: TestServer) -> ClusterBuilder {
        ClusterBuilder {
            server,
            settings: Vec::new(),
            data_checksums: true,
            tcp_password: None,
            files: Vec::new(),
        }
    }

    /// A cluster of the test's own, with the server's default settings.
    pub fn start(server: TestServer) -> Result<Self, Missing> {
        Self::builder(server).start()
    }

    /// The same with settings.
    pub fn with_settings(server: TestServer, settings: &[(&str, &str)]) -> Result<Self, Missing> {
        let builder = Self::builder(server);
        let set =
            |builder: ClusterBuilder, (name, value): &(&str, &str)| builder.setting(name, value);
        settings.iter().fold(builder, set).start()
    }

    /// The one cluster of this server that all tests of this process share; each should take a
    /// [`fresh_database`](Self::fresh_database).
    pub fn shared(server: TestServer) -> Result<&'static Self, Missing> {
        static CLUSTERS: Mutex<Option<HashMap<TestServer, &'static TestCluster>>> =
            Mutex::new(None);
        // Poisoned means that a start panicked, in another test, which has failed with it.
        let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = clusters.get_or_insert_default();
        if let Some(cluster) = clusters.get(&server) {
            return Ok(cluster);
        }
        // Statics are never dropped; the reaper notices the end of the process.
        let cluster: &'static Self = Box::leak(Box::new(Self::start(server)?));
        clusters.insert(server, cluster);
        Ok(cluster)
    }

    /// Which server it is.
    pub fn server(&self) -> TestServer {
        self.server
    }

    /// The cluster under it: data folder, log, stop and start.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The URL of its database `postgres`.
    pub fn url(&self) -> String {
        self.cluster.url("postgres")
    }

    /// Makes a database and gives its URL.
    pub fn create_database(&self, name: &str) -> String {
        self.psql(&format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\"")));
        self.cluster.url(name)
    }

    /// Makes a database that nobody else has, and that goes with the result.
    pub fn fresh_database(&self) -> TestDatabase<'_> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let url = self.create_database(&name);
        TestDatabase { cluster: self, name, url }
    }

    /// Runs SQL in the database `postgres`; panics when it fails.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in(&self.url(), sql)
    }

    /// Runs SQL in the database of a URL: rows as lines, columns divided by `|`, nothing else.
    /// Statements are transactions of their own. Panics when one fails.
    pub fn psql_in(&self, url: &str, sql: &str) -> String {
        self.try_psql_in(url, sql).unwrap_or_else(|error| panic!("psql failed: {error}\nin: {sql}"))
    }

    /// The same, with psql's message as the error.
    pub fn try_psql_in(&self, url: &str, sql: &str) -> Result<String, String> {
        let mut child = RunAs::Ourselves
            .command(&self.cluster.installation.program("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        // From a thread: psql may print more than a pipe holds before it has read everything.
        let mut stdin = child.stdin.take().ok_or("no stdin")?;
        let sql = sql.to_owned();
        // psql that gave up early closes its end; its message says why.
        let writer = std::thread::spawn(move || drop(stdin.write_all(sql.as_bytes())));
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        writer.join().map_err(|_| "the writer panicked")?;
        if output.status.success() {
            let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
            Ok(text.trim_end_matches('\n').to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// Runs one of the server's own programs, such as pg_dump, to its end; panics when it fails.
    pub fn program<S: AsRef<OsStr>>(&self, name: &str, args: &[S]) {
        let output = RunAs::Ourselves
            .command(&self.cluster.installation.program(name))
            .args(args)
            .output()
            .unwrap_or_else(|error| panic!("{name} does not run: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {said}");
    }

    /// Ends the server as a crash would, and starts it again: recovery has to cope.
    pub fn crash_and_restart(&self) {
        self.cluster
            .stop(StopMode::Immediate)
            .and_then(|()| self.cluster.start())
            .unwrap_or_else(|error| panic!("{:?} does not come back: {error}", self.server));
    }
}

/// One test's database; dropped with it.
#[derive(Debug)]
pub struct TestDatabase<'a> {
    cluster: &'a TestCluster,
    name: String,
    url: String,
}

impl TestDatabase<'_> {
    /// The server that it is in.
    pub fn cluster(&self) -> &TestCluster {
        self.cluster
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL in it; panics when it fails.
    pub fn psql(&self, sql: &str) -> String {
        self.cluster.psql_in(&self.url, sql)
    }

    /// Runs SQL in it, with psql's message as the error.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        self.cluster.try_psql_in(&self.url, sql)
    }
}

impl Drop for TestDatabase<'_> {
    fn drop(&mut self) {
        // A test may have stopped the server, and its data go anyway.
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let _ = self.cluster.try_psql_in(&self.cluster.url(), &sql);
    }
}

/// A new folder that the server's user owns and everybody can pass through.
pub(crate) fn make_folder(run_as: &RunAs) -> Result<PathBuf, Box<dyn std::error::Error>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let base = env::var_os(BASE_DIR_VARIABLE).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    // Links resolved, since /proc shows where the server really is.
    let base = fs::canonicalize(base)?;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder: &Path = &base.join(format!("fbt-{}-{number}", std::process::id()));
        match fs::create_dir(folder) {
            Ok(()) => {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
                run_as.give(folder)?;
                return Ok(folder.to_path_buf());
            }
            // Left by an earlier process of the same id that was killed with its reaper.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A port that was free a moment ago, which is the best one can have.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
