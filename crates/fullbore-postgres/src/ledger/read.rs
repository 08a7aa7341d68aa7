//! The only way from the ledger's rows to values.
//!
//! A role that can load into a database can write to its ledger, in any column and any field of its JSON. So
//! nothing of a row is a string here that could reach a statement: ids have the shape of ids, numbers are
//! numbers, names are parsed and quoted again, ends of ranges are values ([`KeyEnd`]), and text that is for
//! people alone has a type that can't be printed by accident ([`Told`]). What does not fit is refused.
//! `tests/it/ledger_is_read.rs` holds the sources of this crate to it.
//!
//! [`KeyEnd`]: fullbore_load::plan::KeyEnd

use std::str::FromStr;

use fullbore_load::run_id::RunId;
use fullbore_pgwire::{ConnectionError, QualifiedName, Row, Session, quote_identifier};
use fullbore_read::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::state::State;
use crate::error::{failed, refuse};

/// A row of a table of the ledger.
pub struct LedgerRow(Row);

/// Rows of the ledger's tables.
pub fn rows(session: &mut Session, sql: &str) -> Result<Vec<LedgerRow>, ConnectionError> {
    Ok(session.query(sql)?.into_iter().map(LedgerRow).collect())
}

/// Numbers of one row; 0 where there is none.
pub fn numbers<const N: usize>(
    session: &mut Session,
    sql: &str,
    names: [&str; N],
) -> Result<[u64; N]> {
    let rows = rows(session, sql).map_err(failed)?;
    let mut numbers = [0; N];
    if let Some(row) = rows.first() {
        for (number, name) in numbers.iter_mut().zip(names) {
            *number = row.number(name)?;
        }
    }
    Ok(numbers)
}

impl LedgerRow {
    #[cfg(test)]
    pub fn of_test(columns: &[(&str, Option<&str>)]) -> Self {
        Self(Row::of_values(columns))
    }

    pub fn text(&self, name: &str) -> Result<&str> {
        self.0.get(name).ok_or_else(|| self.damaged(name))
    }

    /// The refusal of a row in which something else stands than Fullbore writes.
    pub fn damaged(&self, name: &str) -> Error {
        let of = |column: &str| self.0.get(column).and_then(RunId::parse);
        let run = of("run").map_or_else(String::new, |run| format!(" of run {run}"));
        refuse(
            format!("the ledger's row{run} has an unreadable value in {name}"),
            "it was written by another version of Fullbore, or changed outside Fullbore; use that \
             version, or another ledger with --ledger-schema",
        )
    }

    fn parsed<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        parse(self.text(name)?).ok_or_else(|| self.damaged(name))
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Result<T> {
        self.parsed(name, |text| text.parse().ok())
    }

    /// A number that may not be there yet.
    pub fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.0.get(name).map(|_| self.number(name)).transpose()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.flag(name)
    }

    pub fn run_id(&self, name: &str) -> Result<RunId> {
        self.parsed(name, RunId::parse)
    }

    /// A hash in hexadecimal digits.
    pub fn hash(&self, name: &str) -> Result<String> {
        let is_hash = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        self.parsed(name, |text| is_hash(text).then(|| text.to_owned()))
    }

    /// The checksum of what was read, where there is one.
    pub fn checksum(&self, name: &str) -> Result<Option<u64>> {
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        self.0.get(name).map(|_| self.parsed(name, parse)).transpose()
    }

    pub fn state(&self, name: &str) -> Result<State> {
        self.parsed(name, State::of)
    }

    /// JSON of a type whose strings are names or values, not SQL.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        self.parsed(name, |text| serde_json::from_str(text).ok())
    }

    /// Words that are compared with others and hashed.
    pub fn compared(&self, name: &str) -> Result<String> {
        self.text(name).map(str::to_owned)
    }

    pub fn told(&self, name: &str) -> Told {
        Told(self.0.get(name).unwrap_or_default().to_owned())
    }

    pub fn role(&self, name: &str) -> Result<Role> {
        self.parsed(name, |text| (!text.is_empty()).then(|| Role(text.to_owned())))
    }
}

/// Text of the ledger that is for people alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told(String);

impl Told {
    /// For messages, never for SQL.
    pub fn for_people(&self) -> &str {
        &self.0
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

/// The role that began a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role(String);

impl Role {
    /// For messages, never for SQL.
    pub fn for_people(&self) -> &str {
        &self.0
    }

    pub fn quoted(&self) -> Result<String, ConnectionError> {
        quote_identifier(&self.0)
    }
}

/// A table's name as the ledger has it: with its schema, and quoted as it is quoted here.
pub mod table_name {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::QualifiedName;

    pub fn serialize<S: Serializer>(name: &QualifiedName, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<QualifiedName, D::Error> {
        let text = String::deserialize(from)?;
        super::read_name(&text).ok_or_else(|| serde::de::Error::custom("not the name of a table"))
    }
}

fn read_name(text: &str) -> Option<QualifiedName> {
    let name = QualifiedName::parse(text).ok()?;
    (name.schema().is_some() && name.to_string() == text).then_some(name)
}
