//! Re-reads the sources to find the records of rows that violate keys.
//!
//! Violations of unique and foreign keys are found in one statement after the last piece, but a row in a
//! table has no file and line. So the sources are read again, and records that may match such a row are
//! kept; the sink compares their values. The load itself carries no extra data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::ParseShape;
use fullbore_parse::{Lane, Parser};
use fullbore_read::FileRange;
use fullbore_read::columnar::{Reading, RowFeed};
use fullbore_read::error::{Error, Result};
use fullbore_read::feed::Fed;
use fullbore_read::ranges::RangeFeed;

use super::ahead::{self, Ahead};
use super::parser::{parser_for, path_of};
use super::reject_record::Reject;
use super::rejects::Rejects;
use super::source_row::{Records, SourceRow};
use super::spool::{Spool, SpoolReader};
use super::transformed;
use crate::constants::{JUDGED_ROWS_MAX, ODD_BYTES_IN_MEMORY};
use crate::plan::lineage::{Anchor, Lineage, Places};
use crate::plan::{Format, PieceInput, Plan};
use crate::sink::{Committed, Encoder, IsWanted, Refusal, Reread, Sink, TextRows};

/// A file has a thread for so many bytes of it.
const BYTES_PER_THREAD: u64 = 8 << 20;

/// Bytes of rows that are handed on at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// The sources of a run, read once more.
pub struct SourcesAgain<'a> {
    pub plan: &'a Plan,
    pub sink: &'a dyn Sink,
    pub rejects: &'a Rejects,
    pub committed: &'a [Committed],
    /// Where the rows stood that were given last.
    given: Option<SpoolReader>,
    /// What was refused: by piece, how many.
    pub refused: BTreeMap<usize, u64>,
    /// The same as records for the reject files.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> SourcesAgain<'a> {
    pub fn new(
        plan: &'a Plan,
        sink: &'a dyn Sink,
        rejects: &'a Rejects,
        committed: &'a [Committed],
    ) -> Self {
        let refused = BTreeMap::new();
        Self { plan, sink, rejects, committed, given: None, refused, records: Vec::new() }
    }

    /// The piece that a record belongs to. Of a file that is read on, several pieces took what came;
    /// which one took this record is not known here, and one is as good as another.
    fn piece_of(&self, table: usize, row: &SourceRow) -> Option<usize> {
        let holds = |ranges: &[FileRange]| {
            ranges.iter().any(|range| {
                range.file == row.file && (range.start..range.end).contains(&row.offset)
            })
        };
        let mut pieces = self.committed.iter().filter(|piece| piece.table == table);
        let found = pieces.find(|piece| holds(&piece.portion.ranges));
        let has_rows = |piece: &&Committed| {
            let taken = self.refused.get(&piece.piece).copied().unwrap_or(0);
            piece.table == table && piece.rows > taken
        };
        let of_stream = || self.committed.iter().find(has_rows).map(|piece| piece.piece);
        found.map(|piece| piece.piece).or_else(of_stream)
    }
}

impl Reread for SourcesAgain<'_> {
    fn rows(
        &mut self,
        table: usize,
        columns: &[usize],
        is_wanted: &IsWanted<'_>,
        take: &mut dyn FnMut(TextRows<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut out = Out {
            encoder: self.sink.encoder(self.plan, table, Lane::Text)?,
            places: Spool::new(&self.plan.run_dir, ODD_BYTES_IN_MEMORY),
            lines: Vec::new(),
            rows: 0,
            rejected: self.rejects.places_of(table),
            lineage: &self.plan.tables[table].lineage,
            take,
        };
        match &self.plan.tables[table].format {
            Format::Delimited(dialect) => {
                self.text_rows(table, dialect, columns, is_wanted, &mut out)?;
            }
            Format::Columnar(_) => self.columnar_rows(table, columns, is_wanted, &mut out)?,
        }
        out.flush()?;
        self.given = Some(out.places.into_reader(2)?);
        Ok(())
    }

    fn room(&self) -> u64 {
        let loaded: u64 = self.committed.iter().map(|piece| piece.rows).sum();
        let refused: u64 = self.refused.values().sum();
        self.rejects.room(loaded.saturating_sub(refused))
    }

    fn refuse(&mut self, table: usize, mut refusals: Vec<Refusal>) -> Result<Vec<(usize, u64)>> {
        refusals.sort_by_key(|refusal| refusal.row);
        let mut given = self.given.take().expect("rows were given before some are refused");
        let mut at = 0;
        let mut pieces: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for refusal in refusals {
            let record = loop {
                let record = given.next()?.expect("no more rows are refused than were given");
                at += 1;
                if at > refusal.row {
                    break record;
                }
            };
            let [place, raw] = <[Vec<u8>; 2]>::try_from(record).expect("two parts were written");
            let row = SourceRow::from_bytes(&place, raw);
            let piece = self.piece_of(table, &row).ok_or_else(|| {
                Error::usage("a row that is rejected belongs to no piece of the run")
            })?;
            let (record, too_many) =
                self.rejects.late(self.plan, table, Reject::refused(row, refusal));
            pieces.entry(piece).or_default().push(self.records.len());
            self.records.push(record);
            *self.refused.entry(piece).or_default() += 1;
            if let Some(error) = too_many {
                return Err(error);
            }
        }
        let loaded: u64 = self.committed.iter().map(|piece| piece.rows).sum();
        let refused: u64 = self.refused.values().sum();
        self.rejects.check_limit(loaded.saturating_sub(refused))?;
        for (piece, records) in &pieces {
            let its = self.committed.iter().find(|committed| committed.piece == *piece);
            let before = its.map_or(0, |committed| committed.portion.rejected);
            // Those of a table before it are in none of its files.
            let records = records.iter().map(|record| &self.records[*record]);
            self.rejects.save_more(self.plan, *piece, before, records)?;
        }
        Ok(pieces.into_iter().map(|(piece, records)| (piece, records.len() as u64)).collect())
    }
}

