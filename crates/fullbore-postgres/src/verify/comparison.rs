//! What is compared in one go: the rows of one or more pieces, and where they are to be found.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fullbore_load::sums::Sums;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;

use super::hash::HashKind;
use super::sql::{Detail, Formula, summed_columns};
use super::state::PieceProof;
use crate::catalog;
use crate::error::{failed, failed_while, refuse};
use crate::ledger::locks;
use crate::postgres::Postgres;
use crate::workers::side_by_side;

/// Pages that are worth a query of their own.
const PAGES_MIN: u64 = 4096;

/// Which rows of a table are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    All,
    /// Those that these transactions wrote.
    OfTransactions(Vec<u32>),
}

/// Some pieces and the table that holds their rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The table of the run, by its number.
    pub table: usize,
    pub holder: QualifiedName,
    pub rows: Rows,
    pub pieces: Vec<(usize, PieceProof)>,
    /// Whether rows tell which piece they are of, by the transaction that wrote them.
    pub tells_pieces: bool,
}

/// How a part's sums are asked for.
pub struct Asked {
    pub formula: Formula,
    pub names: Vec<String>,
    froms: Vec<String>,
    part: Option<&'static str>,
}

impl Comparison {
    /// The sums that its rows must have.
    pub fn expected(&self) -> Sums {
        let mut expected = Sums::default();
        self.pieces.iter().for_each(|(_, proof)| expected.merge(&proof.sums));
        for removed in self.pieces.iter().filter_map(|(_, proof)| proof.removed.as_ref()) {
            expected.take_out(removed);
        }
        expected
    }

    /// The same, as if no row had been taken out.
    pub fn with_removed(&self) -> Self {
        let mut part = self.clone();
        part.pieces.iter_mut().for_each(|(_, proof)| proof.removed = None);
        part
    }

    /// The piece whose rows a transaction wrote.
    pub fn piece_of(&self, transaction: &str) -> Option<usize> {
        if let ([(piece, _)], false) = (self.pieces.as_slice(), self.tells_pieces) {
            return Some(*piece);
        }
        let xid = transaction.parse().ok()?;
        let found = self.pieces.iter().find(|(_, proof)| proof.xids.contains(&xid));
        found.map(|(piece, _)| *piece)
    }

    /// Finds out how to ask; in `chunks` queries where the table is large.
    pub fn asked(&self, session: &mut Session, chunks: u64) -> Result<Asked> {
        let holder = &self.holder;
        let relation = catalog::relation(session, holder).map_err(failed)?.ok_or_else(|| {
            refuse(
                format!("{holder} no longer exists; it held rows of the run"),
                "somebody dropped it",
            )
        })?;
        let (kind, names) = self.made_by()?;
        let columns = summed_columns(&relation, &names)?;
        let formula = Formula::of(session, kind, &holder.to_string(), &columns)?;
        let mut conditions = Vec::new();
        if let Rows::OfTransactions(xids) = &self.rows {
            let list: Vec<String> = xids.iter().map(u32::to_string).collect();
            conditions.push(format!("xmin = ANY ('{{{}}}'::xid[])", list.join(",")));
        }
        let mut froms = Vec::new();
        for range in page_ranges(session, &relation, chunks)? {
            let all: Vec<String> = conditions.iter().cloned().chain(range).collect();
            let condition = match all.is_empty() {
                true => String::new(),
                false => format!(" WHERE {}", all.join(" AND ")),
            };
            froms.push(format!("{holder}{condition}"));
        }
        let part = self.tells_pieces.then_some("xmin");
        Ok(Asked { formula, names, froms, part })
    }

    /// The hash and the columns of its pieces, which must be the same for all.
    fn made_by(&self) -> Result<(HashKind, Vec<String>)> {
        let (_, first) = self.pieces.first().expect("a part has pieces");
        let is_one = |(_, proof): &(usize, PieceProof)| {
            (proof.hash, &proof.columns) == (first.hash, &first.columns)
        };
        if !self.pieces.iter().all(is_one) {
            return Err(refuse(
                format!("the pieces of {} were summed in several ways", self.holder),
                "compare with the files: --against",
            ));
        }
        Ok((first.hash, first.columns.clone()))
    }
}

