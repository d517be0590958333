"""Threads: kinds of values that nobody listed, the timelines they make, and the questions these answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import DAY, Fact, Said, hand_made, make_vocabulary
from tests_long.stored import observed

from memforest import Config, Evidence, MemForest
from memforest.models import HashEmbedder
from memforest.reading.phrases import read_statement
from memforest.records import QuestionPlan, TimeOperator
from memforest.search.attributes import LEAST_ALIKE, Contexts, _clusters, find_kinds, placed_in
from memforest.search.change import (
    Answer,
    ValueChoice,
    _of_thread,
    _turns,
    _ValueLine,
    order_observations,
)
from memforest.search.timeline import Segment, timeline
from memforest.search.vocabulary import Topic, Vocabulary, choose_values
from memforest.store.reads import StateSeen

Matrix = NDArray[np.float64]


@st.composite
def likenesses(draw: st.DrawFn) -> Matrix:
    """Return a symmetric matrix of up to 14 rows without ties, some of its values below any threshold."""
    n = draw(st.integers(0, 14))
    half = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(0.2, 0.6, (n, n))
    return np.asarray((half + half.T) / 2, dtype=np.float64)


def naive_linkage(alike: Matrix, least: float) -> set[frozenset[int]]:
    """Return groups by the definition: join the two groups of the highest mean likeness while it is enough."""
    groups = [frozenset((i,)) for i in range(len(alike))]
    while len(groups) > 1:
        one, other = max(combinations(groups, 2), key=lambda pair: _mean(alike, *pair))
        if _mean(alike, one, other) < least:
            break
        groups = [group for group in groups if group not in (one, other)] + [one | other]
    return set(groups)


def _mean(alike: Matrix, one: frozenset[int], other: frozenset[int]) -> float:
    return float(alike[np.ix_(sorted(one), sorted(other))].mean())


def partition(alike: Matrix, least: float = LEAST_ALIKE) -> set[frozenset[int]]:
    """Return what the package makes of the same."""
    return {frozenset(group) for group in _clusters(alike, least)}


@given(likenesses(), st.floats(-1, 1))
def test_clusters_are_a_partition(alike: Matrix, least: float) -> None:
    """Every row is of exactly one group, and the matrix stays as it was."""
    before = alike.copy()
    groups = _clusters(alike, least)
    assert sorted(row for group in groups for row in group) == list(range(len(alike)))
    np.testing.assert_array_equal(alike, before)


@given(likenesses(), st.floats(-1, 1))
def test_clusters_are_those_of_average_linkage(alike: Matrix, least: float) -> None:
    """A chain of nearest neighbours joins what joining the most alike pair each time does."""
    assert partition(alike, least) == naive_linkage(alike, least)


@given(likenesses(), st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order(alike: Matrix, random: object) -> None:
    """Rows in another order form the same groups."""
    order = list(range(len(alike)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = partition(alike[np.ix_(order, order)])
    assert {frozenset(order[row] for row in group) for group in shuffled} == partition(alike)


def test_equal_likenesses_still_end() -> None:
    """Ties, where a chain could go in circles: everything alike is one group, nothing alike is none."""
    assert partition(np.ones((6, 6))) == {frozenset(range(6))}
    assert partition(np.zeros((6, 6))) == {frozenset((i,)) for i in range(6)}


def test_a_group_is_alike_on_average() -> None:
    """One strong pair does not pull in a third that only one of the two is like."""
    alike = np.zeros((3, 3))
    alike[0, 1] = alike[1, 0] = 1.0
    alike[1, 2] = alike[2, 1] = 0.5  # 0.25 on average
    assert partition(alike) == {frozenset((0, 1)), frozenset((2,))}
    alike[1, 2] = alike[2, 1] = 0.7
    assert partition(alike) == {frozenset((0, 1, 2))}


TEAS = [
    "Ana drinks Keemun with breakfast.",
    "Ana dropped Keemun for Assam.",
    "Ana drinks Assam at work.",
    "Bob drinks Sencha with breakfast.",
    "Bob switched from Sencha to Assam.",
    "Bob still drinks Assam.",
    "Ana paddles on the Isar every Sunday.",
    "Bob paddles on the Loisach every Sunday.",
    "Ana went back to the Isar.",
    "Bob left the Loisach for the Isar.",
]
PEOPLE = frozenset(("Ana", "Bob"))


def made(texts: list[str], **options: object) -> Vocabulary:
    """Return the vocabulary of some statements without an embedder."""
    return make_vocabulary(texts, PEOPLE, np.zeros((len(texts), 0), dtype=np.float32), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def teas() -> Vocabulary:
    """The teas two people drink, and the rivers they paddle on."""
    return made(TEAS)


def test_kinds_of_a_memory(teas: Vocabulary) -> None:
    """Teas are one kind and rivers another, though nothing knows what a tea or a river is."""
    kinds = {frozenset(kind.values) for kind in teas.kinds}
    assert {frozenset(("keemun", "assam", "sencha")), frozenset(("isar", "loisach"))} <= kinds
    assert sorted(value for kind in teas.kinds for value in kind.values) == sorted(teas.values)


def test_people_are_no_values(teas: Vocabulary) -> None:
    """The names of those who act are never values, nor parts of one."""
    assert not {word for value in teas.values for word in value.split()} & {"ana", "bob"}


def test_who_fills_a_role_is_a_value_and_of_its_kind() -> None:
    """A flatmate can be replaced as a gym can, also one who acts; a friend, of whom one has many, stays a person."""
    known = made(
        [
            "Until May, Piet was Ana's flatmate.",
            "Piet cooks on Sundays.",
            "Piet sings in the shower.",
            "Ana shares a kitchen with Piet.",
            "Ana's new flatmate is a woman called Jule.",
            "Jule cooks on Sundays.",
            "Since May, Jule is Ana's flatmate.",
            "Rosa is Ana's friend.",
            "Rosa sings in a choir.",
            "Rosa cooks for Ana.",
        ]
    )
    people = known.readings.acting(2, frozenset())
    assert "Rosa" in people
    assert {"Piet", "Jule"}.isdisjoint(people)
    (kind,) = [kind for kind in known.kinds if "piet" in kind.values]
    assert "jule" in kind.values


def test_words_between_two_values_tell_that_one_replaced_the_other() -> None:
    """An exchange is read also where no word of change stands in front of either."""
    known = made(
        [
            "Ana drinks Assam instead of Keemun.",
            "Ana drinks Assam.",
            "Ana took her savings from Monta over to Sparhaus.",
            "Ana banks with Sparhaus.",
        ]
    )
    assert {("keemun", "assam"), ("monta", "sparhaus")} <= known.replaced


def test_replacements_are_read(teas: Vocabulary) -> None:
    """Pairs of which a sentence says that one took the other's place, old one first."""
    assert {("keemun", "assam"), ("sencha", "assam"), ("loisach", "isar")} <= teas.replaced


