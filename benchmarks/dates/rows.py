"""Rows of dated sentences, and how one is scored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

__all__ = ["HALVES", "Days", "Outcome", "Row", "read_rows", "score"]

HALVES = ("before", "after")
"""Written before the rules for dates, and after them. Each is a file beside this module."""

Days = tuple[date, date]
"""A stretch of days in the zone of the speaker, half-open."""

Outcome = Literal["right", "wrong", "silent"]


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence, which is the last of `turns`, and the lists of dates that are right for it.

    The first list is the best; an empty one resolves nothing.
    """

    id: str
    kind: str
    turns: Sequence[Mapping[str, str]]
    zone: ZoneInfo
    expected: Sequence[frozenset[Days]]

    def told_before(self, words: str) -> bool:
        """Tell whether words stand in the turn before the sentence, and not in the sentence itself."""
        own, *before = (turn["content"].casefold() for turn in reversed(self.turns))
        return words.casefold() not in own and any(words.casefold() in text for text in before)

    @property
    def resolvable(self) -> bool:
        """Whether there is something to resolve."""
        return bool(self.expected[0])


def read_rows(half: str) -> list[Row]:
    """Return the rows of one half."""
    lines = Path(__file__).with_name(f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_row(json.loads(line)) for line in lines]


def _row(line: Mapping[str, Any]) -> Row:
    told = [("somebody else", line["context"])] if line.get("context") else []
    turns = [
        {"id": f"t{number}", "speaker": speaker, "content": text, "timestamp": line["said_at"]}
        for number, (speaker, text) in enumerate([*told, (line["speaker"], line["text"])])
    ]
    return Row(
        id=line["id"],
        kind=line["kind"],
        turns=turns,
        zone=_zone_of(datetime.fromisoformat(line["said_at"])),
        expected=[
            frozenset((date.fromisoformat(one["from"]), date.fromisoformat(one["to"])) for one in dates)
            for dates in (line["expect"], *line.get("alt", ()))
        ],
    )


@cache
def _zone_of(said: datetime) -> ZoneInfo:
    """Return a zone whose clocks show what `said` shows: a memory takes a name and no offset."""
    for name in sorted(available_timezones()):
        if said.astimezone(ZoneInfo(name)).utcoffset() == said.utcoffset():
            return ZoneInfo(name)
    raise ValueError(f"no time zone has the offset of {said.isoformat()}")


def score(row: Row, claimed: Collection[Days]) -> Outcome:
    """Return what became of a row: right if the claims are a list that is right for it, wrong if one claim is in none.

    A date that is left out makes a row silent. Nothing claimed is right where there is nothing to resolve.
    """
    claims = frozenset(claimed)
    if claims in row.expected:
        return "right"
    return "silent" if any(claims < expected for expected in row.expected) else "wrong"