/// Conditions that cut a plain table into stretches of pages; one without where it is small.
fn page_ranges(
    session: &mut Session,
    relation: &catalog::Relation,
    chunks: u64,
) -> Result<Vec<Option<String>>> {
    if relation.kind != 'r' || chunks < 2 {
        return Ok(vec![None]);
    }
    let rows = session
        .query(&format!(
            "SELECT pg_relation_size({}) / current_setting('block_size')::bigint AS pages",
            relation.oid
        ))
        .map_err(failed)?;
    let pages = rows.first().and_then(|row| row.get("pages")).and_then(|n| n.parse::<u64>().ok());
    let pages = pages.unwrap_or(0);
    let pages_each = (pages / chunks + 1).max(PAGES_MIN);
    if pages < 2 * pages_each {
        return Ok(vec![None]);
    }
    let starts: Vec<u64> = (0..pages).step_by(pages_each as usize).collect();
    Ok(starts
        .iter()
        .enumerate()
        .map(|(at, start)| {
            // The last one has no end: the table may grow.
            let end = starts.get(at + 1).map(|end| format!(" AND ctid < '({end},0)'::tid"));
            Some(format!("ctid >= '({start},0)'::tid{}", end.unwrap_or_default()))
        })
        .collect())
}

/// A session for long queries over many columns: compiling them would take longer than most of them.
fn session_for_sums(postgres: &Postgres) -> Result<Session> {
    let mut session = postgres.session()?;
    locks::settle(&mut session, None).map_err(failed)?;
    session.execute("SET jit = off").map_err(failed)?;
    Ok(session)
}

/// What the server holds of each part, by the transactions that wrote it.
pub type Found = BTreeMap<String, Sums>;

/// Asks for the sums of a part in a session whose transaction alone sees its rows.
pub fn ask_within(session: &mut Session, part: &Comparison) -> Result<(Asked, Found)> {
    let asked = part.asked(session, 1)?;
    let mut found = Found::new();
    for from in &asked.froms {
        let sums = asked
            .formula
            .ask(session, from, asked.part, Detail::Everything)
            .map_err(|error| failed_while(error, &format!("summing {}", part.holder)))?;
        for (transaction, sums) in sums {
            found.entry(transaction).or_default().merge(&sums);
        }
    }
    Ok((asked, found))
}

/// Asks for the sums of all parts, over several sessions.
pub fn ask(
    postgres: &Postgres,
    sessions: usize,
    parts: &[Comparison],
    detail: Detail,
) -> Result<Vec<(Asked, Found)>> {
    let mut asked = Vec::new();
    {
        let mut session = session_for_sums(postgres)?;
        for part in parts {
            asked.push(part.asked(&mut session, 2 * sessions as u64)?);
        }
    }
    let queries: Vec<(usize, &str)> = asked
        .iter()
        .enumerate()
        .flat_map(|(at, asked)| asked.froms.iter().map(move |from| (at, from.as_str())))
        .collect();
    let workers = sessions.min(queries.len());
    let queries = Mutex::new(queries.into_iter());
    let found = Mutex::new(vec![Found::new(); parts.len()]);
    side_by_side(workers, |_, has_failed| {
        let mut session = None;
        loop {
            let next = queries.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
            let Some((at, from)) = next else { return Ok(()) };
            if has_failed() {
                return Ok(());
            }
            let session = match &mut session {
                Some(session) => session,
                None => session.insert(session_for_sums(postgres)?),
            };
            let sums = asked[at]
                .formula
                .ask(session, from, asked[at].part, detail)
                .map_err(|error| failed_while(error, &format!("summing {}", parts[at].holder)))?;
            let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for (transaction, sums) in sums {
                found[at].entry(transaction).or_default().merge(&sums);
            }
        }
    })?;
    let found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(asked.into_iter().zip(found).collect())
}
