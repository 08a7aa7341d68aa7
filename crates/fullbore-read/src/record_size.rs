//! Limits the search for the end of a record.

use fullbore_parse::constants::{BLOCK_BYTES, BLOCK_BYTES_LIMIT};

use crate::error::Error;
use crate::source_file::SourceFile;

/// How much of a record to read once `have` bytes of it are there and it goes on: twice as much, but
/// not far over `limit`. `None` where it is longer than that, or than a block can be.
pub(super) fn grown(have: usize, limit: usize) -> Option<usize> {
    let most = record_text_max(limit);
    (have < most).then(|| most.min(have.saturating_mul(2)))
}

/// How much text is looked at for a record's end, however it is read.
pub(super) fn record_text_max(limit: usize) -> usize {
    BLOCK_BYTES_LIMIT.min(limit.max(BLOCK_BYTES).saturating_add(BLOCK_BYTES))
}

/// The refusal of a record that does not end within the limit.
pub(super) fn too_long(file: &SourceFile, offset: u64, limit: usize) -> Error {
    let limit = limit.min(BLOCK_BYTES_LIMIT);
    Error::Source {
        path: file.path.clone(),
        message: format!("the record at byte {offset} is longer than {limit} bytes"),
        hint: Some(
            "a quote may be unterminated (see --quote, --escape), or raise --max-field-bytes"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{MAX_FIELD_BYTES_DEFAULT, MAX_FIELD_BYTES_LIMIT};
    use fullbore_parse::constants::BLOCK_PADDING;

    #[test]
    fn a_record_grows_to_its_limit_and_a_block_to_its_own() {
        for limit in [0, 1000, BLOCK_BYTES, MAX_FIELD_BYTES_DEFAULT, MAX_FIELD_BYTES_LIMIT] {
            let mut have = BLOCK_BYTES;
            while let Some(want) = grown(have, limit) {
                assert!(want > have, "{want} after {have} of {limit}");
                assert!(want + BLOCK_PADDING < 1 << 30, "{want} of {limit}");
                assert!(want <= limit.max(BLOCK_BYTES) + BLOCK_BYTES, "{want} of {limit}");
                have = want;
            }
            assert!(have > limit || have == BLOCK_BYTES_LIMIT, "{have} of {limit}");
        }
    }
}
