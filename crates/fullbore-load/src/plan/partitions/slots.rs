//! Pieces that become partitions: their ranges from the job, from empty partitions of the target,
//! or from the files' keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use fullbore_parse::types::{FieldType, ParseShape};
use fullbore_read::FileRange;
use fullbore_read::cast::judged_by_server;
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::Publish;

use crate::job::TableJob;
use crate::plan::keys::scan::KeyScanner;
use crate::plan::keys::{Key, KeyColumn};
use crate::plan::look::Sources;
use crate::plan::partitions::pattern::Pattern;
use crate::plan::partitions::{Request, Slot};
use crate::plan::pieces::PieceSizes;
use crate::plan::{KeyBounds, KeyEnd, KeyLimits, PieceInput, PlannedPiece};
use crate::target::{ExistingPartition, Target, TargetTable};

/// Refuses options of partitions where none are made; `routes_rows`: the destination has them, and finds a row's.
pub fn check_partition_options(job: &TableJob, routes_rows: bool) -> Result<()> {
    if job.publish == Publish::Partitions && !routes_rows {
        return Ok(());
    }
    let given = match (job.partition_bounds.is_empty(), job.scan_keys) {
        (false, _) => "--partition-bounds",
        (true, true) => "--scan-keys",
        (true, false) => return Ok(()),
    };
    Err(match job.publish {
        Publish::Partitions => Error::usage_with_hint(
            format!("{given}: rows go to the partitions that the table has"),
            "omit it",
        ),
        _ => Error::usage_with_hint(
            format!("{given} has no effect without --publish partitions"),
            "add --publish partitions",
        ),
    })
}

/// A table whose pieces become partitions.
pub struct PartitionTarget<'a, T: Target> {
    pub asked: &'a T,
    pub target: &'a T::Table,
    pub job: &'a TableJob,
    pub table: usize,
    pub sizes: PieceSizes,
    /// Other hosts may have keys between those of our files.
    pub is_part: bool,
}

/// What the plan says of empty partitions that give their place to loaded ones.
const REPLACES: &str = "empty partitions with the same ranges are dropped, and the loaded ones \
                        attached under their names, in the publishing transaction";

/// A range that is fixed beforehand, as it is written.
struct WrittenSlot {
    slot: Slot,
    lower: KeyEnd,
    upper: KeyEnd,
    /// The partition that has this range now.
    partition: Option<String>,
}