def test_a_kind_knows_its_facts(teas: Vocabulary) -> None:
    """Rows are those of the facts that use a value; typical is at most 1."""
    (kind,) = [kind for kind in teas.kinds if "isar" in kind.values]
    assert kind.rows.tolist() == [6, 7, 8, 9]
    assert max(kind.typical) == pytest.approx(1.0)
    assert len(kind.typical) == len(kind.values)


def test_rows_and_people_are_looked_up(teas: Vocabulary) -> None:
    """Facts by value and by person, as rows."""
    assert teas.rows(["sencha", "keemun"]).tolist() == [0, 1, 3, 4]
    assert teas.rows([]).tolist() == []
    assert teas.about("Bob").nonzero()[0].tolist() == [3, 4, 5, 7, 9]


def test_the_longest_value_is_named() -> None:
    """A rye bread in a question names rye bread, not bread; part of a word names nothing."""
    known = replace(made(TEAS), values=frozenset(("bread", "rye bread", "assam")))
    assert known.named_in("What did Ana bake before the rye bread?") == {"rye bread"}
    assert known.named_in("What of Assam's price?") == {"assam"}
    assert known.named_in("Assamese tea") == frozenset()


def test_without_values_there_are_no_kinds() -> None:
    """An empty memory, and one in which nobody has anything, have no kinds and no topic."""
    assert made([]).kinds == ()
    quiet = made(["It rained."])
    nothing = np.zeros(1)
    assert list(choose_values(quiet, Topic("Ana", nothing, nothing))) == []
    assert find_kinds(Contexts(), [], {}, np.zeros((0, 0), dtype=np.float32), [], []) == ()


