//! What is loaded into: a table, how it is described and what is asked of it.

use std::sync::Arc;

use fullbore_load::TargetColumn;
use fullbore_load::plan::Plan;
use fullbore_pgwire::{QualifiedName, quote_identifier, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::{Method, Publish, Stage};

use crate::catalog::{Column, Relation};
use crate::direct::known::{Direct, Probe};
use crate::error::{failed, refuse, refused};
use crate::publish::upsert::key::Merging;
use crate::routes::Routes;
use crate::statistics::known::Made;

/// A target as the destination will load it.
#[derive(Debug, Clone)]
pub struct PostgresTable {
    pub relation: Relation,
    /// The statement that makes it, where it is not there yet.
    pub create: Option<String>,
    /// The columns in the order sent, each as it is sent.
    pub columns: Vec<TargetColumn>,
    pub publish: Publish,
    pub atomic: bool,
    /// How its rows are merged with those that are there, if they are.
    pub merging: Option<Merging>,
    /// The table that is replaced is kept.
    pub keep_old: bool,
    /// The tables that are replaced in the same transaction, this one among them.
    pub company: Vec<u32>,
    /// It was made for this load alone, which may truncate it.
    pub is_fresh: bool,
    /// What was known of it when rows began to be read ([`crate::Server::known_now`]), where that was before now.
    pub since: Option<String>,
    /// What is known of loading it directly, before the method is chosen.
    pub probe: Option<Probe>,
    /// How it is loaded directly, if it is.
    pub direct: Option<Direct>,
    /// Where its rows go, if each is sent to its partition.
    pub routes: Option<Arc<Routes>>,
    /// How its statistics are made, if the client makes them.
    pub statistics: Option<Made>,
    /// What whoever loads should know of it.
    pub notes: Vec<String>,
}

impl Relation {
    /// A value of a column as a literal of its type.
    pub fn literal(&self, column: &str, value: &str) -> Result<String> {
        let found = self.columns.iter().find(|candidate| candidate.name == column);
        let column = found.ok_or_else(|| {
            refuse(format!("{} has no column {column:?}", self.name), "check --partition-by")
        })?;
        Ok(format!("{}::{}", quote_literal(value).map_err(refused)?, column.type_name))
    }
}

impl PostgresTable {
    pub fn name(&self) -> &QualifiedName {
        &self.relation.name
    }

    /// Itself, for `FROM` and `UPDATE`, without tables that inherit from it: keys are not about their rows.
    pub fn alone(&self) -> String {
        let only = if self.relation.kind == 'p' { "" } else { "ONLY " };
        format!("{only}{}", self.name())
    }

    /// `(a, "b c")` for the columns that are sent.
    pub fn column_list(&self, plan: &Plan, table: usize) -> Result<String> {
        let columns = &plan.tables[table].shape.columns;
        let quoted: Result<Vec<_>, _> =
            columns.iter().map(|column| quote_identifier(&column.name)).collect();
        Ok(quoted.map_err(failed)?.join(", "))
    }

    /// The identity columns that are not sent: the target's sequence fills them.
    pub fn filled(&self, plan: &Plan, table: usize) -> Vec<&Column> {
        let sent = &plan.tables[table].shape.columns;
        let is_sent = |column: &Column| sent.iter().any(|sent| sent.name == column.name);
        let columns = self.relation.columns.iter();
        columns.filter(|column| column.is_identity && !is_sent(column)).collect()
    }

    /// A value of a column as a literal of its type.
    pub fn literal(&self, column: &str, value: &str) -> Result<String> {
        self.relation.literal(column, value)
    }

    /// Where its rows are until they are published.
    pub fn stage(&self) -> Stage {
        self.publish.stage(self.atomic)
    }

    pub fn method(&self) -> Method {
        if self.direct.is_some() { Method::Direct } else { Method::Copy }
    }

    /// Whether one session alone can fill it.
    pub fn has_one_session(&self) -> bool {
        self.publish.has_one_session(self.method())
    }

    /// How its partitions are loaded directly, where they are there already, and where rows go.
    pub fn leaves(&self) -> Option<(&Direct, &Routes)> {
        self.direct.as_ref().zip(self.routes.as_deref())
    }

    /// Whether all its rows are inserted by one statement.
    pub fn is_inserted_at_once(&self) -> bool {
        self.publish == Publish::Append && self.atomic
    }

    /// Whether its rows are visible as each piece is committed.
    pub fn is_piecewise(&self) -> bool {
        self.stage() == Stage::Target
    }

    /// Whether the table that its pieces fill is emptied by a crash of the server.
    pub fn fills_unlogged(&self) -> bool {
        match self.publish {
            Publish::Append => self.atomic || self.relation.is_unlogged,
            // The staging table.
            Publish::Upsert => true,
            Publish::Replace => self.relation.is_unlogged,
            // Made by us, logged.
            Publish::Partitions => false,
        }
    }

    /// Where pieces that share one staging table go.
    pub fn staging(&self, plan: &Plan) -> Result<QualifiedName> {
        crate::naming::derived(self.name(), plan.shared_id(), "new").map_err(failed)
    }

    /// Where rows are that will be merged, one for each key.
    pub fn ranked(&self, plan: &Plan) -> Result<QualifiedName> {
        crate::naming::derived(self.name(), plan.shared_id(), "merge").map_err(failed)
    }

    /// Where the table that it replaces is kept, if it is.
    pub fn kept(&self, run_id: &str) -> Result<Option<QualifiedName>> {
        let kept = self.keep_old.then(|| crate::naming::kept(self.name(), run_id));
        kept.transpose().map_err(failed)
    }

    /// The table of a piece that becomes a partition.
    pub fn piece(&self, plan: &Plan, piece: usize) -> Result<QualifiedName> {
        crate::naming::derived(self.name(), &plan.run_id, &format!("{piece:05}")).map_err(failed)
    }
}
