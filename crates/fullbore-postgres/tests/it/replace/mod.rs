//! `replace` on real servers: what comes along, what is refused, what is noticed at the end.

mod everything;
mod refusals;
mod snapshot;
mod under_way;

use std::path::PathBuf;
use std::sync::Arc;

use fullbore_load::job::{EndpointPolicy, Placement, RejectLimit};
use fullbore_load::plan::{Continuity, Format, PieceInput, Plan, PlannedPiece, TablePlan};
use fullbore_load::sink::{Portion, Sink, TextRows};
use fullbore_load::target::{TableRequest, Target};
use fullbore_parse::Lane;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_pgwire::{ConnectionOptions, Environment, Session};
use fullbore_postgres::publish::{indexes, replace};
use fullbore_postgres::{Postgres, Server, Settings};
use fullbore_read::error::Result;
use fullbore_record::terms::{Compress, Method, Publish, Statistics, Verify};

/// A replacement that is to be done.
pub struct Replacement<'a> {
    pub url: &'a str,
    pub table: &'a str,
    /// The columns that rows bring.
    pub columns: &'a [&'a str],
    /// Lines of COPY text.
    pub rows: &'a str,
    pub create: Option<&'a str>,
    pub tablespaces: &'a [&'a str],
}

impl<'a> Replacement<'a> {
    pub fn new(url: &'a str, table: &'a str, columns: &'a [&'a str], rows: &'a str) -> Self {
        Self { url, table, columns, rows, create: None, tablespaces: &[] }
    }

    /// Loads as the data path does, and rolls back what fails. `meanwhile` comes between the
    /// load and the publish.
    pub fn run(&self, meanwhile: impl FnOnce()) -> Result<()> {
        self.carry_out(|postgres, plan| {
            meanwhile();
            postgres.publish(plan, &[]).map(drop)
        })
    }

    /// The same, with `meanwhile` between the building of indexes and the swap.
    pub fn run_until_shown(&self, meanwhile: impl FnOnce()) -> Result<()> {
        self.carry_out(|postgres, plan| {
            indexes::build(postgres, plan, replace::index_jobs(postgres, plan, 0)?)?;
            meanwhile();
            let mut session = Session::connect(postgres.options()).unwrap();
            session.execute("BEGIN").unwrap();
            replace::locks::take(postgres, &mut session, plan, &mut false)?;
            replace::show(postgres, &mut session, plan)?;
            session.execute("COMMIT").unwrap();
            Ok(())
        })
    }

    fn carry_out(&self, publish: impl FnOnce(&Postgres, &Arc<Plan>) -> Result<()>) -> Result<()> {
        let options = ConnectionOptions::resolve(Some(self.url), &Environment::empty()).unwrap();
        let settings = Settings {
            tablespaces: self.tablespaces.iter().map(ToString::to_string).collect(),
            allow_publication: false,
            skip_logical_decoding: false,
            statistics: Statistics::Auto,
            loads_again: false,
            endpoints: Vec::new(),
            endpoint_policy: EndpointPolicy::default(),
        };
        let server = Server::connect(options, settings)?;
        let target = server.describe(&TableRequest {
            name: self.table.to_owned(),
            publish: Publish::Replace,
            atomic: false,
            upsert: None,
            create: self.create.map(str::to_owned),
            method: Method::Copy,
            keep_old: false,
            is_fresh: false,
            since: None,
            is_resumed: false,
            replaced_with: Vec::new(),
        })?;
        let postgres = Postgres::new(Arc::new(server), vec![target], None, None);
        let plan = Arc::new(plan(self.table, self.columns));
        let result = self.load(&postgres, &plan).and_then(|()| publish(&postgres, &plan));
        if result.is_err() {
            assert!(postgres.abort(&plan).is_empty());
        }
        result
    }

    fn load(&self, postgres: &Postgres, plan: &Arc<Plan>) -> Result<()> {
        postgres.prepare(plan)?;
        let mut writer = postgres.open(plan, 0)?;
        writer.begin(&plan.pieces[0])?;
        let parts = [self.rows.as_bytes()];
        let rows = TextRows { parts: &parts, rows: self.rows.lines().count() as u64 };
        let refused = writer.judging().expect("PostgreSQL judges").judge(rows)?;
        assert!(refused.is_empty(), "{refused:?}");
        writer.commit(&Portion { rows_sent: rows.rows, ..Portion::default() })?;
        Ok(())
    }
}

fn plan(table: &str, columns: &[&str]) -> Plan {
    let column = |(field, name): (usize, &&str)| ParseColumn {
        name: name.to_string(),
        field,
        field_type: FieldType::text(),
        guess: None,
    };
    let shape = Arc::new(ParseShape {
        fields: columns.len(),
        columns: columns.iter().enumerate().map(column).collect(),
        field_names: columns.iter().map(ToString::to_string).collect(),
        orders: Default::default(),
        json: None,
    });
    let table = TablePlan {
        is_constrained: false,
        not_null: Vec::new(),
        lineage: Default::default(),
        transform: None,
        controls: Vec::new(),
        name: table.to_owned(),
        files: Vec::new(),
        format: Format::Delimited(Dialect::csv()),
        text_shape: shape.clone(),
        shape,
        lane: Lane::Text,
        lane_reason: None,
        method: Method::Copy,
        method_reason: String::new(),
        asked: Default::default(),
        joints: Default::default(),
        is_joined: false,
        count_bytes: None,
        publish: Publish::Replace,
        upsert: None,
        columns: Vec::new(),
        bytes: None,
        piece_bytes: 1,
        header_line: None,
        is_atomic: false,
        keeps_old: false,
        notes: Vec::new(),
        rounded: Vec::new(),
        schema_notes: Vec::new(),
        inferred: std::collections::BTreeMap::new(),
    };
    let input = PieceInput::Ranges(Vec::new());
    Plan {
        run_id: "0123abcd".into(),
        tables: vec![table],
        pieces: vec![PlannedPiece { number: 0, table: 0, input, bytes: 0, bounds: None }],
        streams: 3,
        parsers: 1,
        tuning: None,
        max_rate: None,
        max_rejects: RejectLimit::Rows(0),
        max_field_bytes: 1 << 20,
        run_dir: PathBuf::new(),
        reject_dir: PathBuf::new(),
        tables_at_once: false,
        continuity: Continuity::default(),
        verify: Verify::Quick,
        placement: Placement::None,
        is_polite: false,
        compress: Compress::None,
        statistics: Statistics::Auto,
        ceilings: None,
        destination: String::new(),
    }
}
