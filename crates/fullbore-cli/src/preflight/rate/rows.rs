//! Rows made up in a table's shape: each column's type, text as long as the table's own in the mean.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_postgres::catalog::{self, Column};
use fullbore_postgres::types::CatalogType;
use fullbore_preflight::Error;

use crate::load::signals::INTERRUPTED;
use crate::scratch::failed;

/// Where the table has no statistics.
const TEXT_BYTES_DEFAULT: usize = 20;
/// Beyond this a value would be kept out of line, and that would be measured.
const TEXT_BYTES_MAX: usize = 1000;

const WORDS: [&str; 8] = ["load", "every", "row", "once", "and", "know", "why", "fast"];

/// A table as rows are made up for it.
pub struct Shape {
    pub name: QualifiedName,
    columns: Vec<Column>,
    /// Mean length of a column's values, where the server knows.
    widths: BTreeMap<String, usize>,
}

/// Looks at a table.
pub fn shape(session: &mut Session, table: &str) -> Result<Shape, Error> {
    let name = QualifiedName::parse(table).map_err(failed)?;
    let found = catalog::relation(session, &name).map_err(failed)?.ok_or_else(|| {
        Error::refused(
            format!("table {name} does not exist"),
            "create it first (it can be empty), or set another table with --table",
        )
    })?;
    let rows = session
        .query(&format!(
            "SELECT s.attname, s.avg_width FROM pg_catalog.pg_stats s
               JOIN pg_catalog.pg_class c ON c.oid = {}::pg_catalog.regclass AND c.relname = s.tablename
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = s.schemaname
              WHERE NOT s.inherited",
            quote_literal(&found.name.to_string()).map_err(failed)?
        ))
        .map_err(failed)?;
    let widths = rows
        .iter()
        .filter_map(|row| {
            Some((row.get("attname")?.to_owned(), row.get("avg_width")?.parse().ok()?))
        })
        .collect();
    Ok(Shape { name: found.name, columns: found.columns, widths })
}

/// Writes COPY text of about so many bytes; how many rows it is.
pub fn write(shape: &Shape, file: &Path, bytes: u64) -> Result<u64, Error> {
    let failed = |source| Error::Path {
        what: "write made-up rows to",
        path: file.to_path_buf(),
        source,
        hint: Some("set TMPDIR to a folder with more room, or give a smaller --bytes".into()),
    };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file).map_err(failed)?);
    let (mut written, mut rows) = (0, 0);
    let mut line = String::new();
    while written < bytes {
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(Error::refused("stopped by a signal", "nothing was measured yet"));
        }
        line.clear();
        for (place, column) in shape.columns.iter().enumerate() {
            if place > 0 {
                line.push('\t');
            }
            let width = shape.widths.get(&column.name).copied();
            let value = value(&column.catalog_type, rows, width);
            match value {
                Some(value) => line += &value,
                None if !column.is_not_null => line += "\\N",
                None => {
                    return Err(Error::refused(
                        format!(
                            "can't generate values of type {} for NOT NULL column {:?}",
                            column.type_name, column.name
                        ),
                        "provide sample rows with --sample FILE",
                    ));
                }
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes()).map_err(failed)?;
        written += line.len() as u64;
        rows += 1;
    }
    out.flush().map_err(failed)?;
    Ok(rows)
}

