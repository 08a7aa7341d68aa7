"""Serves files as objects of a bucket, over a link of a given rate.

``objects_serve.py RATE FILE...``

Prints its URL. RATE is in bytes a second, for all answers together.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

from stores import Web

if __name__ == "__main__":
    files = map(Path, sys.argv[2:])
    web = Web({f"/data/{file.name}": file.read_bytes() for file in files})
    web.rate = float(sys.argv[1])
    print(web.url, flush=True)
    web.server.serve_forever()
