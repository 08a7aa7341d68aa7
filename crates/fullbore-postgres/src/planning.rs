//! What a server is asked while a load is planned.

mod rights;

use std::sync::Arc;

use fullbore_load::TargetColumn;
use fullbore_load::job::Upsert;
use fullbore_load::members::Members;
use fullbore_load::plan::columns::Shapes;
use fullbore_load::target::{
    self, Choice, ExistingPartition, Making, Room, TableRequest, TargetTable, Wanted,
};
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName, Session, quote_literal};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::{Method, Publish};

use crate::catalog::{self, Relation};
use crate::direct::choice::choose;
use crate::direct::probe;
use crate::error::{refuse, refused};
use crate::members;
use crate::naming;
use crate::publish;
use crate::publish::existing;
use crate::publish::upsert::key::{self, Merging};
use crate::routes;
use crate::schema;
use crate::server::Server;
use crate::statistics;
use crate::target::PostgresTable;
use rights::may_keep;

/// Bytes of a table's rows that are handed on at a time.
const READ_BYTES: usize = 256 << 10;

impl TargetTable for PostgresTable {
    fn name(&self) -> String {
        self.relation.name.to_string()
    }

    fn columns(&self) -> &[TargetColumn] {
        &self.columns
    }

    fn create(&self) -> Option<&str> {
        self.create.as_deref()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn partition_key(&self) -> Option<&[String]> {
        self.relation.partition_key.as_ref().map(|(_, columns)| columns.as_slice())
    }

    fn second_digits(&self, column: &str) -> Option<u32> {
        let found = self.relation.columns.iter().find(|candidate| candidate.name == column)?;
        let kind = &found.catalog_type;
        let is_moment = matches!(kind.name.as_str(), "timestamp" | "timestamptz");
        u32::try_from(kind.modifier).ok().filter(|digits| is_moment && *digits < 6)
    }

    fn is_constrained(&self) -> bool {
        let columns = &self.relation.columns;
        self.relation.has_checks || columns.iter().any(|column| column.is_not_null)
    }

    fn refuses_nulls(&self) -> bool {
        self.relation.kind != 'f' && !self.relation.is_changed_before
    }

    fn keeps_old(&self) -> bool {
        self.keep_old
    }

    fn upsert(&self) -> Option<&Upsert> {
        self.merging.as_ref().map(|merging| &merging.asked)
    }
}

impl target::Target for Server {
    type Table = PostgresTable;

    fn room(&self) -> Result<Option<Room>> {
        self.room_left()
    }

    fn judges(&self) -> bool {
        true
    }

    fn existing_columns(&self, name: &str) -> Result<Option<Vec<TargetColumn>>> {
        let name = QualifiedName::parse(name).map_err(refused)?;
        let found = catalog::relation(&mut self.control(), &name).map_err(refused)?;
        Ok(found.map(|relation| self.columns_of(&relation)))
    }

    fn check_given_types(
        &self,
        name: &str,
        columns: &[TargetColumn],
        types: &[String],
    ) -> Result<()> {
        for given in types {
            let Some((column, wanted)) = given.split_once('=') else { continue };
            let found = columns.iter().find(|known| known.name == column);
            if found.is_some_and(|found| self.is_type(&found.type_name, wanted)) {
                continue;
            }
            let it_has = match found {
                Some(found) => format!("its column {column:?} is {}", found.type_name),
                None => format!("it has no column {column:?}"),
            };
            return Err(refuse(
                format!("--type {given} has no effect: table {name} already exists, and {it_has}"),
                "drop the table so that --create creates it again, alter its column, or omit --type",
            ));
        }
        Ok(())
    }

    fn create_statement(
        &self,
        name: &str,
        making: Making<'_>,
        partition_by: Option<&str>,
    ) -> Result<String> {
        let wrong = |error: ConnectionError| Error::usage(error.to_string());
        match making {
            Making::Statement(sql) => schema::with_partition(sql, partition_by).map_err(wrong),
            Making::Columns(columns, key) => {
                let table = QualifiedName::parse(name).map_err(wrong)?;
                schema::create_table(&table, columns, key, partition_by).map_err(wrong)
            }
        }
    }

