"""A whole attack: every good stream, its sweep and its mutants by chance, and the account of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from loads import descriptor
from server import Server

from hostile import chance, compress
from hostile.judge import Hostile, Judge, SessionLostError, Tally
from hostile.mutants import Mutant, sweep
from hostile.streams import Stream, makers

FINDINGS_MAX = 20
UNCHANGED = "unchanged"


@dataclass
class Run:
    """What was sent and what came of it."""

    tally: Tally
    shapes: Counter[str] = field(default_factory=Counter)
    swept: int = 0
    sweep_size: int = 0
    codecs: list[str] = field(default_factory=list)


def make_streams(session: Hostile) -> tuple[list[Stream], list[str]]:
    """All good streams, once; their tables are made anew when their turn comes."""
    session.query("CREATE EXTENSION IF NOT EXISTS fullbore; SET client_min_messages = error")
    session.query("SET timezone = 'UTC'; CREATE TABLE t (k int4)")
    codecs = compress.available(descriptor(session, "t")["codecs"])
    streams = [make(session) for _, make in makers(codecs)]
    return streams, [compress.NAMES[codec] for codec in codecs]


def evidence_of_harm(server: Server, log_begin: int) -> list[str]:
    """What the server's log says since then, and what the sanitizer says."""
    marks = ("was terminated by signal", "TRAP:", "PANIC:", "corrupt")
    log = server.log[log_begin:]
    lines = [line for line in log.splitlines() if any(mark in line for mark in marks)]
    reports = [path.read_text(errors="replace")[:5000] for path in server.sanitizer_reports()]
    return lines + reports


def attack(
    server: Server, count: int, seed: int, progress: bool = False, database: str = "postgres"
) -> Run:
    """So many mutants, evenly from all good streams."""
    log_begin = len(server.log)
    numbers = random.Random(seed)
    run = Run(Tally())
    session = Hostile(server.socket_dir, database)
    # Tens of thousands of refusals would fill the disk.
    session.query("ALTER SYSTEM SET log_min_messages = log")
    session.query("SELECT pg_reload_conf()")
    session.query("SET synchronous_commit = off")
    streams, run.codecs = make_streams(session)
    judge = Judge(session, run.tally, numbers)
    sizes = [len(sweep(stream)) for stream in streams]
    run.sweep_size = sum(sizes)
    # A third at least by chance.
    share = min(1.0, count * 2 / 3 / run.sweep_size)
    by_chance = (count - sum(int(size * share) for size in sizes)) / len(streams)
    makers_again = makers([compress.NAMES.index(name) for name in run.codecs])
    for number, (shape, make) in enumerate(makers_again):
        judge.session.query("ROLLBACK")
        # Enum labels have other ids in a type that was made anew.
        stream = streams[number] = make(judge.session)
        swept = sweep(stream)
        swept = numbers.sample(swept, int(len(swept) * share)) if share < 1.0 else swept
        chances = int(by_chance * (number + 1)) - int(by_chance * number)
        try:
            judge.judge(stream, Mutant(UNCHANGED, stream.render()))
            if run.tally.accepted[shape.name] != 1:
                run.tally.findings.append(f"{shape.name}: the good stream is refused")
            for mutant in swept:
                judge.judge(stream, mutant)
            for _ in range(chances):
                judge.judge(stream, chance.draw(numbers, stream, streams))
                if len(run.tally.findings) >= FINDINGS_MAX:
                    break
        except SessionLostError:
            pass
        run.swept += len(swept)
        run.shapes[shape.name] += len(swept) + chances
        if progress:
            print(f"  {shape.name}: {run.shapes[shape.name]} mutants, "
                  f"{run.tally.accepted[shape.name]} taken, {len(run.tally.findings)} findings "
                  "so far", flush=True)  # fmt: skip
        run.tally.findings += evidence_of_harm(server, log_begin)
        if run.tally.findings:
            break
    judge.session.close()
    return run


def built_with(server: Server) -> str:
    """The checks that it makes of itself."""
    options = server.program("pg_config", "--configure", "--cflags")
    known = {"--enable-cassert": "assertions", "-fsanitize=address": "AddressSanitizer"}
    return "".join(f", {name}" for option, name in known.items() if option in options)


def report(run: Run, server: Server, seed: int, seconds: float) -> str:
    """The account, for people and for the file that is kept."""
    tally = run.tally
    accepted = sum(tally.accepted.values()) - tally.sent.pop(UNCHANGED)
    lines = [
        f"seed {seed}; {server.program('postgres', '--version').strip()}{built_with(server)}",
        f"{sum(run.shapes.values())} mutants of {len(run.shapes)} good streams, one COPY each, in "
        f"{seconds:.0f} s; codecs {', '.join(run.codecs) or 'none'}",
        f"every byte of headers, lengths, bitmaps, paddings: {run.swept} of {run.sweep_size} sent",
        f"taken: {accepted}, with {tally.rows} rows; each read, checked, and compared with what "
        "COPY makes of its text",
        f"refused: {sum(tally.refused.values())}; sessions of broken messages: "
        f"{tally.lost_sessions}",
        "",
        "refused by SQLSTATE:",
        *(f"  {code}  {count:7}" for code, count in sorted(tally.refused.items())),
        "",
        "sent by what was changed:",
        *(f"  {count:7}  {what}" for what, count in tally.sent.most_common()),
        "",
        "by good stream (mutants, of which taken):",
        *(f"  {n:7} {tally.accepted[s] - 1:7}  {s}" for s, n in run.shapes.items()),
        "",
        f"findings: {len(tally.findings)}",
        *tally.findings,
    ]
    return "\n".join(lines) + "\n"
