"""User-facing text contains no forbidden words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Each with what is said instead; docs/glossary.md has the terms.
BANNED = {
    r"\btold\b": "reported, recorded",
    r"\bheld back\b": "the bottleneck, throttled",
    r"\bmended\b": "corrected, without it",
    r"\bbeside\b": "next to, with, compared with",
    r"\bby hand\b": "manually",
    r"\bgone on with\b": "resumed",
    r"\bleft behind\b": "could not clean up",
    r"\bwho may\b": "a user who can",
    r"\bthat is to be\b": "to be",
    r"\bshown\b": "published, printed",
    r"\banew\b": "again, from the beginning",
    r"\bgoes on\b": "continues",
    r"\b[Ww]hoever\b": "the user who, the process that",
}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def literals(rust: str) -> str:
    """The texts of a file's literals, without what is filled in, and without those of its tests."""
    code = re.split(r"#\[cfg\(test\)\]\s*mod tests", rust)[0]
    code = re.sub(r"(?m)^\s*//.*$", "", code)
    code = re.sub(r"""b?'\\?"'""", "", code)
    return re.sub(r"\{[^{}]*\}", "", "\n".join(LITERAL.findall(code)))


def texts() -> Iterator[tuple[Path, str]]:
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        if path.name == "tests.rs" or "fullbore-testing" in path.parts:
            continue
        rust = path.read_text()
        text = literals(rust)
        if "args" in path.parts or path.name == "args.rs":
            # The help of the command.
            text += "\n".join(re.findall(r"///(.*)", rust))
        # What a module is for.
        text += "\n".join(re.findall(r"(?m)^//!(.*)", re.sub(r"`[^`\n]*`", "", rust)))
        yield path, text
    for path in sorted(ROOT.glob("extension/src/*.c")):
        without = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        yield path, "\n".join(LITERAL.findall(without))
    for pattern in ("*.md", "Makefile", "docs/**/*.md", "extension/**/*.md", "benchmarks/*.md"):
        for path in sorted(ROOT.glob(pattern)):
            if path.name not in ("CHANGELOG.md", "glossary.md"):
                # A picture's or a function's name is no word.
                yield path, re.sub(r"`[^`\n]*`", "", path.read_text())


def test_no_text_has_the_words_that_are_not_said() -> None:
    found = []
    for path, text in texts():
        for pattern, instead in BANNED.items():
            for match in re.finditer(pattern, text):
                place = text[max(0, match.start() - 40) : match.end() + 40].replace("\n", " ")
                found.append(f"{path.relative_to(ROOT)}: ...{place}... (say: {instead})")
    assert not found, "\n".join(found)


def test_the_test_reads_what_users_read() -> None:
    """It would find them: in the help, in messages, in guides."""
    rust = '/// not a literal, told\nlet a = b\'"\'; say("rows are {shown} by hand");'
    assert literals(rust).split() == ["rows", "are", "by", "hand"]
    paths = {path.relative_to(ROOT).as_posix() for path, _ in texts()}
    assert {"README.md", "docs/guides/resume.md", "crates/fullbore-cli/src/load/args.rs"} <= paths
