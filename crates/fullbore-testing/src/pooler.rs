//! pgbouncer before a server: the pooler that most people have.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::TestCluster;

/// Where Debian has it, and who has a PATH without folders of administrators.
const PROGRAMS: [&str; 3] =
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];

/// Ends pgbouncer when the test's end of the pipe closes, however the test ends. `$1` is the
/// program, `$2` its settings.
const SCRIPT: &str = r#"
"$1" -q "$2" < /dev/null &
pooler=$!
cat > /dev/null
kill "$pooler"
wait "$pooler"
"#;

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A pgbouncer of a test's own; ended when dropped.
#[derive(Debug)]
pub struct Pooler {
    folder: PathBuf,
    shell: Child,
}

impl Pooler {
    /// Starts one before a server, in a pool mode: `session` or `transaction`. The error says
    /// that there is no pgbouncer here; one that does not start fails the test.
    pub fn start(cluster: &TestCluster, mode: &str, settings: &str) -> Result<Self, String> {
        let program =
            PROGRAMS.iter().map(Path::new).find(|path| path.is_file()).ok_or_else(|| {
                "no pgbouncer, looked in /usr/sbin, /usr/bin and /usr/local/bin; \
             scripts/test_servers.sh installs it"
                    .to_owned()
            })?;
        Ok(Self::begin(cluster, program, mode, settings)
            .unwrap_or_else(|error| panic!("pgbouncer does not start: {error}")))
    }

    fn begin(
        cluster: &TestCluster,
        program: &Path,
        mode: &str,
        settings: &str,
    ) -> io::Result<Self> {
        let server = cluster.cluster();
        let run_as = server.run_as();
        // Beside the data folder, and removed with it.
        let folder = server.data_dir.with_file_name(format!("pooler-{mode}"));
        fs::create_dir(&folder)?;
        run_as.give(&folder).map_err(io::Error::other)?;
        let config = folder.join("pgbouncer.ini");
        // Everybody who reaches its socket may come in, as the server's only role.
        let text = format!(
            "[databases]\n* = host={} port={} user=postgres\n[pgbouncer]\nunix_socket_dir = {}\n\
             listen_port = 6432\nauth_type = any\npool_mode = {mode}\nlogfile = {}\n{settings}\n",
            server.socket_dir.display(),
            server.port,
            folder.display(),
            folder.join("log").display(),
        );
        fs::write(&config, text)?;
        let shell = run_as
            .command(Path::new("/bin/sh"))
            .args(["-c", SCRIPT, "pooler"])
            .arg(program)
            .arg(&config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole group of the tests.
            .process_group(0)
            .spawn()?;
        let pooler = Self { folder, shell };
        let began = Instant::now();
        while UnixStream::connect(pooler.folder.join(".s.PGSQL.6432")).is_err() {
            if began.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(pooler.log()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(pooler)
    }

    /// The URL of a database by way of the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}&port=6432", self.folder.display())
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
