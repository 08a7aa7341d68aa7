//! A stream's session: pieces as transactions, rows as COPY, ordinary or direct.

mod judged;
mod leaves;
mod routed;
mod ways;

use std::sync::Arc;

use fullbore_load::constants::JUDGED_ROWS_MAX;
use fullbore_load::plan::{Plan, PlannedPiece};
use fullbore_load::sink::{Judging, Portion, Receipt, Refusal, TextRows, Writer};
use fullbore_pgwire::session::path;
use fullbore_pgwire::{ConnectionError, PausedCopy, QualifiedName, Session};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Stage;

use crate::direct;
use crate::direct::load::{DirectLoad, range_options};
use crate::encode_copy::{BINARY_HEADER, BINARY_TRAILER};
use crate::error::{failed, failed_while};
use crate::fallback::row_by_row::Careful;
use crate::fallback::server_check;
use crate::ledger::pieces;
use crate::postgres::Postgres;
use crate::publish::locking::{self, Frame, LockWait};
use crate::publish::unchanged::Planned;
use crate::publish::{bounds, filled, partitions};
use crate::routes;
use crate::target::PostgresTable;
use crate::verify::beside::Beside;
use crate::verify::size::extents;
use crate::verify::store;
use leaves::DirectLeaves;
use routed::{Routed, Which};
use ways::Ways;

/// What a piece in work knows of its table.
struct Work {
    piece: PlannedPiece,
    table: QualifiedName,
    column_list: String,
    /// The table is new in this transaction: rows may be frozen.
    freeze: bool,
    rows: u64,
    bytes: u64,
    /// The COPY that is open, if one is: of binary rows, or direct.
    copy: Option<PausedCopy>,
    direct: Option<DirectLoad>,
    /// Rows that wait for their partitions, where each is sent to its own.
    routed: Option<Routed>,
    /// Every row is judged by all that the table asks.
    careful: Option<Careful>,
    /// Where rows that go as text are summed, if rows are summed at all.
    beside: Option<Beside>,
}

pub struct PostgresWriter<'a> {
    postgres: &'a Postgres,
    plan: Arc<Plan>,
    /// Dropped before the session, whose socket they show.
    ways: Ways<'a>,
    session: Session,
    work: Option<Work>,
}

impl<'a> PostgresWriter<'a> {
    pub fn open(postgres: &'a Postgres, plan: Arc<Plan>, stream: usize) -> Result<Self> {
        let (ways, session) = Ways::open(postgres, stream)?;
        Ok(Self { postgres, plan, ways, session, work: None })
    }

