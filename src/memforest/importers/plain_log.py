"""Plain logs: a line begins with a date and a time of day, then who speaks, then what was said.

``2024-05-01 10:00:00 Ana: text``, ``[2024-05-01T10:00:00Z] <ana> text``. The date is written as ISO 8601 has it, or with slashes
or dots in any order that the file proves. Lines without a time go on with the message above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from memforest.importers.day_order import DayOrder
from memforest.importers.drafts import Draft, by_day
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample

_STAMP = (
    r"(?P<stamp>(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})[T ,]{1,2}\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:\s?[AaPp][Mm])?(?:Z|\s?[+-]\d\d:?\d\d|\sUTC|\sGMT)?)"
)
_HEAD = re.compile(rf"[\[(]?{_STAMP}[\])]?(?:\s*[-–|]\s|:?\s+)")
_SPEAKER = re.compile(
    r"(?:<(?P<nick>[^<>]{1,80})>|(?P<name>[^\s:<>\[\](){}=][^:<>\[\](){}=\n]{0,60}?)\s?:)(?:\s(?P<text>.*)|$)",
    re.DOTALL,
)
_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
}
LEAST_SHARE = 0.5
"""Of the first lines that begin with a time, how many must name a speaker."""


def recognises(sample: Sample) -> bool:
    """Return whether the first line begins with a time, and half of those that do name a speaker."""
    heads = [_HEAD.match(line) for line in sample.lines]
    if sample.shape is not None or not heads or heads[0] is None:
        return False
    begun = [(line, head) for line, head in zip(sample.lines, heads, strict=True) if head is not None]
    said = sum(_SPEAKER.match(line, head.end()) is not None for line, head in begun)
    return said >= LEAST_SHARE * len(begun)


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of a log, one a day."""
    order = DayOrder()
    for number, line in Reading(reading.source, reading.options).lines():
        if head := _HEAD.match(line):
            order.see(head["stamp"], f"line {number}")
    day_first = order.decide(reading.source.name, reading.options.day_first)
    reading = replace(reading, options=replace(reading.options, day_first=day_first))
    yield from by_day(_drafts(reading), reading, reading.name)


def _drafts(reading: Reading) -> Iterator[Draft]:
    held: tuple[int, str, list[str]] | None = None
    for number, line in reading.lines():
        head = _HEAD.match(line)
        if head is not None:
            if held is not None:
                yield from _draft(*held, reading)
            held = (number, head["stamp"], [line[head.end() :]])
        elif held is not None:
            held[2].append(line)
        elif line.strip():
            reading.skips.fail(f"line {number}", "the line does not begin with a date and a time")
    if held is not None:
        yield from _draft(*held, reading)


def _draft(number: int, stamp: str, lines: list[str], reading: Reading) -> Iterator[Draft]:
    where = f"line {number}"
    found = _SPEAKER.match("\n".join(lines).rstrip())
    if found is None:
        reading.skips.leave_out("line that names no speaker")
        return
    if not (text := (found["text"] or "").strip()):
        reading.skips.leave_out("empty message")
        return
    time = re.sub(
        r"(?<=:\d\d),(?=\d)", ".", stamp
    )  # a comma before fractions, as Python's logging writes them
    read = reading.unmistakable(time, where)
    if read is None:
        return
    speaker = (found["nick"] or found["name"]).strip()
    who = {"role": _ROLES[speaker.casefold()]} if speaker.casefold() in _ROLES else {"speaker": speaker}
    yield Draft(where, {**who, "content": text, "timestamp": read[1]}, read[0])
