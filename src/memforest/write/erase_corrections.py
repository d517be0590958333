"""What a deletion does with corrections, and which sentences of a turn a statement was made from.

A correction goes with the last sentence that it is about, and keeps no word that only deleted text said. A correction
that stays is worded by what is left. An update whose own text has such a word, or was deleted itself, stays as a
`forget`: what a person has corrected must not be shown as true because something else went.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from memforest.read.quoting import sentences_said
from memforest.reading.canonical import fact_identity
from memforest.reading.tokens import SentenceSpan, split_sentences
from memforest.store import corrections, erase, facts
from memforest.store.connections import Tx
from memforest.store.corrections import Correction
from memforest.store.sessions import turns_of_session, turns_with_ids
from memforest.text import STOP_WORDS, entity_key, fold, lexical_tokens, words
from memforest.times import from_ms
from memforest.write.sessions import CONTEXT_TURNS

RUN = 4
"""Words in a row that two texts do not share by chance."""
LEAST_REPEATED = 3
"""Words of a sentence that is told by its words."""
MOST_NAME_WORDS = 3
"""Words that a name may have beside those of its key: an article, a title, a genitive."""


def content_words(*texts: str) -> frozenset[str]:
    """Return the words of texts by which one could be recognised: their lexical tokens, and the words that are no stop words."""
    found: set[str] = set()
    for text in texts:
        found.update(lexical_tokens(text))
        found.update(word for word in map(fold, words(text)) if word not in STOP_WORDS)
    return frozenset(found)


def repeated(text: str, said: str, left: str = "") -> bool:
    """Return whether a text has a sentence of three words or more of what was said, word for word, that nothing left says.

    Example:
        >>> repeated('Ana, asked "Do you like it?": Yes.', "Hello! Do you like it?")
        True
    """
    spelt, stays = (" ".join(words(fold(one))) for one in (text, left))
    own = (words(fold(one.text)) for one in split_sentences(said))
    sentences = (" ".join(one) for one in own if len(one) >= LEAST_REPEATED)
    return any(one in spelt and one not in stays for one in sentences)


def quoted(text: str, quote: str) -> list[SentenceSpan]:
    """Return the sentences of a turn in which words of a quote stand; none if it quotes nothing of the turn.

    A quote may leave something out: then its parts are looked for, sentence by sentence and line by line.

    Example:
        >>> [one.text for one in quoted("I moved. I bought a car, red. Bye!", "I bought  a car")]
        ['I bought a car, red.']
    """
    pieces = split_sentences(text)
    spans = _spans(text, quote)
    if not spans:
        for part in re.split(r"…|\.\.\.|\n", quote):
            for piece in split_sentences(part):
                spans += _spans(text, piece.text)
    return [one for one in pieces if any(start < one.end and end > one.start for start, end in spans)]


def _spans(text: str, quote: str) -> list[tuple[int, int]]:
    """Return where a quote stands in a text, however white space and case are written."""
    said = quote.split()
    if not any(ch.isalnum() for ch in quote):
        return []
    pattern = r"\s+".join(re.escape(word) for word in said)
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def sharing(text: str, said: Collection[str]) -> list[SentenceSpan]:
    """Return the sentences of a turn that hold one of some content words."""
    return [one for one in split_sentences(text) if not content_words(one.text).isdisjoint(said)]


def names(text: str, keys: Collection[str]) -> list[SentenceSpan]:
    """Return the sentences of a turn that name an entity by one of its keys.

    Example:
        >>> [one.text for one in names("I met Dr. José García. He ran.", {"jose garcia"})]
        ['I met Dr. José García.']
    """
    longest = max((len(key.split()) for key in keys), default=0) + MOST_NAME_WORDS
    return [one for one in split_sentences(text) if _is_named(one.text, keys, longest)]


def spelled(text: str, key: str) -> str | None:
    """Return how a text spells the name of a key; None when it does not name it.

    Example:
        >>> spelled("She lives in The Hague.", "hague")
        'Hague'
    """
    said = words(text)
    for size in range(1, len(key.split()) + MOST_NAME_WORDS):
        for at in range(len(said) - size + 1):
            name = " ".join(said[at : at + size])
            if entity_key(name) == key:
                return name
    return None


def _is_named(text: str, keys: Collection[str], longest: int) -> bool:
    said = words(text)
    if any(entity_key(word) in keys for word in said) or entity_key(text) in keys:
        return True
    windows = (
        " ".join(said[at : at + size]) for size in range(2, longest + 1) for at in range(len(said) - size + 1)
    )
    if any(entity_key(one) in keys for one in windows):
        return True
    # Scripts without spaces: a name is a part of a run.
    folded = fold(text)
    return any(key in folded for key in keys if not key.isascii())


def without(text: str, pieces: Iterable[SentenceSpan]) -> str | None:
    """Return a text without some of its sentences; None when no letter or digit is left of it.

    Example:
        >>> text = "I moved. I bought a car. Bye!"
        >>> without(text, quoted(text, "I bought a car."))
        'I moved. Bye!'
    """
    kept, at = [], 0
    for piece in sorted(set(pieces), key=lambda one: one.start):
        kept.append(text[at : piece.start].strip())
        at = piece.end
    whole = " ".join(part for part in (*kept, text[at:].strip()) if part)
    return whole if any(ch.isalnum() for ch in whole) else None


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """What may not stay in corrections and metadata, beside words: a statement by its identity, names by their keys."""

    fact_id: str | None = None
    keys: frozenset[str] = frozenset()

    def has(self, text: str, fact_id: str | None = None) -> bool:
        """Return whether a text, of a statement of that identity, may not stay."""
        return (fact_id is not None and fact_id == self.fact_id) or bool(self.keys and names(text, self.keys))

    def corrections(self, tx: Tx) -> set[int]:
        """Return the corrections that hold one of these texts, those that were undone too."""
        found = [] if self.fact_id is None else corrections.corrections_of(tx, {self.fact_id}, undone=True)
        if self.keys:
            found += [
                one for one in corrections.all_corrections(tx) if names(f"{one.said}\n{one.text}", self.keys)
            ]
        return {one.row for one in found}


@dataclass(slots=True)
class FreedCorrections:
    """The corrections that a deletion reaches, freed one after the other; each behind the one that made its statement."""

    tx: Tx
    left: Mapping[int, str | None]
    """What is to be left of the turns that are cut, by row."""
    deleted: DeletedKeys
    gone: set[int] = field(default_factory=set)
    """Corrections that go."""
    changed: set[int] = field(default_factory=set)
    """Corrections that stay and were changed."""
    statements: set[str] = field(default_factory=set)
    """Identities of the statements that the corrections are about and that they made."""
    chunks: set[int] = field(default_factory=set)
    """Chunks where a correction is about something that is left."""
    made: dict[int, int] = field(default_factory=dict)
    """Occurrences that corrections have made and that go, with their facts."""
    _words: dict[int, frozenset[str]] = field(default_factory=dict)
    """Correction -> the words that are still said where it is."""

    def __bool__(self) -> bool:
        return bool(self.statements)

    def free(self, one: Correction, lost: frozenset[str]) -> None:
        """Take from a correction the places that went and the words that are lost, or let it go."""
        self.statements |= {one.fact_id, one.made or one.fact_id}
        places, said = self._places(one), self._said(one)
        before = corrections.corrections_of(self.tx, {one.fact_id}, undone=True)
        # The corrections that go on to make the statement that this one is about.
        makers = [row.row for row in before if row.made == one.fact_id and row.row not in self.gone]
        if not places and not makers and (one.kind == "update" or not said):
            self._drop(one)
            return
        kept = self._said_at(places).union(*(self._words.get(row, frozenset()) for row in makers))
        self._words[one.row] = kept

        def tells(text: str, identity: str | None = None) -> bool:
            return self.deleted.has(text, identity) or not (lost - kept).isdisjoint(content_words(text))

        if tells(one.said, one.fact_id):
            texts = (*said, "\n".join(dict.fromkeys(places.values())))
            instead = next((text for text in texts if text and not tells(text)), None)
            if instead is None:
                self._drop(one)
                return
            erase.reword_correction(self.tx, one.row, instead)
            self.changed.add(one.row)
        if one.text is not None and tells(one.text, one.made):
            if one.undone_ms is not None:
                self._drop(one)
                return
            # An update hides what it is about, and puts nothing in its place.
            self.made |= erase.occurrences_made(self.tx, (one.row,))
            erase.make_forget(self.tx, one.row)
            self.changed.add(one.row)

    def _drop(self, one: Correction) -> None:
        self.gone.add(one.row)
        self.made |= erase.occurrences_made(self.tx, (one.row,))

    def _places(self, one: Correction) -> dict[tuple[int, bytes], str]:
        """Return the places of a correction that are left, (turn, digest) -> sentence; the others are deleted."""
        held = corrections.places_of(self.tx, one.row)
        spots = turns_with_ids(self.tx, {place.turn for place in held})
        left, gone = {}, []
        for place in held:
            text = self.left.get(place.turn, spots[place.turn].text)
            said = {} if text is None else sentences_said(text)
            if place.quote in said:
                left[place.turn, place.quote] = said[place.quote]
            else:
                gone.append(place)
        corrections.drop_places(self.tx, gone)
        if gone:
            self.changed.add(one.row)
        self.chunks |= corrections.chunks_of_turns(self.tx, {turn for turn, _ in left})
        return left

    def _said(self, one: Correction) -> list[str]:
        """Return how the statement of a correction is worded where it was said and is left."""
        fact = facts.fact_by_id(self.tx, one.fact_id)
        if fact is None:
            return []
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        found = facts.occurrences(self.tx, (fact.row,))[fact.row]
        return [
            place.text
            for place in found
            if place.correction is None
            and fact_identity(place.text, times[0], times[1], place.dates) == one.fact_id
        ]

    def _said_at(self, places: Iterable[tuple[int, bytes]]) -> frozenset[str]:
        """Return the words of turns, and of those that are read with them, as they are left."""
        found: set[str] = set()
        for spot in turns_with_ids(self.tx, {turn for turn, _ in places}).values():
            first = max(0, spot.ordinal - CONTEXT_TURNS)
            for near in turns_of_session(self.tx, spot.session, first, spot.ordinal):
                text = self.left.get(near.row, near.text)
                if text is not None:
                    found |= content_words(near.speaker, text)
        return frozenset(found)


def free_corrections(
    tx: Tx,
    left: Mapping[int, str | None],
    reached: Mapping[int, frozenset[str]],
    deleted: DeletedKeys,
) -> FreedCorrections:
    """Take places and words from the corrections that a deletion reaches; the caller deletes those that are `gone`.

    Args:
        tx: the write transaction; the occurrences that go are gone, the turns are still there.
        left: what is to be left of the turns that are cut, by row.
        reached: the corrections, each with the words that only deleted text said where it is; see `reached_corrections`.
        deleted: what else may not stay in their texts.
    """
    freed = FreedCorrections(tx, left, deleted)
    for row, lost in reached.items():
        freed.free(corrections.correction_with_row(tx, row), lost)
    freed.changed -= freed.gone
    return freed


def reached_corrections(
    tx: Tx, sessions: Collection[str], lost: Mapping[int, frozenset[str]], also: Collection[int] = ()
) -> dict[int, frozenset[str]]:
    """Return the corrections at sessions, and those of what they made, with the words lost where they are; the first made first.

    Args:
        tx: the write transaction; the turns are still there.
        sessions: ids of the sessions that something is deleted of.
        lost: chunk -> the words that only deleted text said there.
        also: other corrections that are reached.
    """
    found = dict.fromkeys((*erase.corrections_of_sessions(tx, sessions), *also), frozenset[str]())
    for row, chunk in erase.corrections_in_chunks(tx, lost):
        found[row] |= lost[chunk]
    known, queue = {row: corrections.correction_with_row(tx, row) for row in found}, list(found)
    while queue:
        one = known[queue.pop()]
        for after in corrections.corrections_of(tx, {one.made} if one.made else (), undone=True):
            have = found.get(after.row)
            if after.fact_id == one.made and (have is None or not found[one.row] <= have):
                known[after.row] = after
                found[after.row] = (have or frozenset()) | found[one.row]
                queue.append(after.row)
    return {row: found[row] for row in sorted(found, key=lambda one: (known[one].made_ms, one))}


def sweep_corrections(tx: Tx, session_id: str) -> None:
    """Delete the corrections at a session that was replaced whose sentences it does not have any more."""
    freed = free_corrections(tx, {}, reached_corrections(tx, (session_id,), {}), DeletedKeys())
    erase.drop_stray_places(tx, freed.changed, (session_id,))
    erase.drop_corrections(tx, {row for row in freed.gone if not erase.occurrences_made(tx, (row,))})
