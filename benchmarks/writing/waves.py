"""Which calls of a write wait for which: from the records that a memory hands to its trace.

The step of a record says which stage it belongs to, and a request with more than two messages is a repair: it holds
the reply that is to be mended. Of summaries, the record says which reply it was made from: a request that holds the
text of another call's summary comes one wave after that call. So the chain is that of the data, and it is the same
however many calls were in flight.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memforest.tokens import count_tokens
from writing.bound import Call

__all__ = ["Recorder", "calls_of"]

STAGES = ("extract", "judge", "summarise")
_SHOWN_CHARS = 100
"""Of a summary: what is looked for in later requests."""
_MIN_CHARS = 16


@dataclass(slots=True)
class Recorder:
    """A redaction hook that keeps every record in memory and lets nothing be written.

    `arrival` names what is arriving now.
    """

    arrival: str = ""
    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, record: dict[str, Any]) -> Mapping[str, Any] | None:
        """Keep a record."""
        self.records.append((self.arrival, record))
        return None


def calls_of(records: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Call]:
    """Return the calls of a write, each with its wave."""
    of_arrival: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for arrival, record in records:
        of_arrival[arrival].append(record)
    return [
        _call(arrival, record, level)
        for arrival, several in of_arrival.items()
        for record, level in zip(several, _levels(several), strict=True)
    ]


def _call(arrival: str, record: Mapping[str, Any], level: int) -> Call:
    step, messages = record["step"], record["messages"]
    repair = int(len(messages) > 2)
    first = count_tokens(messages[0]["content"])
    share = first / max(sum(count_tokens(one["content"]) for one in messages), 1)
    stage = STAGES.index(step) if step in STAGES else len(STAGES)
    return Call(
        arrival=arrival,
        step=step,
        wave=(stage, 2 * level + repair),
        prompt_tokens=record["prompt_tokens"],
        completion_tokens=record["completion_tokens"],
        cached_tokens=record["cached_tokens"],
        prefix_tokens=round(share * record["prompt_tokens"]),
        failed=record["error"] is not None,
    )


def _levels(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return 0 for a call that reads no summary of another call, else one more than the highest that it reads."""
    asked = [_plain(one["messages"][1]["content"] if len(one["messages"]) > 1 else "") for one in records]
    made = [
        _summary(one["reply"]) if one["step"] == "summarise" and one["reply"] else "" for one in records
    ]
    reads = [
        [
            other
            for other, text in enumerate(made)
            if other != at and len(text) >= _MIN_CHARS and text in asked[at]
        ]
        if record["step"] == "summarise"
        else []
        for at, record in enumerate(records)
    ]
    levels: dict[int, int] = {}

    def level(at: int, above: frozenset[int]) -> int:
        if at not in levels:
            below = [level(other, above | {at}) + 1 for other in reads[at] if other not in above]
            levels[at] = max(below, default=0)
        return levels[at]

    return [level(at, frozenset()) for at in range(len(records))]


def _summary(reply: str) -> str:
    """Return the beginning of the summary in a reply: a field of a JSON object, or the reply itself."""
    try:
        value = json.loads(reply)
    except ValueError:
        value = reply
    if isinstance(value, dict):
        value = value.get("summary", "")
    return _plain(str(value))[:_SHOWN_CHARS].strip()


def _plain(text: str) -> str:
    """Return a text with single spaces, and without the escapes of JSON."""
    return " ".join(text.replace('\\"', '"').replace("\\n", " ").split())
