"""The lexical leg: what is indexed is found, and scored as BM25 says."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.hand_made import Said, hand_made

from memforest.search.lexical import K1, B, bm25
from memforest.search.snapshot import Snapshot
from memforest.search.texts import index_tokens, question_tokens
from memforest.store import derived
from memforest.store.db import Database, Tx
from memforest.store.migrations import apply

DAY = datetime(2023, 5, 8, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    """A write transaction on a fresh database that is never committed."""
    db = Database(tmp_path_factory.mktemp("lexical") / "words.db")
    apply(db, DAY)
    with db.write() as open_tx:
        yield open_tx
    db.close()


def indexed(tx: Tx, documents: list[list[str]]) -> Snapshot:
    """Index token lists as turns 101, 102, …, and return a snapshot of them."""
    for item in range(101, 160):
        derived.clear_words(tx, "turn", item)
    for item, tokens in enumerate(documents, 101):
        derived.put_words(tx, "turn", item, tokens)
    return hand_made([Said("Ana", 1, words=len(tokens)) for tokens in documents])


def naive(documents: list[list[str]], question: list[str]) -> list[float]:
    """BM25 as the textbook has it, token by token."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for tokens in documents:
        counts, score = Counter(tokens), 0.0
        for token in set(question):
            matching = sum(token in other for other in documents)
            idf = math.log(1 + (len(documents) - matching + 0.5) / (matching + 0.5))
            norm = K1 * (1 - B + B * len(tokens) / mean) if mean else 1.0
            score += idf * counts[token] * (K1 + 1) / (counts[token] + norm)
        scores.append(score)
    return scores


words = st.lists(st.sampled_from(["car", "red", "blue", "2016", "京都", "ñandu"]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(words, min_size=1, max_size=8), words)
def test_scores_are_those_of_a_naive_bm25(tx: Tx, documents: list[list[str]], question: list[str]) -> None:
    """The postings of FTS5 with our constants give the textbook's scores; repeated words count once."""
    snapshot = indexed(tx, documents)
    found = bm25(tx, snapshot, "turn", question + question)
    np.testing.assert_allclose(found, naive(documents, question), rtol=1e-6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.text(min_size=1, max_size=60))
def test_every_token_of_any_text_is_found(tx: Tx, text: str) -> None:
    """Whatever the script, a text is found by each of its own lexical tokens."""
    tokens = index_tokens("Ana", text, DAY)
    snapshot = indexed(tx, [tokens, ["other"]])
    for token in set(tokens):
        assert bm25(tx, snapshot, "turn", [token])[0] > 0, token


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("We adopted two puppies", "puppy"),
        ("It cost 3.5 million", "3.5"),
        ("C'est Zoë's café", "Zoe cafe"),
        ("昨日東京へ行きました", "東京"),
        ("ฉันอยู่ที่เชียงใหม่", "เชียงใหม่"),
        ("Ona's rock'n'roll band", "rock'n'roll"),
        ("x_y and __init__", "__init__"),
    ],
)
def test_questions_find_their_wording(tx: Tx, said: str, asked: str) -> None:
    """Inflection, accents, decimals, scripts without spaces and odd punctuation do not hide a word."""
    snapshot = indexed(tx, [index_tokens("Ana", said, DAY), index_tokens("Bob", "Something else", DAY)])
    found = bm25(tx, snapshot, "turn", question_tokens(asked))
    assert found[0] > 0 == found[1]


def test_the_day_is_part_of_the_text(tx: Tx) -> None:
    """A question that names a day finds what was said on it."""
    later = datetime(2023, 6, 9, tzinfo=timezone.utc)
    snapshot = indexed(tx, [index_tokens("Ana", "Lunch", DAY), index_tokens("Ana", "Lunch", later)])
    found = bm25(tx, snapshot, "turn", question_tokens("What happened on 9 June 2023?"))
    assert found[1] > found[0]


def test_a_second_reading_is_the_same(tx: Tx) -> None:
    """Postings kept from an earlier question change nothing."""
    snapshot = indexed(tx, [["car", "red"], ["car"]])
    first = bm25(tx, snapshot, "turn", ["car", "red", "unheard"])
    np.testing.assert_array_equal(first, bm25(tx, snapshot, "turn", ["car", "red", "unheard"]))


def test_nothing_matches_nothing(tx: Tx) -> None:
    """No tokens, or none that was said, score zero everywhere."""
    snapshot = indexed(tx, [["car"]])
    assert not bm25(tx, snapshot, "turn", []).any()
    assert not bm25(tx, snapshot, "turn", ["boat"]).any()
