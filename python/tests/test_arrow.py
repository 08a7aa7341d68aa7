"""Arrow data from Python, against COPY of the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import duckdb
import fullbore
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from embedded import Server

pytestmark = pytest.mark.usefixtures("own_state")

UTC = dt.timezone.utc
D = decimal.Decimal

# Each type, its SQL type, and values of it; None is added to each.
TYPES: list[tuple[pa.DataType, str, list[Any]]] = [
    (pa.bool_(), "boolean", [True, False]),
    (pa.int8(), "smallint", [-128, 0, 127]),
    (pa.int16(), "smallint", [-(2**15), 2**15 - 1]),
    (pa.int32(), "integer", [-(2**31), 2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1]),
    (pa.uint8(), "smallint", [0, 255]),
    (pa.uint16(), "integer", [0, 65535]),
    (pa.uint32(), "bigint", [0, 2**32 - 1]),
    (pa.uint64(), "numeric", [0, 2**64 - 1]),
    (pa.float32(), "real", [1.5, -0.0, math.inf, -math.inf, math.nan]),
    (pa.float64(), "double precision", [0.1, 1e308, 5e-324, math.inf, math.nan]),
    (pa.decimal128(38, 10), "numeric", [D("1.5"), D("-9999999999999999999999999999.9999999999")]),
    (pa.decimal128(12, 2), "numeric(12,2)", [D("1.50"), D("-0.01")]),
    (pa.decimal256(60, 5), "numeric", [D("12345678901234567890123456789012345678901234567890.5")]),
    (pa.string(), "text", ["", "a", "ä\tb\\n\n", "x" * 5000]),
    (pa.large_string(), "varchar(20)", ["", "large"]),
    (pa.string_view(), "text", ["short", "longer than twelve bytes"]),
    (pa.dictionary(pa.int8(), pa.string()), "text", ["red", "green", "red"]),
    (pa.binary(), "bytea", [b"", b"\x00\xff"]),
    (pa.large_binary(), "bytea", [b"large"]),
    (pa.binary_view(), "bytea", [b"more than twelve bytes"]),
    (pa.binary(3), "bytea", [b"abc"]),
    (pa.binary(16), "uuid", [uuid.UUID(int=1).bytes, uuid.UUID(int=2**128 - 1).bytes]),
    (pa.date32(), "date", [dt.date(1, 1, 1), dt.date(2000, 2, 29), dt.date(9999, 12, 31)]),
    (pa.date64(), "date", [dt.date(1970, 1, 1)]),
    (pa.time32("ms"), "time", [dt.time(0), dt.time(23, 59, 59, 999000)]),
    (pa.time64("us"), "time", [dt.time(12, 30, 0, 1)]),
    (pa.timestamp("s"), "timestamp", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]),
    (pa.timestamp("us"), "timestamp", [dt.datetime(2024, 2, 29, 1, 2, 3, 456789)]),
    (pa.timestamp("us", "UTC"), "timestamptz", [dt.datetime(2024, 2, 29, 1, tzinfo=UTC)]),
    (pa.timestamp("ms", "Europe/Zurich"), "timestamptz", [dt.datetime(2024, 7, 1, tzinfo=UTC)]),
    (pa.duration("us"), "interval", [dt.timedelta(days=1, microseconds=1), dt.timedelta(0)]),
    (pa.list_(pa.int32()), "integer[]", [[], [1, None, 3]]),
    (pa.large_list(pa.string()), "text[]", [["a", 'quo"te', "NULL", None, ""]]),
    (pa.list_(pa.float64(), 2), "double precision[]", [[0.5, 1.5]]),
    (pa.list_view(pa.int64()), "bigint[]", [[1], [2, 3]]),
    (pa.struct([("x", pa.int64()), ("y", pa.string())]), "jsonb", [{"x": 1, "y": "ä"}]),
    (pa.map_(pa.string(), pa.int32()), "jsonb", [[("a", 1), ("b", 2)]]),
    (pa.string(), "integer", ["12", "-7"]),
    (pa.string(), "inet", ["192.168.0.1", "::1"]),
    (pa.null(), "text", []),
]


def text_of(value: Any, kind: pa.DataType, sql: str) -> str:
    """A value as the server's own input functions take it."""
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        return value.hex() if sql == "uuid" else "\\\\x" + value.hex()
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, dt.timedelta):
        # A day of such a duration always has 24 hours.
        return f"{value.days * 86400 + value.seconds} seconds {value.microseconds} microseconds"
    if isinstance(value, decimal.Decimal):
        return str(value.quantize(D(1).scaleb(-kind.scale), context=decimal.Context(prec=76)))
    if sql == "jsonb":
        text = json.dumps(dict(value), ensure_ascii=False)
    elif isinstance(value, list):
        inner = [json.dumps(v) if isinstance(v, str) else "NULL" if v is None else v for v in value]
        text = "{" + ",".join(map(str, inner)) + "}"
    else:
        text = str(value)
    for plain, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return text


