"""A value of the wrong type is refused where it is written, by an error that says what to write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import WEIGHTS

from memforest import (
    Budget,
    ChatEndpoint,
    Config,
    ConfigError,
    EmbeddingEndpoint,
    InputError,
    MemForest,
    Ranking,
    UserMemory,
)
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import options_of
from memforest.models import HashEmbedder
from memforest.reading.extract_local import LocalExtractor

TURNS = [{"speaker": "Ann", "text": "I live in Porto.", "timestamp": "2024-01-01"}]
WRONG: tuple[Any, ...] = (
    *(0, -1, 1.5, True, -(10**5000), float("nan"), float("inf"), "", "many", b"x", None, object(), int),
    *([], ["x"], {}, {"a": 1}, (), Path("x"), len, Config, ChatEndpoint, Budget(), Ranking()),
)
"""Values of many kinds; each field below takes some of them."""
RIGHT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("embedder", "reranker"), lambda value: value is None or isinstance(value, str) or value is len
    ),
    **dict.fromkeys(("extractor", "summariser", "planner", "answerer", "chat"), lambda value: value is None),
    "indexes": lambda value: value == ["x"],
    "index_settings": lambda value: value == {},
    "chat_steps": lambda value: value in ([], ()),
    "max_cache_mb": lambda value: value == 0,
    "browse_calls": lambda value: value == 0,
    "day_first": lambda value: value is None or value is True,
    "answer_threshold": lambda value: value is None or value == 0 or value == 1,
    "min_relevance": lambda value: value == 0 or value == 1,
    "busy_timeout_s": lambda value: value in (0, 1.5),
    "advance_every_s": lambda value: value in (0, 1.5),
    "mode": lambda value: value is None,
    "refresh": lambda value: value is None,
    "summary_words": lambda value: value is None,
    "ranking": lambda value: isinstance(value, Ranking),
    "ingest_budget": lambda value: isinstance(value, Budget),
    "query_budget": lambda value: isinstance(value, Budget),
    "clock": lambda value: value is len,
    **dict.fromkeys(("redact", "redact_turn"), lambda value: value is None or value is len),
    "redact_patterns": lambda value: value in ([], ()),
    "trace": lambda value: value is None or isinstance(value, (str, Path)),
    "key": lambda value: value is None or value is len,
    "retention": lambda value: value is None,
}
"""Field of `Config` -> which of these it takes; the others take none."""


def is_plain(value: Any) -> bool:
    """Return whether it can be compared without surprise: True equals 1, and nan nothing."""
    return not isinstance(value, bool)


@each("name", [one.name for one in fields(Config)])
def test_a_configuration_refuses_wrong_values(name: str) -> None:
    """Every field with every value: either it is one that the field takes, or the message names the field."""
    for value in WRONG:
        if (is_plain(value) or name == "day_first") and RIGHT.get(name, lambda _: False)(value):
            Config(**{name: value})
            continue
        with pytest.raises(ConfigError, match=name):
            Config(**{name: value})


@each("name", WEIGHTS)
def test_a_weight_is_a_finite_number(name: str) -> None:
    """A whole number will do."""
    one: dict[str, Any] = {name: 1}
    assert getattr(Ranking(**one), name) == 1
    for value in WRONG:
        if not is_plain(value) or not isinstance(value, (int, float)) or value not in (0, -1, 1.5):
            with pytest.raises(
                ConfigError, match=rf"Ranking\({name}=\.\.\.\) should be a (valid|finite) number"
            ):
                Ranking(**{name: value})


@each(
    ("write", "fix"),
    [
        (lambda: Config(chat="gpt-4o"), "write Config(chat=ChatEndpoint(model='gpt-4o'))"),  # type: ignore[arg-type]
        (lambda: Config(chat={"model": "gpt-4o"}), "write Config(chat=ChatEndpoint(model='gpt-4o'))"),  # type: ignore[arg-type]
        (lambda: Config(extractor="llm"), "Config(chat=ChatEndpoint(model='llm'), chat_steps=['extract'])"),  # type: ignore[arg-type]
        (lambda: Config(extractor=LocalExtractor), "write LocalExtractor(...)"),  # type: ignore[arg-type]
        (lambda: Config(ranking={"lexical": 0.5}), "write Config(ranking=Ranking(lexical=0.5))"),  # type: ignore[arg-type]
        (lambda: Config(query_budget=5), "write Config(query_budget=Budget(max_calls=...))"),  # type: ignore[arg-type]
        (lambda: Config(chat_steps="extract"), "should be a list, not 'extract'"),
        (lambda: MemForest("x", {"top_k": 5}), "write MemForest(directory, Config(top_k=...))"),  # type: ignore[arg-type]
        (lambda: MemForest("x", "config.toml"), "takes a Config, not a str"),  # type: ignore[arg-type]
        (lambda: MemForest(None), "MemForest(directory) takes a path, not None"),  # type: ignore[arg-type]
        (lambda: MemForest("x", max_workers="8"), "max_workers='8'"),  # type: ignore[arg-type]
        (lambda: MemForest("x", Config(embedder="ada")), "unknown embedder 'ada'"),
    ],
)
def test_the_message_says_what_to_write(write: Callable[[], object], fix: str) -> None:
    """The mistakes of a first day, each with its remedy."""
    with pytest.raises(ConfigError) as error:
        write()
    assert fix in str(error.value)


@each("given", ["sk-proj-4711", {"api_key": "4711"}, [4711], "https://h/v1?token=4711"])
def test_what_may_be_a_key_is_not_shown(given: Any) -> None:
    """A message of a wrong `chat`, or of a wrong configuration, is no place for it."""
    for write in (lambda: Config(chat=given), lambda: MemForest("x", given), lambda: Config(extractor=given)):
        with pytest.raises(ConfigError) as error:
            write()
        assert "4711" not in str(error.value)


def test_a_number_beyond_all_measure_is_no_accident() -> None:
    """Python can neither write it nor make a float of it."""
    for wrong in ({"busy_timeout_s": 10**400}, {"timezone": 10**5000}):
        with pytest.raises(ConfigError):
            Config(**wrong)  # type: ignore[arg-type]


def test_what_a_setting_takes_is_taken() -> None:
    """The kinds of the documentation."""

    class Embeds:
        model_id, dimension = "mine", 3

        async def embed(self, texts: list[str]) -> Any:
            """Never called."""

    takes: tuple[Any, ...] = (Embeds(), HashEmbedder(), EmbeddingEndpoint("m"), "minilm", None, len)
    for embedder in takes:
        assert Config(embedder=embedder).embedder is embedder
    assert Config(trace=Path("x"), busy_timeout_s=3, chat_steps=("extract",), summary_words=9).top_k == 10


WRONG_FLAG: tuple[Any, ...] = (None, 0, 1, "no", [])
WRONG_MAYBE = WRONG_FLAG[1:]
"""Of a flag that may be None."""
WRONG_TEXT: tuple[Any, ...] = (0, 1.5, True, b"x", [], {}, object())
WRONG_COUNT: tuple[Any, ...] = (-1, -(10**5000), 1.5, True, "5", [], float("nan"), object())
WRONG_BUDGET: tuple[Any, ...] = (0, 5, "5", {"max_calls": 5}, [])
WRONG_TIME: tuple[Any, ...] = (True, "soon", [], {}, b"x", float("nan"), object())
WRONG_PATH: tuple[Any, ...] = (None, 5, "", b"x", ["x"])
WRONG_WINDOW: tuple[Any, ...] = (5, "2024", ("2024-01-01",), ("soon", "later"), ("2024-01-02", "2024-01-01"))
WRONG_MAPPING: tuple[Any, ...] = (5, "a=b", ["a"])


async def begun(_progress: object) -> None:
    """An async function, which nothing would await."""


WRONG_HOOK: tuple[Any, ...] = (5, "bar", [], begun)
IMPORT: dict[str, tuple[Any, ...]] = {
    "file": (None, 5, b"x", {}, [], [5], object()),
    "format": ("", "diary", *WRONG_TEXT),
    **dict.fromkeys(("session_id", "display_name"), ("", *WRONG_TEXT)),
    "timestamp": WRONG_TIME,
    "day_first": WRONG_MAYBE,
    **dict.fromkeys(("infer", "replace", "dry_run"), WRONG_FLAG),
    "budget": WRONG_BUDGET,
    "on_session": WRONG_TEXT,
    "on_progress": WRONG_HOOK,
}
PAGE: dict[str, tuple[Any, ...]] = {
    "limit": (0, 1001, *WRONG_COUNT),
    "cursor": ("", "no cursor", *WRONG_TEXT),
}
OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "users": PAGE,
    "encrypt": {"progress": (5, "bar")},
    "decrypt": {"progress": (5, "bar")},
    "rekey": {"progress": (5, "bar"), "key": (None, 5, "word", b"short")},
    "import_file": {**IMPORT, **dict.fromkeys(("user_id", "default_user"), ("", *WRONG_TEXT))},
    "ingest_session": {
        **dict.fromkeys(("user_id", "session_id"), (None, "", *WRONG_TEXT)),
        **dict.fromkeys(("infer", "replace"), WRONG_FLAG),
        "refresh": WRONG_MAYBE,
        "turns": (None, 5, "hello", b"x", {}, [5], ["hello"], [{}]),
        "timestamp": WRONG_TIME,
        "metadata": WRONG_MAPPING,
        "budget": WRONG_BUDGET,
        "idempotency_key": ("", *WRONG_TEXT),
        "defer": (None, *WRONG_FLAG),
        "on_progress": WRONG_HOOK,
    },
    "ingest_parallel": {
        "requests": (None, 5, "x", {}),
        "refresh": WRONG_MAYBE,
        "budget": WRONG_BUDGET,
        "defer": (None, *WRONG_FLAG),
        "on_progress": WRONG_HOOK,
    },
    "query_parallel": {"requests": (None, 5, "x", {})},
    "backup": {"directory": WRONG_PATH, "user_id": ("", *WRONG_TEXT), "overwrite": WRONG_FLAG},
    "restore": {"source": WRONG_PATH},
    "delete_turn": {
        "user_id": (None, "", *WRONG_TEXT),
        **dict.fromkeys(("session_id", "turn_id"), (None, *WRONG_TEXT)),
    },
    "delete_session": {"user_id": (None, "", *WRONG_TEXT), "session_id": (None, *WRONG_TEXT)},
    "delete_user": {"user_id": (None, "", *WRONG_TEXT)},
    "merge_user_forests": {
        "source_user_ids": (None, 5, "u", [], [5], {}),
        "target_user_id": (None, "", *WRONG_TEXT),
        "same_person": WRONG_MAYBE,
        **dict.fromkeys(("overwrite", "dry_run"), WRONG_FLAG),
        "refresh": WRONG_MAYBE,
        "budget": WRONG_BUDGET,
    },
    "register_user": {
        "user_id": (None, "", *WRONG_TEXT),
        "display_name": ("", *WRONG_TEXT),
        "load_existing": WRONG_FLAG,
    },
    "has_user": {"user_id": (None, "", *WRONG_TEXT)},
    "resume": {"user_id": ("", *WRONG_TEXT), "budget": WRONG_BUDGET, "on_progress": WRONG_HOOK},
    "flush": {"user_id": ("", *WRONG_TEXT), "budget": WRONG_BUDGET},
    "rebuild": {
        "user_id": ("", *WRONG_TEXT),
        **dict.fromkeys(("scopes", "stale", "embedder"), WRONG_FLAG),
        "index": WRONG_TEXT,
        "progress": (5, "bar"),
        "budget": WRONG_BUDGET,
    },
    "save": {"user_id": ("", *WRONG_TEXT)},
    "load": {"user_id": ("", *WRONG_TEXT)},
    "query": {
        "user_id": (None, "", *WRONG_TEXT),
        "question": (None, "", *WRONG_TEXT),
        **dict.fromkeys(("reference_date", "as_of", "said_by", "known_at"), WRONG_TIME),
        "during": WRONG_WINDOW,
        **dict.fromkeys(("top_k", "max_tokens"), WRONG_COUNT),
        "min_relevance": ("x", -0.1, 1.5, float("nan")),
        "index": ("nosuch", *WRONG_TEXT),
        "ranking": (5, "x", {"lexical": 0.5}, Ranking),
        "mode": ("fast", *WRONG_TEXT),
        "filters": WRONG_MAPPING,
        "budget": WRONG_BUDGET,
        "explain": WRONG_FLAG,
    },
}
"""Verb of a forest -> its arguments -> values that are refused."""
HANDLE: dict[str, dict[str, tuple[Any, ...]]] = {
    "import_file": IMPORT,
    "add": {
        "content": (None, 5, b"x", [5], {}),
        "session_id": ("", *WRONG_TEXT),
        "timestamp": WRONG_TIME,
        "infer": WRONG_MAYBE,
        "statements": (5, "x", [5], [{}], [{"statement": "x", "mood": "y"}]),
        "doubtful": WRONG_FLAG,
        "metadata": WRONG_MAPPING,
        "budget": WRONG_BUDGET,
        "idempotency_key": ("", *WRONG_TEXT),
        "on_progress": WRONG_HOOK,
    },
    "get": {"fact_id": (None, *WRONG_TEXT)},
    "sessions": PAGE,
    "turns": {"session_id": (None, *WRONG_TEXT), **PAGE},
    "export": {
        "target": WRONG_PATH,
        **dict.fromkeys(("vectors", "summaries", "overwrite"), WRONG_FLAG),
    },
    "import_": {"source": WRONG_PATH, "budget": WRONG_BUDGET},
    "backup": {"target": WRONG_PATH, "overwrite": WRONG_FLAG},
    "list": {
        **dict.fromkeys(("offset", "limit"), WRONG_COUNT),
        "cursor": PAGE["cursor"],
        "filters": WRONG_MAPPING,
        **dict.fromkeys(("entity", "session_id"), WRONG_TEXT),
        "verdict": ("deleted", *WRONG_TEXT),
        **dict.fromkeys(("as_of", "said_by", "known_at"), WRONG_TIME),
        "during": WRONG_WINDOW,
    },
    "entities": {
        "kind": ("animal", "", *WRONG_TEXT),
        "query": ("", " ", *WRONG_TEXT),
        "limit": (0, *WRONG_COUNT),
        "cursor": PAGE["cursor"],
    },
    "relations": {"entity": (None, *WRONG_TEXT), "as_of": WRONG_TIME},
    "path": {**dict.fromkeys(("a", "b"), (None, *WRONG_TEXT)), "hops": (None, 0, 9, *WRONG_COUNT)},
    "merge_entities": dict.fromkeys(("a", "b"), (None, *WRONG_TEXT)),
    "split_entity": dict.fromkeys(("entity", "name"), (None, *WRONG_TEXT)),
    "profile": {
        "participant": WRONG_TEXT,
        "index": ("nosuch", "", *WRONG_TEXT),
        "written": (True, *WRONG_FLAG),
        "budget": WRONG_BUDGET,
        **dict.fromkeys(("as_of", "said_by"), WRONG_TIME),
    },
    "remember": {
        "statement": ("", " ", None, *WRONG_TEXT),
        **dict.fromkeys(("about", "attribute", "value", "replaces"), ("", *WRONG_TEXT)),
        **dict.fromkeys(("since", "until"), WRONG_TIME),
        "source": (5, "s", ("s",), ("s", 5), ["s", None]),
    },
    "update": {
        "fact_id": (None, *WRONG_TEXT),
        "text": ("", " ", *WRONG_TEXT),
        **dict.fromkeys(("valid_from", "valid_to"), WRONG_TIME),
    },
    **{key: {"fact_id": (None, *WRONG_TEXT)} for key in ("history", "pin", "forget")},
    "undo": {"key": (None, *WRONG_TEXT)},
    "delete": {
        "fact_id": WRONG_TEXT,
        "turn": (5, "s", ("s",), ("s", 5), ["s", None]),
        "session_id": WRONG_TEXT,
        "entity": WRONG_TEXT,
        "during": (*WRONG_WINDOW, ("2024-01-01", None)),
        "dry_run": WRONG_FLAG,
    },
    **{key: {"dry_run": WRONG_FLAG} for key in ("delete_all", "expire")},
    "verify": {"deleted": ("text", 5, [""], [5], ["\ud800"])},
    "merge": {
        "from_user": (None, "", *WRONG_TEXT),
        "same": (5, "a=b", ["a"]),
        "apart": (5, "Ana", [5]),
        "directory": WRONG_PATH[1:],
        "same_person": WRONG_MAYBE,
        "dry_run": WRONG_FLAG,
        "refresh": WRONG_MAYBE,
        "budget": WRONG_BUDGET,
    },
    "timeline": {
        **PAGE,
        "entity": (None, *WRONG_TEXT),
        "attribute": WRONG_TEXT,
        "kind": ("", "states", *WRONG_TEXT),
        **dict.fromkeys(("said_by", "known_at"), WRONG_TIME),
    },
    "changes": {
        "since": (None, *WRONG_TIME),
        "until": ("2023-12-31", "2024-01-01", *WRONG_TIME),
        "limit": (0, 1001, *WRONG_COUNT),
        "after": ("", "x", "1.2", "1.2.x", *WRONG_TEXT),
    },
    "diff": {
        "a": (None, *WRONG_TIME),
        "b": WRONG_TIME,
        "entity": WRONG_TEXT,
        **dict.fromkeys(("said_by", "known_at"), WRONG_TIME),
    },
    "tree": {
        **dict.fromkeys(("scope", "index"), WRONG_TEXT),
        "depth": WRONG_COUNT,
        **dict.fromkeys(("limit", "node"), (0, *WRONG_COUNT)),
    },
    "rebuild": {
        **dict.fromkeys(("scopes", "stale", "embedder"), WRONG_FLAG),
        "index": WRONG_TEXT,
        "progress": (5, "bar"),
        "budget": WRONG_BUDGET,
    },
    "add_index": {
        "name": (None, *WRONG_TEXT),
        "settings": (5, "k=3", ["k"]),
        "budget": WRONG_BUDGET,
    },
    "drop_index": {"name": (None, *WRONG_TEXT)},
    "advance": {"as_of": WRONG_TIME, "force": WRONG_FLAG, "budget": WRONG_BUDGET},
    "flush": {"budget": WRONG_BUDGET},
}
NEEDED: dict[str, dict[str, Any]] = {
    "forest import_file": {"user_id": "u", "file": "none.json"},
    "handle import_file": {"file": "none.json"},
    "ingest_session": {"user_id": "u", "session_id": "s", "turns": TURNS},
    "ingest_parallel": {"requests": []},
    "query_parallel": {"requests": []},
    "register_user": {"user_id": "u"},
    "forest backup": {"directory": "nowhere"},
    "handle backup": {"target": "nowhere"},
    "export": {"target": "nowhere"},
    "import_": {"source": "nowhere"},
    "query": {"user_id": "u", "question": "Where?"},
    "add": {"content": "Hello."},
    "get": {"fact_id": "f"},
    "timeline": {"entity": "Ann"},
    "turns": {"session_id": "s"},
    "relations": {"entity": "Ann"},
    "path": {"a": "Ann", "b": "Porto"},
    "merge_entities": {"a": "Ann", "b": "Porto"},
    "split_entity": {"entity": "Ann", "name": "Porto"},
    "changes": {"since": "2024-01-01"},
    "diff": {"a": "2024-01-01", "b": "2024-02-01"},
    "add_index": {"name": "flat"},
    "drop_index": {"name": "flat"},
    "rekey": {"key": bytes(range(32))},
    "delete_turn": {"user_id": "u", "session_id": "s", "turn_id": "t"},
    "delete_session": {"user_id": "u", "session_id": "s"},
    "delete_user": {"user_id": "v"},
    "merge_user_forests": {"source_user_ids": ["v"], "target_user_id": "u"},
    "remember": {"statement": "Hello."},
    "update": {"fact_id": "f", "text": "Hello."},
    **{key: {"fact_id": "f"} for key in ("history", "pin", "forget")},
    "undo": {"key": "k"},
    "merge": {"from_user": "v"},
}


@pytest.mark.parametrize(
    ("of", "verb", "name"),
    [
        *(("forest", verb, name) for verb, names in OPTIONS.items() for name in names),
        *(("handle", verb, name) for verb, names in HANDLE.items() for name in names),
    ],
)
def test_an_argument_of_a_verb_is_checked(forest: MemForest, of: str, verb: str, name: str) -> None:
    """Every option of every verb, whatever the memory holds: an error of ours that names it, and nothing is stored."""
    forest.ingest_session("u", "known", TURNS)
    target, table = (forest, OPTIONS) if of == "forest" else (forest.user("u"), HANDLE)
    for value in table[verb][name]:
        arguments = {**NEEDED.get(f"{of} {verb}", NEEDED.get(verb, {})), name: value}
        question = [
            arguments.pop(one) for one in ("user_id", "question") if one in arguments and verb == "query"
        ]
        with pytest.raises((InputError, ConfigError)) as error:
            getattr(target, verb)(*question, **arguments)
        called = {"turns": "turn", "content": "turn"}.get(name, name)
        assert called in str(error.value)
    assert forest.user("u").stats().sessions == 1


def test_every_verb_is_in_the_tables() -> None:
    """A new verb, or a new option of one, is tested too."""
    for kind, table in ((MemForest, OPTIONS), (UserMemory, HANDLE)):
        for verb in (one for one in vars(kind) if not one.startswith("_") and callable(getattr(kind, one))):
            names = set(signature(getattr(kind, verb)).parameters) - {"self", "options", "user_id"}
            if verb not in ("ask", "search"):  # the same arguments as `query`
                assert names <= set(table.get(verb, {})), verb
    assert set(options_of(AsyncUserMemory.search).model_fields) - {"question"} <= set(OPTIONS["query"])
    assert set(options_of(AsyncUserMemory.import_file).model_fields) - {"file"} <= set(IMPORT)
