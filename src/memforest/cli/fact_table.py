"""Facts as a table, or as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from memforest.cli.screen import Screen, clean, columns, in_words, sources

if TYPE_CHECKING:
    from memforest.memory.results import FactView


def draw_facts(
    screen: Screen, found: Sequence[FactView], *, statements: bool = False, ids: bool = False
) -> None:
    """Print facts with the days they were so, and where they come from; with the statements they are found by, or without.

    Records have their ids; a table has them with `ids`.
    """
    if screen.records:
        for fact in found:
            until = screen.last_day(fact.end) if fact.end is not None else ""
            screen.record(
                screen.day(fact.start),
                until,
                fact.text,
                fact.speaker,
                sources(fact.sources, None),
                fact.fact_id,
                *([fact.statement] if statements else []),
            )
        return
    table = columns("green", "")
    for fact in found:
        parts = _details(screen, fact) + ([fact.fact_id] if ids else [])
        body = Text.assemble(in_words(fact, 300), "\n", (" · ".join(parts), "dim"))
        if statements and fact.spoken:
            body.append(f"\nstatement: {clean(fact.statement, 300)}", style="dim")
        table.add_row(screen.day(fact.start), body)
    if found:
        screen.put(table)


def _details(screen: Screen, fact: FactView) -> list[str]:
    """Return what is said of a fact beside its words."""
    parts = [clean(fact.speaker, 40), sources(fact.sources)]
    if fact.end is not None and screen.last_day(fact.end) > screen.day(fact.start):
        parts.append(f"until {screen.last_day(fact.end)}")
    if fact.superseded_by:
        parts.append(f"then {clean(fact.superseded_by, 40)}")
    if fact.verdict or fact.corrected is not None:
        since = "" if fact.corrected is None else f" on {screen.day(fact.corrected)}"
        parts.append(f"{fact.verdict or 'corrected'}{since if fact.verdict != 'corrected' else ''}")
    if len(fact.wordings) > 1:
        parts.append(f"{len(fact.wordings)} wordings")
    return parts
