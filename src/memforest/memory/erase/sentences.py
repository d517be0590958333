"""Which sentences of a turn a statement was made from, and the turn without them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from memforest.language.sentences import Piece, split_sentences
from memforest.text import STOP_WORDS, entity_key, fold, lexical_tokens, words

RUN = 4
"""Words in a row that two texts do not share by chance."""
LEAST_REPEATED = 3
"""Words of a sentence that is told by its words."""
MOST_NAME_WORDS = 3
"""Words that a name may have beside those of its key: an article, a title, a genitive."""


def content_words(*texts: str) -> frozenset[str]:
    """Return the words of texts by which one could be recognised: their lexical tokens, and the words that are no stop words."""
    found: set[str] = set()
    for text in texts:
        found.update(lexical_tokens(text))
        found.update(word for word in map(fold, words(text)) if word not in STOP_WORDS)
    return frozenset(found)


def word_runs(text: str) -> frozenset[str]:
    """Return the runs of `RUN` words of a text, folded, by which a copy of it could be recognised; of a shorter one, itself."""
    said = fold(text).split()
    if len(said) <= RUN:
        return frozenset({" ".join(said)} if len(said) > 1 else ())
    return frozenset(" ".join(said[at : at + RUN]) for at in range(len(said) - RUN + 1))


def repeated(text: str, said: str) -> bool:
    """Return whether a text has a sentence of three words or more of what was said, word for word.

    Example:
        >>> repeated('Ana, asked "Do you like it?": Yes.', "Hello! Do you like it?")
        True
    """
    spelt = " ".join(words(fold(text)))
    own = (words(fold(one.text)) for one in split_sentences(said))
    return any(len(one) >= LEAST_REPEATED and " ".join(one) in spelt for one in own)


def quoted(text: str, quote: str) -> list[Piece]:
    """Return the sentences of a turn in which words of a quote stand; none if it quotes nothing of the turn.

    A quote may leave something out: then its parts are looked for, sentence by sentence and line by line.

    Example:
        >>> [one.text for one in quoted("I moved. I bought a car, red. Bye!", "I bought  a car")]
        ['I bought a car, red.']
    """
    pieces = split_sentences(text)
    spans = _spans(text, quote)
    if not spans:
        for part in re.split(r"…|\.\.\.|\n", quote):
            for piece in split_sentences(part):
                spans += _spans(text, piece.text)
    return [one for one in pieces if any(start < one.end and end > one.start for start, end in spans)]


def _spans(text: str, quote: str) -> list[tuple[int, int]]:
    """Return where a quote stands in a text, however white space and case are written."""
    said = quote.split()
    if not any(ch.isalnum() for ch in quote):
        return []
    pattern = r"\s+".join(re.escape(word) for word in said)
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def sharing(text: str, said: Collection[str]) -> list[Piece]:
    """Return the sentences of a turn that hold one of some content words."""
    return [one for one in split_sentences(text) if not content_words(one.text).isdisjoint(said)]


def names(text: str, keys: Collection[str]) -> list[Piece]:
    """Return the sentences of a turn that name an entity by one of its keys.

    Example:
        >>> [one.text for one in names("I met Dr. José García. He ran.", {"jose garcia"})]
        ['I met Dr. José García.']
    """
    longest = max((len(key.split()) for key in keys), default=0) + MOST_NAME_WORDS
    return [one for one in split_sentences(text) if _is_named(one.text, keys, longest)]


def spelled(text: str, key: str) -> str | None:
    """Return how a text spells the name of a key; None when it does not name it.

    Example:
        >>> spelled("She lives in The Hague.", "hague")
        'Hague'
    """
    said = words(text)
    for size in range(1, len(key.split()) + MOST_NAME_WORDS):
        for at in range(len(said) - size + 1):
            name = " ".join(said[at : at + size])
            if entity_key(name) == key:
                return name
    return None


def _is_named(text: str, keys: Collection[str], longest: int) -> bool:
    said = words(text)
    if any(entity_key(word) in keys for word in said) or entity_key(text) in keys:
        return True
    windows = (
        " ".join(said[at : at + size]) for size in range(2, longest + 1) for at in range(len(said) - size + 1)
    )
    if any(entity_key(one) in keys for one in windows):
        return True
    # Scripts without spaces: a name is a part of a run.
    folded = fold(text)
    return any(key in folded for key in keys if not key.isascii())


def without(text: str, pieces: Iterable[Piece]) -> str | None:
    """Return a text without some of its sentences; None when no letter or digit is left of it.

    Example:
        >>> text = "I moved. I bought a car. Bye!"
        >>> without(text, quoted(text, "I bought a car."))
        'I moved. Bye!'
    """
    kept, at = [], 0
    for piece in sorted(set(pieces), key=lambda one: one.start):
        kept.append(text[at : piece.start].strip())
        at = piece.end
    whole = " ".join(part for part in (*kept, text[at:].strip()) if part)
    return whole if any(ch.isalnum() for ch in whole) else None
