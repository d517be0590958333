"""The benchmarks of growth: small runs of each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))


import drift
import packing
import scale
import several_indexes
from scaling import asking, growing, ingesting


def run(monkeypatch: pytest.MonkeyPatch, main: object, *args: str) -> None:
    """Run a benchmark with arguments."""
    monkeypatch.setattr(sys, "argv", ["benchmark", *args])
    main()  # type: ignore[operator]


def test_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two memories are built and measured."""
    run(monkeypatch, drift.main, "--turns", "20", "60", "--rounds", "1", "--dir", str(tmp_path))
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| processor, ms | 20 turns | 60 turns | ratio |"
    assert len(table) == 5


def test_what_more_indexes_cost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two memories of the same talk are measured, one with three indexes more, whose trees are there."""
    run(monkeypatch, several_indexes.main, "--turns", "20", "--rounds", "1")
    printed = capsys.readouterr().out.splitlines()
    one, four = (int(number) for number in printed[0].partition("nodes: ")[2].replace(",", "").split(" and "))
    assert four > one
    assert len(printed) == 8


def test_what_a_change_renews(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each packing; where leaves say where nodes end, an insert in the middle renews fewer."""
    assert packing.main(["--leaves", "800", "--fan-out", "8", "--trials", "9"]) == 0
    anchored, paper = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert (anchored[2], paper[2]) == ("anchored", "paper")
    insert = [
        [float(row[at - 1]) for at, word in enumerate(row) if word == "<="][1] for row in (anchored, paper)
    ]
    assert 2 * insert[0] < insert[1]


def test_what_the_segtree_index_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every part is measured: growing of each kind of talk at each size, questions, changes, and writing."""
    sizes = ("--sizes", "60", "120", "--questions", "2", "--sessions", "1", "--dimension", "64")
    run(monkeypatch, scale.main, "--index", "segtree", "--embedder", "hash", "--dir", str(tmp_path), *sizes)
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    named = [line[0].removeprefix("| ") for line in lines]
    assert [named.count(name) for name in growing.INPUTS] == [2, 2, 2]
    nodes = lines[0].index("nodes_a_leaf")
    talk, alone, together = (next(row for row in lines if row[0] == f"| {name}") for name in growing.INPUTS)
    assert 1 < float(talk[nodes]) < 2
    assert float(together[nodes]) != float(alone[nodes])
    assert [name for name in named if name.startswith("ratio: ")] == [
        f"ratio: {name}" for name in asking.NAMES
    ]
    assert {"a session of one message", "a turn less, behind a tenth"} <= set(named)
    assert named[-3:] == [str(one or "without") for one in ingesting.PLACERS]
