"""Runs a sentence encoder or a cross-encoder from an ONNX file that another package carries as data.

The file is found by where its package is installed, without importing the package: nothing of it is
executed. Its bytes are read once, their SHA-256 is compared with the pinned one, and those same bytes are
what the runtime gets, so what was checked is what runs.

One text, or one pair of texts, per run, on a session with one thread. Some int8 models scale their activations by the largest
value in the batch, so a text that shares a run with others gets another vector; here it never does. Several
threads may run one session at once, which is how `LocalEmbedder` uses more than one core.

onnxruntime is imported at the first run, not at import.


WordPiece tokenisation as BERT's uncased models expect it, in plain Python.

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
import importlib
import importlib.util
import re
import threading
import unicodedata
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.concurrency import begins_anew_in_child
from memforest.errors import ConfigError, ModelError, WeightsError

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Of the shipped ``data/vocab.txt``, the vocabulary of BERT-Base, Uncased."""

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


@functools.cache
def load_vocabulary() -> Mapping[str, int]:
    """Return the shipped vocabulary, piece -> id, after checking that the file is the pinned one.

    Raises:
        WeightsError: if the file is missing or its SHA-256 is not `VOCABULARY_SHA256`.
    """
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


R = TypeVar("R", bound="_Runner")

_RUNTIME_ERRORS = (
    *("EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph"),
    *("InvalidProtobuf", "NoModel", "NotImplemented", "RuntimeException"),
)
"""Names of onnxruntime's own exceptions; they have no common base below Exception."""
_LOG_ERRORS_ONLY = 3


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """Where the weights of one model come from, what they must be, and how to read its output."""

    name: str
    """Short name, e.g. ``"minilm-l6-v2-int8"``."""
    package: str
    """Top-level import name of the package that carries the file. It is looked up, never imported."""
    file: str
    """Path inside the package, with forward slashes."""
    sha256: str
    """Of the whole file, lower-case hex."""
    dimension: int
    """Numbers per text; 1 for a cross-encoder, which gives one per pair."""
    max_tokens: int
    """Longer texts are cut at their end; includes the framing tokens."""
    pooling: Literal["mean", "cls", "logit"]
    """How token states become one vector: their mean, or the first one. A cross-encoder's output is its logit."""
    fix: str
    """The command that installs the weights."""
    licence: str
    states: str = ""
    """The output of an inner layer that a cross-encoder's head reads (`memforest/data/pairs-….npz`)."""

    @property
    def model_id(self) -> str:
        """Name and weights: vectors compare only if this is equal, e.g. ``"minilm-l6-v2-int8@8199be6f"``."""
        return f"{self.name}@{self.sha256[:8]}"

    def find(self) -> Path | None:
        """Return the path of the installed weights, or None. Reads and imports nothing."""
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError):
            return None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            path = Path(folder, *self.file.split("/"))
            if path.is_file():
                return path
        return None

    def read(self) -> bytes:
        """Return the checked bytes of the weights.

        Raises:
            WeightsError: if the file is missing, cannot be read, or has another SHA-256.
        """
        path = self.find()
        if path is None:
            raise WeightsError(
                f"the weights of {self.name} ({self.package}/{self.file}) are not installed: {self.fix}"
            )
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise WeightsError(f"the weights {path} cannot be read ({exc}): {self.fix}") from exc
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise WeightsError(
                f"the weights {path} have SHA-256 {found}, but {self.model_id} is {self.sha256}; "
                f"reinstall them: {self.fix}"
            )
        return data


class _Runner:
    """One model's session. Safe to share between threads; opens its session when first used.

    A forked child opens a session of its own, whatever the parent's threads were doing at the fork.

    Args:
        model: the weights to run.
    """

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self._lock = threading.Lock()
        self._session: Any = None
        self._inherited: Any = None
        begins_anew_in_child(self)

    def _run(self, output: str, ids: Sequence[int], types: Sequence[int]) -> NDArray[np.float32]:
        """Return one output for one text or pair: every token is real, there is no padding."""
        session = self._open()
        row = np.array([ids], dtype=np.int64)
        inputs = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.array([types], dtype=np.int64),
        }
        try:
            (found,) = session.run([output], inputs)
        except _runtime_errors() as exc:
            raise ModelError(f"{self.model.model_id} failed on a text of {row.size} tokens: {exc}") from exc
        only: NDArray[np.float32] = found[0]
        return only

    def _open(self) -> Any:
        with self._lock:
            if self._session is None:
                self._session = _open_session(self.model)
            return self._session

    def after_fork_in_child(self) -> None:
        """Open another session at the next run."""
        # The lock may be held by a thread that does not exist here. The old session is kept, not destroyed:
        # a lock inside it may be held in the same way.
        self._lock = threading.Lock()
        self._inherited, self._session = self._session, None


