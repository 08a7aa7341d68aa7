//! What a server is asked while a load is planned.

use fullbore_load::TargetColumn;
use fullbore_load::plan::columns::Shapes;
use fullbore_load::target::{
    self, Choice, ExistingPartition, Making, Room, TableRequest, TargetTable, Wanted,
};
use fullbore_pgwire::session::path::OF_ROLE;
use fullbore_pgwire::{ConnectionError, QualifiedName};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::{Method, Publish};

use crate::catalog;
use crate::destination::Postgres;
use crate::direct::choice::choose;
use crate::error::{refuse, refused};
use crate::publish::existing;
use crate::schema;
use crate::target::Target;

impl TargetTable for Target {
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
}

impl target::Target for Postgres {
    type Table = Target;

    fn room(&self) -> Result<Option<Room>> {
        self.room_left()
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
                format!(
                    "--type {given} would do nothing: table {name} exists already, and {it_has}"
                ),
                "drop the table so that --create makes it anew, alter its column, or leave --type out",
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
            Making::Columns(columns) => {
                let table = QualifiedName::parse(name).map_err(wrong)?;
                schema::create_table(&table, columns, partition_by).map_err(wrong)
            }
        }
    }

    fn describe(&self, request: &TableRequest) -> Result<Self::Table> {
        let name = QualifiedName::parse(&request.name).map_err(refused)?;
        let mut session = self.control();
        if let Some(found) = catalog::relation(&mut session, &name).map_err(refused)? {
            return self.target(&mut session, found, request, None);
        }
        let Some(create) = &request.create else {
            return Err(refuse(
                format!("there is no table {name}"),
                "create it first, or let --create make it from the files or from --schema FILE",
            ));
        };
        session.execute("BEGIN").map_err(refused)?;
        let described = session
            .execute(&format!("{OF_ROLE}{create}"))
            .and_then(|_| catalog::relation(&mut session, &name));
        session.execute("ROLLBACK").map_err(refused)?;
        let relation = described.map_err(refused)?.ok_or_else(|| {
            refuse(
                format!("the schema does not make the table {name}"),
                "name the table that the CREATE TABLE statement makes with --table",
            )
        })?;
        self.target(&mut session, relation, request, Some(create.clone()))
    }

    fn choose(&self, table: &mut Target, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
        choose(table, wanted, shapes)
    }

    fn not_resumable(&self, table: &Target) -> Result<Option<String>> {
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
            (Publish::Partitions, _) => "",
        };
        let sql = "SELECT pg_catalog.current_setting('wal_level') AS level";
        let rows = self.control().query(sql).map_err(refused)?;
        let is_minimal = rows.first().and_then(|row| row.get("level")) == Some("minimal");
        // What is made in the transaction that fills it needs no log then.
        let is_new = target.publish == Publish::Partitions
            || target.publish == Publish::Replace && method == Method::Direct;
        let log = match target.relation.is_unlogged {
            true => "WAL: none, the table is unlogged".to_owned(),
            false if is_minimal && is_new => "WAL: none for rows (wal_level = minimal)".to_owned(),
            false => format!("WAL: about {about}, indexes not counted; slots and archives keep it"),
        };
        Ok(vec![
            format!("disk: about {about}, as the rows take as text, indexes not counted{until}"),
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

    fn key_text(&self, target: &Self::Table, column: &str, value: &str) -> Result<String> {
        let literal = target.literal(column, value)?;
        let rows =
            self.control().query(&format!("SELECT {literal}::text AS key")).map_err(refused)?;
        Ok(rows.first().and_then(|row| row.get("key")).unwrap_or(value).to_owned())
    }
}
