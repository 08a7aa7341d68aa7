//! Whether there is room: for the table at the server, where its disk can be seen, and for the state of
//! the run here.

use std::path::PathBuf;

use fullbore::state::runs_dir;
use fullbore_postgres::place::{Place, free_bytes};
use fullbore_read::error::Result;
use serde::Serialize;

use super::data::Finding;
use crate::words::bytes;

/// A record is at most 20 MB; odd and rejected rows are spooled beside it.
const STATE_BYTES_MIN: u64 = 64 << 20;

/// The server's disk, and what the table will need of it.
#[derive(Debug, Clone, Serialize)]
pub struct Space {
    pub folder: PathBuf,
    pub free_bytes: u64,
    /// Bytes of tables and indexes for a byte of source, as far as indexes are built while rows move.
    pub bytes_per_source_byte: Option<f64>,
    pub predicted_bytes: Option<u64>,
    #[serde(skip)]
    sampled: u64,
}

impl Space {
    pub fn at(place: &Place) -> Self {
        Self {
            folder: place.data.path.clone(),
            free_bytes: place.data.free_bytes,
            bytes_per_source_byte: None,
            predicted_bytes: None,
            sampled: 0,
        }
    }

    /// So much source made tables of so many bytes; the largest sample counts.
    pub fn sampled(&mut self, table_bytes: u64, source_bytes: u64) {
        if source_bytes > self.sampled {
            self.sampled = source_bytes;
            self.bytes_per_source_byte = Some(table_bytes as f64 / source_bytes as f64);
        }
    }

    /// What the whole job needs; a finding where there is less.
    pub fn judge(&mut self, total_source_bytes: u64) -> Option<Finding> {
        let predicted = (self.bytes_per_source_byte? * total_source_bytes as f64) as u64;
        self.predicted_bytes = Some(predicted);
        (predicted > self.free_bytes).then(|| Finding {
            stops: true,
            file: None,
            line: None,
            byte: None,
            message: format!(
                "the table will need about {}, but the server's disk ({}) has {} free",
                bytes(predicted),
                self.folder.display(),
                bytes(self.free_bytes)
            ),
            hint: Some(
                "free space there, or create new tables on other disks with --tablespaces A,B"
                    .into(),
            ),
        })
    }
}

/// Whether the state of a run has room on this machine.
pub fn of_client() -> Result<Option<Finding>> {
    let runs = runs_dir()?;
    // The folder itself may not be there yet.
    let free = runs.ancestors().find_map(free_bytes);
    Ok(free.filter(|free| *free < STATE_BYTES_MIN).map(|free| Finding {
        stops: true,
        file: Some(runs.display().to_string()),
        line: None,
        byte: None,
        message: format!("the directory for run state has only {} free", bytes(free)),
        hint: Some("free space there, or set FULLBORE_HOME to another directory".into()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_larger_than_the_disk_is_told() {
        let mut space = Space {
            folder: "/data".into(),
            free_bytes: 10_000_000_000,
            bytes_per_source_byte: None,
            predicted_bytes: None,
            sampled: 0,
        };
        assert!(space.judge(1 << 40).is_none(), "nothing is known");
        space.sampled(130_000_000, 100_000_000);
        space.sampled(20, 10);
        assert!(space.judge(7_000_000_000).is_none());
        assert_eq!(space.predicted_bytes, Some(9_100_000_000));
        let finding = space.judge(8_000_000_000).expect("too much");
        assert!(finding.stops && finding.message.contains("10.4 GB"), "{finding:?}");
    }
}
