//! Formats numbers and errors for people.

pub use fullbore_report::words::{
    achieved, bytes, counted, details, grouped, said, seconds, sentence,
};

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use fullbore::Ended;

/// Text for a terminal. What comes from files, servers and records must not move its cursor, colour
/// it, or turn its direction of writing: such characters are shown by their number.
pub fn shown(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (c.is_control() && c != '\n' && c != '\t') || turns
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { plain.extend(c.escape_unicode()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

/// Something that was to be read could not be written, to a disk that is full.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Notes what could not be written. That a reader has gone away is no error.
fn heard(written: io::Result<()>) -> io::Result<()> {
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !UNHEARD.swap(true, Ordering::Relaxed)
    {
        complain(&format!("can't write to standard output: {error}"), None);
    }
    written
}

/// How the command ended, where all of its answer was to be written too.
pub fn ended(ended: Ended) -> Ended {
    let _ = heard(io::stdout().flush());
    match ended {
        Ended::Loaded | Ended::LoadedWithRejects if UNHEARD.load(Ordering::Relaxed) => {
            Ended::Failed
        }
        ended => ended,
    }
}

/// Standard output for people, whatever stands in what is written.
pub struct Screen;

impl Write for Screen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        heard(io::stdout().write_all(shown(&String::from_utf8_lossy(text)).as_bytes()))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Prints something as one JSON object; a reader that has gone away is no error.
pub fn print_json(value: &impl serde::Serialize) {
    let text = serde_json::to_string(value).expect("plain data becomes JSON");
    let _ = heard(writeln!(io::stdout(), "{text}"));
}

/// Tells people a line of text that may come from anywhere. They may have gone away (`2>&1 | head`), which
/// must not end a load.
pub fn tell_line(line: &str) {
    let _ = writeln!(io::stderr(), "{}", shown(line));
}

/// As `eprintln!`, but see [`tell_line`].
macro_rules! tell {
    ($($words:tt)*) => { $crate::words::tell_line(&format!($($words)*)) };
}

/// As `println!`, of text that may come from anywhere, to a reader that may have gone away.
macro_rules! answer {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::words::Screen, $($words)*);
    }};
}

/// Says what is not as it should be.
pub fn warn(words: &str) {
    complain(words, None);
}

/// Says what went wrong, and what to do about it.
pub fn complain(message: &str, hint: Option<&str>) {
    tell!("fullbore: {message}");
    if let Some(hint) = hint {
        tell!("  hint: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_by_its_number() {
        assert_eq!(shown("rows\tof ä\n"), "rows\tof ä\n");
        assert_eq!(shown("a\u{1b}]0;title\u{7}b\r"), "a\\u{1b}]0;title\\u{7}b\\u{d}");
        assert_eq!(shown("\u{9b}31m \u{202e}txt.exe"), "\\u{9b}31m \\u{202e}txt.exe");
    }
}
