"""Remembering what a caller has understood, and what is decided of a fact: the rows of both, which others settle.

A remembered statement is kept as a correction is: a row of its own with the sentences that it stands at, from which facts are
made whenever these are read (`memforest.write.corrections`). So it is never lost with what an extractor made, and
can be taken back. Where it replaces another statement, that is ended by an update of the same instant.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memforest.config import Config
from memforest.errors import CorrectionError, InputError, NotFoundError
from memforest.read.corrections import corrections_about
from memforest.read.quoting import sentences_said
from memforest.reading.canonical import fact_identity
from memforest.reading.extract_local import read_statement
from memforest.reading.states import UNSPECIFIED
from memforest.reading.timestamps import zone_of
from memforest.records import ExtractedFact, Precision
from memforest.search.vectors import digest
from memforest.store import corrections, derived, facts
from memforest.store.connections import Tx
from memforest.store.corrections import HIDDEN, Correction, CorrectionKind, SentencePlace
from memforest.store.facts import FactRow
from memforest.store.sessions import StoredTurn
from memforest.text import cut, entity_key
from memforest.times import from_ms, to_ms
from memforest.write.corrections import note_places, settle_chunks
from memforest.write.reword import with_end
from memforest.write.turns import GivenStatement

Asserted = Sequence[str]
"""Whom a statement is about, the attribute and the value; the first alone, or nothing, where that is not known."""


def about_fact(fact: FactRow, kind: CorrectionKind) -> Correction:
    """Return a correction of a fact, without its key, its time and what it puts in the place of that."""
    return Correction(0, "", kind, fact.fact_id, None, None, None, None, "unknown", 0, None, fact.text)


def shown(tx: Tx, fact_id: str) -> FactRow:
    """Return a fact that is not hidden.

    Raises:
        NotFoundError: if there is none with that id.
        CorrectionError: if it was forgotten or corrected.
    """
    fact = facts.fact_by_id(tx, fact_id)
    if fact is None:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from lists and searches")
    if fact.verdict >= HIDDEN:
        raise CorrectionError(f"fact {fact_id} is {corrections.VERDICTS[fact.verdict]}{newest(tx, fact)}")
    return fact


def newest(tx: Tx, fact: FactRow) -> str:
    """Return what can be done with a statement of which something is decided: the statement that holds, and the key."""
    there = corrections_about(tx, [fact.row])[fact.row]  # it may be another wording of what was decided of
    hides = hidden_by(tx, fact.fact_id) or [one for one in there if one.hides]
    if not hides:
        pins = [one for one in (*there, *corrections.corrections_of(tx, {fact.fact_id})) if one.kind == "pin"]
        return f"; undo({pins[-1].key!r}) takes that back" if pins else ""
    last = hides[-1]
    holds, seen = last.made, {fact.fact_id}
    while holds is not None and holds not in seen and (after := hidden_by(tx, holds)):
        seen.add(holds)
        holds = after[-1].made
    now = f"; what holds is fact {holds}" if holds is not None else ""
    return f"{now}; undo({last.key!r}) takes that back"


def hidden_by(tx: Tx, fact_id: str) -> list[Correction]:
    """Return the corrections that hold and hide a statement, unless a later one has made it again.

    Of one that was ended as another was remembered in its place, that is named.
    """
    found = corrections.corrections_of(tx, {fact_id})
    instead = {one.made_ms: one for one in found if one.kind == "remember" and one.fact_id == fact_id}
    return [
        instead.get(one.made_ms, one)
        for at, one in enumerate(found)
        if one.fact_id == fact_id and one.hides and all(after.made != fact_id for after in found[at + 1 :])
    ]


def precision_of(when: datetime, config: Config) -> Precision:
    """Return how exact a given time is meant: a midnight stands for its day."""
    local = when.astimezone(config.zone)
    return "day" if (local.hour, local.minute, local.second, local.microsecond) == (0, 0, 0, 0) else "instant"


def decide(tx: Tx, config: Config, one: Correction) -> Correction:
    """Store a correction of now under a new key, and return it as it is stored."""
    one = replace(one, key=f"c:{secrets.token_hex(8)}", made_ms=to_ms(config.clock()))
    return replace(one, row=corrections.add_correction(tx, one))


def remember(tx: Tx, config: Config, given: GivenStatement, turn: StoredTurn) -> Correction:
    """Store that a turn says what the caller has understood, and end the statement that it replaces.

    The chunk of the turn is left to be settled.

    The time that it states is the one that is given; else it begins when its text tells. With neither it holds since it was said.

    Args:
        tx: a write transaction.
        config: for the clock and the zone.
        given: the statement.
        turn: that says it.

    Raises:
        InputError: if it would end before it begins, or is the statement that it replaces.
        NotFoundError: if there is no statement that it is to replace.
        CorrectionError: if that was corrected, replaced or forgotten.
    """
    said = from_ms(turn.said_ms)
    told = read_statement(
        given.text, speaker=turn.speaker, participants=(turn.speaker,), said=said, zone=zone_of(tx, config)
    )
    start, precision = told.start, told.precision
    if given.start is not None or (start is None and given.end is not None):
        start = given.start or said
        precision = precision_of(start, config)
    if start is not None and given.end is not None and given.end <= start:
        raise InputError(f"until ({given.end.isoformat()}) is not after since ({start.isoformat()})")
    if start is not None and given.end is not None:
        precision = with_end(to_ms(start), to_ms(given.end), precision)
    made = fact_identity(given.text, start, given.end)
    asserts = _asserted(given, turn.speaker)
    if given.replaces is not None:
        before = shown(tx, given.replaces)
        if before.fact_id == made:
            raise InputError("the statement is the same as the one it replaces; give another text")
        asserts = _end(tx, config, before, to_ms(start or said), asserts, told)
    one = Correction(
        row=0,
        key="",
        kind="remember",
        fact_id=given.replaces or made,
        made=made,
        text=given.text,
        start_ms=None if start is None else to_ms(start),
        end_ms=None if given.end is None else to_ms(given.end),
        precision=precision,
        made_ms=0,
        undone_ms=None,
        said=given.text,
        state=_json(asserts),
    )
    one, own = decide(tx, config, one), (turn.session_id, turn.turn_id)
    corrections.add_places(tx, one.row, (SentencePlace(*own, said) for said in sentences_said(turn.text)))
    return one


def _asserted(given: GivenStatement, speaker: str) -> Asserted:
    """Return whom a statement is about, with the attribute and its value; nothing if the caller does not say."""
    if given.attribute is None or given.value is None:
        return () if given.about is None else (given.about,)
    return given.about or speaker, given.attribute, given.value


def _end(
    tx: Tx, config: Config, fact: FactRow, at_ms: int, asserts: Asserted, told: ExtractedFact
) -> Asserted:
    """End a fact as another takes its place, and return what that one asserts: of the same attribute where the fact has one.

    What was not yet so at the time is forgotten. A fact that asserts nothing is made to assert its text, so that it ends as a
    state does.

    Args:
        tx: a write transaction.
        config: for the clock.
        fact: that ends.
        at_ms: from when on the other one is so, UTC ms.
        asserts: what the caller says that that one asserts.
        told: that one, as local rules read it.
    """
    places = facts.occurrences(tx, (fact.row,))[fact.row]
    states = [one for one in facts.states(tx, [each.row for each in places]) if one.change != "end"]
    labels = facts.entities(tx, {one.entity for one in states})
    held = list(dict.fromkeys((labels[one.entity].label, one.attribute, one.value) for one in states))
    if len(held) == 1 and entity_key(held[0][0]) == entity_key((asserts or held[0])[0]):
        entity, attribute, _ = held[0]
        if asserts[2:] or all(state.attribute != attribute for state in told.states):
            asserts = (entity, attribute, *(asserts[2:] or (told.text,)))
    slot = asserts[:2] if asserts[2:] else (fact.speaker, UNSPECIFIED)
    before: Asserted = (*slot, fact.text) if not held else held[0] if len(held) == 1 else ()
    begins_ms = fact.said_ms if fact.start_ms is None else fact.start_ms
    if not held and fact.end_ms is not None and fact.end_ms <= at_ms:
        return asserts
    one = about_fact(fact, "forget")
    if at_ms > begins_ms:
        one = replace(
            about_fact(fact, "update"),
            made=fact_identity(fact.text, from_ms(begins_ms), from_ms(at_ms)),
            text=fact.text,
            start_ms=begins_ms,
            end_ms=at_ms,
            precision=with_end(begins_ms, at_ms, "day" if fact.start_ms is None else fact.precision),
            state=_json(before),
        )
    chunks = {each.chunk for each in places}
    note_places(tx, decide(tx, config, one).row, fact.row, chunks)
    # It says the same as before, so it has a vector.
    vectors = derived.vectors_of_items(tx, "fact", (fact.row,))
    settle_chunks(tx, sorted(chunks), {digest(fact.text): vector for vector in vectors.values()})
    return asserts


def _json(asserts: Asserted) -> str:
    return json.dumps(list(asserts), ensure_ascii=False)
