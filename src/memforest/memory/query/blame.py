"""Turning errors that an index's code raises during a query into errors that name the index."""

from __future__ import annotations

from typing import NoReturn

from memforest.errors import CorruptStoreError, IndexStateError, StoreError
from memforest.store.db import Database
from memforest.store.savepoint import described


def blame(db: Database, index: str, error: Exception) -> NoReturn:
    """Raise an index's error as one that names the index; raise the file's damage instead where that explains it.

    Raises:
        CorruptStoreError: if the memory is damaged.
        IndexStateError: if it is not.
    """
    try:
        db.explain(error)
    except CorruptStoreError:
        raise
    except (StoreError, type(error)):
        pass
    told = f"the index {index!r} {described(error)}; query(index=...) searches another one"
    raise IndexStateError(told) from error
