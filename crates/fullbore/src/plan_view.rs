//! `fullbore plan`: what would happen, in words.

use std::collections::BTreeSet;
use std::fmt::Write;

use fullbore_load::job::OtherWriters;
use fullbore_load::plan::lineage::Says;
use fullbore_load::plan::{Format, KeyBounds, PieceInput, Plan, TablePlan};
use fullbore_parse::Lane;
use fullbore_parse::dialect::{Dialect, Family, Header, LineEnd, Quotes, Ragged};
use fullbore_parse::types::ParseColumn;
use fullbore_read::FileRange;
use fullbore_record::terms::{Method, Publish, Verify};
use fullbore_report::words::{bytes, counted, grouped};

use crate::destinations::is_database;

/// The plan in words; `statements` are those that make tables, one for each table.
pub fn render(plan: &Plan, statements: &[Option<String>]) -> String {
    let mut text = String::new();
    let pieces = plan.pieces.len();
    let _ = writeln!(
        text,
        "{} over {}, {}, method {}",
        counted(pieces as u64, "piece"),
        counted(plan.streams as u64, "stream"),
        counted(plan.parsers as u64, "parser"),
        method_of(plan),
    );
    let _ = writeln!(text, "{}", continuity(plan));
    if plan.verify == Verify::Full {
        let _ = writeln!(text, "{VERIFIED}");
    }
    for (number, table) in plan.tables.iter().enumerate() {
        let statement = statements.get(number).and_then(Option::as_ref);
        render_table(&mut text, plan, number, table, statement);
    }
    text
}

/// Bytes of rows that a server counts in a second, by and large.
const COUNTED_PER_SECOND: u64 = 1_000_000_000;

const VERIFIED: &str = "verified in full: every value is compared before rows are published; rows \
                        in text form are sent twice, once for checksums";

