"""`memforest search` and `memforest ask`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from memforest.cli.call import (
    Call,
    command,
    filter_option,
    flag,
    interval_options,
    moment_options,
    options,
    takes,
)
from memforest.cli.screen import Screen, clean, counted, in_words, sources, with_origin
from memforest.errors import ConfigError
from memforest.settings import MAX_TOP_K

if TYPE_CHECKING:
    from memforest.read.results import AskResult, Evidence, QueryResult, Usage


_QUOTED = re.compile('[“«"]([^”»"]{12,})[”»"]')
"""A passage that an answer quotes."""


def _read_index(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    """Read the name of an index; report one that there is not as wrong usage."""
    from memforest.trees.attached import make_index

    try:
        if given:
            make_index(given)
    except ConfigError as exc:
        raise click.BadParameter(str(exc)) from None
    return given or None


question_options = options(
    moment_options,
    filter_option,
    interval_options,
    takes("--reference-date", of="TIME", help="What 'now' and 'last month' refer to."),
    click.option(
        "--top-k", type=click.IntRange(1, MAX_TOP_K), help="Most pieces of evidence; 10 by default."
    ),
    click.option(
        "--min-relevance",
        type=click.FloatRange(0, 1),
        help="Leave out evidence with a lower relevance; 0 keeps all.",
    ),
    click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of all texts together."),
    click.option(
        "--mode",
        type=click.Choice(["emb", "emb+planner", "llm", "llm+planner"]),
        help="How to browse the trees: by embedding or by the chat model, with a plan or without.",
    ),
    takes(
        "--index",
        of="NAME",
        callback=_read_index,
        help="The index to search; see `index list`. Default: the first one.",
    ),
    takes("--timezone", of="ZONE", help="Time zone of the days, and of times without an offset."),
    flag("--no-rerank", help="Do without the reranker: faster, but finds less."),
    flag("--explain", help="Show the plan, and the score and path of each piece."),
)


@command()
@click.argument("question")
@question_options
@flag("--statements", help="Show the statement behind each piece, too.")
def search(
    call: Call, /, question: str, statements: bool, no_rerank: bool, timezone: str | None, **given: Any
) -> None:
    """Find the evidence for a question, best first.

    Each piece shows its day, its words, the speaker, the session and the turn. A state also shows since when it
    is true. --statements adds the statement that was made of the words.
    """
    found = call.run(
        lambda memory: memory.search(question, **given),
        lambda screen, result: _draw_search(screen, result, given["explain"], statements=statements),
        settings={"timezone": timezone, "reranker": "none" if no_rerank else None},
    )
    if not found.evidence:
        call.warn(["no evidence in memory"])


@command()
@click.argument("question")
@question_options
def ask(call: Call, /, question: str, no_rerank: bool, timezone: str | None, **given: Any) -> None:
    """Answer a question with citations, or say that the memory has no answer.

    Without an answer, the exit code is 0 too.
    """
    with call.forest(timezone=timezone, reranker="none" if no_rerank else None) as forest:
        found = call.memory(forest).ask(question, **given)
        call.warn(found.result.warnings)
        call.show(found, lambda screen: _draw_ask(screen, found, given["explain"]))


def _draw_search(
    screen: Screen,
    result: QueryResult,
    explain: bool,
    usage: Usage | None = None,
    *,
    statements: bool = False,
) -> None:
    if explain:
        _draw_plan(screen, result, usage or result.usage)
    draw_evidence(screen, result.evidence, explain=explain, statements=statements)


def _draw_ask(screen: Screen, result: AskResult, explain: bool) -> None:
    draw_answer(screen, result)
    if explain:
        screen.line()
        if answerer := result.result.trace.get("answerer"):
            screen.line(f"answered by {clean(answerer, 60)}", "dim")
        _draw_search(screen, result.result, explain, result.usage)


def draw_answer(screen: Screen, result: AskResult) -> None:
    """Print an answer with its citations; without one, the reason and the nearest evidence."""
    from memforest.reading.answer_local import quoted

    if result.answer is None:
        nearest = result.nearest
        if nearest is None:
            screen.line(f"Not known: {result.reason}")
            return
        words = quoted(clean(nearest.quote, 300), nearest.speaker, nearest.said, screen.zone)
        screen.line(f"Not known. Nearest: {words}")
        screen.line(f"({result.reason})", "dim")
        return
    if screen.records:
        screen.record(result.answer)
        for number, one in enumerate(result.citations, 1):
            _record(screen, number, one, one.quote or one.text)
        return
    numbers = "".join(f"[{n}]" for n in range(1, len(result.citations) + 1))
    screen.put(Text.assemble((clean(result.answer), "bold"), " ", (numbers, "cyan")))
    passages = [part.rstrip(".…") for part in _QUOTED.findall(result.answer)]
    table = _numbered()
    for number, one in enumerate(result.citations, 1):
        shows = bool(one.spoken) or one.kind == "memory"
        text = in_words(one, 300) if shows else f'"{clean(one.quote, 300)}"'
        if any(part in one.quote for part in passages):  # the answer has the words already
            body = Text(_origin(screen, one), style="dim")
        else:
            body = with_origin(text, _origin(screen, one))
        table.add_row(f"[{number}]", screen.day(one.said), body)
    screen.put(table)


def draw_evidence(
    screen: Screen, evidence: Sequence[Evidence], *, explain: bool = False, statements: bool = False
) -> None:
    """Print numbered pieces of evidence with their sources.

    Args:
        screen: where to.
        evidence: in the order of their numbers.
        statements: add the statements by which they are found.
        explain: add the parts of the score and the path.
    """
    table = _numbered()
    for number, one in enumerate(evidence, 1):
        if screen.records:
            more = [one.statement] if statements else []
            _record(screen, number, one, one.text, *more, *([_explained(one)] if explain else []))
            continue
        body = with_origin(in_words(one, 400), _origin(screen, one))
        if statements and one.statement and one.spoken:
            body.append(f"\nstatement: {clean(one.statement, 400)}", style="dim")
        if explain:
            body.append(f"\n{_explained(one)}", style="dim italic")
        table.add_row(f"[{number}]", screen.day(one.said), body)
    screen.put(table)


def _record(screen: Screen, number: int, one: Evidence, text: str, *more: str) -> None:
    """Print a piece of evidence as one line: number, day, score, text, speaker and sources."""
    who = _summary_of(screen, one) if one.kind == "memory" else one.speaker
    origin = (clean(who), sources(one.sources, None))
    screen.record(f"[{number}]", screen.day(one.said), f"{one.score:.3f}", text, *origin, *more)


def _numbered() -> Table:
    """Return a table of number, day and text."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style="cyan", justify="right", no_wrap=True)
    table.add_column(style="green", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    return table


def _summary_of(screen: Screen, one: Evidence) -> str:
    """Describe a summary by its turns, level, window, leaves and days."""
    parts = [f"summary of {counted(one.turns or 0, 'turn')}", f"level {one.level}", one.window, one.leaves]
    return ", ".join(part for part in (*parts, screen.interval(one.start, one.end)) if part)


def _origin(screen: Screen, one: Evidence) -> str:
    """Describe where evidence comes from: speaker, session and turns, and its interval if it is not just "since then"."""
    if one.kind == "memory":
        return f"{clean(_summary_of(screen, one))} · {sources(one.sources)}"
    parts = [clean(one.speaker, 40), sources(one.sources)]
    if one.kind == "fact" and (one.end is not None or screen.day(one.start) != screen.day(one.said)):
        parts.append(f"valid {screen.interval(one.start, one.end)}")
    if one.corrected is not None:
        parts.append(f"corrected on {screen.day(one.corrected)}")
    if one.pinned:
        parts.append("pinned")
    return " · ".join(parts)


def _explained(one: Evidence) -> str:
    """Describe the parts of a score and the path to the leaf."""
    shown = sorted(one.scores.items(), key=lambda part: -abs(part[1]))
    parts = " ".join(f"{name} {value:+.2f}" for name, value in shown if abs(value) >= 0.005)
    path = " > ".join(clean(step, 40) for step in one.path)
    why = f"\nfirst because: {clean(one.why)}" if one.why else ""
    return f"score {one.score:.3f} = {parts}" + (f"\npath {path}" if path else "") + why


def _search_notes(why: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on the trees recalled, how they were browsed, and what filters, time order and the reranker did."""
    if why["trees"]:
        yield "trees: " + ", ".join(f"{clean(title, 40)} {score:.2f}" for title, score in why["trees"])
    yield from _browsed(why)
    kept = why["filters"]
    if kept["as_of"] or kept["during"]:
        yield (
            f"time filter: kept {kept['turns_kept']} of {kept['turns']} turns "
            f"and {kept['facts_kept']} of {kept['facts']} facts"
        )
    if why["time_order"]:
        yield f"time order: {clean(why['time_order']['why'])}; {why['time_order']['turns']} turns lead"
    if why["propagation"]:
        done = why["propagation"]
        yield (
            f"propagation: {done['policy']} of {done['scorer']} relevance, alpha {done['alpha']:g}, "
            f"horizon {done['horizon']}"
        )
    if why["rerank"]:
        yield f"rerank: {clean(why['rerank']['model'])} read {why['rerank']['candidates']} candidates"


def _taken_apart(trace: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each sub-query of a question, with its entry points, and for each follow-up that was refused."""
    explored = trace.get("explore")
    if not explored:
        return
    entered = (trace["explain"].get("explored") or {}).get("parts", ())
    by_id = {one["id"]: one.get("named") or one.get("near") or () for one in entered}
    for part in explored["sub_queries"]:
        what = (
            f"follow-up of {clean(part['follows'], 40)}"
            if "follows" in part
            else f"part {clean(part['id'], 40)}"
        )
        names = ", ".join(clean(name, 40) for name in by_id.get(part["id"], ()))
        answer = f"; answered: {clean(part['answer'], 120)}" if part.get("answer") else ""
        by = f"; by way of {names}" if names else ""
        yield f"{what}, {part['scope']}: {clean(part['text'], 200)}{by}{answer}"
    for why in explored["follow_ups"]["refused"]:
        yield f"no follow-up: {clean(why, 200)}"


def _browsed(why: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on how each tree was browsed, in the modes that decide it before the search."""
    guide, trees = why.get("guide"), why.get("browse")
    if guide:
        took = [f"{name} {clean(guide[name], 80)}" for name in ("kind", "anchor") if guide[name]]
        done = "; ".join(took) or "sub-queries"
        if guide["failure"]:
            done = f"no plan: {clean(guide['failure'], 200)}"
        yield f"guide: {clean(guide['name'], 60)}: {done}"
    if trees:
        calls, done = sum(one["calls"] for one in trees), sum(one["mode"] == "llm" for one in trees)
        yield f"browse: {why['mode']}, {calls} calls, {done} of {len(trees)} trees by the model"
    for one in trees or ():
        looked = " | ".join(clean(query, 80) for query in one["queries"])
        fell = f"; {clean(one['fallback'], 120)}" if one["fallback"] else ""
        yield (
            f"{clean(one['title'], 40)}: {one['mode']}, {one['calls']} calls, {one['levels']} levels, "
            f"{one['leaves']} leaves, for {looked}{fell}"
        )


def _draw_plan(screen: Screen, result: QueryResult, usage: Usage) -> None:
    """Print how the question was understood."""
    plan = result.plan
    found = {
        "asks": plan.kind,
        "about": ", ".join(plan.entities),
        "attribute": plan.attribute or "",
        "relative to": plan.anchor or "",
        "as of": "" if plan.as_of is None else screen.day(plan.as_of),
        "in": "" if plan.start is None else screen.interval(plan.start, plan.end),
        "now is": screen.day(result.reference_date),
        "index": result.index,
    }
    screen.line("; ".join(f"{name} {clean(value)}" for name, value in found.items() if value), "dim")
    for line in (*_taken_apart(result.trace), *_search_notes(result.trace["explain"])):
        screen.line(line, "dim")
    if usage.model_calls:
        tokens = f"{usage.prompt_tokens} prompt and {usage.completion_tokens} completion tokens"
        screen.line(f"{usage.model_calls} model calls, {tokens}", "dim")
    screen.line(", ".join(f"{step} {ms:.0f} ms" for step, ms in usage.ms.items()), "dim")
