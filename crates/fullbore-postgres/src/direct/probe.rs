//! Asks, before a row moves, whether a target's new tables can be loaded directly.
//!
//! Most direct loads fill a table that does not exist yet: a future partition, or the replacement. So a table
//! like it is created, described, and rolled back. A table that was made for this load alone is
//! described itself, and so are partitions that are empty ([`leaves`]).

use fullbore_load::target::TableRequest;
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{QualifiedName, Session};
use fullbore_read::error::Result;
use fullbore_record::terms::{Method, Publish};

use super::check::{self, Missing, described};
use super::known::{Filled, Probe};
use super::{Descriptor, PROTOCOL, filled, leaves};
use crate::catalog;
use crate::encode_direct::MAXALIGN;
use crate::error::{failed, refused};
use crate::naming;
use crate::publish::{partitions, replace};
use crate::target::PostgresTable;

fn impossible(reason: impl Into<String>, hint: &str) -> Probe {
    Probe::Impossible { reason: reason.into(), hint: Some(hint.to_owned()) }
}

/// Rows enter the log as whole pages, which nobody decodes. Slots of this database are seen by the
/// extension; those of a standby are not, nor is one that a backup or a promoted standby brings along.
const IS_DECODED: &str =
    "SELECT pg_catalog.current_setting('wal_level') OPERATOR(pg_catalog.=) 'logical' AS is_decoded";

/// Probes a target; nothing is touched. Where changes may be decoded, that must be allowed by
/// `skip_decoding`. What has a price for others is done only where the method is requested.
pub fn probe(
    session: &mut Session,
    target: &PostgresTable,
    request: &TableRequest,
    skip_decoding: bool,
) -> Result<Probe> {
    if cfg!(target_endian = "big") {
        return Ok(impossible("this machine is big-endian", "load by COPY, with --method copy"));
    }
    let joins_rows = target.publish.joins_rows() && !target.is_fresh;
    if joins_rows {
        let is_there = target.relation.kind == 'p' && target.create.is_none();
        if !is_there || target.publish != Publish::Append {
            return Ok(impossible(
                format!("{} always uses COPY", target.publish.name()),
                "load with --publish replace or partitions",
            ));
        }
        if request.method != Method::Direct {
            let reason = "append uses COPY unless --method direct is given".into();
            return Ok(Probe::Impossible { reason, hint: None });
        }
    }
    if let Some(missing) = check::missing(session).map_err(refused)?.into_iter().next() {
        let Missing { what, remedy, .. } = missing;
        return Ok(Probe::Impossible { reason: what, hint: Some(remedy) });
    }
    if joins_rows {
        let probed = leaves::probe(session, target, request.is_resumed)?;
        return unless_decoded(session, probed, skip_decoding);
    }
    let id = format!("probe{}", session.backend_pid());
    let name = match target.is_fresh {
        true => target.name().clone(),
        false => naming::derived(target.name(), &id, "0").map_err(failed)?,
    };
    session.execute("BEGIN").map_err(refused)?;
    let described = describe_new(session, target, &name);
    session.execute("ROLLBACK").map_err(refused)?;
    let indexes = match target.create {
        Some(_) => Filled::new(),
        None => filled::of_table(session, target.relation.oid).map_err(refused)?,
    };
    let probed = match described {
        Ok(descriptor) => match usable(descriptor, indexes) {
            // Nobody knows the table that was described.
            Probe::Impossible { reason, hint } => {
                let reason = reason.replace(name.name(), target.name().name());
                Probe::Impossible { reason, hint }
            }
            described => described,
        },
        // The load itself would meet the same, and tell it then.
        Err(error) => Probe::Impossible {
            reason: format!("could not describe a table like {}: {error}", target.name()),
            hint: error.hint().map(str::to_owned),
        },
    };
    unless_decoded(session, probed, skip_decoding)
}

/// What was found, or a refusal where somebody may decode the log.
fn unless_decoded(session: &mut Session, probed: Probe, skip_decoding: bool) -> Result<Probe> {
    let is_possible = matches!(probed, Probe::Described(..));
    if !is_possible || skip_decoding || !is_decoded(session)? {
        return Ok(probed);
    }
    Ok(impossible(
        "wal_level is logical, and directly loaded rows are not decoded: a logical slot on a \
         standby would miss them",
        "if no logical slot decodes this database, allow it with --skip-logical-decoding",
    ))
}

/// Whether somebody may decode the log.
pub fn is_decoded(session: &mut Session) -> Result<bool> {
    let rows = session.query(IS_DECODED).map_err(refused)?;
    Ok(rows.first().is_some_and(|row| row.flag("is_decoded")))
}

/// Makes a table as the pieces' will be, in the transaction that is open, and describes it.
fn describe_new(
    session: &mut Session,
    target: &PostgresTable,
    name: &QualifiedName,
) -> Result<Descriptor> {
    if let Some(create) = &target.create {
        session.execute(&format!("{OF_ROLE}{create}")).map_err(failed)?;
    }
    if target.is_fresh {
        return described(session, name).map_err(failed);
    }
    if target.publish == Publish::Partitions {
        session.execute(&partitions::like(target.name(), name, "", "")).map_err(failed)?;
    } else {
        let relation = catalog::relation(session, target.name()).map_err(failed)?;
        let relation = relation.expect("it was described a moment ago, or just made");
        replace::staging::make(session, &relation, name, "", &target.company)?;
    }
    described(session, name).map_err(failed)
}

/// A descriptor that rows can be laid out by.
pub fn usable(descriptor: Descriptor, indexes: Filled) -> Probe {
    if descriptor.protocol != PROTOCOL {
        return impossible(
            format!(
                "the server's extension {} speaks version {} of the protocol, not {PROTOCOL}",
                descriptor.extension, descriptor.protocol
            ),
            "install the extension that comes with this Fullbore (fullbore extension install)",
        );
    }
    if let Some(refusal) = descriptor.refusal {
        let detail = refusal.detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        return Probe::Impossible {
            reason: format!("{}{detail}", refusal.message),
            hint: refusal.hint,
        };
    }
    if descriptor.encoding != "UTF8" {
        return impossible(
            format!("the database's encoding is {}, not UTF8", descriptor.encoding),
            "load by COPY, with --method copy: the server converts what it sends",
        );
    }
    if !descriptor.little_endian || descriptor.maxalign != MAXALIGN {
        return impossible(
            "this machine can't produce the server's row layout",
            "load by COPY, with --method copy",
        );
    }
    Probe::Described(Box::new(descriptor), indexes)
}
