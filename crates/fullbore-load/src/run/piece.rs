//! Loads one piece: sends it, has non-canonical rows checked, commits or rolls back.

use std::sync::Arc;

use fullbore_parse::Lane;
use fullbore_read::error::{Error, Result};
use fullbore_read::{FileRange, checksum};
use fullbore_record::observe::clock::{self, Activity};

use super::lines::Lines;
use super::parser::parser_for;
use super::reject_record::Reject;
use super::rejects::{PieceRejects, Rejects};
use super::schedule::{Schedule, Unit};
use super::source_row::{Records, SourceRow};
use super::spool::Spool;
use super::unjudged;
use crate::constants::{
    JUDGED_ROWS_MAX, ODD_BYTES_IN_MEMORY, ODD_ROWS_JUDGED_AFTER, ODD_ROWS_PERCENT_MAX,
};
use crate::plan::{Format, PieceInput, Plan, PlannedPiece};
use crate::sink::{Committed, Portion, Refusal, TextRows, Writer};

/// Bytes of text rows sent before the destination's judgement is waited for.
const TEXT_CHUNK_BYTES: usize = 4 << 20;

/// One piece in work.
pub struct PieceWork<'a> {
    plan: &'a Plan,
    schedule: &'a Schedule<'a>,
    rejects: &'a Rejects,
    writer: &'a mut (dyn Writer + 'a),
    piece: &'a PlannedPiece,
    begun: bool,
    /// Every row is judged by all that the table asks; why.
    careful: Option<Arc<str>>,
    /// Rows sent typed, and rows set aside for judgement.
    rows_typed: u64,
    rows_odd: u64,
    portion: Portion,
    odd: Spool,
    /// Units of the text lane that wait for their judgement.
    chunk: Vec<Unit>,
    chunk_bytes: usize,
    chunk_rows: usize,
    piece_rejects: PieceRejects,
    pub lines: Lines,
    /// Lines of the range, or of the stream, before the next unit.
    lines_before: u64,
    /// Rows that the progress shown counts.
    rows_shown: u64,
    /// Values whose nanoseconds were rounded.
    rounded: u64,
    /// The stretch of the file that was read without a gap: file, start, end, lines.
    stretch: Option<(usize, u64, u64, u64)>,
}

