"""One model of options for each verb: what it holds, what it refuses, and that every surface has its options under its names."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from memforest import AsyncMemForest, AsyncUserMemory, MemForest, UserMemory
from memforest.errors import InputError
from memforest.memory.verbs import options_of


def test_help_shows_every_option_with_its_default() -> None:
    """The blocking twin has the same signature; `ask` and `query` have the options of `search`."""
    search = inspect.signature(UserMemory.search).parameters
    assert search["top_k"].default is None
    assert search["explain"].default is False
    assert list(inspect.signature(UserMemory.ask).parameters) == list(search)
    assert list(inspect.signature(MemForest.query).parameters) == ["self", "user_id", *list(search)[1:]]


@pytest.mark.parametrize("kind", [AsyncUserMemory, AsyncMemForest])
def test_every_verb_has_a_model_of_its_options(kind: type) -> None:
    """Its fields are the arguments, with their defaults; a JSON Schema can be made of those that JSON can say."""
    for name, verb in vars(kind).items():
        if not name.startswith("_") and inspect.iscoroutinefunction(inspect.unwrap(verb)):
            fields = options_of(verb).model_fields
            parameters = [one for one in inspect.signature(verb).parameters.values() if one.name != "self"]
            assert list(fields) == [one.name for one in parameters], name
            for one in parameters:
                assert fields[one.name].is_required() is (one.default is one.empty), (name, one.name)
    schema = options_of(AsyncUserMemory.search).model_json_schema()
    assert schema["properties"]["top_k"]["description"].startswith("most evidence returned")


def test_a_wrong_option_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    """By the verb, the option and what to give; an unknown one with those that there are."""
    with MemForest(tmp_path / "memory") as forest:
        user = forest.user("ana")
        for wrong, said in (
            ({"top_k": 0}, r"search\(top_k=0\).*at least 1"),
            ({"explain": "no"}, r"explain.*True or False"),
            ({"nonsense": 1}, r"no option 'nonsense'.*top_k"),
            ({"mode": "fast"}, r"mode='fast'.*'emb'"),
            ({"budget": 3}, "budget=3.*Budget"),
        ):
            with pytest.raises(InputError, match=said):
                user.search("Where?", **wrong)
        assert forest.list_users() == []
    assert not (tmp_path / "memory").exists()


def test_tools_of_mcp_have_the_options_of_the_verbs() -> None:
    """Under the same names; `user` says whose memory, `query` is the question, as hosts expect."""
    pytest.importorskip("mcp")
    from memforest.server.mcp import tools

    own = {"ctx", "user", "query", "messages", "undo"}
    for tool, verb in (
        (tools.search_memory, AsyncUserMemory.search),
        (tools.ask_memory, AsyncUserMemory.ask),
        (tools.get_timeline, AsyncUserMemory.timeline),
        (tools.list_facts, AsyncUserMemory.list),
        (tools.list_sessions, AsyncUserMemory.sessions),
        (tools.browse_tree, AsyncUserMemory.tree),
        (tools.add_memory, AsyncUserMemory.add),
        (tools.correct_memory, AsyncUserMemory.update),
    ):
        assert set(inspect.signature(tool).parameters) - own <= set(options_of(verb).model_fields), tool


def test_commands_have_the_options_of_the_verbs() -> None:
    """Under the same names, in words of a command line; those of the program itself stand beside them."""
    from memforest.cli.app import COMMANDS, Root

    root = Root("memforest")
    context = root.make_context("memforest", ["stats"], resilient_parsing=True)
    own = {"name", "from_dir", "kind", "words", "target", "key"}
    for command, verb in (("search", "search"), ("ask", "ask"), ("facts", "list"), ("timeline", "timeline")):
        assert command in COMMANDS
        found = root.get_command(context, command)
        assert found is not None
        names = {one.name for one in found.params if one.name is not None}
        missing = {"as_of", "said_by", "known_at"} & set(
            options_of(getattr(AsyncUserMemory, verb)).model_fields
        ) - names
        assert not missing - own, (command, missing)
