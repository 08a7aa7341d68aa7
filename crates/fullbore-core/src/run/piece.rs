//! One piece in work: sent, its odd rows judged, committed or taken back.

use std::ops::Range;

use super::checksum;
use super::lines::Lines;
use super::parser::parser_for;
use super::rejects::{PieceRejects, Reject, Rejects};
use super::schedule::{Schedule, Unit};
use super::spool::Spool;
use crate::constants::{ODD_BYTES_IN_MEMORY, ODD_ROWS_JUDGED_AFTER, ODD_ROWS_PERCENT_MAX};
use crate::destination::{Committed, Lane, Portion, Refusal, TextRows, Writer};
use crate::error::{Error, Result};
use crate::parse::block::Block;
use crate::plan::{FileRange, Format, PieceInput, Plan, PlannedPiece};

/// Bytes of text rows sent before the destination's judgement is waited for.
const TEXT_CHUNK_BYTES: usize = 4 << 20;

/// A record of the source, kept for the reject file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceRow {
    pub file: usize,
    /// Byte offset in the (decompressed) file.
    pub offset: u64,
    /// Line, from 1; within its range where the file is read in ranges, and within its block until
    /// its unit's turn has come.
    pub line: u64,
    pub raw: Vec<u8>,
}

impl SourceRow {
    /// A record of a block.
    pub fn of(block: &Block, range: Range<usize>) -> Self {
        let before = memchr::memchr_iter(b'\n', &block.text()[..range.start]).count() as u64;
        Self {
            file: block.file,
            offset: block.offset + range.start as u64,
            line: block.first_line.unwrap_or(1) + before,
            raw: block.text()[range].to_vec(),
        }
    }

    fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&(self.file as u64).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.line.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], raw: Vec<u8>) -> Self {
        let number = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("24 bytes were written"))
        };
        Self { file: number(0) as usize, offset: number(8), line: number(16), raw }
    }
}

