"""Runs mutants against a server of its own; ends with 1 where anything was found."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from server import Server, compiler, installations

from hostile.run import attack, report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="mutants to send (100000)")
    parser.add_argument("--seed", type=int, default=None, help="of all chance; drawn if not given")
    parser.add_argument("--server", default="15-asan", help="14 to 18 or 15-asan (15-asan)")
    parser.add_argument("--out", type=Path, help="write the summary there, too")
    options = parser.parse_args()
    found = [i for i in installations() if i.name == options.server]
    if not found or not found[0].pg_config.exists():
        print(f"no server {options.server}: see scripts/asan_server.sh and scripts/test_servers.sh",
              file=sys.stderr)  # fmt: skip
        return 2
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.count} mutants, server {options.server}", flush=True)
    begin = time.monotonic()
    server = Server(found[0], {"wal_level": "replica"}, compiler())
    try:
        run = attack(server, options.count, seed, progress=True)
        text = report(run, server, seed, time.monotonic() - begin)
    finally:
        server.close()
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 1 if run.tally.findings else 0


sys.exit(main())
