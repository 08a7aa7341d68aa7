//! Batches: claimed, loaded by the process that claimed them, and attached.

use fullbore_pgwire::{ConnectionOptions, Session, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::policy::{Part, Partitions};
use super::{Table, connect, insist, is_taken, shape};
use crate::error::{failed, failed_while, refuse};
use crate::ledger::locks;
use crate::ledger::read::{LedgerRow, rows};
use crate::ledger::roles::acting_as;
use crate::ledger::runs::{self, LedgerRun};
use crate::ledger::schema::{Further, make_further};
use crate::ledger::take_back::take_back;
use crate::publish::hidden;
use crate::publish::replace::tools::in_transaction;

const BATCHES: Further = Further {
    name: "batches",
    statement: "
        CREATE TABLE IF NOT EXISTS {s}.batches (
            target oid NOT NULL,
            first bigint NOT NULL,
            last bigint NOT NULL,
            batches bigint NOT NULL,
            state text NOT NULL CHECK (state IN ('loading', 'attached', 'merging', 'detached')),
            rows bigint,
            bytes bigint,
            oldest timestamptz,
            newest timestamptz,
            PRIMARY KEY (target, first, last)
        );
        COMMENT ON TABLE {s}.batches IS 'Fullbore: partitions of tables that are ingested into; docs/guides/ingest.md';",
    first: "ingest once as the owner of the ledger",
    instead: "load with fullbore load",
};

const TAKEN: Further = Further {
    name: "taken",
    statement: "
        CREATE TABLE IF NOT EXISTS {s}.taken (
            target oid NOT NULL,
            source text NOT NULL,
            version text NOT NULL,
            batch bigint NOT NULL,
            place integer NOT NULL,
            PRIMARY KEY (target, source, version)
        );
        CREATE INDEX IF NOT EXISTS taken_batch ON {s}.taken (target, batch);
        COMMENT ON TABLE {s}.taken IS 'Fullbore: files that were ingested; docs/guides/ingest.md';",
    first: "ingest once as the owner of the ledger",
    instead: "load with fullbore load",
};

/// Makes the ledger's tables for batches where they are missing.
pub fn make(session: &mut Session, ledger: &str) -> Result<()> {
    make_further(session, ledger, &BATCHES)?;
    make_further(session, ledger, &TAKEN)
}

/// What is loaded: a file, or a stretch of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Its path or URL.
    pub name: String,
    /// What of it changes when its contents do.
    pub version: String,
}

/// What is known of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Free,
    /// Somebody loads it, or has ended while doing so.
    Claimed,
    /// Its rows are shown.
    Shown,
}

/// A batch that is claimed: a table without rows, which nobody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub number: u64,
    pub sources: Vec<Source>,
}

/// Batches that somebody who is gone had claimed.
#[derive(Debug, Default)]
pub struct Left {
    /// To be gone on with.
    pub batches: Vec<Batch>,
    /// Why one of the others can't be gone on with here.
    pub unknown: Option<Error>,
}

/// The batches of a table, by a session that holds the locks of those that are claimed.
pub struct Batches {
    session: Session,
    table: Table,
}

impl Batches {
    pub fn open(options: &ConnectionOptions, table: &Table) -> Result<Self> {
        Ok(Self { session: connect(options)?, table: table.clone() })
    }

    /// The table that rows of a batch are loaded into.
    pub fn leaf(&self, number: u64) -> Result<String> {
        Ok(shape::leaf(&self.table.name, number, number)?.to_string())
    }

    /// What is known of some sources, in their order.
    pub fn standings(&mut self, sources: &[Source]) -> Result<Vec<Standing>> {
        let mut standings = Vec::new();
        for some in sources.chunks(1000) {
            let Table { oid, ledger, .. } = &self.table;
            let sql = format!(
                "SELECT t.batch IS NOT NULL AS is_taken, b.first IS NOT NULL AS is_loading
                   FROM {} AS s(source, version, place)
                   LEFT JOIN {ledger}.taken t
                     ON t.target = {oid} AND t.source = s.source AND t.version = s.version
                   LEFT JOIN {ledger}.batches b
                     ON b.target = {oid} AND b.first = t.batch AND b.state = 'loading'
                  ORDER BY s.place",
                unnested(some)?
            );
            let found = rows(&mut self.session, &sql).map_err(failed)?;
            standings.extend(found.iter().map(|row| {
                match (row.flag("is_taken"), row.flag("is_loading")) {
                    (false, _) => Standing::Free,
                    (true, true) => Standing::Claimed,
                    (true, false) => Standing::Shown,
                }
            }));
        }
        Ok(standings)
    }

