//! Copies of a running server: base backups, taken while a test goes on, and what becomes of them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use fullbore_server::Cluster;

use crate::cluster::{SETTINGS, TestCluster, make_folder};
use crate::reaper::Reaper;
use crate::servers::TestServer;

/// A base backup under way.
#[derive(Debug)]
pub struct Backup {
    server: TestServer,
    cluster: Cluster,
    child: Child,
    reaper: Reaper,
}

/// What a backup is started as.
#[derive(Debug, Clone)]
pub enum Copied {
    /// A standby that streams from the server it was taken of.
    Standby,
    /// A server of its own, recovered from the segments of WAL in this folder.
    Restored(PathBuf),
}

impl TestCluster {
    /// Begins a base backup of this server; it goes on while the caller does other things.
    pub fn begin_backup(&self, args: &[&str]) -> Backup {
        let begun = || -> Result<Backup, Box<dyn std::error::Error>> {
            let run_as = self.cluster().run_as();
            let folder = make_folder(run_as)?;
            let cluster = Cluster::new(self.cluster().installation.clone(), folder.join("data"))
                .inspect_err(|_| drop(fs::remove_dir(&folder)))?;
            let reaper = Reaper::watch(&folder, &cluster.installation, run_as)?;
            let child = cluster
                .command("pg_basebackup")
                .args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--dbname"])
                .arg(self.url())
                .arg("--pgdata")
                .arg(&cluster.data_dir)
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            Ok(Backup { server: self.server(), cluster, child, reaper })
        };
        begun().unwrap_or_else(|error| panic!("no base backup: {error}"))
    }
}

impl Backup {
    /// Lets it stand still, however long what follows takes; [`Self::go_on`] ends that.
    pub fn hold(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the id is that of a child that was not waited for yet.
        let sent = unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        assert_eq!(sent, 0, "pg_basebackup has ended");
    }

    /// Waits for the backup's end and starts it.
    pub fn start(self, copied: &Copied) -> TestCluster {
        let Self { server, mut cluster, child, reaper } = self;
        let output = child.wait_with_output().expect("pg_basebackup ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the base backup failed: {said}");
        // The socket's lock lies in the data folder of such a server, and is copied with it.
        let lock = format!(".s.PGSQL.{}.lock", cluster.port);
        for copied_by_chance in [cluster.data_dir.join(lock), cluster.log_file()] {
            let _ = fs::remove_file(copied_by_chance);
        }
        cluster.settings = SETTINGS.map(|(name, value)| (name.into(), value.into())).to_vec();
        if let Copied::Restored(wal) = copied {
            // What pg_basebackup wrote for a standby.
            fs::remove_file(cluster.data_dir.join("standby.signal")).expect("a standby's file");
            let signal = cluster.data_dir.join("recovery.signal");
            fs::write(&signal, "").expect("written");
            cluster.run_as().give(&signal).expect("given");
            let command = format!("cp {}/%f %p", wal.display());
            cluster.settings.push(("restore_command".into(), command));
            cluster.settings.push(("primary_conninfo".into(), String::new()));
        }
        cluster.start().unwrap_or_else(|error| panic!("the backup does not start: {error}"));
        TestCluster::of(server, cluster, reaper)
    }
}
