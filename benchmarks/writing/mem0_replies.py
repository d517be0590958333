"""What a model would reply to mem0: valid, of realistic length, and about what was said.

mem0 2.2.1 asks once per `add`, for a JSON object with a list ``memory`` of objects with ``id``, ``text`` and
``attributed_to``; new messages stand in its prompt under a heading, one line each. The statements are those of
memforest's local extractor over pairs of turns, so that both systems are told the same facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timezone

from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, Turn

__all__ = ["is_mem0", "reply_to_mem0"]

_NEW = re.compile(r"^## New Messages\n(.*?)\n*^## Observation Date", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^(user|assistant): ([^:\n]{1,60}): ", re.MULTILINE)
_CHUNK = 2
_SAID = datetime(2023, 6, 1, tzinfo=timezone.utc)
"""mem0 is told no time of a conversation; any will do to resolve "yesterday"."""


def is_mem0(prompt: str) -> bool:
    """Return whether a prompt is mem0's."""
    return _NEW.search(prompt) is not None


def reply_to_mem0(prompt: str) -> str:
    """Return the reply to mem0's extraction prompt (the content of its last message)."""
    said = _turns(prompt)
    turns = tuple(turn for turn, _ in said)
    speakers = tuple(dict.fromkeys(turn.speaker for turn in turns))
    extractor = LocalExtractor()
    found: list[dict[str, object]] = []
    for first in range(0, len(turns), _CHUNK):
        chunk = Chunk(
            "s",
            first // _CHUNK,
            turns[first : first + _CHUNK],
            before=turns[max(0, first - _CHUNK) : first],
            participants=speakers,
        )
        for candidate in extractor.extract_chunk(chunk).candidates:
            role = said[candidate.turns[0]][1]
            found.append({"id": str(len(found)), "text": candidate.text, "attributed_to": role})
    return json.dumps({"memory": found}, ensure_ascii=False)


def _turns(prompt: str) -> list[tuple[Turn, str]]:
    """Return the new messages with mem0's roles, which say nothing here: both speakers are people."""
    section = _NEW.search(prompt)
    text = section[1] if section else ""
    heads: Sequence[re.Match[str]] = list(_LINE.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        (
            Turn(
                id=str(ordinal),
                speaker=head[2],
                text=text[head.end() : end].strip(),
                said=_SAID,
                ordinal=ordinal,
            ),
            head[1],
        )
        for ordinal, (head, end) in enumerate(zip(heads, ends, strict=True))
    ]
