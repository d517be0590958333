"""How facts are shown to people: the sentences that were said, or the statement that a model made of them.

A statement made by local rules is for finding, as rewriting distorts some. So the sentences that it was made from are
shown, with the question in front where they are a bare answer. The statement itself is shown where a person wrote it
as a correction, and where its sentence also says what is hidden.

A fact's place is the digests of the sentences of turns that it was made from, which stay when they are extracted anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

from memforest.reading.canonical import speaker_key
from memforest.reading.clauses import MARK, is_bare, lacks_content, open_question, quoted
from memforest.reading.tokens import split_sentences
from memforest.records import SpokenText
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import asks, digest
from memforest.settings import MAX_ID_CHARS
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN, NOW, corrections_at
from memforest.store.reads import QUOTED_MAKERS, FactOccurrence, fact_sayings, muted_turns
from memforest.store.sessions import StoredTurn, turns_with_ids
from memforest.text import fold, lexical_tokens, negated, words

_DERIVED = re.compile("~[0-9a-f]{10}$")
_MOST_ROOT = MAX_ID_CHARS - 11


@lru_cache(maxsize=4096)
def sentences_said(text: str) -> dict[bytes, str]:
    """Return digest -> sentence for the sentences of a turn, in order; of a text without any, the text itself."""
    pieces = [piece.text for piece in split_sentences(text)] or [text]
    return {digest(_plain(piece)): piece for piece in pieces}


def sentences_of(text: str, quote: str | None) -> frozenset[bytes]:
    """Return the digests of the sentences of a turn that a quote holds or is part of; none for a quote of another turn.

    Args:
        text: of the turn.
        quote: as it is stored, on lines where its pieces stand apart; None for all of the turn.
    """
    said = sentences_said(text)
    if quote is None:
        return frozenset(said)
    lines = [_plain(line) for line in quote.split("\n") if line.strip()]
    return frozenset(
        key
        for key, sentence in said.items()
        if (plain := _plain(sentence)) and any(_within(plain, line) or _within(line, plain) for line in lines)
    )


def _plain(text: str) -> str:
    """Return the words of a text, folded; the text itself where it has none."""
    return " ".join(words(fold(text))) or text.strip()


def _within(part: str, whole: str) -> bool:
    """Return whether words stand together in others."""
    return f" {part} " in f" {whole} "


def root_id(own_id: str) -> str:
    """Return the id that a session or a turn had before a merge gave it another one; its own where none did."""
    return _DERIVED.sub("", own_id)[:_MOST_ROOT]


def derived_id(own_id: str, *parts: str) -> str:
    """Return the id that a merge gives to what cannot keep its own: that with a digest of where it comes from.

    Example:
        >>> derived_id("s1", "memory", "bob")
        's1~4b6d1d7768'
    """
    root = root_id(own_id)
    digest = blake2b("\0".join((*parts, root)).encode(), digest_size=5).hexdigest()
    return f"{root}~{digest}"


def holds(text: str, sentence: str) -> bool:
    """Return whether a text has the words of a sentence, in a row."""
    return _within(_plain(sentence), _plain(text))


def copy_digests(turn: StoredTurn, text: str, speaker: str) -> tuple[bytes, bytes]:
    """Return the digests by which a text of a turn is known in whatever memory it was copied to.

    One is of who said it when, in which session; the other, for turns that a store stamped itself, of the turn's id instead.
    """
    place = (root_id(turn.session_id), speaker_key(speaker) or speaker, _plain(text))
    first, second = (
        blake2b("\0".join((*place, at)).encode(), digest_size=16).digest()
        for at in (str(turn.said_ms), f"turn {root_id(turn.turn_id)}")
    )
    return first, second


def gone_digests(turn: StoredTurn, left: str | None) -> Iterable[bytes]:
    """Yield the digests of what goes of a turn, and of the turn as it was; nothing if all of it is left."""
    if left == turn.text:
        return
    kept = {} if left is None else sentences_said(left)
    gone = [said for key, said in sentences_said(turn.text).items() if key not in kept]
    for text in (turn.text, *gone):
        yield from copy_digests(turn, text, turn.speaker)[: 2 if turn.time_source == "clock" else 1]


def repeats(reply: str, said: str) -> bool:
    """Return whether two thirds of the content words of a reply, questions left out, were said in the turn before it.

    >>> repeats("Noted: your dog is called Pickle.", "My dog is called Pickle."), repeats("I like Pickle.", "My dog is ill.")
    (True, False)
    """
    found = set(lexical_tokens(_without_questions(reply)))
    return bool(found) and 3 * len(found & set(lexical_tokens(said))) >= 2 * len(found)


def adds_nothing(reply: str, said: str) -> bool:
    """Return whether every word of a reply, questions left out, was said in the turn before it or has no content of its own.

    >>> adds_nothing("Great, your dog is Pickle!", "My dog is Pickle."), adds_nothing("Your dog is no Pickle.", "My dog is Pickle.")
    (True, False)
    """
    told = _without_questions(reply)
    return negated(told) == negated(said) and lacks_content(told, frozenset(words(said.lower())))


def _without_questions(text: str) -> str:
    return " ".join(one.text for one in split_sentences(text) if not asks(one.text))


DASH = " – "
OPENING_CHARS = 12
"""An answer begins within so many characters of its turn, behind a word of greeting or the like."""


def joined(spoken: Sequence[SpokenText]) -> str:
    """Return what was said as one text: the words, or a question, a dash and its answer.

    >>> joined([SpokenText("Ana", "Is it the 12th?"), SpokenText("Bob", "Yes.")])
    'Is it the 12th? – Yes.'
    """
    return DASH.join(one.text for one in spoken)


@dataclass(frozen=True, slots=True)
class Saying:
    """What was said at one occurrence of a fact, with the question that it answers; no text of a damaged turn."""

    of: FactOccurrence
    spoken: tuple[SpokenText, ...]
    """Of rules the sentences of the turn, of a model its quote; nothing if the turn is damaged."""
    shown: tuple[SpokenText, ...] | None
    """What people read in the place of the statement; None where they read that, as a model or a person made it."""
    damaged: str = ""
    """The name of the turn, if it is damaged."""

    @property
    def words(self) -> str:
        """The words of the turn that the fact was made from, and no others; nothing where they may not be shown."""
        return "" if self.of.maker == WITHHELD or not self.spoken else self.spoken[-1].text

    @property
    def told(self) -> str:
        """What was said as one text, or that the turn is damaged."""
        return f"[{self.damaged} is damaged]" if self.damaged else joined(self.spoken)


Sayings = Mapping[int, Sequence[Saying]]
"""What was said at the occurrences of facts, by row id."""


def read_sayings(
    tx: Tx,
    facts: Collection[int],
    at: Snapshot | None = None,
    known: Mapping[int, StoredTurn] = MappingProxyType({}),
) -> Sayings:
    """Read the occurrences of facts, by row id, and their turns but for `known` ones; those that a snapshot has, with what is hidden in it."""
    sayings = _without_hidden(tx, fact_sayings(tx, facts, () if at is None else at.without), at)
    found = {one for several in sayings.values() for one in several}
    rows = {one.turns[-1] for one in found}
    turns = {**known, **turns_with_ids(tx, rows.difference(known))}
    said: dict[FactOccurrence, SpokenText] = {}
    asked_in: dict[FactOccurrence, int] = {}
    for one in found:
        if (turn := turns[one.turns[-1]]).is_damaged:
            continue
        if one.maker.startswith((*QUOTED_MAKERS, CORRECTED)):
            text = quoted(turn.text, one.quote)
        else:
            text = turn.text if one.quote is None else one.quote
        said[one] = SpokenText(turn.speaker, text)
        first = text.partition(MARK)[0].strip()
        opens = bool(first) and first in turn.text[: OPENING_CHARS + len(first)]
        quotes = one.before is not None and opens and one.maker.startswith(QUOTED_MAKERS)
        if one.before is not None and quotes and is_bare(text):  # it needs its question to be understood
            asked_in[one] = one.before
    muted: Collection[int] = muted_turns(tx) if at is None else at.turns.ids[at.turns.muted].tolist()
    questions = set(asked_in.values()).difference(muted)
    turns |= turns_with_ids(tx, questions - turns.keys())
    asked = {row: turns[row] for row in questions if not turns[row].is_damaged}
    made: dict[FactOccurrence, Saying] = {}
    for one in found:
        spoken: tuple[SpokenText, ...] = (said[one],) if one in said else ()
        before = asked.get(asked_in.get(one, 0))
        if before is not None and before.speaker != said[one].speaker:
            question = open_question(before.text)
            spoken = spoken if question is None else (SpokenText(before.speaker, question), *spoken)
        shown = spoken if one.maker.startswith(QUOTED_MAKERS) else None
        made[one] = Saying(one, spoken, shown, "" if spoken else turns[one.turns[-1]].name)
    return {fact: [made[one] for one in several] for fact, several in sayings.items()}


def saying_at(several: Sequence[Saying], turn: int | None = None) -> Saying | None:
    """Return what was said where a fact was learnt; None if it has no occurrence.

    Args:
        several: all that was said of it.
        turn: row of the turn whose occurrence is wanted; None for the one that the fact has its wording from.
    """
    fitting = (one for one in several if (one.of.first if turn is None else turn in one.of.turns))
    return next(fitting, several[0] if several else None)


def told_of(several: Sequence[Saying], statement: str) -> str:
    """Return what people read of a fact: what was said, a model's statement, or that the turn is damaged."""
    one = saying_at(several)
    return statement if one is None or one.shown is None else one.told


