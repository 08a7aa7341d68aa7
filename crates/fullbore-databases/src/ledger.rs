//! What a database keeps of the runs that load into it: two tables of its own, written in the transactions that
//! write the rows.

use fullbore_load::plan::recorded::{Recorded, RecordedFile, RecordedTable};
use fullbore_load::plan::{Plan, PlannedPiece};
use fullbore_load::run_id::RunId;
use fullbore_load::sink::{Committed, Portion};
use fullbore_load::sums::Sums;
use fullbore_pgwire::QualifiedName;
use fullbore_read::FileRange;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::{Publish, Stage};
use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::dialect::{Dialect, literal};
use crate::error::cannot;
use crate::link::{Link, Row};
use crate::table::{Table, stage_of};

/// The tables of the ledger, that of the runs last: where it is, the other one is. `text`: a type for texts of any length.
fn tables_made(text: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE IF NOT EXISTS fullbore_pieces (
                 run VARCHAR(64) NOT NULL, piece BIGINT NOT NULL, target BIGINT NOT NULL,
                 n_rows BIGINT NOT NULL, details {text} NOT NULL, PRIMARY KEY (run, piece))"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS fullbore_runs (
                 run VARCHAR(64) NOT NULL PRIMARY KEY, job VARCHAR(64) NOT NULL,
                 state VARCHAR(16) NOT NULL, started VARCHAR(32) NOT NULL, tables {text} NOT NULL,
                 pieces {text} NOT NULL, n_rows BIGINT NOT NULL, rejected BIGINT NOT NULL,
                 bytes BIGINT NOT NULL)"
        ),
    ]
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Loading,
    Finished,
}

/// What is kept of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptTable {
    /// Quoted.
    pub target: String,
    pub publish: Publish,
    pub atomic: bool,
    /// Names and types of its columns.
    shape: String,
    /// What the table held before the run, where rows go into it as they come.
    before: Option<Sums>,
    #[serde(flatten)]
    plan: RecordedTable,
}

impl KeptTable {
    /// Whether its rows are shown as each piece is committed.
    pub fn is_piecewise(&self) -> bool {
        self.publish.stage(self.atomic) == Stage::Target
    }

    /// The files that it was loaded from.
    pub fn files(&self) -> &[RecordedFile] {
        &self.plan.files
    }
}

/// A run that the database knows.
#[derive(Debug, Clone)]
pub struct KeptRun {
    pub run_id: String,
    pub job: String,
    pub state: State,
    /// As `2026-11-28 12:00:00`, in UTC.
    pub started: String,
    pub tables: Vec<KeptTable>,
    pieces: Vec<PlannedPiece>,
    pub rows: u64,
    pub rejected: u64,
    pub bytes: u64,
    pub pieces_committed: u64,
}

impl KeptRun {
    /// What is needed of it to go on.
    pub fn recorded(&self) -> Recorded {
        Recorded {
            run_id: self.run_id.clone(),
            tables: self.tables.iter().map(|table| table.plan.clone()).collect(),
            pieces: self.pieces.clone(),
            is_shown: self.state == State::Finished,
        }
    }

    /// How one of its tables differs from what it was.
    pub fn target_change(&self, number: usize, now: &Table) -> Option<String> {
        let then = self.tables.get(number)?;
        if now.create.is_some() {
            return Some(format!("{} no longer exists", then.target));
        }
        (then.shape != now.shape())
            .then(|| format!("{} had columns {}, now {}", then.target, then.shape, now.shape()))
    }
}

/// What is kept of a piece besides its numbers.
#[derive(Serialize, Deserialize)]
struct KeptPortion {
    rejected: u64,
    bytes: u64,
    ranges: Vec<FileRange>,
    checksum: Option<u64>,
    sums: Option<Sums>,
}

fn json(value: &impl Serialize) -> Result<String> {
    literal(&serde_json::to_string(value).expect("plain data becomes JSON"))
}

fn unreadable(what: &str) -> Error {
    Error::Destination {
        message: format!("the ledger of the database (fullbore_runs, fullbore_pieces) has {what}"),
        hint: Some(
            "it was changed outside Fullbore; drop both tables to load from the beginning".into(),
        ),
        kind: DestinationFailure::Other,
    }
}

fn text(row: &Row, at: usize) -> Result<&str> {
    row.get(at).and_then(Option::as_deref).ok_or_else(|| unreadable("a row that is too short"))
}

fn number(row: &Row, at: usize) -> Result<u64> {
    text(row, at)?.parse().map_err(|_| unreadable("a number that is none"))
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable(&format!("unreadable JSON: {error}")))
}