fn render_table(
    text: &mut String,
    plan: &Plan,
    number: usize,
    table: &TablePlan,
    statement: Option<&String>,
) {
    let _ = writeln!(text, "\ntable {}", table.name);
    if let Some(statement) = statement {
        let _ = writeln!(text, "  created by:");
        // Whoever reads it knows the server's own types without their schema.
        for line in statement.replace("\" pg_catalog.", "\" ").lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    let size = table.bytes.map_or("of unknown size".into(), bytes);
    let _ = writeln!(text, "  {} file(s), {size}, {}", table.files.len(), format(&table.format));
    for note in table.notes.iter().chain(&table.schema_notes) {
        let _ = writeln!(text, "  note: {note}");
    }
    match is_database(Some(&plan.destination)) {
        true => into_database(text, table),
        false => into_server(text, plan, table),
    }
    let _ = writeln!(text, "  columns:");
    let is_shown = |column: &&ParseColumn| table.lineage_of(column) != Some(Says::Order);
    for column in table.shape.columns.iter().filter(is_shown) {
        let target = table.columns.iter().find(|candidate| candidate.name == column.name);
        let type_name = target.map_or("?", |target| target.type_name.as_str());
        let from = match table.lineage_of(column) {
            Some(Says::Folder) => "folder names".to_owned(),
            Some(says) => format!("{} (--lineage)", says.name()),
            None => match table.expression_of(column) {
                Some(sql) => sql.to_owned(),
                None => format!("field {}", column.field + 1),
            },
        };
        let _ = writeln!(text, "    {} {type_name} <- {from}", column.name);
    }
    if let Some(upsert) = &table.upsert {
        let _ = writeln!(text, "  {}", upsert.words());
    }
    for condition in table.transform.iter().flat_map(|transform| transform.conditions()) {
        let _ = writeln!(text, "  {condition}");
    }
    for control in &table.controls {
        let _ = writeln!(text, "  {} must be {}", control.total, control.expected.join(" + "));
    }
    let _ = writeln!(text, "  pieces:");
    for piece in plan.pieces.iter().filter(|piece| piece.table == number) {
        let place = match &piece.input {
            PieceInput::Ranges(ranges) => range_words(table, ranges, "bytes"),
            PieceInput::Rows(ranges) => range_words(table, ranges, "rows"),
            PieceInput::Stream { file } => format!(
                "{} as it is read, {} at a time",
                table.files[*file].path.display(),
                bytes(piece.bytes)
            ),
        };
        let keys = piece.bounds.as_ref().map_or(String::new(), key_words);
        let _ = writeln!(text, "    {:>5}  {:>9}  {place}{keys}", piece.number, bytes(piece.bytes));
    }
}

/// What publishing locks, for how long, and what that is to others.
fn locks(text: &mut String, plan: &Plan, table: &TablePlan) {
    let continuity = &plan.continuity;
    let lock = match (table.publish, table.is_atomic) {
        (Publish::Append, false) if table.method == Method::Direct => {
            "ACCESS EXCLUSIVE while the table is loaded: its readers wait"
        }
        (Publish::Append, false) => return,
        (Publish::Append, true) | (Publish::Upsert, _) => "ROW EXCLUSIVE",
        (Publish::Replace, _) => "ACCESS EXCLUSIVE for the swap",
        (Publish::Partitions, _) => {
            "SHARE UPDATE EXCLUSIVE, ACCESS EXCLUSIVE where empty partitions are replaced"
        }
    };
    let bound = match continuity.lock_timeout.is_zero() {
        true => "attempts wait without limit (--lock-timeout 0)".to_owned(),
        false => format!(
            "each attempt waits at most {:?} (--lock-timeout), then others can proceed; gives up \
             after {:?} (--retry-for)",
            continuity.lock_timeout, continuity.patience
        ),
    };
    let _ = writeln!(text, "  locks: {lock}; {bound}");
    if table.publish != Publish::Replace {
        return;
    }
    let writers = match continuity.other_writers {
        OtherWriters::Found => {
            "before the swap, while writers wait, one scan checks the old table for rows that \
             others committed since the run began; if there are any, the swap is refused; deleted \
             rows are not detected"
        }
        OtherWriters::Ignored => {
            "rows that others commit to the old table after the run began are lost \
             (--replace-anyway)"
        }
        OtherWriters::LockedOut => {
            "writers of the old table are blocked from the beginning of the load until the swap \
             (--lock-writers)"
        }
    };
    let _ = writeln!(text, "  writers: {writers}");
}

/// What is counted before the run ends, and its price.
fn counting(plan: &Plan, table: &TablePlan, to_read: u64) -> String {
    if table.is_piecewise() && !plan.continuity.is_resumable {
        return "row counts of both sides are compared; without a ledger, new rows can't be counted \
                in the table"
            .into();
    }
    let gained = if table.is_piecewise() { "the new part of the table" } else { "the table" };
    let seconds = to_read / COUNTED_PER_SECOND + 1;
    let price = format!("reads about {}, {seconds} s", bytes(to_read));
    match plan.verify {
        Verify::Count => format!("rows are counted in {gained}: {price}"),
        _ => format!(
            "row counts of both sides are compared; rows are also counted in {gained} ({price}) \
             unless the server's statistics rule out deleted rows"
        ),
    }
}

/// What a resume would repeat.
fn continuity(plan: &Plan) -> String {
    let continuity = &plan.continuity;
    if !continuity.is_resumable {
        return format!("not resumable: {}", continuity.reason);
    }
    let mut words = match continuity.resumes {
        true => format!("resumes run {}: committed pieces are not loaded again", plan.run_id),
        false => "resumable: committed pieces are not loaded again".to_owned(),
    };
    if let Some(part) = &continuity.part {
        let _ = write!(
            words,
            "; part {} of load {}, published with its last part",
            part.spec, part.whole
        );
    }
    let repeated = |table: &&TablePlan| table.publish.has_one_session(table.method);
    for table in plan.tables.iter().filter(repeated) {
        let _ = write!(
            words,
            "; {} is one piece ({} by method direct) and is loaded again unless it was complete",
            table.name,
            table.publish.name()
        );
    }
    words
}

/// The method of all tables, where they have one.
pub fn method_of(plan: &Plan) -> &'static str {
    let mut methods = plan.tables.iter().map(|table| table.method.name());
    let first = methods.next().unwrap_or("copy");
    if methods.all(|method| method == first) { first } else { "mixed" }
}

