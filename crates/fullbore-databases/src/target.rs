//! A database while a load into it is planned.

use std::sync::Arc;

use fullbore_load::TargetColumn;
use fullbore_load::members::Members;
use fullbore_load::plan::columns::Shapes;
use fullbore_load::target::{
    Choice, ExistingPartition, Making, Room, TableRequest, Target, Wanted,
};
use fullbore_pgwire::{QualifiedName, quote_identifier};
use fullbore_read::error::{Error, Result};
use fullbore_record::terms::{Method, Publish};

use crate::database::Database;
use crate::error::cannot;
use crate::table::{Column, Table, listed, target_column};

fn parsed(name: &str) -> Result<QualifiedName> {
    QualifiedName::parse(name).map_err(|error| Error::usage(error.to_string()))
}

impl Database {
    fn columns_of(&self, name: &QualifiedName) -> Result<Option<Vec<Column>>> {
        let mut link = self.control();
        let columns = self.dialect().columns(link.as_mut(), name);
        link.rollback()?;
        columns
    }

    /// The columns of a table that a statement would make.
    fn columns_made(&self, name: &QualifiedName, create: &str) -> Result<Vec<Column>> {
        let mut link = self.control();
        let columns = self.dialect().columns_made(link.as_mut(), name, create);
        link.rollback()?;
        columns?.ok_or_else(|| cannot(format!("{name} was not made by: {create}"), "check --type"))
    }

    fn cannot(&self, what: &str, hint: &str) -> Error {
        cannot(format!("{what} is not possible in {}", self.name()), hint)
    }
}

impl Target for Database {
    type Table = Table;

    fn room(&self) -> Result<Option<Room>> {
        // The plan takes one of them to be that of whoever watches.
        Ok(self.dialect().writers().map(|writers| Room {
            left: writers + 1,
            words: format!("{} lets {writers} connection write at a time", self.name()),
        }))
    }

    fn routes_rows(&self) -> bool {
        self.dialect().exchanges_partitions()
    }

    fn piece_bytes_least(&self) -> u64 {
        self.dialect().piece_bytes_least()
    }

    fn existing_columns(&self, name: &str) -> Result<Option<Vec<TargetColumn>>> {
        let columns = self.columns_of(&parsed(name)?)?;
        Ok(columns.map(|columns| columns.iter().map(target_column).collect()))
    }

    fn check_given_types(&self, name: &str, _: &[TargetColumn], types: &[String]) -> Result<()> {
        match types.first() {
            None => Ok(()),
            Some(given) => Err(cannot(
                format!("--type {given}: {name} exists already, so its columns have types"),
                "omit --type, or drop the table first",
            )),
        }
    }

    fn create_statement(
        &self,
        name: &str,
        making: Making<'_>,
        partition_by: Option<&str>,
    ) -> Result<String> {
        if partition_by.is_some() {
            return Err(self.cannot("--partition-by", "omit it"));
        }
        let (columns, key) = match making {
            Making::Statement(sql) => return Ok(sql.trim_end_matches([';', '\n', ' ']).to_owned()),
            Making::Columns(columns, key) => (columns, key),
        };
        if !self.dialect().keeps_ledger() {
            return Err(cannot(
                "--create: the driver does not tell whether the making of a table can be rolled back",
                "create the table first",
            ));
        }
        let columns = columns.iter().map(|column| {
            let name = quote_identifier(&column.name).map_err(|e| Error::usage(e.to_string()))?;
            Ok(format!("{name} {}", self.dialect().made_as(column)))
        });
        let mut parts = columns.collect::<Result<Vec<_>>>()?;
        if !key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", listed(key.iter().map(String::as_str))?));
        }
        Ok(format!("CREATE TABLE {} ({})", parsed(name)?, parts.join(", ")))
    }

    fn describe(&self, request: &TableRequest) -> Result<Table> {
        match request.publish {
            Publish::Append | Publish::Replace => {}
            Publish::Partitions if self.routes_rows() && request.create.is_none() => {}
            Publish::Partitions | Publish::Upsert => {
                let what = format!("--publish {}", request.publish.name());
                return Err(self.cannot(&what, "use --publish append or replace"));
            }
        }
        if request.keep_old {
            return Err(self.cannot("--keep-old", "copy the table first, and omit it"));
        }
        let name = parsed(&request.name)?;
        let columns = match &request.create {
            Some(create) => self.columns_made(&name, create)?,
            None => self.columns_of(&name)?.ok_or_else(|| {
                cannot(
                    format!("{name} does not exist in {}", self.place().told()),
                    "add --create to make it from the files, or check its name",
                )
            })?,
        };
        if request.create.is_none() {
            let mut link = self.control();
            let checked = self.dialect().check(link.as_mut(), &name, request.publish);
            link.rollback()?;
            checked?;
        }
        let is_piecewise = request.publish == Publish::Append && !request.atomic;
        if is_piecewise && !self.dialect().keeps_ledger() {
            return Err(cannot(
                "the driver does not tell what its transactions take in: it would be unknown which \
                 pieces are in if the load failed",
                "add --atomic: rows are staged, and inserted by one statement",
            ));
        }
        let create = request.create.clone();
        Ok(Table::new(name, columns, create, request.publish, request.atomic))
    }

    fn choose(&self, table: &mut Table, wanted: Wanted, shapes: &Shapes) -> Result<Choice> {
        if wanted.method == Method::Direct {
            return Err(self.cannot("--method direct", "omit it"));
        }
        let loaded = |column: &Column| shapes.typed.columns.iter().any(|c| c.name == column.name);
        let is_left_out = |column: &&Column| !loaded(column) && column.fills_itself;
        if let Some(column) = table.columns.iter().find(is_left_out)
            && self.dialect().is_positional()
            && !table.is_staged()
        {
            let (name, column) = (&table.name, &column.name);
            return Err(cannot(
                format!(
                    "{name}: {} would not fill column {column} with its default, since its driver \
                     takes all columns by their places",
                    self.name()
                ),
                "load it too, or add --atomic: staged rows are inserted by the columns' names",
            ));
        }
        Ok(Choice { method: Method::Copy, reason: self.dialect().sends() })
    }

    fn not_resumable(&self, _: &Table) -> Result<Option<String>> {
        let reason = "it is not known what the driver's transactions take in";
        Ok((!self.dialect().keeps_ledger()).then(|| reason.to_owned()))
    }

    fn space_words(&self, _: &Table, _: Method, _: Option<u64>) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn partitions(&self, _: &Table) -> Result<Vec<ExistingPartition>> {
        Ok(Vec::new())
    }

    fn check_replaceable(&self, _: &Table, partition: &str) -> Result<()> {
        Err(self.cannot(&format!("replacing partition {partition}"), "use --publish replace"))
    }

    fn read_table(&self, name: &str, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Err(self.cannot(
            &format!("a lookup in table {name}"),
            "export it to a file and look up in that",
        ))
    }

    fn members(&self, name: &str, _: &[String]) -> Result<Arc<dyn Members>> {
        Err(self
            .cannot(&format!("adding members to {name}"), "choose another way for missing keys"))
    }

    fn key_text(&self, _: &Table, _: &str, value: &str) -> Result<String> {
        Ok(value.to_owned())
    }
}
