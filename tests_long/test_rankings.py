"""Rankings, answers and row counts of two LoCoMo conversations stay as they were when last measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import rankings

FILE = rankings.locomo()
FIRST = rankings.conversations(FILE) if FILE else []


@pytest.mark.skipif(FILE is None, reason="MEMFOREST_LOCOMO names no file of LoCoMo, which is not shipped")
@pytest.mark.parametrize("embedder", rankings.EMBEDDERS)
@pytest.mark.parametrize("at", range(rankings.CONVERSATIONS))
def test_rankings_answers_and_rows_are_as_before(at: int, embedder: str, tmp_path: Path) -> None:
    """The first conversation is ingested session by session, the second at once.

    The digests are written by ``python tests/rankings.py FILE tests_long/data/rankings.json``. Whoever changes a ranking on
    purpose measures it (`memforest eval`) and writes them again.
    """
    golden = json.loads(rankings.GOLDENS.read_text(encoding="utf-8"))[f"{at} {embedder}"]
    now = rankings.measured(FIRST[at], embedder, tmp_path, together=at > 0)
    assert now.pop("rows") == golden.pop("rows")
    for name, digests in golden.items():
        pairs = zip(FIRST[at].questions, digests.split(), now[name].split(), strict=True)
        assert [question.text for question, old, new in pairs if old != new] == [], name
