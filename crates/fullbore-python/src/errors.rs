//! How a refusal reaches Python: as the JSON that makes an exception of it there.

use fullbore::Ended;
use fullbore_read::error::Error;
use serde_json::{Value, json};

/// A refusal before anything was touched, in the shape of a load's result.
pub fn refusal(error: &Error) -> Value {
    json!({
        "exit_code": Ended::Usage.code(),
        "message": message(error, &[]),
        "result": fullbore::refusal(error),
    })
}

/// An error with its hint, and a line for each other thing that should be known.
pub fn message(error: &Error, lines: &[String]) -> String {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}"));
    let more = lines.iter().map(|line| format!("\n{line}"));
    std::iter::once(error.to_string()).chain(hint).chain(more).collect()
}
