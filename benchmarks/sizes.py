"""How large the package is: files, lines of code, classes, functions; and its budget.

    python benchmarks/sizes.py [DIRECTORY ...]     # default: the package, and its tests

A line of code holds something that Python runs: no blank line, no comment, and no line of a string that stands alone as a
statement (a docstring, or the description below a field). A statement of three lines is three lines; methods and
functions inside of functions are functions; lambdas are not. Files are those that end in ``.py``.

``[tool.memforest.budget]`` of ``pyproject.toml`` says how large the package may be (`tests/test_budget.py`).
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PACKAGE", "ROOT", "Sizes", "budget", "code_lines", "sizes_of", "weights"]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "memforest"

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of what stands below a folder."""

    code_lines: int
    files: int
    classes: int
    functions: int


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    return len(_lines_of_code(source, ast.parse(source)))


def sizes_of(folder: Path) -> Sizes:
    """Return the sizes of all modules below a folder.

    Raises:
        SyntaxError: if one of them is not Python.
    """
    lines = files = classes = functions = 0
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
        nodes = list(ast.walk(tree))
        files += 1
        lines += len(_lines_of_code(source, tree))
        classes += sum(isinstance(node, ast.ClassDef) for node in nodes)
        functions += sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
    return Sizes(lines, files, classes, functions)


ROOMS = ("evaluation", "importers", "integrations")
"""Rooms with a budget of their own: a line more for a format, a framework or a benchmark is none for the house."""


def weights() -> Mapping[str, int]:
    """Return what the budget bounds: lines of code of each of `ROOMS`, and lines, files and classes of the house, which is all else."""
    package, rooms = sizes_of(PACKAGE), {name: sizes_of(PACKAGE / name) for name in ROOMS}
    house = {
        part: getattr(package, part) - sum(getattr(one, part) for one in rooms.values())
        for part in ("code_lines", "files", "classes")
    }
    return {**house, **{name: one.code_lines for name, one in rooms.items()}}


def budget() -> Mapping[str, int]:
    """Return what the package may weigh, as ``pyproject.toml`` says, by the names of `weights`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: Mapping[str, int] = project["tool"]["memforest"]["budget"]
    return found


def _lines_of_code(source: str, tree: ast.Module) -> set[int]:
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    return held - set(_lines_of_strings(tree))


def _lines_of_strings(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of strings that stand alone as a statement."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def main(arguments: list[str]) -> int:
    """Print the sizes of folders; return the exit code."""
    folders = [Path(one) for one in arguments] or [PACKAGE, ROOT / "tests"]
    print(f"{'':40}{'code lines':>12}{'files':>8}{'classes':>9}{'functions':>11}")
    for folder in folders:
        found = sizes_of(folder)
        print(
            f"{folder.name:40}{found.code_lines:>12,}{found.files:>8,}{found.classes:>9,}{found.functions:>11,}"
        )
    allowed = budget()
    for name, weight in weights().items():
        print(f"{'budget of ' + name:40}{allowed[name]:>12,}, is {weight:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