    fn describe(&self, request: &TableRequest) -> Result<Self::Table> {
        let name = QualifiedName::parse(&request.name).map_err(refused)?;
        let mut session = self.control();
        if let Some(found) = catalog::relation(&mut session, &name).map_err(refused)? {
            let merging = merging(&mut session, &found, request)?;
            return self.target(&mut session, found, request, (None, merging));
        }
        let Some(create) = &request.create else {
            return Err(refuse(
                format!("table {name} does not exist"),
                "create it first, or use --create to create it from the files or from --schema \
                 FILE",
            ));
        };
        session.execute("BEGIN").map_err(refused)?;
        let described = session
            .execute(&format!("{OF_ROLE}{create}"))
            .and_then(|_| catalog::relation(&mut session, &name))
            .map_err(refused);
        let described = described.and_then(|relation| {
            let relation = relation.ok_or_else(|| {
                refuse(
                    format!("the schema file does not create table {name}"),
                    "set --table to the table of the CREATE TABLE statement",
                )
            })?;
            let merging = merging(&mut session, &relation, request)?;
            Ok((relation, merging))
        });
        session.execute("ROLLBACK").map_err(refused)?;
        let (relation, merging) = described?;
        self.target(&mut session, relation, request, (Some(create.clone()), merging))
    }

    fn choose(&self, table: &mut PostgresTable, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
        let mut choice = choose(table, wanted, shapes)?;
        if table.is_piecewise() && table.relation.kind == 'p' {
            choice.reason += &self.route(table, shapes)?;
        }
        statistics::choice::choose(self, table, shapes)?;
        Ok(choice)
    }

    fn not_resumable(&self, table: &PostgresTable) -> Result<Option<String>> {
        self.ledger_obstacle(table)
    }

    fn space_words(
        &self,
        target: &Self::Table,
        method: Method,
        bytes: Option<u64>,
    ) -> Result<Vec<String>> {
        let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else { return Ok(Vec::new()) };
        let about = fullbore_record::ceilings::size_words(bytes);
        let until = match (target.publish, target.atomic) {
            (Publish::Append, false) => "",
            (Publish::Append, true) => {
                "; as much again for the staging table, until it is published"
            }
            (Publish::Replace, _) => "; the old table stays until the swap",
            (Publish::Upsert, _) => {
                "; up to twice as much again for tables that rows are sorted in, until it is published"
            }
            (Publish::Partitions, _) => "",
        };
        let sql = "SELECT pg_catalog.current_setting('wal_level') AS level";
        let rows = self.control().query(sql).map_err(refused)?;
        let is_minimal = rows.first().and_then(|row| row.get("level")) == Some("minimal");
        // What is made in the transaction that fills it needs no log then.
        let is_new = target.publish == Publish::Partitions || method == Method::Direct;
        let log = match target.relation.is_unlogged {
            true => "WAL: none, the table is unlogged".to_owned(),
            false if is_minimal && is_new => "WAL: none for rows (wal_level = minimal)".to_owned(),
            false => format!(
                "WAL: about {about} without indexes; kept for replication slots and the archive"
            ),
        };
        Ok(vec![
            format!("disk: about {about} without indexes (size of the rows as text){until}"),
            log,
        ])
    }

    fn partitions(&self, target: &Self::Table) -> Result<Vec<ExistingPartition>> {
        if target.create.is_some() {
            return Ok(Vec::new());
        }
        let found = existing::partitions(&mut self.control(), target.relation.oid)?;
        let of_name = |it: existing::Existing| ExistingPartition {
            name: it.name.to_string(),
            lower: it.lower,
            upper: it.upper,
        };
        Ok(found.into_iter().map(of_name).collect())
    }

    fn check_replaceable(&self, target: &Self::Table, partition: &str) -> Result<()> {
        let partition = QualifiedName::parse(partition).map_err(refused)?;
        existing::check_replaceable(&mut self.control(), target.relation.oid, &partition)
    }

