//! Loads that several hosts have in common: each part is a run of its own, and a further table says
//! which of them belong together.
//!
//! A part has its own files, pieces, attempts and lock; what all share is named by the id of the
//! *whole*, which follows from the job and from how many loads of it have ended, so that hosts which
//! begin at once come to the same one. A part that has loaded all of its pieces says so, with what
//! they contain; the host that finds all parts loaded publishes all rows (`publish/parts.rs`).

use fullbore_load::job::PartSpec;
use fullbore_load::plan::Part;
use fullbore_load::run_id::RunId;
use fullbore_load::sink::Committed;
use fullbore_pgwire::{Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};
use sha2::{Digest, Sha256};

use super::read::{LedgerRow, Role, Told, rows};
use super::state::State;
use super::{Ledger, locks, roles, runs};
use crate::error::{failed, failed_while, refuse};
use crate::publish::hidden;
use crate::target::PostgresTable;

/// `{s}` is the quoted schema.
pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS {s}.parts (
        run text PRIMARY KEY REFERENCES {s}.runs ON DELETE CASCADE,
        whole text NOT NULL,
        identity text NOT NULL,
        part integer NOT NULL,
        parts integer NOT NULL CHECK (part BETWEEN 1 AND parts),
        pieces bigint,
        rows bigint,
        loaded timestamptz,
        UNIQUE (whole, part)
    );
    COMMENT ON TABLE {s}.parts IS 'Fullbore: loads of several hosts; docs/guides/hosts.md'";

/// How long another host is waited for that makes or publishes what all parts share.
const OTHERS_S: u32 = 3600;

/// A part as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPart {
    pub run_id: RunId,
    pub whole: RunId,
    /// What all parts have in common; the id of the whole follows from it.
    pub identity: String,
    pub number: u32,
    pub of: u32,
    /// The state of its run, and who began it.
    pub state: State,
    pub role: Role,
    pub host: Told,
    pub is_loaded: bool,
    /// What it said that it had committed, and what the ledger has of it now.
    pub said: (u64, u64),
    pub found: (u64, u64),
}

impl KnownPart {
    fn of(row: &LedgerRow) -> Result<Self> {
        let said = row.optional("pieces_said")?.zip(row.optional("rows_said")?);
        Ok(Self {
            run_id: row.run_id("run")?,
            whole: row.run_id("whole")?,
            identity: row.compared("identity")?,
            number: row.number("part")?,
            of: row.number("parts")?,
            state: row.state("state")?,
            role: row.role("role")?,
            host: row.told("host"),
            is_loaded: row.flag("loaded"),
            said: said.unwrap_or_default(),
            found: (row.number("pieces_found")?, row.number("rows_found")?),
        })
    }

    /// Loaded, and still so: a crash of the server may have taken what was only staged.
    pub fn is_ready(&self) -> bool {
        self.is_loaded && self.said == self.found
    }

    /// Whether its rows may stand where those of the other parts go.
    pub fn may_have_rows(&self) -> bool {
        self.state != State::Preparing
    }

    /// What it is and where it stands, in words.
    pub fn words(&self) -> String {
        let Self { number, of, run_id, host, .. } = self;
        let stands = match (self.is_loaded, self.is_ready()) {
            (_, true) => "loaded",
            (true, false) => "lost in a crash of the server",
            (false, _) => "not loaded yet",
        };
        format!("part {number}/{of}: {stands} (run {run_id} of {})", host.for_people())
    }
}

/// Makes the table if it is not there.
pub fn make(session: &mut Session, schema: &str) -> Result<()> {
    if runs::is_there(session, schema, "parts").map_err(failed)? {
        return super::trust::check(session, &super::schema::bare(schema));
    }
    // Hosts that begin at once would all make it.
    let what = "creating the ledger's table of parts";
    session
        .execute("BEGIN")
        .map_err(failed)
        .and_then(|_| locks::take_for_transaction(session, super::schema::MAKING, what))
        .and_then(|()| {
            let hidden = hidden::hide(&format!("{schema}.parts")).map_err(failed)?;
            let made = format!("{}; {hidden}", TABLE.replace("{s}", schema));
            session.execute(&made).map_err(|error| failed_while(error, what))
        })
        .and_then(|_| super::trust::check(session, &super::schema::bare(schema)))
        .and_then(|()| session.execute("COMMIT").map_err(failed))
        .inspect_err(|_| {
            // The first error is the one to tell.
            let _ = session.execute("ROLLBACK");
        })?;
    session.take_notices();
    Ok(())
}

