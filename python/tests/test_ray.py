"""Loads by tasks of a Ray cluster, all of whose nodes are on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fullbore
import pyarrow
import pytest
from embedded import Server

ray = pytest.importorskip("ray", reason="RAY IS NOT TESTED: it is not installed")

import faulty  # noqa: E402
from fullbore import _native, _parts  # noqa: E402

import fullbore.ray  # noqa: E402 isort: skip
from fullbore.ray import _driver  # noqa: E402 isort: skip

HOSTS = ("src1", "src2", "src3")
ROWS = 300_000
TABLE = "CREATE TABLE ray_rows (id bigint, word text, note text)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head that loads nothing, and a node for each host."""
    from ray.cluster_utils import Cluster

    home = tmp_path_factory.mktemp("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FULLBORE_HOME", str(home / "workers"))
        # What workers import: a broken sink, too.
        places = [str(Path(fullbore.__file__).parent.parent), str(Path(__file__).parent)]
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # A token in somebody's home is known to some of Ray's processes, and not to others.
        patch.setenv("RAY_AUTH_MODE", "disabled")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for host in HOSTS:
            made.add_node(num_cpus=2, resources={host: 1}, labels={"zone": host})
        patch.setenv("RAY_ADDRESS", made.address)
        yield made.address
        made.shutdown()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A folder for each host, with a file of the same name and rows of its own."""
    base = tmp_path_factory.mktemp("hosts")
    found = {}
    for number, host in enumerate(HOSTS):
        folder = base / host
        folder.mkdir()
        first = number * ROWS
        lines = (f"{n},word {n % 97},{'x' * (n % 90)}\n" for n in range(first, first + ROWS))
        (folder / "rows.csv").write_text("".join(lines))
        found[host] = str(folder)
    return found


@pytest.fixture
def target(server: Server, own_state: None, cluster: str) -> Server:
    """The server, with an empty table."""
    server.sql(f"DROP TABLE IF EXISTS ray_rows; {TABLE}")
    server.sql("DROP SCHEMA IF EXISTS fullbore_ledger CASCADE")
    return server


def check(server: Server, rows: int = len(HOSTS) * ROWS) -> None:
    """All rows are there, each once, and nothing else is."""
    sql = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM ray_rows"
    assert server.sql(sql) == [[str(rows), str(rows), "0", str(rows - 1)]]
    sql = "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_fb\\_%' AND relkind = 'r'"
    sql += " AND NOT relispartition"
    assert server.sql(sql) == [["0"]], "something is left behind"


def load(server: Server, folders: dict[str, str], **options: object) -> fullbore.LoadResult:
    given = {"table": "ray_rows", "header": "none", "hosts": folders, "to": server.url}
    return fullbore.ray.load("*.csv", **{**given, **options})


def workers() -> list[int]:
    """The processes of tasks that load."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::load_part"):
                found.append(int(path.parent.name))
    return found


def pieces(server: Server) -> int:
    """Pieces that are committed."""
    with contextlib.suppress(AssertionError):
        return int(server.sql("SELECT count(*) FROM fullbore_ledger.pieces")[0][0])
    return 0


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_each_host_loads_its_own_files(target: Server, folders: dict[str, str]) -> None:
    heard: list[fullbore.Progress] = []
    result = load(target, folders, streams=6, on_progress=heard.append)
    check(target)
    assert (result.rows, result.rejected) == (len(HOSTS) * ROWS, 0)
    assert result.bytes == sum(
        Path(folder, "rows.csv").stat().st_size for folder in folders.values()
    )
    assert heard[-1].rows == result.rows
    assert heard[-1].bytes_expected == result.bytes
    # Its parts ran where their files are; one record has them all.
    hosts = {host["host"]: host for host in result.raw["verdict"]["hosts"]}
    assert set(hosts) == set(HOSTS)
    assert sum(host["bytes"] for host in hosts.values()) == result.bytes
    assert result.raw["streams"] == 6
    assert result.raw["verified"]["rows"] == result.rows
    report = result.report()
    for host in HOSTS:
        assert f"{host}, stream 0" in report
    again = load(target, folders, resume=True)
    assert again.raw["finished_before"]
    check(target)