/// Where a piece's rows stand.
fn range_words(table: &TablePlan, ranges: &[FileRange], what: &str) -> String {
    let path = |range: &FileRange| table.files[range.file].path.display();
    let files = ranges.iter().map(|range| range.file).collect::<BTreeSet<_>>().len();
    match ranges {
        [range] if range.end == u64::MAX => format!("{} to its end", path(range)),
        [range] => {
            format!("{} {what} {} to {}", path(range), grouped(range.start), grouped(range.end))
        }
        [first, ..] if files == 1 => format!("{} in {} places", path(first), ranges.len()),
        _ => format!("{files} files"),
    }
}

fn key_words(bounds: &KeyBounds) -> String {
    let mut words = format!(", keys {} to {}", bounds.lower, bounds.upper);
    if let Some(partition) = &bounds.replaces {
        let _ = write!(words, ", in place of the empty partition {partition}");
    }
    words
}

fn format(format: &Format) -> String {
    match format {
        Format::Columnar(kind) => kind.words().into(),
        Format::Delimited(dialect) => dialect_words(dialect),
    }
}

fn dialect_words(dialect: &Dialect) -> String {
    if dialect.family == Family::Json {
        return "JSON lines, columns by key".into();
    }
    if dialect.family == Family::Fixed {
        let widths: Vec<String> = dialect.widths.iter().map(usize::to_string).collect();
        return format!("fixed-width text, fields of {} characters", widths.join(", "));
    }
    let family = match dialect.family {
        Family::Csv => format!("CSV, quote {:?}", dialect.quote as char),
        Family::Text => "COPY text".into(),
        Family::Plain | Family::Json | Family::Fixed => "plain delimited text".into(),
    };
    let delimiter = dialect.whole_delimiter();
    let mut words = format!("{family}, delimiter {}", quoted(&delimiter));
    if dialect.trailing_delimiter {
        words.push_str(" also at line ends");
    }
    words.push_str(match dialect.line_end {
        LineEnd::Lf => "",
        LineEnd::CrLf => ", CRLF",
        LineEnd::Cr => ", records end with CR",
        LineEnd::Mixed => ", records end with LF, CRLF or CR",
    });
    words.push_str(match dialect.header {
        Header::None => ", no header",
        Header::True => ", header",
        Header::Match => ", header that must match",
        Header::Skip => ", header skipped",
    });
    if dialect.family == Family::Csv && dialect.quotes == Quotes::Strict {
        words.push_str(", quotes strict");
    }
    words.push_str(match dialect.ragged {
        Ragged::Reject => "",
        Ragged::Pad => ", missing fields are NULL",
        Ragged::Cut => ", further fields are cut",
    });
    if let Some(comment) = dialect.comment {
        let _ = write!(words, ", comments begin with {:?}", char::from(comment));
    }
    for (lines, place) in [(dialect.skip_lines, "first"), (dialect.skip_footer, "last")] {
        match lines {
            0 => {}
            1 => {
                let _ = write!(words, ", {place} line skipped");
            }
            lines => {
                let _ = write!(words, ", {place} {lines} lines skipped");
            }
        }
    }
    let nulls: Vec<String> =
        dialect.nulls().map(|null| format!("{:?}", String::from_utf8_lossy(null))).collect();
    let _ = write!(words, ", NULL is {}", nulls.join(" or "));
    words
}

