//! What the ledger keeps of a run, as data.

use fullbore_load::plan::PlannedPiece;
use fullbore_load::plan::recorded::{Recorded, RecordedTable};
use fullbore_load::run_id::RunId;
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::Result;
use fullbore_record::terms::{Publish, Stage};
use serde::{Deserialize, Serialize};

use super::read::{LedgerRow, Role, Told, table_name};
use crate::catalog::Relation;
use crate::error::{failed, refuse};
use crate::naming::kept;
use crate::publish::replace::kept::Baseline;
use crate::session_settings::SessionSettings;
use crate::target::PostgresTable;
use crate::verify::size::Extent;

/// What is kept of a table as its rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The table: of one that was replaced, the new one.
    pub oid: u32,
    /// All transactions before this one had ended, but for the one that shows the rows.
    pub ended_before: u64,
}

/// What the ledger keeps of a table: enough to publish it and to roll it back without its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerTable {
    #[serde(with = "table_name")]
    pub target: QualifiedName,
    pub publish: Publish,
    pub atomic: bool,
    /// The run makes the target.
    pub creates: bool,
    /// The target's object id and columns, by which a change of it is known.
    pub oid: u32,
    pub shape: String,
    /// What else of it must not change ([`crate::catalog::SIGNATURE`]); runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Where rows go is emptied by a crash of the server.
    pub is_unlogged: bool,
    /// Where the table that was replaced is kept, if it is: where [`kept`] has it, or it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// What a table that is to be replaced was as the run began. Runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// How large a table was that pieces are appended to, as the run began. Runs of older versions have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<Extent>>,
    /// The settings by which the server reads text. Runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SessionSettings>,
    /// The table that has the rows, once they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    #[serde(flatten)]
    pub plan: RecordedTable,
}

impl LedgerTable {
    /// Where its rows are until they are published.
    pub fn stage(&self) -> Stage {
        self.publish.stage(self.atomic)
    }

    /// Whether its rows are visible as each piece is committed.
    pub fn is_piecewise(&self) -> bool {
        self.stage() == Stage::Target
    }

    pub(super) fn of(
        target: &PostgresTable,
        relation: &Relation,
        run_id: &str,
        settings: SessionSettings,
        plan: RecordedTable,
    ) -> Result<Self> {
        Ok(Self {
            target: relation.name.clone(),
            publish: target.publish,
            atomic: target.atomic,
            creates: target.create.is_some(),
            oid: relation.oid,
            shape: shape(relation),
            signature: Some(relation.signature.clone()),
            is_unlogged: target.fills_unlogged(),
            kept: target.kept(run_id)?.map(|kept| kept.to_string()),
            baseline: None,
            before: None,
            settings: Some(settings),
            shown: None,
            plan,
        })
    }

    /// Where the table that the run replaced is kept, if it is.
    pub fn kept_in(&self, run_id: &RunId) -> Result<Option<QualifiedName>> {
        let Some(told) = &self.kept else { return Ok(None) };
        let expected = kept(&self.target, run_id).map_err(failed)?;
        if expected.to_string() == *told {
            return Ok(Some(expected));
        }
        Err(refuse(
            format!(
                "the ledger records another place for the table {} replaced by run {run_id}",
                self.target
            ),
            "the ledger was changed outside Fullbore",
        ))
    }

    /// How a target, as it is now, differs from the one that was recorded.
    pub fn target_change(&self, now: &PostgresTable) -> Option<String> {
        // Whether a crash of the server took the rows is told from how they were written.
        let is_moved = now.create.is_none() && now.fills_unlogged() != self.is_unlogged;
        let moved = is_moved.then(|| {
            let is = if self.is_unlogged { "LOGGED" } else { "UNLOGGED" };
            format!("{} was set {is}", self.target)
        });
        self.table_change(now).or(moved)
    }

