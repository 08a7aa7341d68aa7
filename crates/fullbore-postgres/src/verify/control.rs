//! Control totals: compared with what is staged, before anything is published.

use fullbore_load::job::control::{Control, Total};
use fullbore_load::plan::{Plan, TablePlan};
use fullbore_load::sink::Committed;
use fullbore_parse::types::FieldType;
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
        compare(&mut session, &plan.tables[table], &heaps, controls)?;
    }
    Ok(())
}

fn compare(
    session: &mut Session,
    table: &TablePlan,
    heaps: &[QualifiedName],
    controls: &[Control],
) -> Result<()> {
    let totals = controls.iter().enumerate().map(|(at, control)| {
        let total = match &control.total {
            Total::Rows => "count(*)::numeric".to_owned(),
            // Of no row, in no table, each sum is 0.
            Total::Sum(_) if heaps.is_empty() => "0::numeric".to_owned(),
            Total::Sum(column) => {
                let quoted = quote_identifier(column).map_err(failed)?;
                // The decimals of the files add up, whatever their nearest floats do.
                match is_float(table, column) {
                    true => format!("coalesce(sum({quoted}::text::numeric), 0)"),
                    false => format!("coalesce(sum({quoted})::numeric, 0)"),
                }
            }
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
    let rows = match heaps.is_empty() {
        true => "SELECT WHERE false".to_owned(),
        false => rows.collect::<Vec<_>>().join(" UNION ALL "),
    };
    let name = &table.name;
    let what = format!("comparing the control totals of {name}");
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
                "control total differs: {} of {name} is {}, expected {}",
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

fn is_float(table: &TablePlan, column: &str) -> bool {
    use FieldType::{Float32, Float64};
    let found = table.columns.iter().find(|found| found.name == column);
    found.is_some_and(|column| matches!(column.field_type, Some(Float32 | Float64)))
}
