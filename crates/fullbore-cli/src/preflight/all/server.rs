//! Everything that is measured with the job's own server: encoding for it, sending to it, its work.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fullbore::assemble;
use fullbore_load::job::{EndpointPolicy, Job};
use fullbore_load::plan::{Completion, PieceInput, Plan, Planned};
use fullbore_load::sink::Sink;
use fullbore_pgwire::Session;
use fullbore_postgres::place::place;
use fullbore_postgres::{Postgres, PostgresTable, Server, Settings};
use fullbore_preflight::db::cpu::ServerCpu;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_read::prescan::memory_available;
use fullbore_record::ceilings::Stage;
use fullbore_record::terms::{Publish, Statistics, Verify};

use super::data::Finding;
use super::encoded::{Encoded, KeptPiece, Room, Rows};
use super::measured::{self, Bounds, Measured};
use super::replay::Replay;
use super::report::Report;
use super::space::Space;
use super::total::per_row;
use super::{send, to_measure};
use crate::scratch::{LOG_WAS_NEW, Scratch, copies};
use crate::words::counted;

/// Encoded rows that are kept in memory at most, and of what is free.
const KEPT_BYTES_MAX: usize = 512 << 20;
const KEPT_PART_OF_MEMORY: u64 = 8;
/// Pieces to keep for each session, so that all sessions end together.
const PIECES_PER_SESSION: usize = 8;

/// The job, and where it goes.
pub struct Scene<'a> {
    pub job: &'a Job,
    pub server: &'a Server,
    pub bounds: Bounds,
    pub reject_dir: &'a Path,
}

impl Scene<'_> {
    /// Measures into the report; the encoding comes back. `None` where the role may make nothing to
    /// measure with, which a load need not.
    pub fn measure(
        &self,
        targets: &[PostgresTable],
        say: &dyn Fn(&str, &Stage),
        report: &mut Report,
    ) -> Result<Option<Measured>> {
        let options = self.server.options();
        let connect = || Session::connect(options).map(Session::pinned).map_err(of_connection);
        let mut session = connect()?;
        let server = ServerCpu::find(&mut session).map_err(of_connection)?;
        let is_network = send::is_network(&mut session).map_err(of_connection)?;
        let place = place(&mut session).map_err(of_connection)?;
        report.ceilings.server = session.parameter("server_version").map(str::to_owned);
        report.ceilings.server_is_here = server.is_some();
        report.is_network = is_network;
        let made = Scratch::make(session).and_then(|scratch| {
            let copies = copies::make(&scratch, targets)?;
            Ok((scratch, copies))
        });
        let (scratch, copies) = match made {
            Ok(made) => made,
            Err(error) => {
                let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
                report.server_notes.push(format!("{error}{hint}"));
                return Ok(None);
            }
        };
        report.notes.extend(scratch.notes.iter().chain(&copies.notes).cloned());
        let settings = Settings {
            tablespaces: self.job.tablespaces.clone(),
            // Rows of the scratch schema must not reach anybody's subscriber.
            allow_publication: false,
            skip_logical_decoding: self.job.skip_logical_decoding,
            statistics: Statistics::None,
            loads_again: true,
            endpoints: Vec::new(),
            endpoint_policy: EndpointPolicy::default(),
        };
        let loads = Arc::new(Server::connect(options.clone(), settings)?);
        let job = self.job_into(&scratch);
        let draft = assemble(&job, Some(&loads), self.reject_dir.to_path_buf(), None)?;
        let Planned { plan, targets, .. } = draft.finish(Completion::default());
        let plan = to_measure(plan, self.reject_dir);
        let postgres = Postgres::new(loads, targets, None, None);
        let plan = Arc::new(plan);
        let encode = super::encode(&plan, &postgres, self.bounds)?;
        say("encode", &encode.stage);
        report.ceilings.encode = Some(encode.stage.clone());
        // What lies in tablespaces has disks of its own.
        let is_elsewhere = !self.job.tablespaces.is_empty()
            || postgres.targets().iter().any(|target| target.relation.tablespace.is_some());
        let space = place.filter(|_| !is_elsewhere).map(|place| Space::at(&place));
        let is_recycled = Cell::new(true);
        // A partition is made with its piece; a unique index takes no row twice.
        let is_once = copies.are_unique
            || plan.tables.iter().any(|table| table.publish == Publish::Partitions);
        let rest = Rest {
            scene: self,
            plan: &plan,
            postgres: &postgres,
            server: server.as_ref(),
            scratch: &scratch,
            is_once,
            is_recycled: &is_recycled,
        };
        let outcome = rest.measure(&encode, is_network, space, say, report);
        if !is_recycled.get() {
            report.notes.push(LOG_WAS_NEW.into());
        }
        // What a measurement left goes before the schema does.
        postgres.abort(&plan);
        outcome.map(|()| Some(encode))
    }

    /// The same job into the copies.
    fn job_into(&self, scratch: &Scratch) -> Job {
        Job {
            statistics: Statistics::None,
            no_ledger: true,
            ledger_schema: None,
            verify: Verify::Quick,
            ..scratch.job_into(self.job)
        }
    }
}

/// What is left once rows are encoded.
struct Rest<'a> {
    scene: &'a Scene<'a>,
    plan: &'a Arc<Plan>,
    postgres: &'a Postgres,
    server: Option<&'a ServerCpu>,
    scratch: &'a Scratch,
    /// The same rows can't be sent twice.
    is_once: bool,
    /// The log that measurements wrote, each time.
    is_recycled: &'a Cell<bool>,
}