impl<T: Target> PartitionTarget<'_, T> {
    /// The pieces that become partitions, made of those that were cut by size.
    pub fn pieces(
        &self,
        sources: &Sources,
        shape: &Arc<ParseShape>,
        pieces: Vec<PlannedPiece>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<PlannedPiece>> {
        let key = self.key(shape)?;
        refuse_judged(sources, &key)?;
        let column = shape.columns.iter().position(|column| column.name == key.name);
        let from_job = !self.job.partition_bounds.is_empty();
        let mut written = match from_job {
            true => self.slots_of_job(&key)?,
            false => self.slots_of_target(&key)?,
        };
        let pattern = if from_job { None } else { self.pattern(&key, &written) };
        let stretches = stretches(sources, pieces);
        let slots: Vec<Slot> = written.iter().map(|written| written.slot.clone()).collect();
        let all_slots: Vec<Slot>;
        let mut request = Request {
            scanner: KeyScanner {
                files: &sources.files,
                format: &sources.format,
                key: &key,
                record_bytes_max: self.sizes.record_bytes_max,
            },
            slots: &slots,
            slots_only: from_job,
            scan: self.job.scan_keys,
            threads: self.sizes.streams,
            piece_bytes: self.sizes.of_files(&sources.files),
            is_part: self.is_part,
        };
        let mut regions = request.regions(stretches.clone())?;
        let outside: Vec<(Key, Key)> = regions.outside().collect();
        if let Some(pattern) = pattern.filter(|_| !outside.is_empty()) {
            let made = self.slots_of_pattern(&key, &pattern, &outside, &written)?;
            if let Some(made) = made {
                written.extend(made);
                written.sort_by_key(|written| written.slot.lower.unwrap_or(Key::MIN));
                all_slots = written.iter().map(|written| written.slot.clone()).collect();
                request = Request { slots: &all_slots, ..request };
                regions = request.regions(stretches)?;
                notes.push(format!(
                    "rows outside the partitions of {} get new partitions by the same pattern, {} \
                     each",
                    self.target.name(),
                    pattern.words(&key)
                ));
            }
        }
        let partitions = request.partitions(regions)?;
        let mut pieces = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let column = column.expect("the key is among the columns");
            let bounds = match partition.slot.map(|slot| &written[slot]) {
                Some(WrittenSlot { slot, lower, upper, partition }) => {
                    if let Some(partition) = partition {
                        self.asked.check_replaceable(self.target, partition)?;
                    }
                    KeyBounds {
                        lower: lower.clone(),
                        upper: upper.clone(),
                        keys: limits(&key, column, slot.lower, slot.upper),
                        replaces: partition.clone(),
                    }
                }
                None => {
                    // The largest key of the type has none after it.
                    let upper = Some(partition.upper).filter(|upper| *upper < key.limit());
                    let written = |end: Key| self.text(&key, &key.text(end)).map(KeyEnd::Value);
                    KeyBounds {
                        lower: written(partition.lower)?,
                        upper: upper.map_or(Ok(KeyEnd::Max), written)?,
                        keys: limits(&key, column, Some(partition.lower), upper),
                        replaces: None,
                    }
                }
            };
            pieces.push(PlannedPiece {
                number: 0,
                table: self.table,
                input: partition.input,
                bytes: partition.bytes,
                bounds: Some(bounds),
            });
        }
        let replaces = |piece: &PlannedPiece| {
            piece.bounds.as_ref().is_some_and(|bounds| bounds.replaces.is_some())
        };
        if pieces.iter().any(replaces) {
            notes.push(REPLACES.to_owned());
        }
        Ok(pieces)
    }

    /// The pattern that the target's partitions follow, those with open ends left out.
    fn pattern(&self, key: &KeyColumn, slots: &[WrittenSlot]) -> Option<Pattern> {
        let clock = on_the_clock(key);
        let end = |end: &KeyEnd| clock.of_text(without_zone(key, end.value()?));
        let closed = slots
            .iter()
            .filter(|written| written.slot.lower.is_some() && written.slot.upper.is_some());
        let ranges: Option<Vec<_>> =
            closed.map(|written| end(&written.lower).zip(end(&written.upper))).collect();
        Pattern::of(&ranges?, &clock)
    }

    /// Slots by the target's pattern for keys outside all of its partitions; none where numbers would need
    /// too many, which then become partitions as they come.
    fn slots_of_pattern(
        &self,
        key: &KeyColumn,
        pattern: &Pattern,
        outside: &[(Key, Key)],
        slots: &[WrittenSlot],
    ) -> Result<Option<Vec<WrittenSlot>>> {
        let clock = on_the_clock(key);
        // As clocks show them, keys of a zone are a day away at most.
        let shift = if clock.field_type == key.field_type { 0 } else { MICROSECONDS_OF_A_DAY };
        let mut ranges = BTreeSet::new();
        for (first, last) in outside {
            let (first, last) = (first - shift, last + shift);
            let is_far = pattern.count(first, last) > PATTERN_PARTITIONS_MAX as Key;
            if is_far && !is_moment(key) {
                return Ok(None);
            }
            let mut range = pattern.around(first);
            while !is_far && range.0 <= last {
                ranges.insert(range);
                range = pattern.around(range.1);
            }
            if is_far || ranges.len() > PATTERN_PARTITIONS_MAX {
                return Err(self.far_away(key, pattern, outside));
            }
        }
        let mut made = Vec::new();
        for (lower, upper) in ranges {
            let (lower, lower_key) = self.given_end(key, &clock.text(lower))?;
            let (upper, upper_key) = self.given_end(key, &clock.text(upper))?;
            let (Some(from), Some(to)) = (lower_key, upper_key) else { continue };
            let holds = |(first, last): &(Key, Key)| *first < to && *last >= from;
            if outside.iter().any(holds) {
                let slot = Slot { lower: lower_key, upper: upper_key };
                let slot = WrittenSlot { slot, lower, upper, partition: None };
                made.extend(beside(slot, slots));
            }
        }
        if self.is_part && !made.is_empty() {
            return Err(Error::usage_with_hint(
                format!(
                    "keys are outside the partitions of {}, and hosts that load together can't \
                     each create new ones by the same pattern ({} each)",
                    self.target.name(),
                    pattern.words(&clock)
                ),
                "create these partitions before the load",
            ));
        }
        Ok(Some(made))
    }

    fn far_away(&self, key: &KeyColumn, pattern: &Pattern, outside: &[(Key, Key)]) -> Error {
        let first = outside.iter().map(|(first, _)| *first).min().unwrap_or_default();
        let last = outside.iter().map(|(_, last)| *last).max().unwrap_or_default();
        Error::usage_with_hint(
            format!(
                "{} from {} to {} is outside the partitions of {}: new ones by their pattern ({} each) \
                 would be more than {PATTERN_PARTITIONS_MAX}",
                key.name,
                key.text(first),
                key.text(last),
                self.target.name(),
                pattern.words(key)
            ),
            "check the files for wrong keys, set the partitions with --partition-bounds A,B,C, or \
             create them before the load",
        )
    }

    fn key(&self, shape: &ParseShape) -> Result<KeyColumn> {
        match self.target.partition_key() {
            Some([column]) => {
                let key = KeyColumn::new(shape, column)?;
                Ok(match self.target.second_digits(column) {
                    Some(digits) => key.with_second_digits(digits),
                    None => key,
                })
            }
            _ => Err(Error::usage_with_hint(
                format!("{} has no single partition key", self.target.name()),
                "name it with --create --partition-by COLUMN",
            )),
        }
    }

    fn text(&self, key: &KeyColumn, text: &str) -> Result<String> {
        self.asked.key_text(self.target, &key.name, text)
    }

    /// One end of a range that people wrote, and its key where there is one.
    fn given_end(&self, key: &KeyColumn, text: &str) -> Result<(KeyEnd, Option<Key>)> {
        let end = match text.to_ascii_uppercase().as_str() {
            "MINVALUE" => KeyEnd::Min,
            "MAXVALUE" => KeyEnd::Max,
            _ => KeyEnd::Value(self.text(key, text)?),
        };
        let found = key_of(key, &end)?;
        Ok((end, found))
    }

    fn slots_of_job(&self, key: &KeyColumn) -> Result<Vec<WrittenSlot>> {
        let given = &self.job.partition_bounds;
        let wrong = |what: String| {
            Error::usage_with_hint(
                what,
                "specify ascending bounds, the lower ends and the last upper end: A,B,C creates \
                 two partitions, A to B and B to C; MINVALUE can come first, MAXVALUE last",
            )
        };
        if given.len() < 2 {
            return Err(wrong("--partition-bounds has fewer than two bounds".into()));
        }
        let ends: Vec<_> =
            given.iter().map(|end| self.given_end(key, end)).collect::<Result<_>>()?;
        for (at, (text, end)) in ends.iter().enumerate() {
            let open = match text {
                KeyEnd::Min => at == 0,
                KeyEnd::Max => at + 1 == ends.len(),
                KeyEnd::Value(_) => true,
            };
            let ascends = at == 0 || ends[at - 1].1.zip(*end).is_none_or(|(a, b)| a < b);
            if !open || !ascends {
                return Err(wrong(format!("--partition-bounds does not ascend at {}", given[at])));
            }
        }
        Ok(ends
            .windows(2)
            .map(|ends| WrittenSlot {
                slot: Slot { lower: ends[0].1, upper: ends[1].1 },
                lower: ends[0].0.clone(),
                upper: ends[1].0.clone(),
                partition: None,
            })
            .collect())
    }

    fn slots_of_target(&self, key: &KeyColumn) -> Result<Vec<WrittenSlot>> {
        let mut slots = Vec::new();
        for found in self.asked.partitions(self.target)? {
            let ExistingPartition { name, lower, upper } = found;
            let places = (beyond(key, &lower), beyond(key, &upper));
            if places.0 == Some(Beyond::After) || places.1 == Some(Beyond::Before) {
                // No key that we can read is in it.
                continue;
            }
            let end = |end: &KeyEnd, place: Option<Beyond>| match place {
                Some(_) => Ok(None),
                None => key_of(key, end),
            };
            slots.push(WrittenSlot {
                slot: Slot { lower: end(&lower, places.0)?, upper: end(&upper, places.1)? },
                lower,
                upper,
                partition: Some(name),
            });
        }
        slots.sort_by_key(|written| written.slot.lower.unwrap_or(Key::MIN));
        Ok(slots)
    }
}

