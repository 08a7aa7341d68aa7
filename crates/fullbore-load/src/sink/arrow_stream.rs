//! Batches on their way from parsers to writers as Arrow's own stream format.

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use fullbore_read::error::{Error, Result};

use super::Encoder;

/// Hands batches on as they are.
pub struct ArrowEncoder;

impl Encoder for ArrowEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let mut writer = StreamWriter::try_new(out, &batch.schema()).map_err(defect)?;
        writer.write(batch).and_then(|()| writer.finish()).map_err(defect)
    }
}

/// The batches of what an [`ArrowEncoder`] has written.
pub fn read(encoded: &[u8]) -> Result<Vec<RecordBatch>> {
    let reader = StreamReader::try_new(encoded, None);
    reader.and_then(|reader| reader.collect()).map_err(defect)
}

fn defect(error: impl std::fmt::Display) -> Error {
    Error::usage(format!("a batch could not be handed on: {error}"))
}
