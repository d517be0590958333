"""The benchmark in which several processes advance one memory at once, in small."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from served import together


@pytest.mark.timeout(120)
def test_processes_write_what_one_alone_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left; what both make at once both pay, one alone pays nothing twice."""
    monkeypatch.setattr(together, "SESSIONS", 6)
    assert together.advance_together(2, 3)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[0][1] == rows[1][1] != "0"
    assert rows[0][2] == "0"
    assert {row[4] for row in rows} == {row[5] for row in rows} == {"0"}
