"""Names, values and messages of strangers: they are shown as they are, and do nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world import Loads, Look, Watched

# What would run if it ever came to stand in a page as anything but text.
#: A run of version 0.1 by its id.
EVIL_RUN = "0123456789ab"
EVIL = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onfocus='alert(3)' autofocus='",
    "<svg/onload=alert(4)>",
    "&lt;script&gt;alert(5)&lt;/script&gt;",
    "<!--<script>alert(6)",
    "\u2028alert(7)//",
    "</title></style><base href=//evil.example><link rel=stylesheet href=//evil.example/x>",
    "javascript:alert(8)",
]


def poisoned(value: object) -> object:
    """The same, where it is a text with all of that behind it."""
    if isinstance(value, str):
        return value + "".join(EVIL)
    return value


# Words of the record that have a meaning: another would be no record.
MEANT = {"event", "method", "limit", "runner_up", "sure", "publish", "verify", "level", "activity"}


def poison(entry: object) -> object:
    if isinstance(entry, dict):
        return {
            name: item if name in MEANT else poison_value(name, item)
            for name, item in entry.items()
        }
    if isinstance(entry, list):
        return [poison(item) for item in entry]
    return poisoned(entry)


def poison_value(name: str, item: object) -> object:
    if name in ("values", "waits"):
        # Names that the server gives.
        return {key + EVIL[1]: poisoned(value) for key, value in item.items()}
    if name in ("moments", "times", "wait"):
        return item
    return poison(item)


def check_quiet(page: Watched) -> None:
    """Nothing ran, and nothing of it is a tag."""
    page.page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    page.page.wait_for_timeout(200)
    assert page.page.locator("img, base, iframe, object, embed").count() == 0
    assert page.page.locator("[onerror], [onfocus], [onload], [autofocus]").count() == 0
    # Its own: data, charts and code; styles are counted the same way.
    assert page.page.evaluate("[...document.scripts].every(it => !/^alert/.test(it.textContent))")
    assert page.page.locator("link").count() == 1
    text = page.page.locator("body").inner_text()
    for evil in EVIL[:5]:
        assert evil in text, f"{evil} is not shown as it is"


@pytest.fixture(scope="module")
def run(loads: Loads) -> str:
    """A real run's record, with evil in every text."""
    (loads.folder / "good.csv").write_text(
        "n,v\n" + "".join(f"{n},{n}\n" for n in range(200_000)) + "x,y\n"
    )
    loads.sql("CREATE TABLE good (n int, v int)")
    args = ["--max-rejects", "1"]
    run = loads.load("good.csv", "--table", "good", *args, code=3)["run_id"]
    entries = loads.record(run)
    folder = Path(loads.variables["FULLBORE_HOME"]) / "runs" / EVIL_RUN
    folder.mkdir()
    lines = [poison(entry) for entry in entries]
    failed = {"event": "run_failed", "at": entries[-1]["at"], "error": "".join(EVIL)}
    failed |= {"is_kept": True, "rows_kept": 0, "left_behind": EVIL}
    paused = {"event": "run_paused", "at": 0.1, "reason": "".join(EVIL)}
    lines = [*lines[:-1], paused, failed]
    (folder / "record.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # It is a record still: nothing was passed over.
    assert len(loads.record(EVIL_RUN)) == len(lines)
    return EVIL_RUN


def test_a_report_shows_it_and_does_nothing(loads: Loads, run: str, look: Look) -> None:
    check_quiet(look(loads.report("evil.html", run)))


def test_a_live_page_shows_it_and_does_nothing(loads: Loads, run: str, look: Look) -> None:
    with loads.watch(run) as url:
        page = look(url)
        page.until("document.getElementById('link-state').textContent.includes('is over')")
        check_quiet(page)


def test_a_table_of_an_evil_name_is_loaded_and_shown(loads: Loads, look: Look) -> None:
    name = "</script><script>alert(9)</script><img src=x onerror=alert(9)>"
    assert len(name) < 64
    quoted = '"' + name.replace('"', '""') + '"'
    loads.sql(f"CREATE TABLE {quoted} (n int)")
    source = loads.folder / "<img src=x onerror=alert(10)>.csv"
    source.write_text("n\n" + "".join(f"{n}\n" for n in range(1000)))
    loads.load(source, "--table", quoted)
    page = look(loads.report("named.html"))
    assert name in page.text("#tables")
    assert source.name in page.text("#plan")
    assert page.page.locator("img").count() == 0
