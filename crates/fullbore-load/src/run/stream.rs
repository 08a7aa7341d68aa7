//! A stream's loop: claim a piece, send it, commit; and get another session where one was lost.

use std::sync::Arc;

use fullbore_parse::Lane;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::observe::Clocks;
use fullbore_record::observe::clock::{self, Activity};
use fullbore_record::observe::pieces::PieceTime;
use fullbore_record::{Event, Recorder};

use super::piece::PieceWork;
use super::rejects::Rejects;
use super::retry::{Backoff, Patience, given_up};
use super::schedule::{Claim, RestOf, Schedule};
use crate::plan::{PieceInput, Plan, PlannedPiece};
use crate::sink::{Sink, Writer};

pub fn load_until_done(
    plan: &Arc<Plan>,
    sink: &dyn Sink,
    recorder: &Recorder,
    schedule: &Schedule<'_>,
    rejects: &Rejects,
    clocks: &Clocks,
    number: usize,
) -> Result<()> {
    let mut writer: Option<Box<dyn Writer + '_>> = None;
    let mut crowd = Crowd::default();
    loop {
        // A stream that is not wanted keeps no session.
        let claim = schedule.claim(number, || writer = None)?;
        let Some(Claim { piece, lane, careful, rest_of }) = claim else { break };
        let session = match &mut writer {
            Some(writer) => writer,
            // Opened with the first piece: a run of one piece needs one session.
            None => match open(plan, sink, schedule, number, &piece) {
                Err(error) if error.is_crowded() && schedule.give_back(&piece) => {
                    crowd.wait(plan, recorder, schedule, error)?;
                    continue;
                }
                opened => writer.insert(opened?),
            },
        };
        crowd = Crowd::default();
        clock::work_for(piece.table);
        let table = plan.tables[piece.table].name.as_str();
        if let Some(RestOf { piece: of, seconds }) = rest_of {
            tracing::debug!(table, piece = piece.number, of, seconds, "rest of a piece");
            recorder.record(Event::PieceHalved {
                piece: of,
                rest: piece.number,
                table: piece.table,
                stream: number,
                bytes: piece.bytes,
                seconds_left: seconds,
            });
        }
        tracing::debug!(table, piece = piece.number, ?lane, input = ?piece.input, "piece started");
        let is_careful = careful.is_some();
        let began = clocks.seconds();
        let held_before = clocks.held_seconds(number);
        let mut work = PieceWork::new(plan, schedule, rejects, session.as_mut(), &piece, careful);
        let error = match work.load() {
            Ok(None) => {
                schedule.leave(&piece);
                continue;
            }
            Ok(Some(committed)) => {
                let (rows, bytes) = (committed.rows, committed.portion.bytes);
                // A pause is no piece's fault.
                let held = clocks.held_seconds(number) - held_before;
                let seconds = (clocks.seconds() - began - held).max(0.0);
                clocks.note_piece(PieceTime {
                    piece: piece.number,
                    table: piece.table,
                    stream: number,
                    file: piece.input.first_file(),
                    is_shared: matches!(piece.input, PieceInput::Stream { .. }),
                    bytes,
                    began,
                    seconds,
                });
                if let Some(gathers) = sink.gathers() {
                    gathers.gathered(&committed, schedule.noted_of(piece.number));
                }
                schedule.finish(committed, &work.lines);
                let endpoint = session.endpoint().map(str::to_owned);
                tracing::debug!(table, piece = piece.number, rows, bytes, "piece committed");
                recorder.record(Event::PieceCommitted {
                    piece: piece.number,
                    table: piece.table,
                    stream: number,
                    endpoint,
                    rows,
                    bytes,
                    seconds,
                });
                continue;
            }
            Err(error) => error,
        };
        tracing::debug!(table, piece = piece.number, "piece rolled back: {error}");
        work.abandon(&error)?;
        // The binary form lets only whole pieces fail; as text, single rows are judged.
        let is_data = matches!(error, Error::Destination { kind: DestinationFailure::Data, .. });
        if is_data && lane == Lane::Binary && schedule.repeat_as_text(&piece) {
            tracing::info!(piece = piece.number, %error, "piece is repeated as text");
        } else if !is_careful && error.is_of_rows() {
            if schedule.repeat_carefully(&piece, &error) {
                tracing::info!(piece = piece.number, %error, "piece is repeated row by row");
            } else if is_in_a_file(plan, &piece) && plan.continuity.is_resumable {
                // The next round reads the file through for what is missing.
                tracing::info!(piece = piece.number, %error, "piece is left to the next round");
                schedule.lose(&piece, error);
            } else {
                return Err(error);
            }
        } else if error.is_lost() && plan.continuity.is_resumable {
            // Whether it was committed is for the ledger to say, once all streams have ended.
            tracing::warn!(piece = piece.number, stream = number, "connection lost: {error}");
            session.lose(&error);
            writer = None;
            schedule.lose(&piece, error);
        } else {
            return Err(error);
        }
    }
    Ok(())
}

/// A stream that gets no session since there are too many connections: others do its work meanwhile.
#[derive(Default)]
struct Crowd(Option<Backoff>);

impl Crowd {
    /// Pauses, for as long as a server that is gone would be waited for.
    fn wait(
        &mut self,
        plan: &Plan,
        recorder: &Recorder,
        schedule: &Schedule<'_>,
        error: Error,
    ) -> Result<()> {
        let backoff = self.0.get_or_insert_with(|| Backoff::new(plan.continuity.patience));
        if backoff.is_first() {
            let notice = format!("a stream waits for a connection: {error}");
            recorder.record(Event::Notice { notice });
        } else if backoff.is_over() && schedule.is_idle() {
            return Err(given_up(error, backoff.elapsed()));
        }
        clock::enter(Activity::Held);
        backoff.pause(|| schedule.has_ended());
        Ok(())
    }
}

/// Whether a piece's source can be read through once more.
fn is_in_a_file(plan: &Plan, piece: &PlannedPiece) -> bool {
    match &piece.input {
        PieceInput::Stream { file } => plan.tables[piece.table].files[*file].is_regular,
        PieceInput::Ranges(_) | PieceInput::Rows(_) => false,
    }
}

/// Opens a session for a piece; where the server is gone it is waited for. Where there are too many
/// connections, only if the piece can't be given back to others.
fn open<'a>(
    plan: &Arc<Plan>,
    sink: &'a dyn Sink,
    schedule: &Schedule<'_>,
    number: usize,
    piece: &PlannedPiece,
) -> Result<Box<dyn Writer + 'a>> {
    let is_given_back = !schedule.is_read_on(piece);
    let open = || {
        clock::enter(Activity::Answering);
        sink.open(plan, number)
    };
    match plan.continuity.is_resumable {
        false => open(),
        true => {
            let has_ended = || schedule.has_ended();
            let patience = Patience::new(plan.continuity.patience, &has_ended);
            match is_given_back {
                true => patience.but_for(Error::is_crowded).insist(open),
                false => patience.insist(open),
            }
        }
    }
}
