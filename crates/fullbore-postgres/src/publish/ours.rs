//! Tables that a run made next to its targets.

use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{QualifiedName, Session, quote_literal};
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
    if let Some(table) = &found {
        check(name, table.kind == 'r' && (table.is_mine || table.owner == target.owner))?;
    }
    Ok(found)
}

fn check(name: &QualifiedName, is_ours: bool) -> Result<()> {
    if is_ours {
        return Ok(());
    }
    Err(Error::Destination {
        message: format!("{name}, which this load creates, was created by another role"),
        hint: Some(
            "nothing was published; drop it, and revoke CREATE on the target's schema from other \
             roles"
                .into(),
        ),
        kind: DestinationFailure::Other,
    })
}

/// Names in one query: servers far away are asked seldom.
const NAMES_MAX: usize = 1000;

/// The same of many tables, in their order: their object ids.
pub fn ours_among(
    session: &mut Session,
    names: &[QualifiedName],
    target: &Relation,
) -> Result<Vec<Option<u32>>> {
    let mut oids = Vec::with_capacity(names.len());
    for names in names.chunks(NAMES_MAX) {
        let literals = names.iter().map(|name| quote_literal(&name.to_string()));
        let literals = literals.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // A replacement belongs to whom the target belongs.
        let rows = session.query(&format!(
            "{OF_ROLE}SELECT c.oid, c.relkind OPERATOR(pg_catalog.=) 'r'
                    AND (c.relowner OPERATOR(pg_catalog.=) {}
                         OR c.relowner OPERATOR(pg_catalog.=) r.oid) AS is_ours
               FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.text[]) WITH ORDINALITY AS of (name, place)
               JOIN pg_catalog.pg_roles AS r ON r.rolname OPERATOR(pg_catalog.=) current_user
               LEFT JOIN pg_catalog.pg_class AS c
                 ON c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(of.name)
              ORDER BY of.place",
            target.owner,
            literals.join(", ")
        ));
        for (name, row) in names.iter().zip(&rows.map_err(failed)?) {
            let oid = row.number("oid");
            check(name, oid.is_none() || row.flag("is_ours"))?;
            oids.push(oid);
        }
    }
    Ok(oids)
}
