"""CallableEmbedder: any function, sync or async, checked and scaled."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.table import each

from memforest.errors import ConfigError, InputError, ModelError
from memforest.models import CallableEmbedder


def lengths(texts: list[str]) -> list[list[float]]:
    """Return a row per text that can be checked by eye."""
    return [[3.0 * len(text), 4.0 * len(text)] for text in texts]


async def async_lengths(texts: list[str]) -> list[list[float]]:
    """Do the same as a coroutine."""
    await asyncio.sleep(0)
    return lengths(texts)


class AsyncCaller:
    """An object whose call is a coroutine."""

    async def __call__(self, texts: list[str]) -> np.ndarray[Any, Any]:
        """Return an array of float16."""
        return np.array(lengths(texts), dtype=np.float16)


def embed(fn: Any, texts: Sequence[str], **settings: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Embed with a fresh wrapper."""
    return asyncio.run(CallableEmbedder(fn, model_id="mine@1", **settings).embed(texts))


@each(
    "fn",
    [
        lengths,
        async_lengths,
        AsyncCaller(),
        lambda texts: async_lengths(texts),
        lambda t: np.array(lengths(t)),
    ],
)
def test_kinds_of_functions(fn: Any) -> None:
    """Functions, coroutine functions and callable objects all work, and rows come out at unit length."""
    rows = embed(fn, ["a", "bbb"])
    assert rows.dtype == np.float32
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]] * 2


def test_dimension_is_learnt() -> None:
    """The dimension is 0 until the first reply, and held to afterwards."""
    replies = iter([[[1.0, 2.0, 2.0]], [[1.0, 0.0]]])
    embedder = CallableEmbedder(lambda texts: next(replies), model_id="mine@1")
    assert embedder.dimension == 0
    assert asyncio.run(embedder.embed([])).shape == (0, 0)
    asyncio.run(embedder.embed(["x"]))
    assert embedder.dimension == 3
    assert asyncio.run(embedder.embed([])).shape == (0, 3)
    with pytest.raises(ModelError):
        asyncio.run(embedder.embed(["y"]))


@each(
    ("reply", "complaint"),
    [
        ([1.0, 2.0], "shape"),
        ([[1.0], [2.0], [3.0]], "shape"),
        ([[], []], "shape"),
        ([[1.0, 2.0], [3.0]], "not a matrix"),
        ([["a"], ["b"]], "real numbers"),
        ([[1j], [2j]], "real numbers"),
        (None, "real numbers"),
        ([[1.0, 0.0], [0.0, 0.0]], "zeros for text 1 of 2"),
        ([[float("nan"), 1.0], [1.0, 1.0]], "not finite for text 0 of 2"),
        ([[1.0, 1.0], [1.0, float("inf")]], "not finite for text 1 of 2"),
    ],
)
def test_bad_replies(reply: Any, complaint: str) -> None:
    """Every kind of unusable reply is named, with the model and the text."""
    with pytest.raises(ModelError, match=complaint) as caught:
        embed(lambda texts: reply, ["a", "b"])
    assert "'mine@1'" in str(caught.value)


@each("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_extreme_lengths(scale: float) -> None:
    """Very short and very long rows come out at unit length too."""
    rows = embed(lambda texts: [[3 * scale, -4 * scale]], ["a"])
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(-0.8)]]


def test_declared_dimension() -> None:
    """A reply that differs from the declared dimension is refused at once."""
    with pytest.raises(ModelError):
        embed(lengths, ["a"], dimension=5)


def test_failure_of_the_function() -> None:
    """Whatever the function raises becomes a ModelError with the original as its cause."""

    def broken(texts: list[str]) -> None:
        raise KeyError("token")

    with pytest.raises(ModelError, match="KeyError") as caught:
        embed(broken, ["a"])
    assert isinstance(caught.value.__cause__, KeyError)


def test_batches() -> None:
    """No call exceeds the batch size, and rows stay in order across calls."""
    sizes = []

    def fn(texts: list[str]) -> list[list[float]]:
        sizes.append(len(texts))
        return [[1.0, float(text)] for text in texts]

    rows = embed(fn, [str(number) for number in range(7)], batch_size=3)
    assert sizes == [3, 3, 1]
    assert [round(float(row[1] / row[0])) for row in rows] == list(range(7))


def test_blocking_function_runs_off_the_loop() -> None:
    """A blocking function runs in another thread than the loop."""
    seen: list[int] = []

    def fn(texts: list[str]) -> list[list[float]]:
        seen.append(threading.get_ident())
        time.sleep(0.01)
        return lengths(texts)

    embed(fn, ["a"])
    assert seen != [threading.get_ident()]


def test_refuses_bad_settings_and_texts() -> None:
    """What cannot work is refused when the embedder is made or before the function is called."""
    for settings in ({"model_id": ""}, {"model_id": "m", "dimension": 0}, {"model_id": "m", "batch_size": 0}):
        with pytest.raises(ConfigError):
            CallableEmbedder(lengths, **settings)
    with pytest.raises(ConfigError, match="callable"):
        CallableEmbedder("nope", model_id="m")  # type: ignore[arg-type]
    with pytest.raises(InputError):
        embed(lengths, "one string")
