//! The old table, put away and put back.
//!
//! It goes into a schema that nobody else uses: names of tables, indexes, sequences and statistics are
//! one name space for each schema, so that all of them can stay what they are. Sequences of serial
//! columns go over to the new table, whose values they make from then on, and come back.

use fullbore_pgwire::{QualifiedName, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::company::Company;
use super::tools::{known, quote, texts};
use super::{carry, definition, obstacles};
use crate::catalog::{self, IndexDefinition, Relation};
use crate::error::{failed, failed_while, refuse};

/// Extended statistics of a table: schema and name.
fn statistics(session: &mut Session, oid: u32) -> Result<Vec<(String, String)>> {
    let rows = session
        .query(&format!(
            "SELECT n.nspname, s.stxname FROM pg_statistic_ext s
               JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE s.stxrelid = {oid}"
        ))
        .map_err(failed)?;
    let text = |row: &fullbore_pgwire::Row, name| row.get(name).unwrap_or_default().to_owned();
    Ok(rows.iter().map(|row| (text(row, "nspname"), text(row, "stxname"))).collect())
}

/// The statements that move statistics from schema to schema.
fn move_statistics(from: &str, to: &str, name: &str) -> Result<String> {
    Ok(format!("ALTER STATISTICS {}.{} SET SCHEMA {}", quote(from)?, quote(name)?, quote(to)?))
}

/// Refuses a schema that is there and belongs to another role, unless that one could drop the old table
/// anyway: whoever owns a schema can drop all that is in it, and name it as he likes.
fn ours_alone(session: &mut Session, schema: &str) -> Result<()> {
    let rows = session
        .query(&format!(
            "SELECT pg_get_userbyid(n.nspowner) AS owner FROM pg_namespace n
              WHERE n.nspname = {} AND n.nspowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
                AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = n.nspowner AND r.rolsuper)
                AND n.nspowner <> (SELECT datdba FROM pg_database WHERE datname = current_database())",
            quote_literal(schema).map_err(failed)?
        ))
        .map_err(failed)?;
    let Some(owner) = rows.first().and_then(|row| row.get("owner")) else { return Ok(()) };
    Err(Error::Destination {
        message: format!(
            "schema {schema:?}, in which the old table would be kept, is owned by role {owner:?}, \
             which could drop it"
        ),
        hint: Some("nothing was replaced; drop that schema, or load without --keep-old".into()),
        kind: DestinationFailure::Other,
    })
}

/// The statements that move the old table into its own schema.
pub fn put_away(
    session: &mut Session,
    old: &Relation,
    kept: &QualifiedName,
) -> Result<Vec<String>> {
    let schema = kept.schema().unwrap_or_default();
    ours_alone(session, schema)?;
    let mut statements = vec![format!("CREATE SCHEMA IF NOT EXISTS {}", quote(schema)?)];
    for (from, name) in statistics(session, old.oid)? {
        statements.push(move_statistics(&from, schema, &name)?);
    }
    statements.push(format!("ALTER TABLE {} SET SCHEMA {}", old.name, quote(schema)?));
    Ok(statements)
}

/// Puts the old table back, in the transaction that is open, or refuses by name. Both are locked.
/// Whether the new one's rows are those that were loaded is the caller's to see.
pub fn put_back(session: &mut Session, target: &QualifiedName, kept: &QualifiedName) -> Result<()> {
    let new = known(session, target)?;
    let old = catalog::relation(session, kept).map_err(failed)?.ok_or_else(|| {
        refuse(format!("the replaced table {kept} no longer exists"), "another session dropped it")
    })?;
    unchanged(session, &old, &new)?;
    for statement in statements(session, &old, &new)? {
        session.execute(&statement).map_err(|error| {
            failed_while(error, &format!("putting {kept} back by `{statement}`"))
        })?;
    }
    Ok(())
}

