//! A run: sorted rows in a file that has no name, so that it goes with the process.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};

/// What is read or written of a file at a time.
const BUFFER_BYTES: usize = 256 << 10;

pub struct Run {
    file: File,
    pub rows: u64,
    pub bytes: u64,
}

/// The blocks of a run.
pub type Reader = StreamReader<BufReader<File>>;

impl Run {
    pub fn write(
        folder: &Path,
        schema: &SchemaRef,
        blocks: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<Self, ArrowError> {
        let file = tempfile::tempfile_in(folder)?;
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, file);
        let mut writer = StreamWriter::try_new(buffered, schema)?;
        let mut rows = 0;
        for block in blocks {
            let block = block?;
            rows += block.num_rows() as u64;
            writer.write(&block)?;
        }
        writer.finish()?;
        let mut file = writer.into_inner()?.into_inner().map_err(std::io::Error::from)?;
        let bytes = file.stream_position()?;
        Ok(Self { file, rows, bytes })
    }

    pub fn read(mut self) -> Result<Reader, ArrowError> {
        self.file.seek(SeekFrom::Start(0))?;
        StreamReader::try_new(BufReader::with_capacity(BUFFER_BYTES, self.file), None)
    }
}
