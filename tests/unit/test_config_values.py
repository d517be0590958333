"""Settings: which source wins, where a value begins to be wrong, and what a message shows of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest
from tests.table import each

from memforest import Budget, ChatEndpoint, Config, EmbeddingEndpoint, Ranking, load_default_config
from memforest.config import MODES, Refresh
from memforest.errors import ConfigError
from memforest.settings import Count, Settings, Whole, brief, check_value, instead, may_be_none, with_article

SOURCES: dict[str, str] = {
    "preset": "llm+planner",
    "file": "emb",
    "environment": "emb+planner",
    "argument": "llm",
}
"""Where a mode may come from, the weakest first."""


@pytest.mark.parametrize("given", list(product([False, True], repeat=4)))
def test_the_strongest_source_wins(tmp_path: Path, given: tuple[bool, ...]) -> None:
    """Argument over environment over file over preset over default, whichever of them there are."""
    there = [source for source, is_there in zip(SOURCES, given, strict=True) if is_there]
    path = tmp_path / "m.toml"
    path.write_text(f'top_k = 3\nmode = "{SOURCES["file"]}"' if "file" in there else "top_k = 3")
    config = load_default_config(
        "default_4b" if "preset" in there else None,
        file=path,
        environ={"MEMFOREST_MODE": SOURCES["environment"]} if "environment" in there else {},
        **({"mode": SOURCES["argument"]} if "argument" in there else {}),
    )
    assert config.mode == (SOURCES[there[-1]] if there else None)
    assert config.top_k == 3
    assert config.summary_words == (200 if "preset" in there else None)


def test_variables_that_are_empty_say_nothing(tmp_path: Path) -> None:
    """As in a shell script that sets what it does not know."""
    names = (
        "TIMEZONE",
        "EMBEDDER",
        "RERANKER",
        "MODE",
        "TRACE",
        "INDEXES",
        "CONFIG",
        "CHAT_MODEL",
        "EMBEDDING_MODEL",
    )
    assert load_default_config(environ={f"MEMFOREST_{name}": "" for name in names}) == Config()
    assert load_default_config(environ={"MEMFOREST_CHAT_MODEL": " \n"}) == Config()
    env = {"MEMFOREST_INDEXES": " flat , memforest", "MEMFOREST_TIMEZONE": "Asia/Tokyo"}
    config = load_default_config(environ=env)
    assert (config.indexes, config.timezone) == (("flat", "memforest"), "Asia/Tokyo")
    assert load_default_config(environ=env, indexes=["flat"]).indexes == ("flat",)


def test_the_process_is_asked_where_no_environment_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not where one is."""
    monkeypatch.setenv("MEMFOREST_TIMEZONE", "Asia/Tokyo")
    assert load_default_config().timezone == "Asia/Tokyo"
    assert load_default_config(environ={}).timezone == "UTC"


def test_a_message_names_where_the_value_was(tmp_path: Path) -> None:
    """One source, or those that were laid over one another when only together they are wrong."""
    path = tmp_path / "mine.toml"
    path.write_text("timezone = 'Nowhere/At_All'")
    with pytest.raises(ConfigError):
        load_default_config(file=path, environ={})
    with pytest.raises(ConfigError):
        load_default_config("default_4b", file=path, environ={})
    with pytest.raises(ConfigError):
        load_default_config(environ={"MEMFOREST_MODE": "fast"})
    path.write_text("[ranking]\nturn = 'much'")
    with pytest.raises(ConfigError):
        load_default_config(file=path, environ={})


def test_none_is_a_value_where_a_setting_has_it(tmp_path: Path) -> None:
    """A file's "none" is None only for a setting that has no value of that name."""
    path = tmp_path / "mine.toml"
    path.write_text("mode = 'none'\n[index.segtree]\npropagate = 'none'")
    given = load_default_config(file=path, environ={})
    assert (given.mode, given.index_settings["segtree"]) == (None, {"propagate": "none"})


def test_sections_are_laid_over_each_other_setting_by_setting(tmp_path: Path) -> None:
    """Weights of a file beside defaults; a whole object as an argument takes the place of all below."""
    path = tmp_path / "m.toml"
    path.write_text("[ranking]\nturn = 0.1\n[query_budget]\nmax_calls = 3\n[ingest_budget]\nmax_tokens = 9\n")
    config = load_default_config(file=path, environ={})
    assert config.ranking == replace(Ranking(), turn=0.1)
    assert (config.query_budget, config.ingest_budget) == (Budget(max_calls=3), Budget(max_tokens=9))
    assert load_default_config(file=path, environ={}, ranking=Ranking(date=0.0)).ranking == Ranking(date=0.0)


@each(
    ("name", "least"),
    [
        ("chunk_turns", 1),
        ("summary_words", 8),
        ("max_turn_chars", 1),
        ("busy_timeout_s", 0),
        ("max_open_files", 3),
        ("advance_every_s", 0),
        ("max_cache_mb", 0),
        ("top_k", 1),
        ("rerank_top", 1),
        ("rerank_tokens", 1),
        ("browse_calls", 0),
    ],
)
def test_a_number_has_a_least_value(name: Any, least: Any) -> None:
    """Itself allowed; one less is refused with both numbers."""
    assert getattr(Config(**{name: least}), name) == least
    said = rf"Config\({name}=\.\.\.\) should be greater than or equal to {least}.*, not {least - 1}$"
    with pytest.raises(ConfigError, match=said):
        Config(**{name: least - 1})


