//! How the answers of `fullbore runs` are printed.

use std::io::Write;

use crate::words::Screen;

/// Prints a line; a reader that has gone away is no error.
pub fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(Screen, "{line}");
}
