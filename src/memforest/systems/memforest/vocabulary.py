"""What a memory talks about: its terms, and which of them are values that somebody has, does or is by turns.

Nobody lists beforehand that somebody has a podcast or a chess opening. So the noun phrases of a memory's
statements are its terms, and those that are begun, ended, had or named are its values; values that take each
other's place are of one kind (`memforest.systems.memforest.kinds`).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.search.snapshot import Snapshot
from memforest.steps.local.aspect import is_thing, listed
from memforest.steps.local.phrases import Statement, read_statement
from memforest.steps.local.states import UNSPECIFIED
from memforest.steps.local.turning import held_phrases, turning_points
from memforest.store.db import Tx
from memforest.systems.memforest.kinds import Kind, find_kinds
from memforest.text import STOP_WORDS

__all__ = ["Vocabulary", "make_vocabulary", "vocabulary"]

MIN_USES = 2
"""Uses that make a phrase more than an accident, if nothing else shows it to be a value."""
MAX_FACTS = 10_000
"""Facts read, the latest said: reading one takes about 0.1 ms, at the first question about change after a write.
What is older is answered from listed attributes, and by similarity."""
MAX_VALUES = 1_500
"""Values kept, the most used first: likeness is computed between all pairs."""
PIECE = 0.6
"""A phrase of which this share of uses stands inside a longer one is only a piece of that."""

_WORD = re.compile(r"[\w&'.-]+")
_SMALL_WORD = re.compile(r"[\w']+")
_INSIDE = re.compile(r"\b(?:in|on|at) (?:the )?([^\W\d_a-z][\w-]+)\b(?!'s)")
_SECOND = re.compile(r"(?:(?<=[a-z,] )|\bThe )[^\W\d_a-z][\w-]+ ([^\W\d_a-z][\w-]+)")
_ACTOR = re.compile(r'(?:^|[.!?:] "?|")(?P<name>[^\W\d_a-z][\w-]+)(?:\'s)? (?P<verb>[a-z]+)')


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The terms and values of a memory. Rows are those of `Snapshot.facts`.

    `texts` are the facts' texts, `people` the names of persons, `terms` the rows that use each term, `said` the
    times (ms) of the facts that were said more than once, `named` the terms written with a capital inside a
    sentence. `replaced` are (old, new) pairs of which some statement says that one took the other's place.
    """

    texts: tuple[str, ...]
    people: frozenset[str]
    said: Mapping[int, tuple[int, ...]]
    terms: Mapping[str, Sequence[int]]
    named: frozenset[str]
    values: frozenset[str]
    kinds: tuple[Kind, ...]
    replaced: frozenset[tuple[str, str]]
    attributes: Mapping[str, frozenset[str]]
    """The values that some statement is known to give to a listed attribute."""
    _about: dict[str, NDArray[np.bool_]] = field(default_factory=dict, init=False, repr=False)

    def about(self, who: str) -> NDArray[np.bool_]:
        """Return which facts name a person, shape (m,); looked for once, and kept with the vocabulary."""
        if who not in self._about:
            self._about[who] = np.array([who in text for text in self.texts], dtype=np.bool_)
        return self._about[who]

    def rows(self, values: Iterable[str]) -> NDArray[np.int64]:
        """Return the facts that use any of some values."""
        found = [np.asarray(self.terms[value], dtype=np.int64) for value in values]
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

    def named_in(self, text: str) -> frozenset[str]:
        """Return the values that a text names, the longest where they overlap."""
        low = f" {' '.join(word.strip('.') for word in _WORD.findall(text.lower()))} ".replace("'s ", " 's ")
        found = [value for value in self.values if f" {value} " in low]
        return frozenset(
            value for value in found if not any(value != o and f" {value} " in f" {o} " for o in found)
        )


_MADE: WeakKeyDictionary[Snapshot, Vocabulary] = WeakKeyDictionary()


