"""The driver of a load on a Ray cluster.

It divides the files into parts, has each loaded by a task where its files are, and makes one result
of all. Tasks are not retried by Ray: the driver resumes a part whose worker was lost, and the
ledger in the database says what of it is committed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from fullbore import _native, _worker
from fullbore._errors import kind_of
from fullbore._parts import Part, alone, divided, sources_of
from fullbore.ray._collector import Collector, load_part
from fullbore.ray._connection import at_node, nodes, refusal

LOADED, FAILED, STOPPED = 0, 1, 4

# A part is given up once its worker was lost so often without a row committed in between.
LOSSES_MAX = 5

# How long a host whose files nobody else has may be away, unless the job says.
AWAY_S = 600.0

# How long workers may take to be heard before the driver looks after its tasks again.
HEAR_S = 10.0

# How long the parts of a load that stops may take to end their pieces.
STOPS_S = 120.0

# What of a custom resource a task takes: it says where, not how much.
RESOURCE_PART = 0.001

# Variables that say how the server is reached, and name no file of the driver's machine.
_VARIABLES = (
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGOPTIONS"),
    *("PGAPPNAME", "PGSSLMODE", "PGCHANNELBINDING", "PGCONNECT_TIMEOUT", "PGTARGETSESSIONATTRS"),
)


@dataclass
class _Slot:
    """Where one part at a time can run."""

    # The host of the job, or None for a node of any that can read all files.
    host: str | None
    # Ray's options of a task there.
    options: dict[str, Any]
    node: str | None = None
    is_free: bool = True


@dataclass
class _Flight:
    """A part, and the task that loads it."""

    part: Part
    attempt: int = 0
    slot: _Slot | None = None
    has_begun: bool = False
    # Lines of its attempt's record that are heard.
    heard: int = 0
    # The ledger may have some of it.
    is_kept: bool = False
    losses: int = 0
    answer: dict[str, Any] | None = None
    not_before: float = 0.0
    # Since when nothing was heard of it, for want of its host.
    away_since: float | None = None


@dataclass
class Driver:
    """Drives one load. ``say`` hears of it as the command does: see ``main``."""

    job: dict[str, Any]
    resume: bool
    reject_dir: Path
    say: Callable[[dict[str, Any]], None]
    whole_id: str = ""
    flights: dict[int, _Flight] = field(default_factory=dict)
    reject_files: list[str] = field(default_factory=list)
    # What each part may send, in bytes a second.
    share: int | None = None
    # What stopped it: an interrupt, or an exception of who hears of it.
    interrupt: BaseException | None = None

    def run(self) -> dict[str, Any]:
        """Load. Returns an answer as the native module gives it: exit_code, message, result."""
        self._prepare()
        if (refused := self._list()) or (refused := self._stand()):
            return refused
        driven = {
            "whole": self.whole_id,
            "tables": [table["name"] for table in self.job["table"]],
            "parts": [part.expected() for part in self.parts],
            "resumes": self.resume,
            "job": self.job,
            "reject_dir": os.fspath(self.reject_dir),
        }
        self.whole = _native.Whole(json.dumps(driven))
        expected = zip(*driven["parts"], strict=True)
        totals = [None if None in sizes else sum(sizes) for sizes in expected]
        tables = list(zip(driven["tables"], totals, strict=True))
        self.say({"begun": {"run_id": self.whole_id, "tables": tables}})
        self.flights = {part.number: _Flight(part) for part in self.parts}
        # One call at a time: what a worker tells stays in its order.
        # Near the driver: what it is told of others goes over their links once.
        here = at_node({"NodeID": ray.get_runtime_context().get_node_id()}, soft=True)
        options = {"num_cpus": 0, "max_restarts": -1, **here}
        self.collector = ray.remote(Collector).options(**options).remote()
        self._limit(min(len(self.slots), len(self.parts)))
        return self._fly()

    def plan(self) -> dict[str, Any]:
        """What a load would do; nothing is changed."""
        self._prepare()
        if refused := self._list():
            return refused
        lines = [f"{len(self.parts)} parts, {len(self.slots)} at a time\n"]
        for part in self.parts:
            files = sum(len(paths) for paths in part.sources)
            host = part.host or "any host"
            plural = "" if files == 1 else "s"
            size = f"{sum(part.bytes):,} bytes"
            lines.append(f"part {part.number}: {host}, {files} file{plural}, {size}\n")
        raw = [
            {"part": part.number, "host": part.host, "sources": part.sources, "bytes": part.bytes}
            for part in self.parts
        ]
        return {"exit_code": LOADED, "message": "".join(lines), "result": {"parts": raw}}

    def _prepare(self) -> None:
        names = [name for name in _VARIABLES if os.environ.get(name)]
        self.environment = {name: os.environ[name] for name in names}
        if self.job.get("to") is None and os.environ.get("DATABASE_URL"):
            self.job["to"] = os.environ["DATABASE_URL"]
        if self.job.get("to") is None and not {"PGHOST", "PGHOSTADDR"} & set(names):
            raise refusal("no server is named, and hosts have none in common", "--to URL")
        self.away = float(self.job.get("retry_for") or AWAY_S)

    def _list(self) -> dict[str, Any] | None:
        """Find the files, on each host, and divide them into parts; the answer that refuses it."""
        hosts = self.job.get("hosts") or {}
        asked = {}
        # Without hosts, any node can read all files.
        for host, paths in (hosts or {None: []}).items():
            options = {"num_cpus": 0} if host is None else self._options(host)
            paths = [paths] if isinstance(paths, str) else paths
            job = alone(self.job, sources_of(self.job, paths))
            task = ray.remote(_worker.list_files).options(max_retries=3, **options)
            asked[host] = task.remote(job, self.environment)
        listed = {}
        for host, task in asked.items():
            answer = self._answer(task, host)
            if answer["exit_code"] != LOADED:
                answer["message"] = f"{host}: {answer['message']}" if host else answer["message"]
                return answer
            listed[host] = answer["result"]
        self.parts = divided(listed)
        self.slots = self._slots(list(hosts))
        return None

    def _answer(self, task: Any, host: str | None) -> dict[str, Any]:
        """The answer of a task that is asked before the load begins."""
        try:
            return ray.get(task, timeout=self.away)
        except ray.exceptions.GetTimeoutError as error:
            hint = (
                "ray start --resources, or --labels, says where it is; `ray status` shows the nodes"
            )
            raise refusal(f"no node of the cluster is host {host}", hint) from error

    def _options(self, host: str) -> dict[str, Any]:
        """Ray's options of a task on a host of the job."""
        key, is_label, value = host.partition("=")
        if is_label:
            return {"label_selector": {key: value}, "num_cpus": 0}
        return {"resources": {host: RESOURCE_PART}, "num_cpus": 0}

    def _slots(self, hosts: list[str]) -> list[_Slot]:
        """Where parts run, one at a time each: of nodes, no more than there are sessions."""
        if hosts:
            return [_Slot(host, {**self._options(host), "num_cpus": 1}) for host in hosts]
        able = [node for node in nodes() if node["Resources"].get("CPU")]
        slots = [_Slot(None, at_node(node), node["NodeID"]) for node in able]
        # None is all of them.
        return slots[: self._streams()]

    def _streams(self) -> int | None:
        streams = self.job.get("streams", "auto")
        return None if streams == "auto" else int(streams)

    def _stand(self) -> dict[str, Any] | None:
        """Ask the ledger where the load stands; the answer of one that has nothing left to do."""
        first = self.parts[0]
        options = self.slots[0].options if first.host is None else self._options(first.host)
        task = ray.remote(_worker.standing).options(max_retries=3, **options)
        job = first.job(self.job, len(self.parts), None)
        answer = self._answer(
            task.remote(job, len(self.parts), self.resume, self.environment), first.host
        )
        if answer["exit_code"] != LOADED:
            return answer
        stands = answer["result"]
        self.whole_id = stands["whole"]
        finished = stands["finished"]
        if not self.resume or stands["begun"] or finished is None:
            return None
        before = {int(part): files for part, files in finished["files"].items()}
        now = {part.number: part.files for part in self.parts}
        if before != now:
            message = f"load {finished['whole']} of this job finished with different files"
            raise refusal(message, "omit --resume to load all files again")
        summary = {
            "run_id": finished["whole"],
            **{name: finished[name] for name in ("rows", "rejected", "bytes", "pieces")},
            "seconds": 0.0,
            "rows_before": finished["rows"],
            "error": None,
            "resumable": False,
            "finished_before": True,
        }
        words = (
            f"load {finished['whole']} of this job already loaded the same files "
            f"({finished['rows']:,} rows): there is nothing to do"
        )
        return {"exit_code": LOADED, "message": words, "result": summary, "notes": [words]}

    def _fly(self) -> dict[str, Any]:
        """Run all parts; one answer for all."""
        tasks: dict[Any, _Flight] = {}
        stopped: dict[str, Any] | None = None
        deadline = 0.0
        while True:
            try:
                if stopped is None:
                    self._launch(tasks)
                waiting = any(flight.answer is None for flight in self.flights.values())
                if not tasks and (stopped is not None or not waiting):
                    break
                ready = ray.wait(list(tasks), timeout=0.2)[0] if tasks else time.sleep(0.2) or []
                self._hear()
                self._limit(len(tasks))
                for task in ready:
                    stopped = graver(stopped, self._landed(task, tasks.pop(task)))
                stopped = stopped or self._look_for_hosts(tasks)
            except (KeyboardInterrupt, Exception) as error:
                if self.interrupt is not None:
                    raise
                self.interrupt = error
                message = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
                stopped = failure(STOPPED, message, "interrupted")
            if stopped is not None and not deadline:
                deadline = time.monotonic() + STOPS_S
                self.collector.stop.remote()
            if deadline and time.monotonic() > deadline:
                for task in tasks:
                    ray.cancel(task, force=True)
                break
        self._hear()
        return self._ended(stopped)

    def _launch(self, tasks: dict[Any, _Flight]) -> None:
        """Give each free place the next part that can run there."""
        flying = {flight.part.number for flight in tasks.values()}
        for flight in self.flights.values():
            number = flight.part.number
            if flight.answer or number in flying or time.monotonic() < flight.not_before:
                continue
            free = (slot for slot in self.slots if slot.is_free and slot.host == flight.part.host)
            slot = next(free, None)
            if slot is None:
                continue
            slot.is_free = False
            flight.slot, flight.has_begun, flight.away_since = slot, False, None
            flight.attempt, flight.heard = flight.attempt + 1, 0
            resumes = self.resume or flight.attempt > 1
            job = flight.part.job(self.job, len(self.parts), self._share(slot))
            if self.share is not None:
                job["max_rate"] = self.share
            options = {
                "job": job,
                "resume": resumes,
                # Whoever still works on it is one that we, or a driver before us, have lost.
                "take_over": resumes,
                "whole": self.whole_id,
            }
            task = (
                ray.remote(load_part)
                .options(max_retries=0, **slot.options)
                .remote(options, self.environment, self.collector, number, flight.attempt)
            )
            tasks[task] = flight

    def _limit(self, tasks: int) -> None:
        """Share what all parts may send among those that run."""
        rate = self.whole.rate()
        share = None if rate is None else rate // max(1, tasks)
        if share != self.share:
            self.share = share
            self.collector.limit.remote(share)

    def _share(self, slot: _Slot) -> int | None:
        """Sessions of a part in a place, of those of all together."""
        streams = self._streams()
        if streams is None:
            return None
        places = min(len(self.slots), len(self.parts))
        at = self.slots.index(slot)
        return max(1, streams // places + (at < streams % places))

    def _hear(self) -> None:
        """Take what workers have told, and say what it comes to."""
        heard = {number: (flight.attempt, flight.heard) for number, flight in self.flights.items()}
        try:
            told = ray.get(self.collector.drain.remote(heard), timeout=HEAR_S)
        except ray.exceptions.RayError:
            # Workers tell it again.
            told = {}
        for number, (attempt, host, first, lines) in told.items():
            flight = self.flights[number]
            if attempt == flight.attempt and flight.answer is None:
                self._take(flight, host, first, lines)
        for line in self.whole.drain():
            self.say({"entry": json.loads(line)})

    def _take(self, flight: _Flight, host: str, first: int, lines: list[str]) -> None:
        """Take lines of a part's record, of which some may be heard already."""
        lines = lines[max(0, flight.heard - first) :]
        number = flight.part.number
        if not flight.has_begun:
            flight.has_begun = flight.is_kept = True
            self.whole.begin(number, flight.part.host or host)
        if any('"piece_committed"' in line for line in lines):
            flight.losses = 0
        flight.heard += len(lines)
        self.whole.take(number, lines)

    def _landed(self, task: Any, flight: _Flight) -> dict[str, Any] | None:
        """A task has ended; why the load has to stop, if it has to."""
        flight.slot.is_free = True
        try:
            answer = ray.get(task)
            self._take(flight, answer["host"], answer.pop("first"), answer.pop("lines"))
        except ray.exceptions.RayTaskError:
            raise
        except (ray.exceptions.RuntimeEnvSetupError, ray.exceptions.TaskCancelledError) as error:
            return failure(FAILED, f"part {flight.part.number}: {error}", "client")
        except ray.exceptions.RayError as error:
            return self._lost(flight, error)
        finally:
            self.whole.end(flight.part.number)
        self._keep_rejects(answer)
        if answer["exit_code"] in (LOADED, 3):
            flight.answer, flight.is_kept = answer, True
            return None
        if flight.attempt == 1 and not self.resume:
            flight.is_kept = bool(answer["result"].get("resumable"))
        answer["message"] = f"{flight.part.host or answer['host']}: {answer['message']}"
        return answer

    def _lost(self, flight: _Flight, error: Exception) -> dict[str, Any] | None:
        """A worker was lost: its part is resumed, here or elsewhere."""
        flight.losses += 1
        where = flight.part.host or "a worker"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if flight.losses > LOSSES_MAX:
            message = f"part {flight.part.number}: {where} was lost {flight.losses} times: {reason}"
            return failure(STOPPED, message, "client")
        self.whole.note(f"{where} was lost; part {flight.part.number} is resumed: {reason}")
        flight.not_before = time.monotonic() + 2.0 ** (flight.losses - 1) / 2
        if flight.part.host is None:
            alive = {node["NodeID"] for node in nodes()}
            self.slots = [slot for slot in self.slots if slot.node in alive] or self._slots([])
        return None

    def _look_for_hosts(self, tasks: dict[Any, _Flight]) -> dict[str, Any] | None:
        """Say which hosts are waited for; why the load stops if one stays away."""
        now = time.monotonic()
        for flight in tasks.values():
            if flight.has_begun or flight.part.host is None:
                continue
            if flight.away_since is None:
                flight.away_since = now
            elif now - flight.away_since > self.away:
                message = f"host {flight.part.host} did not come back within {self.away:.0f} s"
                for task in [task for task, its in tasks.items() if its is flight]:
                    ray.cancel(task, force=True)
                    del tasks[task]
                return failure(STOPPED, message, "client")
        return None

    def _keep_rejects(self, answer: dict[str, Any]) -> None:
        """Write a part's rejects where those of the load are wanted."""
        for name, content in answer["rejects"].items():
            path = self.reject_dir / Path(name).name
            path.write_bytes(content)
            if path.suffix != ".jsonl":
                self.reject_files.append(os.fspath(path))
        if answer["has_more"]:
            self.whole.note(f"rejects of {answer['host']} are there, in {answer['reject_dir']}")
        else:
            here = os.fspath(self.reject_dir)
            answer["message"] = answer["message"].replace(answer["reject_dir"], here)

    def _ended(self, stopped: dict[str, Any] | None) -> dict[str, Any]:
        """End the record; the answer of the whole load."""
        answers = [flight.answer for flight in self.flights.values() if flight.answer]
        if stopped is None:
            waiting = [answer["result"].get("waits_for") for answer in answers]
            if all(waiting):
                stopped = failure(STOPPED, "all parts are loaded, but none was published", "client")
        if stopped is None:
            result = json.loads(self.whole.finish(self.reject_files))
            exit_code = max(answer["exit_code"] for answer in answers)
            message = ""
        else:
            details = stopped["result"].get("error_details")
            is_kept = any(flight.is_kept for flight in self.flights.values())
            if kind_of(stopped) == "taken-over":
                is_kept = False
            said = {
                "error": stopped["result"].get("error") or stopped["message"],
                "details": details,
                "resumable": is_kept,
            }
            result = json.loads(self.whole.finish(self.reject_files, json.dumps(said)))
            exit_code = STOPPED if is_kept else stopped["exit_code"]
            message = stopped["message"]
            if is_kept:
                message += (
                    f"\n`fullbore runs resume {self.whole_id}` resumes the load (elsewhere: the "
                    f"same command with --resume), `fullbore runs abort {self.whole_id}` rolls it "
                    "back"
                )
        for line in self.whole.drain():
            self.say({"entry": json.loads(line)})
        notes = list(dict.fromkeys(note for answer in answers for note in answer.get("notes", [])))
        return {"exit_code": exit_code, "message": message, "result": result, "notes": notes}


def graver(stopped: dict[str, Any] | None, more: dict[str, Any] | None) -> dict[str, Any] | None:
    """Which of two reasons to stop is the one to tell."""
    if stopped is None or more is None:
        return stopped or more
    # A load that was taken over had its sessions terminated, too, and one part's failure is
    # another part's refusal: both say less. Else it is the first.
    weight = {"taken-over": 2, "rolling-back": 0}
    return more if weight.get(kind_of(more), 1) > weight.get(kind_of(stopped), 1) else stopped


def failure(exit_code: int, message: str, kind: str) -> dict[str, Any]:
    raw = {"error": message, "error_details": {"kind": kind}}
    return {"exit_code": exit_code, "message": message, "result": raw}