/// Parts for which a condition on `p` (the part) and `r` (its run) holds, in their order.
fn find(session: &mut Session, schema: &str, condition: &str) -> Result<Vec<KnownPart>> {
    if !runs::is_there(session, schema, "parts").map_err(failed)? {
        return Ok(Vec::new());
    }
    let rows = rows(
        session,
        &format!(
            "SELECT p.run, p.whole, p.identity, p.part, p.parts, r.state, r.role, r.host,
                    p.loaded IS NOT NULL AS loaded,
                    p.pieces AS pieces_said, p.rows AS rows_said,
                    c.pieces AS pieces_found, c.rows AS rows_found
               FROM {schema}.parts p JOIN {schema}.runs r USING (run)
               LEFT JOIN LATERAL (SELECT count(*) AS pieces, coalesce(sum(rows), 0) AS rows
                                    FROM {schema}.pieces c WHERE c.run = p.run) c ON true
              WHERE {condition} ORDER BY p.part"
        ),
    )
    .map_err(failed)?;
    rows.iter().map(KnownPart::of).collect()
}

/// The part that a run is, if it is one.
pub fn of_run(session: &mut Session, schema: &str, run_id: &str) -> Result<Option<KnownPart>> {
    let run = quote_literal(run_id).map_err(failed)?;
    Ok(find(session, schema, &format!("p.run = {run}"))?.into_iter().next())
}

/// All parts of a whole.
pub fn of_whole(session: &mut Session, schema: &str, whole: &str) -> Result<Vec<KnownPart>> {
    let whole = quote_literal(whole).map_err(failed)?;
    find(session, schema, &format!("p.whole = {whole}"))
}

/// The whole that a new part belongs to: the one under way, or the next. Refuses what does not fit.
/// `targets` are their names, as the ledger has them.
pub fn join(
    session: &mut Session,
    schema: &str,
    identity: &str,
    spec: PartSpec,
    targets: &[String],
) -> Result<Part> {
    let (whole, under_way) = whole_of(session, schema, identity, spec, targets)?;
    if let Some(same) = under_way.iter().find(|part| part.number == spec.number) {
        return Err(refuse(
            format!("--part {spec} already exists: {}", same.words()),
            format!(
                "--resume resumes it on the host with its files; `fullbore runs abort {}` rolls \
                 back all parts",
                same.run_id
            ),
        ));
    }
    Ok(Part { spec, whole, identity: identity.to_owned() })
}

/// The id of the whole that is under way, or of the next, with the parts of it that have begun. Refuses
/// what a part could not join.
pub fn whole_of(
    session: &mut Session,
    schema: &str,
    identity: &str,
    spec: PartSpec,
    targets: &[String],
) -> Result<(String, Vec<KnownPart>)> {
    let names: Result<Vec<String>, _> = targets.iter().map(|name| quote_literal(name)).collect();
    let names = names.map_err(failed)?.join(", ");
    let known = quote_literal(identity).map_err(failed)?;
    let under_way = find(
        session,
        schema,
        &format!(
            "r.state NOT IN ('finished', 'undone')
             AND (p.identity = {known} OR r.targets && ARRAY[{names}]::text[])"
        ),
    )?;
    check_roles(session, &under_way)?;
    if let Some(other) = under_way.iter().find(|part| part.identity != identity) {
        return Err(refuse(
            format!(
                "another load in parts into {} is in progress: {}",
                targets.join(", "),
                other.words()
            ),
            format!(
                "use the same options and targets on all hosts, with different files; or roll that \
                 load back with `fullbore runs abort {}`",
                other.run_id
            ),
        ));
    }
    if let Some(other) = under_way.iter().find(|part| part.state == State::Aborting) {
        return Err(Error::Destination {
            message: format!(
                "--part {spec}: the load that it would join is being rolled back: {}",
                other.words()
            ),
            hint: Some(format!(
                "finish the rollback first with `fullbore runs abort {}`, which reports what \
                 blocks it",
                other.run_id
            )),
            kind: DestinationFailure::RollingBack,
        });
    }
    if let Some(other) = under_way.iter().find(|part| part.of != spec.of) {
        return Err(refuse(
            format!("--part {spec}: this load has {} parts: {}", other.of, other.words()),
            format!("use --part {}/{}, or end that load first", spec.number, other.of),
        ));
    }
    let whole = match under_way.first() {
        Some(part) => part.whole.to_string(),
        None => {
            // Not those of a host that began just now.
            let ended = "r.state IN ('finished', 'undone')";
            let ended = find(session, schema, &format!("p.identity = {known} AND {ended}"))?.len();
            id_of_whole(identity, ended).into()
        }
    };
    Ok((whole, under_way))
}

