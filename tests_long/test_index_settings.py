"""The indexes of new memories and their settings: where they are written, how they are checked and stored."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.table import each
from tests_long.worlds import fast_config

from memforest import Config, MemForest, load_default_config
from memforest.errors import ConfigError
from memforest.settings import (
    INDEX_SETTINGS,
    Bound,
    NoSettings,
    Settings,
    kept_json,
    read_index_settings,
    with_kept,
)
from memforest.trees.attached import make_index
from memforest.trees.memforest_grow import MemForestSettings

TURNS = [{"speaker": "Ann", "text": f"I bought {n} apples.", "timestamp": "2024-01-01"} for n in range(20)]


@dataclass(frozen=True, slots=True)
class DummySettings(Settings):
    """The settings of an index that nobody has written."""

    depth: Annotated[int, Bound(ge=1)] = 2
    window: str | None = None
    levels: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlainSettings:
    """Settings that do not check themselves."""

    depth: int = 2


def test_settings_of_an_index_are_a_mapping_an_object_or_a_table(tmp_path: Path) -> None:
    """Whichever way they are written, they are the same; those that are not named have their defaults."""
    file = tmp_path / "memforest.toml"
    file.write_text("[index.memforest]\nentity_k = 12\nscene_join = 'none'\n", encoding="utf-8")
    wanted = MemForestSettings(entity_k=12)
    for config in (
        Config(index_settings={"memforest": {"entity_k": 12, "scene_join": None}}),
        Config(index_settings={"memforest": wanted}),
        load_default_config(file=file, environ={}),
    ):
        assert make_index("memforest", config.index_settings["memforest"]).settings == wanted
    assert make_index("memforest").settings == MemForestSettings()


def test_tables_of_an_index_are_laid_over_each_other(tmp_path: Path) -> None:
    """A file stands over a preset, setting by setting and index by index; an argument over both, as a whole."""
    file = tmp_path / "memforest.toml"
    file.write_text(
        "indexes = ['flat']\n[index.memforest]\nentity_k = 12\n[index.other]\na = 1\n", encoding="utf-8"
    )
    config = load_default_config("default_4b", file=file, environ={})
    assert config.indexes == ("flat",)
    assert config.index_settings == {
        "memforest": {"session_k": 3, "entity_k": 12, "scene_k": 10},
        "other": {"a": 1},
    }
    other = load_default_config(
        file=file, environ={"MEMFOREST_INDEXES": "memforest, flat"}, index_settings={}
    )
    assert (other.indexes, other.index_settings) == (("memforest", "flat"), {})


@each(
    ("given", "said"),
    [
        ({"deep": 3}, "unknown setting deep; known: depth, window, levels"),
        ({"depth": 0}, "depth should be greater than or equal to 1, not 0"),
        ({"depth": True}, "depth should be a valid integer, not True"),
        ({"depth": None}, "depth should be a valid integer, not None"),
        ({"window": 3}, 'window should be a valid string or "none", not 3'),
        ({"levels": [1]}, "levels should be a valid tuple, not a list"),
        (5, "takes a DummySettings or a mapping of its settings, not 5"),
        (MemForestSettings(), "takes a DummySettings or a mapping of its settings, not a MemForestSettings"),
    ],
)
def test_wrong_settings_of_an_index_are_refused(given: Any, said: str) -> None:
    """The message names the index, the setting, and those that there are."""
    with pytest.raises(ConfigError) as error:
        read_index_settings("dummy", DummySettings, given)
    assert said in str(error.value)


def test_settings_that_do_not_check_themselves_are_checked() -> None:
    """A plain dataclass will do for an index, and so will no settings at all."""
    assert read_index_settings("plain", PlainSettings, {"depth": 3}) == PlainSettings(3)
    with pytest.raises(ConfigError):
        read_index_settings("plain", PlainSettings, {"depth": "3"})
    with pytest.raises(ConfigError):
        read_index_settings("none", NoSettings, {"depth": 3})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"indexes": ["none"]}, "unknown index 'none'"),
        ({"index_settings": {"none": {}}}, "unknown index 'none'"),
        ({"index_settings": {"memforest": {"session_k": 2}}}, r"\[index\.memforest\] session_k .*not 2"),
        ({"index_settings": {"memforest": {"families": ["session", "session"]}}}, "each only once"),
        ({"index_settings": {"memforest": {"families": []}}}, "one or more kinds"),
        ({"index_settings": {"memforest": {"evidence": "some"}}}, "'all', 'reached' or 'roots'"),
        ({"index_settings": {"flat": {"depth": 2}}}, r"\[index\.flat\] unknown setting depth"),
    ],
)
def test_a_forest_refuses_what_no_index_can_do(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    """Before anything is made; so does a configuration for no index, or for one twice."""
    with pytest.raises(ConfigError, match=said):
        MemForest(tmp_path / "forest", Config(**settings))
    assert not (tmp_path / "forest").exists()
    for wrong in ([], ["flat", "flat"]):
        with pytest.raises(ConfigError):
            Config(indexes=wrong)


def test_a_setting_that_is_an_index_s_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it stands is said in a file and in a call, whichever index has it."""
    monkeypatch.setitem(INDEX_SETTINGS, "dummy", DummySettings)
    file = tmp_path / "memforest.toml"
    for name, index in (("session_k", "memforest"), ("active_min_facts", "memforest"), ("depth", "dummy")):
        file.write_text(f"{name} = 3\n", encoding="utf-8")
        given: dict[str, Any] = {name: 3}
        makes: list[Callable[[], Config]] = [
            partial(Config, **given),
            partial(load_default_config, file=file, environ={}),
            partial(load_default_config, environ={}, **given),
        ]
        for make in makes:
            with pytest.raises(
                ConfigError, match=rf"{name} is a setting of the index '{index}'; .*\[index\.{index}\]"
            ):
                make()


