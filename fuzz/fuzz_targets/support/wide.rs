//! The kernels that take several rows at a time, against one field at a time.

use std::fmt::Debug;

use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_PADDING;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::index::{FieldIndex, Level};
use fullbore_parse::numbers::Span;
use fullbore_parse::wide::{self, Fields, Kernel, Pending};

/// A column of fields, one a line, of what numbers and times are written with.
pub struct Column {
    lines: Vec<Vec<u8>>,
    block: Block,
    index: FieldIndex,
}

impl Column {
    pub fn of(data: &[u8]) -> Self {
        let known = |byte: u8| match byte {
            b'0'..=b'9' | b'.' | b'-' | b'+' | b':' | b' ' | b'T' | b'Z' | b'e' | b'"' => byte,
            other => b'0' + other % 10,
        };
        let lines: Vec<Vec<u8>> = data
            .split(|byte| *byte == b'\n')
            .map(|line| {
                let (quoted, line) = match line {
                    [b'"', rest @ ..] => (true, rest),
                    _ => (false, line),
                };
                let mut field: Vec<u8> =
                    line.iter().map(|byte| known(*byte)).filter(|byte| *byte != b'"').collect();
                if quoted {
                    field.insert(0, b'"');
                    field.push(b'"');
                }
                field
            })
            .collect();
        let text: Vec<u8> =
            lines.iter().flat_map(|line| [b"x,", line.as_slice(), b"\n"].concat()).collect();
        let block = Block::of(&text);
        let mut index = FieldIndex::default();
        index.build(&block, &Dialect::csv());
        Self { lines, block, index }
    }

    /// Every row that a kernel takes has the value that `parse` gives, on every level of
    /// instructions.
    pub fn check<K: Kernel>(&self, kernel: &K, parse: impl Fn(Span<'_>) -> Option<K::Native>)
    where
        K::Native: Default + Debug + PartialEq,
    {
        let (rows, dialect) = (self.lines.len(), Dialect::csv());
        let input = Fields::new(self.block.padded(), &self.index.separators, 1, 2, rows, &dialect);
        for level in Level::available() {
            let mut values = vec![K::Native::default(); rows];
            let mut pending = Pending::default();
            pending.all(rows);
            wide::parse_with(level, kernel, &input, &mut values, &mut pending);
            for (row, line) in self.lines.iter().enumerate() {
                if pending.contains(row) {
                    continue;
                }
                let inner = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\""));
                let padding = [b'9'; BLOCK_PADDING];
                let field = inner.unwrap_or(line);
                let padded = [&padding, field, &padding].concat();
                let span = Span::new(&padded, BLOCK_PADDING, BLOCK_PADDING + field.len());
                assert_eq!(Some(values[row]), parse(span), "{field:?} on {level:?}");
            }
        }
    }
}
