"""Which entities are worth comparing: those whose names share a word, a beginning, letters or a slip of one letter.

An entity asks under keys that its own name gives, and answers under keys that names like it would ask by. What is said of
two entities by their names is said by `memforest.graph.likeness`; the keys only leave out pairs that no rule joins.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memforest.facts.entities import MIN_DROPPED, MIN_SHORT_FORM
from memforest.graph.likeness import LEAST_OTHER, LEAST_SPELLED
from memforest.graph.named import Named
from memforest.graph.names import Form, other_keys

MOST_ASKED = 64
"""A key that more entities answer to tells nothing: nothing is joined by it."""
_CROWDS = {"a": 1, "w": 1, "u": 1, "t": 1, "i": 1, "s": 1, "c": 2, "b": 2, "~": 3, "-": 3}
"""Keys of the rules by which more than `MOST_ASKED` may answer -> the least tier of rules that is then not asked."""
MOST_BEGINNING = 16
"""Beginnings of first names that more entities have are nobody's short form."""
_FEW = 16
_LONGEST_WORD = 24
_LONGEST_UNSPACED = 8


class Keys(NamedTuple):
    """What an entity asks by, what it answers to, what it does both by, and the word that short forms are of."""

    asks: list[str]
    answers: list[str]
    both: list[str]
    word: str


def keys_of(named: Named, form: Form) -> Keys:
    """Return the keys of an entity."""
    tokens = form.tokens
    keys = Keys([f"a{named.key}"], [], ["=" + full for full in form.full], _word(form))
    if named.names or named.aliases:
        keys.answers.extend(f"a{key}" for key in sorted(other_keys(named)))
    if not tokens:
        return keys
    if form.cut and (joined := "".join(tokens)) not in form.full:
        keys.both.append("=" + joined)
    if form.unspaced:
        _unspaced(tokens[0], keys)
    elif len(tokens) == 1:
        _one_word(form, keys)
    elif form.family in ("person", "unknown"):
        _person(tokens, keys)
        if form.family == "unknown":
            _thing(tokens, keys)
    else:
        _thing(tokens, keys)
    return keys


def _word(form: Form) -> str:
    """Return the word that a short form may be of, or nothing: a person's first name, or one that may be."""
    may = form.tokens and not form.unspaced and form.family in ("person", "unknown")
    return (
        form.tokens[0] if may and MIN_SHORT_FORM + MIN_DROPPED <= len(form.tokens[0]) <= _LONGEST_WORD else ""
    )


def _unspaced(name: str, keys: Keys) -> None:
    keys.asks.append("u" + name)
    if 2 < len(name) <= _LONGEST_UNSPACED:
        parts = {part for size in range(2, len(name)) for part in (name[:size], name[-size:])}
        keys.answers.extend(["u" + part for part in sorted(parts)])


def _one_word(form: Form, keys: Keys) -> None:
    word = form.tokens[0]
    keys.asks.append("w" + word)
    if len(form.short) > 1:
        keys.asks.append("c" + form.short)
    if LEAST_SPELLED <= len(word) <= _LONGEST_WORD and word.isalpha():
        # Neither a letter doubled nor two that changed places make another set of letters.
        keys.both.append("~" + word[0] + word[-1] + "".join(sorted(set(word))))
        if len(word) >= LEAST_OTHER - 1:
            shorter = {word[:index] + word[index + 1 :] for index in range(1, len(word) - 1)}
            keys.both.extend(["-" + one for one in (word, *sorted(shorter))])


def _person(tokens: tuple[str, ...], keys: Keys) -> None:
    first, last = tokens[0], tokens[-1]
    keys.answers.extend(
        ("w" + first, f"i{first} {last[0]}")
        if first == last
        else ("w" + first, "w" + last, f"i{first} {last[0]}")
    )
    keys.asks.append(f"t{first} {last}")
    if len(last) == 1:
        keys.asks.append(f"i{first} {last}")
    if len(tokens) > 2:
        keys.answers.extend(
            {f"t{first} {word}" for word in tokens[1:]} | {f"t{word} {last}" for word in tokens[:-1]}
        )
    ordered = f"o{first} {last}" if first < last else f"o{last} {first}"
    keys.both.extend((f"s{first[0]} {last}", f"l{first} {last[0]}{last[-1]}", ordered))


def _thing(tokens: tuple[str, ...], keys: Keys) -> None:
    first, last = tokens[0], tokens[-1]
    if "w" + first not in keys.answers:
        keys.answers.extend(("w" + first, "w" + last) if first != last else ("w" + first,))
    keys.answers.append("c" + "".join([word[0] for word in tokens]))
    keys.both.extend((f"m{first} {last[0]}{last[-1]}", f"m{first[0]}{first[-1]} {last}"))


def _short(keys: Keys) -> str:
    """Return the name of one word that an entity asks by, or nothing."""
    return keys.asks[1][1:] if len(keys.asks) > 1 and keys.asks[1][0] == "w" else ""


