//! Control totals: compared with what is staged, before anything is published.

use fullbore_load::job::control::{Control, Total};
use fullbore_load::plan::Plan;
use fullbore_load::sink::Committed;
use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::terms::Stage;

use crate::error::{failed, failed_while};
use crate::postgres::Postgres;

/// Compares the totals of all tables that have some.
pub fn check(postgres: &Postgres, plan: &Plan, committed: &[Committed]) -> Result<()> {
    for (table, target) in postgres.targets().iter().enumerate() {
        let controls = &plan.tables[table].controls;
        if controls.is_empty() {
            continue;
        }
        let its = committed.iter().filter(|piece| piece.table == table);
        let heaps = match target.stage() {
            Stage::Pieces => {
                its.map(|piece| target.piece(plan, piece.piece)).collect::<Result<_>>()?
            }
            // Rows that are visible as they are committed are not compared: plans have none such.
            Stage::Staging | Stage::Target => vec![target.staging(plan)?],
        };
        let mut session = postgres.usable_control()?;
        compare(&mut session, &plan.tables[table].name, &heaps, controls)?;
    }
    Ok(())
}

fn compare(
    session: &mut Session,
    table: &str,
    heaps: &[QualifiedName],
    controls: &[Control],
) -> Result<()> {
    if heaps.is_empty() {
        return Ok(());
    }
    let totals = controls.iter().enumerate().map(|(at, control)| {
        let total = match &control.total {
            Total::Rows => "count(*)::numeric".to_owned(),
            Total::Sum(column) => format!(
                "coalesce(sum({})::numeric, 0)",
                quote_identifier(column).map_err(failed)?
            ),
        };
        let expected = control.expected.iter().map(|number| {
            quote_literal(number).map(|literal| format!("{literal}::numeric")).map_err(failed)
        });
        let expected = expected.collect::<Result<Vec<_>>>()?.join(" + ");
        Ok(format!(
            "{total}::text AS found{at}, ({expected})::text AS wanted{at}, ({total} = {expected}) AS is_same{at}"
        ))
    });
    let totals = totals.collect::<Result<Vec<_>>>()?.join(", ");
    let rows = heaps.iter().map(|heap| format!("SELECT * FROM ONLY {heap}"));
    let rows = rows.collect::<Vec<_>>().join(" UNION ALL ");
    let what = format!("comparing the control totals of {table}");
    let found = session
        .query(&format!("SELECT {totals} FROM ({rows}) AS loaded"))
        .map_err(|error| failed_while(error, &what))?;
    let Some(row) = found.first() else { return Ok(()) };
    for (at, control) in controls.iter().enumerate() {
        if row.flag(format!("is_same{at}").as_str()) {
            continue;
        }
        let text =
            |name: &str| row.get(format!("{name}{at}").as_str()).unwrap_or_default().to_owned();
        return Err(Error::Destination {
            message: format!(
                "control total differs: {} of {table} is {}, expected {}",
                control.total,
                text("found"),
                text("wanted")
            ),
            hint: Some(
                "nothing was published; check that the files are complete, and the rejects: they are in no total"
                    .into(),
            ),
            kind: DestinationFailure::Differs,
        });
    }
    Ok(())
}
