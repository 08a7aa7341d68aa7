"""Reports of real loads in a real browser: what they show is what the record says."""

from __future__ import annotations

import itertools
import json

import checks
import pytest
from world import Loads, Look

TABLES = {"orders": 60_000, "lines": 240_000, "notes": 30_000}


@pytest.fixture(scope="module")
def run(loads: Loads) -> dict:
    """A load of three tables, with rejects."""
    job = ""
    for name, count in TABLES.items():
        with (loads.folder / f"{name}.csv").open("w") as file:
            file.write("id,day,amount,words\n")
            for n in range(count):
                amount = "many" if name == "notes" and n % 10_000 == 5_000 else f"{n}.25"
                file.write(f"{n},2026-01-{n % 28 + 1:02},{amount},some words of row {n}\n")
        loads.sql(f"CREATE TABLE {name} (id int, day date, amount numeric, words text)")
        job += f'[[table]]\nname = "{name}"\nsources = ["{name}.csv"]\n'
    (loads.folder / "three.toml").write_text(job)
    return loads.load("three.toml", "--max-rejects", "100", "--streams", "2", code=3)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_a_report_is_seen_read_and_reached(
    loads: Loads, run: dict, look: Look, theme: str, width: int
) -> None:
    page = look(loads.report("seen.html", run["run_id"]), width, theme)
    checks.charts_are_drawn(page, "chart-bytes", "chart-rows", "chart-server")
    checks.has_room(page)
    checks.can_be_reached_by_keys(page)
    checks.is_told_to_those_who_cannot_see(page)
    page.page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    checks.can_be_read(page)
    checks.has_room(page)


def test_its_numbers_are_the_records(loads: Loads, run: dict, look: Look) -> None:
    page = look(loads.report("numbers.html", run["run_id"]))
    entries = loads.record(run["run_id"])
    finished = next(entry for entry in entries if entry["event"] == "run_finished")
    shown = page.page.locator("#tables tbody tr")
    for at, table in enumerate(finished["tables"]):
        cells = [shown.nth(at).locator("th").inner_text()]
        cells += shown.nth(at).locator("td").all_inner_texts()
        assert cells[0] == table["name"]
        assert cells[2:4] == [f"{table['rows']:,}", f"{table['rejected']:,}"]
        assert cells[5] == str(table["pieces"])
        assert TABLES[table["name"]] == table["rows"] + table["rejected"]
    assert f"Loaded {finished['rows']:,} rows" in page.text("#summary")
    assert "3 rows rejected" in page.text("#summary")
    # Of which kind, and where.
    rejects = page.text("#rejects")
    assert "amount" in rejects and "many" in rejects and ".rejected" in rejects
    kinds = next(e for e in entries if e["event"] == "rejected")["rejects"]["kinds"]
    assert sum(kind["count"] for kind in kinds) == finished["rejected"] == 3
    # The verdict and its advice.
    verdict = next(entry for entry in entries if entry["event"] == "verdict")
    for line in verdict["advice"]:
        assert line in page.text("#advice")
    for share in verdict["verdict"]["shares"][:1]:
        assert f"{share['share']:.0%}" in page.text("#waits .bars >> nth=0")
    # What the curves come to is what was sent.
    curves = json.loads(page.page.locator("#curves").text_content())
    samples = [entry for entry in entries if entry["event"] == "sample"]
    first, last = samples[0], samples[-1]
    lengths = [after - before for before, after in itertools.pairwise(curves["at"])]
    for table in range(len(TABLES)):
        # Each rate is that of the stretch before it.
        rates = curves["megabytes"][table][1:]
        area = sum(rate * length for rate, length in zip(rates, lengths, strict=True))
        sent = last["tables"][table]["bytes_sent"] - first["tables"][table]["bytes_sent"]
        assert area * 1e6 == pytest.approx(sent, rel=0.02, abs=5e3)
    settings = next(entry for entry in entries if entry["event"] == "server_settings")
    page.page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    facts = page.text("#facts")
    for name, value in settings["settings"]["values"].items():
        assert name in facts and value in facts
    assert "PostgreSQL 18" in facts
    assert "orders.csv" in page.text("#plan")


def test_the_record_can_be_had_from_it(loads: Loads, run: dict, look: Look) -> None:
    page = look(loads.report("raw.html", run["run_id"]))
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Download the record").click()
    text = download.value.path().read_text()
    assert [json.loads(line) for line in text.split("\n") if line] == loads.record(run["run_id"])


def test_a_legend_is_a_switch_by_key(loads: Loads, run: dict, look: Look) -> None:
    page = look(loads.report("legend.html", run["run_id"]))
    switch = page.page.locator("#chart-bytes").get_by_role("button", name="orders")
    assert switch.get_attribute("aria-pressed") == "true"
    switch.focus()
    page.page.keyboard.press("Enter")
    assert switch.get_attribute("aria-pressed") == "false"
    page.page.keyboard.press(" ")
    assert switch.get_attribute("aria-pressed") == "true"


def test_the_theme_may_change_while_it_is_open(loads: Loads, run: dict, look: Look) -> None:
    page = look(loads.report("theme.html", run["run_id"]))
    page.page.emulate_media(color_scheme="dark")
    page.until(f"argument => ({checks.DRAWN})(argument) > 20", ["chart-bytes", 0])
    checks.charts_are_drawn(page, "chart-bytes", "chart-rows")
    checks.can_be_read(page)


def test_it_can_be_printed(loads: Loads, run: dict, look: Look) -> None:
    page = look(loads.report("print.html", run["run_id"]), 1400, "dark")
    pdf = page.page.pdf()
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    # What was made ready for paper is as it was.
    assert page.page.evaluate("document.documentElement.className") == ""
    assert page.page.locator("#facts #settings").get_attribute("open") is None