def test_a_listed_attribute_holds_values_together() -> None:
    """Values that statements give to one attribute are of one kind, also if they are told in other words."""
    texts = [
        "Ana adores Keemun dearly.",
        "Everybody at the stall sold out of Sencha to Ana.",
        "Ana has Keemun.",
        "Ana bought Sencha.",
    ]
    apart = {frozenset(kind.values) for kind in made(texts).kinds}
    together = {frozenset(k.values) for k in made(texts, states=[("tea", "keemun"), ("tea", "sencha")]).kinds}
    assert frozenset(("keemun", "sencha")) not in apart
    assert frozenset(("keemun", "sencha")) in together


def test_what_stands_side_by_side_is_not_one_kind() -> None:
    """Two things of the same sentences go together, and so do not take each other's place."""
    statements = [read_statement("Ana plays the oboe with Mizler.") for _ in range(3)]
    uses = {"mizler": np.arange(3), "oboe": np.arange(3)}
    vectors = np.zeros((3, 0), dtype=np.float32)
    placed = [placed for one in statements for placed in placed_in(one, uses.keys())]
    contexts = Contexts().changed([], placed, {"ana"})
    found = find_kinds(contexts, ["mizler", "oboe"], uses, vectors, [], [{"mizler", "oboe"}])
    assert [kind.values for kind in found] == [("mizler",), ("oboe",)]


def topic(about: str, texts: list[str] = TEAS, **options: object) -> Topic:
    """Return a topic of Ana's near the facts that have a word."""
    near = np.array([float(about in text) for text in texts])
    return Topic("Ana", near, near, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("about", "value", "not_this"), [("drinks", "keemun", "isar"), ("paddles", "isar", "keemun")]
)
def test_the_topic_is_the_kind_nearest_to_the_question(
    teas: Vocabulary, about: str, value: str, not_this: str
) -> None:
    """The facts that are near to the question say which kind of values it asks for."""
    (chosen, near), *others = choose_values(teas, topic(about))
    assert any(not_this in other and near > less for other, less in others)
    assert value in chosen
    assert not_this not in chosen


@pytest.mark.parametrize(
    ("anchor", "value", "not_this"),
    [("the Loisach", "isar", "keemun"), ("Sencha", "keemun", "isar"), ("giving up Keemun", "assam", "isar")],
)
def test_a_named_value_tells_the_kind(teas: Vocabulary, anchor: str, value: str, not_this: str) -> None:
    """Where nothing else tells, asking what was before the Loisach asks for rivers."""
    chosen, _ = next(choose_values(teas, topic("Ana", anchor=anchor)))
    assert value in chosen
    assert not_this not in chosen


def observation(
    day: float, value: str, change: str = "is", *, latest: float | None = None, stated: bool = False
) -> StateSeen:
    """Return one observation; `latest` is the day by which it was so, if its time is coarse."""
    latest_ms = round((day if latest is None else latest) * DAY) if stated else 0
    return observed(round(day * DAY), "1", round(day * 100), value, None, change, latest_ms=latest_ms)


def order(heard: list[StateSeen]) -> list[str]:
    """Return the values of the segments that some observations make."""
    return [segment.value for segment in timeline(order_observations(heard))]


def test_a_coarse_time_moves_behind_an_exact_one() -> None:
    """Something "since April" begins after the 5th, if something else was so on the 5th."""
    heard = [
        observation(1, "Keemun"),
        observation(35, "Keemun"),
        observation(31, "Assam", "start", latest=61, stated=True),
    ]
    assert order(heard) == ["Keemun", "Assam"]
    (placed,) = [seen for seen in order_observations(heard) if seen.value == "Assam"]
    assert 35 * DAY < placed.at_ms <= 61 * DAY


def test_a_coarse_time_stays_in_front_of_its_own_value() -> None:
    """What was so itself by the 5th cannot have begun after that, whatever else is told later that month."""
    heard = [
        observation(31, "Assam", "start", latest=61, stated=True),
        observation(33, "Keemun"),
        observation(36, "Assam"),
        observation(50, "Keemun"),
    ]
    (placed,) = [seen for seen in order_observations(heard) if seen.fact == heard[0].fact]
    assert 33 * DAY < placed.at_ms <= 36 * DAY


def test_a_told_beginning_dates_a_coarse_one() -> None:
    """Something "since April" begins when the beginning in April was told, if it was."""
    heard = [observation(31, "Assam", "start", latest=61, stated=True), observation(40, "Assam", "start")]
    assert [seen.at_ms for seen in order_observations(heard)] == [40 * DAY, 40 * DAY]


