//! What is done with ranked rows, as SQL. The target's own functions run in it, so that every name is qualified.

use std::ops::Range;

use fullbore_load::job::OnConflict;
use fullbore_load::plan::Plan;
use fullbore_load::plan::lineage::ORDER_COLUMN;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{QualifiedName, quote_identifier};
use fullbore_read::error::Result;

use super::key::Merging;
use crate::error::{failed, refuse};
use crate::target::PostgresTable;

/// Each row finds its key by the index, in the index's own order, whatever the planner thinks of the table's size. It may
/// have to wait for others' rows of the same key: that is no lock of the table.
pub const SETTINGS: &str = "SET LOCAL lock_timeout = 0; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
    SET LOCAL enable_seqscan = off; SET LOCAL random_page_cost = 1.1; SET LOCAL jit = off; ";

/// The same as they were: what is deleted is not found by the index alone.
pub const USUAL_SETTINGS: &str = "SET LOCAL enable_hashjoin TO DEFAULT; \
    SET LOCAL enable_mergejoin TO DEFAULT; SET LOCAL enable_seqscan TO DEFAULT; \
    SET LOCAL random_page_cost TO DEFAULT; SET LOCAL jit TO DEFAULT; ";

/// How the rows of one table are merged.
pub struct Statements<'a> {
    target: &'a PostgresTable,
    merging: &'a Merging,
    /// The table of the ranked rows.
    pub ranked: QualifiedName,
    staging: QualifiedName,
    /// Quoted, in the order sent.
    columns: Vec<String>,
    /// Those that an update sets.
    set: Vec<String>,
}

impl<'a> Statements<'a> {
    pub fn of(plan: &Plan, table: usize, target: &'a PostgresTable) -> Result<Option<Self>> {
        let Some(merging) = &target.merging else { return Ok(None) };
        let sent = plan.tables[table].shape.columns.iter().map(|column| column.name.as_str());
        let sent: Vec<&str> = sent.filter(|name| *name != ORDER_COLUMN).collect();
        let quoted = |name: &&str| quote_identifier(name).map_err(failed);
        // An identity column is decided once, as its row is inserted.
        let is_set = |name: &&&str| {
            let known = target.relation.columns.iter().find(|column| column.name == **name);
            !merging.asked.key.iter().any(|key| key == **name)
                && known.is_some_and(|column| !column.is_identity)
        };
        Ok(Some(Self {
            target,
            merging,
            ranked: target.ranked(plan)?,
            staging: target.staging(plan)?,
            columns: sent.iter().map(quoted).collect::<Result<_>>()?,
            set: sent.iter().filter(is_set).map(quoted).collect::<Result<_>>()?,
        }))
    }

    fn newest(&self) -> Result<Option<String>> {
        match &self.merging.asked.on_conflict {
            OnConflict::Newest(column) => quote_identifier(column).map(Some).map_err(failed),
            OnConflict::Update | OnConflict::Nothing => Ok(None),
        }
    }

    /// Ranks the rows: of each key the one that would stay if all came one by one in the order of files and lines.
    pub fn rank(&self) -> Result<String> {
        let Self { ranked, staging, .. } = self;
        let (columns, key) = (self.columns.join(", "), self.merging.list(""));
        let newest = match self.newest()? {
            Some(column) => format!("{column} DESC NULLS LAST, "),
            None => String::new(),
        };
        let direction = match self.merging.asked.on_conflict {
            OnConflict::Nothing => "ASC",
            OnConflict::Update | OnConflict::Newest(_) => "DESC",
        };
        Ok(format!(
            "CREATE UNLOGGED TABLE {ranked} AS SELECT DISTINCT ON ({key}) {columns} FROM {staging}
              ORDER BY {key}, {newest}{ORDER_COLUMN} {direction}"
        ))
    }

    /// The condition that a ranked row `s` is of a part.
    fn is_of(pages: &Range<u64>) -> String {
        let Range { start, end } = pages;
        format!(
            "s.ctid OPERATOR(pg_catalog.>=) '({start},0)'::pg_catalog.tid
             AND s.ctid OPERATOR(pg_catalog.<) '({end},0)'::pg_catalog.tid"
        )
    }

    /// The condition that a ranked row `s` takes the place of the row `t` with its key.
    fn takes_its_place(&self) -> Result<Option<String>> {
        if self.set.is_empty() || self.merging.asked.on_conflict == OnConflict::Nothing {
            return Ok(None);
        }
        let image = |row: &str| {
            let columns = self.set.iter().map(|column| format!("{row}.{column}"));
            format!("ROW({})::pg_catalog.record", columns.collect::<Vec<_>>().join(", "))
        };
        // By what is stored: 1.0 takes the place of 1.00.
        let differs = format!("{} OPERATOR(pg_catalog.*<>) {}", image("t"), image("s"));
        Ok(Some(match self.newest()? {
            None => differs,
            // Of equal ones GREATEST gives the first, and a NULL only where both are.
            Some(newest) => format!(
                "{differs} AND ROW(GREATEST(s.{newest}, t.{newest}))::pg_catalog.record
                 OPERATOR(pg_catalog.*=) ROW(s.{newest})::pg_catalog.record"
            ),
        }))
    }

