"""What was said in stretches: relevance that flows from a stretch of a session, or of what one speaker told, to all in it.

It needs no stored trees: sessions are cut into stretches of 6 and 18 turns, what each speaker told into stretches of 8, 64 and
512 statements in the order of time. A stretch is as relevant as its best piece, and hands that down, level by level, as the
trees of the index `memforest` do (step 7 of docs/ranking.md); other lengths, and stretches of equal length, were as good.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import Levels, Scores
from memforest.search.snapshot import Snapshot, once_per_snapshot
from memforest.systems.base import Search
from memforest.systems.places import fact_places
from memforest.systems.speak import told_by

Ints = NDArray[np.int64]

OF_SESSIONS = (6, 18)
"""Turns of the stretches of a session, below the session itself."""
OF_SPEAKERS = (8, 64, 512)
"""Statements of the stretches of what a speaker told."""


class _Stretches(NamedTuple):
    sessions: Levels
    """Turns by the stretches of their session, and the session."""
    speakers: Levels | None
    """What turns support, support by support, by the stretches of who told it; None without statements."""


def along_stretches(snapshot: Snapshot, request: Search, values: Scores) -> dict[str, Scores]:
    """Return what every turn gets from the stretches that it is in, by part: ``"session_stretch"``, ``"speaker_stretch"``.

    Args:
        snapshot: of the memory, which is not empty.
        request: the question; its ranking has the weights, those of sessions' and participants' trees.
        values: how relevant every turn is by itself, shape (n,).
    """
    found, weights, told = _stretches(snapshot), request.ranking, told_by(snapshot)
    share = weights.session_tree_of_lists if request.plan.kind == "list" else weights.session_tree
    parts = {}
    if share:
        parts["session_stretch"] = found.sessions.flow(values) * (share / len(found.sessions.groups))
    if weights.participant_tree and found.speakers is not None:
        down = found.speakers.flow(values[told.turn_of]) * (
            weights.participant_tree / len(found.speakers.groups)
        )
        out = np.zeros(len(values))
        out[told.turns] = told.groups.best(down)
        parts["speaker_stretch"] = out
    return parts


@once_per_snapshot
def _stretches(snapshot: Snapshot) -> _Stretches:
    turns, told = snapshot.turns, told_by(snapshot)
    rows = np.arange(len(turns.ids))
    sessions = np.array([_blocks(turns.session, rows, size) for size in (*OF_SESSIONS, 0)])
    if not len(told.facts):
        return _Stretches(Levels.of(sessions), None)
    places = fact_places(snapshot)
    speakers = np.array([_blocks(snapshot.facts.speaker, places, size) for size in OF_SPEAKERS])
    return _Stretches(Levels.of(sessions), Levels.of(speakers[:, told.facts]))


def _blocks(owner: Ints, places: Ints, size: int) -> Ints:
    """Return the number of the stretch of each row: so many rows of one owner in the order of places; all of them with 0."""
    ordered = np.lexsort((places, owner))
    starts = np.flatnonzero(np.diff(owner[ordered], prepend=-2))
    counts = np.diff(starts, append=len(ordered))
    within = np.arange(len(ordered)) - np.repeat(starts, counts)
    begins = within % size == 0 if size else within == 0
    out = np.empty(len(ordered), dtype=np.int64)
    out[ordered] = np.cumsum(begins) - 1
    return out
