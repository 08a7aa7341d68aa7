//! Guesses where records begin within an object of quoted text, from the quotes near a place.
//!
//! To know it for sure, all quotes before the place have to be counted, which means to fetch an object twice.
//! A guess can only be wrong about whether the place is inside quotes. Then the range before it, which is read
//! from where a record does begin, ends inside quotes; [`super::stream`] sees that and refuses. So a guess costs
//! nothing and can't go unnoticed, as long as no row is seen before all ranges were read: who cuts decides that.

use fullbore_parse::boundary::{QuoteState, first_record_end};
use fullbore_parse::dialect::{Dialect, Quotes};
use fullbore_parse::index::quotes::look_at_quotes;

use super::source_file::SourceFile;
use super::split::side_by_side;
use crate::constants::SAMPLE_BYTES;
use crate::error::Result;

/// Bytes before a place that tell whether a quote at it may open.
const BEFORE: u64 = 2;

/// Looks at so many places at a time.
const LOOKS: usize = 16;

/// The first record after each of some places; `None` where the quotes do not tell.
pub fn cuts(source: &SourceFile, dialect: &Dialect, wanted: &[u64]) -> Result<Option<Vec<u64>>> {
    if !dialect.is_often_told_by_parity() {
        return Ok(None);
    }
    let found = side_by_side(wanted.len(), LOOKS, |at| next_record(source, dialect, wanted[at]))?;
    Ok(found.into_iter().collect())
}

fn next_record(source: &SourceFile, dialect: &Dialect, place: u64) -> Result<Option<u64>> {
    let from = place.saturating_sub(BEFORE);
    let end = source.end().min(place + SAMPLE_BYTES as u64);
    let mut text = vec![0; (end - from) as usize];
    source.open()?.read_exact_at(&mut text, from).map_err(|error| source.unreadable(error))?;
    let (before, text) = text.split_at((place - from) as usize);
    let seen = look_at_quotes(text, before, dialect);
    let inside = match seen.is_misplaced {
        [false, true] => false,
        [true, false] => true,
        // A field without a quote for so long is rare; one that is quoted is seen to be so.
        [false, false] if !text.contains(&dialect.quote) => false,
        _ => return Ok(None),
    };
    // Quotes stand where they should: then their parity tells.
    let by_parity = Dialect { quotes: Quotes::Lenient, ..dialect.clone() };
    let state = QuoteState { inside, escaped: false };
    Ok(first_record_end(text, state, before, &by_parity).map(|end| place + end as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::discover;

    #[test]
    fn places_within_quotes_are_told_from_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let row = |n: u32| match n % 3 {
            0 => format!("{n},\"one, \"\"two\"\"\nthree\",plain\n"),
            1 => format!("{n},,x\n"),
            _ => format!("{n},\"{}\",\"y\"\n", "\n1,2\n".repeat(5)),
        };
        let rows: Vec<String> = (0..300).map(row).collect();
        let text = rows.concat();
        let mut starts = vec![0];
        rows.iter().for_each(|row| starts.push(starts[starts.len() - 1] + row.len() as u64));
        std::fs::write(&path, &text).expect("written");
        let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
        for quotes in [Quotes::Strict, Quotes::Lenient] {
            let dialect = Dialect { quotes, ..Dialect::csv() };
            for place in 1..text.len() as u64 - 200 {
                let found = cuts(&source, &dialect, &[place]).expect("read").expect("told")[0];
                let wanted = starts.iter().find(|start| **start > place).expect("there are more");
                // A record may begin at the place itself.
                assert!(found == *wanted || starts.contains(&place) && found > place, "{place}");
            }
        }
        // A text of quotes alone tells nothing.
        std::fs::write(&path, "\",\"\n".repeat(1000)).expect("written");
        let source = discover(path.to_str().expect("UTF-8")).expect("found").remove(0);
        assert_eq!(cuts(&source, &Dialect::csv(), &[1002]).expect("read"), None);
    }
}
