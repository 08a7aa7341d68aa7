//! PostgreSQL as a sink, with every capability that there is: what the data path calls.

use std::sync::Arc;

use fullbore_load::plan::Plan;
use fullbore_load::sink::{
    Committed, Encoder, Gathers, LoadState, Overload, Paced, Packed, Packs, Proven,
    RejectsViolations, Resumable, Sink, Summer, Throttled, Verifying, Writer,
};
use fullbore_parse::Lane;
use fullbore_pgwire::Session;
use fullbore_pgwire::tcp_info::{TcpInfo, tcp_info};
use fullbore_read::error::{Error, Result};
use fullbore_record::observe::socket::SocketNow;
use fullbore_record::observe::{Observed, Watch};
use fullbore_record::terms::Codec;
use fullbore_record::{Event, Phase};

use crate::direct::known::Direct;
use crate::encode_copy::{BinaryEncoder, SentColumn, TextEncoder};
use crate::encode_direct::DirectEncoder;
use crate::endpoints::interface;
use crate::error::failed;
use crate::fallback::server_check::SKIPS_BAD_ROWS;
use crate::ledger::schema;
use crate::ledger::{Begun, locks, meanwhile, parts, runs};
use crate::postgres::Postgres;
use crate::publish;
use crate::routes::RoutedEncoder;
use crate::target::PostgresTable;
use crate::watch::PostgresWatch;
use crate::writer::PostgresWriter;

/// A round trip, in microseconds, that no local network has.
const FAR_US: u32 = 1_000;

impl Postgres {
    /// Begins the run in the ledger, and makes what its pieces need.
    fn begin(&self, session: &mut Session, plan: &Plan) -> Result<()> {
        if let Some(ledger) = self.ledger() {
            runs::begin(session, ledger, plan, self)?;
            match &plan.continuity.part {
                Some(part) => parts::begin(session, &ledger.schema, &ledger.run_id, part)?,
                None => meanwhile::check(session, self, ledger, plan)?,
            }
        }
        self.check_verifiable(session, plan)?;
        for (table, target) in self.targets().iter().enumerate() {
            if let Some(create) = &target.create {
                publish::made::make(self, session, plan, table, create)?;
            }
        }
        self.lock_writers_out(plan, true)?;
        for (table, target) in self.targets().iter().enumerate() {
            publish::prepare(self, session, plan, table, target)?;
        }
        // What was made like a target is like the one that was planned for.
        self.check_targets(session)?;
        match self.ledger() {
            Some(ledger) => runs::prepared(session, ledger),
            None => Ok(()),
        }
    }

    /// What the kernel says of the way to the server, where it goes by TCP.
    fn way(&self) -> Option<TcpInfo> {
        tcp_info(&self.control().socket().ok()?).ok()
    }

    /// Whether it is so long that its network is likely slower than a processor packs rows.
    fn is_far(&self) -> bool {
        self.way().is_some_and(|way| way.min_rtt != u32::MAX && way.min_rtt >= FAR_US)
    }

    fn element_oid(&self, table: usize, column: &str) -> u32 {
        let columns = &self.targets()[table].relation.columns;
        let found = columns.iter().find(|candidate| candidate.name == column);
        found.and_then(|column| column.catalog_type.element.as_ref()).map_or(0, |(_, oid)| *oid)
    }
}

impl Observed for Postgres {
    fn watch(&self) -> Result<Option<Box<dyn Watch + '_>>> {
        Ok(Some(Box::new(PostgresWatch::open(self)?)))
    }

    fn sockets(&self) -> Vec<(usize, SocketNow)> {
        self.sockets.look()
    }
}

impl Sink for Postgres {
    fn prepare(&self, plan: &Plan) -> Result<()> {
        let mut session = self.control();
        self.hold_targets(&mut session)?;
        // A run that was waited for may have replaced one.
        self.check_targets(&mut session)?;
        if let Some(ledger) = self.ledger() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
            schema::make(&mut session, &ledger.schema, &self.trusted)?;
        }
        let begun = match (&plan.continuity.part, self.ledger()) {
            (Some(part), Some(ledger)) => {
                parts::enter(&mut session, ledger, part, self.targets(), |session| {
                    self.begin(session, plan)
                })
            }
            _ => self.begin(&mut session, plan),
        };
        drop(session);
        begun.map_err(|error| publish::not_begun(self, error))
    }

    fn encoder(&self, plan: &Plan, table: usize, lane: Lane) -> Result<Box<dyn Encoder>> {
        if lane == Lane::Text {
            return Ok(Box::new(TextEncoder::default()));
        }
        Packs::begin(self, plan);
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
        let target = &self.targets()[table];
        let direct = target.direct.as_ref().map(|Direct { layout, .. }| {
            DirectEncoder::new(layout.clone(), copy.clone(), self.packing.clone())
        });
        Ok(match (direct, &target.routes) {
            (direct, Some(routes)) => {
                let direct = direct.map(|direct| Box::new(direct) as Box<dyn Encoder>);
                Box::new(RoutedEncoder::new(direct, copy, routes.clone()))
            }
            (Some(direct), None) => Box::new(direct),
            (None, None) => Box::new(copy),
        })
    }

    fn open<'a>(&'a self, plan: &Arc<Plan>, stream: usize) -> Result<Box<dyn Writer + 'a>> {
        Ok(Box::new(PostgresWriter::open(self, plan.clone(), stream)?))
    }

    fn publish(&self, plan: &Plan, committed: &[Committed]) -> Result<Vec<Phase>> {
        publish::publish(self, plan, committed)
    }

    fn explain(&self, error: Error) -> Error {
        publish::explained(self, error)
    }

    fn abort(&self, plan: &Plan) -> Vec<String> {
        publish::abort(self, plan)
    }

    fn resumable(&self) -> Option<&dyn Resumable> {
        self.ledger().is_some().then_some(self as &dyn Resumable)
    }

    fn verifying(&self) -> Option<&dyn Verifying> {
        Some(self)
    }

    fn gathers(&self) -> Option<&dyn Gathers> {
        let are_any = self.targets().iter().any(|target| target.statistics.is_some());
        are_any.then_some(self as &dyn Gathers)
    }

    fn rejects_violations(&self) -> Option<&dyn RejectsViolations> {
        Some(self)
    }

    fn throttled(&self) -> Option<&dyn Throttled> {
        Some(self)
    }

    fn news(&self) -> Vec<Event> {
        self.endpoints.as_ref().map(|endpoints| endpoints.news()).unwrap_or_default()
    }

    fn packs(&self) -> Option<&dyn Packs> {
        // A socket of this machine carries whatever is sent.
        self.way().is_some().then_some(self as &dyn Packs)
    }

    fn paced(&self) -> Option<&dyn Paced> {
        Some(self)
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }
}

