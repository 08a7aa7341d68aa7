//! The two files of one table's rejects: the rows as they were, and a JSON line each with the reason.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::rejects::Reason;
use crate::error::{Error, Result};
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
        Format::Parquet => Vec::new(),
    }
}

/// Takes the last bytes of a file off.
fn cut_off(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
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
                .and_then(|()| match is_begun {
                    true => File::options().append(true).open(path),
                    false => File::create(path),
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
