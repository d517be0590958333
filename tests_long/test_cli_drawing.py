"""How results are drawn: each kind on a terminal, and as records; every part that is there is said, and no other."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.table import each

from memforest.cli.asking import draw_answer, draw_evidence
from memforest.cli.ingest import draw_memories
from memforest.cli.inspecting import draw_trees
from memforest.cli.listing import draw_timeline
from memforest.cli.screen import Screen, draw_facts
from memforest.read.receipts import ImportedMemory
from memforest.read.results import AskResult, Evidence, QueryResult, Usage
from memforest.read.stored import FactView, Source, TimelineEntry, TreeView
from memforest.records import QuestionPlan, SpokenText

UTC = timezone.utc
MARCH = datetime(2024, 3, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
WHERE = (Source("trip", ("1", "2")),)
FACT = FactView(
    "f1:ab", "Ana lives in Oslo.", "Ana", MARCH, MARCH, None, "day", False, ("Ana",), (), WHERE, ("Ana lives in Oslo.",), MARCH
)  # fmt: skip
PIECE = Evidence(
    "Ana lives in Oslo.", "I live in Oslo.", "Ana", "fact", 1.25, {"dense": 1.0, "browse": -0.5, "lexical": 0.75},
    MARCH, MARCH, None, WHERE,
)  # fmt: skip
SUMMARY = replace(
    PIECE, kind="memory", text="A week in Oslo.", quote="", speaker="", end=MARCH + 6 * DAY, level=2, window="2024-W10", turns=7
)  # fmt: skip


def laid_out(draw: Callable[[Screen], None], width: int = 80) -> str:
    """Return what is drawn on a terminal of so many columns."""
    out = io.StringIO()
    draw(Screen(UTC, Console(file=out, width=width, markup=False, emoji=False), laid_out=True))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


@pytest.fixture
def records(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[Screen], None]], list[list[str]]]:
    """Return what is drawn into a pipe: the columns of each line."""

    def drawn(draw: Callable[[Screen], None]) -> list[list[str]]:
        draw(Screen(laid_out=False))
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    return drawn


Records = Callable[[Callable[[Screen], None]], list[list[str]]]


PAIR = (SpokenText("Eva", "Still in Oslo?"), SpokenText("Ana", "Yes."))
QUOTED_FACT = replace(FACT, text="Still in Oslo? – Yes.", statement="Ana lives in Oslo.", spoken=PAIR)
QUOTED_PIECE = replace(PIECE, text="Yes.", statement="Ana lives in Oslo.", spoken=PAIR[1:])


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (partial(draw_facts, found=[QUOTED_FACT]), 'Eva: "Still in Oslo?" – Ana: "Yes."'),
        (partial(draw_evidence, evidence=[QUOTED_PIECE]), '"Yes."'),
    ],
)
def test_what_was_said_stands_in_quotation_marks(records: Records, draw: Any, words: str) -> None:
    """With the speakers of a question and its answer; the statement on request alone, in a pipe a column of its own."""
    shown, asked = laid_out(draw), laid_out(partial(draw, statements=True))
    assert words in shown
    assert "Ana lives" not in shown
    assert "statement: Ana lives in Oslo." in asked
    assert [len(row) for row in records(draw)] == [6]
    assert [row[6:] for row in records(partial(draw, statements=True))] == [["Ana lives in Oslo."]]


def test_a_fact_is_its_day_its_text_and_its_origin() -> None:
    """What is not so is not said: no end, no successor, no second wording."""
    assert laid_out(lambda screen: draw_facts(screen, [FACT])) == (
        "2024-03-01  Ana lives in Oslo.\n            Ana · trip #1, #2"
    )


@each(
    ("changed", "said"),
    [
        ({"end": MARCH + 3 * DAY}, "until 2024-03-04"),
        ({"superseded_by": "Rome"}, "then Rome"),
        ({"wordings": ("a", "b")}, "2 wordings"),
        ({"end": MARCH + 3 * DAY, "superseded_by": "Rome"}, "until 2024-03-04 · then Rome"),
    ],
)
def test_a_fact_says_what_became_of_it(changed: dict[str, Any], said: str) -> None:
    """Its last day where that is another one, the value that took its place, and how many wordings it has."""
    shown = laid_out(lambda screen: draw_facts(screen, [replace(FACT, **changed)]))
    assert shown.endswith(f"Ana · trip #1, #2 · {said}")


def test_a_fact_of_one_day_has_no_until() -> None:
    """Its end is the end of that day."""
    one_day = replace(FACT, start=MARCH, end=MARCH + DAY - timedelta(hours=9))
    assert "until" not in laid_out(lambda screen: draw_facts(screen, [one_day]))


def test_a_fact_as_a_record_has_six_columns(records: Records) -> None:
    """First and last day, text, speaker, all its turns, and its id; nothing is cut."""
    long = replace(FACT, text="word " * 200, sources=tuple(Source(f"s{n}", ("1",)) for n in range(5)))
    open_, ended = records(lambda screen: draw_facts(screen, [long, replace(FACT, end=MARCH + 2 * DAY)]))
    assert open_ == [
        "2024-03-01", "", ("word " * 200).strip(), "Ana", "s0 #1; s1 #1; s2 #1; s3 #1; s4 #1", "f1:ab"]  # fmt: skip
    assert ended[:2] == ["2024-03-01", "2024-03-03"]


def test_nothing_is_drawn_of_nothing(records: Records) -> None:
    """No empty table, no blank line."""
    for draw in (draw_facts, draw_timeline, draw_evidence):
        assert laid_out(lambda screen, draw=draw: draw(screen, [])) == ""  # type: ignore[misc]
        assert records(lambda screen, draw=draw: draw(screen, [])) == []  # type: ignore[misc]


STATE = TimelineEntry(
    "state", "Ana lives in Oslo.", MARCH, MARCH + 30 * DAY, "residence", "Oslo", (Source("trip", ("1",)),)
)
EVENT = TimelineEntry("event", "Ana sold her boat.", MARCH + DAY, None, sources=(Source("trip", ("4",)),))


def test_states_have_intervals_and_events_days() -> None:
    """A state is its value and its attribute, with what said so; an event is what was said, and where."""
    state, text, event = laid_out(lambda screen: draw_timeline(screen, [STATE, EVENT])).splitlines()
    assert state.split("  ") == ["2024-03-01 to 2024-03-31", "residence", "Oslo"]
    assert text.strip() == "Ana lives in Oslo."
    assert event.split() == ["2024-03-02", "Ana", "sold", "her", "boat.", "trip", "#4"]


def test_a_timeline_as_records_has_seven_columns(records: Records) -> None:
    """First and last day, kind, attribute, value, text, turns; what there is not leaves its column empty."""
    still = replace(STATE, end=None, value=None, start=None)
    assert records(lambda screen: draw_timeline(screen, [STATE, EVENT, still])) == [
        ["2024-03-01", "2024-03-31", "state", "residence", "Oslo", "Ana lives in Oslo.", "trip #1"],
        ["2024-03-02", "", "event", "", "", "Ana sold her boat.", "trip #4"],
        ["?", "", "state", "residence", "", "Ana lives in Oslo.", "trip #1"],
    ]


LEAF = TreeView("", MARCH, MARCH + timedelta(hours=1), 0, 1, "Ana lives in Oslo.", False)
TREES = [
    TreeView("session trip", MARCH, MARCH + 2 * DAY, 1, 2, "Two facts.", True, (LEAF, LEAF)),
    TreeView("entity Ana", MARCH, MARCH + 9 * DAY, 2, 1, "", False),
    TreeView("entity Bo", MARCH, MARCH + DAY, 0, 1, "s" * 200, False),
]


def test_trees_stand_under_their_kinds() -> None:
    """One heading for a kind; name, interval, leaves of inner nodes, what waits for a refresh, and a cut summary."""
    lines = laid_out(lambda screen: draw_trees(screen, "me: 3 trees", TREES), 200).splitlines()
    bare = [line.strip("│├└─ ") for line in lines]
    assert bare[:2] == ["me: 3 trees", "session trees"]
    assert bare[2] == "trip 2024-03-01 to 2024-03-03 · 2 leaves · summary out of date"
    assert bare[3:8] == ["Two facts."] + ["2024-03-01", "Ana lives in Oslo."] * 2
    assert bare[8:10] == ["entity trees", "Ana 2024-03-01 to 2024-03-10 · 1 leaf"]
    assert bare[10:] == ["Bo 2024-03-01 to 2024-03-02", "s" * 119 + "…"]


def test_an_unfolded_tree_says_its_summary_whole() -> None:
    """60 words fit; in a list it is cut."""
    told = " ".join(f"word{at}" for at in range(60))
    unfolded = replace(TREES[0], summary=told)
    assert told in laid_out(lambda screen: draw_trees(screen, "me", [unfolded]), 600)
    assert told not in laid_out(
        lambda screen: draw_trees(screen, "me", [replace(unfolded, children=())]), 600
    )


def test_a_tree_as_records_is_a_node_a_line(records: Records) -> None:
    """Depth, title, first and last day, leaves, summary, state; a node before what is beneath it."""
    assert records(lambda screen: draw_trees(screen, "unused", TREES[:1])) == [
        ["0", "session trip", "2024-03-01", "2024-03-03", "2", "Two facts.", "out of date"],
        ["1", "", "2024-03-01", "2024-03-01", "1", "Ana lives in Oslo.", ""],
        ["1", "", "2024-03-01", "2024-03-01", "1", "Ana lives in Oslo.", ""],
    ]


def test_evidence_is_numbered_and_says_where_it_is_from() -> None:
    """Numbers from 1; the day it was said, the text, the speaker and the turns."""
    shown = laid_out(lambda screen: draw_evidence(screen, [PIECE, replace(PIECE, kind="turn", text="Hm.")]))
    assert shown.splitlines() == [
        "[1] 2024-03-01 Ana lives in Oslo.",
        "               Ana · trip #1, #2",
        "[2] 2024-03-01 Hm.",
        "               Ana · trip #1, #2",
    ]


@each(
    ("changed", "said"),
    [
        ({"end": MARCH + 4 * DAY}, " · valid 2024-03-01 to 2024-03-05"),
        ({"start": MARCH - 9 * DAY}, " · valid since 2024-02-21"),
        ({"start": MARCH - timedelta(hours=2)}, ""),
        ({"kind": "turn", "start": MARCH - 9 * DAY}, ""),
    ],
)
def test_evidence_tells_its_valid_time_where_the_day_does_not(changed: dict[str, Any], said: str) -> None:
    """Of a fact with an end, or one that began on another day than it was said."""
    shown = laid_out(lambda screen: draw_evidence(screen, [replace(PIECE, **changed)]))
    assert shown.endswith(f"Ana · trip #1, #2{said}")


def test_a_summary_says_of_what_it_is(records: Records) -> None:
    """Nobody said it: turns, level, window and days stand in the place of a speaker."""
    about = "summary of 7 turns, level 2, 2024-W10, 2024-03-01 to 2024-03-07"
    assert f"{about} · trip #1, #2" in laid_out(lambda screen: draw_evidence(screen, [SUMMARY]), 120)
    (row,) = records(lambda screen: draw_evidence(screen, [SUMMARY]))
    assert row == ["[1]", "2024-03-01", "1.250", "A week in Oslo.", about, "trip #1, #2"]
    plain = replace(SUMMARY, window=None, turns=1)
    assert "summary of 1 turn, level 2, 2024-03-01 to" in laid_out(
        lambda screen: draw_evidence(screen, [plain])
    )


def test_explained_evidence_shows_the_larger_parts_first(records: Records) -> None:
    """By their size, whatever their sign; path and reason only where there are any."""
    parts = "score 1.250 = dense +1.00 lexical +0.75 browse -0.50"
    (row,) = records(lambda screen: draw_evidence(screen, [PIECE], explain=True))
    assert row[6:] == [parts]
    told = replace(PIECE, path=("session trip", "2024"), why="it is the last")
    (row,) = records(lambda screen: draw_evidence(screen, [told], explain=True))
    assert row[6:] == [f"{parts} path session trip > 2024 first because: it is the last"]
    (row,) = records(lambda screen: draw_evidence(screen, [told]))
    assert len(row) == 6


def answered(answer: str | None, *cited: Evidence, reason: str = "") -> AskResult:
    """Return the result of `ask`."""
    found = QueryResult("Where?", cited, QuestionPlan(), MARCH, "memforest", Usage())
    return AskResult("Where?", answer, cited, reason, found)


def test_an_abstention_is_its_reason_alone(records: Records) -> None:
    """On a terminal and in a pipe; no citation is shown."""
    nothing = answered(None, PIECE, reason="nobody said so")
    line = "Not known: nobody said so"
    assert laid_out(lambda screen: draw_answer(screen, nothing)) == line
    assert records(lambda screen: draw_answer(screen, nothing)) == [[line]]


def test_an_abstention_shows_what_came_nearest(records: Records) -> None:
    """As a quote with speaker and day, cleaned, and the reason behind it."""
    near = replace(PIECE, quote="I live\x1b[31m in Oslo.")
    nothing = replace(answered(None, reason="0.31 is too little"), nearest=near)
    lines = ['Not known. Nearest: "I live [31m in Oslo." - Ana, 1 March 2024', "(0.31 is too little)"]
    assert laid_out(lambda screen: draw_answer(screen, nothing)).splitlines() == lines
    assert records(lambda screen: draw_answer(screen, nothing)) == [[line] for line in lines]


def test_an_answer_has_the_numbers_of_its_citations(records: Records) -> None:
    """Behind it on a terminal; in a pipe the answer is a line by itself, and each citation one with its quote."""
    result = answered("In Oslo.", PIECE, replace(PIECE, quote="", text="Ana stays."))
    head, *rest = laid_out(lambda screen: draw_answer(screen, result)).splitlines()
    assert head == "In Oslo. [1][2]"
    assert rest[0] == '[1] 2024-03-01 "I live in Oslo."'
    answer, *cited = records(lambda screen: draw_answer(screen, result))
    assert answer == ["In Oslo."]
    assert [row[3] for row in cited] == ["I live in Oslo.", "Ana stays."]
    assert [row[0] for row in cited] == ["[1]", "[2]"]


@each(
    ("answer", "quoted"),
    [
        ("Ana said “I live in Oslo.”", False),
        ("Ana said «I live in Oslo.…»", False),
        ("Ana said “Oslo.”", True),
        ("Ana said “I live in Rome now.”", True),
    ],
)
def test_words_that_the_answer_quotes_are_not_quoted_again(answer: str, quoted: bool) -> None:
    """A passage of some length; the citation keeps its number and its origin."""
    shown = laid_out(lambda screen: draw_answer(screen, answered(answer, PIECE)))
    assert ('"I live in Oslo."' in shown) == quoted
    assert "Ana · trip #1, #2" in shown


def test_a_summary_that_is_cited_stands_without_marks() -> None:
    """It is nobody's words."""
    shown = laid_out(lambda screen: draw_answer(screen, answered("In Oslo.", SUMMARY)))
    assert "A week in Oslo." in shown
    assert '"' not in shown


