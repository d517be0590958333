"""The temporal-state benchmark's worlds, ground truth and scoring."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from temporal.phrasing import SETS, contains, load_phrasing, since_phrase, when_phrase
from temporal.questions import KINDS, Question, make_questions
from temporal.score import Evidence, bootstrap, first_correct, is_correct
from temporal.systems import open_systems
from temporal.timelines import Timeline
from temporal.worlds import World, in_time_order, make_world, make_worlds

PHRASING = load_phrasing()
WORLDS = make_worlds(PHRASING, 6, 7)
QUESTIONS = make_questions(PHRASING, WORLDS, 640, 7)
STATEMENTS = ("is", "start", "shift", "back", "still", "since", "retro", "ask", "reply", "maybe", "fell")


def world_of(question: Question) -> World:
    """Return the world a question is about."""
    return next(world for world in WORLDS if world.id == question.world)


def timeline_of(question: Question) -> Timeline:
    """Return the timeline a question is about."""
    return next(
        timeline
        for timeline in world_of(question).timelines
        if (timeline.person.name, timeline.attribute) == (question.person, question.attribute)
    )


def test_generator_is_deterministic_for_a_seed() -> None:
    """Equal seeds give equal worlds and questions, whatever the number of worlds; other seeds do not."""
    assert make_world(PHRASING, 3, 7) == WORLDS[3]
    assert make_questions(PHRASING, make_worlds(PHRASING, 6, 7), 640, 7) == QUESTIONS
    assert make_world(PHRASING, 3, 8) != WORLDS[3]


def test_at_least_500_questions_balanced() -> None:
    """There are 500 questions or more, every kind has both sorts, and no bucket outweighs the others."""
    sizes = Counter((question.kind, question.stated) for question in QUESTIONS)
    assert len(QUESTIONS) >= 500
    assert {kind for kind, _ in sizes} == set(KINDS)
    assert len(sizes) == 2 * len(KINDS)
    assert max(sizes.values()) <= 40
    assert min(sizes.values()) >= 25


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_cast_and_timelines_have_the_promised_shape(world: World) -> None:
    """Four to six people, two of them speakers, a non-ASCII name; two to six values, neighbours differ."""
    assert 4 <= len(world.cast) <= 6
    assert len({person.name for person in world.cast}) == len(world.cast)
    assert sum(person.speaker for person in world.cast) == 2
    assert any(not person.name.isascii() for person in world.cast)
    for timeline in world.timelines:
        assert 2 <= len(timeline.values) <= 6
        assert all(one != other for one, other in pairwise(timeline.values))
        for one, other in pairwise(timeline.intervals):
            assert one.end == other.start
            assert one.start < other.start
        assert timeline.intervals[-1].end is None


def test_values_return_and_transitions_are_of_both_sorts() -> None:
    """Some values come back, and both stated and unstated transitions are common."""
    timelines = [timeline for world in WORLDS for timeline in world.timelines]
    returning = sum(len(set(t.values)) < len(t.values) for t in timelines)
    stated = [interval.stated for t in timelines for interval in t.intervals[1:]]
    assert returning >= len(timelines) // 6
    assert 0.35 < sum(stated) / len(stated) < 0.65


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_sessions_are_well_formed_and_shuffled(world: World) -> None:
    """Ids are unique, times increase in a session, sessions do not overlap and are not in time order."""
    ids = [session.id for session in world.sessions]
    assert len(set(ids)) == len(ids)
    speakers = {person.name for person in world.cast if person.speaker}
    for session in world.sessions:
        assert len({turn.id for turn in session.turns}) == len(session.turns)
        assert all(one.said < other.said for one, other in pairwise(session.turns))
        assert {turn.speaker for turn in session.turns} <= speakers
        assert [line["content"] for line in session.as_input()] == [turn.text for turn in session.turns]
    ordered = in_time_order(world)
    assert ordered != list(world.sessions)
    assert ordered[-1].turns[-1].said < world.reference


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_labels_tell_the_truth(world: World) -> None:
    """A labelled turn names its value, is said by the person if they speak, and in its interval's time."""
    for label, _, turn in world.mentions():
        timeline = world.timelines[label.timeline]
        interval = timeline.intervals[label.index]
        assert contains(turn.text, interval.value)
        if timeline.person.speaker:
            assert turn.speaker == timeline.person.name
        elif label.kind != "reply":
            assert re.search(rf"\b{timeline.person.name}\b", turn.text)
        said = turn.said.date()
        if label.kind in ("retro", "ended"):
            assert interval.end is not None
            assert said >= interval.end
        else:
            assert interval.start <= said
            assert interval.end is None or said < interval.end
        if label.kind == "shift":
            assert contains(turn.text, timeline.values[label.index - 1])
    slots = re.compile(r"[{}]")
    assert not any(slots.search(turn.text) for session in world.sessions for turn in session.turns)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.id)
