//! Tables that a run made next to its targets.

use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::{DestinationFailure, Error, Result};

use crate::catalog::{self, Relation};
use crate::error::failed;

/// A table that the run made beside its target, by its name; `None` where there is none. One that somebody
/// else has put there is refused: whoever owns a table can have code run by those who write to it.
pub fn ours(
    session: &mut Session,
    name: &QualifiedName,
    target: &Relation,
) -> Result<Option<Relation>> {
    let found = catalog::relation(session, name).map_err(failed)?;
    match found {
        // A replacement belongs to whom the target belongs.
        Some(table) if table.kind != 'r' || !table.is_mine && table.owner != target.owner => {
            Err(Error::Destination {
                message: format!("{name}, which this load creates, was created by another role"),
                hint: Some(
                    "nothing was published; drop it, and revoke CREATE on the target's schema from \
                     other roles"
                        .into(),
                ),
                kind: DestinationFailure::Other,
            })
        }
        found => Ok(found),
    }
}