def test_files_that_all_can_read_go_to_any_host(
    target: Server, folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_parts, "PART_BYTES_MIN", 1 << 20)
    target.sql("DROP TABLE ray_rows; " + TABLE + " PARTITION BY RANGE (id)")
    sources = [f"{folder}/rows.csv" for folder in folders.values()]
    result = fullbore.ray.load(
        sources, table="ray_rows", header="none", to=target.url, publish="partitions", streams=2
    )
    check(target)
    assert len(result.raw["verdict"]["hosts"]) == 1, "all nodes have this machine's name"
    assert result.raw["streams"] == 2, "no more sessions than were asked for"


def test_hosts_are_found_by_label(target: Server, folders: dict[str, str]) -> None:
    labels = {f"zone={host}": folder for host, folder in folders.items()}
    result = load(target, labels, atomic=True)
    check(target)
    assert {host["host"] for host in result.raw["verdict"]["hosts"]} == set(labels)


def test_hosts_share_a_rate_that_changes_meanwhile(target: Server, folders: dict[str, str]) -> None:
    lifted = 0.0

    def lift(progress: fullbore.Progress) -> None:
        nonlocal lifted
        if not lifted and progress.seconds > 3:
            lifted = progress.seconds
            _native.throttle(progress.run_id, None)

    # All of it would take five minutes.
    result = load(target, folders, on_progress=lift, max_rate="200kB/s")
    check(target)
    assert 3 < lifted < result.seconds < 120
    assert result.raw["verdict"]["limit"] == "max_rate"


def test_a_worker_that_is_killed_is_replaced(target: Server, folders: dict[str, str]) -> None:
    killed: list[int] = []

    def kill() -> None:
        wait_for(lambda: pieces(target) > 1)
        for worker in workers()[:2]:
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    result = load(target, folders, streams=3, piece_size="1MB")
    killer.join()
    assert killed
    check(target)
    assert result.rows == len(HOSTS) * ROWS
    assert "was lost; part" in result.report()


def test_what_workers_tell_is_counted_once_whatever_is_lost_of_it(
    target: Server, folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lossy(_driver.Collector):
        """Comes late, and two of its three replies do not arrive."""

        def __init__(self) -> None:
            time.sleep(3)
            super().__init__()
            self.replies = 0

        def drain(self, heard: dict) -> dict:
            self.replies += 1
            told = super().drain(heard)
            return told if self.replies % 3 == 0 else {}

    monkeypatch.setattr(_driver, "HEAR_S", 0.5)
    monkeypatch.setattr(_driver, "Collector", Lossy)
    result = load(target, folders, streams=3, piece_size="1MB")
    check(target)
    assert result.rows == len(HOSTS) * ROWS
    assert {host["host"] for host in result.raw["verdict"]["hosts"]} == set(HOSTS)


def test_a_driver_that_is_killed_is_resumed_elsewhere(
    target: Server, folders: dict[str, str], tmp_path: Path
) -> None:
    command = [str(fullbore.find_command()), "load", "*.csv", "--table", "ray_rows", "--on", "ray"]
    command += ["--header", "none", "--to", target.url, "--streams", "3", "--piece-size", "1MB"]
    command += ["--json"]
    for host, folder in folders.items():
        command += ["--host", f"{host}={folder}"]
    first = {**os.environ, "FULLBORE_PYTHON": sys.executable}
    with subprocess.Popen(
        command, env=first, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as load:
        # The driver ends with the command that has started it.
        wait_for(lambda: pieces(target) > 1)
        load.kill()
    second = {**first, "FULLBORE_HOME": str(tmp_path / "another machine")}
    ended = subprocess.run(
        [*command, "--resume"], env=second, capture_output=True, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr
    check(target)
    assert json.loads(ended.stdout)["rows"] == len(HOSTS) * ROWS


def test_an_interrupt_keeps_what_is_committed(target: Server, folders: dict[str, str]) -> None:
    def interrupt(progress: fullbore.Progress) -> None:
        if pieces(target):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="resumes the load"):
        load(target, folders, streams=3, piece_size="1MB", on_progress=interrupt)
    assert not workers()
    load(target, folders, streams=3, piece_size="1MB", resume=True)
    check(target)


def test_errors_and_rejects_name_their_host(
    target: Server, folders: dict[str, str], tmp_path: Path
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "rows.csv").write_text("1,a,b\n2,a,b\nnine,a,b\n")
    hosts = {"src1": folders["src1"], "src2": str(bad)}
    rejects = tmp_path / "rejects"
    rejects.mkdir()
    with pytest.raises(fullbore.RejectsError) as raised:
        load(target, hosts, atomic=True, reject_dir=rejects)
    error = raised.value
    assert str(error).startswith("src2: 1 row rejected")
    assert (error.line, error.column, error.value) == (3, "id", "nine")
    assert str(rejects) in str(error)
    assert error.resumable, "the other part may be loaded"
    target.run("runs", "abort", error.run_id, "--to", target.url)
    result = load(target, hosts, atomic=True, reject_dir=rejects, max_rejects=1)
    assert (result.rows, result.rejected) == (ROWS + 2, 1)
    (kept,) = result.raw["reject_files"]
    assert Path(kept).read_text() == "nine,a,b\n"
    reasons = json.loads(Path(kept).with_suffix(".rejected.jsonl").read_text())
    assert reasons["file"] == str(bad / "rows.csv")


def test_what_can_not_be_loaded_is_refused_before(target: Server, folders: dict[str, str]) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"table": "missing"}, "table missing does not exist"),
        ({"hosts": {"src1": "/nowhere"}}, "src1: "),
        ({"create": True}, "several hosts can't create"),
        ({"verify": "full"}, "--verify full is for loads of one host"),
        ({"on": "spork"}, "is no engine"),
    ]
    for options, words in cases:
        with pytest.raises(fullbore.LoadError, match=words) as raised:
            load(target, folders, **options)
        assert raised.value.exit_code == 2
    with pytest.raises(fullbore.UsageError, match="this job is to run on ray"):
        fullbore.load("x.csv", table="ray_rows", on="ray")
    assert target.sql("SELECT to_regclass('fullbore_ledger.runs') IS NULL") == [["t"]]


