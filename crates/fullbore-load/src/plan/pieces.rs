//! Cuts a table's sources into pieces.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullbore_parse::dialect::Family;
use fullbore_read::error::Result;
use fullbore_read::{FileRange, SourceFile, columnar, split};

use super::{Format, PieceInput, PlannedPiece};
use crate::constants::{
    JOINT_BYTES_MIN, JOINTS_PER_PIECE, PIECE_BYTES_LEAST, PIECE_BYTES_MAX, PIECE_BYTES_MIN,
    PIECES_PER_STREAM_MIN, UNCUT_PIECES,
};
use crate::job::{PieceSize, Sample};

/// Bytes of one piece of a source that can only be read from its beginning, unless the job says.
const STREAM_PIECE_BYTES: u64 = 64 << 20;

/// How the sources of a table are cut.
#[derive(Debug, Clone, Copy)]
pub struct PieceSizes {
    pub streams: usize,
    /// The longest record.
    pub record_bytes_max: usize,
    /// What the job asks for.
    pub wanted: Option<PieceSize>,
    /// Smaller ones cost the destination more than they are worth, unless the job asks for them.
    pub least: u64,
    /// The part that is loaded, where it is not all.
    pub sample: Option<Sample>,
}

impl PieceSizes {
    /// The size that pieces should have: small enough that all streams end together.
    pub fn of_files(self, files: &[Arc<SourceFile>]) -> u64 {
        let total: u64 = files.iter().map(|file| file.size).sum();
        // As many pieces as a whole would have are drawn for a part.
        let share = self.sample.map_or(1.0, Sample::share);
        let total = (total as f64 * share) as u64;
        let default = || bytes_of_each(total, self.streams as u64).max(self.least);
        self.wanted.map_or_else(default, PieceSize::bytes)
    }

    /// The size of pieces of a source that can only be read from its beginning.
    pub fn of_streams(self) -> u64 {
        self.wanted.map_or(STREAM_PIECE_BYTES.max(self.least), PieceSize::bytes)
    }
}

fn bytes_of_each(total: u64, streams: u64) -> u64 {
    let wanted = total / (streams * PIECES_PER_STREAM_MIN as u64);
    if wanted >= PIECE_BYTES_MIN {
        return wanted.min(PIECE_BYTES_MAX);
    }
    // What is as small as that is loaded at once.
    if total <= PIECE_BYTES_MIN {
        return PIECE_BYTES_MIN;
    }
    // Few pieces: the same number for each stream, of about that size.
    let rounds = total.div_ceil(PIECE_BYTES_MIN * streams).max(1);
    total.div_ceil(rounds * streams).clamp(PIECE_BYTES_LEAST, PIECE_BYTES_MIN)
}

/// Places within files at which records begin, ascending, by the number of the file: of quoted text, which must
/// be read through to find any.
pub type Joints = BTreeMap<usize, Vec<u64>>;

/// How the sources of a table were cut.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Numbered from 0.
    pub pieces: Vec<PlannedPiece>,
    /// The size they were cut to.
    pub piece_bytes: u64,
    pub joints: Joints,
}

