//! A run's row: begun, attempted again, published, taken away.

use fullbore_load::plan::Plan;
use fullbore_load::plan::recorded::RecordedTable;
use fullbore_load::run_id::RunId;
use fullbore_load::sink::LoadState;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::Result;
use serde::Serialize;

use super::read::rows;
use super::state::read;
pub use super::state::{LedgerRun, LedgerTable, State};
use super::{Begun, Ledger, locks, pieces, shown};
use crate::catalog;
use crate::error::{failed, failed_while, refuse};
use crate::naming::is_derived;
use crate::postgres::Postgres;
use crate::session_settings::SessionSettings;
use crate::verify::size::extents;

/// How long an attempt waits for the last transactions of an earlier one.
const LAST_PIECES_S: u32 = 60;

/// Which runs are looked for.
pub enum Which<'a> {
    All,
    OfJob(&'a str),
    /// Those that have something left to do.
    Unfinished,
    Run(&'a str),
    /// Those that were begun since, but one.
    Since {
        /// By the server's clock, in microseconds since 1970.
        started_us: i64,
        except: &'a str,
    },
}

/// Runs of the ledger, the newest first.
pub fn find(session: &mut Session, schema: &str, which: &Which<'_>) -> Result<Vec<LedgerRun>> {
    if !exists(session, schema)? {
        return Ok(Vec::new());
    }
    let condition = match which {
        Which::All => String::new(),
        Which::Unfinished => "WHERE r.state NOT IN ('finished', 'undone')".to_owned(),
        Which::OfJob(job) => format!("WHERE r.job = {}", quote_literal(job).map_err(failed)?),
        Which::Run(run) => format!("WHERE r.run = {}", quote_literal(run).map_err(failed)?),
        Which::Since { started_us, except } => format!(
            "WHERE (extract(epoch FROM r.started) * 1000000)::bigint >= {started_us} AND r.run <> {}",
            quote_literal(except).map_err(failed)?
        ),
    };
    let rows = rows(
        session,
        &format!(
            "SELECT r.run, r.job, r.state, r.tables, r.pieces, r.role, r.host,
                    to_char(r.started, 'YYYY-MM-DD HH24:MI:SS TZ') AS started,
                    p.pieces AS pieces_committed, p.rows AS rows_committed,
                    p.bytes AS bytes_committed, p.rejected
               FROM {schema}.runs r
               LEFT JOIN LATERAL (SELECT count(*) AS pieces, coalesce(sum(rows), 0) AS rows,
                                         coalesce(sum(bytes), 0) AS bytes,
                                         coalesce(sum(rejected), 0) AS rejected
                                    FROM {schema}.pieces p WHERE p.run = r.run) p ON true
               {condition} ORDER BY r.started DESC, r.run DESC"
        ),
    )
    .map_err(failed)?;
    rows.iter().map(read).collect()
}

/// Whether there is a ledger.
pub(super) fn exists(session: &mut Session, schema: &str) -> Result<bool> {
    is_there(session, schema, "runs").map_err(failed)
}

/// Whether the ledger's schema has a table of a name.
pub fn is_there(session: &mut Session, schema: &str, table: &str) -> Result<bool, ConnectionError> {
    let known = rows(
        session,
        &format!(
            "SELECT to_regclass({}) IS NOT NULL AS known",
            quote_literal(&format!("{schema}.{table}"))?
        ),
    )?;
    Ok(known.first().is_some_and(|row| row.flag("known")))
}

/// JSON in ASCII alone, which a database of any encoding can hold.
pub(super) fn ascii_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain data becomes JSON");
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
            continue;
        }
        // Outside of ASCII there are only the insides of strings.
        for unit in character.encode_utf16(&mut [0; 2]) {
            ascii.push_str(&format!("\\u{unit:04x}"));
        }
    }
    ascii
}

/// What is kept of the tables; of those that the run has made, which ones they are.
fn tables(session: &mut Session, plan: &Plan, postgres: &Postgres) -> Result<String> {
    let settings = SessionSettings::of(session).map_err(failed)?;
    let (made, baselines) = (postgres.made(), postgres.baselines());
    let targets = postgres.targets().iter().enumerate().zip(&plan.tables);
    let tables: Result<Vec<LedgerTable>> = targets
        .map(|((number, target), table)| {
            let relation = made.get(&number).unwrap_or(&target.relation);
            let recorded = RecordedTable::of(table);
            let (id, settings) = (&plan.run_id, settings.clone());
            let table = LedgerTable::of(target, relation, id, settings, recorded)?;
            let before = match target.is_piecewise() && relation.oid != 0 {
                true => extents(session, relation.oid)?,
                false => None,
            };
            Ok(LedgerTable { baseline: baselines.get(&number).cloned(), before, ..table })
        })
        .collect();
    Ok(ascii_json(&tables?))
}

