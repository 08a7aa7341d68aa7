//! Disks as this machine has them: what is measured, what is refused, and that nothing is left.

use std::fs;
use std::path::Path;

use fullbore_preflight::Error;
use fullbore_preflight::disk::{
    EngineChoice, EngineName, Operation, PathKind, Report, Request, run,
};
use fullbore_testing::skip;
use tempfile::TempDir;

fn request(paths: &[&Path]) -> Request {
    Request {
        paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        operations: vec![Operation::Read, Operation::Write],
        block_bytes: vec![64 << 10, 1 << 20],
        depths: vec![1, 4],
        cell_seconds: 0.05,
        scratch_bytes: 16 << 20,
        engine: EngineChoice::Auto,
    }
}

/// A folder whose file system has direct I/O; `None` where none was found.
fn folder() -> Option<TempDir> {
    let folder = TempDir::new().expect("a folder");
    let mut probe = request(&[folder.path()]);
    probe.block_bytes.truncate(1);
    probe.depths.truncate(1);
    match run(&probe, &mut |_, _| {}) {
        Err(Error::Path { what: "open for direct I/O", .. }) => None,
        _ => Some(folder),
    }
}

fn sound(report: &Report, cells: usize) {
    assert_eq!(report.cells.len(), cells);
    for cell in &report.cells {
        assert!(cell.bytes > 0 && cell.bytes.is_multiple_of(cell.block_bytes as u64), "{cell:?}");
        let latency = cell.latency_us;
        assert!(latency.p50 > 0.0 && latency.p50 <= latency.p95, "{latency:?}");
        assert!(latency.p95 <= latency.p99 && latency.p99 <= latency.max, "{latency:?}");
        let sum: f64 = cell.path_bytes_per_second.iter().sum();
        assert!(cell.bytes_per_second <= sum * 1.0001, "{cell:?}");
        assert_eq!(cell.sync_seconds.is_some(), cell.operation == Operation::Write);
    }
}

#[test]
fn a_folder_is_read_and_written_and_left_as_it_was() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    for engine in [EngineChoice::Auto, EngineChoice::Threads] {
        let request = Request { engine, ..request(&[folder.path()]) };
        let mut watched = 0;
        let report = run(&request, &mut |_, _| {
            watched += 1;
            assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
        })
        .expect("measured");
        sound(&report, 8);
        assert_eq!(watched, 8);
        assert_eq!(report.paths[0].kind, PathKind::Folder);
        assert!(report.paths[0].first_write_bytes_per_second.expect("filled") > 0.0);
        assert_eq!(report.knees.len(), 2);
        for knee in &report.knees {
            assert!(knee.bytes_per_second >= 0.95 * knee.best_bytes_per_second);
        }
        if engine == EngineChoice::Threads {
            assert_eq!(report.engine, EngineName::Threads);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }
}

#[test]
fn a_file_is_only_read() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let path = folder.path().join("source.csv");
    // Not a whole number of blocks, as files are.
    let bytes: Vec<u8> = (0..(3 << 20) + 4711).map(|n: u32| (n % 251) as u8).collect();
    fs::write(&path, &bytes).expect("written");
    let before = fs::metadata(&path).expect("there").modified().expect("a time");
    let report = run(&request(&[&path]), &mut |_, _| {}).expect("measured");
    sound(&report, 4);
    assert!(report.cells.iter().all(|cell| cell.operation == Operation::Read));
    assert_eq!(report.paths[0].kind, PathKind::File);
    match &report.paths[0].extents {
        Some(extents) => assert!(extents.fragments >= 1 && extents.extents >= extents.fragments),
        None => assert!(report.paths[0].extents_reason.is_some()),
    }
    assert_eq!(fs::read(&path).expect("there"), bytes);
    assert_eq!(fs::metadata(&path).expect("there").modified().expect("a time"), before);
    let only_write = Request { operations: vec![Operation::Write], ..request(&[&path]) };
    let error = run(&only_write, &mut |_, _| {}).expect_err("never written");
    assert!(error.is_usage() && error.to_string().contains("source.csv"), "{error}");
}

#[test]
fn several_paths_are_measured_alone_and_at_once() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let file = folder.path().join("file");
    fs::write(&file, vec![7; 4 << 20]).expect("written");
    let mut request = request(&[folder.path(), &file]);
    request.block_bytes = vec![1 << 20];
    request.depths = vec![2];
    let report = run(&request, &mut |_, _| {}).expect("measured");
    let measured: Vec<_> =
        report.cells.iter().map(|cell| (cell.paths.clone(), cell.operation)).collect();
    let expected = [
        (vec![0], Operation::Read),
        (vec![0], Operation::Write),
        (vec![1], Operation::Read),
        // Both at once are not written to: one is a file.
        (vec![0, 1], Operation::Read),
    ];
    assert_eq!(measured, expected);
    sound(&report, 4);
    assert_eq!(report.cells[3].path_bytes_per_second.len(), 2);
}

#[test]
fn what_would_do_harm_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let huge = Request { scratch_bytes: 1 << 60, ..request(&[folder.path()]) };
    let error = run(&huge, &mut |_, _| {}).expect_err("no disk is so large");
    assert!(error.is_usage() && error.hint().expect("a hint").contains("--size"), "{error}");

    let error = run(&request(&[Path::new("/dev/null")]), &mut |_, _| {}).expect_err("no file");
    assert!(error.is_usage() && error.to_string().contains("/dev/null"), "{error}");

    let missing = folder.path().join("nothing");
    let error = run(&request(&[&missing]), &mut |_, _| {}).expect_err("not there");
    assert!(error.to_string().contains("nothing"), "{error}");

    let empty = folder.path().join("empty");
    fs::write(&empty, "").expect("written");
    let error = run(&request(&[&empty]), &mut |_, _| {}).expect_err("nothing to read");
    assert!(error.to_string().contains("empty"), "{error}");
}

#[test]
fn a_block_larger_than_a_file_is_left_out() {
    let Some(folder) = folder() else { skip!("no direct I/O in the folder for temporary files") };
    let path = folder.path().join("small");
    fs::write(&path, vec![1; 128 << 10]).expect("written");
    let report = run(&request(&[&path]), &mut |_, _| {}).expect("measured");
    sound(&report, 2);
    assert!(report.cells.iter().all(|cell| cell.block_bytes == 64 << 10));
}
