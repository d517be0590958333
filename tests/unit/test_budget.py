"""What the package weighs: the lines and files of its budget, and how they are counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from sizes import budget, code_lines, sizes_of, weights

MODULE = '''"""What this does.

At length.
"""

LIMITS = (
    1,  # the first
    2,
)
"""Below the
field."""


class Kettle:
    # Why it is here.
    def boil(self) -> str:
        """Boil."""

        def inner() -> str:
            return """a text
            of two lines"""

        return inner()
'''


def test_the_package_stays_within_its_budget() -> None:
    """The package has at most as many lines of code, files and classes as ``[tool.memforest.budget]`` allows."""
    found, allowed = weights(), budget()
    over = {name: (found[name], most) for name, most in allowed.items() if found[name] > most}
    assert not over, f"lines are a cost; the budget only goes down: {over} (is, may be)"
    assert allowed.keys() == found.keys()


def test_the_budget_is_no_larger_than_it_was() -> None:
    """Nobody raises the budget: it is at most what it was when it was made."""
    assert budget()["code_lines"] <= 48_750
    assert budget()["files"] <= 216
    assert budget()["classes"] <= 590


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ("# a comment\n\n", 0),
        ('"""A docstring of a module."""\n', 0),
        ("x = 1\n", 1),
        ("x = [\n    1,\n\n    # why\n    2,\n]\n", 4),
        ('x = """one\n\ntwo"""\n', 3),
        ("print(1); print(2)\n", 1),
        (MODULE, 10),
    ],
)
def test_lines_of_code_are_what_runs(source: str, lines: int) -> None:
    """Blank lines, comments, and strings that stand alone are no code; every line of a statement that holds some is."""
    assert code_lines(source) == lines


def test_sizes_are_of_all_modules_below_a_folder(tmp_path: Path) -> None:
    """Files of all folders count, with their classes, and functions inside of classes and functions."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "deep" / "two.py").write_text("async def pour() -> None: ...\n", encoding="utf-8")
    (tmp_path / "data.toml").write_text("x = 1\n", encoding="utf-8")
    found = sizes_of(tmp_path)
    assert (found.files, found.classes, found.functions) == (2, 1, 3)
    assert found.code_lines == code_lines(MODULE) + 1
