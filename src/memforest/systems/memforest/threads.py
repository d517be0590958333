"""Timelines of attributes that nobody has listed: threads of interchangeable values in a memory.

"What does Bob open with these days?" asks about something that no lexicon knows. But the memory itself
shows that the Pirc, the Dutch and the Catalan are one kind of thing: one was given up *for* the other, and
statements about any of them are near the question. So a thread is found in three steps:

1. Terms: noun phrases of all statements; those that were begun, ended, or named become possible values.
   Two that took each other's place ("dropped the Pirc for the Dutch") are of one kind.
2. Topic: a kind is as relevant as the statements that name its members are on average, whoever they are about.
3. Timeline: what the person asked about said, or had said of them, of those values, read by its stance (so,
   begun, over, only wished for), in time order. From there on it is a timeline like any other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memforest.facts.timeline import Observation, Segment, timeline
from memforest.ranking import Scores, standardise
from memforest.search.snapshot import Snapshot
from memforest.steps.local.stance import held_phrases, is_thing, read_statement, stances_of, turning_points
from memforest.store.db import Tx
from memforest.text import STOP_WORDS

__all__ = ["Thread", "find_thread", "vocabulary"]

_WORD = re.compile(r"[\w&'.-]+")
MIN_USES = 2
PIECE = 0.6
"""A phrase of which this share of uses stand inside a longer one is only a piece of that."""
SHRINK = 2.0
"""Weight, in statements, of the memory's mean relevance in a term's mean: one near statement proves little."""
SEEDS = 4
"""Values nearest the question that say what its kind of thing is like."""
SLACK = 0.5
"""Least score of a value, as a share of the seeds'."""


@dataclass(frozen=True, slots=True)
class Thread:
    """The timeline of one person and one kind of values; `facts` of the segments are row ids of the store.

    `told` are the facts that tell a beginning, `values` all values of the kind.
    """

    segments: tuple[Segment, ...]
    told: frozenset[int]
    values: frozenset[str]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The noun phrases of a memory: the facts (rows) that use each, which are values, and their kinds."""

    texts: tuple[str, ...]
    people: frozenset[str]
    uses: Mapping[str, NDArray[np.int64]]
    values: frozenset[str]
    kind: Mapping[str, int]
    members: Mapping[int, frozenset[str]]
    rank: Mapping[str, float]
    """How surely a term is a value and not what values are told with ("the *flat* in Lyon")."""

    def kind_members(self) -> Iterable[tuple[int, frozenset[str]]]:
        """Return (kind, its values) of every kind."""
        return self.members.items()

    def named_in(self, text: str) -> frozenset[str]:
        """Return the values that a text names, the longest where they overlap."""
        low = f" {' '.join(_WORD.findall(text.lower()))} "
        found = [value for value in self.values if f" {value} " in low]
        return frozenset(
            value
            for value in found
            if not any(value != other and f" {value} " in f" {other} " for other in found)
        )


_MADE: WeakKeyDictionary[Snapshot, Vocabulary] = WeakKeyDictionary()


def vocabulary(tx: Tx, snapshot: Snapshot) -> Vocabulary:
    """Return a memory's vocabulary, made at the first question that needs it."""
    made = _MADE.get(snapshot)
    if made is None:
        texts: list[str] = [""] * len(snapshot.facts.ids)
        for fact, text in tx.execute("SELECT id, text FROM fact"):
            if fact in snapshot.fact_row:
                texts[snapshot.fact_row[fact]] = text
        made = _MADE[snapshot] = make_vocabulary(texts, _people(snapshot, texts))
    return made


def _people(snapshot: Snapshot, texts: Sequence[str]) -> frozenset[str]:
    """Return the names of people: participants, known persons, and names that act at the start of a sentence."""
    found = {
        entity.label for entity in snapshot.entities.values() if entity.kind in ("participant", "person")
    }
    return frozenset(found | _acting_names(texts))


_ACTOR = re.compile(r'(?:^|[.!?:] "?|")(?P<name>[^\W\d_a-z][\w-]+)(?:\'s)? (?P<verb>[a-z]+)')


