"""How the indexes of a memory stand."""

from __future__ import annotations

from dataclasses import asdict

from memforest.memory.inspect.stored import IndexView
from memforest.store import indexes
from memforest.store.indexes import IndexRow
from memforest.store.tx import Tx
from memforest.systems.attached import Attached, Sizes


def index_views(tx: Tx, attached: Attached) -> list[IndexView]:
    """Return the indexes of a memory, by name."""
    lag, sizes = attached.lagging(tx), attached.sizes(tx)
    return [
        _view(tx, attached, row, lag.get(row.name, 0), sizes.get(row.name, (0, 0, 0)))
        for row in indexes.rows(tx)
    ]


def _view(tx: Tx, attached: Attached, row: IndexRow, lag: int, sizes: Sizes) -> IndexView:
    index = attached.open(row)
    reason = attached.lost(tx, row) or row.reason
    counts = attached.counts(tx, row, index)
    return IndexView(row.name, asdict(index.settings), lag, reason, *sizes, counts)