/// So many partitions at most are made by the target's own pattern.
const PATTERN_PARTITIONS_MAX: usize = 1_000;

const MICROSECONDS_OF_A_DAY: Key = 86_400_000_000;

fn is_moment(key: &KeyColumn) -> bool {
    use fullbore_parse::types::FieldType::{Date, Timestamp, TimestampTz};
    matches!(key.field_type, Date | Timestamp | TimestampTz { .. })
}

/// Keys as the clocks of the session's zone show them: months begin at midnight there.
fn on_the_clock(key: &KeyColumn) -> KeyColumn {
    match key.field_type {
        FieldType::TimestampTz { .. } => {
            KeyColumn { field_type: FieldType::Timestamp, ..key.clone() }
        }
        _ => key.clone(),
    }
}

/// A bound without the zone behind it.
fn without_zone<'a>(key: &KeyColumn, bound: &'a str) -> &'a str {
    let zone = match key.field_type {
        // Behind the date, which has signs of its own.
        FieldType::TimestampTz { .. } => {
            bound.char_indices().skip(10).find(|(_, sign)| matches!(sign, '+' | '-'))
        }
        _ => None,
    };
    zone.map_or(bound, |(at, _)| &bound[..at])
}

/// What of a new slot is beside the partitions that are there, which may have open ends.
fn beside(mut made: WrittenSlot, slots: &[WrittenSlot]) -> Option<WrittenSlot> {
    for there in slots {
        let (from, to) = (made.slot.lower?, made.slot.upper?);
        let begins_before = there.slot.lower.is_none_or(|lower| lower <= from);
        let ends_after = there.slot.upper.is_none_or(|upper| upper >= to);
        let meets = there.slot.lower.is_none_or(|lower| lower < to)
            && there.slot.upper.is_none_or(|upper| upper > from);
        match (meets, begins_before, ends_after) {
            (false, ..) => {}
            (true, true, true) => return None,
            (true, true, false) => {
                (made.slot.lower, made.lower) = (there.slot.upper, there.upper.clone());
            }
            (true, false, _) => {
                (made.slot.upper, made.upper) = (there.slot.lower, there.lower.clone());
            }
        }
    }
    Some(made)
}

