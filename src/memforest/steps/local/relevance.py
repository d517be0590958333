"""What is known of a piece of evidence as an answer to a question, and what rules it out; nothing is interpreted.

A piece is judged as an exchange: the turn without the questions in it, its statement, and the turn before, which says what
it replies to. `read_features` says what is known of it without understanding it: how many of the question's words it says,
whether it replies to a question that says them, whether it has such a thing as is asked for, and its place in the ranking.
`memforest.steps.local.chances` makes a probability of that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from memforest.language.entities import names_inside
from memforest.language.language import detect_language, load_word_lists
from memforest.ports import AnswerEvidence
from memforest.steps.local.asked_for import Wanted, asked_for, date_words, holds
from memforest.text import entity_key, lexical_tokens, words
from memforest.types import QuestionPlan

READ_CHARS = 4_000
"""Characters read of a statement or a turn; of a longer turn what was found in it is read."""
PREFIX = 4
"""Least characters that two forms of a word share at their beginning, and `ALIKE` of the longer one."""
ALIKE = 0.6
NO_CONTENT = 0.5
"""Share of its words that a piece says of a question that has only names and stop words: they cannot tell."""
ASKS = ("?", "？", "؟", "՞")

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟])\s*|\n\s*")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as evidence is compared with it.

    `content` are the stems of its content words, `stems` those of all its words. `named` are the stems of each name that
    stands in it; `asker` is whom it means without that name, as by "I". `unknown` are capitalised
    words inside a sentence that are no name of the memory, and `anchor` are the words of the `event` that it is relative
    to. `wanted` is what it asks for.
    """

    plan: QuestionPlan
    content: tuple[str, ...]
    stems: frozenset[str]
    named: dict[str, frozenset[str]]
    asker: str | None
    unknown: tuple[str, ...]
    event: str
    anchor: frozenset[str]
    wanted: frozenset[Wanted]


def read_question(text: str, plan: QuestionPlan) -> Asked:
    """Return a question as evidence is compared with it."""
    stems = tuple(dict.fromkeys(lexical_tokens(text)))
    named = {name: _name_stems(name) for name in plan.entities}
    here = {name: own for name, own in named.items() if own and not own.isdisjoint(stems)}
    asker = next((name for name in named if name not in here), None)
    operator = plan.operator or plan.kind_operator
    event = operator.anchor if operator and operator.kind in ("predecessor", "successor") else ""
    names = frozenset[str]().union(*here.values())
    anchor = frozenset(lexical_tokens(event)) - names
    dated = plan.start is not None or plan.end is not None or plan.as_of is not None
    dropped = names | anchor | _stop_stems(detect_language(text)) | (_date_stems() if dated else frozenset())
    content = tuple(one for one in stems if one not in dropped and not (dated and one.isdecimal()))
    inside = {word for one in sentences(text) for word in words(one)[1:] if word[:1].isupper()}
    unknown = tuple(
        one
        for one in plan.mentions
        if one in inside and one not in plan.entities and not set(lexical_tokens(one)).isdisjoint(content)
    )
    return Asked(plan, content, frozenset(stems), here, asker, unknown, event, anchor, asked_for(text))


@cache
def _stop_stems(code: str) -> frozenset[str]:
    """Return the stems of a language's question and function words; the lexical index leaves out the English ones."""
    if code == "other":
        return frozenset()
    lists = load_word_lists(code).lists
    return frozenset(lexical_tokens(" ".join(lists["question_words"] | lists["function_words"])))


@cache
def _date_stems() -> frozenset[str]:
    """Return the stems of the words that dates are made of, in the languages with a calendar."""
    return frozenset(lexical_tokens(" ".join(date_words("en") | date_words("es"))))


def _name_stems(name: str) -> frozenset[str]:
    return frozenset(lexical_tokens(name)) or frozenset(filter(None, [entity_key(name)]))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand in it; cut at marks and lines alone, so in every language.

    >>> sentences("Me? I sing. 我唱歌。你呢？")
    ['Me?', 'I sing.', '我唱歌。', '你呢？']
    """
    return [one for part in _SENTENCE_END.split(text) if (one := part.strip())]


class Words:
    """The stems of a text, found by any form of a word: one that begins alike."""

    def __init__(self, *texts: str) -> None:
        self.stems = frozenset(stem for text in texts for stem in lexical_tokens(text[:READ_CHARS]))
        self._prefixes: dict[str, list[str]] = {}
        for stem in self.stems:
            if len(stem) >= PREFIX:
                self._prefixes.setdefault(stem[:PREFIX], []).append(stem)

    def say(self, stem: str) -> bool:
        """Return whether the text has a word or another form of it."""
        if stem in self.stems:
            return True
        for one in self._prefixes.get(stem[:PREFIX], ()):
            alike = math.ceil(ALIKE * max(len(stem), len(one)))
            if stem[:alike] == one[:alike]:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence as it is compared: what the turn tells without its questions, its words, and those of the turn before."""

    index: int
    evidence: AnswerEvidence
    told: str
    turn: Words
    before: Words

    @property
    def said(self) -> frozenset[str]:
        """The stems of the exchange."""
        return self.turn.stems | self.before.stems

    def says(self, stem: str) -> bool:
        """Return whether the exchange has a word or another form of it."""
        return self.turn.say(stem) or self.before.say(stem)

    @property
    def replies(self) -> bool:
        """Whether somebody else asked something in the turn before."""
        speaker, text = self.evidence.before
        return speaker != self.evidence.speaker and text.rstrip().endswith(ASKS)


