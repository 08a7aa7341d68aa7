//! What is to be made: files, and the chunks that threads make of them.
//!
//! A stream is cut into chunks of a few megabytes, so that several threads can work on one file
//! and none needs more memory than a chunk. The generator only knows "part i of n", with what
//! does not divide going to the last part; so stream and chunk together are a part, and chunks
//! are counted such that as little as possible is left over.

use super::table::Table;

/// What a thread makes in one go: well above the price of a system call, well within memory for
/// any number of cores, and near what stays in a core's own cache.
const CHUNK_BYTES: u64 = 2 * 1024 * 1024;

/// One file, or all that goes to stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The table its rows are of.
    pub table: Table,
    /// The file's name, as dbgen's.
    pub name: String,
    /// Its first part, from 1.
    pub first_part: i32,
    /// How many parts it has; they follow each other.
    pub chunks: u32,
    /// Parts of the whole table.
    pub part_count: i32,
}

/// The files of all tables, largest tables first.
pub fn file_targets(
    tables: &[Table],
    scale: f64,
    stream: Option<u32>,
    streams: u32,
) -> Vec<Target> {
    let mut targets = Vec::new();
    for &table in tables {
        let split = if table.is_split() { streams } else { 1 };
        for number in 1..=split {
            targets.extend(
                stream_target(table, scale, number, split)
                    .filter(|_| stream.is_none_or(|wanted| wanted == number)),
            );
        }
    }
    targets
}

/// What goes to stdout: one stream, or all of them one after the other.
pub fn one_target(table: Table, scale: f64, stream: Option<u32>, streams: u32) -> Option<Target> {
    match stream {
        None => stream_target(table, scale, 1, 1),
        // The small tables are stream 1's: all streams together then have each row once.
        Some(stream) if !table.is_split() => {
            stream_target(table, scale, 1, 1).filter(|_| stream == 1)
        }
        Some(stream) => stream_target(table, scale, stream, streams),
    }
}

fn stream_target(table: Table, scale: f64, number: u32, streams: u32) -> Option<Target> {
    let chunks = chunks_per_stream(table, scale, streams);
    let part = |stream: u32| i32::try_from(stream * chunks).ok();
    Some(Target {
        table,
        name: match streams {
            1 => format!("{}.tbl", table.name()),
            _ => format!("{}.tbl.{number}", table.name()),
        },
        first_part: part(number - 1)? + 1,
        chunks,
        part_count: part(streams)?,
    })
}

/// At least as many as the size wants, at most twice that; among these the number that leaves
/// the last part the fewest extra rows. Where streams divide the table evenly there is nearly
/// always one that leaves none, and then each file equals the one dbgen writes.
fn chunks_per_stream(table: Table, scale: f64, streams: u32) -> u32 {
    if !table.is_split() {
        return 1;
    }
    let (units, unit_bytes) = table.units(scale);
    let streams = u64::from(streams);
    let wanted = (units * unit_bytes / CHUNK_BYTES / streams).max(1);
    let chunks = (wanted..=2 * wanted).min_by_key(|chunks| units % (chunks * streams));
    u32::try_from(chunks.unwrap_or(1)).unwrap_or(u32::MAX)
}

/// The order in which chunks are made: of `side_by_side` targets in turn, then of the next ones.
/// Threads then mostly work on different files and seldom wait for each other, and no more files
/// than threads are open.
pub fn work_order(
    targets: &[Target],
    side_by_side: usize,
) -> impl Iterator<Item = (usize, u32)> + '_ {
    targets.chunks(side_by_side).enumerate().flat_map(move |(group, members)| {
        let longest = members.iter().map(|target| target.chunks).max().unwrap_or(0);
        (0..longest).flat_map(move |chunk| {
            let present = members.iter().enumerate();
            present
                .filter(move |(_, target)| chunk < target.chunks)
                .map(move |(member, _)| (group * side_by_side + member, chunk))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_dbgen_names_them() {
        let names = |stream, streams| -> Vec<String> {
            let tables = [Table::Supplier, Table::Nation];
            let targets = file_targets(&tables, 1.0, stream, streams);
            targets.into_iter().map(|target| target.name).collect()
        };
        assert_eq!(names(None, 1), ["supplier.tbl", "nation.tbl"]);
        assert_eq!(names(None, 2), ["supplier.tbl.1", "supplier.tbl.2", "nation.tbl"]);
        assert_eq!(names(Some(1), 2), ["supplier.tbl.1", "nation.tbl"]);
        assert_eq!(names(Some(2), 2), ["supplier.tbl.2"]);
    }

    #[test]
    fn chunks_divide_tables_evenly_where_streams_do() {
        for scale in [0.01, 1.0, 10.0, 3000.0] {
            for streams in [1, 4, 5, 8, 50] {
                for table in Table::ALL.into_iter().filter(|table| table.is_split()) {
                    let (units, _) = table.units(scale);
                    if units % u64::from(streams) == 0 {
                        let parts = u64::from(chunks_per_stream(table, scale, streams) * streams);
                        assert_eq!(units % parts, 0, "{table:?} {scale} {streams}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_data_still_have_countable_parts() {
        let target = stream_target(Table::LineItem, 100_000.0, 1, 1).expect("countable");
        assert!(target.part_count > 10_000_000);
        let (units, _) = Table::LineItem.units(100_000.0);
        assert_eq!(units, 150_000_000_000);
    }

    #[test]
    fn every_chunk_comes_once_and_in_order_within_its_file() {
        let target = |chunks| Target {
            table: Table::Part,
            name: String::new(),
            first_part: 1,
            chunks,
            part_count: 1,
        };
        let targets = [target(2), target(3), target(1)];
        let order: Vec<_> = work_order(&targets, 2).collect();
        assert_eq!(order, [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (2, 0)]);
    }
}