    /// Sends what waits for its partition.
    fn send_routed(&mut self, which: Which) -> Result<()> {
        let work = self.work.as_mut().expect("a piece was begun");
        let Some(routed) = &mut work.routed else { return Ok(()) };
        match routed.send(which, &mut self.session, &work.table, &work.column_list) {
            Ok(rows) => {
                work.rows += rows;
                Ok(())
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Ends the COPY, if one is open.
    fn end_copy(&mut self) -> Result<()> {
        let work = self.work.as_mut().expect("a piece was begun");
        let settled = work.routed.as_mut().map(|routed| routed.settle(&mut self.session));
        match settled.transpose() {
            Ok(stored) => work.rows += stored.unwrap_or_default(),
            Err(error) => return Err(self.explain(error)),
        }
        let Some(paused) = work.copy.take() else { return Ok(()) };
        let mut copy = paused.resume(&mut self.session);
        // Frames have no trailer.
        let trailer = if work.direct.is_some() { Ok(()) } else { copy.send(BINARY_TRAILER) };
        match trailer.and_then(|()| copy.finish()) {
            Ok(rows) => {
                work.rows += rows;
                work.direct.iter_mut().for_each(DirectLoad::taken);
                Ok(())
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Makes the piece's table where it has one of its own; the table, and whether its rows may be
    /// frozen.
    fn table_of(
        &mut self,
        target: &PostgresTable,
        piece: &PlannedPiece,
    ) -> Result<(QualifiedName, bool)> {
        let table = match target.stage() {
            Stage::Target => target.name().clone(),
            Stage::Staging => target.staging(&self.plan)?,
            Stage::Pieces => {
                let name = target.piece(&self.plan, piece.number)?;
                let ddl =
                    partitions::create_piece(self.postgres, &self.plan, target, piece, &name)?;
                // What is made like it locks it: it stays what it is until the piece is committed.
                let planned = self.postgres.planned(piece.table);
                let made = self.session.execute(&format!("{ddl}; {}", planned.assertion()?));
                made.map_err(|error| planned.told(&mut self.session, error))?;
                return Ok((name, true));
            }
        };
        // Directly: into a table that was made for this load alone.
        let is_direct = target.direct.is_some() && target.leaves().is_none();
        if is_direct {
            self.postgres.truncate(&mut self.session, &table)?;
        }
        Ok((table, is_direct))
    }

    /// What the target must be, where the piece's rows go into it themselves.
    fn planned(&self, target: &PostgresTable, table: usize) -> Option<Planned> {
        target.is_piecewise().then(|| self.postgres.planned(table))
    }

    fn begin_transaction(&mut self, target: &PostgresTable, piece: &PlannedPiece) -> Result<()> {
        // Nobody waits for the log of one piece: the run's last commit waits for all of it.
        const UNHURRIED: &str = "SET LOCAL synchronous_commit = off";
        let planned = self.planned(target, piece.table);
        let postgres = self.postgres;
        let begin = |session: &mut Session, begin: &str| {
            let planned = planned.as_ref();
            if let Some(ledger) = postgres.ledger() {
                let (number, table) = (piece.number, piece.table);
                let is_unlogged = target.fills_unlogged();
                return pieces::begin(session, ledger, begin, number, table, is_unlogged, planned);
            }
            let Some(planned) = planned else {
                return session.execute(begin).map(drop).map_err(failed);
            };
            let begun = session.execute(&format!("{begin}; {}", planned.assertion()?));
            begun.map(drop).map_err(|error| planned.told(session, error))
        };
        if target.leaves().is_none() {
            return begin(&mut self.session, &format!("BEGIN; {UNHURRIED}"));
        }
        // The lock that keeps readers out is waited for as the locks of publishing are.
        let (wait, what) = (LockWait::of(&self.plan), format!("loading {}", target.name()));
        let oid = postgres.planned(piece.table).oid();
        locking::insist(postgres, &mut self.session, &wait, Frame::Open, &what, |session| {
            begin(session, UNHURRIED)?;
            direct::leaves::renew(session, target, oid)?;
            if let Some(files) = extents(session, oid)? {
                postgres.verification.set_renewed(piece.table, files);
            }
            Ok(())
        })
    }

    fn begin_direct(
        &mut self,
        target: &PostgresTable,
        piece: &PlannedPiece,
        table: &QualifiedName,
        column_list: &str,
    ) -> Result<Option<DirectLoad>> {
        let Some(direct) = &target.direct else { return Ok(None) };
        let session = &mut self.session;
        let fills = filled::make(self.postgres, session, &self.plan, piece.table, table)?;
        let range = match &piece.bounds {
            Some(bounds) => Some(range_options(bounds::key(&target.relation)?, bounds)?),
            None => None,
        };
        DirectLoad::begin(session, direct, table, column_list, range, fills).map(Some)
    }

    /// The CHECK that a partition's table must have, where no direct COPY has made it.
    fn complete_check(&mut self) -> Result<()> {
        let work = self.work.as_ref().expect("a piece was begun");
        if !work.direct.as_ref().is_some_and(DirectLoad::lacks_check) {
            return Ok(());
        }
        let (table, piece) = (work.table.clone(), work.piece.clone());
        self.add_check(&table, &piece)
    }

    /// All rows are sent: what is left to be done with them.
    fn finish_direct(&mut self) -> Result<()> {
        let work = self.work.as_mut().expect("a piece was begun");
        if let Some(direct) = &work.direct {
            // Keys that are not unique are found again when the table is published.
            let finished = direct.finish(&mut self.session);
            return finished.map(drop).map_err(|error| self.explain(error));
        }
        let Some(leaves) = work.routed.as_mut().and_then(Routed::direct) else { return Ok(()) };
        match leaves.finish(&mut self.session, &work.table, &work.column_list) {
            Ok(inserted) => {
                work.rows += inserted;
                Ok(())
            }
            Err(error) => Err(self.explain(error)),
        }
    }

    fn add_check(&mut self, table: &QualifiedName, piece: &PlannedPiece) -> Result<()> {
        let check = partitions::range_check(&self.postgres.targets()[piece.table], piece)?;
        self.session.execute(&format!("ALTER TABLE {table} ADD {check}")).map_err(failed)?;
        Ok(())
    }

    fn begin_lane(&mut self, piece: &PlannedPiece, because: Option<&str>) -> Result<Work> {
        let target = &self.postgres.targets()[piece.table];
        let column_list = target.column_list(&self.plan, piece.table)?;
        self.begin_transaction(target, piece)?;
        let (table, freeze) = self.table_of(target, piece)?;
        let (mut direct, mut routed, mut careful) = (None, None, None);
        match because {
            Some(because) => {
                if target.direct.is_some() && piece.bounds.is_some() {
                    self.add_check(&table, piece)?;
                }
                let columns = &self.plan.tables[piece.table];
                let shown = target.name();
                careful = Some(Careful::begin(&mut self.session, &table, shown, columns, because)?);
            }
            None => match &target.routes {
                Some(routes) => {
                    let session = &mut self.session;
                    let leaves = target
                        .leaves()
                        .map(|leaves| DirectLeaves::begin(session, target, leaves, &column_list));
                    let streams = self.plan.streams;
                    routed = Some(Routed::new(routes.clone(), streams, leaves.transpose()?));
                }
                None => direct = self.begin_direct(target, piece, &table, &column_list)?,
            },
        }
        Ok(Work {
            piece: piece.clone(),
            table,
            column_list,
            freeze,
            rows: 0,
            bytes: 0,
            copy: None,
            direct,
            routed,
            careful,
            beside: None,
        })
    }

    fn begin_piece(&mut self, piece: &PlannedPiece, because: Option<&str>) -> Result<()> {
        self.ways.choose(&mut self.session, piece.bytes)?;
        match self.begin_lane(piece, because) {
            Ok(work) => {
                self.work = Some(work);
                Ok(())
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.session.execute("ROLLBACK");
                self.ways.end_piece();
                Err(error)
            }
        }
    }

    /// Puts an error into the words of the load.
    fn explain(&self, error: ConnectionError) -> Error {
        let Some(work) = &self.work else { return failed(error) };
        let constraint = error.server_message().and_then(|message| message.constraint.as_deref());
        if constraint == Some(bounds::RANGE_CHECK) {
            return partitions::overlap(&self.plan, &work.piece, &error);
        }
        let name = &self.plan.tables[work.piece.table].name;
        if error.server_message().is_some_and(|message| message.message.contains(routes::MOVED)) {
            return routed::moved(name);
        }
        failed_while(error, &format!("loading {name}"))
    }
}

impl Writer for PostgresWriter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        self.begin_piece(piece, None)
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        let work = self.work.as_mut().expect("a piece was begun");
        work.bytes += encoded.len() as u64;
        if let Some(routed) = &mut work.routed {
            if !routed.take(encoded) {
                return Err(leaves::without_partition(&work.table));
            }
            return if routed.is_full() { self.send_routed(Which::Fullest) } else { Ok(()) };
        }
        let opened = match work.copy.take() {
            Some(paused) => Ok(paused.resume(&mut self.session)),
            None => {
                let freeze = if work.freeze { ", FREEZE" } else { "" };
                let (sql, header): (_, &[u8]) = match &work.direct {
                    Some(direct) => (direct.copy_sql(), &[]),
                    None => {
                        let Work { table, column_list, .. } = &*work;
                        let form = format!("(FORMAT binary{freeze})");
                        (format!("COPY {table} ({column_list}) FROM STDIN {form}"), BINARY_HEADER)
                    }
                };
                tracing::debug!(backend = self.session.backend_pid(), "{sql}");
                self.session.copy_in(&sql).and_then(|mut copy| {
                    copy.send(header)?;
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

    fn judging(&mut self) -> Option<&mut dyn Judging> {
        Some(self)
    }

    fn commit(&mut self, portion: &Portion) -> Result<Receipt> {
        self.end_copy()?;
        self.send_routed(Which::All)?;
        self.complete_check()?;
        self.finish_direct()?;
        let kept_out = self.check_count(portion)?;
        let proof = self.proof(portion)?;
        let work = self.work.as_ref().expect("a piece was begun");
        let target = &self.postgres.targets()[work.piece.table];
        let planned = self.planned(target, work.piece.table);
        let mut asserted = match &planned {
            Some(planned) => planned.assertion()? + "; ",
            None => String::new(),
        };
        if let Some(partitions) = work.routed.as_ref().map(Routed::assertion).transpose()?.flatten()
        {
            asserted += &(partitions + "; ");
        }
        let committed = match self.postgres.ledger() {
            Some(ledger) => {
                let (piece, is_unlogged) = (work.piece.number, target.fills_unlogged());
                let row = pieces::completion(ledger, piece, is_unlogged, work.rows, portion)?;
                let sums = match &proof {
                    Some(proof) => store::statement(ledger, piece, proof)? + "; ",
                    None => String::new(),
                };
                self.session.execute(&format!("{row}; {sums}{asserted}{}", path::COMMIT))
            }
            None => self.session.execute(&format!("{asserted}{}", path::COMMIT)),
        };
        if let Err(error) = committed {
            let changed = planned.and_then(|planned| planned.explain(&mut self.session, &error));
            if let Some(changed) = changed {
                return Err(changed);
            }
            return Err(self.explain(error));
        }
        let work = self.work.take().expect("a piece was begun");
        self.ways.end_piece();
        self.postgres.verification.add_kept_out(kept_out);
        if let Some(proof) = proof {
            self.postgres.verification.add_proof(work.piece.number, proof);
        }
        Ok(Receipt { rows: work.rows, bytes_sent: work.bytes })
    }

    fn rollback(&mut self) -> Result<()> {
        let Some(mut work) = self.work.take() else { return Ok(()) };
        self.ways.end_piece();
        if let Some(leaves) = work.routed.as_mut().and_then(Routed::direct) {
            leaves.abort(&mut self.session).map_err(failed)?;
        }
        if let Some(paused) = work.copy {
            paused.resume(&mut self.session).abort("the piece is rolled back").map_err(failed)?;
        }
        self.session.execute("ROLLBACK").map_err(failed)?;
        Ok(())
    }

    fn sent(&mut self, source_bytes: u64) {
        self.ways.sent(source_bytes);
    }

    fn lose(&mut self, why: &Error) {
        self.ways.lose(why);
    }

    fn endpoint(&self) -> Option<&str> {
        self.ways.name()
    }
}

impl Judging for PostgresWriter<'_> {
    fn begin_row_by_row(&mut self, piece: &PlannedPiece, because: &str) -> Result<()> {
        self.begin_piece(piece, Some(because))
    }

    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        self.end_copy()?;
        let work = self.work.as_mut().expect("a piece was begun");
        work.bytes += rows.parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut refusals = Vec::new();
        for (first, parts) in server_check::runs_of(rows, JUDGED_ROWS_MAX) {
            let lines = |part: &&[u8]| memchr::memchr_iter(b'\n', part).count() as u64;
            let rows = TextRows { parts: &parts, rows: parts.iter().map(lines).sum() };
            let refused = self.judge_run(rows)?.into_iter();
            refusals.extend(refused.map(|refusal| Refusal { row: refusal.row + first, ..refusal }));
        }
        Ok(refusals)
    }
}