    /// How the table itself differs, whatever is done with it.
    pub fn table_change(&self, now: &PostgresTable) -> Option<String> {
        if now.create.is_some() {
            return Some(format!("{} no longer exists", self.target));
        }
        if now.relation.oid != self.oid {
            return Some(format!("{} was dropped and created again", self.target));
        }
        let known = self.signature.as_ref();
        let is_other = known.is_some_and(|known| *known != now.relation.signature);
        // A signature tells persistence too, for which there is a better word.
        let is_set = is_other && now.fills_unlogged() != self.is_unlogged;
        if shape(&now.relation) != self.shape || is_other && !is_set {
            return Some(format!("the columns of {} have changed", self.target));
        }
        None
    }
}

/// A table's columns and key, in words that differ where they do.
fn shape(relation: &Relation) -> String {
    let columns: Vec<String> = relation
        .columns
        .iter()
        .map(|column| {
            let null = if column.is_not_null { " not null" } else { "" };
            let generated = if column.is_generated { " generated" } else { "" };
            format!("{} {}{null}{generated}", column.name, column.type_name)
        })
        .collect();
    format!("{} {:?} ({})", relation.kind, relation.partition_key, columns.join(", "))
}

/// A run as the ledger has it.
#[derive(Debug, Clone)]
pub struct LedgerRun {
    pub run_id: RunId,
    /// The hash of its job.
    pub job: String,
    pub state: State,
    pub tables: Vec<LedgerTable>,
    pub pieces: Vec<PlannedPiece>,
    /// The role that began it.
    pub role: Role,
    pub host: Told,
    pub started: Told,
    pub pieces_committed: u64,
    pub rows_committed: u64,
    pub bytes_committed: u64,
    pub rejected: u64,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its tables are being made; no row is loaded.
    Preparing,
    Loading,
    /// Its rows are shown; statistics are still to be gathered.
    Published,
    Finished,
    /// It is being rolled back.
    Aborting,
    /// It had finished, and was rolled back.
    Undone,
}

impl State {
    /// Nothing of the run is loaded or published any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Published | Self::Finished | Self::Undone)
    }

    pub(super) fn of(text: &str) -> Option<Self> {
        Some(match text {
            "preparing" => Self::Preparing,
            "loading" => Self::Loading,
            "published" => Self::Published,
            "finished" => Self::Finished,
            "aborting" => Self::Aborting,
            "undone" => Self::Undone,
            _ => return None,
        })
    }

    /// Whether its rows are shown.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Published | Self::Finished)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Loading => "loading",
            Self::Published => "published",
            Self::Finished => "finished",
            Self::Aborting => "aborting",
            Self::Undone => "undone",
        }
    }

    /// Whether there is something left to do for it.
    pub fn is_unfinished(self) -> bool {
        !matches!(self, Self::Finished | Self::Undone)
    }
}

impl LedgerRun {
    /// What its plan is made from again.
    pub fn recorded(&self) -> Recorded {
        Recorded {
            run_id: self.run_id.to_string(),
            tables: self.tables.iter().map(|table| table.plan.clone()).collect(),
            pieces: self.pieces.clone(),
            is_shown: self.state.is_shown(),
        }
    }
}

/// A run out of its row.
pub(super) fn read(row: &LedgerRow) -> Result<LedgerRun> {
    Ok(LedgerRun {
        run_id: row.run_id("run")?,
        job: row.hash("job")?,
        state: row.state("state")?,
        tables: row.json("tables")?,
        pieces: row.json("pieces")?,
        role: row.role("role")?,
        host: row.told("host"),
        started: row.told("started"),
        pieces_committed: row.number("pieces_committed")?,
        rows_committed: row.number("rows_committed")?,
        bytes_committed: row.number("bytes_committed")?,
        rejected: row.number("rejected")?,
    })
}

#[cfg(test)]
mod tests {
    use fullbore_load::plan::KeyEnd;

    use super::*;