def test_an_end_is_never_moved() -> None:
    """An ending has the time it has."""
    heard = [observation(31, "Assam", "end", latest=61, stated=True), observation(40, "Keemun")]
    assert [seen.at_ms for seen in order_observations(heard)] == [31 * DAY, 40 * DAY]


def test_a_passing_beginning_is_dropped() -> None:
    """A tin bought once between two mornings of another tea is no new habit."""
    heard = [observation(1, "Keemun"), observation(5, "Sencha", "start"), observation(9, "Keemun")]
    assert order(heard) == ["Keemun"]


@each(
    "heard",
    [
        [observation(1, "Keemun"), observation(5, "Sencha", "start", stated=True), observation(9, "Keemun")],
        [observation(1, "Keemun"), observation(5, "Sencha"), observation(9, "Keemun")],
        [observation(1, "Keemun"), observation(5, "Sencha", "start"), observation(9, "Keemun", "start")],
        [observation(1, "Keemun", "end"), observation(5, "Sencha", "start"), observation(9, "Keemun")],
        [
            observation(1, "Keemun"),
            observation(5, "Sencha", "start"),
            observation(6, "Sencha"),
            observation(9, "Keemun"),
        ],
        [
            observation(1, "Keemun"),
            observation(5, "Sencha", "start"),
            observation(9, "Keemun"),
            observation(20, "Sencha"),
        ],
    ],
)
def test_a_borne_out_beginning_is_kept(heard: list[StateSeen]) -> None:
    """One that is dated, told as so, told again, or followed by a return stays."""
    assert any(seen.value == "Sencha" and seen.at_ms == 5 * DAY for seen in order_observations(heard))


HEARD = st.lists(
    st.builds(
        lambda day, value, change, span, stated: observation(day, value, change, latest=day + span, stated=stated),
        st.integers(0, 40), st.sampled_from(["Keemun", "Assam", "Sencha"]), st.sampled_from(["is", "start", "end"]),
        st.sampled_from([0, 0, 10, 30]), st.booleans(),
    ),
    max_size=9,
)  # fmt: skip


@given(HEARD)
def test_settling_moves_nothing_out_of_its_time(heard: list[StateSeen]) -> None:
    """Observations come out in order, none is made up, and each stays in the time that it may have had."""
    settled = order_observations(heard)
    assert [seen.at_ms for seen in settled] == sorted(seen.at_ms for seen in settled)
    assert len(settled) <= len(heard)
    for seen in settled:
        assert any(
            seen._replace(at_ms=one.at_ms) == one and one.at_ms <= seen.at_ms <= max(one.latest_ms, one.at_ms)
            for one in heard
        )


@given(HEARD)
def test_endings_and_dated_things_are_never_dropped(heard: list[StateSeen]) -> None:
    """Only an undated beginning can be a passing one."""
    kept = order_observations(heard)
    for one in heard:
        if one.latest_ms or one.change != "start":
            assert sum(seen.fact == one.fact for seen in kept) >= 1


@pytest.mark.parametrize(("kind", "facts"), [("since", (1, 0)), ("last", (1, 0)), ("current", (0, 1))])
def test_the_telling_of_a_beginning_answers_since_when(kind: str, facts: tuple[int, ...]) -> None:
    """Of the facts of a stretch, the one that tells its beginning goes first where that is asked for."""
    snapshot = hand_made([Said("Ana", 1), Said("Ana", 5)], [Fact((0,)), Fact((1,))])
    segment = Segment("keemun", DAY, None, (201, 202))
    thread = _ValueLine(segments=(segment,), told=frozenset((202,)))
    told = frozenset(("keemun",))
    choice = ValueChoice("Ana", {"keemun": 1.0}, replaced=told, attributes=frozenset(), listed=told)
    plan = QuestionPlan(kind=kind, anchor="keemun" if kind == "since" else None)  # type: ignore[arg-type]
    found = _of_thread(snapshot, choice, thread, plan, 9 * DAY)
    assert (found.facts, found.start_ms, found.end_ms) == (facts, DAY, None)


