//! What is loaded into: a table, how it is described and what is asked of it.

use fullbore_load::TargetColumn;
use fullbore_load::plan::Plan;
use fullbore_load::target::TableRequest;
use fullbore_pgwire::{QualifiedName, Session, quote_identifier, quote_literal};
use fullbore_read::error::Result;
use fullbore_record::terms::{Method, Publish};

use crate::catalog::{self, Column, Relation};
use crate::destination::Postgres;
use crate::direct::choice::Direct;
use crate::direct::probe::{self, Probe};
use crate::error::{failed, refuse, refused};
use crate::naming;
use crate::publish;

/// A target as the destination will load it.
#[derive(Debug, Clone)]
pub struct Target {
    pub relation: Relation,
    /// The statement that makes it, where it is not there yet.
    pub create: Option<String>,
    /// The columns in the order sent, each as it is sent.
    pub columns: Vec<TargetColumn>,
    pub publish: Publish,
    pub atomic: bool,
    /// The table that is replaced is kept.
    pub keep_old: bool,
    /// What is known of loading it directly, before the method is chosen.
    pub probe: Option<Probe>,
    /// How it is loaded directly, if it is.
    pub direct: Option<Direct>,
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

impl Target {
    pub fn name(&self) -> &QualifiedName {
        &self.relation.name
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

    /// Whether its rows can be seen as each piece is committed.
    pub fn is_plain_append(&self) -> bool {
        self.publish == Publish::Append && !self.atomic
    }

    /// Whether the table that its pieces fill is emptied by a crash of the server.
    pub fn fills_unlogged(&self) -> bool {
        match self.publish {
            Publish::Append => self.atomic || self.relation.is_unlogged,
            Publish::Replace => self.relation.is_unlogged,
            // Made by us, logged.
            Publish::Partitions => false,
        }
    }

    /// Where pieces that share one staging table go.
    pub fn staging(&self, plan: &Plan) -> Result<QualifiedName> {
        crate::naming::derived(self.name(), plan.shared_id(), "new").map_err(failed)
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

impl Postgres {
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
        let is_same =
            answer.is_ok_and(|rows| rows.first().is_some_and(|r| r.get("same") == Some("t")));
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
        });
        columns.collect()
    }

    /// What is known of a table, as it is to be loaded.
    pub(crate) fn target(
        &self,
        session: &mut Session,
        relation: Relation,
        request: &TableRequest,
        create: Option<String>,
    ) -> Result<Target> {
        let name = &relation.name;
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
                        "publication {} covers all tables: it would publish staging tables too",
                        publications.join(", ")
                    ),
                    "load with --publish append (without --atomic and --max-rejects), or allow it with \
                     --allow-publication",
                ));
            }
        }
        if create.is_none() {
            let is_allowed = self.settings.allow_publication;
            publish::check(session, &relation, request.publish, is_allowed)?;
        }
        let columns = self.columns_of(&relation);
        let is_there = create.is_none();
        if request.keep_old && is_there {
            may_keep(session, &relation)?;
        }
        let mut target = Target {
            relation,
            create,
            columns,
            publish: request.publish,
            atomic: request.atomic,
            // What a run makes itself is nothing to keep.
            keep_old: request.keep_old && is_there,
            probe: None,
            direct: None,
            notes: Vec::new(),
        };
        if target.publish == Publish::Replace && !target.relation.is_unlogged {
            let slots = catalog::logical_slots_of_all_tables(session).map_err(refused)?;
            target.notes.extend(decoded(&target, &slots));
        }
        if request.method != Method::Copy {
            let skip_decoding = self.settings.skip_logical_decoding;
            target.probe = Some(probe::probe(session, &target, skip_decoding)?);
        }
        Ok(target)
    }
}

impl Postgres {
    /// Refuses tablespaces in which the role can't make tables.
    fn check_tablespaces(&self, session: &mut Session) -> Result<()> {
        for name in &self.settings.tablespaces {
            let literal = quote_literal(name).map_err(failed)?;
            let rows = session
                .query(&format!(
                    "SELECT has_tablespace_privilege(oid, 'CREATE') AS may FROM pg_tablespace
                      WHERE spcname = {literal}"
                ))
                .map_err(refused)?;
            match rows.first().and_then(|row| row.get("may")) {
                Some("t") => {}
                Some(_) => {
                    return Err(refuse(
                        format!("the role may not make tables in tablespace {name}"),
                        "GRANT CREATE ON TABLESPACE to it, or name others with --tablespaces",
                    ));
                }
                None => {
                    return Err(refuse(
                        format!("there is no tablespace {name}"),
                        "name others with --tablespaces; `\\db` in psql lists them",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// What logical slots show of a table that is replaced.
fn decoded(target: &Target, slots: &[(String, String)]) -> Option<String> {
    let named = |(slot, plugin): &(String, String)| format!("{slot:?} ({plugin})");
    let names = slots.iter().map(named).collect::<Vec<_>>().join(", ");
    let (slots, show) = match slots {
        [] => return None,
        [_] => ("slot", "shows"),
        _ => ("slots", "show"),
    };
    Some(format!(
        "logical {slots} {names} {show} this load as INSERTs into a staging table, whose name contains \
         {:?}, and no TRUNCATE of {}: consumers have to copy the table anew",
        naming::MARK,
        target.name()
    ))
}

/// Refuses where the schema that a replaced table is kept in can't be made.
fn may_keep(session: &mut Session, relation: &Relation) -> Result<()> {
    let rows = session
        .query(
            "SELECT has_database_privilege(current_database(), 'CREATE') AS may,
                    current_database() AS database, current_user AS role",
        )
        .map_err(refused)?;
    let text = |name: &str| rows.first().and_then(|row| row.get(name)).unwrap_or_default();
    if text("may") == "t" {
        return Ok(());
    }
    let (role, database) = (text("role"), text("database"));
    Err(refuse(
        format!(
            "{} can't be kept: role {role} may not make a schema in database {database}",
            relation.name
        ),
        format!("GRANT CREATE ON DATABASE {database} TO {role}, or leave --keep-old out"),
    ))
}
