//! `partitions`: each piece becomes a RANGE partition, all attached in one transaction.
//!
//! A piece's table is made, filled and committed in one transaction, so that its rows skip WAL
//! where the server allows it and are frozen. A CHECK on the key range is there before the rows:
//! it holds the piece to its range, and lets ATTACH skip its scan.

use fullbore_load::plan::{KeyBounds, Plan, PlannedPiece};
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::{DestinationFailure, Error, Result};

use super::bounds::{RANGE_CHECK, bounds, end_sql, key};
use super::indexes::{self, Job};
use super::ours::ours_among;
use super::{existing, hidden, ranges};
use crate::catalog::{self, IndexDefinition, Relation};
use crate::error::{failed, failed_while, refuse};
use crate::postgres::Postgres;
use crate::target::PostgresTable;

/// The name of the CHECK that holds a piece to what its future parent is held to itself.
const PARENTS_CHECK: &str = "fullbore_parents_range";

pub fn check(relation: &Relation) -> Result<()> {
    match &relation.partition_key {
        None => Err(refuse(
            format!("{} is not partitioned", relation.name),
            "load with --publish replace or append, or create it with --create --partition-by \
             COLUMN",
        )),
        Some((strategy, _)) if *strategy != 'r' => Err(refuse(
            format!("{} is partitioned by list or hash", relation.name),
            "pieces become RANGE partitions; load with --publish append",
        )),
        Some((_, columns)) if columns.len() != 1 || columns[0].is_empty() => Err(refuse(
            format!("{} is partitioned by several columns or an expression", relation.name),
            "pieces can be split only by one plain column; load with --publish append",
        )),
        Some(_) => Ok(()),
    }
}

/// The statement that makes a piece's table, held to its range by a CHECK, or without one where
/// the method of loading sees to that.
pub fn create_piece(
    postgres: &Postgres,
    plan: &Plan,
    target: &PostgresTable,
    piece: &PlannedPiece,
    name: &QualifiedName,
) -> Result<String> {
    let mut check = match target.direct {
        Some(_) => String::new(),
        None => format!(", {}", range_check(target, piece)?),
    };
    if let Some(parents) = &target.relation.partition_constraint {
        check.push_str(&format!(", CONSTRAINT {PARENTS_CHECK} CHECK ({parents})"));
    }
    // As a partition that is made by hand lies where its parent's lie.
    let tablespace = match (postgres.tablespace(piece.number)?, &target.relation.tablespace) {
        (asked, Some(parents)) if asked.is_empty() => {
            format!(" TABLESPACE {}", quote_identifier(parents).map_err(failed)?)
        }
        (asked, _) => asked,
    };
    let mut sql = like(target.name(), name, &check, &tablespace);
    // It can't have an identity of its own, so it borrows the sequence until it is attached.
    for column in target.filled(plan, piece.table) {
        let sequence = column.sequence.as_deref().ok_or_else(|| {
            refuse(
                format!(
                    "{}: identity column {} has no sequence to fill it with",
                    target.name(),
                    column.name
                ),
                "include it in the files, or load with --publish append",
            )
        })?;
        let column = quote_identifier(&column.name).map_err(failed)?;
        let sequence = quote_literal(sequence).map_err(failed)?;
        sql.push_str(&format!(
            "; ALTER TABLE {name} ALTER {column} SET DEFAULT nextval({sequence}::regclass)"
        ));
    }
    sql.push_str(&format!("; {}", hidden::hide(&name.to_string()).map_err(failed)?));
    Ok(sql)
}

/// The statement that makes a table which can be attached to `parent`.
pub fn like(parent: &QualifiedName, name: &QualifiedName, check: &str, tablespace: &str) -> String {
    // Never INCLUDING ALL: ATTACH refuses a child with an identity column, and indexes come later.
    format!(
        "CREATE TABLE {name} (LIKE {parent} INCLUDING DEFAULTS INCLUDING CONSTRAINTS \
         INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS{check})\
         {tablespace}"
    )
}

/// The CHECK that holds a piece to its range.
pub fn range_check(target: &PostgresTable, piece: &PlannedPiece) -> Result<String> {
    let relation = &target.relation;
    let key = quote_identifier(key(relation)?).map_err(failed)?;
    let KeyBounds { lower, upper, .. } = bounds(piece);
    let mut range = format!("{key} IS NOT NULL");
    for (comparison, end) in [(">=", lower), ("<", upper)] {
        if end.value().is_some() {
            range.push_str(&format!(" AND {key} {comparison} {}", end_sql(relation, end)?));
        }
    }
    Ok(format!("CONSTRAINT {RANGE_CHECK} CHECK ({range})"))
}

