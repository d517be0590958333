"""No pattern takes quadratic time: `re` holds the interpreter meanwhile, so one text would stop every user.

Texts that are made for it (`tests.patterns`) are read by each pattern of the package, in processor time. A linear
pattern reads them in a fraction of a millisecond; a quadratic one takes some 16 times as long for 4 times the text.
"""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.patterns import Used, attacks, patterns

from memforest import MemForest
from memforest.reading.plan_local import plan_question
from memforest.reading.question_parts import read_operator
from memforest.reading.relations import LANGUAGES, load_words
from memforest.reading.tokens import Code
from memforest.settings import QUESTION_CHARS

LENGTH = 6_400 if "MEMFOREST_SOAK_SEEDS" in os.environ else 3_200
FLOOR_S = 2e-6 * LENGTH
"""2 µs a character, several times what the slowest linear pattern takes."""
OWN_DATA = ("memforest.reading.date_language._SPACES",)
"""Read nothing but the package's own data files."""


def seconds(pattern: re.Pattern[str], method: str, text: str, tries: int = 1) -> float:
    """Return the least processor time of some tries."""
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        if method == "search":
            for _ in pattern.finditer(text):
                pass
        else:
            getattr(pattern, method)(text)
        best = min(best, time.process_time() - began)
    return best


def is_slow(pattern: re.Pattern[str], method: str, text: str) -> bool:
    """Return whether a text takes longer than the floor, each time, and out of proportion to a quarter of it."""
    if seconds(pattern, method, text[: LENGTH // 16]) > FLOOR_S:
        return True  # worse than quadratic; the whole text might take for ever
    if seconds(pattern, method, text) < FLOOR_S or seconds(pattern, method, text, 5) < FLOOR_S:
        return False
    part = text[: len(text) // 4]
    return any(seconds(pattern, method, text, 3) > 8 * seconds(pattern, method, part, 3) for _ in range(3))


def slow(used: Used) -> str:
    """Return the beginning of a text that a pattern reads in quadratic time, or nothing."""
    _, pattern, method = used
    return next((text[:60] for text in attacks(pattern, LENGTH) if is_slow(pattern, method, text)), "")


@pytest.mark.soak
@pytest.mark.timeout(240)
def test_no_pattern_is_quadratic() -> None:
    """All of them: of module globals, of the data files as they are loaded, and those written where they are used."""
    found = patterns()
    assert len(found) > 500
    looked_at = [used for used in found if used[0] not in OWN_DATA]
    assert [
        (place, text) for (place, *_), text in ((used[:1], slow(used)) for used in looked_at) if text
    ] == []


@each("code", LANGUAGES)
def test_no_word_over_and_over_is_tried_in_every_way(code: Code) -> None:
    """A word that two parts of the pattern for clauses took would be shared out between them in two ways for each time it stands."""
    words = load_words(code)
    for word in frozenset().union(*words.parts.values()):
        for unit in (f"{word} ", f"{word}, "):
            text = "\ue000 came; " + unit * 60 + "1"
            assert seconds(words.clause, "search", text) < 0.1, word


def test_the_test_sees_a_quadratic_pattern() -> None:
    """One that looks for its end anew at every place, one that shares its text out in every way; not a linear one."""
    assert slow(("x", re.compile(r"\blast\b.*\bchang"), "search"))
    assert slow(("x", re.compile(r"\s+\w+\s*$"), "search"))
    assert not slow(("x", re.compile(r"(?<!\s)\s{1,40}(?:in|at)\b"), "search"))


@each("unit", ["Ann moved to Porto ", "last ", "did a follow ", "swap my ", "  ", "before ", "§ "])
def test_a_question_is_read_in_linear_time(unit: str) -> None:
    """The readers of questions, as a whole, on what repeats their own words."""

    def read(length: int) -> float:
        text, now = (unit * length)[:length], datetime(2024, 1, 1, tzinfo=timezone.utc)
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            read_operator(text, dated=False)
            plan_question(text, reference=now, names={"ann": "Ann"})
            best = min(best, time.process_time() - began)
        return best

    read(100)
    assert any(
        read(QUESTION_CHARS) < 0.3 and read(QUESTION_CHARS) < 10 * read(QUESTION_CHARS // 4) + 0.02
        for _ in range(3)
    )


def test_a_long_question_is_cut_where_it_comes_in_and_says_so(forest: MemForest) -> None:
    """Every reader sees the same text; the result has it, and a warning."""
    forest.ingest_session(
        "u", "s", [{"speaker": "Ann", "text": "I live in Porto.", "timestamp": "2024-01-01"}]
    )
    question = "Where does Ann live? " + "Ann moved to Porto " * 5_000
    result = forest.query("u", question)
    start, end = result.question.split("\n")
    assert question.startswith(start)
    assert question.endswith(end)
    assert len(start) == len(end) == (QUESTION_CHARS - 1) // 2
    assert any(f"{len(question):,}" in one and f"{len(end):,}" in one for one in result.warnings)
    assert forest.ask("u", question).result.warnings == result.warnings
    short = forest.query("u", result.question)
    assert [one.score for one in short.evidence] == [one.score for one in result.evidence]
    assert short.warnings == ()