def every_type(rows: int) -> tuple[pa.Table, list[str], str]:
    """A table with a column of each type, its columns' definitions, and its rows as COPY's text."""
    arrays, columns, texts = [], [], []
    for number, (kind, sql, values) in enumerate(TYPES):
        values = [*values, None]
        repeated = [values[row % len(values)] for row in range(rows)]
        if pa.types.is_dictionary(kind):
            array = pa.array(repeated, kind.value_type).dictionary_encode()
        else:
            array = pa.array(repeated, kind)
        arrays.append(array)
        columns.append(f"c{number} {sql}")
        texts.append([text_of(value, kind, sql) for value in repeated])
    names = [f"c{number}" for number in range(len(TYPES))]
    lines = "".join("\t".join(row) + "\n" for row in zip(*texts, strict=True))
    return pa.table(arrays, names=names), columns, lines


def differences(server: Server, one: str, other: str) -> int:
    """Rows that are in one of two tables and not as often in the other."""
    columns = server.sql(
        f"SELECT string_agg(format('%I::text', attname), ',' ORDER BY attnum) FROM pg_attribute "
        f"WHERE attrelid = '{one}'::regclass AND attnum > 0"
    )[0][0]
    a, b = f"SELECT {columns} FROM {one}", f"SELECT {columns} FROM {other}"
    found = server.sql(
        f"SELECT count(*) FROM (({a} EXCEPT ALL {b}) UNION ALL ({b} EXCEPT ALL {a})) AS d"
    )
    return int(found[0][0])


