"""`memforest maintain` and `index`: rebuild derived data, make what is due, and choose indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import (
    Call,
    StopCommand,
    budget_options,
    command,
    flag,
    group,
    read_pairs,
    repeated,
    takes,
)
from memforest.cli.doctor import repair
from memforest.cli.ingest import resume
from memforest.cli.inspecting import verify
from memforest.cli.screen import Screen, clean, counted, progress_bars

if TYPE_CHECKING:
    from memforest.read.stored import IndexView, Stale


CONFIGURED = "configured"


@group()
def maintain(call: Call) -> None:
    """Resume, rebuild, verify, repair or advance memories."""


for one in (resume, verify, repair):
    maintain.add_command(one)


@command(group=maintain)
@flag("--stale", help="Only what other settings have made: sessions, indexes and summaries.")
@takes("--index", of="NAME", help="Only this index, with its configured settings.")
@click.option(
    "--embedder",
    is_flag=False,
    flag_value=CONFIGURED,
    metavar="[NAME]",
    help="Change the embedder: auto (the best installed), bge, minilm; without a NAME the configured one.",
)
@flag("--dry-run", help="Only count what is stale.")
@budget_options
def rebuild(
    call: Call, /, stale: bool, index: str | None, embedder: str | None, dry_run: bool, **bounds: int | None
) -> None:
    """Rebuild derived data: what is stale, one index, or every vector.

    It does so for --user, or for all users. Without an option it rebuilds the word index, the summaries and their
    vectors. Searches use the old data until the new is complete. After an interruption, run the same command again.
    """
    settings = {"embedder": embedder} if embedder not in (None, CONFIGURED) else {}
    with call.forest(**settings) as forest:
        call.settled_user = call.user
        users = [call.user] if call.user is not None else call.users()
        if dry_run:
            found = {user: forest.user(user).stale() for user in users}
            call.show(found, lambda screen: _draw_stale(screen, found))
            return
        budget = forest.config.ingest_budget.narrowed(**bounds)
        how: dict[str, Any] = {"stale": stale, "index": index, "embedder": embedder is not None}
        try:
            with progress_bars(quiet=call.as_json) as report:
                forest.rebuild(call.user, **how, budget=budget, progress=report)
        except KeyboardInterrupt:
            raise StopCommand(
                "Interrupted. What is done stays, and the rest is as before. To go on, run the same `memforest maintain rebuild` again.",
                code=130,
            ) from None
        what = ", ".join(clean(user, 40) for user in users)
        call.show({"users": users}, lambda screen: screen.line(f"Rebuilt: {what or 'nobody yet'}."))


def _draw_stale(screen: Screen, found: dict[str, Stale]) -> None:
    for user, one in found.items():
        lines = [f"{counted(count, 'chunk')} {why}" for why, count in one.chunks.items()]
        lines += [f"{counted(one.sessions, 'session')} to be read again"] if one.sessions else []
        lines += [f"{one.summaries} summaries come from other settings"] if one.summaries else []
        lines += [f"index {name}: {why}" for name, why in one.indexes.items()]
        if one.texts:
            lines.append(f"{counted(one.texts, 'text')} without a vector by the configured embedder")
        if one.next_embedder is not None:
            lines.append(f"change to embedder {one.next_embedder}: begun; rebuild --embedder finishes it")
        for line in lines or ["nothing is stale"]:
            screen.line(f"{clean(user, 40)}: {clean(line, 300)}")


@group()
def index(call: Call) -> None:
    """List, add or drop the indexes of a memory.

    An index is one way to search the turns. A memory may have several; the turns are stored once.
    """


@command("list", group=index)
def list_(call: Call) -> None:
    """List the indexes: name, trees and leaves."""
    call.run(lambda memory: {"indexes": memory.indexes()}, _draw_indexes)


@command(group=index)
@click.argument("name")
@repeated(
    "--set",
    "settings",
    of="KEY=VALUE",
    help="A setting of the index, stored with the memory.",
    callback=read_pairs,
)
@budget_options
def add(call: Call, name: str, settings: dict[str, Any], **bounds: int | None) -> None:
    """Add an index of the whole memory. Its summaries are made when they are read, or by `memforest maintain resume`."""
    with call.forest() as forest:
        budget = forest.config.ingest_budget.narrowed(**bounds)
        made = call.memory(forest).add_index(name, settings or None, budget=budget)
        text = f"Added {clean(made.name)}: {counted(made.trees, 'tree')} with {made.leaves} leaves."
        call.show(made, lambda screen: screen.line(text))


@command(group=index)
@click.argument("name")
def drop(call: Call, name: str) -> None:
    """Drop an index and its summaries. The turns stay."""
    with call.forest() as forest:
        call.memory(forest).drop_index(name)
        call.show({"dropped": name}, lambda screen: screen.line(f"Dropped {clean(name)}."))


def _draw_indexes(screen: Screen, found: Mapping[str, Sequence[IndexView]]) -> None:
    rows = ((one.name, counted(one.trees, "tree"), f"{one.leaves} leaves") for one in found["indexes"])
    screen.table(("bold", "", ""), rows)


@command(group=maintain)
@takes("--as-of", of="TIME", help="The time to take for now.")
@flag("--force", help="Also close windows that have not ended, such as today.")
@budget_options
def advance(call: Call, as_of: str | None, force: bool, **bounds: int | None) -> None:
    """Close the days, weeks and months that have ended.

    An index by the calendar does this with every write. Use this command if nothing is written for a while. You can
    run it as often as you like. It shows each index, and which of its counts have changed.
    """
    with call.forest() as forest:
        memory = call.memory(forest)
        budget = forest.config.ingest_budget.narrowed(**bounds)
        before = {one.name: one for one in memory.indexes()}
        found = memory.advance(as_of, force=force, budget=budget)
        changed = {one.name: _changes(before.get(one.name), one) for one in found}
        data = {"indexes": found, "changed": changed}
        call.show(data, lambda screen: _draw_advanced(screen, found, changed))


def _changes(before: IndexView | None, after: IndexView) -> dict[str, tuple[int, int]]:
    """Return the counts of an index that changed: name -> (before, after)."""
    old, new = ({} if one is None else _numbers(one) for one in (before, after))
    names = [*new, *(name for name in old if name not in new)]
    pairs = {name: (old.get(name, 0), new.get(name, 0)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _numbers(one: IndexView) -> dict[str, int]:
    """Return the counts of an index by name; a count by kind is called "NAME KIND"."""
    found = {"trees": one.trees, "nodes": one.nodes, "leaves": one.leaves}
    for name, value in one.counts.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        for kind, number in parts.items():
            if isinstance(number, int) and not isinstance(number, bool):
                found[f"{name} {kind}".strip()] = number
    return found


def _draw_advanced(
    screen: Screen, found: Sequence[IndexView], changed: Mapping[str, Mapping[str, tuple[int, int]]]
) -> None:
    def counts(one: IndexView) -> str:
        pairs = changed[one.name].items()
        return ", ".join(f"{name} {old} -> {new}" for name, (old, new) in pairs) or "nothing was due"

    screen.table(
        ("bold", "", "", ""),
        ((one.name, counted(one.trees, "tree"), f"{one.leaves} leaves", counts(one)) for one in found),
    )
