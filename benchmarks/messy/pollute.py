"""Makes of a clean table a file as people and programs write it, and says how to read it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from clean import Table


@dataclass
class Style:
    """How a file is written."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    end: str = "\n"
    quotes_all: bool = False


@dataclass
class Polluted:
    """A file, what should come of it, and what either program is told where it is told all.

    ``names`` are None where the file names no columns, and hold None for a column whose name is for
    the reader to make up.
    """

    kind: str
    content: bytes
    names: list[str | None] | None
    rows: list[list[str]]
    ours: list[str] = field(default_factory=list)
    theirs: dict[str, object] = field(default_factory=dict)


def cell(text: str, style: Style) -> str:
    """A cell as it is written."""
    special = (style.delimiter, style.quote, "\n", "\r", style.escape)
    if not style.quotes_all and not any(mark in text for mark in special):
        return text
    inner = text.replace(style.escape, style.escape * 2) if style.escape != style.quote else text
    inner = inner.replace(style.quote, style.escape + style.quote)
    return f"{style.quote}{inner}{style.quote}"


def lines_of(table: Table, style: Style) -> list[str]:
    """The header and the records, without line ends."""
    return [
        style.delimiter.join(cell(text, style) for text in row)
        for row in [table.names, *table.rows]
    ]


class Maker:
    """One pollution of one table: changes the lines, and notes what is to be told."""

    def __init__(self, table: Table, rng: random.Random) -> None:
        self.table, self.rng, self.style = table, rng, Style()
        self.names: list[str | None] | None = list(table.names)
        self.rows = [list(row) for row in table.rows]
        self.before: list[str] = []
        self.after: list[str] = []
        self.header: list[str] | None = None
        self.ours: list[str] = []
        self.theirs: dict[str, object] = {}
        self.skip = 0
        self.header_option = "true"
        self.encoding = "utf-8"
        self.ends: Callable[[int], str] | None = None
        self.has_last_end = True

    def line(self, cells: list[str]) -> str:
        return self.style.delimiter.join(cell(text, self.style) for text in cells)

    def build(self, kind: str) -> Polluted:
        """The file."""
        lines = lines_of(self.table, self.style)
        header = [lines[0]] if self.header is None else self.header
        records = self.records if hasattr(self, "records") else lines[1:]
        whole = [*self.before, *header, *records, *self.after]
        text = ""
        for number, line in enumerate(whole):
            end = self.ends(number) if self.ends else self.style.end
            if number + 1 == len(whole) and not self.has_last_end:
                end = ""
            text += line + end
        style, skip = self.style, self.skip
        ours = ["--delimiter", style.delimiter, "--quote", style.quote, "--escape", style.escape]
        ours += ["--header", self.header_option]
        if skip:
            ours += ["--skip-lines", str(skip)]
        theirs: dict[str, object] = {
            "delimiter": style.delimiter,
            "quotechar": style.quote,
            "escapechar": style.escape,
            "skiprows": skip,
            "header": self.header_option == "true",
        }
        return Polluted(
            kind,
            text.encode(self.encoding),
            self.names,
            self.rows,
            [*ours, *self.ours],
            theirs | self.theirs,
        )


def delimiter(maker: Maker, mark: str) -> None:
    maker.style.delimiter = mark


def space(maker: Maker) -> None:
    maker.style.delimiter = " "
    maker.style.quotes_all = True


def single_quotes(maker: Maker) -> None:
    maker.style.quote = maker.style.escape = "'"
    maker.style.quotes_all = maker.rng.random() < 0.5
    maker.style.delimiter = maker.rng.choice(",;")


def backslashes(maker: Maker) -> None:
    maker.style.escape = "\\"
    maker.style.delimiter = maker.rng.choice(",;\t")
    texts = [at for at, unit in enumerate(maker.table.units) if not unit]
    for row in maker.rng.sample(range(len(maker.rows)), 5):
        at = maker.rng.choice(texts[1:] or texts)
        value = f'{maker.table.rows[row][at]} "so, {maker.style.delimiter} called"'
        maker.table.rows[row][at] = maker.rows[row][at] = value


def all_quoted(maker: Maker) -> None:
    maker.style.quotes_all = True
    maker.style.delimiter = maker.rng.choice(",;\t|")


