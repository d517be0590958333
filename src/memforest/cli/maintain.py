"""`memforest maintain` and `index`: make anew what is derived, make what is due by now, and choose indexes."""

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
    """Resume, rebuild, verify, repair, and advance by the calendar."""


for one in (resume, verify, repair):
    maintain.add_command(one)


@command(group=maintain)
@flag(
    "--stale",
    help="Only what would be made otherwise now: sessions of another extractor or chunk size, changed indexes, summaries.",
)
@takes("--index", of="NAME", help="Only this index, with its configured settings.")
@click.option(
    "--embedder",
    is_flag=False,
    flag_value=CONFIGURED,
    metavar="[NAME]",
    help="Give the memory another embedder: auto (the best installed), bge, minilm; the configured one without a NAME.",
)
@flag("--dry-run", help="Count what is stale, and make nothing.")
@budget_options
def rebuild(
    call: Call, /, stale: bool, index: str | None, embedder: str | None, dry_run: bool, **bounds: int | None
) -> None:
    """Make anew what is derived: what is stale, one index, or every vector.

    For one user with --user, for all without. Without an option: word rows, summaries and their vectors. Readers are served what there was until the new is there,
    and what is interrupted is finished by the same command.
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
                "Interrupted: what was made stays, the rest is as it was. Run the same `memforest maintain rebuild` again to go on.",
                code=130,
            ) from None
        what = ", ".join(clean(user, 40) for user in users)
        call.show({"users": users}, lambda screen: screen.line(f"Made anew: {what or 'nobody yet'}."))


def _draw_stale(screen: Screen, found: dict[str, Stale]) -> None:
    for user, one in found.items():
        lines = [f"{counted(count, 'chunk')} {why}" for why, count in one.chunks.items()]
        lines += [f"{counted(one.sessions, 'session')} to be read again"] if one.sessions else []
        lines += [f"{one.summaries} summaries would be made otherwise"] if one.summaries else []
        lines += [f"index {name}: {why}" for name, why in one.indexes.items()]
        if one.texts:
            lines.append(f"{counted(one.texts, 'text')} without a vector by the configured embedder")
        if one.next_embedder is not None:
            lines.append(f"embedder {one.next_embedder}: begun; rebuild --embedder goes on")
        for line in lines or ["nothing is stale"]:
            screen.line(f"{clean(user, 40)}: {clean(line, 300)}")


@group()
def index(call: Call) -> None:
    """List the indexes of a memory, add one, or drop one.

    An index is one way to search what was said. A memory may have several; what was said is stored once.
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
    help="A setting of the index, kept with the memory.",
    callback=read_pairs,
)
@budget_options
def add(call: Call, name: str, settings: dict[str, Any], **bounds: int | None) -> None:
    """Add an index of everything that the memory holds; its summaries are made when they are read, or by `memforest maintain resume`."""
    with call.forest() as forest:
        budget = forest.config.ingest_budget.narrowed(**bounds)
        made = call.memory(forest).add_index(name, settings or None, budget=budget)
        text = f"Added {clean(made.name)}: {counted(made.trees, 'tree')} with {made.leaves} leaves."
        call.show(made, lambda screen: screen.line(text))


@command(group=index)
@click.argument("name")
def drop(call: Call, name: str) -> None:
    """Take an index away with its summaries; what was said stays as it is."""
    with call.forest() as forest:
        call.memory(forest).drop_index(name)
        call.show({"dropped": name}, lambda screen: screen.line(f"Dropped {clean(name)}."))


def _draw_indexes(screen: Screen, found: Mapping[str, Sequence[IndexView]]) -> None:
    rows = ((one.name, counted(one.trees, "tree"), f"{one.leaves} leaves") for one in found["indexes"])
    screen.table(("bold", "", ""), rows)


@command(group=maintain)
@takes("--as-of", of="TIME", help="The present, by which windows have ended; now by default.")
@flag("--force", help="Also what is not due yet, such as the day that has not ended.")
@budget_options
def advance(call: Call, as_of: str | None, force: bool, **bounds: int | None) -> None:
    """Let the indexes go on by the calendar: make what is due by now.

    An index that closes days, weeks or months does so with every write, and here when nothing is written. Twice is the same
    as once. Shown is how each index stands, and which of its counts have changed.
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
