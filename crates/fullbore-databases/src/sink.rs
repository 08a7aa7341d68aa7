//! A database while rows are loaded into it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fullbore_load::plan::{Plan, TablePlan};
use fullbore_load::sink::{
    Committed, Encoder, LoadState, Proven, Resumable, Sink, Summer, Verifying, Writer,
};
use fullbore_load::sums::Sums;
use fullbore_parse::Lane;
use fullbore_pgwire::QualifiedName;
use fullbore_postgres::encode_copy::TextEncoder;
use fullbore_read::error::{DestinationFailure, Error, Result};
use fullbore_record::Phase;
use fullbore_record::terms::Publish;

use crate::database::Database;
use crate::error::cannot;
use crate::ledger::{self, State};
use crate::link::Link;
use crate::sent::Form;
use crate::sums::{BatchSums, Summing};
use crate::table::{Table, listed, stage_of};
use crate::writer::{RowWriter, Turn};

/// What a run loads into a database.
pub struct Rows {
    database: Arc<Database>,
    /// Of the plan's tables, in their order.
    tables: Vec<Table>,
    /// The job's hash, where a ledger is kept.
    job: Option<String>,
    turn: Turn,
    state: Mutex<Known>,
}

/// What becomes known while a run loads.
#[derive(Default)]
struct Known {
    /// What tables held that rows go into as they come.
    before: Vec<Option<Sums>>,
    proven: Proven,
    is_published: bool,
}