def stray_quotes(maker: Maker) -> None:
    """Inches among unquoted text: quotes that are none."""
    lines = lines_of(maker.table, maker.style)[1:]
    texts = [at for at, unit in enumerate(maker.table.units) if not unit]
    place = texts[-1]
    changed = [n for n, row in enumerate(maker.rows) if lines[n].count('"') == 0][:40:7]
    for number in changed:
        cells = [cell(text, maker.style) for text in maker.rows[number]]
        maker.rows[number][place] += ' 12"'
        cells[place] += ' 12"'
        lines[number] = maker.style.delimiter.join(cells)
    maker.records = lines
    maker.ours += ["--quotes", "strict"]
    maker.theirs["strict_mode"] = False


def cr(maker: Maker) -> None:
    maker.style.end = "\r"
    maker.ours += ["--line-end", "cr"]


def crlf(maker: Maker) -> None:
    maker.style.end = "\r\n"
    maker.has_last_end = maker.rng.random() < 0.5
    maker.ours += ["--line-end", "crlf"]


def mixed_ends(maker: Maker) -> None:
    choices = ["\n", "\r\n"] if maker.rng.random() < 0.6 else ["\n", "\r\n", "\r"]
    ends = [maker.rng.choice(choices) for _ in range(4000)]
    maker.ends = lambda number: ends[number]
    maker.ours += ["--line-end", "mixed"]
    maker.theirs["strict_mode"] = False


def title(maker: Maker) -> None:
    maker.before = [f"Report on {maker.table.name}", "made on Monday"][: maker.rng.randint(1, 2)]
    if maker.rng.random() < 0.6:
        maker.before.append("")
    maker.skip = len(maker.before)


def padded_title(maker: Maker) -> None:
    rest = maker.style.delimiter * (len(maker.table.names) - 1)
    maker.before = [f"Report on {maker.table.name}{rest}", rest]
    maker.skip = 2


def metadata(maker: Maker) -> None:
    mark = maker.style.delimiter
    maker.before = [f"Station:{mark}North 7", f"Operator:{mark}Becker", ""]
    maker.skip = 3


def comments(maker: Maker) -> None:
    maker.before = [f"# {maker.table.name}, made by hand", "# in 2024"]
    maker.ours += ["--comment", "#"]
    maker.theirs["comment"] = "#"


def comments_within(maker: Maker) -> None:
    comments(maker)
    lines = lines_of(maker.table, maker.style)[1:]
    for place in sorted(maker.rng.sample(range(1, len(lines)), 3), reverse=True):
        lines.insert(place, "# checked, so far")
    maker.records = lines


def source_footer(maker: Maker) -> None:
    maker.after = ["", "Source: the office of numbers, 2024"]
    if maker.rng.random() < 0.5:
        maker.after.append("Note: some values are estimates.")
    maker.ours += ["--skip-footer", str(len(maker.after) - 1)]
    maker.theirs["ignore_errors"] = True


def padded_footer(maker: Maker) -> None:
    rest = maker.style.delimiter * (len(maker.table.names) - 1)
    maker.after = [f"Source: the office of numbers{rest}"]
    maker.ours += ["--skip-footer", "1"]


def total_footer(maker: Maker) -> None:
    cells = ["Total", *[""] * (len(maker.table.names) - 1)]
    for at, unit in enumerate(maker.table.units):
        if unit:
            cells[at] = "1234.5"
    if maker.rng.random() < 0.5:
        maker.after = [""]
    maker.after.append(maker.line(cells))
    maker.ours += ["--skip-footer", "1"]


def no_header(maker: Maker) -> None:
    maker.header, maker.names, maker.header_option = [], None, "none"


def doubled_header(maker: Maker) -> None:
    line = lines_of(maker.table, maker.style)[0]
    maker.header = [line, line]
    maker.skip = 1


def units_line(maker: Maker) -> None:
    """A line of units below the names; of a table without any, one of remarks."""
    given = maker.table.units
    given = given if any(given) else ["text"] * len(given)
    units = [unit if unit.startswith("(") or not unit else f"({unit})" for unit in given]
    maker.header = [lines_of(maker.table, maker.style)[0], maker.line(units)]
    maker.theirs |= {"skiprows": 2, "header": False, "names": maker.table.names}


def group_line(maker: Maker) -> None:
    cells = [""] * len(maker.table.names)
    cells[1], cells[-1] = "first", "second"
    maker.before = [maker.line(cells)]
    maker.skip = 1


def odd_names(maker: Maker) -> None:
    """Names that are empty, or occur twice."""
    names = list(maker.table.names)
    names[0] = ""
    if len(names) > 3:
        names[-1] = names[-2]
    maker.header = [maker.line(names)]
    maker.names = [None, *names[1:-1], None]