@pytest.mark.parametrize("method", ["copy", "direct"])
def test_every_type_equals_copy(server: Server, method: str) -> None:
    table, columns, lines = every_type(30_000)
    # In several chunks, which begin anywhere.
    parts = [table.slice(0, 7), table.slice(7, 13_331), table.slice(13_338)]
    table = pa.concat_tables(parts)
    for name in ("loaded", "copied"):
        server.sql(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({', '.join(columns)})")
    server.copy("copied", lines)
    publish = "replace" if method == "direct" else "append"
    result = fullbore.load(
        table, to=server.url, table="loaded", method=method, publish=publish, verify="full"
    )
    assert (result.rows, result.rejected) == (30_000, 0)
    assert result.raw["method"] == method
    assert differences(server, "loaded", "copied") == 0
    # It stays what it was.
    assert table.num_rows == 30_000
    table.validate(full=True)


def test_a_stream_is_loaded_as_a_table_is(server: Server) -> None:
    table, columns, lines = every_type(20_000)
    for name in ("streamed", "copied_2"):
        server.sql(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({', '.join(columns)})")
    server.copy("copied_2", lines)
    result = fullbore.load(table.to_reader(max_chunksize=3_000), to=server.url, table="streamed")
    assert result.rows == 20_000
    assert differences(server, "streamed", "copied_2") == 0
    assert any("can be read only once" in note for note in result.notes) or not result.notes


def numbers(rows: int) -> dict[str, list[Any]]:
    return {"n": list(range(rows)), "name": [f"name {n}" for n in range(rows)]}


def sources(rows: int) -> dict[str, Any]:
    columns = numbers(rows)
    table = pa.table(columns)
    connection = duckdb.connect()
    connection.register("t", table)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=777)

    return {
        "pyarrow.Table": table,
        "pyarrow.RecordBatch": table.to_batches()[0],
        "pyarrow reader": table.to_reader(),
        "polars": pl.DataFrame(columns),
        "polars in chunks": pl.concat(
            [pl.DataFrame(columns).slice(at, 400) for at in range(0, rows, 400)], rechunk=False
        ),
        "iterator of frames": (frame for frame in [pl.DataFrame(columns)]),
        "pandas": pd.DataFrame(columns),
        "duckdb": connection.sql("SELECT * FROM t"),
        "list of batches": table.to_batches(max_chunksize=500),
        "iterator of batches": batches(),
    }


@pytest.mark.parametrize("kind", sources(1).keys())
def test_whatever_gives_arrow_is_a_source(server: Server, kind: str) -> None:
    server.sql("DROP TABLE IF EXISTS sourced")
    source = sources(5_000)[kind]
    result = fullbore.load(source, to=server.url, table="sourced", create=True)
    assert result.rows == 5_000
    said = server.sql("SELECT count(*), sum(n), count(DISTINCT name), min(name) FROM sourced")
    assert said == [["5000", "12497500", "5000", "name 0"]]


@pytest.mark.parametrize("publish", ["replace", "partitions", "append"])
@pytest.mark.parametrize("kind", ["pyarrow.Table", "pyarrow reader"])
def test_every_way_to_publish(server: Server, publish: str, kind: str) -> None:
    server.sql(
        "DROP TABLE IF EXISTS published; CREATE TABLE published (n bigint NOT NULL, name text)"
        + (" PARTITION BY RANGE (n)" if publish == "partitions" else "")
    )
    source = sources(50_000)[kind]
    if publish == "partitions" and kind == "pyarrow reader":
        with pytest.raises(fullbore.LoadError, match=r"once|stream"):
            fullbore.load(source, to=server.url, table="published", publish="partitions")
        return
    result = fullbore.load(source, to=server.url, table="published", publish=publish)
    assert result.rows == 50_000
    assert server.sql("SELECT count(*), sum(n) FROM published") == [["50000", "1249975000"]]


def test_rejects_name_row_column_and_value(server: Server) -> None:
    server.sql("DROP TABLE IF EXISTS small; CREATE TABLE small (n smallint, name text)")
    table = pa.table({"n": [1, 2, 70_000, 4], "name": ["a", "b", "c", "d"]})
    with pytest.raises(fullbore.RejectsError) as raised:
        fullbore.load(table, to=server.url, table="small")
    error = raised.value
    assert (error.exit_code, error.row, error.column, error.value) == (1, 3, "n", "70000")
    assert error.reason and "smallint" in error.reason
    assert error.file and error.file.startswith("arrow:Table-")
    assert error.hint and "max-rejects" in error.hint
    result = fullbore.load(table, to=server.url, table="small", max_rejects=1)
    assert (result.rows, result.rejected) == (3, 1)
    assert server.sql("SELECT sum(n) FROM small") == [["7"]]


def test_a_constraint_rejects_rows_of_a_table(server: Server) -> None:
    server.sql("DROP TABLE IF EXISTS keyed; CREATE TABLE keyed (n bigint PRIMARY KEY, name text)")
    columns = numbers(1_000)
    columns["n"][500] = 7
    result = fullbore.load(pa.table(columns), to=server.url, table="keyed", max_rejects=5)
    assert (result.rows, result.rejected) == (999, 1)


def test_columns_that_cannot_be_loaded_are_refused_by_name(server: Server) -> None:
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
    )
    table = pa.table({"good": [1, 2], "odd": union})
    with pytest.raises(fullbore.UsageError, match='"odd"'):
        fullbore.load(table, to=server.url, table="unions", create=True)
    with pytest.raises(fullbore.UsageError, match='"name"'):
        server.sql("DROP TABLE IF EXISTS bools; CREATE TABLE bools (n bigint, name boolean)")
        nested = pa.table({"n": [1], "name": pa.array([[1]], pa.list_(pa.int32()))})
        fullbore.load(nested, to=server.url, table="bools")


