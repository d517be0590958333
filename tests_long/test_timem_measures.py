"""How calendar trees are measured: the space of their vectors, and what evidence tells of what answers a question."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

from calendar_tree.counts import Ways
from calendar_tree.manifold import (
    NEIGHBOURS,
    continuity,
    distances,
    drawn_dimension,
    intrinsic_dimension,
    manifold,
    projected,
    separation,
    silhouette,
    trustworthiness,
    users_of,
)
from calendar_tree.table import Table
from calendar_tree.told import LEAVES, MEASURES, Piece, Talked, pieces_of, talked, tellable, walk
from locomo.conversations import Conversation, Question
from memforest import Evidence
from memforest.importers import FileSession
from memforest.read.stored import Source
from memforest.text import count_tokens

Matrix = NDArray[np.float64]


def points(count: int, dimensions: int, seed: int = 1) -> Matrix:
    """Return random points."""
    return np.random.default_rng(seed).normal(size=(count, dimensions))


def test_distances_are_euclidean() -> None:
    """As the norm of the difference of every two rows, and exactly 0 of a row to itself."""
    rows = points(7, 3)
    wanted = [[float(np.linalg.norm(a - b)) for b in rows] for a in rows]
    assert distances(rows) == pytest.approx(np.array(wanted))
    assert (np.diag(distances(rows)) == 0).all()


def test_dimension_counts_the_directions_of_the_variance() -> None:
    """A plane in ten dimensions has two; a direction with little of the variance does not count; one point has none."""
    plane = points(50, 2) @ points(2, 10, seed=2)
    assert intrinsic_dimension(plane) == 2
    axes = np.diag([10.0, 10.0, 0.1])
    cross = np.vstack([axes, -axes])
    assert intrinsic_dimension(cross) == 2
    assert intrinsic_dimension(cross, 1.0) == 3
    assert intrinsic_dimension(np.ones((4, 3))) == 0


def test_few_rows_drawn_of_many_have_few_dimensions() -> None:
    """What a level of few memories is to be compared with."""
    rows = points(200, 30)
    assert intrinsic_dimension(rows) > 20
    assert drawn_dimension(rows, 6, seed=3) <= 5
    assert drawn_dimension(rows, 999, seed=3) == intrinsic_dimension(rows)


def test_silhouette_by_hand() -> None:
    """(b - a) / max(a, b), the mean of all; 0 for a user of one memory."""
    rows = np.array([[0.0], [1.0], [10.0], [12.0]])
    users = users_of([2, 2])
    wanted = [(11 - 1) / 11, (10 - 1) / 10, (9.5 - 2) / 9.5, (11.5 - 2) / 11.5]
    assert silhouette(distances(rows), users) == pytest.approx(np.mean(wanted))
    alone = silhouette(distances(rows[:3]), users_of([2, 1]))
    assert alone == pytest.approx(np.mean([(10 - 1) / 10, (9 - 1) / 9, 0.0]))
    assert silhouette(distances(np.zeros((4, 2))), users) == 0.0
    assert math.isnan(silhouette(distances(rows), users_of([4])))


def test_users_in_each_others_place_have_a_negative_silhouette() -> None:
    """Memories that are nearer to another user's."""
    rows = np.array([[0.0], [10.0], [0.1], [10.1]])
    assert silhouette(distances(rows), users_of([2, 2])) < -0.4


def test_separation_by_hand() -> None:
    """Mean distance of centroids over mean distance to the own one."""
    rows = np.array([[-1.0, 0], [1.0, 0], [-2.0, 8], [2.0, 8]])
    assert separation(rows, users_of([2, 2])) == pytest.approx(8 / 1.5)
    three = np.vstack([rows, [[0.0, 6.0]]])
    assert separation(three, users_of([2, 2, 1])) == pytest.approx(((8 + 6 + 2) / 3) / (6 / 5))
    assert separation(np.array([[0.0], [3.0]]), users_of([1, 1])) == math.inf
    assert math.isnan(separation(rows, users_of([4])))


def slow_trust(here: Matrix, there: Matrix, k: int) -> float:
    """Return the trustworthiness as it is defined, row by row."""
    count, lost = len(here), 0
    for at in range(count):
        others = [one for one in range(count) if one != at]
        rank = {one: place for place, one in enumerate(sorted(others, key=lambda x: here[at][x]), 1)}
        near = sorted(others, key=lambda x: there[at][x])[:k]
        lost += sum(rank[one] - k for one in near if rank[one] > k)
    return 1 - 2 * lost / (count * k * (2 * count - 3 * k - 1))


@each("seed", range(4))
def test_trustworthiness_is_as_defined(seed: int) -> None:
    """Equal to the definition on random points and their projection; continuity is that of the reverse."""
    rows = points(30, 8, seed)
    here, there = distances(rows), distances(projected(rows))
    assert trustworthiness(here, there) == pytest.approx(slow_trust(here, there, NEIGHBOURS))
    assert continuity(here, there) == pytest.approx(slow_trust(there, here, NEIGHBOURS))
    assert trustworthiness(here, there) != pytest.approx(continuity(here, there))


