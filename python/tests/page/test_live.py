"""The live page: a load into a real server, watched by a real browser while it goes on."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import checks
import pytest
from world import Loads, Look

ROWS = 20_000
AS_CSV = ["--create", "--header", "none", "--format", "csv"]


def rows(first: int, count: int = ROWS) -> str:
    return "".join(f"{n},the row that has the number {n}\n" for n in range(first, first + count))


def cells(page, row: int = 0) -> list[str]:
    found = page.page.locator("#tables tbody tr").nth(row)
    return [found.locator("th").inner_text(), *found.locator("td").all_inner_texts()]


def test_the_page_grows_with_the_load_and_ends_with_it(loads: Loads, look: Look) -> None:
    load = loads.begin("--table", "grown", *AS_CSV, first=rows(0))
    page = look(load.url)
    page.until("document.getElementById('link-state').textContent.startsWith('Connected')")
    assert "Not finished" in page.text("#summary")
    before = int(page.page.locator("html").get_attribute("data-pictures"))
    # What is unfolded, and has the focus, stays so when a newer picture comes.
    page.page.locator("#facts #settings summary").click()
    for part in range(1, 5):
        load.feed(rows(part * ROWS))
        page.until(
            "count => Number(document.documentElement.dataset.pictures) > count", before + part
        )
    page.until("document.querySelectorAll('.strip').length > 0")
    page.until("!document.getElementById('chart-bytes').hidden")
    assert page.page.locator("#facts #settings").get_attribute("open") is not None
    assert page.page.evaluate("document.activeElement.localName") == "summary"
    checks.charts_are_drawn(page, "chart-bytes", "chart-rows")
    checks.is_told_to_those_who_cannot_see(page)
    with urllib.request.urlopen(load.url.replace("/?", "/metrics?")) as answer:
        figures = answer.read().decode()
    assert 'fullbore_rows_sent{table="grown"}' in figures
    assert "fullbore_stage_seconds_total" in figures
    summary = load.end()
    page.until("document.getElementById('link-state').textContent.includes('has ended with it')")
    assert summary["rows"] == 5 * ROWS
    text = page.text("#summary")
    assert f"Loaded {summary['rows']:,} rows" in text
    name, _, shown, rejected, _, pieces, _ = cells(page)
    assert (name, shown, rejected) == ("grown", f"{summary['rows']:,}", "0")
    assert pieces == str(summary["pieces"])
    # What held the load back is said as elsewhere; what that is depends on the machine.
    shown = loads.run("runs", "show", summary["run_id"]).partition("bottleneck: ")[2]
    assert f"Bottleneck: {shown.splitlines()[0]}." in text
    # The server is gone with the load.
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(load.url)


def test_without_its_token_nothing_is_told(loads: Loads) -> None:
    load = loads.begin("--table", "guarded", *AS_CSV, first=rows(0))
    bare = load.url.split("?")[0]
    for url in (bare, bare + "metrics", bare + "events", load.url[:-1]):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        assert refused.value.code == 403
        assert "guarded" not in refused.value.read().decode()
    token = load.url.split("=")[1]
    asked = urllib.request.Request(bare + "metrics", headers={"Authorization": f"Bearer {token}"})
    assert urllib.request.urlopen(asked).status == 200
    load.end()


def test_watch_shows_a_run_that_is_over(loads: Loads, look: Look) -> None:
    (loads.folder / "over.csv").write_text("n,v\n" + rows(0))
    summary = loads.load("over.csv", "--table", "over", "--create")
    with loads.watch() as url:
        page = look(url)
        page.until("document.getElementById('link-state').textContent.includes('is over: loaded')")
        assert page.page.title() == f"fullbore run {summary['run_id']}"
        assert re.search(rf"Loaded {ROWS:,} rows", page.text("#summary"))
    # It was told that the server is gone.
    page.until("document.getElementById('link-state').textContent.includes('has ended')")
