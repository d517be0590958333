"""One model of options for each verb: what it holds, what it refuses, and that every surface has its options under its names."""

from __future__ import annotations

import inspect
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin, get_type_hints

import click
import pytest
from pydantic import Field

from memforest import AsyncMemForest, AsyncUserMemory, MemForest, UserMemory
from memforest.cli.app import main
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
    for name, verb in [one for part in kind.__mro__ for one in vars(part).items()]:
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
    """Under the same names, times with their descriptions; `user` says whose memory, `query` is the question, as hosts expect."""
    pytest.importorskip("mcp")
    from memforest.server.mcp import tools
    from memforest.server.mcp.server import Purpose, tool_of

    own = {"query", "content", "messages", "undo"}
    for tool, verb in (
        (tools.search_memory, AsyncUserMemory.search),
        (tools.ask_memory, AsyncUserMemory.ask),
        (tools.get_timeline, AsyncUserMemory.timeline),
        (tools.list_facts, AsyncUserMemory.list),
        (tools.list_sessions, AsyncUserMemory.sessions),
        (tools.browse_tree, AsyncUserMemory.tree),
        (tools.add_memory, AsyncUserMemory.add),
        (tools.correct_memory, AsyncUserMemory.update),
        (tools.remember, AsyncUserMemory.remember),
    ):
        listed = tool_of(Purpose(tool, ""), fixed=True).parameters["properties"]
        declared = options_of(verb).model_fields
        assert set(listed) - own <= set(declared), tool
        for name in set(listed) - own:
            _, iso, clause = listed[name].get("description", "").partition("ISO 8601; ")
            assert bool(iso) is ("datetime" in str(declared[name].annotation)), (tool, name)
            assert clause in (declared[name].description or ""), (tool, name)