impl Rows {
    /// `job`: its hash, where a ledger is to be kept.
    pub fn new(database: Arc<Database>, tables: Vec<Table>, job: Option<String>) -> Self {
        Self { database, tables, job, turn: Turn::default(), state: Mutex::default() }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    pub(crate) fn writes_in_turn(&self) -> bool {
        self.database.dialect().writers().is_some()
    }

    pub(crate) fn keeps_ledger(&self) -> bool {
        self.job.is_some()
    }

    pub(crate) fn is_staged(&self, table: usize) -> bool {
        self.tables[table].is_staged()
    }

    pub(crate) fn name(&self, table: usize) -> &QualifiedName {
        &self.tables[table].name
    }

    /// Where rows of a table go, and in which form.
    pub(crate) fn way(&self, plan: &Plan, table: usize) -> Result<(QualifiedName, Form)> {
        let form = self.form(&plan.tables[table], &self.tables[table]);
        Ok((self.tables[table].filled(&plan.run_id)?, form))
    }

    fn form(&self, plan: &TablePlan, table: &Table) -> Form {
        // A staging table has the columns that are loaded, and no others.
        let is_positional = self.database.dialect().is_positional() && !table.is_staged();
        Form::of(plan, table, is_positional)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summing(&self, plan: &Plan, table: usize) -> Summing {
        Summing::of(&plan.tables[table], &self.tables[table], self.database.dialect())
    }

    /// What is in a table, asked by several connections where its database answers a query by one processor.
    fn held(&self, link: &mut dyn Link, summing: &Summing, table: &str) -> Result<Sums> {
        let more = (1..self.database.dialect().summing_sessions()).map(|_| self.database.link());
        summing.held(link, &mut more.collect::<Result<Vec<_>>>()?, table)
    }

    /// Compares what a table has gained with what was sent; how many columns of it.
    fn compare(
        &self,
        link: &mut dyn Link,
        plan: &Plan,
        number: usize,
        committed: &[Committed],
        before: Option<&Sums>,
    ) -> Result<u64> {
        let summing = self.summing(plan, number);
        let mut sent = Sums::of_columns(plan.tables[number].shape.columns.len());
        let its = committed.iter().filter(|piece| piece.table == number);
        its.filter_map(|piece| piece.portion.sums.as_ref()).for_each(|sums| sent.merge(sums));
        let filled = self.tables[number].filled(&plan.run_id)?.to_string();
        let mut held = self.held(link, &summing, &filled)?;
        if let Some(before) = before {
            held.take_out(before);
        }
        summing.compare(&filled, &sent, &held)?;
        Ok(summing.compared())
    }

    /// The tables whose rows are staged and not shown yet, with their staging tables and columns. Where tables are
    /// not renamed in transactions, an earlier attempt may have put some in their places.
    fn staged(
        &self,
        link: &mut dyn Link,
        plan: &Plan,
    ) -> Result<Vec<(usize, QualifiedName, String)>> {
        let mut staged = Vec::new();
        for (number, table) in self.tables.iter().enumerate().filter(|(_, t)| t.is_staged()) {
            let stage = stage_of(&table.name, &plan.run_id)?;
            let dialect = self.database.dialect();
            if dialect.makes_tables_in_transactions() || self.database.has(link, &stage)? {
                let columns = listed(self.form(&plan.tables[number], table).names())?;
                staged.push((number, stage, columns));
            } else if !dialect.was_shown(link, table, &stage)? {
                return Err(cannot(
                    format!("{stage}, where rows of {} were staged, is gone", table.name),
                    format!("fullbore runs abort {}, and load again", plan.run_id),
                ));
            }
        }
        Ok(staged)
    }

    /// Makes the staging tables that an attempt that ended early did not come to.
    fn make_missing_stages(
        &self,
        link: &mut dyn Link,
        plan: &Plan,
        committed: &[Committed],
    ) -> Result<()> {
        for (number, table) in self.tables.iter().enumerate().filter(|(_, t)| t.is_staged()) {
            let stage = stage_of(&table.name, &plan.run_id)?;
            let has_rows = committed.iter().any(|piece| piece.table == number);
            let is_replaced = table.publish == Publish::Replace
                && self.database.dialect().was_shown(link, table, &stage)?;
            if !has_rows && !is_replaced && !self.database.has(link, &stage)? {
                let columns = listed(self.form(&plan.tables[number], table).names())?;
                self.database.dialect().make_stage(link, table, &stage, &columns)?;
            }
        }
        Ok(())
    }

    fn rows_of(&self, link: &mut dyn Link, table: &QualifiedName) -> Result<u64> {
        let found = link.query(&format!("SELECT count(*) FROM {table}"))?;
        let count = found.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        count.ok_or_else(|| Error::usage(format!("{table}: its rows could not be counted")))
    }

    /// Whether the run is still to be shown; nobody else shows it before the transaction ends.
    fn is_open(&self, link: &mut dyn Link, plan: &Plan) -> Result<bool> {
        match self.keeps_ledger() {
            true => ledger::hold(link, &plan.run_id, self.database.dialect()),
            false => Ok(true),
        }
    }

    /// Compares and shows the rows of all tables; how many columns were compared.
    fn show(&self, link: &mut dyn Link, plan: &Plan, committed: &[Committed]) -> Result<u64> {
        if !self.is_open(link, plan)? {
            return Ok(0);
        }
        let before = self.known().before.clone();
        let staged = self.staged(link, plan)?;
        let mut columns = 0;
        for (number, table) in self.tables.iter().enumerate() {
            if !table.is_staged() || staged.iter().any(|(known, ..)| *known == number) {
                let before = before.get(number).and_then(Option::as_ref);
                columns += self.compare(link, plan, number, committed, before)?;
            }
        }
        // What may end the transaction comes first: what is inserted is in one with the ledger.
        let dialect = self.database.dialect();
        let tables = self.tables.iter().enumerate().filter(|(_, table)| table.is_staged());
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by_key(|(_, table)| table.publish == Publish::Append);
        let mut is_held = false;
        for (number, table) in tables {
            // A table that took another's place has ended the transaction, and with it our hold on the run.
            let is_added = table.publish == Publish::Append;
            if is_added && !std::mem::replace(&mut is_held, true) && !self.is_open(link, plan)? {
                return Ok(columns);
            }
            if let Some((_, stage, columns)) = staged.iter().find(|(known, ..)| *known == number) {
                let its = committed.iter().filter(|piece| piece.table == number);
                let sent = its.map(|piece| piece.rows).sum();
                // Where others write meanwhile, what they add would be counted as well.
                let is_alone = dialect.keeps_ledger() && dialect.makes_tables_in_transactions();
                if !is_alone {
                    dialect.show(link, table, stage, columns)?;
                } else {
                    let had = if is_added { self.rows_of(link, &table.name)? } else { 0 };
                    dialect.show(link, table, stage, columns)?;
                    check_added(&table.name, sent, had, self.rows_of(link, &table.name)?)?;
                }
            }
            dialect.show_rest(link, table, &stage_of(&table.name, &plan.run_id)?)?;
        }
        if self.keeps_ledger() {
            ledger::finish(link, &plan.run_id, committed)?;
        }
        Ok(columns)
    }
}

/// Refuses rows of which the table has left some out by itself.
fn check_added(name: &QualifiedName, sent: u64, had: u64, has: u64) -> Result<()> {
    match has == had + sent {
        true => Ok(()),
        false => Err(Error::Destination {
            message: format!(
                "{sent} rows were added to {name}, which has {has} now and had {had} before: a trigger or a constraint of it \
                 left some out"
            ),
            hint: Some(
                "nothing was published; check ON CONFLICT of its constraints, and its triggers"
                    .into(),
            ),
            kind: DestinationFailure::Differs,
        }),
    }
}

impl Sink for Rows {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        for (table, target) in plan.tables.iter().zip(&self.tables) {
            if let Some(why) = table.why_text() {
                return Err(cannot(
                    format!(
                        "{}: rows would go as text ({why}), which {} does not take",
                        target.name,
                        self.database.name()
                    ),
                    "give the column another type, or leave it out with a dash in --columns",
                ));
            }
        }
        let before = self.database.transaction(|link| {
            let mut before = Vec::new();
            for (number, table) in self.tables.iter().enumerate() {
                if let Some(create) = &table.create {
                    link.execute(create)?;
                }
                before.push(match table.is_staged() {
                    true => None,
                    false => {
                        let summing = self.summing(plan, number);
                        Some(self.held(link, &summing, &table.name.to_string())?)
                    }
                });
            }
            if let Some(job) = &self.job {
                let dialect = self.database.dialect();
                ledger::begin(link, plan, job, &self.tables, &before, dialect)?;
            }
            // Where tables are not made in transactions, the ledger knows of those that follow.
            for (number, table) in
                self.tables.iter().enumerate().filter(|(_, table)| table.is_staged())
            {
                let form = self.form(&plan.tables[number], table);
                let columns = listed(form.names())?;
                let stage = stage_of(&table.name, &plan.run_id)?;
                self.database.dialect().make_stage(link, table, &stage, &columns)?;
            }
            Ok(before)
        })?;
        self.known().before = before;
        Ok(())
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        if lane == Lane::Text {
            // Nothing is sent so: rejects show rows that have no text of their own.
            return Ok(Box::new(TextEncoder::default()));
        }
        let form = self.form(&plan.tables[table], &self.tables[table]);
        Ok(self.database.dialect().encoder(form))
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, _: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(RowWriter::new(self, plan)?))
    }

    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>> {
        let began = Instant::now();
        if !self.known().is_published {
            let columns = self.database.transaction(|link| self.show(link, plan, committed))?;
            let mut known = self.known();
            known.is_published = true;
            known.proven.rows_counted = committed.iter().map(|piece| piece.rows).sum();
            known.proven.sums = columns;
        }
        self.database.transaction(|link| {
            let staged = self.tables.iter().filter(|table| table.is_staged());
            staged
                .map(|table| stage_of(&table.name, &plan.run_id))
                .try_for_each(|stage| self.database.dialect().tidy(link, &stage?))
        })?;
        let phase = |name: &str, began: Instant| Phase {
            name: name.into(),
            seconds: began.elapsed().as_secs_f64(),
        };
        let mut phases = vec![phase("publish", began)];
        if let Some(sql) = self.database.dialect().settles() {
            let began = Instant::now();
            let mut link = self.database.control();
            // Others may be at work: then they will do it.
            let _ = link.execute(sql);
            link.rollback()?;
            phases.push(phase("checkpoint", began));
        }
        Ok(phases)
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        let taken = self.database.transaction(|link| {
            let staged = self.tables.iter().filter(|table| table.is_staged());
            let staged =
                staged.map(|table| Ok((table.name.clone(), stage_of(&table.name, &plan.run_id)?)));
            let staged = staged.collect::<Result<Vec<_>>>()?;
            let is_kept = self.keeps_ledger() && self.database.has(link, &ledger::runs_table()?)?;
            ledger::take_away(link, self.database.dialect(), &plan.run_id, &staged, is_kept)?;
            for table in self.tables.iter().filter(|table| table.create.is_some()) {
                if self.database.holds(link, &table.name)? == Some(false) {
                    link.execute(&format!("DROP TABLE {}", table.name))?;
                }
            }
            Ok(())
        });
        match taken {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("run {}: {error}", plan.run_id)],
        }
    }

    fn resumable(&self) -> Option<&dyn Resumable> {
        self.keeps_ledger().then_some(self)
    }

    fn verifying(&self) -> Option<&dyn Verifying> {
        Some(self)
    }
}

