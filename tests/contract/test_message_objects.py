"""`add` takes messages as the clients of models have them: mappings, objects of LangChain and OpenAI, pydantic models."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel

from memforest import Config, InputError, MemForest
from memforest.testing import HashEmbedder

NOON = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)


class LikeLangChain(BaseModel):
    """A message as LangChain's classes dump themselves."""

    content: str | list[Any]
    additional_kwargs: dict[str, Any] = {}
    response_metadata: dict[str, Any] = {}
    type: str
    name: str | None = None
    id: str | None = None
    example: bool = False


class Said(BaseModel):
    """A message of somebody's own application."""

    role: str
    content: str
    timestamp: datetime
    topic: str | None = None


@dataclasses.dataclass
class Line:
    """A message that is no model."""

    role: str
    content: str


def stored(folder: Path, content: Any, **options: Any) -> list[tuple[str | None, str, str]]:
    """Return role, speaker and text of the turns that come of a call of `add`."""
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        me = forest.user("ilka")
        me.add(content, session_id="s", **options)
        return [(turn.role, turn.speaker, turn.text) for turn in me.turns("s")]


MINE = ("user", "ilka", "My bicycle is green.")
THEIRS = ("assistant", "assistant", "Noted, a green bicycle.")


@pytest.mark.parametrize(
    "content",
    [
        [{"role": "user", "content": MINE[2]}, {"role": "assistant", "content": THEIRS[2]}],
        [
            LikeLangChain(type="human", content=MINE[2], additional_kwargs={"x": 1}),
            LikeLangChain(type="AIMessageChunk", content=[{"type": "text", "text": THEIRS[2]}]),
        ],
        [
            {"type": "human", "data": {"content": MINE[2], "type": "human"}},
            {"lc": 1, "type": "constructor", "id": ["schema", "AIMessage"], "kwargs": {"content": THEIRS[2]}},
        ],
        [{"type": "human", "content": MINE[2]}, {"type": "ai", "content": THEIRS[2]}],
        [{"role": "user", "content": MINE[2]}, ChatCompletionMessage(role="assistant", content=THEIRS[2])],
        [
            {"role": "user", "content": MINE[2]},
            ChatCompletionMessage(role="assistant", content=None, refusal=THEIRS[2]),
        ],
        [Line("user", MINE[2]), SimpleNamespace(type="ai", content=[SimpleNamespace(text=THEIRS[2])])],
        (Line("human", MINE[2]), {"role": "ai", "content": [{"type": "text", "text": THEIRS[2]}]}),
    ],
    ids=["mappings", "langchain", "langchain-files", "flat", "openai", "refusal", "attributes", "aliases"],
)
def test_each_shape_is_read_as_the_same_two_turns(tmp_path: Path, content: Any) -> None:
    """Whatever the class of a message is, its role and its text are what is stored."""
    assert stored(tmp_path, content) == [MINE, THEIRS]


def test_one_message_alone_needs_no_list(tmp_path: Path) -> None:
    """What a client has returned is given as it is."""
    reply = ChatCompletionMessage(role="assistant", content=THEIRS[2])
    assert stored(tmp_path, reply) == [THEIRS]


def test_what_an_object_tells_beside_its_text_is_kept(tmp_path: Path) -> None:
    """Its time and its own fields; nothing of what a client's class has for its own use."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        me = forest.user("ilka")
        me.add(Said(role="user", content=MINE[2], timestamp=NOON, topic="travel"), session_id="s")
        me.add(LikeLangChain(type="human", content="I sail.", name="Ilka", id="m7"), session_id="t")
        [said], [sails] = me.turns("s"), me.turns("t")
        assert (said.said, said.metadata) == (NOON, {"topic": "travel"})
        assert (sails.id, sails.speaker, dict(sails.metadata)) == ("m7", "Ilka", {})
        again = me.add(LikeLangChain(type="human", content="I sail.", name="Ilka", id="m7"), session_id="t")
        assert again.turns_added == 0


def test_whole_sessions_take_them_too(tmp_path: Path) -> None:
    """`ingest_session` and `ingest_parallel` read what `add` reads."""
    turns = [Said(role="user", content=MINE[2], timestamp=NOON)]
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        assert forest.ingest_session("ilka", "a", turns).turns_added == 1
        [done] = forest.ingest_parallel([{"user_id": "ilka", "session_id": "b", "turns": turns}])
        assert not isinstance(done, Exception)
        assert done.turns_added == 1


def test_an_object_is_known_again_by_its_key(tmp_path: Path) -> None:
    """A retry with an idempotency key is the same request, though the objects are others."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        me = forest.user("ilka")
        first = me.add([Line("user", MINE[2])], session_id="s", idempotency_key="k")
        again = me.add([Line("user", MINE[2])], session_id="s", idempotency_key="k")
        assert (first.replayed, again.replayed, len(me.turns("s"))) == (False, True, 1)


@pytest.mark.parametrize("thing", [7, None, object(), Line, [["user", "hello"]], b"hello"])
def test_what_is_no_message_is_refused_by_its_place(tmp_path: Path, thing: Any) -> None:
    """The error names the place and what a message is, and asks for no time: `add` needs none."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        with pytest.raises(InputError) as wrong:
            forest.user("ilka").add(thing)
        assert "turn 0" in str(wrong.value)
        assert "content" in str(wrong.value)
        assert "timestamp" not in str(wrong.value)
        assert not forest.has_user("ilka")


def test_a_message_that_only_calls_a_tool_is_named(tmp_path: Path) -> None:
    """It has nothing that was said; the others of its call are stored."""
    called = SimpleNamespace(
        type="ai", content="", tool_calls=[{"name": "weather", "args": {"city": "Ghent"}, "id": "c1"}]
    )
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        done = forest.user("ilka").add([Line("user", "Is it raining in Ghent?"), called])
        [refused] = done.refused
        assert (done.turns_added, refused.position) == (1, 1)
        assert "weather" in refused.reason
