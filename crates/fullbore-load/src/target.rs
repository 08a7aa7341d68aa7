//! A destination during planning: it is queried, never changed.
//!
//! A destination that has no tables of its own (`null:`, `parquet:`) is planned for without one.

use std::sync::Arc;

use fullbore_read::error::Result;
use fullbore_record::terms::{Compress, Method, Publish};

use crate::TargetColumn;
use crate::job::{DirectIo, Upsert};
use crate::members::Members;
use crate::plan::KeyEnd;
use crate::plan::columns::Shapes;

/// What is asked of the destination for one table.
#[derive(Debug, Clone, Default)]
pub struct TableRequest {
    pub name: String,
    pub publish: Publish,
    pub atomic: bool,
    /// How rows are merged with those of the table, where they are.
    pub upsert: Option<Upsert>,
    /// The statement that makes the table, where it is not there yet.
    pub create: Option<String>,
    pub method: Method,
    /// Keep the table that is replaced.
    pub keep_old: bool,
    /// The table was made for this load alone.
    pub is_fresh: bool,
    /// What the destination knew of a table that is replaced when rows began to be read, where that was before now.
    pub since: Option<String>,
    /// The load is gone on with: what it has committed may be there.
    pub is_resumed: bool,
    /// The tables that are replaced in the same transaction: what they have of this one is no obstacle.
    pub replaced_with: Vec<String>,
}

/// A column to be made.
#[derive(Debug, Clone)]
pub struct NewColumn {
    pub name: String,
    /// The SQL type, as it is to be written.
    pub type_name: String,
    /// Of a decimal without limits that was guessed: how many digits its values have after the point, at least.
    pub fraction: Option<u8>,
}

/// What a table is made of that is not there yet.
#[derive(Debug, Clone, Copy)]
pub enum Making<'a> {
    /// These, with a primary key of the columns that are named last, if any are.
    Columns(&'a [NewColumn], &'a [String]),
    /// A statement that somebody wrote.
    Statement(&'a str),
}

/// What the job asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub method: Method,
    pub compress: Compress,
    pub io: DirectIo,
}

/// The method that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub method: Method,
    pub reason: String,
}

/// How many more connections there can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub left: usize,
    /// `role \"loader\" may have 3 connections (CONNECTION LIMIT), 1 in use`
    pub words: String,
}

/// A partition of a target, its bounds as the destination writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingPartition {
    /// Quoted, with its schema.
    pub name: String,
    pub lower: KeyEnd,
    /// Exclusive.
    pub upper: KeyEnd,
}

/// A table as the destination will load it.
pub trait TargetTable {
    /// Quoted, with its schema where it has one.
    fn name(&self) -> String;
    /// The columns in the order sent, each as it is sent.
    fn columns(&self) -> &[TargetColumn];
    /// The statement that makes it, where it is not there yet.
    fn create(&self) -> Option<&str>;
    /// What whoever loads should know of it.
    fn notes(&self) -> &[String];
    /// The columns of its partition key, where it has one.
    fn partition_key(&self) -> Option<&[String]>;
    /// How many digits of a second a column keeps, where it is a moment that keeps fewer than there can
    /// be.
    fn second_digits(&self, column: &str) -> Option<u32>;
    /// Whether rows can be refused although their values are of their types, while they are loaded.
    fn is_constrained(&self) -> bool;
    /// Whether a NULL in a column that can't be NULL is refused whatever comes.
    fn refuses_nulls(&self) -> bool;
    /// The table that is replaced is kept.
    fn keeps_old(&self) -> bool;
    /// How its rows are merged with those that it has, if they are: with the key that was found.
    fn upsert(&self) -> Option<&Upsert>;
}

/// A destination with tables, while a load into it is planned.
pub trait Target {
    type Table: TargetTable;

    /// What is left for a load beside this session; none where that is not known.
    fn room(&self) -> Result<Option<Room>>;
    /// Pieces of fewer bytes of source cost it more than they are worth.
    fn piece_bytes_least(&self) -> u64 {
        0
    }
    /// Whether it reads values that are sent as text, by its own rules.
    fn judges(&self) -> bool {
        false
    }
    /// Whether rows find their partitions by themselves, so that `partitions` needs no ranges of keys.
    fn routes_rows(&self) -> bool {
        false
    }
    /// The columns of a table, if there is one of that name.
    fn existing_columns(&self, name: &str) -> Result<Option<Vec<TargetColumn>>>;
    /// Refuses types (`column=type`) that are given to columns of a table that has others.
    fn check_given_types(
        &self,
        name: &str,
        columns: &[TargetColumn],
        types: &[String],
    ) -> Result<()>;
    /// The statement that makes a table, partitioned by a column where that is asked for.
    fn create_statement(
        &self,
        name: &str,
        making: Making<'_>,
        partition_by: Option<&str>,
    ) -> Result<String>;
    /// Describes a table; refuses what can't be loaded the way that is asked.
    fn describe(&self, request: &TableRequest) -> Result<Self::Table>;
    /// Chooses how its rows enter; the table keeps what that needs.
    fn choose(&self, table: &mut Self::Table, wanted: Wanted, shapes: &Shapes) -> Result<Choice>;
    /// Why no ledger can be kept of a table's pieces, where it can't.
    fn not_resumable(&self, table: &Self::Table) -> Result<Option<String>>;
    /// What rows of so many bytes of text take of the destination's disks, in words.
    fn space_words(
        &self,
        table: &Self::Table,
        method: Method,
        bytes: Option<u64>,
    ) -> Result<Vec<String>>;
    /// The partitions that a table has already, a default one left out; none for one that is to be made.
    fn partitions(&self, table: &Self::Table) -> Result<Vec<ExistingPartition>>;
    /// Refuses a partition that a loaded one can't take the place of.
    fn check_replaceable(&self, table: &Self::Table, partition: &str) -> Result<()>;
    /// Gives all rows of a table as lines of COPY text, whole ones at a time, its columns in their order.
    fn read_table(&self, name: &str, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
    /// What adds keys to a table by these columns. Refused where nothing keeps them unique.
    fn members(&self, name: &str, key: &[String]) -> Result<Arc<dyn Members>>;
    /// The text of a key as the destination itself writes it.
    fn key_text(&self, table: &Self::Table, column: &str, value: &str) -> Result<String>;
}
