//! Empty copies of the job's tables in the scratch schema, with indexes, constraints and partition keys,
//! so that rows cost the same as in the real load.

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, Row, Session, quote_identifier};
use fullbore_postgres::PostgresTable;
use fullbore_preflight::Error;

use super::{Scratch, failed};

/// What of a table a copy must be made with, beside its columns.
const ABOUT: &str = "
    SELECT pg_get_partkeydef(c.oid) AS partition_key, c.relpersistence = 'u' AS is_unlogged,
           (SELECT spcname FROM pg_tablespace t WHERE t.oid = c.reltablespace) AS tablespace,
           EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal)
             AS has_triggers,
           EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f')
             AS has_references,
           c.reltuples > 0 AS has_rows,
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid) AS has_indexes,
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
                     AND (i.indisunique OR i.indisexclusion)) AS is_unique
      FROM pg_class c WHERE c.oid = ";

/// What is to be known of the copies.
#[derive(Default)]
pub struct Copies {
    /// What they lack.
    pub notes: Vec<String>,
    /// The same rows can't be in one of them twice.
    pub are_unique: bool,
}

/// Makes the copies, one for each target, in their order.
pub fn make(scratch: &Scratch, targets: &[PostgresTable]) -> Result<Copies, Error> {
    let mut session = scratch.session();
    let mut copies = Copies::default();
    session.execute("BEGIN").map_err(failed)?;
    let made = targets.iter().enumerate().try_for_each(|(at, target)| {
        copy(&mut session, target, &scratch.name(at + 1), &mut copies)
    });
    let ended = made.and_then(|()| session.execute("COMMIT").map(drop));
    ended.or_else(|error| session.execute("ROLLBACK").and(Err(error))).map_err(failed)?;
    Ok(copies)
}

fn copy(
    session: &mut Session,
    target: &PostgresTable,
    name: &str,
    copies: &mut Copies,
) -> Result<(), ConnectionError> {
    let like = target.name();
    if let Some(create) = &target.create {
        if create.trim_end().trim_end_matches(';').contains(';') {
            return Err(ConnectionError::Usage {
                reason: "the schema file has several statements, and their objects would remain"
                    .into(),
                hint: Some("create its objects first, then measure"),
            });
        }
        // Nobody sees the table itself: it is gone again when this transaction ends.
        session.execute(&format!("{OF_ROLE}{create}"))?;
    }
    let oid = regclass(session, &like.to_string())?;
    let rows = session.query(&format!("{ABOUT}{oid}"))?;
    let about = |column: &str| rows.first().and_then(|row| row.get(column));
    let is = |column: &str| about(column) == Some("t");
    let unlogged = if is("is_unlogged") { "UNLOGGED " } else { "" };
    let key = about("partition_key").map_or(String::new(), |key| format!(" PARTITION BY {key}"));
    let tablespace = match about("tablespace") {
        Some(name) => format!(" TABLESPACE {}", quote_identifier(name)?),
        None => String::new(),
    };
    session.execute(&format!(
        "CREATE {unlogged}TABLE {name} (LIKE {like} INCLUDING ALL){key}{tablespace}"
    ))?;
    own_numbers(session, name)?;
    // Rows that are appended go into a partition; one for all of them is the cheapest there is.
    if !key.is_empty() && target.publish.joins_rows() {
        let all = match about("partition_key").is_some_and(|key| key.starts_with("HASH")) {
            true => "FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
            false => "DEFAULT",
        };
        session.execute(&format!("CREATE TABLE {name}_all PARTITION OF {name} {all}"))?;
        copies.notes.push(format!("{like}: measured with one partition"));
    }
    if target.create.is_some() {
        session.execute(&format!("DROP TABLE {like}"))?;
    }
    copies.are_unique |= is("is_unique");
    let mut lacks = |is: bool, what: &str| {
        if is {
            copies.notes.push(format!("{like}: measured without {what}"));
        }
    };
    lacks(is("has_triggers"), "its triggers");
    lacks(is("has_references"), "its foreign keys");
    lacks(is("has_rows") && is("has_indexes"), "its existing rows, which make its indexes larger");
    Ok(())
}

fn regclass(session: &mut Session, name: &str) -> Result<String, ConnectionError> {
    let literal = fullbore_pgwire::quote_literal(name)?;
    let rows = session.query(&format!("SELECT {literal}::regclass::oid AS oid"))?;
    Ok(rows.first().and_then(|row| row.get("oid")).unwrap_or_default().to_owned())
}

/// A copy of a `serial` column takes its numbers from the table's own sequence, which is to be left
/// alone: it gets one of its own.
fn own_numbers(session: &mut Session, name: &str) -> Result<(), ConnectionError> {
    let oid = regclass(session, name)?;
    let rows = session.query(&format!(
        "SELECT a.attname AS column, a.attnum AS number, a.atttypid IN (20, 21, 23) AS is_number
           FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
          WHERE d.adrelid = {oid} AND a.attgenerated = ''
            AND pg_get_expr(d.adbin, d.adrelid) ~* 'nextval'"
    ))?;
    for row in &rows {
        let column = quote_identifier(text(row, "column"))?;
        let sequence = format!("{name}_{}", text(row, "number"));
        let cast = if row.flag("is_number") { "" } else { "::text" };
        session.execute(&format!(
            "CREATE SEQUENCE {sequence}; \
             ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT nextval('{sequence}'){cast}"
        ))?;
    }
    Ok(())
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).unwrap_or_default()
}

/// Empties the copies.
pub fn empty(scratch: &Scratch, count: usize) -> Result<(), Error> {
    let names: Vec<String> = (1..=count).map(|number| scratch.name(number)).collect();
    let truncate = format!("TRUNCATE {}", names.join(", "));
    scratch.session().execute(&truncate).map(drop).map_err(failed)
}

/// Bytes of everything in the scratch schema, with its indexes.
pub fn size(scratch: &Scratch) -> Result<u64, Error> {
    let rows = scratch
        .session()
        .query(&format!(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname = '{}' AND c.relkind = 'r'",
            scratch.schema()
        ))
        .map_err(failed)?;
    Ok(rows.first().and_then(|row| row.get("bytes")?.parse().ok()).unwrap_or_default())
}