/// A row outside its piece's range: the sources are not in the order that the ranges need.
pub fn overlap(plan: &Plan, piece: &PlannedPiece, error: &ConnectionError) -> Error {
    let table = &plan.tables[piece.table];
    let KeyBounds { lower, upper, .. } = bounds(piece);
    let row = error.server_message().and_then(|message| message.detail.clone()).unwrap_or_default();
    let neighbours: Vec<String> = plan
        .pieces
        .iter()
        .filter(|other| other.table == piece.table && other.number.abs_diff(piece.number) == 1)
        .filter_map(|other| other.bounds.as_ref())
        .map(|bounds| format!("{} to {}", bounds.lower, bounds.upper))
        .collect();
    Error::Destination {
        message: format!(
            "{}: the sources' key ranges overlap: a row of the piece from {lower} to {upper} has a \
             key outside this range, or NULL (neighbouring pieces: {}); {row}",
            table.name,
            neighbours.join(" and ")
        ),
        hint: Some(
            "sort the files by the key and write keys in canonical form (other keys are not in the \
             ranges found beforehand), read all keys first with --scan-keys, or load with \
             --publish replace or append"
                .into(),
        ),
        kind: DestinationFailure::Sources,
    }
}

/// The parent's indexes on every piece's table, so that ATTACH finds them there.
pub fn index_jobs(
    postgres: &Postgres,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<Vec<Job>> {
    let mut session = postgres.control();
    let oid = current(&mut session, target)?.oid;
    let wanted = catalog::indexes(&mut session, oid).map_err(failed)?;
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let pieces = loaded_pieces(&mut session, plan, table, target)?;
    // With the rows, or by an earlier attempt.
    let mut built = match postgres.is_later_attempt() || target.direct.is_some() {
        true => {
            let oids: Vec<u32> = pieces.iter().map(|piece| piece.oid).collect();
            catalog::indexes_of(&mut session, &oids).map_err(failed)?
        }
        false => Vec::new(),
    };
    let mut jobs = Vec::new();
    for piece in &pieces {
        let mut its: Vec<IndexDefinition> = built
            .extract_if(.., |(table, _)| *table == piece.oid)
            .map(|(_, index)| index)
            .collect();
        for index in &wanted {
            match its.iter().position(|built| is_alike(index, built)) {
                Some(at) => {
                    let built = its.swap_remove(at);
                    if !built.is_valid {
                        let mut job = indexes::job(index, &piece.name, target.name())?;
                        let drop = indexes::not_unique(plan, &piece.name, &built, &job.what)?;
                        job.statements.insert(0, drop);
                        jobs.push(job);
                    }
                }
                None => jobs.push(indexes::job(index, &piece.name, target.name())?),
            }
        }
    }
    Ok(jobs)
}

fn is_alike(wanted: &IndexDefinition, built: &IndexDefinition) -> bool {
    let definition = |index: &IndexDefinition| {
        index.constraint.as_ref().map(|constraint| constraint.definition.clone())
    };
    wanted.tail == built.tail
        && wanted.is_unique == built.is_unique
        && definition(wanted) == definition(built)
}

/// The target as it is now: a table made by this run was described before it was made.
pub fn current(session: &mut Session, target: &PostgresTable) -> Result<Relation> {
    let relation = catalog::relation(session, target.name()).map_err(failed)?;
    relation.ok_or_else(|| Error::Destination {
        message: format!("{} no longer exists", target.name()),
        hint: Some("it was dropped or renamed during the load".into()),
        kind: DestinationFailure::Other,
    })
}

/// A piece that holds rows, in a table of its own.
pub struct LoadedPiece<'a> {
    pub piece: &'a PlannedPiece,
    pub name: QualifiedName,
    pub oid: u32,
}

/// The pieces of a table that hold rows: an empty one made no table.
pub fn loaded_pieces<'a>(
    session: &mut Session,
    plan: &'a Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<Vec<LoadedPiece<'a>>> {
    let pieces: Vec<_> = plan.pieces.iter().filter(|piece| piece.table == table).collect();
    let names = pieces.iter().map(|piece| target.piece(plan, piece.number));
    let names = names.collect::<Result<Vec<_>>>()?;
    let oids = ours_among(session, &names, &target.relation)?;
    let found = pieces.into_iter().zip(names).zip(oids);
    let loaded =
        found.filter_map(|((piece, name), oid)| Some(LoadedPiece { piece, name, oid: oid? }));
    Ok(loaded.collect())
}

