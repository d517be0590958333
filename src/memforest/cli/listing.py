"""`memforest users`, `sessions`, `facts`, `timeline`, `changes` and `diff`: what was received and learnt, without a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.text import Text

from memforest.cli.call import Call, command, filter_option, moment_options
from memforest.cli.screen import Screen, clean, columns, counted, draw_facts, in_words, sources
from memforest.settings import MAX_PAGE
from memforest.store.directory import Survey
from memforest.times import local_time

if TYPE_CHECKING:
    from memforest.read.changes import Change, ChangePage, Diff
    from memforest.read.stored import FactPage, SessionPage, TimelineEntry, TurnPage, UserPage


PAGE = 50
"""Most on a page where only a cursor is given."""


_LIMIT = click.option(
    "--limit",
    type=click.IntRange(1, MAX_PAGE),
    help="Most on one page; all when neither this nor --cursor is given.",
)
_CURSOR = click.option(
    "--cursor", metavar="CURSOR", help="The page that follows, as the page before has named it."
)


@command()
@_LIMIT
@_CURSOR
def users(call: Call, limit: int | None, cursor: str | None) -> None:
    """List who has a memory in the directory, all or a page in the order of the names of their files.

    Nothing is written. Files whose user cannot be read (damaged, locked, of another program) are named on standard error.
    """
    found: Survey | UserPage
    if limit is None and cursor is None:
        found = call.survey()
    else:
        with call.forest() as forest:
            found = forest.users(limit=limit or PAGE, cursor=cursor)
    call.warn(f"passed over: {one.error} (`memforest doctor` checks all files)" for one in found.unreadable)

    def draw(screen: Screen) -> None:
        for user in found.users:
            screen.line(user)
        if not found.users:
            call.remark(
                screen, f"There is no memory in {call.folder} yet; `memforest ingest FILE` makes one."
            )
        if not isinstance(found, Survey):
            remark_cursor(call, screen, found.next_cursor)

    call.show(found, draw)


@command()
@click.argument("session_id", metavar="SESSION", required=False)
@_LIMIT
@_CURSOR
def sessions(call: Call, session_id: str | None, limit: int | None, cursor: str | None) -> None:
    """List the sessions that were received, in time order, or show what was said in one.

    First and last day, name, number of turns, who spoke, and what is not finished (`memforest resume`). Of a SESSION, every
    turn as it was said.
    """
    paged = limit is not None or cursor is not None
    limit = (limit or PAGE) if paged else None
    with call.forest() as forest:
        memory = call.memory(forest)
        if session_id is not None:
            said = memory.turns(session_id, limit=limit, cursor=cursor)
            call.show(said if paged else list(said), lambda screen: _draw_turns(call, screen, said))
            return
        found = memory.sessions(limit=limit, cursor=cursor)
        call.show(found if paged else list(found), lambda screen: _draw_sessions(call, screen, found))


def remark_cursor(call: Call, screen: Screen, cursor: str | None) -> None:
    """Print how to see the next page, if there is one."""
    if cursor is not None:
        call.remark(screen, f"the next page: --cursor {cursor}")


def _draw_turns(call: Call, screen: Screen, said: TurnPage) -> None:
    table = columns("green", "bold", "yellow", "")
    for one in said:
        when = local_time(one.said, screen.zone).isoformat(sep=" ", timespec="minutes")[:16]
        table.add_row(when, clean(one.speaker), "damaged" if one.damaged else "", clean(one.text))
    screen.put(table)
    remark_cursor(call, screen, said.next_cursor)


def _draw_sessions(call: Call, screen: Screen, found: SessionPage) -> None:
    table = columns("green", "green", "bold", "", "", "yellow")
    for one in found:
        left = [] if one.status == "ingested" else ["unread"]
        left += [f"{counted(one.failed_chunks, 'chunk')} failed"] if one.failed_chunks else []
        table.add_row(
            screen.day(one.start),
            screen.day(one.end),
            clean(one.session_id),
            counted(one.turns, "turn"),
            clean(", ".join(one.participants)),
            ", ".join(left),
        )
    screen.put(table)
    remark_cursor(call, screen, found.next_cursor)


@command()
@click.option("--entity", metavar="NAME", help="Only facts that mention it.")
@click.option("--session", "session_id", metavar="ID", help="Only facts that this session supports.")
@filter_option
@click.option("--as-of", metavar="TIME", help="Only what was so at that time.")
@click.option("--during", nargs=2, metavar="START END", help="Only what overlaps the time from START to END.")
@moment_options
@click.option(
    "--limit", type=click.IntRange(1, MAX_PAGE), default=20, show_default=True, help="Most facts on the page."
)
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, show_default=True, help="How many to pass over."
)
@click.option("--cursor", metavar="CURSOR", help="The page that follows, as the page before has named it.")
@click.option(
    "--verdict",
    type=click.Choice(["pinned", "forgotten", "corrected"]),
    help="Only facts of which that was decided.",
)
@click.option("--statements", is_flag=True, help="Show the statements by which facts are found, too.")
@click.option("--ids", is_flag=True, help="Show the ids by which facts are corrected, pinned and forgotten.")
def facts(call: Call, /, statements: bool, ids: bool, **options: Any) -> None:
    """List what was learnt, in time order, a page at a time, as it was said or as a chat model worded it."""
    with call.forest() as forest:
        page = call.memory(forest).list(**options)
        call.warn(page.warnings)
        call.show(page, lambda screen: _draw_page(call, screen, page, options["offset"], statements, ids))


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
@click.option("--attribute", metavar="NAME", help="Only this attribute's states, e.g. residence.")
@click.option("--kind", type=click.Choice(["state", "event"]), help="Only states, or only events.")
@moment_options
def timeline(
    call: Call, /, entity: str, attribute: str | None, kind: Literal["state", "event"] | None, **moment: Any
) -> None:
    """Show what is known of somebody or something, in time order.

    States are shown with the time they held and what was said of it; events, facts that name it, with their day.
    """
    with call.forest() as forest:
        entries = list(call.memory(forest).timeline(entity, attribute=attribute, kind=kind, **moment))
        call.show(entries, lambda screen: draw_timeline(screen, entries))
        if not entries:
            call.warn(["nothing of that kind is known"])


def draw_timeline(screen: Screen, entries: Sequence[TimelineEntry]) -> None:
    """Print a timeline: states with their intervals, events with their days."""
    if screen.records:
        for entry in entries:
            until = screen.last_day(entry.end) if entry.end is not None else ""
            named = (entry.attribute or "", entry.value or "")
            screen.record(
                screen.day(entry.start), until, entry.kind, *named, entry.text, sources(entry.sources, None)
            )
        return
    table = columns("green", "cyan", "")
    for entry in entries:
        if entry.kind == "state":
            body = Text.assemble((clean(entry.value or "", 80), "bold"), "\n", (in_words(entry, 200), "dim"))
            when = screen.interval(entry.start, entry.end)
            table.add_row(when, clean(entry.attribute or "", 20), body)
        else:
            origin = f"  {sources(entry.sources)}"
            table.add_row(screen.day(entry.start), "", Text.assemble(in_words(entry, 240), (origin, "dim")))
    screen.put(table)


@command()
@click.argument("since")
@click.argument("until", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_PAGE),
    default=20,
    show_default=True,
    help="Most changes on the page.",
)
@click.option("--after", metavar="NEXT", help="Go on behind the page that named it.")
def changes(call: Call, since: str, until: str | None, limit: int, after: str | None) -> None:
    """List what this memory has stored, learnt, corrected and deleted, from SINCE to before UNTIL.

    These are the times at which it did so, not those of which was spoken; `diff` compares those.
    """
    with call.forest() as forest:
        page = call.memory(forest).changes(since, until, limit=limit, after=after)
        call.show(page, lambda screen: _draw_changes(call, screen, page))


def _draw_changes(call: Call, screen: Screen, page: ChangePage) -> None:
    draw_changes(screen, page.changes)
    if not page:
        call.remark(screen, "Nothing has changed.")
    elif page.next is not None:
        call.remark(screen, f"The next page: --after {page.next}")


def draw_changes(screen: Screen, found: Sequence[Change]) -> None:
    """Print changes, each with its minute, kind, subject and sources."""
    if screen.records:
        for one in found:
            screen.record(
                screen.minute(one.at),
                one.kind,
                _about(one),
                "; ".join(one.superseded),
                sources(one.sources, None),
                one.fact_id or "",
            )
        return
    table = columns("green", "cyan", "")
    for one in found:
        ended = [f"instead of {clean(text, 120)}" for text in one.superseded]
        parts = [*ended, *([sources(one.sources)] if one.sources else [])]
        body = Text(clean(_about(one), 300))
        if parts:
            body.append("\n" + " · ".join(parts), style="dim")
        table.add_row(screen.minute(one.at), one.kind, body)
    screen.put(table)


def _about(one: Change) -> str:
    """Describe what a change is about."""
    if one.kind == "stored":
        return f"{counted(one.count, 'turn')} of {one.session_id}"
    if one.kind == "deleted":
        return counted(one.count, one.what)
    return f"{one.what}: {one.text or one.fact_id}" if one.what else one.text


@command()
@click.argument("a")
@click.argument("b")
@click.option("--entity", metavar="NAME", help="Only of this entity.")
@moment_options
def diff(call: Call, /, a: str, b: str, entity: str | None, **moment: str | None) -> None:
    """Show what was so at time A and not at time B, or the other way round, by entity and attribute.

    A value that came and went between the two is in none of them; `timeline` has it.
    """
    with call.forest() as forest:
        found = call.memory(forest).diff(a, b, entity=entity, **moment)
        call.warn(found.warnings)
        call.show(found, lambda screen: draw_diff(screen, found))
        if not found:
            call.warn(["the same was so at both times"])


def draw_diff(screen: Screen, found: Diff) -> None:
    """Print the states that differ between two times, with the day of the change and its sources."""
    table = columns("green", "bold", "cyan", "")
    for one in found:
        day = "" if one.at is None else screen.day(one.at)
        values = (one.before, one.after)
        if screen.records:
            screen.record(
                one.entity,
                one.attribute,
                one.change,
                *(value or "" for value in values),
                day,
                sources(one.sources, None),
            )
            continue
        change = " → ".join("–" if value is None else clean(value, 80) for value in values)
        body = Text.assemble(change, "\n", (sources(one.sources), "dim"))
        table.add_row(day, clean(one.entity, 40), clean(one.attribute, 20), body)
    screen.put(table)
