//! Key ranges of Parquet files: from the statistics of their row groups where these are exact.

use fullbore_read::FileRange;
use fullbore_read::columnar::{GroupRange, group_ranges};
use fullbore_read::error::Result;

use super::scan::KeyScanner;
use super::{Key, KeyColumn, KeyStretch};

/// The parts of stretches whose keys statistics tell; the others are to be read.
pub fn from_statistics(
    scanner: &KeyScanner<'_>,
    stretches: &[(FileRange, u64)],
) -> Result<Vec<Option<KeyStretch>>> {
    let mut known: Option<(usize, Vec<GroupRange>)> = None;
    let mut parts = Vec::with_capacity(stretches.len());
    for (range, bytes) in stretches {
        let groups = match &known {
            Some((file, groups)) if *file == range.file => groups,
            _ => {
                let groups = group_ranges(&scanner.files[range.file], &scanner.key.shape)?;
                &known.insert((range.file, groups)).1
            }
        };
        parts.push(ends(scanner.key, groups, range).map(|(first, last)| KeyStretch {
            range: range.clone(),
            bytes: *bytes,
            first,
            last,
            is_exact: true,
        }));
    }
    Ok(parts)
}

/// The smallest and largest key of whole row groups.
fn ends(key: &KeyColumn, groups: &[GroupRange], range: &FileRange) -> Option<(Key, Key)> {
    let mut begins = 0;
    let mut found: Option<(Key, Key)> = None;
    for group in groups {
        let ends = begins + group.rows;
        if begins < range.end && ends > range.start && group.rows > 0 {
            let (first, last) = group.ends.as_ref()?;
            let mut keys = Vec::with_capacity(2);
            for array in [first, last] {
                key.each(array, |_, key| {
                    keys.extend(key);
                    true
                });
            }
            let [first, last] = keys.try_into().ok()?;
            found = Some(found.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
        }
        begins = ends;
    }
    found
}
