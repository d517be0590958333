"""Which embedders there are, which are installed, and how each is opened."""

import asyncio
import importlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.table import each

from memforest.errors import ConfigError, EmbedderMismatchError
from memforest.models import (
    BGE_SMALL,
    MINILM,
    HashEmbedder,
    LocalEmbedder,
    available,
    best_installed,
    open_embedder,
    open_reranker,
)
from memforest.models.catalog import _status


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


@each("name", ["", "gpt", "hash-words-1@0", "hash-words-1@x", "@8199be6f"])
def test_unknown_name(name: str) -> None:
    """An unknown name is refused together with the names there are."""
    with pytest.raises(ConfigError, match="minilm-l6-v2-int8"):
        open_embedder(name)


def test_other_weights_under_a_known_name() -> None:
    """A model id with other weights is a mismatch, not silently the installed ones."""
    with pytest.raises(EmbedderMismatchError, match="re-embed"):
        open_embedder("minilm-l6-v2-int8@00000000")


@pytest.mark.parametrize("dimension", [1, 64, 99_999])
def test_the_test_embedder_opens_at_any_length(dimension: int) -> None:
    """By the id that a memory has stored; one of another form is no embedder."""
    assert open_embedder(f"hash-words-1@{dimension}").dimension == dimension
    for wrong in (
        f"hash-words-1@0{dimension}",
        f"hash-words-1@{dimension} ",
        f"hash-words-2@{dimension}",
        "hash-words-1@100000",
    ):
        with pytest.raises(ConfigError):
            open_embedder(wrong)


@each("name", ["minilm", "local ", "", "ms-marco-minilm-l12-int8@00000000"])
def test_an_unknown_reranker_is_refused(name: str) -> None:
    """With what it may be called."""
    with pytest.raises(
        ConfigError,
        match=rf"unknown reranker '{name}'; known: 'local', which is 'ms-marco-minilm-l12-int8@",
    ):
        open_reranker(name)


def test_a_long_name_is_not_repeated_whole() -> None:
    """It may be anything."""
    for opened in (open_embedder, open_reranker):
        with pytest.raises(ConfigError) as caught:
            opened("x" * 9999)
        assert len(str(caught.value)) < 300


def test_weights_that_are_not_there_are_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by their package and file, never imported; with another content they are installed and broken."""
    monkeypatch.syspath_prepend(str(tmp_path))
    gone = replace(MINILM, package="planted_catalog")
    status = _status(gone, verify=False)
    assert (status.path, status.installed, MINILM.fix in status.problem) == (None, False, True)
    (tmp_path / "planted_catalog").mkdir()
    (tmp_path / "planted_catalog" / "__init__.py").write_text(
        "raise SystemExit('executed')", encoding="utf-8"
    )
    importlib.invalidate_caches()
    assert _status(gone, verify=False).path is None, "a package without the file"
    (tmp_path / "planted_catalog" / "model.onnx").write_bytes(b"other")
    quick, slow = _status(gone, verify=False), _status(gone, verify=True)
    assert (quick.installed, quick.problem) == (True, ""), "nothing is read yet"
    assert (slow.installed, slow.path) == (False, quick.path)
    assert "reinstall them: " + MINILM.fix in slow.problem


@each("package", ["", "no.such.package", "sys", ".relative", "json"])
def test_a_package_that_carries_no_file_has_no_weights(package: str) -> None:
    """Whatever its name is, looking for it is no error."""
    assert replace(MINILM, package=package).find() is None


def test_a_model_id_is_its_name_and_its_weights() -> None:
    """Eight digits of the checksum tell them apart."""
    assert replace(MINILM, name="x", sha256="0123456789abcdef").model_id == "x@01234567"
    assert available()[0].model_id == BGE_SMALL.model_id