def test_a_plan_says_who_loads_what(target: Server, folders: dict[str, str]) -> None:
    command = ["plan", "*.csv", "--table", "ray_rows", "--on", "ray", "--to", target.url]
    for host, folder in folders.items():
        command += ["--host", f"{host}={folder}"]
    said = target.run(*command)
    assert said.startswith("3 parts, 3 at a time\npart 1: src1, 1 file")


class Part:
    """A part that is loaded in a process of its own, without an engine."""

    def __init__(self, server: Server, home: Path, folder: str, number: int, whole: str) -> None:
        self.options = {
            "job": {
                "to": server.url,
                "part": f"{number}/2",
                "streams": "1",
                "piece_size": "1MB",
                "table": [
                    {"name": "ray_rows", "header": "none", "sources": [f"{folder}/rows.csv"]}
                ],
            },
            "whole": whole,
        }
        self.home = home

    def start(self, **options: object) -> subprocess.Popen[str]:
        code = "import sys; from fullbore import _native; print(_native.load(sys.argv[1]))"
        command = [sys.executable, "-c", code, json.dumps({**self.options, **options})]
        environment = {**os.environ, "FULLBORE_HOME": str(self.home)}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", cwd=self.home
        )


def answer_of(process: subprocess.Popen[str]) -> dict[str, object]:
    return json.loads(process.communicate(timeout=60)[0])


def test_a_host_taken_for_dead_can_commit_nothing_more(
    target: Server, folders: dict[str, str], tmp_path: Path
) -> None:
    homes = [tmp_path / f"home-{n}" for n in range(3)]
    for home in homes:
        home.mkdir()
    job = Part(target, homes[0], folders["src1"], 1, "").options["job"]
    whole = json.loads(_native.whole_standing(json.dumps(job), 2, False))["result"]["whole"]
    zombie = Part(target, homes[0], folders["src1"], 1, whole).start()
    wait_for(lambda: pieces(target) > 1)
    zombie.send_signal(signal.SIGSTOP)
    refused = answer_of(Part(target, homes[1], folders["src1"], 1, whole).start(resume=True))
    assert "already being loaded" in str(refused["message"])
    heir = Part(target, homes[1], folders["src1"], 1, whole).start(resume=True, take_over=True)
    assert answer_of(heir)["exit_code"] == 0
    zombie.send_signal(signal.SIGCONT)
    said = answer_of(zombie)
    assert said["result"]["error_details"]["kind"] == "taken-over", said
    other = answer_of(Part(target, homes[2], folders["src2"], 2, whole).start())
    assert other["exit_code"] == 0
    check(target, 2 * ROWS)
    # The load has ended: one that comes late can't begin the next.
    late = answer_of(Part(target, homes[2], folders["src2"], 2, whole).start())
    assert "has ended or was rolled back" in str(late["message"])
    check(target, 2 * ROWS)


