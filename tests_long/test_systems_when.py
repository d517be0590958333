"""Questions about change on hand-made timelines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DAY, Fact, Said, hand_made, searching, state

from memforest.records import QuestionPlan
from memforest.search.change import Answer, answering_facts
from memforest.search.filters import Search
from memforest.search.snapshot import Snapshot
from memforest.store.connections import Tx
from memforest.store.database import Database, ensure_schema

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def homes() -> Snapshot:
    """Ana lived in Davis (day 10, again said on 20), Miami (30), Oslo (60), and in Davis again (90)."""
    days = (10, 20, 30, 60, 90)
    turns = [Said("Ana", day, session=day) for day in days]
    values = ("Davis", "Davis", "Miami", "Oslo", "Davis")
    return hand_made(
        turns,
        [Fact((i,)) for i in range(5)],
        states=[state(i, value, day) for i, (value, day) in enumerate(zip(values, days, strict=True))],
        mentions=[(i, 1) for i in range(5)],
    )


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    """A read transaction on an empty memory: the states of the snapshot are all there is to go by."""
    db = Database(tmp_path_factory.mktemp("when") / "m.db")
    ensure_schema(db)
    with db.read() as opened:
        yield opened
    db.close()


def answer(tx: Tx, homes: Snapshot, request: Search) -> Answer:
    """Return what time order answers, with facts that are all equally near the question."""
    return answering_facts(tx, homes, request, np.zeros(len(homes.facts.ids)))


def asking(kind: str, **plan: object) -> QuestionPlan:
    """Return a plan about Ana's home."""
    return QuestionPlan(kind=kind, entities=("Ana",), attribute="home", **plan)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "facts"),
    [
        (asking("current"), [4]),
        (asking("as_of", as_of=EPOCH + timedelta(days=45)), [2]),
        (asking("as_of", as_of=EPOCH + timedelta(days=5)), []),
        (asking("predecessor", anchor="Miami"), [0, 1]),
        (asking("predecessor"), [3]),  # before the present one
        (asking("predecessor", anchor="Davis"), [3]),  # the latest Davis is meant
        (asking("successor", anchor="moving to Miami"), [3]),
        (asking("successor", anchor="Atlantis"), []),
        (asking("first"), [0, 1]),
        (asking("last"), [4]),
        (asking("since", anchor="Oslo"), [3]),
        (asking("changed_back"), [4]),
        (asking("changed_back", anchor="Davis"), [4]),
        (asking("simple"), []),
        (asking("list"), []),
    ],
)
def test_the_segment_that_answers(tx: Tx, homes: Snapshot, plan: QuestionPlan, facts: list[int]) -> None:
    """Each kind of question reads its own segment of the timeline, oldest fact first."""
    assert list(answer(tx, homes, searching(plan)).facts) == facts


def test_the_reason_names_the_value(tx: Tx, homes: Snapshot) -> None:
    """Evidence that time order put first says why."""
    found = answer(tx, homes, searching(asking("predecessor", anchor="Miami")))
    assert found.why == "predecessor of home: Davis"


def test_an_instant_given_as_an_option_goes_before_now(tx: Tx, homes: Snapshot) -> None:
    """`as_of=` asks what was current then."""
    request = replace(searching(asking("current")), as_of_ms=70 * DAY)
    assert answer(tx, homes, request).facts == (3,)


def test_an_anchor_tells_the_attribute(tx: Tx, homes: Snapshot) -> None:
    """Without an attribute, the one that has the anchor's value is asked about."""
    plan = QuestionPlan(kind="successor", entities=("Ana",), anchor="Oslo")
    assert answer(tx, homes, searching(plan)).facts == (4,)


@pytest.mark.parametrize(
    "plan", [replace(asking("current"), entities=("Bob",)), replace(asking("current"), attribute="job")]
)
def test_what_is_not_known_has_no_answer(tx: Tx, homes: Snapshot, plan: QuestionPlan) -> None:
    """Another person or attribute gives nothing, rather than somebody else's state."""
    assert answer(tx, homes, searching(plan)) == Answer()


CITIES = ("Davis", "Miami", "Oslo", "Lima")
told = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(CITIES)), min_size=1, max_size=8)
"""Days between two tellings, and where Ana lives then."""


def segments(heard: Sequence[tuple[int, str]]) -> list[tuple[str, int, list[int]]]:
    """Return value, first day and rows of each stretch of one value."""
    found: list[tuple[str, int, list[int]]] = []
    day = 0
    for row, (gap, value) in enumerate(heard):
        day += gap
        if found and found[-1][0] == value:
            found[-1][2].append(row)
        else:
            found.append((value, day, [row]))
    return found


def lived(heard: Sequence[tuple[int, str]]) -> Snapshot:
    """Return a memory in which Ana tells where she lives."""
    days = list(accumulate(gap for gap, _ in heard))
    return hand_made(
        [Said("Ana", day, session=day) for day in days],
        [Fact((row,)) for row in range(len(heard))],
        states=[
            state(row, value, day) for row, (day, (_, value)) in enumerate(zip(days, heard, strict=True))
        ],
        mentions=[(row, 1) for row in range(len(heard))],
    )


def wanted(kind: str, anchor: str | None, stretches: list[tuple[str, int, list[int]]], day: int) -> list[int]:
    """Return the rows that answer a question asked on a day."""
    begun = [at for at, (_, start, _) in enumerate(stretches) if start <= day]
    now = begun[-1] if begun else None
    named = [at for at, (value, _, _) in enumerate(stretches) if value == anchor]
    pivot = now if anchor is None else (named[-1] if named else None)
    again = [at for at, (value, _, _) in enumerate(stretches) if value in {v for v, _, _ in stretches[:at]}]
    if anchor is not None:
        again = [at for at in again if stretches[at][0] == anchor] or named[-1:]
    before = None if not pivot else pivot - 1
    after = None if pivot is None or pivot + 1 == len(stretches) else pivot + 1
    found = {
        "current": now, "as_of": now, "last": now, "first": 0, "since": pivot, "predecessor": before,
        "successor": after, "changed_back": again[-1] if again else None,
    }[kind]  # fmt: skip
    return [] if found is None else stretches[found][2]


@settings(max_examples=80)
@given(
    heard=told,
    kind=st.sampled_from(
        ["current", "as_of", "last", "first", "since", "predecessor", "successor", "changed_back"]
    ),
    anchor=st.one_of(st.none(), st.sampled_from(CITIES)),
    day=st.integers(0, 60),
)
def test_any_history_is_read_by_its_stretches(
    tx: Tx, heard: list[tuple[int, str]], kind: str, anchor: str | None, day: int
) -> None:
    """Now is the stretch of the day of asking; before and behind are the ones beside the latest of the value named."""
    plan = asking(kind, **({} if anchor is None else {"anchor": anchor}))
    request = replace(searching(plan), reference_ms=day * DAY)
    assert list(answer(tx, lived(heard), request).facts) == wanted(kind, anchor, segments(heard), day)