/// The parts of the last whole of this identity that has finished.
pub fn last_finished(
    session: &mut Session,
    schema: &str,
    identity: &str,
) -> Result<Vec<KnownPart>> {
    let known = quote_literal(identity).map_err(failed)?;
    let finished = format!("p.identity = {known} AND r.state = 'finished'");
    let of_identity = find(session, schema, &finished)?;
    // An id of a run begins with its second.
    let Some(last) = of_identity.iter().max_by(|a, b| a.run_id.cmp(&b.run_id)) else {
        return Ok(Vec::new());
    };
    let whole = last.whole.clone();
    Ok(of_identity.into_iter().filter(|part| part.whole == whole).collect())
}

/// Refuses parts of another role: what it has staged would be published with our rights.
pub fn check_roles(session: &mut Session, parts: &[KnownPart]) -> Result<()> {
    let ours = roles::current(session)?;
    let Some(other) = parts.iter().find(|part| part.role != ours) else { return Ok(()) };
    let theirs = other.role.for_people();
    Err(refuse(
        format!(
            "{}: started by role {theirs}, but the current role is {}",
            other.words(),
            ours.for_people()
        ),
        format!(
            "connect as the same role on all hosts; `fullbore runs abort {}` rolls that part back",
            other.run_id
        ),
    ))
}

/// The id of the whole that begins once so many parts of the same have ended. It stands in names as a
/// run's id does.
fn id_of_whole(identity: &str, ended: usize) -> RunId {
    RunId::of_hash(hash_of_whole(identity, ended).as_ref())
}

fn hash_of_whole(identity: &str, ended: usize) -> impl AsRef<[u8]> {
    Sha256::digest(format!("fullbore whole {identity} {ended}"))
}

