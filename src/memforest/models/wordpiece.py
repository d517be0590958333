"""WordPiece tokenisation as BERT's uncased models expect it, in plain Python.

Both embedding models that memforest can run were trained on ids of this 30,522-entry vocabulary, which
ships with the package as ``data/vocab.txt``. The steps, in this order, are those of the published
algorithm: drop control characters, put spaces around CJK ideographs, decompose and drop accents,
lower-case character by character, split at white space and around punctuation, then cut every word into
the longest pieces the vocabulary knows.

What it does NOT do: a text that spells ``[SEP]`` or ``[MASK]`` gets ordinary pieces, never the special
ids. Transcripts are untrusted, and nothing said in one may steer the model's framing. There is no padding and
no decoding either.

Character classes come from the running Python's Unicode tables. A character those tables do not know yet
is kept and, not being in the vocabulary, makes its word ``[UNK]``; so two Pythons can differ only on
accents and punctuation that one of them does not know.

Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", arXiv:1810.04805, and
Wu et al., "Google's Neural Machine Translation System", arXiv:1609.08144, section 4.1 (WordPiece).
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from importlib import resources
from types import MappingProxyType

from memforest.errors import ConfigError, WeightsError

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Of the shipped ``data/vocab.txt``, the vocabulary of BERT-Base, Uncased."""
VOCABULARY_SIZE = 30_522

_CLS, _SEP, _UNK = "[CLS]", "[SEP]", "[UNK]"
_MAX_WORD_CHARS = 100
"""Longer words become one ``[UNK]``. Source: `max_input_chars_per_word` of the reference tokenizer."""
_CACHED_CHUNK_CHARS = 32
"""Only chunks this short are remembered: words come back, long strings rarely do."""
_CACHED_CHUNKS = 16_384
_SHARE_CHARS = 2_000

_DROPPED = frozenset({"Cc", "Cf", "Co", "Cs"})
"""Control, format, private-use and surrogate characters. Unassigned ones (Cn) stay, see above."""

# A run between characters that are white space in every step below. Such a run can be tokenised by itself.
_CHUNK = re.compile(r"[^ \t\n\r]+")

# The blocks that BERT treats as ideographs; Hangul, kana and Thai are words like any other script.
# Source: `_is_chinese_char` of the reference tokenizer.
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def load_vocabulary() -> Mapping[str, int]:
    """Return the shipped vocabulary, piece -> id, after checking that the file is the pinned one.

    Raises:
        WeightsError: if the file is missing or its SHA-256 is not `VOCABULARY_SHA256`.
    """
    return _read_vocabulary()


@functools.cache
def _read_vocabulary() -> Mapping[str, int]:
    source = resources.files("memforest.data") / "vocab.txt"
    try:
        data = source.read_bytes()
    except OSError as exc:
        raise WeightsError(f"the vocabulary {source} cannot be read ({exc}); reinstall memforest") from exc
    found = hashlib.sha256(data).hexdigest()
    if found != VOCABULARY_SHA256:
        raise WeightsError(
            f"the vocabulary {source} has SHA-256 {found}, not {VOCABULARY_SHA256}; reinstall memforest"
        )
    # Not splitlines(): it would also split at U+2028 and its kin.
    pieces = data.decode("utf-8").removesuffix("\n").split("\n")
    return MappingProxyType({piece: index for index, piece in enumerate(pieces)})


@functools.lru_cache(maxsize=8192)
def _cleaned(char: str) -> str:
    """Return what the cleaning step makes of one character: nothing, a space, or itself (CJK: spaced)."""
    if char == "\ufffd" or unicodedata.category(char) in _DROPPED:
        return ""
    if char.isspace():
        return " "
    code = ord(char)
    if any(low <= code <= high for low, high in _IDEOGRAPHS):
        return f" {char} "
    return char


@functools.lru_cache(maxsize=8192)
def _folded(char: str) -> str:
    """Return one decomposed character lower-cased, spaced if it is punctuation, or nothing for an accent."""
    category = unicodedata.category(char)
    if category == "Mn":
        return ""
    lower = char.lower()
    # ASCII symbols such as "$" and "+" count as punctuation too: every ASCII sign that is not alphanumeric.
    if category.startswith("P") or (char.isascii() and char > " " and not char.isalnum()):
        return f" {lower} "
    return lower


