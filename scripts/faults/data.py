"""The files that are loaded: sorted by their key, over several files, with rows of every kind.

Some values are not in canonical form, so that the server has to judge them; some text is quoted and
holds line feeds; a variant holds bad rows too, which are to be rejected.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from places import CACHE

COLUMNS = "k bigint{key}, n int, day date, amount numeric(12,2), word varchar(20), note text"

# Shares of the files' sizes: some are cut, some are put together.
SHARES = (11, 27, 6, 4, 30, 22)
BAD_SHARE = 0.03


@dataclass(frozen=True)
class Data:
    """Files and what is in them."""

    name: str
    folder: Path
    files: list[Path]
    rows: int
    bytes: int
    bad: int

    @property
    def bad_rows(self) -> list[str]:
        """Rows that must be rejected, sorted."""
        return sorted((self.folder / "bad.txt").read_text().splitlines())

    @property
    def good_files(self) -> list[Path]:
        """What plain COPY takes."""
        return sorted((self.folder / "good").glob("part-*.csv")) if self.bad else self.files

    def copied(self, folder: Path) -> Data:
        """A copy that may be damaged."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        files = [folder / file.name for file in self.files]
        return Data(self.name, folder, files, self.rows, self.bytes, self.bad)


def made(megabytes: int, with_bad: bool = False) -> Data:
    """The files of about this size; made when first asked for."""
    folder = CACHE / f"data-{megabytes}{'-bad' if with_bad else ''}"
    facts = folder / "complete.json"
    if not facts.exists():
        _make(folder, megabytes, with_bad)
    known = json.loads(facts.read_text())
    files = sorted(folder.glob("part-*.csv"))
    size = sum(file.stat().st_size for file in files)
    return Data(folder.name, folder, files, known["rows"], size, known["bad"])


def _make(folder: Path, megabytes: int, with_bad: bool) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    good = folder / "good"
    (good if with_bad else folder).mkdir(parents=True)
    rng = random.Random(megabytes)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 20))) for _ in range(500)]
    notes = ["".join(rng.choices("klm nop qrs", k=rng.randint(0, 190))) for _ in range(2000)]
    notes += ['"two\nlines, and ""quotes"""', "", '""', '"a, comma"']
    k = rows = 0
    bad: list[str] = []
    for number, share in enumerate(SHARES):
        size, wanted = 0, megabytes * 1_000_000 * share // sum(SHARES)
        name = f"part-{number}.csv"
        with (
            (folder / name).open("w", newline="") as out,
            (good / name if with_bad else Path("/dev/null")).open("w", newline="") as out_good,
        ):
            while size < wanted:
                lines, good_lines = [], []
                for _ in range(2000):
                    k += rng.randint(1, 3)
                    chance = rng.random()
                    day = f"20{k % 30:02}-{k % 12 + 1:02}-{k % 28 + 1:02}"
                    if chance < 0.002:
                        day = f"{k % 28 + 1} Jan 20{k % 30:02}"
                    elif chance < 0.003:
                        day = f'"Feb {k % 28 + 1}, 19{k % 90 + 10}"'
                    rest = f"{day},{k % 1_000_000 / 100:.2f},{rng.choice(words)},"
                    rest += rng.choice(notes)
                    if with_bad and chance > 1 - BAD_SHARE:
                        lines.append(f"{k},many,{day},1,bad,row {len(bad)}\n")
                        bad.append(lines[-1].rstrip("\n"))
                        k += 1
                    good_lines.append(f"{k},{'' if chance < 0.01 else k % 97},{rest}\n")
                    lines.append(good_lines[-1])
                    rows += 1
                text = "".join(lines)
                size += len(text)
                out.write(text)
                out_good.write("".join(good_lines))
    (folder / "bad.txt").write_text("".join(f"{line}\n" for line in bad))
    (folder / "complete.json").write_text(json.dumps({"rows": rows, "bad": len(bad)}))
