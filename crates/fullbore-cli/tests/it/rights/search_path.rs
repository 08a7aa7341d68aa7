//! A role's search path is for what its tables run; the catalog is asked of the server alone.

use fullbore_testing::{TestDatabase, TestServer, shared_or_skip};

use crate::common::Files;
use crate::common::moments::assert_loaded;

/// Functions, an aggregate and operators in `public` that fit the catalog's types better than the server's
/// own, and a type that has the name of one of them. Each writes down who ran it.
const TRAPS: &str = "
    CREATE TABLE public.canary (what text, who text);
    CREATE FUNCTION public.ran(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.canary VALUES (what, current_user); END $$;
    CREATE FUNCTION public.agg_step(a text, b name, c text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('string_agg'); RETURN coalesce(a || c, '') || b::text; END $$;
    CREATE AGGREGATE public.string_agg(name, text) (SFUNC = public.agg_step, STYPE = text);
    CREATE FUNCTION public.eq(a name, b name) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('name = name'); RETURN a::text OPERATOR(pg_catalog.=) b::text; END $$;
    CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = name, FUNCTION = public.eq);
    CREATE FUNCTION public.eq(a int, b int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('int = int'); RETURN a OPERATOR(pg_catalog.>=) b AND b OPERATOR(pg_catalog.>=) a; END $$;
    CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.eq);
    CREATE FUNCTION public.plus(a bigint, b bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('bigint + bigint'); RETURN a OPERATOR(pg_catalog.-) (0::bigint OPERATOR(pg_catalog.-) b); END $$;
    CREATE OPERATOR public.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.plus);
    CREATE FUNCTION public.quote_ident(a name) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('quote_ident'); RETURN pg_catalog.quote_ident(a::text); END $$;
    CREATE FUNCTION public.to_regclass(a text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('to_regclass'); RETURN pg_catalog.to_regclass(a); END $$;
    CREATE FUNCTION public.\"left\"(a text, b int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('left'); RETURN pg_catalog.\"left\"(a, b); END $$;
    CREATE FUNCTION public.concat_ws(a text, b text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('concat_ws'); RETURN b; END $$;
    CREATE FUNCTION public.checked(a pg_catalog.text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.ran('type text'); RETURN true; END $$;
    CREATE DOMAIN public.text AS pg_catalog.text CHECK (public.checked(VALUE));";

fn canary(database: &TestDatabase<'_>) -> String {
    database.psql(
        "SELECT pg_catalog.string_agg(DISTINCT what::pg_catalog.text, ', ') FROM public.canary",
    )
}

/// Loads in every way, with rows that break a key among them, and goes through the commands for runs.
fn everything_under(server: TestServer, path: &str) {
    let cluster = shared_or_skip!(server);
    let database = cluster.fresh_database();
    let files = Files::new();
    let rows: String = (0..3000).map(|k| format!("{},{},x\n", k / 2, k % 7)).collect();
    let doubled = files.write("doubled.csv", rows);
    let rows: String = (0..3000).map(|k| format!("{k},{},x\n", k % 7)).collect();
    let file = files.write("rows.csv", rows);
    let bad: String =
        (0..300).map(|k| format!("{},{},x\n", if k % 3 == 0 { "bad" } else { "7" }, k)).collect();
    let bad = files.write("bad.csv", bad);
    database.psql(TRAPS);
    for (table, tail) in [
        ("plain", ""),
        ("atomic", ""),
        ("rejecting", ""),
        ("odd", ""),
        ("replaced", ""),
        ("parted", "PARTITION BY RANGE (k)"),
    ] {
        let key = if table == "odd" { "" } else { "PRIMARY KEY" };
        database.psql(&format!(
            "CREATE TABLE public.{table} (k bigint {key}, n int CHECK (n >= 0), v varchar(9)) {tail};
             CREATE INDEX ON public.{table} (n) WHERE n > 2"
        ));
    }
    let url = format!("{}&options=-csearch_path%3D{path}", database.url());
    let load = |file: &str, table: &str, more: &[&str]| {
        let args = [&["--header", "none", "--verify", "full"], more].concat();
        files.load_at(&url, file, table, &args)
    };
    assert_loaded(&load(&file, "plain", &[]));
    assert_loaded(&load(&file, "atomic", &["--atomic"]));
    assert_loaded(&load(&file, "replaced", &["--publish", "replace", "--keep-old"]));
    assert_loaded(&load(&file, "parted", &["--publish", "partitions"]));
    assert_loaded(&load(&file, "made", &["--create"]));
    let rejected = load(&doubled, "rejecting", &["--max-rejects", "1500"]);
    assert_eq!(rejected.code, 3, "{}", rejected.stderr);
    let rejected = load(&bad, "odd", &["--max-rejects", "100"]);
    assert_eq!(rejected.code, 3, "{}", rejected.stderr);
    for table in ["plain", "atomic", "replaced", "parted", "made"] {
        let count = database.psql(&format!("SELECT count(*) FROM public.{table}"));
        assert_eq!(count, "3000", "{table}");
    }
    assert_eq!(database.psql("SELECT count(*) FROM public.rejecting"), "1500");
    assert_eq!(database.psql("SELECT count(*) FROM public.odd"), "200");
    let to = ["--to", url.as_str()];
    let listed = files.fullbore(&[&["runs", "list"][..], &to].concat());
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let runs = |table: &str| {
        let found = format!(
            "SELECT run FROM {}.runs WHERE targets::pg_catalog.text LIKE '%{table}%'",
            super::LEDGER
        );
        database.psql(&found)
    };
    for (command, table) in [("verify", "atomic"), ("show", "plain"), ("undo", "replaced")] {
        let done = files.fullbore(&[&["runs", command, &runs(table)][..], &to].concat());
        assert_eq!(done.code, 0, "{command}: {}", done.stderr);
    }
    assert_eq!(canary(&database), "", "functions of public were run");
}

#[test]
fn functions_operators_and_types_of_public_are_not_run() {
    everything_under(TestServer::Embedded18, "%22%24user%22%2Cpublic");
}

#[test]
fn functions_operators_and_types_are_not_run_where_public_comes_before_the_server() {
    everything_under(TestServer::Embedded18, "public%2Cpg_catalog");
}

#[test]
fn functions_operators_and_types_of_public_are_not_run_by_older_servers() {
    everything_under(TestServer::Pg14, "public%2Cpg_catalog");
}

/// Triggers at once and at the end, defaults and CHECKs whose functions name tables without a schema.
const OF_A_TABLE: &str = "
    CREATE SCHEMA app;
    SET search_path = app;
    CREATE TABLE seen (k bigint, late bool);
    CREATE SEQUENCE numbers;
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO seen VALUES (NEW.k, TG_ARGV[0]::bool); RETURN NEW; END $$;
    CREATE FUNCTION next() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('numbers'); END $$;
    CREATE FUNCTION is_known(k bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        PERFORM FROM seen WHERE false; RETURN k <> 4; END $$;
    CREATE TABLE t (k bigint UNIQUE CHECK (is_known(k)), number bigint DEFAULT next());
    CREATE TRIGGER see BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION see(false);
    CREATE CONSTRAINT TRIGGER see_late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION see(true);";

#[test]
fn what_a_table_runs_sees_the_path_of_the_role() {
    let cluster = shared_or_skip!(TestServer::Embedded18);
    let database = cluster.fresh_database();
    let files = Files::new();
    database.psql(OF_A_TABLE);
    let url = format!("{}&options=-csearch_path%3Dapp", database.url());
    let mut next = 10;
    for more in [&[][..], &["--atomic"]] {
        let rows: String = (next..next + 50).map(|k| format!("{k}\n")).collect();
        next += 50;
        let file = files.write("rows.csv", rows);
        let args = [&["--header", "none", "--columns", "k"], more].concat();
        assert_loaded(&files.load_at(&url, &file, "t", &args));
        let seen = database.psql(
            "SELECT count(*) FILTER (WHERE late), count(*) FILTER (WHERE NOT late) FROM app.seen",
        );
        assert_eq!(seen, format!("{0}|{0}", next - 10), "{more:?}");
    }
    assert_eq!(database.psql("SELECT count(DISTINCT number) FROM app.t"), "100");
    // One by one, on the server.
    database.psql("DROP TRIGGER see_late ON app.t");
    let file = files.write("rows.csv", "1\n4\n5\n11\n6\n");
    let args = ["--header", "none", "--columns", "k", "--max-rejects", "2"];
    let rejected = files.load_at(&url, &file, "t", &args);
    assert_eq!(rejected.code, 3, "{}", rejected.stderr);
    assert_eq!(database.psql("SELECT count(*) FROM app.t"), "103");
}
