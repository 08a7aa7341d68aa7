//! A stream's session: pieces as transactions, rows as COPY.

use std::sync::Arc;

use fullbore_core::destination::{Receipt, Refusal, TextRows, Writer};
use fullbore_core::error::{Error, Result};
use fullbore_core::job::Publish;
use fullbore_core::plan::{Plan, PlannedPiece};

use crate::connection::{ConnectionError, PausedCopy, QualifiedName, Session};
use crate::destination::Postgres;
use crate::encode_copy::{BINARY_HEADER, BINARY_TRAILER};
use crate::error::{failed, failed_while};
use crate::judge;
use crate::publish::partitions;

/// What a piece in work knows of its table.
struct Work {
    piece: PlannedPiece,
    table: QualifiedName,
    column_list: String,
    /// The table is new in this transaction: rows may be frozen.
    freeze: bool,
    rows: u64,
    bytes: u64,
    /// The binary COPY that is open, if one is.
    copy: Option<PausedCopy>,
}

pub struct PostgresWriter<'a> {
    postgres: &'a Postgres,
    plan: Arc<Plan>,
    session: Session,
    work: Option<Work>,
}

impl<'a> PostgresWriter<'a> {
    pub fn new(postgres: &'a Postgres, plan: Arc<Plan>, session: Session) -> Self {
        Self { postgres, plan, session, work: None }
    }

    fn work(&mut self) -> &mut Work {
        self.work.as_mut().expect("a piece was begun")
    }

    /// Ends the binary COPY, if one is open.
    fn end_copy(&mut self) -> Result<()> {
        let Some(paused) = self.work().copy.take() else { return Ok(()) };
        let mut copy = paused.resume(&mut self.session);
        let rows = copy.send(BINARY_TRAILER).and_then(|()| copy.finish());
        self.work().rows += rows.map_err(|error| self.explain(error))?;
        Ok(())
    }

    /// Puts an error into the words of the load.
    fn explain(&self, error: ConnectionError) -> Error {
        let Some(work) = &self.work else { return failed(error) };
        let constraint = error.server_message().and_then(|message| message.constraint.as_deref());
        if constraint == Some(partitions::RANGE_CHECK) {
            return partitions::overlap(&self.plan, &work.piece, &error);
        }
        let name = &self.plan.tables[work.piece.table].name;
        failed_while(error, &format!("loading {name}"))
    }
}

impl Writer for PostgresWriter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        let target = &self.postgres.targets()[piece.table];
        let column_list = target.column_list(&self.plan, piece.table)?;
        // Nobody waits for the log of one piece: the run's last commit waits for all of it.
        self.session.execute("BEGIN; SET LOCAL synchronous_commit = off").map_err(failed)?;
        let (table, freeze) = match target.publish {
            Publish::Append if !target.atomic => (target.name().clone(), false),
            Publish::Append | Publish::Replace => (target.staging(&self.plan)?, false),
            Publish::Partitions => {
                let name = target.piece(&self.plan, piece.number)?;
                let ddl =
                    partitions::create_piece(self.postgres, &self.plan, target, piece, &name)?;
                self.session.execute(&ddl).map_err(failed)?;
                (name, true)
            }
        };
        self.work = Some(Work {
            piece: piece.clone(),
            table,
            column_list,
            freeze,
            rows: 0,
            bytes: 0,
            copy: None,
        });
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        let work = self.work.as_mut().expect("a piece was begun");
        work.bytes += encoded.len() as u64;
        let opened = match work.copy.take() {
            Some(paused) => Ok(paused.resume(&mut self.session)),
            None => {
                let freeze = if work.freeze { ", FREEZE" } else { "" };
                let sql = format!(
                    "COPY {} ({}) FROM STDIN (FORMAT binary{freeze})",
                    work.table, work.column_list
                );
                tracing::debug!(backend = self.session.backend_pid(), "{sql}");
                self.session.copy_in(&sql).and_then(|mut copy| {
                    copy.send(BINARY_HEADER)?;
                    Ok(copy)
                })
            }
        };
        let sent = opened.and_then(|mut copy| {
            copy.send(encoded)?;
            Ok(copy.pause())
        });
        match sent {
            Ok(paused) => {
                work.copy = Some(paused);
                Ok(())
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        self.end_copy()?;
        let work = self.work();
        work.bytes += rows.parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let work = self.work.as_ref().expect("a piece was begun");
        let target = judge::JudgeTarget {
            table: &work.table.to_string(),
            bare_name: work.table.name(),
            column_list: &work.column_list,
            freeze: work.freeze,
            columns: &self.plan.tables[work.piece.table],
        };
        let judged = judge::judge(&mut self.session, &target, rows);
        match judged {
            Ok((taken, refusals)) => {
                self.work().rows += taken;
                Ok(refusals)
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    fn commit(&mut self) -> Result<Receipt> {
        self.end_copy()?;
        let committed = self.session.execute("COMMIT");
        if let Err(error) = committed {
            return Err(self.explain(error));
        }
        let work = self.work.take().expect("a piece was begun");
        Ok(Receipt { rows: work.rows, bytes_sent: work.bytes })
    }

    fn rollback(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        if let Some(paused) = work.copy {
            paused.resume(&mut self.session).abort("the piece is taken back").map_err(failed)?;
        }
        self.session.execute("ROLLBACK").map_err(failed)?;
        Ok(())
    }
}
