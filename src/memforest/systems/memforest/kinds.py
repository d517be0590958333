"""Which of a memory's values are of one kind, so that one takes the other's place.

"Dropped the oolong for the sencha" says that two things take each other's place, and "trains at Ironworks", "signed
up at Fitbox" show two that stand in the same frames. Two values are alike when they replaced each other, were
values of one listed attribute, stand among the same words, or are told in similar statements; and unlike when
they stand beside each other in the same sentences, as "cello" and "lesson" do. Values that are alike on average
form a kind.

Sources: Z. Harris, Distributional Structure (1954), for kinds by contexts; average-linkage clustering by chains
of nearest neighbours: F. Murtagh, A Survey of Recent Advances in Hierarchical Clustering Algorithms (1983).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.steps.local.aspect import listed
from memforest.steps.local.phrases import Phrase, Statement, chosen_phrases
from memforest.text import STOP_WORDS

__all__ = ["Kind", "find_kinds"]

Matrix = NDArray[np.float64]

FRAME_WEIGHT, REPLACED_WEIGHT, ATTRIBUTE_WEIGHT, BESIDE_WEIGHT = 2.0, 1.5, 1.0, 1.0
"""Weights of shared frames, of having replaced each other, of a shared attribute, and (against) of standing
beside each other; the cosine of the statements has weight 1."""
LEAST_ALIKE = 0.3
"""Least mean likeness of two groups that are joined. Chosen on generated worlds, where groups of .2 mix kinds
and groups of .5 split them; .3 kept 94 of 100 pairs of one kind together and mixed 2 of 100."""
WINDOW = 3
"""Words on either side that are a value's frame."""

