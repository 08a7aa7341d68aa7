//! Finds the files behind paths, globs, folders and `-`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullbore_objects::{Object, StoreOptions};
use fullbore_parse::dialect::LineEnd;
use glob::{MatchOptions, Pattern};

use super::columnar::data::{self, ArrowData};
use super::foreign::{HEAD_BYTES, refuse_foreign, refuse_remote};
use super::source_file::{Packing, SourceFile, changed_ns, modified_ns, read_little};
use crate::error::{Error, Result};

/// The files behind one source, in the order of their names (`part.2` before `part.10`).
///
/// A path that exists is taken literally even where it holds glob characters. A folder gives its
/// files, hidden ones left out; not those of folders inside, unless these are called `key=value`.
///
/// A URL gives the objects of a store in the same way; its options say how that is reached.
pub fn discover_in(source: &str, store: &StoreOptions) -> Result<Vec<SourceFile>> {
    if !is_object(source) {
        return discover(source);
    }
    let objects = objects(source, store)?;
    fullbore_objects::look_at(&objects)?;
    objects.into_iter().map(|object| of_object(object, true)).collect()
}

/// As [`discover_in`], but objects are only found, and not looked at: for who asks which there are.
pub fn found_in(source: &str, store: &StoreOptions) -> Result<Vec<SourceFile>> {
    match is_object(source) {
        true => {
            objects(source, store)?.into_iter().map(|object| of_object(object, false)).collect()
        }
        false => discover(source),
    }
}

/// A file or object that was listed, and not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub path: PathBuf,
    /// What changes when its contents do.
    pub version: String,
    pub bytes: u64,
    /// In nanoseconds since 1970.
    pub modified_ns: i128,
    /// When it was written or moved here last; `None` of an object, which is whole once it is there.
    pub changed_ns: Option<i128>,
}

/// The files of a source as they are now, which may be none yet.
pub fn listed_in(source: &str, store: &StoreOptions) -> Result<Vec<Listed>> {
    if is_object(source) {
        return match fullbore_objects::list(source, store) {
            Ok(objects) => Ok(objects.iter().map(|object| listed_object(object)).collect()),
            Err(error) if error.kind == fullbore_objects::Kind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        };
    }
    refuse_remote(source)?;
    let path = Path::new(source);
    let paths = match path.symlink_metadata() {
        Ok(_) if path.is_dir() => files_below(path)?,
        Ok(_) => vec![path.to_owned()],
        Err(_) => globbed(source)?,
    };
    let mut listed = Vec::new();
    for path in paths {
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            // It went away meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::Read { path, source }),
        };
        let modified_ns = modified_ns(&metadata);
        listed.push(Listed {
            version: version(&metadata),
            bytes: metadata.len(),
            modified_ns,
            changed_ns: Some(changed_ns(&metadata)),
            path,
        });
    }
    Ok(listed)
}

/// What of a file changes when its contents do, as [`listed_in`] tells it; none where there is no such file.
pub fn version_of(path: &Path) -> Option<String> {
    std::fs::metadata(path).ok().map(|metadata| version(&metadata))
}

fn version(metadata: &std::fs::Metadata) -> String {
    format!("{} {}", metadata.len(), modified_ns(metadata))
}

/// Whether a source that is no URL would list a file of this path, were it there.
pub fn finds(source: &str, path: &Path) -> bool {
    let own = Path::new(source);
    if own.is_dir() {
        let folders = path.strip_prefix(own).ok().and_then(Path::parent);
        return folders.is_some_and(|folders| folders.iter().all(|one| is_key(one.as_ref())));
    }
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let matches = |glob: Pattern| glob.matches_path_with(path, options);
    path == own || Pattern::new(source).is_ok_and(matches)
}

fn listed_object(object: &Object) -> Listed {
    Listed {
        path: object.url().into(),
        version: format!("{} {}", object.size(), object.etag().unwrap_or_default()),
        bytes: object.size(),
        modified_ns: object.modified_ns(),
        changed_ns: None,
    }
}

/// The files of a folder and of those in it that are called `key=value`.
fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, folders) = contents(path)?;
    for inner in folders.iter().filter(|inner| is_key(inner)) {
        files.extend(files_below(inner)?);
    }
    Ok(files)
}

fn is_key(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().contains('='))
}

/// The first of a source's files that can be read only once; objects are not asked for, none is one.
pub fn read_once(source: &str) -> Result<Option<SourceFile>> {
    if is_object(source) {
        return Ok(None);
    }
    Ok(discover(source)?.into_iter().find(|file| !file.is_regular))
}

