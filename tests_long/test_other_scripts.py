"""Texts in scripts that the embedder does not know: vectors count by what is known of them, words for the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import OFF, Said, hand_made, searching
from tests_long.test_systems_rank import only, scored

from memforest import Config, MemForest
from memforest.cli import main
from memforest.config import Ranking
from memforest.errors import ModelError
from memforest.models import MINILM, open_embedder
from memforest.models.onnx import WordPiece
from memforest.read.views import known_shares
from memforest.text import lexical_tokens

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORDS_ALONE = Ranking(**{**OFF, "lexical": 1.0})
TALKS = tomllib.loads((Path(__file__).parent / "data" / "scripts.toml").read_text(encoding="utf-8"))


def ingest(forest: MemForest, talk: dict[str, Any]) -> None:
    """Ingest the sessions of a talk, one a month."""
    for n, texts in enumerate(talk["sessions"], 1):
        turns = [{"speaker": talk["speakers"][i % 2], "text": text} for i, text in enumerate(texts)]
        forest.ingest_session("u", session_id=str(n), timestamp=f"2024-{n:02}-05T10:00", turns=turns)


@pytest.mark.parametrize("index", ["memforest", "flat"])
@pytest.mark.parametrize("script", TALKS)
def test_questions_in_other_scripts_are_answered_as_well_as_by_words(
    tmp_path: Path, script: str, index: str
) -> None:
    """With the shipped embedder as many answers are among the first k as BM25 alone has there, or more."""
    talk = TALKS[script]
    assert len(talk["questions"]) >= 12
    places: dict[str, list[int]] = {"ours": [], "words": []}
    with MemForest(tmp_path, Config(embedder="minilm")) as forest:
        ingest(forest, talk)
        for one in talk["questions"]:
            for name, how in (("ours", {"index": index}), ("words", {"ranking": WORDS_ALONE})):
                found = forest.query("u", one["ask"], reference_date="2024-08-01", top_k=50, **how).evidence
                at = (i for i, evidence in enumerate(found) if one["in"] in evidence.quote)
                places[name].append(next(at, 50))
    for k in (1, 3, 5, 10):
        assert sum(at < k for at in places["ours"]) >= sum(at < k for at in places["words"]), k


@each(
    ("text", "least", "most"),
    [
        ("我住在台北，在一家小书店工作。", 0.2, 0.5),
        ("ฉันอยู่เชียงใหม่", 0.0, 0.0),
        ("I moved to Porto last year.", 1.0, 1.0),
        ("L'été dernier à Orléans — déjà vu!", 1.0, 1.0),
        ("… 😀 12:30", 1.0, 1.0),
        ("", 1.0, 1.0),
    ],
)
def test_the_vocabulary_says_what_it_knows(text: str, least: float, most: float) -> None:
    """Letters of words that are [UNK] count as unknown; signs and numbers do not count."""
    assert least <= WordPiece().known_share(text) <= most
    assert known_shares(open_embedder(MINILM.model_id), [text]) == [WordPiece().known_share(text)]


@given(st.text(max_size=60))
def test_a_known_share_is_a_share(text: str) -> None:
    """Of any text it lies between 0 and 1."""
    assert 0.0 <= WordPiece().known_share(text) <= 1.0


class _Odd:
    """An embedder that says what it is told about its words."""

    model_id, dimension = "odd", 4

    def __init__(self, shares: Sequence[float]) -> None:
        self.shares = shares

    async def embed(self, texts: Sequence[str]) -> Any:
        return np.tile(np.eye(4, dtype=np.float32)[0], (len(texts), 1))

    def known_shares(self, texts: Sequence[str]) -> Sequence[float]:
        return list(self.shares)[: len(texts)]


@pytest.mark.parametrize("shares", [[0.5], [0.5, 1.5], [0.5, float("nan")]])
def test_shares_that_are_none_are_refused(shares: Sequence[float]) -> None:
    """One number from 0 to 1 a text, or an error that says so; an embedder that cannot say knows everything."""
    with pytest.raises(ModelError):
        known_shares(_Odd(shares), ["a", "b"])
    assert known_shares(open_embedder("hash-words-1@64"), ["我", "b"]) == [1.0, 1.0]


def test_what_the_vectors_lose_goes_to_the_words() -> None:
    """A turn whose words the embedder does not know is ranked by the lexical leg with the weight of all three."""
    turns = [Said("Ana", 1, axis=0), Said("Ana", 1, axis=0, known=0.0), Said("Ana", 1)]
    weights = only(lexical=0.3, turn=0.35, fact=0.35)
    parts = scored(hand_made(turns), searching(ranking=weights), [4.0, 4.0, 0.0]).parts
    assert parts["turn"][1] == parts["fact"][1] == 0.0 < parts["turn"][0]
    assert parts["lexical"][1] == pytest.approx(parts["lexical"][0] / 0.3)


def test_a_memory_that_the_embedder_hardly_knows_says_so(tmp_path: Path) -> None:
    """Every ingest and query result warns, and so do `stats` and `doctor`; an English memory is quiet."""
    with MemForest(tmp_path, Config(embedder="minilm")) as forest:
        turns = [{"speaker": "林小雨", "text": "我上周搬到了昆明。"}]
        written = forest.ingest_session("lin", session_id="1", timestamp="2024-03-01", turns=turns)
        asked, stats = forest.query("lin", "小雨住在哪里？"), forest.user("lin").stats()
        quiet = forest.ingest_session(
            "ana", session_id="1", timestamp="2024-03-01", turns=[{"role": "user", "text": "I moved."}]
        )
        silent = forest.query("ana", "Who moved?")
    for warnings in (written.warnings, asked.warnings, stats.notes):
        assert sum("has words for" in one for one in warnings) == 1
    assert stats.known < 0.5
    told = CliRunner().invoke(main, ["--dir", str(tmp_path), "doctor"], catch_exceptions=False)
    assert " ".join(told.stdout.split()).count("has words for") == 1
    assert not any("has words for" in one for one in (*quiet.warnings, *silent.warnings))


def test_cyrillic_and_arabic_words_are_stemmed_and_stand_beside_each_other() -> None:
    """Forms of a word meet, in the script that a word is written in."""
    assert lexical_tokens("мебелью мебели") == ["мебел", "мебел"]
    assert lexical_tokens("ёжик ежиком") == ["ежик", "ежик"]
    assert lexical_tokens("قطارات") != lexical_tokens("كتاب")
    assert lexical_tokens("الكتب")[0] == lexical_tokens("كتب")[0]
    assert lexical_tokens("sisters москва") == ["sister", *lexical_tokens("Москвы")]
