"""The benchmarks of growth: small runs of each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import file_of

import drift
import file_size
import scale
import scene_routing
import segment_tree
import several_indexes
from scaling import asking, ingesting, placing


def run(monkeypatch: pytest.MonkeyPatch, main: object, *args: str) -> None:
    """Run a benchmark with arguments."""
    monkeypatch.setattr(sys, "argv", ["benchmark", *args])
    main()  # type: ignore[operator]


def test_drift_and_file_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two memories are built and measured; the parts of a file add up to it, by pages and by an estimate."""
    run(monkeypatch, drift.main, "--turns", "20", "60", "--rounds", "1", "--dir", str(tmp_path))
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| processor, ms | 20 turns | 60 turns | ratio |"
    assert len(table) == 5
    path = file_of(tmp_path / "60")
    run(monkeypatch, file_size.main, str(path))
    printed = capsys.readouterr().out
    assert "| vectors |" in printed
    if "no dbstat" not in printed:
        sizes = [int(line.split("|")[2].replace(",", "")) for line in printed.splitlines()[4:]]
        assert sum(sizes) == path.stat().st_size
    monkeypatch.setattr(file_size, "by_pages", file_size.by_values)
    run(monkeypatch, file_size.main, str(path))
    assert "| turns |" in capsys.readouterr().out


def test_what_more_indexes_cost(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two memories of the same talk are measured, one with three indexes more, whose trees are there."""
    run(monkeypatch, several_indexes.main, "--turns", "20", "--rounds", "1")
    printed = capsys.readouterr().out.splitlines()
    one, four = (int(number) for number in printed[0].partition("nodes: ")[2].replace(",", "").split(" and "))
    assert four > one
    assert len(printed) == 8


def test_what_routing_to_scenes_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each size, with scenes that were found."""
    assert scene_routing.main(["--sizes", "30", "60"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[1:]] == ["30", "60"]
    assert all(float(line.split()[1]) >= 1 for line in printed[1:])


def test_segment_tree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each kind of decisions and each size, of trees that the benchmark itself has checked."""
    run(monkeypatch, segment_tree.main, "--sizes", "100", "300", "--rounds", "1")
    lines = capsys.readouterr().out.splitlines()[3:]
    assert [line.split(" | ")[:2] for line in lines] == [
        [f"| {name}", size] for name in segment_tree.DECISIONS for size in ("100", "300")
    ]


def test_what_the_segtree_index_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every part is measured: placing of each kind of talk at each size, questions, changes, and writing."""
    sizes = ("--sizes", "60", "120", "--questions", "2", "--sessions", "1", "--dimension", "64")
    run(monkeypatch, scale.main, "--index", "segtree", "--embedder", "hash", "--dir", str(tmp_path), *sizes)
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    named = [line[0].removeprefix("| ") for line in lines]
    assert [named.count(name) for name in placing.INPUTS] == [2, 2, 2]
    first = next(row for row in lines if row[0] == "| talk")
    columns = lines[0]
    assert float(first[columns.index("nodes_a_leaf")]) < 2
    assert float(first[columns.index("over_path")]) == 0
    assert [name for name in named if name.startswith("ratio: ")] == [
        f"ratio: {name}" for name in asking.NAMES
    ]
    assert {"a session of one message", "a turn less, behind a tenth"} <= set(named)
    assert named[-3:] == [str(one or "without") for one in ingesting.PLACERS]
