//! What a driver says, as an error of the data path.

use fullbore_read::error::{DestinationFailure, Error};

/// Refused before anything was touched.
pub fn refused(error: &adbc_core::error::Error) -> Error {
    of(error, DestinationFailure::Refused)
}

pub fn failed(error: &adbc_core::error::Error) -> Error {
    of(error, kind_of(&error.message))
}

fn of(error: &adbc_core::error::Error, kind: DestinationFailure) -> Error {
    Error::Destination { message: words(&error.message), hint: None, kind }
}

/// Drivers have no codes for it in common; these are the words of DuckDB and SQLite.
fn kind_of(message: &str) -> DestinationFailure {
    let is = |words: &str| message.contains(words);
    if is("Constraint Error") || is("constraint failed") {
        return DestinationFailure::Constraint;
    }
    if is("Conversion Error") || is("Out of Range Error") {
        return DestinationFailure::Data;
    }
    if is("database is locked") || is("Conflicting lock") {
        return DestinationFailure::Locked;
    }
    DestinationFailure::Other
}

/// An error of a piece: what is about its rows is final, since no second try could tell which one it is.
pub fn of_piece(error: Error) -> Error {
    match error {
        Error::Destination {
            message,
            hint,
            kind: DestinationFailure::Constraint | DestinationFailure::Data,
        } => Error::Destination { message, hint, kind: DestinationFailure::Other },
        other => other,
    }
}

/// The first lines of a message: what follows an empty one points into a statement of ours.
pub fn words(message: &str) -> String {
    message.split("\n\n").next().unwrap_or_default().trim().to_owned()
}

/// What the database was asked for and can't do.
pub fn cannot(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Destination {
        message: message.into(),
        hint: Some(hint.into()),
        kind: DestinationFailure::Refused,
    }
}

/// What the database holds is not what was sent.
pub fn differs(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Destination {
        message: message.into(),
        hint: Some(hint.into()),
        kind: DestinationFailure::Differs,
    }
}
