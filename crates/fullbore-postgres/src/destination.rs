//! The PostgreSQL destination: what the data path calls.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use fullbore_core::destination::{
    Committed, Destination, Encoder, Lane, Phase, Standing, TargetColumn, Writer,
};
use fullbore_core::error::Result;
use fullbore_core::job::{Method, Publish};
use fullbore_core::plan::Plan;

use crate::catalog::{self, Relation};
use crate::connection::{
    ConnectionOptions, QualifiedName, Session, quote_identifier, quote_literal,
};
use crate::direct::choice::Direct;
use crate::direct::probe::{self, Probe};
use crate::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use crate::encode_direct::DirectEncoder;
use crate::error::{failed, refuse, refused};
use crate::ledger::schema;
use crate::ledger::{Ledger, locks, runs};
use crate::publish;
use crate::publish::existing::{self, ExistingPartition};
use crate::writer::PostgresWriter;

/// What is asked of the destination for one table.
#[derive(Debug, Clone, Default)]
pub struct TableRequest {
    pub name: String,
    pub publish: Publish,
    pub atomic: bool,
    /// The statement that makes the table, where it is not there yet.
    pub create: Option<String>,
    pub method: Method,
}

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
    /// What is known of loading it directly, before the method is chosen.
    pub probe: Option<Probe>,
    /// How it is loaded directly, if it is.
    pub direct: Option<Direct>,
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

    /// A value of a column as a literal of its type.
    pub fn literal(&self, column: &str, value: &str) -> Result<String> {
        let found = self.relation.columns.iter().find(|candidate| candidate.name == column);
        let column = found.ok_or_else(|| {
            refuse(format!("{} has no column {column:?}", self.name()), "check --partition-by")
        })?;
        Ok(format!("{}::{}", quote_literal(value).map_err(refused)?, column.type_name))
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
        crate::naming::derived(self.name(), &plan.run_id, "new").map_err(failed)
    }

    /// The table of a piece that becomes a partition.
    pub fn piece(&self, plan: &Plan, piece: usize) -> Result<QualifiedName> {
        crate::naming::derived(self.name(), &plan.run_id, &format!("{piece:05}")).map_err(failed)
    }
}

/// Settings of the destination that are the job's.
#[derive(Debug, Clone)]
pub struct Settings {
    pub tablespaces: Vec<String>,
    pub allow_publication: bool,
    /// Gather statistics once the rows are shown.
    pub analyze: bool,
}

/// A PostgreSQL server and the tables of one run.
pub struct Postgres {
    options: ConnectionOptions,
    pub settings: Settings,
    control: Mutex<Session>,
    targets: OnceLock<Vec<Target>>,
    pub(crate) ledger: OnceLock<Ledger>,
    server_version: u32,
    zoneless_is_utc: bool,
}

impl Postgres {
    /// Connects; the session is kept for the catalog and for publishing.
    pub fn connect(options: ConnectionOptions, settings: Settings) -> Result<Self> {
        let mut options = options;
        // Both lanes must read dates and intervals alike, whatever the server's defaults.
        for (name, value) in [("DateStyle", "ISO"), ("IntervalStyle", "postgres")] {
            if !options.runtime.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                options.runtime.push((name.to_owned(), value.to_owned()));
            }
        }
        let control = Session::connect(&options).map_err(refused)?;
        tracing::info!(
            to = options.redacted(),
            version = control.server_version_num(),
            "connected"
        );
        let zone = control.parameter("TimeZone").unwrap_or_default().to_owned();
        Ok(Self {
            server_version: control.server_version_num(),
            zoneless_is_utc: matches!(zone.as_str(), "UTC" | "GMT" | "Etc/UTC" | "Zulu" | "UCT"),
            options,
            settings,
            control: Mutex::new(control),
            targets: OnceLock::new(),
            ledger: OnceLock::new(),
        })
    }

    pub fn server_version(&self) -> u32 {
        self.server_version
    }

    pub fn options(&self) -> &ConnectionOptions {
        &self.options
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Session> {
        self.control.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A further session with the same settings.
    pub(crate) fn session(&self) -> Result<Session> {
        Session::connect(&self.options).map_err(failed)
    }

    /// Describes a target; refuses what can't be loaded the way that is asked. Nothing is touched:
    /// a table to be made is made in a transaction that is taken back.
    pub fn describe(&self, request: &TableRequest) -> Result<Target> {
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
        let described =
            session.execute(create).and_then(|_| catalog::relation(&mut session, &name));
        session.execute("ROLLBACK").map_err(refused)?;
        let relation = described.map_err(refused)?.ok_or_else(|| {
            refuse(
                format!("the schema does not make the table {name}"),
                "name the table that the CREATE TABLE statement makes with --table",
            )
        })?;
        self.target(&mut session, relation, request, Some(create.clone()))
    }

    fn target(
        &self,
        session: &mut Session,
        relation: Relation,
        request: &TableRequest,
        create: Option<String>,
    ) -> Result<Target> {
        let name = &relation.name;
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
                    "load with --publish append, or allow it with --allow-publication",
                ));
            }
        }
        if create.is_none() {
            publish::check(session, &relation, request.publish)?;
        }
        let columns = relation
            .columns
            .iter()
            .map(|column| TargetColumn {
                name: column.name.clone(),
                type_name: column.type_name.clone(),
                field_type: column.catalog_type.field_type(self.zoneless_is_utc),
                is_nullable: !column.is_not_null,
                is_generated: column.is_generated,
            })
            .collect();
        let mut target = Target {
            relation,
            create,
            columns,
            publish: request.publish,
            atomic: request.atomic,
            probe: None,
            direct: None,
        };
        if request.method != Method::Copy {
            target.probe = Some(probe::probe(session, &target)?);
        }
        Ok(target)
    }

    /// Says which targets the plan's tables are, in the plan's order.
    ///
    /// # Panics
    /// If called twice.
    pub fn adopt(&self, targets: Vec<Target>) {
        self.targets.set(targets).expect("targets are adopted once");
    }

    pub fn targets(&self) -> &[Target] {
        self.targets.get().map_or(&[], Vec::as_slice)
    }

    /// The tablespace clause for the n-th table of a run.
    pub(crate) fn tablespace(&self, number: usize) -> Result<String> {
        if self.settings.tablespaces.is_empty() {
            return Ok(String::new());
        }
        let name = &self.settings.tablespaces[number % self.settings.tablespaces.len()];
        Ok(format!(" TABLESPACE {}", quote_identifier(name).map_err(failed)?))
    }

    fn element_oid(&self, table: usize, column: &str) -> u32 {
        let columns = &self.targets()[table].relation.columns;
        let found = columns.iter().find(|candidate| candidate.name == column);
        found.and_then(|column| column.catalog_type.element.as_ref()).map_or(0, |(_, oid)| *oid)
    }
}

