"""What a hostile role does with the grants that the guides prescribe.

Each attack is what the role `evil` does in a database before a superuser works in it: statements
that may be refused, one by one. All hostile code ends in `evil.act`, which writes down whose rights
it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from servers import Server

LEDGER = "fullbore_ledger"
TABLES = ("runs", "pieces", "pieces_unlogged", "parts", "checksums")

# What hostile code does. As a role that was only put on, it tries to take it off.
ACT = """
CREATE SCHEMA evil;
CREATE TABLE evil.canary (who name, what text);
GRANT USAGE ON SCHEMA evil TO PUBLIC;
GRANT INSERT ON evil.canary TO PUBLIC;
CREATE FUNCTION evil.act(what text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    IF current_user = 'evil' AND session_user <> 'evil' THEN
        BEGIN EXECUTE 'RESET ROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
    END IF;
    IF current_user <> 'evil' THEN
        INSERT INTO evil.canary VALUES (current_user, what);
        BEGIN EXECUTE 'ALTER ROLE evil SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
    END IF;
    RETURN true;
END $$;
CREATE FUNCTION evil.acting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM evil.act('trigger on ' || TG_TABLE_NAME); RETURN NEW; END $$;
CREATE FUNCTION evil.text(what text) RETURNS text LANGUAGE sql
    AS $$ SELECT CASE WHEN evil.act($1) THEN $1 END $$;
"""

INJECTION = "x'); SELECT evil.act('sql in {0}'); --"
QUOTED = '"public"."t"; SELECT evil.act(\'name in {0}\'); --'


@dataclass
class Attack:
    name: str
    # Before the superuser's first load, or after it.
    before: bool = False
    statements: list[str] = field(default_factory=list)
    # What a superuser does for the attack to have a chance.
    prepared: str = ""


def traps() -> list[str]:
    """What fits the catalog's columns better than the server's own functions and operators."""
    made = [
        """CREATE FUNCTION public.step(a text, b name, c text) RETURNS text LANGUAGE sql
           AS $$ SELECT evil.text('string_agg') || coalesce($1, '') || $2::pg_catalog.text $$""",
        """CREATE AGGREGATE public.string_agg(name, text) (SFUNC = public.step, STYPE = text)""",
        """CREATE DOMAIN public.text AS pg_catalog.text CHECK (evil.act('type text'))""",
    ]
    for kind in ("name", "int", "bigint", "oid", "pg_catalog.text", '"char"', "bool"):
        for operator in ("=", "<>", ">", "+", "||", "~"):
            function = f"public.op_{len(made)}"
            made += [
                f"""CREATE FUNCTION {function}(a {kind}, b {kind}) RETURNS bool LANGUAGE sql
                    AS $$ SELECT evil.act('operator {operator}') $$""",
                f"""CREATE OPERATOR public.{operator} (LEFTARG = {kind}, RIGHTARG = {kind},
                    FUNCTION = {function})""",
            ]
    for call in ("quote_ident(a name)", "to_regclass(a pg_catalog.text)", "lower(a name)",
                 "format(a pg_catalog.text, b name)", "strpos(a name, b pg_catalog.text)",
                 "count(a name)", "pg_get_expr(a name)", "length(a name)"):  # fmt: skip
        made.append(
            f"""CREATE FUNCTION public.{call} RETURNS pg_catalog.text LANGUAGE sql
                AS $$ SELECT evil.text('function {call.partition("(")[0]}') $$"""
        )
    return made


def look_alike(schema: str) -> list[str]:
    """A ledger of evil's own, whose tables run code whatever is done with them."""
    made = [f"CREATE SCHEMA {schema}"]
    columns = {
        "runs": "run text, job text, state text, attempt int, targets text[], tables text, "
        "pieces text, fullbore text, host text, pid int, xid_published xid8, role name, "
        "started timestamptz, changed timestamptz",
        "pieces": "run text, piece int, target int, attempt int, rows bigint, rejected bigint, "
        "bytes bigint, source text, checksum text, xid_from xid8, began timestamptz, "
        "committed timestamptz",
    }
    columns["pieces_unlogged"] = columns["pieces"]
    columns["parts"] = "run text, whole text, identity text, part int, parts int, pieces bigint, " \
        "rows bigint, loaded timestamptz"  # fmt: skip
    columns["checksums"] = "run text, piece int, proof text"
    for table, of in columns.items():
        made += [
            f"CREATE TABLE {schema}.{table} ({of}, trap text DEFAULT evil.text('default'))",
            f"""CREATE TRIGGER act BEFORE INSERT OR UPDATE OR DELETE ON {schema}.{table}
                FOR EACH STATEMENT EXECUTE FUNCTION evil.acting()""",
            f"GRANT ALL ON {schema}.{table} TO PUBLIC",
        ]
    return [*made, f"GRANT ALL ON SCHEMA {schema} TO PUBLIC"]


def look_alike_of_views(schema: str) -> list[str]:
    made = [f"CREATE SCHEMA {schema}", f"GRANT ALL ON SCHEMA {schema} TO PUBLIC"]
    for table in TABLES:
        made += [
            f"""CREATE VIEW {schema}.{table} AS SELECT 'r'::text AS run, 'j'::text AS job,
                'loading'::text AS state, '1'::xid8 AS xid_published, '1'::xid8 AS xid_from
                WHERE evil.act('view {table}')""",
            f"GRANT ALL ON {schema}.{table} TO PUBLIC",
        ]
    return made


def on_the_ledger() -> list[str]:
    """What would give the ledger's tables code, and things that hang on them."""
    made = []
    for table in TABLES:
        name = f"{LEDGER}.{table}"
        made += [
            f"""CREATE TRIGGER act BEFORE INSERT OR UPDATE OR DELETE ON {name}
                FOR EACH ROW EXECUTE FUNCTION evil.acting()""",
            f"CREATE RULE act AS ON UPDATE TO {name} DO ALSO SELECT evil.act('rule')",
            f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
            f"CREATE POLICY act ON {name} USING (evil.act('policy'))",
            f"ALTER TABLE {name} ADD CHECK (evil.act('check'))",
            f"CREATE INDEX ON {name} (evil.text('index'))",
            f"CREATE TABLE evil.child_{table} () INHERITS ({name})",
            f"CREATE TABLE evil.k_{table} (run text REFERENCES {name} ON DELETE CASCADE)",
            f"CREATE STATISTICS evil.s_{table} ON (evil.text('s')), run FROM {name}",
            f"ALTER TABLE {name} OWNER TO evil",
        ]
    return [*made, f"DROP SCHEMA {LEDGER} CASCADE", f"ALTER SCHEMA {LEDGER} RENAME TO mine"]


def poisoned(value: object, place: str) -> Iterator[object]:
    """Copies of something of JSON in which one string is another."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for other in poisoned(inner, f"{place}.{key}"):
                yield {**value, key: other}
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            for other in poisoned(inner, place):
                yield [*value[:number], other, *value[number + 1 :]]
    elif isinstance(value, str) or value is None:
        yield INJECTION.format(place)
        yield QUOTED.format(place)


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def rows_of(server: Server, database: str) -> Iterator[Attack]:
    """SQL in each text of each column and each field of the ledger's rows."""
    texts = server.sql(
        f"""SELECT c.relname || '|' || a.attname
              FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
             WHERE c.relnamespace = '{LEDGER}'::regnamespace AND relkind = 'r' AND attnum > 0
               AND atttypid IN ('text'::regtype, 'name'::regtype, 'text[]'::regtype)
             ORDER BY 1""",
        database,
    )
    for place in texts.splitlines():
        table, column = place.split("|")
        for injection in (INJECTION, QUOTED):
            bad = literal(injection.format(place.replace("|", ".")))
            value = f"ARRAY[{bad}]" if column == "targets" else bad
            yield Attack(f"rows: {table}.{column}", statements=[
                f"UPDATE {LEDGER}.{table} SET {column} = {value}",
            ])  # fmt: skip
    for column in ("tables", "pieces"):
        text = server.sql(f"SELECT {column} FROM {LEDGER}.runs LIMIT 1", database)
        for number, other in enumerate(poisoned(json.loads(text), column)):
            bad = literal(json.dumps(other))
            yield Attack(f"rows: runs.{column} {number}", statements=[
                f"UPDATE {LEDGER}.runs SET {column} = {bad}",
            ])  # fmt: skip
    yield Attack("rows: another's run", statements=[
        f"UPDATE {LEDGER}.runs SET role = 'evil'",
        f"UPDATE {LEDGER}.runs SET tables = replace(tables, 'public', 'evil')",
        f"UPDATE {LEDGER}.runs SET state = 'loading'",
    ])  # fmt: skip


def staging_look_alikes(runs: list[str]) -> list[str]:
    """Tables with the names that runs give theirs, which run code when they are read or written."""
    made = []
    for run in runs:
        for table in ("t", "a", "r", "p"):
            for part in ("new", "00000", "00001"):
                name = f'public."{table}_fb_{run}_{part}"'
                made += [
                    f"CREATE TABLE {name} (k bigint, n int, v text CHECK (evil.act('check')), "
                    "x text GENERATED ALWAYS AS (v) STORED)",
                    f"""CREATE TRIGGER act BEFORE INSERT OR DELETE OR UPDATE ON {name}
                        FOR EACH ROW EXECUTE FUNCTION evil.acting()""",
                    f"GRANT ALL ON {name} TO PUBLIC",
                    f"INSERT INTO {name} VALUES (1, 1, 'x')",
                    f"""CREATE TRIGGER act BEFORE INSERT ON {name} FOR EACH ROW
                        EXECUTE FUNCTION evil.acting()""",
                ]
    return [*made, f"UPDATE {LEDGER}.runs SET state = 'loading'"]


def all_attacks(server: Server, sample: str, runs: list[str]) -> list[Attack]:
    old, beside = (
        "fullbore",
        [text.replace(f"CREATE SCHEMA {LEDGER}", "SELECT 1") for text in look_alike(LEDGER)],
    )
    return [
        Attack("search_path", before=True, statements=traps()),
        Attack("a look-alike of the ledger", before=True, statements=look_alike(LEDGER)),
        Attack("a look-alike where it was", before=True, statements=look_alike(old)),
        Attack("views for the ledger", before=True, statements=look_alike_of_views(LEDGER)),
        Attack("views where it was", before=True, statements=look_alike_of_views(old)),
        Attack("parts and checksums of evil's", prepared=f"""
            DROP TABLE {LEDGER}.parts, {LEDGER}.checksums;
            GRANT CREATE ON SCHEMA {LEDGER} TO evil""", statements=beside),
        Attack("the extension's schema", before=True, statements=["CREATE SCHEMA fullbore",
            "GRANT ALL ON SCHEMA fullbore TO PUBLIC", """
            CREATE FUNCTION fullbore.descriptor(a text) RETURNS text LANGUAGE sql
            AS $$ SELECT evil.text('descriptor') $$"""]),
        Attack("functions beside the extension's",
            prepared="GRANT CREATE ON SCHEMA fullbore TO evil", statements=["""
            CREATE FUNCTION fullbore.descriptor(a oid) RETURNS text LANGUAGE sql
            AS $$ SELECT evil.text('descriptor') $$"""]),
        Attack("objects on the ledger", statements=on_the_ledger()),
        Attack("objects on the ledger, by GRANT ALL", statements=on_the_ledger(), prepared=f"""
            GRANT ALL ON ALL TABLES IN SCHEMA {LEDGER} TO evil;
            GRANT ALL ON SCHEMA {LEDGER} TO evil"""),
        Attack("staging tables that are there already", statements=staging_look_alikes(runs)),
        *rows_of(server, sample),
    ]  # fmt: skip