def test_where_settings_of_indexes_stand_is_said_before_any_is_imported() -> None:
    """`Config` alone knows no index, and says where to look."""
    code = "from memforest import Config\ntry: Config(session_k=3)\nexcept ValueError as exc: print(exc)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert "unknown setting session_k" in ran.stdout
    assert "[index.NAME]" in ran.stdout


def test_a_file_that_the_environment_names_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forest without a configuration of its own refuses settings that no index has, before anything is made."""
    file = tmp_path / "memforest.toml"
    file.write_text("[index.memforest]\ndepth = 3\n", encoding="utf-8")
    monkeypatch.setenv("MEMFOREST_CONFIG", str(file))
    with pytest.raises(ConfigError):
        MemForest(tmp_path / "forest")


def test_what_a_memory_keeps_goes_before_the_configuration() -> None:
    """A fan-out stays what it was at the first write; what only reads trees is that of the present configuration."""
    kept = kept_json(MemForestSettings(scene_k=7, families=("scene",)))
    shape = {"entity_k": 8, "scene_k": 7, "session_k": 3}
    assert json.loads(kept) == {"chunks": "said", "packing": "anchored", "scene_vectors": "facts", **shape}
    now = MemForestSettings(scene_k=9, evidence="reached")
    assert with_kept("memforest", now, kept) == replace(now, scene_k=7)
    now = MemForestSettings(chunks="summarised", evidence="reached")
    older = with_kept("memforest", now, json.dumps(shape))  # of a version that had no other
    assert (older.chunks, older.scene_k, older.evidence) == ("said", 7, "reached")


def test_the_settings_shape_the_trees_and_are_kept(tmp_path: Path) -> None:
    """Ten chunks are ten leaves of one node where it may have as many; so it stays when the memory is opened otherwise."""
    wide = fast_config(index_settings={"memforest": {"session_k": 10}})
    with MemForest(tmp_path / "wide", wide) as forest, MemForest(tmp_path / "narrow", fast_config()) as other:
        for one in (forest, other):
            one.ingest_session("u", "s", TURNS)
        counts = [one.user("u").stats().nodes for one in (forest, other)]
        assert counts[0] < counts[1]
    with MemForest(tmp_path / "wide", fast_config()) as forest:
        forest.ingest_session("u", "t", TURNS)
        widths = [
            len(one.children) for one in forest.user("u").tree(depth=1) if one.title.startswith("session ")
        ]
    assert widths == [10, 10]


def test_the_first_index_answers(tmp_path: Path) -> None:
    """A question that names no index is answered by the first of the configuration."""
    with MemForest(tmp_path, fast_config(indexes=["flat", "memforest"])) as forest:
        forest.ingest_session("u", "s", TURNS)
        assert forest.query("u", "apples").index == "flat"
        assert forest.query("u", "apples", index="memforest").index == "memforest"


def test_a_configuration_stays_what_it_was() -> None:
    """What it was made from can change; a copy with a change, a pickle and an equal one are as before."""
    names, own = ["flat"], {"memforest": {"entity_k": 9}}
    config = Config(indexes=names, index_settings=own)
    names.append("memforest")
    own["memforest"]["entity_k"] = 4
    own["flat"] = {}
    assert config == Config(indexes=["flat"], index_settings={"memforest": {"entity_k": 9}})
    assert replace(config, top_k=3).index_settings == config.index_settings
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(replace(config))


def test_defaults_are_not_checked_by_pydantic() -> None:
    """Importing memforest and making default settings does not wait for its import."""
    code = (
        "import sys; from memforest import Config, MemForest, Ranking; Config(); Ranking(); "
        "Config(embedder='none'); print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout.split() == ["False"]
