"""What a deletion is of: the turns, the sentences of turns, and the occurrences that go with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memforest.errors import NotFoundError
from memforest.facts.entities import speaker_key
from memforest.interval import to_ms
from memforest.language.sentences import Piece
from memforest.memory.erase.corrections import Deleted
from memforest.memory.erase.erase import Cut
from memforest.memory.erase.sentences import content_words, names, quoted, sharing, without
from memforest.search.texts import question_tokens
from memforest.store import derived, erase, sessions
from memforest.store import facts as fact_rows
from memforest.store.facts import OccurrenceRow
from memforest.store.snapshot import keys_of
from memforest.store.turns import turns_with_ids
from memforest.store.tx import Tx
from memforest.text import cut


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be deleted; one of these is given. A turn is (session id, turn id); `during` is [start, end), None is always."""

    turn: tuple[str, str] | None = None
    session_id: str | None = None
    fact_id: str | None = None
    entity: str | None = None
    during: tuple[datetime | None, datetime] | None = None

    @property
    def kind(self) -> str:
        """What it is, for the receipt."""
        if self.during is not None:
            return "window"
        given = {"turn": self.turn, "session": self.session_id, "fact": self.fact_id, "entity": self.entity}
        return next(name for name, value in given.items() if value is not None)


@dataclass(slots=True)
class _Aim:
    """The sentences that go, by turn; None is all of the turn. `forced` are occurrences that go in any case, `texts` what goes elsewhere."""

    pieces: dict[int, set[Piece] | None] = field(default_factory=dict)
    forced: set[int] = field(default_factory=set)
    texts: Deleted = field(default_factory=Deleted)

    def whole(self, turns: Iterable[int]) -> None:
        """Let turns go as a whole."""
        self.pieces.update(dict.fromkeys(turns, None))

    def add(self, turn: int, pieces: Sequence[Piece]) -> None:
        """Let sentences of a turn go."""
        have = self.pieces.setdefault(turn, set())
        if have is not None:
            have.update(pieces)


def aim(tx: Tx, target: Target) -> tuple[list[Cut], set[int], Deleted]:
    """Return what is to be left of which turns, the occurrences that go in any case, and what goes from corrections.

    Raises:
        NotFoundError: if there is no such session, turn, fact or entity.
    """
    found = _Aim()
    if target.turn is not None:
        found.whole([_turn(tx, *target.turn)])
    elif target.session_id is not None:
        found.whole(row for row, _ in sessions.turns(tx, _session(tx, target.session_id)))
    elif target.fact_id is not None:
        _fact(tx, found, target.fact_id)
    elif target.entity is not None:
        _entity(tx, found, target.entity)
    elif target.during is not None:
        start, end = target.during
        found.whole(erase.turns_between(tx, None if start is None else to_ms(start), to_ms(end)))
    cuts = []
    for spot in turns_with_ids(tx, found.pieces):
        pieces = found.pieces[spot.row]
        cuts.append(Cut(spot, None if pieces is None else without(spot.text, pieces)))
    return cuts, found.forced, found.texts


def _session(tx: Tx, session_id: str) -> int:
    found = sessions.find_session(tx, session_id)
    if found is None:
        raise NotFoundError(f"there is no session {cut(repr(session_id), 60)}; sessions() lists them")
    return found.row


def _turn(tx: Tx, session_id: str, turn_id: str) -> int:
    row = erase.turn_named(tx, _session(tx, session_id), turn_id)
    if row is None:
        raise NotFoundError(
            f"session {cut(repr(session_id), 60)} has no turn {cut(repr(turn_id), 60)}; it may be deleted already"
        )
    return row


def _fact(tx: Tx, found: _Aim, fact_id: str) -> None:
    """Let a fact go, with the sentences that it was made from."""
    fact = fact_rows.fact_by_id(tx, fact_id)
    if fact is None:
        raise NotFoundError(
            f"there is no fact {cut(repr(fact_id), 60)}; it may be deleted already, or worded otherwise now"
        )
    found.texts = Deleted(fact.fact_id)
    _made_from(tx, found, fact_rows.occurrences(tx, (fact.row,))[fact.row])


def _made_from(tx: Tx, found: _Aim, occurrences: Sequence[OccurrenceRow]) -> None:
    """Let occurrences go, with the sentences of each turn that they were made from.

    Those are what they quote; of a turn that is not quoted, the sentences that share words with the statement; of one that
    shares none, all.
    """
    texts = {
        spot.row: spot.text
        for spot in turns_with_ids(tx, {turn for one in occurrences for turn in one.turns})
    }
    for one in occurrences:
        found.forced.add(one.row)
        for turn in one.turns:
            text = texts[turn]
            pieces = quoted(text, one.quote) or sharing(text, content_words(one.text))
            if pieces:
                found.add(turn, pieces)
            else:
                found.whole([turn])


def _entity(tx: Tx, found: _Aim, name: str) -> None:
    """Let an entity go: what it said, the statements that name it, and every sentence that does."""
    key = speaker_key(name)
    entity = None if key is None else fact_rows.entity_by_key(tx, key)
    spoken = [one for one in sessions.speakers(tx) if speaker_key(one) in (key, entity and entity.key)]
    keys = {key} if entity is None else keys_of(tx, (entity.row,))
    if entity is not None:
        named = erase.occurrences_naming(tx, entity.row)
        for fact, found_at in fact_rows.occurrences(tx, named).items():
            _made_from(tx, found, [one for one in found_at if one.row in named[fact]])
    named_by = frozenset(one for one in keys if one is not None)
    found.texts = Deleted(keys=named_by)
    for turn, text in _turns_naming(tx, named_by):
        if pieces := names(text, named_by):
            found.add(turn, pieces)
    for turn, metadata in erase.told_beside(tx):
        if found.texts.has(metadata):
            found.add(turn, ())
    for speaker in spoken:
        found.whole(erase.turns_by(tx, speaker))
    if entity is None and not found.pieces and not found.texts.corrections(tx):
        raise NotFoundError(
            f"nothing is known of {cut(repr(name), 60)}; nobody and nothing of that name was said"
        )


def _turns_naming(tx: Tx, keys: Collection[str]) -> Iterable[tuple[int, str]]:
    """Yield the turns that hold the words of one of some keys, with their texts."""
    rows: set[int] = set()
    for key in keys:
        tokens = question_tokens(key)
        having = [
            {item for item, _ in derived.postings(tx, "turn", token)} for token in dict.fromkeys(tokens)
        ]
        rows |= set[int].intersection(*having) if having else set(erase.all_turns(tx))
    return [(spot.row, spot.text) for spot in turns_with_ids(tx, rows)]
