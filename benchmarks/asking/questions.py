"""Conversations with questions, what an answer to them is, and how one is scored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from temporal.phrasing import fold

__all__ = [
    "UNANSWERABLE",
    "Conversation",
    "Given",
    "Question",
    "Scored",
    "Session",
    "read_conversations",
    "score",
]

UNANSWERABLE = "unanswerable"

TurnRef = tuple[str, str]
"""Session id and turn id."""


@dataclass(frozen=True, slots=True)
class Session:
    """A dated session; its turns are what `ingest_session` takes."""

    id: str
    time: datetime
    turns: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question asked at `reference`: any of `answers` is right, and `evidence` says it; none if it has no answer."""

    id: str
    kind: str
    text: str
    reference: datetime
    answers: Sequence[str]
    evidence: frozenset[TurnRef]

    @property
    def answerable(self) -> bool:
        """Whether the conversation has an answer."""
        return self.kind != UNANSWERABLE


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions in time order, and questions."""

    id: str
    sessions: Sequence[Session]
    questions: Sequence[Question]


def read_conversations() -> list[Conversation]:
    """Return the conversations of `ask.json`, beside this module."""
    data = json.loads(Path(__file__).with_name("ask.json").read_text(encoding="utf-8"))
    return [_conversation(one) for one in data["conversations"]]


def _conversation(one: Mapping[str, Any]) -> Conversation:
    sessions = [
        Session(
            told["session_id"],
            datetime.fromisoformat(told["time"]),
            [
                {"id": str(number), "speaker": turn["speaker"], "content": turn["text"]}
                for number, turn in enumerate(told["turns"])
            ],
        )
        for told in one["sessions"]
    ]
    sessions.sort(key=lambda session: session.time)
    last = sessions[-1].time.isoformat()
    questions = [
        Question(
            id=asked["id"],
            kind=asked["kind"],
            text=asked["question"],
            reference=datetime.fromisoformat(asked.get("as_of", last)),
            answers=asked["answers"],
            evidence=frozenset(_turn(ref) for ref in asked["sources"]),
        )
        for asked in one["questions"]
    ]
    return Conversation(one["id"], sessions, questions)


def _turn(ref: str) -> TurnRef:
    session, _, turn = ref.rpartition(":")
    return session, turn


@dataclass(frozen=True, slots=True)
class Given:
    """What a memory answered: the answer, None when it abstained; the quotes it cites, and the turns they are from."""

    answer: str | None
    quotes: Sequence[str] = ()
    turns: frozenset[TurnRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Scored:
    """What became of a question. `text`: the answer or a cited quote names an answer; `turn`: a cited turn says it."""

    answered: bool
    text: bool
    turn: bool

    @property
    def right(self) -> bool:
        """Whether both text and turn are right."""
        return self.text and self.turn

    @property
    def partly(self) -> bool:
        """Whether one of them is."""
        return self.text != self.turn

    @property
    def wrong(self) -> bool:
        """Whether neither is, of an answer that was given."""
        return self.answered and not self.text and not self.turn


def score(question: Question, given: Given) -> Scored:
    """Compare an answer with a question's; what abstains has neither text nor turn."""
    if given.answer is None:
        return Scored(answered=False, text=False, turn=False)
    shown = _words("\n".join([given.answer, *given.quotes]))
    named = any(_named(shown, answer, whole=question.kind != "list") for answer in question.answers)
    return Scored(answered=True, text=named, turn=not question.evidence.isdisjoint(given.turns))


_ELEMENTS = re.compile(r"[,;](?!\d)|\b(?:and|then|first)\b")


def _named(shown: str, answer: str, *, whole: bool) -> bool:
    """Tell whether folded words name an answer; every element of it, where it is a list."""
    elements = [answer] if whole else _ELEMENTS.split(answer)
    return all(words in shown for words in map(_words, elements) if words.strip())


def _words(text: str) -> str:
    """Return words without case, accents and punctuation, a space around each; a number keeps its digits together."""
    joined = re.sub(r"(?<=\d),(?=\d{3}\b)", "", fold(text))
    words = " ".join(re.findall(r"[^\W_]+", joined))
    return f" {words} "