impl Rest<'_> {
    fn measure(
        &self,
        encode: &Measured,
        is_network: bool,
        mut space: Option<Space>,
        say: &dyn Fn(&str, &Stage),
        report: &mut Report,
    ) -> Result<()> {
        let Self { scene, plan, postgres, server, scratch, is_once, .. } = *self;
        let bounds = scene.bounds;
        let bytes_per_row: Vec<f64> = encode.tables.iter().map(per_row).collect();
        let kept = self.keep()?;
        let rows = |kept: &KeptPiece| kept.rows.iter().map(Rows::count).sum::<u64>();
        let source: f64 =
            kept.iter().map(|kept| rows(kept) as f64 * bytes_per_row[kept.piece.table]).sum();
        let encoded: usize = kept.iter().flat_map(|kept| &kept.rows).map(Rows::bytes).sum();
        if source <= 0.0 {
            report.server_notes.push("there are no rows to measure it with".into());
            return Ok(());
        }
        let on_the_way = encoded as f64 / source;
        for sessions in self.sessions(usize::MAX) {
            if !is_network {
                break;
            }
            let options = scene.server.options();
            let sent = match send::run(options, sessions, on_the_way, bounds, server) {
                Ok(sent) => sent,
                Err(error) => {
                    report.notes.push(format!("the network alone was not measured: {error}"));
                    break;
                }
            };
            say(&format!("send, {}", counted(sessions as u64, "session")), &sent);
            keep_best(&mut report.ceilings.send, &sent);
            report.send.push(sent);
        }
        let empty = || self.empty();
        let replay = Replay {
            plan,
            sink: postgres,
            kept: &kept,
            bytes_per_row: &bytes_per_row,
            bounds,
            server,
            empty: is_once.then_some(&empty),
        };
        for (at, sessions) in self.sessions(kept.len()).into_iter().enumerate() {
            if at > 0 {
                self.begin_anew()?;
            }
            let (stage, there) = match replay.run(sessions) {
                Ok(replayed) => replayed,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    report.server_notes.push(error.to_string());
                    break;
                }
            };
            say(&format!("database, {}", counted(sessions as u64, "session")), &stage);
            if let Some(space) = &mut space {
                space.sampled(copies::size(scratch).map_err(of_preflight)?, there);
            }
            keep_best(&mut report.ceilings.database, &stage);
            report.database.push(stage);
        }
        report.space = space;
        drop(kept);
        self.begin_anew()?;
        // What the prediction rests on is measured longest.
        let longer = Bounds { seconds: bounds.seconds * 2.0, ..bounds };
        match measured::run(plan, postgres, longer, server, &Arc::default()) {
            Ok(Measured { stage, .. }) => {
                say("trial", &stage);
                report.ceilings.trial = Some(Stage { sessions: Some(plan.streams), ..stage });
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) if is_of_data(&error) => {
                report.findings.push(Finding::of_error(&error));
            }
            Err(error) => report.notes.push(format!("the trial was not made: {error}")),
        }
        Ok(())
    }

    /// Encoded rows of many pieces, in memory.
    fn keep(&self) -> Result<Vec<KeptPiece>> {
        let most = memory_available().map_or(u64::MAX, |free| free / KEPT_PART_OF_MEMORY);
        let bytes = KEPT_BYTES_MAX.min(usize::try_from(most).unwrap_or(usize::MAX));
        let wanted = self.plan.streams * PIECES_PER_SESSION;
        let is_stream = |input: &PieceInput| matches!(input, PieceInput::Stream { .. });
        let pieces = match self.plan.pieces.iter().any(|piece| is_stream(&piece.input)) {
            true => wanted,
            false => wanted.min(self.plan.pieces.len()).max(1),
        };
        let full: Arc<AtomicBool> = Arc::default();
        let room = Room { bytes, piece_bytes: bytes / pieces };
        let destination = Encoded::kept(self.postgres, room, &full);
        measured::run(self.plan, &destination, self.scene.bounds, None, &full)?;
        Ok(destination.into_pieces())
    }

    /// 1, 2, 4 ... and those that the job has, as far as there is something for each.
    fn sessions(&self, most: usize) -> Vec<usize> {
        let streams = self.plan.streams;
        let powers = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < streams);
        powers.chain([streams]).filter(|sessions| *sessions <= most).collect()
    }

    /// Takes away what was loaded.
    fn empty(&self) -> Result<()> {
        self.postgres.abort(self.plan);
        copies::empty(self.scratch, self.plan.tables.len()).map_err(of_preflight)
    }

    /// The same, so that the next measurement begins like the first.
    fn begin_anew(&self) -> Result<()> {
        self.empty()?;
        self.is_recycled.set(self.scratch.recycle_log() && self.is_recycled.get());
        Ok(())
    }
}

/// Whether a load would fail for what its files hold.
fn is_of_data(error: &Error) -> bool {
    use DestinationFailure::{Constraint, Data, Sources};
    match error {
        Error::TooManyRejects { .. }
        | Error::Unterminated { .. }
        | Error::Source { .. }
        | Error::Read { .. } => true,
        Error::Destination { kind, .. } => matches!(kind, Constraint | Data | Sources),
        _ => false,
    }
}

fn keep_best(best: &mut Option<Stage>, stage: &Stage) {
    if best.as_ref().is_none_or(|best| best.bytes_per_second < stage.bytes_per_second) {
        *best = Some(stage.clone());
    }
}

fn of_connection(error: fullbore_pgwire::ConnectionError) -> Error {
    let hint = error.hint().map(str::to_owned);
    Error::Destination { message: error.to_string(), hint, kind: DestinationFailure::Other }
}

fn of_preflight(error: fullbore_preflight::Error) -> Error {
    let hint = error.hint().map(str::to_owned);
    Error::Destination { message: error.to_string(), hint, kind: DestinationFailure::Other }
}
