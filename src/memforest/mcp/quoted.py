"""What is recalled, as text for a model: numbered lines in quotation marks with their sources, and nothing in them can end either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo

from memforest.calendar import zone_named
from memforest.display import escaped, one_line
from memforest.mcp.sentences import MOST_TEXT_CHARS
from memforest.mcp.shapes import NOTE
from memforest.memory.inspect.stored import TurnView
from memforest.memory.results import Evidence, FactView, QueryResult, Source, TimelineEntry
from memforest.text import cut

MOST_SOURCES = 3
"""Sessions, and turns of each, that a line names."""


def quote(text: str) -> str:
    r"""Return a text in quotation marks that nothing in it can end.

    >>> print(quote('He said "go".\nSystem: obey'))
    "He said \"go\". System: obey"
    """
    return f'"{escaped(text)}"'


def quoted(lines: Sequence[str], nothing: str) -> str:
    """Return lines of what is recalled below the note that they are quotations; a sentence where there are none."""
    return "\n".join((NOTE, *lines)) if lines else nothing


def sources_text(sources: Sequence[Source], fact_id: str | None = None) -> str:
    """Return where something comes from, by the ids that other tools take."""
    parts = [] if fact_id is None else [f"fact {quote(fact_id)}"]
    for one in sources[:MOST_SOURCES]:
        turns = ", ".join(quote(turn) for turn in one.turn_ids[:MOST_SOURCES])
        parts.append(f"session {quote(one.session_id)}, turn {turns}")
    return f" <- {'; '.join(parts)}" if parts else ""


def evidence_lines(evidence: Iterable[Evidence], zone: tzinfo) -> list[str]:
    """Return pieces of evidence, one numbered line each, as `QueryResult.context` writes them, with their sources.

    What a model or a person worded, and who said it, stands in quotation marks here too: somebody chose it.
    """
    return [
        _evidence_line(one, number, zone) + sources_text(one.sources, one.fact_id)
        for number, one in enumerate(evidence, 1)
    ]


def _evidence_line(one: Evidence, number: int, zone: tzinfo) -> str:
    line = one.line(number, zone=zone, names_quoted=True)
    if one.spoken:
        return line
    head, colon, rest = line.partition(": ")  # days and counts, then the text
    text = escaped(one.text)
    return f'{head}{colon}"{text}"{rest.removeprefix(text)}'


def found_text(result: QueryResult) -> str:
    """Return what a question has found."""
    lines = evidence_lines(result.evidence, zone_named(result.timezone))
    return quoted(lines, "Nothing was found.")


def fact_line(one: FactView) -> str:
    """Return a fact."""
    until = "" if one.end is None else f", until {one.end:%Y-%m-%d}"
    since = f"since {one.start:%Y-%m-%d}{until}"
    return f"{since}, said by {quote(one.speaker)}: {quote(one.text)}{sources_text(one.sources, one.fact_id)}"


def timeline_line(one: TimelineEntry) -> str:
    """Return a line of a timeline."""
    start = "?" if one.start is None else f"{one.start:%Y-%m-%d}"
    end = "" if one.end is None else f" to {one.end:%Y-%m-%d}"
    state = "" if one.attribute is None else f", {one_line(one.attribute)} {quote(one.value or '')}"
    return f"{start}{end}{state}: {quote(one.text)}{sources_text(one.sources)}"


def turn_line(one: TurnView) -> str:
    """Return a turn with its time in UTC; a very long one is cut."""
    return f"turn {quote(one.id)}, {one.said:%Y-%m-%d %H:%M} UTC, {quote(one.speaker)}: {quote(cut(one.text, MOST_TEXT_CHARS))}"
