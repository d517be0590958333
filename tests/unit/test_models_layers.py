"""What is added to the layers of the local cross-encoder, and what its head makes of them."""

import importlib

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest.models import MS_MARCO
from memforest.models.onnx import OnnxCrossEncoder, Tuned, _tuned, _up_to
from memforest.ports import STANDS

LAYER = "bert.encoder.layer.7.attention.output.dense.bias"
QUESTION, TEXT = "Where does Ida live?", "Ida: Got the keys, York is my home now."


def states(tuned: Tuned) -> NDArray[np.float32]:
    """Return the states that the model with some weights makes of a pair."""
    data = _up_to(MS_MARCO.states, MS_MARCO.read(), tuned)
    session = importlib.import_module("onnxruntime").InferenceSession(
        data, providers=["CPUExecutionProvider"]
    )
    ids = np.array([[101, 2073, 102, 2204, 102]], dtype=np.int64)
    inputs = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.array([[0, 0, 0, 1, 1]], dtype=np.int64),
    }
    assert [one.name for one in session.get_outputs()] == [MS_MARCO.states]
    found: NDArray[np.float32] = session.run(None, inputs)[0]
    return found


def test_what_is_added_is_a_product_of_what_the_layer_reads() -> None:
    """Factors of nothing add nothing, and other ones do; each other layer stays."""
    _, stored = _tuned(MS_MARCO)
    factors = {name: one for name, one in stored.items() if name.startswith(f"{LAYER}:")}
    assert sorted(name.split(":")[1] for name in factors) == ["in", "out"]
    plain = states({})
    assert np.array_equal(states({name: 0 * one for name, one in factors.items()}), plain)
    moved = states(factors)
    assert np.abs(moved - plain).max() > 1e-3
    assert np.isfinite(moved).all()


def test_a_bias_is_replaced() -> None:
    """By numbers of its shape; the same model with its own numbers is the same."""
    name = "bert.encoder.layer.7.output.LayerNorm.bias"
    plain, other = states({}), states({name: np.full(384, 3.0, dtype=np.float32)})
    assert other.shape == plain.shape
    assert np.abs(other - plain).max() > 1


@pytest.mark.parametrize(
    ("question", "answer", "seems"),
    [
        (QUESTION, TEXT, "Ida: My sister was in York for the weekend."),
        (
            "Who feeds the cat?",
            "Bo: Milo gives Pixel her breakfast.",
            "Bo: Who feeds the cat while we are away?",
        ),
        (
            "When is the dentist?",
            "Ida: they see me about the crown on 4 March",
            "Ida: The dentist hums all day.",
        ),
    ],
)
def test_an_answer_is_above_what_only_seems_to_be_one(question: str, answer: str, seems: str) -> None:
    """In other words, of somebody else, or only asked."""
    reader = OnnxCrossEncoder(MS_MARCO)
    assert reader.read(question, answer)[0] > reader.read(question, seems)[0] + 1


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("Ida: I live in Leeds, by the canal.", "stands"),
        ("Ida: We got the keys on Friday, so York is my home now.", "changes"),
        ("Ida: What a film, I cried all the way through.", "nothing"),
    ],
)
def test_how_things_stand_is_read(text: str, stands: str) -> None:
    """The likeliest of `STANDS`; the shares are those of one whole."""
    shares = OnnxCrossEncoder(MS_MARCO).read("Where does Ida live?", text)[1:]
    assert STANDS[int(shares.argmax())] == stands
    assert shares.sum() == pytest.approx(1)
