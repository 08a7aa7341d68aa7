//! Indexes, and the constraints that stand on them, on the new table.
//!
//! Primary keys and unique constraints are built as plain unique indexes, which many sessions can
//! do at once, and become constraints with the swap. Each is matched by its definition then, so
//! that one added or dropped during the load is noticed.

use fullbore_load::plan::Plan;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;

use super::company::Company;
use super::tools::{changed, known, quote};
use crate::catalog::{self, IndexDefinition, Relation};
use crate::error::failed;
use crate::naming::derived;
use crate::publish::indexes::{self, Job};

/// A foreign key of a table to another one, or to itself.
pub struct ForeignKey {
    pub name: String,
    /// The table that it refers to.
    pub other: u32,
    pub other_name: String,
    /// What stands before and after its name.
    parts: (String, String),
    table: u32,
    is_valid: bool,
    to_partitions: bool,
    /// The referenced index.
    index: u32,
}

impl ForeignKey {
    pub fn is_to_itself(&self) -> bool {
        self.other == self.table
    }

    /// The definition, where the other table is called `other`.
    pub fn definition(&self, other: &str) -> String {
        let (before, after) = &self.parts;
        format!("{before}{other}{after}")
    }

    /// What adds it, and what validates it then. One that is valid is added unchecked first: that way the other table is locked for its
    /// writers only for a moment, and not while the rows are looked up. Not so where that is
    /// partitioned: before 18 the keys that stand for its partitions would stay unchecked.
    fn statements(&self, table: &QualifiedName, other: &str) -> Result<(String, Option<String>)> {
        let name = quote(&self.name)?;
        let definition = self.definition(other);
        let add = format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition}");
        Ok(if self.is_valid && !self.to_partitions {
            let validate = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {name}");
            (format!("{add} NOT VALID"), Some(validate))
        } else {
            (add, None)
        })
    }
}

/// The outgoing foreign keys of a table; those that stand for partitions of the other table are
/// made with the first one.
pub fn foreign_keys(session: &mut Session, oid: u32) -> Result<Vec<ForeignKey>, ConnectionError> {
    let rows = session.query(&format!(
        "SELECT conname, conindid, convalidated, pg_get_constraintdef(oid) AS definition,
                confrelid, confrelid::regclass AS other,
                (SELECT relkind = 'p' FROM pg_class c WHERE c.oid = confrelid) AS to_partitions
           FROM pg_constraint
          WHERE conrelid = {oid} AND contype = 'f' AND conparentid = 0 ORDER BY conname"
    ))?;
    let keys = rows.iter().map(|row| {
        let text = |name: &str| row.get(name).unwrap_or_default().to_owned();
        let (definition, other_name) = (text("definition"), text("other"));
        let parts = definition
            .split_once(&format!(") REFERENCES {other_name}("))
            .map(|(before, after)| (format!("{before}) REFERENCES "), format!("({after}")));
        let other = text("confrelid").parse().unwrap_or(0);
        ForeignKey {
            name: text("conname"),
            parts: parts.unwrap_or_else(|| (definition.clone(), String::new())),
            other,
            other_name,
            table: oid,
            is_valid: row.flag("convalidated"),
            to_partitions: row.flag("to_partitions"),
            index: text("conindid").parse().unwrap_or(0),
        }
    });
    Ok(keys.collect())
}

/// What builds the old table's indexes on the new one, with its foreign keys to itself.
pub fn index_jobs(
    session: &mut Session,
    plan: &Plan,
    old: &Relation,
    staging: &QualifiedName,
) -> Result<Vec<Job>> {
    let wanted = catalog::indexes(session, old.oid).map_err(failed)?;
    let mut to_itself = foreign_keys(session, old.oid).map_err(failed)?;
    to_itself.retain(ForeignKey::is_to_itself);
    // Those that lock the whole table come last: side by side the others don't wait for them.
    let mut shared = Vec::new();
    let mut alone = Vec::new();
    for (number, index) in wanted.iter().enumerate() {
        let mut job = Job {
            what: format!("building {} of {}", index.known(), old.name),
            statements: index_statements(plan, &old.name, number, index, staging)?,
            locks_others: false,
            may_be_gone: false,
        };
        let mut locks = index.constraint.is_some() && !attaches(index);
        // A table's keys to itself need the index that they refer to, and nothing else.
        for key in to_itself.iter().filter(|key| key.index == index.oid) {
            let (add, validate) = key.statements(staging, &staging.to_string())?;
            job.statements.push(add);
            job.statements.extend(validate);
            locks = true;
        }
        if locks { alone.push(job) } else { shared.push(job) }
    }
    shared.extend(alone);
    Ok(shared)
}