    /// Claims what of some sources is not taken, as a batch with a table of its own. `None` where nothing is left.
    pub fn claim(&mut self, sources: &[Source]) -> Result<Option<Batch>> {
        let table = self.table.clone();
        in_transaction(&mut self.session, |session| claim(session, &table, sources))
    }

    /// Takes over batches that were claimed by somebody who is gone. Their sources are found by their places among `known`;
    /// a batch that has others is left to who knows them.
    pub fn left(&mut self, known: &[Source]) -> Result<Left> {
        let Table { oid, ledger, name, .. } = &self.table.clone();
        let loading = format!(
            "SELECT first FROM {ledger}.batches WHERE target = {oid} AND state = 'loading'"
        );
        let numbers =
            rows(&mut self.session, &format!("{loading} ORDER BY first")).map_err(failed)?;
        let mut left = Left::default();
        for row in numbers {
            let number: u64 = row.number("first")?;
            let lock = format!("pg_try_advisory_lock({})", key(*oid, number));
            if !is_taken(&mut self.session, &lock)? {
                continue;
            }
            // It may have been attached meanwhile, or be loaded by one who has lost this session alone.
            let still = format!("{loading} AND first = {number}");
            if rows(&mut self.session, &still).map_err(failed)?.is_empty()
                || self.is_at_work(number)?
            {
                self.unlock(number)?;
                continue;
            }
            let sources = format!(
                "SELECT s.place - 1 AS place FROM {ledger}.taken t
                   LEFT JOIN {} AS s(source, version, place) USING (source, version)
                  WHERE t.target = {oid} AND t.batch = {number} ORDER BY t.place",
                unnested(known)?
            );
            let mut batch = Batch { number, sources: Vec::new() };
            let found = rows(&mut self.session, &sources).map_err(failed)?;
            let mut is_known = true;
            for row in found {
                match row.optional::<usize>("place")?.and_then(|place| known.get(place)) {
                    Some(source) => batch.sources.push(source.clone()),
                    None => is_known = false,
                }
            }
            if is_known {
                left.batches.push(batch);
                continue;
            }
            self.unlock(number)?;
            left.unknown = Some(refuse(
                format!(
                    "batch {number} of {name} was begun by an ingest that ended, and a file of it is not among the \
                     sources any more, or has changed"
                ),
                format!("put it back, or give the batch up: `fullbore ingest --forget {number}`"),
            ));
        }
        Ok(left)
    }

