"""How well a piece of evidence answers a question, in [0, 1], and what rules it out; the words decide, nothing is interpreted.

A piece is judged as an exchange: the turn without the questions in it, its statement, and the turn before, which says what
it replies to. This is known of it without understanding it:

- *coverage*: the part of the question's content words (stems; names, dates and stop words apart) that the exchange says.
  Each word weighs 1 / sqrt(n), with n the number of pieces that say it, so what all of them say hardly counts.
- whether it *leads*: time order chose it for a question about change, whose words it then need not share; that counts in
  place of coverage;
- the *logit* of a cross-encoder that reads question and turn together, if there is one.

A logistic function of these is the score. Its weights come from `scripts/calibrate_answers.py`, fitted to whether the piece
is a right answer; so the score is the share of such pieces that were right there, and no promise for other talk.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from memforest.language.language import detect_language, load_word_lists
from memforest.ports import AnswerEvidence
from memforest.text import entity_key, lexical_words, words
from memforest.types import QuestionPlan

__all__ = [
    "Asked",
    "Piece",
    "Weights",
    "coverage",
    "read_pieces",
    "read_question",
    "ruled_out",
    "sentences",
    "spoken_of",
    "weights_for",
]

READ_CHARS = 4_000
"""Characters read of a turn, a statement or the turn before."""
PREFIX = 4
"""Least characters that two forms of a word share at their beginning, and `ALIKE` of the longer one."""
ALIKE = 0.6
NO_CONTENT = 0.5
"""Coverage of a question that has only names and stop words: the words cannot tell."""
ASKS = ("?", "？", "؟", "՞")

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟])\s*")


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the logistic function: what coverage, or leading in its place, and a cross-encoder's logit count; else 0."""

    coverage: float
    leads: float
    bias: float
    logit: float = 0.0

    def score(self, coverage: float, leads: bool, logit: float = 0.0) -> float:
        """Return the score of a piece, in (0, 1)."""
        at = self.bias + (self.leads if leads else self.coverage * coverage) + self.logit * logit
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, at))))


def weights_for(model: str | None) -> Weights | None:
    """Return the weights for a cross-encoder, None if it was not calibrated; for None those of coverage alone."""
    return _table().get(model or "words")