def test_a_second_driver_is_refused_or_takes_over(
    target: Server, folders: dict[str, str], tmp_path: Path
) -> None:
    command = [str(fullbore.find_command()), "load", "*.csv", "--table", "ray_rows", "--on", "ray"]
    command += ["--header", "none", "--to", target.url, "--streams", "3", "--piece-size", "1MB"]
    for host, folder in folders.items():
        command += ["--host", f"{host}={folder}"]
    environment = {**os.environ, "FULLBORE_PYTHON": sys.executable}
    environment["FULLBORE_HOME"] = str(tmp_path / "another machine")
    said: list[subprocess.CompletedProcess[str]] = []

    def drive_too() -> None:
        wait_for(lambda: pieces(target) > 1)
        slow = workers()
        for worker in slow:
            os.kill(worker, signal.SIGSTOP)
        for more in ([], ["--resume"]):
            ended = subprocess.run(
                [*command, *more], env=environment, capture_output=True, encoding="utf-8"
            )
            said.append(ended)
        for worker in slow:
            os.kill(worker, signal.SIGCONT)

    other = threading.Thread(target=drive_too)
    other.start()
    with pytest.raises(fullbore.DestinationError, match="taken over") as raised:
        load(target, folders, streams=3, piece_size="1MB")
    other.join()
    refused, resumed = said
    assert (refused.returncode, resumed.returncode) == (2, 0), (refused, resumed)
    assert "already under way" in refused.stderr
    assert not raised.value.resumable
    check(target)


# Ray waits ten seconds before it tries again.
KILLED = [(faulty.MOMENTS[0], "append"), (faulty.MOMENTS[1], "overwrite")]
if "FULLBORE_TEST_ALL" in os.environ:
    KILLED += [(faulty.MOMENTS[0], "overwrite"), (faulty.MOMENTS[1], "append")]


@pytest.fixture
def dataset(cluster: str) -> Iterator[object]:
    """Rows of Ray Data, in eight blocks."""
    ray.init(log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.range(80_000, override_num_blocks=8).map_batches(
        lambda table: table.append_column("word", table["id"].cast("string")),
        batch_format="pyarrow",
    )
    yield rows
    ray.shutdown()


def test_a_dataset_is_appended_and_overwritten(target: Server, dataset: object) -> None:
    sink = fullbore.ray.Sink("ray_rows", target.url)
    dataset.write_datasink(sink)
    check(target, 80_000)
    assert sink.result.rows == 80_000
    assert target.sql("SELECT count(*) FROM ray_rows WHERE word = id::text") == [["80000"]]
    target.sql("INSERT INTO ray_rows VALUES (-1)")
    dataset.write_datasink(fullbore.ray.Sink("ray_rows", target.url, mode="overwrite"))
    check(target, 80_000)


def test_columns_that_are_added_on_the_way_are_written(target: Server, dataset: object) -> None:
    # Ray knows the columns of such rows beforehand, without those that follow.
    numbers = ray.data.from_arrow(pyarrow.table({"id": list(range(100))}))
    words = numbers.map_batches(
        lambda table: table.append_column("word", table["id"].cast("string")),
        batch_format="pyarrow",
    )
    words.write_datasink(fullbore.ray.Sink("ray_rows", target.url))
    assert target.sql("SELECT count(*) FROM ray_rows WHERE word = id::text") == [["100"]]


@pytest.mark.parametrize(("moment", "mode"), KILLED)
def test_a_sink_whose_workers_are_killed_doubles_nothing(
    target: Server, dataset: object, tmp_path: Path, moment: str, mode: str
) -> None:
    import faulty_ray

    sink = faulty_ray.FaultySink(
        "ray_rows", target.url, mode=mode, moment=moment, folder=str(tmp_path)
    )
    dataset.write_datasink(sink)
    assert list(tmp_path.glob("task-*"))
    check(target, 80_000)


def test_a_dataset_that_fails_leaves_nothing(target: Server, dataset: object) -> None:
    import faulty_ray

    with pytest.raises(Exception, match="does not like its rows"):
        dataset.write_datasink(faulty_ray.RefusedSink("ray_rows", target.url))
    assert target.sql("SELECT count(*) FROM ray_rows") == [["0"]]
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'ray_rows\\_fb\\_%'"
    assert target.sql(left) == [["0"]]
