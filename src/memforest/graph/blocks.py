"""Which entities are worth comparing: those whose names share a word, a beginning, letters or a slip of one letter.

An entity asks under keys that its own name gives, and answers under keys that names like it would ask by. What is said of
two entities by their names is said by `memforest.graph.likeness`; the keys only leave out pairs that no rule joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memforest.facts.entities import MIN_DROPPED, MIN_SHORT_FORM
from memforest.graph.likeness import LEAST_SPELLED
from memforest.graph.named import Named
from memforest.graph.names import Form, other_keys

__all__ = ["MOST_ASKED", "Blocks", "Keys", "keys_of"]

MOST_ASKED = 64
"""A key that more entities answer to tells nothing: nothing is joined by it."""
_CROWDS = {"a": 1, "w": 1, "u": 1, "t": 1, "s": 1, "c": 2, "b": 2, "~": 3}
_LONGEST_SPELLED = 24
_LONGEST_UNSPACED = 8


class Keys(NamedTuple):
    """What an entity asks by, what it answers to, and what it does both by."""

    asks: tuple[str, ...]
    answers: tuple[str, ...]
    both: tuple[str, ...]


def keys_of(named: Named, form: Form) -> Keys:
    """Return the keys of an entity."""
    tokens = form.tokens
    both = [f"={full}" for full in form.full]
    asks: list[str] = []
    answers: list[str] = [f"a{key}" for key in other_keys(named)]
    asks.append(f"a{named.key}")
    if tokens:
        joined = "".join(tokens)
        if joined not in form.full:
            both.append(f"={joined}")
        if form.unspaced:
            _unspaced(tokens[0], asks, answers)
        elif len(tokens) == 1:
            _one_word(form, asks, answers, both)
        else:
            _several_words(form, asks, answers, both)
    return Keys(tuple(asks), tuple(dict.fromkeys(answers)), tuple(dict.fromkeys(both)))


def _unspaced(name: str, asks: list[str], answers: list[str]) -> None:
    asks.append(f"u{name}")
    if 2 < len(name) <= _LONGEST_UNSPACED:
        for size in range(2, len(name)):
            answers += (f"u{name[:size]}", f"u{name[-size:]}")


def _one_word(form: Form, asks: list[str], answers: list[str], both: list[str]) -> None:
    word = form.tokens[0]
    asks.append(f"w{word}")
    if len(form.short) > 1:
        asks.append(f"c{word}")
    if form.family in ("person", "unknown"):
        asks.append(f"b{word}")
        answers += _beginnings(word)
    if LEAST_SPELLED <= len(word) <= _LONGEST_SPELLED and word.isalpha():
        both += (f"~{word[0]}{word[1:index]}{word[index + 1 :]}" for index in range(1, len(word) - 1))
        both.append(f"~{word}")


def _several_words(form: Form, asks: list[str], answers: list[str], both: list[str]) -> None:
    tokens = form.tokens
    first, last = tokens[0], tokens[-1]
    answers += (f"w{first}", f"w{last}")
    if form.family in ("person", "unknown"):
        answers += _beginnings(first)
        asks.append(f"t{first} {last}")
        if len(tokens) > 2:
            answers += (f"t{first} {word}" for word in tokens[1:])
            answers += (f"t{word} {last}" for word in tokens[1:-1])
        both += (f"s{first[0]} {last}", f"s{first} {last[0]}")
        if last < first:
            first, last = last, first
        both.append(f"o{first} {last}")
    else:
        both += (f"s{first} {last[:2]}", f"s{first[:2]} {last}")
        answers.append("c" + "".join(word[0] for word in tokens))


def _beginnings(word: str) -> Iterator[str]:
    """Yield the keys of the short forms of a name, and of its endings of their length."""
    for size in range(MIN_SHORT_FORM, min(len(word), _LONGEST_SPELLED) - MIN_DROPPED + 1):
        yield f"b{word[:size]}"
        yield f"b{word[-size:]}"


class Blocks:
    """Keys and the entities that ask by them or answer to them."""

    def __init__(self) -> None:
        self._asking: dict[str, list[int]] = {}
        self._answering: dict[str, list[int]] = {}
        self._keys: dict[int, Keys] = {}

    def add(self, entity: int, keys: Keys) -> None:
        """Add an entity."""
        self._keys[entity] = keys
        for table, names in self._tables(keys):
            for name in names:
                if name in table:
                    table[name].append(entity)
                else:
                    table[name] = [entity]

    def remove(self, entity: int) -> None:
        """Remove an entity; nothing happens if it is not there."""
        keys = self._keys.pop(entity, None)
        if keys is None:
            return
        for table, names in self._tables(keys):
            for name in names:
                if len(table[name]) == 1:
                    del table[name]
                else:
                    table[name].remove(entity)

    def _tables(self, keys: Keys) -> Iterable[tuple[dict[str, list[int]], Sequence[str]]]:
        return (
            (self._asking, keys.asks),
            (self._asking, keys.both),
            (self._answering, keys.answers),
            (self._answering, keys.both),
        )

    def asked(self, entity: int) -> tuple[set[int], list[tuple[int, list[int]]]]:
        """Return whom an entity is to be compared with, and for each key that too many answer to the least tier it spoils, and they."""
        found: set[int] = set()
        crowded: list[tuple[int, list[int]]] = []
        keys = self._keys[entity]
        for names in (keys.asks, keys.both):
            for name in names:
                answering = self._answering.get(name)
                if answering is None:
                    continue
                if len(answering) <= MOST_ASKED:
                    if len(answering) > 1 or answering[0] != entity:
                        found.update(answering)
                elif name[0] in _CROWDS:
                    crowded.append((_CROWDS[name[0]], answering))
        found.discard(entity)
        return found, crowded

    def asking(self, entity: int) -> set[int]:
        """Return the entities that are to be compared with an entity because they ask, and itself."""
        keys = self._keys.get(entity)
        found = {entity}
        for names in (keys.answers, keys.both) if keys is not None else ():
            for name in names:
                found.update(self._asking.get(name, ()))
        return found