def test_text_that_is_not_utf8_is_refused_by_its_row(server: Server) -> None:
    server.sql("DROP TABLE IF EXISTS texts; CREATE TABLE texts (name text, names text[])")
    offsets = pa.py_buffer(struct.pack("<4i", 0, 2, 4, 5))

    def texts(raw: bytes, valid: bytes | None = None) -> pa.Array:
        buffers = [pa.py_buffer(valid) if valid else None, offsets, pa.py_buffer(raw)]
        return pa.Array.from_buffers(pa.string(), 3, buffers)

    good = pa.array(["a", "b", "c"])
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], good)
    # One that is cut between two values; one whose bad bytes stand where a value is NULL.
    for raw, valid, row in [
        (b"ok\xff\xffx", None, 2),
        (b"okx\xc3\xa4", None, 2),
        (b"ok\xffyz", b"\5", 0),
    ]:
        table = pa.table({"name": texts(raw, valid), "names": lists})
        if row:
            with pytest.raises(fullbore.SourceError, match=rf'"name", row {row}: .*not UTF-8'):
                fullbore.load(table, to=server.url, table="texts", publish="replace")
        else:
            assert fullbore.load(table, to=server.url, table="texts", publish="replace").rows == 3
    nested = pa.ListArray.from_arrays([0, 1, 2, 3], texts(b"ok\xff\xffx"))
    with pytest.raises(fullbore.SourceError, match=r'"names", row 2: .*not UTF-8'):
        fullbore.load(pa.table({"name": good, "names": nested}), to=server.url, table="texts")


@pytest.mark.parametrize("publish", ["append", "replace"])
def test_a_decimal_beyond_its_precision_is_rejected(server: Server, publish: str) -> None:
    server.sql("DROP TABLE IF EXISTS sums; CREATE TABLE sums (total numeric(5,2))")
    raw = b"".join(n.to_bytes(16, "little") for n in (12345, 1234567))
    kind = pa.decimal128(5, 2)
    table = pa.table({"total": pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(raw)])})
    with pytest.raises(fullbore.LoadError):
        fullbore.load(table, to=server.url, table="sums", publish=publish)
    result = fullbore.load(table, to=server.url, table="sums", publish=publish, max_rejects=1)
    assert (result.rows, result.rejected) == (1, 1)
    assert server.sql("SELECT total FROM sums") == [["123.45"]]


def test_arrow_needs_a_table() -> None:
    with pytest.raises(fullbore.UsageError, match="name the table"):
        fullbore.load(pa.table(numbers(1)), to="null:")


def test_what_is_no_source_is_refused() -> None:
    for source in (17, object()):
        with pytest.raises(TypeError, match="__arrow_c_stream__"):
            fullbore.load(source, to="null:", table="t")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="int is no record batch"):
        fullbore.load(iter([1, 2]), to="null:", table="t")  # type: ignore[arg-type]


def test_an_exception_of_the_source_reaches_the_error() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise OSError("the tape is torn")

    with pytest.raises(fullbore.SourceError, match="the tape is torn"):
        fullbore.load(broken(), to="null:", table="t")
    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), broken())
    with pytest.raises(fullbore.SourceError, match="the tape is torn"):
        fullbore.load(reader, to="null:", table="t")


def test_batches_of_other_columns_are_refused() -> None:
    batches = iter([pa.record_batch({"n": [1]}), pa.record_batch({"m": [1]})])
    with pytest.raises(fullbore.SourceError, match="other columns"):
        fullbore.load(batches, to="null:", table="t")


def test_no_rows_are_loaded_too(server: Server) -> None:
    empty = pa.table(numbers(1)).slice(0, 0)
    server.sql("DROP TABLE IF EXISTS nothing")
    for source in (empty, empty.to_reader(), pa.table(numbers(0), pa.table(numbers(1)).schema)):
        result = fullbore.load(source, to=server.url, table="nothing", create=True)
        assert result.rows == 0
    assert server.sql("SELECT count(*) FROM nothing") == [["0"]]


def test_loads_in_threads_keep_apart(server: Server) -> None:
    results: dict[int, int] = {}
    for number in range(4):
        server.sql(f"DROP TABLE IF EXISTS thread_{number}")

    def work(number: int) -> None:
        table = pa.table(numbers(1_000 + number))
        loaded = fullbore.load(table, to=server.url, table=f"thread_{number}", create=True)
        results[number] = loaded.rows

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: 1_000 + number for number in range(4)}


def test_a_plan_of_a_frame_changes_nothing(server: Server) -> None:
    server.sql("DROP TABLE IF EXISTS planned")
    plan = fullbore.plan(pl.DataFrame(numbers(10)), to=server.url, table="planned", create=True)
    assert "planned" in str(plan) and plan.raw["tables"][0]["name"] == "planned"
    assert server.sql("SELECT to_regclass('planned') IS NULL") == [["t"]]