impl<'a> PieceWork<'a> {
    pub fn new(
        plan: &'a Plan,
        schedule: &'a Schedule<'a>,
        rejects: &'a Rejects,
        writer: &'a mut (dyn Writer + 'a),
        piece: &'a PlannedPiece,
        careful: Option<Arc<str>>,
    ) -> Self {
        Self {
            plan,
            schedule,
            rejects,
            writer,
            piece,
            begun: false,
            careful,
            rows_typed: 0,
            rows_odd: 0,
            portion: Portion::default(),
            odd: Spool::new(&plan.run_dir, ODD_BYTES_IN_MEMORY),
            chunk: Vec::new(),
            chunk_bytes: 0,
            chunk_rows: 0,
            piece_rejects: rejects.for_piece(plan),
            lines: Lines::default(),
            lines_before: 0,
            rows_shown: 0,
            rounded: 0,
            stretch: None,
        }
    }

    /// Sends the piece and commits it. `None` where it is to take what comes of a stream, and nothing
    /// came any more: the destination has not heard of it.
    pub fn load(&mut self) -> Result<Option<Committed>> {
        while let Some(unit) = self.schedule.next_unit(self.piece.number)? {
            self.take(unit)?;
        }
        match self.piece.input {
            PieceInput::Stream { .. } if !self.begun => return Ok(None),
            // What was planned is committed, though it be without a row.
            _ => self.begin()?,
        }
        self.end_stretch();
        self.judge_chunk()?;
        self.judge_odd()?;
        self.complete_portion();
        self.rejects.save(self.plan, self.piece, &mut self.piece_rejects)?;
        clock::enter(Activity::Answering);
        let rows = self.writer.commit(&self.portion)?.rows;
        self.schedule.note_rounded(self.piece.table, self.rounded);
        self.rejects.commit(std::mem::take(&mut self.piece_rejects))?;
        let portion = std::mem::take(&mut self.portion);
        Ok(Some(Committed { piece: self.piece.number, table: self.piece.table, rows, portion }))
    }

    /// What was read is what the piece was made of, but for a rest that it gave away; unless it took what came of
    /// a stream.
    fn complete_portion(&mut self) {
        if self.piece.input.ranges().is_some() {
            self.portion.ranges = self.schedule.ranges_of(self.piece.number);
        }
    }

    fn begin(&mut self) -> Result<()> {
        if !self.begun {
            clock::enter(Activity::Answering);
            match (&self.careful, self.writer.judging()) {
                (Some(because), Some(judging)) => judging.begin_row_by_row(self.piece, because)?,
                _ => self.writer.begin(self.piece)?,
            }
            self.begun = true;
        }
        Ok(())
    }

    fn take(&mut self, mut unit: Unit) -> Result<()> {
        self.begin()?;
        self.portion.bytes += unit.source_bytes;
        self.portion.counts += unit.counts;
        if let Some(checksum) = unit.checksum {
            let so_far = self.portion.checksum.unwrap_or(0);
            self.portion.checksum = Some(checksum::joined(so_far, checksum, unit.source_bytes));
        }
        if let Some(sums) = unit.sums.take() {
            self.portion.sums.get_or_insert_default().merge(&sums);
        }
        self.note_lines(&mut unit);
        self.schedule.sent(self.piece.table, unit.rows, unit.source_bytes);
        self.writer.sent(unit.source_bytes);
        self.rows_shown += unit.rows;
        self.rounded += unit.rounded;
        for fault in std::mem::take(&mut unit.faults) {
            self.reject(fault)?;
        }
        for (row, copy_text) in &unit.odd {
            self.odd.push(&[&row.to_bytes(), &row.raw, copy_text])?;
        }
        self.rows_odd += unit.odd.len() as u64;
        if unit.is_text {
            self.chunk_bytes += unit.encoded.len();
            self.chunk_rows += unit.rows as usize;
            self.chunk.push(unit);
            if self.chunk_bytes >= TEXT_CHUNK_BYTES || self.chunk_rows >= JUDGED_ROWS_MAX {
                self.judge_chunk()?;
            }
            return Ok(());
        }
        self.judge_chunk()?;
        self.rows_typed += unit.rows;
        self.portion.rows_sent += unit.rows;
        if unit.rows > 0 {
            self.schedule.wait_to_send(unit.encoded.len());
            clock::enter(Activity::Sending);
            self.writer.write(&unit.encoded)?;
        }
        self.schedule.recycle(unit);
        let judged = self.rows_typed + self.rows_odd;
        let are_many = self.rows_odd * 100 > judged * ODD_ROWS_PERCENT_MAX;
        if judged > ODD_ROWS_JUDGED_AFTER && are_many && self.writer.judging().is_some() {
            self.schedule.go_as_text(self.piece);
        }
        Ok(())
    }

    /// Notes how many lines there were, and makes the unit's own line numbers those of its range.
    fn note_lines(&mut self, unit: &mut Unit) {
        let Some(origin) = unit.origin else { return };
        if origin.first_line.is_none() {
            for fault in &mut unit.faults {
                fault.row.line += self.lines_before;
            }
            for (row, _) in &mut unit.odd {
                row.line += self.lines_before;
            }
            if let Some(block) = &mut unit.block {
                block.first_line = Some(self.lines_before + 1);
            }
        }
        let before = origin.first_line.map_or(self.lines_before, |line| line - 1);
        self.lines_before = before + origin.lines;
        let end = origin.offset + unit.source_bytes;
        match &mut self.stretch {
            Some((file, _, stretch_end, lines))
                if *file == origin.file && *stretch_end == origin.offset =>
            {
                *stretch_end = if origin.is_last { u64::MAX } else { end };
                *lines += origin.lines;
            }
            _ => {
                self.end_stretch();
                let end = if origin.is_last { u64::MAX } else { end };
                self.stretch = Some((origin.file, origin.offset, end, origin.lines));
            }
        }
    }

    fn end_stretch(&mut self) {
        if let Some((file, start, end, lines)) = self.stretch.take() {
            // The feed of a stream counts its lines itself; its stretches are without number.
            if !matches!(self.piece.input, PieceInput::Stream { .. }) {
                self.lines.insert(self.piece.table, file, start, end, lines);
            }
            self.portion.ranges.push(FileRange { file, start, end });
        }
    }

    /// Which rows the destination refuses: all of them where it can't judge, since what is set aside
    /// is not canonical.
    fn judge(&mut self, rows: TextRows<'_>) -> Result<Vec<Refusal>> {
        self.schedule.wait_to_send(rows.parts.iter().map(|part| part.len()).sum());
        clock::enter(Activity::Sending);
        if let Some(judging) = self.writer.judging() {
            return judging.judge(rows);
        }
        Ok(unjudged::refusals(&self.plan.tables[self.piece.table].shape, rows))
    }

    /// Sends the text units at hand and rejects what the destination refuses.
    fn judge_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        self.chunk_rows = 0;
        let parts: Vec<&[u8]> = chunk.iter().map(|unit| unit.encoded.as_slice()).collect();
        let rows = chunk.iter().map(|unit| unit.rows).sum();
        if rows > 0 {
            let refusals = self.judge(TextRows { parts: &parts, rows })?;
            self.portion.rows_sent += rows - refusals.len() as u64;
            for (row, refusal) in self.located(&chunk, refusals) {
                self.reject(Reject::refused(row, refusal))?;
            }
        }
        for unit in chunk {
            self.schedule.recycle(unit);
        }
        Ok(())
    }

    /// The records behind rows of a chunk, in order; a block is parsed once for all of its own.
    fn located(&self, chunk: &[Unit], mut refusals: Vec<Refusal>) -> Vec<(SourceRow, Refusal)> {
        refusals.sort_by_key(|refusal| refusal.row);
        let table = &self.plan.tables[self.piece.table];
        let mut refusals = refusals.into_iter().peekable();
        let mut located = Vec::new();
        let mut begins = 0;
        for unit in chunk {
            let mut its = Vec::new();
            while let Some(refusal) = refusals.next_if(|r| r.row < begins + unit.rows) {
                its.push(((refusal.row - begins) as usize, refusal));
            }
            begins += unit.rows;
            if its.is_empty() {
                continue;
            }
            if let (Some(block), Format::Delimited(dialect)) = (&unit.block, &table.format) {
                let records = parser_for(table, dialect, Lane::Text).records(block);
                let mut stood = Records::of(block);
                located.extend(its.into_iter().map(|(row, refusal)| {
                    let row = unit.kept.as_ref().map_or(row, |kept| kept[row]);
                    let record = records.get(row).cloned().unwrap_or(0..0);
                    (stood.at(record), refusal)
                }));
                continue;
            }
            // A source without raw rows: what was sent stands for it.
            let lines: Vec<&[u8]> = unit.encoded.split_inclusive(|b| *b == b'\n').collect();
            let (file, numbers) = unit.numbers.clone().unwrap_or_default();
            located.extend(its.into_iter().map(|(row, refusal)| {
                let raw = table.lineage.stripped(lines.get(row).copied().unwrap_or_default());
                let offset = numbers.get(row).copied().unwrap_or_default();
                (SourceRow { file, offset, line: 0, raw }, refusal)
            }));
        }
        located
    }

    /// Lets the destination judge the odd rows that were set aside.
    fn judge_odd(&mut self) -> Result<()> {
        let spool =
            std::mem::replace(&mut self.odd, Spool::new(&self.plan.run_dir, ODD_BYTES_IN_MEMORY));
        let mut reader = spool.into_reader(3)?;
        loop {
            let mut rows = Vec::new();
            let mut lines = Vec::new();
            while lines.len() < TEXT_CHUNK_BYTES && rows.len() < JUDGED_ROWS_MAX {
                let Some(mut record) = reader.next()? else { break };
                lines.append(&mut record[2]);
                let raw = std::mem::take(&mut record[1]);
                rows.push(SourceRow::from_bytes(&record[0], raw));
            }
            if rows.is_empty() {
                return Ok(());
            }
            let parts = [lines.as_slice()];
            let refusals = self.judge(TextRows { parts: &parts, rows: rows.len() as u64 })?;
            self.portion.rows_sent += (rows.len() - refusals.len()) as u64;
            for refusal in refusals {
                let row = std::mem::take(&mut rows[refusal.row as usize]);
                self.reject(Reject::refused(row, refusal))?;
            }
        }
    }

    fn reject(&mut self, reject: Reject) -> Result<()> {
        self.portion.rejected += reject.counts();
        self.rejects.add(self.plan, self.piece, &mut self.piece_rejects, reject)
    }

    /// Takes back what was sent, after an error.
    pub fn abandon(&mut self, error: &Error) -> Result<()> {
        if matches!(error, Error::TooManyRejects { .. } | Error::Unterminated { .. }) {
            // The rejects that ended the run are what the user wants to see.
            self.rejects.commit(std::mem::take(&mut self.piece_rejects))?;
        } else {
            self.rejects.forget(std::mem::take(&mut self.piece_rejects));
        }
        self.schedule.taken_back(self.piece.table, self.rows_shown, self.portion.bytes);
        if self.begun {
            clock::enter(Activity::Answering);
            // The connection may be gone; then there is nothing to roll back.
            if let Err(error) = self.writer.rollback() {
                tracing::debug!(%error, "rollback after an error");
            }
        }
        Ok(())
    }
}
