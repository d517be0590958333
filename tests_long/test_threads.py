"""Many threads at once read texts and ask, each for the first time: the same comes of it as one after the other.

Stemmers of a library keep the word that they work on. Shared by threads, they crash or answer for another's word.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.fuzzing import random_text
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.reading.date_phrases import find_dates
from memforest.reading.plan_local import plan_question
from memforest.text import _tokens_of, lexical_tokens

THREADS = 8
NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
ROOT = Path(__file__).parent.parent


@pytest.fixture
def _hurried() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Return what each of some threads makes; they begin together, and the first error of any is raised."""
    made: list[Any] = [None] * THREADS
    errors: list[Exception] = []
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        try:
            made[number] = work(number)
        except Exception as exc:  # noqa: BLE001  raised again below, in the thread of the test
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return made


@pytest.mark.usefixtures("_hurried")
def test_threads_stem_and_read_as_one_does() -> None:
    """Stems, tokens, dates and plans; nothing is remembered when the threads begin."""
    random = Random(4)
    words = " ".join(sorted({word for _ in range(400) for word in random_text(random).split()}))
    spanish = (
        "trabajando viviendo mudanzas ciudades hermanas corriendo cantábamos libros amigas llegaron " * 3
    )

    def read(_number: int) -> Any:
        _tokens_of.cache_clear()
        return (
            lexical_tokens(f"{spanish} ¿{words}?"),
            lexical_tokens(words),
            find_dates(words[:2000], NOW, timezone.utc),
            plan_question(words[:500], reference=NOW, names={"ann": "Ann"}),
        )

    alone = read(0)
    for _ in range(3):
        assert all(one == alone for one in at_once(read))


FIRST = """
import sys, tempfile, threading
sys.setswitchinterval(1e-6)
from memforest import Config, MemForest
from memforest.testing import HashEmbedder
questions = ["¿Dónde vive Ann?", "Where does Ann live now?", "When did Ann move?", "¿Qué compró Ann?"] * 2
with MemForest(sys.argv[1], Config(embedder=HashEmbedder(32))) as forest:
    gate, answers, errors = threading.Barrier(8), [None] * 8, []
    def ask(number):
        gate.wait()
        try:
            answers[number] = forest.ask("u", questions[number]).answer
        except BaseException as exc:
            errors.append(repr(exc))
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print([*answers, *errors] == [forest.ask("u", q).answer for q in questions], errors)
"""


def test_the_first_questions_of_a_process_may_come_at_once(folder: Path) -> None:
    """Eight threads ask in two languages before anything was loaded; every answer is that of a quiet process."""
    with MemForest(folder, fast_config()) as forest:
        said = [
            "I moved to Lisbon last week.",
            "Me mudé a Porto el año pasado.",
            "I bought a red bike.",
            "Vivo en Porto.",
        ]
        turns = [{"speaker": "Ann", "text": text, "timestamp": "2024-01-02"} for text in said]
        forest.ingest_session("u", "s", turns)
    for _ in range(3):
        made = subprocess.run(
            [sys.executable, "-c", FIRST, str(folder)], capture_output=True, text=True, check=True
        )
        assert made.stdout.strip() == "True []"


def test_no_other_module_holds_a_stemmer() -> None:
    """The one that gives each thread its own is the only user of the library."""
    users = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if "import snowballstemmer" in path.read_text("utf-8")
    ]
    assert users == ["text.py"]