/// The n-th value of a type, in COPY's text format; `None` for types that are not known here.
fn value(kind: &CatalogType, n: u64, width: Option<usize>) -> Option<String> {
    if let Some((element, _)) = &kind.element {
        let item = |more| value(element, n + more, None);
        // Quoted, since text may hold commas and spaces.
        return Some(format!("{{\"{}\",\"{}\"}}", item(0)?, item(1)?));
    }
    if kind.kind == "e" {
        let label = kind.labels.get(n as usize % kind.labels.len().max(1))?;
        return (!label.contains(['\\', '\t', '\n', '\r', '"'])).then(|| label.clone());
    }
    if kind.kind != "b" || kind.schema != "pg_catalog" {
        return None;
    }
    // Neighbours differ in all digits.
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let day =
        || format!("20{:02}-{:02}-{:02}", mixed % 40, mixed / 40 % 12 + 1, mixed / 480 % 28 + 1);
    let time = || {
        format!("{:02}:{:02}:{:02}.{:06}", n % 24, mixed % 60, mixed / 60 % 60, mixed % 1_000_000)
    };
    Some(match kind.name.as_str() {
        "bool" => if mixed.is_multiple_of(2) { "t" } else { "f" }.into(),
        "int2" => (mixed % 30_000).to_string(),
        "int4" => (mixed % 2_000_000_000).to_string(),
        "oid" => (mixed % 4_000_000_000).to_string(),
        "int8" => (n + 1).to_string(),
        "float4" | "float8" => format!("{}.{:03}", mixed % 100_000, n % 1000),
        "numeric" => numeric(kind.modifier, mixed),
        "text" | "varchar" | "bpchar" => text(kind, n, width),
        "date" => day(),
        "time" => time(),
        "timestamp" => format!("{} {}", day(), time()),
        "timestamptz" => format!("{} {}+00", day(), time()),
        "uuid" => format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            n as u32,
            mixed & 0xffff,
            mixed & 0xfff,
            n & 0xfff,
            mixed
        ),
        "bytea" => format!(
            "\\\\x{}",
            format!("{mixed:016x}").repeat((width.unwrap_or(16) / 8).clamp(1, 64))
        ),
        "json" | "jsonb" => {
            format!("{{\"n\": {n}, \"word\": \"{}\"}}", WORDS[n as usize % WORDS.len()])
        }
        "interval" => format!("{} hours", mixed % 1000),
        "inet" | "cidr" => format!("10.{}.{}.{}", mixed % 256, mixed / 256 % 256, n % 256),
        _ => return None,
    })
}

/// As many digits as the type takes, seven by default; the scale's behind the point.
fn numeric(modifier: i32, mixed: u64) -> String {
    let packed = modifier - 4;
    if packed < 0 {
        return format!("{}.{:02}", mixed % 100_000, mixed % 100);
    }
    let (precision, scale) = ((packed >> 16) as u32, ((packed & 0x7ff) ^ 1024) - 1024);
    let scale = u32::try_from(scale).unwrap_or(0).min(12);
    let whole = precision.saturating_sub(scale).min(6);
    let before = mixed % 10_u64.pow(whole);
    if scale == 0 {
        return before.to_string();
    }
    format!("{before}.{:0width$}", mixed / 7 % 10_u64.pow(scale), width = scale as usize)
}

fn text(kind: &CatalogType, n: u64, width: Option<usize>) -> String {
    // Four bytes of the modifier are the header's.
    let most = usize::try_from(kind.modifier - 4).unwrap_or(TEXT_BYTES_MAX);
    let wanted = width.unwrap_or(TEXT_BYTES_DEFAULT).clamp(1, most.clamp(1, TEXT_BYTES_MAX));
    let mut text = String::with_capacity(wanted + 8);
    let mut word = n as usize;
    while text.len() < wanted {
        text += WORDS[word % WORDS.len()];
        text.push(' ');
        word = (word / WORDS.len()).wrapping_add(word.wrapping_mul(5)).wrapping_add(1);
    }
    text.truncate(wanted);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, modifier: i32) -> CatalogType {
        CatalogType {
            schema: "pg_catalog".into(),
            name: name.into(),
            kind: "b".into(),
            modifier,
            ..CatalogType::default()
        }
    }

    #[test]
    fn values_fit_their_types() {
        for n in (0..5000).chain([u64::from(u32::MAX), 1 << 40]) {
            // numeric(3,1) and numeric(15,2).
            for (modifier, whole, scale) in
                [(((3 << 16) | 1) + 4, 2, 1), (((15 << 16) | 2) + 4, 13, 2)]
            {
                let text = value(&kind("numeric", modifier), n, None).expect("known");
                let (before, after) = text.split_once('.').expect("a scale");
                assert!(before.len() <= whole && after.len() == scale, "{text}");
            }
            let text = value(&kind("varchar", 10 + 4), n, Some(50)).expect("known");
            assert_eq!(text.len(), 10);
            assert!(value(&kind("int2", -1), n, None).expect("known").parse::<i16>().is_ok());
            assert!(value(&kind("int4", -1), n, None).expect("known").parse::<i32>().is_ok());
            assert_eq!(value(&kind("uuid", -1), n, None).expect("known").len(), 36);
        }
        assert_eq!(value(&kind("tsvector", -1), 1, None), None);
    }
}
