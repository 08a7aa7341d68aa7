"""The driver of a load for the command: `python -m fullbore.ray`."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from fullbore._errors import UsageError
from fullbore.ray._connection import Connection
from fullbore.ray._driver import STOPPED, Driver, failure


def main() -> None:
    """Drive a load for the command.

    It writes a request as one line of JSON to standard input and keeps that open. Lines of JSON on
    standard output are ``begun``, ``entry``, ``note``, and as the last one ``answer``.
    """
    request = json.loads(sys.stdin.readline())
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What others print must not stand among the lines.
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=output, flush=True)

    def end_with_the_command() -> None:
        while os.read(0, 4096):
            pass
        os._exit(STOPPED)

    threading.Thread(target=end_with_the_command, daemon=True).start()
    driver = Driver(request["job"], request["resume"], Path(request["reject_dir"]), say)
    try:
        with Connection(request["job"]["on"]):
            answer = driver.plan() if request["plan"] else driver.run()
        if driver.interrupt is not None and not isinstance(driver.interrupt, KeyboardInterrupt):
            raise driver.interrupt
    except UsageError as error:
        answer = {"exit_code": error.exit_code, "message": str(error), "result": error.raw}
    except KeyboardInterrupt:
        answer = failure(STOPPED, "interrupted before anything was loaded", "interrupted")
    for note in answer.get("notes", []):
        say({"note": note})
    say({"answer": {name: answer[name] for name in ("exit_code", "message", "result")}})


if __name__ == "__main__":
    main()
