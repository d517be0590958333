"""Tables of settings are checked, laid over each other and made into values by themselves, whatever section they are of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.endpoint import ChatEndpoint
from memforest.errors import ConfigError
from memforest.settings import (
    PRESETS,
    build,
    checked,
    hints_of,
    kept_json,
    overlaid,
    preset,
    read_file,
    read_index_settings,
    with_kept,
)


@dataclass(frozen=True)
class Pond:
    """Settings of an index of this test; `depth` and `name` stay with the file."""

    KEPT: ClassVar[frozenset[str]] = frozenset({"depth", "name"})
    depth: int = 3
    name: str = "tarn"
    shade: float | None = None
    fish: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ConfigError(f"depth={self.depth}: give at least 1")


@dataclass(frozen=True)
class Server:
    """A section with a key."""

    model: str
    base_url: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)


SERVER = hints_of(Server)


@each("name", PRESETS)
def test_every_preset_is_a_table_of_its_own(name: str) -> None:
    """The one of no changes is empty, the others are not; changing what is returned changes no preset."""
    found = preset(name)
    assert bool(found) is (name != "default")
    found["top_k"] = -1
    assert preset(name) != found


def test_an_unknown_preset_names_the_known_ones() -> None:
    """All of them, as they are written; a path is not tried as a file of the package."""
    with pytest.raises(ConfigError) as refused:
        preset("../data/stance")
    assert all(repr(name) in str(refused.value) for name in PRESETS)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"top_k = ", "is not TOML: "),
        (b"a = 1\na = 2", "is not TOML: "),
        ("name = 'é'".encode("latin-1"), "is not in UTF-8"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, written: bytes, said: str) -> None:
    """With its path and what is wrong; text in UTF-8 is read whatever the machine's own encoding."""
    (path := tmp_path / "settings é.toml").write_bytes(written)
    with pytest.raises(ConfigError, match=said) as refused:
        read_file(path)
    assert repr(str(path)) in str(refused.value)
    path.write_bytes("name = 'é東'".encode())
    assert read_file(str(path)) == {"name": "é東"}


@pytest.mark.parametrize("name", [".", "none/memforest.toml", "~no such user~/memforest.toml"])
def test_a_path_without_a_file_is_named(tmp_path: Path, name: str) -> None:
    """A folder, a missing file, a home that nobody has: none of them is an empty table."""
    path = name if name.startswith("~") else str(tmp_path / name)
    with pytest.raises(ConfigError) as refused:
        read_file(path)
    assert repr(path) in str(refused.value)


def test_none_is_written_as_a_word_where_it_may_stand() -> None:
    """And only there: a model may be called "none", a number may not."""
    found = checked({"model": "none", "base_url": "none"}, SERVER, "")
    assert found == {"model": "none", "base_url": None}
    with pytest.raises(ConfigError, match="depth"):
        checked({"depth": "none"}, hints_of(Pond), "'f.toml': ")


