"""`memforest entities`, `relations`, `path`, `merge-entities` and `split-entity`: whom and what a memory knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import click
from rich.text import Text

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.screen import Screen, clean, columns, counted, sources
from memforest.limits import MAX_PAGE
from memforest.types import EntityKind

if TYPE_CHECKING:
    from memforest.memory.results import Entity, EntityChoice, EntityPage, PathStep, PathView, RelationView

NAME_CHARS, LABEL_CHARS, TEXT_CHARS = 40, 60, 200
MOST_HOPS = 8
MOST_SHOWN = 3


@click.command()
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
@shared_options
@pass_call
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
            call.show(decided, lambda screen: draw_choices(screen, decided), forest=forest)
            if not decided:
                call.warn(["nothing was decided"])
            return
        page = memory.entities(kind, query, limit=limit, cursor=cursor)  # type: ignore[arg-type]  # one of the choices
        call.show(page, lambda screen: _draw_page(call, screen, page), forest=forest)


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
    """Print entities: name, kind, statements, all names with how often each was seen, and why they are one."""
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
    if found and not screen.records:
        screen.put(table)


def draw_choices(screen: Screen, found: Sequence[EntityChoice]) -> None:
    """Print what was decided on who is who."""
    table = columns("green", "bold", "cyan", "")
    for one in found:
        if screen.records:
            screen.record(screen.minute(one.made), one.name, one.verdict, one.other)
            continue
        told = "is" if one.verdict == "same" else "is not"
        table.add_row(
            screen.minute(one.made), clean(one.name, NAME_CHARS), told, clean(one.other, NAME_CHARS)
        )
    if found and not screen.records:
        screen.put(table)


@click.command()
@click.argument("name")
@click.option("--as-of", metavar="TIME", help="Only what held at that time.")
@shared_options
@pass_call
def relations(call: Call, name: str, as_of: str | None) -> None:
    """Show what was said of NAME and others: what relates them, since when and until when, and where that was said."""
    with call.forest() as forest:
        found = call.memory(forest).relations(name, as_of=as_of)
        call.show(found, lambda screen: draw_relations(screen, found), forest=forest)
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
    if found and not screen.records:
        screen.put(table)


@click.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--hops", type=click.IntRange(1, MOST_HOPS), default=4, show_default=True, help="Most steps of the way."
)
@shared_options
@pass_call
def path(call: Call, a: str, b: str, hops: int) -> None:
    """Show how A is linked with B: the shortest way over what was said of both, with where it was said."""
    with call.forest() as forest:
        found = call.memory(forest).path(a, b, hops=hops)
        call.show(found, lambda screen: draw_path(screen, found), forest=forest)
        if not found:
            call.warn([f"no way of {counted(hops, 'step')} or fewer leads from one to the other"])
        elif not found.steps:
            call.warn(["both names are one entity"])


def draw_path(screen: Screen, found: PathView) -> None:
    """Print a way step by step, each with what says so."""
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
        screen.line(
            f"{clean(one.source, NAME_CHARS)} – {_by(one)} – {clean(one.target, NAME_CHARS)}",
            "bold",
        )
        for each in one.relations[:MOST_SHOWN]:
            told = f"{clean(each.source, NAME_CHARS)} {clean(each.label, LABEL_CHARS)} {clean(each.target, NAME_CHARS)}"
            screen.line(f"{told}, {screen.interval(each.start, each.end)}", "green", indent=2)
        for text in one.texts:
            screen.line(clean(text, TEXT_CHARS), indent=2)
        if one.sources:
            screen.line(sources(one.sources), "dim", indent=2)


def _by(one: PathStep) -> str:
    """Say what joins the ends of a step."""
    if one.kind == "overlap":
        return "perhaps one name"
    return clean(", ".join(one.labels), LABEL_CHARS) or "named together"


@click.command(name="merge-entities")
@click.argument("a")
@click.argument("b")
@shared_options
@pass_call
def merge_entities(call: Call, a: str, b: str) -> None:
    """Decide that A and B are one. What was said stays as it is; `memforest split-entity` takes it back."""
    with call.forest() as forest:
        one = call.memory(forest).merge_entities(a, b)
        call.show(one, lambda screen: draw_entities(screen, [one]), forest=forest)


@click.command(name="split-entity")
@click.argument("entity")
@click.argument("name")
@shared_options
@pass_call
def split_entity(call: Call, entity: str, name: str) -> None:
    """Decide that NAME is not one with the other names of ENTITY. `memforest merge-entities` takes it back."""
    with call.forest() as forest:
        one = call.memory(forest).split_entity(entity, name)
        call.show(one, lambda screen: draw_entities(screen, [one]), forest=forest)
