"""Whose memories a request of mem0's client means, and how it gets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memforest.access import Principal
from memforest.errors import InputError
from memforest.forest.forest import AsyncMemForest
from memforest.rest.compat.filters import Filter, users_of
from memforest.rest.compat.records import Memories, Record

MOST_USERS = 50
"""Users whose memories one request may name."""


def meant(forest: AsyncMemForest, who: Principal, wanted: Filter) -> list[Memories]:
    """Return the memories that a filter can mean.

    Raises:
        InputError: if it names no user and the key is not bound to one, or it names too many.
    """
    named = users_of(wanted)
    if who.user is not None:
        return [Memories(forest, who.user)] if named is None or who.user in named else []
    if named is None:
        raise InputError(
            'whose memories? name the user in the filter, as {"user_id": "…"} beside the other conditions or in AND'
        )
    if len(named) > MOST_USERS:
        raise InputError(f"the filter names {len(named)} users; {MOST_USERS} at most")
    return [Memories(forest, user) for user in sorted(named)]


def shown(record: Record, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return a record in mem0's shape, with the fields that are asked for, and its id."""
    whole: dict[str, Any] = {
        "id": record.id,
        "memory": record.text,
        "user_id": record.user_id,
        **record.labels,
        "actor_id": record.speaker,
        "metadata": dict(record.metadata) or None,
        "categories": list(record.categories),
        "created_at": record.created.isoformat(),
        "updated_at": record.updated.isoformat(),
        "expiration_date": None,
        "immutable": False,
    }
    if record.score is not None:
        whole["score"] = record.score
    keep = None if names is None else {"id", *names}
    return {name: value for name, value in whole.items() if keep is None or name in keep}