    fn read_table(&self, name: &str, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let name = QualifiedName::parse(name).map_err(refused)?;
        let found = catalog::relation(&mut self.control(), &name).map_err(refused)?;
        let name = found.map_or(name, |relation| relation.name);
        let (mut lines, mut stopped) = (Vec::new(), None);
        let sql = format!("{OF_ROLE}COPY (SELECT * FROM {name}) TO STDOUT");
        let copied = self.control().copy_out(&sql, &mut |data| {
            lines.extend_from_slice(data);
            if lines.len() < READ_BYTES {
                return Ok(());
            }
            stopped = take(&lines).err();
            lines.clear();
            match &stopped {
                None => Ok(()),
                Some(_) => Err(std::io::Error::other("it is not wanted any more")),
            }
        });
        if let Some(error) = stopped {
            return Err(error);
        }
        copied.map_err(refused)?;
        if lines.is_empty() { Ok(()) } else { take(&lines) }
    }

    fn members(&self, name: &str, key: &[String]) -> Result<Arc<dyn Members>> {
        let name = QualifiedName::parse(name).map_err(refused)?;
        let mut control = self.control();
        let found = catalog::relation(&mut control, &name).map_err(refused)?;
        let name = found.map_or(name, |relation| relation.name);
        members::of(&mut control, self.ways(), name, key)
    }

    fn key_text(&self, target: &Self::Table, column: &str, value: &str) -> Result<String> {
        let literal = target.literal(column, value)?;
        let rows =
            self.control().query(&format!("SELECT {literal}::text AS key")).map_err(refused)?;
        Ok(rows.first().and_then(|row| row.get("key")).unwrap_or(value).to_owned())
    }
}

impl Server {
    /// Has rows sent to the partitions that they belong to where that can be told here; in words, whether they are.
    fn route(&self, table: &mut PostgresTable, shapes: &Shapes) -> Result<String> {
        if table.create.is_some() {
            return Ok(String::new());
        }
        let routes = routes::of(&mut self.control(), table, shapes)?;
        if let (Err(why), true) = (&routes, table.direct.is_some()) {
            return Err(refuse(
                format!(
                    "{} can't be loaded directly: only the server finds each row's partition ({why})",
                    table.name()
                ),
                "use --method auto, which falls back to COPY",
            ));
        }
        let words = match &routes {
            Ok(routes) => format!("; rows go straight to its {} partitions", routes.count() - 1),
            Err(why) => format!("; the server finds each row's partition ({why})"),
        };
        table.routes = routes.ok().map(Arc::new);
        Ok(words)
    }

    /// Whether a type is meant by what somebody wrote; a limit in parentheses counts as it is written.
    pub(crate) fn is_type(&self, type_name: &str, written: &str) -> bool {
        let limit = |name: &str| -> String {
            let open = name.find('(').map_or("", |at| &name[at..]);
            let within = open.find(')').map_or("", |at| &open[..at]);
            within.chars().filter(|c| !c.is_whitespace()).collect()
        };
        let (Ok(one), Ok(other)) = (quote_literal(type_name), quote_literal(written)) else {
            return false;
        };
        // What is no type at all makes an error, or NULL.
        let asked =
            format!("SELECT pg_catalog.to_regtype({one}) = pg_catalog.to_regtype({other}) AS same");
        let answer = self.control().query(&asked);
        let is_same = answer.is_ok_and(|rows| rows.first().is_some_and(|r| r.flag("same")));
        is_same && limit(type_name) == limit(written)
    }

    pub(crate) fn columns_of(&self, relation: &Relation) -> Vec<TargetColumn> {
        let zoneless_is_utc = self.reading().zoneless_is_utc();
        let columns = relation.columns.iter().map(|column| TargetColumn {
            name: column.name.clone(),
            type_name: column.type_name.clone(),
            field_type: column.catalog_type.field_type(zoneless_is_utc),
            is_nullable: !column.is_not_null,
            is_generated: column.is_generated,
            fills_itself: column.is_identity || column.has_default,
            keeps_rows_text: !column.has_binary_input,
        });
        columns.collect()
    }

