//! How numbers and errors are put to people.

pub use fullbore_report::words::{achieved, bytes, counted, details, grouped, seconds, sentence};

/// Says what went wrong, and what to do about it.
pub fn complain(message: &str, hint: Option<&str>) {
    eprintln!("fullbore: {message}");
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
}