impl Database {
    /// Whether runs are kept in it at all.
    pub fn keeps_ledger(&self) -> bool {
        self.dialect().keeps_ledger()
    }

    /// The runs that it knows, the newest first; of a job, or all. Of those that began in one second, one that is still
    /// loading is the newest.
    pub fn runs(&self, job: Option<&str>) -> Result<Vec<KeptRun>> {
        let mut link = self.control();
        let is_there = self.has(link.as_mut(), &runs_table()?);
        link.rollback()?;
        if !is_there? {
            return Ok(Vec::new());
        }
        let which = match job {
            Some(job) => format!("WHERE r.job = {}", literal(job)?),
            None => String::new(),
        };
        let rows = link.ask(&format!(
            "SELECT r.run, r.job, r.state, r.started, r.tables, r.pieces,
                    r.n_rows + coalesce(p.n_rows, 0), r.rejected, r.bytes, coalesce(p.pieces, 0)
               FROM fullbore_runs r
               LEFT JOIN (SELECT run, sum(n_rows) AS n_rows, count(*) AS pieces
                            FROM fullbore_pieces GROUP BY run) p ON p.run = r.run
               {which} ORDER BY r.started DESC, r.state DESC, r.run DESC"
        ))?;
        rows.iter().map(run).collect()
    }
}

fn run(row: &Row) -> Result<KeptRun> {
    // It names a folder of this machine.
    let run_id = RunId::parse(text(row, 0)?).ok_or_else(|| unreadable("a run whose id is none"))?;
    Ok(KeptRun {
        run_id: run_id.into(),
        job: text(row, 1)?.to_owned(),
        state: match text(row, 2)? {
            "finished" => State::Finished,
            "loading" => State::Loading,
            other => return Err(unreadable(&format!("a run in state {other:?}"))),
        },
        started: text(row, 3)?.to_owned(),
        tables: parsed(text(row, 4)?)?,
        pieces: parsed(text(row, 5)?)?,
        rows: number(row, 6)?,
        rejected: number(row, 7)?,
        bytes: number(row, 8)?,
        pieces_committed: number(row, 9)?,
    })
}

/// The table of runs.
pub fn runs_table() -> Result<QualifiedName> {
    QualifiedName::new(None, "fullbore_runs").map_err(|e| Error::usage(e.to_string()))
}

/// Begins a run, in the transaction that makes what it needs.
pub fn begin(
    link: &mut dyn Link,
    plan: &Plan,
    job: &str,
    tables: &[Table],
    before: &[Option<Sums>],
    dialect: &dyn Dialect,
) -> Result<()> {
    tables_made(dialect.text()).iter().try_for_each(|sql| link.execute(sql))?;
    let kept = plan.tables.iter().zip(tables.iter().zip(before));
    let kept: Vec<KeptTable> = kept
        .map(|(plan, (table, before))| KeptTable {
            target: table.name.to_string(),
            publish: table.publish,
            atomic: table.atomic,
            shape: table.shape(),
            before: before.clone(),
            plan: RecordedTable::of(plan),
        })
        .collect();
    link.execute(&format!(
        "INSERT INTO fullbore_runs
         VALUES ({}, {}, 'loading', substr(CAST(CURRENT_TIMESTAMP AS CHAR(26)), 1, 19), {}, {}, 0, 0, 0)",
        literal(&plan.run_id)?,
        literal(job)?,
        json(&kept)?,
        json(&plan.pieces)?,
    ))
}

/// Notes a piece, in the transaction that has its rows.
pub fn note(
    link: &mut dyn Link,
    run_id: &str,
    piece: &PlannedPiece,
    rows: u64,
    portion: &Portion,
) -> Result<()> {
    let kept = KeptPortion {
        rejected: portion.rejected,
        bytes: portion.bytes,
        ranges: portion.ranges.clone(),
        checksum: portion.checksum,
        sums: portion.sums.clone(),
    };
    link.execute(&format!(
        "INSERT INTO fullbore_pieces VALUES ({}, {}, {}, {rows}, {})",
        literal(run_id)?,
        piece.number,
        piece.table,
        json(&kept)?
    ))
}

/// Where a run stands, and the pieces of it that are committed.
pub fn standing(link: &mut dyn Link, run_id: &str) -> Result<Option<(State, Vec<Committed>)>> {
    let run = literal(run_id)?;
    let found = link.query(&format!("SELECT state FROM fullbore_runs WHERE run = {run}"))?;
    let Some(row) = found.first() else { return Ok(None) };
    let state = if text(row, 0)? == "finished" { State::Finished } else { State::Loading };
    let rows = link.query(&format!(
        "SELECT piece, target, n_rows, details FROM fullbore_pieces WHERE run = {run} ORDER BY piece"
    ))?;
    let pieces = rows.iter().map(|row| {
        let kept: KeptPortion = parsed(text(row, 3)?)?;
        Ok(Committed {
            piece: number(row, 0)? as usize,
            table: number(row, 1)? as usize,
            rows: number(row, 2)?,
            portion: Portion {
                rejected: kept.rejected,
                bytes: kept.bytes,
                ranges: kept.ranges,
                checksum: kept.checksum,
                sums: kept.sums,
                ..Portion::default()
            },
        })
    });
    Ok(Some((state, pieces.collect::<Result<_>>()?)))
}