def read_pieces(evidence: Iterable[tuple[int, AnswerEvidence]]) -> list[Piece]:
    """Return pieces of evidence, each with its index, as they are compared with a question."""
    return [_piece(index, one) for index, one in evidence]


def _piece(index: int, one: AnswerEvidence) -> Piece:
    whole = len(one.quote) <= READ_CHARS or not one.spoken
    told = _told(one.quote if whole else one.spoken[-1].text)
    return Piece(index, one, told, Words(told, _told(one.text), one.speaker), Words(one.before[1]))


def _told(text: str) -> str:
    """Return a text without its questions: who asks "How old is he?" has not said how old."""
    return " ".join(one for one in sentences(text[:READ_CHARS]) if not one.endswith(ASKS))


def read_features(asked: Asked, able: Sequence[Piece], pieces: Sequence[Piece]) -> list[dict[str, float]]:
    """Return what is known of each piece that may answer, by name; `pieces` are all that were read.

    - ``place``: the logarithm of its place in the ranking;
    - ``said``, ``hits``: the share and number of the question's content words that the exchange says;
    - ``heard``: the share that any piece says;
    - ``replied``: the share that the turn before says, where it asks and another speaker replies;
    - ``lacks``: whether the turn has nothing of what is asked for;
    - ``new``: the logarithm of how many words are not the question's;
    - ``leads``: whether time order put it first.
    """
    names = frozenset[str]().union(*(names_inside(one.evidence.quote) for one in pieces))
    heard = _share(asked, [any(piece.says(stem) for piece in pieces) for stem in asked.content], empty=1.0)
    found = []
    for piece in able:
        says = [piece.says(stem) for stem in asked.content]
        before = [piece.before.say(stem) for stem in asked.content]
        found.append(
            {
                "place": math.log1p(pieces.index(piece)),
                "said": _share(asked, says, empty=NO_CONTENT),
                "hits": float(sum(says)),
                "heard": heard,
                "replied": piece.replies * _share(asked, before, empty=0.0),
                "lacks": float(_lacks(asked, piece, names)),
                "new": math.log1p(len(piece.turn.stems - asked.stems)),
                "leads": float(piece.evidence.leads),
            }
        )
    return found


def _share(asked: Asked, said: Sequence[bool], *, empty: float) -> float:
    return sum(said) / len(said) if asked.content else empty


def _lacks(asked: Asked, piece: Piece, names: frozenset[str]) -> bool:
    """Return whether a turn has nothing of what is asked for; never where no form is asked for, or a timeline has chosen it."""
    one = piece.evidence
    if not asked.wanted or one.leads or ("time" in asked.wanted and one.start not in (None, one.said)):
        return False
    besides = asked.stems.union(lexical_tokens(one.speaker))
    return not any(holds(kind, piece.told, besides=besides, names=names) for kind in asked.wanted)


def spoken_of(asked: Asked, pieces: Sequence[Piece]) -> bool:
    """Whether most words of a question's topic are said in some piece: what a timeline says of another one is no answer."""
    topic = asked.plan.topic
    stems = asked.content if topic is None else lexical_tokens(" ".join(topic))
    said = [any(piece.says(stem) for piece in pieces) for stem in stems]
    return sum(said) * 2 > len(said) or not said


def ruled_out(asked: Asked, pieces: Sequence[Piece]) -> str:
    """Return why no piece can answer: a name or event of the question that nothing found mentions; "" if none."""
    for name in asked.unknown:
        if not any(piece.says(stem) for stem in lexical_tokens(name) for piece in pieces):
            return f"nothing that was found mentions {name}"
    if asked.anchor and not any(piece.says(stem) for stem in asked.anchor for piece in pieces):
        return f"nothing that was found mentions {asked.event!r}"
    return ""
