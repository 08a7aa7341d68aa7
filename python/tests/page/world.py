"""What the tests of pages share: loads that go on as long as a test likes, and pages watched."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

WAIT_MS = 15_000


class Loads:
    """The command in a folder of its own, with a server to load into."""

    def __init__(self, command: str, folder: Path, variables: dict[str, str], server: str) -> None:
        self.command, self.folder, self.variables, self.server = command, folder, variables, server

    def run(self, *arguments: object, code: int = 0) -> str:
        """Runs the command; what it prints."""
        done = subprocess.run(
            [self.command, *map(str, arguments)],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def sql(self, statements: str) -> None:
        # The embedded server's own psql, whatever the job's server is.
        home = str(Path(self.variables["FULLBORE_HOME"]).parent / "server")
        subprocess.run(
            [self.command, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements],
            env=self.variables | {"FULLBORE_HOME": home},
            check=True,
            capture_output=True,
        )

    def load(self, *arguments: object, code: int = 0) -> dict:
        """Loads, and gives what it came to."""
        out = self.run("load", *arguments, "--to", self.server, "--json", code=code)
        return json.loads(out.splitlines()[-1])

    def record(self, run: str = "last") -> list[dict]:
        """The record of a run."""
        # Not splitlines: a text may hold what only Unicode takes for an end of a line.
        lines = self.run("runs", "show", run, "--json").split("\n")
        return [json.loads(line) for line in lines if line]

    def report(self, name: str, run: str = "last") -> str:
        """Writes a report; its URL."""
        path = self.folder / name
        self.run("runs", "report", run, "-o", path)
        return path.as_uri()

    @contextmanager
    def watch(self, *arguments: object) -> Iterator[str]:
        """Serves a run's live page; its URL."""
        process = subprocess.Popen(
            [self.command, "watch", *map(str, arguments)],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield url_of(process)
        finally:
            process.terminate()
            process.communicate()
        assert process.returncode == 0

    def begin(self, *arguments: object, first: str) -> LiveLoad:
        """Begins a load of what is fed to it; it looks at a sample before it begins."""
        return LiveLoad(self, arguments, first)


class LiveLoad:
    """A load that is shown while it goes on: as long as its source is not closed."""

    def __init__(self, loads: Loads, arguments: tuple[object, ...], first: str) -> None:
        self.process = subprocess.Popen(
            [
                loads.command, "load", "-", *map(str, arguments),
                "--to", loads.server, "--live", "--json",
            ],
            cwd=loads.folder,
            env=loads.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.feed(first)
        self.url = url_of(self.process)

    def feed(self, text: str) -> None:
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self, code: int = 0) -> dict:
        """Ends its source; what it came to."""
        out, errors = self.process.communicate()
        assert self.process.returncode == code, out + errors
        return json.loads(out.splitlines()[-1])


def url_of(process: subprocess.Popen[str]) -> str:
    """The URL that a process prints on stderr."""
    said = ""
    for line in process.stderr:
        said += line
        if found := re.match(r"live: (http://\S+)", line):
            return found[1]
    raise AssertionError(f"no URL: {said}{process.stdout.read()}")


class Watched:
    """A page of which every error and every request is noted."""

    def __init__(
        self, browser: object, url: str, width: int, theme: str, **options: object
    ) -> None:
        self.url = url
        self.faults: list[str] = []
        self.elsewhere: list[str] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._asked)
        self.page.goto(url)

    def _said(self, message: object) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def _dialog(self, dialog: object) -> None:
        # Only a script that should not have run opens one.
        self.faults.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: object) -> None:
        own, asked = urlsplit(self.url), urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and asked[:2] != own[:2]:
            self.elsewhere.append(request.url)

    def until(self, condition: str, argument: object = None) -> None:
        """Waits until a script's value is true; the page's policy lets none be made out of text."""
        if "=>" not in condition:
            condition = f"() => {condition}"
        self.page.wait_for_function(condition, arg=argument)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def close(self) -> None:
        self.context.close()


Look = Callable[..., Watched]