def vocabulary(tx: Tx, snapshot: Snapshot) -> Vocabulary:
    """Return a memory's vocabulary, made at the first question that needs it and kept with the snapshot."""
    made = _MADE.get(snapshot)
    if made is None:
        texts = _texts(tx, snapshot)
        acting = _acting_names(texts) | {
            e.label for e in snapshot.entities.values() if e.kind == "participant"
        }
        people = acting | {e.label for e in snapshot.entities.values() if e.kind == "person"}
        states = [
            (state.attribute, value.lower())
            for state in snapshot.states
            for value in (state.value, state.previous)
            if value and state.attribute != UNSPECIFIED
        ]
        made = _MADE[snapshot] = make_vocabulary(
            texts,
            people,
            snapshot.facts.vectors.rows,
            states=states,
            acting=acting,
            said=_said_often(tx, snapshot),
        )
    return made


def _texts(tx: Tx, snapshot: Snapshot) -> list[str]:
    """Return the texts of the facts that are read, by row; "" for the older ones of a large memory."""
    facts = snapshot.facts
    newest = np.lexsort((facts.ids, facts.said_ms))[-MAX_FACTS:]
    ids = json.dumps(facts.ids[newest].tolist())
    texts = [""] * len(facts.ids)
    for fact, text in tx.execute(
        "SELECT id, text FROM fact WHERE id IN (SELECT value FROM json_each(?))", (ids,)
    ):
        texts[snapshot.fact_row[fact]] = text
    return texts


def _said_often(tx: Tx, snapshot: Snapshot) -> dict[int, tuple[int, ...]]:
    """Return fact row -> all times it was said, for the facts that were said more than once."""
    found: dict[int, list[int]] = defaultdict(list)
    for fact, said in tx.execute(
        """SELECT fact, said_ms FROM occurrence WHERE fact IN
           (SELECT fact FROM occurrence GROUP BY fact HAVING count(*) > 1) ORDER BY said_ms"""
    ):
        if fact in snapshot.fact_row:
            found[snapshot.fact_row[fact]].append(said)
    return {row: tuple(times) for row, times in found.items()}


def _acting_names(texts: Sequence[str]) -> frozenset[str]:
    """Return capitalised words that often open a sentence as its subject and are never written small.

    Nor does one stand in, on or at a person, and "The Blue Heron" is nobody called Heron.
    """
    counts: Counter[str] = Counter()
    other: set[str] = set(STOP_WORDS)
    inside: set[str] = set()
    for text in texts:
        other.update(word for word in _SMALL_WORD.findall(text) if word.islower())
        inside.update(_INSIDE.findall(text))
        inside.update(_SECOND.findall(text))
        for match in _ACTOR.finditer(text):
            if match["verb"].endswith(("s", "ed")) or match["verb"] in listed("acting"):
                counts[match["name"]] += 1
    return frozenset(
        name
        for name, n in counts.items()
        if n >= MIN_USES and name not in inside and name.lower() not in other
    )


