"""Which embedders there are, which are installed, and how each is opened."""

import asyncio

import pytest

from memforest.errors import ConfigError, EmbedderMismatchError
from memforest.models import (
    BGE_SMALL,
    MINILM,
    HashEmbedder,
    LocalEmbedder,
    available,
    best_installed,
    open_embedder,
)


def test_available_lists_all_best_first() -> None:
    """Every known embedder is listed; each is installed with a path, or has a problem and a fix."""
    statuses = available()
    assert [status.model_id for status in statuses] == [
        "bge-small-en-v1.5-int8@68807e3f",
        "minilm-l6-v2-int8@8199be6f",
    ]
    for status in statuses:
        assert status.installed == (status.path is not None)
        assert status.installed or status.fix in status.problem
        assert status.fix.startswith("pip install ")
        assert status.dimension == 384


def test_verify_reads_the_files() -> None:
    """Checking the checksums finds nothing wrong with what is installed."""
    assert all(status.installed for status in available(verify=True) if status.path is not None)


def test_best_installed() -> None:
    """The better model is chosen when it is there, the dependency otherwise."""
    assert best_installed() == (MINILM if BGE_SMALL.find() is None else BGE_SMALL).model_id


@pytest.mark.parametrize("name", ["minilm-l6-v2-int8", "minilm-l6-v2-int8@8199be6f"])
def test_open_by_name_or_id(name: str) -> None:
    """A name and a stored model id open the same embedder."""
    embedder = open_embedder(name)
    assert isinstance(embedder, LocalEmbedder)
    assert embedder.model_id == "minilm-l6-v2-int8@8199be6f"


def test_open_hash_embedder_by_its_id() -> None:
    """A store made with the test embedder opens again by its model id."""
    embedder = open_embedder(HashEmbedder(32).model_id)
    assert asyncio.run(embedder.embed(["x"])).shape == (1, 32)


@pytest.mark.parametrize("name", ["", "gpt", "hash-words-1@0", "hash-words-1@x", "@8199be6f"])
def test_unknown_name(name: str) -> None:
    """An unknown name is refused together with the names there are."""
    with pytest.raises(ConfigError, match="minilm-l6-v2-int8"):
        open_embedder(name)


def test_other_weights_under_a_known_name() -> None:
    """A model id with other weights is a mismatch, not silently the installed ones."""
    with pytest.raises(EmbedderMismatchError, match="re-embed"):
        open_embedder("minilm-l6-v2-int8@00000000")