def damaged_header(maker: Maker) -> None:
    names = list(maker.table.names)
    maker.header = [maker.line(names[:-1] if maker.rng.random() < 0.5 else [*names, "more"])]
    maker.names, maker.header_option = None, "skip"
    maker.ours += ["--columns", ",".join(names)]
    maker.theirs |= {"skiprows": 1, "header": False, "names": names}


def short_rows(maker: Maker) -> None:
    """Rows that lack their last field, the first among them at times."""
    lines = lines_of(maker.table, maker.style)[1:]
    picked = maker.rng.sample(range(len(lines)), 4) + [0] * (maker.rng.random() < 0.5)
    for number in set(picked):
        cells = maker.rows[number][:-1]
        lines[number] = maker.line(cells)
        maker.rows[number] = [*cells, ""]
    maker.records = lines
    maker.ours += ["--ragged", "pad"]
    maker.theirs["null_padding"] = True


def long_rows(maker: Maker) -> None:
    """Rows with a field too many."""
    lines = lines_of(maker.table, maker.style)[1:]
    for number in maker.rng.sample(range(len(lines)), 4):
        lines[number] += maker.style.delimiter + "more"
    maker.records = lines
    maker.ours += ["--ragged", "cut"]
    maker.theirs |= {"strict_mode": False, "ignore_errors": True}


def two_tables(maker: Maker) -> None:
    others = [["code", "label"], ["a", "first"], ["b", "second"], ["c", "third"]]
    maker.after = ["", *[maker.line(row) for row in others]]
    maker.ours += ["--skip-footer", str(len(others))]
    maker.theirs["ignore_errors"] = True


def encoded(maker: Maker) -> None:
    maker.encoding = maker.rng.choice(["utf-16", "latin-1", "utf-8-sig"])
    if maker.encoding == "utf-16":
        maker.ours += ["--encoding", "utf-16"]
        maker.theirs["encoding"] = "utf-16"
    elif maker.encoding == "latin-1":
        maker.ours += ["--encoding", "latin1"]
        maker.theirs["encoding"] = "latin-1"


def blank_lines(maker: Maker) -> None:
    lines = lines_of(maker.table, maker.style)[1:]
    for place in sorted(maker.rng.sample(range(1, len(lines)), 4), reverse=True):
        lines.insert(place, "")
    maker.records = lines


def several(maker: Maker) -> None:
    """Some of them together."""
    delimiter(maker, maker.rng.choice(";\t|"))
    maker.style.end = maker.rng.choice(["\n", "\r\n"])
    maker.rng.choice([title, padded_title, metadata])(maker)
    maker.rng.choice([source_footer, padded_footer])(maker)


KINDS: dict[str, Callable[[Maker], None]] = {
    "semicolons": lambda maker: delimiter(maker, ";"),
    "tabs": lambda maker: delimiter(maker, "\t"),
    "bars": lambda maker: delimiter(maker, "|"),
    "spaces": space,
    "comma and space": lambda maker: delimiter(maker, ", "),
    "other delimiters": lambda maker: delimiter(maker, maker.rng.choice(["::", "||", "^", "~"])),
    "single quotes": single_quotes,
    "backslash escapes": backslashes,
    "all quoted": all_quoted,
    "stray quotes": stray_quotes,
    "CR": cr,
    "CRLF": crlf,
    "mixed record ends": mixed_ends,
    "title lines": title,
    "padded title": padded_title,
    "metadata": metadata,
    "comments": comments_within,
    "source below": source_footer,
    "padded note below": padded_footer,
    "total below": total_footer,
    "no header": no_header,
    "doubled header": doubled_header,
    "line of units": units_line,
    "line of groups": group_line,
    "empty and repeated names": odd_names,
    "damaged header": damaged_header,
    "short rows": short_rows,
    "long rows": long_rows,
    "two tables": two_tables,
    "encodings, blank lines, several at once": lambda maker: maker.rng.choice(
        [encoded, encoded, blank_lines, several, several]
    )(maker),
}


def polluted(table: Table, kind: str, seed: int) -> Polluted:
    """The file that a kind of pollution makes of a table."""
    rng = random.Random(f"{seed} {table.name} {kind}")
    copy = Table(table.name, list(table.names), [list(row) for row in table.rows], table.units)
    maker = Maker(copy, rng)
    KINDS[kind](maker)
    return maker.build(kind)
