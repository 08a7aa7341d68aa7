//! What can go wrong on the way, as data; the words for people are in `Display` and `hint`.

use std::io::ErrorKind;
use std::path::PathBuf;

/// An error of the data path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job or its options make no sense; nothing was touched.
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error("can't read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("can't write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The source's bytes are not what they should be, beyond a single row.
    #[error("{}: {message}", path.display())]
    Source { path: PathBuf, message: String, hint: Option<String> },
    #[error("{} changed during the load ({what})", path.display())]
    SourceChanged { path: PathBuf, what: String },
    #[error("{}: {}", rejected(*rejects, limit), first_words(first.as_deref()))]
    TooManyRejects {
        rejects: u64,
        limit: String,
        /// The one that was too many; none where the limit is a share of all rows.
        first: Option<Box<RejectedRow>>,
        hint: &'static str,
    },
    /// COPY's rule for quotes takes in all that follows, which no limit of rejects covers.
    #[error("{row}: the records after it can't be separated")]
    Unterminated { row: Box<RejectedRow> },
    /// The destination refused or failed.
    #[error("{message}")]
    Destination { message: String, hint: Option<String>, kind: DestinationFailure },
    /// The client itself could not go on: its machine gave it too little, or it has a defect.
    #[error("{message}")]
    Client { message: String, hint: Option<String> },
    #[error("stopped by a signal")]
    Interrupted,
}

/// A row that was rejected: where it stands, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    pub file: PathBuf,
    pub place: Position,
    pub column: Option<String>,
    pub value: Option<String>,
    pub reason: String,
}

/// Where in its file a row stands. Lines and rows count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Line(u64),
    Row(u64),
    /// Of text in a file so large that its lines are not counted for an error.
    Byte(u64),
}

impl std::fmt::Display for RejectedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.file.display(), self.place)?;
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// What a destination's failure means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationFailure {
    /// It refused before anything was touched.
    Refused,
    /// A value was refused where only whole pieces can be: the piece may be tried as text.
    Data,
    /// A constraint of the target does not hold for the new rows.
    Constraint,
    /// The connection was lost, or the server takes no writes for the moment.
    Lost,
    /// The server, the database or the role has as many connections as it may have.
    Crowded,
    /// The server's disk is full.
    Full,
    /// The sources are not what the plan was made for; no second try can mend that.
    Sources,
    /// What the destination holds is not what was sent to it.
    Differs,
    /// The target is no longer what the plan was made for; once that is undone, the run can be resumed.
    Changed,
    /// A table that held rows of the run no longer exists: the run can only be closed.
    Gone,
    /// A lock that others hold was not had in time, or a deadlock was ended.
    Locked,
    /// Somebody else goes on with the run.
    TakenOver,
    /// Another part of the load has failed and is being rolled back: it says why.
    RollingBack,
    Other,
}

impl Error {
    /// Whether the connection was lost, or is not to be had, so that another try may succeed.
    pub fn is_lost(&self) -> bool {
        use DestinationFailure::{Crowded, Lost};
        matches!(self, Self::Destination { kind: Lost | Crowded, .. })
    }

    /// Whether it is only that there are too many connections.
    pub fn is_crowded(&self) -> bool {
        matches!(self, Self::Destination { kind: DestinationFailure::Crowded, .. })
    }

    /// Whether the server's disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Destination { kind: DestinationFailure::Full, .. })
    }

    /// Whether it is rows that the destination does not take: what the table asks of them, or a type of
    /// their values.
    pub fn is_of_rows(&self) -> bool {
        use DestinationFailure::{Constraint, Data};
        matches!(self, Self::Destination { kind: Constraint | Data, .. })
    }

    /// A read that failed, of a file or at a store.
    pub fn reading(path: PathBuf, error: std::io::Error) -> Self {
        Self::of_store(error).unwrap_or_else(|source| Self::Read { path, source })
    }

    /// A write that failed, of a file or at a store.
    pub fn writing(path: PathBuf, error: std::io::Error) -> Self {
        Self::of_store(error).unwrap_or_else(|source| Self::Write { path, source })
    }

    /// What a store said, where an error of reading holds that.
    ///
    /// # Errors
    /// The error itself, where it is of something else.
    pub(crate) fn of_store(error: std::io::Error) -> Result<Self, std::io::Error> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|e| e as _);
        while let Some(found) = cause {
            if let Some(refusal) = found.downcast_ref::<fullbore_objects::Error>() {
                return Ok(refusal.clone().into());
            }
            cause = found.source();
        }
        Err(error)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    pub fn usage_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// What the user can do, with the option to use.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage { hint, .. }
            | Self::Source { hint, .. }
            | Self::Destination { hint, .. }
            | Self::Client { hint, .. } => hint.as_deref(),
            Self::TooManyRejects { hint, .. } => Some(hint),
            Self::Unterminated { .. } => Some(
                "close the quote in the source, or load with --quotes strict, which rejects only \
                 its line",
            ),
            Self::SourceChanged { .. } => Some("load again when no process writes to the file"),
            Self::Write { source, .. } => hint_for_writing(source.kind()),
            Self::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
                Some("check the path; the files of a load must stay in place until it ends")
            }
            _ => None,
        }
    }
}

/// How many rows were rejected, and how many were allowed.
fn rejected(rejects: u64, limit: &str) -> String {
    let rows = if rejects == 1 { "1 row".to_owned() } else { format!("{rejects} rows") };
    match limit {
        "0" if rejects == 1 => format!("{rows} rejected, none allowed (stopped at the first)"),
        "0" => format!("{rows} rejected, none allowed; the first"),
        limit => format!("{rows} rejected, {limit} allowed; the first"),
    }
}

/// The row that was too many, in words.
fn first_words(first: Option<&RejectedRow>) -> String {
    first.map_or_else(|| "see the reject file".to_owned(), ToString::to_string)
}

/// What can be done where a file of the client's own can't be written.
fn hint_for_writing(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space there, or use directories on another disk: FULLBORE_HOME for run state, \
             --reject-dir for rejected rows"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "let this user write there, or use other directories: FULLBORE_HOME for run state, \
             --reject-dir for rejected rows"
        }
        _ => return None,
    })
}

impl From<fullbore_objects::Error> for Error {
    fn from(error: fullbore_objects::Error) -> Self {
        use fullbore_objects::Kind;
        let path = error.url.into();
        match error.kind {
            Kind::Changed => Self::SourceChanged { path, what: error.message },
            Kind::Usage => Self::Usage {
                message: format!("{} {}", path.display(), error.message),
                hint: error.hint,
            },
            _ => Self::Source { path, message: error.message, hint: error.hint },
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_are_counted_as_people_count_them() {
        let words = |rejects, limit: &str| {
            let first = RejectedRow {
                file: "x.csv".into(),
                place: Position::Line(2),
                column: None,
                value: None,
                reason: "no".into(),
            };
            let (first, limit) = (Some(Box::new(first)), limit.into());
            Error::TooManyRejects { rejects, limit, first, hint: "" }.to_string()
        };
        assert_eq!(
            words(1, "0"),
            "1 row rejected, none allowed (stopped at the first): x.csv, line 2: no"
        );
        assert_eq!(words(4, "3"), "4 rows rejected, 3 allowed; the first: x.csv, line 2: no");
    }
}
