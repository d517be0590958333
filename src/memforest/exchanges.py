"""Exchanges: the turns of one session cut into short runs, something said and what was said to it.

Indexes whose leaf is an exchange name a rule, as systems that are published under one word cut differently. No rule
looks at texts or times, reorders turns, or joins turns of two sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from memforest.errors import InputError

LeafRule = Literal["adjacent", "pairs", "turns"]
"""How turns are cut where each is to be in an exchange, as in the leaves of a tree; of a session A B A B B A:

- ``"adjacent"``: a turn of the opener and the turn of somebody else right behind it, of which SegTreeMem (arXiv 2606.04555,
  Table 5) has the leaf counts; other turns join the exchange before them, those at the session's start the one behind
  (AB ABBA).
- ``"pairs"``: every two turns, whoever speaks; an odd last one joins the pair before it (AB AB BA).
- ``"turns"``: each turn by itself.
"""

LEAF_RULES: tuple[LeafRule, ...] = get_args(LeafRule)

MOST_TURNS = 16
"""Turns of one exchange at most: an hour's monologue is many leaves, and not one."""


class Exchange(NamedTuple):
    """A run of turns of one session: the positions of its first and its last turn, from 0."""

    first: int
    last: int


def leaf_exchanges(
    speakers: Sequence[str], rule: LeafRule = "adjacent", *, opener: str | None = None
) -> tuple[Exchange, ...]:
    """Return exchanges of a session that have every turn in exactly one of them, in order; at most `MOST_TURNS` in each.

    With ``"adjacent"``, a session in which the opener is never answered is cut with its own first speaker as the opener,
    and where nobody answers at all, into pairs; so are turns at its start that are too many for the first exchange. A turn
    that the exchange before it has no room for begins one of its own.

    Turns that are added to a session change no exchange but those of its last `MOST_TURNS` turns.

    Example:
        >>> leaf_exchanges(["Ann", "Bob", "Bob", "Ann", "Eve"], "adjacent")
        (Exchange(first=0, last=2), Exchange(first=3, last=4))

    Args:
        speakers: of the session's turns, one each.
        rule: see `LeafRule`.
        opener: with whose turns ``"adjacent"`` begins an exchange; who speaks first when not given.

    Raises:
        InputError: if there is no such rule.
    """
    if rule not in LEAF_RULES:
        raise InputError(f"there is no rule {rule!r} for leaves; known: {', '.join(LEAF_RULES)}")
    if rule == "turns":
        return tuple(Exchange(at, at) for at in range(len(speakers)))
    if rule == "pairs" or not speakers:
        return tuple(_pairs_of_all(len(speakers)))
    return tuple(_adjacent(speakers, speakers[0] if opener is None else opener))


def _adjacent(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield each turn and its answer with the turns that follow them; what stands before the first joins it if there is room."""
    begins = [one.first for one in _answered(speakers, opener)]
    if not begins:
        yield from _unanswered(speakers, opener)
        return
    if begins[0] + 2 <= MOST_TURNS:
        begins[0] = 0
    else:
        yield from _unanswered(speakers[: begins[0]], opener)
    for first, end in pairwise([*begins, len(speakers)]):
        for at in range(first, end, MOST_TURNS):
            yield Exchange(at, min(at + MOST_TURNS, end) - 1)


def _unanswered(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    """Yield the exchanges of turns among which the opener is never answered."""
    if speakers[0] == opener or len(set(speakers)) == 1:
        yield from _pairs_of_all(len(speakers))
    else:
        yield from _adjacent(speakers, speakers[0])


def _pairs_of_all(turns: int) -> Iterator[Exchange]:
    """Yield every two turns; the last has three where turns are odd, and one where there is one turn."""
    for first in range(0, max(turns - 1, min(turns, 1)), 2):
        yield Exchange(first, turns - 1 if turns - first <= 3 else first + 1)


def _answered(speakers: Sequence[str], opener: str) -> Iterator[Exchange]:
    for at in range(len(speakers) - 1):
        if speakers[at] == opener != speakers[at + 1]:
            yield Exchange(at, at + 1)
