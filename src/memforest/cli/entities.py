"""`memforest entities`, `relations` and `profile`: people and things, and how they relate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.text import Text

from memforest.cli.call import Call, command, cursor_option, flag, group, page_limit, said_by_option, takes
from memforest.cli.screen import Screen, clean, counted, sources, with_origin
from memforest.records import EntityKind

if TYPE_CHECKING:
    from memforest.read.entities import Entity, EntityChoice, EntityPage, PathStep, PathView, RelationView
    from memforest.read.profiles import DatedQuote, Profile, ProfileLine


NAME_CHARS, LABEL_CHARS, TEXT_CHARS = 40, 60, 200
MOST_HOPS = 8
MOST_RELATIONS = 3


@group(
    click.option("--kind", type=click.Choice(get_args(EntityKind)), help="Only entities of this kind."),
    takes("--query", of="TEXT", help="Only entities with all words of TEXT in one name."),
    page_limit(50, "Most entities on one page."),
    cursor_option,
    flag("--choices", help="List instead which names people have merged or split."),
    alone=True,
)
def entities(call: Call, /, kind: str | None, query: str | None, choices: bool, **page: Any) -> None:
    """List people, places and things; merge or split them.

    The entities with most facts come first. Each row has all names of the entity, and says why it took
    different names for one entity. If it was wrong, use `memforest entities split`.
    """
    if choices and (kind is not None or query is not None):
        raise click.UsageError("--choices lists all decisions; leave out --kind and --query")
    if choices:
        call.run(lambda memory: memory.entity_choices(), draw_choices, none="no names were merged or split")
        return
    call.run(
        lambda memory: memory.entities(kind, query, **page),  # type: ignore[arg-type]  # one of the choices
        lambda screen, page: _draw_page(call, screen, page),
    )


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

    def names(one: Entity) -> str:
        return ", ".join(f"{name} {count}" for name, count in one.names.items())

    def why(one: Entity) -> str:
        told = [f"{each.name} = {each.into} ({each.rule} {each.score:.2f})" for each in one.decisions]
        return "; ".join([*told, *(f"perhaps {name}" for name in one.perhaps)])

    def body(one: Entity) -> Text:
        return with_origin(clean(names(one), TEXT_CHARS), clean(why(one), TEXT_CHARS))

    screen.table(
        ("bold", "cyan", "green", ""),
        ((clean(one.name, NAME_CHARS), one.kind, counted(one.supports, "fact"), body(one)) for one in found),
        ((one.name, one.kind, str(one.supports), one.role, names(one), why(one)) for one in found),
    )


def draw_choices(screen: Screen, found: Sequence[EntityChoice]) -> None:
    """Print the decisions on which names are one entity."""
    is_not = {"same": "is", "apart": "is not"}

    def names(one: EntityChoice) -> tuple[str, str, str]:
        return clean(one.name, NAME_CHARS), is_not[one.verdict], clean(one.other, NAME_CHARS)

    screen.table(
        ("green", "bold", "cyan", ""),
        ((screen.minute(one.made), *names(one)) for one in found),
        ((screen.minute(one.made), one.name, one.verdict, one.other) for one in found),
    )


@command()
@click.argument("name")
@click.argument("other", required=False)
@takes("--as-of", of="TIME", help="Only relations that held at that time; not with OTHER.")
@click.option(
    "--hops", type=click.IntRange(1, MOST_HOPS), help="Most steps of the path to OTHER.  [default: 4]"
)
def relations(call: Call, name: str, other: str | None, as_of: str | None, hops: int | None) -> None:
    """Show the relations of NAME, or the path from NAME to OTHER.

    Each relation has its period and its sources. The path is the shortest one over relations and shared turns.
    """
    if (other and as_of) or (hops and not other):
        raise click.UsageError("--as-of goes with one NAME, and --hops with NAME and OTHER")
    if other is not None:
        none = f"there is no path of {counted(hops or 4, 'step')} or fewer between them"
        way = call.run(lambda memory: memory.path(name, other, hops=hops or 4), draw_path, none=none)
        if way and not way.steps:
            call.warn(["both names are the same entity"])
        return
    none = "no relation is known" + (" at that time" if as_of else "")
    call.run(lambda memory: memory.relations(name, as_of=as_of), draw_relations, none=none)


def draw_relations(screen: Screen, found: Sequence[RelationView]) -> None:
    """Print relations with the time they held and their sources."""

    def days(one: RelationView) -> Iterator[str]:
        yield "" if one.start is None else screen.day(one.start)
        yield "" if one.end is None else screen.last_day(one.end)

    screen.table(
        ("green", ""),
        ((screen.interval(one.start, one.end), _relation(one)) for one in found),
        (
            (one.source, one.label, one.target, one.weight, *days(one), sources(one.sources, None))
            for one in found
        ),
    )


def _relation(one: RelationView) -> Text:
    times = f", {one.weight} times" if one.weight > 1 else ""
    return Text.assemble(
        (clean(one.source, NAME_CHARS), "bold"),
        f" {clean(one.label, LABEL_CHARS)} ",
        (clean(one.target, NAME_CHARS), "bold"),
        (f"\n{sources(one.sources)}{times}", "dim"),
    )


def draw_path(screen: Screen, found: PathView) -> None:
    """Print a path step by step, each step with its sources."""
    for one in found:
        if screen.records:
            how, weight = ", ".join(one.labels) or one.kind, f"{one.weight:g}"
            told = (sources(one.sources, None), " | ".join(one.texts))
            screen.record(one.source, how, one.target, weight, *told)
            continue
        screen.line(f"{clean(one.source, NAME_CHARS)} – {_by(one)} – {clean(one.target, NAME_CHARS)}", "bold")
        for each in one.relations[:MOST_RELATIONS]:
            ends = (clean(each.source, NAME_CHARS), clean(each.target, NAME_CHARS))
            relation = f" {clean(each.label, LABEL_CHARS)} ".join(ends)
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


@command(group=entities)
@click.argument("a")
@click.argument("b")
def merge(call: Call, a: str, b: str) -> None:
    """Make A and B one entity. No turn is changed; `memforest entities split` undoes it."""
    call.run(lambda memory: memory.merge_entities(a, b), lambda screen, one: draw_entities(screen, [one]))


@command(group=entities)
@click.argument("entity")
@click.argument("name")
def split(call: Call, entity: str, name: str) -> None:
    """Make NAME an entity of its own, apart from ENTITY. `memforest entities merge` undoes it."""
    call.run(
        lambda memory: memory.split_entity(entity, name), lambda screen, one: draw_entities(screen, [one])
    )


QUOTE_CHARS, LINE_CHARS = 160, 400


@command()
@click.argument("name", required=False)
@takes("--as-of", of="TIME", help="The profile at that time.")
@said_by_option
@takes(
    "--index",
    of="NAME",
    help="The index that keeps profiles, or `graph`. Default: the index for speakers, else the graph.",
)
@flag("--written", help="Let the chat model write the profile of NAME from the graph, in one call.")
def profile(call: Call, /, name: str | None, **given: Any) -> None:
    """Show the profile of NAME, or of all speakers.

    The index timem writes a profile of each speaker at the end of a month (`memforest index add timem`). You see the
    last one, and what was said since. Without timem, and for entities that never speak, the graph makes the profile:
    the current states, and what was said last. Each line has its sources.
    """
    if given["written"] and name is None:
        raise click.UsageError("--written needs a NAME")
    found = call.run(lambda memory: memory.profile(name, **given), draw_profile)
    if found.unsupported:
        call.warn([f"{counted(len(found.unsupported), 'line')} without a source left out; --json has them"])


def draw_profile(screen: Screen, found: Profile) -> None:
    """Print a profile: the month, each participant's lines with their sources, and what was said since."""
    if screen.records:
        for section in found:
            for line in section:
                where = sources(line.sources, None)
                screen.record(found.month, section.participant, line.kind, line.text, where)
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
