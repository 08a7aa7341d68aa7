//! Pieces that took much longer than the others, and those that were still under way when all others
//! had ended. Pure: times in, pieces out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observe::pieces::PieceTime;

/// A piece is slow from so many times its table's median time per byte on.
const TIMES_SLOWER_MIN: f64 = 3.0;

/// What takes a smaller part of the time in which rows moved, or less than a second, is not told.
const PART_MIN: f64 = 0.05;
const SECONDS_MIN: f64 = 1.0;

/// Fewer pieces have no median worth the name.
const PIECES_MIN: usize = 3;

/// Stragglers are named, not listed without end.
const NAMED_MAX: usize = 5;

/// A piece that the run waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Straggler {
    pub table: usize,
    pub piece: usize,
    pub stream: usize,
    /// Its first source file.
    pub file: String,
    pub bytes: u64,
    pub seconds: f64,
    /// Time per byte as a multiple of the median piece of its table, if large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_slower: Option<f64>,
    /// Seconds in which no other piece was loading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_seconds: Option<f64>,
}

/// The stragglers among pieces, those that took longest first; `file` names a piece's file.
pub fn stragglers(pieces: &[PieceTime], file: impl Fn(&PieceTime) -> String) -> Vec<Straggler> {
    let begin = pieces.iter().map(|piece| piece.began).fold(f64::INFINITY, f64::min);
    let end = pieces.iter().map(PieceTime::ended).fold(0.0, f64::max);
    let matters = |seconds: f64| seconds >= SECONDS_MIN.max((end - begin) * PART_MIN);
    let last = pieces.iter().max_by(|a, b| a.ended().total_cmp(&b.ended()));
    let alone = last.and_then(|last| {
        // Those of a source that it shares waited with it.
        let is_other = |piece: &&PieceTime| piece.piece != last.piece && !piece.shares_source(last);
        let others = pieces.iter().filter(is_other).map(PieceTime::ended);
        let ended = others.reduce(f64::max)?.max(last.began);
        Some((last.piece, last.ended() - ended))
    });
    let mut found: Vec<Straggler> = pieces
        .iter()
        .filter(|piece| matters(piece.seconds))
        .filter_map(|piece| {
            let times_slower = median_pace(pieces, piece.table).map(|median| piece.pace() / median);
            let times_slower = times_slower.filter(|times| *times >= TIMES_SLOWER_MIN);
            let alone = alone.filter(|(number, _)| *number == piece.piece);
            let alone_seconds = alone.map(|(_, seconds)| seconds).filter(|s| matters(*s));
            (times_slower.is_some() || alone_seconds.is_some()).then(|| Straggler {
                table: piece.table,
                piece: piece.piece,
                stream: piece.stream,
                file: file(piece),
                bytes: piece.bytes,
                seconds: piece.seconds,
                times_slower,
                alone_seconds,
            })
        })
        .collect();
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    found.truncate(NAMED_MAX);
    found
}

/// Seconds a byte of a table's median piece.
fn median_pace(pieces: &[PieceTime], table: usize) -> Option<f64> {
    let mut paces: Vec<f64> =
        pieces.iter().filter(|piece| piece.table == table).map(PieceTime::pace).collect();
    if paces.len() < PIECES_MIN {
        return None;
    }
    paces.sort_by(f64::total_cmp);
    Some(paces[paces.len() / 2]).filter(|pace| *pace > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of 10 MB that take a second each, by two streams.
    fn even() -> Vec<PieceTime> {
        let piece = |piece: usize| PieceTime {
            piece,
            table: 0,
            stream: piece % 2,
            file: Some(piece),
            is_shared: false,
            bytes: 10_000_000,
            began: (piece / 2) as f64,
            seconds: 1.0,
        };
        (0..8).map(piece).collect()
    }

    fn named(pieces: &[PieceTime]) -> Vec<Straggler> {
        stragglers(pieces, |piece| format!("file {}", piece.piece))
    }

    #[test]
    fn even_pieces_have_no_stragglers() {
        assert_eq!(named(&even()), []);
        assert_eq!(named(&[]), []);
        assert_eq!(named(&even()[..1]), []);
    }

    #[test]
    fn a_slow_piece_is_named_with_its_file() {
        let mut pieces = even();
        pieces[2].seconds = 3.0;
        let found = named(&pieces);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].piece, found[0].file.as_str()), (2, "file 2"));
        assert_eq!((found[0].times_slower, found[0].alone_seconds), (Some(3.0), None));
    }

    #[test]
    fn the_last_piece_is_named_where_it_was_alone() {
        let mut pieces = even();
        // Large, not slow.
        (pieces[7].seconds, pieces[7].bytes) = (6.0, 60_000_000);
        let found = named(&pieces);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].times_slower, found[0].alone_seconds), (None, Some(5.0)));
        // Another table's pieces are no measure for its pace.
        pieces[7].table = 1;
        pieces[7].bytes = 1;
        assert_eq!(named(&pieces)[0].times_slower, None);
    }

    #[test]
    fn a_pipe_that_two_streams_wait_for_is_named() {
        let mut pieces = even();
        for piece in &mut pieces[6..] {
            (piece.seconds, piece.bytes) = (6.0, 60_000_000);
        }
        // Two large pieces that end together leave nobody alone.
        assert_eq!(named(&pieces), []);
        for piece in &mut pieces[6..] {
            (piece.file, piece.is_shared) = (Some(6), true);
        }
        let found = named(&pieces);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].times_slower, found[0].alone_seconds), (None, Some(6.0)));
        // Where there is no other file, all have waited.
        assert_eq!(named(&pieces[6..]), []);
    }
}
