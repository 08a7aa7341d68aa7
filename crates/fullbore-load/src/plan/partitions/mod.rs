//! Makes of a table's sources the pieces that become RANGE partitions.
//!
//! The key axis has *slots*, ranges that are fixed beforehand (by the job, or by partitions that
//! the target has), and *gaps* around them. What falls into a slot becomes one partition, from
//! however many files it comes. What falls into a gap is cut as the sources are: each piece
//! becomes a partition, and pieces of different files may not overlap.

pub mod pattern;
mod refusals;
pub mod slots;

use std::collections::BTreeMap;

use fullbore_read::FileRange;
use fullbore_read::error::Result;

use super::keys::edges::EdgeReader;
use super::keys::ranges::from_statistics;
use super::keys::scan::{KeyScanner, Run};
use super::keys::{Key, KeyStretch};
use super::{Format, PieceInput};

/// A key range that is fixed beforehand.
#[derive(Debug, Clone)]
pub struct Slot {
    /// None is without end.
    pub lower: Option<Key>,
    /// Exclusive.
    pub upper: Option<Key>,
}

/// How a table is to be partitioned.
pub struct Request<'a> {
    pub scanner: KeyScanner<'a>,
    /// Ascending, without overlap.
    pub slots: &'a [Slot],
    /// Whether keys outside the slots are refused.
    pub slots_only: bool,
    /// Read all keys beforehand, of sorted text too.
    pub scan: bool,
    pub threads: usize,
    pub piece_bytes: u64,
    /// Other hosts load other keys into the same gaps: no range may reach beyond our own keys.
    pub is_part: bool,
}

/// A partition to be: its rows and its range.
#[derive(Debug)]
pub struct Partition {
    pub input: PieceInput,
    pub bytes: u64,
    /// The slot that it fills; else the range is this one, the upper end exclusive.
    pub slot: Option<usize>,
    pub lower: Key,
    pub upper: Key,
}

/// Rows of a gap that become one partition.
struct Group {
    ranges: Vec<FileRange>,
    bytes: u64,
    first: Key,
    last: Key,
    is_exact: bool,
}

/// Stretches of the sources by the slot or gap that their keys are in.
pub struct Regions(BTreeMap<usize, Vec<KeyStretch>>);

impl Regions {
    /// The first and the last keys of stretches that are in no slot.
    pub fn outside(&self) -> impl Iterator<Item = (Key, Key)> + '_ {
        let gaps = self.0.iter().filter(|(region, _)| *region % 2 == 0);
        gaps.flat_map(|(_, parts)| parts).map(|part| (part.first, part.last))
    }
}