/// Cuts the sources of one table.
pub fn cut(
    files: &[Arc<SourceFile>],
    format: &Format,
    table: usize,
    sizes: PieceSizes,
) -> Result<Cuts> {
    let PieceSizes { streams, record_bytes_max, .. } = sizes;
    let (piece_bytes, stream_piece_bytes) = (sizes.of_files(files), sizes.of_streams());
    let mut pieces = Vec::new();
    let mut push = |input, bytes| {
        pieces.push(PlannedPiece { number: 0, table, input, bytes, bounds: None });
    };
    let Format::Delimited(dialect) = format else {
        for (file, source) in files.iter().enumerate() {
            if !source.is_regular {
                push(PieceInput::Stream { file }, stream_piece_bytes);
                continue;
            }
            let groups = columnar::inspect(source)?.groups;
            let (mut start, mut end, mut bytes) = (0, 0, 0);
            for (at, (rows, group_bytes)) in groups.iter().enumerate() {
                bytes += group_bytes;
                end += rows;
                if (bytes >= piece_bytes || at + 1 == groups.len()) && end > start {
                    push(PieceInput::Rows(vec![FileRange { file, start, end }]), bytes);
                    (start, bytes) = (end, 0);
                }
            }
        }
        let is_stream = files.iter().any(|file| !file.is_regular);
        let piece_bytes = if is_stream { stream_piece_bytes } else { piece_bytes };
        return Ok(Cuts { pieces, piece_bytes, joints: Joints::new() });
    };
    let mut joints = Joints::new();
    let is_enough = files.len() >= streams * PIECES_PER_STREAM_MIN;
    let total_bytes = files.iter().map(|file| file.size).sum();
    let is_costly_to_cut = dialect.family == Family::Csv;
    // What is read through anyway tells more places than pieces need: at them a piece can be cut once more.
    let joint_bytes = (piece_bytes / JOINTS_PER_PIECE).max(JOINT_BYTES_MIN).min(piece_bytes);
    // Files smaller than a piece are put together until they make one.
    let mut gathered: Vec<FileRange> = Vec::new();
    let mut gathered_bytes = 0;
    for (file, source) in files.iter().enumerate() {
        if !source.is_seekable() {
            push(PieceInput::Stream { file }, stream_piece_bytes);
            continue;
        }
        let bytes = source.end() - source.data_start.min(source.end());
        if bytes == 0 {
            continue;
        }
        if bytes < piece_bytes {
            gathered.push(FileRange { file, start: source.data_start, end: source.end() });
            gathered_bytes += bytes;
            if gathered_bytes >= piece_bytes {
                push(PieceInput::Ranges(std::mem::take(&mut gathered)), gathered_bytes);
                gathered_bytes = 0;
            }
            continue;
        }
        // Where quotes decide what a record's end is, a file is read through before it can be cut.
        let whole = is_costly_to_cut && is_enough && bytes < UNCUT_PIECES * piece_bytes;
        let is_read_through = is_costly_to_cut && !source.is_guessed;
        let range_bytes = if is_read_through { joint_bytes } else { piece_bytes };
        let sizes = split::Sizes { range_bytes, record_bytes_max, total_bytes };
        let mut cuts = match whole {
            true => vec![source.data_start, source.end()],
            false => split::cuts(source, dialect, sizes, streams)?,
        };
        if is_read_through && !whole {
            cuts = ends_of_pieces(joints.entry(file).or_insert(cuts), piece_bytes);
        }
        for ends in cuts.windows(2) {
            let range = FileRange { file, start: ends[0], end: ends[1] };
            push(PieceInput::Ranges(vec![range]), ends[1] - ends[0]);
        }
    }
    if !gathered.is_empty() {
        push(PieceInput::Ranges(gathered), gathered_bytes);
    }
    Ok(Cuts { pieces, piece_bytes: stream_piece_bytes, joints })
}

/// Of places at which a file can be cut, the first and last of which are its ends, those between pieces of about
/// one size.
fn ends_of_pieces(joints: &[u64], piece_bytes: u64) -> Vec<u64> {
    let (Some(first), Some(last)) = (joints.first(), joints.last()) else { return Vec::new() };
    let pieces = (last - first).div_ceil(piece_bytes.max(1)).max(1);
    let mut ends = vec![*first];
    for wanted in (1..pieces).map(|n| first + n * ((last - first) / pieces)) {
        // As the file would be cut there itself: where the first record behind the place begins.
        let end = joints.partition_point(|joint| *joint < wanted);
        ends.extend(joints.get(end));
    }
    ends.push(*last);
    ends.dedup();
    ends
}

/// A random part of the pieces, as large as was asked for; one at least.
pub fn sampled(mut pieces: Vec<PlannedPiece>, sample: Sample) -> Vec<PlannedPiece> {
    // Of a source that is not cut, its size is not known either: all of them weigh the same then.
    let is_cut = |piece: &PlannedPiece| !matches!(piece.input, PieceInput::Stream { .. });
    let weigh = |piece: &PlannedPiece| if is_cut(piece) { piece.bytes.max(1) } else { 1 };
    let total: u64 = pieces.iter().map(weigh).sum();
    let wanted = total as f64 * sample.share();
    fastrand::Rng::with_seed(sample.seed()).shuffle(&mut pieces);
    let mut taken = 0;
    pieces.retain(|piece| {
        let is_wanted = (taken as f64) < wanted;
        taken += if is_wanted { weigh(piece) } else { 0 };
        is_wanted
    });
    pieces
}

