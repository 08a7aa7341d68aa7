//! Rows encoded for a destination and then thrown away, or kept in memory to be sent later: what parsing
//! and encoding cost without the server, and what the server takes without them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fullbore_load::plan::{Plan, PlannedPiece};
use fullbore_load::sink::{
    Committed, Counting, Encoder, Judging, Portion, Receipt, Refusal, Sink, TextRows, Writer,
};
use fullbore_parse::Lane;
use fullbore_read::error::Result;
use fullbore_record::Phase;

/// Rows as they are sent.
pub enum Rows {
    Typed {
        encoded: Vec<u8>,
        rows: u64,
    },
    /// Lines of COPY text, for the server to judge.
    Text {
        lines: Vec<u8>,
        rows: u64,
    },
}

impl Rows {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Typed { encoded, .. } => encoded.len(),
            Self::Text { lines, .. } => lines.len(),
        }
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::Typed { rows, .. } | Self::Text { rows, .. } => *rows,
        }
    }
}

/// A piece, or the beginning of one.
pub struct KeptPiece {
    pub piece: PlannedPiece,
    pub rows: Vec<Rows>,
}

/// How much is kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    pub bytes: usize,
    pub piece_bytes: usize,
}

/// A destination's encoders without the destination.
pub struct Encoded<'a> {
    of: &'a dyn Sink,
    /// What is kept, and how much may be; `None` throws all away.
    keep: Option<(Room, Mutex<Memory>)>,
    /// Set once there is no room left.
    full: Arc<AtomicBool>,
}

#[derive(Default)]
struct Memory {
    pieces: BTreeMap<usize, KeptPiece>,
    bytes: usize,
}

impl<'a> Encoded<'a> {
    pub fn thrown_away(of: &'a dyn Sink) -> Self {
        Self { of, keep: None, full: Arc::default() }
    }

    pub fn kept(of: &'a dyn Sink, room: Room, full: &Arc<AtomicBool>) -> Self {
        Self { of, keep: Some((room, Mutex::default())), full: full.clone() }
    }

    pub fn into_pieces(self) -> Vec<KeptPiece> {
        let Some((_, kept)) = self.keep else { return Vec::new() };
        let kept = kept.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        kept.pieces.into_values().filter(|piece| !piece.rows.is_empty()).collect()
    }

    fn take(&self, piece: &PlannedPiece, rows: impl FnOnce() -> Rows) {
        let Some((room, kept)) = &self.keep else { return };
        let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let its = kept
            .pieces
            .entry(piece.number)
            .or_insert_with(|| KeptPiece { piece: piece.clone(), rows: Vec::new() });
        if its.rows.iter().map(Rows::bytes).sum::<usize>() >= room.piece_bytes {
            return;
        }
        let rows = rows();
        let bytes = rows.bytes();
        its.rows.push(rows);
        kept.bytes += bytes;
        if kept.bytes >= room.bytes {
            self.full.store(true, Ordering::Relaxed);
        }
    }
}

impl Sink for Encoded<'_> {
    fn prepare(&self, _: &Plan) -> Result<()> {
        Ok(())
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        let inner = self.of.encoder(plan, table, lane)?;
        Ok(match lane {
            Lane::Binary => Box::new(Counting(inner)),
            // Whoever judges text is told how many rows it is.
            Lane::Text => inner,
        })
    }

    fn open<'a>(&'a self, _: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(Taking { encoded: self, piece: None, receipt: Receipt::default() }))
    }

    fn publish(&self, _: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        Ok(Vec::new())
    }

    fn abort(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }
}

struct Taking<'a> {
    encoded: &'a Encoded<'a>,
    piece: Option<PlannedPiece>,
    receipt: Receipt,
}

impl Taking<'_> {
    fn take(&mut self, rows: u64, bytes: usize, kept: impl FnOnce() -> Rows) {
        self.receipt.rows += rows;
        self.receipt.bytes_sent += bytes as u64;
        if let Some(piece) = &self.piece {
            self.encoded.take(piece, kept);
        }
    }
}

impl Writer for Taking<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        self.piece = Some(piece.clone());
        self.receipt = Receipt::default();
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        let Some((rows, encoded)) = Counting::apart(encoded) else { return Ok(()) };
        self.take(rows, encoded.len(), || Rows::Typed { encoded: encoded.to_vec(), rows });
        Ok(())
    }

    fn judging(&mut self) -> Option<&mut dyn Judging> {
        Some(self)
    }

    fn commit(&mut self, _: &Portion) -> Result<Receipt> {
        self.piece = None;
        Ok(self.receipt)
    }

    fn rollback(&mut self) -> Result<()> {
        self.piece = None;
        Ok(())
    }
}

impl Judging for Taking<'_> {
    /// Every row is judged by itself anyway.
    fn begin_row_by_row(&mut self, piece: &PlannedPiece, _: &str) -> Result<()> {
        self.begin(piece)
    }

    /// Nobody judges here: all are taken.
    fn judge(&mut self, text: TextRows<'_>) -> Result<Vec<Refusal>> {
        let bytes = text.parts.iter().map(|part| part.len()).sum();
        self.take(text.rows, bytes, || Rows::Text { lines: text.parts.concat(), rows: text.rows });
        Ok(Vec::new())
    }
}
