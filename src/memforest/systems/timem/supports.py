"""Which turns support a line that a model wrote: those that share its words.

A line is taken for supported by the segments that share at least `LEAST` of its content words (all, where it has fewer), in
which its participant speaks or is named. Words that few of the segments have count more; the best one is taken, then those
that have words which the ones before lack. The name of the participant is none of the words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from memforest.text import lexical_tokens

LEAST = 2
"""Content words that a segment shares with a line that it supports."""
MOST = 8
"""Segments of a line."""


class Supports:
    """The segments of a month, by their words.

    Args:
        said: segment -> what is said in it, as (speaker, text), in order.
    """

    def __init__(self, said: Mapping[int, Sequence[tuple[str, str]]]) -> None:
        self._speakers = {node: {speaker for speaker, _ in turns} for node, turns in said.items()}
        self._words = {
            node: frozenset(token for _, text in turns for token in lexical_tokens(text))
            for node, turns in said.items()
        }
        self._holding: dict[str, list[int]] = {}
        for node, words in self._words.items():
            for word in words:
                self._holding.setdefault(word, []).append(node)

    def of(self, line: str, names: Collection[str]) -> list[int]:
        """Return the segments that support a line of somebody with these names, in order; none for one that nothing supports."""
        own = {token for name in names for token in lexical_tokens(name)}
        words = set(lexical_tokens(line)) - own
        least = min(LEAST, len(words))
        shared = Counter(node for word in words for node in self._holding.get(word, ()))
        found = [
            node for node, count in shared.items() if count >= least > 0 and self._is_of(node, names, own)
        ]
        weight = {
            word: math.log(1 + len(self._words) / len(self._holding[word]))
            for word in words & self._holding.keys()
        }
        kept: list[int] = []
        left = set(weight)
        while found and len(kept) < MOST:
            gains = {node: math.fsum(weight[word] for word in left & self._words[node]) for node in found}
            best = max(sorted(found), key=lambda node: gains[node])
            if not gains[best]:
                break
            kept.append(best)
            found.remove(best)
            left -= self._words[best]
        return [node for node in self._words if node in kept]

    def _is_of(self, node: int, names: Collection[str], own: Collection[str]) -> bool:
        """Return whether somebody speaks in a segment, or is named there."""
        return not self._speakers[node].isdisjoint(names) or not self._words[node].isdisjoint(own)
