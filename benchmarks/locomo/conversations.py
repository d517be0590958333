"""Reads a LoCoMo file: conversations of dated sessions, and questions with the turns that answer them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memforest.importers import FileSession, read_sessions

__all__ = ["CATEGORIES", "Conversation", "Question", "read_conversations"]

CATEGORIES: Mapping[int, str] = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""The categories that are asked. Those of category 5 have no answer in the conversation: nothing to recall."""

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
"""Evidence ids are written by hand: "D1:3", "D:11:26", "D30:05", several in one string."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its supporting turns, of which there is at least one."""

    text: str
    category: int
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One sample: its sessions in time order and its questions."""

    id: str
    sessions: tuple[FileSession, ...]
    questions: tuple[Question, ...]

    @property
    def turn_session(self) -> dict[str, str]:
        """Turn id -> session id; turn ids are unique in a conversation."""
        return {
            str(turn["dia_id"]): session.session_id for session in self.sessions for turn in session.turns
        }


def read_conversations(path: Path) -> list[Conversation]:
    """Return the conversations of a file, each with the questions that have usable evidence.

    Raises:
        InputError: if the file is no LoCoMo file.
    """
    memories: dict[str | None, list[FileSession]] = {}
    for session in read_sessions(path, format="locomo"):
        memories.setdefault(session.user, []).append(session)
    value = json.loads(path.read_bytes())
    samples = value if isinstance(value, list) else [value]
    return [
        Conversation(
            id=user or path.stem,
            sessions=tuple(sessions),
            questions=_questions(sample.get("qa", ()), tuple(sessions)),
        )
        for (user, sessions), sample in zip(memories.items(), samples, strict=True)
    ]


def _questions(asked: Any, sessions: tuple[FileSession, ...]) -> tuple[Question, ...]:
    known = {str(turn["dia_id"]) for session in sessions for turn in session.turns}
    found = (
        Question(one["question"], one["category"], _gold(one.get("evidence", ()), known)) for one in asked
    )
    return tuple(one for one in found if one.category in CATEGORIES and one.gold)


def _gold(evidence: Any, known: set[str]) -> frozenset[str]:
    """Return the ids of existing turns that an evidence list names."""
    texts = [evidence] if isinstance(evidence, str) else evidence
    named = {f"D{int(a)}:{int(b)}" for text in texts for a, b in _EVIDENCE.findall(text)}
    return frozenset(named & known)
