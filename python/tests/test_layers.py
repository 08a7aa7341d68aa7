"""No crate has a dependency cycle of many files: to understand one of them is to read all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

CRATES = Path(__file__).parents[2] / "crates"
FILES_MAX = 6
# A module: its path within the crate.
Module = tuple[str, ...]
Graph = dict[Module, set[Module]]


def modules(src: Path) -> dict[Module, Path]:
    """The modules of a crate that have a file."""
    found = {}
    for path in src.rglob("*.rs"):
        parts = path.relative_to(src).with_suffix("").parts
        found[parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts] = path
    return found


def expanded(use: str) -> Iterator[str]:
    """`a::{b, c::{d}}` as `a::b`, `a::c::d`."""
    before, brace, inner = use.strip().partition("{")
    if not brace:
        yield before
        return
    depth, start = 0, 0
    for at, char in enumerate(inner):
        if (char == "," and depth == 0) or (char == "}" and depth == 0):
            yield from (before + rest for rest in expanded(inner[start:at]))
            start = at + 1
        depth += (char == "{") - (char == "}")


def graph(src: Path) -> Graph:
    """Which modules each module names, but for its tests."""
    known = modules(src)
    edges: Graph = {module: set() for module in known}
    for module, path in known.items():
        rust = re.split(r"#\[cfg\(test\)\]\s*mod", path.read_text())[0]
        rust = re.sub(r"//[^\n]*", "", rust)
        named = [one for use in re.findall(r"\buse ([^;]+);", rust) for one in expanded(use)]
        named += re.findall(r"\b\w+(?:::\w+)+", rust)
        for name in named:
            target = resolved(module, name.split("::"), known)
            if target is not None and target != module:
                edges[module].add(target)
    return edges


def resolved(module: Module, names: list[str], known: dict[Module, Path]) -> Module | None:
    """The module that a path within the crate leads to."""
    names = [name.strip().split(" as ")[0] for name in names]
    if names[0] == "crate":
        base, names = (), names[1:]
    elif names[0] == "self":
        base, names = module, names[1:]
    elif names[0] == "super":
        ups = next((i for i, name in enumerate(names) if name != "super"), len(names))
        base, names = module[: len(module) - ups], names[ups:]
    elif (*module, names[0]) in known:
        base = module
    else:
        return None
    for name in names:
        if (*base, name) not in known:
            break
        base = (*base, name)
    return base if base in known else None


def circles(edges: Graph) -> Iterator[set[Module]]:
    """The sets of modules that all reach each other."""

    def reached(start: Module, edges: Graph) -> set[Module]:
        seen, left = {start}, [start]
        while left:
            new = edges[left.pop()] - seen
            seen |= new
            left += new
        return seen

    back: Graph = {module: set() for module in edges}
    for module, named in edges.items():
        for other in named:
            back[other].add(module)
    left = set(edges)
    while left:
        module = next(iter(left))
        circle = reached(module, edges) & reached(module, back)
        left -= circle
        yield circle


def test_circles_of_files_are_small() -> None:
    large = [
        f"{src.parent.name}: {', '.join(sorted('::'.join(m) or 'lib' for m in circle))}"
        for src in sorted(CRATES.glob("*/src"))
        for circle in circles(graph(src))
        if len(circle) > FILES_MAX
    ]
    assert not large, "\n".join(large)


def test_a_circle_is_found() -> None:
    edges: Graph = {("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("a",)}, ("d",): {("a",)}}
    assert {("a",), ("b",), ("c",)} in list(circles(edges))
    assert list(expanded("a::{b, c::{d, e}}")) == ["a::b", "a::c::d", "a::c::e"]