/// Attaches all pieces, in the transaction that is open; `committed` of them have tables, where that
/// is known.
pub fn show(
    postgres: &Postgres,
    session: &mut Session,
    plan: &Plan,
    table: usize,
    committed: Option<usize>,
) -> Result<()> {
    let target = &postgres.targets()[table];
    let loaded = loaded_pieces(session, plan, table, target)?;
    // Whether the files have an identity column, only the host knows that read them; without a default
    // there is none to take away.
    let identities = target.relation.columns.iter().filter(|column| column.is_identity);
    let borrowed: Result<Vec<String>, ConnectionError> =
        identities.map(|column| quote_identifier(&column.name)).collect();
    let borrowed = borrowed.map_err(failed)?;
    if committed.is_some_and(|committed| committed != loaded.len()) {
        return Err(Error::Destination {
            message: format!(
                "a table with loaded rows of {} was dropped by another session",
                target.name()
            ),
            hint: Some("nothing was published; load again".into()),
            kind: DestinationFailure::Sources,
        });
    }
    ranges::lock_if_replaced(session, &[plan], table, target)?;
    // As ATTACH locks it; from here on it stays what it is.
    session
        .execute(&format!("LOCK TABLE ONLY {} IN SHARE UPDATE EXCLUSIVE MODE", target.name()))
        .map_err(|error| failed_while(error, &format!("locking {}", target.name())))?;
    postgres.planned(table).check(session)?;
    let relation = current(session, target)?;
    let may_be_given = hidden::is_any_given(session).map_err(failed)?;
    let mut batch = Batch::default();
    for LoadedPiece { piece, name, .. } in loaded {
        let KeyBounds { lower, upper, .. } = bounds(piece);
        let (lower, upper) = (end_sql(&relation, lower)?, end_sql(&relation, upper)?);
        let vacated = match existing::replaced(session, &relation, piece)? {
            Some(partition) => {
                batch.send(session)?;
                Some(existing::vacate(session, target, partition)?)
            }
            None => None,
        };
        for column in &borrowed {
            batch.add(format!("ALTER TABLE {name} ALTER {column} DROP DEFAULT"));
        }
        batch.add(format!(
            "ALTER TABLE {} ATTACH PARTITION {name} FOR VALUES FROM ({lower}) TO ({upper})",
            target.name()
        ));
        // The partition's own constraint says the same from here on.
        batch.add(format!(
            "ALTER TABLE {name} DROP CONSTRAINT {RANGE_CHECK}, \
             DROP CONSTRAINT IF EXISTS {PARENTS_CHECK}"
        ));
        if may_be_given {
            batch.add(hidden::reveal(&name.to_string()).map_err(failed)?);
        }
        batch.attaches(&name);
        if vacated.is_some() || batch.names.len() == BATCH_PIECES {
            batch.send(session)?;
        }
        if let Some(vacated) = vacated {
            existing::take_names(session, &name, &vacated)?;
        }
    }
    batch.send(session)
}

/// So many pieces are attached at once: a server far away would take minutes for hundreds one by one.
const BATCH_PIECES: usize = 50;

/// Statements that are sent together, and the pieces that they attach.
#[derive(Default)]
struct Batch {
    statements: Vec<String>,
    names: Vec<String>,
}

impl Batch {
    fn add(&mut self, statement: String) {
        self.statements.push(statement);
    }

    fn attaches(&mut self, name: &QualifiedName) {
        self.names.push(name.to_string());
    }

    fn send(&mut self, session: &mut Session) -> Result<()> {
        let Self { statements, names } = std::mem::take(self);
        if statements.is_empty() {
            return Ok(());
        }
        let what = match names.as_slice() {
            [first, .., last] => format!("attaching {first} to {last}"),
            names => format!("attaching {}", names.concat()),
        };
        let sent = session.execute(&statements.join("; "));
        sent.map(drop).map_err(|error| failed_while(error, &what))
    }
}

/// The partitions that this run showed, by the numbers of their pieces and the names that they have now.
pub fn shown(
    session: &mut Session,
    plan: &Plan,
    table: usize,
    target: &PostgresTable,
) -> Result<Vec<(usize, QualifiedName)>> {
    let loaded = loaded_pieces(session, plan, table, target)?;
    let mut names: Vec<_> = loaded.into_iter().map(|it| (it.piece.number, it.name)).collect();
    let relation = current(session, target)?;
    for piece in plan.pieces.iter().filter(|piece| piece.table == table) {
        let name = existing::in_place_of(session, &relation, bounds(piece))?;
        names.extend(name.map(|name| (piece.number, name)));
    }
    Ok(names)
}