def _acting_names(texts: Sequence[str]) -> set[str]:
    """Return capitalised words that often open a sentence as its subject and are never written small."""
    counts: dict[str, int] = defaultdict(int)
    small: set[str] = set()
    for text in texts:
        small.update(word for word in re.findall(r"\b[^\W\d_]+\b", text) if word.islower())
        for match in _ACTOR.finditer(text):
            verb = match["verb"]
            if verb.endswith(("s", "ed")) or verb in ("is", "was", "has", "had", "went", "got", "took"):
                counts[match["name"]] += 1
    return {
        name
        for name, n in counts.items()
        if n >= MIN_USES and name.lower() not in small and name.lower() not in STOP_WORDS
    }


def make_vocabulary(texts: Sequence[str], people: frozenset[str]) -> Vocabulary:
    """Return the vocabulary of some statements."""
    names = {word.lower() for name in people for word in (name, *name.split())}
    uses: dict[str, list[int]] = defaultdict(list)
    begun: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    pairs: list[tuple[str, str]] = []
    statements = [read_statement(text) for text in texts]
    for row, statement in enumerate(statements):
        terms = {phrase.term for sentence in statement.sentences for phrase in sentence.phrases}
        for term in terms:
            if not names & {word.removesuffix("'s") for word in term.split()}:
                uses[term].append(row)
    counts = {term: len(rows) for term, rows in uses.items()}
    for statement in statements:
        for sentence in statement.sentences:
            got = turning_points(sentence, counts)
            for term, _ in got:
                begun[term] += 1
            for term in held_phrases(sentence, counts):
                held[term] += 1
            pairs += _replaced(got)
    named = {
        phrase.term
        for statement in statements
        for sentence in statement.sentences
        for phrase in sentence.phrases
        if phrase.named and phrase.start > 0
    }
    values = {
        term
        for term, n in counts.items()
        if (begun[term] and (n >= MIN_USES or term in named))
        or held[term] >= MIN_USES
        or ((term in named or is_thing(term)) and n >= MIN_USES)
    }
    values -= _partial(values, counts)
    kind, members = _kinds(frozenset(values), pairs)
    rank = {
        value: (value in named or is_thing(value))
        + (len(members[kind[value]]) > 1)
        + begun[value] / counts[value]
        for value in values
    }
    return Vocabulary(
        tuple(texts),
        people,
        {t: np.array(rows, dtype=np.int64) for t, rows in uses.items()},
        frozenset(values),
        kind,
        members,
        rank,
    )


def _partial(values: Iterable[str], counts: Mapping[str, int]) -> set[str]:
    """Return the values that are only a piece of another, or another with an accidental neighbour."""
    by_word: dict[str, list[str]] = defaultdict(list)
    for value in values:
        for word in set(value.split()):
            by_word[word].append(value)
    out: set[str] = set()
    for value in values:
        for other in by_word[value.split()[0]]:
            if other != value and f" {value} " in f" {other} ":
                out.add(value if counts[other] >= PIECE * counts[value] else other)
    return out


def _replaced(turned: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Yield the pairs of phrases of which one took the other's place in one sentence."""
    ended = [term for term, stance in turned if stance == "end"]
    begun = [term for term, stance in turned if stance in ("start", "back")]
    if len(ended) == 1 and len(begun) == 1 and ended[0] != begun[0]:
        yield ended[0], begun[0]


def _kinds(
    values: frozenset[str], pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, int], dict[int, frozenset[str]]]:
    """Return the kind of every value, and the values of every kind: linked by having replaced each other."""
    parent = {value: value for value in values}

    def root(value: str) -> str:
        while parent[value] != value:
            value = parent[value]
        return value

    for old, new in pairs:
        if old in parent and new in parent:
            parent[root(old)] = root(new)
    numbers: dict[str, int] = {}
    kind = {value: numbers.setdefault(root(value), len(numbers)) for value in sorted(values)}
    members: dict[int, set[str]] = defaultdict(set)
    for value, number in kind.items():
        members[number].add(value)
    return kind, {number: frozenset(found) for number, found in members.items()}