/// Makes the commit of a transaction wait for the log, also in a session that would not: for the
/// server's own disk then, else for what the session waits for.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'local', true)
    WHERE current_setting('synchronous_commit') = 'off'; ";

/// Begins a run, before anything of it is made: whatever it leaves can be found by this row. The server's
/// own disk is waited for, so that a row which is gone was taken away, and not lost in a crash; what is
/// made afterwards comes after it in the log, and [`prepared`] waits for all.
pub fn begin(
    session: &mut Session,
    ledger: &Ledger,
    plan: &Plan,
    postgres: &Postgres,
) -> Result<()> {
    let names = postgres.targets().iter().map(|target| target.name().to_string());
    let quoted: Result<Vec<String>, ConnectionError> =
        names.map(|name| quote_literal(&name)).collect();
    let pieces = ascii_json(&plan.pieces);
    let tables = tables(session, plan, postgres)?;
    let literal = |text: &str| quote_literal(text).map_err(failed);
    let before = ledger.begun();
    if before == Begun::Yes {
        // It was begun, the connection was lost, and it is not ours to begin anew.
        return Err(ledger.taken_back());
    }
    ledger.set_attempt(1);
    ledger.set_begun(Begun::Unsure);
    let begun = session.execute(&format!(
        "SET LOCAL synchronous_commit = local;
         INSERT INTO {}.runs (run, job, state, targets, tables, pieces, fullbore, host, pid)
         VALUES ({}, {}, 'preparing', ARRAY[{}], {}, {}, {}, {}, {})",
        ledger.schema,
        literal(&plan.run_id)?,
        literal(&ledger.job)?,
        quoted.map_err(failed)?.join(", "),
        literal(&tables)?,
        literal(&pieces)?,
        literal(env!("CARGO_PKG_VERSION"))?,
        literal(&host())?,
        std::process::id(),
    ));
    let error = match begun {
        Ok(_) => {
            ledger.set_begun(Begun::Yes);
            return Ok(());
        }
        Err(error) => error,
    };
    if error.sqlstate() == Some(pieces::UNIQUE_VIOLATION) {
        // An earlier INSERT of ours may have had more luck than its connection.
        let is_ours = before == Begun::Unsure && has_our_row(session, ledger)?;
        ledger.set_begun(if is_ours { Begun::Yes } else { Begun::No });
        return if is_ours { Ok(()) } else { Err(ledger.is_anothers()) };
    }
    // A session that ends may have committed first.
    let is_refused = error.server_message().is_some_and(|message| !message.is_fatal());
    if is_refused && before == Begun::No {
        ledger.set_begun(Begun::No);
    }
    Err(failed_while(error, "writing to the ledger"))
}

/// Whether the run's row, of which it is not known whether we have inserted it, is the one that we
/// would have: nobody else had its id before it was there.
pub fn has_our_row(session: &mut Session, ledger: &Ledger) -> Result<bool> {
    let literal = |text: &str| quote_literal(text).map_err(failed);
    let rows = session
        .query(&format!(
            "SELECT FROM {}.runs WHERE run = {} AND job = {} AND host = {} AND pid = {}
                AND attempt = {} AND state = 'preparing'",
            ledger.schema,
            literal(&ledger.run_id)?,
            literal(&ledger.job)?,
            literal(&host())?,
            std::process::id(),
            ledger.attempt()
        ))
        .map_err(failed)?;
    Ok(!rows.is_empty())
}

fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// In the transaction that makes a target, or what replaces it: what is known of the tables by now.
pub fn noted(
    session: &mut Session,
    ledger: &Ledger,
    plan: &Plan,
    postgres: &Postgres,
) -> Result<()> {
    let tables = quote_literal(&tables(session, plan, postgres)?).map_err(failed)?;
    match set(session, ledger, &format!("tables = {tables}"), "state = 'preparing'", "")? {
        true => Ok(()),
        false => Err(ledger.taken_over()),
    }
}

/// What the run needs is made: pieces may be loaded.
///
/// The log is waited for. A run that is not in the ledger any more was rolled back then, and nothing
/// else: who goes on with it must not take it for one whose beginning a crash of the server took.
pub fn prepared(session: &mut Session, ledger: &Ledger) -> Result<()> {
    match set(session, ledger, "state = 'loading'", "state = 'preparing'", DURABLE)? {
        true => Ok(()),
        false => Err(ledger.taken_over()),
    }
}

