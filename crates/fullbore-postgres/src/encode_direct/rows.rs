//! Rows of a batch, written one after the other as tuple bodies.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_buffer::NullBuffer;

use super::column::{Column, Known};
use super::layout::Layout;
use super::prepared::Prepared;
use crate::cursor::Place;

/// The bit of a row's length that tells of a bitmap.
const HAS_BITMAP: u16 = 0x8000;
/// The length, and what stands before the data of a row without NULLs.
const HEAD_BYTES: usize = 2 + 1;

/// A batch whose rows are laid out.
pub struct Rows<'a> {
    columns: Vec<Column<'a>>,
    /// Those whose values vary in length.
    counted: Vec<usize>,
    /// Valid where no value of the row is NULL; `None` where none is in the whole batch.
    whole: Option<NullBuffer>,
    bitmap_bytes: usize,
    body_bytes_max: usize,
    /// Rows with a value that can't be laid out here; empty where there is none.
    unknown: Vec<bool>,
    /// No row is longer, what its length takes included.
    row_bytes_max: usize,
    /// Every row is known to be short enough, and to have values that can be laid out.
    all_fit: bool,
}

impl<'a> Rows<'a> {
    pub fn new(layout: &Layout, prepared: &'a [Prepared], batch: &'a RecordBatch) -> Self {
        let mut known = Known::START;
        let columns: Vec<Column<'a>> = layout
            .columns
            .iter()
            .zip(prepared)
            .map(|(column, prepared)| Column::new(column, prepared, batch, &mut known))
            .collect();
        let whole = columns
            .iter()
            .filter_map(|column| column.nulls)
            .fold(None, |all, nulls| NullBuffer::union(all.as_ref(), Some(nulls)));
        let unknown = unknown(prepared, &columns, batch.num_rows());
        let maxima: Vec<Option<usize>> = columns.iter().map(Column::counted_max).collect();
        let counted = (0..columns.len()).filter(|column| maxima[*column].is_some()).collect();
        let overhead: usize =
            layout.bitmap_bytes.max(1) + columns.iter().map(Column::overhead_bytes).sum::<usize>();
        let longest = maxima.into_iter().flatten().sum::<usize>();
        Self {
            all_fit: unknown.is_empty() && overhead + longest <= layout.body_bytes_max,
            // Longer ones are put aside before they are written.
            row_bytes_max: HEAD_BYTES + overhead + longest.min(layout.body_bytes_max),
            counted,
            whole,
            bitmap_bytes: layout.bitmap_bytes,
            body_bytes_max: layout.body_bytes_max,
            unknown,
            columns,
        }
    }

    pub fn row_bytes_max(&self) -> usize {
        self.row_bytes_max
    }

    /// Writes rows; those that must travel out of band are put `aside`.
    pub fn write(&self, rows: Range<usize>, place: Place, aside: &mut Vec<u32>) -> Place {
        #[cfg(target_arch = "x86_64")]
        {
            /// The same, compiled for processors of 2013 and later.
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
            fn write(
                all: &Rows<'_>,
                rows: Range<usize>,
                place: Place,
                aside: &mut Vec<u32>,
            ) -> Place {
                all.write_plainly(rows, place, aside)
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
            {
                // SAFETY: the processor has the instructions.
                return unsafe { write(self, rows, place, aside) };
            }
        }
        self.write_plainly(rows, place, aside)
    }

    #[inline(always)]
    fn write_plainly(&self, rows: Range<usize>, mut place: Place, aside: &mut Vec<u32>) -> Place {
        match (&self.whole, self.all_fit) {
            (None, true) => {
                for row in rows {
                    place = self.write_whole(row, place);
                }
            }
            (Some(whole), true) => {
                for row in rows {
                    place = match whole.is_valid(row) {
                        true => self.write_whole(row, place),
                        false => self.write_with_nulls(row, place),
                    };
                }
            }
            (_, false) => {
                for row in rows {
                    place = self.write_checked(row, place, aside);
                }
            }
        }
        place
    }

    #[inline(always)]
    fn write_whole(&self, row: usize, place: Place) -> Place {
        let body = place.put([0; 2]);
        let start = body.put([0]);
        let mut end = start;
        for column in &self.columns {
            end = column.write(row, start, end);
        }
        place.put((end.since(body) as u16).to_le_bytes());
        end
    }

    #[inline(always)]
    fn write_with_nulls(&self, row: usize, place: Place) -> Place {
        let body = place.put([0; 2]);
        let mut start = body;
        for _ in 0..self.bitmap_bytes {
            start = start.put([0]);
        }
        let (mut end, mut bitmap) = (start, body);
        for columns in self.columns.chunks(8) {
            let mut bits = 0u8;
            for (at, column) in columns.iter().enumerate() {
                if column.nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    end = column.write(row, start, end);
                    bits |= 1 << at;
                }
            }
            bitmap = bitmap.put([bits]);
        }
        place.put((end.since(body) as u16 | HAS_BITMAP).to_le_bytes());
        end
    }

    #[inline(always)]
    fn write_checked(&self, row: usize, place: Place, aside: &mut Vec<u32>) -> Place {
        let mut counted = 0;
        for column in &self.counted {
            counted += self.columns[*column].counted(row);
        }
        if counted <= self.body_bytes_max && !self.unknown.get(row).copied().unwrap_or(false) {
            let end = match &self.whole {
                Some(whole) if whole.is_null(row) => self.write_with_nulls(row, place),
                _ => self.write_whole(row, place),
            };
            if end.since(place) - 2 <= self.body_bytes_max {
                return end;
            }
        }
        aside.push(row as u32);
        place
    }
}

fn unknown(prepared: &[Prepared], columns: &[Column<'_>], rows: usize) -> Vec<bool> {
    let is_unknown = |row| {
        prepared
            .iter()
            .zip(columns)
            .any(|(prepared, column)| prepared.is_unknown(row, column.nulls))
    };
    let labelled = prepared.iter().any(|prepared| matches!(prepared, Prepared::Labels(_)));
    match labelled && (0..rows).any(is_unknown) {
        true => (0..rows).map(is_unknown).collect(),
        false => Vec::new(),
    }
}