def test_a_plane_is_projected_as_it_is() -> None:
    """Nothing is lost of what has two dimensions, and much of what has twenty."""
    plane = points(40, 2) @ points(2, 20, seed=2)
    here = distances(plane)
    assert distances(projected(plane)) == pytest.approx(here, abs=1e-6)
    assert trustworthiness(here, distances(projected(plane))) == 1.0
    many = points(40, 20)
    assert trustworthiness(distances(many), distances(projected(many))) < 0.9


def test_too_few_memories_have_no_neighbours() -> None:
    """An error of the measure itself, and not a number in the table; one more than twice the neighbours is enough."""
    few = distances(points(2 * NEIGHBOURS, 3))
    with pytest.raises(ValueError, match="at most 4"):
        trustworthiness(few, few)
    measured = [manifold(points(n, 3), users_of([n // 2, n - n // 2])) for n in (10, 12)]
    assert [math.isnan(one.trustworthiness) for one in measured] == [True, False]
    assert [one.memories for one in measured] == [10, 12]


def test_users_that_stand_apart_are_told() -> None:
    """Directions: a tight group a user has a higher silhouette and separation than one cloud."""
    centres = np.repeat(10 * np.eye(3, 16), 8, axis=0)
    apart, cloud = (manifold(shift + points(24, 16), users_of([8, 8, 8])) for shift in (centres, 0 * centres))
    assert apart.silhouette > 0.3 > 0.1 > cloud.silhouette
    assert apart.separation > 2 > 1 > cloud.separation


LONG = "We painted the garden fence green yesterday."


def said_in(*texts: str, session: int = 1) -> FileSession:
    """Return a session."""
    turns = tuple(
        {"speaker": "AB"[at % 2], "dia_id": f"D{session}:{at}", "text": text} for at, text in enumerate(texts)
    )
    return FileSession(f"session_{session}", turns, "1:56 pm on 8 May, 2023")


def conversation(*sessions: FileSession, questions: int = 2) -> Conversation:
    """Return a conversation with questions."""
    asked = tuple(Question(f"what {at}?", 4, frozenset({"D1:0"})) for at in range(questions))
    return Conversation("c-1", sessions, asked)


def evidence(
    kind: Literal["fact", "turn", "memory"], *turns: str, text: str = "so it is", level: int | None = None
) -> Evidence:
    """Return a piece of evidence."""
    at = datetime(2023, 5, 8, tzinfo=timezone.utc)
    values: Mapping[str, Any] = {
        "quote": "" if kind == "memory" else text,
        "speaker": "" if kind == "memory" else "A",
        "level": level,
        "turns": len(turns) if kind == "memory" else None,
    }
    return Evidence(
        text=text, kind=kind, score=1.0, scores={}, said=at, start=at, end=at,
        sources=(Source("session_1", turns),), **values,
    )  # fmt: skip


SAID = Talked(
    {"a": tellable(LONG), "b": (), "c": tellable(f"{LONG} Bread and butter taste good."), "d": ()},
    {"a": 0, "b": 0, "c": 1, "d": 2},
)


def walked(pieces: list[Piece], gold: str) -> dict[str, float]:
    """Return the measures of pieces by their names."""
    return dict(zip(MEASURES, walk(pieces, frozenset(gold), SAID), strict=True))


def test_only_sentences_of_their_own_words_are_told() -> None:
    """Four words that are no function words, in one sentence."""
    found = tellable("Yes, I did! We painted   the garden fence green. Nice.")
    assert [one.text for one in found] == ["We painted the garden fence green."]
    assert found[0].words == {"paint", "garden", "fenc", "green"}
    assert tellable("It was the garden fence that we painted.") == []


def test_a_statement_tells_a_turn_by_its_words() -> None:
    """All of them in one sentence, whatever names and endings are between; it is not found by that."""
    told = walked([Piece(10, (), (), "Hm. Yesterday Ana painted her garden fences green.")], "a")
    assert (told["told"], told["told 256"], told["found"]) == (1.0, 1.0, 0.0)
    assert (
        walked([Piece(10, (), (), "Yesterday Ana painted her fence. The garden is green.")], "a")["told"]
        == 0.0
    )
    assert walked([Piece(10, ("a",), ("a",), "")], "a")["told"] == 1.0
    late = walked([Piece(300, (), (), "x"), Piece(10, (), (), LONG)], "a")
    assert [late[f"told {n}"] for n in (256, 512)] == [0.0, 1.0]


def test_a_turn_is_found_itself_or_by_a_sentence() -> None:
    """In a memory's text, a whole sentence; a turn in the text of another turn is not looked for."""
    memory = Piece(10, (), (), f"They talk. {LONG}")
    assert walked([memory], "a")["found"] == 1.0
    assert walked([memory], "ab")["found"] == 0.5
    assert walked([memory], "cd")["found"] == 0.5
    assert walked([Piece(10, (), (), LONG[:-2])], "a")["found"] == 0.0
    assert walked([Piece(10, ("b",), ("b",), "")], "ab")["found"] == 0.5


def test_budgets_end_with_what_does_not_fit() -> None:
    """Even if what is behind would fit; without a budget everything counts, with its tokens and pieces."""
    pieces = [
        Piece(200, ("a",), ("a",), ""),
        Piece(100, ("b",), ("b",), ""),
        Piece(20, ("c",), ("c",), ""),
        Piece(1800, ("d",), ("d",), ""),
    ]
    found = walked(pieces, "abcd")
    assert [found[f"found {n}"] for n in (256, 512, 1024, 2048)] == [0.25, 0.75, 0.75, 0.75]
    assert (found["found"], found["tokens"], found["pieces"]) == (1.0, 2120, 4)
    assert walked([Piece(256, ("a",), (), "")], "a")["found 256"] == 1.0
    assert walked([Piece(257, ("a",), (), "")], "a")["found 256"] == 0.0
    assert walked([], "a")["found"] == walked([], "a")["tokens"] == 0.0


def test_leaves_are_counted_by_segments() -> None:
    """A turn reaches all turns of its segment, only the first twenty segments count, and a higher memory is no leaf."""
    assert walked([Piece(10, ("a",), ("a",), "")], "ab")[MEASURES[0]] == 1.0
    assert walked([Piece(10, (), (), LONG)], "a")[MEASURES[0]] == 0.0
    said = Talked({}, {str(at): at for at in range(30)})
    pieces = [Piece(1, (str(at),), (str(at),), "") for at in range(30)]
    assert walk(pieces, frozenset({"19", "20"}), said)[0] == 0.5
    assert LEAVES == 20
    wide = [Piece(1, (), tuple(map(str, range(25))), "x")]
    assert walk(wide, frozenset({"19", "20"}), Talked({"19": (), "20": ()}, said.leaf))[0] == 0.5


def test_what_was_said_is_cut_into_segments() -> None:
    """By twos of a session, or more; captions of images are part of a turn."""
    talk = conversation(said_in("a", "b", "c"), said_in(LONG, "e", session=2))
    assert talked(talk).leaf == {"D1:0": 0, "D1:1": 0, "D1:2": 1, "D2:0": 2, "D2:1": 2}
    assert set(talked(talk, Ways(segment=2)).leaf.values()) == {0, 1}
    assert {turn: [one.text for one in own] for turn, own in talked(talk).sentences.items() if own} == {
        "D2:0": [LONG]
    }
    assert sum(Ways(segment=2).segments(n) for n in (3, 2)) == 2


def test_evidence_is_taken_as_it_is_shown() -> None:
    """A fact shows its first turn, a memory of a segment its turns as a leaf, and a higher one its text alone."""
    shown = [
        evidence("fact", "a", "c"),
        evidence("turn", "b"),
        evidence("memory", "a", "b", text=f"x\n{LONG}", level=0),
        evidence("memory", "a", "b", "c", text=LONG, level=1),
    ]
    pieces = pieces_of(shown)
    assert [one.turns for one in pieces] == [("a",), ("b",), (), ()]
    assert [one.leaf for one in pieces] == [("a",), ("b",), ("a", "b"), ()]
    assert [one.text for one in pieces] == ["", "", f"x {LONG}", LONG]
    assert [one.tokens for one in pieces] == [count_tokens(one.line(n)) + 1 for n, one in enumerate(shown, 1)]


def values(found: float, tokens: float = 100.0) -> list[float]:
    """Return the measures of a question."""
    return [tokens if name in ("tokens", "pieces") else found for name in MEASURES]


def filled() -> Table:
    """Return a table of two conversations, in one of which a way is better."""
    table = Table([conversation(questions=4), conversation(questions=4)], seed=7)
    for at in range(8):
        table.add("flat", values(0.5, 100.0 * (at + 1)))
        table.add("tree", values(1.0 if at < 4 else 0.25))
    return table


def test_means_are_in_percent_and_counts_are_not() -> None:
    """And percentiles are of counts."""
    table = filled()
    assert table.mean("tree", "found 512") == pytest.approx(62.5)
    assert table.mean("flat", "tokens") == 450
    assert table.percentile("flat", "tokens", 50) == 450
    assert table.names() == ["flat", "tree"]


def test_intervals_are_over_questions_and_over_conversations() -> None:
    """With two conversations that differ, whole conversations are less sure than questions; differences are paired."""
    gap = filled().gap("tree", "flat", "found 512")
    assert gap.mean == pytest.approx(12.5)
    assert gap.conversations == pytest.approx((-25.0, 50.0))
    assert -25.0 < gap.questions[0] < 12.5 < gap.questions[1] < 50.0
    assert filled().gap("flat", "flat", "found 512").questions == (0.0, 0.0)
    assert filled().spread("flat", "found").line() == "50.0 [50.0, 50.0] (50.0, 50.0)"
    assert gap.line("+").startswith("+12.5 [")


def test_a_way_in_which_not_all_was_asked_has_no_mean() -> None:
    """A share of the questions is not their mean."""
    table = Table([conversation(questions=2)], seed=7)
    table.add("half", values(1.0))
    with pytest.raises(ValueError, match="1 values for 2"):
        table.mean("half", "found")
