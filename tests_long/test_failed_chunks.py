"""A chunk on which the model fails: it is said, logged, and read by local rules until `resume` succeeds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import ChatServer, Fault, Schedule, local_reply, step_of

from memforest import ChatEndpoint, Config, MemForest
from memforest.ports import ChatReply, ChatRequest
from memforest.testing import FunctionChat, HashEmbedder

HOME, JOB = "I live in Ghent.", "I work at the harbour office."
TURNS = [
    {"role": "user", "content": HOME, "timestamp": "2026-02-01T09:00:00Z", "id": "home"},
    {"role": "user", "content": JOB, "timestamp": "2026-02-01T09:01:00Z", "id": "job"},
]


class Moody:
    """A model that fails while it is told to: its replies of the step "extract" are no JSON."""

    def __init__(self) -> None:
        self.down = True
        self.only: Callable[[ChatRequest], bool] = lambda _: True

    def __call__(self, request: ChatRequest) -> str | ChatReply:
        """Reply by local rules, or with nonsense."""
        if self.down and request.step in ("extract", "repair") and self.only(request):
            return "I would rather not say."
        return local_reply(request)


def config(chat: Any, **settings: Any) -> Config:
    """Return a configuration with a chat model and chunks of one turn."""
    return Config(embedder=HashEmbedder(), chat=chat, **{"chunk_turns": 1, **settings})


def failures(result: Any) -> list[str]:
    """Return the warnings that tell of chunks that were not read by the model."""
    return [one for one in result.warnings if "resume()" in one and "chunk" in one]


def facts(forest: MemForest) -> list[tuple[str, int]]:
    """Return what is known, each with how many sources say it."""
    return [(one.text, len(one.sources)) for one in forest.user("ilka").list()]


def test_a_failed_chunk_is_told_logged_and_read_by_local_rules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning and one line of log, which holds nothing of what was said; and the turns are found by what they say."""
    mood = Moody()
    with (
        MemForest(tmp_path, config(FunctionChat(mood))) as forest,
        caplog.at_level(logging.WARNING, "memforest"),
    ):
        me = forest.user("ilka")
        result = me.add(TURNS, session_id="s")
        assert (len(failures(result)), len(result.failed)) == (1, 2)
        [line] = [one for one in caplog.records if "extractor" in one.getMessage()]
        assert line.name.startswith("memforest")
        assert "Ghent" not in line.getMessage()
        assert [text for text, _ in facts(forest)] == [HOME, JOB]
        assert me.search("Where do I live?").evidence[0].quote == HOME
        assert me.ask("Where do I live?").result.evidence
        assert me.stats().failed_chunks == 2
        assert me.verify().ok


def test_what_the_model_reads_takes_the_place_of_what_rules_have_read(tmp_path: Path) -> None:
    """`resume` leaves the memory that the model makes at once; nothing is there twice, and no warning is left."""
    mood = Moody()
    with MemForest(tmp_path / "a", config(FunctionChat(mood))) as forest:
        me = forest.user("ilka")
        me.add(TURNS, session_id="s")
        mood.down = False
        [done] = forest.resume("ilka")
        assert (failures(done), done.failed) == ([], ())
        assert me.stats().failed_chunks == 0
        assert me.verify().ok
        with MemForest(tmp_path / "b", config(FunctionChat(local_reply))) as other:
            other.user("ilka").add(TURNS, session_id="s")
            assert facts(forest) == facts(other)
            one, two = me.stats(), other.user("ilka").stats()
            assert (one.facts, one.occurrences, one.makers["chunks"]) == (
                two.facts,
                two.occurrences,
                two.makers["chunks"],
            )
        assert forest.resume("ilka") == []


def test_a_resume_that_fails_again_doubles_nothing(tmp_path: Path) -> None:
    """What rules have read stays, and it is told again."""
    mood = Moody()
    with MemForest(tmp_path, config(FunctionChat(mood))) as forest:
        me = forest.user("ilka")
        me.add(TURNS, session_id="s")
        before = facts(forest)
        for _ in range(2):
            [done] = forest.resume("ilka")
            assert len(failures(done)) == 1
            assert facts(forest) == before
        assert me.stats().occurrences == 2
        assert me.verify().ok


def test_only_the_chunk_that_failed_is_read_by_rules(tmp_path: Path) -> None:
    """The other one is the model's."""
    mood = Moody()
    mood.only = lambda request: any("harbour" in one.content for one in request.messages)
    with MemForest(tmp_path, config(FunctionChat(mood))) as forest:
        result = forest.user("ilka").add(TURNS, session_id="s")
        assert [one.status for one in result.chunks] == ["extracted", "failed"]
        assert [text for text, _ in facts(forest)][1:] == [JOB]
        made = forest.user("ilka").stats().makers["chunks"]
        assert sorted(made.values()) == [1, 1]


def test_corrections_hold_over_what_the_model_reads_later(tmp_path: Path) -> None:
    """A statement that was corrected while rules had read it stays corrected."""
    mood = Moody()
    with MemForest(tmp_path, config(FunctionChat(mood))) as forest:
        me = forest.user("ilka")
        me.add(TURNS, session_id="s")
        [home] = [one for one in me.list() if one.text == HOME]
        me.update(home.fact_id, "Ilka lives in Bruges.")
        mood.down = False
        forest.resume("ilka")
        assert "Ilka lives in Bruges." in [one.statement for one in me.list()]
        assert me.verify().ok


@pytest.mark.parametrize(
    "fault", [Fault.status(503), Fault.empty(), Fault.malformed_json(), Fault.wrong_schema()]
)
def test_an_endpoint_that_fails_is_told_and_resumed(tmp_path: Path, fault: Fault) -> None:
    """Whatever goes wrong at the wire, a memory with a weak model knows no less than one without."""
    down = {"now": True}
    broken = Schedule.when(lambda body: down["now"] and step_of(body) in ("extract", "repair"), fault)
    with ChatServer(faults=broken) as server:
        endpoint = ChatEndpoint("double", base_url=server.url, max_retries=0)
        with MemForest(tmp_path, config(endpoint)) as forest:
            result = forest.user("ilka").add(TURNS, session_id="s")
            assert len(failures(result)) == 1
            assert [text for text, _ in facts(forest)] == [HOME, JOB]
            down["now"] = False
            assert not failures(forest.resume("ilka")[0])
            assert [sources for _, sources in facts(forest)] == [1, 1]
            assert forest.user("ilka").verify().ok
