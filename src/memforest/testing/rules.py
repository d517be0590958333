"""What a good model would answer to each step, by local rules; the schemas are those of `memforest.steps.llm`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from memforest.calendar import DateSpan, find_dates
from memforest.steps.llm.prompt import read_data_block
from memforest.steps.llm.replies import Extraction, Named, Relation, Reply, Statement
from memforest.steps.local.extract import LocalExtractor
from memforest.types import Candidate, Chunk, Mention, Turn

__all__ = ["RULES"]

Row = Mapping[str, Any]

_NAMED = {"participant": "person", "unknown": "thing"}


def _extraction(data: str) -> Extraction:
    """Return the statements of a chunk, as the local extractor reads them."""
    rows = read_data_block(data, "turns")
    before = read_data_block(data, "context")
    session = (*read_data_block(data, "session"), {})[0]
    chunk = Chunk(
        session_id="",
        ordinal=0,
        turns=tuple(_turn(row, int(row["turn"])) for row in rows),
        before=tuple(_turn(row, at - len(before)) for at, row in enumerate(before)),
        participants=tuple(session.get("participants", ())),
    )
    made = LocalExtractor(dates=_as_they_stand).extract_chunk(chunk)
    turns = {turn.ordinal: turn for turn in chunk.turns}
    statements = [_statement(one, [turns[at] for at in one.turns if at in turns]) for one in made.candidates]
    return Extraction(statements=[one for one in statements if one.turns])


def _as_they_stand(text: str, said: datetime, zone: tzinfo, languages: Sequence[str]) -> list[DateSpan]:
    """Find dates, and have none of them written out: a statement keeps its words of time."""
    return [replace(span, relative=False) for span in find_dates(text, said, zone, languages)]


def _turn(row: Row, ordinal: int) -> Turn:
    return Turn(
        id=str(ordinal),
        speaker=str(row.get("speaker", "")),
        text=str(row.get("text", "")),
        said=_moment(str(row.get("time", ""))),
        ordinal=ordinal,
        role=row.get("role"),
    )


def _moment(shown: str) -> datetime:
    """Return a time as prompts show it ("Tuesday 2031-03-11 18:20"); the epoch if there is none."""
    try:
        found = datetime.fromisoformat(shown.split(" ", 1)[-1])
    except ValueError:
        found = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _statement(candidate: Candidate, turns: Sequence[Turn]) -> Statement:
    start, end = candidate.start, candidate.end
    first, last = (None, None)
    if start is not None and end is not None:
        first, last = start.date().isoformat(), (end - timedelta(microseconds=1)).date().isoformat()
    return Statement(
        text=candidate.text,
        turns=[turn.ordinal for turn in turns],
        kind="state" if candidate.states else "event",
        when=_when(candidate, turns),
        start=first,
        end=last,
        negated=candidate.negated,
        entities=[_named(mention) for mention in candidate.mentions],
        topics=list(candidate.topics[:3]),
        relations=[
            Relation(
                entity=state.entity,
                attribute=state.attribute,
                value=state.value,
                previous=state.previous,
                change=state.change,
            )
            for state in candidate.states
        ],
    )


def _when(candidate: Candidate, turns: Iterable[Turn]) -> str | None:
    """Return the words of a turn that tell a statement's time."""
    if candidate.start is None:
        return None
    for turn in turns:
        for span in find_dates(turn.text, turn.said, timezone.utc):
            if (span.start, span.end) == (candidate.start, candidate.end):
                return span.text
    return None


def _named(mention: Mention) -> Named:
    return Named(name=mention.name, type=_NAMED.get(mention.kind, mention.kind))


RULES: Mapping[str, Callable[[str], Reply]] = {"extract": _extraction}
"""Step -> what makes its reply from the message that holds the data."""