    fn set(&self) -> String {
        let set = self.set.iter().map(|column| format!("{column} = s.{column}"));
        set.collect::<Vec<_>>().join(", ")
    }

    /// The columns of a ranked row.
    fn own(&self) -> String {
        let own = self.columns.iter().map(|column| format!("s.{column}"));
        own.collect::<Vec<_>>().join(", ")
    }

    /// Updates and inserts the rows of a part, in one pass, and says how many of each; none where it only inserts.
    pub fn merge(&self, pages: &Range<u64>) -> Result<Option<String>> {
        let Some(takes_its_place) = self.takes_its_place()? else { return Ok(None) };
        let of = |action: &str| {
            format!(
                "pg_catalog.count(*) FILTER (WHERE action OPERATOR(pg_catalog.=) '{action}'::pg_catalog.text)"
            )
        };
        Ok(Some(format!(
            "{OF_ROLE}WITH merged AS (
                 MERGE INTO {} AS t USING (SELECT * FROM {} AS s WHERE {}) AS s ON {}
                 WHEN MATCHED AND {takes_its_place} THEN UPDATE SET {}
                 WHEN NOT MATCHED THEN INSERT ({}) OVERRIDING SYSTEM VALUE VALUES ({})
                 RETURNING merge_action() AS action)
             SELECT {} AS inserted, {} AS updated FROM merged",
            self.target.alone(),
            self.ranked,
            Self::is_of(pages),
            self.merging.same_key("t", "s"),
            self.set(),
            self.columns.join(", "),
            self.own(),
            of("INSERT"),
            of("UPDATE"),
        )))
    }

    /// Updates the rows of the target that a part changes; none where it changes none.
    pub fn update(&self, pages: &Range<u64>) -> Result<Option<String>> {
        let Some(takes_its_place) = self.takes_its_place()? else { return Ok(None) };
        Ok(Some(format!(
            "{OF_ROLE}UPDATE {} AS t SET {} FROM {} AS s WHERE {} AND {} AND {takes_its_place}",
            self.target.alone(),
            self.set(),
            self.ranked,
            Self::is_of(pages),
            self.merging.same_key("t", "s"),
        )))
    }

    fn is_missing(&self) -> String {
        let same = self.merging.same_key("t", "s");
        format!("NOT EXISTS (SELECT FROM {} AS t WHERE {same})", self.target.alone())
    }

    /// Inserts the rows of a part whose key the target does not have.
    pub fn insert(&self, pages: &Range<u64>) -> String {
        let columns = self.columns.join(", ");
        format!(
            "{OF_ROLE}INSERT INTO {} ({columns}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS s
              WHERE {} AND {}",
            self.target.name(),
            self.own(),
            self.ranked,
            Self::is_of(pages),
            self.is_missing(),
        )
    }

    /// Counts the rows of a part; of these, once it was merged, those that the target lacks, and those that differ from
    /// its row although they should have taken its place. These two cost what merging them has cost.
    pub fn count(&self, pages: &Range<u64>, compare: bool) -> Result<String> {
        let (missing, differing) = match (compare, self.takes_its_place()?) {
            (false, _) => ("0".to_owned(), "0".to_owned()),
            (true, takes) => {
                let exists = |condition: &str| {
                    let same = self.merging.same_key("t", "s");
                    format!(
                        "EXISTS (SELECT FROM {} AS t WHERE {same}{condition})",
                        self.target.alone()
                    )
                };
                let counted =
                    |condition: String| format!("pg_catalog.count(*) FILTER (WHERE {condition})");
                let differs = takes.map(|takes| exists(&format!(" AND {takes}")));
                (counted(self.is_missing()), differs.map_or_else(|| "0".into(), counted))
            }
        };
        Ok(format!(
            "{OF_ROLE}SELECT pg_catalog.count(*) AS rows, {missing} AS missing, {differing} AS differing
               FROM {} AS s WHERE {}",
            self.ranked,
            Self::is_of(pages)
        ))
    }

    /// Deletes the rows of the target whose key no ranked row has.
    pub fn delete_missing(&self) -> String {
        let same = self.merging.same_key("t", "s");
        format!(
            "{OF_ROLE}DELETE FROM {} AS t WHERE NOT EXISTS (SELECT FROM {} AS s WHERE {same})",
            self.target.alone(),
            self.ranked
        )
    }

    /// Counts the ranked rows.
    pub fn count_all(&self) -> String {
        format!("SELECT pg_catalog.count(*) AS rows FROM {}", self.ranked)
    }

    /// Refuses to delete what is missing where that can't be meant.
    pub fn check_delete(&self, rows: u64, rejected: u64) -> Result<()> {
        let name = self.target.name();
        if rows == 0 {
            return Err(refuse(
                format!("the sources have no row: --delete-missing would empty {name}"),
                "omit --delete-missing, or TRUNCATE the table",
            ));
        }
        if rejected > 0 {
            return Err(refuse(
                format!(
                    "{rejected} rows were rejected: --delete-missing would delete those of {name} with \
                     their keys"
                ),
                "mend the rows and load again, or omit --delete-missing",
            ));
        }
        Ok(())
    }
}