def told_each(several: Sequence[Saying]) -> tuple[str, ...]:
    """Return what was said at each occurrence of a fact, each text once, without words that may not be shown."""
    return tuple(dict.fromkeys(one.told for one in several if one.of.maker != WITHHELD))


CORRECTED, WITHHELD = "corrected", "withheld"
"""Stand for what made a statement, where a person did, and where its words may not be shown."""


def _without_hidden(
    tx: Tx, sayings: Mapping[int, Sequence[FactOccurrence]], at: Snapshot | None
) -> dict[int, list[FactOccurrence]]:
    """Return the occurrences, with `CORRECTED` or `WITHHELD` as the maker where their words are not to be shown."""
    then = None if at is None else at.verdicts
    shown = {
        (fact, one)
        for fact, several in sayings.items()
        for one in several
        if (one.shown if then is None else then.get(fact, 0) < HIDDEN)
    }
    turns = {one.turns[-1] for _, one in shown}
    made, places = corrections_at(tx, turns, NOW if at is None else at.known_ms)
    hidden: dict[int, set[bytes]] = {}
    for place in places:
        if (by := made[place.correction]).hides and by.text != by.said:  # else only its time is another
            hidden.setdefault(place.turn, set()).add(place.quote)
    texts = turns_with_ids(tx, hidden) if hidden else {}
    found: dict[int, list[FactOccurrence]] = {fact: [] for fact in sayings}
    for fact, several in sayings.items():
        for one in several:
            turn, maker = one.turns[-1], one.maker
            if one.corrected_ms is not None:
                maker = CORRECTED
            elif (fact, one) in shown and turn in hidden:
                overlaps = hidden[turn] & sentences_of(texts[turn].text, one.quote)
                maker = WITHHELD if overlaps else maker
            found[fact].append(one if maker == one.maker else one._replace(maker=maker))
    return found