/// Whether a source is the URL of a store.
pub fn is_object(source: &str) -> bool {
    fullbore_objects::is_url(source) && !Path::new(source).exists()
}

fn objects(source: &str, store: &StoreOptions) -> Result<Vec<Arc<Object>>> {
    let mut objects = fullbore_objects::list(source, store)?;
    objects.sort_by(|a, b| natural(a.url(), b.url()));
    Ok(objects)
}

/// As [`discover_in`], of files.
pub fn discover(source: &str) -> Result<Vec<SourceFile>> {
    if source == "-" {
        return Ok(vec![stdin()]);
    }
    if let Some(data) = data::registered(source) {
        return Ok(vec![of_arrow(source, data)]);
    }
    refuse_remote(source)?;
    let path = Path::new(source);
    if source.starts_with(data::SCHEME) && path.symlink_metadata().is_err() {
        return Err(Error::usage_with_hint(
            format!("{source} was in the memory of a process that has dropped it"),
            "load the data again from there",
        ));
    }
    let mut paths = if path.is_dir() {
        folder(path)?
    } else if path.symlink_metadata().is_ok() || !source.contains(['*', '?', '[']) {
        vec![path.to_owned()]
    } else {
        globbed(source)?
    };
    if paths.is_empty() {
        return Err(Error::usage_with_hint(
            format!("no file matches {source}"),
            "quote the pattern, so that the shell leaves it alone, or check the path",
        ));
    }
    paths.sort_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()));
    paths.into_iter().map(inspect).collect()
}

pub(super) fn stdin() -> SourceFile {
    SourceFile {
        path: "-".into(),
        packing: Packing::Plain,
        size: 0,
        modified_ns: 0,
        changed_ns: 0,
        told: None,
        content: None,
        is_regular: false,
        device: 0,
        encoding: None,
        data_start: 0,
        data_start_lines: 0,
        data_end: None,
        own_header: None,
        line_end: LineEnd::default(),
        arrow: None,
        is_guessed: false,
        object: None,
        footer: Arc::default(),
        peeked: None,
        expected_header: None,
    }
}

/// Arrow data of this process.
fn of_arrow(uri: &str, data: Arc<ArrowData>) -> SourceFile {
    SourceFile {
        path: uri.into(),
        packing: Packing::Arrow,
        size: data.bytes(),
        is_regular: data.is_table(),
        told: data.told(),
        arrow: Some(data),
        ..stdin()
    }
}

/// An object of a store.
fn of_object(object: Arc<Object>, is_looked_at: bool) -> Result<SourceFile> {
    let path = PathBuf::from(object.url());
    let mut packing = Packing::Plain;
    if is_looked_at {
        let head = object.read(0..HEAD_BYTES as u64)?;
        refuse_foreign(&path, &head)?;
        packing = packing_of(&head);
    }
    Ok(SourceFile {
        path,
        packing,
        size: object.size(),
        modified_ns: object.modified_ns(),
        changed_ns: object.modified_ns(),
        is_regular: true,
        object: Some(object),
        ..stdin()
    })
}

/// A source's path from the root, of a URL without what may be a secret; what else is no path of this machine
/// stays as it is.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    match path.to_str() {
        Some(uri) if uri.starts_with(data::SCHEME) || data::registered(uri).is_some() => {
            Ok(path.to_owned())
        }
        Some(url) if is_object(url) => Ok(fullbore_objects::without_secrets(url).into()),
        _ => std::path::absolute(path),
    }
}

fn folder(path: &Path) -> Result<Vec<PathBuf>> {
    let (_, folders) = contents(path)?;
    let files = files_below(path)?;
    if files.is_empty() && !folders.is_empty() && !folders.iter().any(|inner| is_key(inner)) {
        return Err(Error::usage_with_hint(
            format!("{} contains only directories and no files", path.display()),
            format!("use a pattern, in quotes: '{}/**/*'", path.display()),
        ));
    }
    if files.is_empty() && folders.is_empty() {
        return Err(Error::usage_with_hint(
            format!("{} has no files in it", path.display()),
            "hidden files, and those whose names begin with an underscore, are left out",
        ));
    }
    Ok(files)
}

/// The files of a folder, and the folders in it; hidden ones left out.
fn contents(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let hidden = entry.file_name().to_string_lossy().starts_with(['.', '_']);
        if hidden {
            continue;
        }
        if entry.path().is_file() {
            files.push(entry.path());
        } else if entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    Ok((files, folders))
}