/// Makes one piece of all pieces of a table, in the order of its files.
pub fn joined(
    pieces: Vec<PlannedPiece>,
    files: &[Arc<SourceFile>],
    format: &Format,
) -> Vec<PlannedPiece> {
    let Some(first) = pieces.first() else { return pieces };
    let (table, mut bytes) = (first.table, 0);
    let mut ranges = Vec::new();
    for piece in pieces {
        bytes += piece.bytes;
        match piece.input {
            PieceInput::Ranges(more) | PieceInput::Rows(more) => ranges.extend(more),
            PieceInput::Stream { file } => {
                ranges.push(FileRange { file, start: files[file].data_start, end: u64::MAX });
            }
        }
    }
    ranges.sort_by_key(|range: &FileRange| (range.file, range.start));
    ranges.dedup_by(|next, range| {
        let follows = next.file == range.file && next.start == range.end;
        if follows {
            range.end = next.end;
        }
        follows
    });
    let input =
        if format.is_columnar() { PieceInput::Rows(ranges) } else { PieceInput::Ranges(ranges) };
    vec![PlannedPiece { number: 0, table, input, bytes, bounds: None }]
}

/// Numbers the pieces of all tables and puts them into the order in which they are given out:
/// tables in order unless they go at once, and within that the largest first.
pub fn arrange(mut pieces: Vec<PlannedPiece>, tables_at_once: bool) -> Vec<PlannedPiece> {
    for (number, piece) in pieces.iter_mut().enumerate() {
        piece.number = number;
    }
    pieces.sort_by_key(|piece| {
        let table = if tables_at_once { 0 } else { piece.table };
        (table, std::cmp::Reverse(piece.bytes), piece.number)
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_parse::dialect::Dialect;
    use fullbore_read::discover::discover;

    #[test]
    fn streams_have_the_same_number_of_pieces() {
        let megabytes = |total: u64, streams| bytes_of_each(total << 20, streams) >> 20;
        assert_eq!(megabytes(1 << 20, 4), 1024);
        assert_eq!(megabytes(2800, 4), 100);
        // Seven each would be small: 6 each of 15 MiB, 2 of 12, 1 of 8.
        assert_eq!(megabytes(360, 4), 15);
        assert_eq!(megabytes(96, 4), 12);
        assert_eq!(megabytes(32, 4), 8);
        assert_eq!(megabytes(17, 8), 4);
        // As little as that is one piece.
        assert_eq!(megabytes(16, 4), 16);
        assert_eq!(megabytes(0, 4), 16);
    }

    /// How many pieces the files of a folder make for one stream, the largest of them of 20 MiB.
    fn pieces_of(files: usize, dialect: Dialect) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..files {
            let megabytes = if number == 0 { 20 } else { 2 };
            let text = "1,\"a\"\n".repeat((megabytes << 20) / 6);
            std::fs::write(folder.path().join(format!("{number}.csv")), text).expect("written");
        }
        let found = discover(folder.path().to_str().expect("UTF-8")).expect("found");
        let found: Vec<_> = found.into_iter().map(Arc::new).collect();
        let sizes = PieceSizes {
            streams: 1,
            record_bytes_max: 64 << 20,
            wanted: None,
            least: 0,
            sample: None,
        };
        let cuts = cut(&found, &Format::Delimited(dialect), 0, sizes).expect("cut");
        cuts.pieces.len()
    }

    #[test]
    fn a_sample_is_as_large_as_was_asked_for() {
        let piece = |number: u64| PlannedPiece {
            number: number as usize,
            table: 0,
            input: PieceInput::Ranges(vec![FileRange { file: 0, start: number, end: number + 1 }]),
            bytes: 100,
            bounds: None,
        };
        let pieces: Vec<_> = (0..200).map(piece).collect();
        let draw = |text: &str| sampled(pieces.clone(), text.parse().expect("a share"));
        let numbers = |text: &str| draw(text).iter().map(|piece| piece.number).collect::<Vec<_>>();
        assert_eq!(draw("10%").len(), 20);
        assert_eq!(draw("0.01%").len(), 1);
        assert_eq!(draw("100%").len(), 200);
        assert_eq!(numbers("10%@3"), numbers("10%@3"));
        assert_ne!(numbers("10%@3"), numbers("10%@4"));
    }

    #[test]
    fn quotes_are_not_counted_for_one_cut_among_many_files() {
        let few = PIECES_PER_STREAM_MIN - 1;
        assert_eq!(pieces_of(PIECES_PER_STREAM_MIN, Dialect::csv()), 2);
        assert_eq!(pieces_of(few, Dialect::csv()), 3);
        // Without quotes a cut costs nothing.
        assert_eq!(pieces_of(PIECES_PER_STREAM_MIN, Dialect::tbl()), 3);
    }
}
