//! However sources are cut into partitions, each row is in exactly one of them, the one that its
//! key belongs to.

use std::io::Write;
use std::sync::Arc;

use fullbore_load::plan::keys::KeyColumn;
use fullbore_load::plan::keys::scan::KeyScanner;
use fullbore_load::plan::partitions::{Partition, Request, Slot};
use fullbore_load::plan::{Format, PieceInput};
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_read::{FileRange, SourceFile, discover};
use proptest::prelude::*;

/// A file of the case: its keys, where it is cut beforehand (of 8), whether it is packed.
#[derive(Debug, Clone)]
struct File {
    keys: Vec<i64>,
    cut: usize,
    packed: bool,
}

fn file() -> impl Strategy<Value = File> {
    let keys = prop::collection::vec(-40..40i64, 1..60);
    (keys, 0..8usize, any::<bool>(), any::<bool>()).prop_map(|(mut keys, cut, packed, sorted)| {
        if sorted {
            keys.sort_unstable();
        }
        File { keys, cut, packed }
    })
}

/// Ascending slots with gaps between some of them.
fn slots() -> impl Strategy<Value = Vec<Slot>> {
    (prop::collection::btree_set(-45..45i128, 0..6), any::<bool>()).prop_map(|(ends, dense)| {
        let ends: Vec<i128> = ends.into_iter().collect();
        let step = if dense { 1 } else { 2 };
        ends.windows(2)
            .step_by(step)
            .map(|ends| Slot { lower: Some(ends[0]), upper: Some(ends[1]) })
            .collect()
    })
}

struct Case {
    folder: tempfile::TempDir,
    files: Vec<Arc<SourceFile>>,
    texts: Vec<String>,
    stretches: Vec<(FileRange, u64)>,
}

impl Case {
    fn of(files: &[File]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut case = Self { folder, files: vec![], texts: vec![], stretches: vec![] };
        for (number, file) in files.iter().enumerate() {
            let lines: Vec<String> = file
                .keys
                .iter()
                .enumerate()
                .map(|(row, key)| format!("{key},\"row {row}\n of {number}\"\n"))
                .collect();
            let text = lines.concat();
            let path = case.folder.path().join(number.to_string());
            let content = match file.packed {
                true => zstd::encode_all(text.as_bytes(), 1).expect("packed"),
                false => text.clone().into_bytes(),
            };
            std::fs::File::create(&path).expect("made").write_all(&content).expect("written");
            let found = discover::discover(path.to_str().expect("UTF-8")).expect("found");
            case.files.extend(found.into_iter().map(Arc::new));
            let end = text.len() as u64;
            let cut: usize = lines[..file.keys.len() * file.cut / 8].iter().map(String::len).sum();
            let ends = match (file.packed, cut as u64) {
                (true, _) => vec![(0, u64::MAX)],
                (false, 0) => vec![(0, end)],
                (false, cut) => vec![(0, cut), (cut, end)],
            };
            for (start, end) in ends {
                case.stretches.push((FileRange { file: number, start, end }, 1));
            }
            case.texts.push(text);
        }
        case
    }

    fn partitions(
        &self,
        slots: &[Slot],
        scan: bool,
    ) -> fullbore_read::error::Result<Vec<Partition>> {
        let columns = vec![ParseColumn {
            name: "k".into(),
            field: 0,
            field_type: FieldType::Int64,
            guess: None,
        }];
        let field_names = vec!["k".into(), "v".into()];
        let shape =
            ParseShape { fields: 2, columns, field_names, orders: Default::default(), json: None };
        let key = KeyColumn::new(&shape, "k").expect("ordered");
        let format = Format::Delimited(Dialect::csv());
        let request = Request {
            scanner: KeyScanner {
                files: &self.files,
                format: &format,
                key: &key,
                record_bytes_max: 1 << 20,
            },
            slots,
            slots_only: false,
            scan,
            threads: 2,
            piece_bytes: 1,
            is_part: false,
        };
        request.regions(self.stretches.clone()).and_then(|found| request.partitions(found))
    }

    /// Every byte is in one partition, every key within its bounds, no two bounds overlap.
    fn check(&self, slots: &[Slot], partitions: &[Partition]) {
        let mut seen: Vec<(usize, u64, u64)> = Vec::new();
        let mut bounds = Vec::new();
        for partition in partitions {
            let (lower, upper) = match partition.slot {
                Some(slot) => (slots[slot].lower.expect("set"), slots[slot].upper.expect("set")),
                None => (partition.lower, partition.upper),
            };
            bounds.push((lower, upper));
            let PieceInput::Ranges(ranges) = &partition.input else { panic!("text has ranges") };
            for range in ranges {
                seen.push((range.file, range.start, range.end));
                let text = &self.texts[range.file][range.start as usize..range.end as usize];
                for line in text.lines().filter(|line| line.contains(',')) {
                    let key: i128 = line.split(',').next().expect("a key").parse().expect("whole");
                    assert!((lower..upper).contains(&key), "{key} is not in {lower}..{upper}");
                }
            }
        }
        seen.sort_unstable();
        let mut expected = Vec::new();
        for (file, text) in self.texts.iter().enumerate() {
            let mut at = 0;
            for (_, start, end) in seen.iter().filter(|(found, ..)| *found == file) {
                assert_eq!((*start, end > start), (at, true), "{seen:?}");
                at = *end;
            }
            expected.push((at, text.len() as u64));
        }
        assert!(expected.iter().all(|(at, end)| at == end), "{expected:?}");
        bounds.sort_unstable();
        for pair in bounds.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{bounds:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_file_can_always_be_partitioned(file in file(), slots in slots()) {
        let case = Case::of(std::slice::from_ref(&file));
        let partitions = case.partitions(&slots, true).expect("all its keys are read");
        case.check(&slots, &partitions);
        // Believed to be sorted: where it is, the same holds.
        if file.keys.is_sorted() {
            let partitions = case.partitions(&slots, false).expect("it is sorted");
            case.check(&slots, &partitions);
        }
    }

    #[test]
    fn files_are_refused_only_for_overlaps_outside_the_slots(
        files in prop::collection::vec(file(), 2..4),
        slots in slots(),
    ) {
        let case = Case::of(&files);
        match case.partitions(&slots, true) {
            Ok(partitions) => case.check(&slots, &partitions),
            Err(error) => {
                prop_assert!(error.to_string().contains("key ranges overlap"), "{error}");
                let inside = |key: i64| {
                    let key = i128::from(key);
                    slots.iter().any(|s| s.lower <= Some(key) && Some(key) < s.upper)
                };
                let loose = files.iter().filter(|f| f.keys.iter().any(|key| !inside(*key)));
                prop_assert!(loose.count() > 1, "{error}");
            }
        }
    }
}
