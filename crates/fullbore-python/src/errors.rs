//! How answers and refusals reach Python: as JSON, which is a result or makes an exception there.

use fullbore::Ended;
use fullbore_read::error::{Error, Result};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What Python gave as JSON.
pub fn parsed<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// An answer: the result, or the refusal in its place.
pub fn answered<T: Serialize>(result: Result<T>) -> String {
    match result {
        Ok(result) => json!({ "exit_code": 0, "message": "", "result": result }),
        Err(error) => refusal(&error),
    }
    .to_string()
}

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
