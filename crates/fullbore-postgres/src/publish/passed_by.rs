//! Properties of a parent that rows would bypass, since partitions are filled before they are attached.

use fullbore_pgwire::Session;
use fullbore_read::error::Result;

use crate::catalog::{PUBLISHES_SCHEMAS, Relation};
use crate::error::{refuse, refused};

const SECURITY: &str = "
    SELECT 'its row security would not apply to' AS what, 'security' AS kind
      FROM pg_class WHERE oid = {oid} AND relrowsecurity AND row_security_active(oid)";

const TRIGGERS: &str = "
    SELECT 'its trigger ' || quote_ident(tgname) || ' would not fire for' AS what, 'trigger' AS kind
      FROM pg_trigger WHERE tgrelid = {oid} AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 4 = 4";

const PUBLISHED: &str = "
    SELECT 'the publication ' || quote_ident(p.pubname) || ' would not publish' AS what, 'publication' AS kind
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
     WHERE p.pubinsert AND (r.prrelid = {oid} OR r.prrelid IN (SELECT pg_partition_ancestors({oid})))";

const PUBLISHED_BY_SCHEMA: &str = "
    SELECT 'the publication ' || quote_ident(p.pubname) || ' would not publish' AS what, 'publication' AS kind
      FROM pg_publication_namespace n JOIN pg_publication p ON p.oid = n.pnpubid
     WHERE p.pubinsert AND n.pnnspid IN (SELECT relnamespace FROM pg_class
            WHERE oid = {oid} OR oid IN (SELECT pg_partition_ancestors({oid})))";

/// What is to happen to rows of a parent, and would not, as people read it; and of which kind it is.
pub fn found(
    session: &mut Session,
    relation: &Relation,
    allow_publication: bool,
) -> Result<Option<[String; 2]>> {
    let mut asked = vec![SECURITY, TRIGGERS];
    if !allow_publication {
        asked.push(PUBLISHED);
        if session.server_version_num() >= PUBLISHES_SCHEMAS {
            asked.push(PUBLISHED_BY_SCHEMA);
        }
    }
    let sql = asked.join(" UNION ALL ").replace("{oid}", &relation.oid.to_string());
    let rows = session.query(&sql).map_err(refused)?;
    Ok(rows.first().map(|row| {
        let message = format!(
            "{}: {} rows of partitions, which are loaded before they are attached",
            relation.name,
            row.text("what")
        );
        [message, row.text("kind")]
    }))
}

/// Refuses a parent for whose rows something else is to happen, which would not.
pub fn check(session: &mut Session, relation: &Relation, allow_publication: bool) -> Result<()> {
    let Some([message, kind]) = found(session, relation, allow_publication)? else { return Ok(()) };
    let hint = match kind.as_str() {
        "security" => {
            "load as a role that bypasses it (BYPASSRLS, or the owner if it is not forced)"
        }
        "publication" => {
            "load with --publish append, or allow it with --allow-publication and copy the rows to \
             the subscribers manually"
        }
        _ => "load with --publish append, which fires triggers for every row",
    };
    Err(refuse(message, hint))
}
