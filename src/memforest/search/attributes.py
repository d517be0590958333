"""Kinds of values: those of a memory's values that are alike, so that one can supersede another.

"Dropped the oolong for the sencha" says that two things take each other's place, and "trains at Ironworks", "signed up at
Fitbox" show two that stand in the same frames. Two values are alike when they replaced each other, were values of one listed
attribute, stand among the same words, or are told in similar statements; and unlike when they stand beside each other in
the same sentences, as "cello" and "lesson" do. Values that are alike on average form a kind.

What stands in a statement does not change, so it is read once (`StatementReading`). What it adds to a sum depends on the
people and the values of the memory as well: while these stay the same, a statement that comes or goes is added or taken
off, and else all are summed again. The sums are of whole numbers, so either way gives the same.

Sources: Z. Harris, Distributional Structure (1954), for kinds by contexts; average-linkage clustering by chains of nearest
neighbours: F. Murtagh, A Survey of Recent Advances in Hierarchical Clustering Algorithms (1983).
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.reading.phrases import (
    ParsedStatement,
    Phrase,
    PhrasePosition,
    Sentence,
    chosen_phrases,
    exchanged,
    held_phrases,
    is_person,
    listed,
    most_used,
    places,
    read_statement,
    turning_points,
    word_list,
)
from memforest.reading.stance import role_of
from memforest.text import STOP_WORDS, words

Matrix = NDArray[np.float64]

FRAME_WEIGHT, REPLACED_WEIGHT, ATTRIBUTE_WEIGHT, BESIDE_WEIGHT = 2.0, 1.5, 1.0, 1.0
"""Weights of shared frames, of having replaced each other, of a shared attribute, and (against) of standing
beside each other; the cosine of the statements has weight 1."""
LEAST_ALIKE = 0.3
"""Least mean likeness of two groups that are joined. Chosen on generated worlds, where groups of .2 mix kinds
and groups of .5 split them; .3 kept 94 of 100 pairs of one kind together and mixed 2 of 100."""
WINDOW = 3
"""Words on either side that are a value's frame."""
BY_DISTANCE = (6, 4, 3)
"""Their weights in sixths, 1 / (1 + distance / 2), so that sums are exact whatever their order."""
ROLE_SIXTHS = 24
"""Weight in sixths of the role that a value has for somebody ("Piet is Bob's *physio*"): more than any word beside it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """Values of one kind: the facts (rows) that use them, and how typical each is.

    `typical` has the mean likeness of each value to the others, at most 1 and aligned with `values`.
    """

    values: tuple[str, ...]
    typical: tuple[float, ...]
    rows: NDArray[np.int64]


def find_kinds(
    contexts: Contexts,
    values: Sequence[str],
    uses: Mapping[str, NDArray[np.int64]],
    vectors: NDArray[np.float32],
    replaced: Collection[tuple[str, str]],
    attributes: Iterable[Set[str]],
) -> tuple[Kind, ...]:
    """Return the kinds of some values; every value is of exactly one.

    Args:
        contexts: of the values.
        values: n of them.
        uses: value -> rows of the statements that use it.
        vectors: of the statements, shape (m, d); d may be 0.
        replaced: (old, new) pairs of values.
        attributes: the values known of each listed attribute.
    """
    if not values:
        return ()
    alike = _likeness(contexts, values, uses, vectors)
    place = {value: i for i, value in enumerate(values)}
    related = [(old, new, REPLACED_WEIGHT) for old, new in replaced if old != new]
    for together in attributes:
        related += [(*pair, ATTRIBUTE_WEIGHT) for pair in combinations(sorted(together & place.keys()), 2)]
    for old, new, weight in related:
        if old in place and new in place:
            alike[place[old], place[new]] += weight
            alike[place[new], place[old]] += weight
    pairs = {frozenset(pair) for pair in replaced}
    alike -= BESIDE_WEIGHT * _beside(contexts, place, pairs)
    np.fill_diagonal(alike, 0.0)
    return tuple(_kind(values, members, alike, uses) for members in _clusters(alike, LEAST_ALIKE))


Placed = tuple[str, str, tuple[Phrase, ...]]
"""The question that a sentence answers, the sentence, and the values that stand in it."""


def placed_in(statement: ParsedStatement, wanted: Set[str]) -> list[Placed]:
    """Return the sentences of a statement that name values."""
    return [
        (statement.asked, sentence.text, phrases)
        for sentence in statement.sentences
        if (phrases := tuple(chosen_phrases(sentence, wanted)))
    ]


Frame = Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of values, counted over the sentences of a memory. Immutable."""

    sentences: Mapping[str, int] = field(default_factory=dict)
    """Value -> how many sentences name it."""
    beside: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Two values, in order -> how many sentences name both."""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    """Value -> the words around it, in sixths: by side and distance, and those of the questions answered."""
    spread: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """Word around a value, with its side -> how many values have it in their frames."""

    def changed(self, gone: Sequence[Placed], come: Sequence[Placed], names: Set[str]) -> Contexts:
        """Return the contexts without some sentences and with others.

        Args:
            gone: sentences that were counted.
            come: sentences that were not.
            names: words of people's names, lower case; the same as before.
        """
        counted, beside = Counter[str](), Counter[tuple[str, str]]()
        framed: dict[str, Frame] = defaultdict(Counter)
        for sign, placed in ((-1, gone), (1, come)):
            for question, text, phrases in placed:
                terms = sorted({phrase.term for phrase in phrases})
                for term in terms:
                    counted[term] += sign
                for pair in combinations(terms, 2):
                    beside[pair] += sign
                asked = {_mask(word, names) for word in words(question.lower()) if word not in STOP_WORDS}
                for phrase in phrases:
                    frame = framed[phrase.term]
                    for key, sixths in _frame(text, phrase, names).items():
                        frame[key] += sign * sixths
                    for word in asked:
                        frame["asked", word] += sign * 6
                    if role := role_of(text, phrase):
                        frame["role", role] += sign * ROLE_SIXTHS
        frames = {**self.frames, **{v: _sum(self.frames.get(v, {}), one) for v, one in framed.items()}}
        more: Counter[tuple[str, ...]] = Counter()
        for value, keys in framed.items():
            had: Set[tuple[str, ...]] = self.frames.get(value, Counter()).keys()
            has = frames[value].keys()
            more.update({key: (key in has) - (key in had) for key in keys})
        return Contexts(
            _sum(self.sentences, counted),
            _sum(self.beside, beside),
            frames,
            _sum(self.spread, more),
        )


def _sum(counts: Mapping[T, int], delta: Mapping[T, int]) -> Counter[T]:
    """Return the sum of two counts, without zeros."""
    found = Counter(counts)
    for key, n in delta.items():
        found[key] += n
        if not found[key]:
            del found[key]
    return found


def _kind(
    values: Sequence[str], members: Sequence[int], alike: Matrix, uses: Mapping[str, NDArray[np.int64]]
) -> Kind:
    inner = alike[np.ix_(members, members)].mean(axis=1)
    typical = inner / max(float(inner.max()), 1e-9)
    return Kind(
        tuple(values[i] for i in members),
        tuple(float(share) for share in typical),
        np.flatnonzero(np.bincount(np.concatenate([uses[values[i]] for i in members]))),
    )


def _clusters(alike: Matrix, least: float) -> list[list[int]]:
    """Return groups of rows by average linkage: those whose mean likeness is at least `least` are joined.

    A chain of nearest neighbours finds the same tree as joining the most alike pair each time, in quadratic time.
    """
    n = len(alike)
    likeness = alike.copy()
    np.fill_diagonal(likeness, -np.inf)
    size = np.ones(n)
    groups: dict[int, list[int]] = {i: [i] for i in range(n)}
    open_rows = set(range(n))
    chain: list[int] = []
    while open_rows:
        if not chain:
            chain.append(min(open_rows))
        last = chain[-1]
        nearest = int(likeness[last].argmax())
        if likeness[last, nearest] < least:
            open_rows.discard(last)  # nothing will ever be joined to it
            chain.pop()
            likeness[last] = likeness[:, last] = -np.inf
            continue
        if len(chain) > 1 and likeness[last, chain[-2]] >= likeness[last, nearest]:
            other = chain[-2]
            del chain[-2:]
            mean = (likeness[last] * size[last] + likeness[other] * size[other]) / (size[last] + size[other])
            likeness[other] = likeness[:, other] = -np.inf
            likeness[last] = likeness[:, last] = mean
            likeness[last, last] = -np.inf
            size[last] += size[other]
            groups[last] += groups.pop(other)
            open_rows.discard(other)
        else:
            chain.append(nearest)
    return [sorted(group) for _, group in sorted(groups.items())]


def _beside(contexts: Contexts, place: Mapping[str, int], pairs: Set[frozenset[str]]) -> Matrix:
    """Return in which share of its sentences the rarer of two values stands beside the other, shape (n, n).

    A sentence that tells a replacement has two values of one kind, and does not count.
    """
    counts = np.array([contexts.sentences.get(value, 0) for value in place], dtype=np.float64)
    both = np.zeros((len(place), len(place)))
    for (one, other), n in contexts.beside.items():
        if frozenset((one, other)) not in pairs:
            both[place[one], place[other]] = both[place[other], place[one]] = n
    rarer = np.minimum(counts[:, None], counts[None, :])
    return np.asarray(both / np.maximum(rarer, 1.0), dtype=np.float64)


def _likeness(
    contexts: Contexts,
    values: Sequence[str],
    uses: Mapping[str, NDArray[np.int64]],
    vectors: NDArray[np.float32],
) -> Matrix:
    """Return how alike the statements about two values are: cosine of their means, and shared frames."""
    frames = _frames(contexts, values)
    alike = FRAME_WEIGHT * (frames @ frames.T)
    if vectors.ndim == 2 and vectors.shape[1]:
        background = vectors.mean(axis=0)
        profile = np.array(
            [(vectors[uses[value]] - background).mean(axis=0) for value in values], dtype=np.float64
        )
        profile /= np.maximum(np.linalg.norm(profile, axis=1, keepdims=True), 1e-9)
        alike = alike + profile @ profile.T
    return np.asarray(alike, dtype=np.float64)


def _frames(contexts: Contexts, values: Sequence[str]) -> Matrix:
    """Return the words around each value, weighted by how few values they stand beside; unit rows."""
    found = [contexts.frames.get(value, Counter()) for value in values]
    spread = contexts.spread
    column = {key: i for i, key in enumerate(sorted(key for key, n in spread.items() if n > 1))}
    out = np.zeros((len(values), max(len(column), 1)))
    for row, frame in enumerate(found):
        shared = [key for key in frame if key in column]
        sixths = np.array([frame[key] for key in shared], dtype=np.float64)
        beside = np.array([spread[key] for key in shared], dtype=np.float64)
        out[row, [column[key] for key in shared]] = np.log1p(sixths / 6) * np.log(len(values) / beside)
    norms = np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    return np.asarray(out / norms, dtype=np.float64)


def _frame(text: str, phrase: Phrase, names: Set[str]) -> Frame:
    """Return the words around a phrase in its sentence, in sixths: less with each word between, more if nothing is."""
    left = _framing(text[: phrase.start], names)[-WINDOW:][::-1]
    right = _framing(text[phrase.end :], names)[:WINDOW]
    frame: Frame = Counter()
    for side, beside in (("left", left), ("right", right)):
        for word, sixths in zip(beside, BY_DISTANCE, strict=False):
            frame[side, word] += sixths
        if beside:
            frame[side, "next", beside[0]] += 6
    if len(left) > 1:
        frame["left", left[1], left[0]] += 9
    return frame


def _framing(text: str, names: Set[str]) -> list[str]:
    no_frame = listed("no_frame")
    return [_mask(word, names) for word in words(text.lower()) if word not in no_frame]


def _mask(word: str, names: Set[str]) -> str:
    return "§" if word.removesuffix("'s") in names else word


READING_BYTES = 4_000
"""What a statement with its phrases takes in memory, about (measured: 3,700 with twelve words)."""

_INSIDE = re.compile(r"\b(?:in|on|at) (?:the )?([^\W\d_a-z][\w-]+)\b(?!'s)")
_SECOND = re.compile(r"(?:(?<=[a-z,] )|\bThe )[^\W\d_a-z][\w-]+ ([^\W\d_a-z][\w-]+)")
_ACTOR = re.compile(r'(?:^|[.!?:] "?|")(?P<name>[^\W\d_a-z][\w-]+)(?:\'s)? (?P<verb>[a-z]+)')


Terms = Mapping[str, tuple[int, ...]]
"""Term -> the facts that use it, ascending."""


@dataclass(frozen=True, slots=True)
class StatementReading:
    """The reading of one statement."""

    text: str
    statement: ParsedStatement
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
    turns: tuple[tuple[Sentence, tuple[PhrasePosition, ...]], ...]
    """The sentences with a word of change or a verb that has an object, and their places."""


def read(text: str) -> StatementReading:
    """Return the reading of one statement."""
    statement, counts = read_statement(text), listed("counts")
    phrases = [phrase for sentence in statement.sentences for phrase in sentence.phrases]
    placed = [(sentence, places(sentence)) for sentence in statement.sentences]
    return StatementReading(
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


def _roled(statement: ParsedStatement) -> Iterable[str]:
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
        *("friend", "buddy", "cousin", "colleague", "coworker", "classmate"),
        *("teammate", "neighbour", "neighbor", "kid", "child", "baby"),
    )
)


_OPENING = re.compile(
    r"(?:(?:it's|it is|that's|that is|with|by|to|in|at|on|from|for|along|an?|the|my|his|her|their)\s+)*",
    re.IGNORECASE,
)
"""What may stand in front of the thing that an answer names."""


def _alone(statement: ParsedStatement) -> Iterable[str]:
    """Yield the terms that stand at the beginning of an answer."""
    if statement.asked and statement.sentences:
        first = statement.sentences[0]
        match = _OPENING.match(first.text)
        at = match.end() if match else 0
        yield from (phrase.term for phrase in first.phrases if phrase.start == at)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The statements to be subtracted from the sums, and those to be added."""

    gone: Mapping[int, StatementReading] = field(default_factory=dict)
    come: Mapping[int, StatementReading] = field(default_factory=dict)

    def sums(self, before: Counter[T], of: Callable[[StatementReading], Iterable[T]]) -> Counter[T]:
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
        self, before: Mapping[T, tuple[int, ...]], of: Callable[[StatementReading], Iterable[T]]
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


