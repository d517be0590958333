"""`memforest profile`: what is known of somebody by the end of a month, and how it differs from an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, counted, sources

if TYPE_CHECKING:
    from datetime import datetime

    from memforest.forest import MemForest, UserMemory
    from memforest.memory.results import DatedQuote, Profile, ProfileChanges, ProfileLine

QUOTE_CHARS, LINE_CHARS = 160, 400
MARKS = {"begun": "+", "ended": "-", "changed": "~"}


@click.command()
@click.argument("name", required=False)
@click.option("--as-of", metavar="TIME", help="The profile that was in force at that time.")
@click.option("--said-by", metavar="TIME", help="Only what had been said by that time.")
@click.option(
    "--index",
    metavar="NAME",
    help="The index that keeps it, or `graph` for what the graph tells; by default the index of those who speak.",
)
@click.option(
    "--written", is_flag=True, help="Have the chat model write what the graph tells of NAME, in one call."
)
@click.option(
    "--since",
    metavar="TIME",
    help="Instead how it differs from the profile that was in force at that earlier time.",
)
@shared_options
@pass_call
def profile(
    call: Call,
    name: str | None,
    as_of: str | None,
    said_by: str | None,
    index: str | None,
    written: bool,
    since: str | None,
) -> None:
    """Show the profile of NAME, or of all who took part: that of the last month that had ended, or what the graph tells.

    Below each line stands where it was said, and below the profile what has been said since the month ended. The index timem
    keeps one of each month (`memforest index add timem`). Without it, and of whom or what never spoke, the profile says
    what is so and what was said last.
    """
    if since is not None and (index is not None or written):
        raise click.UsageError("--since compares what an index keeps; leave out --index and --written")
    if written and name is None:
        raise click.UsageError("--written is of one NAME")
    with call.forest() as forest:
        memory = call.memory(forest)
        if since is not None:
            _changes(call, forest, memory, name, as_of, said_by, since)
            return
        found = memory.profile(name, as_of=as_of, said_by=said_by, index=index, written=written)
        call.warn(found.warnings)
        if found.out_of_date:
            call.warn([f"{found.month} is out of date; `memforest advance` writes it anew"])
        if found.unsupported:
            left = counted(len(found.unsupported), "line")
            call.warn([f"{left} without a source left out; --json has them"])
        call.show(found, lambda screen: draw_profile(screen, found), forest=forest)


def _changes(
    call: Call,
    forest: MemForest,
    memory: UserMemory,
    name: str | None,
    as_of: str | None,
    said_by: str | None,
    since: str,
) -> None:
    end: str | datetime = forest.config.clock() if as_of is None else as_of
    found = memory.profile_changes(since, end, name, said_by=said_by)
    call.warn(found.warnings)
    call.show(found, lambda screen: draw_profile_changes(screen, found), forest=forest)
    if not found:
        call.warn(["both profiles tell the same"])


def draw_profile(screen: Screen, found: Profile) -> None:
    """Print a profile: the month, each participant's lines with what they rest on, and what has been said since."""
    if screen.records:
        for section in found:
            for line in section:
                screen.record(
                    found.month or "", section.participant, line.kind, line.text, sources(line.sources, None)
                )
        for one in found.since:
            screen.record("", one.speaker, "since", one.text, f"{one.session_id} #{one.turn_id}")
        return
    if found.start is not None and found.end is not None:
        screen.line(f"{found.month}: {screen.interval(found.start, found.end)}", "green")
    for section in found:
        screen.heading(section.participant)
        for line in section:
            screen.line(clean(line.text, LINE_CHARS))
            _draw_quotes(screen, line)
    if found.since:
        more = f", the last {len(found.since)}" if found.said_since > len(found.since) else ""
        screen.heading(f"Said since: {counted(found.said_since, 'turn')}{more}")
        for one in found.since:
            screen.line(_quoted(screen, one), "dim", indent=2)


def _draw_quotes(screen: Screen, line: ProfileLine) -> None:
    """Print what a line rests on: some turns in their words, or where all that was said."""
    for one in line.quotes:
        screen.line(_quoted(screen, one), "dim", indent=2)
    turns = sum(len(one.turn_ids) for one in line.sources)
    if not line.quotes:
        screen.line(sources(line.sources), "dim", indent=2)
    elif turns > len(line.quotes):
        screen.line(f"… {counted(turns - len(line.quotes), 'more turn')}", "dim", indent=2)


def _quoted(screen: Screen, one: DatedQuote) -> str:
    said = clean(one.text, QUOTE_CHARS)
    return f'{screen.day(one.said)} {clean(one.speaker, 40)}: "{said}" ({one.session_id} #{one.turn_id})'


def draw_profile_changes(screen: Screen, found: ProfileChanges) -> None:
    """Print the lines that came, went or changed between two profiles."""
    if not screen.records:
        screen.line(f"{found.a or 'no profile'} to {found.b or 'no profile'}", "green")
    table = columns("bold", "green", "")
    for one in found:
        told = [line for line in (one.before, one.after) if line is not None]
        if screen.records:
            rests = told[-1].sources
            texts = ["" if line is None else line.text for line in (one.before, one.after)]
            screen.record(one.participant, one.change, *texts, sources(rests, None))
            continue
        body = Text(" → ".join(clean(line.text, LINE_CHARS) for line in told))
        body.append(f"\n{_where(told)}", style="dim")
        table.add_row(clean(one.participant, 40), MARKS[one.change], body)
    if found and not screen.records:
        screen.put(table)


def _where(told: Sequence[ProfileLine]) -> str:
    return sources(told[-1].sources)
