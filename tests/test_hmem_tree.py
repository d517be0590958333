"""The trees of the index hmem: where events join, in any order of sessions, and what is above them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests import hmems

from memforest import MemForest

START = datetime(2024, 1, 27, 9, tzinfo=timezone.utc)
TALK = (
    "I bought a red bicycle in the market.",
    "My red bicycle has a new bell.",
    "I painted the kitchen green.",
    "The kitchen is green now, and I like it.",
    "We went to Ghent by train.",
    "The train to Ghent was late.",
)


def said(session: int, lines: tuple[str, ...] = TALK) -> list[dict[str, Any]]:
    """Return the turns of a session, some days behind the one before."""
    start = START + timedelta(days=9 * session, hours=session)
    return [
        {
            "role": "user",
            "content": f"{line[:-1]} {session}.",
            "timestamp": (start + timedelta(minutes=at)).isoformat(),
        }
        for at, line in enumerate(lines)
    ]


@pytest.mark.parametrize("linkage", ["member", "mean", "parent"])
def test_events_join_as_the_window_says(tmp_path: Path, linkage: str) -> None:
    with MemForest(tmp_path, hmems.configured({"linkage": linkage})) as forest:
        memory = forest.user("ana")
        for session in (0, 1, 2, 5, 3, 4):
            forest.ingest_session("ana", f"s{session}", said(session))
        found = hmems.sound(memory, tmp_path, linkage=linkage)
        sizes = [sum(level == one for level, _ in found) for one in range(4)]
        assert sizes[0] >= sizes[1] >= sizes[2] >= sizes[3] >= 1
        assert sizes[3] < sizes[0]
