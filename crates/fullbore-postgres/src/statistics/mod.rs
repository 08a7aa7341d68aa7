//! Statistics that the client makes of all rows and gives to the server (`pg_restore_attribute_stats`, from 18
//! on), where that costs less than ANALYZE: of partitions and their parent, which ANALYZE reads one by one.
//!
//! While rows pass, parsers note of each piece ([`sketch`]) how many different values its columns have
//! ([`distinct`]), NULLs and widths, and draw a sample ([`sample`]). Once a piece is committed, its statistics are
//! made of that ([`known`], [`mod@column`], with values in the server's order: [`order`]). They are given ([`give`]) to its
//! table before that is visible, and those of the whole to the parent. [`choice`] decides who makes them.
//!
//! What is not known, since another process has loaded it, is left to ANALYZE.

pub mod choice;
pub mod column;
mod distinct;
pub mod give;
pub mod known;
pub mod order;
mod sample;
pub mod sketch;

use std::sync::Arc;

use fullbore_load::plan::Plan;
use fullbore_load::sink::{Committed, Gatherer, Gathers};
use fullbore_pgwire::QualifiedName;
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use crate::postgres::Postgres;
use give::Gift;
use known::{Made, TableStatistics};
use sketch::Sketch;

/// Rows of a table that are sampled for each value that may be listed, as ANALYZE does.
const SAMPLED: usize = 300;
/// Of a piece at least so many, for a part of its own histogram.
const SAMPLED_OF_PIECE: usize = 30;
/// Rows that the server judged are not noted: so many of a hundred may be.
const UNNOTED_PERCENT: u64 = 1;

impl Gathers for Postgres {
    fn gatherer(&self, plan: &Plan, table: usize) -> Option<Box<dyn Gatherer>> {
        let Made { columns, target } = self.targets()[table].statistics.as_ref()?;
        // Together they are the parent's sample.
        let pieces = plan.pieces.iter().filter(|piece| piece.table == table).count().max(1);
        let rows = (SAMPLED / pieces).max(SAMPLED_OF_PIECE) * target;
        Some(Box::new(Sketch::new(Arc::from(columns.as_slice()), rows)))
    }

    fn gathered(&self, piece: &Committed, noted: Vec<Box<dyn Gatherer>>) {
        let Some(Made { target, .. }) = &self.targets()[piece.table].statistics else { return };
        let sketches = noted.into_iter().filter_map(|noted| noted.into_any().downcast().ok());
        let sketches = sketches.map(|sketch: Box<Sketch>| *sketch);
        // Without them there is ANALYZE.
        if let Err(error) = self.note_piece(piece, sketches.collect(), *target) {
            tracing::warn!("piece {} has no statistics: {error}", piece.piece);
        }
    }
}

impl Postgres {
    fn note_piece(&self, piece: &Committed, sketches: Vec<Sketch>, target: usize) -> Result<()> {
        let mut sketches = sketches.into_iter();
        let Some(mut sketch) = sketches.next() else { return Ok(()) };
        for other in sketches {
            sketch.merge(&other, 0)?;
        }
        if !is_known(&sketch, piece.rows) {
            return Ok(());
        }
        // Partitions stand one after the other; in one heap rows have the order in which they came.
        let (part, made) = match self.targets()[piece.table].publish {
            Publish::Partitions => (piece.piece as u64, TableStatistics::of(&sketch, target)?),
            _ => (0, None),
        };
        let mut gathered = self.lock_gathered();
        let known = gathered.entry(piece.table).or_default();
        known.pieces.extend(made.map(|made| (piece.piece, made)));
        let whole = known
            .whole
            .get_or_insert_with(|| Sketch::new(Arc::clone(&sketch.columns), SAMPLED * target));
        whole.merge(&sketch, part)
    }

    /// The statistics of a table's pieces, as far as they are known.
    pub(crate) fn gifts_of_pieces(&self, plan: &Plan, table: usize) -> Result<Vec<Gift>> {
        let gathered = self.lock_gathered();
        let pieces = gathered.get(&table).into_iter().flat_map(|known| &known.pieces);
        let gift = |(piece, statistics): (&usize, &TableStatistics)| {
            let name = self.targets()[table].piece(plan, *piece)?;
            let piece = Some(*piece);
            let statistics = statistics.clone();
            Ok(Gift { table, piece, name, statistics, is_parent: false, is_frozen: true })
        };
        pieces.map(gift).collect()
    }

    /// The statistics of all of a table's rows, where all that were committed are known.
    pub(crate) fn gift_of_whole(
        &self,
        table: usize,
        name: &QualifiedName,
        committed: &[Committed],
    ) -> Option<Gift> {
        let target = &self.targets()[table];
        let Made { target: listed, .. } = target.statistics.as_ref()?;
        let gathered = self.lock_gathered();
        let whole = gathered.get(&table)?.whole.as_ref()?;
        let its = committed.iter().filter(|piece| piece.table == table);
        if !is_known(whole, its.map(|piece| piece.rows).sum()) {
            return None;
        }
        // Without them there is ANALYZE.
        let made = TableStatistics::of(whole, *listed).unwrap_or_else(|error| {
            tracing::warn!("{name} has no statistics: {error}");
            None
        });
        let is_parent = target.publish == Publish::Partitions;
        let name = name.clone();
        // Into one heap several sessions can't freeze rows.
        let is_frozen = target.has_one_session();
        made.map(|statistics| Gift { table, piece: None, name, statistics, is_parent, is_frozen })
    }

    /// Whether the table of a piece has its statistics, or the whole.
    pub(crate) fn is_given(&self, table: usize, piece: Option<usize>) -> bool {
        self.lock_gathered().get(&table).is_some_and(|known| known.given.contains(&piece))
    }

    pub(crate) fn note_given(&self, table: usize, piece: Option<usize>) {
        self.lock_gathered().entry(table).or_default().given.insert(piece);
    }
}

/// Whether what is noted stands for so many rows.
fn is_known(sketch: &Sketch, rows: u64) -> bool {
    sketch.rows.abs_diff(rows) * 100 <= rows * UNNOTED_PERCENT
}