/// Refuses a part whose whole is not that of its identity: it would take the tables of another load for
/// those of its own.
pub fn check_whole(session: &mut Session, schema: &str, part: &KnownPart) -> Result<()> {
    let known = quote_literal(&part.identity).map_err(failed)?;
    let of_same = find(session, schema, &format!("p.identity = {known}"))?.len();
    // Version 0.1 took six bytes of the hash.
    let old = |ended: usize| {
        let hash = hash_of_whole(&part.identity, ended);
        hash.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let is_its = |ended: usize| match RunId::is_old(&part.whole) {
        true => *part.whole == *old(ended),
        false => part.whole == id_of_whole(&part.identity, ended),
    };
    if (0..=of_same).any(is_its) {
        return Ok(());
    }
    Err(refuse(
        format!("the ledger records run {} as a part of another load", part.run_id),
        "the ledger was changed outside Fullbore",
    ))
}

/// Begins a part, alone among the hosts of its whole, if it still is what it was planned to be.
pub fn enter(
    session: &mut Session,
    ledger: &Ledger,
    part: &Part,
    targets: &[PostgresTable],
    work: impl FnOnce(&mut Session) -> Result<()>,
) -> Result<()> {
    make(session, &ledger.schema)?;
    alone(session, &part.whole, |session| {
        let names: Vec<String> = targets.iter().map(|target| target.name().to_string()).collect();
        let now = join(session, &ledger.schema, &part.identity, part.spec, &names)?;
        if now != *part {
            return Err(refuse(
                "the load that this part was to join has ended meanwhile",
                "begin the part again",
            ));
        }
        check_alike(session, &ledger.schema, part, targets)?;
        work(session)
    })
}

/// Refuses a part whose target is another table than that of those that have begun, or that would show
/// its rows another way. A limit of rejects makes `append` atomic, and is no option of the job that all
/// parts have in common.
fn check_alike(
    session: &mut Session,
    schema: &str,
    part: &Part,
    targets: &[PostgresTable],
) -> Result<()> {
    for other in of_whole(session, schema, &part.whole)? {
        let runs = runs::find(session, schema, &runs::Which::Run(&other.run_id))?;
        let theirs = runs.iter().flat_map(|run| &run.tables);
        let mut pairs = targets.iter().zip(theirs.clone());
        if let Some(change) = pairs.find_map(|(target, then)| then.table_change(target)) {
            return Err(refuse(
                format!(
                    "--part {}: {change} since another part began: {}",
                    part.spec,
                    other.words()
                ),
                format!(
                    "undo the change, or close that load with `fullbore runs abort {}`",
                    other.run_id
                ),
            ));
        }
        let Some((target, then)) =
            targets.iter().zip(theirs).find(|(target, then)| target.atomic != then.atomic)
        else {
            continue;
        };
        let how = |atomic: bool| if atomic { "at once" } else { "piece by piece" };
        return Err(refuse(
            format!(
                "--part {} would publish its rows of {} {}, but another part publishes them {}: {}",
                part.spec,
                target.name(),
                how(target.atomic),
                how(then.atomic),
                other.words()
            ),
            "use --atomic for all parts, or --max-rejects for none: --max-rejects makes append \
             atomic",
        ));
    }
    Ok(())
}

/// Begins a part: its run has its row already.
pub fn begin(session: &mut Session, schema: &str, run_id: &str, part: &Part) -> Result<()> {
    let literal = |text: &str| quote_literal(text).map_err(failed);
    session
        .execute(&format!(
            "INSERT INTO {schema}.parts (run, whole, identity, part, parts)
             VALUES ({}, {}, {}, {}, {})",
            literal(run_id)?,
            literal(&part.whole)?,
            literal(&part.identity)?,
            part.spec.number,
            part.spec.of
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    Ok(())
}

/// In the transaction that is open: the part has loaded all of its pieces.
pub fn loaded(session: &mut Session, schema: &str, run_id: &str, all: &[Committed]) -> Result<()> {
    let run = quote_literal(run_id).map_err(failed)?;
    let (pieces, rows) = (all.len(), all.iter().map(|piece| piece.rows).sum::<u64>());
    session
        .execute(&format!(
            "UPDATE {schema}.parts SET pieces = {pieces}, rows = {rows}, loaded = clock_timestamp()
              WHERE run = {run}"
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))?;
    Ok(())
}

/// In the transaction that is open: nobody begins another attempt of any part until it ends.
pub fn lock_rows(session: &mut Session, schema: &str, whole: &str) -> Result<()> {
    let whole = quote_literal(whole).map_err(failed)?;
    session
        .query(&format!(
            "SELECT r.run FROM {schema}.parts p JOIN {schema}.runs r USING (run)
              WHERE p.whole = {whole} ORDER BY p.part FOR UPDATE OF r"
        ))
        .map_err(failed)?;
    Ok(())
}

/// Moves the runs of all parts from one state to the next.
pub fn move_all(
    session: &mut Session,
    schema: &str,
    whole: &str,
    change: &str,
    from: &str,
) -> Result<u64> {
    let whole = quote_literal(whole).map_err(failed)?;
    session
        .execute(&format!(
            "UPDATE {schema}.runs SET {change}, changed = clock_timestamp()
              WHERE run IN (SELECT run FROM {schema}.parts WHERE whole = {whole}) AND state = '{from}'"
        ))
        .map_err(|error| failed_while(error, "writing to the ledger"))
}

/// Does something that only one of a whole's hosts may do at a time.
pub fn alone<T>(
    session: &mut Session,
    whole: &str,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    let key = locks::key("whole", whole);
    session
        .execute(&format!("SET LOCAL lock_timeout = '{OTHERS_S}s'; SELECT pg_advisory_lock({key})"))
        .map_err(|error| {
            locks::not_had(session, error, key, "waiting for another host of this load")
        })?;
    let result = work(session);
    // With a session that was lost the lock went too.
    let _ = session.execute(&format!("SELECT pg_advisory_unlock({key})"));
    result
}