def test_what_became_of_the_sessions_is_told_in_full() -> None:
    """Known, refused and failed things with their reasons; models and what the budget left."""
    loaded = ImportedMemory(
        "me", sessions_new=1, sessions_unchanged=2, sessions_failed=3, turns_added=4, turns_refused=5, facts_added=6, facts_merged=7,
        facts_superseded=8, skipped=Counter(question=2, chatter=1), failed_chunks=1, failure="no JSON", left_chunks=9, model_calls=1,
        model_tokens=10, model_failures=11, seconds=1.26, embedded=Counter(turn=3, fact=4), embedder="words", bytes=2048,
    )  # fmt: skip
    lines = laid_out(lambda screen: draw_memories(screen, [loaded], Path("memories")), 140).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "me: 1 session, 2 known already, 3 not stored",
        "turns 4 added in 1.3 s, 5 refused",
        "facts 6 added, 7 merged, 8 superseded",
        "no fact in 3 pieces: question 2, chatter 1",
        "failed 1 chunk (no JSON); their turns are stored, `memforest maintain resume` retries",
        "left 9 chunks: the budget is used up; `memforest maintain resume` goes on",
        "model 1 call, 10 tokens, 11 without a usable reply",
        "embedded 7 texts with words",
        "file 2.0 kB in memories",
    ]


def test_what_did_not_happen_is_not_told() -> None:
    """No line for failures, a budget or a model where there were none."""
    lines = laid_out(
        lambda screen: draw_memories(screen, [ImportedMemory("me", sessions_new=2)], Path("m"))
    ).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "me: 2 sessions",
        "turns 0 added in 0.0 s",
        "facts 0 added, 0 merged, 0 superseded",
        "no fact in 0 pieces",
        "embedded 0 texts with no model (searching by words only)",
        "file 0 B in m",
    ]
