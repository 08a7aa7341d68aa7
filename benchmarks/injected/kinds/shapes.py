"""A load of the wrong shape: too few streams, or one piece that is much larger than the others."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from trial import PARTITIONS, Load, Stage, kind, table


@kind
def one_stream(stage: Stage, draw: Random) -> Iterator[Load]:
    """One session, where the server could do more by two."""
    server = stage.server()
    table(server)
    as_text = draw.choice(([], ["--as-text"]))
    options = ["--streams", "1", "--parsers", str(draw.choice((1, 2))), *as_text]
    yield Load(server, stage.files(draw.randint(550, 750)), options, {})


@kind
def one_large_piece(stage: Stage, draw: Random) -> Iterator[Load]:
    """Partitions of fixed ranges, of which one holds nearly all rows."""
    server = stage.server()
    # The files hold orders in the order of their key, the first of them 1 to about 375,000.
    small = draw.randint(20_000, 60_000)
    bounds = [1, small, 2 * small, 3 * small, 7_000_000]
    options = ["--streams", str(draw.choice((3, 4))), "--parsers", "2", *PARTITIONS]
    options += ["--partition-bounds", ",".join(map(str, bounds))]
    yield Load(server, stage.files(600), options, {"bounds": bounds})