/// What adds the old table's foreign keys to others on the new one, once there are all indexes, and what checks its
/// rows then: those to tables that are replaced with it refer to the new ones. `validate` is the extension's function
/// for it, if it is there. Adding locks both tables, for their writers and for whoever checks either.
pub fn key_jobs(
    session: &mut Session,
    company: &Company,
    old: &Relation,
    staging: &QualifiedName,
    validate: Option<&str>,
) -> Result<[Job; 2]> {
    let new = known(session, staging)?.oid;
    let made = foreign_keys(session, new).map_err(failed)?;
    let (mut adding, mut checking) = (Vec::new(), Vec::new());
    let keys = foreign_keys(session, old.oid).map_err(failed)?;
    // It would validate those that are to stay as they were.
    let validate = validate.filter(|_| keys.iter().all(|key| key.is_valid));
    let mut validating = Vec::new();
    for key in keys {
        if key.is_to_itself() {
            continue;
        }
        // What an earlier attempt has made may have been true of other rows.
        if made.iter().any(|made| made.name == key.name) {
            adding.push(format!("ALTER TABLE {staging} DROP CONSTRAINT {}", quote(&key.name)?));
        }
        let other = match company.staging_of(key.other) {
            Some(staging) => staging.to_string(),
            None => key.other_name.clone(),
        };
        let (add, validate) = key.statements(staging, &other)?;
        match &validate {
            None if key.is_valid => checking.push(add),
            _ => adding.push(add),
        }
        validating.extend(validate);
    }
    if let Some(validate) = validate.filter(|_| !validating.is_empty()) {
        // What it leaves is for the server to validate, or to refuse with its own words.
        let literal = quote_literal(&staging.to_string()).map_err(failed)?;
        checking.push(format!("SELECT {validate}({literal}::pg_catalog.regclass)"));
    }
    checking.extend(validating);
    Ok([("adding", adding), ("checking", checking)].map(|(doing, statements)| {
        let what = format!("{doing} the foreign keys of {}", old.name);
        Job { what, statements, locks_others: true, may_be_gone: false }
    }))
}

/// Takes away what is built already, with the rows or by an earlier attempt: indexes by their names, which tell
/// the run and the index; foreign keys to the table itself are dropped, to be checked anew.
pub fn left_to_do(
    session: &mut Session,
    plan: &Plan,
    staging: &QualifiedName,
    mut jobs: Vec<Job>,
) -> Result<Vec<Job>> {
    let new = known(session, staging)?;
    let keys = foreign_keys(session, new.oid).map_err(failed)?;
    for key in keys.iter().filter(|key| key.is_to_itself()) {
        let drop = format!("ALTER TABLE {staging} DROP CONSTRAINT {}", quote(&key.name)?);
        session.execute(&drop).map_err(failed)?;
    }
    for built in catalog::indexes(session, new.oid).map_err(failed)? {
        let name = quote(&built.name)?;
        let builds = |statement: &String| {
            statement.contains(&format!("INDEX {name} ON "))
                || statement.contains(&format!("ADD CONSTRAINT {name} "))
        };
        for job in &mut jobs {
            let Some(at) = job.statements.iter().position(builds) else { continue };
            match built.is_valid {
                true => drop(job.statements.remove(at)),
                false => {
                    let drop = indexes::not_unique(plan, staging, &built, &job.what)?;
                    job.statements.insert(at, drop);
                }
            }
        }
    }
    jobs.retain(|job| !job.statements.is_empty());
    Ok(jobs)
}

/// Whether the index is built as such and becomes a constraint afterwards.
fn attaches(index: &IndexDefinition) -> bool {
    index.constraint.as_ref().is_some_and(|constraint| constraint.attaches.is_some())
}

/// The statements that make an index of a table, the how manieth it is of all, on the new one.
pub fn index_statements(
    plan: &Plan,
    table: &QualifiedName,
    number: usize,
    index: &IndexDefinition,
    staging: &QualifiedName,
) -> Result<Vec<String>> {
    let name = derived(table, plan.shared_id(), &format!("i{number}")).map_err(failed)?;
    let plain = IndexDefinition { constraint: None, ..index.clone() };
    let built = if attaches(index) { &plain } else { index };
    let statement = indexes::statement(built, staging, Some(name.name())).map_err(failed)?;
    // pg_get_indexdef does not tell the tablespace. Sent as one, the setting ends with the
    // statement; it also keeps the session's own default out.
    let tablespace = quote_literal(&index.tablespace).map_err(failed)?;
    let mut statements = vec![format!("SET LOCAL default_tablespace = {tablespace}; {statement}")];
    if built.constraint.is_some() && !index.options.is_empty() {
        // Nor does pg_get_constraintdef tell storage parameters.
        statements.push(format!("ALTER INDEX {name} SET ({})", index.options));
    }
    Ok(statements)
}

/// The statements that give the new table's indexes the old ones' names, and make them what they
/// were, once the old table is gone.
pub fn renames(session: &mut Session, old: &Relation, new: u32) -> Result<Vec<String>> {
    let table = &old.name;
    let mut made = catalog::indexes(session, new).map_err(failed)?;
    let mut statements = Vec::new();
    for wanted in catalog::indexes(session, old.oid).map_err(failed)? {
        let Some(at) = made.iter().position(|index| is_alike(&wanted, index)) else {
            return Err(changed(table, &format!("the index {} is new", wanted.name)));
        };
        let built = made.swap_remove(at);
        let (from, to) = (quote(&built.name)?, quote(&wanted.name)?);
        statements.push(match &wanted.constraint {
            None => {
                let from = QualifiedName::new(table.schema(), &built.name).map_err(failed)?;
                format!("ALTER INDEX {from} RENAME TO {to}")
            }
            Some(constraint) => match &constraint.attaches {
                Some(kind) => format!(
                    "ALTER TABLE {table} ADD CONSTRAINT {} {kind} USING INDEX {from}{}",
                    quote(&constraint.name)?,
                    constraint.timing
                ),
                None => format!("ALTER TABLE {table} RENAME CONSTRAINT {from} TO {to}"),
            },
        });
    }
    match made.first() {
        None => Ok(statements),
        Some(_) => Err(changed(table, "an index was dropped or changed")),
    }
}

/// Whether `built` on the new table is what `wanted` is on the old one.
fn is_alike(wanted: &IndexDefinition, built: &IndexDefinition) -> bool {
    let definition = |index: &IndexDefinition| {
        index.constraint.as_ref().map(|constraint| constraint.definition.clone())
    };
    let constraint = if attaches(wanted) { None } else { definition(wanted) };
    wanted.tail == built.tail
        && wanted.is_unique == built.is_unique
        && constraint == definition(built)
}
