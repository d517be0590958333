"""`memforest entities`, `relations`, `path`, `merge-entities`, `split-entity` and `profile`: whom and what a memory knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import click
from rich.text import Text

from memforest.cli.call import Call, command
from memforest.cli.screen import Screen, clean, columns, counted, sources
from memforest.records import EntityKind
from memforest.settings import MAX_PAGE

if TYPE_CHECKING:
    from memforest.read.entities import Entity, EntityChoice, EntityPage, PathStep, PathView, RelationView
    from memforest.read.profiles import DatedQuote, Profile, ProfileLine


NAME_CHARS, LABEL_CHARS, TEXT_CHARS = 40, 60, 200
MOST_HOPS = 8
MOST_RELATIONS = 3


@command()
@click.option("--kind", type=click.Choice(get_args(EntityKind)), help="Only entities of this kind.")
@click.option("--query", metavar="TEXT", help="Only those with a name that has all words of TEXT.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_PAGE),
    default=50,
    show_default=True,
    help="Most entities that are listed.",
)
@click.option("--cursor", metavar="CURSOR", help="The page that follows, as the page before has named it.")
@click.option("--choices", is_flag=True, help="Instead list what people have decided on who is who.")
def entities(
    call: Call, kind: str | None, query: str | None, limit: int, cursor: str | None, choices: bool
) -> None:
    """List whom and what statements name, those that most name first, with all names of each.

    Where names that differ were taken for one entity, it is said why; `memforest split-entity` keeps one of them apart.
    """
    if choices and (kind is not None or query is not None):
        raise click.UsageError("--choices lists all decisions; leave out --kind and --query")
    with call.forest() as forest:
        memory = call.memory(forest)
        if choices:
            decided = memory.entity_choices()
            call.show(decided, lambda screen: draw_choices(screen, decided))
            if not decided:
                call.warn(["nothing was decided"])
            return
        page = memory.entities(kind, query, limit=limit, cursor=cursor)  # type: ignore[arg-type]  # one of the choices
        call.show(page, lambda screen: _draw_page(call, screen, page))


def _draw_page(call: Call, screen: Screen, page: EntityPage) -> None:
    draw_entities(screen, page.entities)
    if not page:
        call.remark(screen, "No entity matches.")
    elif page.next_cursor is not None:
        call.remark(
            screen,
            f"{len(page)} of {page.total}; --limit shows more, and --cursor {page.next_cursor} the next.",
        )


def draw_entities(screen: Screen, found: Sequence[Entity]) -> None:
    """Print entities: name, kind, number of facts, names with counts, and why they are one entity."""
    table = columns("bold", "cyan", "green", "")
    for one in found:
        names = ", ".join(f"{name} {count}" for name, count in one.names.items())
        why = "; ".join(f"{each.name} = {each.into} ({each.rule} {each.score:.2f})" for each in one.decisions)
        if screen.records:
            screen.record(one.name, one.kind, str(one.supports), one.role, names, why)
            continue
        body = Text(clean(names, TEXT_CHARS))
        if why:
            body.append(f"\n{clean(why, TEXT_CHARS)}", style="dim")
        table.add_row(clean(one.name, NAME_CHARS), one.kind, counted(one.supports, "fact"), body)
    screen.put(table)


def draw_choices(screen: Screen, found: Sequence[EntityChoice]) -> None:
    """Print the decisions on which names are one entity."""
    table = columns("green", "bold", "cyan", "")
    for one in found:
        if screen.records:
            screen.record(screen.minute(one.made), one.name, one.verdict, one.other)
            continue
        verdict = "is" if one.verdict == "same" else "is not"
        table.add_row(
            screen.minute(one.made), clean(one.name, NAME_CHARS), verdict, clean(one.other, NAME_CHARS)
        )
    screen.put(table)


@command()
@click.argument("name")
@click.option("--as-of", metavar="TIME", help="Only what held at that time.")
def relations(call: Call, name: str, as_of: str | None) -> None:
    """Show what was said of NAME and others: what relates them, since when and until when, and where that was said."""
    with call.forest() as forest:
        found = call.memory(forest).relations(name, as_of=as_of)
        call.show(found, lambda screen: draw_relations(screen, found))
        if not found:
            call.warn(["no relation is known" + (" of that time" if as_of else "")])


def draw_relations(screen: Screen, found: Sequence[RelationView]) -> None:
    """Print relations with the time they held and their sources."""
    table = columns("green", "")
    for one in found:
        if screen.records:
            screen.record(
                one.source,
                one.label,
                one.target,
                str(one.weight),
                "" if one.start is None else screen.day(one.start),
                "" if one.end is None else screen.last_day(one.end),
                sources(one.sources, None),
            )
            continue
        body = Text.assemble(
            (clean(one.source, NAME_CHARS), "bold"),
            f" {clean(one.label, LABEL_CHARS)} ",
            (clean(one.target, NAME_CHARS), "bold"),
        )
        times = f", {one.weight} times" if one.weight > 1 else ""
        body.append(f"\n{sources(one.sources)}{times}", style="dim")
        table.add_row(screen.interval(one.start, one.end), body)
    screen.put(table)


@command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--hops", type=click.IntRange(1, MOST_HOPS), default=4, show_default=True, help="Most steps of the way."
)
def path(call: Call, a: str, b: str, hops: int) -> None:
    """Show how A is linked with B: the shortest way over what was said of both, with where it was said."""
    with call.forest() as forest:
        found = call.memory(forest).path(a, b, hops=hops)
        call.show(found, lambda screen: draw_path(screen, found))
        if not found:
            call.warn([f"no way of {counted(hops, 'step')} or fewer leads from one to the other"])
        elif not found.steps:
            call.warn(["both names are one entity"])


def draw_path(screen: Screen, found: PathView) -> None:
    """Print a path step by step, each step with its sources."""
    for one in found:
        if screen.records:
            screen.record(
                one.source,
                ", ".join(one.labels) or one.kind,
                one.target,
                f"{one.weight:g}",
                sources(one.sources, None),
                " | ".join(one.texts),
            )
            continue
        screen.line(f"{clean(one.source, NAME_CHARS)} – {_by(one)} – {clean(one.target, NAME_CHARS)}", "bold")
        for each in one.relations[:MOST_RELATIONS]:
            relation = f"{clean(each.source, NAME_CHARS)} {clean(each.label, LABEL_CHARS)} {clean(each.target, NAME_CHARS)}"
            screen.line(f"{relation}, {screen.interval(each.start, each.end)}", "green", indent=2)
        for text in one.texts:
            screen.line(clean(text, TEXT_CHARS), indent=2)
        if one.sources:
            screen.line(sources(one.sources), "dim", indent=2)


def _by(one: PathStep) -> str:
    """Return the words that link the ends of a step."""
    if one.kind == "overlap":
        return "perhaps one name"
    return clean(", ".join(one.labels), LABEL_CHARS) or "named together"


@command("merge-entities")
@click.argument("a")
@click.argument("b")
def merge_entities(call: Call, a: str, b: str) -> None:
    """Decide that A and B are one. What was said stays as it is; `memforest split-entity` takes it back."""
    with call.forest() as forest:
        one = call.memory(forest).merge_entities(a, b)
        call.show(one, lambda screen: draw_entities(screen, [one]))


@command("split-entity")
@click.argument("entity")
@click.argument("name")
def split_entity(call: Call, entity: str, name: str) -> None:
    """Decide that NAME is not one with the other names of ENTITY. `memforest merge-entities` takes it back."""
    with call.forest() as forest:
        one = call.memory(forest).split_entity(entity, name)
        call.show(one, lambda screen: draw_entities(screen, [one]))


QUOTE_CHARS, LINE_CHARS = 160, 400


@command()
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
def profile(
    call: Call, name: str | None, as_of: str | None, said_by: str | None, index: str | None, written: bool
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
        if found.unsupported:
            left = counted(len(found.unsupported), "line")
            call.warn([f"{left} without a source left out; --json has them"])
        call.show(found, lambda screen: draw_profile(screen, found))


def draw_profile(screen: Screen, found: Profile) -> None:
    """Print a profile: the month, each participant's lines with their sources, and what was said since."""
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
    """Print the quotes of a line, or its sources where it has no quotes."""
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
