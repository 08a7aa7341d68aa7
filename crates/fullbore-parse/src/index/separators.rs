//! What a pass over a block finds.

/// Set on a separator whose field holds a quote or a backslash.
pub const SPECIAL: u32 = 1 << 31;
/// The offset in a separator.
pub const OFFSET: u32 = SPECIAL - 1;

/// Where the fields of a block end.
#[derive(Debug, Default)]
pub struct FieldIndex {
    /// Offsets into the padded buffer, [`SPECIAL`] set where the field needs decoding. The first
    /// entry is not a separator but the place before the first field.
    pub separators: Vec<u32>,
    /// How many separators are line ends.
    pub line_ends: usize,
    /// Line feeds, those within fields included.
    pub line_feeds: usize,
    /// A NUL byte stands somewhere in the block.
    pub has_nul: bool,
    /// A carriage return stands outside quotes somewhere in the block.
    pub has_carriage_return: bool,
    /// The block ends inside quotes.
    pub ends_in_quotes: bool,
}
