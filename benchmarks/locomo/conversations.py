"""Conversations of a LoCoMo file with the questions that have evidence; read by `memforest.evaluation.loaders`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memforest.evaluation.loaders import BENCHMARKS, LOCOMO_TYPES
from memforest.importers import FileSession

__all__ = ["CATEGORIES", "Conversation", "Question", "read_conversations"]

CATEGORIES: Mapping[int, str] = {
    number: name for number, name in LOCOMO_TYPES.items() if name != "adversarial"
}
"""The categories that are asked. Those of category 5 have no answer in the conversation: nothing to recall."""


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
    numbers = {name: number for number, name in CATEGORIES.items()}
    return [
        Conversation(
            case.id,
            case.sessions,
            tuple(
                Question(one.text, numbers[one.type], frozenset(key.rpartition("/")[2] for key in one.turns))
                for one in case.questions
                if one.turns and one.type in numbers
            ),
        )
        for case in BENCHMARKS["locomo"].read(path)
    ]