@each("zone", ["", "Mars/Phobos", "../../etc/passwd", "/etc/localtime", "utc+1", "Europe"])
def test_a_zone_is_a_name_of_the_time_zone_database(zone: str) -> None:
    """No path, no offset, no folder of zones."""
    with pytest.raises(ConfigError):
        Config(timezone=zone)
    assert Config(timezone="Europe/Madrid").zone == ZoneInfo("Europe/Madrid")


@each("indexes", [[], (), ["flat", "flat"], "flat", {"flat"}])
def test_indexes_are_a_list_of_different_names(indexes: Any) -> None:
    """At least one; a text is no list of its letters."""
    with pytest.raises(ConfigError, match="indexes"):
        Config(indexes=indexes)


def test_choices_are_those_that_are_named() -> None:
    """Each mode and policy is taken, None for the default, and nothing else."""
    assert [Config(mode=mode).mode for mode in (*MODES, None)] == [*MODES, None]
    assert [Config(refresh=when).refresh for when in (*get_args(Refresh), None)] == [*get_args(Refresh), None]
    for wrong in ({"mode": "EMB"}, {"refresh": "now"}, {"mode": ""}, {"refresh": True}):
        with pytest.raises(ConfigError):
            Config(**wrong)


def test_a_configuration_stays_as_it_was_made() -> None:
    """It cannot be changed, has equals and a hash, and a copy with a change is checked like any."""
    config = Config(timezone="Asia/Tokyo", index_settings={"memforest": {"session_k": 4}})
    same = Config(timezone="Asia/Tokyo", index_settings={"memforest": {"session_k": 4}})
    assert (config == same, hash(config) == hash(same)) == (True, True)
    assert config != replace(config, top_k=11)
    with pytest.raises(FrozenInstanceError):
        config.top_k = 3  # type: ignore[misc]
    with pytest.raises(ConfigError, match="top_k"):
        replace(config, top_k=0)


@each(
    ("value", "shown"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (-2.5, "-2.5"),
        ("a'b", '"a\'b"'),
        ("x" * 57, f"'{'x' * 57}'"),
        ("x" * 58, "a str"),
        (2**60 - 1, str(2**60 - 1)),
        (2**60, "an int"),
        (["sk-secret"], "a list"),
        ({"api_key": "sk-secret"}, "a dict"),
        (b"sk-secret", "a bytes"),
        (Ranking(), "a Ranking"),
    ],
)
def test_short_values_are_shown_and_others_named(value: object, shown: str) -> None:
    """Up to 59 characters, numbers up to 60 bits, and of what may hold a secret only the type."""
    assert brief(value) == shown


@pytest.mark.parametrize(
    ("name", "said"), [("int", "an int"), ("Ranking", "a Ranking"), ("Index", "an Index")]
)
def test_articles(name: str, said: str) -> None:
    """Before a vowel, capital or not, "an"."""
    assert with_article(name) == said


@each(
    ("call", "value", "hint", "said"),
    [
        ("Config", 5, int, "not 5"),
        ("Config", 5, Ranking, "not an int; write Config(x=Ranking(lexical=...))"),
        ("", {"turn": 1}, Ranking, "not a dict"),
        ("query", {"turn": 1, "date": "no"}, Ranking, "not a dict; write query(x=Ranking(turn=1))"),
        ("query", {}, Ranking, "not a dict; write query(x=Ranking(lexical=...))"),
        ("query", {"api_key": "sk-1"}, ChatEndpoint, "not a dict; write query(x=ChatEndpoint())"),
    ],
)
def test_what_to_write_instead(call: str, value: object, hint: Any, said: str) -> None:
    """The call with the object that is meant, and the numbers that were given; texts may be secret."""
    assert instead(call, "x", value, hint) == said


@dataclass(frozen=True, slots=True)
class Own(Settings):
    """Settings of a test."""

    count: Count = 3
    whole: Whole = 0
    name: str | None = None
    names: tuple[str, ...] = ()
    api_key: str | None = None


@each(
    ("given", "said"),
    [
        ({"count": 0}, r"^Own\(count=\.\.\.\) should be greater than or equal to 1, not 0$"),
        ({"count": True}, r"should be a valid integer, not True$"),
        ({"count": 2.0}, r"should be a valid integer, not 2\.0$"),
        ({"count": "2"}, r"should be a valid integer, not '2'$"),
        ({"whole": -1}, r"greater than or equal to 0, not -1$"),
        ({"name": 3}, r"^Own\(name=\.\.\.\) should be a valid string or None, not 3$"),
        ({"names": ("a", 3)}, r"^Own\(names\[1\]=\.\.\.\) should be a valid string, not 3$"),
        ({"names": "a"}, r"^Own\(names=\.\.\.\) should be a valid tuple, not 'a'$"),
        ({"api_key": 4711}, r"^Own\(api_key=\.\.\.\) should be a valid string or None$"),
        ({"speed": 1}, r"^Own\(\): unknown setting speed; known: count, whole, name, names, api_key$"),
    ],
)
def test_settings_of_any_kind_say_what_is_wrong(given: dict[str, Any], said: str) -> None:
    """Which one, where in it, what it takes and what it was given, unless that may be secret."""
    with pytest.raises(ConfigError, match=said):
        Own(**given)


def test_a_value_in_a_file_is_told_without_a_call() -> None:
    """Nothing is written there in Python's words: what is none is "none"."""
    check_value("f.toml: ", "x.name", "", "ok", str | None)
    with pytest.raises(ConfigError):
        check_value("f.toml: ", "x.name", "", 3, str | None)
    with pytest.raises(ConfigError):
        check_value("f.toml: ", "x.api_key", "", 3, str)
    assert [may_be_none(hint) for hint in (str | None, str, EmbeddingEndpoint | str)] == [True, False, False]
