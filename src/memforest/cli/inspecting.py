"""`memforest tree`, `stats` and `maintain verify`: the inside of a memory, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text
from rich.tree import Tree

from memforest.cli.call import Call, command, takes
from memforest.cli.screen import Screen, clean, counted, leaf_counts, size
from memforest.plain import plain
from memforest.times import ordinals

if TYPE_CHECKING:
    from memforest.memory.blocking import UserMemory
    from memforest.read.stored import Stats, TreeView, VerifyReport
    from memforest.records import StepUsage


DRILLED_DEPTH = 2
"""Levels below the root without --depth, if a scope is named or there is only one tree."""

DRILLED_NODES = 500
"""Most nodes without --depth and --limit: a node of a segment tree may have dozens of children."""

LISTED_CHARS, SUMMARY_CHARS = 120, 500
"""Most characters of a summary in a list of trees, and in an unfolded tree (which fits the default 60 words)."""

LEAF_LINES, LINE_CHARS = 8, 160
"""Most turns of a leaf, one a line, and most characters of a line."""

EVERY_INDEX = frozenset({"trees"})
"""What `Stats.indexes` has of every index."""


@command()
@click.argument("scope", required=False)
@takes("--index", of="NAME", help="Only the trees of this index; see `index list`.")
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    help=f"Levels below the root. Default: 0, or {DRILLED_DEPTH} for a SCOPE or a single tree.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    help=f"Most nodes. Default: {DRILLED_NODES} without --depth, else no limit.",
)
def tree(call: Call, scope: str | None, index: str | None, depth: int | None, limit: int | None) -> None:
    """Draw the trees of a memory: all of them, those of one index, or those of a SCOPE.

    A SCOPE is a session, an entity or a scene, as the list names it: for example "scene 7". Each node shows its days,
    its summary, and how many leaves are below it. Nodes of a segment tree show the numbers of their leaves too.
    """
    with call.forest() as forest:
        memory = call.memory(forest)
        if depth is not None:
            found = memory.tree(scope, index=index, depth=depth, limit=limit)
        else:
            found = _overview(memory, scope, index, limit)
        # Whether nodes above the depth of an overview were left folded, for want of room, in a tree that was unfolded.
        cut = (depth, limit, len(found)) == (None, None, 1) and any(
            one.level and not one.children for one in (*found, *found[0].children)
        )
        title = f"{clean(memory.user_id, 40)}: {counted(len(found), 'tree')}"

        def draw(screen: Screen) -> None:
            draw_trees(screen, title, found)
            if cut:
                call.remark(screen, f"Only {DRILLED_NODES} nodes are shown; --limit or --depth shows more.")

        call.show(found, draw)


def _overview(memory: UserMemory, scope: str | None, index: str | None, limit: int | None) -> list[TreeView]:
    """Return the trees to draw when no depth is given: the roots, or the named or only tree unfolded."""
    if scope is None:
        found = memory.tree(index=index, depth=0, limit=limit)
        if len(found) != 1:
            return found
    return memory.tree(scope, index=index, depth=DRILLED_DEPTH, limit=limit or DRILLED_NODES)


def draw_trees(screen: Screen, title: str, found: Sequence[TreeView]) -> None:
    """Draw trees under one title, grouped by kind; as records, one line a node with its depth."""
    if screen.records:
        for view in found:
            _record_node(screen, view, 0)
        return
    root = Tree(Text(clean(title, 80), style="bold"), guide_style="dim")
    kinds: dict[str, Tree] = {}
    for view in found:
        kind, _, label = view.title.partition(" ")
        if kind not in kinds:
            kinds[kind] = root.add(Text(f"{kind} trees", style="bold cyan"))
        _draw_node(screen, kinds[kind], view, label)
    screen.put(root)


def _record_node(screen: Screen, view: TreeView, depth: int) -> None:
    state = "out of date" if view.dirty else ""
    row = (depth, view.title, *screen.days(view), view.leaves, view.summary, state)
    screen.record(*row, *((ordinals(view.span),) if view.span else ()))
    for child in view.children:
        _record_node(screen, child, depth + 1)


def _draw_node(screen: Screen, parent: Tree, view: TreeView, label: str) -> None:
    when = screen.interval(view.start, view.end)
    head = Text.assemble((f"{clean(label, 40)} " if label else "", "bold"), (when, "green"))
    if counts := leaf_counts(view):
        head.append(f" · {counts}", style="cyan")
    if view.dirty:
        head.append(" · summary out of date", style="yellow")
    lines = _said(view, LISTED_CHARS if label and not view.children else SUMMARY_CHARS)
    node = parent.add(Text.assemble(head, *(("\n" + line, "dim") for line in lines)))
    for child in view.children:
        _draw_node(screen, node, child, child.title)


def _said(view: TreeView, most: int) -> list[str]:
    """Return the summary of a node, cut to `most` characters; for a leaf the lines of its turns, each cut."""
    found = view.summary.splitlines() if view.level == 0 else [view.summary]
    lines = [line for one in found if (line := clean(one, LINE_CHARS if len(found) > 1 else most))]
    more = len(lines) - LEAF_LINES
    return lines if more <= 0 else [*lines[:LEAF_LINES], f"… {counted(more, 'more line')}"]


@command()
def stats(call: Call) -> None:
    """Count what is stored, and show its size, its embedder and what models have cost."""
    with call.forest() as forest:
        found = call.memory(forest).stats()
        data = {"directory": call.folder, **plain(found)}
        call.show(data, lambda screen: screen.table(("dim", ""), _stats(call, found)))


def _stats(call: Call, found: Stats) -> Iterator[tuple[str, object]]:
    """Yield what is told of a memory, each with its label."""
    yield "user", found.user_id
    yield "directory", call.folder
    yield "said", f"{counted(found.turns, 'turn')} in {counted(found.sessions, 'session')}"
    yield "facts", f"{found.facts}, seen {found.occurrences} times"
    yield "entities", _counts(found.entities)
    yield "trees", f"{_trees(found)}; {found.nodes} nodes, {found.dirty_nodes} out of date"
    for name, one in found.indexes.items():
        yield "index", name
        if own := ", ".join(_own_counts(one)):
            yield "counts", f"{name}: {own}"
    yield from (("", note) for note in found.notes)
    yield "days of", found.timezone or "no zone yet"
    yield "vectors", _counts(found.vectors)
    yield "embedder", found.embedder or "none: searching by words only"
    if found.unfinished:
        yield "unread", f"{counted(found.unfinished, 'session')}; `memforest maintain resume` goes on"
    if found.failed_chunks:
        yield "failed", f"{found.failed_chunks} chunks; `memforest maintain resume` tries again"
    for part, made in found.makers.items():
        if any(not maker.startswith(("local", "verbatim")) for maker in made):
            yield f"{part} by", _counts(made)
    for operation, steps in found.spent.items():
        yield f"spent by {operation}", "; ".join(_spent(step, used) for step, used in steps.items())
    yield "file", f"{size(found.bytes)}, schema {found.schema}"


def _own_counts(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield the counts that only this index has."""
    for name, value in one.items():
        if name not in EVERY_INDEX:
            shown = _counts(value) if isinstance(value, Mapping) else clean(str(value), LINE_CHARS)
            yield f"{clean(name.replace('_', ' '))} {shown}"


