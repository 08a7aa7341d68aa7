//! Sets the search path of each statement.
//!
//! A role's path may name a schema in which others may create. Then `public.string_agg(name, text)`, or an
//! operator that fits better than the server's own, runs with the rights of the role that asks the catalog
//! (CVE-2018-1058). So statements see the server's own objects alone, and name all others with their
//! schema. Statements in which a table's defaults, triggers and constraints run are the exception: these see
//! the role's path, as they do with psql. Such a statement has no operator, function or type of ours that
//! is not qualified.
//!
//! Each message begins with the setting, for its own transaction alone: behind a pooler, the session is
//! another client's the next moment, and nothing of it may stay.

use super::{Session, TransactionStatus};

/// The server's own objects alone; those of `pg_temp` come last, if at all.
pub(super) const PINNED: &str = "SET LOCAL search_path = pg_catalog, pg_temp; ";

/// The path that the role has, put before statements in which a table's own functions run.
pub const OF_ROLE: &str = "SET LOCAL search_path TO DEFAULT; ";

/// The end of a transaction in which deferred triggers may run.
pub const COMMIT: &str = "SET LOCAL search_path TO DEFAULT; COMMIT";

impl Session {
    /// From here on, statements see the server's own objects alone, unless they begin with [`OF_ROLE`].
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.is_pinned = true;
        self
    }

    /// Whether a path can be set before a statement: a transaction that has failed only ends.
    pub(super) fn takes_path(&self, sql: &str) -> bool {
        self.is_pinned && self.status != TransactionStatus::Failed && !sql.is_empty()
    }
}
