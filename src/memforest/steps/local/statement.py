"""Reading a statement that a person wrote into a memory: whom it names, and what it asserts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import lru_cache

from memforest.language.entities import merge_mentions
from memforest.steps.local.extract import LocalExtractor
from memforest.text import negated
from memforest.types import Candidate, Chunk, Mention, Turn


def read_statement(
    text: str, *, speaker: str, participants: Sequence[str], said: datetime, zone: tzinfo
) -> Candidate:
    """Return a statement as written, with the mentions, states, topics and time that local rules find in it.

    It is read as if `speaker` had said it at `said`, so "I" is the speaker and "yesterday" the day before. Deterministic.

    Args:
        text: the statement, one sentence or more.
        speaker: whose statement it is.
        participants: everybody who speaks in the session.
        said: when it counts as said, aware UTC.
        zone: in which days begin.
    """
    return _read(text, speaker, tuple(participants), said, zone)


@lru_cache(maxsize=1024)  # a correction is read again for each place where the statement was said
def _read(text: str, speaker: str, participants: tuple[str, ...], said: datetime, zone: tzinfo) -> Candidate:
    turn = Turn(id="0", speaker=speaker, text=text, said=said, ordinal=0)
    chunk = Chunk(session_id="", ordinal=0, turns=(turn,), participants=participants)
    found = LocalExtractor(timezone=zone).extract_chunk(chunk).candidates
    dated = next((one for one in found if one.start is not None), None)
    own = () if found else (Mention(speaker, "participant", "other"),)
    return Candidate(
        text=text,
        turns=(0,),
        speaker=speaker,
        quote=text,
        start=None if dated is None else dated.start,
        end=None if dated is None else dated.end,
        precision="unknown" if dated is None else dated.precision,
        negated=found[0].negated if found else negated(text),
        mentions=merge_mentions((*(one for each in found for one in each.mentions), *own)),
        topics=tuple(dict.fromkeys(topic for one in found for topic in one.topics)),
        states=tuple(dict.fromkeys(state for one in found for state in one.states)),
    )
