"""Where the turns are that an index misses: how deep they stand, and what might have led to them.

A turn is missed if it answers a question of several hops and is not found in the first pieces; `calendar_tree.told` says what is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from calendar_tree.told import Piece, Talked
from memforest.text import lexical_tokens

__all__ = ["BINS", "Missed", "deepest", "first_found", "neighbours", "shares_a_word", "table"]

BINS = ((21, 50), (51, 100), (101, 200), (201, 10**9))
"""Ranks, the first and the last."""


@dataclass(frozen=True)
class Missed:
    """A missed turn."""

    rank: int
    """Where it is found in the end; 0 for nowhere."""
    base: int
    """The same by the index that is compared with."""
    led: bool
    """Whether entities that the question names or is near to, or those around them, lead to it."""
    near: bool
    """Whether such an entity, nearer to the question than entities usually are, raised it."""
    word: bool
    """Whether it shares a word with the question, names of those who talk left out."""
    beside: bool
    """Whether the turn before or behind it is among the first pieces."""
    event: bool
    """Whether a statement speaks for it."""


def first_found(pieces: Sequence[Piece], turn: str, said: Talked) -> int:
    """Return the rank of the first piece that finds a turn, 0 for none."""
    for rank, one in enumerate(pieces, 1):
        if turn in one.turns or (one.text and any(x.stands_in(one.text) for x in said.sentences[turn])):
            return rank
    return 0


def shares_a_word(question: str, text: str, names: Iterable[str]) -> bool:
    """Return whether a question and a text have a word in common that is none of some names and no function word."""
    without = {token for name in names for token in lexical_tokens(name)}
    return bool(set(lexical_tokens(question)) & set(lexical_tokens(text)) - without)


def neighbours(turns: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the turns right before and behind each, of the turns of one session in their order."""
    return {
        turn: frozenset((*turns[max(at - 1, 0) : at], *turns[at + 1 : at + 2]))
        for at, turn in enumerate(turns)
    }


def deepest(one: Missed) -> tuple[int, int] | None:
    """Return the bin of a missed turn's rank; None for one that is nowhere."""
    return next((bounds for bounds in BINS if bounds[0] <= one.rank <= bounds[1]), None)


def table(missed: Sequence[Missed], first: int) -> list[str]:
    """Return the lines of the table.

    Args:
        missed: turns.
        first: pieces that count as found by the index that is compared with.
    """
    groups: dict[str, list[Missed]] = {}
    for bounds in BINS:
        low, high = bounds
        name = f"{low} to {high}" if high < BINS[-1][1] else f"{low} and deeper"
        groups[name] = [one for one in missed if deepest(one) == bounds]
    groups["nowhere"] = [one for one in missed if deepest(one) is None]
    groups["all"] = list(missed)
    lines = []
    for name, those in groups.items():
        if not those:
            continue
        marks = [
            [one.led for one in those],
            [one.near for one in those],
            [one.word for one in those],
            [one.beside for one in those],
            [one.event for one in those],
            [0 < one.base <= first for one in those],
        ]
        shares = " | ".join(f"{100 * fmean(mark):.0f}" for mark in marks)
        lines.append(f"| {name} | {len(those)} | {shares} |")
    return lines
