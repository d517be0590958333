"""Tests of what was said later of the same thing: its weights, and which statement leads."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memforest import Config, Evidence, MemForest, Ranking
from memforest.models import BGE_SMALL, MINILM
from memforest.models.onnx import OnnxModel
from memforest.read import answer
from memforest.read.answer import LATER, ranked, with_later
from memforest.read.rerank import SearchOutcome, leaf_key, second_look
from memforest.read.stored import Source
from memforest.records import OperatorKind, QuestionPlan, TimeOperator
from memforest.search.succession import STANCES, Reader, open_weights, stances, standing_by

DAY = datetime(2024, 1, 5, 10, tzinfo=timezone.utc)
LIVES, MOVED = "I live in Leeds, near the university.", "York is my home now, got the keys on Friday."
AWAY = "We spent the weekend in Lisbon and ate far too much."


def first(tmp_path: Path, *said: str, question: str = "Where do I live?", **options: Any) -> str:
    """Return the first evidence after some messages of one person, a month apart."""
    with MemForest(tmp_path, Config(embedder="bge")) as forest:
        user = forest.user("robin")
        for month, text in enumerate(said, 1):
            at = f"2024-{month:02}-05T10:00:00+00:00"
            user.add([{"role": "user", "content": text, "timestamp": at}], session_id=f"month-{month}")
        return user.search(question, reference_date="2024-12-01", **options).evidence[0].quote


@pytest.mark.parametrize("model", [MINILM, BGE_SMALL])
def test_each_local_embedder_has_weights(model: OnnxModel) -> None:
    """The weights of each embedder fit its vectors, and tell numbers."""
    reader = open_weights(model.model_id, Reader)
    assert reader is not None
    vectors = np.random.default_rng(0).normal(size=(3, len(reader.said)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shares = stances(vectors, reader.said, reader.stance)
    assert shares.shape == (3, len(STANCES))
    assert np.allclose(shares.sum(1), 1)
    for named in (np.zeros(3, bool), np.ones(3, bool)):
        assert np.isfinite(reader.logits(vectors[0], vectors[1], vectors, named=named)).all()


def test_a_message_without_a_vector_says_nothing() -> None:
    """The logit is then that of the statement alone; else the higher of both."""
    reader = open_weights(BGE_SMALL.model_id, Reader)
    assert reader is not None
    one = np.random.default_rng(0).normal(size=(6, len(reader.said))).astype(np.float32)
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    question, earlier, later, messages = one[0], one[1], one[2:4], one[4:]
    nobody = np.zeros(2, bool)
    alone = reader.logits(*(part.astype(float) for part in (question, earlier, later)), named=nobody)
    silent = reader.of_messages(question, earlier, later, np.zeros_like(messages), named=nobody)
    assert np.allclose(silent, alone)
    assert (reader.of_messages(question, earlier, later, messages, named=nobody) >= alone).all()


@pytest.mark.parametrize("model_id", ["hash-words-1@64", "", "../minilm@1", "minilm-l6-v2-int8@00000000"])
def test_another_embedder_has_none(model_id: str) -> None:
    """An embedder that the package has no weights for gets none, whatever its name."""
    assert open_weights(model_id, Reader) is None


def test_a_change_in_other_words_leads(tmp_path: Path) -> None:
    """A change that no rule reads leads."""
    assert "York" in first(tmp_path, LIVES, MOVED)


def test_it_leads_only_since_it_was_said(tmp_path: Path) -> None:
    """As of a day before the change, it does not."""
    assert "Leeds" in first(tmp_path, LIVES, MOVED, as_of="2024-01-20")


def test_a_visit_changes_nothing(tmp_path: Path) -> None:
    """What only touches the subject does not lead."""
    assert "Leeds" in first(tmp_path, LIVES, AWAY)


def test_a_change_of_somebody_else_changes_nothing(tmp_path: Path) -> None:
    """Nor does what is told of somebody else."""
    assert "Leeds" in first(tmp_path, LIVES, "My brother lives in York now.")


def test_a_sentence_of_two_things_stays_for_the_other(tmp_path: Path) -> None:
    """A move ends nothing of what else was said with the old home."""
    both = "I live in Lugo and bake rye bread on Sundays."
    assert "rye" in first(
        tmp_path, both, "I moved to Porto last week.", question="What do I bake on Sundays?"
    )


def test_it_is_a_part_of_time_order(tmp_path: Path) -> None:
    """Without the order of time nothing is moved."""
    assert "Leeds" in first(tmp_path, LIVES, MOVED, ranking=Ranking(time_order=0))


@pytest.mark.parametrize(
    ("later", "until"),
    [
        ("York is my home now.", " – until 5 February 2024 (see [1])"),
        ("Still in Leeds, it is home to me now.", ""),
        (AWAY, ""),
    ],
)
def test_a_prompt_says_that_it_ended(tmp_path: Path, later: str, until: str) -> None:
    """What a sure successor tells otherwise; saying the same again ends nothing."""
    with MemForest(tmp_path, Config(embedder="bge")) as forest:
        user = forest.user("robin")
        for month, text in enumerate((LIVES, later), 1):
            at = f"2024-{month:02}-05T10:00:00+00:00"
            user.add([{"role": "user", "content": text, "timestamp": at}], session_id=f"month-{month}")
        found = user.search("Where do I live?", reference_date="2024-12-01")
    assert f'5 Jan 2024, robin: "{LIVES}"{until}' in found.context()
    assert found.context().count("until") == bool(until)


NOTHING, CHANGES = (1.0, 0, 0, 0, 0, 0, 0), (0, 0, 1.0, 0, 0, 0, 0)
"""How things stand by what a cross-encoder has read."""


def found(above: float, stands: tuple[float, ...] | None = None, *, moved: str = MOVED) -> SearchOutcome:
    """Return two pieces, the second said later; the first is led with by its timeline."""
    pieces = [
        Evidence(
            text=text,
            quote=text,
            speaker="Robin",
            kind="turn",
            score=1.0 - at,
            scores={},
            said=DAY + timedelta(days=30 * at),
            start=DAY + timedelta(days=30 * at),
            end=None,
            sources=(Source("s", (str(at),)),),
            why="" if at else "current: Leeds",
        )
        for at, text in enumerate((LIVES, moved))
    ]
    first, later = map(leaf_key, pieces)
    return SearchOutcome(
        evidence=pieces,
        trees=[],
        leads={first: 1},
        earlier=first,
        later={later: above},
        stands={} if stands is None else {later: stands},
    )


@pytest.mark.parametrize(
    ("above", "stands", "leads"),
    [
        (0.5, None, True),
        (-0.5, None, False),
        (0.5, NOTHING, False),
        (-0.5, CHANGES, True),
        (-9.0, CHANGES, False),
    ],
)
def test_a_cross_encoder_has_its_say_in_what_was_said_later(
    above: float, stands: tuple[float, ...] | None, leads: bool
) -> None:
    """What the vectors tell is believed less where nothing changes by it; and where it is not, what led before leads still."""
    before = found(above, stands)
    after = with_later(before, "Where does Robin live?")
    assert (after != before) is leads
    if leads:
        later, first = after.evidence
        assert (later.quote, later.why, first.why) == (MOVED, LATER, "")
        assert (first.end, first.ended_by) == (later.start, later.sources)
        assert after.leads == {leaf_key(later): 2}


@pytest.mark.parametrize(
    ("kind", "order"), [("first", ["third", "second", "plain"]), ("since", ["plain", "third", "second"])]
)
def test_what_leads_perhaps_stands_in_the_order_of_time(
    monkeypatch: pytest.MonkeyPatch, kind: OperatorKind, order: list[str]
) -> None:
    """A question for a change believes the timeline more than one for a state does; within it time counts, and not likeness."""
    monkeypatch.setattr(
        answer, "rank_logits", lambda _, some, *rest: (np.array([3.0, 0.0, -1.0])[: len(some)], None)
    )
    monkeypatch.setattr(answer, "relevance_of", lambda logits, _: [0.5] * len(logits))
    (piece, _), leads = found(0.0).evidence, {"plain": 0, "second": 1, "third": 2}
    pieces = [
        replace(
            piece,
            text=name,
            sources=(Source("s", (name,)),),
            why=f"{kind}, perhaps: Leeds" if lead else "",
            perhaps=bool(lead),
            relevance=0.5,
        )
        for name, lead in leads.items()
    ]
    given = SearchOutcome(evidence=pieces, trees=[], leads={leaf_key(one): leads[one.text] for one in pieces})
    done = ranked(given, "Where did Robin live first?", QuestionPlan(operator=TimeOperator(kind)))
    assert [one.text for one in done.evidence] == order


def test_in_a_german_question_only_people_are_names(tmp_path: Path) -> None:
    """Every noun has a capital there."""
    with MemForest(tmp_path, Config(embedder="none")) as forest:
        user = forest.user("Jutta")
        user.add("Am Samstag war Udo mit der Kasse da, und alles lief gut.")
        assert "Kasse" in [one.name for one in user.entities()]
        assert user.search("Wo steht die Kasse von Jutta?").plan.entities == ("Jutta",)
        assert "Kasse" in user.search("Where is the Kasse of Jutta?").plan.entities


def test_saying_the_same_again_ends_nothing() -> None:
    """What says "still in Leeds" leads, and what it repeats has not ended."""
    later, first = with_later(found(1.0, moved="Still in Leeds, near the university."), "Where?").evidence
    assert later.why == LATER
    assert first.end is None


def test_a_change_follows_what_was_said_an_hour_before_or_more() -> None:
    """By the shares of what changes and of what tells how things stand; what is said in one breath follows nothing."""
    hour = 3_600_000
    shares = np.array([(0.1, 0.9, 0, 0, 0, 0, 0), (0.5, 0, 0.5, 0, 0, 0, 0), (0.2, 0, 0, 0.8, 0, 0, 0)])
    standings = standing_by([0, 1, 2 * hour], shares)
    assert standings == [
        (0.0, pytest.approx(0.9 * 0.8)),
        (0.0, pytest.approx(0.5 * 0.8)),
        (pytest.approx(0.9 * 0.8), 0.0),
    ]


@pytest.mark.parametrize("reply", [np.zeros((2, 3)), np.zeros(2), np.full((2, 8), np.nan), "no numbers"])
def test_a_reader_of_states_that_returns_something_else_is_left(reply: Any) -> None:
    """The order stays as it is, and a warning names the model."""

    class Wrong:
        model_id = "wrong-1"

        async def score(self, question: str, texts: Sequence[str]) -> Any:
            return reply

        async def read_states(self, question: str, texts: Sequence[str]) -> Any:
            return reply

    before = found(0.5)
    after, warnings = asyncio.run(second_look(Wrong(), "Where?", before, top=9, tokens=999, weight=1.0))
    assert after is before
    assert len(warnings) == 1
    assert "wrong-1" in warnings[0]
