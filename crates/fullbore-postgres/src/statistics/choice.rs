//! Decides who makes a table's statistics.

use fullbore_load::plan::columns::Shapes;
use fullbore_parse::Lane;
use fullbore_parse::types::FieldType;
use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::{Publish, Statistics};

use super::known::Made;
use super::order::Order;
use super::sketch::Column;
use crate::catalog::{self, Collation};
use crate::error::{failed, refuse};
use crate::publish::analyze::is_tuned;
use crate::server::Server;
use crate::target::PostgresTable;
use crate::verify::sql::summed_columns;

/// The first version that takes statistics from others.
pub const TAKES_STATISTICS: u32 = 180_000;

/// Chooses; what is noted of it in the plan.
pub fn choose(server: &Server, target: &mut PostgresTable, shapes: &Shapes) -> Result<()> {
    let must = match server.settings.statistics {
        Statistics::None => return Ok(()),
        Statistics::Analyze => return note(target, "ANALYZE; it was requested"),
        Statistics::Client => true,
        // One table takes less than what it costs to look at all rows; unless its one session keeps the client
        // waiting.
        Statistics::Auto if target.publish.joins_rows() => return Ok(()),
        Statistics::Auto if target.publish == Publish::Replace && !target.has_one_session() => {
            return Ok(());
        }
        Statistics::Auto => false,
    };
    match made(server, target, shapes)? {
        Ok(made) => {
            target.statistics = Some(made);
            note(target, "by the client, of all rows while they are loaded")
        }
        Err(reason) if must => Err(refuse(
            format!("the client can't make the statistics of {}: {reason}", target.name()),
            "use --statistics auto or analyze",
        )),
        Err(reason) => note(target, &format!("ANALYZE; {reason}")),
    }
}

fn note(target: &mut PostgresTable, who: &str) -> Result<()> {
    target.notes.push(format!("statistics: {who}"));
    Ok(())
}

/// How the client makes them, or why it can't.
fn made(
    server: &Server,
    target: &PostgresTable,
    shapes: &Shapes,
) -> Result<std::result::Result<Made, String>> {
    if server.version() < TAKES_STATISTICS {
        return Ok(Err("the server takes them from others only from 18 on".into()));
    }
    if target.publish.joins_rows() {
        return Ok(Err("the table may have other rows".into()));
    }
    if shapes.lane == Lane::Text {
        return Ok(Err("rows go as text".into()));
    }
    let sent: Vec<String> = shapes.typed.columns.iter().map(|column| column.name.clone()).collect();
    let unsent = target.relation.columns.iter().find(|column| !sent.contains(&column.name));
    if let Some(column) = unsent {
        return Ok(Err(format!("the server fills column {}", column.name)));
    }
    let mut session = server.control();
    let oid = target.relation.oid;
    if is_tuned(&mut session, oid)? || has_expressions(&mut session, oid).map_err(failed)? {
        return Ok(Err(
            "of the table's statistics targets, extended statistics or expressions".into()
        ));
    }
    let columns = summed_columns(&target.relation, &sent)?;
    let collation = |name: &str| {
        let found = target.relation.columns.iter().find(|column| column.name == name);
        found.map(|column| &column.collation)
    };
    let is_utf8 = catalog::is_utf8(&mut session).map_err(failed)?;
    let mut found = Vec::new();
    for (mut hashed, parsed) in columns.into_iter().zip(&shapes.typed.columns) {
        hashed.field_type = parsed.field_type.clone();
        let order = match &hashed.field_type {
            FieldType::Json => Order::None,
            FieldType::Jsonb | FieldType::Array(_) => {
                return Ok(Err(format!("of the type of column {}", hashed.name)));
            }
            FieldType::Text { .. } => match collation(&hashed.name) {
                Some(Collation::OfBytes) | None if is_utf8 => Order::OfType,
                // Their bytes are others in the database's encoding.
                Some(Collation::OfBytes) | None => Order::Collation("pg_catalog.\"C\"".into()),
                Some(Collation::Named(name)) => Order::Collation(name.clone()),
                Some(Collation::Nondeterministic) => {
                    return Ok(Err(format!("of the collation of column {}", hashed.name)));
                }
            },
            _ => Order::OfType,
        };
        found.push(Column { hashed, order });
    }
    let rows = session.query("SHOW default_statistics_target").map_err(failed)?;
    let target = rows.first().and_then(|row| row.number("default_statistics_target"));
    Ok(Ok(Made { columns: found, target: target.unwrap_or(100) }))
}

/// Whether there are indexes of expressions, which have statistics of their own.
fn has_expressions(session: &mut Session, oid: u32) -> Result<bool, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = {oid} AND indexprs IS NOT NULL) AS are"
    ))?;
    Ok(rows.first().is_some_and(|row| row.flag("are")))
}