class _Words:
    """Words in order, each with the entities whose word it is, to find those that begin with another."""

    def __init__(self) -> None:
        self._ordered: list[str] = []
        self._new: set[str] = set()
        self._of: dict[str, list[int]] = {}

    def add(self, word: str, entity: int) -> None:
        if word in self._of:
            self._of[word].append(entity)
        else:
            self._of[word] = [entity]
            self._new.add(word)

    def remove(self, word: str, entity: int) -> None:
        self._of[word].remove(entity)

    def beginning(self, short: str) -> tuple[set[int], bool]:
        """Return the entities with a word that begins with a short one and is longer by so much, and whether there are more."""
        if len(self._new) > _FEW:
            self._ordered = sorted({*self._ordered, *self._new})
        else:
            for word in self._new:
                insort(self._ordered, word)
        self._new = set()
        found: set[int] = set()
        for place in range(bisect_left(self._ordered, short), len(self._ordered)):
            word = self._ordered[place]
            if not word.startswith(short):
                break
            if len(word) >= len(short) + MIN_DROPPED:
                found.update(self._of[word])
                if len(found) > MOST_BEGINNING:
                    return found, True
        return found, False


class Asked(NamedTuple):
    """Whom an entity is to be compared with, whose name only ends as its own, and what too many answered.

    Args:
        found: whom to compare with.
        ending: those whose first word ends with it.
        spoiled: the least tier of the rules by which too many answered; 9 if none.
        crowd: some of those.
    """

    found: set[int]
    ending: set[int]
    spoiled: int
    crowd: list[int]


class Blocks:
    """Keys and the entities that ask by them or answer to them."""

    def __init__(self) -> None:
        # Most keys have one entity, which then needs no list.
        self._asking: dict[str, int | list[int]] = {}
        self._answering: dict[str, int | list[int]] = {}
        self._both: dict[str, int | list[int]] = {}
        self._short: set[int] = set()
        self._begin = _Words()
        self._end = _Words()

    def add(self, entity: int, keys: Keys) -> None:
        """Add an entity with its keys."""
        if _short(keys):
            self._short.add(entity)
        for table, names in self._tables(keys):
            for name in names:
                had = table.setdefault(name, entity)
                if type(had) is list:
                    had.append(entity)
                elif had != entity:
                    table[name] = [had, entity]  # type: ignore[list-item]
        if keys.word:
            self._begin.add(keys.word, entity)
            self._end.add(keys.word[::-1], entity)

    def remove(self, entity: int, keys: Keys) -> None:
        """Remove an entity, by the keys that it was added with."""
        self._short.discard(entity)
        for table, names in self._tables(keys):
            for name in names:
                had = table[name]
                if isinstance(had, int):
                    del table[name]
                elif len(had) == 2:
                    table[name] = had[had[0] == entity]
                else:
                    had.remove(entity)
        if keys.word:
            self._begin.remove(keys.word, entity)
            self._end.remove(keys.word[::-1], entity)

    def _tables(self, keys: Keys) -> Iterable[tuple[dict[str, int | list[int]], Sequence[str]]]:
        return (self._asking, keys.asks), (self._answering, keys.answers), (self._both, keys.both)

    def anybody(self) -> set[int]:
        """Return the entities that `asked` may return something for."""
        found: set[int] = set()
        for name in self._asking.keys() & self._answering.keys():
            others = self._asking[name]
            found.update((others,) if isinstance(others, int) else others)
        for others in self._both.values():
            if type(others) is list:
                found.update(others)
        return found | self._short

    def asked(self, entity: int, keys: Keys) -> Asked:
        """Return whom an entity is to be compared with."""
        found: set[int] = set()
        spoiled, crowd = 9, []
        for table, names in ((self._answering, keys.asks), (self._both, keys.both)):
            for name in names:
                others = table.get(name)
                if others is None or others == entity:
                    continue
                if isinstance(others, int):
                    found.add(others)
                elif len(others) <= MOST_ASKED:
                    found.update(others)
                elif name[0] in _CROWDS:
                    spoiled = min(spoiled, _CROWDS[name[0]])
                    crowd += others
        short = _short(keys)
        ending: set[int] = set()
        if len(short) >= MIN_SHORT_FORM:
            beginning, more = self._begin.beginning(short)
            if more:
                spoiled = min(spoiled, _CROWDS["b"])
                crowd += beginning
            else:
                found |= beginning
            ending = self._end.beginning(short[::-1])[0]
        found.discard(entity)
        ending.discard(entity)
        return Asked(found, ending, spoiled, crowd)

    def asking(self, entity: int, keys: Keys) -> set[int]:
        """Return the entities that are to be compared with an entity because they ask, and itself."""
        found = {entity}
        names = [(self._asking, keys.answers), (self._both, keys.both)]
        word = keys.word
        sizes = range(MIN_SHORT_FORM, len(word) - MIN_DROPPED + 1)
        names.append((self._asking, ["w" + part for size in sizes for part in (word[:size], word[-size:])]))
        for table, some in names:
            for name in some:
                others = table.get(name, ())
                found.update((others,) if isinstance(others, int) else others)
        return found
