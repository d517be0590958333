"""`memforest advance`: what is due by now, made without a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.indexing import behind
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, columns, counted

if TYPE_CHECKING:
    from memforest.memory.results import IndexView


@click.command()
@click.option("--as-of", metavar="TIME", help="The present, by which windows have ended; now by default.")
@click.option("--force", is_flag=True, help="Also what is not due yet, such as the day that has not ended.")
@budget_options
@shared_options
@pass_call
def advance(
    call: Call, as_of: str | None, force: bool, max_calls: int | None, max_tokens: int | None
) -> None:
    """Let the indexes go on by the calendar: make what is due by now.

    An index that closes days, weeks or months does so with every write, and here when nothing is written. Twice is the same
    as once. Shown is how each index stands, and which of its counts have changed.
    """
    with call.forest() as forest:
        memory = call.memory(forest)
        budget = forest.config.ingest_budget.narrowed(max_calls, max_tokens)
        before = {one.name: one for one in memory.indexes()}
        found = memory.advance(as_of, force=force, budget=budget)
        changed = {one.name: _changes(before.get(one.name), one) for one in found}
        data = {"indexes": found, "changed": changed}
        call.show(data, lambda screen: _draw(screen, found, changed), forest=forest)


def _changes(before: IndexView | None, after: IndexView) -> dict[str, tuple[int, int]]:
    """Return which numbers of an index are others now: what they were, and what they are."""
    old, new = ({} if one is None else _numbers(one) for one in (before, after))
    names = [*new, *(name for name in old if name not in new)]
    pairs = {name: (old.get(name, 0), new.get(name, 0)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _numbers(one: IndexView) -> dict[str, int]:
    """Return the counts of an index by their names; those that stand by kind with the kind behind the name."""
    found = {"trees": one.trees, "nodes": one.nodes, "leaves": one.leaves}
    for name, value in one.counts.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        for kind, number in parts.items():
            if isinstance(number, int) and not isinstance(number, bool):
                found[f"{name} {kind}".strip()] = number
    return found


def _draw(
    screen: Screen, found: Sequence[IndexView], changed: Mapping[str, Mapping[str, tuple[int, int]]]
) -> None:
    table = columns("bold", "", "", "", "yellow")
    for one in found:
        told = [f"{clean(name)} {old} -> {new}" for name, (old, new) in changed[one.name].items()]
        table.add_row(
            clean(one.name),
            counted(one.trees, "tree"),
            f"{one.leaves} leaves",
            ", ".join(told) or "nothing was due",
            behind(one.lag, one.reason),
        )
    screen.put(table)
