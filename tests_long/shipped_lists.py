"""The word lists that the package ships, as they are read by tests that ask what stands in them."""

from __future__ import annotations

import ast
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["folded", "lists_of_source", "lists_of_table", "shipped_lists"]

SOURCE = Path(__file__).parent.parent / "src" / "memforest"
LEAST = 6
"""A collection of fewer words in Python is no list."""


def folded(text: str) -> str:
    """Return words without case, accents, hyphens and punctuation, one space between them."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(char for char in plain if not unicodedata.combining(char))
    return " ".join(re.findall(r"[^\W_]+", letters))


@cache
def shipped_lists() -> dict[str, frozenset[str]]:
    """Return the folded entries of every list by its place: those of data files, and those written in Python."""
    found: dict[str, frozenset[str]] = {}
    for path in sorted((SOURCE / "data").rglob("*.toml")):
        with path.open("rb") as file:
            for name, entries in lists_of_table(tomllib.load(file)):
                found[f"{path.relative_to(SOURCE).as_posix()}: {name}"] = entries
    for path in sorted(SOURCE.rglob("*.py")):
        for line, entries in lists_of_source(path.read_text(encoding="utf-8")):
            found[f"{path.relative_to(SOURCE).as_posix()}:{line}"] = entries
    return found


def lists_of_table(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the lists of a TOML table by name: arrays, strings of words, and a table's own keys."""
    keys: set[str] = set()
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from lists_of_table(value, f"{name}.")
        else:
            yield name, _entries(_strings(value))
        keys |= _entries([key])
    yield f"{before}*", frozenset(keys)


def _strings(value: Any) -> list[str]:
    """Return the strings of a value, however deep."""
    if isinstance(value, Mapping):
        return [*value, *_strings(list(value.values()))]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return [value] if isinstance(value, str) else []


def lists_of_source(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the line and the entries of every literal collection of strings, and string that is split, in Python."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr) and len(texts := _texts(node)) >= LEAST:
            yield node.lineno, _entries(texts)


def _texts(node: ast.expr) -> list[str]:
    """Return the strings of a literal collection, or the words of a literal string that is split."""
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        return _constants(node.elts)
    if isinstance(node, ast.Dict):
        return _constants([*node.keys, *node.values])
    if isinstance(node, ast.Attribute) and node.attr == "split":
        return [word for text in _constants([node.value]) for word in text.split()]
    return []


def _constants(nodes: Sequence[ast.expr | None]) -> list[str]:
    return [one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _entries(texts: list[str]) -> frozenset[str]:
    """Return what a list holds: its strings, the alternatives of its regular expressions, and the words of both."""
    found = set()
    for text in texts:
        for piece in (text, *re.split(r"\\[a-zA-Z]|[|()\[\]{}?*+.^$<>:=!]", text)):
            found |= {folded(piece), *map(folded, piece.split())}
    return frozenset(found - {""})
