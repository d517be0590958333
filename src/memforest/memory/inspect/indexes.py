"""How the indexes of a memory stand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from memforest.errors import ConfigError, IndexStateError
from memforest.memory.inspect.stored import IndexView
from memforest.store import indexes
from memforest.store.indexes import IndexRow
from memforest.store.savepoint import attempt, described
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Sizes


def index_views(tx: Tx, attached: Attached) -> list[IndexView]:
    """Return the indexes of a memory, by name; of one that cannot be used here what its rows say."""
    lag, sizes = attached.lagging(tx), attached.sizes(tx)
    return [
        _view(tx, attached, row, lag.get(row.name, 0), sizes.get(row.name, (0, 0, 0)))
        for row in indexes.rows(tx)
    ]


def _view(tx: Tx, attached: Attached, row: IndexRow, lag: int, sizes: Sizes) -> IndexView:
    counts: dict[str, Any] = {}
    reason, usable = row.reason, True
    try:
        index = attached.open(row)
    except (ConfigError, IndexStateError) as exc:
        settings, reason, usable = _stored(row.settings), str(exc), False
    else:
        settings = asdict(index.settings)
        reason = attached.lost(tx, row) or reason
        if (error := attempt(tx, lambda: counts.update(attached.counts(tx, row, index)))) is not None:
            reason = described(error)
    return IndexView(row.name, row.version, settings, lag, reason, *sizes, counts, usable)


def _stored(settings: str) -> Mapping[str, Any]:
    try:
        found = json.loads(settings)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
