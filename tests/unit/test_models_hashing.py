"""HashEmbedder: word overlap, exact everywhere."""

import asyncio
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import ConfigError, InputError
from memforest.models import HashEmbedder, Vectors

PINNED = "f67ea3f1f9c6cdcad2ed486d2e717181a8c5dae1bb929de4f220905b892f0b53"


def embed(*texts: str, dimension: int = 64) -> Vectors:
    """Embed with a fresh embedder."""
    return asyncio.run(HashEmbedder(dimension).embed(texts))


@given(st.lists(st.text(), max_size=4), st.sampled_from([1, 2, 64, 200, 1024]))
@settings(max_examples=40, deadline=None)
def test_unit_rows_that_depend_on_the_text_alone(texts: list[str], dimension: int) -> None:
    """Any texts give unit rows, each with the same bytes as when embedded alone."""
    rows = embed(*texts, dimension=dimension)
    assert rows.shape == (len(texts), dimension)
    assert np.allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1, atol=1e-6)
    for text, row in zip(texts, rows, strict=True):
        assert embed(text, dimension=dimension)[0].tobytes() == row.tobytes()


def test_same_bytes_in_every_process() -> None:
    """The bytes are pinned: no seed, platform or process enters into them."""
    rows = embed("Dana bought a red bicycle in Utrecht", "東京に行きました", "", dimension=96)
    assert hashlib.sha256(rows.astype("<f4").tobytes()).hexdigest() == PINNED


@each(
    ("text", "near", "far"),
    [
        ("Ann adopted two cats", "the cat that Ann adopts", "interest rates fell again"),
        ("昨日東京に行きました", "東京に行く", "朝ごはんを食べた"),
        ("мы переехали в Москву", "переезд: мы в Москве", "суп остыл"),
        ("We moved to MÜNCHEN", "münchen it is", "the soup is cold"),
    ],
)
def test_shared_words_are_near(text: str, near: str, far: str) -> None:
    """Texts that share words or, in other scripts, pairs of characters are nearer than others."""
    rows = embed(text, near, far, dimension=256)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1


def test_order_and_case_are_ignored() -> None:
    """Word order and case make no difference."""
    rows = embed("Alpha beta, gamma!", "gamma BETA alpha")
    assert rows[0].tobytes() == rows[1].tobytes()


def test_identity_and_limits() -> None:
    """The model id carries the dimension; a bad dimension or one string is refused."""
    assert HashEmbedder(8).model_id != HashEmbedder(16).model_id
    with pytest.raises(ConfigError):
        HashEmbedder(0)
    with pytest.raises(InputError):
        asyncio.run(HashEmbedder().embed("text"))
