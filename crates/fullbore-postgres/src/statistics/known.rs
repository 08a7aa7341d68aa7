//! What is known of tables while a run loads them: how their statistics are made, and those that are.

use std::collections::{BTreeMap, BTreeSet};

use fullbore_read::error::Result;

use super::column::{ColumnStatistics, column_statistics};
use super::sketch::{Column, Sketch};

/// How a table's statistics are made by the client.
#[derive(Debug, Clone)]
pub struct Made {
    pub columns: Vec<Column>,
    /// How many values are listed of a column at most.
    pub target: usize,
}

/// A table's statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStatistics {
    pub rows: u64,
    pub columns: Vec<ColumnStatistics>,
}

impl TableStatistics {
    pub fn of(sketch: &Sketch, target: usize) -> Result<Option<Self>> {
        let Some(sample) = sketch.sample.rows()? else { return Ok(None) };
        let columns = sketch.columns.iter().zip(&sketch.tallies).zip(sample.columns());
        let made = columns.map(|((column, tally), array)| {
            column_statistics(column, tally, sketch.rows, array.as_ref(), target)
        });
        Ok(Some(Self { rows: sketch.rows, columns: made.collect::<Result<_>>()? }))
    }
}

/// What is known of a table's pieces, and of all of them together.
#[derive(Default)]
pub struct Gathered {
    /// Of those that become partitions.
    pub pieces: BTreeMap<usize, TableStatistics>,
    pub whole: Option<Sketch>,
    /// The pieces whose tables have theirs; none stands for the whole.
    pub given: BTreeSet<Option<usize>>,
}
