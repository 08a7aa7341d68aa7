//! What was measured, kept as lines of JSON so that an experiment can go on where it was stopped.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::design::Cell;

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub block: usize,
    pub cell: Cell,
    /// Of the whole load.
    pub seconds: f64,
    pub bytes: u64,
    /// Bytes a second once it was steady, and the seconds until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_s: Option<f64>,
    /// What held it back, by its identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Why it does not count: it was repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    pub run: String,
}

/// A file of measurements. Its first line is what they are of.
pub struct Journal {
    file: File,
    pub measured: Vec<Measured>,
}

/// Why a journal can't be used.
#[derive(Debug)]
pub enum JournalError {
    Io(std::io::Error),
    /// It belongs to another experiment.
    Another,
    /// A line that is none of a journal's, by its number.
    Broken(usize),
}

impl Journal {
    /// Opens the journal of an experiment, or begins it. A last line that is cut off is written anew.
    pub fn open<T: Serialize>(path: &Path, about: &T) -> Result<Self, JournalError> {
        let about = serde_json::to_string(about).map_err(|error| JournalError::Io(error.into()))?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut measured = Vec::new();
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        let mut line = String::new();
        for number in 1.. {
            line.clear();
            let read = reader.read_line(&mut line)?;
            let Some(text) = line.strip_suffix('\n') else { break };
            match number {
                1 if text != about => return Err(JournalError::Another),
                1 => {}
                _ => measured
                    .push(serde_json::from_str(text).map_err(|_| JournalError::Broken(number))?),
            }
            whole += read as u64;
        }
        file.set_len(whole)?;
        if whole == 0 {
            writeln!(file, "{about}")?;
        }
        Ok(Self { file, measured })
    }

    /// Adds a measurement; it is on disk when this returns.
    pub fn add(&mut self, measured: Measured) -> Result<(), JournalError> {
        let line =
            serde_json::to_string(&measured).map_err(|error| JournalError::Io(error.into()))?;
        writeln!(self.file, "{line}")?;
        self.file.sync_data()?;
        self.measured.push(measured);
        Ok(())
    }

    /// Whether a cell has a measurement of a block that counts.
    pub fn has(&self, block: usize, cell: &Cell) -> bool {
        let counts = |m: &Measured| m.block == block && m.cell == *cell && m.disturbed.is_none();
        self.measured.iter().any(counts)
    }
}

impl From<std::io::Error> for JournalError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(block: usize) -> Measured {
        Measured {
            block,
            cell: Cell(vec![1]),
            seconds: 1.5,
            bytes: 100,
            steady: None,
            ramp_s: None,
            verdict: Some("database_cpu".into()),
            disturbed: None,
            run: "r".into(),
        }
    }

    #[test]
    fn an_experiment_goes_on_where_it_was_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path, &"about").expect("opened");
        journal.add(measured(0)).expect("added");
        journal.add(measured(1)).expect("added");
        drop(journal);
        // Killed in the middle of a line.
        let mut text = std::fs::read_to_string(&path).expect("read");
        text.truncate(text.len() - 5);
        std::fs::write(&path, text).expect("written");
        let mut journal = Journal::open(&path, &"about").expect("opened");
        assert_eq!(journal.measured, [measured(0)]);
        journal.add(measured(1)).expect("added");
        let journal = Journal::open(&path, &"about").expect("opened");
        assert!(journal.has(1, &Cell(vec![1])) && !journal.has(1, &Cell(vec![0])));
        assert!(matches!(Journal::open(&path, &"else"), Err(JournalError::Another)));
    }
}
