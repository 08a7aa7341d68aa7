//! Sends rows as text with one of the server-side checks, and records the accepted ones.

use fullbore_load::sink::{Portion, Refusal, TextRows};
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::Verify;

use super::PostgresWriter;
use super::routed::Routed;
use crate::error::failed;
use crate::fallback::server_check;
use crate::verify::beside::Beside;
use crate::verify::state::PieceProof;
use crate::verify::{self, store};

/// How rows are sent as text: how many were taken, and those that were refused.
type SendText = fn(
    &mut Session,
    &server_check::JudgeTarget<'_>,
    TextRows<'_>,
) -> std::result::Result<(u64, Vec<Refusal>), ConnectionError>;

impl PostgresWriter<'_> {
    /// Sends rows as text, by a direct load or as it is said; those that were refused come back.
    fn send_text(&mut self, rows: TextRows<'_>, send: SendText) -> Result<Vec<Refusal>> {
        let work = self.work.as_mut().expect("a piece was begun");
        let leaves = work.routed.as_mut().and_then(Routed::direct);
        let held = leaves
            .map(|leaves| leaves.held(&mut self.session, &work.table, &work.column_list))
            .transpose();
        let held = match held {
            Ok(held) => held,
            Err(error) => return Err(self.explain(error)),
        };
        let (name, bare_name) = (work.table.to_string(), work.table.name());
        let target = server_check::JudgeTarget {
            table: held.map_or(&name, |held| held.qualified),
            bare_name: held.map_or(bare_name, |held| held.name),
            column_list: &work.column_list,
            freeze: work.freeze,
            columns: &self.plan.tables[work.piece.table],
            is_numbered: false,
        };
        let judged = match &mut work.direct {
            Some(direct) => direct.judge(&mut self.session, &target, rows),
            None => send(&mut self.session, &target, rows),
        };
        match judged {
            Ok((taken, refusals)) => {
                // Those that are held are counted when they are inserted.
                work.rows += if held.is_some() { 0 } else { taken };
                Ok(refusals)
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Lets the server judge rows that are few enough for their notices to be kept.
    pub(super) fn judge_run(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        let work = self.work.as_ref().expect("a piece was begun");
        match (work.careful.is_some(), self.plan.verify) {
            (true, Verify::Quick | Verify::Count) => self.judge_carefully(rows),
            (false, Verify::Quick | Verify::Count) => self.send_text(rows, server_check::judge),
            (is_careful, Verify::Full) => self.judge_summed(rows, is_careful),
        }
    }

    /// Lets each row be judged by all that the table asks; those that pass are in.
    fn judge_carefully(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        let work = self.work.as_mut().expect("a piece was begun");
        let careful = work.careful.as_ref().expect("the piece was begun carefully");
        let columns = &self.plan.tables[work.piece.table];
        match careful.judge(&mut self.session, columns, rows) {
            Ok((taken, refusals)) => {
                work.rows += taken;
                Ok(refusals)
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// As [`Self::judge_carefully`], and it is rolled back: rows that enter under savepoints have
    /// transactions of their own, and those that pass are sent once more without.
    fn try_carefully(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        let counted = self.work.as_ref().map_or(0, |work| work.rows);
        self.session.execute("SAVEPOINT fullbore_tried").map_err(failed)?;
        let refusals = self.judge_carefully(rows)?;
        self.session
            .execute("ROLLBACK TO SAVEPOINT fullbore_tried; RELEASE SAVEPOINT fullbore_tried")
            .map_err(failed)?;
        self.work.as_mut().expect("a piece was begun").rows = counted;
        Ok(refusals)
    }

    /// Judges rows, and makes sums of those that were taken: from a temporary table, which takes them
    /// first.
    fn judge_summed(&mut self, rows: TextRows<'_>, is_careful: bool) -> Result<Vec<Refusal>> {
        let refusals = match is_careful {
            true => self.try_carefully(rows)?,
            false => self.sum_beside(rows)?,
        };
        let left = rows.rows - refusals.len() as u64;
        if left == 0 {
            return Ok(refusals);
        }
        let accepted = verify::beside::accepted(rows, &refusals);
        let accepted = TextRows { parts: &[&accepted], rows: left };
        if is_careful && let Some(refusal) = self.sum_beside(accepted)?.first() {
            return Err(verify::beside::changed_its_mind(refusal));
        }
        let refused = self.send_text(accepted, |session, target, rows| {
            server_check::take(session, target, rows).map(|taken| (taken, Vec::new()))
        })?;
        match refused.first() {
            Some(refusal) => Err(verify::beside::changed_its_mind(refusal)),
            None => Ok(refusals),
        }
    }

    /// Sends rows into a temporary table that sums them; those that were refused there.
    fn sum_beside(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        let work = self.work.as_mut().expect("a piece was begun");
        let table = work.piece.table;
        let beside = match &mut work.beside {
            Some(beside) => beside,
            None => {
                let filled = work.table.to_string();
                let columns = &work.column_list;
                let session = &mut self.session;
                let made =
                    Beside::make(self.postgres, session, &self.plan, table, &filled, columns)?;
                work.beside.insert(made)
            }
        };
        let judged = beside.judge(&mut self.session, &self.plan, table, &work.column_list, rows);
        judged.map_err(|error| self.explain(error))
    }

    /// What is known of the piece's rows, where they are summed.
    pub(super) fn proof(&mut self, portion: &Portion) -> Result<Option<PieceProof>> {
        if self.plan.verify != Verify::Full {
            return Ok(None);
        }
        let work = self.work.as_ref().expect("a piece was begun");
        let columns = &self.plan.tables[work.piece.table].shape.columns;
        let mut sums = portion.sums.clone().unwrap_or_default();
        if let Some(beside) = &work.beside {
            sums.merge(beside.sums());
        }
        Ok(Some(PieceProof {
            hash: self.postgres.hash_kind(),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
            xids: vec![store::transaction(&mut self.session).map_err(failed)?],
            sums,
            removed: None,
        }))
    }

    /// Refuses to commit where the server counted other rows than were sent; how many its triggers
    /// kept out.
    pub(super) fn check_count(&mut self, portion: &Portion) -> Result<u64> {
        let work = self.work.as_ref().expect("a piece was begun");
        let (table, counted) = (work.table.to_string(), work.rows);
        verify::kept_out::check_count(&mut self.session, &table, portion.rows_sent, counted)
    }
}
