"""What corrections are about in chunks, and the verdicts on facts that follow.

A correction is about every fact of one identity; where no fact of that identity is extracted from its sentence any more,
it is about the fact that is. Of several corrections of one fact the newest counts. Verdicts follow from the corrections
and from what is stored, so they can be derived again at any time (`verify` does), and for an earlier moment: from the
corrections that held then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memforest.read.quoting import sentences_of, sentences_said
from memforest.store import corrections as corrections_rows
from memforest.store import facts as facts_rows
from memforest.store.connections import Tx
from memforest.store.corrections import NOW, PINNED, Correction, HeldPlace, SentencePlace
from memforest.store.facts import FactRow, OccurrenceRow
from memforest.store.sessions import StoredTurn, turns_with_ids
from memforest.text import fold, words

ALIKE = 0.5
"""Least share of a statement's words that are in the corrected one, for it to be the same statement in other words."""


@dataclass(slots=True)
class ChunksSaid:
    """What some chunks say, and what the corrections that hold are about there."""

    turns: Mapping[int, int]
    """Turn -> chunk."""
    texts: Mapping[int, StoredTurn]
    facts: Mapping[int, FactRow]
    said: Sequence[OccurrenceRow]
    """What was extracted."""
    instead: Sequence[OccurrenceRow]
    """What corrections have put there."""
    corrections: dict[int, Correction]
    held: Sequence[HeldPlace]
    stale: Sequence[HeldPlace]
    """Places whose sentence is not said there any more."""
    hits: dict[int, list[OccurrenceRow]] = field(default_factory=dict)
    """Correction -> what was extracted and it is about."""

    @classmethod
    def read(cls, tx: Tx, chunks: Collection[int], at_ms: int = NOW) -> ChunksSaid:
        """Read what some chunks say, and the corrections that held at a moment."""
        turns = corrections_rows.turns_of_chunks(tx, chunks)
        texts = turns_with_ids(tx, turns)
        facts = facts_rows.facts_with_ids(tx, set(facts_rows.occurrences_in(tx, chunks).values()))
        here = set(chunks)
        found = [
            one
            for several in facts_rows.occurrences(tx, facts).values()
            for one in several
            if one.chunk in here
        ]
        corrections, places = corrections_rows.corrections_at(tx, turns, at_ms)
        identities = {facts[one.fact].fact_id for one in found}
        corrections |= {one.row: one for one in corrections_rows.corrections_of(tx, identities, at_ms=at_ms)}
        made = cls(
            turns,
            texts,
            facts,
            [one for one in found if one.correction is None],
            [one for one in found if one.correction is not None],
            corrections,
            [one for one in places if one.quote in sentences_said(texts[one.turn].text)],
            [one for one in places if one.quote not in sentences_said(texts[one.turn].text)],
        )
        for one in corrections.values():
            if hit := made._about(one):
                made.hits[one.row] = hit
        return made

    def places(self, one: OccurrenceRow) -> list[SentencePlace]:
        """Return the sentences that a statement was made from."""
        turns = [self.texts[turn] for turn in one.turns]
        found = [
            SentencePlace(turn.session_id, turn.turn_id, key)
            for turn in turns
            for key in sentences_of(turn.text, one.quote)
        ]
        return found or [
            SentencePlace(turn.session_id, turn.turn_id, key)
            for turn in turns[-1:]
            for key in sentences_said(turn.text)
        ]

    def is_again(self, correction: Correction, one: OccurrenceRow) -> bool:
        """Return whether a statement that a correction is about was made after it, and elsewhere: perhaps it is true by now."""
        held = {(place.turn, place.quote) for place in self.held if place.correction == correction.row}
        known = any(
            (turn, key) in held for turn in one.turns for key in sentences_said(self.texts[turn].text)
        )
        return one.said_ms > correction.made_ms and not known

    def _about(self, correction: Correction) -> list[OccurrenceRow]:
        """Return what a correction is about: what has its identity, else in each chunk what stands in its place.

        What was remembered is about nothing that was extracted.
        """
        if correction.kind == "remember":
            return []
        own = [one for one in self.said if self.facts[one.fact].fact_id == correction.fact_id]
        held = {
            SentencePlace(self.texts[one.turn].session_id, self.texts[one.turn].turn_id, one.quote)
            for one in self.held
            if one.correction == correction.row
        }
        if not held:
            return own
        named = {one.chunk for one in own if not held.isdisjoint(self.places(one))}
        others: dict[int, list[OccurrenceRow]] = {}
        for one in self.said:
            identity = self.facts[one.fact].fact_id
            elsewhere = one.chunk in named or held.isdisjoint(self.places(one))
            if not elsewhere and identity not in (correction.fact_id, correction.made):
                others.setdefault(one.chunk, []).append(one)
        return own + [one for found in others.values() for one in _meant(correction.said, found)]


