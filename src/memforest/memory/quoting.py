"""How facts are told to people: what was said, where local rules made the statement; else the statement, as a model's.

Of what was corrected the statement is told that a person wrote, and so is one whose sentence also says what is hidden.

A statement made by rules is for finding: rewriting distorts some. What is shown are the sentences it was made from, with
the question in front where they are a bare answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memforest.language.quoting import MARK, is_bare, open_question, quoted
from memforest.memory.places import hidden_sentences, sentences_of
from memforest.search.snapshot import Snapshot
from memforest.store.corrections import HIDDEN, NOW
from memforest.store.digests import DamagedTurn, damaged_turns
from memforest.store.evidence import Saying, TurnText, fact_sayings, turn_texts
from memforest.store.leaves import QUOTED_MAKERS
from memforest.store.snapshot import muted_turns
from memforest.store.tx import Tx
from memforest.types import Spoken

DASH = " – "
OPENING_CHARS = 12
"""An answer begins within so many characters of its turn, behind a word of greeting or the like."""


def joined(spoken: Sequence[Spoken]) -> str:
    """Return what was said as one text: the words, or a question, a dash and its answer.

    >>> joined([Spoken("Ana", "Is it the 12th?"), Spoken("Bob", "Yes.")])
    'Is it the 12th? – Yes.'
    """
    return DASH.join(one.text for one in spoken)


@dataclass(frozen=True, slots=True)
class Quotes:
    """The occurrences of facts, with what was said there, and the questions that it answers; nothing of damaged turns."""

    _sayings: Mapping[int, Sequence[Saying]]
    _spoken: Mapping[Saying, tuple[Spoken, ...]]
    """Where the turn is not damaged: of rules the sentences of the turn, of a model its quote."""
    _damaged: Mapping[int, DamagedTurn]

    @classmethod
    def read(cls, tx: Tx, facts: Collection[int], at: Snapshot | None = None) -> Quotes:
        """Read the occurrences of facts, by row id, and their turns; those that a snapshot has, with what is hidden in it."""
        sayings = _without_hidden(tx, fact_sayings(tx, facts, () if at is None else at.without), at)
        found = {one for several in sayings.values() for one in several}
        turns, damaged = _sound(tx, {one.turns[-1] for one in found})
        said = {one: _words(one, turns[one.turns[-1]]) for one in found if one.turns[-1] in turns}
        asked_in = {
            one: one.before
            for one, words in said.items()
            if one.before is not None and _is_answer(one, words.text, turns[one.turns[-1]].text)
        }
        asked, _ = _sound(tx, set(asked_in.values()).difference(_muted(tx, at)))
        before = {one: asked[row] for one, row in asked_in.items() if row in asked}
        return cls(
            sayings, {one: _with_question(words, before.get(one)) for one, words in said.items()}, damaged
        )

    def of(self, fact: int, turn: int | None = None) -> tuple[Spoken, ...] | None:
        """Return what was said where a fact was learnt; None if it is a model's statement, nothing if the turn is damaged.

        Args:
            fact: row id.
            turn: the turn whose occurrence is wanted; None for the one that the fact has its wording from.
        """
        one = self._saying(fact, turn)
        if one is None or not one.maker.startswith(QUOTED_MAKERS):
            return None
        return self._spoken.get(one, ())

    def alone(self, fact: int, turn: int) -> str:
        """Return the words of a turn that a fact was made from, and no others; nothing where they may not be shown."""
        one = self._saying(fact, turn)
        if one is None or one.maker == WITHHELD or one not in self._spoken:
            return ""
        return self._spoken[one][-1].text

    def corrected_ms(self, fact: int, turn: int | None = None) -> int | None:
        """Return when a fact was put in the place of what was said at a turn; None where it was said there itself."""
        one = self._saying(fact, turn)
        return None if one is None else one.corrected_ms

    def text(self, fact: int, statement: str) -> str:
        """Return what people read of a fact: what was said, a model's statement, or that the turn is damaged."""
        one = self._saying(fact, None)
        return statement if one is None or self.of(fact) is None else self._told(one)

    def all(self, fact: int) -> tuple[str, ...]:
        """Return what was said at each occurrence of a fact, each text once, without words that may not be shown."""
        return tuple(dict.fromkeys(self._told(one) for one in self._sayings[fact] if one.maker != WITHHELD))

    def _saying(self, fact: int, turn: int | None) -> Saying | None:
        found = self._sayings[fact]
        fitting = (one for one in found if (one.first if turn is None else turn in one.turns))
        return next(fitting, found[0] if found else None)

    def _told(self, one: Saying) -> str:
        if one not in self._spoken:
            return f"[{self._damaged[one.turns[-1]].name} is damaged]"
        return joined(self._spoken[one])


CORRECTED, WITHHELD = "corrected", "withheld"
"""Stand for what made a statement, where a person did, and where its words may not be shown."""


def _muted(tx: Tx, at: Snapshot | None) -> Collection[int]:
    found: Collection[int] = muted_turns(tx) if at is None else at.turns.ids[at.turns.muted].tolist()
    return found


def _without_hidden(
    tx: Tx, sayings: Mapping[int, Sequence[Saying]], at: Snapshot | None
) -> dict[int, list[Saying]]:
    """Return the sayings, with `CORRECTED` or `WITHHELD` as the maker of those that are not told by their words."""
    then = None if at is None else at.verdicts

    def shown(fact: int, one: Saying) -> bool:
        return one.shown if then is None else then.get(fact, 0) < HIDDEN

    turns = {one.turns[-1] for fact, found in sayings.items() for one in found if shown(fact, one)}
    hidden = hidden_sentences(tx, turns, NOW if at is None else at.known_ms)
    texts = turn_texts(tx, hidden)

    def told(fact: int, one: Saying) -> Saying:
        if one.corrected_ms is not None:
            return one._replace(maker=CORRECTED)
        turn = one.turns[-1]
        if not shown(fact, one) or turn not in hidden:
            return one
        overlaps = hidden[turn] & sentences_of(texts[turn].text, one.quote)
        return one._replace(maker=WITHHELD) if overlaps else one

    return {fact: [told(fact, one) for one in found] for fact, found in sayings.items()}


def _sound(tx: Tx, rows: Collection[int]) -> tuple[dict[int, TurnText], dict[int, DamagedTurn]]:
    """Return turns by row id, and those of them that are damaged, whose texts are not read."""
    damaged = damaged_turns(tx, rows)
    return turn_texts(tx, [row for row in rows if row not in damaged]), damaged


def _words(one: Saying, turn: TurnText) -> Spoken:
    if one.maker.startswith((*QUOTED_MAKERS, CORRECTED)):
        return Spoken(turn.speaker, quoted(turn.text, one.quote))
    return Spoken(turn.speaker, turn.text if one.quote is None else one.quote)


def _is_answer(one: Saying, words: str, turn: str) -> bool:
    """Return whether a quotation opens its turn and needs the question before it to be understood."""
    first = words.partition(MARK)[0].strip()
    opens = bool(first) and first in turn[: OPENING_CHARS + len(first)]
    return opens and one.maker.startswith(QUOTED_MAKERS) and is_bare(words)


def _with_question(words: Spoken, before: TurnText | None) -> tuple[Spoken, ...]:
    question = None if before is None or before.speaker == words.speaker else open_question(before.text)
    return (words,) if before is None or question is None else (Spoken(before.speaker, question), words)