/// A delimiter, as it is written in code.
fn quoted(delimiter: &[u8]) -> String {
    match delimiter {
        [byte] => format!("{:?}", char::from(*byte)),
        more => format!("{:?}", String::from_utf8_lossy(more)),
    }
}

/// How rows are loaded into a database that is no PostgreSQL.
fn into_database(text: &mut String, table: &TablePlan) {
    let how = match (table.publish, table.is_atomic) {
        (Publish::Append, false) => {
            "append, directly to the table; each piece is visible once committed: not atomic"
        }
        (Publish::Replace, _) => {
            "replace; rows are staged in a table of their own, and take the place of the old ones in one \
             transaction"
        }
        _ => {
            "append, atomic; rows are staged in a table of their own, and inserted by one statement"
        }
    };
    let _ = writeln!(text, "  publish: {how}");
    let _ = writeln!(text, "  verify: rows and sums of columns are compared with what was sent");
    let reason = &table.method_reason;
    let _ = writeln!(text, "  {reason}; a row with a non-canonical value is a reject");
}

/// How rows are loaded into a PostgreSQL server, or written as if into one.
fn into_server(text: &mut String, plan: &Plan, table: &TablePlan) {
    let limited = match table.is_atomic && plan.max_rejects.allows_any() {
        true => {
            "; --max-rejects applies to all rows, so no row is published before all are checked"
        }
        false => "",
    };
    let _ = writeln!(text, "  publish: {}{limited}", publish_row(table));
    locks(text, plan, table);
    if table.keeps_old {
        let _ = writeln!(text, "  the replaced table is kept in a separate schema");
    }
    if let (Verify::Quick | Verify::Count, Some(to_read)) = (plan.verify, table.count_bytes) {
        let _ = writeln!(text, "  verify: {}", counting(plan, table, to_read));
    }
    let _ = writeln!(text, "  method: {}, since {}", table.method.name(), table.method_reason);
    match (table.lane, &table.lane_reason) {
        (Lane::Binary, _) => {
            let form = match table.method {
                Method::Direct => {
                    "in the server's storage format, as COPY binary where only the server can lay \
                     them out"
                }
                _ => "as COPY binary",
            };
            let _ = writeln!(
                text,
                "  rows are sent {form}; non-canonical ones as text, for the server to check"
            );
        }
        (Lane::Text, reason) => {
            let reason = reason.as_deref().unwrap_or("");
            let _ = writeln!(text, "  rows are sent as COPY text: {reason}");
        }
    }
}

/// The row of the publish table that applies, and its price.
fn publish_row(table: &TablePlan) -> &'static str {
    match (table.publish, table.is_atomic) {
        (Publish::Append, false) if table.method == Method::Direct => {
            "append, to empty tables, by one session in one transaction (WAL skipped where the server \
             allows, rows frozen)"
        }
        (Publish::Append, false) => {
            "append, directly to the table; each piece is visible once committed: not atomic"
        }
        (Publish::Append, true) => {
            "append, atomic; rows are staged in an unlogged table and published by one INSERT ... \
             SELECT (about 8 s/GB in one backend)"
        }
        (Publish::Upsert, false) => {
            "upsert; rows are staged and sorted in unlogged tables, then merged by ranges of keys over \
             all streams; each range is visible once committed: not atomic"
        }
        (Publish::Upsert, true) => {
            "upsert, atomic; rows are staged and sorted in unlogged tables, then merged in one \
             transaction by one session"
        }
        (Publish::Replace, _) if table.method == Method::Direct => {
            "replace; a new table is filled by one session in one transaction (WAL skipped where \
             the server allows, rows frozen), indexed, and swapped in one transaction"
        }
        (Publish::Replace, _) => {
            "replace; a new table is filled by all streams, indexed, and swapped in one transaction \
             (no WAL skip, no FREEZE)"
        }
        (Publish::Partitions, _) => {
            "partitions; each piece is a new table, filled in its own transaction (WAL skipped \
             where the server allows, rows frozen); all are attached in one transaction"
        }
    }
}
