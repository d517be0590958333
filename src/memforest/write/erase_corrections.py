"""What a deletion does with corrections, and which sentences of a turn a statement was made from.

A correction goes with the last sentence that it is about, and keeps no word that only deleted text said. A correction
that stays is worded by what is left. An update whose own text has such a word, or was deleted itself, stays as a
`forget`: what a person has corrected must not be shown as true because something else went.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from memforest.read.quoting import sentences_said
from memforest.reading.tokens import SentenceSpan, split_sentences
from memforest.store import corrections, erase, facts, sessions
from memforest.store.connections import Tx
from memforest.store.corrections import Correction
from memforest.store.sessions import turns_of_session, turns_with_ids
from memforest.text import STOP_WORDS, entity_key, fold, lexical_tokens, words
from memforest.write.corrections import settle_verdicts
from memforest.write.reword import identity_of, without_occurrences
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
    inside = [key for key in keys if not key.isascii()]  # scripts without spaces: a name is a part of a run
    return [
        one
        for one in split_sentences(text)
        if entity_key(one.text) in keys
        or any(entity_key(run) in keys for run in _runs(one.text, longest))
        or any(key in fold(one.text) for key in inside)
    ]


def spelled(text: str, key: str) -> str | None:
    """Return how a text spells the name of a key; None when it does not name it.

    Example:
        >>> spelled("She lives in The Hague.", "hague")
        'Hague'
    """
    runs = _runs(text, len(key.split()) + MOST_NAME_WORDS - 1)
    return next((run for run in runs if entity_key(run) == key), None)


def _runs(text: str, longest: int) -> Iterator[str]:
    """Yield the words of a text, then two of them in a row, then three, and so on."""
    said = words(text)
    for size in range(1, longest + 1):
        for at in range(len(said) - size + 1):
            yield " ".join(said[at : at + size])


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
    corrections: frozenset[int] = frozenset()
    """Those that hold one of these texts, those that were undone too."""

    @classmethod
    def of(cls, tx: Tx, fact_id: str | None = None, keys: frozenset[str] = frozenset()) -> DeletedKeys:
        """Return a statement and names, with the corrections that hold them."""
        found = [] if fact_id is None else corrections.corrections_of(tx, {fact_id}, undone=True)
        if keys:
            told = corrections.all_corrections(tx)
            found += [one for one in told if names(f"{one.said}\n{one.told}", keys)]
        return cls(fact_id, keys, frozenset(one.row for one in found))

    def has(self, text: str, fact_id: str | None = None) -> bool:
        """Return whether a text, of a statement of that identity, may not stay."""
        return (fact_id is not None and fact_id == self.fact_id) or bool(self.keys and names(text, self.keys))


NOTHING = DeletedKeys()


def left_of(
    one: Correction, instead: Iterable[str], lost: frozenset[str], texts: DeletedKeys = NOTHING
) -> Correction | None:
    """Return a correction without what tells of deleted text; None when nothing can be left of it.

    An update whose own text tells of that hides what it is about, and puts nothing in its place. A remembered statement goes then.

    Args:
        one: the correction.
        instead: how its statement is worded where it is left.
        lost: words that only deleted text said.
        texts: what else may not stay.
    """

    def tells(text: str, fact_id: str | None = None) -> bool:
        return texts.has(text, fact_id) or not lost.isdisjoint(content_words(text))

    if one.kind == "remember":
        return None if tells(one.told, one.made) else one
    if tells(one.said, one.fact_id):
        said = next((text for text in instead if text and not tells(text)), None)
        if said is None:
            return None
        one = replace(one, said=said)
    if one.text is None or not tells(one.told, one.made):
        return one
    if one.undone_ms is not None:
        return None
    one = replace(one, kind="forget", made=None, text=None, state="[]")
    return replace(one, start_ms=None, end_ms=None, precision="unknown")


@dataclass(slots=True)
class FreedCorrections:
    """What became of the corrections that a deletion reaches; the caller deletes those that go, and what they made."""

    reached: Collection[int] = ()
    """All that it reaches."""
    gone: set[int] = field(default_factory=set)
    """Corrections that go."""
    changed: set[int] = field(default_factory=set)
    """Corrections that stay and were changed."""
    statements: set[str] = field(default_factory=set)
    """Identities of the statements that the corrections are about and that they made."""
    turns: set[int] = field(default_factory=set)
    """Turns in which a correction is about something that is left."""
    made: dict[int, int] = field(default_factory=dict)
    """Occurrences that corrections have made and that go, with their facts."""


def free_corrections(
    tx: Tx,
    sessions: Collection[str],
    left: Mapping[int, str | None] = MappingProxyType({}),
    lost: Mapping[int, frozenset[str]] = MappingProxyType({}),
    going: Collection[int] = (),
    texts: DeletedKeys = NOTHING,
) -> FreedCorrections:
    """Take places and words from the corrections that a deletion reaches: those at its sessions, and those of what they made.

    Args:
        tx: the write transaction; the turns and occurrences that go are still there.
        sessions: ids of the sessions that something is deleted of.
        left: what is to be left of the turns that are cut, by row.
        lost: chunk -> the words that only deleted text said there.
        going: occurrences that go.
        texts: what else may not stay in corrections.
    """
    reached = dict.fromkeys(texts.corrections, frozenset[str]())
    for row, chunk in erase.corrections_reached(tx, sessions, lost):
        reached[row] = reached.get(row, frozenset()) | lost.get(chunk or 0, frozenset())
    freed = FreedCorrections(reached.keys())
    if not reached:
        return freed
    known = {one.row: one for one in corrections.all_corrections(tx)}
    _reach(reached, known)
    # Statement -> the corrections that make it -> the words that are still said where they are.
    makers: dict[str | None, dict[int, frozenset[str]]] = {}
    for one in known.values():
        makers.setdefault(one.made, {})[one.row] = frozenset()
    for one in (one for one in known.values() if one.row in reached):  # behind those that made its statement
        freed.statements |= {one.fact_id, one.made or one.fact_id}
        places, said = _places(tx, one, left, freed), _said(tx, one, going)
        made_by = makers.get(one.fact_id, {})
        kept = _said_at(tx, places, left).union(*made_by.values())
        stands = places or (one.kind != "remember" and (made_by or (said and one.kind != "update")))
        instead = (*said, "\n".join(dict.fromkeys(places.values())))
        now = left_of(one, instead, reached[one.row] - kept, texts) if stands else None
        makers[one.made][one.row] = kept
        if now is None:
            ended = [each.row for each in corrections.ended_with(tx, one)]  # it is so again
            freed.gone.update((one.row, *ended))
            freed.made |= erase.occurrences_made(tx, ended)
        elif now != one:
            erase.rewrite_correction(tx, now)
            freed.changed.add(one.row)
        if now is None or now.made != one.made:
            del makers[one.made][one.row]
            freed.made |= erase.occurrences_made(tx, (one.row,))
    freed.changed -= freed.gone
    return freed


def _reach(lost: dict[int, frozenset[str]], known: Mapping[int, Correction]) -> None:
    """Add the corrections of what the given ones made, with the words that are lost for these."""
    about: dict[str | None, list[int]] = {}
    for one in known.values():
        about.setdefault(one.fact_id, []).append(one.row)
    queue = list(lost)
    while queue:
        row = queue.pop()
        for after in about.get(known[row].made, ()):
            have = lost.get(after)
            if have is None or not lost[row] <= have:
                lost[after] = lost[row].union(have or ())
                queue.append(after)


def _places(
    tx: Tx, one: Correction, left: Mapping[int, str | None], freed: FreedCorrections
) -> dict[tuple[int, bytes], str]:
    """Return the places of a correction that are left, (turn, digest) -> sentence; the others are deleted."""
    held = corrections.places_of(tx, one.row)
    spots = turns_with_ids(tx, {place.turn for place in held})
    stay, gone = {}, []
    for place in held:
        text = left.get(place.turn, spots[place.turn].text)
        said = {} if text is None else sentences_said(text)
        if place.quote in said:
            stay[place.turn, place.quote] = said[place.quote]
        else:
            gone.append(place)
    corrections.drop_places(tx, gone)
    if gone:
        freed.changed.add(one.row)
    freed.turns |= {turn for turn, _ in stay}
    return stay


def _said(tx: Tx, one: Correction, going: Collection[int]) -> list[str]:
    """Return how the statement of a correction is worded where it was said and is left."""
    fact = facts.fact_by_id(tx, one.fact_id)
    if fact is None:
        return []
    return [
        place.text
        for place in facts.occurrences(tx, (fact.row,), going)[fact.row]
        if place.correction is None and identity_of(fact, place.text, place.dates) == one.fact_id
    ]


def _said_at(tx: Tx, places: Iterable[tuple[int, bytes]], left: Mapping[int, str | None]) -> frozenset[str]:
    """Return the words of turns, and of those that are read with them, as they are left."""
    found: set[str] = set()
    for spot in turns_with_ids(tx, {turn for turn, _ in places}).values():
        first = max(0, spot.ordinal - CONTEXT_TURNS)
        for near in turns_of_session(tx, spot.session, first, spot.ordinal):
            text = left.get(near.row, near.text)
            if text is not None:
                found |= content_words(near.speaker, text)
    return frozenset(found)


def sweep_corrections(tx: Tx, session_id: str, said: frozenset[str]) -> None:
    """Free the corrections at a session that was overwritten from what it does not say any more.

    Args:
        tx: the write transaction.
        session_id: the session.
        said: the words of the turns that it had.
    """
    found = sessions.find_session(tx, session_id)
    left = [] if found is None else turns_of_session(tx, found.row)
    lost = said.difference(*(content_words(turn.speaker, turn.text) for turn in left))
    freed = free_corrections(tx, (session_id,), lost={0: lost})  # of no chunk: those are read anew
    without_occurrences(tx, freed.made)
    erase.drop_stray_places(tx, freed.changed, (session_id,))
    erase.drop_corrections(tx, freed.gone)
    settle_verdicts(tx, facts.rows_of_ids(tx, freed.statements).values())