@each(
    ("table", "section", "said"),
    [
        ({"modle": "m"}, "chat", "'f.toml': .*modle"),
        ({"model": 3}, "chat", r"'f.toml': chat\.model"),
        ({"model": 3}, "", r"'f.toml': model"),
        ({"api_key": "k", "api_key_env": "K"}, "chat", r"'f.toml': \[chat\] has api_key and api_key_env"),
        ({"steps": {"plan": {"model": 3}}}, "chat", r"chat\.steps\.plan\.model"),
        ({"steps": {"plan": {"modle": "m"}}}, "chat", "modle"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(table: dict[str, Any], section: str, said: str) -> None:
    """Source, section and step; of two keys neither wins."""
    with pytest.raises(ConfigError, match=said):
        checked(table, SERVER, "'f.toml': ", section)


def test_a_section_without_a_key_takes_no_variable_for_one() -> None:
    """The name of a variable stands only where the key could."""
    assert checked({"model": "m", "api_key_env": "K"}, SERVER, "") == {"model": "m", "api_key_env": "K"}
    with pytest.raises(ConfigError, match="api_key_env"):
        checked({"api_key_env": "K"}, hints_of(Pond), "")


NAMES = st.sampled_from(["a", "b", "c"])
TABLES = st.dictionaries(NAMES, st.one_of(st.integers(0, 3), st.dictionaries(NAMES, st.integers(0, 3))))


@given(TABLES, TABLES)
def test_the_upper_table_wins_setting_by_setting(lower: dict[str, Any], upper: dict[str, Any]) -> None:
    """Where both are tables they are one table; nothing that either says is lost, and neither is changed."""
    before = json.dumps([lower, upper])
    made = overlaid(lower, upper)
    assert json.dumps([lower, upper]) == before
    assert made.keys() == lower.keys() | upper.keys()
    for name, value in made.items():
        low, up = lower.get(name), upper.get(name)
        if isinstance(low, dict) and isinstance(up, dict):
            assert value == low | up
        else:
            assert value == (up if name in upper else low)
    assert overlaid(made, upper) == overlaid(made, {}) == overlaid({}, made) == made


FIRST = {"base_url": "http://a/v1", "api_key": "secret", "headers": {"x": "y"}, "model": "m"}


@each(
    ("upper", "left"),
    [
        ({}, {"api_key", "headers", "model", "base_url"}),
        ({"model": "n"}, {"api_key", "headers", "model", "base_url"}),
        ({"base_url": "http://a/v1"}, {"api_key", "headers", "model", "base_url"}),
        ({"base_url": "http://b/v1"}, {"model", "base_url"}),
        ({"base_url": None}, {"model", "base_url"}),
        ({"base_url": "http://b/v1", "api_key_env": "K"}, {"model", "base_url", "api_key_env"}),
        ({"api_key_env": "K"}, {"api_key_env", "headers", "model", "base_url"}),
        ({"base_url": "http://b/v1", "headers": {}}, {"model", "base_url", "headers"}),
    ],
)
def test_a_key_never_goes_to_another_address(upper: dict[str, Any], left: set[str]) -> None:
    """Of the lower table, key and headers stay only with the address they were given for; one key replaces the other."""
    (made,) = overlaid({"chat": FIRST}, {"chat": upper}).values()
    assert made.keys() == left
    assert made.items() >= upper.items()
    assert ("api_key" in made) is (made["base_url"] == "http://a/v1" and "api_key_env" not in made)


def test_the_key_of_a_step_stays_with_its_address() -> None:
    """A step without an address goes where its section does: not with a key for where that went before."""
    steps = {
        "plan": {"model": "small", "api_key": "secret", "headers": {"x": "secret"}},
        "judge": {"api_key_env": "SECRET"},
        "answer": {"base_url": "http://c/v1", "api_key": "key-of-c"},
    }
    lower = {"chat": {**FIRST, "steps": steps}}
    moved = overlaid(lower, {"chat": {"base_url": "http://b/v1"}})["chat"]
    assert moved["steps"] == {"plan": {"model": "small"}, "judge": {}, "answer": steps["answer"]}
    assert "secret" not in str(moved).lower()
    endpoint = build(ChatEndpoint, moved, "chat")
    assert [endpoint.for_step(step).api_key for step in ("plan", "judge", "answer")] == [
        None,
        None,
        "key-of-c",
    ]
    assert overlaid(lower, {"chat": {"model": "n"}})["chat"]["steps"] == steps
    assert lower["chat"]["steps"] == steps


def test_a_table_over_a_value_or_under_one_stands_alone() -> None:
    """A model by name and one by settings are not mixed."""
    assert overlaid({"chat": "m"}, {"chat": {"model": "n"}}) == {"chat": {"model": "n"}}
    assert overlaid({"chat": FIRST}, {"chat": "m"}) == {"chat": "m"}


def test_a_key_is_taken_from_the_variable_that_is_named() -> None:
    """Without white space around it, for each step its own; the name of the variable is no setting of the value."""
    table = {
        "model": "m",
        "api_key_env": "A",
        "steps": {"plan": {"api_key_env": "B"}, "judge": {"model": "j"}},
    }
    made = build(Server, table, "chat", environ={"A": " one\n", "B": "two"})
    assert made.api_key == "one"
    assert made.steps == {"plan": {"api_key": "two"}, "judge": {"model": "j"}}
    assert table["api_key_env"] == "A"


@each("environ", [{}, {"A": ""}, {"A": " \n"}, {"a": "key"}])
def test_a_variable_that_holds_no_key_is_an_error(environ: dict[str, str]) -> None:
    """Not a request without a key, in a section and in a step."""
    for table in (
        {"model": "m", "api_key_env": "A"},
        {"model": "m", "steps": {"plan": {"api_key_env": "A"}}},
    ):
        with pytest.raises(ConfigError):
            build(Server, table, "chat", "f: ", environ)


def test_a_value_that_cannot_be_made_names_its_section() -> None:
    """What is missing and has no default, and what is out of range; the cause is kept."""
    with pytest.raises(ConfigError):
        build(Server, {}, "chat", "f: ")
    with pytest.raises(ConfigError) as refused:
        build(Pond, {"depth": 0}, "pond", "f: ")
    assert isinstance(refused.value.__cause__, ConfigError)
    assert build(Pond, {}, "pond") == Pond()


PONDS = st.builds(
    Pond,
    depth=st.integers(1, 9),
    name=st.text(st.sampled_from('aé東"\\\n'), max_size=5),
    shade=st.none() | st.floats(0, 1),
)


@given(PONDS, PONDS, st.sets(st.sampled_from(["depth", "name", "shade"])))
def test_what_a_file_keeps_comes_back(stored: Pond, now: Pond, given_names: set[str]) -> None:
    """Settings of `KEPT` and those that were given are the file's; of the others, today's configuration decides."""
    text = kept_json(stored, {name: getattr(stored, name) for name in given_names})
    found = with_kept("pond", now, text)
    for one in fields(Pond):
        source = stored if one.name in given_names | Pond.KEPT else now
        assert getattr(found, one.name) == getattr(source, one.name)


@given(PONDS)
def test_an_object_of_settings_is_kept_whole(stored: Pond) -> None:
    """Nothing given keeps what must stay; an object keeps everything; the text is the same for equal settings."""
    assert json.loads(kept_json(stored)).keys() == Pond.KEPT
    assert json.loads(kept_json(stored, stored)).keys() == {one.name for one in fields(Pond)}
    assert kept_json(stored) == kept_json(Pond(stored.depth, stored.name, 0.25))
    names = list(json.loads(kept_json(stored, stored)))
    assert names == sorted(names)


def test_settings_are_laid_over_those_below() -> None:
    """A mapping changes what it names; an object stands for itself; nothing gives what is below, or the defaults."""
    below = Pond(5, "mere", 0.5)
    assert read_index_settings("pond", Pond, {"depth": 7}, below) == Pond(7, "mere", 0.5)
    assert read_index_settings("pond", Pond, {"shade": "none"}, below) == Pond(5, "mere")
    assert read_index_settings("pond", Pond, None, below) == below
    assert read_index_settings("pond", Pond, Pond(), below) == read_index_settings("pond", Pond) == Pond()


@each(
    ("given_settings", "said"),
    [
        ({"depht": 2}, "depht"),
        ({"depth": "deep"}, "depth"),
        ({"depth": 0}, r"\[index\.pond\] depth=0"),
        ([1], "the index 'pond' takes a Pond or a mapping of its settings, not "),
        (Server("m"), "takes a Pond"),
    ],
)
def test_wrong_settings_of_an_index_name_it(given_settings: Any, said: str) -> None:
    """The index and the setting; so do stored ones that this version does not know."""
    with pytest.raises(ConfigError, match=said):
        read_index_settings("pond", Pond, given_settings)
    if isinstance(given_settings, dict):
        with pytest.raises(ConfigError, match=said.replace(r"\[index\.pond\] ", "")):
            with_kept("pond", Pond(), json.dumps(given_settings))


@each("text", ["[1]", '"depth"', "3", "null"])
def test_stored_settings_that_are_no_table_are_refused(text: str) -> None:
    """A damaged row is named, and no setting is guessed from it."""
    with pytest.raises(ConfigError):
        with_kept("pond", Pond(), text)
