"""Asking a chat model what a memory knows of one entity: a lasting and a recent part, each line with the lines it was made of.

A failed call is raised; the lines as they were given are then the profile.

Source: H-Mem (arXiv 2605.15701) §3.2: profiles of salient entities with a persistent and a recent part. The prompt is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.language.counting import count_words
from memforest.steps.choose import Steps
from memforest.steps.llm.explore import Told, shown_lines
from memforest.steps.llm.explore_replies import EntityFile, SourcedLine
from memforest.steps.llm.prompt import Value
from memforest.steps.llm.record_checks import RecordCheck
from memforest.steps.llm.shown import head_and_tail, shown_day
from memforest.text import cut
from memforest.types import SummaryRequest

MOST_LINES = 12
"""Lines of a profile at most, both parts together."""
MOST_GIVEN = 60
"""Lines shown to the model at most, those that count most."""
LINE_WORDS = 60
"""Most words of a line of a profile."""
TEXT_CHARS = 600
"""Most characters shown of a line."""
NAME_CHARS = 80
FILE_TOKENS = 2_048
_TICK = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class FiledLine:
    """A line of a profile, and the positions, from 0, of the given lines that it was made of."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Filed:
    """What is known of an entity: what lasts, what counts most first, and what is recent, the latest first."""

    lasting: tuple[FiledLine, ...] = ()
    recent: tuple[FiledLine, ...] = ()


async def entity_file(
    steps: Steps,
    name: str,
    kind: str,
    lines: Sequence[Told],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
    most: int = MOST_LINES,
) -> Filed:
    """Return what some lines tell of an entity, by the chat model of the step "summarise": one call, none without lines.

    Every line of it has a source among the given lines. Its names, numbers, dates and quotations stand in its sources, and so does
    a part of its other words. A file with a line that does not keep to that is sent back once, and then refused.

    Args:
        steps: those of the memory.
        name: of the entity.
        kind: what it is (`memforest.types.EntityKind`).
        lines: what the memory has of it, what counts most first; the first `MOST_GIVEN` are shown.
        reference: what "now" is.
        zone: whose days are shown.
        most: most lines of both parts.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; says why.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    given = lines[:MOST_GIVEN]
    if not given or most < 1:
        return Filed()
    called = cut(name, NAME_CHARS)
    shown = shown_lines([_short(one) for one in given], zone)
    values: dict[str, Value] = {
        "entity": [{"name": called, "kind": kind, "now": shown_day(reference, zone)}],
        "lines": shown,
        "most": most,
    }
    # The days of a line are part of what it tells, and so is who the file is about.
    texts = [f"{row.get('said') or row.get('days')}: {row['text']}" for row in shown]

    def problem(reply: EntityFile) -> str | None:
        return _problem(reply, called, texts, given, zone, most)

    reply = await steps.ask("hmem_profile", EntityFile, values, max_tokens=FILE_TOKENS, check=problem)
    return Filed(_filed(reply.lasting), _filed(reply.recent))


def _short(one: Told) -> Told:
    return Told(head_and_tail(one.text, TEXT_CHARS), one.start, one.end, one.speaker)


def _filed(lines: Sequence[SourcedLine]) -> tuple[FiledLine, ...]:
    return tuple(
        FiledLine(one.text, tuple(number - 1 for number in dict.fromkeys(one.sources))) for one in lines
    )


def _problem(
    reply: EntityFile, name: str, texts: Sequence[str], given: Sequence[Told], zone: tzinfo, most: int
) -> str | None:
    """Return what is wrong with a file, None if nothing."""
    lines = [*reply.lasting, *reply.recent]
    if not lines:
        return "there is no line"
    if len(lines) > most:
        return f"there are {len(lines)} lines; at most {most} are allowed"
    found = (_line_problem(one, name, texts, given, zone) for one in lines)
    return next((wrong for wrong in found if wrong is not None), None)


def _line_problem(
    one: SourcedLine, name: str, texts: Sequence[str], given: Sequence[Told], zone: tzinfo
) -> str | None:
    """Return what is wrong with a line against its own sources; None if nothing."""
    known = [number for number in dict.fromkeys(one.sources) if 1 <= number <= len(texts)]
    if not known or len(known) < len(set(one.sources)):
        return f"the line {cut(one.text, 60)!r} needs sources; there are lines 1 to {len(texts)}"
    if count_words(one.text) > LINE_WORDS:
        return f"the line {cut(one.text, 60)!r} has more than {LINE_WORDS} words"
    told = [given[number - 1] for number in known]
    request = SummaryRequest(
        "profile",
        name,
        min(line.start for line in told),
        max(line.end or line.start + _TICK for line in told),
        (),
        LINE_WORDS,
        participants=tuple(dict.fromkeys((name, *(line.speaker for line in told if line.speaker)))),
    )
    check = RecordCheck(request, [texts[number - 1] for number in known], (), zone, "hmem_profile")
    return check.size(one.text) or check.about(one.text) or check.invention(one.text)
