"""mem0's `Memory` in process: what the installed mem0 takes, ours takes, and what it returns has the same names."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from memforest import AsyncMemForest
from memforest.integrations.mem0 import AsyncMemory, Memory

theirs = pytest.importorskip("mem0")

VERBS = ("add", "search", "get", "get_all", "update", "delete", "delete_all", "history", "reset", "close")
WITHOUT = {"chat", "from_config", "project", "entity_store"}
"""Public names of theirs that are no verbs of a memory: `chat` is not made there either."""
PAIRS = [(Memory, theirs.Memory), (AsyncMemory, theirs.AsyncMemory)]


def parameters(function: Any) -> dict[str, Any]:
    """Return the parameters of a method behind self."""
    return dict(list(inspect.signature(function).parameters.items())[1:])


@pytest.mark.parametrize(("ours", "other"), PAIRS)
def test_nothing_of_theirs_is_missing(ours: Any, other: Any) -> None:
    """Every public name is a verb here, or is told to be none."""
    public = {name for name in vars(other) if not name.startswith("_")}
    assert public - WITHOUT == set(VERBS)
    assert set(VERBS) | {"from_config"} <= vars(ours).keys()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("ours", "other"), PAIRS)
def test_every_call_of_theirs_can_be_made(ours: Any, other: Any, verb: str) -> None:
    """Parameters in the same order with the same kind and default; `add` takes `llm` in both classes."""
    mine, wanted = parameters(getattr(ours, verb)), parameters(getattr(other, verb))
    assert [name for name in mine if name in wanted or name != "llm"] == list(wanted)
    for name, one in wanted.items():
        assert mine[name].kind == one.kind
        if type(one.default) is not object:  # a mark of theirs for what is not given
            assert mine[name].default == one.default
    assert inspect.iscoroutinefunction(getattr(ours, verb)) == inspect.iscoroutinefunction(
        getattr(other, verb)
    )


async def test_a_result_has_the_names_of_theirs(forest: AsyncMemForest) -> None:
    """Those of their `MemoryItem`, and of their history."""
    from mem0.configs.base import MemoryItem
    from mem0.memory.storage import SQLiteManager

    memory = AsyncMemory(forest=forest)
    [new] = (await memory.add("I live in Porto.", user_id="bob"))["results"]
    [found] = (await memory.search("Where does bob live?", filters={"user_id": "bob"}))["results"]
    assert MemoryItem(**found).id == new["id"]
    assert MemoryItem.model_fields.keys() | {"user_id", "actor_id"} <= found.keys()
    history = SQLiteManager()
    history.add_history("1", None, "x", "ADD", created_at="2024-05-01")
    [row], [told] = history.get_history("1"), await memory.history(new["id"])
    assert row.keys() <= told.keys()
    assert {name: type(told[name]) for name in ("event", "is_deleted")} == {"event": str, "is_deleted": bool}


def test_their_config_is_read(tmp_path: Path) -> None:
    """An object of theirs has the meaning of the mapping that it was made from; what it filled in is not meant."""
    from mem0.configs.base import MemoryConfig

    given = {
        "llm": {"provider": "ollama", "config": {"model": "m"}},
        "history_db_path": str(tmp_path / "h.db"),
    }
    for one in (given, MemoryConfig(**given)):
        memory = Memory(one)
        assert memory.forest.directory == tmp_path / "memforest"
        assert memory.forest.config.chat.base_url == "http://localhost:11434/v1"  # type: ignore[union-attr]
        assert memory.ignored == ()
