//! Parquet files in a folder or under a prefix of an object store, one for each piece. A file is published by
//! renaming it; an object by completing its upload, of which nothing is seen before.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fullbore_objects::{Location, Store, Upload};
use fullbore_parse::Lane;
use fullbore_read::StoreOptions;
use fullbore_read::discover::is_object;
use fullbore_read::error::{Error, Result};
use fullbore_record::Phase;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::arrow_stream::{self, ArrowEncoder};
use super::{Committed, Encoder, Portion, Receipt, Sink, Writer};
use crate::plan::{Plan, PlannedPiece};

/// Writes Parquet files.
pub struct ParquetFiles {
    place: Place,
}

enum Place {
    Folder(PathBuf),
    Store {
        store: Arc<Store>,
        /// Empty, or ends with a slash.
        prefix: String,
        /// Objects that are in the store, and that nobody sees yet.
        stored: Mutex<Vec<Upload>>,
    },
}

/// A file's name once it is published.
fn name_of(plan: &Plan, piece: &PlannedPiece) -> String {
    let name = plan.tables[piece.table].name.chars();
    let name: String =
        name.map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    format!("{name}.{}.{:05}.parquet", plan.run_id, piece.number)
}

impl ParquetFiles {
    /// Files in a folder, or under the URL of a prefix.
    pub fn into(place: &str, options: &StoreOptions) -> Result<Self> {
        if !is_object(place) {
            return Ok(Self { place: Place::Folder(place.into()) });
        }
        let location = Location::parse(place)?;
        let store = Store::open(&location, options)?;
        let prefix = match location.key.trim_matches('/') {
            "" => String::new(),
            key => format!("{key}/"),
        };
        Ok(Self { place: Place::Store { store, prefix, stored: Mutex::default() } })
    }

    /// Where a piece is written; hidden in a folder, so that nobody's glob takes it for data.
    fn path(&self, plan: &Plan, piece: &PlannedPiece) -> PathBuf {
        let name = name_of(plan, piece);
        match &self.place {
            Place::Folder(folder) => folder.join(format!(".{name}.tmp")),
            Place::Store { prefix, .. } => format!("{prefix}{name}").into(),
        }
    }

    fn begin(&self, plan: &Plan, piece: &PlannedPiece) -> Result<Out> {
        let path = self.path(plan, piece);
        match &self.place {
            Place::Folder(_) => {
                let file = File::create(&path).map_err(|source| Error::Write { path, source })?;
                Ok(Out::File(file))
            }
            Place::Store { store, .. } => {
                Ok(Out::Object(Upload::begin(store, &path.to_string_lossy())?))
            }
        }
    }

    fn unfinished(&self, plan: &Plan) -> Vec<PathBuf> {
        let marker = format!(".{}.", plan.run_id);
        let Place::Folder(folder) = &self.place else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with('.') && name.ends_with(".parquet.tmp") && name.contains(&marker)
            })
            .collect()
    }
}

impl Sink for ParquetFiles {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let text = plan.tables.iter().find_map(|table| Some((table, table.why_text()?)));
        if let Some((table, why)) = text {
            return Err(Error::usage_with_hint(
                format!(
                    "{}: rows would go as text ({why}), and parquet: has no server",
                    table.name
                ),
                "omit --as-text, or give the columns other types with --type",
            ));
        }
        match &self.place {
            Place::Folder(folder) => std::fs::create_dir_all(folder)
                .map_err(|source| Error::Write { path: folder.clone(), source }),
            Place::Store { .. } => Ok(()),
        }
    }

    fn encoder(&self, _: &Plan, _: usize, _: Lane) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(ArrowEncoder))
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(ParquetWriter { files: self, plan: plan.clone(), open: None }))
    }

    fn publish(&self, plan: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        let folder = match &self.place {
            Place::Folder(folder) => folder,
            Place::Store { stored, .. } => {
                let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some(upload) = stored.last_mut() {
                    upload.complete()?;
                    stored.pop();
                }
                return Ok(Vec::new());
            }
        };
        for path in self.unfinished(plan) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let published = name.trim_start_matches('.').trim_end_matches(".tmp");
            std::fs::rename(&path, folder.join(published))
                .map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| Error::Write { path: folder.clone(), source })?;
        Ok(Vec::new())
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        if let Place::Store { stored, .. } = &self.place {
            let stored =
                std::mem::take(&mut *stored.lock().unwrap_or_else(PoisonError::into_inner));
            let left = stored
                .into_iter()
                .filter_map(|mut upload| upload.abort().is_err().then(|| upload.url().to_owned()));
            return left.collect();
        }
        let left =
            self.unfinished(plan).into_iter().filter(|path| std::fs::remove_file(path).is_err());
        left.map(|path| path.display().to_string()).collect()
    }
}

/// What a file is written to.
enum Out {
    File(File),
    Object(Upload),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Object(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Object(upload) => upload.flush(),
        }
    }
}

struct ParquetWriter<'a> {
    files: &'a ParquetFiles,
    plan: Arc<Plan>,
    open: Option<(PlannedPiece, ArrowWriter<Out>, u64)>,
}

impl ParquetWriter<'_> {
    fn failed(
        &self,
        piece: &PlannedPiece,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error::writing(self.files.path(&self.plan, piece), io::Error::other(error))
    }
}

impl Writer for ParquetWriter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        let out = self.files.begin(&self.plan, piece)?;
        let schema = self.plan.tables[piece.table].shape.schema();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = ArrowWriter::try_new(out, schema, Some(properties))
            .map_err(|error| self.failed(piece, error))?;
        self.open = Some((piece.clone(), writer, 0));
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        for batch in arrow_stream::read(encoded)? {
            let Some((piece, writer, rows)) = &mut self.open else { break };
            *rows += batch.num_rows() as u64;
            if let Err(error) = writer.write(&batch) {
                let piece = piece.clone();
                return Err(self.failed(&piece, error));
            }
        }
        Ok(())
    }

    fn commit(&mut self, _: &Portion) -> Result<Receipt> {
        let Some((piece, writer, rows)) = self.open.take() else { return Ok(Receipt::default()) };
        let bytes_sent = match writer.into_inner().map_err(|error| self.failed(&piece, error))? {
            Out::File(file) => {
                file.sync_all().map_err(|error| self.failed(&piece, error))?;
                file.metadata().map_or(0, |metadata| metadata.len())
            }
            Out::Object(mut upload) => {
                upload.store_all()?;
                let bytes = upload.bytes();
                if let Place::Store { stored, .. } = &self.files.place {
                    stored.lock().unwrap_or_else(PoisonError::into_inner).push(upload);
                }
                bytes
            }
        };
        Ok(Receipt { rows, bytes_sent })
    }

    fn rollback(&mut self) -> Result<()> {
        if let Some((piece, mut writer, _)) = self.open.take() {
            match writer.inner_mut() {
                Out::Object(upload) => upload.abort()?,
                Out::File(_) => {
                    let path = self.files.path(&self.plan, &piece);
                    std::fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
                }
            }
        }
        Ok(())
    }
}
