"""Readings of single statements (values, people, cues), and their sums over a memory, kept up to date.

What stands in a statement does not change, so it is read once. What it adds to a sum depends on the people and the
values of the memory as well: while these stay the same, a statement that comes or goes is added or taken off, and
else all are summed again. The sums are of whole numbers, so either way gives the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memforest.language.aspect import is_person, listed, word_list
from memforest.language.phrases import Sentence, Statement, read_statement
from memforest.language.role import role_of
from memforest.language.turning import Place, exchanged, held_phrases, most_used, places, turning_points
from memforest.systems.memforest.kinds import Contexts, placed_in
from memforest.text import words

READING_BYTES = 4_000
"""What a statement with its phrases takes in memory, about (measured: 3,700 with twelve words)."""

_INSIDE = re.compile(r"\b(?:in|on|at) (?:the )?([^\W\d_a-z][\w-]+)\b(?!'s)")
_SECOND = re.compile(r"(?:(?<=[a-z,] )|\bThe )[^\W\d_a-z][\w-]+ ([^\W\d_a-z][\w-]+)")
_ACTOR = re.compile(r'(?:^|[.!?:] "?|")(?P<name>[^\W\d_a-z][\w-]+)(?:\'s)? (?P<verb>[a-z]+)')


T = TypeVar("T")

Terms = Mapping[str, tuple[int, ...]]
"""Term -> the facts that use it, ascending."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one statement."""

    text: str
    statement: Statement
    small: frozenset[str]
    """Words written small."""
    inside: frozenset[str]
    """Capitalised words that stand in, on or at something, or behind another one."""
    actors: tuple[str, ...]
    """Capitalised words that open a sentence as its subject."""
    roled: frozenset[str]
    """Single names that have a role for somebody which one has at a time: "Bob's flatmate is *Piet*"."""
    terms: frozenset[str]
    """Phrases that may be terms; one that begins with a number is none."""
    named: frozenset[str]
    """Terms written with a capital inside a sentence."""
    alone: frozenset[str]
    """Terms that open an answer: all that is said."""
    turns: tuple[tuple[Sentence, tuple[Place, ...]], ...]
    """The sentences with a word of change or a verb that has an object, and their places."""


def read(text: str) -> Reading:
    """Return the reading of one statement."""
    statement, counts = read_statement(text), listed("counts")
    phrases = [phrase for sentence in statement.sentences for phrase in sentence.phrases]
    placed = [(sentence, places(sentence)) for sentence in statement.sentences]
    return Reading(
        text,
        statement,
        frozenset(word for word in words(text) if word.islower()),
        frozenset((*_INSIDE.findall(text), *_SECOND.findall(text))),
        tuple(
            match["name"]
            for match in _ACTOR.finditer(text)
            if match["verb"].endswith(("s", "ed")) or match["verb"] in listed("acting")
        ),
        frozenset(_roled(statement)),
        frozenset(p.term for p in phrases if p.term.split()[0].removesuffix("'s") not in counts),
        frozenset(phrase.term for phrase in phrases if phrase.named and phrase.start > 0),
        frozenset(_alone(statement)),
        tuple((s, found) for s, found in placed if any(p.stance or p.held for p in found)),
    )


def _roled(statement: Statement) -> Iterable[str]:
    """Yield the single names that have a role for somebody, friends and relatives left out: one has many of them."""
    many = word_list("kinship_male") | word_list("kinship_female") | _MANY
    for sentence in statement.sentences:
        for phrase in sentence.phrases:
            if phrase.named and " " not in phrase.term:
                role = role_of(sentence.text, phrase)
                if role and is_person(role) and role not in many:
                    yield phrase.term


_MANY = frozenset(
    (
        "friend",
        "buddy",
        "cousin",
        "colleague",
        "coworker",
        "classmate",
        "teammate",
        "neighbour",
        "neighbor",
        "kid",
        "child",
        "baby",
    )
)


_OPENING = re.compile(
    r"(?:(?:it's|it is|that's|that is|with|by|to|in|at|on|from|for|along|an?|the|my|his|her|their)\s+)*",
    re.IGNORECASE,
)
"""What may stand in front of the thing that an answer names."""