class OnnxEncoder(_Runner):
    """Maps one text to one unit vector. Safe to share between threads; opens its session when first used."""

    def encode(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of a text, float32 of shape (dimension,); it depends on the text alone.

        Raises:
            ModelError: if onnxruntime is missing or fails.
            WeightsError: if the weights are missing or not the pinned ones.
        """
        ids = _wordpiece().encode(text, max_tokens=self.model.max_tokens)
        states = self._run("last_hidden_state", ids, [0] * len(ids))
        # Every token is real (one text, no padding), so the masked mean is the plain mean.
        pooled = states.mean(axis=0) if self.model.pooling == "mean" else states[0]
        length = float(np.linalg.norm(pooled))
        if pooled.shape != (self.model.dimension,) or not np.isfinite(length) or length == 0.0:
            raise ModelError(f"{self.model.model_id} returned no usable vector; shape {pooled.shape}")
        unit: NDArray[np.float32] = (pooled / np.float32(length)).astype(np.float32, copy=False)
        return unit


class OnnxCrossEncoder(_Runner):
    """Scores one pair of texts read together. Safe to share between threads; opens its session when first used.

    What it says comes of the states of an inner layer, by linear heads that `scripts/train_layers.py` fits: whether the text
    answers the question, and does not only tell of the same things; and how what is asked about stands by it. The last layers of such
    models know less of that.
    """

    def read(self, question: str, text: str) -> NDArray[np.float64]:
        """Return how well a text answers a question, a logit, and how likely each of `STANDS` is, shape (1 + 7,); by the pair alone.

        Raises:
            ModelError: if onnxruntime is missing or fails.
            WeightsError: if the weights are missing or not the pinned ones.
        """
        heads, _ = _tuned(self.model)
        logit, *stands = heads[:, :-1] @ self.states(question, text) + heads[:, -1]
        if not np.isfinite([logit, *stands]).all():
            raise ModelError(f"{self.model.model_id} returned no usable score: {logit}")
        shares = np.exp(np.array(stands) - max(stands))
        made: NDArray[np.float64] = np.r_[logit, shares / shares.sum()]
        return made

    def states(self, question: str, text: str) -> NDArray[np.float64]:
        """Return what the head reads of a pair: the first state, the mean of the question's, and that of the text's; shape (3 d,)."""
        ids, types = _wordpiece().encode_pair(question, text, max_tokens=self.model.max_tokens)
        states, second = self._run(self.model.states, ids, types), np.array(types, dtype=np.bool_)
        read = np.concatenate([states[0], states[~second].mean(axis=0), states[second].mean(axis=0)])
        return read.astype(np.float64)


@functools.cache
def _tuned(model: OnnxModel) -> tuple[NDArray[np.float64], Tuned]:
    """Return the weights of a cross-encoder's heads, each with its bias last, shape (1 + 7, 3 d + 1), and those that change its layers."""
    path = resources.files("memforest.data") / f"pairs-{model.name}-{model.sha256[:8]}.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        kept = {name: stored[name].astype(np.float32) for name in stored.files}
    return kept.pop("heads").astype(np.float64), kept


def known_share(text: str) -> float:
    """Return which share of a text the vocabulary of the local models has words for; see `WordPiece.known_share`."""
    return _wordpiece().known_share(text)


def shared_encoder(model: OnnxModel) -> OnnxEncoder:
    """Return this process's one encoder of a model, so that its weights are in memory once.

    It is freed when the last user drops it.
    """
    return _shared.of(OnnxEncoder, model)


def shared_cross_encoder(model: OnnxModel) -> OnnxCrossEncoder:
    """Return this process's one cross-encoder of a model; see `shared_encoder`."""
    return _shared.of(OnnxCrossEncoder, model)


class _Shared:
    """The runners of this process: one of a kind and a model."""

    def __init__(self) -> None:
        self._runners: weakref.WeakValueDictionary[tuple[type, OnnxModel], Any] = (
            weakref.WeakValueDictionary()
        )
        self.after_fork_in_child()
        begins_anew_in_child(self)

    def of(self, kind: type[R], model: OnnxModel) -> R:
        with self._lock:
            runner: R | None = self._runners.get((kind, model))
            if runner is None:
                runner = self._runners[kind, model] = kind(model)
            return runner

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


_shared = _Shared()


def _open_session(model: OnnxModel) -> Any:
    """Return a quiet, single-threaded session over the checked bytes of a model."""
    data = model.read()
    if model.states:
        data = _up_to(model.states, data, _tuned(model)[1])
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError as exc:
        raise ModelError(f"onnxruntime cannot be imported ({exc}): pip install onnxruntime") from exc
    # Some builds report usage to their maker; memforest promises that nothing leaves the machine.
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    try:
        return runtime.InferenceSession(data, sess_options=options, providers=["CPUExecutionProvider"])
    except _runtime_errors() as exc:
        raise ModelError(f"onnxruntime {runtime.__version__} cannot load {model.model_id}: {exc}") from exc


Tuned = Mapping[str, NDArray[np.float32]]
"""What is changed in a model: the name of a bias or a norm -> its numbers, shape (n,); and that of a linear layer's bias and of what the layer
reads, with ``:in:`` and ``:out:`` between them -> the factors, (m, r) and (r, n), of what is added to the layer (LoRA, arXiv 2106.09685)."""


def _up_to(output: str, data: bytes, tuned: Tuned) -> bytes:
    """Return an ONNX model whose one output is an inner value, with other weights: nothing that is computed after it is left.

    Field 7 of a model is its graph, and of that 1 are the nodes, each behind those it needs, 5 the weights and 12 the outputs; of a
    node 1 are the inputs, 2 the outputs and 4 the kind, and 8 and 9 of a weight its name and numbers
    (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
    """
    model, graph, made = bytearray(), bytearray(), False
    beside = dict(name.encode().split(b":in:") for name in tuned if ":in:" in name)
    for field, start, body, end in _fields(data, 0, len(data)):
        if field != 7:
            model += data[start:end]
            continue
        for part, first, inner, last in _fields(data, body, end):
            if part == 5:
                kept = [(key, data[f:to], data[at:to]) for key, f, at, to in _fields(data, inner, last)]
                name = next(value.decode() for key, _, value in kept if key == 8)
                whole = b"".join(raw for key, raw, _ in kept if key != 9 or name not in tuned)
                graph += _message(5, whole + (_raw(tuned[name]) if name in tuned else b""))
            elif part == 1 and not made:
                node = [(key, data[f:to], data[at:to]) for key, f, at, to in _fields(data, inner, last)]
                graph += _with_beside(node, beside)
                made = any(key == 2 and value == output.encode() for key, _, value in node)
            elif part not in (1, 12):
                graph += data[first:last]
    for name, factor in tuned.items():
        if ":" in name:
            sizes = b"".join(_message(1, _number(one)) for one in factor.shape)
            graph += _message(5, sizes + b"\x10\x01" + _message(8, name.encode()) + _raw(factor))
    graph += _message(12, _message(1, output.encode()))
    return bytes(model) + _message(7, bytes(graph))


def _with_beside(node: Sequence[tuple[int, bytes, bytes]], beside: Mapping[bytes, bytes]) -> bytes:
    """Return a node; behind one that adds the bias of a layer that is added to, three that add the low-rank part.

    `beside` has, by the name of the bias, that of what the layer reads.
    """
    bias = next((value for key, _, value in node if key == 1 and value in beside), None)
    if bias is None:
        return _message(1, b"".join(raw for _, raw, _ in node))
    read, whole = beside[bias], next(value for key, _, value in node if key == 2)
    plain, low, high = (bias + end for end in (b":plain", b":low", b":high"))
    into, out = (b"%b:%b:%b" % (bias, way, read) for way in (b"in", b"out"))
    made = _message(1, b"".join(_message(2, plain) if key == 2 else raw for key, raw, _ in node))
    for kind, x, y, z in (
        (b"MatMul", read, into, low),
        (b"MatMul", low, out, high),
        (b"Add", plain, high, whole),
    ):
        made += _message(1, _message(1, x) + _message(1, y) + _message(2, z) + _message(4, kind))
    return made


def _raw(numbers: NDArray[np.float32]) -> bytes:
    """Return the field of a weight that has its numbers."""
    return _message(9, numbers.astype("<f4").tobytes())


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field of a message of protocol buffers, where it and its value begin, and where it ends.

    Source of the encoding: https://protobuf.dev/programming-guides/encoding/
    """
    at = start
    while at < end:
        first = at
        key, at = _varint(data, at)
        value, body = _varint(data, at) if key & 7 in (0, 2) else (0, at)
        body, at = (at, body) if key & 7 == 0 else (body, body + {1: 8, 2: value, 5: 4}[key & 7])
        yield key >> 3, first, body, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number that is written in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def _number(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _message(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes."""
    return bytes([field << 3 | 2]) + _number(len(content)) + content


@functools.cache
def _wordpiece() -> WordPiece:
    return WordPiece()


@functools.cache
def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions by which onnxruntime reports a failure."""
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    own = (getattr(state, name, None) for name in _RUNTIME_ERRORS)
    return (RuntimeError, ValueError, MemoryError, *(error for error in own if error is not None))
