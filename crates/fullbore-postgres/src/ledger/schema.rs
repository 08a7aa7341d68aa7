//! The ledger's tables: whether this role may use or make them, and how they are made.

use fullbore_pgwire::{ConnectionError, Session, quote_literal};
use fullbore_read::error::Result;

use super::read::{LedgerRow, rows};
use super::runs::is_there;
use super::trust::Trusted;
use super::{locks, parts, trust};
use crate::error::{failed, refuse};
use crate::publish::hidden;
use crate::verify::store;

/// Whether a ledger can be kept here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It is there.
    Present,
    /// It will be made.
    Absent,
    /// It can't be used, and why; and what to do about it.
    Refused { reason: String, hint: String },
}

/// What is asked of the catalog. Every privilege on its own: of a list, one would do.
const STATE: &str = "
    SELECT n.oid AS schema, has_schema_privilege(n.oid, 'USAGE') AS may_use,
           has_schema_privilege(n.oid, 'CREATE') AS may_create,
           has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
           current_database() AS database, current_user AS role,
           count(c.oid) AS tables,
           bool_and((SELECT bool_and(has_table_privilege(c.oid, p))
                       FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p)) AS may_all,
           (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = any (array_agg(c.oid))
               AND a.attname IN ('run', 'job', 'xid_published', 'xid_from')) AS columns
      FROM (SELECT) AS one
      LEFT JOIN pg_namespace n ON n.nspname = {schema}
      LEFT JOIN pg_class c ON c.relnamespace = n.oid
                          AND c.relname IN ('runs', 'pieces', 'pieces_unlogged')
     GROUP BY n.oid";

/// Columns counted above: `run` thrice, `job` and `xid_published` once, `xid_from` twice.
const COLUMNS: u64 = 7;

/// Asks whether a ledger can be kept in a schema, by its bare name. Nothing is touched.
pub fn availability(
    session: &mut Session,
    schema: &str,
    trusted: &Trusted,
) -> Result<Availability, ConnectionError> {
    let rows = rows(session, &STATE.replace("{schema}", &quote_literal(schema)?))?;
    let Some(row) = rows.first() else { return Ok(Availability::Absent) };
    if let Some(distrust) = trusted.obstacle(session, schema)? {
        return Ok(Availability::Refused { reason: distrust.reason, hint: distrust.hint });
    }
    Ok(judge(row, schema))
}

/// Whether a schema, by its bare name, has all the tables of a ledger.
pub fn is_ledger(session: &mut Session, schema: &str) -> Result<bool, ConnectionError> {
    let rows = rows(session, &STATE.replace("{schema}", &quote_literal(schema)?))?;
    let count = |name: &str| rows.first().and_then(|row| row.number::<u64>(name).ok());
    Ok(count("tables") == Some(3) && count("columns") == Some(COLUMNS))
}

fn judge(row: &LedgerRow, schema: &str) -> Availability {
    let is = |name: &str| row.flag(name);
    let text = |name: &str| row.told(name).for_people().to_owned();
    let count = |name: &str| row.number::<u64>(name).unwrap_or(0);
    let refused = |reason: String, grant: String| Availability::Refused {
        reason,
        hint: format!("{grant}, or use another schema with --ledger-schema"),
    };
    let role = text("role");
    if matches!(row.optional::<u32>("schema"), Ok(None)) {
        if is("may_create_schema") {
            return Availability::Absent;
        }
        return refused(
            format!(
                "schema {schema} for the ledger does not exist, and role {role} lacks CREATE \
                 privilege on database {}",
                text("database")
            ),
            format!(
                "as a superuser: CREATE SCHEMA \"{schema}\" AUTHORIZATION \"{role}\", or GRANT \
                 CREATE ON DATABASE"
            ),
        );
    }
    let grant =
        |what: &str| format!("as its owner: GRANT {what} ON SCHEMA \"{schema}\" TO \"{role}\"");
    match count("tables") {
        0 if is("may_create") && is("may_use") => Availability::Absent,
        0 => refused(
            format!(
                "role {role} lacks USAGE or CREATE privilege on schema {schema} for the ledger"
            ),
            grant("USAGE, CREATE"),
        ),
        3 if count("columns") == COLUMNS => {
            if !is("may_use") {
                return refused(
                    format!("role {role} lacks USAGE privilege on schema {schema}"),
                    grant("USAGE"),
                );
            }
            if !is("may_all") {
                return refused(
                    format!(
                        "role {role} lacks privileges on the ledger's tables in schema {schema}"
                    ),
                    format!(
                        "as its owner: GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.runs, \
                         {schema}.pieces, {schema}.pieces_unlogged TO \"{role}\""
                    ),
                );
            }
            Availability::Present
        }
        _ => refused(
            format!("the tables in schema {schema} are not a ledger of this version of Fullbore"),
            "move them to another schema".into(),
        ),
    }
}

