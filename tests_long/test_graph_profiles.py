"""Profiles that the graph tells: of whatever is named, in any memory, beside those that an index keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.known_people import WHO, remembered

from memforest import Budget, Config, ConfigError, InputError, MemForest, NotFoundError, UserMemory
from memforest.read.profiles import Profile
from memforest.testing import FunctionChat, ScriptedChat


@pytest.fixture(name="forest")
def _forest(folder: Path) -> Iterator[MemForest]:
    with remembered(folder) as forest:
        yield forest


@pytest.fixture(name="memory")
def _memory(forest: MemForest) -> UserMemory:
    return forest.user(WHO)


def lines(found: Profile, kind: str) -> list[str]:
    """Return the texts of one kind of lines."""
    return [line.text for section in found for line in section if line.kind == kind]


def test_a_name_that_never_spoke_has_a_profile(memory: UserMemory) -> None:
    """By any of its names: what is so, and what was said last; each line with a source and its words."""
    found = memory.profile("lucia")
    assert (found.month, found.start, found.maker) == (None, None, "graph")
    assert [one.participant for one in found] == ["Lucía"]
    assert any("Orrin Labs" in text for text in lines(found, "state"))
    assert any("Kyoto" in text for text in lines(found, "fact"))
    for line in found.sections[0]:
        assert line.sources
        assert line.quotes
        assert line.fact_ids
    assert "Lucía (" in repr(found)


def test_it_tells_what_was_so_at_a_time(memory: UserMemory) -> None:
    """Nothing that was said later, and no value that began later."""
    now, then = memory.profile("Mara"), memory.profile("Mara", as_of="2024-02-10")
    assert any("Lisbon" in text for text in lines(now, "state"))
    assert any("Porto" in text for text in lines(then, "state"))
    assert not any("Lisbon" in line.text for line in then.sections[0])
    said = memory.profile("Mara", said_by="2024-02-10")
    assert not any("Lisbon" in line.text for line in said.sections[0])
    with pytest.raises(NotFoundError):
        memory.profile("Rex", as_of="2024-02-10")


def test_without_a_name_it_tells_of_those_who_speak(memory: UserMemory) -> None:
    """The most named first."""
    assert [one.participant for one in memory.profile()] == ["Mara", "Iven"]


def test_an_unknown_name_is_answered_with_near_ones(memory: UserMemory) -> None:
    """As everywhere in the graph."""
    with pytest.raises(NotFoundError):
        memory.profile("Marra")


def test_an_index_that_keeps_profiles_comes_first(folder: Path) -> None:
    """Of who speaks it tells by the month; of all others, and where that is asked for, the graph does."""
    with remembered(folder, Config(embedder="hash-words-1@64", indexes=["timem"])) as forest:
        memory = forest.user(WHO)
        kept = memory.profile("Mara", as_of="2024-04-15")
        assert (kept.month, kept.maker == "graph") == ("2024-03", False)
        assert memory.profile("Mara", as_of="2024-04-15", index="timem") == kept
        told = memory.profile("Mara", as_of="2024-04-15", index="graph")
        assert (told.month, told.maker) == (None, "graph")
        assert memory.profile("Lucía").maker == "graph"
        with pytest.raises(NotFoundError):
            memory.profile("Lucía", index="timem")
        with pytest.raises(NotFoundError):
            memory.profile("Marra")


def test_an_index_that_keeps_none_is_named(memory: UserMemory) -> None:
    """One that keeps none, one that the memory does not have, and one that there is not."""
    with pytest.raises(NotFoundError):
        memory.profile("Mara", index="memforest")
    with pytest.raises(NotFoundError, match="timem"):
        memory.profile("Mara", index="timem")
    with pytest.raises(ConfigError):
        memory.profile("Mara", index="nosuch")


def test_who_only_speaks_has_no_line(folder: Path) -> None:
    """The profile is empty and false, and says why."""
    with MemForest(folder, Config(embedder=None)) as forest:
        turns = [{"speaker": "Mara", "content": "Good morning!", "timestamp": "2024-01-05"}]
        forest.ingest_session("u", "s", turns)
        found = forest.user("u").profile("Mara")
        assert (bool(found), found.warnings) == (False, ("no statement tells of 'Mara'",))
        assert forest.user("u").profile().warnings == ("no statement tells of anybody",)
        assert [(one.name, one.supports) for one in forest.user("u").entities()] == [("Mara", 0)]


def test_what_is_said_of_oneself_is_told(folder: Path) -> None:
    """As it was said, and nothing else that was said by them."""
    with MemForest(folder, Config(embedder=None)) as forest:
        own, other = "I bought a red bicycle.", "Lena broke her leg."
        turn = {"speaker": "Mara", "content": f"{own} {other}", "timestamp": "2024-01-05"}
        forest.ingest_session("u", "s", [turn])
        [told] = lines(forest.user("u").profile("Mara"), "fact")
        assert own in told
        assert other not in told
        [told] = lines(forest.user("u").profile("Lena"), "fact")
        assert other in told


def test_what_is_forgotten_is_not_told(memory: UserMemory) -> None:
    """Neither as a line nor as a quote."""
    before = memory.profile("Rex")
    for fact in memory.list(entity="Rex"):
        memory.forget(fact.fact_id)
    assert any("Rex" in text for text in lines(before, "fact"))
    with pytest.raises(NotFoundError):
        memory.profile("Rex")
    assert not any("Rex" in line.text for line in memory.profile("Mara").sections[0])


def asking(chat: FunctionChat | ScriptedChat) -> Config:
    """Return a configuration in which the model writes, and nothing else."""
    return Config(embedder=None, chat=chat, chat_steps=["summarise"], refresh="lazy")


def test_a_model_writes_what_the_graph_tells(folder: Path) -> None:
    """One call for one name; each line has the sources of the lines it was made of, and what it cost is kept."""
    chat = FunctionChat(local_reply, model_id="double")
    with remembered(folder, asking(chat)) as forest:
        memory = forest.user(WHO)
        before = len(chat.requests)
        found = memory.profile("lucia", written=True)
        assert len(chat.requests) == before + 1
        assert found.maker == "hmem_profile@1:double"
        told = memory.profile("lucia")
        assert {line.kind for line in found.sections[0]} == {"written"}
        pairs = {
            (one.session_id, turn)
            for line in told.sections[0]
            for one in line.sources
            for turn in one.turn_ids
        }
        for line in found.sections[0]:
            assert line.quotes
            assert line.fact_ids
            assert {(one.session_id, turn) for one in line.sources for turn in one.turn_ids} <= pairs
        assert "profile" in memory.stats().spent
        assert memory.profile("Lucía").maker == "graph"
        assert len(chat.requests) == before + 1


def test_where_the_model_fails_the_graph_has_told(folder: Path) -> None:
    """A reply that makes something up is sent back once; then the lines stay as they were. So with a budget of no call."""
    invented = '{"lasting":[{"text":"Lucía owns 40 ships in Bergen.","sources":[1]}],"recent":[]}'
    chat = ScriptedChat([invented, invented])
    with remembered(folder, asking(chat)) as forest:
        memory = forest.user(WHO)
        told = memory.profile("Lucía")
        found = memory.profile("Lucía", written=True)
        assert (found.sections, found.maker, chat.left) == (told.sections, "graph", 0)
        assert "is not written by the model" in found.warnings[0]
        spared = memory.profile("Lucía", written=True, budget=Budget(max_calls=0))
        assert (spared.sections, len(spared.warnings)) == (told.sections, 1)


def test_without_a_model_nothing_is_written(memory: UserMemory) -> None:
    """That is an error, as it was asked for; so is writing of nobody, or of what an index keeps."""
    with pytest.raises(ConfigError):
        memory.profile("Lucía", written=True)
    for wrong in ({}, {"participant": "Mara", "index": "timem"}):
        with pytest.raises(InputError, match="written=True"):
            memory.profile(**wrong, written=True)  # type: ignore[arg-type]  # that is what is tried
    with pytest.raises(NotFoundError):
        memory.profile("Marra", written=True)
