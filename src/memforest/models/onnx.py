"""Runs a sentence encoder or a cross-encoder from an ONNX file that another package carries as data.

The file is found by where its package is installed, without importing the package: nothing of it is
executed. Its bytes are read once, their SHA-256 is compared with the pinned one, and those same bytes are
what the runtime gets, so what was checked is what runs.

One text, or one pair of texts, per run, on a session with one thread. Some int8 models scale their activations by the largest
value in the batch, so a text that shares a run with others gets another vector; here it never does. Several
threads may run one session at once, which is how `LocalEmbedder` uses more than one core.

onnxruntime is imported at the first run, not at import.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.errors import ModelError, WeightsError
from memforest.models.wordpiece import WordPiece

R = TypeVar("R")

_RUNTIME_ERRORS = (
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoModel",
    "NotImplemented",
    "RuntimeException",
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
        _alive.add(self)

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

    def _after_fork_in_child(self) -> None:
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
    """Scores one pair of texts read together. Safe to share between threads; opens its session when first used."""

    def score(self, question: str, text: str) -> float:
        """Return how well a text answers a question: a logit, higher is better; it depends on the pair alone.

        Raises:
            ModelError: if onnxruntime is missing or fails.
            WeightsError: if the weights are missing or not the pinned ones.
        """
        ids, types = _wordpiece().encode_pair(question, text, max_tokens=self.model.max_tokens)
        logits = self._run("logits", ids, types)
        if logits.shape != (1,) or not np.isfinite(logits[0]):
            raise ModelError(f"{self.model.model_id} returned no usable score; shape {logits.shape}")
        return float(logits[0])


def known_share(text: str) -> float:
    """Return which share of a text the vocabulary of the local models has words for; see `WordPiece.known_share`."""
    return _wordpiece().known_share(text)


def shared_encoder(model: OnnxModel) -> OnnxEncoder:
    """Return this process's one encoder of a model, so that its weights are in memory once.

    It is freed when the last user drops it.
    """
    return _share(_encoders, model, OnnxEncoder)


def shared_cross_encoder(model: OnnxModel) -> OnnxCrossEncoder:
    """Return this process's one cross-encoder of a model; see `shared_encoder`."""
    return _share(_cross_encoders, model, OnnxCrossEncoder)


def _share(
    known: weakref.WeakValueDictionary[OnnxModel, R], model: OnnxModel, make: Callable[[OnnxModel], R]
) -> R:
    with _shared_lock:
        runner = known.get(model)
        if runner is None:
            runner = known[model] = make(model)
        return runner


def _open_session(model: OnnxModel) -> Any:
    """Return a quiet, single-threaded session over the checked bytes of a model."""
    data = model.read()
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


@functools.cache
def _wordpiece() -> WordPiece:
    return WordPiece()


@functools.cache
def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions by which onnxruntime reports a failure."""
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    own = (getattr(state, name, None) for name in _RUNTIME_ERRORS)
    return (RuntimeError, ValueError, MemoryError, *(error for error in own if error is not None))


_alive: weakref.WeakSet[_Runner] = weakref.WeakSet()
_encoders: weakref.WeakValueDictionary[OnnxModel, OnnxEncoder] = weakref.WeakValueDictionary()
_cross_encoders: weakref.WeakValueDictionary[OnnxModel, OnnxCrossEncoder] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for runner in list(_alive):
        runner._after_fork_in_child()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork_in_child)
