//! Which partition each row of a batch belongs to.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::ArrowError;
use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::text::write_copy_text;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};

use super::PARENT;
use super::bounds::{Bound, Value};
use super::hash;

/// A table of remainders has at most so many.
const MODULUS_MAX: u64 = 1 << 16;

/// What a row's partition is, or the table that divides it further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    Leaf(u32),
    Level(usize),
}

/// Partitioned tables, the first of them that of the rows.
#[derive(Debug, Default)]
pub struct Tree {
    keys: Vec<Key>,
    levels: Vec<Level>,
}

/// Columns that rows are divided by.
#[derive(Debug)]
struct Key {
    columns: Vec<usize>,
    /// Puts values into an order of bytes; none where they are hashed.
    ordered: Option<RowConverter>,
}

#[derive(Debug)]
struct Level {
    key: usize,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// By their lower ends, which are in them; the upper ones are not.
    Ranges(Vec<(Vec<u8>, Vec<u8>, Child)>),
    List(HashMap<Vec<u8>, Child>),
    /// By the remainder of the greatest modulus.
    Hash(Vec<(u64, u64, Child)>, Vec<Option<Child>>),
}

/// The keys of a batch's rows.
enum Keyed {
    Ordered(Rows, Option<NullBuffer>),
    Hashed(Vec<u64>),
}

impl Tree {
    /// Adds a table that divides rows by these columns; its place.
    pub fn begin(
        &mut self,
        strategy: char,
        columns: &[usize],
        types: &[FieldType],
    ) -> Result<usize, String> {
        let is_hashed = strategy == 'h';
        let is_known = |key: &Key| key.columns == columns && key.ordered.is_none() == is_hashed;
        let key = match self.keys.iter().position(is_known) {
            Some(key) => key,
            None => {
                let ordered = (!is_hashed).then(|| converter(types)).transpose()?;
                self.keys.push(Key { columns: columns.to_vec(), ordered });
                self.keys.len() - 1
            }
        };
        let rule = match strategy {
            'r' => Rule::Ranges(Vec::new()),
            'l' => Rule::List(HashMap::new()),
            'h' => Rule::Hash(Vec::new(), Vec::new()),
            other => return Err(format!("strategy {other} is not known")),
        };
        self.levels.push(Level { key, rule });
        Ok(self.levels.len() - 1)
    }

    /// Adds a partition to a table.
    pub fn add(
        &mut self,
        level: usize,
        bound: &Bound,
        types: &[FieldType],
        child: Child,
    ) -> Result<(), String> {
        match (&mut self.levels[level].rule, bound) {
            (Rule::Ranges(ranges), Bound::Range(lower, upper)) => {
                ranges.push((end(lower, types)?, end(upper, types)?, child));
            }
            (Rule::List(list), Bound::List(values)) => {
                for value in values {
                    list.insert(end(std::slice::from_ref(value), types)?, child);
                }
            }
            (Rule::Hash(parts, _), Bound::Hash { modulus, remainder })
                if (1..=MODULUS_MAX).contains(modulus) && remainder < modulus =>
            {
                parts.push((*modulus, *remainder, child));
            }
            _ => return Err("its bounds are not of its table's kind".into()),
        }
        Ok(())
    }

    /// A table has all its partitions.
    pub fn end(&mut self, level: usize) {
        match &mut self.levels[level].rule {
            Rule::Ranges(ranges) => ranges.sort_by(|one, other| one.0.cmp(&other.0)),
            Rule::List(_) => {}
            Rule::Hash(parts, table) => {
                // Each modulus divides the next greater one.
                let greatest = parts.iter().map(|(modulus, ..)| *modulus).max().unwrap_or(1);
                let of = |hash: u64| {
                    let its = parts.iter().find(|(modulus, rest, _)| hash % modulus == *rest);
                    its.map(|(.., child)| *child)
                };
                *table = (0..greatest).map(of).collect();
            }
        }
    }

    /// The number of each row's partition; [`PARENT`] where that is not known.
    pub fn find(&self, batch: &RecordBatch) -> Result<Vec<u32>, ArrowError> {
        let keyed = self.keys.iter().map(|key| key.of(batch)).collect::<Result<Vec<_>, _>>()?;
        Ok((0..batch.num_rows()).map(|row| self.leaf(&keyed, row)).collect())
    }

    fn leaf(&self, keyed: &[Keyed], row: usize) -> u32 {
        let mut level = &self.levels[0];
        loop {
            match level.rule.child(&keyed[level.key], row) {
                None => return PARENT,
                Some(Child::Leaf(number)) => return number,
                Some(Child::Level(place)) => level = &self.levels[place],
            }
        }
    }
}

impl Key {
    fn of(&self, batch: &RecordBatch) -> Result<Keyed, ArrowError> {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|place| batch.column(*place).clone()).collect();
        let Some(converter) = &self.ordered else {
            let mut hashes = vec![0; batch.num_rows()];
            for column in &columns {
                hash::add(&mut hashes, column).ok_or_else(|| {
                    ArrowError::NotYetImplemented(format!("a hash of {}", column.data_type()))
                })?;
            }
            return Ok(Keyed::Hashed(hashes));
        };
        let nulls = columns.iter().fold(None, |nulls: Option<NullBuffer>, column| {
            NullBuffer::union(nulls.as_ref(), column.nulls())
        });
        Ok(Keyed::Ordered(converter.convert_columns(&columns)?, nulls))
    }
}

