"""Runs the whole matrix on servers of its own and prints its account."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from server import ROOT, installations

from crash.run import Orphans, report, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crash", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="of each phase and victim (20)")
    parser.add_argument("--seed", type=int, default=None, help="of all chance; drawn if not given")
    parser.add_argument("--server", default="18", help="14 to 18 (18)")
    parser.add_argument("--level", choices=["minimal", "replica"], help="of WAL; both if not given")
    parser.add_argument("--out", type=Path, help="write the account there, too")
    options = parser.parse_args()
    found = [i for i in installations() if i.name == options.server]
    if not found or not found[0].pg_config.exists():
        print(f"no server {options.server}: see scripts/test_servers.sh", file=sys.stderr)
        return 2
    seed = random.randrange(2**32) if options.seed is None else options.seed
    orphans = Orphans(ROOT / ".venv" / "bin" / "fullbore")
    print(f"seed {seed}, {options.times} of each, server {options.server}", flush=True)
    begin = time.monotonic()
    levels = [options.level] if options.level else ["minimal", "replica"]
    account, version = run(found[0], levels, options.times, seed, orphans, progress=True)
    text = report(account, version, options.times, seed, orphans, time.monotonic() - begin)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


sys.exit(main())