_Shown = tuple[list[str], list[str], list[tuple[str, str]]]
"""The evidence of one statement about the terms of its memory: begun, held, or replaced."""


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

    def changed(self, changes: _Changes, of: Mapping[int, StatementReading], terms: Terms) -> Turned:
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
            was_begun, was_held, was_replaced = shown.pop(fact)
            begun.subtract(was_begun)
            held.subtract(was_held)
            replaced.subtract(was_replaced)
        for fact in again:
            shown[fact] = now_begun, now_held, now_replaced = _shown(of[fact], counts)
            begun.update(now_begun)
            held.update(now_held)
            replaced.update(now_replaced)
        return Turned(
            +begun, +held, +replaced, shown, {contest: best[contest] for contest in holders}, holders
        )


def _contests(reading: StatementReading) -> Iterable[tuple[str, ...]]:
    return {
        tuple(phrase.term for phrase in place.phrases)
        for _, found in reading.turns
        for place in found
        if len(place.phrases) > 1
    }


def _shown(reading: StatementReading, counts: Mapping[str, int]) -> _Shown:
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
    return begun, held, replaced


@dataclass(frozen=True, slots=True)
class Readings:
    """The statements of a memory by the ids of their facts, with their sums. Never changed, shared by readers."""

    of: Mapping[int, StatementReading] = field(default_factory=dict)
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

        def terms_of(one: StatementReading) -> Iterable[str]:
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
