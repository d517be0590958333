"""The vocabulary of a memory: its terms, the values of changing attributes among them, and the topic of a question.

Nobody lists beforehand that somebody has a podcast or a chess opening. So the noun phrases of a memory's statements are its
terms, and those that are begun, ended, had or named are its values; values that take each other's place are of one kind
(`memforest.search.attributes`).

The topic of a question about change is the kind of value that it asks for ("What does Bob open with these days?"). Every
kind is scored by how near the statements that use its values are to the question (about anybody: what counts is the
topic), and by the values
that the question names itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memforest.reading.phrases import TOKEN, read_statement
from memforest.search.attributes import READING_BYTES, Kind, Readings, Terms, find_kinds
from memforest.search.scores import Scores, standardise
from memforest.search.snapshot import Delta, Snapshot, count_bytes, once_per_snapshot
from memforest.search.timeline import known_values
from memforest.store.connections import Tx
from memforest.store.reads import said_often, wordings
from memforest.text import STOP_WORDS

MIN_USES = 2
"""Uses that make a phrase more than an accident, if nothing else shows it to be a value."""
MAX_FACTS = 10_000
"""Facts read, the latest said: reading one takes about 0.2 ms, at the first question about change of a process. What
is older is answered from listed attributes, and by similarity."""
MAX_VALUES = 1_500
"""Values kept, the most used first: likeness is computed between all pairs."""
MAX_ABOUT = 16
"""People of whom it stays known after a write which facts name them: those asked about last."""
PIECE = 0.6
"""A phrase of which this share of uses stands inside a longer one is only a piece of that."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The terms and values of a memory. Rows are those of `Snapshot.facts`, `ids` their facts.

    `people` are the names of persons, `terms` the facts that use each term, `said` the times (ms) of the facts
    that were said more than once, `named` the terms written with a capital inside a sentence. `replaced` are
    (old, new) pairs of which some statement says that one took the other's place.
    """

    ids: NDArray[np.int64]
    people: frozenset[str]
    said: Mapping[int, tuple[int, ...]]
    terms: Mapping[str, Sequence[int]]
    named: frozenset[str]
    values: frozenset[str]
    uses: Mapping[str, NDArray[np.int64]]
    """Value -> the rows of the facts that use it."""
    kinds: tuple[Kind, ...]
    replaced: frozenset[tuple[str, str]]
    attributes: Mapping[str, frozenset[str]]
    """The values that some statement is known to give to a listed attribute."""
    readings: Readings
    """What all of this was made of, for the next one."""
    _about: dict[str, NDArray[np.bool_]] = field(default_factory=dict, init=False, repr=False)

    def about(self, who: str) -> NDArray[np.bool_]:
        """Return which facts name a person, shape (m,); looked for once, and kept with the vocabulary."""
        if who not in self._about:
            found = [fact for fact, one in self.readings.of.items() if who in one.text]
            self._about[who] = _marked(self.ids, found)
        return self._about[who]

    def rows(self, values: Iterable[str]) -> NDArray[np.int64]:
        """Return the facts that use any of some values."""
        found = np.zeros(len(self.ids), dtype=np.bool_)
        for value in values:
            rows = self.uses.get(value)
            found[_rows(self.ids, self.terms[value]) if rows is None else rows] = True
        return np.flatnonzero(found)

    def named_in(self, text: str) -> frozenset[str]:
        """Return the values that a text names, the longest where they overlap."""
        low = f" {' '.join(TOKEN.findall(text.lower()))} ".replace("'s ", " 's ")
        found = [value for value in self.values if f" {value} " in low]
        return frozenset(
            value for value in found if not any(value != o and f" {value} " in f" {o} " for o in found)
        )


@dataclass(slots=True)
class _CachedVocabulary:
    """The vocabulary of a snapshot, once a question has needed it; until then an older one, and the facts changed since."""

    made: Vocabulary | None = None
    base: Vocabulary | None = None
    changed: frozenset[int] = frozenset()
    """Facts that were written since `base`."""


def _carried(snapshot: Snapshot, delta: Delta, kept: _CachedVocabulary) -> _CachedVocabulary:
    changed = frozenset(snapshot.facts.ids[delta.facts].tolist())
    if kept.made is not None:
        return _CachedVocabulary(base=kept.made, changed=changed)
    return _CachedVocabulary(base=kept.base, changed=kept.changed | changed)


_kept = once_per_snapshot(lambda _: _CachedVocabulary(), _carried)


def vocabulary(tx: Tx, snapshot: Snapshot) -> Vocabulary:
    """Return a memory's vocabulary, made at the first question that needs it and kept with the snapshot.

    After a write the statements that have changed are read, and the sums over all of them brought up to date.
    """
    kept = _kept(snapshot)
    if kept.made is None:
        kept.made = _made(tx, snapshot, kept.base, kept.changed)
        kept.base = None
        count_bytes(snapshot, READING_BYTES * len(kept.made.readings.of))
    return kept.made


def _made(tx: Tx, snapshot: Snapshot, base: Vocabulary | None, changed: Set[int]) -> Vocabulary:
    """Return the vocabulary of a snapshot, with the help of an older one and of the facts written since."""
    facts = snapshot.facts
    newest = facts.ids[np.argsort(facts.said_ms, kind="stable")[-MAX_FACTS:]]  # by time, then id
    before = Readings() if base is None else base.readings
    wanted = set(newest.tolist())
    gone = (before.of.keys() - wanted) | (before.of.keys() & changed)
    come = wordings(tx, sorted((wanted - before.of.keys()) | (wanted & gone)))
    come |= {fact: told.text for fact, told in snapshot.restated.items() if fact in come}
    readings = before.changed(gone, come)
    people = readings.acting(MIN_USES, STOP_WORDS) | {
        e.label for e in snapshot.entities.values() if e.kind == "participant"
    }
    made = _vocabulary(
        readings,
        facts.ids,
        people | {e.label for e in snapshot.entities.values() if e.kind == "person"},
        facts.vectors.rows,
        states=known_values(snapshot),
        acting=people,
        said=_said_often(tx, snapshot, base, changed),
        base=base,
    )
    if base is not None:
        made._about.update(_carried_about(made, base, gone, come))
    return made


def _carried_about(
    made: Vocabulary, base: Vocabulary, gone: Collection[int], come: Mapping[int, str]
) -> dict[str, NDArray[np.bool_]]:
    """Return which facts name the persons that were asked about before: only new statements are looked at."""
    kept, left = (
        np.isin(base.ids, made.ids),
        np.isin(base.ids, np.array([*gone], dtype=np.int64), invert=True),
    )
    row_of = np.searchsorted(made.ids, base.ids)
    found = {}
    for who, about in list(base._about.items())[-MAX_ABOUT:]:
        found[who] = _marked(made.ids, [fact for fact, text in come.items() if who in text])
        found[who][row_of[about & kept & left]] = True
    return found


def _rows(ids: NDArray[np.int64], facts: Collection[int]) -> NDArray[np.int64]:
    return np.searchsorted(ids, np.fromiter(facts, dtype=np.int64, count=len(facts)))


def _marked(ids: NDArray[np.int64], facts: Collection[int]) -> NDArray[np.bool_]:
    """Return, for each id, whether it is one of some facts; all facts are among the ids."""
    found = np.zeros(len(ids), dtype=np.bool_)
    found[_rows(ids, facts)] = True
    return found


def _said_often(
    tx: Tx, snapshot: Snapshot, base: Vocabulary | None, changed: Set[int]
) -> dict[int, tuple[int, ...]]:
    """Return fact -> all times it was said, for those of the facts that were said more than once."""
    ids = snapshot.facts.ids
    read = said_often(tx, None if base is None else sorted(changed), snapshot.without)
    before = {} if base is None else {fact: t for fact, t in base.said.items() if fact not in changed}
    found = before | read
    here = np.isin(np.fromiter(found, dtype=np.int64, count=len(found)), ids)
    return {fact: times for (fact, times), known in zip(found.items(), here.tolist(), strict=True) if known}


def _vocabulary(
    readings: Readings,
    ids: NDArray[np.int64],
    people: frozenset[str],
    vectors: NDArray[np.float32],
    *,
    states: Collection[tuple[str, str]],
    acting: frozenset[str],
    said: Mapping[int, tuple[int, ...]],
    base: Vocabulary | None = None,
) -> Vocabulary:
    """Return the vocabulary of readings; parts that an older one shares are taken from it."""
    names = frozenset(word.lower() for name in acting for word in (name, *name.split()))
    readings = readings.with_terms(names)
    terms = readings.terms
    values = sorted(_values(readings))
    readings = readings.with_contexts(frozenset(values))
    uses = _uses(ids, values, terms, base)
    attributes: dict[str, set[str]] = defaultdict(set)
    for attribute, value in states:
        if value in uses:
            attributes[attribute].add(value)
    replaced = [pair for pair in sorted(readings.turned.replaced.elements()) if uses.keys() >= {*pair}]
    return Vocabulary(
        ids=ids,
        people=people,
        said=said,
        terms=terms,
        named=frozenset(readings.named),
        values=frozenset(values),
        uses=uses,
        kinds=find_kinds(readings.contexts, values, uses, vectors, replaced, attributes.values()),
        replaced=frozenset(replaced),
        attributes={name: frozenset(found) for name, found in attributes.items()},
        readings=readings,
    )


def _uses(
    ids: NDArray[np.int64], values: Iterable[str], terms: Terms, base: Vocabulary | None
) -> dict[str, NDArray[np.int64]]:
    """Return the rows of the facts that use each value; where an older vocabulary has the same, that is kept."""
    same = base is not None and np.array_equal(ids[: len(base.ids)], base.ids)
    found = {}
    for value in values:
        rows = base.uses.get(value) if base is not None and same else None
        if base is None or rows is None or base.terms[value] is not terms[value]:
            rows = _rows(ids, terms[value])
        found[value] = rows
    return found


def _values(seen: Readings) -> list[str]:
    """Return the terms that are values, the most used ones if there are too many.

    A value is more than an accident: used often, or begun or had.
    """
    terms, found = seen.terms, []
    for term, rows in terms.items():
        often, turned = len(rows) >= MIN_USES, bool(seen.turned.begun[term])
        if term in seen.named:
            is_value = often or turned
        else:
            is_value = often and (turned or bool(seen.turned.held[term]) or term in seen.alone)
        if is_value:
            found.append(term)
    partial = _partial(found, terms, seen.named.keys())
    whole = [term for term in found if term not in partial]
    return sorted(whole, key=lambda term: (-len(terms[term]), term))[:MAX_VALUES]


def _partial(values: Iterable[str], terms: Mapping[str, Sequence[int]], named: Set[str]) -> set[str]:
    """Return the values that are only a part of another one, or another one followed by an accidental word."""
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


NEAR = 2
"""Statements, the nearest ones, by which a kind is judged."""
LEXICAL = 0.5
"""Weight of shared words beside the cosine."""
NAMED = 3.0
"""Weight of the share of the named values that are of a kind."""
MOST_KINDS = 3
"""Kinds that are tried: of the likeliest one the person may never have had two."""
UNHEARD = 2.0
"""Taken from a kind of which nothing was ever said of the person."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a question: the person, and the thing asked about, as scores of facts and as words.

    `dense` and `lexical` are the cosine and BM25 of every fact to the question, shape (m,). `anchor` is text in
    which a value may be named ("before the oolong"), and `attribute` the listed attribute that is asked for, if it is one.
    """

    who: str
    dense: Scores
    lexical: Scores
    anchor: str = ""
    attribute: str | None = None


def choose_values(known: Vocabulary, topic: Topic) -> Iterator[tuple[dict[str, float], float]]:
    """Yield the values of the kinds that a question may be about, the likeliest kind first.

    Yields:
        How typical each value is, and how near the statements that use these values are to the question, as a share of
        the nearest of all.
    """
    if not known.kinds:
        return
    about = known.about(topic.who)
    dense = topic.dense
    if about.any() and not about.all():  # what a fact owes to naming the person
        dense = dense - np.where(about, dense[about].mean() - dense[~about].mean(), 0.0)
    fits = standardise(dense) + LEXICAL * standardise(topic.lexical)
    near: Scores = np.array(
        [
            _best(fits[kind.rows])
            + _best(fits[kind.rows[about[kind.rows]]])
            - UNHEARD * (not about[kind.rows].any())
            for kind in known.kinds
        ]
    )
    anchored = known.named_in(topic.anchor)
    named = anchored or known.attributes.get(topic.attribute or "", frozenset())
    if named:
        share = np.array([len(named.intersection(kind.values)) / len(named) for kind in known.kinds])
        near = standardise(near) + NAMED * share
    for row in np.argsort(-near, kind="stable")[:MOST_KINDS].tolist():
        kind = known.kinds[row]
        chosen = dict(zip(kind.values, kind.typical, strict=True))
        names = {value: weight for value, weight in chosen.items() if value in known.named}
        if 2 * len(names) > len(chosen):
            chosen = names  # "doctor" is no value beside "Dr Sun" and "Dr Ray"
        weighted = {value: 0.1 + weight for value, weight in chosen.items()}
        values = (dict.fromkeys(anchored, 1.0) if anchored else _anchor_term(known, topic.anchor)) | weighted
        yield values, _best(fits[known.rows(values)]) / max(_best(fits), 1e-9)


def _best(fits: Scores) -> float:
    """Return the sum of the best `NEAR` over `NEAR`, none below 0: a kind that is hardly talked about is not near."""
    if len(fits) > NEAR:
        fits = np.partition(fits, len(fits) - NEAR)[-NEAR:]
    return float(np.maximum(fits, 0.0).sum()) / NEAR


def _anchor_term(known: Vocabulary, anchor: str) -> dict[str, float]:
    """Return the longest phrase of an anchor that the memory uses, though nothing else shows it to be a value."""
    phrases = (p for s in read_statement(anchor).sentences for p in s.phrases if p.term in known.terms)
    best = max(phrases, key=lambda p: (len(p.term.split()), -p.start), default=None)
    return {} if best is None else {best.term: 1.0}