    /// Whether somebody is loading a batch at this moment.
    fn is_at_work(&mut self, number: u64) -> Result<bool> {
        for run in self.runs_of(number)? {
            if locks::is_locked(&mut self.session, &run.job).map_err(failed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The runs that load, or have loaded, into the table of a batch that is not attached.
    fn runs_of(&mut self, number: u64) -> Result<Vec<LedgerRun>> {
        let leaf = shape::leaf(&self.table.name, number, number)?;
        let mut found = runs::find(&mut self.session, &self.table.ledger, &runs::Which::All)?;
        found.retain(|run| run.tables.iter().any(|table| table.target == leaf));
        Ok(found)
    }

    /// Shows the rows of a batch that is loaded, and ends its run in the ledger. A batch without rows leaves no partition.
    pub fn attach(&mut self, batch: &Batch, run: &str, count: u64, bytes: u64) -> Result<()> {
        let (table, number) = (self.table.clone(), batch.number);
        let Table { oid, ledger, name, .. } = &table;
        let leaf = shape::leaf(name, number, number)?;
        let run = quote_literal(run).map_err(failed)?;
        let its = format!(
            "target = {oid} AND first = {number} AND last = {number} AND state = 'loading'"
        );
        let ends = match count {
            0 => format!("DELETE FROM {ledger}.batches WHERE {its}"),
            _ => format!(
                "UPDATE {ledger}.batches SET state = 'attached', rows = {count}, bytes = {bytes},
                        oldest = clock_timestamp(), newest = clock_timestamp() WHERE {its}"
            ),
        };
        let show = match count {
            0 => format!("DROP TABLE {leaf}"),
            _ => shape::attach(&table, &leaf, number, number),
        };
        let bound = shape::bound(&leaf, number, number)?;
        in_transaction(&mut self.session, |session| {
            if count > 0 {
                session.execute(&bound).map_err(failed)?;
            }
            let reveal = hidden::reveal(&leaf.to_string()).map_err(failed)?;
            let lock = format!("LOCK TABLE ONLY {name} IN SHARE UPDATE EXCLUSIVE MODE");
            insist(
                session,
                || false,
                |session| {
                    session.execute(&lock).map_err(failed)?;
                    let ended = session.execute(&ends).map_err(failed)?;
                    if ended != 1 {
                        return Err(gone(number));
                    }
                    session
                        .execute(&format!("DELETE FROM {ledger}.runs WHERE run = {run}"))
                        .map_err(failed)?;
                    let what = format!("attaching {leaf} to {name}");
                    session.execute(&show).map_err(|error| failed_while(error, &what))?;
                    if count > 0 {
                        session.execute(&reveal).map_err(failed)?;
                    }
                    Ok(())
                },
            )?;
            Ok(())
        })?;
        self.unlock(number)
    }

    /// Gives a batch up, with what a run has made for it: its sources can be taken again.
    pub fn release(&mut self, number: u64) -> Result<()> {
        let table = self.table.clone();
        let leaf = shape::leaf(&table.name, number, number)?;
        let Table { oid, ledger, .. } = &table;
        for run in self.runs_of(number)? {
            if run.state.is_over() {
                runs::remove(&mut self.session, ledger, &run.run_id)?;
            } else {
                let taken =
                    acting_as(&mut self.session, &run, |session| take_back(session, ledger, &run))?;
                if let Some(why) = taken.left_behind.into_iter().next() {
                    return Err(refuse(why, "end the session that blocks it, and start again"));
                }
            }
        }
        in_transaction(&mut self.session, |session| {
            let deleted = session
                .execute(&format!(
                    "DELETE FROM {ledger}.batches WHERE target = {oid} AND first = {number} AND last = {number} AND state = 'loading'"
                ))
                .map_err(failed)?;
            if deleted != 1 {
                return Err(gone(number));
            }
            // A source without a name stands for the last number that was given up: none is given twice.
            session
                .execute(&format!(
                    "DELETE FROM {ledger}.taken WHERE target = {oid} AND (batch = {number} OR source = '' AND batch < {number});
                     INSERT INTO {ledger}.taken (target, source, version, batch, place)
                     SELECT {oid}, '', {number}::text, {number}, 0
                      WHERE NOT EXISTS (SELECT FROM {ledger}.taken WHERE target = {oid} AND source = '');
                     DROP TABLE IF EXISTS {leaf}"
                ))
                .map_err(failed)?;
            Ok(())
        })?;
        self.unlock(number)
    }

    /// The partitions, and what is done with them.
    pub fn partitions(&mut self) -> Result<Partitions> {
        partitions(&mut self.session, &self.table)
    }

    /// Forgets which files of ours were in batches that were dropped for their age, but for those that are `still` there.
    /// Other names may be those of another process.
    pub fn forget(&mut self, is_ours: &dyn Fn(&str) -> bool, still: &[Source]) -> Result<()> {
        let Table { oid, ledger, .. } = &self.table;
        let sql = format!(
            "SELECT source, version FROM {ledger}.taken t WHERE target = {oid}
                AND batch < (SELECT min(first) FROM {ledger}.batches WHERE target = {oid} AND batches > 0)
                AND NOT EXISTS (SELECT FROM {} AS s(source, version, place)
                                 WHERE t.source = s.source AND t.version = s.version)",
            unnested(still)?
        );
        let mut gone = Vec::new();
        for row in rows(&mut self.session, &sql).map_err(failed)? {
            let name = row.text("source")?;
            if is_ours(name) {
                gone.push(Source {
                    name: name.to_owned(),
                    version: row.text("version")?.to_owned(),
                });
            }
        }
        for some in gone.chunks(1000) {
            let sql = format!(
                "DELETE FROM {ledger}.taken t USING {} AS s(source, version, place)
                  WHERE t.target = {oid} AND t.source = s.source AND t.version = s.version",
                unnested(some)?
            );
            self.session.execute(&sql).map_err(failed)?;
        }
        Ok(())
    }

    /// Leaves a batch that was taken over to others.
    pub fn unlock(&mut self, number: u64) -> Result<()> {
        let key = key(self.table.oid, number);
        self.session.execute(&format!("SELECT pg_advisory_unlock({key})")).map(drop).map_err(failed)
    }
}

/// See [`Batches::partitions`].
pub fn partitions(session: &mut Session, table: &Table) -> Result<Partitions> {
    let Table { oid, ledger, .. } = table;
    let found = rows(
        session,
        &format!(
            "SELECT first, last, batches, coalesce(rows, 0) AS rows, coalesce(bytes, 0) AS bytes,
                    state,
                    coalesce(extract(epoch FROM oldest), 0)::bigint AS oldest,
                    coalesce(extract(epoch FROM newest), 0)::bigint AS newest
               FROM {ledger}.batches WHERE target = {oid} ORDER BY first"
        ),
    )
    .map_err(failed)?;
    let mut of = Partitions::default();
    for row in &found {
        let part = part(row)?;
        match row.text("state")? {
            "loading" => of.loading.push(part.first),
            "merging" => of.merging.push((part.first, part.last)),
            "detached" => of.detached.push((part.first, part.last)),
            _ => of.shown.push(part),
        }
    }
    Ok(of)
}

fn part(row: &LedgerRow) -> Result<Part> {
    Ok(Part {
        first: row.number("first")?,
        last: row.number("last")?,
        batches: row.number("batches")?,
        rows: row.number("rows")?,
        bytes: row.number("bytes")?,
        oldest_s: row.number("oldest")?,
        newest_s: row.number("newest")?,
    })
}

fn claim(session: &mut Session, table: &Table, sources: &[Source]) -> Result<Option<Batch>> {
    let Table { oid, ledger, name, .. } = table;
    locks::take_for_transaction(
        session,
        locks::key("batches", &oid.to_string()),
        "claiming a batch",
    )?;
    // Numbers ascend as long as anything is known of those before.
    let numbered = rows(
        session,
        &format!(
            "SELECT 1 + greatest((SELECT coalesce(max(last), 0) FROM {ledger}.batches WHERE target = {oid}),
                                 (SELECT coalesce(max(batch), 0) FROM {ledger}.taken WHERE target = {oid}))
                    AS number"
        ),
    )
    .map_err(failed)?;
    let number: u64 = numbered.first().map_or(Ok(1), |row| row.number("number"))?;
    let mut taken = Vec::new();
    for (start, some) in (0..).step_by(1000).zip(sources.chunks(1000)) {
        let sql = format!(
            "WITH given AS (SELECT * FROM {} AS s(source, version, place)),
                  taken AS (INSERT INTO {ledger}.taken (target, source, version, batch, place)
                            SELECT {oid}, source, version, {number}, {start} + place FROM given
                            ON CONFLICT DO NOTHING RETURNING place)
             SELECT place - {start} - 1 AS place FROM taken ORDER BY 1",
            unnested(some)?
        );
        for row in rows(session, &sql).map_err(failed)? {
            taken.extend(some.get(row.number::<usize>("place")?).cloned());
        }
    }
    if taken.is_empty() {
        return Ok(None);
    }
    let leaf = shape::leaf(name, number, number)?;
    let mut statements = vec![shape::create(session, table, &leaf)?];
    statements.push(hidden::hide(&leaf.to_string()).map_err(failed)?);
    statements.extend(shape::indexes(session, table, &leaf)?);
    statements.push(format!(
        "INSERT INTO {ledger}.batches (target, first, last, batches, state) VALUES ({oid}, {number}, {number}, 1, 'loading')"
    ));
    statements.push(format!("SELECT pg_advisory_lock({})", key(*oid, number)));
    session
        .execute(&statements.join("; "))
        .map_err(|error| failed_while(error, &format!("making {leaf}")))?;
    Ok(Some(Batch { number, sources: taken }))
}

/// The lock of who loads a batch.
fn key(target: u32, number: u64) -> i64 {
    locks::key("batch", &format!("{target} {number}"))
}

/// Sources as a table of three columns, the last of which counts them.
fn unnested(sources: &[Source]) -> Result<String> {
    let array = |of: fn(&Source) -> &str| -> Result<String> {
        let texts = sources.iter().map(|source| quote_literal(of(source)).map_err(failed));
        Ok(format!("ARRAY[{}]::text[]", texts.collect::<Result<Vec<_>>>()?.join(", ")))
    };
    let (names, versions) = (array(|source| &source.name)?, array(|source| &source.version)?);
    Ok(format!("unnest({names}, {versions}) WITH ORDINALITY"))
}

fn gone(number: u64) -> Error {
    Error::Destination {
        message: format!("batch {number} was taken over or given up by another process"),
        hint: Some("two processes must not share one session; start the ingest again".into()),
        kind: DestinationFailure::TakenOver,
    }
}