impl SourcesAgain<'_> {
    fn text_rows(
        &self,
        table: usize,
        dialect: &Dialect,
        columns: &[usize],
        is_wanted: &IsWanted<'_>,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let found = &self.plan.tables[table];
        let transform = found.transform.as_ref();
        // Expressions need all that they name.
        let shape = match transform {
            Some(_) => found.read_shape(Lane::Binary),
            None => some_of(&found.read_shape(Lane::Binary), columns),
        };
        let mut as_text = parser_for(found, dialect, Lane::Text);
        for (file, source) in found.files.iter().enumerate() {
            let is_seekable = source.is_seekable();
            if is_seekable && source.end() <= source.data_start {
                continue;
            }
            let end = if is_seekable { source.end() } else { u64::MAX };
            let range = FileRange { file, start: source.data_start, end };
            let files = found.files.clone();
            let limit = self.plan.max_field_bytes;
            let feed = RangeFeed::new(files, vec![range], dialect.clone(), limit);
            let threads = (source.size / BYTES_PER_THREAD).clamp(1, self.plan.parsers as u64);
            let parsers = (0..threads).map(|_| Parser::new(dialect.clone(), shape.clone()));
            // What is read on counts from the file's first line by itself.
            let skipped = if is_seekable { source.data_start_lines } else { 0 };
            let mut lines = 0;
            // Most rows are asked about and not wanted: by all threads.
            let judge = |ahead: Ahead| {
                let Ahead { mut batch, records: mut rows, .. } = ahead;
                if let Some(transform) = transform {
                    let applied = transform.apply(&batch, Lane::Binary)?;
                    transformed::keep(applied.kept.as_deref(), &mut rows);
                    batch = picked(applied.batch, columns)?;
                }
                let wanted = match batch.num_rows() {
                    0 => Vec::new(),
                    _ => is_wanted(&batch)?,
                };
                let rows = rows.into_iter().zip(wanted);
                let mut records = ahead.odd;
                records.extend(rows.filter(|(_, wanted)| *wanted).map(|(record, _)| record));
                records.sort_unstable_by_key(|record| record.start);
                Ok((ahead.block, records, ahead.lines))
            };
            ahead::parse_in_order(feed, parsers.collect(), &judge, &mut |judged| {
                let (mut block, mut records, its_lines) = judged;
                let first = block.first_line.unwrap_or(lines + 1);
                block.first_line = Some(skipped + first);
                block.line_of_file = block.first_line;
                lines = first - 1 + its_lines;
                records
                    .retain(|record| !out.is_rejected((file, block.offset + record.start as u64)));
                if records.is_empty() {
                    return Ok(block);
                }
                let part = block.of_records(&records);
                let mut batch = as_text.parse(&part).batch;
                // Some may be no rows for the sake of other columns.
                let mut rows: Vec<usize> =
                    as_text.parsed_records(&part).into_iter().map(|row| row.start).collect();
                if let Some(transform) = transform {
                    let applied = transform.apply(&batch, Lane::Text)?;
                    transformed::keep(applied.kept.as_deref(), &mut rows);
                    batch = applied.batch;
                }
                let rows: HashSet<usize> = rows.into_iter().collect();
                let mut at = 0;
                records.retain(|record| {
                    at += record.len();
                    rows.contains(&(at - record.len()))
                });
                let mut stood = Records::of(&block);
                let rows: Vec<SourceRow> =
                    records.into_iter().map(|record| stood.at(record)).collect();
                let numbers: Vec<u64> = rows.iter().map(|row| row.line).collect();
                let path = path_of(self.plan, table, file);
                let anchor = Anchor::default();
                let places = Places { file: &path, lines: &numbers, anchor };
                let batch = found.lineage.extend(&batch, Lane::Text, &places)?;
                out.give(&batch, vec![true; rows.len()], rows.into_iter())?;
                Ok(block)
            })?;
        }
        Ok(())
    }

    fn columnar_rows(
        &self,
        table: usize,
        columns: &[usize],
        is_wanted: &IsWanted<'_>,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let found = &self.plan.tables[table];
        let mut ranges: Vec<FileRange> = Vec::new();
        for piece in self.plan.pieces.iter().filter(|piece| piece.table == table) {
            if let PieceInput::Rows(its) = &piece.input {
                ranges.extend_from_slice(its);
            }
        }
        ranges.sort_by_key(|range| (range.file, range.start));
        let reading = || Reading::alone(found.read_shape(Lane::Binary), self.plan.max_field_bytes);
        let feed = || RowFeed::new(found.files.clone(), ranges.clone(), reading());
        let (mut typed, mut as_text) = (feed(), feed());
        // Both give the same rows at a time, but for those that are none in one of these forms.
        while let (Fed::Rows(typed), Fed::Rows(text)) =
            (typed.next(Lane::Binary)?, as_text.next(Lane::Text)?)
        {
            let file = text.file;
            let (mut typed, mut text) = (typed, text);
            if let Some(transform) = &found.transform {
                for (rows, lane) in [(&mut typed, Lane::Binary), (&mut text, Lane::Text)] {
                    let applied = transform.apply(&rows.batch, lane)?;
                    transformed::keep(applied.kept.as_deref(), &mut rows.numbers);
                    rows.batch = applied.batch;
                }
            }
            let batch = picked(typed.batch, columns)?;
            let wanted = typed.numbers.into_iter().zip(is_wanted(&batch)?);
            let wanted: HashMap<u64, bool> = wanted.collect();
            let mut places = Vec::new();
            let mut mask = Vec::with_capacity(text.numbers.len());
            for offset in &text.numbers {
                let offset = *offset;
                let is_wanted = wanted.get(&offset).copied().unwrap_or(true);
                mask.push(is_wanted && !out.is_rejected((file, offset)));
                if mask.last() == Some(&true) {
                    places.push(SourceRow { file, offset, line: 0, raw: Vec::new() });
                }
            }
            let lines: Vec<u64> = text.numbers.iter().map(|number| number + 1).collect();
            let path = path_of(self.plan, table, file);
            let from = Places { file: &path, lines: &lines, anchor: Anchor::default() };
            let text = found.lineage.extend(&text.batch, Lane::Text, &from)?;
            out.give(&text, mask, places.into_iter())?;
        }
        Ok(())
    }
}

