//! The two files of one table's rejects: the rows as they were, and a JSON line each with the reason.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fullbore_read::error::{Error, Result};
use fullbore_record::Reason;

use crate::plan::{Format, Plan};

/// What is written for each line that is skipped at a file's end.
const FOOTER_LINE: &[u8] = b"end of the rejected rows";

/// The lines that a load of the rejects with the same options will skip at their end.
fn footer(format: &Format) -> Vec<u8> {
    match format {
        Format::Delimited(dialect) => {
            let line = [FOOTER_LINE, dialect.line_end.written()].concat();
            line.repeat(dialect.skip_footer as usize)
        }
        Format::Columnar(_) => Vec::new(),
    }
}

/// Opens a file of rejects, or makes it. The folder may be one that others write to: a link is not followed,
/// and a file that is somebody else's, or has another name elsewhere, gets no rows.
fn opened(path: &Path) -> std::io::Result<File> {
    let refused = |why: &str| {
        let says = format!("{why}; remove it, or name another folder with --reject-dir");
        Err(std::io::Error::other(says))
    };
    // A pipe must not be waited for.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
    let file =
        File::options().write(true).create(true).truncate(false).custom_flags(flags).open(path);
    let file = match file {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return refused("it is a symbolic link, which is not followed");
        }
        file => file?,
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return refused("it is not a regular file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("it is a file of another user");
    }
    if found.nlink() > 1 {
        return refused("it is a hard link to a file that has another name");
    }
    Ok(file)
}

/// Takes the last bytes of a file off.
fn cut_off(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = opened(path)?;
    file.set_len(file.metadata()?.len().saturating_sub(bytes))
}

/// The reject files of a run, made as there are rejects: two for each table, and two more for each order of
/// fields that a file of it has, so that each can be loaded again.
pub struct AllRejectFiles<'a> {
    plan: &'a Plan,
    /// Goes on with files that were written before, if they were.
    appends: bool,
    files: BTreeMap<(usize, Option<usize>), RejectFiles>,
}

impl<'a> AllRejectFiles<'a> {
    pub fn new(plan: &'a Plan, appends: bool) -> Self {
        Self { plan, appends, files: BTreeMap::new() }
    }

    pub fn write(&mut self, table: usize, file: usize, raw: &[u8], reason: &Reason) -> Result<()> {
        let sources = &self.plan.tables[table].files;
        let own = sources[file].own_header.as_ref();
        // The first file of that order gives its number.
        let first = own.and_then(|_| sources.iter().position(|s| s.own_header.as_ref() == own));
        let out = match self.files.entry((table, first)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(RejectFiles::open(self.plan, table, first, self.appends)?)
            }
        };
        out.write(raw, reason)
    }

    /// Ends writing; the paths.
    pub fn close(self) -> Result<Vec<PathBuf>> {
        self.files.into_values().map(RejectFiles::close).collect()
    }
}

/// The two files of one table's rejects.
struct RejectFiles {
    path: PathBuf,
    rows: BufWriter<File>,
    reasons: BufWriter<File>,
    /// Stands in for the lines at a file's end that the table's options skip.
    footer: Vec<u8>,
}

impl RejectFiles {
    fn open(plan: &Plan, table: usize, file: Option<usize>, appends: bool) -> Result<Self> {
        let name: String = plan.tables[table]
            .name
            .chars()
            .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' })
            .collect();
        let table = &plan.tables[table];
        let number = file.map_or(String::new(), |file| format!(".{}", file + 1));
        let path = plan.reject_dir.join(format!("{name}.{}{number}.rejected", plan.run_id));
        let is_begun = appends && path.is_file();
        let footer = footer(&table.format);
        if is_begun && !footer.is_empty() {
            cut_off(&path, footer.len() as u64)
                .map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        let create = |path: &PathBuf| {
            std::fs::create_dir_all(&plan.reject_dir)
                .and_then(|()| opened(path))
                .and_then(|mut file| match is_begun {
                    true => file.seek(SeekFrom::End(0)).map(|_| file),
                    false => file.set_len(0).map(|()| file),
                })
                .map(BufWriter::new)
                .map_err(|source| Error::Write { path: path.clone(), source })
        };
        let mut rows = create(&path)?;
        let header = match file {
            Some(file) => table.files[file].own_header.as_deref(),
            None => table.header_line.as_deref(),
        };
        if let Some(header) = header.filter(|_| !is_begun) {
            rows.write_all(header).map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        let reasons = create(&path.with_extension("rejected.jsonl"))?;
        Ok(Self { path, rows, reasons, footer })
    }

    fn write(&mut self, raw: &[u8], reason: &Reason) -> Result<()> {
        let json = serde_json::to_vec(reason).expect("plain data becomes JSON");
        self.rows
            .write_all(raw)
            .and_then(|()| self.reasons.write_all(&json))
            .and_then(|()| self.reasons.write_all(b"\n"))
            .map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Ends writing. The files are safely on disk: what the run kept of the rejects goes after this.
    fn close(mut self) -> Result<PathBuf> {
        let ended = self.rows.write_all(&self.footer);
        ended
            .and_then(|()| self.settle())
            .map_err(|source| Error::Write { path: self.path.clone(), source })?;
        Ok(self.path)
    }

    fn settle(&mut self) -> std::io::Result<()> {
        for file in [&mut self.rows, &mut self.reasons] {
            file.flush()?;
            file.get_ref().sync_all()?;
        }
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_are_not_written_through_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("precious"), "precious").expect("written");
        std::os::unix::fs::symlink(path("precious"), path("link")).expect("linked");
        std::os::unix::fs::symlink(path("nothing"), path("dangling")).expect("linked");
        std::fs::hard_link(path("precious"), path("other name")).expect("linked");
        for (name, says) in [
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("other name", "another name"),
            ("precious", "another name"),
        ] {
            let error = opened(&path(name)).expect_err("a link").to_string();
            assert!(error.contains(says) && error.contains("--reject-dir"), "{error}");
        }
        assert_eq!(std::fs::read(path("precious")).expect("read"), b"precious");
        assert!(!path("nothing").exists());
        assert!(opened(&path("new")).is_ok() && opened(&path("new")).is_ok());
    }
}