impl Destination for Postgres {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let mut session = self.control();
        if let Some(ledger) = self.ledger() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
            schema::make(&mut session, &ledger.schema)?;
            runs::begin(&mut session, ledger, plan, self.targets())?;
        }
        for (table, target) in self.targets().iter().enumerate() {
            if let Some(create) = &target.create {
                session.execute(create).map_err(failed)?;
            }
            publish::prepare(self, &mut session, plan, table, target)?;
        }
        match self.ledger() {
            Some(ledger) => runs::prepared(&mut session, ledger, plan, self.targets()),
            None => Ok(()),
        }
    }

    fn attempt(&self, plan: &Plan) -> Result<Standing> {
        let Some(ledger) = self.ledger() else { return Ok(Standing::default()) };
        let mut session = self.locked_control(ledger)?;
        if ledger.control().is_none() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
        }
        if let Some(standing) = runs::attempt(&mut session, ledger)? {
            publish::check_staged(&mut session, plan, self.targets(), &standing)?;
            return Ok(standing);
        }
        drop(session);
        // A crash took the beginning of the run, whose log nobody had waited for.
        self.abort(plan);
        self.prepare(plan)?;
        Ok(Standing::default())
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        if lane == Lane::Text {
            return Ok(Box::new(TextEncoder::default()));
        }
        let columns = plan.tables[table]
            .shape
            .columns
            .iter()
            .map(|column| SentColumn {
                field_type: column.field_type.clone(),
                element_oid: self.element_oid(table, &column.name),
            })
            .collect();
        let copy = BinaryEncoder::new(columns);
        Ok(match &self.targets()[table].direct {
            Some(Direct { layout, codec, .. }) => {
                Box::new(DirectEncoder::new(layout.clone(), copy, *codec))
            }
            None => Box::new(copy),
        })
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        let mut session = self.session()?;
        if let Some(ledger) = self.ledger() {
            locks::settle(&mut session, Some(&ledger.run_id)).map_err(failed)?;
        }
        Ok(Box::new(PostgresWriter::new(self, plan.clone(), session)))
    }

    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>> {
        publish::publish(self, plan, committed)
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        publish::abort(self, plan)
    }

    fn leave(&self, _: &Plan) {
        let Some(ledger) = self.ledger() else { return };
        let left =
            self.locked_control(ledger).and_then(|mut session| runs::left(&mut session, ledger));
        if let Err(error) = left {
            tracing::warn!("the ledger could not be told of the stop: {error}");
        }
    }
}

impl Postgres {
    /// The literal of a key in the type of its column, written by the server itself, so that
    /// CHECK and ATTACH see the same constant; and its text.
    pub fn key_literal(
        &self,
        target: &Target,
        column: &str,
        value: &str,
    ) -> Result<(String, String)> {
        let literal = target.literal(column, value)?;
        let rows =
            self.control().query(&format!("SELECT {literal}::text AS key")).map_err(refused)?;
        let text = rows.first().and_then(|row| row.get("key")).unwrap_or(value).to_owned();
        Ok((target.literal(column, &text)?, text))
    }

    /// The partitions that a target has already; none for one that is to be made.
    pub fn partitions(&self, target: &Target) -> Result<Vec<ExistingPartition>> {
        match target.create {
            Some(_) => Ok(Vec::new()),
            None => existing::partitions(&mut self.control(), target.relation.oid),
        }
    }

    /// Refuses a partition that the loaded one can't take the place of.
    pub fn check_replaceable(&self, target: &Target, partition: &str) -> Result<()> {
        existing::check_replaceable(&mut self.control(), target.relation.oid, partition)
    }
}
