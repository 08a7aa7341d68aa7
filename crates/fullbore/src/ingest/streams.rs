//! Which stream is ingested, and where its files are until they are loaded.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fullbore_load::job::TableJob;
use fullbore_load::plan::look::hints;
use fullbore_parse::dialect::{Dialect, FormatName, Header};
use fullbore_pgwire::ConnectionOptions;
use fullbore_read::cancellable;
use fullbore_read::error::{Error, Result};

use super::socket::{Socket, is_socket};
use super::stream::{Cutting, Spool, Stop};
use super::{After, Duty, Ingest, Progress};
use crate::state::runs_dir;

/// What the process that reads the stream has locked.
const LOCK: &str = ".lock";
/// How long a pipe whose writers have gone is left alone.
const PAUSE: Duration = Duration::from_millis(200);

/// A stream that is ingested by way of files.
pub struct Stream {
    source: String,
    folder: PathBuf,
    cutting: Cutting,
    /// The same job, of the files.
    pub asked: Ingest,
    /// Nobody else writes to the folder meanwhile.
    _lock: File,
}

/// The stream among the sources, where they are one.
pub fn of(asked: &Ingest, connection: &ConnectionOptions) -> Result<Option<Stream>> {
    let [table] = asked.job.tables.as_slice() else { return Ok(None) };
    let streams = table.sources.iter().filter(|source| is_stream(source)).count();
    let source = match (streams, table.sources.as_slice()) {
        (0, _) if asked.batch_rows.is_some() => {
            return Err(Error::usage_with_hint(
                "how many rows a file has is not known before it is read",
                "omit --batch-rows: --batch-bytes is for files",
            ));
        }
        (0, _) => return Ok(None),
        (1, [source]) => source.clone(),
        _ => {
            return Err(Error::usage_with_hint(
                "a stream is ingested by itself",
                "start a fullbore ingest for each stream; several may load into one table",
            ));
        }
    };
    let cutting = Cutting { is_of_lines: is_socket(&source), ..cutting(asked, table)? };
    let folder = folder(connection, table, &source)?;
    let lock = locked(&folder, &source)?;
    let mut files = asked.clone();
    let own = &mut files.job.tables[0];
    own.sources = vec![folder.to_str().unwrap_or_default().to_owned()];
    own.header.get_or_insert(Header::None);
    (files.after, files.settle, files.every) = (After::Delete, Duration::ZERO, Duration::ZERO);
    // A pipe that ended may be opened by another writer; standard input may not.
    files.once |= source == "-";
    Ok(Some(Stream { source, folder, cutting, asked: files, _lock: lock }))
}

fn is_stream(source: &str) -> bool {
    let is_pipe = |path: &Path| path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    source == "-" || is_socket(source) || is_pipe(Path::new(source))
}

fn cutting(asked: &Ingest, table: &TableJob) -> Result<Cutting> {
    let mut dialect = match table.format {
        Some(FormatName::Csv) => Dialect::csv(),
        Some(FormatName::Tsv) => Dialect { delimiter: b'\t', ..Dialect::csv() },
        Some(FormatName::Text) => Dialect::text(),
        Some(FormatName::Tbl) => Dialect::tbl(),
        Some(FormatName::Ndjson) => Dialect::json(),
        Some(FormatName::Fixed) => Dialect::fixed(table.widths.clone()),
        Some(FormatName::Parquet) | None => {
            return Err(Error::usage_with_hint(
                "how the stream is written has to be known before it is cut into batches",
                "name it: --format csv, tsv, text, tbl, fixed or ndjson",
            ));
        }
    };
    hints(table)?.apply(&mut dialect);
    dialect.line_end = table.line_end.unwrap_or(dialect.line_end);
    if table.skip_lines.is_some() || table.skip_footer.is_some() || table.encoding.is_some() {
        return Err(Error::usage_with_hint(
            "a stream that is cut into batches has no lines to skip, and is in UTF-8",
            "omit --skip-lines, --skip-footer and --encoding",
        ));
    }
    Ok(Cutting {
        every: asked.every,
        bytes: asked.batch_bytes,
        rows: asked.batch_rows,
        is_of_lines: false,
        dialect,
        has_header: table.header.is_some_and(|header| header != Header::None),
        replays: asked.replays,
    })
}

/// A folder of its own for each stream into each table.
fn folder(connection: &ConnectionOptions, table: &TableJob, source: &str) -> Result<PathBuf> {
    let name = table.name.as_deref().unwrap_or_default();
    let text = format!("{} {name} {source}", connection.redacted());
    // FNV-1a, which is the same for every build.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let home = runs_dir()?;
    Ok(home.with_file_name("streams").join(format!("{hash:016x}")))
}

/// Locks the folder of a stream; refuses where another process has it.
fn locked(folder: &Path, source: &str) -> Result<File> {
    let path = folder.join(LOCK);
    let failed = |source| Error::Write { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
        Err(TryLockError::WouldBlock) => Err(Error::usage_with_hint(
            format!("another process on this host ingests {source} into this table"),
            "give each stream a name of its own: a named pipe (mkfifo) or a socket",
        )),
    }
}

impl Stream {
    /// Reads until the stream is over, or the work has ended.
    pub fn run(&self, over: &AtomicBool, stop: &Stop, progress: &dyn Progress) -> Result<()> {
        let done = self.read(stop, progress);
        if let Err(error) = &done {
            progress.trouble(Duty::Loading, error);
        }
        over.store(true, Ordering::Relaxed);
        done
    }

    fn read(&self, stop: &Stop, progress: &dyn Progress) -> Result<()> {
        let mut spool = Spool::open(&self.folder, self.cutting.clone())?;
        let path = if self.source == "-" { "/dev/stdin" } else { &self.source };
        let failed = |source| Error::Read { path: path.into(), source };
        let socket = is_socket(path).then(|| Socket::listen(path)).transpose().map_err(failed)?;
        loop {
            let opened = match &socket {
                Some(socket) => socket.accept(stop),
                None => cancellable::open(Path::new(path)).map(Some),
            };
            let Some(pipe) = opened.map_err(failed)? else { return Ok(()) };
            match spool.read(pipe, path, stop) {
                Ok(0) => {}
                Ok(left) => progress.left_out(left),
                // A sender that is gone is followed by another.
                Err(error) if socket.is_some() => progress.trouble(Duty::Loading, &error),
                Err(error) => return Err(error),
            }
            if self.asked.once || stop() {
                return Ok(());
            }
            if socket.is_none() {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