    /// What is known of a table, as it is to be loaded.
    pub(crate) fn target(
        &self,
        session: &mut Session,
        relation: Relation,
        request: &TableRequest,
        (create, merging): (Option<String>, Option<Merging>),
    ) -> Result<PostgresTable> {
        let name = &relation.name;
        // A job file may say anything, and no table of somebody's is truncated.
        if request.is_fresh && naming::maker(name).is_none() {
            return Err(refuse(
                format!("{name} was not made for this load alone"),
                "omit `fresh`, which sinks of engines set for tables of their own",
            ));
        }
        self.check_tablespaces(session)?;
        match relation.kind {
            'r' | 'p' => {}
            'f' if request.publish == Publish::Append => {}
            kind => {
                let what = match kind {
                    'v' => "a view",
                    'm' => "a materialized view",
                    'f' => "a foreign table",
                    'i' | 'I' => "an index",
                    'S' => "a sequence",
                    _ => "no table",
                };
                return Err(refuse(
                    format!("{name} is {what}"),
                    "name a table with --table; foreign tables can be appended to",
                ));
            }
        }
        let needs_staging = request.publish != Publish::Append || request.atomic;
        if needs_staging && !self.settings.allow_publication {
            let publications = catalog::publications_for_all_tables(session).map_err(refused)?;
            if !publications.is_empty() {
                return Err(refuse(
                    format!(
                        "publication {} covers all tables and would publish staging tables too",
                        publications.join(", ")
                    ),
                    "load with --publish append (without --atomic and --max-rejects), or allow it with \
                     --allow-publication",
                ));
            }
        }
        let company = match request.publish {
            Publish::Replace => catalog::oids(session, &request.replaced_with)?,
            _ => Vec::new(),
        };
        if create.is_none() {
            let is_allowed = self.settings.allow_publication;
            publish::check(session, &relation, request.publish, &company, is_allowed)?;
        }
        let mut columns = self.columns_of(&relation);
        // A row without a key meets no other.
        let is_key = |name: &String| merging.iter().any(|merging| merging.asked.key.contains(name));
        for column in columns.iter_mut().filter(|column| is_key(&column.name)) {
            column.is_nullable = false;
        }
        let is_there = create.is_none();
        if request.keep_old && is_there {
            may_keep(session, &relation)?;
        }
        let mut target = PostgresTable {
            relation,
            create,
            columns,
            publish: request.publish,
            atomic: request.atomic,
            merging,
            // What a run makes itself is nothing to keep.
            keep_old: request.keep_old && is_there,
            company,
            is_fresh: request.is_fresh,
            since: request.since.clone(),
            probe: None,
            direct: None,
            routes: None,
            statistics: None,
            notes: Vec::new(),
        };
        if target.publish == Publish::Replace && !target.relation.is_unlogged {
            let slots = catalog::logical_slots_of_all_tables(session).map_err(refused)?;
            target.notes.extend(decoded(&target, &slots));
        }
        if request.method != Method::Copy {
            let skip_decoding = self.settings.skip_logical_decoding;
            target.probe = Some(probe::probe(session, &target, request, skip_decoding)?);
        }
        Ok(target)
    }
}

/// How the rows of a table are merged with those that it has, if they are.
fn merging(
    session: &mut Session,
    relation: &Relation,
    request: &TableRequest,
) -> Result<Option<Merging>> {
    let asked = request.upsert.as_ref();
    asked.map(|asked| key::find(session, relation, asked)).transpose()
}

/// What logical slots show of a table that is replaced.
fn decoded(target: &PostgresTable, slots: &[(String, String)]) -> Option<String> {
    let named = |(slot, plugin): &(String, String)| format!("{slot:?} ({plugin})");
    let names = slots.iter().map(named).collect::<Vec<_>>().join(", ");
    let (slots, show) = match slots {
        [] => return None,
        [_] => ("slot", "shows"),
        _ => ("slots", "show"),
    };
    Some(format!(
        "logical {slots} {names} {show} this load as INSERTs into a staging table (its name \
         contains {:?}), without a TRUNCATE of {}: consumers must copy the table again",
        naming::MARK,
        target.name()
    ))
}