_FRAME_WORD = re.compile(r"[\w']+")


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
    statements: Sequence[Statement],
    values: Sequence[str],
    uses: Mapping[str, NDArray[np.int64]],
    vectors: NDArray[np.float32],
    names: Set[str],
    replaced: Collection[tuple[str, str]],
    attributes: Iterable[Set[str]],
) -> tuple[Kind, ...]:
    """Return the kinds of some values; every value is of exactly one.

    Args:
        statements: of the memory, m of them.
        values: n of them.
        uses: value -> rows of the statements that use it.
        vectors: of the statements, shape (m, d); d may be 0.
        names: words of people's names, lower case.
        replaced: (old, new) pairs of values.
        attributes: the values known of each listed attribute.
    """
    if not values:
        return ()
    placed = _placed(statements, frozenset(values))
    alike = _likeness(placed, values, uses, vectors, names)
    place = {value: i for i, value in enumerate(values)}
    for old, new in replaced:
        _add(alike, place, old, new, REPLACED_WEIGHT)
    for together in attributes:
        known = sorted(together & place.keys())
        for i, old in enumerate(known):
            for new in known[i + 1 :]:
                _add(alike, place, old, new, ATTRIBUTE_WEIGHT)
    pairs = {frozenset(pair) for pair in replaced}
    alike -= BESIDE_WEIGHT * _beside(placed, place, pairs)
    np.fill_diagonal(alike, 0.0)
    fronts = _fronts(placed)
    return tuple(_kind(values, members, alike, uses, fronts) for members in _clusters(alike, LEAST_ALIKE))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A sentence in which values stand, those values, and the question that it answers."""

    asked: str
    text: str
    phrases: tuple[Phrase, ...]


def _placed(statements: Sequence[Statement], wanted: Set[str]) -> list[_Placed]:
    """Return the sentences that name values; finding them is most of the work, so it is done once."""
    return [
        _Placed(statement.asked, sentence.text, phrases)
        for statement in statements
        for sentence in statement.sentences
        if (phrases := tuple(chosen_phrases(sentence, wanted)))
    ]


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
        np.unique(np.concatenate([uses[values[i]] for i in members])),
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


def _beside(placed: Sequence[_Placed], place: Mapping[str, int], pairs: Set[frozenset[str]]) -> Matrix:
    """Return in which share of its sentences the rarer of two values stands beside the other, shape (n, n).

    A sentence that tells a replacement has two values of one kind, and does not count.
    """
    counts = np.zeros(len(place))
    both = np.zeros((len(place), len(place)))
    for sentence in placed:
        found = sorted({phrase.term for phrase in sentence.phrases})
        for one in found:
            counts[place[one]] += 1
            for other in found:
                if one != other and frozenset((one, other)) not in pairs:
                    both[place[one], place[other]] += 1
    rarer = np.minimum(counts[:, None], counts[None, :])
    return np.asarray(both / np.maximum(rarer, 1.0), dtype=np.float64)


def _likeness(
    placed: Sequence[_Placed],
    values: Sequence[str],
    uses: Mapping[str, NDArray[np.int64]],
    vectors: NDArray[np.float32],
    names: Set[str],
) -> Matrix:
    """Return how alike the statements about two values are: cosine of their means, and shared frames."""
    frames = _frames(placed, values, names)
    alike = FRAME_WEIGHT * (frames @ frames.T)
    if vectors.ndim == 2 and vectors.shape[1]:
        centred = vectors - vectors.mean(axis=0)
        profile = np.array([centred[uses[value]].mean(axis=0) for value in values], dtype=np.float64)
        profile /= np.maximum(np.linalg.norm(profile, axis=1, keepdims=True), 1e-9)
        alike = alike + profile @ profile.T
    return np.asarray(alike, dtype=np.float64)


def _frames(placed: Sequence[_Placed], values: Sequence[str], names: Set[str]) -> Matrix:
    """Return the words around each value, weighted by how few values they stand beside; unit rows."""
    found: dict[str, Counter[tuple[str, ...]]] = {value: Counter() for value in values}
    for sentence in placed:
        asked = [w for w in _FRAME_WORD.findall(sentence.asked.lower()) if w not in STOP_WORDS]
        for term, frame in _sentence_frames(sentence, names):
            found[term].update(frame)
            found[term].update({("asked", _mask(word, names)): 1 for word in asked})
    spread = Counter(key for frame in found.values() for key in frame)
    column = {key: i for i, key in enumerate(k for k, n in spread.items() if n > 1)}
    out = np.zeros((len(values), max(len(column), 1)))
    for row, value in enumerate(values):
        for key, n in found[value].items():
            if key in column:
                out[row, column[key]] = np.log1p(n) * np.log(len(values) / spread[key])
    norms = np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
    return np.asarray(out / norms, dtype=np.float64)


def _sentence_frames(
    sentence: _Placed, names: Set[str]
) -> Iterable[tuple[str, dict[tuple[str, ...], float]]]:
    """Yield (value, its frame in this sentence): words by side and distance."""
    for phrase in sentence.phrases:
        left = _framing(sentence.text[: phrase.start], names)[-WINDOW:][::-1]
        right = _framing(sentence.text[phrase.end :], names)[:WINDOW]
        frame: dict[tuple[str, ...], float] = defaultdict(float)
        for side, words in (("left", left), ("right", right)):
            for distance, word in enumerate(words):
                frame[side, word] += 1 / (1 + distance / 2)
            if words:
                frame[side, "next", words[0]] += 1.0
        if len(left) > 1:
            frame["left", left[1], left[0]] += 1.5
        yield phrase.term, frame


def _framing(text: str, names: Set[str]) -> list[str]:
    no_frame = listed("no_frame")
    return [_mask(word, names) for word in _FRAME_WORD.findall(text.lower()) if word not in no_frame]


def _mask(word: str, names: Set[str]) -> str:
    return "§" if word.removesuffix("'s") in names else word


def _fronts(placed: Sequence[_Placed]) -> dict[str, Counter[str]]:
    """Return value -> how often each word stands right in front of it, articles and owners left out."""
    no_front = listed("no_front")
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in placed:
        for phrase in sentence.phrases:
            words = _FRAME_WORD.findall(sentence.text[: phrase.start].lower())
            front = next((word for word in reversed(words) if word not in no_front), None)
            if front is not None:
                found[phrase.term][front] += 1
    return found