# -- one question -------------------------------------------------------------------------------------


def find_thread(tx: Tx, snapshot: Snapshot, who: str, relevance: Scores, anchor: str) -> Thread | None:
    """Return the timeline of the kind of thing that a question is about, for one person, or None.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory.
        who: the person's name as the memory has it.
        relevance: of every fact to the question, shape (m,).
        anchor: text in which a value of the kind may be named ("before the Pirc").
    """
    known = vocabulary(tx, snapshot)
    values = choose_values(known, relevance, snapshot.facts.vectors, anchor)
    if not values:
        return None
    seen, told = _observe(known, snapshot, who, values)
    if not seen:
        return None
    return Thread(tuple(timeline(seen)), frozenset(told), values)


def choose_values(
    known: Vocabulary, relevance: Scores, vectors: NDArray[np.float32], anchor: str
) -> dict[str, float]:
    """Return the values that a question is about, with how surely each is one.

    The values nearest the question, or the one that it names, say what the kind of thing is like; every value
    told in a similar way is of the kind.
    """
    if not known.values or not len(relevance):
        return {}
    values = sorted(known.values)
    mean = float(relevance.mean())
    alone = np.array([_shrunk(relevance[known.uses[value]], mean) for value in values])
    kinds = np.array([known.kind[value] for value in values])
    near = np.array([alone[kinds == kind].mean() for kind in kinds])
    topical = standardise((alone + near) / 2)
    named = known.named_in(anchor)
    seeds = np.array([value in named for value in values])
    if not seeds.any():
        seeds = np.zeros(len(values), dtype=bool)
        seeds[np.argsort(-topical, kind="stable")[:SEEDS]] = True
    like = _likeness(known, values, vectors, seeds)
    score = topical + like
    reference = float(np.sort(score[seeds])[::-1][:SEEDS].mean())
    chosen = (
        (score >= reference * SLACK) | np.isin(kinds, kinds[seeds] if named else [-1]) | (seeds & bool(named))
    )
    return {value: known.rank[value] for value, yes in zip(values, chosen, strict=True) if yes}


def _likeness(
    known: Vocabulary, values: Sequence[str], vectors: NDArray[np.float32], seeds: NDArray[np.bool_]
) -> Scores:
    """Return how alike to the seeds the statements about each value are, standardised; zeros without vectors."""
    if not vectors.shape[1] or not vectors.any():
        return np.zeros(len(values))
    centred = vectors - vectors.mean(axis=0)
    profile = np.array([centred[known.uses[value]].mean(axis=0) for value in values])
    profile /= np.maximum(np.linalg.norm(profile, axis=1, keepdims=True), 1e-9)
    return standardise((profile @ profile[seeds].T).mean(axis=1))


def _shrunk(values: Scores, mean: float) -> float:
    return float((values.sum() + SHRINK * mean) / (len(values) + SHRINK))


def _observe(
    known: Vocabulary, snapshot: Snapshot, who: str, values: frozenset[str]
) -> tuple[list[Observation], set[int]]:
    """Return what was said of a person and some values as observations, and the facts that tell a beginning."""
    facts = snapshot.facts
    rows = np.unique(np.concatenate([known.uses[value] for value in values]))
    seen: list[Observation] = []
    told: set[int] = set()
    others = known.people - {who}
    for row in rows.tolist():
        text = known.texts[row]
        fact = int(facts.ids[row])
        at = int(facts.start_ms[row])
        for place, (value, stance) in enumerate(stances_of(read_statement(text), who, others, values)):
            if stance in ("unreal", "over", "event"):
                continue
            change = "end" if stance == "end" else "is" if stance == "is" else "start"
            seen.append(Observation(at, f"{0 if change == 'end' else 1}{place}", fact, value, None, change))
            if change == "start" or (facts.stated[row] and change == "is"):
                told.add(fact)
    return seen, told