    const RUN: &str = "6b01b99c8df6";
    const TABLES: &str = r#"[{"target":"\"public\".\"t\"","publish":"partitions","atomic":false,
        "creates":false,"oid":16385,"shape":"p","is_unlogged":false,"name":"t","method":"copy",
        "files":[],"reading":"csv"}]"#;
    const PIECES: &str = r#"[{"number":0,"table":0,"input":{"ranges":[]},"bytes":1,"bounds":
        {"lower":"'0'::bigint","upper":"MAXVALUE","keys":{"column":0,"lower":"0","upper":null},
         "replaces":"\"public\".\"t_0\""}}]"#;

    /// A run's row with one column changed.
    fn row(column: &str, value: &str) -> LedgerRow {
        let columns = [
            ("run", RUN),
            ("job", "00ff"),
            ("state", "loading"),
            ("tables", TABLES),
            ("pieces", PIECES),
            ("role", "loader"),
            ("host", "here"),
            ("started", "now"),
            ("pieces_committed", "1"),
            ("rows_committed", "2"),
            ("bytes_committed", "3"),
            ("rejected", "0"),
        ];
        let changed = columns.map(|(name, was)| (name, if name == column { value } else { was }));
        LedgerRow::of_test(&changed.map(|(name, value)| (name, Some(value))))
    }

    #[test]
    fn a_row_of_the_first_version_is_read() {
        let run = read(&row("", "")).expect("read");
        assert_eq!(run.tables[0].target.to_string(), "\"public\".\"t\"");
        let bounds = run.pieces[0].bounds.as_ref().expect("bounds");
        assert_eq!((&bounds.lower, &bounds.upper), (&KeyEnd::Value("0".into()), &KeyEnd::Max));
    }

    #[test]
    fn rows_that_hold_something_else_than_fullbore_writes_are_refused() {
        let tables = |target: &str| TABLES.replace(r#"\"public\".\"t\""#, target);
        let pieces = |lower: &str| PIECES.replace("'0'::bigint", lower);
        let hostile = [
            ("run", "x_(new|[0-9]+)$|^pg_".to_owned()),
            ("run", "../../../root/.ssh".to_owned()),
            ("run", "6b01b99c8df6'; SELECT pwn() --".to_owned()),
            ("job", "'; SELECT pwn(); --".to_owned()),
            ("state", "owned".to_owned()),
            ("tables", tables("t; SELECT pwn()")),
            ("tables", tables("t")),
            ("tables", tables(r#"public.t"#)),
            ("tables", tables(r#"\"a\".\"b\".\"c\""#)),
            ("tables", tables(r#"\"public\".\"t\" CASCADE"#)),
            ("pieces", pieces("'0'::bigint) TO (MAXVALUE); SELECT pwn(); --")),
            ("pieces", pieces("(SELECT pwn())")),
            ("pieces", pieces("pwn()")),
            ("pieces", PIECES.replace("\"number\":0", "\"number\":\"0; SELECT pwn()\"")),
            ("rows_committed", "2; SELECT pwn()".to_owned()),
            ("role", String::new()),
        ];
        for (column, value) in hostile {
            let error = read(&row(column, &value)).expect_err(&value);
            let named = format!("an unreadable value in {column}");
            assert!(error.to_string().contains(&named), "{error}");
        }
    }

    #[test]
    fn a_table_is_kept_where_its_run_keeps_it_or_nowhere() {
        let kept = |told: &str| {
            let tables = TABLES.replace("\"oid\"", &format!("\"kept\":{told:?},\"oid\""));
            let run = read(&row("tables", &tables)).expect("read");
            run.tables[0].kept_in(&run.run_id)
        };
        let told = format!("\"fullbore_old_{RUN}\".\"t\"");
        assert_eq!(kept(&told).expect("kept").expect("a name").to_string(), told);
        for other in ["\"public\".\"other\"", "t; SELECT pwn()", "\"fullbore_old_x\".\"t\""] {
            assert!(kept(other).is_err(), "{other}");
        }
    }
}
