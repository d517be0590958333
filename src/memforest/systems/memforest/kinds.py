"""Kinds of values: those of a memory's values that are alike, so that one can supersede another.

"Dropped the oolong for the sencha" says that two things take each other's place, and "trains at Ironworks", "signed
up at Fitbox" show two that stand in the same frames. Two values are alike when they replaced each other, were
values of one listed attribute, stand among the same words, or are told in similar statements; and unlike when
they stand beside each other in the same sentences, as "cello" and "lesson" do. Values that are alike on average
form a kind.

Sources: Z. Harris, Distributional Structure (1954), for kinds by contexts; average-linkage clustering by chains
of nearest neighbours: F. Murtagh, A Survey of Recent Advances in Hierarchical Clustering Algorithms (1983).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.language.aspect import listed
from memforest.language.phrases import Phrase, Statement, chosen_phrases
from memforest.language.role import role_of
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
    """Values of one kind: the facts (rows) that use them, the words right in front of them, how typical each is.

    `typical` has the mean likeness of each value to the others, at most 1 and aligned with `values`.
    """

    values: tuple[str, ...]
    typical: tuple[float, ...]
    rows: NDArray[np.int64]
    fronts: Mapping[str, float]
    """Word -> share of the values' uses behind it."""


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
    for old, new in replaced:
        _add(alike, place, old, new, REPLACED_WEIGHT)
    for together in attributes:
        known = sorted(together & place.keys())
        for i, old in enumerate(known):
            for new in known[i + 1 :]:
                _add(alike, place, old, new, ATTRIBUTE_WEIGHT)
    pairs = {frozenset(pair) for pair in replaced}
    alike -= BESIDE_WEIGHT * _beside(contexts, place, pairs)
    np.fill_diagonal(alike, 0.0)
    return tuple(
        _kind(values, members, alike, uses, contexts.fronts) for members in _clusters(alike, LEAST_ALIKE)
    )


@dataclass(frozen=True, slots=True)
class Placed:
    """A sentence in which values stand, those values, and the question that it answers."""

    asked: str
    text: str
    phrases: tuple[Phrase, ...]


def placed_in(statement: Statement, wanted: Set[str]) -> list[Placed]:
    """Return the sentences of a statement that name values."""
    return [
        Placed(statement.asked, sentence.text, phrases)
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
    fronts: Mapping[str, Counter[str]] = field(default_factory=dict)
    """Value -> how often each word stands right in front of it, articles and owners left out."""
    spread: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """Word around a value, with its side -> how many values have it in their frames."""

    def changed(self, gone: Sequence[Placed], come: Sequence[Placed], names: Set[str]) -> Contexts:
        """Return the contexts without some sentences and with others.

        Args:
            gone: sentences that were counted.
            come: sentences that were not.
            names: words of people's names, lower case; the same as before.
        """
        delta = _Counts()
        for sentence in gone:
            delta.count(sentence, names, -1)
        for sentence in come:
            delta.count(sentence, names, 1)
        frames = {**self.frames, **{v: _sum(self.frames.get(v, {}), one) for v, one in delta.frames.items()}}
        more: Counter[tuple[str, ...]] = Counter()
        for value, keys in delta.frames.items():
            had: Set[tuple[str, ...]] = self.frames.get(value, Counter()).keys()
            has = frames[value].keys()
            more.update({key: (key in has) - (key in had) for key in keys})
        return Contexts(
            _sum(self.sentences, delta.sentences),
            _sum(self.beside, delta.beside),
            frames,
            {**self.fronts, **{v: _sum(self.fronts.get(v, {}), one) for v, one in delta.fronts.items()}},
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


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts that some sentences add to the contexts, or subtract from them."""

    sentences: Counter[str] = field(default_factory=Counter)
    beside: Counter[tuple[str, str]] = field(default_factory=Counter)
    frames: dict[str, Frame] = field(default_factory=lambda: defaultdict(Counter))
    fronts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, sentence: Placed, names: Set[str], sign: int) -> None:
        """Count a sentence; with -1 for `sign`, take it off."""
        found = sorted({phrase.term for phrase in sentence.phrases})
        for term in found:
            self.sentences[term] += sign
        for pair in combinations(found, 2):
            self.beside[pair] += sign
        asked = [w for w in words(sentence.asked.lower()) if w not in STOP_WORDS]
        for phrase in sentence.phrases:
            frame = self.frames[phrase.term]
            for key, sixths in _frame(sentence.text, phrase, names).items():
                frame[key] += sign * sixths
            for word in {_mask(word, names) for word in asked}:
                frame["asked", word] += sign * 6
            if role := role_of(sentence.text, phrase):
                frame["role", role] += sign * ROLE_SIXTHS
            front = _front(sentence.text, phrase)
            if front is not None:
                self.fronts[phrase.term][front] += sign


def _kind(
    values: Sequence[str],
    members: Sequence[int],
    alike: Matrix,
    uses: Mapping[str, NDArray[np.int64]],
    fronts: Mapping[str, Counter[str]],
) -> Kind:
    inner = alike[np.ix_(members, members)].mean(axis=1)
    typical = inner / max(float(inner.max()), 1e-9)
    counts = sum((fronts[values[i]] for i in members if values[i] in fronts), Counter[str]())
    total = max(sum(counts.values()), 1)
    return Kind(
        tuple(values[i] for i in members),
        tuple(float(share) for share in typical),
        np.flatnonzero(np.bincount(np.concatenate([uses[values[i]] for i in members]))),
        {word: n / total for word, n in counts.items()},
    )


def _add(alike: Matrix, place: Mapping[str, int], one: str, other: str, weight: float) -> None:
    if one in place and other in place and one != other:
        alike[place[one], place[other]] += weight
        alike[place[other], place[one]] += weight


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


def _front(text: str, phrase: Phrase) -> str | None:
    """Return the word in front of a phrase, articles and owners left out."""
    no_front = listed("no_front")
    before = words(text[: phrase.start].lower())
    return next((word for word in reversed(before) if word not in no_front), None)


def _framing(text: str, names: Set[str]) -> list[str]:
    no_frame = listed("no_frame")
    return [_mask(word, names) for word in words(text.lower()) if word not in no_frame]


def _mask(word: str, names: Set[str]) -> str:
    return "§" if word.removesuffix("'s") in names else word
