//! Parquet files in a folder, one for each piece; a file is published by renaming it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use fullbore_parse::Lane;
use fullbore_read::error::{Error, Result};
use fullbore_record::Phase;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Committed, Encoder, Portion, Receipt, Sink, Writer};
use crate::plan::{Plan, PlannedPiece};

/// Writes Parquet files into a folder.
pub struct ParquetFiles {
    pub folder: PathBuf,
}

impl ParquetFiles {
    fn path(&self, plan: &Plan, piece: &PlannedPiece, done: bool) -> PathBuf {
        let name: String = plan.tables[piece.table]
            .name
            .chars()
            .map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' })
            .collect();
        let number = piece.number;
        self.folder.join(match done {
            true => format!("{name}.{}.{number:05}.parquet", plan.run_id),
            // Hidden, so that nobody's glob takes it for data.
            false => format!(".{name}.{}.{number:05}.parquet.tmp", plan.run_id),
        })
    }

    fn unfinished(&self, plan: &Plan) -> Vec<PathBuf> {
        let marker = format!(".{}.", plan.run_id);
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
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
        if let Some(table) = plan.tables.iter().find(|table| table.lane == Lane::Text) {
            let why = table.lane_reason.as_deref().unwrap_or("asked for");
            return Err(Error::usage_with_hint(
                format!(
                    "{}: rows would go as text ({why}), and parquet: has no server",
                    table.name
                ),
                "omit --as-text, or give the columns other types with --type",
            ));
        }
        std::fs::create_dir_all(&self.folder)
            .map_err(|source| Error::Write { path: self.folder.clone(), source })
    }

    fn encoder(&self, _: &Plan, _: usize, _: Lane) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(IpcEncoder))
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(ParquetWriter { files: self, plan: plan.clone(), open: None }))
    }

    fn publish(&self, plan: &Plan, _: &[Committed]) -> Result<Vec<Phase>> {
        for path in self.unfinished(plan) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let published = name.trim_start_matches('.').trim_end_matches(".tmp");
            std::fs::rename(&path, self.folder.join(published))
                .map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| Error::Write { path: self.folder.clone(), source })?;
        Ok(Vec::new())
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        let left =
            self.unfinished(plan).into_iter().filter(|path| std::fs::remove_file(path).is_err());
        left.map(|path| path.display().to_string()).collect()
    }
}

/// Carries a batch through the byte queue as Arrow's own stream format.
struct IpcEncoder;

impl Encoder for IpcEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let mut writer =
            arrow_ipc::writer::StreamWriter::try_new(out, &batch.schema()).map_err(defect)?;
        writer.write(batch).and_then(|()| writer.finish()).map_err(defect)
    }
}

fn defect(error: impl std::fmt::Display) -> Error {
    Error::usage(format!("a batch could not be handed on: {error}"))
}

struct ParquetWriter<'a> {
    files: &'a ParquetFiles,
    plan: Arc<Plan>,
    open: Option<(PlannedPiece, ArrowWriter<File>, u64)>,
}

impl ParquetWriter<'_> {
    fn failed(&self, piece: &PlannedPiece, error: impl std::fmt::Display) -> Error {
        Error::Write {
            path: self.files.path(&self.plan, piece, false),
            source: std::io::Error::other(error.to_string()),
        }
    }
}

impl Writer for ParquetWriter<'_> {
    fn begin(&mut self, piece: &PlannedPiece) -> Result<()> {
        let path = self.files.path(&self.plan, piece, false);
        let file = File::create(&path).map_err(|source| Error::Write { path, source })?;
        let columns = self.plan.tables[piece.table].shape.columns.iter();
        let fields: Vec<_> =
            columns.map(|c| Field::new(&c.name, c.field_type.arrow(), true)).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = ArrowWriter::try_new(file, Arc::new(Schema::new(fields)), Some(properties))
            .map_err(|error| self.failed(piece, error))?;
        self.open = Some((piece.clone(), writer, 0));
        Ok(())
    }

    fn write(&mut self, encoded: &[u8]) -> Result<()> {
        let batches = arrow_ipc::reader::StreamReader::try_new(encoded, None).map_err(defect)?;
        for batch in batches {
            let batch = batch.map_err(defect)?;
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
        let file = writer.into_inner().map_err(|error| self.failed(&piece, error))?;
        file.sync_all().map_err(|error| self.failed(&piece, error))?;
        let bytes_sent = file.metadata().map_or(0, |metadata| metadata.len());
        Ok(Receipt { rows, bytes_sent })
    }

    fn rollback(&mut self) -> Result<()> {
        if let Some((piece, writer, _)) = self.open.take() {
            drop(writer);
            let path = self.files.path(&self.plan, &piece, false);
            std::fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
        }
        Ok(())
    }
}