def test_a_tool_of_mcp_takes_what_a_verb_declares() -> None:
    """Another type, range, default or description in the signature is another in the tool."""
    pytest.importorskip("mcp")
    from memforest.server.mcp import tools
    from memforest.server.mcp.server import Purpose, tool_of

    async def verb(
        when: datetime | None = None,
        *,
        span: tuple[datetime | str, datetime | str] | None = None,
        some: Annotated[int, Field(ge=3, le=9)] = 4,
        most: Optional[Annotated[int, Field(ge=2, le=9)]] = None,  # noqa: UP045
        name: str | None = None,
    ) -> None:
        """Do it.

        Args:
            when: the time; else now.
            span: [start, end). Times.
            some: how many.
            most: how many at most.
            name: of it.
        """

    @tools.takes(verb, "when", "span", "some", "name", most=Field(5, le=7))
    async def tool(*, user: str, **options: Any) -> str:
        """Do it."""
        return repr(options)

    made = tool_of(Purpose(tool, ""), fixed=True)
    assert made.parameters["properties"] == {
        "when": {"type": "string", "description": "ISO 8601; the time"},
        "span": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 2,
            "maxItems": 2,
            "description": "ISO 8601; [start, end)",
        },
        "some": {"type": "integer", "minimum": 3, "maximum": 9, "default": 4},
        "name": {"type": "string"},
        "most": {"type": "integer", "minimum": 2, "maximum": 7, "default": 5},
    }
    given = made.fn_metadata.validate_arguments({"when": "", "some": 3})
    assert given == {"when": None, "span": None, "some": 3, "name": None, "most": 5}
    for wrong in ({"some": 2}, {"most": 8}, {"span": ["2024"]}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            made.fn_metadata.validate_arguments(wrong)


LEFT_OUT = {
    "search": {"budget", "ranking"},
    "ask": {"budget", "ranking"},
    "timeline": {"limit", "cursor"},
    "sessions": set(),
    "facts": set(),
    "changes": set(),
    "diff": set(),
    "profile": {"budget"},
    "entities": set(),
    "relations": set(),
    "path": set(),
    "update": set(),
    "undo": set(),
    "history": set(),
    "merge-entities": set(),
    "split-entity": set(),
    "delete": set(),
    "tree": {"node"},
    "export": {"summaries", "target"},
    "backup": set(),
    "rebuild": {"budget", "embedder", "progress"},
    "advance": {"budget"},
    "merge": {"budget", "directory", "refresh"},
    "ingest": {"budget", "display_name", "file", "format", "infer", "on_progress", "on_session"},
}
"""Commands -> options of their verbs that they have in other words, or not at all."""
VERBS = {"facts": "list", "ingest": "import_file"}
"""Commands -> their verbs, where these have another name."""
TYPED = {
    "changes": "diff",
    "path": "relations",
    "merge-entities": "entities merge",
    "split-entity": "entities split",
    "rebuild": "maintain rebuild",
    "advance": "maintain advance",
}
"""Commands that are part of another, or of a group -> what is typed."""
NAMES = {
    ("profile", "participant"): "name",
    ("relations", "entity"): "name",
    ("changes", "since"): "a",
    ("changes", "until"): "b",
    ("path", "a"): "name",
    ("path", "b"): "other",
}
"""Arguments of verbs -> those of the command, where these have another name."""
OTHER_DEFAULTS = {
    ("facts", "limit"),  # what is printed is read by people
    ("changes", "limit"),
    ("entities", "limit"),
    ("tree", "depth"),  # by what is drawn
    ("path", "hops"),  # without another end there is no way
    ("path", "b"),
}


def kinds_of(hint: object) -> list[Any]:
    """Return the types that an argument may have, without None."""
    found = [hint] if get_origin(hint) not in (Union, UnionType) else list(get_args(hint))
    return [one for one in found if one is not NoneType]


def bounds_of(kind: Any) -> tuple[int | None, int | None]:
    """Return the least and the greatest number that a type allows."""
    low, high = None, None
    for one in getattr(kind, "__metadata__", ()):
        low, high = getattr(one, "ge", low), getattr(one, "le", high)
    return low, high


@pytest.mark.parametrize("command", sorted(LEFT_OUT))
def test_commands_have_the_options_of_the_verbs(command: str) -> None:
    """Under the same names, with the same types, ranges, choices and defaults."""
    context = click.Context(main)
    name, _, below = TYPED.get(command, command).partition(" ")
    shown = main.get_command(context, name)
    assert shown is not None
    if below:
        assert isinstance(shown, click.Group)
        shown = shown.commands[below]
    taken = {one.name: one for one in shown.params}
    verb = getattr(AsyncUserMemory, VERBS.get(command, command.replace("-", "_")))
    hints = get_type_hints(inspect.unwrap(getattr(verb, "__takes_options_of__", verb)), include_extras=True)
    arguments = {
        name: one
        for name, one in inspect.signature(verb).parameters.items()
        if name not in LEFT_OUT[command] | {"self"}
    }
    assert arguments
    assert LEFT_OUT[command] <= set(hints), "the verb has no such option"
    for name, argument in arguments.items():
        option = taken[NAMES.get((command, name), name)]
        [first, *others] = kinds_of(hints[name])
        if first is bool:
            assert isinstance(option, click.Option), name
            assert option.is_bool_flag, name
        elif get_origin(first) is Literal:
            assert isinstance(option.type, click.Choice), name
            assert tuple(option.type.choices) == get_args(first), name
        elif get_origin(first) is Annotated:
            assert isinstance(option.type, (click.IntRange, click.FloatRange)), name
            low, high = bounds_of(first)
            assert option.type.min == low, name
            assert high is None or option.type.max == high, name
        elif get_origin(first) is tuple:
            assert option.nargs == len(get_args(first)), name
        elif not others and first is not str:
            assert option.multiple, name
        if (command, name) not in OTHER_DEFAULTS and argument.default is not argument.empty:
            default = option.get_default(
                context
            )  # of none, each version of click says so in a way of its own
            found = default if isinstance(default, (int, str)) else None
            assert found == (None if argument.default == () else argument.default), name
        if (command, name) not in OTHER_DEFAULTS:
            assert option.required is (argument.default is argument.empty), name
