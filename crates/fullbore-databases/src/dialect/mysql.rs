//! MariaDB and MySQL. Tables are made outside of transactions; rows and their ledger are not.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, TimeUnit};
use fullbore_load::sink::Encoder;
use fullbore_load::target::NewColumn;
use fullbore_parse::sql_types;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::QualifiedName;
use fullbore_postgres::encode_copy::TextEncoder;
use fullbore_read::error::Result;
use fullbore_record::terms::Publish;

use super::duckdb::labels;
use super::{Dialect, Measure, Terms, exchange, is_value, literal};
use crate::error::cannot;
use crate::lines::texts;
use crate::link::{Link, Row};
use crate::sent::Form;
use crate::table::{Column, Table, named};

/// `TO_DAYS('1970-01-01')`.
const DAYS_BEFORE_1970: i128 = 719_528;

pub struct MySql;

impl MySql {
    /// The condition that a row of the information schema is about a table.
    pub fn is_about(prefix: &str, table: &QualifiedName) -> Result<String> {
        let schema = match table.schema() {
            Some(schema) => literal(schema)?,
            None => "DATABASE()".into(),
        };
        let name = literal(table.name())?;
        Ok(format!("{prefix}table_schema = {schema} AND {prefix}table_name = {name}"))
    }
}

impl Dialect for MySql {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn columns(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<Option<Vec<Column>>> {
        let rows = link.query(&format!(
            "SELECT column_name, column_type, is_nullable, column_default, extra, collation_name
               FROM information_schema.columns WHERE {} ORDER BY ordinal_position",
            Self::is_about("", table)?
        ))?;
        Ok((!rows.is_empty())
            .then(|| rows.iter().map(|row| column(row, [0, 1, 2, 3, 4, 5])).collect()))
    }

    fn columns_made(
        &self,
        link: &mut dyn Link,
        table: &QualifiedName,
        create: &str,
    ) -> Result<Option<Vec<Column>>> {
        // A temporary table ends no transaction, and nobody else sees it.
        link.execute(&temporary(create)?)?;
        let rows = link.query(&format!("SHOW FULL COLUMNS FROM {table}"))?;
        link.execute(&format!("DROP TEMPORARY TABLE {table}"))?;
        Ok(Some(rows.iter().map(|row| column(row, [0, 1, 3, 5, 6, 2])).collect()))
    }

    fn check(&self, link: &mut dyn Link, table: &QualifiedName, publish: Publish) -> Result<()> {
        let about = Self::is_about("", table)?;
        let engine = format!("SELECT engine FROM information_schema.tables WHERE {about}");
        let engine = link.query(&engine)?.into_iter().next().and_then(|row| row[0].clone());
        if engine.as_deref() != Some("InnoDB") {
            let engine = engine.unwrap_or_else(|| "no table".into());
            return Err(cannot(
                format!("{table}: the engine is {engine}, which has no transactions"),
                "ALTER TABLE ... ENGINE = InnoDB",
            ));
        }
        match publish {
            Publish::Replace => {}
            Publish::Partitions => exchange::check(link, table)?,
            _ => return Ok(()),
        }
        let own = Self::is_about("k.", table)?;
        let referenced = own
            .replace("table_schema", "referenced_table_schema")
            .replace("table_name", "referenced_table_name");
        let trigger = about
            .replace("table_schema", "event_object_schema")
            .replace("table_name", "event_object_table");
        let found = link.query(&format!(
            "SELECT concat('foreign key ', constraint_name) FROM information_schema.key_column_usage k
              WHERE referenced_table_name IS NOT NULL AND ({own} OR {referenced})
             UNION ALL
             SELECT concat('trigger ', trigger_name) FROM information_schema.triggers WHERE {trigger}"
        ))?;
        match found.into_iter().next().and_then(|row| row.into_iter().next().flatten()) {
            None => Ok(()),
            Some(what) => Err(cannot(
                match publish {
                    Publish::Replace => {
                        format!(
                            "{table} can't be replaced: the new table would not have its {what}"
                        )
                    }
                    _ => format!("partitions of {table} can't be exchanged, because of its {what}"),
                },
                "empty it and use --publish append --atomic, or drop that first",
            )),
        }
    }

    fn made_as(&self, column: &NewColumn) -> String {
        match (column.type_name.as_str(), column.fraction) {
            ("text", _) => "longtext".into(),
            ("real", _) => "float".into(),
            ("bytea", _) => "longblob".into(),
            ("jsonb", _) => "json".into(),
            ("uuid", _) => "char(36)".into(),
            ("time", _) => "time(6)".into(),
            ("timestamp" | "timestamptz" | "timestamp with time zone", _) => "datetime(6)".into(),
            ("numeric", fraction) => format!("decimal(38,{})", fraction.unwrap_or(18)),
            (other, _) => other.to_owned(),
        }
    }

    fn measure(&self, field_type: &FieldType) -> Measure {
        match field_type {
            // MySQL writes JSON in a form of its own; MariaDB's is a text.
            FieldType::Uuid | FieldType::Json => Measure::Count,
            // The sum of decimals has at most 65 digits.
            value if is_value(value) => Measure::Value,
            _ => Measure::Length,
        }
    }

    fn sum(&self, column: &str, field_type: &FieldType, of: &Column) -> Terms {
        let value = match field_type {
            FieldType::Float32 | FieldType::Float64 => format!(
                "CASE WHEN ABS({column}) < 1e12
                      THEN CAST(TRUNCATE({column} * 1024e0, 0) AS DECIMAL(40,0)) ELSE 0 END"
            ),
            // Taken from the sum, the beginning of days is not taken from each of them.
            FieldType::Date => {
                return vec![
                    (format!("SUM(TO_DAYS({column}))"), 1),
                    (format!("COUNT({column})"), -DAYS_BEFORE_1970),
                ];
            }
            FieldType::Time => format!(
                "(HOUR({column}) * 3600 + MINUTE({column}) * 60 + SECOND({column})) * 1000000
                 + MICROSECOND({column})"
            ),
            FieldType::Timestamp | FieldType::TimestampTz { .. } => {
                format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})")
            }
            // Texts that are held in another form. For the others it would take twice as long.
            FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. } if !of.takes_utf8 => {
                format!("LENGTH(CONVERT({column} USING utf8mb4))")
            }
            FieldType::Text { .. }
            | FieldType::Json
            | FieldType::Enum { .. }
            | FieldType::Bytea => format!("LENGTH({column})"),
            _ => column.to_owned(),
        };
        vec![(format!("SUM({value})"), 1)]
    }

    /// A query has one processor, and reads all rows. More than four would wait for the same pages; more than there are
    /// processors here, which may be the server's, would only read rows once more.
    fn summing_sessions(&self) -> usize {
        std::thread::available_parallelism().map_or(4, |here| here.get().min(4))
    }

    fn sends(&self) -> String {
        "rows go by LOAD DATA LOCAL".into()
    }

    fn encoder(&self, form: Form) -> Box<dyn Encoder> {
        Box::new(LinesEncoder { form, lines: TextEncoder::default() })
    }

    fn make_stage(
        &self,
        link: &mut dyn Link,
        table: &Table,
        stage: &QualifiedName,
        columns: &str,
    ) -> Result<()> {
        let name = &table.name;
        link.execute(&match table.publish {
            // It, or its partitions, take the table's place.
            Publish::Replace | Publish::Partitions => format!("CREATE TABLE {stage} LIKE {name}"),
            _ => format!("CREATE TABLE {stage} AS SELECT {columns} FROM {name} WHERE 1 = 0"),
        })
    }

    fn show(
        &self,
        link: &mut dyn Link,
        table: &Table,
        stage: &QualifiedName,
        columns: &str,
    ) -> Result<()> {
        let name = &table.name;
        if table.publish == Publish::Partitions {
            return exchange::begin(link, name, stage);
        }
        if table.publish != Publish::Replace {
            let sql = format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {stage}");
            return link.execute(&sql);
        }
        // Readers see the one or the other.
        let old = named(stage, "_old")?;
        link.execute(&format!("RENAME TABLE {name} TO {old}, {stage} TO {name}"))
    }

    fn text(&self) -> &'static str {
        "LONGTEXT"
    }

    fn was_shown(&self, link: &mut dyn Link, table: &Table, stage: &QualifiedName) -> Result<bool> {
        match table.publish {
            Publish::Replace => Ok(self.columns(link, &named(stage, "_old")?)?.is_some()),
            Publish::Partitions => Ok(true),
            // What is added is added in one with the ledger, and what was staged goes after it.
            Publish::Append | Publish::Upsert => Ok(false),
        }
    }

    fn check_over(&self, link: &mut dyn Link, stage: &QualifiedName) -> Result<()> {
        exchange::check_over(link, stage)
    }

    fn hide(
        &self,
        link: &mut dyn Link,
        table: &QualifiedName,
        stage: &QualifiedName,
    ) -> Result<()> {
        let old = named(stage, "_old")?;
        match self.columns(link, &old)? {
            None => Ok(()),
            Some(_) => {
                link.execute(&format!("DROP TABLE IF EXISTS {stage}"))?;
                link.execute(&format!("RENAME TABLE {table} TO {stage}, {old} TO {table}"))
            }
        }
    }

    fn for_update(&self) -> &'static str {
        " FOR UPDATE"
    }

    fn tidy(&self, link: &mut dyn Link, stage: &QualifiedName) -> Result<()> {
        exchange::check_over(link, stage)?;
        link.execute(&format!("DROP TABLE IF EXISTS {stage}, {}", named(stage, "_old")?))
    }

    fn exchanges_partitions(&self) -> bool {
        true
    }

    fn show_rest(&self, link: &mut dyn Link, table: &Table, stage: &QualifiedName) -> Result<()> {
        match table.publish {
            Publish::Partitions => exchange::go_on(link, &table.name, stage),
            _ => Ok(()),
        }
    }

    fn makes_tables_in_transactions(&self) -> bool {
        false
    }

    fn writers(&self) -> Option<usize> {
        None
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn is_positional(&self) -> bool {
        false
    }

    fn greeting(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The statement that makes a temporary table of the same columns; refuses what is no plain CREATE TABLE.
fn temporary(create: &str) -> Result<String> {
    let mut words = create.split_whitespace();
    let is =
        |word: Option<&str>, wanted: &str| word.is_some_and(|w| w.eq_ignore_ascii_case(wanted));
    if !is(words.next(), "create") || !is(words.next(), "table") {
        return Err(cannot(
            "the statement that makes the table does not begin with CREATE TABLE",
            "write nothing before it in the --schema file, not even a comment",
        ));
    }
    let rest = create.trim_start()["create".len()..].trim_start();
    Ok(format!("CREATE TEMPORARY TABLE{}", &rest["table".len()..]))
}

/// A column of these places of a row: name, type, whether it can be NULL, default, what else there is, and collation.
fn column(row: &Row, places: [usize; 6]) -> Column {
    let text = |at: usize| row.get(places[at]).and_then(Option::as_deref).unwrap_or_default();
    let extra = text(4).to_ascii_lowercase();
    let field_type = field_type(text(1));
    // MariaDB writes the default of a column without one as the word.
    let has_default = !["", "NULL"].contains(&text(3));
    Column {
        name: text(0).to_owned(),
        type_name: text(1).to_owned(),
        sent: field_type.as_ref().map_or(DataType::Utf8, sent),
        is_nullable: text(2) == "YES",
        takes_utf8: takes_utf8(field_type.as_ref(), text(5)),
        // MySQL says DEFAULT_GENERATED where a default is an expression.
        is_generated: ["virtual", "stored", "persistent"]
            .iter()
            .any(|kind| extra.starts_with(kind)),
        fills_itself: has_default || extra.contains("auto_increment"),
        field_type,
    }
}

/// Whether bytes that are said to be of no character set arrive as what they are in UTF-8. UUIDs and MySQL's JSON, which
/// have no collation, take none such.
fn takes_utf8(field_type: Option<&FieldType>, collation: &str) -> bool {
    match field_type {
        None | Some(FieldType::Uuid) => false,
        Some(FieldType::Text { .. } | FieldType::Json | FieldType::Enum { .. }) => {
            collation.starts_with("utf8mb4_")
        }
        Some(_) => true,
    }
}

fn field_type(column_type: &str) -> Option<FieldType> {
    let name = column_type.to_ascii_lowercase();
    if name.starts_with("enum(") {
        return Some(FieldType::Enum { labels: labels(&column_type[4..])?.into() });
    }
    let is_unsigned = name.contains(" unsigned");
    let base = name.split(['(', ' ']).next().unwrap_or_default();
    Some(match (base, is_unsigned) {
        ("tinyint", false) if name.starts_with("tinyint(1)") => FieldType::Boolean,
        ("tinyint", _) | ("smallint", false) => FieldType::Int16,
        ("smallint", true) | ("mediumint", _) | ("int", false) => FieldType::Int32,
        ("int", true) | ("bigint", false) => FieldType::Int64,
        ("bigint", true) => FieldType::Decimal { precision: 20, scale: 0 },
        ("float", _) => FieldType::Float32,
        ("double", _) => FieldType::Float64,
        ("decimal", _) => sql_types::field_type(name.split(' ').next().unwrap_or_default())?,
        ("char" | "varchar", _) => sql_types::field_type(&name)?,
        ("tinytext" | "text" | "mediumtext" | "longtext", _) => FieldType::text(),
        ("tinyblob" | "blob" | "mediumblob" | "longblob" | "varbinary", _) => FieldType::Bytea,
        ("date", _) => FieldType::Date,
        ("time", _) => FieldType::Time,
        ("datetime", _) => FieldType::Timestamp,
        ("timestamp", _) => FieldType::TimestampTz { zoneless_is_utc: true },
        ("json", _) => FieldType::Json,
        ("uuid", _) => FieldType::Uuid,
        _ => return None,
    })
}

fn sent(field_type: &FieldType) -> DataType {
    match field_type {
        FieldType::Uuid => DataType::Utf8,
        // In UTC, which the session's time zone is.
        FieldType::TimestampTz { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => other.arrow(),
    }
}

/// Writes batches as LOAD DATA reads them, which is how COPY's text format is written.
struct LinesEncoder {
    form: Form,
    lines: TextEncoder,
}

impl Encoder for LinesEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        self.lines.encode(&texts(&self.form.batch(batch)?)?, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_table_is_made_to_look_at_it() {
        let made = temporary(" create\n\ttable t (a int)").expect("a table");
        assert_eq!(made, "CREATE TEMPORARY TABLE t (a int)");
        for other in ["CREATE OR REPLACE TABLE t (a int)", "-- CREATE TABLE\nDROP TABLE t", ""] {
            assert!(temporary(other).is_err(), "{other}");
        }
    }

    #[test]
    fn types_are_known_by_their_signs_and_limits() {
        let decimal = |precision, scale| Some(FieldType::Decimal { precision, scale });
        for (name, known) in [
            ("int(11)", Some(FieldType::Int32)),
            ("int(10) unsigned", Some(FieldType::Int64)),
            ("bigint(20) unsigned zerofill", decimal(20, 0)),
            ("tinyint(1)", Some(FieldType::Boolean)),
            ("tinyint(4)", Some(FieldType::Int16)),
            ("decimal(15,2)", decimal(15, 2)),
            ("decimal(15,2) unsigned", decimal(15, 2)),
            ("decimal(65,2)", None),
            ("varchar(10)", Some(FieldType::Text { characters_max: Some(10) })),
            (
                "enum('a','it''s')",
                Some(FieldType::Enum { labels: ["a", "it's"].map(String::from).into() }),
            ),
            ("datetime(6)", Some(FieldType::Timestamp)),
            ("set('a')", None),
            ("year(4)", None),
            ("bit(3)", None),
        ] {
            assert_eq!(field_type(name), known, "{name}");
        }
    }
}