impl Rule {
    fn child(&self, keyed: &Keyed, row: usize) -> Option<Child> {
        match (self, keyed) {
            (Self::Ranges(ranges), Keyed::Ordered(rows, nulls)) => {
                // No range holds a NULL.
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                let row = rows.row(row);
                let key: &[u8] = row.as_ref();
                let after = ranges.partition_point(|(lower, ..)| lower.as_slice() <= key);
                let (_, upper, child) = ranges.get(after.checked_sub(1)?)?;
                (key < upper.as_slice()).then_some(*child)
            }
            (Self::List(list), Keyed::Ordered(rows, _)) => {
                list.get(rows.row(row).as_ref()).copied()
            }
            (Self::Hash(_, table), Keyed::Hashed(hashes)) => {
                table[(hashes[row] % table.len() as u64) as usize]
            }
            _ => None,
        }
    }
}

fn converter(types: &[FieldType]) -> Result<RowConverter, String> {
    let fields = types.iter().map(|of| SortField::new(of.arrow())).collect();
    RowConverter::new(fields).map_err(|error| error.to_string())
}

/// An end of a range, or a value of a list, in the order of bytes that keys have. Nothing that a key begins with
/// is as great as the byte that stands for `MAXVALUE`, and a key that goes on is greater than one that ends, which
/// stands for `MINVALUE`.
fn end(values: &[Value], types: &[FieldType]) -> Result<Vec<u8>, String> {
    let is_given = |value: &&Value| matches!(value, Value::Text(_) | Value::Null);
    let given = values.iter().take_while(is_given).count();
    let arrays = values[..given].iter().zip(types).map(|(value, of)| match value {
        Value::Text(text) => parsed(text, of),
        _ => Ok(arrow_array::new_null_array(&of.arrow(), 1)),
    });
    let arrays = arrays.collect::<Result<Vec<_>, String>>()?;
    let mut bytes = Vec::new();
    if given > 0 {
        let rows = converter(&types[..given])?.convert_columns(&arrays);
        bytes = rows.map_err(|error| error.to_string())?.row(0).as_ref().to_vec();
    }
    if values.get(given) == Some(&Value::Most) {
        bytes.push(u8::MAX);
    }
    Ok(bytes)
}

/// A value as the server writes it.
fn parsed(text: &str, of: &FieldType) -> Result<ArrayRef, String> {
    let column = ParseColumn { name: "key".into(), field: 0, field_type: of.clone(), guess: None };
    let mut line = Vec::new();
    write_copy_text(text.as_bytes(), &mut line);
    line.push(b'\n');
    let mut parser = Parser::new(Dialect::text(), Arc::new(ParseShape::of_one(column)));
    let batch = parser.parse(&Block::of(&line)).batch;
    match batch.num_rows() {
        1 if batch.column(0).is_valid(0) => Ok(batch.column(0).clone()),
        _ => Err(format!("{text:?} is no plain value")),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers = Int32Array::from(vec![Some(-5), Some(0), Some(9), Some(10), Some(25), None]);
        let texts =
            StringArray::from(vec![Some("a"), Some("b"), None, Some("it's"), Some(""), Some("zz")]);
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("t", DataType::Utf8, true),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers), Arc::new(texts)])
            .expect("a batch")
    }

    fn tree(strategy: char, columns: &[usize], bounds: &[&str]) -> Tree {
        let types = [FieldType::Int32, FieldType::text()];
        let types: Vec<FieldType> = columns.iter().map(|place| types[*place].clone()).collect();
        let mut tree = Tree::default();
        let level = tree.begin(strategy, columns, &types).expect("begun");
        for (number, bound) in (1..).zip(bounds) {
            let bound = Bound::parse(bound).expect("a bound").expect("no default");
            tree.add(level, &bound, &types, Child::Leaf(number)).expect("added");
        }
        tree.end(level);
        tree
    }

    #[test]
    fn rows_are_in_the_range_that_holds_them() {
        let bounds = [
            "FOR VALUES FROM (10) TO (20)",
            "FOR VALUES FROM (MINVALUE) TO (0)",
            "FOR VALUES FROM ('0') TO ('10')",
        ];
        let found = tree('r', &[0], &bounds).find(&batch()).expect("found");
        assert_eq!(found, [2, 3, 3, 1, PARENT, PARENT]);
    }

    #[test]
    fn ends_of_several_columns_are_as_the_server_means_them() {
        let bounds = [
            "FOR VALUES FROM (MINVALUE, MINVALUE) TO (0, 'b')",
            "FOR VALUES FROM (0, 'b') TO (10, MINVALUE)",
            "FOR VALUES FROM (10, MINVALUE) TO (10, MAXVALUE)",
            "FOR VALUES FROM (10, MAXVALUE) TO (MAXVALUE, MAXVALUE)",
        ];
        let found = tree('r', &[0, 1], &bounds).find(&batch()).expect("found");
        assert_eq!(found, [1, 2, PARENT, 3, 4, PARENT]);
    }

    #[test]
    fn lists_have_their_values_and_null() {
        let bounds = ["FOR VALUES IN ('a', NULL)", "FOR VALUES IN ('it''s', '')"];
        let found = tree('l', &[1], &bounds).find(&batch()).expect("found");
        assert_eq!(found, [1, PARENT, 1, 2, 2, PARENT]);
    }

    #[test]
    fn remainders_of_smaller_moduli_take_their_share() {
        let bounds = [
            "FOR VALUES WITH (modulus 2, remainder 0)",
            "FOR VALUES WITH (modulus 4, remainder 1)",
            "FOR VALUES WITH (modulus 4, remainder 3)",
        ];
        let tree = tree('h', &[0], &bounds);
        let Rule::Hash(_, table) = &tree.levels[0].rule else { panic!("hashed") };
        let leaves = [1, 2, 1, 3].map(|number| Some(Child::Leaf(number)));
        assert_eq!(table, &leaves);
        // NULL has the hash 0.
        assert_eq!(tree.find(&batch()).expect("found")[5], 1);
    }
}
