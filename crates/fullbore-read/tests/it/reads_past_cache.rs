//! Ranges of files that the page cache does not hold are read past it, and are the same bytes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use fullbore_parse::block::Block;
use fullbore_parse::constants::BLOCK_BYTES;
use fullbore_parse::dialect::Dialect;
use fullbore_read::constants::READ_AHEAD_BYTES;
use fullbore_read::page_cache::cached_share;
use fullbore_read::ranges::RangeFeed;
use fullbore_read::{FileRange, Packing, SourceFile};
use rustix::fs::{Advice, fadvise};

fn source(path: &Path) -> Arc<SourceFile> {
    let found = fs::metadata(path).expect("it is there");
    Arc::new(SourceFile {
        path: path.into(),
        packing: Packing::Plain,
        size: found.len(),
        modified_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        changed_ns: i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec()),
        told: None,
        content: None,
        is_regular: true,
        device: found.dev(),
        encoding: None,
        data_start: 0,
        data_start_lines: 0,
        data_end: None,
        own_header: None,
        line_end: Default::default(),
        arrow: None,
        is_guessed: false,
        object: None,
        footer: Arc::default(),
        peeked: None,
        expected_header: None,
    })
}

/// A file on the disk and not in the cache.
fn cold(folder: &Path, text: &[u8]) -> Arc<SourceFile> {
    let path = folder.join("rows.tbl");
    fs::write(&path, text).expect("written");
    forget(&path);
    source(&path)
}

fn forget(path: &Path) {
    let file = File::open(path).expect("it is there");
    file.sync_all().expect("on disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
}

/// Whether the cache holds the byte at a place.
fn is_cached(path: &Path, at: usize) -> bool {
    let file = File::open(path).expect("it is there");
    cached_share(&file, &(at as u64..at as u64 + 1)) == Some(1.0)
}

/// Whether this file system reads past its cache, and forgets what it is told to forget.
fn has_direct_reads(path: &Path) -> bool {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.is_ok() && !is_cached(path, 5 << 20)
}

fn feed(file: &Arc<SourceFile>, ranges: Vec<FileRange>) -> RangeFeed {
    RangeFeed::new(vec![file.clone()], ranges, Dialect::tbl(), 64 << 20)
}

/// Lines of lengths that have nothing to do with the size of a block; a few of the first are longer
/// than one.
fn lines(bytes: usize, long: usize) -> Vec<u8> {
    let (mut text, mut random) = (Vec::with_capacity(bytes + long), 12_345_u64);
    while text.len() < bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let is_long = text.len() < (4 << 20) && (random >> 33) % 5000 == 0;
        let length = if is_long { long } else { (random >> 40) as usize % 300 };
        text.extend(std::iter::repeat_n(b'a' + (random >> 60) as u8, length));
        text.push(b'\n');
    }
    text
}

#[test]
fn what_is_not_in_the_cache_is_read_past_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let text = lines(READ_AHEAD_BYTES as usize + (5 << 20), 3 * BLOCK_BYTES / 2);
    let file = cold(folder.path(), &text);
    // Three ranges that begin anywhere, the last without a line end.
    let end = text.len() as u64 - 1;
    let cut = |at: usize| memchr::memchr(b'\n', &text[at..]).map_or(at, |n| at + n + 1) as u64;
    let cuts = [0, cut(1_000_000), cut(1_003_000), end];
    let ranges = cuts.windows(2).map(|w| FileRange { file: 0, start: w[0], end: w[1] }).collect();
    let direct = has_direct_reads(&file.path);
    let mut feed = feed(&file, ranges);
    let (mut block, mut read) = (Block::default(), Vec::new());
    while feed.next(&mut block).expect("it reads") {
        assert_eq!(block.offset, read.len() as u64);
        assert!(block.text().ends_with(b"\n"));
        assert!(block.len() <= 4 * BLOCK_BYTES);
        read.extend_from_slice(block.text());
    }
    assert!(read == text, "the same bytes");
    if direct {
        let places = (9_usize..60).step_by(10).map(|mb| mb << 20);
        let cached: Vec<_> = places.filter(|at| is_cached(&file.path, *at)).collect();
        assert!(cached.is_empty(), "{cached:?} are in the cache");
    }
}

#[test]
fn what_is_in_the_cache_comes_from_there() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let text = lines(3 << 20, 100);
    let file = cold(folder.path(), &text);
    // One part is there, and one is not.
    let half = memchr::memrchr(b'\n', &text[..text.len() / 2]).expect("lines") + 1;
    let mut part = vec![0; half / 2];
    let opened = File::open(&file.path).expect("it is there");
    std::os::unix::fs::FileExt::read_exact_at(&opened, &mut part, 0).expect("read");
    let mut feed = feed(&file, vec![FileRange { file: 0, start: 0, end: text.len() as u64 }]);
    let (mut block, mut read) = (Block::default(), Vec::new());
    while feed.next(&mut block).expect("it reads") {
        read.extend_from_slice(block.text());
    }
    assert!(read == text, "the same bytes");
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let text = lines(4 << 20, 100);
    let file = cold(folder.path(), &text);
    let mut feed = feed(&file, vec![FileRange { file: 0, start: 0, end: text.len() as u64 }]);
    let mut block = Block::default();
    assert!(feed.next(&mut block).expect("it reads"));
    let cut = OpenOptions::new().write(true).open(&file.path).expect("it is there");
    cut.set_len(2 << 20).expect("cut");
    forget(&file.path);
    let refused = loop {
        match feed.next(&mut block) {
            Ok(true) => {}
            Ok(false) => panic!("a torn file was taken for a whole one"),
            Err(error) => break error,
        }
    };
    let said = refused.to_string();
    assert!(said.contains("rows.tbl"), "{said}");
}

#[test]
fn a_reader_that_is_left_ends() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let text = lines(8 << 20, 100);
    let file = cold(folder.path(), &text);
    for blocks in 0..4 {
        forget(&file.path);
        let mut feed = feed(&file, vec![FileRange { file: 0, start: 0, end: text.len() as u64 }]);
        let mut block = Block::default();
        for _ in 0..blocks {
            assert!(feed.next(&mut block).expect("it reads"));
        }
        // Hangs here if its threads waited for ever.
        drop(feed);
    }
}
