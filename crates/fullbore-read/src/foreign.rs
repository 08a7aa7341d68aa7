//! Refuses files in unsupported formats, recognized by name or first bytes.

use std::path::Path;

use crate::error::{Error, Result};

/// Bytes of a file's beginning that tell formats apart.
pub const HEAD_BYTES: usize = 64;

/// Refuses a source that is somewhere else than on this machine or in an object store. Its URL is not said
/// again: it may hold a password.
pub fn refuse_remote(source: &str) -> Result<()> {
    let Some((scheme, rest)) = source.split_once("://") else { return Ok(()) };
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme || Path::new(source).exists() || fullbore_objects::is_url(source) {
        return Ok(());
    }
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" {
        return Err(Error::usage_with_hint(
            "a source is a path, not a file:// URL",
            format!("name it as {}", rest.strip_prefix("localhost").unwrap_or(rest)),
        ));
    }
    let fetched = match scheme.as_str() {
        "ftp" | "ftps" => "curl -sSfL URL",
        "sftp" | "scp" | "ssh" => "ssh HOST cat FILE",
        "hdfs" => "hdfs dfs -cat PATH",
        _ => "COMMAND THAT WRITES IT",
    };
    Err(Error::usage_with_hint(
        format!("{scheme}:// is not supported yet; download it, or pipe it to `-`"),
        format!("{fetched} | fullbore load - --table TABLE"),
    ))
}

/// Refuses a file that is in a format which is no table of text, by its first bytes; what is compressed
/// in a way that is read is unpacked before.
pub fn refuse_foreign(path: &Path, head: &[u8]) -> Result<()> {
    let Some((what, hint)) = foreign(path, head) else { return Ok(()) };
    Err(Error::Source {
        path: path.to_owned(),
        message: format!("is {what}, which is not supported"),
        hint: Some(hint.to_owned()),
    })
}

fn foreign(path: &Path, head: &[u8]) -> Option<(&'static str, &'static str)> {
    let extension = path.extension().map(|ext| ext.to_string_lossy().to_ascii_lowercase());
    let is_named = |name: &str| extension.as_deref() == Some(name);
    Some(match head {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
            let is_office = memchr::memmem::find(head, b"[Content_Types].xml").is_some();
            if is_named("xlsx") || is_named("xlsm") || is_office {
                ("an Excel workbook (xlsx)", "save the sheet as CSV (UTF-8) and load that")
            } else if is_named("ods") {
                ("a spreadsheet (ods)", "save the sheet as CSV (UTF-8) and load that")
            } else {
                (
                    "a zip archive",
                    "unzip it, or pipe one file of it: unzip -p ARCHIVE.zip FILE | fullbore load - \
                     --table TABLE",
                )
            }
        }
        [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1, ..] => {
            ("an Excel workbook (xls)", "save the sheet as CSV (UTF-8) and load that")
        }
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => (
            "compressed with bzip2",
            "unpack it on the way: bunzip2 -c FILE | fullbore load - --table TABLE",
        ),
        [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c, ..] => {
            ("a 7z archive", "unpack it: 7z e -so ARCHIVE.7z | fullbore load - --table TABLE")
        }
        [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => ("a rar archive", "unpack it first"),
        [b'O', b'b', b'j', 1, ..] => ("an Avro file", "convert it to Parquet or CSV"),
        [b'O', b'R', b'C', ..] if is_named("orc") => {
            ("an ORC file", "convert it to Parquet or CSV")
        }
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0, ..] => {
            ("an Arrow file", "convert it to Parquet or CSV")
        }
        [b'P', b'G', b'D', b'M', b'P', 1, ..] => {
            ("a dump of PostgreSQL's in its custom format", "restore it with pg_restore")
        }
        _ if head.starts_with(b"PGCOPY\n\xff\r\n\0") => (
            "the output of COPY in binary format",
            "write it as text or CSV, or load it with psql's \\copy ... WITH (FORMAT binary)",
        ),
        _ if head.starts_with(b"SQLite format 3\0") => (
            "an SQLite database",
            "export the table: sqlite3 -csv -header FILE 'SELECT * FROM t' | fullbore load - --table t",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_refused_by_their_scheme_and_not_repeated() {
        for (source, words) in [
            ("FTP://user:secret@host/a.csv", "ftp:// is not supported yet; download it"),
            ("file:///tmp/a.csv", "not a file:// URL"),
        ] {
            let error = refuse_remote(source).expect_err(source);
            assert!(error.to_string().contains(words), "{error}");
            let hint = error.hint().expect("a hint");
            assert!(!hint.contains("secret") && !hint.contains("bucket"), "{hint}");
        }
        for source in ["data/a.csv", "C:/a", "-", "a b://c", "://"] {
            assert!(refuse_remote(source).is_ok(), "{source}");
        }
    }

    #[test]
    fn text_that_begins_like_a_magic_number_is_text() {
        let plain = Path::new("names.csv");
        for text in ["PK,name\n", "BZh,1\n", "ORC,1\n", "Obj,1\n", "7z,1\n", "Rar!,2\n", ""] {
            assert!(refuse_foreign(plain, text.as_bytes()).is_ok(), "{text}");
        }
        let error = refuse_foreign(plain, b"PK\x03\x04\x14\0").expect_err("a zip");
        assert_eq!(error.to_string(), "names.csv: is a zip archive, which is not supported");
        let office =
            b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0bbbbccccdddd\x13\0\0\0[Content_Types].xml";
        let error = refuse_foreign(plain, office).expect_err("a workbook");
        assert!(error.to_string().contains("xlsx"), "{error}");
    }
}
