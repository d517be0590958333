"""Questions about change on hand-made timelines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.hand_made import DAY, Fact, Said, hand_made, searching, state

from memforest.search.snapshot import Snapshot
from memforest.store import migrations
from memforest.store.db import Database
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.memforest.when import Answer, answering_facts, side_of_anchor
from memforest.types import QuestionPlan

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
    migrations.apply(db, EPOCH)
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


@pytest.mark.parametrize(("kind", "better"), [("predecessor", [0, 1]), ("successor", [3, 4])])
def test_events_on_the_asked_side_of_the_anchor(homes: Snapshot, kind: str, better: list[int]) -> None:
    """When no state answers, mentions before (after) the anchor event gain, the nearest most."""
    anchor = np.array([0.0, 0.0, 5.0, 0.0, 0.0])
    bonus = side_of_anchor(homes, searching(asking(kind, anchor="the flood")), anchor)
    others = [i for i in range(5) if i not in better]
    assert bonus[better].min() > bonus[others].max()
    nearest = 1 if kind == "predecessor" else 3
    assert int(np.argmax(bonus)) == nearest


def test_no_anchor_event_no_side(homes: Snapshot) -> None:
    """An event that nothing mentions moves nothing."""
    assert not side_of_anchor(homes, searching(asking("successor", anchor="x")), np.zeros(5)).any()
