"""Reading the configuration: argument over environment over file over preset over default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from memforest.config import Config, Ranking
from memforest.endpoint import Budget, ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError
from memforest.keys import Key
from memforest.settings import brief, hints_of, refuse_unknown
from memforest.tables import build, checked, overlaid, preset, read_file

_SECTIONS: Mapping[str, type] = {
    "chat": ChatEndpoint,
    "embeddings": EmbeddingEndpoint,
    "ranking": Ranking,
    "ingest_budget": Budget,
    "query_budget": Budget,
}
"""Sections of a settings file. ``embeddings`` is the setting `embedder`, as an endpoint."""
_INDEX = "index"
"""The section of a file that holds the tables of indexes, `Config.index_settings`."""
_OBJECTS = ("clock", "extractor", "summariser", "planner", "answerer", "redact", "redact_turn")
"""Settings that no file can hold."""
_KEY = "MEMFOREST_KEY"
_ENVIRONMENT = {
    "timezone": "MEMFOREST_TIMEZONE",
    "embedder": "MEMFOREST_EMBEDDER",
    "reranker": "MEMFOREST_RERANKER",
    "mode": "MEMFOREST_MODE",
    "retention": "MEMFOREST_RETENTION",
    "trace": "MEMFOREST_TRACE",
}
_SWITCHES = {"day_first": "MEMFOREST_DAY_FIRST"}
_ENDPOINTS = {"chat": "MEMFOREST_CHAT", "embeddings": "MEMFOREST_EMBEDDING"}
_ENDPOINT_SETTINGS = ("model", "base_url", "api_key")


def load_default_config(
    name: str | None = None,
    *,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> Config:
    """Return the configuration: arguments over environment over file over preset over defaults.

    Without any of these every step is local: no key, no network. Loading contacts nothing, and reads no file but
    the one that is named.

    Args:
        name: a preset: ``"default_30b"`` or ``"default_4b"`` (the paper's models, served on this machine),
            ``"paper"`` (its form of retrieval, see docs/modes.md), or ``"timem_paper"`` and ``"hmem_paper"`` (models and forms of
            TiMem's and H-Mem's evaluations); None and ``"default"`` are none.
        file: a TOML file; None is the one that ``MEMFOREST_CONFIG`` names, if any. See docs/configuration.md.
        environ: read instead of the process's environment.
        **settings: fields of `Config`.

    Raises:
        ConfigError: if the name or a setting is unknown, a value is of the wrong kind or out of range, or the file
            cannot be read; it names file and setting.
    """
    refuse_unknown(settings, hints_of(Config), "")
    env = os.environ if environ is None else environ
    sources: list[tuple[str, dict[str, Any]]] = [(f"preset {name}", preset(name or "default"))]
    path = file or env.get("MEMFOREST_CONFIG")
    if path:
        sources.append((repr(str(path)), read_file(path)))
    sources.append(("environment", _from_environment(env)))
    table: dict[str, Any] = {}
    for source, given in sources:
        table = _laid_over(table, _read(given, f"{source}: "), source)
    where = " and ".join(source for source, given in sources if given) or "defaults"
    built = _built(table, set(settings), f"{where}: ", env)
    if "key" not in settings and _KEY in env:
        built["key"] = _key(env[_KEY])
    try:
        base = Config(**built)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    return replace(base, **settings)


def _read(table: Mapping[str, Any], before: str) -> dict[str, Any]:
    """Return the table of a source, checked; the tables of indexes are sections of it, called ``index.NAME``."""
    if "key" in table:
        raise ConfigError(
            f"{before}a key does not belong into a file of settings; set {_KEY}, or Config(key=...)"
        )
    if objects := sorted(set(table) & set(_OBJECTS)):
        raise ConfigError(f"{before}{objects[0]} is an object, which no file can hold; give it to Config()")
    hints = {**hints_of(Config), "embedder": str, "reranker": str}
    known = {name: hint for name, hint in hints.items() if name not in (*_OBJECTS, "index_settings", "key")}
    known |= {**dict.fromkeys(_SECTIONS, Mapping[str, Any]), _INDEX: Mapping[str, Mapping[str, Any]]}
    read = checked(table, known, before)
    for name in set(read) & set(_SECTIONS):
        read[name] = checked(read[name], hints_of(_SECTIONS[name]), before, name)
    return read | {f"{_INDEX}.{index}": own for index, own in read.pop(_INDEX, {}).items()}


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {key: env[name] for key, name in _ENVIRONMENT.items() if env.get(name)}
    for key, name in _SWITCHES.items():
        if env.get(name, "").strip():
            table[key] = _switch(name, env[name])
    for section, prefix in _ENDPOINTS.items():
        names = {key: f"{prefix}_{key.upper()}" for key in _ENDPOINT_SETTINGS}
        given = {key: env[name].strip() for key, name in names.items() if env.get(name, "").strip()}
        if given:
            table[section] = given
    if env.get("MEMFOREST_INDEXES"):
        table["indexes"] = [name.strip() for name in env["MEMFOREST_INDEXES"].split(",")]
    return table


def _key(digits: str) -> Key:
    """Return the key of the environment; one that is empty is an accident, and must not store anything unencrypted."""
    try:
        return Key(digits)
    except ConfigError as exc:
        raise ConfigError(f"{_KEY}: {exc}; unset it for no encryption") from None


def _switch(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{name} should be 'true' or 'false', not {brief(value)}")
    return value.strip().lower() == "true"


def _laid_over(table: Mapping[str, Any], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Lay a source over those below it."""
    below, above = dict(table), dict(given)
    for section, prefix in _ENDPOINTS.items():
        if (
            source == "environment"
            and section in above
            and "model" not in {**below.get(section, {}), **above[section]}
        ):
            if "base_url" in above[section]:
                raise ConfigError(
                    f"{prefix}_BASE_URL is set and no model is named; set {prefix}_MODEL as well"
                )
            del above[section]  # a key alone configures nothing
    if "embedder" in above and "embeddings" in above:
        names = "MEMFOREST_EMBEDDER and MEMFOREST_EMBEDDING_MODEL" if source == "environment" else ""
        raise ConfigError(
            f"{source}: {names or 'embedder and [embeddings]'} exclude each other; leave one out"
        )
    if "embedder" in above:
        below.pop("embeddings", None)
    if "embeddings" in above:
        below.pop("embedder", None)
    return overlaid(below, above)


def _built(
    table: Mapping[str, Any], overridden: set[str], before: str, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return fields of `Config` from a table; an endpoint that an argument stands for is not looked at."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = "embedder" if key == "embeddings" else key
        section, _, index = key.partition(".")
        if index:
            values.setdefault("index_settings", {})[index] = value
        elif name not in overridden:
            values[name] = build(_SECTIONS[key], value, section, before, env) if key in _SECTIONS else value
    return values