def test_turns_within_the_asked_time() -> None:
    """Of the turns that say the same, those of the asked stretch support it; all, if none is of it."""
    snapshot = hand_made([Said("Ana", day, session=day) for day in (1, 20, 60)], [Fact((0, 1, 2))])
    turns = np.array([0, 1, 2])
    assert Answer((0,)).turns_within(snapshot, turns) == [0, 1, 2]
    assert Answer((0,), start_ms=20 * DAY).turns_within(snapshot, turns) == [1, 2]
    assert Answer((0,), start_ms=20 * DAY, end_ms=60 * DAY).turns_within(snapshot, turns) == [1]
    assert Answer((0,), end_ms=20 * DAY).turns_within(snapshot, turns) == [0]
    assert Answer((0,), start_ms=90 * DAY).turns_within(snapshot, turns) == [0, 1, 2]


BREAKFAST = "I drink Keemun with my breakfast."
CHATS = {
    "2024-01-10": [
        ("Ana", BREAKFAST),
        ("Bob", "I drink Sencha with mine."),
        ("Ana", "The cat knocked over the printer."),
    ],
    "2024-02-12": [("Ana", "I still drink Keemun every morning."), ("Bob", "My tea is Sencha, as ever.")],
    "2024-04-08": [("Ana", "I dropped Keemun for Assam this week."), ("Bob", "A big step!")],
    "2024-05-18": [
        ("Ana", "I brought a lemon tart to the fair."),
        ("Bob", "I carried the tables to the fair."),
        ("Ana", "I drink Assam at work as well."),
    ],
    "2024-06-20": [
        ("Bob", "I switched from Sencha to Hojicha."),
        ("Bob", "After the move I felt quite lost."),
        ("Ana", "You will settle in."),
    ],
    "2024-08-05": [
        ("Ana", "I switched from Assam to Darjeeling."),
        ("Bob", "I drink Hojicha in the evening now."),
    ],
    "2024-09-15": [("Ana", "These days I drink Darjeeling."), ("Bob", "I repaired the garden gate.")],
    "2024-11-03": [("Ana", "I went back to Keemun."), ("Bob", "Old love!")],
    "2024-12-01": [("Ana", BREAKFAST), ("Bob", "And I still drink Hojicha.")],
}


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> MemForest:
    """A memory of what two people drink over a year; no list of this package knows of tea."""
    made = MemForest(tmp_path_factory.mktemp("teas"), Config(embedder=HashEmbedder()))
    for day, turns in CHATS.items():
        made.ingest_session(
            "u",
            day,
            [
                {"speaker": who, "content": text, "timestamp": f"{day}T10:0{i}:00Z"}
                for i, (who, text) in enumerate(turns)
            ],
        )
    return made


def first(forest: MemForest, question: str) -> Evidence:
    """Return the first evidence for a question asked at the end of the year."""
    return forest.query("u", question, reference_date="2024-12-20").evidence[0]


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("Which tea does Ana drink these days?", {"2024-11-03", "2024-12-01"}),
        ("What is Ana's tea now?", {"2024-11-03", "2024-12-01"}),
        ("Which tea did Ana drink in May 2024?", {"2024-04-08", "2024-05-18"}),
        ("What did Ana drink in February 2024?", {"2024-01-10", "2024-02-12", "2024-04-08"}),
        ("Which tea did Ana drink before Assam?", {"2024-01-10", "2024-02-12", "2024-04-08"}),
        ("Which tea did Ana drink before Darjeeling?", {"2024-04-08", "2024-05-18", "2024-08-05"}),
        ("What did Ana drink after Assam?", {"2024-08-05", "2024-09-15"}),
        ("Which tea did Ana drink first?", {"2024-01-10", "2024-02-12"}),
        ("Since when has Ana been drinking Darjeeling?", {"2024-08-05"}),
        ("When did Ana switch to Assam?", {"2024-04-08"}),
        ("When did Ana last change her tea?", {"2024-11-03"}),
        ("When did Ana go back to Keemun?", {"2024-11-03"}),
        ("Did Ana ever return to Keemun?", {"2024-11-03"}),
        ("Which tea does Bob drink now?", {"2024-06-20", "2024-08-05", "2024-12-01"}),
        ("Which tea did Bob drink before Hojicha?", {"2024-01-10", "2024-02-12", "2024-06-20"}),
    ],
)
def test_a_question_about_change_leads_with_its_turn(
    forest: MemForest, question: str, days: set[str]
) -> None:
    """Of an attribute that nobody listed, the turn of the right person and the right stretch comes first."""
    lead = first(forest, question)
    assert lead.why
    assert lead.speaker == ("Bob" if "Bob" in question else "Ana")
    assert f"{lead.said:%Y-%m-%d}" in days


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("What does Ana drink with her breakfast these days?", "2024-12-01"),
        ("What did Ana drink with her breakfast in January 2024?", "2024-01-10"),
        ("Which tea did Ana drink first, with her breakfast?", "2024-01-10"),
    ],
)
def test_the_same_words_lead_from_the_asked_stretch(forest: MemForest, question: str, day: str) -> None:
    """What was said in the same words in two stretches is shown as it was said in the one that is asked about."""
    lead = first(forest, question)
    assert lead.quote == BREAKFAST
    assert f"{lead.said:%Y-%m-%d}" == day


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did Ana bring to the fair in May?", "I brought a lemon tart to the fair."),
        ("What did Bob carry to the fair in May 2024?", "I carried the tables to the fair."),
        ("How did Bob feel after the move?", "After the move I felt quite lost."),
        ("What did Bob repair in September?", "I repaired the garden gate."),
        ("When did the cat knock over the printer?", "The cat knocked over the printer."),
    ],
)
def test_a_question_about_an_event_has_no_lead(forest: MemForest, question: str, said: str) -> None:
    """A date, "before" and "after" alone make no question about a state: similarity answers it, and rightly."""
    assert all(not one.why for one in forest.query("u", question, reference_date="2024-12-20").evidence)
    assert first(forest, question).quote == said


