"""Every index keeps the same promises: the twelve checks that each of them has to pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import ANNA, INDEXES, KNOWN, NOW, fact, found_in_files, opened, said

from memforest import MemForest, UserMemory
from memforest.errors import ConfigError, NotFoundError
from memforest.testing import FrozenClock

QUESTIONS = (
    "Where does Anna live?",
    "Who works at Tannery Lane?",
    "What did Anna buy?",
    "What is the wifi password?",
)
SESSIONS = {
    name: [{"speaker": who, "timestamp": at, "content": text} for who, at, text in turns]
    for name, turns in ANNA.items()
}


def settings(index: str) -> dict[str, Any]:
    """Return the settings of a memory with one index; "flat" needs none of its own."""
    return {} if index == "flat" else {"indexes": (index,)}


def fill(forest: MemForest, clock: FrozenClock, order: tuple[str, ...] = ("march", "april", "may")) -> None:
    """Make Anna's memory."""
    forest.register_user("anna", display_name="Anna")
    for name in order:
        clock.set(KNOWN[name])
        forest.ingest_session("anna", name, SESSIONS[name])
    clock.set(NOW)


@pytest.fixture(scope="module", params=INDEXES)
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An index, and the directory of a memory with it; tests take copies."""
    folder, clock = tmp_path_factory.mktemp(f"index-{request.param}") / "grown", FrozenClock(NOW)
    with opened(folder, clock, **settings(request.param)) as forest:
        fill(forest, clock)
        written(forest)
    return request.param, folder


@pytest.fixture
def index(grown: tuple[str, Path]) -> str:
    """The name of the index."""
    return grown[0]


@pytest.fixture
def place(grown: tuple[str, Path], folder: Path) -> Path:
    """A copy of the directory."""
    return Path(shutil.copytree(grown[1], folder / "copy"))


@pytest.fixture
def memory(index: str, place: Path) -> Iterator[UserMemory]:
    """The memory in that copy."""
    with opened(place, **settings(index)) as forest:
        yield forest.user("anna")


def written(forest: MemForest) -> None:
    """Have all summaries made, also those that are not due."""
    forest.flush()
    forest.user("anna").advance(force=True)


def evidence(memory: UserMemory, index: str, **options: Any) -> list[list[tuple[Any, ...]]]:
    """Return what is found for each question: texts, kinds, scores and times."""
    return [
        [
            (one.text, one.quote, one.kind, round(one.score, 8), one.said, one.start, one.end, one.sources)
            for one in memory.search(question, index=index, top_k=30, **options)
        ]
        for question in QUESTIONS
    ]


def all_text(memory: UserMemory, index: str, **options: Any) -> str:
    """Return everything that is found for any of the questions, as text."""
    return "\n".join(f"{one[0]} {one[1]}" for found in evidence(memory, index, **options) for one in found)


def test_it_finds_what_answers(memory: UserMemory, index: str) -> None:
    """The turn that answers comes first, with its place and time, and the same again."""
    for question, quote in (
        ("Who works at Tannery Lane?", "Milo works at Tannery Lane."),
        ("Who is Anna's dentist?", "My dentist is Dr. Okafor."),
        ("What is the wifi password?", "The wifi password is marmalade77."),
    ):
        result = memory.search(question, index=index)
        assert result.evidence[0].quote == quote, question
        assert result.index == index
        assert memory.search(question, index=index).evidence == result.evidence


def test_it_survives_reopening(place: Path, index: str) -> None:
    """Closed and opened, it finds the same with the same scores."""
    found = []
    for _ in range(2):
        with opened(place, **settings(index)) as forest:
            found.append(evidence(forest.user("anna"), index))
    assert found[0] == found[1]


def test_it_is_whole(memory: UserMemory, index: str) -> None:
    """Verify finds nothing, and the memory has the index."""
    assert [str(one) for one in memory.verify()] == []
    assert index == "flat" or [one.name for one in memory.indexes()] == [index]


def test_it_equals_a_rebuild(memory: UserMemory, index: str) -> None:
    """Made anew from what is stored, it finds the same."""
    before = evidence(memory, index)
    memory.rebuild()
    memory.flush()
    memory.advance(force=True)
    assert evidence(memory, index) == before
    assert memory.verify().ok


def test_it_does_not_depend_on_the_order_of_writes(place: Path, folder: Path, index: str) -> None:
    """Sessions that come in another order make an equal memory."""
    clock = FrozenClock(NOW)
    with (
        opened(folder / "other", clock, **settings(index)) as forest,
        opened(place, **settings(index)) as straight,
    ):
        fill(forest, clock, ("may", "march", "april"))
        for one in (forest, straight):
            written(one)
        assert evidence(forest.user("anna"), index) == evidence(straight.user("anna"), index)


def test_a_deletion_leaves_nothing(memory: UserMemory, place: Path, index: str) -> None:
    """No summary and no leaf keeps a word of it; no file does."""
    for target, words in (
        ({"turn": ("april", memory.turns("april")[3].id)}, ["marmalade77", "wifi"]),
        ({"entity": "Milo"}, ["Milo", "ferrets", "Tannery", "harbour"]),
        ({"session_id": "april"}, ["Okafor", "Lille"]),
    ):
        memory.delete(**target)
        assert memory.verify(deleted=words).ok
        text = all_text(memory, index)
        memory.flush()
        memory.advance(force=True)
        assert [word for word in words if word in text or found_in_files(place, word)] == []
    assert memory.verify().ok


def test_what_is_hidden_is_in_no_evidence(memory: UserMemory, index: str) -> None:
    """A forgotten or corrected statement is in no leaf and no summary; undone, all is as before."""
    before = evidence(memory, index)
    keys = [
        memory.forget(fact(memory, "marmalade77").fact_id).key,
        memory.update(fact(memory, "Kestrel").fact_id, "Anna works at Harbour Press.").key,
    ]
    shown = "\n".join(one[0] for found in evidence(memory, index) for one in found)
    assert "marmalade77" not in shown
    assert "Kestrel" not in shown
    assert "Harbour Press" in shown
    assert memory.verify().ok
    for key in reversed(keys):
        memory.undo(key)
    memory.flush()
    memory.advance(force=True)
    assert evidence(memory, index) == before


def test_it_tells_no_later_time(memory: UserMemory, index: str) -> None:
    """What was said, stored or so later is in no evidence of an earlier moment, summaries among it."""
    for when in ("said_by", "known_at", "as_of"):
        text = all_text(memory, index, **{when: "2024-04-01"})
        assert "Ghent" in text
        assert [word for word in ("Lille", "Kestrel", "dulcimer", "marmalade77") if word in text] == [], when


def test_it_goes_with_export_and_import(memory: UserMemory, folder: Path, index: str) -> None:
    """The import finds what the exported memory found."""
    memory.export(folder / "out.jsonl")
    with opened(folder / "in", **settings(index)) as forest:
        forest.user("anna").import_(folder / "out.jsonl")
        written(forest)
        assert evidence(forest.user("anna"), index) == evidence(memory, index)
        assert forest.user("anna").verify().ok


def test_it_can_be_added_later_and_dropped(folder: Path, memory: UserMemory, index: str) -> None:
    """A memory that gets it later equals one that had it from the start; without it, it cannot be searched by."""
    clock = FrozenClock(NOW)
    first = "segtree" if index != "segtree" else "memforest"
    with opened(folder / "late", clock, **settings(first)) as forest:
        fill(forest, clock)
        other = forest.user("anna")
        if index == "flat":
            with pytest.raises(ConfigError):
                other.drop_index(first)
            assert evidence(other, index) == evidence(memory, index)
            return
        other.add_index(index)
        written(forest)
        assert evidence(other, index) == evidence(memory, index)
        other.drop_index(index)
        with pytest.raises((NotFoundError, ConfigError)):
            other.search("Where?", index=index)
        assert other.verify().ok


def test_it_works_from_the_first_turn_on(folder: Path, index: str) -> None:
    """Of nothing it finds nothing, of one turn that one, of a turn without words no error."""
    with opened(folder / "small", **settings(index)) as forest:
        forest.register_user("anna", display_name="Anna")
        memory = forest.user("anna")
        assert not memory.search("Where?", index=index)
        memory.add(said("🙂"), session_id="s0")
        memory.add(said("I own a kiln."), session_id="s")
        assert memory.search("Who owns a kiln?", index=index).evidence[0].quote == "I own a kiln."
        memory.delete(session_id="s")
        memory.delete(session_id="s0")
        assert not memory.search("kiln", index=index)
        assert memory.verify().ok


def test_scores_are_the_sums_of_their_parts(memory: UserMemory, index: str) -> None:
    """Explained or not, the result is the same, and every part has a name."""
    plain = memory.search("Who works at Tannery Lane?", index=index)
    told = memory.search("Who works at Tannery Lane?", index=index, explain=True)
    assert [(one.text, one.score) for one in told] == [(one.text, one.score) for one in plain]
    for one in plain:
        assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-6)


def test_a_life_leaves_it_whole(place: Path, index: str) -> None:
    """Late turns, replacement, corrections, deletions, a merge: verify finds nothing, and it equals a rebuild."""
    steps: list[Callable[[MemForest], Any]] = [
        lambda f: f.user("anna").add(
            said("I own a kiln.", start="2024-05-25T10:00:00+00:00"), session_id="late"
        ),
        lambda f: f.ingest_session("anna", "march", SESSIONS["march"][1:], replace=True),
        lambda f: f.user("anna").forget(fact(f.user("anna"), "dentist").fact_id),
        lambda f: f.user("anna").delete(during=("2024-05-20T07:31:00Z", "2024-05-20T07:32:00Z")),
        lambda f: f.ingest_session("ben", "s", said("I live in Porto.", speaker="Ben")),
        lambda f: f.user("anna").merge("ben"),
    ]
    with opened(place, **settings(index)) as forest:
        memory = forest.user("anna")
        for step in steps:
            step(forest)
            assert memory.verify().ok
        written(forest)
        before = evidence(memory, index)
        memory.rebuild()
        written(forest)
        assert evidence(memory, index) == before
