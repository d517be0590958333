"""`memforest completion`, and the names that the shell completes: users, sessions, entities.

Names come from conversations, so they are untrusted: what a shell completes it puts on the command line as it
is, and runs at Enter. Only names of letters, digits and a few signs that no shell acts on are offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from memforest.errors import MemForestError
from memforest.limits import MAX_PAGE

if TYPE_CHECKING:
    from memforest.cli.call import Call
    from memforest.forest import UserMemory

MOST_NODES = 2000
"""Bound of the roots, and of the entities, that are read for names: a shell waits for the answer."""

_SAFE = re.compile(r"[^\W_][\w.@%+:,/-]*")


def is_safe(name: str) -> bool:
    """Return whether a shell takes a name as it is: one word, no sign that it acts on, no leading dash.

    Example:
        >>> is_safe("live-2024-06-01"), is_safe("José"), is_safe("$(reboot)"), is_safe("two words"), is_safe("-rf")
        (True, True, False, False, False)
    """
    return _SAFE.fullmatch(name) is not None


def complete_users(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the ids of users with a memory in the directory."""
    call = _call(ctx)
    if call is None:
        return []
    try:
        return _items(call.survey().users, incomplete)
    except MemForestError:  # an error has no place here
        return []


def complete_sessions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the ids of sessions."""
    return _items(_names(ctx, ("session",)), incomplete)


def complete_entities(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of whom and what statements name, all names of the most named."""
    found = _from_memory(
        ctx, lambda memory: [name for one in memory.entities(limit=MAX_PAGE) for name in one.names]
    )
    return _items(found, incomplete)


def complete_scopes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of trees; a scene has a number for a name, and `memforest tree` lists those."""
    return _items(_names(ctx, ("session", "entity")), incomplete)


def complete_indexes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of indexes."""
    from memforest.systems.registry import INDEXES

    return _items(list(INDEXES), incomplete)


def complete_own_indexes(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names of the indexes that the memory has."""
    return _items(_from_memory(ctx, lambda memory: [one.name for one in memory.indexes()]), incomplete)


def script(shell: str) -> str:
    """Return what a shell must read to complete `memforest`.

    Args:
        shell: ``"bash"``, ``"zsh"`` or ``"fish"``.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"there is no completion for {shell}")
    source = made(click.Group(), {}, "memforest", "_MEMFOREST_COMPLETE")
    return source.source_template % source.source_vars()


def _call(ctx: click.Context) -> Call | None:
    from memforest.cli.call import Call

    return ctx.find_object(Call)


def _names(ctx: click.Context, kinds: tuple[str, ...]) -> list[str]:
    """Return the names of trees."""
    found = _from_memory(ctx, lambda memory: [view.title for view in memory.tree(depth=0, limit=MOST_NODES)])
    titles = (title.partition(" ") for title in found)
    return [name for kind, _, name in titles if kind in kinds]


def _from_memory(ctx: click.Context, look: Callable[[UserMemory], list[str]]) -> list[str]:
    """Return names from a memory; none when the user is not clear, as completion shows no errors."""
    call = _call(ctx)
    if call is None:
        return []
    try:
        user = call.user if call.user is not None else _only(call.survey().users)
        if user is None:
            return []
        with call.forest(embedder="none") as forest:  # names need no model
            return look(forest.user(user))
    except MemForestError:
        return []


def _only(users: Sequence[str]) -> str | None:
    return users[0] if len(users) == 1 else None


def _items(names: Sequence[str], incomplete: str) -> list[CompletionItem]:
    fitting = {name for name in names if name.startswith(incomplete) and is_safe(name)}
    return [CompletionItem(name) for name in sorted(fitting)]
