"""The turns of the sessions or days that a question asks for as a whole: "What did we talk about last week?".

Such a question shares no words with its answer, so similarity has no say: what stands in front was said (or, of a
question about what happened, tells of) the time that is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memforest.ranking import group_place, standardise
from memforest.search.snapshot import Snapshot
from memforest.systems.base import Search
from memforest.systems.filters import Allowed
from memforest.systems.nearness import nearness, said_within
from memforest.systems.speak import told_by

_Rows = NDArray[np.int64]


class AskedFor(NamedTuple):
    """Rows of turns, those to show first in front, and why they are there."""

    turns: _Rows
    why: str = ""


_NONE = AskedFor(np.zeros(0, dtype=np.int64))


def asked_for(snapshot: Snapshot, request: Search, keep: Allowed) -> AskedFor:
    """Return the turns of the time that a question of the kind ``sessions`` or ``events`` asks for, else none.

    Sessions take turns: of each its most telling turn comes first, then of each its second, in time order.
    """
    plan = request.plan
    dated = plan.start is not None or plan.end is not None
    if plan.kind == "events" and dated:
        rows, why = np.flatnonzero(keep.turns & (nearness(snapshot, plan) == 1.0)), "of the time asked about"
    elif plan.kind == "sessions" and (dated or plan.operator is not None):
        rows, why = _of_sessions(snapshot, request, keep)
    else:
        return _NONE
    return AskedFor(_most_telling(snapshot, request, rows), why) if len(rows) else _NONE


def _of_sessions(snapshot: Snapshot, request: Search, keep: Allowed) -> tuple[_Rows, str]:
    """Return the turns said in the window, of the first or last session of it where the question says which."""
    plan, turns = request.plan, snapshot.turns
    inside = keep.turns & said_within(snapshot, plan) & (turns.said_ms <= request.reference_ms)
    inside &= _with_all_named(snapshot, request, inside)
    rows = np.flatnonzero(inside)
    if plan.operator is None or not len(rows):
        return rows, "said in the time asked about"
    first = plan.operator.kind == "first"
    said = turns.said_ms[rows]
    end = rows[np.argmin(said) if first else len(said) - 1 - np.argmax(said[::-1])]
    return rows[turns.session[rows] == turns.session[end]], f"said in the {plan.operator.kind} session"


def _with_all_named(snapshot: Snapshot, request: Search, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which turns are of sessions in which every named participant speaks; all, if there is no such session."""
    turns, found = snapshot.turns, inside.copy()
    for number, name in enumerate(snapshot.speakers):
        if name in request.plan.entities:
            found &= np.isin(turns.session, turns.session[inside & (turns.speaker == number)])
    return found if found.any() else inside


def _most_telling(snapshot: Snapshot, request: Search, rows: _Rows) -> _Rows:
    """Return turns by their place in their session, the most telling first, and then in time order.

    Telling are long turns, those that support a fact, those of the participant who is named, and no questions.
    """
    turns = snapshot.turns
    facts = np.zeros(len(turns.ids), dtype=np.bool_)
    facts[told_by(snapshot).turns] = True
    named = [i for i, name in enumerate(snapshot.speakers) if name in request.plan.entities]
    telling = (
        standardise(np.log1p(turns.length[rows].astype(np.float64))) + facts[rows] - turns.asks_last[rows]
    )
    if len(named) == 1:
        telling = telling + 2.0 * (turns.speaker[rows] == named[0])
    ranked = rows[np.argsort(-telling, kind="stable")]
    place = group_place(ranked, turns.session)
    return ranked[np.lexsort((ranked, turns.said_ms[ranked], place))]
