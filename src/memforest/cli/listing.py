"""`memforest users`, `sessions`, `facts`, `timeline`, `changes` and `diff`: lists of what a memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.text import Text

from memforest.cli.call import (
    Call,
    command,
    cursor_option,
    filter_option,
    flag,
    interval_options,
    moment_options,
    page_limit,
    takes,
)
from memforest.cli.screen import Screen, clean, counted, draw_facts, in_words, sources, with_origin
from memforest.reading.states import attribute_name
from memforest.times import local_time

if TYPE_CHECKING:
    from memforest.read.changes import Change, ChangePage, Diff, DiffEntry
    from memforest.read.stored import FactPage, SessionPage, SessionView, TimelineEntry, TurnPage


PAGE = 50
"""Most rows on a page, if only a cursor is given."""


@command()
def users(call: Call) -> None:
    """List the users who have a memory in the directory.

    Standard error names the files that cannot be read: damaged, locked, or of another program.
    """
    found = call.survey()
    call.warn(f"skipped: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable)

    def draw(screen: Screen) -> None:
        for user in found.users:
            screen.line(user)
        if not found.users:
            call.remark(
                screen, f"There is no memory in {call.folder} yet. `memforest ingest FILE` makes one."
            )

    call.show(found, draw)


@command()
@click.argument("session_id", metavar="SESSION", required=False)
@page_limit(note="Most rows on one page. Without it and --cursor, all.")
@cursor_option
def sessions(call: Call, session_id: str | None, limit: int | None, cursor: str | None) -> None:
    """List the sessions in time order, or show the turns of one.

    Each row has the first and last day, the name, the number of turns and the speakers. It also says what
    `memforest maintain resume` has still to do.
    """
    page = {"limit": PAGE if limit is None and cursor is not None else limit, "cursor": cursor}
    if session_id is not None:
        call.run(lambda memory: memory.turns(session_id, **page), partial(_draw_turns, call))  # type: ignore[arg-type]  # by their names
    else:
        call.run(lambda memory: memory.sessions(**page), partial(_draw_sessions, call))  # type: ignore[arg-type]


def remark_cursor(call: Call, screen: Screen, cursor: str | None) -> None:
    """Print how to see the next page, if there is one."""
    if cursor is not None:
        call.remark(screen, f"the next page: --cursor {cursor}")


def _draw_turns(call: Call, screen: Screen, said: TurnPage) -> None:
    def when(said: datetime) -> str:
        return local_time(said, screen.zone).isoformat(sep=" ", timespec="minutes")[:16]

    rows = ((when(one.said), one.speaker, "damaged" if one.damaged else "", one.text) for one in said)
    screen.table(("green", "bold", "yellow", ""), rows)
    remark_cursor(call, screen, said.next_cursor)


def _draw_sessions(call: Call, screen: Screen, found: SessionPage) -> None:
    for_each = (
        (one.session_id, counted(one.turns, "turn"), ", ".join(one.participants), ", ".join(_left(one)))
        for one in found
    )
    days = ((screen.day(one.start), screen.day(one.end)) for one in found)
    rows = ((*when, *what) for when, what in zip(days, for_each, strict=True))
    screen.table(("green", "green", "bold", "", "", "yellow"), rows)
    remark_cursor(call, screen, found.next_cursor)


def _left(one: SessionView) -> Iterator[str]:
    """Yield what is not finished of a session."""
    if one.status != "ingested":
        yield "unread"
    if one.failed_chunks:
        yield f"{counted(one.failed_chunks, 'chunk')} failed"


@command()
@takes("--entity", of="NAME", help="Only facts that mention this entity.")
@takes("--session", "session_id", of="ID", help="Only facts from this session.")
@filter_option
@interval_options
@moment_options
@page_limit(20, "Most facts on one page.")
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, show_default=True, help="Skip so many facts."
)
@cursor_option
@click.option(
    "--verdict",
    type=click.Choice(["pinned", "forgotten", "corrected"]),
    help="Only facts with this correction.",
)
@flag("--statements", help="Show the statement behind each fact, too.")
@flag("--ids", help="Show the ids that update, pin and forget take.")
def facts(call: Call, /, statements: bool, ids: bool, **options: Any) -> None:
    """List the facts, in time order, a page at a time."""
    call.run(
        lambda memory: memory.list(**options),
        lambda screen, page: _draw_page(call, screen, page, options["offset"], statements, ids),
    )


def _draw_page(call: Call, screen: Screen, page: FactPage, offset: int, statements: bool, ids: bool) -> None:
    draw_facts(screen, page.facts, statements=statements, ids=ids)
    if not page.total:
        call.remark(screen, "No facts match.")
    elif page.next_offset is not None:
        shown = f"{offset + 1} to {offset + len(page.facts)} of {page.total}"
        call.remark(
            screen, f"{shown}; the next page: --offset {page.next_offset} or --cursor {page.next_cursor}"
        )
    elif page.next_cursor is not None:
        call.remark(screen, f"{len(page.facts)} of {page.total}; the next page: --cursor {page.next_cursor}")


@command()
@click.argument("entity")
@takes("--attribute", of="NAME", help="Only states of this attribute, e.g. residence.")
@click.option("--kind", type=click.Choice(["state", "event"]), help="Only states, or only events.")
@moment_options
def timeline(
    call: Call, /, entity: str, attribute: str | None, kind: Literal["state", "event"] | None, **moment: Any
) -> None:
    """Show the states and events of an entity, in time order.

    A state has an attribute, a value and a period. An event is another fact that names the entity, with its day.
    """
    call.run(
        lambda memory: list(memory.timeline(entity, attribute=attribute, kind=kind, **moment)),
        draw_timeline,
        none="nothing found",
    )


def draw_timeline(screen: Screen, entries: Sequence[TimelineEntry]) -> None:
    """Print a timeline: states with their intervals, events with their days."""
    records = (
        (*screen.days(one), one.kind, one.attribute, one.value, one.text, sources(one.sources, None))
        for one in entries
    )
    screen.table(("green", "cyan", ""), (_entry(screen, entry) for entry in entries), records)


def _entry(screen: Screen, entry: TimelineEntry) -> tuple[str, str, Text]:
    if entry.kind == "state":
        body = Text.assemble((clean(entry.value or "", 80), "bold"), "\n", (in_words(entry, 200), "dim"))
        return screen.interval(entry.start, entry.end), clean(attribute_name(entry.attribute), 20), body
    body = Text.assemble(in_words(entry, 240), (f"  {sources(entry.sources)}", "dim"))
    return screen.day(entry.start), "", body


def _draw_changes(call: Call, screen: Screen, page: ChangePage) -> None:
    draw_changes(screen, page.changes)
    if not page:
        call.remark(screen, "Nothing has changed.")
    elif page.next is not None:
        call.remark(screen, f"The next page: --after {page.next}")


def draw_changes(screen: Screen, found: Sequence[Change]) -> None:
    """Print changes, each with its minute, kind, subject and sources."""
    records = (
        (screen.minute(one.at), one.kind, _about(one), "; ".join(one.superseded), *_places(one))
        for one in found
    )
    rows = ((screen.minute(one.at), one.kind, _change(one)) for one in found)
    screen.table(("green", "cyan", ""), rows, records)


def _places(one: Change) -> tuple[str, str | None]:
    return sources(one.sources, None), one.fact_id


def _change(one: Change) -> Text:
    parts = [*(f"instead of {clean(text, 120)}" for text in one.superseded), sources(one.sources)]
    return with_origin(clean(_about(one), 300), " · ".join(part for part in parts if part))


def _about(one: Change) -> str:
    """Describe what a change is about."""
    if one.kind == "stored":
        return f"{counted(one.count, 'turn')} of {one.session_id}"
    if one.kind == "deleted":
        return counted(one.count, one.what)
    return f"{one.what}: {one.text or one.fact_id}" if one.what else one.text


@command()
@click.argument("a")
@click.argument("b", required=False)
@takes("--entity", of="NAME", help="Only this entity.")
@moment_options
@flag(
    "--stored",
    help="List instead what the memory stored, learnt, corrected and deleted from A until before B.",
)
@page_limit(note="Most changes on one page of --stored; 20 by default.")
@takes("--after", of="NEXT", help="Show the next page of --stored; the page before prints its number.")
def diff(
    call: Call,
    /,
    a: str,
    b: str | None,
    entity: str | None,
    stored: bool,
    limit: int | None,
    after: str | None,
    **moment: str | None,
) -> None:
    """Compare the states at time A and time B, or list what was stored between them.

    Each row is an attribute of an entity, with the value at A and the value at B. B is now by default. A value
    that came and went between A and B is not shown; see `timeline`. With --stored, the rows are what the memory
    itself did from A to B, whatever time the talk was about.
    """
    if (entity or any(moment.values())) if stored else (limit or after):
        raise click.UsageError(
            "--limit and --after need --stored; --entity, --said-by and --known-at do not go with it"
        )
    if stored:
        call.run(
            lambda memory: memory.changes(a, b, limit=limit or 20, after=after),
            lambda screen, page: _draw_changes(call, screen, page),
        )
        return
    call.run(
        lambda memory: memory.diff(a, b, entity=entity, **moment),
        draw_diff,
        none="nothing differs between the two times",
    )


def draw_diff(screen: Screen, found: Diff) -> None:
    """Print the states that differ between two times, with the day of the change and its sources."""

    def day(one: DiffEntry) -> str:
        return "" if one.at is None else screen.day(one.at)

    def change(one: DiffEntry) -> Text:
        values = ("–" if value is None else clean(value, 80) for value in (one.before, one.after))
        return with_origin(" → ".join(values), sources(one.sources))

    screen.table(
        ("green", "bold", "cyan", ""),
        (
            (day(one), clean(one.entity, 40), clean(attribute_name(one.attribute), 20), change(one))
            for one in found
        ),
        (
            (
                one.entity,
                one.attribute,
                one.change,
                one.before,
                one.after,
                day(one),
                sources(one.sources, None),
            )
            for one in found
        ),
    )
