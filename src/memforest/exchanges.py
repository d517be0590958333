"""Exchanges: the turns of one session cut into short runs, something said and what was said to it.

Indexes whose leaf is an exchange name a rule, as systems that are published under one word cut differently. No rule
looks at texts or times, reorders turns, or joins turns of two sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from memforest.errors import InputError

__all__ = ["EXCHANGE_RULES", "Exchange", "ExchangeRule", "exchanges_of"]

ExchangeRule = Literal["pairs", "pairs+rest", "replies", "answered"]
"""How turns are cut, of a session A B A B B A:

- ``"pairs"``: every two turns, whoever speaks; an odd last turn is in none (AB AB BA). The pairing of TiMem's released
  driver for dialogues (arXiv 2601.02845, `fragment_size: 2`).
- ``"pairs+rest"``: the same, and an odd last turn is an exchange of its own. Every turn is in one.
- ``"replies"``: a new one begins when the opener speaks again after somebody else (AB ABB A). Every turn is in one.
- ``"answered"``: a turn of the opener and the turn of somebody else right behind it (AB AB); all other turns are in
  none. The leaf counts of SegTreeMem (arXiv 2606.04555, Table 5) are those of this rule, with the conversation's
  first speaker as the opener of every session.
"""

EXCHANGE_RULES: tuple[ExchangeRule, ...] = get_args(ExchangeRule)


class Exchange(NamedTuple):
    """A run of turns of one session: the positions of its first and its last turn, from 0."""

    first: int
    last: int


def exchanges_of(
    speakers: Sequence[str], rule: ExchangeRule = "pairs+rest", *, opener: str | None = None
) -> tuple[Exchange, ...]:
    """Return the exchanges of a session, in order and without overlaps; none of a session without turns.

    With ``"replies"``, turns before the opener's first are an exchange of their own, and so is a whole session in
    which nobody else speaks.

    Example:
        >>> exchanges_of(["Ann", "Bob", "Bob", "Ann", "Eve"], "replies")
        (Exchange(first=0, last=2), Exchange(first=3, last=4))

    Args:
        speakers: of the session's turns, one each.
        rule: see `ExchangeRule`.
        opener: with whose turns ``"replies"`` and ``"answered"`` begin an exchange; who speaks first when not given.

    Raises:
        InputError: if there is no such rule.
    """
    if rule not in EXCHANGE_RULES:
        raise InputError(f"there is no rule {rule!r} for exchanges; known: {', '.join(EXCHANGE_RULES)}")
    if not speakers:
        return ()
    if rule in ("pairs", "pairs+rest"):
        return tuple(_pairs(len(speakers), rest=rule == "pairs+rest"))
    begins = speakers[0] if opener is None else opener
    found = _answered(speakers, begins) if rule == "answered" else _replies(speakers, begins)
    return tuple(found)


def _pairs(turns: int, *, rest: bool) -> Iterator[Exchange]:
    for first in range(0, turns - 1, 2):
        yield Exchange(first, first + 1)
    if rest and turns % 2:
        yield Exchange(turns - 1, turns - 1)


def _replies(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    first = 0
    for at in range(1, len(speakers)):
        if speakers[at] == opener != speakers[at - 1]:
            yield Exchange(first, at - 1)
            first = at
    yield Exchange(first, len(speakers) - 1)


def _answered(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    for at in range(len(speakers) - 1):
        if speakers[at] == opener != speakers[at + 1]:
            yield Exchange(at, at + 1)