/// One piece in work.
pub struct PieceWork<'a> {
    plan: &'a Plan,
    schedule: &'a Schedule<'a>,
    rejects: &'a Rejects,
    writer: &'a mut (dyn Writer + 'a),
    piece: &'a PlannedPiece,
    begun: bool,
    /// Rows sent typed, and rows set aside for judgement.
    rows_typed: u64,
    rows_odd: u64,
    portion: Portion,
    odd: Spool,
    /// Units of the text lane that wait for their judgement.
    chunk: Vec<Unit>,
    chunk_bytes: usize,
    piece_rejects: PieceRejects,
    pub lines: Lines,
    /// Lines of the range, or of the stream, before the next unit.
    lines_before: u64,
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
    ) -> Self {
        Self {
            plan,
            schedule,
            rejects,
            writer,
            piece,
            begun: false,
            rows_typed: 0,
            rows_odd: 0,
            portion: Portion::default(),
            odd: Spool::new(&plan.run_dir, ODD_BYTES_IN_MEMORY),
            chunk: Vec::new(),
            chunk_bytes: 0,
            piece_rejects: rejects.for_piece(plan, piece),
            lines: Lines::default(),
            lines_before: 0,
            stretch: None,
        }
    }

    /// Sends the piece and commits it.
    pub fn load(&mut self) -> Result<Committed> {
        while let Some(unit) = self.schedule.next_unit(self.piece.number)? {
            self.take(unit)?;
        }
        self.end_stretch();
        let mut rows = 0;
        if self.begun {
            self.judge_chunk()?;
            self.judge_odd()?;
            self.complete_portion();
            self.rejects.save(self.plan, self.piece, &mut self.piece_rejects)?;
            rows = self.writer.commit(&self.portion)?.rows;
        }
        self.rejects.commit(std::mem::take(&mut self.piece_rejects))?;
        let portion = std::mem::take(&mut self.portion);
        Ok(Committed { piece: self.piece.number, table: self.piece.table, rows, portion })
    }

    /// What was read is what was planned, unless the piece took what came of a stream.
    fn complete_portion(&mut self) {
        if let PieceInput::Ranges(ranges) | PieceInput::Rows(ranges) = &self.piece.input {
            self.portion.ranges.clone_from(ranges);
        }
    }

    fn take(&mut self, mut unit: Unit) -> Result<()> {
        if !self.begun {
            self.writer.begin(self.piece)?;
            self.begun = true;
        }
        self.portion.bytes += unit.source_bytes;
        if let Some(checksum) = unit.checksum {
            let so_far = self.portion.checksum.unwrap_or(0);
            self.portion.checksum = Some(checksum::joined(so_far, checksum, unit.source_bytes));
        }
        if let Some(sums) = unit.sums.take() {
            self.portion.sums.get_or_insert_default().merge(&sums);
        }
        self.note_lines(&mut unit);
        self.schedule.sent(self.piece.table, unit.rows, unit.source_bytes);
        for (row, reason) in &unit.faults {
            self.reject(Reject::of(row.clone(), reason.clone()))?;
        }
        for (row, copy_text) in &unit.odd {
            self.odd.push(&[&row.to_bytes(), &row.raw, copy_text])?;
        }
        self.rows_odd += unit.odd.len() as u64;
        if unit.is_text {
            self.chunk_bytes += unit.encoded.len();
            self.chunk.push(unit);
            if self.chunk_bytes >= TEXT_CHUNK_BYTES {
                self.judge_chunk()?;
            }
            return Ok(());
        }
        self.judge_chunk()?;
        self.rows_typed += unit.rows;
        self.portion.rows_sent += unit.rows;
        if unit.rows > 0 {
            self.writer.write(&unit.encoded)?;
        }
        self.schedule.recycle(unit);
        let judged = self.rows_typed + self.rows_odd;
        if judged > ODD_ROWS_JUDGED_AFTER && self.rows_odd * 100 > judged * ODD_ROWS_PERCENT_MAX {
            self.schedule.go_as_text(self.piece);
        }
        Ok(())
    }

    /// Notes how many lines there were, and makes the unit's own line numbers those of its range.
    fn note_lines(&mut self, unit: &mut Unit) {
        let Some(origin) = unit.origin else { return };
        if origin.first_line.is_none() {
            for (row, _) in &mut unit.faults {
                row.line += self.lines_before;
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
            self.lines.insert(self.piece.table, file, start, end, lines);
            self.portion.ranges.push(FileRange { file, start, end });
        }
    }

    /// Sends the text units at hand and rejects what the destination refuses.
    fn judge_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let parts: Vec<&[u8]> = chunk.iter().map(|unit| unit.encoded.as_slice()).collect();
        let rows = chunk.iter().map(|unit| unit.rows).sum();
        if rows > 0 {
            let refusals = self.writer.judge(TextRows { parts: &parts, rows })?;
            self.portion.rows_sent += rows - refusals.len() as u64;
            for refusal in refusals {
                let row = self.locate(&chunk, refusal.row);
                self.reject(Reject::refused(row, refusal))?;
            }
        }
        for unit in chunk {
            self.schedule.recycle(unit);
        }
        Ok(())
    }

    /// The record behind a row of a chunk.
    fn locate(&self, chunk: &[Unit], row: u64) -> SourceRow {
        let mut left = row;
        for unit in chunk {
            if left >= unit.rows {
                left -= unit.rows;
                continue;
            }
            let table = &self.plan.tables[self.piece.table];
            if let (Some(block), Format::Delimited(dialect)) = (&unit.block, &table.format) {
                let found = parser_for(table, dialect, Lane::Text).locate(block, left as usize);
                if let Some(range) = found {
                    return SourceRow::of(block, range);
                }
            }
            // A source without raw rows: what was sent stands for it.
            let line = unit.encoded.split_inclusive(|b| *b == b'\n').nth(left as usize);
            return SourceRow { raw: line.unwrap_or_default().to_vec(), ..SourceRow::default() };
        }
        SourceRow::default()
    }

    /// Lets the destination judge the odd rows that were set aside.
    fn judge_odd(&mut self) -> Result<()> {
        let spool =
            std::mem::replace(&mut self.odd, Spool::new(&self.plan.run_dir, ODD_BYTES_IN_MEMORY));
        let mut reader = spool.into_reader(3)?;
        loop {
            let mut rows = Vec::new();
            let mut lines = Vec::new();
            while lines.len() < TEXT_CHUNK_BYTES {
                let Some(mut record) = reader.next()? else { break };
                lines.append(&mut record[2]);
                let raw = std::mem::take(&mut record[1]);
                rows.push(SourceRow::from_bytes(&record[0], raw));
            }
            if rows.is_empty() {
                return Ok(());
            }
            let parts = [lines.as_slice()];
            let refusals =
                self.writer.judge(TextRows { parts: &parts, rows: rows.len() as u64 })?;
            self.portion.rows_sent += (rows.len() - refusals.len()) as u64;
            for refusal in refusals {
                let row = std::mem::take(&mut rows[refusal.row as usize]);
                self.reject(Reject::refused(row, refusal))?;
            }
        }
    }

    fn reject(&mut self, reject: Reject) -> Result<()> {
        self.portion.rejected += 1;
        self.rejects.add(self.plan, self.piece, &mut self.piece_rejects, reject)
    }

    /// Takes back what was sent, after an error.
    pub fn abandon(&mut self, error: &Error) -> Result<()> {
        if matches!(error, Error::TooManyRejects { .. }) {
            // The rejects that ended the run are what the user wants to see.
            self.rejects.commit(std::mem::take(&mut self.piece_rejects))?;
        } else {
            self.rejects.forget(std::mem::take(&mut self.piece_rejects));
        }
        if self.begun {
            // The connection may be gone; then there is nothing to take back.
            if let Err(error) = self.writer.rollback() {
                tracing::debug!(%error, "rollback after an error");
            }
        }
        Ok(())
    }
}

impl Reject {
    fn refused(row: SourceRow, refusal: Refusal) -> Self {
        Self {
            column: refusal.column,
            value: refusal.value,
            code: Some(refusal.code),
            ..Self::of(row, refusal.reason)
        }
    }
}
