//! How much a job has to load, after decompression.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fullbore_load::plan::{PieceInput, Plan, PlannedPiece};
use fullbore_read::decompress::unpack;
use fullbore_read::{Pace, SourceFile};
use fullbore_record::TableTotals;

/// Of so many packed files the beginning is unpacked; the others are taken to be like these.
const UNPACKED_FILES_MAX: usize = 64;
/// How far.
const UNPACKED_BYTES: u64 = 8 << 20;

/// Source bytes of the whole job; what is packed is reckoned from the beginnings of its files, rows of
/// Parquet from those that were `sampled`.
pub fn source_bytes(plan: &Plan, sampled: &[TableTotals]) -> u64 {
    let packed = Packed::of(plan);
    let of_piece = |piece: &PlannedPiece| {
        let files = &plan.tables[piece.table].files;
        match &piece.input {
            PieceInput::Stream { file } => packed.text_bytes(&files[*file]),
            PieceInput::Ranges(ranges) => ranges
                .iter()
                .map(|range| match files[range.file].is_seekable() {
                    true => (range.end - range.start) as f64,
                    // To its end, wherever that is.
                    false => packed.text_bytes(&files[range.file]),
                })
                .sum(),
            PieceInput::Rows(ranges) => {
                let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                rows as f64 * sampled.get(piece.table).map_or(0.0, per_row)
            }
        }
    };
    plan.pieces.iter().map(of_piece).sum::<f64>() as u64
}

/// Source bytes of a row of a table.
pub fn per_row(totals: &TableTotals) -> f64 {
    totals.bytes_sent as f64 / totals.rows_sent.max(1) as f64
}

/// What becomes of packed files.
struct Packed<'a> {
    /// Bytes of text for a byte of the file, by file.
    growth: HashMap<&'a Path, f64>,
    /// Of the others.
    usual: f64,
}

impl<'a> Packed<'a> {
    fn of(plan: &'a Plan) -> Self {
        let all = plan.tables.iter().flat_map(|table| &table.files);
        let packed: Vec<&Arc<SourceFile>> =
            all.filter(|file| file.is_regular && !file.is_seekable()).collect();
        let step = packed.len().div_ceil(UNPACKED_FILES_MAX).max(1);
        let (mut growth, mut from, mut to) = (HashMap::new(), 0, 0);
        for file in packed.into_iter().step_by(step) {
            // What can't be unpacked is told by what reads it in earnest.
            let Ok((bytes, text)) = unpacked(file) else { continue };
            growth.insert(file.path.as_path(), text as f64 / bytes.max(1) as f64);
            (from, to) = (from + bytes, to + text);
        }
        Self { growth, usual: if from == 0 { 1.0 } else { to as f64 / from as f64 } }
    }

    fn text_bytes(&self, file: &SourceFile) -> f64 {
        file.size as f64 * self.growth.get(file.path.as_path()).copied().unwrap_or(self.usual)
    }
}

/// The beginning of a packed file: its bytes, and those of its text.
fn unpacked(file: &SourceFile) -> io::Result<(u64, u64)> {
    let taken: Arc<AtomicU64> = Arc::default();
    let opened = file.open_range(0..file.size, Pace::Ramp).map_err(io::Error::other)?;
    let raw = Counted { file: opened, taken: taken.clone() };
    let text = unpack(file, file.packing, Box::new(raw)).map_err(io::Error::other)?;
    let text = io::copy(&mut text.take(UNPACKED_BYTES), &mut io::sink())?;
    Ok((taken.load(Ordering::Relaxed), text))
}

/// A file that counts what is read of it.
struct Counted {
    file: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
