"""Sessions that grow one turn at a time: what a write names is new, also when the last chunk is read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import local_reply

from memforest import Config, IngestResult, MemForest
from memforest.testing import FunctionChat

SAID = [
    ("Ann", "I live in Porto."),
    ("Bob", "I have a dog called Rex."),
    ("Ann", "I moved to Lisbon yesterday."),
    ("Bob", "I sold my car in March."),
    ("Ann", "I bought a red bike."),
    ("Bob", "I moved to Faro yesterday."),
    ("Ann", "My sister Julia lives in Braga."),
    ("Ann", "I moved to Evora yesterday."),
]


def turns(count: int) -> list[dict[str, Any]]:
    """Return the first turns of the session, a day apart."""
    return [
        {"role": "user", "name": name, "content": text, "timestamp": f"2031-05-{at:02d}T10:00:00Z"}
        for at, (name, text) in enumerate(SAID[:count], 1)
    ]


def grown(folder: Path, config: Config) -> list[IngestResult]:
    """Return the results of a session that is written with every turn."""
    with MemForest(folder, config) as forest:
        found = [forest.ingest_session("u", "s", turns(count)) for count in range(1, len(SAID) + 1)]
        told = [text for one in found for text in one.added]
        assert sorted(told) == sorted(one.statement for one in forest.user("u").list())
        assert forest.user("u").verify().ok
    return found


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("chunk_turns", [2, 6, 16])
def test_each_statement_is_added_once(tmp_path: Path, guided: bool, chunk_turns: int) -> None:
    """And none is merged with itself, with a model or without; what a state ended is told once."""
    chat = FunctionChat(local_reply) if guided else None
    found = grown(tmp_path, Config(chat=chat, embedder=None, chunk_turns=chunk_turns))
    assert all(len(one.added) == 1 and not one.merged for one in found)
    assert max(Counter(text for one in found for text in one.superseded).values()) == 1
    whole = {text for one in found for text in one.superseded}
    with MemForest(tmp_path / "whole", Config(embedder=None, chunk_turns=chunk_turns)) as forest:
        assert whole == set(forest.ingest_session("u", "s", turns(len(SAID))).superseded) != set()


def test_what_is_appended_is_new(tmp_path: Path) -> None:
    """Also by `add`, which reads the last chunk again."""
    with MemForest(tmp_path, Config(embedder=None)) as forest:
        found = [forest.user("u").add([turn], session_id="s") for turn in turns(len(SAID))]
    assert [len(one.added) for one in found] == [1] * len(SAID)


def test_a_statement_of_two_things_is_superseded_in_each(tmp_path: Path) -> None:
    """The second end is new, though the chunk is the same."""
    said = [
        "I live in Porto and work at Norvik.",
        "I moved to Lisbon yesterday.",
        "I bought a bike.",
        "Now I work at Acme.",
    ]
    with MemForest(tmp_path, Config(embedder=None)) as forest:
        found = [
            forest.user("u").add(
                [{"role": "user", "name": "Ann", "content": text, "timestamp": f"2031-05-{at:02d}"}],
                session_id="s",
            )
            for at, text in enumerate(said, 1)
        ]
    assert [len(one.superseded) for one in found] == [0, 1, 0, 1]


def test_what_another_session_says_again_is_merged_once(tmp_path: Path) -> None:
    """When it grows, the statement that both say is not named again."""
    with MemForest(tmp_path, Config(embedder=None)) as forest:
        forest.ingest_session("u", "a", turns(2))
        first = forest.ingest_session("u", "b", turns(1))
        second = forest.ingest_session("u", "b", [*turns(1), turns(5)[-1]])
    assert (first.added, first.merged) == ((), ('Ann: "I live in Porto."',))
    assert (second.added, second.merged) == (('Ann: "I bought a red bike."',), ())


def test_a_session_that_is_overwritten_is_told_anew(tmp_path: Path) -> None:
    """What it says is new, as all before it is gone."""
    with MemForest(tmp_path, Config(embedder=None)) as forest:
        forest.ingest_session("u", "s", turns(2))
        again = forest.ingest_session("u", "s", turns(1), replace=True)
    assert again.added == ('Ann: "I live in Porto."',)
