"""Whatever is done to a memory, in whatever order: it is whole, and holds what a memory of the turns that are left holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.living import live

EACH = 21
"""Histories of a seed in a soak: 100 seeds make more than 2,000."""


@pytest.mark.timeout(300)
def test_any_history_of_all_verbs_ends_like_a_memory_of_what_remains(soak_seed: int) -> None:
    """Ingest, growth, replacement, deletion, correction, merging, export and import, rebuild, expiry.

    `verify` finds nothing; made anew, or taken out and in, it is the same; with its corrections undone it holds and finds
    what a memory does into which the turns that are left are ingested.
    """
    done = sum(live(soak_seed * EACH + at).done.total() for at in range(3 if soak_seed < 3 else EACH))
    assert done
