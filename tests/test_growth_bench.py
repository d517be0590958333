"""The benchmarks of growth: small runs of each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import file_of

import drift
import file_size


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
