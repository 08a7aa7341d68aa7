//! `fullbore plan --json`: the plan as data.

use fullbore_load::plan::lineage::Says;
use fullbore_load::plan::{Format, PieceInput, Plan, PlannedPiece, TablePlan};
use fullbore_parse::Lane;
use fullbore_parse::dialect::{Dialect, Family, Header, LineEnd};
use fullbore_parse::types::ParseColumn;
use fullbore_read::FileRange;
use fullbore_record::terms::{Compress, Method, Publish, Verify};
use schemars::JsonSchema;
use serde::Serialize;

/// Keys are only ever added to a version.
const PLAN_VERSION: u32 = 1;

/// The plan of a load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JsonPlan {
    /// Version of this shape: 1.
    version: u32,
    /// The plan in words, as printed without `--json`.
    text: String,
    /// Why there is nothing to load, if so; the keys below are absent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    nothing_to_do: Option<String>,
    #[serde(flatten)]
    plan: Option<Details>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Details {
    /// Destination, without a password.
    destination: String,
    /// Number of sessions.
    streams: usize,
    /// Number of parser threads.
    parsers: usize,
    /// Whether the run can be resumed.
    resumable: bool,
    /// Why it cannot.
    not_resumable_reason: Option<String>,
    /// The run that this plan resumes.
    resumes: Option<String>,
    /// Share of this host when several hosts load together.
    part: Option<String>,
    verify: Verify,
    compress: Compress,
    /// Limit of rejected rows: a number, or a share such as `0.5%`.
    max_rejects: String,
    tables: Vec<Table>,
    /// Units of commit, in the order in which they are loaded.
    pieces: Vec<Piece>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Table {
    name: String,
    files: Vec<String>,
    /// Size of the sources in bytes, if known.
    bytes: Option<u64>,
    /// How the sources are written; absent for Parquet.
    dialect: Option<DialectOf>,
    /// Statement that creates the table, if it is to be created.
    create: Option<String>,
    publish: Publish,
    /// Append in one transaction.
    atomic: bool,
    /// The replaced table is kept.
    keeps_old: bool,
    method: Method,
    method_reason: String,
    /// Whether rows are sent typed or as text.
    lane: Lane,
    /// Why rows are sent as text.
    lane_reason: Option<String>,
    columns: Vec<Column>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DialectOf {
    family: Family,
    delimiter: String,
    /// Only with family `csv`.
    quote: Option<String>,
    /// Only with family `csv`.
    escape: Option<String>,
    /// Strings read as NULL.
    nulls: Vec<String>,
    header: Header,
    line_end: LineEnd,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Column {
    name: String,
    /// SQL type.
    r#type: String,
    /// Field of the source, from 1.
    field: Option<usize>,
    /// What fills a column that no field fills: `run`, `file`, `line`, `loaded_at` or `folder`.
    origin: Option<String>,
    /// What computes it, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    expression: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Piece {
    number: usize,
    /// Index into `tables`.
    table: usize,
    /// Size in bytes of source, if known.
    bytes: u64,
    /// Unit of `ranges`: `bytes` or `rows`. With `stream` the piece takes its share of a file as it is
    /// read.
    unit: &'static str,
    ranges: Vec<Range>,
    /// Lower bound of the partition.
    lower: Option<String>,
    /// Upper bound of the partition, exclusive.
    upper: Option<String>,
    /// Empty partition that this piece replaces.
    replaces: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Range {
    /// Index into the table's `files`.
    file: usize,
    start: u64,
    /// Exclusive; absent where the range extends to the end of the file.
    end: Option<u64>,
}

impl JsonPlan {
    /// `text` and `statements` are what the plan is in words.
    pub fn of(plan: &Plan, text: String, statements: &[Option<String>]) -> Self {
        let continuity = &plan.continuity;
        let of_table = |(number, table)| {
            let statement = statements.get(number).cloned().flatten();
            Table::of(table, statement)
        };
        let details = Details {
            destination: plan.destination.clone(),
            streams: plan.streams,
            parsers: plan.parsers,
            resumable: continuity.is_resumable,
            not_resumable_reason: (!continuity.is_resumable).then(|| continuity.reason.clone()),
            resumes: continuity.resumes.then(|| plan.run_id.clone()),
            part: continuity.part.as_ref().map(|part| part.spec.to_string()),
            verify: plan.verify,
            compress: plan.compress,
            max_rejects: plan.max_rejects.to_string(),
            tables: plan.tables.iter().enumerate().map(of_table).collect(),
            pieces: plan.pieces.iter().map(Piece::of).collect(),
        };
        Self { version: PLAN_VERSION, text, nothing_to_do: None, plan: Some(details) }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the files are loaded already.
    pub fn nothing_to_do(words: String) -> Self {
        Self { version: PLAN_VERSION, text: words.clone(), nothing_to_do: Some(words), plan: None }
    }
}

impl Table {
    fn of(table: &TablePlan, create: Option<String>) -> Self {
        Self {
            name: table.name.clone(),
            files: table.files.iter().map(|file| file.path.display().to_string()).collect(),
            bytes: table.bytes,
            dialect: match &table.format {
                Format::Delimited(dialect) => Some(DialectOf::of(dialect)),
                Format::Columnar(_) => None,
            },
            create,
            publish: table.publish,
            atomic: table.is_atomic,
            keeps_old: table.keeps_old,
            method: table.method,
            method_reason: table.method_reason.clone(),
            lane: table.lane,
            lane_reason: table.lane_reason.clone(),
            columns: Column::all(table),
            notes: table.notes.iter().chain(&table.schema_notes).cloned().collect(),
        }
    }
}

impl DialectOf {
    fn of(dialect: &Dialect) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of_csv = |byte: u8| (dialect.family == Family::Csv).then(|| text(&[byte]));
        Self {
            family: dialect.family,
            delimiter: text(&dialect.whole_delimiter()),
            quote: of_csv(dialect.quote),
            escape: of_csv(dialect.escape),
            nulls: dialect.nulls().map(text).collect(),
            header: dialect.header,
            line_end: dialect.line_end,
        }
    }
}

impl Column {
    fn all(table: &TablePlan) -> Vec<Self> {
        let is_shown = |column: &&ParseColumn| table.lineage_of(column) != Some(Says::Order);
        let columns = table.shape.columns.iter().filter(is_shown).map(|column| {
            let target = table.columns.iter().find(|target| target.name == column.name);
            let says = table.lineage_of(column);
            Self {
                name: column.name.clone(),
                r#type: target.map_or_else(String::new, |target| target.type_name.clone()),
                field: (column.field != usize::MAX).then(|| column.field + 1),
                origin: says.map(Says::name).map(str::to_owned),
                expression: table.expression_of(column).map(str::to_owned),
            }
        });
        columns.collect()
    }
}

impl Piece {
    fn of(piece: &PlannedPiece) -> Self {
        let range = |range: &FileRange| Range {
            file: range.file,
            start: range.start,
            end: (range.end != u64::MAX).then_some(range.end),
        };
        let (unit, ranges) = match &piece.input {
            PieceInput::Ranges(ranges) => ("bytes", ranges.iter().map(range).collect()),
            PieceInput::Rows(ranges) => ("rows", ranges.iter().map(range).collect()),
            PieceInput::Stream { file } => {
                ("stream", vec![Range { file: *file, start: 0, end: None }])
            }
        };
        let bounds = piece.bounds.as_ref();
        Self {
            number: piece.number,
            table: piece.table,
            bytes: piece.bytes,
            unit,
            ranges,
            lower: bounds.map(|bounds| bounds.lower.to_string()),
            upper: bounds.map(|bounds| bounds.upper.to_string()),
            replaces: bounds.and_then(|bounds| bounds.replaces.clone()),
        }
    }
}
