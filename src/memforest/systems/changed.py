"""Settings of an index that a memory keeps, and that the configuration names with another value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from memforest.config import Config
from memforest.store import indexes
from memforest.store.indexes import IndexRow
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.base import Index
from memforest.systems.registry import make_index


def changed_settings(config: Config, row: IndexRow, index: Index) -> dict[str, tuple[Any, Any]]:
    """Return the kept settings that the configuration gives another value: name -> (the memory's, the configured).

    What the configuration does not name is as the memory has it.
    """
    given = config.index_settings.get(row.name)
    if given is None:
        return {}
    wanted, own, stored = (
        asdict(make_index(row.name, given).settings),
        asdict(index.settings),
        json.loads(row.settings),
    )
    named = given if isinstance(given, Mapping) else wanted
    kept = set(index.settings.KEPT) | stored.keys()
    return {
        name: (own[name], wanted[name])
        for name in named
        if name in kept and _as_kept(own[name]) != _as_kept(wanted[name])
    }


def _as_kept(value: Any) -> str:
    """Return a setting as it is kept, where a tuple and a list are one."""
    return json.dumps(value, sort_keys=True, default=str)


def adopt_settings(tx: Tx, config: Config, attached: Attached, name: str) -> None:
    """Let a memory keep the configured settings of an index from now on; the index is to be cleared then."""
    row = indexes.find(tx, name)
    if row is None:
        return
    if changed := changed_settings(config, row, attached.open(row)):
        kept = {**json.loads(row.settings), **{key: new for key, (_, new) in changed.items()}}
        text = json.dumps(kept, sort_keys=True, ensure_ascii=False)
        indexes.change(tx, name, text)


def outdated(tx: Tx, config: Config, attached: Attached) -> dict[str, str]:
    """Return why indexes would be made otherwise now, by name; of those that would."""
    found: dict[str, str] = {}
    for row in indexes.rows(tx):
        index = attached.open(row)
        why = [
            f"{key} is {old!r}, and {new!r} is set"
            for key, (old, new) in changed_settings(config, row, index).items()
        ]
        if (said := index.outdated(tx)) is not None:
            why.append(said)
        if why:
            found[row.name] = "; ".join(why)
    return found
