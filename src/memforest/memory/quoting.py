"""How facts are told to people: what was said, where local rules made the statement; else the statement, as a model's.

A statement made by rules is for finding: rewriting distorts some. What is shown are the sentences it was made from, with
the question in front where they are a bare answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memforest.language.quoting import is_bare, open_question, quoted
from memforest.store.digests import DamagedTurn, damaged_turns
from memforest.store.evidence import Saying, TurnText, fact_sayings, turn_texts
from memforest.store.tx import Tx
from memforest.types import Spoken

__all__ = ["Quotes", "joined"]

QUOTED_MAKERS = ("local-", "verbatim")
"""Beginnings of the names of what makes statements by rule, or of turns as they are."""
DASH = " – "
OPENING_CHARS = 40
"""An answer begins within so many characters of its turn, behind a word of greeting or the like."""


def joined(spoken: Sequence[Spoken]) -> str:
    """Return what was said as one text: the words, or a question, a dash and its answer.

    >>> joined([Spoken("Ana", "Is it the 12th?"), Spoken("Bob", "Yes.")])
    'Is it the 12th? – Yes.'
    """
    return DASH.join(one.text for one in spoken)


@dataclass(frozen=True, slots=True)
class Quotes:
    """The occurrences of facts, with the turns they quote; damaged turns are not among `_turns`."""

    _sayings: Mapping[int, Sequence[Saying]]
    _turns: Mapping[int, TurnText]
    _damaged: Mapping[int, DamagedTurn]

    @classmethod
    def read(cls, tx: Tx, facts: Collection[int]) -> Quotes:
        """Read the occurrences of facts, by row id, and their turns."""
        sayings = fact_sayings(tx, facts)
        found = [one for several in sayings.values() for one in several]
        rows = {row for one in found for row in (one.turns[-1], one.before) if row is not None}
        damaged = damaged_turns(tx, rows)
        return cls(sayings, turn_texts(tx, rows - damaged.keys()), damaged)

    def of(self, fact: int, turn: int | None = None) -> tuple[Spoken, ...] | None:
        """Return what was said where a fact was learnt; None if it is a model's statement, nothing if the turn is damaged.

        Args:
            fact: row id.
            turn: the turn whose occurrence is wanted; None for the one that the fact has its wording from.
        """
        one = self._saying(fact, turn)
        if one is None or not one.maker.startswith(QUOTED_MAKERS):
            return None
        return () if one.turns[-1] in self._damaged else self._spoken(one)

    def text(self, fact: int, statement: str) -> str:
        """Return what people read of a fact: what was said, a model's statement, or that the turn is damaged."""
        one = self._saying(fact, None)
        return statement if one is None or self.of(fact) is None else self._words(one)

    def all(self, fact: int) -> tuple[str, ...]:
        """Return what was said at each occurrence of a fact, each text once."""
        return tuple(dict.fromkeys(self._words(one) for one in self._sayings[fact]))

    def _saying(self, fact: int, turn: int | None) -> Saying | None:
        found = self._sayings[fact]
        fitting = (one for one in found if (one.first if turn is None else turn in one.turns))
        return next(fitting, found[0] if found else None)

    def _spoken(self, one: Saying) -> tuple[Spoken, ...]:
        said = self._turns[one.turns[-1]]
        own = Spoken(said.speaker, quoted(said.text, one.quote))
        before = None if one.before is None else self._turns.get(one.before)
        if before is None or before.speaker == said.speaker or not is_bare(own.text):
            return (own,)
        if own.text not in said.text[: OPENING_CHARS + len(own.text)]:
            return (own,)
        question = open_question(before.text)
        return (own,) if question is None else (Spoken(before.speaker, question), own)

    def _words(self, one: Saying) -> str:
        turn = one.turns[-1]
        if turn in self._damaged:
            return f"[{self._damaged[turn].name} is damaged]"
        if one.maker.startswith(QUOTED_MAKERS):
            return joined(self._spoken(one))
        return self._turns[turn].text if one.quote is None else one.quote
