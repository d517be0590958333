"""`memforest profile`: what is known of somebody by the end of a month."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, counted, sources

if TYPE_CHECKING:
    from memforest.memory.results import DatedQuote, Profile, ProfileLine

QUOTE_CHARS, LINE_CHARS = 160, 400


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
@shared_options
@pass_call
def profile(
    call: Call,
    name: str | None,
    as_of: str | None,
    said_by: str | None,
    index: str | None,
    written: bool,
) -> None:
    """Show the profile of NAME, or of all who took part: that of the last month that had ended, or what the graph tells.

    Below each line stands where it was said, and below the profile what has been said since the month ended. The index timem
    keeps one of each month (`memforest index add timem`). Without it, and of whom or what never spoke, the profile says
    what is so and what was said last.
    """
    if written and name is None:
        raise click.UsageError("--written is of one NAME")
    with call.forest() as forest:
        memory = call.memory(forest)
        found = memory.profile(name, as_of=as_of, said_by=said_by, index=index, written=written)
        call.warn(found.warnings)
        if found.out_of_date:
            call.warn([f"{found.month} is out of date; `memforest advance` writes it anew"])
        if found.unsupported:
            left = counted(len(found.unsupported), "line")
            call.warn([f"{left} without a source left out; --json has them"])
        call.show(found, lambda screen: draw_profile(screen, found), forest=forest)


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