fn globbed(pattern: &str) -> Result<Vec<PathBuf>> {
    let matches = glob::glob(pattern)
        .map_err(|error| Error::usage(format!("{pattern} is not a valid glob: {error}")))?;
    let mut files = Vec::new();
    for found in matches {
        let found = found
            .map_err(|error| Error::Read { path: error.path().to_owned(), source: error.into() })?;
        if found.is_file() {
            files.push(found);
        }
    }
    Ok(files)
}

fn inspect(path: PathBuf) -> Result<SourceFile> {
    let unreadable = |source| Error::Read { path: path.clone(), source };
    // A named pipe must not be opened to look at it: what was read would be lost.
    let metadata = std::fs::metadata(&path).map_err(unreadable)?;
    let is_regular = metadata.is_file();
    let packing = if is_regular {
        let mut head = Vec::new();
        let file = File::open(&path).map_err(unreadable)?;
        read_little(&file);
        file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
        refuse_foreign(&path, &head)?;
        packing_of(&head)
    } else {
        Packing::Plain
    };
    Ok(SourceFile {
        packing,
        size: if is_regular { metadata.len() } else { 0 },
        modified_ns: modified_ns(&metadata),
        changed_ns: changed_ns(&metadata),
        device: metadata.dev(),
        is_regular,
        path,
        ..stdin()
    })
}

/// Bytes that tell what a file is packed with.
pub const PACKING_BYTES: u64 = 6;

/// What a file is packed with, from its first bytes.
pub fn packing_of(head: &[u8]) -> Packing {
    match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A zstd frame, or a skippable one before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [0x04, 0x22, 0x4d, 0x18, ..] => Packing::Lz4,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
        [b'P', b'A', b'R', b'1', ..] => Packing::Parquet,
        _ => Packing::Plain,
    }
}

/// Compares names with runs of digits by their value.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    loop {
        let a_digits = a_rest.len() - a_rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let b_digits = b_rest.len() - b_rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if a_digits > 0 && b_digits > 0 {
            let a_number = a_rest[..a_digits].trim_start_matches('0');
            let b_number = b_rest[..b_digits].trim_start_matches('0');
            let order = a_number.len().cmp(&b_number.len()).then_with(|| a_number.cmp(b_number));
            if order.is_ne() {
                return order;
            }
            (a_rest, b_rest) = (&a_rest[a_digits..], &b_rest[b_digits..]);
            continue;
        }
        match (a_rest.chars().next(), b_rest.chars().next()) {
            (Some(x), Some(y)) if x == y => {
                (a_rest, b_rest) = (&a_rest[x.len_utf8()..], &b_rest[y.len_utf8()..]);
            }
            (x, y) => return x.cmp(&y).then_with(|| a.cmp(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_are_told_from_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().to_str().expect("UTF-8");
        for (source, ours, others) in [
            ("/d/a-*.csv", "/d/a-1.csv", "/d/b-1.csv"),
            ("/d/a-*.csv", "/d/a-.csv", "/d/a-x/1.csv"),
            ("in/**/x?.csv", "in/a/b/x1.csv", "in/a/b/x12.csv"),
            ("a[!0-9]b", "axb", "a1b"),
            ("a[]]b[[]", "a]b[", "a[b]"),
            ("x^\\y", "x^\\y", "xy"),
            ("one.csv", "one.csv", "one.csv.1"),
            (folder, &format!("{folder}/a.csv"), &format!("{folder}2/a.csv")),
            (folder, &format!("{folder}/y=1/m=2/a.csv"), &format!("{folder}/y=1/m/a.csv")),
        ] {
            assert!(finds(source, ours.as_ref()), "{source} {ours}");
            assert!(!finds(source, others.as_ref()), "{source} {others}");
        }
    }

    #[test]
    fn names_sort_by_the_value_of_their_digits() {
        let mut names = ["part.10", "part.2", "part.1", "part", "a.2b", "a.2a"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a.2a", "a.2b", "part", "part.1", "part.2", "part.10"]);
    }

    #[test]
    fn packing_is_known_by_content() {
        assert_eq!(packing_of(&[0x1f, 0x8b, 8, 0]), Packing::Gzip);
        assert_eq!(packing_of(&[0x28, 0xb5, 0x2f, 0xfd, 4, 0]), Packing::Zstd);
        assert_eq!(packing_of(&[0x04, 0x22, 0x4d, 0x18, 0x64, 0x40]), Packing::Lz4);
        assert_eq!(packing_of(b"\xfd7zXZ\0\0\x04"), Packing::Xz);
        assert_eq!(packing_of(b"PAR1"), Packing::Parquet);
        assert_eq!(packing_of(b"1|2|"), Packing::Plain);
        assert_eq!(packing_of(b""), Packing::Plain);
    }
}
