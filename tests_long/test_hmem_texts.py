"""What memories of weeks, months and years say: who is asked and how often, and what is told no more when it is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tests_long import hmems
from tests_long.test_hmem_tree import TALK, said
from tests_long.worlds import differences, dump, file_of, summaries
from tests_long.writing_double import Writer

from memforest import Config, MemForest
from memforest.records import SummaryRequest

ALPHAS = (0.3, 0.2, 0.1)


def joined(folder: Path) -> int:
    """Return how many memories have more than one node below them, and so are to be told by somebody."""
    below = Counter((level, above) for (level, _), (above, _) in hmems.shape(folder).items() if level < 4)
    months = {level for level, _ in hmems.shape(folder)} - {4}
    return sum(count > 1 for (level, _), count in below.items() if level < max(months))


def configured(writer: Writer, **own: object) -> Config:
    """Return a configuration with a summariser that counts, and this index alone."""
    return hmems.configured({"schedule": ALPHAS, **own}, summariser=writer, refresh="path")


def test_one_call_for_each_memory_that_joins_several(tmp_path: Path) -> None:
    """One with a single node below says what that says, and nobody is asked; nor is anybody asked twice, also not by a rebuild."""
    writer = Writer()
    with MemForest(tmp_path, configured(writer)) as forest:
        forest.ingest_session("ana", "s0", said(0))
        memory = forest.user("ana")
        memory.flush()
        assert writer.counts() == {"memory": joined(tmp_path)}
        for session in (5, 2):
            forest.ingest_session("ana", f"s{session}", said(session))
        writer.counts()
        memory.flush()
        memory.advance()
        memory.rebuild(stale=True)
        assert not writer.counts()
        shape, told = hmems.sound(memory, tmp_path, alphas=ALPHAS), hmems.texts(tmp_path)
        assert told.keys() == {node for node in shape if 1 <= node[0] <= 3}
        assert joined(tmp_path) < len(told)


def test_a_request_says_what_time_it_is_of(tmp_path: Path) -> None:
    """A writer gets the texts below in order, the window's key, and how many words there may be."""
    writer = Writer()
    with MemForest(tmp_path, configured(writer, words=(30, 40, 50))) as forest:
        for session in (0, 1, 2, 5):
            forest.ingest_session("ana", f"s{session}", said(session))
    first = next(one for one in writer.asked if one.level == 1)
    assert (first.prompt, first.window, first.max_words) == ("memory", "2024-01/2024-W04", 30)
    assert list(first.inputs) == sorted(
        first.inputs, key=lambda text: [TALK[at][:9] in text for at in range(6)].index(True)
    )
    assert {(one.level, one.max_words) for one in writer.asked} == {(1, 30), (2, 40), (3, 50)}


def test_other_bounds_of_words_are_other_memories(tmp_path: Path) -> None:
    """What was told at another length is not taken for what is asked for now."""
    writer = Writer()
    with MemForest(tmp_path, configured(writer)) as forest:
        forest.ingest_session("ana", "s0", said(0))
        asked = len(writer.asked)
        forest.user("ana").add_index("flat")
        forest.user("ana").drop_index(hmems.NAME)
        forest.user("ana").add_index(hmems.NAME, {"schedule": ALPHAS, "words": (30, 40, 50)})
        forest.flush()
        assert {one.max_words for one in writer.asked[asked:]} == {30}
        assert len(writer.asked) == 2 * asked


@pytest.mark.parametrize("refresh", ["path", "lazy"])
def test_what_is_deleted_is_told_no_more(tmp_path: Path, refresh: str) -> None:
    """No memory has a word of what went, also of those that were to be told anew then."""
    with MemForest(tmp_path, hmems.configured({"schedule": ALPHAS}, refresh=refresh)) as forest:
        memory = forest.user("ana")
        forest.ingest_session("ana", "s0", said(0))
        forest.ingest_session("ana", "s1", said(1, ("The zanzibar parrot sings.", *TALK[1:3])))
        memory.flush()
        forest.ingest_session("ana", "s2", said(2))
        assert any("zanzibar" in text for text in hmems.texts(tmp_path).values())
        forest.delete_session("ana", "s1")
        assert not any("zanzibar" in text for text in hmems.texts(tmp_path).values())
        assert b"zanzibar" not in file_of(tmp_path).read_bytes()
        memory.flush()
        hmems.sound(memory, tmp_path, alphas=ALPHAS)


class Violins:
    """A summariser that says the same of everything."""

    name = "violins"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return a text for each request."""
        return ["I bought a violin in Ghent."] * len(requests)


@pytest.mark.parametrize("compare", ["founder", "text"])
def test_memories_are_compared_by_what_they_say_if_that_is_set(tmp_path: Path, compare: str) -> None:
    """A week about bicycles that is said to be about a violin is joined, in its month, by a week about a violin."""
    own = {"schedule": (0.3, 0.8, 0.8), "compare": compare}
    weeks = [
        (
            "2024-03-05",
            ["I bought a red bicycle at the market.", "I bought another red bicycle at the market."],
        ),
        ("2024-03-13", ["I bought a violin in Ghent."]),
    ]
    with MemForest(tmp_path, hmems.configured(own, summariser=Violins())) as forest:
        for day, lines in weeks:
            turns = [{"role": "user", "content": line} for line in lines]
            forest.ingest_session("ana", day, turns, timestamp=day)
        memory = forest.user("ana")
        memory.flush()
        assert memory.verify().ok
        hmems.live(memory, tmp_path)
    sizes = Counter(level for level, _ in hmems.shape(tmp_path))
    assert (sizes[1], sizes[2]) == (2, 1 if compare == "text" else 2)


@pytest.mark.parametrize("seed", range(3))
def test_trees_by_texts_are_those_of_what_is_left_whatever_came_when(tmp_path: Path, seed: int) -> None:
    """Sessions come in any order and one goes: the same trees and texts as in a memory that had the others in order."""
    own, random = {"schedule": (0.4, 0.3, 0.3), "compare": "text"}, Random(seed)
    for folder, order in (("a", random.sample(range(5), 5)), ("b", [0, 1, 3, 4])):
        with MemForest(tmp_path / folder, hmems.configured(own)) as forest:
            memory = forest.user("ana")
            for session in order:
                forest.ingest_session("ana", f"s{session}", said(session))
                if random.random() < 0.5:
                    memory.flush()
            if 2 in order:
                forest.delete_session("ana", "s2")
            memory.flush()
            assert memory.verify().ok
            hmems.live(memory, tmp_path / folder)
            assert {level for level, _ in hmems.shape(tmp_path / folder)} == set(range(5))
            told = summaries(file_of(tmp_path / folder))
            memory.rebuild(index=hmems.NAME)
            memory.flush()
            assert summaries(file_of(tmp_path / folder)) == told
    one, other = (file_of(tmp_path / folder) for folder in "ab")
    assert differences({"trees": dump(one)["trees"]}, {"trees": dump(other)["trees"]}) == {}
    assert summaries(one) == summaries(other)