/// What the tables of a run held before it.
pub fn before(link: &mut dyn Link, run_id: &str) -> Result<Vec<Option<Sums>>> {
    let sql = format!("SELECT tables FROM fullbore_runs WHERE run = {}", literal(run_id)?);
    let rows = link.query(&sql)?;
    let row = rows.first().ok_or_else(|| unreadable(&format!("no run {run_id} any more")))?;
    let tables: Vec<KeptTable> = parsed(text(row, 0)?)?;
    Ok(tables.into_iter().map(|table| table.before).collect())
}

/// Ends a run, in the transaction that shows its rows. Its pieces are needed no more.
pub fn finish(link: &mut dyn Link, run_id: &str, committed: &[Committed]) -> Result<()> {
    let total = |of: &dyn Fn(&Committed) -> u64| committed.iter().map(of).sum::<u64>();
    let run = literal(run_id)?;
    link.execute(&format!(
        "UPDATE fullbore_runs SET state = 'finished', n_rows = {}, rejected = {}, bytes = {}
          WHERE run = {run}",
        total(&|piece| piece.rows),
        total(&|piece| piece.portion.rejected),
        total(&|piece| piece.portion.bytes),
    ))?;
    link.execute(&format!("DELETE FROM fullbore_pieces WHERE run = {run}"))
}

/// Takes back a run that has not finished, by what is kept of it: its staged rows go, those that are shown stay. How
/// many stay.
pub fn take_back(database: &Database, run: &KeptRun) -> Result<u64> {
    database.transaction(|link| {
        let (_, committed) = standing(link, &run.run_id)?.unwrap_or((run.state, Vec::new()));
        let (mut shown, mut staged) = (0, Vec::new());
        for (number, table) in run.tables.iter().enumerate() {
            if table.is_piecewise() {
                let its = committed.iter().filter(|piece| piece.table == number);
                shown += its.map(|piece| piece.rows).sum::<u64>();
                continue;
            }
            let target = QualifiedName::parse(&table.target)
                .map_err(|_| unreadable("a table whose name is none"))?;
            let stage = stage_of(&target, &run.run_id)?;
            staged.push((target, stage));
        }
        take_away(link, database.dialect(), &run.run_id, &staged, true)?;
        Ok(shown)
    })
}

/// Takes away what a run has staged, each with its target, and puts tables back that it had taken the place of; refuses
/// before any where one can only be gone on with. `is_kept`: there is a ledger that knows of the run.
pub fn take_away(
    link: &mut dyn Link,
    dialect: &dyn Dialect,
    run_id: &str,
    staged: &[(QualifiedName, QualifiedName)],
    is_kept: bool,
) -> Result<()> {
    staged.iter().try_for_each(|(_, stage)| dialect.check_over(link, stage))?;
    staged.iter().try_for_each(|(table, stage)| dialect.hide(link, table, stage))?;
    // Before its tables: a run without them must not seem to be one that is shown.
    if is_kept {
        forget(link, run_id)?;
    }
    for (_, stage) in staged {
        dialect.tidy(link, stage)?;
        link.execute(&format!("DROP TABLE IF EXISTS {stage}"))?;
    }
    Ok(())
}

/// Whether a run has not finished; from here on nobody else ends it before the transaction that is open does.
pub fn hold(link: &mut dyn Link, run_id: &str, dialect: &dyn Dialect) -> Result<bool> {
    let rows = link.query(&format!(
        "SELECT state FROM fullbore_runs WHERE run = {}{}",
        literal(run_id)?,
        dialect.for_update()
    ))?;
    match rows.first() {
        Some(row) => Ok(text(row, 0)? != "finished"),
        None => Err(cannot(
            format!("run {run_id} is not in the database's ledger any more"),
            "load again",
        )),
    }
}

/// Takes a run away.
pub fn forget(link: &mut dyn Link, run_id: &str) -> Result<()> {
    let run = literal(run_id)?;
    link.execute(&format!("DELETE FROM fullbore_pieces WHERE run = {run}"))?;
    link.execute(&format!("DELETE FROM fullbore_runs WHERE run = {run}"))
}
