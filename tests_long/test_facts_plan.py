"""The plan of a write's facts against brute force; verdicts of a judge; and the short forms of names."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.table import each

from memforest.models import MINILM
from memforest.reading.canonical import (
    JUDGE_BELOW,
    UNMEASURED,
    FactPlan,
    PlacedFact,
    Same,
    fact_identity,
    is_short_form,
    judge_threshold,
    may_merge,
    merge_threshold,
    plan_facts,
    signature,
    speaker_key,
    tie_end,
)
from memforest.records import ExtractedFact, Mention

NOON = datetime(2023, 5, 7, 12, tzinfo=timezone.utc)
NOON_MS = 1_683_460_800_000
TEXTS = ("Ann left.", "Ann really left!", "ann LEFT", "Bob left.", "Bob really left.", "Ann stayed.")


def said(text: str, hours: int = 0, place: int = 0, **more: object) -> PlacedFact:
    """Return a statement, said so many hours after noon at a place of its session."""
    candidate = ExtractedFact(text, (0,), "Ann", text, **more)  # type: ignore[arg-type]
    return PlacedFact(candidate, 1, (1,), NOON_MS + hours * 3_600_000, f"s\x1f{place:06d}")


def unit(*parts: float) -> NDArray[np.float32]:
    """Return a unit vector in the direction of some numbers."""
    row = np.array(parts, dtype=np.float32)
    return np.asarray(row / np.linalg.norm(row), dtype=np.float32)


def plan(lot: list[PlacedFact], **more: object) -> list[FactPlan]:
    """Return the plan, without a threshold or stored facts where none are given."""
    return plan_facts(lot, **{"stored_ids": {}, "vectors": {}, "threshold": None, **more})  # type: ignore[arg-type]


@given(st.text(max_size=30), st.text(max_size=30))
def test_two_texts_have_one_identity_if_they_fold_alike(one: str, other: str) -> None:
    """No text can forge the identity of another one with a stated time."""
    assert fact_identity(one, None, None) == fact_identity(f" {one}\n", None, None)
    assert fact_identity(f"{one}\0{NOON_MS}\0", None, None) != fact_identity(one, NOON, None)
    if (
        "".join(one.split()).casefold() != "".join(other.split()).casefold()
        and one.isascii()
        and other.isascii()
    ):
        assert fact_identity(one, None, None) != fact_identity(other, None, None)


def test_the_times_of_a_statement_are_in_milliseconds() -> None:
    """Of the stated time, not of when it was said; a zone is no difference."""
    one = said("Ann left.", start=NOON, end=NOON + timedelta(days=1))
    assert (one.start_ms, one.end_ms) == (NOON_MS, NOON_MS + 86_400_000)
    assert (said("Ann left.").start_ms, said("Ann left.").end_ms) == (None, None)
    assert one.fact_id == said("Ann left.", 5, 2, start=NOON, end=one.candidate.end).fact_id
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    assert fact_identity("x", elsewhere, None) == fact_identity("x", NOON, None)
    assert one.tie == one.place + tie_end(one.fact_id)
    assert len(tie_end(one.fact_id)) == 9
    assert tie_end(said("Bob left.").fact_id) != tie_end(one.fact_id)


def test_a_signature_is_of_all_that_decides() -> None:
    """A digest differs with wording, polarity and times; who is mentioned is compared, and not part of it."""
    base = ExtractedFact("Ann met Bob.", (0,), "Ann", "", start=NOON, end=NOON + timedelta(days=1))
    others = [
        replace(base, text="Ann met Bob?"),
        replace(base, text="Ann met Eve."),
        replace(base, negated=True),
        replace(base, start=NOON - timedelta(days=1)),
        replace(base, end=NOON + timedelta(days=2)),
        replace(base, start=None, end=None),
    ]
    digests = {signature(one).digest for one in [base, *others]}
    assert len(digests) == 7
    assert {len(digest) for digest in digests} == {8}
    mentioned = replace(base, mentions=(Mention("Ann", "person", "subject"), Mention("—")))
    assert signature(mentioned).digest == signature(base).digest
    assert signature(mentioned).parts == {("ann", "subject")}
    assert not may_merge(signature(mentioned), signature(base))


ROLES = st.lists(
    st.builds(Mention, st.sampled_from(["Ann", "Bob"]), st.just("person"), st.sampled_from(["subject", "object", "other"])),
    max_size=3,
)  # fmt: skip


@given(ROLES, ROLES)
def test_roles_that_are_known_agree(one: list[Mention], other: list[Mention]) -> None:
    """Both name the same people, and of each that has a known role in both, the same roles."""
    a, b = (signature(ExtractedFact("x", (0,), "Ann", "", mentions=tuple(lot))) for lot in (one, other))

    def roles(lot: list[Mention], name: str) -> set[str]:
        return {str(mention.role) for mention in lot if mention.name == name} - {"other"}

    same = {mention.name for mention in one} == {mention.name for mention in other}
    agree = all(
        roles(one, name) == roles(other, name)
        for name in ("Ann", "Bob")
        if roles(one, name) and roles(other, name)
    )
    assert may_merge(a, b) == may_merge(b, a) == (same and agree)


DRAWN = st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 5)), min_size=1, max_size=10)


@settings(max_examples=60)
@given(DRAWN, st.sampled_from([0.5, 0.9, 0.999, None]), st.integers(0, 99))
def test_near_merges_are_those_of_a_walk_in_time(
    drawn: list[tuple[str, int]], least: float | None, seed: int
) -> None:
    """Said in time order, each statement joins the nearest fact that is new, may merge and is near enough, or is new."""
    lot = [said(text, hours, place) for place, (text, hours) in enumerate(drawn)]
    random_ = np.random.default_rng(seed)
    vectors = {text: unit(1, *random_.normal(0, 0.3, 3)) for text in sorted({one.fact_id for one in lot})}
    facts: dict[str, list[PlacedFact]] = {}
    joined: dict[str, str] = {}
    for one in sorted(lot, key=lambda s: (s.said_ms, s.tie)):
        own = joined.get(one.fact_id, one.fact_id)
        if own not in facts and least is not None:
            near = [
                (float(vectors[other] @ vectors[one.fact_id]), other)
                for other, of in facts.items()
                if may_merge(signature(of[0].candidate), signature(one.candidate))
            ]
            if near and max(near)[0] >= least:
                own = joined[one.fact_id] = max(near)[1]
        facts.setdefault(own, []).append(one)
    found = plan(lot, vectors=vectors, threshold=least)
    assert {one.fact_id: one.said for one in found} == facts
    assert {key: one.fact_id for one in found for key in one.cosines} == joined
    assert [one.fact_id for one in found] == sorted(facts)
    assert all(one.candidate == one.said[0].candidate for one in found if not one.cosines)


@given(DRAWN)
def test_every_occurrence_is_kept_in_time_order(drawn: list[tuple[str, int]]) -> None:
    """Whatever merges: none is lost or doubled, and each fact is told by what was said first of it."""
    lot = [said(text, hours, place) for place, (text, hours) in enumerate(drawn)]
    vectors = {one.fact_id: unit(1, 0) for one in lot}
    found = plan(lot, vectors=vectors, threshold=0.9)
    assert sorted((s.said_ms, s.tie) for one in found for s in one.said) == sorted(
        (s.said_ms, s.tie) for s in lot
    )
    for one in found:
        assert all((a.said_ms, a.tie) <= (b.said_ms, b.tie) for a, b in pairwise(one.said))


def test_the_threshold_itself_is_near_enough() -> None:
    """A cosine equal to it merges, the next smaller number does not; with stored facts and with new ones."""
    one, other = said("Ann left."), said("Ann really left.", 1)
    vectors = {one.fact_id: unit(1, 0), other.fact_id: unit(3, 4)}
    cosine = float(vectors[one.fact_id] @ vectors[other.fact_id])
    above = float(np.nextafter(cosine, 1))
    assert [len(plan([one, other], vectors=vectors, threshold=least)) for least in (cosine, above)] == [1, 2]
    stored = [(7, signature(one.candidate), vectors[one.fact_id])]
    joins = [
        plan([other], vectors=vectors, stored=stored, threshold=least)[0].joins for least in (cosine, above)
    ]
    assert joins == [7, None]


def test_one_that_joined_a_stored_fact_draws_no_other() -> None:
    """A chain of likenesses does not grow: what is near a merged statement only is a fact of its own."""
    first, second = said("Ann left."), said("Ann really left.", 1)
    vectors = {first.fact_id: unit(1, 0.45), second.fact_id: unit(1, 0.9)}
    stored = [(7, signature(first.candidate), unit(1, 0))]
    found = {
        one.fact_id: one.joins for one in plan([first, second], vectors=vectors, stored=stored, threshold=0.9)
    }
    assert found == {first.fact_id: 7, second.fact_id: None}


def test_a_verdict_joins_what_no_wording_would() -> None:
    """A stored fact, or an earlier statement of the same write; the cosine is told, and occurrences stand in order."""
    cat, pet, dog = said("Ann has a cat.", 2), said("Ann owns a cat.", 3), said("Ann has a dog.", 1)
    verdicts = {pet.fact_id: Same(cat.fact_id, 0.8)}
    (one, two) = sorted(plan([pet, dog, cat], same=verdicts), key=lambda p: p.said[0].said_ms)
    assert (one.said, two.said, two.cosines) == ([dog], [cat, pet], {pet.fact_id: 0.8})
    (joined,) = plan([pet], same=verdicts, stored_ids={cat.fact_id: 9})
    assert (joined.joins, joined.cosines) == (9, {pet.fact_id: 0.8})


def test_verdicts_are_followed_to_the_first() -> None:
    """The third that equals the second that equals the first is an occurrence of the first; so in any order given."""
    lot = [said(f"Ann has {n} cats.", n) for n in (2, 3, 4)]
    ids = [one.fact_id for one in lot]
    verdicts = {ids[1]: Same(ids[0], 0.9), ids[2]: Same(ids[1], 0.7)}
    for seed in range(4):
        (found,) = plan(random.Random(seed).sample(lot, 3), same=verdicts)
        assert (found.fact_id, found.said) == (ids[0], lot)
        assert found.cosines == {ids[1]: 0.9, ids[2]: 0.7}


def test_what_a_judge_joined_goes_along_when_its_fact_is_near_another() -> None:
    """The third that equals the second, which is worded as the first: one fact, with the likeness of both."""
    lot = [said("Ann left."), said("Ann really left.", 1), said("Ann went away.", 2)]
    vectors = {one.fact_id: unit(1, 0) for one in lot[:2]}
    verdicts = {lot[2].fact_id: Same(lot[1].fact_id, 0.8)}
    (found,) = plan(lot, vectors=vectors, threshold=0.9, same=verdicts)
    assert found.said == lot
    assert found.cosines == {lot[1].fact_id: pytest.approx(1), lot[2].fact_id: 0.8}


def test_a_fact_is_as_old_as_what_a_judge_joined_to_it() -> None:
    """What it was said first by counts when near statements join the first: the later wording gives way."""
    early, mid, late = said("Ann went away."), said("Ann really left.", 1), said("Ann left.", 2)
    vectors = {mid.fact_id: unit(1, 0), late.fact_id: unit(1, 0)}
    (found,) = plan(
        [mid, late, early], vectors=vectors, threshold=0.9, same={early.fact_id: Same(late.fact_id, 0.8)}
    )
    assert (found.fact_id, found.said) == (late.fact_id, [early, mid, late])


def test_a_verdict_about_nothing_or_against_a_stored_fact_is_passed_over() -> None:
    """Of what was deleted meanwhile, of itself, and of a statement that has become a stored fact in the meantime."""
    cat, pet = said("Ann has a cat."), said("Ann owns a cat.", 1)
    for verdicts in ({pet.fact_id: Same("f1:gone", 0.9)}, {pet.fact_id: Same(pet.fact_id, 1.0)}):
        found = plan([cat, pet], same=verdicts)
        assert [(one.joins, one.cosines) for one in found] == [(None, {})] * 2
    found = plan([cat, pet], same={pet.fact_id: Same(cat.fact_id, 0.9)}, stored_ids={pet.fact_id: 4})
    assert sorted(str(one.joins) for one in found) == ["4", "None"]


@each(
    ("short", "full", "is_one"),
    [
        ("mel", "melanie", True),
        ("me", "melanie", False),
        ("melani", "melanie", False),  # leaves out one letter only
        ("melan", "melanie", True),
        ("melanie", "melanie", False),  # no short form: the name
        ("ana", "ana ruiz", True),
        ("al", "al gore", True),  # a first name may have two letters
        ("ruiz", "ana ruiz", False),
        ("ana r", "ana ruiz", False),
        ("mel", "melanie smith", True),
        ("bob", "bob_smith", True),
        ("lan", "melanie", False),
        ("", "ana", False),
        ("李小", "李小龙先生", False),
    ],
)
def test_what_is_short_for_a_name(short: str, full: str, is_one: bool) -> None:
    """The first word of a longer name, or three letters and more of it that leave out two at least."""
    assert is_short_form(short, full) is is_one


@each(("name", "key"), [("Ana", "ana"), ("👍", "👍"), (" ¿? ", "¿?"), ("", None), (" \n", None)])
def test_whoever_speaks_has_a_key(name: str, key: str | None) -> None:
    """Signs will do; nothing is nobody."""
    assert speaker_key(name) == key


def test_a_judge_is_asked_a_little_below_what_merges() -> None:
    """By as much of every measured embedder; of one that was not measured, from a fixed likeness on."""
    measured = merge_threshold(MINILM.model_id)
    assert measured is not None
    assert judge_threshold(MINILM.model_id) == pytest.approx(measured - JUDGE_BELOW)
    assert 0 < judge_threshold(MINILM.model_id) < measured < 1
    assert (merge_threshold("callable:x"), judge_threshold("callable:x")) == (None, UNMEASURED)
