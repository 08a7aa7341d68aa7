//! What keeps data whole, and stays on however slow a load is.

use super::lines::Lines;

impl Lines<'_> {
    pub(super) fn durability(&mut self) {
        let waits = self.value("synchronous_standby_names").is_some_and(|names| !names.is_empty());
        let why = if waits {
            "the last commit of a load waits for the standbys that are named in \
             synchronous_standby_names; all before it do not wait"
        } else {
            "good as it is: pieces don't wait for it, the commit that publishes the rows does"
        };
        self.keep("synchronous_commit", why);
        self.keep(
            "full_page_writes",
            match self.value("full_page_writes") {
                Some("off") => {
                    "without it, a crash can destroy data on file systems with partial page writes"
                }
                _ => "leave it on: without it a crash can destroy data",
            },
        );
        match self.value("fsync") {
            Some("off") => self.change(
                "fsync",
                "on",
                "a crash of the machine destroys the whole cluster, however well the load went",
                "commits wait for the disk",
            ),
            _ => self.keep("fsync", "leave it on"),
        }
        let why = match self.value("data_checksums") {
            Some("on") => "leave them on: they cost a load less than 0.1 CPU seconds a GB",
            _ => {
                "damage by disks goes unnoticed; `pg_checksums --enable` on a stopped server adds them"
            }
        };
        self.keep("data_checksums", why);
    }

    pub(super) fn autovacuum(&mut self) {
        self.keep(
            "autovacuum",
            "leave it on: it does not slow down a load, which runs ANALYZE itself",
        );
    }
}