impl Request<'_> {
    /// The stretches of the sources, cut where slots begin and end.
    pub fn regions(&self, stretches: Vec<(FileRange, u64)>) -> Result<Regions> {
        let mut regions: BTreeMap<usize, Vec<KeyStretch>> = BTreeMap::new();
        let (pipes, stretches): (Vec<_>, Vec<_>) = stretches
            .into_iter()
            .partition(|(range, _)| !self.scanner.files[range.file].is_regular);
        for (range, bytes) in pipes {
            self.check_pipe(&range)?;
            let part = KeyStretch { range, bytes, first: 0, last: 0, is_exact: false };
            regions.entry(1).or_default().push(part);
        }
        for part in self.parts(stretches)? {
            let region = self.region(part.first);
            if self.region(part.last) == region {
                regions.entry(region).or_default().push(part);
                continue;
            }
            for (region, part) in self.scanned(&[(part.range, part.bytes)])? {
                regions.entry(region).or_default().push(part);
            }
        }
        Ok(Regions(regions))
    }

    /// The partitions that stretches of the sources become, in the order of their keys.
    pub fn partitions(&self, regions: Regions) -> Result<Vec<Partition>> {
        let mut partitions = Vec::new();
        for (region, parts) in regions.0 {
            if region % 2 == 1 {
                partitions.push(self.in_slot(region / 2, parts));
                continue;
            }
            if self.slots_only {
                return Err(self.outside(&parts[0]));
            }
            partitions.extend(self.in_gap(parts)?);
        }
        Ok(partitions)
    }

    /// Which slot (odd) or gap (even) a key belongs to, in the order of the key axis.
    fn region(&self, key: Key) -> usize {
        let begun = self.slots.partition_point(|slot| slot.lower.is_none_or(|lower| lower <= key));
        match begun.checked_sub(1).map(|slot| &self.slots[slot]) {
            Some(slot) if slot.upper.is_none_or(|upper| key < upper) => 2 * begun - 1,
            _ => 2 * begun,
        }
    }

    /// The stretches with their keys, none of them unknown; those that were read are already cut
    /// where slots begin and end.
    fn parts(&self, stretches: Vec<(FileRange, u64)>) -> Result<Vec<KeyStretch>> {
        let scanner = &self.scanner;
        let Some(mut edges) = EdgeReader::new(scanner, !self.slots.is_empty()) else {
            let known = from_statistics(scanner, &stretches)?;
            let (mut parts, mut unknown) = (Vec::new(), Vec::new());
            for (part, stretch) in known.into_iter().zip(stretches) {
                match part {
                    Some(part) => parts.push(part),
                    None => unknown.push(stretch),
                }
            }
            parts.extend(self.scanned(&unknown)?.into_iter().map(|(_, part)| part));
            return Ok(parts);
        };
        let (seekable, mut unknown): (Vec<_>, Vec<_>) =
            stretches.into_iter().partition(|(range, _)| scanner.files[range.file].is_seekable());
        let mut ranges: Vec<FileRange> = seekable.into_iter().map(|(range, _)| range).collect();
        edges.move_cuts(&mut ranges)?;
        let mut parts = Vec::new();
        if self.scan {
            unknown.extend(ranges.into_iter().map(|range| {
                let bytes = range.end - range.start;
                (range, bytes)
            }));
        } else {
            parts = edges.parts(ranges)?;
        }
        parts.extend(self.scanned(&unknown)?.into_iter().map(|(_, part)| part));
        Ok(parts)
    }

    /// Reads all keys of stretches and cuts them where their keys leave a slot or gap.
    fn scanned(&self, stretches: &[(FileRange, u64)]) -> Result<Vec<(usize, KeyStretch)>> {
        let ranges: Vec<FileRange> = stretches.iter().map(|(range, _)| range.clone()).collect();
        let all = self.scanner.runs_of_all(&ranges, &|key| self.region(key), self.threads)?;
        let mut parts = Vec::new();
        for ((range, bytes), runs) in stretches.iter().zip(all) {
            let Some(runs) = runs else { return Err(self.not_nearly_sorted(range)) };
            parts.extend(self.shares(range, *bytes, &runs));
        }
        Ok(parts)
    }

    /// The runs of a stretch as parts, each with its region.
    fn shares(&self, range: &FileRange, bytes: u64, runs: &[Run]) -> Vec<(usize, KeyStretch)> {
        let length = runs.last().map_or(1, |run| run.end - range.start).max(1);
        let part = |run: &Run| {
            // Text has the bytes that were read; rows have their share of the row groups'.
            let own = run.end - run.start;
            let bytes = match self.scanner.format {
                Format::Delimited(_) => own,
                Format::Columnar(_) => {
                    (u128::from(bytes) * u128::from(own) / u128::from(length)) as u64
                }
            };
            let range = FileRange { file: range.file, start: run.start, end: run.end };
            let (first, last) = (run.first, run.last);
            (run.region, KeyStretch { range, bytes, first, last, is_exact: true })
        };
        runs.iter().map(part).collect()
    }

    fn in_slot(&self, slot: usize, mut parts: Vec<KeyStretch>) -> Partition {
        parts.sort_by_key(|part| (part.range.file, part.range.start));
        let bytes = parts.iter().map(|part| part.bytes).sum();
        let mut ranges: Vec<FileRange> = Vec::new();
        for part in parts {
            push_range(&mut ranges, part.range);
        }
        Partition { input: self.input(ranges), bytes, slot: Some(slot), lower: 0, upper: 0 }
    }

    /// Partitions one after the other, without a gap between them unless other hosts may fill it.
    fn in_gap(&self, parts: Vec<KeyStretch>) -> Result<Vec<Partition>> {
        let groups = self.without_overlap(parts)?;
        let groups = if self.is_part { groups } else { self.put_together(groups) };
        let uppers: Vec<Key> = (0..groups.len())
            .map(|at| match groups.get(at + 1).filter(|_| !self.is_part) {
                Some(next) => next.first,
                None => groups[at].last + self.scanner.key.unit,
            })
            .collect();
        Ok(groups
            .into_iter()
            .zip(uppers)
            .map(|(group, upper)| Partition {
                input: self.input(group.ranges),
                bytes: group.bytes,
                slot: None,
                lower: group.first,
                upper,
            })
            .collect())
    }

    /// Groups whose keys don't overlap, ascending. Parts of one file that do go into one group.
    fn without_overlap(&self, parts: Vec<KeyStretch>) -> Result<Vec<Group>> {
        let place = |part: &KeyStretch| (part.first, part.last, part.range.file, part.range.start);
        let mut left: BTreeMap<_, KeyStretch> =
            parts.into_iter().map(|part| (place(&part), part)).collect();
        let mut groups: Vec<Group> = Vec::new();
        while let Some((_, part)) = left.pop_first() {
            let Some(group) = groups.last_mut().filter(|group| part.first <= group.last) else {
                groups.push(Group {
                    ranges: vec![part.range],
                    bytes: part.bytes,
                    first: part.first,
                    last: part.last,
                    is_exact: part.is_exact,
                });
                continue;
            };
            let one_file = group.ranges.iter().all(|range| range.file == part.range.file);
            if !(one_file && part.is_exact && group.is_exact) {
                return Err(self.overlap(group, &part));
            }
            // Where they share but one key, only its rows change sides; the others wait for their
            // turn.
            let edge = group.last;
            let runs = match part.first == edge && part.last > edge {
                true => self.scanner.runs(&part.range, &|key| usize::from(key > edge))?,
                false => None,
            };
            let Some(runs) = runs else {
                group.last = group.last.max(part.last);
                group.bytes += part.bytes;
                push_range(&mut group.ranges, part.range);
                continue;
            };
            for (region, part) in self.shares(&part.range, part.bytes, &runs) {
                if region == 0 {
                    group.bytes += part.bytes;
                    push_range(&mut group.ranges, part.range);
                } else {
                    left.insert(place(&part), part);
                }
            }
        }
        Ok(groups)
    }

    /// Neighbours smaller than a piece are put together until they make one.
    fn put_together(&self, groups: Vec<Group>) -> Vec<Group> {
        let mut together: Vec<Group> = Vec::new();
        for group in groups {
            let small = |bytes: u64| bytes < self.piece_bytes / 2;
            match together.last_mut().filter(|last| small(last.bytes) && small(group.bytes)) {
                Some(last) => {
                    last.last = group.last;
                    last.bytes += group.bytes;
                    for range in group.ranges {
                        push_range(&mut last.ranges, range);
                    }
                }
                None => together.push(group),
            }
        }
        together
    }

    fn input(&self, ranges: Vec<FileRange>) -> PieceInput {
        match self.scanner.format {
            Format::Delimited(_) => PieceInput::Ranges(ranges),
            Format::Columnar(_) => PieceInput::Rows(ranges),
        }
    }
}

/// Adds a range; one that goes on where the last one ended makes it longer.
fn push_range(ranges: &mut Vec<FileRange>, range: FileRange) {
    match ranges.last_mut() {
        Some(last) if last.file == range.file && last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
