"""An index is one folder: nothing outside of it names it, so that another one needs no change elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.table import each

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "memforest"
INDEXES = sorted(path.parent.name for path in (PACKAGE / "systems").glob("*/index.py"))

ALLOWED = {
    "config.py",  # the default of `Config.indexes`
}
"""Files that name an index. None are added."""

NAMES = {"memforest", "flat"}
"""Indexes whose name is no word of the package otherwise; facts are everywhere."""

PACKAGES_NAME = {
    "cli",
    "language",
    "steps",
    "access",
    "intake",
    "mcp",
    "rest",
    "server",
    "ui",
    "chat_steps.py",
    "testing.py",
    "concurrency.py",
    "spans.py",
    "settings.py",
    "tables.py",
    "__init__.py",
}
"""Where the text "memforest" is the package, its command, its threads, or its resources; and "flat" a dwelling."""


@cache
def _sources() -> dict[Path, tuple[list[str], list[str]]]:
    """Return what every module imports, and its texts."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules += [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
        found[path] = modules, list(_told(tree))
    return found


def _told(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module but for its docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def _names(index: str) -> set[str]:
    """Return the files outside of an index's folder that import it, name its tables, or say its name."""
    found = set()
    for path, (modules, texts) in _sources().items():
        if PACKAGE / "systems" / index in path.parents:
            continue
        name = path.relative_to(PACKAGE).as_posix()
        imported = any(f"{module}.".startswith(f"memforest.systems.{index}.") for module in modules)
        tables = any(f"ix_{index}" in text for text in texts)
        said = index in NAMES and index in texts and not {name, name.split("/")[0]} & PACKAGES_NAME
        if imported or tables or said:
            found.add(name)
    return found


@each("index", INDEXES)
def test_nothing_outside_names_an_index(index: str) -> None:
    """The registry finds the folders; files imports, tables and texts of an index are in its folder alone."""
    assert _names(index) - ALLOWED == set()


def test_the_exceptions_are_needed() -> None:
    """What stands in the list of exceptions names an index; when it does no longer, it goes from the list."""
    assert set().union(*map(_names, INDEXES)) >= ALLOWED


def test_the_dummy_index_is_named_nowhere_else() -> None:
    """It is 60 lines in its own folder, and the package has not heard of it."""
    home = Path(__file__).parent / "dummy_index"
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in home.glob("*.py")) <= 60
    word = re.compile(r"\bix_dummy|\bdummy\b", re.IGNORECASE)
    assert [
        path.name for path in PACKAGE.rglob("*.py") if word.search(path.read_text(encoding="utf-8"))
    ] == []