def make_vocabulary(
    texts: Sequence[str],
    people: frozenset[str],
    vectors: NDArray[np.float32],
    *,
    states: Sequence[tuple[str, str]] = (),
    acting: frozenset[str] | None = None,
    said: Mapping[int, tuple[int, ...]] | None = None,
) -> Vocabulary:
    """Return the vocabulary of some statements.

    Args:
        texts: the statements.
        people: names of persons.
        vectors: of the statements, shape (m, d); d may be 0.
        states: (attribute, value) pairs that are known to be so.
        acting: the people who act, and so are no values; a partner who is only talked of may be one.
        said: row -> times, of the statements that were said more than once.
    """
    acting = people if acting is None else acting
    names = {word.lower() for name in acting for word in (name, *name.split())}
    statements = [read_statement(text) for text in texts]
    terms = _terms(statements, names)
    seen = _read(statements, terms)
    values = sorted(_values(terms, seen))
    uses = {value: np.array(terms[value], dtype=np.int64) for value in values}
    attributes: dict[str, set[str]] = defaultdict(set)
    for attribute, value in states:
        if value in uses:
            attributes[attribute].add(value)
    replaced = [(old, new) for old, new in seen.replaced if old in uses and new in uses]
    kinds = find_kinds(statements, values, uses, vectors, names, replaced, attributes.values())
    return Vocabulary(
        texts=tuple(texts),
        people=people,
        said=said or {},
        terms=terms,
        named=frozenset(seen.named),
        values=frozenset(values),
        kinds=kinds,
        replaced=frozenset(replaced),
        attributes={name: frozenset(found) for name, found in attributes.items()},
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What the sentences of a memory show of its terms."""

    begun: Counter[str]
    """How often each is begun or ended."""
    held: Counter[str]
    """How often each is the object of a verb in the present, or owned."""
    named: set[str]
    replaced: list[tuple[str, str]]


def _terms(statements: Sequence[Statement], names: Set[str]) -> dict[str, list[int]]:
    """Return term -> rows of the statements that use it; a person's name or a number makes none."""
    counts = listed("counts")
    uses: dict[str, list[int]] = defaultdict(list)
    for row, statement in enumerate(statements):
        for term in {phrase.term for sentence in statement.sentences for phrase in sentence.phrases}:
            words = [word.removesuffix("'s") for word in term.split()]
            if words[0] not in counts and names.isdisjoint(words):
                uses[term].append(row)
    return uses


def _read(statements: Sequence[Statement], terms: Mapping[str, Sequence[int]]) -> _Read:
    counts = {term: len(rows) for term, rows in terms.items()}
    seen = _Read(Counter(), Counter(), set(), [])
    for sentence in (sentence for statement in statements for sentence in statement.sentences):
        turned = turning_points(sentence, counts)
        seen.begun.update(term for term, _ in turned)
        seen.held.update(held_phrases(sentence, counts))
        seen.named.update(phrase.term for phrase in sentence.phrases if phrase.named and phrase.start > 0)
        ended = [term for term, stance in turned if stance == "end"]
        taken = [term for term, stance in turned if stance != "end"]
        if len(ended) == 1 and len(taken) == 1 and ended != taken:
            seen.replaced.append((ended[0], taken[0]))
    return seen


def _values(terms: Mapping[str, Sequence[int]], seen: _Read) -> list[str]:
    """Return the terms that are values, the most used ones if there are too many."""
    found = [term for term, rows in terms.items() if _may_be_value(term, len(rows), seen)]
    partial = _partial(found, terms, seen.named)
    replacing = {term for pair in seen.replaced for term in pair}
    whole = [term for term in found if term not in partial]
    sure = [term for term in whole if _is_sure(term, seen) or term in replacing]
    return sorted(sure, key=lambda term: (-len(terms[term]), term))[:MAX_VALUES]


def _may_be_value(term: str, uses: int, seen: _Read) -> bool:
    often = uses >= MIN_USES
    if term in seen.named:
        return often or bool(seen.begun[term])
    if is_thing(term):
        return often or bool(seen.begun[term] or seen.held[term])
    return seen.held[term] >= MIN_USES or (
        often and bool(seen.begun[term] or (" " in term and seen.held[term]))
    )


def _is_sure(term: str, seen: _Read) -> bool:
    """Return whether a term is a name, a common thing, a phrase that somebody had, or nothing but begun."""
    compound = " " in term and bool(seen.begun[term] or seen.held[term])
    return term in seen.named or is_thing(term) or compound


def _partial(values: Iterable[str], terms: Mapping[str, Sequence[int]], named: Set[str]) -> set[str]:
    """Return the values that are only a piece of another, or another with an accidental neighbour behind it."""
    by_word: dict[str, list[str]] = defaultdict(list)
    for value in values:
        for word in set(value.split()):
            by_word[word].append(value)
    out: set[str] = set()
    for found in by_word.values():
        for value in found:
            for other in found:
                if other == value or f" {value} " not in f" {other} ":
                    continue
                if len(terms[other]) >= PIECE * len(terms[value]):
                    out.add(value)
                elif not other.endswith(value) and not (other in named and value not in named):
                    out.add(other)
    return out