def test_every_interval_is_told_and_stated_ones_first_as_a_change(world: World) -> None:
    """Each interval has a mention; the first one announces the change exactly where it is stated."""
    first: dict[tuple[int, int], tuple[datetime, str]] = {}
    for label, _, turn in world.mentions():
        key = (label.timeline, label.index)
        if label.kind not in ("retro", "ended"):
            first[key] = min(first.get(key, (turn.said, label.kind)), (turn.said, label.kind))
    for position, timeline in enumerate(world.timelines):
        for index, interval in enumerate(timeline.intervals):
            kind = first[position, index][1]
            assert (kind in ("start", "shift", "back")) == interval.stated


def expected(question: Question) -> str:
    """Answer a question from the timeline alone, by brute force over its days."""
    intervals = timeline_of(question).intervals
    held = [
        (day, interval.value)
        for interval in intervals
        for day in _days(interval.start, interval.end or question.reference.date() + timedelta(days=1))
    ]
    values = [value for _, value in held]
    changes = [n for n in range(1, len(held)) if values[n] != values[n - 1]]
    if question.kind in ("current", "last", "since"):
        return values[-1]
    if question.kind == "first":
        return values[0]
    if question.kind == "as_of":
        return next(value for day, value in held if day == question.day)
    if question.kind == "predecessor":
        return next(values[n - 1] for n in changes if values[n] == question.anchor)
    if question.kind == "successor":
        return next(values[n] for n in changes if values[n - 1] == question.anchor)
    returned = {values[n] for n in changes if values[n] in values[: n - 1]}
    return question.answer if question.answer in returned else f"no return to {question.answer}"


def _days(start: date, end: date) -> list[date]:
    return [start + timedelta(days=n) for n in range((end - start).days)]


def test_answers_agree_with_a_brute_force_oracle() -> None:
    """Walking the timeline day by day gives the answer of every question."""
    assert [question.answer for question in QUESTIONS] == [expected(question) for question in QUESTIONS]


def test_anchors_are_unambiguous() -> None:
    """The value named by a predecessor or successor question is held in one stretch only."""
    for question in QUESTIONS:
        if question.anchor is not None:
            assert timeline_of(question).values.count(question.anchor) == 1


def test_acceptable_turns_exist_and_name_the_answer_for_the_right_person() -> None:
    """Every acceptable turn is labelled for this person and attribute, and contains the answer."""
    for question in QUESTIONS:
        world = world_of(question)
        labelled = {
            (session.id, turn.id): turn
            for label, session, turn in world.mentions()
            if world.timelines[label.timeline] == timeline_of(question)
        }
        assert question.acceptable
        for ref in question.acceptable:
            assert contains(labelled[ref].text, question.answer)


def test_since_and_last_accept_only_turns_that_tell_the_beginning() -> None:
    """A later repetition is no evidence for when something began."""
    for question in QUESTIONS:
        if question.kind not in ("since", "last"):
            continue
        world = world_of(question)
        kinds = {
            (session.id, turn.id): label.kind
            for label, session, turn in world.mentions()
            if world.timelines[label.timeline] == timeline_of(question) and label.kind != "ended"
        }
        accepted = [kinds[ref] for ref in question.acceptable]
        telling = all(kind in ("start", "shift", "back", "since") for kind in accepted)
        assert telling or len(accepted) == 1


def test_as_of_dates_lie_after_the_first_mention_or_the_told_start() -> None:
    """An as-of date never falls where only the generator knows the answer."""
    for question in QUESTIONS:
        if question.day is None:
            continue
        timeline = timeline_of(question)
        assert timeline.held(question.day, question.day) == {question.answer}
        assert f"{question.day.year}" in question.text


def test_question_texts_name_the_person_and_only_the_anchor_or_the_asked_value() -> None:
    """No question leaks its answer, except those that ask about a named value."""
    for question in QUESTIONS:
        assert question.person in question.text
        assert "{" not in question.text
        if question.kind not in ("since", "back"):
            assert not contains(question.text.replace(question.person, ""), question.answer)


@pytest.mark.parametrize("which", SETS)
def test_phrasing_is_complete(which: str) -> None:
    """Every attribute has every wording, changes say when, and no value contains another one of its attribute."""
    phrasing = load_phrasing(which)
    names = {*phrasing.people["she"], *phrasing.people["he"]}
    for name, data in phrasing.attribute.items():
        values = phrasing.values(name)
        for one in values:
            assert one not in names
            assert sum(contains(other, one) for other in values) == 1
        for kind in STATEMENTS:
            assert data[f"{kind}_self"], (name, kind)
            assert data[f"{kind}_other"], (name, kind)
        for kind in ("start", "shift", "back"):
            assert all("{when" in t for own in ("self", "other") for t in data[f"{kind}_{own}"]), name
        assert all("{old}" in t for own in ("self", "other") for t in data[f"shift_{own}"]), name
        for kind in KINDS:
            assert len(data[f"q_{kind}"]) >= 2, (name, kind)
            assert phrasing.generic[kind]