/// The tables. `{s}` is the quoted schema. Nobody but their owner may use them unless allowed: what
/// they say decides what is loaded.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS {s}.runs (
        run text PRIMARY KEY,
        job text NOT NULL,
        state text NOT NULL CHECK (state IN
            ('preparing', 'loading', 'published', 'finished', 'aborting', 'undone')),
        attempt integer NOT NULL DEFAULT 1,
        targets text[] NOT NULL,
        tables text NOT NULL,
        pieces text NOT NULL,
        fullbore text NOT NULL,
        host text NOT NULL,
        pid integer NOT NULL,
        xid_published xid8,
        role name NOT NULL DEFAULT current_user,
        started timestamptz NOT NULL DEFAULT clock_timestamp(),
        changed timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE INDEX IF NOT EXISTS runs_job ON {s}.runs (job);
    CREATE TABLE IF NOT EXISTS {s}.pieces (
        run text NOT NULL REFERENCES {s}.runs ON DELETE CASCADE,
        piece integer NOT NULL,
        target integer NOT NULL,
        attempt integer NOT NULL,
        rows bigint,
        rejected bigint,
        bytes bigint,
        source text,
        checksum text,
        xid_from xid8 NOT NULL,
        began timestamptz NOT NULL DEFAULT clock_timestamp(),
        committed timestamptz,
        PRIMARY KEY (run, piece)
    );
    CREATE UNLOGGED TABLE IF NOT EXISTS {s}.pieces_unlogged (
        FOREIGN KEY (run) REFERENCES {s}.runs ON DELETE CASCADE,
        PRIMARY KEY (run, piece)
    ) INHERITS ({s}.pieces);
    COMMENT ON TABLE {s}.runs IS 'Fullbore: loads and how far they are; docs/guides/resume.md';
    COMMENT ON TABLE {s}.pieces IS 'Fullbore: what each committed piece of a load was read from';
    COMMENT ON TABLE {s}.pieces_unlogged IS 'Fullbore: the same of pieces in unlogged tables';";

/// The ledger's tables, in the order in which they are made.
const NAMES: [&str; 5] = ["runs", "pieces", "pieces_unlogged", "parts", "checksums"];

/// What makes all tables that are not there, for their owner alone, whatever default privileges say.
fn statements(schema: &str) -> Result<String, ConnectionError> {
    let made = [TABLES, parts::TABLE, ";", store::TABLE.statement].concat().replace("{s}", schema);
    let hidden = NAMES.iter().map(|table| hidden::hide(&format!("{schema}.{table}")));
    Ok(format!("{made} {}", hidden.collect::<Result<Vec<_>, _>>()?.join("; ")))
}

/// A lock for making the tables: two first loads may come at once.
pub(super) const MAKING: i64 = 0x6675_6c6c_626f_7265;

/// Makes the ledger if it is not there.
pub fn make(session: &mut Session, schema: &str, trusted: &Trusted) -> Result<()> {
    // The last one that is made.
    if is_there(session, schema, "pieces_unlogged").map_err(failed)? {
        return trusted.check(session, &bare(schema));
    }
    session.execute("BEGIN").map_err(failed)?;
    let what = "creating the ledger's tables";
    locks::take_for_transaction(session, MAKING, what).inspect_err(|_| {
        let _ = session.execute("ROLLBACK");
    })?;
    let made = (|| {
        let name = quote_literal(&bare(schema))?;
        let known = session.query(&format!("SELECT FROM pg_namespace WHERE nspname = {name}"))?;
        // IF NOT EXISTS would ask for the right to make schemas even where there is nothing to do.
        if known.is_empty() {
            session.execute(&format!("CREATE SCHEMA {schema}"))?;
        }
        session.execute(&statements(schema)?)
    })();
    // What was there already may be somebody's who came first.
    let made = made
        .map_err(failed)
        .and_then(|_| trust::check(session, &bare(schema)))
        .and_then(|()| session.execute("COMMIT").map_err(failed));
    if let Err(error) = made {
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
        return Err(error);
    }
    session.take_notices();
    Ok(())
}

/// A table of the ledger that is made once something asks for it.
pub struct Further {
    pub name: &'static str,
    /// `{s}` is the quoted schema.
    pub statement: &'static str,
    /// What makes it, for somebody who may.
    pub first: &'static str,
    /// What does without it.
    pub instead: &'static str,
}

/// Whether a further table is there.
pub fn is_made(
    session: &mut Session,
    schema: &str,
    table: &Further,
) -> Result<bool, ConnectionError> {
    is_there(session, schema, table.name)
}

/// Makes a further table, where it is not there.
pub fn make_further(session: &mut Session, schema: &str, table: &Further) -> Result<()> {
    let Further { name, statement, first, instead } = table;
    if is_made(session, schema, table).map_err(failed)? {
        return trust::check(session, &bare(schema));
    }
    let hidden = hidden::hide(&format!("{schema}.{name}")).map_err(failed)?;
    let made = session.execute(&format!("{} {hidden}", statement.replace("{s}", schema)));
    session.take_notices();
    if let Err(error) = made {
        // Two first runs may come at once.
        if is_made(session, schema, table).map_err(failed)? {
            return trust::check(session, &bare(schema));
        }
        return Err(refuse(
            format!("could not create table {name} in ledger schema {schema}: {error}"),
            format!(
                "{first}, and grant SELECT, INSERT, UPDATE, DELETE on its table {name}; or {instead}"
            ),
        ));
    }
    trust::check(session, &bare(schema))
}

/// A quoted name without its quotes.
pub(crate) fn bare(quoted: &str) -> String {
    quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(quoted).replace("\"\"", "\"")
}
