//! Checksums of a piece's rows that do not depend on their order; client and server compute the same.
//!
//! Each value has a 32-bit hash, and [`Sums`] adds these up per column. This finds every changed value,
//! but not two values that swapped rows. So each row also has a mark, a weighted sum of its hashes, and
//! the *squares* of the marks are added: a value that moves to another row changes two marks by opposite
//! amounts, but their squares differently. For each column the same sum without it is kept: the one that
//! is still right names the column with swapped values.

use serde::{Deserialize, Serialize};

/// What is known of some rows. Additions are modulo 2^64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    pub rows: u64,
    /// Of the squares of the rows' marks.
    pub row: u64,
    /// In the order in which columns are sent.
    pub columns: Vec<ColumnSums>,
}

/// What is known of one column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSums {
    /// Of the values' hashes.
    pub sum: u64,
    pub nulls: u64,
    /// As [`Sums::row`], without this column.
    pub without: u64,
    /// The least and the greatest value, or length of a value, as whole numbers; none where the
    /// column's type has no such order, or all values are NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<(i64, i64)>,
}

impl Sums {
    pub fn of_columns(columns: usize) -> Self {
        Self { columns: vec![ColumnSums::default(); columns], ..Self::default() }
    }

    /// Adds what is known of other rows of the same columns.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.row = self.row.wrapping_add(other.row);
        if self.columns.is_empty() {
            self.columns.clone_from(&other.columns);
            return;
        }
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.sum = column.sum.wrapping_add(other.sum);
            column.nulls += other.nulls;
            column.without = column.without.wrapping_add(other.without);
            column.extent = joined(column.extent, other.extent);
        }
    }

    /// Takes out what is known of some of these rows. Their least and greatest values stay known where
    /// they are not those of the whole.
    pub fn take_out(&mut self, some: &Self) {
        self.rows = self.rows.wrapping_sub(some.rows);
        self.row = self.row.wrapping_sub(some.row);
        for (column, some) in self.columns.iter_mut().zip(&some.columns) {
            column.sum = column.sum.wrapping_sub(some.sum);
            column.nulls = column.nulls.wrapping_sub(some.nulls);
            column.without = column.without.wrapping_sub(some.without);
            let touches = match (column.extent, some.extent) {
                (Some((low, high)), Some((its_low, its_high))) => {
                    its_low <= low || its_high >= high
                }
                _ => false,
            };
            if touches {
                column.extent = None;
            }
        }
    }
}

fn joined(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(rows: u64, sum: u64, extent: Option<(i64, i64)>) -> Sums {
        let column = ColumnSums { sum, nulls: 1, without: sum ^ 5, extent };
        Sums { rows, row: sum ^ 3, columns: vec![column] }
    }

    #[test]
    fn what_is_taken_out_is_as_if_it_had_never_been_there() {
        let (inner, outer) = (sums(2, 7, Some((1, 2))), sums(1, u64::MAX, Some((-5, 9))));
        let mut whole = inner.clone();
        whole.merge(&outer);
        let mut left = whole.clone();
        left.take_out(&inner);
        assert_eq!(left, outer);
        // What is left has ends of its own, which nobody knows any more.
        whole.take_out(&outer);
        assert_eq!(whole.columns[0].extent, None);
        whole.columns[0].extent = inner.columns[0].extent;
        assert_eq!(whole, inner);
    }

    #[test]
    fn parts_make_the_whole_in_any_order() {
        let parts =
            [sums(1, u64::MAX, Some((-5, 2))), sums(2, 7, None), sums(3, 1 << 63, Some((0, 9)))];
        let join = |order: [usize; 3]| {
            let mut whole = Sums::default();
            order.iter().for_each(|part| whole.merge(&parts[*part]));
            whole
        };
        let whole = join([0, 1, 2]);
        assert_eq!((whole.rows, whole.columns[0].nulls), (6, 3));
        assert_eq!(whole.columns[0].extent, Some((-5, 9)));
        assert_eq!(whole.columns[0].sum, (1 << 63) + 6);
        assert_eq!(join([2, 0, 1]), whole);
        let text = serde_json::to_string(&whole).expect("plain data becomes JSON");
        assert_eq!(serde_json::from_str::<Sums>(&text).expect("as it was written"), whole);
    }
}
