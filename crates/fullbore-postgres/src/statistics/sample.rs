//! A sample of rows that pass, each with the same chance, without knowing how many there will be.
//!
//! Each row has a level: 0 for half of them, 1 for a quarter, and so on. Kept are those of a level and above,
//! and the level rises as often as they become too many. So samples can be joined, and rows that are not
//! kept cost nothing: how many are passed over is drawn once, not for each.

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use fullbore_read::error::{Error, Result};

/// Where a row stood among all, for the order in which rows are stored.
pub type Place = (u64, u32);

#[derive(Debug, Clone, Copy)]
struct Mark {
    level: u32,
    place: Place,
}

struct Part {
    rows: RecordBatch,
    marks: Vec<Mark>,
}

pub struct Sample {
    /// There are at least so many, once twice as many have passed.
    wanted: usize,
    level: u32,
    /// Rows to pass over before the next one that is kept.
    skip: u64,
    parts: Vec<Part>,
    count: usize,
}

impl Sample {
    pub fn new(wanted: usize) -> Self {
        Self { wanted, level: 0, skip: 0, parts: Vec::new(), count: 0 }
    }

    /// Rows until the next one of the level, which a row has with a chance of 1 in 2^level.
    fn draw_skip(&mut self) {
        self.skip = match self.level {
            0 => 0,
            level => {
                let missed = (-(2f64.powi(-(level as i32)))).ln_1p();
                // Above 0, so that its logarithm is a number.
                ((1.0 - fastrand::f64()).ln() / missed) as u64
            }
        };
    }

    /// Looks at the rows of the block `number`.
    pub fn add(&mut self, batch: &RecordBatch, number: u64) -> Result<()> {
        let rows = batch.num_rows() as u64;
        let (mut places, mut marks) = (Vec::new(), Vec::new());
        let mut at = self.skip;
        while at < rows {
            places.push(at as u32);
            let level = self.level + fastrand::u64(..).trailing_zeros();
            marks.push(Mark { level, place: (number, at as u32) });
            self.draw_skip();
            at += 1 + self.skip;
        }
        self.skip = at - rows;
        if places.is_empty() {
            return Ok(());
        }
        let rows = take_record_batch(batch, &UInt32Array::from(places)).map_err(unexpected)?;
        self.count += marks.len();
        self.parts.push(Part { rows, marks });
        self.shrink()
    }

    /// Joins another one, whose rows stood in the part `number` of the whole.
    pub fn merge(&mut self, other: &Self, number: u64) -> Result<()> {
        for Part { rows, marks } in &other.parts {
            let mut marks = marks.clone();
            marks.iter_mut().for_each(|mark| mark.place.0 |= number << PART_SHIFT);
            self.count += marks.len();
            self.parts.push(Part { rows: rows.clone(), marks });
        }
        self.keep(self.level.max(other.level))?;
        self.shrink()
    }

    fn shrink(&mut self) -> Result<()> {
        while self.count > 2 * self.wanted {
            self.keep(self.level + 1)?;
        }
        Ok(())
    }

    /// Keeps the rows of a level and above, in one part.
    fn keep(&mut self, level: u32) -> Result<()> {
        self.level = level;
        let Some(first) = self.parts.first() else {
            self.draw_skip();
            return Ok(());
        };
        let schema = first.rows.schema();
        let mut kept = Vec::new();
        let mut marks = Vec::new();
        for part in self.parts.drain(..) {
            let is_kept = part.marks.iter().map(|mark| mark.level >= level).collect::<Vec<_>>();
            marks.extend(part.marks.iter().filter(|mark| mark.level >= level));
            let filter = BooleanArray::from(is_kept);
            kept.push(filter_record_batch(&part.rows, &filter).map_err(unexpected)?);
        }
        let rows = concat_batches(&schema, &kept).map_err(unexpected)?;
        self.count = marks.len();
        self.parts.push(Part { rows, marks });
        self.draw_skip();
        Ok(())
    }

    /// The rows in the order of their places; none where none passed.
    pub fn rows(&self) -> Result<Option<RecordBatch>> {
        let Some(first) = self.parts.first() else { return Ok(None) };
        let parts = self.parts.iter().map(|part| &part.rows);
        let rows = concat_batches(&first.rows.schema(), parts).map_err(unexpected)?;
        let marks = self.parts.iter().flat_map(|part| &part.marks);
        let places: Vec<Place> = marks.map(|mark| mark.place).collect();
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        order.sort_unstable_by_key(|row| places[*row as usize]);
        Ok(Some(take_record_batch(&rows, &UInt32Array::from(order)).map_err(unexpected)?))
    }
}

/// Where the number of a part stands in the place of a row, above that of its block.
const PART_SHIFT: u32 = 40;

fn unexpected(error: arrow_schema::ArrowError) -> Error {
    Error::usage(format!("rows for statistics: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(from: i64, rows: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
        RecordBatch::try_from_iter([("n", numbers)]).expect("a batch")
    }

    fn numbers(sample: Sample) -> Vec<i64> {
        let rows = sample.rows().expect("rows").expect("some rows");
        rows.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn few_rows_are_all_kept_in_their_order() {
        let (mut first, mut second) = (Sample::new(100), Sample::new(100));
        second.add(&batch(5, 5), 1).expect("rows");
        first.add(&batch(10, 10), 2).expect("rows");
        first.add(&batch(0, 5), 0).expect("rows");
        first.merge(&second, 0).expect("rows");
        assert_eq!(numbers(first), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn each_row_has_the_same_chance_however_rows_were_divided() {
        // Which tenth of 100,000 rows those of 300 samples are from.
        let mut tenths = [0u32; 10];
        for _ in 0..300 {
            let mut whole = Sample::new(100);
            let mut block = 0;
            for (piece, rows) in [60_000, 5_000, 35_000].into_iter().enumerate() {
                let mut sample = Sample::new(50);
                for _ in 0..rows / 500 {
                    sample.add(&batch(block * 500, 500), block as u64).expect("rows");
                    block += 1;
                }
                whole.merge(&sample, piece as u64).expect("rows");
            }
            let kept = numbers(whole);
            assert!(kept.is_sorted() && kept.len() <= 200);
            kept.iter().for_each(|number| tenths[(*number / 10_000) as usize] += 1);
        }
        let all: u32 = tenths.iter().sum();
        let expected = f64::from(all) / 10.0;
        // Five standard deviations; the levels that samples end with differ, so somewhat more.
        let off = 7.0 * expected.sqrt();
        assert!(tenths.iter().all(|n| (f64::from(*n) - expected).abs() < off), "{tenths:?}");
    }
}
