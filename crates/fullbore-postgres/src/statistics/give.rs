//! Gives statistics to the server.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::Event;

use super::column::{ColumnStatistics, Spread, Value};
use super::known::TableStatistics;
use crate::error::{failed, failed_while};
use crate::postgres::Postgres;

/// A table, and the statistics that it is given.
pub struct Gift {
    /// The number of the target, and of the piece that it is of, unless it is of all of them.
    pub table: usize,
    pub piece: Option<usize>,
    pub name: QualifiedName,
    pub statistics: TableStatistics,
    /// It is partitioned: they are those of its partitions.
    pub is_parent: bool,
    /// All of its pages are visible to everybody, since its rows were frozen as they came into the new table.
    pub is_frozen: bool,
}

/// Gives all of them, on up to as many sessions as the plan has streams. A table that does not take its own is
/// left to ANALYZE.
pub fn give(postgres: &Postgres, plan: &Plan, gifts: Vec<Gift>) -> Result<()> {
    postgres.share_out(plan.streams, gifts, |session, gift| give_one(postgres, session, gift))
}

fn give_one(postgres: &Postgres, session: &mut Session, gift: Gift) -> Result<()> {
    let Gift { table, piece, name, mut statistics, is_parent, is_frozen } = gift;
    let what = format!("writing statistics of {name}");
    for column in &mut statistics.columns {
        put_in_order(session, column).map_err(|error| failed_while(error, &what))?;
    }
    let sql = statement(&name, &statistics, is_parent, is_frozen).map_err(failed)?;
    // What it does not take it warns of, and may so do part of it.
    let given = session.query(&sql).map(|rows| rows.first().is_some_and(|row| row.flag("taken")));
    match given {
        Ok(true) => {
            postgres.note_given(table, piece);
            return Ok(());
        }
        Err(error) if error.server_message().is_none() => return Err(failed_while(error, &what)),
        Ok(false) => tracing::warn!("{name} did not take its statistics"),
        Err(error) => tracing::warn!("{name} did not take its statistics: {error}"),
    }
    let notice = format!("{name} did not take its statistics from the client, and is analyzed");
    postgres.report(Event::Notice { notice });
    Ok(())
}

/// Has the server put a column's values in order, where only it can.
fn put_in_order(
    session: &mut Session,
    column: &mut ColumnStatistics,
) -> Result<(), ConnectionError> {
    let Spread::ToOrder { collation, values, .. } = &column.spread else { return Ok(()) };
    let rows = session.query(&format!(
        "SELECT place FROM unnest({}::text[]) WITH ORDINALITY AS of (value, place)
          ORDER BY value COLLATE {collation}",
        array(values.iter().map(|Value { text, .. }| text.as_str()))?
    ))?;
    let place = |row: &fullbore_pgwire::Row| row.number::<usize>("place");
    let order: Vec<usize> = rows.iter().filter_map(place).map(|place| place - 1).collect();
    column.spread = std::mem::replace(&mut column.spread, Spread::None).ordered(&order);
    Ok(())
}

/// The query that gives a table its statistics; `taken` is whether it took all of them.
fn statement(
    table: &QualifiedName,
    statistics: &TableStatistics,
    is_parent: bool,
    is_frozen: bool,
) -> Result<String, ConnectionError> {
    let schema = quote_literal(table.schema().unwrap_or("public"))?;
    let name = quote_literal(table.name())?;
    let of = format!("'schemaname', {schema}, 'relname', {name}");
    // A partitioned table has no pages.
    let pages = match is_parent {
        true => "-1".to_owned(),
        false => {
            let literal = quote_literal(&table.to_string())?;
            format!(
                "(pg_relation_size({literal}::regclass) / current_setting('block_size')::bigint)::integer"
            )
        }
    };
    let visible = if is_frozen && !is_parent { pages.as_str() } else { "0" };
    let mut calls = vec![format!(
        "pg_restore_relation_stats({of}, 'relpages', {pages}, 'reltuples', {}::real,
             'relallvisible', {visible}, 'relallfrozen', {visible})",
        statistics.rows
    )];
    for column in &statistics.columns {
        calls.push(format!(
            "pg_restore_attribute_stats({of}, 'attname', {}, 'inherited', {is_parent}{})",
            quote_literal(&column.name)?,
            arguments(column)?
        ));
    }
    Ok(format!("SELECT {} AS taken", calls.join("\n AND ")))
}

/// A column's statistics as arguments, each with its name.
fn arguments(column: &ColumnStatistics) -> Result<String, ConnectionError> {
    let ColumnStatistics { null_fraction, width, distinct, common, spread, .. } = column;
    let mut sql = format!(
        ", 'null_frac', {null_fraction:?}::real, 'avg_width', {width}, 'n_distinct', {distinct:?}::real"
    );
    if !common.is_empty() {
        let values = array(common.iter().map(|(value, _)| value.as_str()))?;
        let shares: Vec<String> = common.iter().map(|(_, share)| format!("{share:?}")).collect();
        sql.push_str(&format!(
            ", 'most_common_vals', {values}, 'most_common_freqs', '{{{}}}'::real[]",
            shares.join(",")
        ));
    }
    if let Spread::Known { histogram, correlation } = spread {
        if !histogram.is_empty() {
            let bounds = array(histogram.iter().map(String::as_str))?;
            sql.push_str(&format!(", 'histogram_bounds', {bounds}"));
        }
        if let Some(correlation) = correlation.filter(|found| found.is_finite()) {
            sql.push_str(&format!(", 'correlation', {correlation:?}::real"));
        }
    }
    Ok(sql)
}

/// An array of texts as a literal of type text.
fn array<'a>(values: impl Iterator<Item = &'a str>) -> Result<String, ConnectionError> {
    let quoted: Vec<String> = values
        .map(|value| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    Ok(format!("{}::text", quote_literal(&format!("{{{}}}", quoted.join(",")))?))
}

/// Takes away what a partitioned table has of statistics, which what it is given might not replace.
pub fn clear(session: &mut Session, table: &QualifiedName) -> Result<(), ConnectionError> {
    let literal = quote_literal(&table.to_string())?;
    session
        .execute(&format!(
            "SELECT pg_clear_attribute_stats(n.nspname, c.relname, a.attname, true)
               FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace
               JOIN pg_attribute a ON a.attrelid = c.oid
              WHERE c.oid = {literal}::regclass AND a.attnum > 0 AND NOT a.attisdropped"
        ))
        .map(drop)
}
