//! Grants: the privileges of the old table, on the new one.

use fullbore_pgwire::{QualifiedName, Row, Session};
use fullbore_read::error::Result;

use super::carry;
use super::obstacles::right_to_become;
use super::tools::{fill, literal, texts};
use crate::catalog::Relation;
use crate::error::failed;

/// The grants on `{old}` and its columns. Where neither table has any of its own, the table's
/// defaults are left to be defaults.
const GRANTS: &str = "
    SELECT a.attname, g.privilege_type, g.is_grantable,
           CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END AS grantee,
           quote_ident(pg_get_userbyid(g.grantor)) AS grantor,
           g.grantor = o.relowner AS by_owner,
           pg_get_userbyid(g.grantor) <> current_user
               AND pg_has_role(g.grantor, '{become}')
               AND has_schema_privilege(g.grantor, o.relnamespace, 'USAGE') AS can_become
      FROM pg_class o
      JOIN pg_class n ON n.oid = {new}
      CROSS JOIN LATERAL (
           SELECT 0 AS attnum, x.*
             FROM aclexplode(coalesce(o.relacl, acldefault('{kind}', o.relowner))) WITH ORDINALITY x
            WHERE o.relacl IS NOT NULL OR n.relacl IS NOT NULL
           UNION ALL
           SELECT c.attnum, x.* FROM pg_attribute c, aclexplode(c.attacl) WITH ORDINALITY x
            WHERE c.attrelid = o.oid AND c.attnum > 0 AND NOT c.attisdropped) AS g
      LEFT JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum = nullif(g.attnum, 0)
     WHERE o.oid = {old}
     ORDER BY g.attnum, g.ordinality";

/// What takes away from `{new}` whatever it came with.
const REVOKES: &str = "
    SELECT DISTINCT format('REVOKE ALL ON %s %s FROM %s', '{word}', {object},
               CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END) AS sql
      FROM pg_class o
      JOIN pg_class n ON n.oid = {new}
      CROSS JOIN LATERAL aclexplode(coalesce(n.relacl, acldefault('{kind}', n.relowner))) AS g
     WHERE o.oid = {old} AND (o.relacl IS NOT NULL OR n.relacl IS NOT NULL)";

/// What can have grants.
struct Object<'a> {
    /// `TABLE` or `SEQUENCE`.
    word: &'static str,
    /// As acldefault() calls the kind.
    kind: &'static str,
    name: &'a QualifiedName,
    old: u32,
    new: u32,
}

struct Grant {
    column: Option<String>,
    privilege: String,
    is_grantable: bool,
    grantee: String,
    grantor: String,
    by_owner: bool,
    can_become: bool,
}

impl Grant {
    fn new(row: &Row) -> Self {
        let text = |name: &str| row.get(name).unwrap_or_default().to_owned();
        let flag = |name: &str| row.flag(name);
        Self {
            column: row.get("attname").map(str::to_owned),
            privilege: text("privilege_type"),
            is_grantable: flag("is_grantable"),
            grantee: text("grantee"),
            grantor: text("grantor"),
            by_owner: flag("by_owner"),
            can_become: flag("can_become"),
        }
    }

    /// A grant is recorded as its grantor's, where we may take on that role; else as the owner's.
    fn statements(&self, object: &Object<'_>) -> Result<Vec<String>> {
        let column = match &self.column {
            Some(column) => format!(" ({})", super::tools::quote(column)?),
            None => String::new(),
        };
        let option = if self.is_grantable { " WITH GRANT OPTION" } else { "" };
        let grant = format!(
            "GRANT {}{column} ON {} {} TO {}{option}",
            self.privilege, object.word, object.name, self.grantee
        );
        Ok(if self.can_become {
            vec![format!("SET LOCAL ROLE {}", self.grantor), grant, "RESET ROLE".into()]
        } else {
            vec![grant]
        })
    }
}

/// The statements that give the new table the old one's grants, its identity sequences too.
pub fn of_table(session: &mut Session, old: &Relation, new: u32) -> Result<Vec<String>> {
    let table = Object { word: "TABLE", kind: "r", name: &old.name, old: old.oid, new };
    let mut statements = of(session, &table)?;
    for identity in carry::identities(session, old.oid, new).map_err(failed)? {
        let sequence = Object {
            word: "SEQUENCE",
            kind: "s",
            name: &identity.old_name,
            old: identity.old,
            new: identity.new,
        };
        statements.extend(of(session, &sequence)?);
    }
    Ok(statements)
}

fn of(session: &mut Session, object: &Object<'_>) -> Result<Vec<String>> {
    let name = literal(object.name)?;
    let values = [
        ("old", &*object.old.to_string()),
        ("new", &object.new.to_string()),
        ("kind", object.kind),
        ("word", object.word),
        ("object", &name),
        ("become", right_to_become(session)),
    ];
    let mut statements = texts(session, &fill(REVOKES, &values)).map_err(failed)?;
    let rows = session.query(&fill(GRANTS, &values)).map_err(failed)?;
    for grant in in_order(rows.iter().map(Grant::new).collect()) {
        statements.extend(grant.statements(object)?);
    }
    Ok(statements)
}

/// Whoever passes a privilege on must have been given it first; apart from that the order is kept.
fn in_order(mut waiting: Vec<Grant>) -> Vec<Grant> {
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let ready = waiting.iter().position(|grant| {
            let gives = |other: &Grant| {
                other.is_grantable
                    && other.grantee == grant.grantor
                    && other.privilege == grant.privilege
            };
            grant.by_owner || !waiting.iter().any(gives)
        });
        // The server lets no circle come about; one would be left to it to refuse.
        ordered.push(waiting.remove(ready.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(grantor: &str, grantee: &str) -> Grant {
        Grant {
            column: None,
            privilege: "SELECT".into(),
            is_grantable: true,
            grantee: grantee.into(),
            grantor: grantor.into(),
            by_owner: grantor == "owner",
            can_become: false,
        }
    }

    #[test]
    fn grants_follow_those_that_they_stand_on() {
        let given = vec![grant("b", "c"), grant("a", "b"), grant("owner", "a"), grant("x", "x")];
        let order: Vec<_> = in_order(given).into_iter().map(|grant| grant.grantee).collect();
        assert_eq!(order, ["a", "b", "c", "x"]);
    }
}