@cache
def _table() -> dict[str, Weights]:
    text = files("memforest.data").joinpath("answer_scores.json").read_text(encoding="utf-8")
    return {name: Weights(**one["weights"]) for name, one in json.loads(text)["scorers"].items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as evidence is compared with it.

    `content` are the stems of its content words, `stems` those of all its words. `named` are the stems of each name that
    stands in it; `asker` is whom it means without that name, as by "I". `unknown` are capitalised
    words inside a sentence that are no name of the memory, and `anchor` are the words of the event that it is relative to.
    """

    plan: QuestionPlan
    content: tuple[str, ...]
    stems: frozenset[str]
    named: dict[str, frozenset[str]]
    asker: str | None
    unknown: tuple[str, ...]
    anchor: frozenset[str]


def read_question(text: str, plan: QuestionPlan) -> Asked:
    """Return a question as evidence is compared with it."""
    stems = tuple(dict.fromkeys(_stems(text)))
    named = {name: _name_stems(name) for name in plan.entities}
    here = {name: own for name, own in named.items() if own and not own.isdisjoint(stems)}
    asker = next((name for name in named if name not in here), None)
    anchored = plan.anchor if plan.kind in ("predecessor", "successor") else None
    names = frozenset[str]().union(*here.values())
    anchor = frozenset(_stems(anchored or "")) - names
    dated = plan.start is not None or plan.end is not None or plan.as_of is not None
    dropped = names | anchor | _stop_stems(detect_language(text)) | (_date_stems() if dated else frozenset())
    content = tuple(one for one in stems if one not in dropped and not (dated and one.isdecimal()))
    inside = {word for one in sentences(text) for word in words(one)[1:] if word[:1].isupper()}
    unknown = tuple(
        one
        for one in plan.mentions
        if one in inside and one not in plan.entities and not set(_stems(one)).isdisjoint(content)
    )
    return Asked(plan, content, frozenset(stems), here, asker, unknown, anchor)


def _stems(text: str) -> list[str]:
    """Return the lexical tokens of a text, of an irregular form that the lexicons list those of its lemma: "bought", "buy"."""
    lemmas = _lemmas()
    return [
        one for word, tokens in lexical_words(text) for one in (lemmas.get(word, tokens) if tokens else ())
    ]


@cache
def _lemmas() -> dict[str, tuple[str, ...]]:
    """Return form -> stems of its lemma, where the form's own are others."""
    found: dict[str, tuple[str, ...]] = {}
    return found


@cache
def _stop_stems(code: str) -> frozenset[str]:
    """Return the stems of a language's question and function words; the lexical index leaves out the English ones."""
    if code == "other":
        return frozenset()
    lists = load_word_lists(code).lists
    return frozenset(_stems(" ".join(lists["question_words"] | lists["function_words"])))


@cache
def _date_stems() -> frozenset[str]:
    """Return the stems of the words that dates are made of, in the languages with rules."""
    return frozenset()


def _name_stems(name: str) -> frozenset[str]:
    return frozenset(_stems(name)) or frozenset(filter(None, [entity_key(name)]))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand in it; cut at marks alone, so in every language.

    >>> sentences("Me? I sing. 我唱歌。你呢？")
    ['Me?', 'I sing.', '我唱歌。', '你呢？']
    """
    return [one for one in _SENTENCE_END.split(text.strip()) if one]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence as it is compared: the stems that the turn tells, and those of the exchange."""

    index: int
    evidence: AnswerEvidence
    told: frozenset[str]
    said: frozenset[str]
    prefixes: dict[str, list[str]]

    def says(self, stem: str) -> bool:
        """Whether the exchange has a word, or another form of it: one that begins alike."""
        if stem in self.said:
            return True
        for one in self.prefixes.get(stem[:PREFIX], ()):
            alike = math.ceil(ALIKE * max(len(stem), len(one)))
            if stem[:alike] == one[:alike]:
                return True
        return False


def read_pieces(evidence: Iterable[tuple[int, AnswerEvidence]]) -> list[Piece]:
    """Return pieces of evidence, each with its index, as they are compared with a question."""
    return [_piece(index, one) for index, one in evidence]


def _piece(index: int, one: AnswerEvidence) -> Piece:
    told = frozenset(_stems(_told(one.quote)))
    statement = _stems(_told(one.text))
    said = told.union(statement, _stems(one.speaker), _stems(one.before[1][:READ_CHARS]))
    prefixes: dict[str, list[str]] = {}
    for stem in said:
        if len(stem) >= PREFIX:
            prefixes.setdefault(stem[:PREFIX], []).append(stem)
    return Piece(index, one, told, said, prefixes)


def _told(text: str) -> str:
    """Return a text without its questions: who asks "How old is he?" has not said how old."""
    return " ".join(one for one in sentences(text[:READ_CHARS]) if not one.endswith(ASKS))


def coverage(asked: Asked, piece: Piece, pieces: Sequence[Piece]) -> float:
    """Return the weighted part of a question's content words that an exchange says, in [0, 1]; `NO_CONTENT` if it has none."""
    total = shared = 0.0
    for stem in asked.content:
        said_by = sum(one.says(stem) for one in pieces)
        weight = 1 / math.sqrt(max(said_by, 1))
        total += weight
        shared += weight * piece.says(stem)
    return shared / total if total else NO_CONTENT


def spoken_of(asked: Asked, pieces: Sequence[Piece]) -> bool:
    """Whether most words of a question's topic are said in some piece: what a timeline says of another one is no answer."""
    topic = asked.plan.topic
    stems = asked.content if topic is None else _stems(" ".join(topic))
    said = [any(piece.says(stem) for piece in pieces) for stem in stems]
    return sum(said) * 2 > len(said) or not said


def ruled_out(asked: Asked, pieces: Sequence[Piece]) -> str:
    """Return why no piece can answer: a name or event of the question that nothing found mentions; "" if none."""
    for name in asked.unknown:
        if not any(piece.says(stem) for stem in _stems(name) for piece in pieces):
            return f"nothing that was found mentions {name}"
    if asked.anchor and not any(piece.says(stem) for stem in asked.anchor for piece in pieces):
        return f"nothing that was found mentions {asked.plan.anchor!r}"
    return ""
