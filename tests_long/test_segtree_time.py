"""Earlier moments and hidden statements in a memory that has the segtree index: nothing tells of what came later, or is hidden.

What a memory finds at a moment must be the same whatever came after it. Two memories tell that whose pasts are one, and in which
no leaf joins another, so that their trees have one shape, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, summaries

from memforest import MemForest
from memforest.memory.blocking import UserMemory
from memforest.models import HashEmbedder
from memforest.testing import FrozenClock

PAST = (
    ("I live in Davis.", "Davis is warm."),
    ("I bought a red car.", "What a car!"),
    ("We went to Lisbon.", "Lisbon was nice.", "I like tea."),
)
FUTURES = (
    ("Tea in Davis is a red car.", "Where does Ana live? In Davis!", "Davis, Lisbon, a car."),
    ("Zulu kappa.", "Omega rho sigma.", "Phi chi psi omega."),
)
"""What is said later: the first of it in the last exchange of the past."""
QUESTIONS = ("Where does Ana live?", "Who has a red car?", "tea in Lisbon")


def talk(day: int, *texts: str) -> list[dict[str, str]]:
    """Return turns of Ana and Bob by turns, a minute apart."""
    return [
        {"speaker": ("Ana", "Bob")[at % 2], "content": text, "timestamp": f"2023-05-{day:02}T10:{at:02}:00Z"}
        for at, text in enumerate(texts)
    ]


def living(folder: Path, future: Sequence[str], **settings: Any) -> MemForest:
    """Return a memory of the past and a future, the one stored a day after the other."""
    clock = FrozenClock("2024-06-01T00:00:00Z")
    own = {"segtree": {"tau": 1.0, "fall": 1.0, **settings}}
    config = fast_config(clock=clock, indexes=("segtree",), index_settings=own)
    forest = MemForest(folder, config)
    for day, texts in enumerate(PAST, 1):
        forest.ingest_session("u", f"s{day}", talk(day, *texts))
    clock.advance(days=1)
    later = {"speaker": "Bob", "content": future[0], "timestamp": "2023-05-03T10:05:00Z"}
    forest.user("u").add(later, session_id="s3")
    for day in (9, 10):
        forest.ingest_session("u", f"s{day}", talk(day, *future[1:]))
    return forest


def found(memory: UserMemory, **when: Any) -> list[Any]:
    """Return everything that is found and answered, with every score."""
    how: dict[str, Any] = {
        "top_k": 1000,
        "reference_date": "2025-01-01",
    }
    results = [memory.search(question, **how, **when) for question in QUESTIONS]
    pieces = [
        [
            (one.kind, one.text, one.quote, one.sources, one.said, one.end, round(one.score, 9))
            for one in result
        ]
        for result in results
    ]
    asked = [memory.ask(question, **how, **when).answer for question in QUESTIONS]
    return [*pieces, *(result.context() for result in results), *asked]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"expand": False},
        {"scorer": "cosine", "expand": False},
        {"scorer": "cosine", "leaf_vector": "text", "admissible": "all", "expand": False},
        {"propagate": "bottom-up", "expand": False},
        {"propagate": "none"},
    ],
)
def test_what_is_found_at_a_moment_does_not_depend_on_what_came_later(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Neither by a text, nor by a vector of one: evidence, order, scores, contexts and answers are the same."""
    moments = ({"known_at": "2024-06-01T12:00:00Z"}, {"said_by": "2023-05-03T10:03:00Z"})
    seen = []
    for number, future in enumerate(FUTURES):
        with living(tmp_path / str(number), future, **settings) as forest:
            memory = forest.user("u")
            seen.append([found(memory, **when) for when in moments])
            kinds = {one[0] for pieces in seen[-1][0][: len(QUESTIONS)] for one in pieces}
            assert ("memory" in kinds) != settings.get("expand", True)
    assert seen[0] == seen[1]


def test_a_stretch_is_evidence_only_if_all_of_it_was_so(tmp_path: Path) -> None:
    """At an instant by `as_of`, and within a window by `during`: no piece says what was said behind it."""
    with living(tmp_path, FUTURES[1], expand=False) as forest:
        memory = forest.user("u")
        for when in ({"as_of": "2023-05-03T10:03:00Z"}, {"during": ("2023-05-01", "2023-05-03T10:04:00Z")}):
            pieces = [one for question in QUESTIONS for one in memory.search(question, top_k=1000, **when)]
            assert any(one.kind == "memory" for one in pieces)
            later = [word for text in FUTURES[1] for word in text.rstrip(".").split()]
            if "as_of" in when:
                assert not [one.text for one in pieces if any(word in one.text for word in later)]
            assert not [one for one in pieces if one.kind != "memory" and one.said.day > 3]


class Heard(HashEmbedder):
    """An embedder that notes what it is told."""

    name = "heard-1"

    def __init__(self) -> None:
        super().__init__(32)
        self.told: list[str] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts."""
        self.told += texts
        return await super().embed(texts)


def texts_of(memory: UserMemory) -> list[str]:
    """Return what all that is found says."""
    return [one.text for question in QUESTIONS for one in memory.search(question, top_k=1000)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"leaf_vector": "text"},
        {"leaf_vector": "text", "placer": "cosine"},
    ],
)
@pytest.mark.parametrize("verb", ["forget", "update"])
def test_a_hidden_statement_is_in_no_summary_and_no_text_that_is_embedded_or_placed(
    tmp_path: Path, verb: str, settings: dict[str, Any]
) -> None:
    """From the correction on: neither by what is read for leaves that come, nor in what is shown; undone, all is as before."""
    heard = Heard()
    config = fast_config(embedder=heard, indexes=("segtree",), index_settings={"segtree": settings})
    with MemForest(tmp_path, config) as forest:
        for day, texts in enumerate(PAST, 1):
            forest.ingest_session("u", f"s{day}", talk(day, *texts))
        forest.flush()
        memory, path = forest.user("u"), file_of(tmp_path)
        memory.search("Who?")
        before = dump(path)["trees"]
        assert any("live in Davis" in text for text in texts_of(memory))
        fact = next(one.fact_id for one in memory.list() if "live in Davis" in one.text)
        heard.told.clear()
        made = memory.forget(fact) if verb == "forget" else memory.update(fact, "Ana lives in Oslo.")
        forest.ingest_session("u", "s4", talk(4, "I bought a boat.", "A boat!"))
        memory.rebuild(index="segtree")
        forest.flush()
        assert not [text for text in (*texts_of(memory), *heard.told) if "live in Davis" in text]
        assert not [text for text, _ in summaries(path).values() if "live in Davis" in (text or "")]
        memory.undo(made.key)
        memory.delete(session_id="s4")
        forest.flush()
        assert any("live in Davis" in text for text in texts_of(memory))
        assert dump(path)["trees"] == before
        assert memory.verify().ok
