"""How often statements are read rightly: the floors of benchmarks/readings.py, so that a change that misreads more is seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from readings import HALVES, judged, load

FLOOR = {"development": 0.86, "held": 0.83}
"""Shares, four points below what was reached; when the rules were rewritten it was 0.65 and 0.56."""


@pytest.mark.parametrize("half", HALVES)
def test_statements_are_read_rightly(half: str) -> None:
    """The share of values whose stance is read as labelled does not fall."""
    found = [right for *_, right in judged(half)]
    assert len(found) >= 90
    assert sum(found) / len(found) >= FLOOR[half]


def test_halves_share_no_statement() -> None:
    """What was looked at is not what is held back."""
    one, other = ({said.text for said in load(half)} for half in HALVES)
    assert one.isdisjoint(other)
