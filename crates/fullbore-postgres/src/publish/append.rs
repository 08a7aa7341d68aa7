//! `append --atomic`: rows wait in an unlogged table and enter the target in one statement.
//!
//! Plain `append` has nothing to publish: its pieces are visible as they are committed.

use fullbore_core::error::Result;
use fullbore_core::plan::Plan;

use crate::connection::Session;
use crate::error::{failed, failed_while};
use crate::target::Target;

pub fn prepare(session: &mut Session, plan: &Plan, target: &Target) -> Result<()> {
    // Unlogged: what a crash takes from it is loaded again anyway.
    let sql = format!(
        "CREATE UNLOGGED TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING GENERATED)",
        target.staging(plan)?,
        target.name()
    );
    session.execute(&sql).map_err(failed)?;
    Ok(())
}

pub fn show(session: &mut Session, plan: &Plan, table: usize, target: &Target) -> Result<()> {
    let columns = target.column_list(plan, table)?;
    let staging = target.staging(plan)?;
    session
        .execute(&format!(
            "INSERT INTO {} ({columns}) SELECT {columns} FROM {staging}",
            target.name()
        ))
        .map_err(|error| failed_while(error, &format!("appending to {}", target.name())))?;
    session.execute(&format!("DROP TABLE {staging}")).map_err(failed)?;
    Ok(())
}
