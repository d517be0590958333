"""Which calls of a write wait for which: from the records that a memory hands to its trace.

The step of a record says which stage it belongs to. A request with more than two messages is a repair: it holds the
request and the reply that are to be mended. A summary was made of another one if it is of the same tree and the whole
of the other stands in its notes.

Waves are read off the times: where every call of a stage that had begun has also ended, the next one begins a wave. With
one call in flight that says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from tests.doubles.blocks import read_data_block

from memforest.text import count_tokens
from writing.bound import Call

__all__ = ["Recorded", "Recorder", "calls_of"]

STAGES = ("extract", "judge", "summarise")
KEPT_WORDS = 150
"""A summary of fewer words is stored as it is."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record of the trace, what had arrived when it was made, and the seconds at which its call ended."""

    arrival: str
    record: Mapping[str, Any]
    ended_s: float


@dataclass(slots=True)
class Recorder:
    """A redaction hook that keeps every record in memory and lets nothing be written.

    `arrival` names what is arriving now, or arrived last; `written_s` is when the last write had returned, None before.
    """

    arrival: str = ""
    written_s: float | None = None
    records: list[Recorded] = field(default_factory=list)

    def __call__(self, record: dict[str, Any]) -> Mapping[str, Any] | None:
        """Keep the record of a call. One that was begun behind a write, while others were under way, held up none of them.

        A record of refused statements is of no call of its own.
        """
        if "refused" in record:
            return None
        now = perf_counter()
        beside = self.written_s is None or now - record["seconds"] < self.written_s
        behind = record["operation"] == "refresh"
        self.records.append(Recorded("" if behind and beside else self.arrival, record, now))
        return None


def calls_of(records: Sequence[Recorded]) -> list[Call]:
    """Return the calls of a write in the order in which they ended, each with what it needs."""
    ordered = sorted(records, key=lambda one: one.ended_s)
    return [_call(one, known) for one, known in zip(ordered, _needs(ordered), strict=True)]


def _call(one: Recorded, needs: tuple[int, ...]) -> Call:
    record = one.record
    sizes = [count_tokens(message["content"]) for message in record["messages"]]
    share = sizes[0] / max(sum(sizes), 1) if sizes else 0.0
    return Call(
        arrival=one.arrival,
        step=record["step"],
        stage=_stage(record),
        prompt_tokens=record["prompt_tokens"],
        completion_tokens=record["completion_tokens"],
        cached_tokens=record["cached_tokens"],
        prefix_tokens=round(share * record["prompt_tokens"]),
        needs=needs,
        failed=record["error"] is not None,
    )


def _stage(record: Mapping[str, Any]) -> int:
    return STAGES.index(record["step"]) if record["step"] in STAGES else len(STAGES)


@dataclass(frozen=True, slots=True)
class _Made:
    """What a call for a summary was given, and what it returned; `summary` is empty where there is none."""

    tree: str
    notes: str
    summary: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> _Made | None:
        messages = record["messages"]
        if record["step"] != "summarise" or len(messages) < 2:
            return None
        data = messages[1]["content"]
        node = next(iter(read_data_block(data, "node")), {})
        return cls(
            tree=json.dumps({key: value for key, value in node.items() if key not in ("from", "to")}),
            notes=_plain(" ".join(str(row.get("text", "")) for row in read_data_block(data, "notes"))),
            summary=_summary(record["reply"] or ""),
        )

    def reads(self, other: _Made) -> bool:
        """Return whether this call was given the other's summary."""
        return self.tree == other.tree and bool(other.summary) and other.summary in self.notes


def _needs(records: Sequence[Recorded]) -> list[tuple[int, ...]]:
    """Return per call the places of those of its arrival whose replies it was made from."""
    made = [_Made.of(one.record) for one in records]
    found = []
    for at, one in enumerate(records):
        mine = made[at]
        before = [
            other
            for other in range(at)
            if records[other].arrival == one.arrival
            and (_mends(one.record, records[other].record) or _reads(mine, made[other]))
        ]
        found.append(tuple(before))
    return found


def _mends(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    messages = record["messages"]
    return len(messages) > 2 and other["messages"] == messages[:2]


def _reads(mine: _Made | None, other: _Made | None) -> bool:
    return mine is not None and other is not None and mine.reads(other)


def _summary(reply: str) -> str:
    """Return the summary in a reply, as far as it is sure to be kept: a long one is cut at a sentence."""
    try:
        value = json.loads(reply)
    except ValueError:
        return ""
    text = _plain(str(value.get("summary", ""))) if isinstance(value, dict) else ""
    words = text.split()
    return text if len(words) <= KEPT_WORDS else " ".join(words[: KEPT_WORDS // 2])


def _plain(text: str) -> str:
    return " ".join(text.split())
