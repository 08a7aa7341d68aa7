//! What the ledger keeps of a run, as data.

use fullbore_core::error::Result;
use fullbore_core::job::Publish;
use fullbore_core::plan::PlannedPiece;
use fullbore_core::plan::recorded::{Recorded, RecordedTable};
use serde::{Deserialize, Serialize};

use super::shown::Shown;
use crate::catalog::Relation;
use crate::connection::Row;
use crate::error::refuse;
use crate::publish::replace::Baseline;
use crate::reading::Reading;
use crate::target::Target;

/// What the ledger keeps of a table: enough to publish it and to take it back without its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerTable {
    /// With its schema, quoted.
    pub target: String,
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
    /// Where the table that was replaced is kept, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// What a table that is to be replaced was as the run began. Runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// The settings by which the server reads text. Runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Reading>,
    /// The table that has the rows, once they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    #[serde(flatten)]
    pub plan: RecordedTable,
}

impl LedgerTable {
    pub(super) fn of(
        target: &Target,
        relation: &Relation,
        run_id: &str,
        settings: Reading,
        plan: RecordedTable,
    ) -> Result<Self> {
        Ok(Self {
            target: relation.name.to_string(),
            publish: target.publish,
            atomic: target.atomic,
            creates: target.create.is_some(),
            oid: relation.oid,
            shape: shape(relation),
            signature: Some(relation.signature.clone()),
            is_unlogged: target.fills_unlogged(),
            kept: target.kept(run_id)?.map(|kept| kept.to_string()),
            baseline: None,
            settings: Some(settings),
            shown: None,
            plan,
        })
    }

    /// How a target, as it is now, differs from the one that was recorded.
    pub fn target_change(&self, now: &Target) -> Option<String> {
        // Whether a crash of the server took the rows is told from how they were written.
        let is_moved = now.create.is_none() && now.fills_unlogged() != self.is_unlogged;
        let moved = is_moved.then(|| {
            let is = if self.is_unlogged { "LOGGED" } else { "UNLOGGED" };
            format!("{} was set {is}", self.target)
        });
        self.table_change(now).or(moved)
    }

    /// How the table itself differs, whatever is done with it.
    pub fn table_change(&self, now: &Target) -> Option<String> {
        if now.create.is_some() {
            return Some(format!("{} is gone", self.target));
        }
        if now.relation.oid != self.oid {
            return Some(format!("{} was dropped and created again", self.target));
        }
        let known = self.signature.as_ref();
        let is_other = known.is_some_and(|known| *known != now.relation.signature);
        // A signature tells persistence too, for which there is a better word.
        let is_set = is_other && now.fills_unlogged() != self.is_unlogged;
        if shape(&now.relation) != self.shape || is_other && !is_set {
            return Some(format!("the columns of {} are no longer the same", self.target));
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
    pub run_id: String,
    pub job: String,
    pub state: State,
    pub tables: Vec<LedgerTable>,
    pub pieces: Vec<PlannedPiece>,
    pub host: String,
    pub started: String,
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
    /// It is being taken back.
    Aborting,
    /// It had finished, and was taken back.
    Undone,
}

impl State {
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
            run_id: self.run_id.clone(),
            tables: self.tables.iter().map(|table| table.plan.clone()).collect(),
            pieces: self.pieces.clone(),
        }
    }
}

/// A run out of its row.
pub(super) fn read(row: &Row) -> Result<LedgerRun> {
    let text = |name: &str| row.get(name).unwrap_or_default().to_owned();
    let number = |name: &str| row.get(name).and_then(|n| n.parse().ok()).unwrap_or(0);
    let run_id = text("run");
    let damaged = |what: &str| {
        refuse(
            format!("the ledger's row of run {run_id} has {what} that can't be read"),
            "it was made by another version of Fullbore; go on with that one",
        )
    };
    Ok(LedgerRun {
        job: text("job"),
        state: State::of(&text("state")).ok_or_else(|| damaged("a state"))?,
        tables: serde_json::from_str(&text("tables")).map_err(|_| damaged("tables"))?,
        pieces: serde_json::from_str(&text("pieces")).map_err(|_| damaged("pieces"))?,
        host: text("host"),
        started: text("started"),
        pieces_committed: number("pieces_committed"),
        rows_committed: number("rows_committed"),
        bytes_committed: number("bytes_committed"),
        rejected: number("rejected"),
        run_id,
    })
}
