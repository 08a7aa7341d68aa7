"""Options and statements that are not understood, and COPY as it always was."""

from __future__ import annotations

import pytest
from loads import copy_sql, descriptor
from wire import Connection, ServerError

OPTIONS = [
    ("(FORMAT fullbore)", "42601", '"hash" from fullbore.descriptor'),
    ("(FORMAT fullbore, DESCRIPTOR 'x', DELIMITER ',')", "42601", "Its options are"),
    ("(FORMAT fullbore, DESCRIPTOR 'x', DESCRIPTOR 'y')", "42601", None),
    ("(FORMAT fullbore, DESCRIPTOR 'x', IO 'fast')", "22023", "auto, buffered and direct"),
    ("(FORMAT fullbore, DESCRIPTOR 'x', RANGE_TO '1')", "42601", None),
    ("(FORMAT fullbore, DESCRIPTOR 'x', FREEZE 'maybe')", "42601", None),
    ("(FORMAT fullbore, DESCRIPTOR 'x') WHERE k > 1", "0A000", "before they are sent"),
    ("(FORMAT fullbore, DESCRIPTOR 'x')", "55000", "after the last change"),
]


@pytest.mark.parametrize(("options", "code", "hint"), OPTIONS)
def test_options(any_session: Connection, options: str, code: str, hint: str | None) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4); SELECT fullbore.descriptor('t'::regclass)")
    with pytest.raises(ServerError) as caught:
        any_session.begin_copy(f"COPY t FROM STDIN {options}")
    assert caught.value.code == code, caught.value
    assert hint is None or hint in caught.value.fields["H"]
    any_session.query("ROLLBACK")


@pytest.mark.parametrize(
    "statement",
    [
        "COPY t TO STDOUT (FORMAT fullbore, DESCRIPTOR 'x')",
        "COPY (SELECT 1) TO STDOUT (FORMAT fullbore, DESCRIPTOR 'x')",
        "COPY t FROM '/dev/null' (FORMAT fullbore, DESCRIPTOR 'x')",
        "COPY t FROM PROGRAM 'true' (FORMAT fullbore, DESCRIPTOR 'x')",
    ],
)
def test_statements(any_session: Connection, statement: str) -> None:
    any_session.query("CREATE TABLE t (k int4); SELECT fullbore.descriptor('t'::regclass)")
    with pytest.raises(ServerError) as caught:
        any_session.query(statement)
    assert caught.value.code == "0A000"


def test_unknown_columns(any_session: Connection) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4)")
    with pytest.raises(ServerError) as caught:
        any_session.begin_copy(
            copy_sql("t", descriptor(any_session, "t")["hash"], columns="(k, nope)")
        )
    assert caught.value.code == "42703"
    any_session.query("ROLLBACK")


def test_a_refused_table_says_so_at_copy(any_session: Connection) -> None:
    any_session.query("BEGIN; CREATE TABLE t (k int4); ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    refusal = descriptor(any_session, "t")["refusal"]
    with pytest.raises(ServerError) as caught:
        any_session.begin_copy(copy_sql("t", descriptor(any_session, "t")["hash"]))
    told = caught.value.fields
    assert [told[key] for key in "CMDH"] == [
        refusal[key] for key in ("code", "message", "detail", "hint")
    ]
    any_session.query("ROLLBACK")


def test_copy_is_as_it_was(any_session: Connection) -> None:
    any_session.query("CREATE TABLE t (k int4, v text); SELECT fullbore.descriptor('t'::regclass)")
    assert any_session.copy("COPY t FROM STDIN (FORMAT csv)", b"1,one\n2,two\n") == "COPY 2"
    with pytest.raises(ServerError):
        any_session.begin_copy("COPY t FROM STDIN (FORMAT fullbored)")
    assert any_session.query("TABLE t") == [["1", "one"], ["2", "two"]]
