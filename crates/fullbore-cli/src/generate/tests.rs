//! Streams together are the table, whatever the number of streams and threads.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tpchgen::generators::LineItemGenerator;

use super::*;

/// A folder of the test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fullbore-gen-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("listed");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn args(folder: &Folder, scale: f64, streams: u32) -> TpchArgs {
    TpchArgs {
        scale,
        streams: NonZeroU32::new(streams).expect("not zero"),
        stream: None,
        tables: Vec::new(),
        out: folder.0.clone(),
    }
}

#[test]
fn streams_together_are_the_table() {
    let whole = Folder::new("whole");
    let totals = tpch(&args(&whole, 0.01, 1), 1).expect("made");
    assert_eq!(totals.files, 8);
    let mut sum = 0;
    for table in Table::ALL {
        let text = whole.read(&format!("{}.tbl", table.name()));
        // As the specification has them at this scale; lineitem as dbgen counts it.
        let rows = match table {
            Table::LineItem => 60_175,
            Table::Orders => 15_000,
            Table::PartSupp => 8_000,
            Table::Part => 2_000,
            Table::Customer => 1_500,
            Table::Supplier => 100,
            Table::Nation => 25,
            Table::Region => 5,
        };
        assert_eq!(text.lines().count(), rows, "{table:?}");
        assert!(text.lines().all(|line| line.ends_with('|')));
        sum += rows as u64;
    }
    assert_eq!(totals.rows, sum);

    // 7 divides nothing, 16 is more streams than threads.
    for (streams, threads) in [(7, 3), (16, 4)] {
        let split = Folder::new(&format!("split{streams}"));
        let split_totals = tpch(&args(&split, 0.01, streams), threads).expect("made");
        assert_eq!((split_totals.rows, split_totals.bytes), (totals.rows, totals.bytes));
        for table in Table::ALL {
            let joined: String = if table.is_split() {
                let files = (1..=streams).map(|i| split.read(&format!("{}.tbl.{i}", table.name())));
                files.collect()
            } else {
                split.read(&format!("{}.tbl", table.name()))
            };
            let text = whole.read(&format!("{}.tbl", table.name()));
            assert!(joined == text, "{table:?} in {streams} streams differs");
        }
    }
}

#[test]
fn several_threads_make_one_file_in_order() {
    let folder = Folder::new("chunks");
    let mut args = args(&folder, 0.1, 1);
    args.tables = vec![Table::LineItem];
    let planned = plan::file_targets(&args.tables, 0.1, None, 1);
    assert!(planned[0].chunks > 20, "otherwise this proves nothing");
    tpch(&args, 4).expect("made");
    let text = folder.read("lineitem.tbl");
    let rows = LineItemGenerator::new(0.1, 1, 1);
    assert!(text.lines().eq(rows.iter().map(|row| row.to_string())));
    assert_eq!(folder.names(), ["lineitem.tbl"], "nothing unfinished is left");
}

#[test]
fn one_stream_alone_equals_that_stream_of_all() {
    let (all, one) = (Folder::new("all"), Folder::new("one"));
    tpch(&args(&all, 0.01, 4), 2).expect("made");
    let mut alone = args(&one, 0.01, 4);
    alone.stream = NonZeroU32::new(2);
    alone.tables = vec![Table::Orders, Table::Region];
    tpch(&alone, 2).expect("made");
    assert_eq!(one.names(), ["orders.tbl.2"], "region is stream 1's");
    assert!(one.read("orders.tbl.2") == all.read("orders.tbl.2"));
}

#[test]
fn wrong_arguments_are_told_before_anything_is_touched() {
    let folder = Folder::new("wrong");
    let refused = |change: &dyn Fn(&mut TpchArgs)| {
        let mut args = args(&folder, 0.01, 2);
        change(&mut args);
        let error = tpch(&args, 1).expect_err("wrong");
        assert!(error.is_usage() && error.hint().is_some());
        error.to_string()
    };
    assert_eq!(
        refused(&|args| args.scale = f64::NAN),
        "--scale NaN is not between 0.001 and 100000"
    );
    assert_eq!(refused(&|args| args.stream = NonZeroU32::new(3)), "there is no stream 3 among 2");
    assert_eq!(refused(&|args| args.out = "-".into()), "stdout takes one table, not 8");
    assert!(folder.names().is_empty());
}

#[test]
fn a_failure_names_the_file_and_leaves_nothing_unfinished() {
    let folder = Folder::new("failure");
    // A folder where a file should be: the renaming fails, for root as well.
    fs::create_dir(folder.0.join("orders.tbl")).expect("made");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("set");
    let mut args = args(&folder, 0.01, 1);
    args.tables = vec![Table::LineItem, Table::Orders];
    let error = tpch(&args, 3).expect_err("it can't be written");
    assert!(error.to_string().contains("orders.tbl"), "{error}");
    assert!(!error.is_usage());
    assert!(folder.names().iter().all(|name| !name.ends_with(".tmp")), "{:?}", folder.names());
}
