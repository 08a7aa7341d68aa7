"""Record 4 in miniature: a fast network for SQL*Loader (10 GbE, 44 direct-path sessions).

    python benchmarks/records/sqlldr.py

The network alone; sessions to the knee; message size against waits and rate. About 10 minutes.
Needs root. Raw data and the page are written to benchmarks/records/sqlldr.
"""

from __future__ import annotations

import shutil
import statistics
from contextlib import contextmanager

import loads
import page
from lab import SCRATCH, lineitem
from links import Hosts, inside, preflight_net, shaped, wan
from networks import sent_rate
from servers import Server
from trial import Stage, table

OUT = loads.HERE / "sqlldr"
# A path on which one stream is not enough.
RTT_MS, MEGABITS = 10, 400
# What a stream may have in flight, as the record's hosts were set.
WINDOW = "64kB"
SESSIONS = (1, 2, 4, 8, 16, 32)
MESSAGES = ("2kB", "4kB", "8kB", "32kB", "256kB")
LOAD = ["--format", "tbl", "--table", "lineitem", "--method", "copy", "--compress", "none"]
LOAD += ["--statistics=none"]


@contextmanager
def server_at(hosts: Hosts):
    """A server at the far end, with the table."""
    server = Server(
        f"ldr-{hosts.server[-8:]}",
        settings={"max_connections": "100"},
        host=(hosts.server, hosts.server_address),
    )
    try:
        table(server)
        yield server
    finally:
        server.remove()


def sessions(stage: Stage) -> list[dict]:
    """The network alone and loads, by sessions, over a path of some length."""
    with wan(RTT_MS, MEGABITS, queue_bytes=1 << 20) as hosts:
        report = preflight_net(
            hosts, "--streams", ",".join(map(str, SESSIONS)), "--seconds", "5",
            "--window", WINDOW.removesuffix("B"),
        )  # fmt: skip
        alone = {cell["streams"]: cell["bytes_per_second"] / 1e6 for cell in report["cells"]}
        with server_at(hosts) as server:
            # Windows of the network's measurement and of the load are the same.
            found = loads.swept(
                [*LOAD, "--to", server.url, "--send-buffer", WINDOW, "--piece-size", "2MB"],
                stage.files(120),
                OUT / "sessions",
                [f"streams={','.join(map(str, SESSIONS))}"],
                3,
                inside(hosts.client),
            )
    lines = []
    for row, number in zip(found["rows"], SESSIONS, strict=True):
        its = [(found["events"][one["run"]], one["bytes"]) for one in its_loads(found, row)]
        sent = [sent_rate({"events": events}, 1, 1) for events, _ in its]
        cpu = [cpu_per_gb(events, count) for events, count in its]
        lines.append(
            {
                "sessions": number,
                "network": alone[number],
                "sent": statistics.median(sent),
                "text": row["rate"] / 1e6,
                "steady": (row["steady"] or 0) / 1e6,
                "cpu": statistics.median(cpu),
                "verdict": row["verdict"],
            }
        )
    return lines


def its_loads(found: dict, row: dict) -> list[dict]:
    """The loads of a row that count."""
    its = (one for one in found["measured"] if one["cell"] == row["levels"])
    return [one for one in its if one.get("disturbed") is None]


def observations(events: list[dict]) -> list[tuple[float, dict]]:
    return [(e["at"], e["observation"]) for e in events if e["event"] == "observed"]


def cpu_per_gb(events: list[dict], count: int) -> float:
    """CPU seconds of this machine, client and server and all, for a GB of source."""
    (_, first), (_, last) = observations(events)[0], observations(events)[-1]

    def busy_ms(seen: dict) -> int:
        host = seen["host"]
        return host["all_ms"] - host["idle_ms"] - host["steal_ms"]

    return (busy_ms(last) - busy_ms(first)) / 1e3 / (count / 1e9)


def messages() -> list[dict]:
    """Rate and waits by the size of a message, over a link that is no limit."""
    with shaped(None) as hosts, server_at(hosts) as server:
        found = loads.swept(
            [*LOAD, "--to", server.url, "--streams", "4"],
            lineitem("1", 16)[:8],
            OUT / "messages",
            [f"message-size={','.join(MESSAGES)}"],
            5,
            inside(hosts.client),
        )
    lines = []
    for row, size in zip(found["rows"], MESSAGES, strict=True):
        its = [loads.waits(found["events"][one["run"]]) for one in its_loads(found, row)]
        mean = {
            name: statistics.mean(one.get(name, 0) for one in its)
            for name in sorted({name for one in its for name in one})
        }
        most = sorted(mean.items(), key=lambda found: -found[1])[:3]
        lines.append({"size": size, "row": row, "waits": dict(most)})
    return lines