impl Resumable for Rows {
    fn attempt(&self, plan: &Plan) -> Result<LoadState> {
        let mut link = self.database.control();
        link.rollback()?;
        let standing = ledger::standing(link.as_mut(), &plan.run_id)
            .and_then(|found| Ok((found, ledger::before(link.as_mut(), &plan.run_id)?)));
        link.rollback()?;
        let (Some((state, committed)), before) = standing? else {
            return Err(cannot(
                format!("run {} is not in the database's ledger any more", plan.run_id),
                "load again",
            ));
        };
        let is_left = state == State::Loading;
        if is_left && !self.database.dialect().makes_tables_in_transactions() {
            self.make_missing_stages(link.as_mut(), plan, &committed)?;
        }
        let mut known = self.known();
        known.before = before;
        known.is_published = state == State::Finished;
        Ok(LoadState { committed, is_published: known.is_published })
    }

    fn is_published(&self) -> Option<bool> {
        Some(self.known().is_published)
    }

    fn leave(&self, _: &Plan) {}
}

impl Verifying for Rows {
    fn summer(&self, plan: &Plan, table: usize) -> Result<Option<Box<dyn Summer>>> {
        Ok(Some(Box::new(BatchSums(self.summing(plan, table)))))
    }

    fn verified(&self) -> Proven {
        self.known().proven.clone()
    }
}
