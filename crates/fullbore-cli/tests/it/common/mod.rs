//! What the command's tests share: a folder of input files, and a load into a database.

pub mod bad;
pub mod codes;
pub mod held;
pub mod moments;
pub mod parquets;
pub mod parted;
pub mod refused;
pub mod sound;
pub mod tls;
pub mod typed;
pub mod ways;
pub mod wire;

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use fullbore_testing::{Output, TestDatabase, fullbore_command, output_of};

/// A folder for input files, readable by the server too, so that it can COPY them itself.
pub struct Files {
    folder: tempfile::TempDir,
    /// What loads from it cut their files into, unless they say.
    piece_size: OnceLock<&'static str>,
}

impl Files {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        Self { folder, piece_size: OnceLock::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A named pipe in the folder.
    pub fn make_pipe(&self, name: &str) -> String {
        let path = self.path(name).to_str().expect("UTF-8").to_owned();
        let c_path = CString::new(path.clone()).expect("no NUL");
        // SAFETY: the path is a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0, "{path}");
        path
    }

    /// Runs `fullbore` in this folder, its state kept apart from the user's.
    pub fn fullbore(&self, args: &[&str]) -> Output {
        self.fullbore_with_input(args, b"")
    }

    pub fn fullbore_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = fullbore_command();
        command.args(args).current_dir(self.folder.path());
        command.env("FULLBORE_HOME", self.path("state")).env_remove("DATABASE_URL");
        if input.is_empty() {
            return output_of(command);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("fullbore starts");
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("fullbore ends");
        writer.join().expect("the writer ends");
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Loads into a database; further arguments after the table.
    pub fn load(
        &self,
        database: &TestDatabase<'_>,
        file: &str,
        table: &str,
        more: &[&str],
    ) -> Output {
        self.load_at(database.url(), file, table, more)
    }

    /// The same into a server that is named by its URL.
    pub fn load_at(&self, url: &str, file: &str, table: &str, more: &[&str]) -> Output {
        self.fullbore(&self.load_args(url, file, table, more))
    }

    /// Makes a small file one of several pieces.
    pub fn cut_into(&self, piece_size: &'static str) {
        self.piece_size.set(piece_size).expect("once");
    }

    pub fn load_args<'a>(
        &self,
        url: &'a str,
        file: &'a str,
        table: &'a str,
        more: &[&'a str],
    ) -> Vec<&'a str> {
        let mut args = vec!["load", file, "--to", url, "--table", table];
        args.extend(more);
        if let Some(size) = self.piece_size.get().filter(|_| !more.contains(&"--piece-size")) {
            args.extend(["--piece-size", size]);
        }
        args
    }

    /// The reasons of all rejects, parsed.
    pub fn reasons(&self) -> Vec<serde_json::Value> {
        let text = self.read_ending(".rejected.jsonl");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The content of the one file whose name ends so.
    pub fn read_ending(&self, ending: &str) -> String {
        let entries = fs::read_dir(self.folder.path()).expect("listed");
        let mut found = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(ending));
        let path = found.next().unwrap_or_else(|| panic!("no file ends with {ending}"));
        assert!(found.next().is_none(), "more than one file ends with {ending}");
        fs::read_to_string(path).expect("read")
    }

    pub fn has_ending(&self, ending: &str) -> bool {
        let entries = fs::read_dir(self.folder.path()).expect("listed");
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(ending))
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Count and checksum of a table, whatever the order of its rows.
pub fn checksum(database: &TestDatabase<'_>, table: &str) -> String {
    database.psql(&format!("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"))
}

/// Asserts that two tables hold the same rows.
pub fn assert_same(database: &TestDatabase<'_>, ours: &str, plain: &str) {
    let wanted = checksum(database, plain);
    assert!(!wanted.starts_with("0|"), "the comparison would prove nothing: {plain} is empty");
    assert_eq!(checksum(database, ours), wanted, "{ours} differs from {plain}");
}

/// Asserts that a run left nothing of its own behind.
pub fn assert_no_leftovers(database: &TestDatabase<'_>) {
    let left = database.psql("SELECT string_agg(relname, ', ') FROM pg_class WHERE relname ~ '_fb_' AND NOT relispartition");
    assert_eq!(left, "", "left behind");
}

/// Packs text with each of the packers that sources may be packed with.
pub fn packed(text: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).expect("packed");
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(text).expect("packed");
    [
        ("gzip", gzip.finish().expect("packed")),
        ("zstd", zstd::encode_all(text, 1).expect("packed")),
        ("lz4", lz4.finish().expect("packed")),
    ]
}