def measured() -> dict:
    stage = Stage()
    try:
        return {"sessions": sessions(stage), "messages": messages()}
    finally:
        stage.end()
        shutil.rmtree(SCRATCH, ignore_errors=True)


def written(raw: dict) -> None:
    by_sessions, by_size = raw["sessions"], raw["messages"]
    best = max(line["sent"] for line in by_sessions)
    knee = next(line for line in by_sessions if line["sent"] >= 0.95 * best)
    network = max(line["network"] for line in by_sessions)
    theirs = (
        ["what", "Solaris, 10 GbE", "here"],
        [
            ["network alone", "413 MB/s, 32 threads", f"{network:.1f} MB/s"],
            ["load, on the wire", "396 MB/s, 44 sessions",
             f"{best:.1f} MB/s, {knee['sessions']} sessions"],
            ["load / network", "0.96", f"{best / network:.2f}"],
            ["sessions at the knee", "44 of 56 CPUs", str(knee["sessions"])],
            ["message size", "2 KB to 32 KB", _sizes(by_size)],
        ],
    )  # fmt: skip
    head = ["sessions", "network", "load, on the wire", "of text", "CPU s/GB", "verdict"]
    rows = [
        [
            str(line["sessions"]),
            f"{line['network']:.1f}",
            f"{line['sent']:.1f}",
            f"{line['text']:.1f}",
            f"{line['cpu']:.2f}",
            line["verdict"] or "",
        ]
        for line in by_sessions
    ]
    waits_head = ["message", "MB/s", "change in time", "most seen at the server"]
    waits_rows = [
        [
            line["size"],
            f"{line['row']['rate'] / 1e6:.1f}",
            loads.interval(line["row"]["change"]) or "baseline",
            ", ".join(f"{name} {share:.0%}" for name, share in line["waits"].items()),
        ]
        for line in by_size
    ]
    page.show(theirs, (head, rows), (waits_head, waits_rows))
    curves = {
        name: [(line["sessions"], line[key]) for line in by_sessions]
        for name, key in (("network alone", "network"), ("load, on the wire", "sent"))
    }
    sizes = [float(line["size"].removesuffix("kB")) for line in by_size]
    rates = [line["row"]["rate"] / 1e6 for line in by_size]
    page.write(
        OUT / "page.html",
        "Record 4: sessions and message sizes",
        [
            ("Theirs and ours", page.table(*theirs)),
            (
                f"Sessions, {RTT_MS} ms and {MEGABITS} Mb/s, MB/s",
                page.curves(curves, "sessions", "MB/s") + page.table(head, rows),
            ),
            (
                "Message size, four sessions over a link that is no limit",
                page.curves({"MB/s of text": list(zip(sizes, rates, strict=True))}, "kB", "MB/s")
                + page.table(waits_head, waits_rows),
            ),
            ("What came of it", _words(by_sessions, knee, best / network, by_size)),
        ],
    )


def _sizes(lines: list[dict]) -> str:
    first, last = lines[0]["row"]["rate"], max(line["row"]["rate"] for line in lines)
    return f"{lines[0]['size']} to the best: {last / first:.2f} x the rate"


def _words(lines: list[dict], knee: dict, share: float, sizes: list[dict]) -> str:
    last = lines[-1]
    return (
        f"<p>With {knee['sessions']} sessions the load has {share:.2f} of what the network alone"
        f" carries; the verdict there is {knee['verdict']}. {last['sessions']} sessions carry"
        f" {last['sent'] / knee['sent']:.2f} times as much, for"
        f" {last['cpu'] / knee['cpu']:.2f} times the CPU per GB.</p>"
        "<p>Of message sizes, each message costs both ends a header, a look at a buffer and,"
        " on the server, a call of COPY's reader. The record's gain from 2 KB to 32 KB was the"
        " round trips that its driver needed for each packet; COPY has none, so what is left is"
        f" CPU: {_sizes(sizes)}.</p>"
    )


if __name__ == "__main__":
    page.record(OUT, measured, written)
