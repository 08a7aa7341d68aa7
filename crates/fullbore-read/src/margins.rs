//! The lines before the first record and after the last one: skipped lines and the header.

use std::ops::Range;

use fullbore_parse::dialect::{Dialect, Header, LineEnd, Quotes};
use fullbore_parse::walk::{Found, Walker};

use super::source_file::SourceFile;
use crate::constants::SAMPLE_BYTES;
use crate::error::Result;

/// What stands before a file's first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preamble {
    /// Its bytes, and the lines in them.
    pub bytes: usize,
    pub lines: u64,
    /// The header, empty where there is none.
    pub header: Range<usize>,
}

/// Finds the preamble of a text that begins as its file does, behind a byte order mark of so many bytes;
/// `None` where it goes on behind the text, unless that is the whole file.
pub fn preamble(
    text: &[u8],
    dialect: &Dialect,
    mark_bytes: usize,
    is_whole: bool,
) -> Option<Preamble> {
    let mark = mark_bytes.min(text.len());
    let mut at = mark;
    for _ in 0..dialect.skip_lines {
        if at == text.len() && is_whole {
            break;
        }
        at = dialect.line_end.after(text, at, is_whole)?;
    }
    let mut header = at..at;
    if dialect.header != Header::None {
        // A header that is only passed over may be damaged: then it is one line.
        let mut dialect = dialect.clone();
        if dialect.header == Header::Skip {
            dialect.quotes = Quotes::Strict;
        }
        let mut walker = Walker::new(&dialect);
        header = loop {
            if at == text.len() {
                break is_whole.then_some(at..at)?;
            }
            let (found, end) = walker.next(text, at, is_whole)?;
            let line = at..end;
            at = end;
            // Comments and blank lines may stand before it.
            if found != Found::Comment && !text[line.clone()].trim_ascii().is_empty() {
                break line;
            }
        };
    }
    Some(Preamble { bytes: at, lines: dialect.line_end.count(&text[mark..at]), header })
}

/// Where the last so many lines of a text begin; blank ones are not counted. `None` where it has fewer,
/// unless it is the whole file.
pub fn footer_start(text: &[u8], lines: u64, line_end: LineEnd, is_whole: bool) -> Option<usize> {
    let (mut end, mut left) = (text.len(), lines);
    while left > 0 {
        let before = &text[..end];
        let found = match line_end {
            LineEnd::Lf | LineEnd::CrLf => memchr::memrchr(b'\n', before),
            LineEnd::Cr => memchr::memrchr(b'\r', before),
            LineEnd::Mixed => memchr::memrchr2(b'\n', b'\r', before),
        };
        let begin = found.map_or(0, |at| at + 1);
        let line_feed = found.or_else(|| is_whole.then_some(0))?;
        left -= u64::from(!before[begin..].trim_ascii().is_empty());
        if left == 0 || found.is_none() {
            return Some(begin);
        }
        end = line_feed;
    }
    Some(end)
}

/// Notes where a file's records end, where lines follow them that are none. Of what can only be read
/// from its beginning that is seen when it ends.
pub fn find_end(file: &mut SourceFile, dialect: &Dialect) -> Result<()> {
    if dialect.skip_footer == 0 || !file.is_seekable() {
        return Ok(());
    }
    let opened = file.open()?;
    let mut bytes = SAMPLE_BYTES as u64;
    loop {
        let begin = file.size.saturating_sub(bytes).max(file.data_start.min(file.size));
        let mut text = vec![0; (file.size - begin) as usize];
        opened.read_exact_at(&mut text, begin).map_err(|error| file.unreadable(error))?;
        let is_whole = begin <= file.data_start;
        let start = footer_start(&text, dialect.skip_footer, dialect.line_end, is_whole);
        if let Some(start) = start {
            file.data_end = Some(begin + start as u64);
            return Ok(());
        }
        bytes *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_records_is_found() {
        let with =
            |header, skip_lines, comment| Dialect { header, skip_lines, comment, ..Dialect::csv() };
        let begun = |text: &str, dialect: &Dialect| {
            let whole = preamble(text.as_bytes(), dialect, 0, true).expect("whole");
            (text[whole.bytes..].to_owned(), whole.lines, text[whole.header].to_owned())
        };
        let found = |data: &str, lines, header: &str| (data.to_owned(), lines, header.to_owned());
        let none = with(Header::None, 0, None);
        assert_eq!(begun("1,2\n", &none), found("1,2\n", 0, ""));
        let two = with(Header::None, 2, None);
        assert_eq!(begun("a \"b\nc\n1,2\n", &two), found("1,2\n", 2, ""));
        assert_eq!(begun("a\n", &two), found("", 1, ""));
        let names = with(Header::True, 1, Some(b'#'));
        let text = "of \"2024\n#c\n\n#d\na,\"b\nb\"\n#e\n1,2\n";
        assert_eq!(begun(text, &names), found("#e\n1,2\n", 6, "a,\"b\nb\"\n"));
        assert_eq!(begun("of\na,b", &names), found("", 1, "a,b"));
        // A damaged header is one line, where it is only passed over.
        let skip = with(Header::Skip, 0, None);
        assert_eq!(begun("a,\"b\n1,\"2\"\n", &skip), found("1,\"2\"\n", 1, "a,\"b\n"));
        let cr = Dialect { line_end: LineEnd::Cr, ..with(Header::True, 1, None) };
        assert_eq!(begun("x\ra,b\r1,2\r", &cr), found("1,2\r", 2, "a,b\r"));
        // What goes on behind the text is not known.
        for text in ["a,b", "a,\"b\nc", ""] {
            assert_eq!(preamble(text.as_bytes(), &with(Header::True, 0, None), 0, false), None);
        }
        assert_eq!(preamble(b"a\nb", &two, 0, false), None);
    }

    #[test]
    fn footers_are_the_last_lines_that_are_not_blank() {
        let start = |text: &str, lines, end| footer_start(text.as_bytes(), lines, end, true);
        assert_eq!(start("1\n2\ntotal: 3\n", 1, LineEnd::Lf), Some(4));
        assert_eq!(start("1\n2\ntotal: 3", 1, LineEnd::Lf), Some(4));
        assert_eq!(start("1\n2\n\ntotal: 3\n \n\n", 1, LineEnd::Lf), Some(5));
        assert_eq!(start("1\r\n2\r\n\r\nx\r\n\r\ny\r\n", 2, LineEnd::CrLf), Some(8));
        assert_eq!(start("1\r2\rx\r", 1, LineEnd::Cr), Some(4));
        assert_eq!(start("1\r2\r\nx\n", 1, LineEnd::Mixed), Some(5));
        assert_eq!(start("x\n", 2, LineEnd::Lf), Some(0));
        assert_eq!(start("", 1, LineEnd::Lf), Some(0));
        // Of a part of a file it is not known whether its first line is one.
        assert_eq!(footer_start(b"1\n2\n", 2, LineEnd::Lf, false), None);
        assert_eq!(footer_start(b"1\n2\n", 1, LineEnd::Lf, false), Some(2));
    }
}
