//! Which files' contents runs have put into a table that still has them, as far as the ledger knows.

use fullbore_load::plan::recorded::RecordedFile;
use fullbore_load::run_id::RunId;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::read::{Role, Told, rows};
use super::roles::current;
use super::runs::{self, LedgerTable};
use crate::catalog;
use crate::error::{failed, refused};
use crate::server::Server;

/// A table as a job names it.
#[derive(Debug, Clone)]
pub struct Named {
    pub oid: u32,
    pub name: QualifiedName,
}

/// The files that one run has loaded into a table.
#[derive(Debug, Clone)]
pub struct LoadedBy {
    pub run_id: RunId,
    pub started: Told,
    /// The role that began it, and whether that is ours.
    pub role: Role,
    pub is_own: bool,
    pub files: Vec<RecordedFile>,
}

/// Bytes of a table's rows. Of what has no file of its own, or not here, something is taken to be there.
const BYTES: &str = "
    SELECT CASE relkind
           WHEN 'r' THEN pg_relation_size(c.oid)
           WHEN 'p' THEN (SELECT coalesce(sum(CASE l.relkind WHEN 'r' THEN pg_relation_size(l.oid)
                                                             WHEN 'p' THEN 0 ELSE 1 END), 0)
                            FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid)
           ELSE 1 END AS bytes
      FROM pg_class c WHERE c.oid = {oid}";

/// The number of the table that has a name.
pub(super) fn number_of(session: &mut Session, name: &QualifiedName) -> Result<Option<u32>> {
    Ok(catalog::relation(session, name).map_err(failed)?.map(|relation| relation.oid))
}

impl LedgerTable {
    /// Whether it is a table, known by its number rather than by its name.
    pub fn is_in(&self, table: &Named) -> bool {
        self.shown.map_or(self.oid, |shown| shown.oid) == table.oid
    }

    /// Whether its rows are in a table, now that they are shown.
    fn has_rows_in(&self, oid: u32) -> bool {
        let before = (self.publish != Publish::Replace).then_some(self.oid);
        self.shown.map(|shown| shown.oid).or(before) == Some(oid)
    }
}

fn has_no_rows(session: &mut Session, oid: u32) -> Result<bool> {
    let rows = rows(session, &BYTES.replace("{oid}", &oid.to_string())).map_err(failed)?;
    rows.first().map_or(Ok(false), |row| Ok(row.number::<u64>("bytes")? == 0))
}

impl Server {
    /// The table that a name stands for in this session.
    pub fn named(&self, name: &str) -> Result<Option<Named>> {
        let parsed = QualifiedName::parse(name).map_err(refused)?;
        let found = catalog::relation(&mut self.control(), &parsed).map_err(refused)?;
        Ok(found.map(|relation| Named { oid: relation.oid, name: relation.name }))
    }

    /// What finished runs have loaded into a table, the latest first; none where it has no rows any more.
    pub fn loaded_into(&self, schema: &str, oid: u32) -> Result<Vec<LoadedBy>> {
        let mut session = self.control();
        if !runs::exists(&mut session, schema)? {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT run, role, tables, to_char(started, 'YYYY-MM-DD HH24:MI:SS TZ') AS since
               FROM {schema}.runs
              WHERE state IN ('published', 'finished') AND tables LIKE '%\"oid\":{oid}%'
              ORDER BY started DESC, run DESC"
        );
        let found = rows(&mut session, &sql).map_err(failed)?;
        let ours = current(&mut session)?;
        let mut loaded = Vec::new();
        for row in &found {
            let tables: Vec<LedgerTable> = row.json("tables")?;
            let its = tables.into_iter().filter(|table| table.has_rows_in(oid));
            let files: Vec<_> = its.flat_map(|table| table.plan.files).collect();
            if !files.is_empty() {
                let (run_id, started) = (row.run_id("run")?, row.told("since"));
                let role = row.role("role")?;
                let is_own = role == ours;
                loaded.push(LoadedBy { run_id, started, role, is_own, files });
            }
        }
        if !loaded.is_empty() && has_no_rows(&mut session, oid)? {
            loaded.clear();
        }
        Ok(loaded)
    }

    /// Whether a table is there, and has no rows for certain.
    pub fn has_no_rows(&self, oid: u32) -> Result<bool> {
        has_no_rows(&mut self.control(), oid)
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        &self.options().database
    }
}
