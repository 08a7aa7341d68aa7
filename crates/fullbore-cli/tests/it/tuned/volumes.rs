//! Sources on several volumes are read side by side, each at its own pace.

use fullbore_testing::disk::{Disk, DiskOptions};
use fullbore_testing::skip;

use super::events;
use crate::common::Files;

const PIECES: u64 = 8;

#[test]
fn both_disks_are_read_from_the_beginning() {
    let files = Files::new();
    let mut disks = Vec::new();
    let mut sources = Vec::new();
    for name in ["first", "second"] {
        let (fast, mounted) = (files.path(&format!("{name}-fast")), files.path(name));
        for folder in [&fast, &mounted] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let rows = format!("{}\n", "x".repeat(999)).repeat(1000 * PIECES as usize);
        std::fs::write(fast.join("sales.csv"), rows).expect("written");
        let options = DiskOptions { bytes_per_second: 20e6, arms: 2, ..DiskOptions::default() };
        match Disk::mount(&fast, &mounted, options) {
            Ok(disk) => disks.push(disk),
            Err(error) => skip!("no file system of our own: {error}"),
        }
        sources.push(mounted.join("sales.csv").display().to_string());
    }
    let args = ["--to", "null:", "--table", "sales", "--header", "none", "--streams", "2"];
    let more = ["--format", "csv", "--piece-size", "1MB", "--no-ledger"];
    let sources = [sources[0].as_str(), sources[1].as_str()];
    let args = [&["load"], &sources[..], &args[..], &more[..]].concat();
    let loaded = files.fullbore(&args);
    assert_eq!(loaded.code, 0, "{}", loaded.stderr);
    let committed = events(&files, "piece_committed");
    assert_eq!(committed.len() as u64, 2 * PIECES);
    let is_of_second = |piece: &&serde_json::Value| piece["piece"].as_u64() >= Some(PIECES);
    let early = committed.iter().take(PIECES as usize).filter(is_of_second).count();
    assert!((2..=6).contains(&early), "{early} of the first {PIECES}: {committed:?}");
}