class WordPiece:
    """Turns a text into ids of a WordPiece vocabulary. Immutable; safe to share between threads.

    Args:
        vocabulary: piece -> id, with ``[CLS]``, ``[SEP]`` and ``[UNK]``; the shipped one when left out.

    Raises:
        ConfigError: if a special piece is missing from the vocabulary.
        WeightsError: if the shipped vocabulary cannot be used.
    """

    def __init__(self, vocabulary: Mapping[str, int] | None = None) -> None:
        self._vocabulary = load_vocabulary() if vocabulary is None else vocabulary
        missing = [piece for piece in (_CLS, _SEP, _UNK) if piece not in self._vocabulary]
        if missing:
            raise ConfigError(f"the vocabulary lacks the special pieces {missing!r}")
        self._cls, self._sep, self._unk = (self._vocabulary[piece] for piece in (_CLS, _SEP, _UNK))
        self._short_chunk_letters = functools.lru_cache(maxsize=_CACHED_CHUNKS)(self._chunk_letters)
        self._short_chunk_ids = functools.lru_cache(maxsize=_CACHED_CHUNKS)(self._chunk_ids)

    def encode(self, text: str, *, max_tokens: int) -> list[int]:
        """Return the ids of a text, framed by ``[CLS]`` and ``[SEP]``; the text's end is cut if too long.

        Args:
            text: any string, also an empty one or one with lone surrogates.
            max_tokens: upper bound of the result's length, the frame included; at least 2.

        Example:
            >>> WordPiece().encode("Café, unbelievably!", max_tokens=16)
            [101, 7668, 1010, 4895, 8671, 2666, 3567, 6321, 999, 102]
            >>> WordPiece().encode("", max_tokens=16)
            [101, 102]
        """
        if max_tokens < 2:
            raise ConfigError(f"max_tokens must be at least 2, got {max_tokens!r}")
        return [self._cls, *self._first_ids(text, max_tokens - 2), self._sep]

    def encode_pair(self, first: str, second: str, *, max_tokens: int) -> tuple[list[int], list[int]]:
        """Return the ids of two texts in one frame, ``[CLS] first [SEP] second [SEP]``, and each id's type.

        The type is 0 up to the first ``[SEP]`` and 1 behind it. When both do not fit, the longer one is cut at its
        end; both, to equal halves, when each has more than half of the room.

        Args:
            first: any string, e.g. a question.
            second: any string, e.g. a passage.
            max_tokens: upper bound of the result's length, the frame included; at least 3.

        Example:
            >>> WordPiece().encode_pair("Café?", "unbelievably", max_tokens=16)
            ([101, 7668, 1029, 102, 4895, 8671, 2666, 3567, 6321, 102], [0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
        """
        if max_tokens < 3:
            raise ConfigError(f"max_tokens must be at least 3 for a pair, got {max_tokens!r}")
        room = max_tokens - 3
        one, two = self._first_ids(first, room), self._first_ids(second, room)
        half = room // 2
        if len(one) + len(two) > room:
            of_one = max(half, room - len(two)) if len(one) > half else len(one)
            one, two = one[:of_one], two[: room - of_one]
        ids = [self._cls, *one, self._sep, *two, self._sep]
        return ids, [0] * (len(one) + 2) + [1] * (len(two) + 1)

    def known_share(self, text: str) -> float:
        """Return which share of a text's letters stand in words that are no ``[UNK]``; 1.0 if it has no letters.

        Of Chinese that is every third or fourth character. Cyrillic and Arabic words are spelled letter by letter and count as
        known: what comes of it tells little of their meaning, but of their form, and measured better with than without. Of a long
        text the first 2,000 characters are read.

        Example:
            >>> WordPiece().known_share("unbelievably good"), WordPiece().known_share("我住在台北")
            (1.0, 0.4)
        """
        if text.isascii():
            return 1.0
        letters = known = 0
        for match in _CHUNK.finditer(text[:_SHARE_CHARS]):
            chunk = match.group()
            count = self._short_chunk_letters if len(chunk) <= _CACHED_CHUNK_CHARS else self._chunk_letters
            here, of_them = count(chunk)
            letters, known = letters + here, known + of_them
        return known / letters if letters else 1.0

    def _chunk_letters(self, chunk: str) -> tuple[int, int]:
        """Return how many letters a chunk has, and how many of them stand in words that are known."""
        letters = known = 0
        for word in self._words(chunk):
            if any(map(str.isalpha, word)):
                letters += len(word)
                known += 0 if self._unk in self._word_ids(word) else len(word)
        return letters, known

    def _first_ids(self, text: str, room: int) -> list[int]:
        """Return the first `room` ids of a text, chunk by chunk: a huge text costs no more than what fits."""
        ids: list[int] = []
        for match in _CHUNK.finditer(text):
            if len(ids) >= room:
                break
            chunk = match.group()
            cut = self._short_chunk_ids if len(chunk) <= _CACHED_CHUNK_CHARS else self._chunk_ids
            ids.extend(cut(chunk))
        return ids[:room]

    def _chunk_ids(self, chunk: str) -> tuple[int, ...]:
        return tuple(index for word in self._words(chunk) for index in self._word_ids(word))

    @staticmethod
    def _words(chunk: str) -> list[str]:
        """Return the words and signs of a chunk, folded."""
        spaced = "".join(map(_cleaned, chunk))
        return "".join(map(_folded, unicodedata.normalize("NFD", spaced))).split()

    def _word_ids(self, word: str) -> Iterator[int]:
        """Yield the ids of the longest known pieces from left to right, or one ``[UNK]`` for the word."""
        if len(word) > _MAX_WORD_CHARS:
            return iter((self._unk,))
        ids: list[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            while end > start:
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self._vocabulary:
                    break
                end -= 1
            else:
                # One unknown character makes the whole word unknown.
                return iter((self._unk,))
            ids.append(self._vocabulary[piece])
            start = end
        return iter(ids)
