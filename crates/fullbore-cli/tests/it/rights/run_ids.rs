//! Runs that have the same id: only who inserted its row in the ledger has the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fullbore_load::job::{EndpointPolicy, Placement, RejectLimit};
use fullbore_load::plan::{Continuity, Format, PieceInput, Plan, PlannedPiece, TablePlan};
use fullbore_load::sink::{Resumable, Sink};
use fullbore_load::target::{TableRequest, Target};
use fullbore_parse::Lane;
use fullbore_parse::dialect::Dialect;
use fullbore_parse::types::{FieldType, ParseColumn, ParseShape};
use fullbore_pgwire::{ConnectionOptions, Environment};
use fullbore_postgres::ledger::Ledger;
use fullbore_postgres::{Postgres, Server, Settings};
use fullbore_record::terms::{Compress, Method, Publish, Statistics, Verify};
use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

use super::LEDGER;
use crate::common::Files;
use crate::common::held::end_of;
use crate::common::moments::{Gate, Moment, assert_loaded, ledger};
use crate::common::ways::{APPEND, prepared};

/// The plan of a run into a table of one column, with an id that another one has.
fn plan(run_id: &str, table: &str) -> Plan {
    let shape = Arc::new(ParseShape::of_one(ParseColumn {
        name: "a".into(),
        field: 0,
        field_type: FieldType::text(),
        guess: None,
    }));
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
        publish: Publish::Append,
        upsert: None,
        columns: Vec::new(),
        bytes: None,
        piece_bytes: 1,
        header_line: None,
        rounded: Vec::new(),
        is_atomic: true,
        keeps_old: false,
        notes: Vec::new(),
        schema_notes: Vec::new(),
        inferred: BTreeMap::new(),
    };
    let input = PieceInput::Ranges(Vec::new());
    Plan {
        run_id: run_id.into(),
        tables: vec![table],
        pieces: vec![PlannedPiece { number: 0, table: 0, input, bytes: 0, bounds: None }],
        streams: 1,
        parsers: 1,
        tuning: None,
        max_rate: None,
        max_rejects: RejectLimit::Rows(0),
        max_field_bytes: 1 << 20,
        run_dir: PathBuf::new(),
        reject_dir: PathBuf::new(),
        tables_at_once: false,
        continuity: Continuity { is_resumable: true, ..Continuity::default() },
        verify: Verify::Quick,
        placement: Placement::None,
        is_polite: false,
        compress: Compress::None,
        statistics: Statistics::Auto,
        ceilings: None,
        destination: String::new(),
    }
}

/// A second host, which has drawn the same id.
fn second_host(database: &TestDatabase<'_>, schema: &str, plan: &Plan) -> Postgres {
    let options =
        ConnectionOptions::resolve(Some(database.url()), &Environment::empty()).expect("a URL");
    let settings = Settings {
        tablespaces: Vec::new(),
        allow_publication: false,
        skip_logical_decoding: false,
        statistics: Statistics::Auto,
        loads_again: false,
        endpoints: Vec::new(),
        endpoint_policy: EndpointPolicy::default(),
    };
    let server = Server::connect(options, settings).expect("connected");
    let request = TableRequest {
        name: plan.tables[0].name.clone(),
        publish: Publish::Append,
        atomic: true,
        method: Method::Copy,
        ..TableRequest::default()
    };
    let target = server.describe(&request).expect("described");
    let ledger = Ledger::new(schema, "another job", &plan.run_id);
    Postgres::new(Arc::new(server), vec![target], Some(ledger), None)
}

#[test]
fn a_run_whose_id_another_one_has_leaves_that_one_alone() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let mut gate = Gate::at(&database, Moment::PieceBegins(1));
    let child = files.start_load(database.url(), &file, APPEND.name, &APPEND.args());
    gate.wait();
    let run = database.psql(&format!("SELECT run FROM {LEDGER}.runs WHERE state = 'loading'"));

    let plan = plan(&run, "first");
    let second = second_host(&database, &format!("\"{LEDGER}\""), &plan);
    let error = second.prepare(&plan).expect_err("the id is taken");
    assert!(error.to_string().contains(&format!("another run with the id {run}")), "{error}");
    assert_eq!(second.abort(&plan), Vec::<String>::new());
    second.leave(&plan);
    assert_eq!(ledger(&database, APPEND.name), "loading|1");
    assert_eq!(
        database.psql(&format!("SELECT attempt, pid > 0 FROM {LEDGER}.runs WHERE run = '{run}'")),
        "1|t"
    );

    gate.open(&database);
    assert_loaded(&end_of(child));
    assert_eq!(ledger(&database, APPEND.name), "finished|3");
}

#[test]
fn a_run_goes_on_where_its_row_was_inserted_and_the_answer_was_lost() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    let file = prepared(&database, &files);
    APPEND.make(&database);
    let mut gate = Gate::at(&database, Moment::Begins);
    let child = files.start_load(database.url(), &file, APPEND.name, &APPEND.args());
    gate.wait();
    gate.terminate_waiting();
    gate.open(&database);
    assert_loaded(&end_of(child));
    assert_eq!(ledger(&database, APPEND.name), "finished|3");
}

#[test]
fn ids_are_of_twenty_digits_and_those_of_earlier_versions_are_taken() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    prepared(&database, &files);
    let run = database.psql(&format!("SELECT run FROM {LEDGER}.runs"));
    assert!(run.len() == 20 && run.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{run}");

    let old = "6b01b99c8df6";
    database.psql(&format!(
        "INSERT INTO {LEDGER}.runs (run, job, state, targets, tables, pieces, fullbore, host, pid)
         SELECT '{old}', '00ff', 'loading', targets, tables, pieces, '0.1.0', host, pid FROM {LEDGER}.runs"
    ));
    let to = ["--to", database.url()];
    let shown = files.fullbore(&[&["runs", "show", old][..], &to].concat());
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains(old), "{}", shown.stdout);
    let aborted = files.fullbore(&[&["runs", "abort", old][..], &to].concat());
    assert_eq!(aborted.code, 0, "{}", aborted.stderr);
    for other in ["../../etc", "6b01b99c8dF6", "6b01b99c8df67"] {
        let refused = files.fullbore(&[&["runs", "abort", other][..], &to].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
    }
}