/// These columns of a batch alone; all of them where there are none.
fn picked(batch: RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
    match columns.is_empty() {
        true => Ok(batch),
        false => batch.project(columns).map_err(not_picked),
    }
}

fn not_picked(error: ArrowError) -> Error {
    Error::usage(format!("rows could not be picked: {error}"))
}

/// These columns of a shape alone; all of them where there are none.
fn some_of(shape: &Arc<ParseShape>, columns: &[usize]) -> Arc<ParseShape> {
    if columns.is_empty() {
        return shape.clone();
    }
    let columns = columns.iter().map(|number| shape.columns[*number].clone()).collect();
    Arc::new(ParseShape { columns, ..ParseShape::clone(shape) })
}

/// Where records go that may be wanted.
struct Out<'a> {
    encoder: Box<dyn Encoder>,
    /// Where they stood: place and record each.
    places: Spool,
    lines: Vec<u8>,
    rows: u64,
    rejected: HashSet<(usize, u64)>,
    lineage: &'a Lineage,
    take: &'a mut dyn FnMut(TextRows<'_>) -> Result<()>,
}

impl Out<'_> {
    fn is_rejected(&self, place: (usize, u64)) -> bool {
        self.rejected.contains(&place)
    }

    /// Gives the rows of a batch of text that the mask holds.
    fn give(
        &mut self,
        batch: &RecordBatch,
        mask: Vec<bool>,
        rows: impl Iterator<Item = SourceRow>,
    ) -> Result<()> {
        if !mask.contains(&true) {
            return Ok(());
        }
        let kept = arrow_select::filter::filter_record_batch(batch, &BooleanArray::from(mask))
            .map_err(not_picked)?;
        let before = self.lines.len();
        self.encoder.encode(&kept, &mut self.lines)?;
        let mut lines = self.lines[before..].split_inclusive(|byte| *byte == b'\n');
        for row in rows {
            let line = lines.next().unwrap_or_default();
            // A source without raw rows: what is sent stands for it.
            let raw = match row.raw.is_empty() {
                true => self.lineage.stripped(line),
                false => row.raw.clone(),
            };
            self.places.push(&[&row.to_bytes(), &raw])?;
        }
        self.rows += kept.num_rows() as u64;
        match self.lines.len() >= CHUNK_BYTES || self.rows as usize >= JUDGED_ROWS_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows > 0 {
            (self.take)(TextRows { parts: &[&self.lines], rows: self.rows })?;
        }
        self.lines.clear();
        self.rows = 0;
        Ok(())
    }
}
