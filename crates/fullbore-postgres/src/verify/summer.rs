//! The sums of a batch.
//!
//! The numbers here are the ones that [`super::sql`] asks the server for. All steps but the hashes
//! are loops over whole columns, which the compiler turns into wide instructions.

use arrow_array::{Array, RecordBatch};
use fullbore_load::sink::Summer;
use fullbore_load::sums::{ColumnSums, Sums};

use super::column::{SummedColumn, hashes};
use super::extent;
use super::hash::{Hash, HashKind, Lookup3, PlainCrc};

/// Marks of rows have so many bits, so that their squares fit a `bigint`.
pub const MARK_MASK: u32 = 0x7fff_ffff;

/// What a column's hashes count in the marks of rows: odd, so that no bit of a hash gets lost, and
/// another one for each column, so that values that change places within a row are noticed.
pub const fn weight(column: usize) -> u32 {
    2 * column as u32 + 3
}

/// Makes the sums of batches of one table.
pub struct BatchSummer {
    kind: HashKind,
    /// Each with hashes that are kept.
    columns: Vec<(SummedColumn, Vec<u32>)>,
    /// Of all columns, one after the other.
    hashes: Vec<u32>,
    marks: Vec<u32>,
}

impl BatchSummer {
    pub fn new(kind: HashKind, columns: Vec<SummedColumn>) -> Self {
        let columns = columns.into_iter().map(|column| (column, Vec::new())).collect();
        Self { kind, columns, hashes: Vec::new(), marks: Vec::new() }
    }

    fn dispatch(&mut self, batch: &RecordBatch) -> Sums {
        #[cfg(target_arch = "x86_64")]
        {
            use super::fast_crc::{FastCrc, is_there};

            /// Compiled for processors of 2013 and later.
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,sse4.2")]
            fn by_crc(summer: &mut BatchSummer, batch: &RecordBatch) -> Sums {
                summer.plainly::<FastCrc>(batch)
            }

            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe")]
            fn by_lookup(summer: &mut BatchSummer, batch: &RecordBatch) -> Sums {
                summer.plainly::<Lookup3>(batch)
            }
            if is_there() {
                return match self.kind {
                    // SAFETY: the processor has the instructions.
                    HashKind::Crc32c => unsafe { by_crc(self, batch) },
                    // SAFETY: it has these, too.
                    HashKind::Lookup3 => unsafe { by_lookup(self, batch) },
                };
            }
        }
        match self.kind {
            HashKind::Crc32c => self.plainly::<PlainCrc>(batch),
            HashKind::Lookup3 => self.plainly::<Lookup3>(batch),
        }
    }

    #[inline(always)]
    fn plainly<H: Hash>(&mut self, batch: &RecordBatch) -> Sums {
        let rows = batch.num_rows();
        let mut sums = Sums::of_columns(self.columns.len());
        sums.rows = rows as u64;
        if rows == 0 {
            return sums;
        }
        self.hashes.clear();
        self.hashes.resize(rows * self.columns.len(), 0);
        self.marks.clear();
        self.marks.resize(rows, 0);
        let columns = self.columns.iter_mut().zip(batch.columns()).enumerate();
        for ((at, ((column, small), array)), values) in
            columns.zip(self.hashes.chunks_exact_mut(rows))
        {
            hashes::<H>(column, small, array.as_ref(), values);
            let mut sum = 0u64;
            let weight = weight(at);
            for (mark, hash) in self.marks.iter_mut().zip(&*values) {
                sum += u64::from(*hash);
                *mark = mark.wrapping_add(hash.wrapping_mul(weight));
            }
            sums.columns[at] = ColumnSums {
                sum,
                nulls: array.null_count() as u64,
                without: 0,
                extent: extent::of(column, array.as_ref()),
            };
        }
        let square = |mark: u32| u64::from(mark & MARK_MASK) * u64::from(mark & MARK_MASK);
        sums.row = self.marks.iter().fold(0, |sum: u64, mark| sum.wrapping_add(square(*mark)));
        for (at, values) in self.hashes.chunks_exact(rows).enumerate() {
            let weight = weight(at);
            let without = self.marks.iter().zip(values).fold(0, |sum: u64, (mark, hash)| {
                sum.wrapping_add(square(mark.wrapping_sub(hash.wrapping_mul(weight))))
            });
            sums.columns[at].without = without;
        }
        sums
    }
}

impl Summer for BatchSummer {
    fn sums(&mut self, batch: &RecordBatch) -> Sums {
        self.dispatch(batch)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use fullbore_parse::types::FieldType;

    use super::*;

    fn column(field_type: FieldType) -> SummedColumn {
        SummedColumn { name: "c".into(), field_type, unit: 1, padded: 0, element_oid: 0 }
    }

    fn sums(kind: HashKind, numbers: [Option<i64>; 3], texts: [&str; 3]) -> Sums {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        // Of two columns alone nobody could say which one's values moved.
        let batch =
            RecordBatch::try_from_iter([("n", numbers.clone()), ("t", texts), ("m", numbers)]);
        let batch = batch.expect("a batch");
        let number = || column(FieldType::Int64);
        let columns = vec![number(), column(FieldType::text()), number()];
        BatchSummer::new(kind, columns).sums(&batch)
    }

    #[test]
    fn what_changes_is_told_by_its_column() {
        for kind in [HashKind::Crc32c, HashKind::Lookup3] {
            let whole = sums(kind, [Some(1), None, Some(3)], ["a", "b", "c"]);
            assert_eq!(whole, sums(kind, [Some(3), Some(1), None], ["c", "a", "b"]), "order");
            let swapped = sums(kind, [Some(1), None, Some(3)], ["c", "b", "a"]);
            assert_eq!(swapped.columns[1].sum, whole.columns[1].sum);
            assert_ne!(swapped.row, whole.row);
            assert_eq!(swapped.columns[1].without, whole.columns[1].without);
            assert_ne!(swapped.columns[0].without, whole.columns[0].without);
            assert_ne!(swapped.columns[2].without, whole.columns[2].without);
            let other = sums(kind, [Some(1), None, Some(4)], ["a", "b", "c"]);
            assert_ne!(other.columns[0].sum, whole.columns[0].sum);
            assert_eq!(other.columns[1].sum, whole.columns[1].sum);
            let empty = sums(kind, [Some(1), Some(2), None], ["a", "", "c"]);
            assert_eq!(empty.columns[0].nulls, 1);
        }
    }

    #[test]
    fn blocks_make_the_whole_whatever_their_cuts() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..1000).map(|n| Some(n * n - 7))));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a batch");
        let columns = vec![column(FieldType::Int64)];
        let mut summer = BatchSummer::new(HashKind::Crc32c, columns);
        let whole = summer.sums(&batch);
        let mut joined = Sums::default();
        for (start, length) in [(600, 400), (0, 1), (1, 599)] {
            joined.merge(&summer.sums(&batch.slice(start, length)));
        }
        assert_eq!(joined, whole);
        assert_eq!(whole.columns[0].extent, Some((-7, 999 * 999 - 7)));
    }
}
