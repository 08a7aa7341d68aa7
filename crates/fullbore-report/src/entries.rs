//! Lists of what was seen, each entry with its moment.
//!
//! A resumed run has several processes, each with counters from zero, so counters of different processes
//! are never subtracted.

/// The time that "now" looks back on, in seconds.
const NOW_S: f64 = 10.0;

/// Cuts entries into those of each process that had the run, by the moments from which on one had it
/// that took it over. There is at least one, be it empty.
pub fn attempts<'a, T>(entries: &'a [(f64, T)], taken_over: &[f64]) -> Vec<&'a [(f64, T)]> {
    let mut cuts: Vec<usize> =
        taken_over.iter().map(|moment| entries.partition_point(|(at, _)| at < moment)).collect();
    cuts.push(entries.len());
    let mut from = 0;
    cuts.into_iter()
        .map(|cut| {
            let cut = cut.max(from);
            &entries[std::mem::replace(&mut from, cut)..cut]
        })
        .collect()
}

/// Adds to a list; where it grows too long every other one is left out, but not the first.
pub fn keep<T>(list: &mut Vec<(f64, T)>, entry: (f64, T), kept_max: usize) {
    if list.len() >= kept_max {
        let mut is_kept = false;
        list.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }
    list.push(entry);
}

/// What the last ten seconds began with.
pub fn recent<T>(list: &[(f64, T)]) -> Option<&T> {
    let (end, _) = list.last()?;
    let before = list.iter().rev().skip(1).find(|(at, _)| end - at >= NOW_S);
    before.or(list.first().filter(|(at, _)| at < end)).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own() {
        let entries: Vec<(f64, char)> =
            [(0.0, 'a'), (1.0, 'b'), (1.0, 'c'), (1.1, 'd'), (3.0, 'e')].into();
        let cut = |taken_over: &[f64]| -> Vec<String> {
            let text = |part: &&[(f64, char)]| part.iter().map(|(_, name)| *name).collect();
            attempts(&entries, taken_over).iter().map(text).collect()
        };
        assert_eq!(cut(&[]), ["abcde"]);
        assert_eq!(cut(&[1.1]), ["abc", "de"]);
        // Some that saw nothing.
        assert_eq!(cut(&[1.1, 1.1, 2.0, 4.0]), ["abc", "", "d", "e", ""]);
    }
}