def _alone(statement: Statement) -> Iterable[str]:
    """Yield the terms that stand at the beginning of an answer."""
    if statement.asked and statement.sentences:
        first = statement.sentences[0]
        match = _OPENING.match(first.text)
        at = match.end() if match else 0
        yield from (phrase.term for phrase in first.phrases if phrase.start == at)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The statements to be subtracted from the sums, and those to be added."""

    gone: Mapping[int, Reading] = field(default_factory=dict)
    come: Mapping[int, Reading] = field(default_factory=dict)

    def sums(self, before: Counter[T], of: Callable[[Reading], Iterable[T]]) -> Counter[T]:
        """Return updated counts of the things that statements hold."""
        found = Counter(before)
        for one in self.come.values():
            found.update(of(one))
        for one in self.gone.values():
            found.subtract(of(one))
            for key in of(one):
                if not found[key]:
                    del found[key]
        return found

    def holders(
        self, before: Mapping[T, tuple[int, ...]], of: Callable[[Reading], Iterable[T]]
    ) -> dict[T, tuple[int, ...]]:
        """Return the facts whose statements hold something."""
        moved: dict[T, list[int]] = {}
        for fact, reading in self.gone.items():
            for key in of(reading):
                facts = moved.setdefault(key, list(before[key]))
                del facts[bisect_left(facts, fact)]
        for fact, reading in self.come.items():
            for key in of(reading):
                insort(moved.setdefault(key, list(before.get(key, ()))), fact)
        found = {**before, **{key: tuple(facts) for key, facts in moved.items()}}
        for key in [key for key, facts in moved.items() if not facts]:
            del found[key]
        return found


@dataclass(frozen=True, slots=True)
class _Shown:
    """The evidence of one statement about the terms of its memory: begun, held, or replaced."""

    begun: tuple[str, ...]
    held: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Turned:
    """The evidence of all statements about the terms: begun, held, or replaced. Immutable."""

    begun: Counter[str] = field(default_factory=Counter)
    """How often each is begun or ended."""
    held: Counter[str] = field(default_factory=Counter)
    """How often each is the object of a verb in the present, or owned."""
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(old, new) -> how many sentences say that one took the other's place."""
    of: Mapping[int, _Shown] = field(default_factory=dict)
    best: Mapping[tuple[str, ...], str | None] = field(default_factory=dict)
    """Terms that begin at one place of a sentence -> the one that counts."""
    holders: Mapping[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    """Those terms -> the facts in whose statements they stand so."""

    def changed(self, changes: _Changes, of: Mapping[int, Reading], terms: Terms) -> Turned:
        """Return the evidence updated by changed statements, and by those in which another term counts now.

        Args:
            changes: the statements that come and go.
            of: all that there are now.
            terms: of these.
        """
        counts = {term: len(facts) for term, facts in terms.items()}
        touched = {t for one in (*changes.gone.values(), *changes.come.values()) for t in one.terms}
        holders = changes.holders(self.holders, _contests)
        best = {**self.best}
        again = set(changes.come)
        for contest in [c for c in holders if c not in best or not touched.isdisjoint(c)]:
            best[contest] = most_used(contest, counts)
            if best[contest] != self.best.get(contest):
                again.update(holders[contest])
        shown = {**self.of}
        begun, held, replaced = Counter(self.begun), Counter(self.held), Counter(self.replaced)
        for fact in (changes.gone.keys() | again) & shown.keys():
            old = shown.pop(fact)
            begun.subtract(old.begun)
            held.subtract(old.held)
            replaced.subtract(old.replaced)
        for fact in again:
            new = shown[fact] = _shown(of[fact], counts)
            begun.update(new.begun)
            held.update(new.held)
            replaced.update(new.replaced)
        return Turned(
            +begun, +held, +replaced, shown, {contest: best[contest] for contest in holders}, holders
        )


def _contests(reading: Reading) -> Iterable[tuple[str, ...]]:
    return {
        tuple(phrase.term for phrase in place.phrases)
        for _, found in reading.turns
        for place in found
        if len(place.phrases) > 1
    }


def _shown(reading: Reading, counts: Mapping[str, int]) -> _Shown:
    begun: list[str] = []
    held: list[str] = []
    replaced: list[tuple[str, str]] = []
    for sentence, found in reading.turns:
        turned = turning_points(sentence.text, found, counts)
        begun += [term for term, _ in turned]
        held += held_phrases(found, counts)
        ended = [term for term, stance in turned if stance == "end"]
        taken = [term for term, stance in turned if stance != "end"]
        pairs = {*exchanged(sentence.text, found, counts)}
        if len(ended) == 1 and len(taken) == 1 and ended != taken:
            pairs.add((ended[0], taken[0]))
        replaced += sorted(pairs)
    return _Shown(tuple(begun), tuple(held), tuple(replaced))


@dataclass(frozen=True, slots=True)
class Readings:
    """The statements of a memory by the ids of their facts, with their sums. Never changed, shared by readers."""

    of: Mapping[int, Reading] = field(default_factory=dict)
    small: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)
    actors: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    roled: Counter[str] = field(default_factory=Counter)
    names: frozenset[str] = frozenset()
    """Words of people's names, lower case."""
    terms: Terms = field(default_factory=dict)
    """A person's name is none."""
    turned: Turned = field(default_factory=Turned)
    values: frozenset[str] = frozenset()
    contexts: Contexts = field(default_factory=Contexts)
    """Of the values."""
    _changes: _Changes = field(default_factory=_Changes)
    """Since the terms and the contexts were made."""

    def changed(self, gone: Iterable[int], texts: Mapping[int, str]) -> Readings:
        """Return the readings without some statements, and with others that are read now; `with_terms` comes next."""
        changes = _Changes(
            {fact: self.of[fact] for fact in gone}, {fact: read(texts[fact]) for fact in sorted(texts)}
        )
        of = dict(self.of)
        for fact in changes.gone:
            del of[fact]
        of.update(changes.come)
        return replace(
            self,
            of=of,
            small=changes.sums(self.small, lambda one: one.small),
            inside=changes.sums(self.inside, lambda one: one.inside),
            actors=changes.sums(self.actors, lambda one: one.actors),
            named=changes.sums(self.named, lambda one: one.named),
            alone=changes.sums(self.alone, lambda one: one.alone),
            roled=changes.sums(self.roled, lambda one: one.roled),
            _changes=changes,
        )

    def acting(self, least: int, other: Set[str]) -> frozenset[str]:
        """Return capitalised words that open sentences as their subject and are never written small.

        Nor does one stand in, on or at a person, and "The Blue Heron" is nobody called Heron. Who is somebody's
        flatmate or dentist is left out: they can be replaced as a gym can.

        Args:
            least: times that make a name more than an accident.
            other: words that are no names.
        """
        return frozenset(
            name
            for name, n in self.actors.items()
            if n >= least
            and name not in self.inside
            and name.lower() not in self.small.keys() | other
            and not self.roled[name.lower()]
        )

    def with_terms(self, names: frozenset[str]) -> Readings:
        """Return the readings with the terms of a memory with these people; `with_contexts` comes next."""
        before = self if names == self.names else Readings(_changes=_Changes(come=self.of))

        def terms_of(one: Reading) -> Iterable[str]:
            return [t for t in one.terms if names.isdisjoint(word.removesuffix("'s") for word in t.split())]

        terms = before._changes.holders(before.terms, terms_of)
        return replace(
            self,
            names=names,
            terms=terms,
            turned=before.turned.changed(before._changes, self.of, terms),
            values=before.values,
            contexts=before.contexts,
            _changes=before._changes,
        )

    def with_contexts(self, values: frozenset[str]) -> Readings:
        """Return the readings with the contexts of some values."""
        same = values == self.values
        changes = self._changes if same else _Changes(come=self.of)
        contexts = (self.contexts if same else Contexts()).changed(
            [s for one in changes.gone.values() for s in placed_in(one.statement, values)],
            [s for one in changes.come.values() for s in placed_in(one.statement, values)],
            self.names,
        )
        return replace(self, values=values, contexts=contexts, _changes=_Changes())