/// Changes the run's row if it is still this attempt's; whether it was.
fn set(
    session: &mut Session,
    ledger: &Ledger,
    change: &str,
    condition: &str,
    before: &str,
) -> Result<bool> {
    let changed = session
        .execute(&format!(
            "{before}UPDATE {}.runs SET {change}, changed = clock_timestamp()
              WHERE run = {} AND attempt = {} AND {condition}",
            ledger.schema,
            quote_literal(&ledger.run_id).map_err(failed)?,
            ledger.attempt()
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    Ok(changed > 0)
}

/// What [`next_attempt`] found.
enum Next {
    /// The ledger has no such run.
    Unknown,
    /// Somebody else has begun an attempt since the one that was named. Nothing was changed.
    Anothers,
    Begun(State, u32),
}

/// Whether a run's row is still at the attempt that was this process's, if it has made one; in SQL.
fn is_ours(last: Option<u32>) -> Result<String, ConnectionError> {
    let Some(attempt) = last else { return Ok("true".into()) };
    let host = quote_literal(&host())?;
    // A count that was ours may have been committed unheard.
    Ok(format!("(attempt = {attempt} OR host = {host} AND pid = {})", std::process::id()))
}

/// Locks the run's row for itself: waits until no transaction of a piece is left, and counts the
/// attempt up, so that none comes any more. `last` is the attempt that was this process's, if it has
/// made one: the run must still be at it.
fn next_attempt(
    session: &mut Session,
    schema: &str,
    run_id: &str,
    last: Option<u32>,
    change: &str,
) -> Result<Next, ConnectionError> {
    let run = quote_literal(run_id)?;
    let host = quote_literal(&host())?;
    let pid = std::process::id();
    let is_ours = is_ours(last)?;
    if last.is_some() {
        let rows = rows(
            session,
            &format!("SELECT {is_ours} AS is_ours FROM {schema}.runs WHERE run = {run}"),
        )?;
        match rows.first() {
            Some(row) if row.flag("is_ours") => {}
            Some(_) => return Ok(Next::Anothers),
            None => return Ok(Next::Unknown),
        }
    }
    locks::end_sessions(session, run_id);
    session.execute(&format!("BEGIN; SET LOCAL lock_timeout = '{LAST_PIECES_S}s'"))?;
    let taken = (|| {
        let rows = rows(
            session,
            &format!(
                "SELECT run, state, attempt + 1 AS attempt, {is_ours} AS is_ours
                   FROM {schema}.runs WHERE run = {run} FOR UPDATE"
            ),
        )?;
        session.execute(&format!(
            "UPDATE {schema}.runs SET attempt = attempt + 1, host = {host}, pid = {pid},
                    changed = clock_timestamp(){change} WHERE run = {run} AND {is_ours}"
        ))?;
        session.execute("COMMIT")?;
        Ok(rows)
    })();
    let rows = taken.inspect_err(|_: &ConnectionError| {
        // The first error is the one to tell.
        let _ = session.execute("ROLLBACK");
    })?;
    let Some(row) = rows.first() else { return Ok(Next::Unknown) };
    if row.flag("is_ours") {
        // One that came in between is marked by now, or will find that the run is not its own.
        locks::end_sessions(session, run_id);
    }
    match (row.state("state"), row.number("attempt")) {
        _ if !row.flag("is_ours") => Ok(Next::Anothers),
        (Ok(state), Ok(attempt)) => Ok(Next::Begun(state, attempt)),
        _ => Err(ConnectionError::protocol("the ledger's row of the run can't be read")),
    }
}

/// Begins another attempt; refused where somebody else has gone on with the run since our last one, to
/// whatever end, or has rolled it back.
pub fn attempt(session: &mut Session, ledger: &Ledger) -> Result<LoadState> {
    let last = (ledger.begun() == Begun::Yes).then(|| ledger.attempt());
    let found =
        next_attempt(session, &ledger.schema, &ledger.run_id, last, "").map_err(|error| {
            failed_while(error, "waiting for the last pieces of an earlier attempt")
        })?;
    let (state, attempt) = match found {
        Next::Begun(state, attempt) => (state, attempt),
        Next::Anothers => return Err(ledger.taken_over()),
        Next::Unknown => return Err(ledger.taken_back()),
    };
    ledger.set_attempt(attempt);
    ledger.set_begun(Begun::Yes);
    // One that is being prepared fell back, and can't be gone on with either.
    if matches!(state, State::Preparing | State::Aborting | State::Undone) {
        return Err(ledger.taken_back());
    }
    let is_published = state.is_shown();
    ledger.set_published(is_published);
    let committed = pieces::committed(session, &ledger.schema, &ledger.run_id)?;
    Ok(LoadState { committed, is_published })
}

/// Within the transaction that shows the rows: the run is still this attempt's, and its pieces are
/// those that are expected.
pub fn check(session: &mut Session, ledger: &Ledger, expected: (u64, u64)) -> Result<()> {
    let run = quote_literal(&ledger.run_id).map_err(failed)?;
    let rows = session
        .query(&format!(
            "SELECT FROM {}.runs WHERE run = {run} AND attempt = {} AND state = 'loading' FOR UPDATE",
            ledger.schema,
            ledger.attempt()
        ))
        .map_err(failed)?;
    if rows.is_empty() {
        return Err(ledger.taken_over());
    }
    let found = pieces::count(session, &ledger.schema, &ledger.run_id)?;
    if found != expected { Err(ledger.fell_back(expected, found)) } else { Ok(()) }
}

/// Within the transaction that shows the rows: they are, and in which tables.
pub fn published(session: &mut Session, ledger: &Ledger) -> Result<()> {
    shown::note(session, &ledger.schema, &ledger.run_id)?;
    let change = "state = 'published', xid_published = pg_current_xact_id()";
    match set(session, ledger, change, "state = 'loading'", "")? {
        true => Ok(()),
        false => Err(ledger.taken_over()),
    }
}

/// Nothing is left to do. The log is waited for: what the client has kept of the run goes afterwards,
/// and a run that fell back would ask for it.
pub fn finished(session: &mut Session, ledger: &Ledger) -> Result<()> {
    set(session, ledger, "state = 'finished'", "state = 'published'", DURABLE).map(drop)
}

/// Waits for the log of all that was committed: somebody may go on elsewhere.
pub fn left(session: &mut Session, ledger: &Ledger) -> Result<()> {
    set(session, ledger, "pid = 0", "true", "").map(drop)
}

/// Begins to take a run back: nobody can load or publish it any more. What it was before; one whose
/// rows are shown stays what it is. `None` where the ledger has no such run, and where it is no longer
/// at the attempt that is named.
pub fn begin_abort(
    session: &mut Session,
    schema: &str,
    run_id: &str,
    attempt: Option<u32>,
) -> Result<Option<State>> {
    if !exists(session, schema)? {
        return Ok(None);
    }
    let change =
        ", state = CASE WHEN state IN ('preparing', 'loading') THEN 'aborting' ELSE state END";
    let found = next_attempt(session, schema, run_id, attempt, change)
        .map_err(|error| failed_while(error, "waiting for the last pieces of the run"))?;
    Ok(match found {
        Next::Begun(state, _) => Some(state),
        Next::Anothers | Next::Unknown => None,
    })
}

/// Waits until no transaction of a piece of a run that has not shown its rows is left, and lets none come
/// any more.
pub(super) fn fence(session: &mut Session, schema: &str, run_id: &str) -> Result<()> {
    let found = next_attempt(session, schema, run_id, None, "")
        .map_err(|error| failed_while(error, "waiting for the last pieces of the run"))?;
    match found {
        Next::Begun(State::Preparing | State::Loading | State::Aborting, _) => Ok(()),
        Next::Begun(state, _) => Err(refuse(
            format!("run {run_id} is {}: its rows are published", state.name()),
            format!("undo a finished run with `fullbore runs undo {run_id}`"),
        )),
        Next::Anothers | Next::Unknown => {
            Err(refuse(format!("run {run_id} is no longer in the ledger"), "it was closed"))
        }
    }
}

/// The run is forgotten.
pub fn remove(session: &mut Session, schema: &str, run_id: &str) -> Result<()> {
    let run = quote_literal(run_id).map_err(failed)?;
    session.execute(&format!("DELETE FROM {schema}.runs WHERE run = {run}")).map_err(failed)?;
    Ok(())
}

/// The tables that a run, or a whole of runs, made beside its targets and that are not attached: found by
/// the names that it gave them.
pub fn leftovers(
    session: &mut Session,
    id: &RunId,
    targets: &[&QualifiedName],
) -> Result<Vec<QualifiedName>> {
    let found = catalog::tables_with(session, &format!("_fb_{id}_")).map_err(failed)?;
    let mut ours = Vec::new();
    for name in found {
        for target in targets {
            if is_derived(&name, target, id).map_err(failed)? {
                ours.push(name);
                break;
            }
        }
    }
    Ok(ours)
}