/// The key at an end of a range; `None` at an open one.
fn key_of(key: &KeyColumn, end: &KeyEnd) -> Result<Option<Key>> {
    let Some(text) = end.value() else { return Ok(None) };
    key.of_text(text).map(Some).ok_or_else(|| {
        Error::usage_with_hint(
            format!("{text} can't be placed among the values of {}", key.name),
            "use MINVALUE or MAXVALUE for an open end, or load with --publish append",
        )
    })
}

/// Where a bound stands that is none of the keys which are read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Before,
    After,
}

/// Bounds that no key of the files reaches: infinity, years before the first and after 9999.
fn beyond(key: &KeyColumn, end: &KeyEnd) -> Option<Beyond> {
    let bound = end.value()?;
    if !is_moment(key) || key.of_text(bound).is_some() {
        return None;
    }
    let year = bound.split('-').next().unwrap_or_default();
    match bound {
        "-infinity" => Some(Beyond::Before),
        "infinity" => Some(Beyond::After),
        _ if bound.ends_with(" BC") => Some(Beyond::Before),
        _ if year.len() > 4 && year.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Beyond::After)
        }
        _ => None,
    }
}

/// What keys of a piece may be, as the files have them: the ends are those that are stored.
fn limits(key: &KeyColumn, column: usize, lower: Option<Key>, upper: Option<Key>) -> KeyLimits {
    let of_file = |end: Option<Key>| end.map(|end| key.first_stored_as(end));
    KeyLimits { column, lower: of_file(lower), upper: of_file(upper) }
}

/// Refuses a key whose stored values mean what the server says: their order is not known here.
fn refuse_judged(sources: &Sources, key: &KeyColumn) -> Result<()> {
    let mut stored = sources.stored.get(key.shape.columns[0].field).into_iter().flatten();
    let Some(why) = stored.find_map(|kind| judged_by_server(kind, &key.field_type)) else {
        return Ok(());
    };
    Err(Error::usage_with_hint(
        format!("the key {:?} is {why}, so that only the server knows its order", key.name),
        "set the session's TimeZone to UTC if the files are in UTC, or load with --publish append or replace",
    ))
}

/// The stretches of the sources, however they were gathered into pieces.
fn stretches(sources: &Sources, pieces: Vec<PlannedPiece>) -> Vec<(FileRange, u64)> {
    let mut stretches = Vec::new();
    for piece in pieces {
        match piece.input {
            PieceInput::Ranges(ranges) => stretches.extend(ranges.into_iter().map(|range| {
                let bytes = range.end - range.start;
                (range, bytes)
            })),
            PieceInput::Rows(ranges) => {
                stretches.extend(ranges.into_iter().map(|range| (range, piece.bytes)));
            }
            PieceInput::Stream { file } => {
                let source = &sources.files[file];
                let range = FileRange { file, start: source.data_start, end: u64::MAX };
                let bytes = if source.is_regular { source.size } else { piece.bytes };
                stretches.push((range, bytes));
            }
        }
    }
    stretches
}
