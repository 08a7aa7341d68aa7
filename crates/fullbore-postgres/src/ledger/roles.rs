//! Ownership of runs: only the role that began a run resumes and publishes it. Another role can roll it
//! back, but only with the rights of the first role, so nothing else can be dropped.

use fullbore_pgwire::{ConnectionError, Session};
use fullbore_read::error::{Error, Result};

use super::read::{Role, rows};
use super::runs::LedgerRun;
use crate::error::{failed, failed_while, refuse};
use crate::server::Server;

/// The role whose rights the session has.
pub fn current(session: &mut Session) -> Result<Role> {
    let rows = rows(session, "SELECT current_user AS role").map_err(failed)?;
    let row = rows
        .first()
        .ok_or_else(|| failed(ConnectionError::protocol("the server reported no role")))?;
    row.role("role")
}

impl Server {
    /// Refuses to go on with a run that another role has begun.
    pub fn check_own(&self, run: &LedgerRun) -> Result<()> {
        let role = current(&mut self.control())?;
        match role == run.role {
            true => Ok(()),
            false => Err(not_own(run, &role)),
        }
    }
}

fn not_own(run: &LedgerRun, role: &Role) -> Error {
    let (theirs, ours) = (run.role.for_people(), role.for_people());
    refuse(
        format!(
            "run {} of this job was started by role {theirs}, but the current role is {ours}",
            run.run_id
        ),
        format!(
            "connect as {theirs} (or with options=-c role={theirs} in the URL), or roll that run \
             back with `fullbore runs abort {}`; without --resume, a new load starts",
            run.run_id
        ),
    )
}

/// Does something with the rights of the role that began a run.
pub fn acting_as<T>(
    session: &mut Session,
    run: &LedgerRun,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    if current(session)? == run.role {
        return work(session);
    }
    let role = run.role.quoted().map_err(failed)?;
    session.execute(&format!("SET ROLE {role}")).map_err(|error| {
        refuse(
            format!(
                "run {} was started by role {}, whose privileges are needed to roll it back: \
                 {error}",
                run.run_id,
                run.role.for_people()
            ),
            "connect as that role, or as a member of it (SET ROLE)",
        )
    })?;
    let done = work(session);
    let reset = session.execute("RESET ROLE");
    let done = done?;
    reset.map_err(|error| failed_while(error, "leaving the run's role"))?;
    Ok(done)
}
