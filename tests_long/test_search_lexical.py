"""The lexical leg: what is indexed is found, and scored as BM25 says."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import Said, hand_made

from memforest.search.lexical import K1, MAX_LATER, B, bm25, bring_up_to_date, carry_words, read_postings
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import index_tokens, question_tokens
from memforest.store import derived
from memforest.store.connections import Tx
from memforest.store.database import Database, ensure_schema

DAY = datetime(2023, 5, 8, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tx]:
    """A write transaction on a fresh database that is never committed."""
    db = Database(tmp_path_factory.mktemp("lexical") / "words.db")
    ensure_schema(db)
    with db.write() as open_tx:
        yield open_tx
    db.close()


def indexed(tx: Tx, documents: list[list[str]]) -> Snapshot:
    """Index token lists as turns 101, 102, …, and return a snapshot of them."""
    for item in range(101, 160):
        derived.clear_words(tx, "turn", (item,))
    for item, tokens in enumerate(documents, 101):
        derived.put_words(tx, "turn", [(item, " ".join(tokens))])
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
    """The postings with our constants give the textbook's scores; repeated words count once."""
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


TEXTS = (
    "Ana adopted two cats in 2016",
    "昨日東京へ行きました",
    "ฉันอยู่ที่เชียงใหม่",
    "C'est Zoë's café, 3.5 million",
    "cats, cats and more CATS",
    "!!!",
)
edits = st.lists(st.tuples(st.integers(101, 112), st.sampled_from([*TEXTS, None])), min_size=1, max_size=6)
"""What happens between two questions: an item gets a text, or is taken out of the index."""


def edited(tx: Tx, held: dict[int, list[str]], changes: list[tuple[int, str | None]]) -> Snapshot:
    """Make changes, and return a snapshot of the items that are held then, in their order."""
    for item, text in changes:
        derived.clear_words(tx, "turn", (item,))
        held.pop(item, None)
        if text is not None:
            held[item] = index_tokens("Ana", text, DAY)
            derived.put_words(tx, "turn", [(item, " ".join(held[item]))])
    snapshot = hand_made([Said("Ana", 1, words=len(held[item])) for item in sorted(held)])
    ids = np.array(sorted(held), dtype=np.int64)
    return replace(snapshot, turns=replace(snapshot.turns, ids=ids))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(edits, min_size=1, max_size=5), st.sampled_from(TEXTS))
def test_memory_and_disk_agree_after_any_history(
    tx: Tx, history: list[list[tuple[int, str | None]]], question: str
) -> None:
    """Postings brought up to date step by step give the bits that reading FTS5 term by term gives."""
    for item in range(101, 160):
        derived.clear_words(tx, "turn", (item,))
    held: dict[int, list[str]] = {}
    before: Snapshot | None = None
    for changes in history:
        snapshot = edited(tx, held, changes)
        if before is not None:
            carry_words(before, snapshot)
        asked = [*question_tokens(question), "2023", "unheard"]
        found = bm25(tx, snapshot, "turn", asked)
        np.testing.assert_array_equal(found, bm25(tx, snapshot, "turn", asked, max_tokens=0))
        if held:
            expected = naive([held[item] for item in sorted(held)], asked)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        before = snapshot


def test_what_was_deleted_is_not_found(tx: Tx) -> None:
    """A row that is gone scores nothing, and a new one under its number is found by its own words only."""
    held: dict[int, list[str]] = {}
    first = edited(tx, held, [(101, "Ana adopted two cats"), (102, "Bob moved")])
    assert bm25(tx, first, "turn", ["cat"])[0] > 0
    gone = edited(tx, held, [(101, None)])
    carry_words(first, gone)
    assert bm25(tx, gone, "turn", ["cat"]).tolist() == [0.0]
    again = edited(tx, held, [(101, "Ana sold a boat")])
    carry_words(gone, again)
    assert bm25(tx, again, "turn", ["cat"]).tolist() == [0.0, 0.0]
    assert bm25(tx, again, "turn", ["boat"])[0] > 0


def test_an_index_that_was_made_anew_is_read_anew(tx: Tx) -> None:
    """After a repair nothing is found by what was held in memory before, though no change of a row was noted."""
    first = indexed(tx, [["cat"], ["boat"]])
    assert bm25(tx, first, "turn", ["cat"])[0] > 0
    tx.execute("DELETE FROM derived_turn_words WHERE words = 'cat'")
    derived.reindex_words(tx)
    again = replace(first, generation=2)
    carry_words(first, again)
    assert bm25(tx, again, "turn", ["cat"]).tolist() == [0.0, 0.0]
    assert bm25(tx, again, "turn", ["boat"])[1] > 0


def test_postings_take_a_few_bytes_each(tx: Tx) -> None:
    """Memory grows with the tokens that there are, at eight bytes each at most, and with nothing else."""
    indexed(tx, [[f"w{n % 97}", f"w{n % 13}", "ana"] for n in range(50)])
    postings = read_postings(tx, "turn")
    tokens = 50 * 3
    assert postings.nbytes <= 8 * (tokens + len(postings.terms) + 1)


def test_little_is_kept_beside_the_arrays(tx: Tx) -> None:
    """When more has changed than `MAX_LATER` items, the arrays are made anew and nothing is left over."""
    indexed(tx, [["car"]])
    old = read_postings(tx, "turn")
    for item in range(1_000, 1_000 + MAX_LATER + 1):
        derived.put_words(tx, "turn", [(item, "boat")])
        if item == 1_100:
            assert len(bring_up_to_date(tx, "turn", old).later) == 101
    new = bring_up_to_date(tx, "turn", old)
    assert not new.later
    boat = new.terms["boat"]
    assert new.starts[boat + 1] - new.starts[boat] == MAX_LATER + 1
    for item in range(1_000, 1_000 + MAX_LATER + 1):
        derived.clear_words(tx, "turn", (item,))


def test_the_log_of_changes_stays_short(tx: Tx) -> None:
    """It keeps the last changes and no more; who has fallen behind is told so, and reads everything anew."""
    start = derived.last_word_change(tx)
    for _ in range(2 * derived.CHANGES_KEPT):
        derived.clear_words(tx, "turn", (999,))
    kept = tx.execute("SELECT count(*) FROM derived_word_change").fetchone()[0]
    assert kept <= derived.CHANGES_KEPT + derived.CHANGES_KEPT // 8
    assert derived.changed_words(tx, "turn", start) is None
    assert derived.changed_words(tx, "turn", derived.last_word_change(tx) - 3) == {999: None}
    assert derived.changed_words(tx, "fact", derived.last_word_change(tx) - 3) == {}
    tx.execute("DELETE FROM derived_word_change")  # derived rows may go at any time
    assert derived.changed_words(tx, "turn", derived.last_word_change(tx) - 3) is None