def _meant(said: str, found: Sequence[OccurrenceRow]) -> list[OccurrenceRow]:
    """Return those of the statements of a sentence that say what a statement said: the likest, and all that are like it."""
    likeness = [_likeness(one.text, said) for one in found]
    return [one for one, like in zip(found, likeness, strict=True) if like >= min(ALIKE, max(likeness))]


def _likeness(text: str, said: str) -> float:
    """Return the share of the words of a text that are in another one."""
    own = set(words(fold(text)))
    return len(own & set(words(fold(said)))) / max(len(own), 1)


def verdicts(tx: Tx, facts: Iterable[FactRow], at_ms: int = NOW) -> dict[int, int]:
    """Return what the corrections decide of facts, by row id; see `memforest.store.corrections.VERDICTS`.

    Args:
        tx: a transaction.
        facts: which.
        at_ms: the moment at which the corrections hold, UTC ms.
    """
    found = list(facts)
    about = corrections_about(tx, [fact.row for fact in found], at_ms)
    own = corrections_rows.corrections_of(tx, {fact.fact_id for fact in found}, at_ms=at_ms)
    return {fact.row: _verdict(tx, fact, own, about[fact.row], at_ms) for fact in found}


def verdicts_at(tx: Tx, at_ms: int) -> dict[int, int] | None:
    """Return what was decided at a moment, UTC ms, of all facts of which anything ever was; None if it is the same now."""
    return (
        verdicts(tx, corrections_rows.facts_looked_at(tx), at_ms)
        if corrections_rows.decided_since(tx, at_ms)
        else None
    )


def corrections_about(tx: Tx, facts: Collection[int], at_ms: int = NOW) -> dict[int, list[Correction]]:
    """Return the corrections that are about facts by where those were said, in the order they were made, by row id."""
    said = ChunksSaid.read(tx, corrections_rows.chunks_with_places(tx, facts, at_ms), at_ms)
    about: dict[int, list[Correction]] = {fact: [] for fact in facts}
    for number in sorted(said.hits, key=lambda one: (said.corrections[one].made_ms, one)):
        for fact in {one.fact for one in said.hits[number]}.intersection(about):
            about[fact].append(said.corrections[number])
    return about


def _verdict(
    tx: Tx, fact: FactRow, own: Sequence[Correction], there: Sequence[Correction], at_ms: int
) -> int:
    about = {one.row: one for one in (*own, *there) if one in there or one.fact_id == fact.fact_id}
    makes = [one for one in own if one.made == fact.fact_id]
    hides = [one for one in about.values() if one.hides]
    last = max((*hides, *makes), key=lambda one: (one.made_ms, one.row), default=None)
    if last in hides:
        return corrections_rows.VERDICTS.index("corrected" if last.kind == "update" else "forgotten")
    pinned = any(one.kind == "pin" for one in about.values()) or _pinned_before(tx, makes, at_ms)
    return PINNED if pinned else 0


def _pinned_before(tx: Tx, makes: Sequence[Correction], at_ms: int) -> bool:
    """Return whether a statement that these put another one in the place of was pinned: the pin goes on."""
    seen: set[str] = set()
    wanted = {one.fact_id for one in makes}
    while wanted:
        found = corrections_rows.corrections_of(tx, wanted, at_ms=at_ms)
        if any(one.kind == "pin" and one.fact_id in wanted for one in found):
            return True
        seen |= wanted
        wanted = {one.fact_id for one in found if one.made in wanted} - seen
    return False