impl Paced for Postgres {
    fn interface(&self) -> Option<String> {
        match &self.endpoints {
            Some(endpoints) => endpoints.interface(),
            None => interface::of_all(std::iter::once(self.options())),
        }
    }

    fn sockets(&self) -> Vec<(usize, SocketNow)> {
        self.sockets.look()
    }

    fn pace(&self, bytes_per_second: Option<u64>) {
        self.sockets.pace(bytes_per_second);
    }
}

impl Packs for Postgres {
    fn begin(&self, plan: &Plan) {
        self.packing.begin(|| match plan.compress.codec() {
            Some(codec) => codec,
            None if self.is_far() && self.codecs().contains(&Codec::Zstd) => Codec::Zstd,
            None => Codec::None,
        });
    }

    fn codecs(&self) -> Vec<Codec> {
        let all_know = |codec: &Codec| {
            let knows = |target: &PostgresTable| {
                let known = target.direct.as_ref().map(|direct| &direct.descriptor.codecs);
                known.is_some_and(|known| known.iter().any(|name| name == codec.name()))
            };
            *codec == Codec::None || self.targets().iter().all(knows)
        };
        [Codec::None, Codec::Lz4, Codec::Zstd].into_iter().filter(all_know).collect()
    }

    fn takes_text(&self) -> bool {
        // Before, each refused row takes a round trip of its own.
        self.version() >= SKIPS_BAD_ROWS
    }

    fn codec(&self) -> Codec {
        self.packing.codec()
    }

    fn pack(&self, codec: Codec) {
        self.packing.set(codec);
    }

    fn sample(&self) {
        self.packing.sample();
    }

    fn sampled(&self, codec: Codec) -> Option<Packed> {
        self.packing.sampled(codec)
    }
}

impl Resumable for Postgres {
    fn attempt(&self, plan: &Plan) -> Result<LoadState> {
        let Some(ledger) = self.ledger() else { return Ok(LoadState::default()) };
        let mut session = self.locked_control(ledger)?;
        self.hold_targets(&mut session)?;
        if ledger.control().is_none() {
            let backend = locks::settle(&mut session, None).map_err(failed)?;
            ledger.set_control(backend);
        }
        let goes_on = ledger.begun() != Begun::Yes;
        let state = runs::attempt(&mut session, ledger)?;
        if !state.is_published {
            // Nobody could begin one unseen while we were at work.
            if goes_on && plan.continuity.part.is_none() {
                meanwhile::check(&mut session, self, ledger, plan)?;
            }
            self.lock_writers_out(plan, false)?;
        }
        publish::check_staged(&mut session, plan, self.targets(), &state)?;
        self.check_verifiable(&mut session, plan)?;
        Ok(state)
    }

    fn is_published(&self) -> Option<bool> {
        let Some(ledger) = self.ledger() else { return Some(false) };
        let is_known = ledger.is_published() == ledger.may_be_published();
        is_known.then(|| ledger.is_published())
    }

    fn leave(&self, _: &Plan) {
        let Some(ledger) = self.ledger().filter(|ledger| ledger.begun() == Begun::Yes) else {
            return;
        };
        let left =
            self.locked_control(ledger).and_then(|mut session| runs::left(&mut session, ledger));
        if let Err(error) = left {
            tracing::warn!("the stop could not be recorded in the ledger: {error}");
        }
    }
}

impl Verifying for Postgres {
    fn summer(&self, plan: &Plan, table: usize) -> Result<Option<Box<dyn Summer>>> {
        self.batch_summer(plan, table)
    }

    fn verified(&self) -> Proven {
        self.verification.proven()
    }
}

impl Throttled for Postgres {
    fn overload(&self, plan: &Plan) -> Result<Overload> {
        match &plan.continuity.pause_when {
            Some(limits) => self.look_for_overload(plan, limits),
            None => Ok(Overload::default()),
        }
    }
}
