//! A file that is cut into ranges gives what its whole text gives.

use std::sync::Arc;

use fullbore_parse::Parser;
use fullbore_parse::block::Block;
use fullbore_parse::dialect::Dialect;
use fullbore_read::FileRange;
use fullbore_read::discover::discover;
use fullbore_read::ranges::RangeFeed;
use fullbore_read::split::{Sizes, cuts};
use proptest::prelude::*;

use texts::{Found, dialect, ended, expected, shape, text};

#[path = "../../../fullbore-parse/tests/it/texts.rs"]
mod texts;

/// What becomes of the records of a file that is cut into ranges of about so many bytes, which are read as loads read them.
fn loaded(text: &[u8], dialect: &Dialect, fields: usize, range_bytes: u64) -> Found {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x");
    std::fs::write(&path, text).expect("written");
    let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
    let sizes = Sizes { range_bytes, record_bytes_max: 1 << 20, total_bytes: text.len() as u64 };
    let cuts = cuts(&source, dialect, sizes, 2).expect("cut");
    let ranges = cuts.windows(2).map(|ends| FileRange { file: 0, start: ends[0], end: ends[1] });
    let ranges: Vec<FileRange> = ranges.filter(|range| range.start < range.end).collect();
    let mut feed = RangeFeed::new(vec![Arc::new(source)], ranges, dialect.clone(), 1 << 20);
    let mut parser = Parser::new(dialect.clone(), shape(fields));
    let (mut found, mut block) = (Found::default(), Block::default());
    while feed.next(&mut block).expect("read") {
        let at = block.offset as usize;
        found.take(&mut parser, &block, at, dialect.line_end.count(&text[..at]));
    }
    found.sorted()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn ranges_of_a_file_give_what_the_whole_gives(
        text in text(),
        dialect in dialect(),
        fields in 1usize..5,
        range_bytes in 1u64..300,
    ) {
        let text = ended(text, &dialect);
        let found = loaded(&text, &dialect, fields, range_bytes);
        prop_assert_eq!(found, expected(&text, &dialect, fields));
    }
}
