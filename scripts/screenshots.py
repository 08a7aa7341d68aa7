"""`make screenshots`: pictures of the live page and of a report, of a real load.

Orders, their lines and parts of TPC-H are loaded into a server of their own, twice: the report is
of a load that no browser disturbs, after `preflight all` has measured what it could reach; the
live page is taken while the second goes on. The pictures are looked at by whoever makes them, and
kept in docs/images.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TABLES = ["lineitem", "orders", "partsupp"]
JOB = """tables_at_once = true
method = "copy"
"""
TABLE = """
[[table]]
name = "{name}"
sources = ["{data}/{name}.tbl.*"]
format = "tbl"
create = true
schema_file = "{root}/demo/schema/{name}.sql"
publish = "append"
"""
# Width, colours, height of what is shown; the whole page where there is none.
VIEWS = [(1400, "light"), (1400, "dark"), (400, "light"), (400, "dark")]


def chromium() -> str:
    found = [os.environ.get("FULLBORE_CHROMIUM"), shutil.which("chromium")]
    return next((path for path in found if path), "google-chrome")


def take(browser: Browser, url: str, path: Path, width: int, theme: str, ready: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=theme)
    page = context.new_page()
    page.goto(url)
    page.wait_for_function(f"() => {ready}", timeout=60_000)
    # A phone's picture of all of it would be a ribbon.
    clip = {"x": 0, "y": 0, "width": width, "height": 1800 if width > 800 else 2150}
    page.screenshot(path=path, clip=clip, full_page=True)
    context.close()
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    command = os.environ.get("FULLBORE_BIN") or str(ROOT / ".venv/bin/fullbore")
    folder = Path(tempfile.mkdtemp(prefix="fbs-", dir="/tmp"))
    folder.chmod(0o755)
    home = os.environ | {"FULLBORE_HOME": str(folder / "home")}
    home.pop("DATABASE_URL", None)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [command, *arguments], env=home, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    try:
        data = folder / "data"
        run("gen", "tpch", "--scale", "1", "--streams", "4", "--out", str(data))
        url = run("server", "start")
        job = folder / "job.toml"
        tables = [TABLE.format(name=name, data=data, root=ROOT) for name in TABLES]
        job.write_text(JOB + "".join(tables))
        to = ["--to", url, "--streams", "4", "--quiet"]
        run("preflight", "all", str(job), *to)
        run("load", str(job), *to)
        report = folder / "report.html"
        run("runs", "report", "last", "-o", str(report))
        run("psql", "-q", "-c", f"DROP TABLE {', '.join(TABLES)}", "-c", "CHECKPOINT")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=flags)
            load = subprocess.Popen(
                [command, "load", str(job), *to, "--live"],
                env=home,
                stderr=subprocess.PIPE,
                text=True,
            )
            live = next(line for line in load.stderr if line.startswith("live: "))[6:].strip()
            ready = (
                "document.querySelectorAll('.strip rect').length > 3"
                " && JSON.parse(document.documentElement.dataset.pictures ?? '0') > 4"
            )
            take(browser, live, out / "live-1400-light.png", 1400, "light", ready)
            load.communicate()
            for width, theme in VIEWS:
                path = out / f"report-{width}-{theme}.png"
                ready = "document.querySelectorAll('canvas').length === 3"
                take(browser, report.as_uri(), path, width, theme, ready)
            browser.close()
    finally:
        subprocess.run([command, "server", "stop"], env=home, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
