//! Finds values that a guessed type would change.

use super::{ColumnParser, Input, Raw, RowSet};
use crate::guess::{gives_back, may_be_changed, parses_what_it_gives_back};
use crate::index::{OFFSET, SPECIAL};
use crate::types::FieldType;

impl ColumnParser {
    /// Sets rows apart whose field the guessed type does not give back as it is written. Where the field
    /// is parsed as that type, what it can't hold is set apart by that.
    pub fn set_unfit_apart(
        &mut self,
        input: &Input<'_>,
        field: usize,
        guess: &FieldType,
        is_parsed: bool,
        odd: &mut RowSet,
    ) {
        if is_parsed && parses_what_it_gives_back(guess) {
            return;
        }
        let separators = input.rows.separators(input.index);
        let padded = input.block.padded();
        let stride = input.rows.stride;
        for row in 0..input.rows.count {
            let at = row * stride + field;
            let start = (separators[at] & OFFSET) as usize + 1;
            let separator = separators[at + 1];
            let length = (separator & OFFSET) as usize - start;
            let following = [padded[start], padded[start + 1]];
            let is_special = separator & SPECIAL != 0;
            if is_parsed && !is_special && !may_be_changed(guess, following, length) {
                continue;
            }
            if let Raw::Value(span) = self.raw(input, field, row)
                && !gives_back(guess, span.bytes())
            {
                odd.insert(row);
            }
        }
    }
}
