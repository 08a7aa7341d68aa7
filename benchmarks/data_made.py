"""Files that no benchmark of others defines: a wide quoted CSV, and a table of rarer types.

``python benchmarks/data_made.py wide MEGABYTES FILE`` writes one such file; so does ``texts``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

from data import DataSet
from lab import DATA

SEED = 20_261_121
FILES = 4
VOCABULARY = (
    "amber anchor basin candle cedar copper delta ember falcon garnet harbor indigo juniper kestrel"
    " lantern meadow nickel orchard pewter quarry russet saffron timber umber velvet walnut yarrow"
    " Zürich naïve señor 東京 Ωmega"
)
WORDS = VOCABULARY.split()

WIDE = """CREATE TABLE {table} (
    id bigint NOT NULL,
    customer bigint,
    quantity integer,
    warehouse integer,
    price numeric(12,2),
    discount numeric(6,4),
    weight float8,
    score float8,
    active boolean,
    ordered date,
    shipped date,
    created timestamp,
    changed timestamp,
    code text NOT NULL,
    status text,
    title text,
    first_name text,
    last_name text,
    street text,
    city text,
    country text,
    email text,
    tags text,
    description text,
    remarks text
)"""

TEXTS = """CREATE TABLE {table} (
    id bigint NOT NULL,
    lasted interval,
    host inet,
    network cidr,
    card macaddr,
    span int4range,
    stay daterange,
    valid tstzrange,
    place point,
    bits varbit
)"""


def wide(megabytes: int) -> DataSet:
    """A CSV of 25 columns, half of them quoted text with all that quotes are there for."""
    files = _made("wide", megabytes, "csv", _wide_file)
    return DataSet(
        table="wide",
        schema=WIDE,
        files=files,
        plain=files,
        copy="FORMAT csv, HEADER",
        ours=("--format", "csv", "--header", "true"),
        delimiter=",",
        quote='"',
        header=True,
    )


def wide_odd(megabytes: int, percent: int) -> DataSet:
    """The same as one file, in which so many rows are written as only the server reads them."""
    path = DATA / f"wide-{megabytes}-odd" / f"wide.{percent}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        _wide_file(unfinished, megabytes * 1_000_000, 0, percent)
        unfinished.rename(path)
    return replace(wide(1), files=[path], plain=[path])


def texts(megabytes: int) -> DataSet:
    """Types that are sent as text: there is no binary encoder for them."""
    files = _made("texts", megabytes, "txt", _texts_file)
    return DataSet(
        table="texts",
        schema=TEXTS,
        files=files,
        plain=files,
        copy="FORMAT text",
        ours=("--format", "text"),
        delimiter="\t",
    )


def _made(name: str, megabytes: int, ending: str, write: Callable[..., None]) -> list[Path]:
    folder = DATA / f"{name}-{megabytes}"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{number}.{ending}" for number in range(1, FILES + 1)]
    for number, path in enumerate(files):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            write(unfinished, megabytes * 1_000_000 // FILES, number)
            unfinished.rename(path)
    return files


def _quoted(value: str | None) -> str:
    """As most programs write text: in quotes always, NULL as nothing at all."""
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def _pool(count: int, make: Callable[[], str | None]) -> list[str]:
    return [_quoted(make()) for _ in range(count)]


def _sentence(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(low, high)))


def _hard(rng: random.Random) -> str | None:
    """Text with commas, quotes and line feeds, or NULL."""
    if rng.random() < 0.1:
        return None
    text = _sentence(rng, 5, 18)
    for odd in (", ", ' said "no" ', "\n", "\r\n", "; "):
        if rng.random() < 0.25:
            cut = rng.randrange(len(text))
            text = text[:cut] + odd + text[cut:]
    return text


def _wide_file(path: Path, size: int, number: int, odd_percent: int = 0) -> None:
    rng = random.Random(SEED + number)
    hard = _pool(4000, lambda: _hard(rng))
    short = _pool(2000, lambda: None if rng.random() < 0.05 else _sentence(rng, 1, 2))
    titles = _pool(2000, lambda: f'{_sentence(rng, 2, 4)}, {rng.randint(1, 40)}" x 2')
    emails = _pool(2000, lambda: f"{rng.choice(WORDS[:20])}@example.com")
    states = [_quoted(state) for state in ("new", "paid", "sent", "returned", None)]
    start, begin = date(2015, 1, 1), datetime(2015, 1, 1)
    days = ["", *(str(start + timedelta(n)) for n in range(3000))]
    odd_days = ['"Jan 5, 2020"', "20200105", "5 January 2020", '"Sunday, January 5 2020"']
    numbers, pick = rng.randrange, rng.choice
    written, row = 0, number * 100_000_000
    with path.open("w", newline="", encoding="utf-8") as out:
        out.write(",".join(_names(WIDE)) + "\n")
        while written < size:
            lines = []
            for _ in range(1000):
                row += 1
                moment = begin + timedelta(microseconds=numbers(10**14))
                is_odd = odd_percent > 0 and numbers(100) < odd_percent
                ordered = odd_days if is_odd else days
                lines.append(
                    f"{row},{numbers(10**6) or ''},{numbers(500)},{numbers(90)},"
                    f"{numbers(10**7) / 100:.2f},{numbers(10**4) / 10**4:.4f},"
                    f"{rng.random() * 100!r},{numbers(10**6) / 1000},"
                    f"{pick(('true', 'false', ''))},{pick(ordered)},{pick(days)},"
                    f"{moment:%Y-%m-%d %H:%M:%S.%f},{moment:%Y-%m-%d} 08:00:00,"
                    f'"{row:x}-{numbers(10**9)}",{pick(states)},{pick(titles)},{pick(short)},'
                    f"{pick(short)},{pick(hard)},{pick(short)},{pick(short)},{pick(emails)},"
                    f"{pick(short)},{pick(hard)},{pick(hard)}\n"
                )
            written += out.write("".join(lines))


def _texts_file(path: Path, size: int, number: int) -> None:
    rng = random.Random(SEED + number)
    numbers, start = rng.randrange, date(2015, 1, 1)
    days = [str(start + timedelta(n)) for n in range(4000)]
    written, row = 0, number * 100_000_000
    with path.open("w", newline="", encoding="utf-8") as out:
        while written < size:
            lines = []
            for _ in range(1000):
                row += 1
                first, day = numbers(10**6), numbers(3000)
                lines.append(
                    f"{row}\t{numbers(400)} days {numbers(24):02}:{numbers(60):02}:07\t"
                    f"10.{numbers(256)}.{numbers(256)}.{numbers(256)}\t"
                    f"192.168.{numbers(256)}.0/24\t08:00:2b:01:{numbers(256):02x}:03\t"
                    f"[{first},{first + numbers(1, 999)})\t"
                    f"[{days[day]},{days[day + numbers(1, 900)]})\t"
                    f'["{days[day]} 01:02:03+00","{days[day + 900]} 04:05:06+00")\t'
                    f"({numbers(360)},{numbers(180)})\t{numbers(2**24):024b}\n"
                    if numbers(50)
                    else f"{row}" + "\t\\N" * 9 + "\n"
                )
            written += out.write("".join(lines))


def _names(schema: str) -> list[str]:
    return [line.split()[0] for line in schema.splitlines()[1:-1]]


if __name__ == "__main__":
    kind, size_mb, target = sys.argv[1:]
    writer = {"wide": _wide_file, "texts": _texts_file}[kind]
    writer(Path(target), int(size_mb) * 1_000_000, 0)