@pytest.mark.parametrize(
    "question",
    ["How did Ana feel about the change to Darjeeling after Assam?", "Why did Ana go back to Keemun?"],
)
def test_manner_and_reason_have_no_lead(forest: MemForest, question: str) -> None:
    """How or why something changed is not what was so after it."""
    assert not first(forest, question).why


@settings(max_examples=10)
@given(
    st.sampled_from(["Zoë", "Carl", "nobody"]),
    st.sampled_from(["now", "in May 2024", "before Assam", "first"]),
)
def test_somebody_unknown_has_no_thread(forest: MemForest, who: str, when: str) -> None:
    """Nobody is given somebody else's tea."""
    result = forest.query("u", f"Which tea did {who} drink {when}?", reference_date="2024-12-20")
    assert all(not one.why for one in result.evidence)


@each(
    ("kind", "anchor", "had", "leads"),
    [
        ("current", "", ("keemun", "assam"), True),
        ("current", "", ("keemun",), False),  # what has no other value beside it is no timeline
        ("predecessor", "the Assam", ("keemun", "assam"), True),
        ("predecessor", "the kettle", ("keemun", "assam"), False),
        ("as_of", "the kettle", ("keemun", "assam"), True),
    ],
)
def test_values_by_turns_answer_a_question_of_time(
    kind: str, anchor: str, had: tuple[str, ...], leads: bool
) -> None:
    """A thread has two values at least, and the one that the question is relative to."""
    segments = tuple(Segment(value, at * DAY, None, (201 + at,)) for at, value in enumerate(had))
    operator = TimeOperator(kind, anchor)  # type: ignore[arg-type]
    assert _turns(operator, _ValueLine(segments=segments)) is leads


def test_a_timeline_says_whether_it_is_told_or_inferred() -> None:
    """A value that is told to have taken another's place is sure, and so is one told of the attribute that is asked for."""
    snapshot = hand_made([Said("Ana", 1), Said("Ana", 5)], [Fact((0,)), Fact((1,))])
    thread = _ValueLine(
        segments=(Segment("keemun", DAY, 2 * DAY, (201,)), Segment("assam", 2 * DAY, None, (202,)))
    )
    values, both, none = {"keemun": 1.0, "assam": 1.0}, frozenset(("keemun", "assam")), frozenset[str]()
    for attribute, choice, why in (
        (None, ValueChoice("Ana", values, both, none, none), "current: assam"),
        (None, ValueChoice("Ana", values, none, frozenset(("tea",)), both), "current, perhaps: assam"),
        ("tea", ValueChoice("Ana", values, none, frozenset(("tea",)), both), "current: assam"),
        ("tea", ValueChoice("Ana", values, none, frozenset(("gym",)), both), "current, perhaps: assam"),
        ("tea", ValueChoice("Ana", values, both, none, none), "current, perhaps: assam"),
        (None, ValueChoice("Ana", values, none, none, none), "current, perhaps: assam"),
    ):
        asked = QuestionPlan(kind="current", attribute=attribute)
        found = _of_thread(snapshot, choice, thread, asked, 9 * DAY)
        assert (found.why, found.sure) == (why, "perhaps" not in why)
