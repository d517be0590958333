"""What the contract tests share: talk of our own, and readings of a memory that go through its public verbs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from memforest import Config, MemForest, UserMemory
from memforest.testing import FrozenClock, HashEmbedder

__all__ = [
    "ANNA",
    "INDEXES",
    "KNOWN",
    "NOW",
    "fact",
    "failures",
    "files",
    "found_in_files",
    "holding",
    "opened",
    "picture",
    "said",
    "shown",
    "statements",
    "texts",
]

NOW = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
INDEXES = ("memforest", "segtree", "timem", "hmem", "flat")
"""Those that a search can name."""

ANNA: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "march": (
        ("Anna", "2024-03-04T09:00:00Z", "I live in Ghent."),
        ("Ruth", "2024-03-04T09:01:00Z", "I work at Brightwater as a nurse."),
        ("Anna", "2024-03-04T09:02:00Z", "I bought a red canoe yesterday."),
        ("Ruth", "2024-03-04T09:03:00Z", "My brother Milo adopted two ferrets."),
    ),
    "april": (
        ("Anna", "2024-04-15T18:00:00Z", "I moved to Lille last week."),
        ("Ruth", "2024-04-15T18:01:00Z", "Milo works at Tannery Lane."),
        ("Anna", "2024-04-15T18:02:00Z", "My dentist is Dr. Okafor."),
        ("Ruth", "2024-04-15T18:03:00Z", "The wifi password is marmalade77."),
    ),
    "may": (
        ("Anna", "2024-05-20T07:30:00Z", "I work at Kestrel Books now."),
        ("Ruth", "2024-05-20T07:31:00Z", "I am learning the dulcimer."),
        ("Anna", "2024-05-20T07:32:00Z", "We met Milo near the harbour on 18 May 2024."),
        ("Ruth", "2024-05-20T07:33:00Z", "Did you sell the canoe?"),
    ),
}
"""Session -> its turns (speaker, time, text) of the world that most tests read."""

KNOWN = {
    "march": datetime(2024, 3, 5, tzinfo=timezone.utc),
    "april": datetime(2024, 4, 16, tzinfo=timezone.utc),
    "may": datetime(2024, 5, 21, tzinfo=timezone.utc),
}
"""When the memory received each session."""


def opened(folder: Path, clock: FrozenClock | None = None, **settings: Any) -> MemForest:
    """Return a forest of a directory: quick vectors, and a clock that stands still."""
    base: dict[str, Any] = {"embedder": HashEmbedder(), "clock": clock or FrozenClock(NOW)}
    return MemForest(folder, Config(**{**base, **settings}))


def said(
    *texts: str, speaker: str = "Anna", start: str = "2024-05-01T10:00:00+00:00"
) -> list[dict[str, Any]]:
    """Return turns of one speaker, a minute apart."""
    first = datetime.fromisoformat(start)
    return [
        {"speaker": speaker, "content": text, "timestamp": (first + timedelta(minutes=at)).isoformat()}
        for at, text in enumerate(texts)
    ]


def fact(memory: UserMemory, words: str, **options: Any) -> Any:
    """Return the one fact that has these words."""
    (found,) = holding(memory.list(limit=1000, **options), words)
    return found


def holding(shown: Iterable[Any], words: str) -> list[Any]:
    """Return the results of which the text has these words."""
    return [one for one in shown if words.casefold() in one.text.casefold()]


def texts(shown: Iterable[Any]) -> list[str]:
    """Return the texts of results, in order."""
    return [one.text for one in shown]


def statements(memory: UserMemory, **options: Any) -> list[str]:
    """Return what the memory states, sorted."""
    return sorted(texts(memory.list(limit=1000, **options)))


def shown(memory: UserMemory) -> dict[str, list[tuple[Any, ...]]]:
    """Return session -> what was said in it: id, speaker, time and text of each turn."""
    return {
        one.session_id: [
            (turn.id, turn.speaker, turn.said, turn.text) for turn in memory.turns(one.session_id)
        ]
        for one in memory.sessions()
    }


QUESTIONS = (
    "Where does Anna live?",
    "What did Anna buy?",
    "Who works at Tannery Lane?",
    "What is the wifi password?",
)


def picture(memory: UserMemory, questions: Sequence[str] = QUESTIONS, **options: Any) -> dict[str, Any]:
    """Return what a memory holds and finds, as its readers see it; equal memories have equal pictures.

    Ids of facts and times of storing are left out: they may differ where everything that a reader asks for is the same.
    """
    facts = [
        (one.text, one.speaker, one.said, one.start, one.end, one.sources, one.verdict)
        for one in memory.list(limit=1000, **options)
    ]
    found = {
        question: [
            (one.text, one.quote, one.kind, round(one.score, 9), one.start, one.end)
            for one in memory.search(question, top_k=20, **options)
        ]
        for question in questions
    }
    people = [(one.name, one.role) for one in memory.entities()]
    lines = {
        name: [
            (one.kind, one.attribute, one.value, one.start, one.end)
            for one in memory.timeline(name, **options)
        ]
        for name, role in people
        if role == "speaker"
    }
    return {
        "turns": shown(memory),
        "facts": sorted(facts),
        "found": found,
        "people": sorted(people),
        "lines": lines,
    }


def files(folder: Path) -> dict[str, bytes]:
    """Return name -> bytes of every file below a directory."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def found_in_files(folder: Path, word: str) -> list[str]:
    """Return the files that have a word in their bytes, in any case, in UTF-8 or UTF-16."""
    wanted = [word.lower().encode(name) for name in ("utf-8", "utf-16-le", "utf-16-be")]
    return [name for name, raw in files(folder).items() if any(one in raw.lower() for one in wanted)]


def failures(
    cases: Mapping[str, tuple[Any, type[BaseException] | tuple[type[BaseException], ...]]],
) -> list[str]:
    """Call each case and return those that did not raise the named error, with what they did instead."""
    wrong = []
    for name, (call, expected) in cases.items():
        try:
            call()
        except expected:
            continue
        except Exception as error:  # noqa: BLE001 - it is what the list is of
            wrong.append(f"{name}: {type(error).__name__} instead of {expected}: {error}"[:300])
        else:
            wrong.append(f"{name}: no error instead of {expected}")
    return wrong
