//! Error messages for pieces that cannot become partitions: both ranges and a hint.

use fullbore_read::FileRange;
use fullbore_read::error::{Error, Result};

use super::{Group, Request};
use crate::plan::keys::scan::RUNS_MAX;
use crate::plan::keys::{Key, KeyStretch};

impl Request<'_> {
    /// A pipe can't be read twice, so its range must be given.
    pub(super) fn check_pipe(&self, range: &FileRange) -> Result<()> {
        if self.slots_only && self.slots.len() == 1 {
            return Ok(());
        }
        let path = self.scanner.files[range.file].path.display();
        let name = if path.to_string() == "-" { "standard input".into() } else { path.to_string() };
        Err(Error::usage_with_hint(
            format!("{name} can be read only once, so its key range can't be read first"),
            "set the range with --partition-bounds FROM,TO (it becomes one partition), or load \
             with --publish append",
        ))
    }

    fn path(&self, file: usize) -> String {
        self.scanner.files[file].path.display().to_string()
    }

    pub(super) fn overlap(&self, group: &Group, part: &KeyStretch) -> Error {
        let key = self.scanner.key;
        let file = group.ranges.last().map_or(0, |range| range.file);
        Error::usage_with_hint(
            format!(
                "the key ranges overlap: {} has {} from {} to {}, {} from {} to {}",
                self.path(file),
                key.name,
                key.text(group.first),
                key.text(group.last),
                self.path(part.range.file),
                key.text(part.first),
                key.text(part.last)
            ),
            "merge the files in key order, set ranges that several files can share with \
             --partition-bounds A,B,C, or load with --publish replace or append",
        )
    }

    pub(super) fn outside(&self, part: &KeyStretch) -> Error {
        let key = self.scanner.key;
        let end = |end: Option<Key>| end.map_or("without end".into(), |end| key.text(end));
        let bounds = (self.slots.first(), self.slots.last());
        let words = match bounds {
            (Some(first), Some(last)) => {
                format!("from {} to below {}", end(first.lower), end(last.upper))
            }
            _ => "none".into(),
        };
        Error::usage_with_hint(
            format!(
                "{}: {} from {} to {} is outside the partition bounds, {words}",
                self.path(part.range.file),
                key.name,
                key.text(part.first),
                key.text(part.last)
            ),
            "widen --partition-bounds; MINVALUE and MAXVALUE leave an end open",
        )
    }

    pub(super) fn not_nearly_sorted(&self, range: &FileRange) -> Error {
        Error::usage_with_hint(
            format!(
                "{} is not sorted by {}: its rows switch between partitions more than {RUNS_MAX} \
                 times",
                self.path(range.file),
                self.scanner.key.name
            ),
            "sort it by the key, or load with --publish append: the server then routes each row",
        )
    }
}