/// Refuses where something that was done to the new table would be lost.
fn unchanged(session: &mut Session, old: &Relation, new: &Relation) -> Result<()> {
    let name = &new.name;
    let hanging = obstacles::found(session, new.oid, &[]).map_err(failed)?;
    if !hanging.is_empty() {
        return Err(changed(name, &format!("it would lose {}", hanging.join("; "))));
    }
    let with = definition::With::ForeignKeys(&Company::default());
    let differ = definition::differences(session, old.oid, new.oid, with).map_err(failed)?;
    if !differ.is_empty() {
        let what = differ.join(", ");
        return Err(changed(name, &format!("{what} differ from those of the old table")));
    }
    let indexes = |session: &mut Session, oid| -> Result<Vec<_>> {
        let indexes = catalog::indexes(session, oid).map_err(failed)?;
        let told = |index: IndexDefinition| {
            (
                index.name,
                index.tail,
                index.is_unique,
                index.tablespace,
                index.options,
                index.constraint,
            )
        };
        Ok(indexes.into_iter().map(told).collect())
    };
    if indexes(session, old.oid)? != indexes(session, new.oid)? {
        return Err(changed(name, "its indexes are not those of the old table"));
    }
    let rights = |session: &mut Session, oid: u32| {
        texts(session, &RIGHTS.replace("{oid}", &oid.to_string()))
    };
    let (then, now) = (rights(session, old.oid), rights(session, new.oid));
    if then.map_err(failed)? != now.map_err(failed)? {
        return Err(changed(name, "its owner, grants or storage parameters were changed"));
    }
    Ok(())
}

/// Owner, grants on the table and its columns, and storage parameters.
const RIGHTS: &str = "
    SELECT concat_ws(' ', relowner, a.grantor, a.grantee, a.privilege_type, a.is_grantable) AS sql
      FROM pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner))) a WHERE oid = {oid}
    UNION ALL
    SELECT concat_ws(' ', attname, a.grantor, a.grantee, a.privilege_type, a.is_grantable)
      FROM pg_attribute, aclexplode(attacl) a WHERE attrelid = {oid} AND NOT attisdropped
    UNION ALL
    SELECT unnest(reloptions) FROM pg_class WHERE oid = {oid}
    ORDER BY 1";

fn statements(session: &mut Session, old: &Relation, new: &Relation) -> Result<Vec<String>> {
    let (target, kept) = (&new.name, &old.name);
    let from = kept.schema().unwrap_or_default();
    let to = target.schema().unwrap_or("public");
    let found = session
        .query(&format!(
            "SELECT format('%I.%I', n.nspname, s.relname) AS sequence, a.attname
               FROM pg_depend d
               JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
               JOIN pg_namespace n ON n.oid = s.relnamespace
               JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                AND d.refobjid = {} AND d.deptype = 'a' ORDER BY 1",
            new.oid
        ))
        .map_err(failed)?;
    let mut statements = Vec::new();
    let mut after = Vec::new();
    for row in &found {
        let sequence = row.get("sequence").unwrap_or_default();
        let column = quote(row.get("attname").unwrap_or_default())?;
        statements.push(format!("ALTER SEQUENCE {sequence} OWNED BY NONE"));
        after.push(format!("ALTER SEQUENCE {sequence} OWNED BY {target}.{column}"));
    }
    for identity in carry::identities(session, new.oid, old.oid).map_err(failed)? {
        // Values that the new table gave out are not given out again.
        statements.push(identity.goes_on()?);
    }
    let shown = statistics(session, new.oid)?;
    statements.push(format!("DROP TABLE {target} RESTRICT"));
    statements.push(format!("ALTER TABLE {kept} SET SCHEMA {}", quote(to)?));
    for (_, name) in statistics(session, old.oid)? {
        let back = shown.iter().find(|(_, known)| *known == name).map_or(to, |(schema, _)| schema);
        statements.push(move_statistics(from, back, &name)?);
    }
    statements.extend(after);
    Ok(statements)
}

/// Drops the schema that a table was kept in, once nothing is in it any more.
pub fn drop_schema(session: &mut Session, kept: &QualifiedName) -> Result<()> {
    let schema = kept.schema().unwrap_or_default();
    let rows = session
        .query(&format!(
            "SELECT EXISTS (SELECT FROM pg_depend d JOIN pg_namespace n ON n.oid = d.refobjid
                             WHERE d.refclassid = 'pg_namespace'::regclass AND n.nspname = {0})
                    OR NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = {0}) AS stays",
            literal_text(schema)?
        ))
        .map_err(failed)?;
    if rows.first().and_then(|row| row.get("stays")) == Some("f") {
        session.execute(&format!("DROP SCHEMA {} RESTRICT", quote(schema)?)).map_err(failed)?;
    }
    Ok(())
}

fn literal_text(text: &str) -> Result<String> {
    fullbore_pgwire::quote_literal(text).map_err(failed)
}

fn changed(name: &QualifiedName, how: &str) -> Error {
    refuse(
        format!("the run can't be undone exactly: {name} has changed since: {how}"),
        "nothing was changed; undo that change first, or restore the old table manually",
    )
}