@pytest.mark.parametrize("gap", range(0, 60))
def test_relative_dates_are_true(gap: int) -> None:
    """A weekday names the day itself, "last week" the week before, "last month" the month before."""
    said = date(2024, 3, 14) + timedelta(days=gap)
    day = said - timedelta(days=gap)
    for seed in range(20):
        words = when_phrase(Random(seed), day, said)
        if "Thursday" in words:
            assert 2 <= gap <= 6
        if words == "last week":
            assert (said - timedelta(days=said.weekday())) - (
                day - timedelta(days=day.weekday())
            ) == timedelta(7)
        if words == "last month":
            assert (said.year * 12 + said.month) - (day.year * 12 + day.month) == 1
        if words.startswith("on "):
            assert "14" in words


def test_a_future_change_cannot_be_told_as_past() -> None:
    """Wording a day after the chat is refused."""
    with pytest.raises(ValueError, match="after"):
        when_phrase(Random(0), date(2024, 1, 2), date(2024, 1, 1))


def test_since_names_the_year_when_it_is_far() -> None:
    """A month without a year means the latest one."""
    words = {since_phrase(Random(seed), date(2022, 5, 2), date(2024, 3, 1)) for seed in range(20)}
    assert words == {"since May 2022"}


def make_question(**changes: object) -> Question:
    """Return a question whose acceptable turn is s1/t4 and whose answer is "Málaga"."""
    values: dict[str, object] = {
        "world": "w",
        "kind": "current",
        "text": "Where does Zoë live now?",
        "reference": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "person": "Zoë",
        "attribute": "residence",
        "answer": "Málaga",
        "acceptable": frozenset({("s1", "t4")}),
        "stated": True,
        **changes,
    }
    return Question(**values)  # type: ignore[arg-type]  # the values are those of the fields


@pytest.mark.parametrize(
    ("text", "turns", "correct"),
    [
        ("Zoë lives in Málaga.", {("s1", "t4")}, True),
        ("zoe lives in MALAGA", {("s1", "t4"), ("s1", "t5")}, True),
        ("Zoë lives by the sea.", {("s1", "t4")}, False),
        ("Zoë lives in Málaga.", {("s1", "t5")}, False),
        ("Zoë lives in Málaga.", {("s2", "t4")}, False),
        ("Zoë lives in Málaga.", set(), False),
    ],
)
def test_correct_needs_an_acceptable_source_and_the_answer(
    text: str, turns: set[tuple[str, str]], correct: bool
) -> None:
    """An item counts iff a source turn is acceptable and its text names the answer."""
    assert is_correct(make_question(), Evidence(text, frozenset(turns))) is correct


def test_first_correct_gives_the_rank_from_one() -> None:
    """The rank is that of the first correct item; no correct item has none."""
    right, wrong = (
        Evidence("Málaga", frozenset({("s1", "t4")})),
        Evidence("Málaga", frozenset({("s1", "t1")})),
    )
    assert first_correct(make_question(), [wrong, right, right]) == 2
    assert first_correct(make_question(), [wrong]) is None


def test_bootstrap_brackets_the_mean_and_is_repeatable() -> None:
    """The interval holds the mean, a constant has no width, and equal seeds give equal intervals."""
    estimate = bootstrap([1.0, 0.0] * 50, seed=3)
    assert estimate.mean == 0.5
    assert 0.35 < estimate.low < 0.5 < estimate.high < 0.65
    assert bootstrap([1.0, 0.0] * 50, seed=3) == estimate
    constant = bootstrap([1.0] * 9)
    assert (constant.low, constant.high, constant.n) == (1.0, 1.0, 9)
    assert bootstrap([]).n == 0


def test_baselines_rank_turns_of_their_world() -> None:
    """BM25 finds a turn by its words; recency returns the same kind of items, newest first."""
    world = WORLDS[0]
    session, turn = next(
        (session, turn) for label, session, turn in world.mentions() if label.kind == "since"
    )
    systems = open_systems(["bm25", "recency"], world)
    found = systems["bm25"].rank(turn.text, world.reference)
    assert any((session.id, turn.id) in item.turns for item in found)
    said = {(s.id, t.id): t.said for s in world.sessions for t in s.turns}
    times = [said[ref] for item in systems["recency"].rank(turn.text, world.reference) for ref in item.turns]
    assert times == sorted(times, reverse=True)


def test_an_unknown_system_is_refused() -> None:
    """The error names the systems there are."""
    with pytest.raises(ValueError, match="bm25"):
        open_systems(["nope"], WORLDS[0])