def _spent(step: str, used: StepUsage) -> str:
    """Describe what a step has spent on models."""
    failed = f", {used.failures} failed" if used.failures else ""
    return (
        f"{clean(step)} {counted(used.calls, 'call')}, "
        f"{used.prompt_tokens}+{used.completion_tokens} tokens{failed}"
    )


def _trees(found: Stats) -> str:
    """Return the numbers of trees by kind, with the index in front where there are several."""
    if len(found.trees) < 2:
        return _counts({kind: count for kinds in found.trees.values() for kind, count in kinds.items()})
    return "; ".join(f"{clean(index)}: {_counts(kinds)}" for index, kinds in found.trees.items())


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{clean(name)} {count}" for name, count in found.items()) or "none"


@command()
def verify(call: Call) -> None:
    """Check a memory for errors: its file, trees, leaves, facts and vectors.

    The exit code is 1 if something is wrong.
    """
    with call.forest() as forest:
        report = call.memory(forest).verify()
        data = {name: getattr(report, name) for name in ("ok", "problems", "checked", "notes")}
        call.show(data, lambda screen: _draw_report(screen, report), ok=report.ok)
        if not report.ok:
            click.get_current_context().exit(1)


def _draw_report(screen: Screen, report: VerifyReport) -> None:
    for problem in report.problems:
        screen.line(f"{problem.part}: {problem.message}", "red")
    for note in report.notes:
        screen.line(f"Note: {clean(note)}.", "dim")
    verdict = "Nothing is wrong." if report.ok else f"{counted(len(report.problems), 'problem')}."
    screen.line(f"{verdict} Checked: {_counts(report.checked)}.", "green" if report.ok else "bold red")
