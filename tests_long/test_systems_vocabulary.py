"""A vocabulary that is brought up to date equals one that is made from nothing, and so do the answers."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions

from memforest import MemForest
from memforest.search import change as threads
from memforest.search import vocabulary as module
from memforest.search.attributes import Readings
from memforest.search.cache import advance
from memforest.search.snapshot import Snapshot, load_snapshot
from memforest.search.timeline import timelines, valid_until
from memforest.search.vocabulary import Vocabulary, vocabulary
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.store.reads import wordings

SAID = (
    "{who} dropped {one} for {two}.",
    "{who} drinks {one} at work.",
    "{who} switched from {one} to {two} last month.",
    "{who} still has the {one} kettle.",
    'Bob, asked "What do you drink?": {one} with {two}.',
    "{who} is back at the {one} Club in {two}.",
    "We took up the oboe.",
)
STATEMENTS = st.builds(
    str.format,
    st.sampled_from(SAID),
    who=st.sampled_from(["Ana", "Bob", "Clara"]),
    one=st.sampled_from(["Keemun", "Assam", "green tea", "tea"]),
    two=st.sampled_from(["Sencha", "Assam", "Leeds"]),
)
CHANGES = st.lists(st.dictionaries(st.integers(1, 12), st.none() | STATEMENTS, max_size=6), max_size=6)


def plain(value: Any) -> Any:
    """Return a part of a vocabulary in a form that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple) and value and hasattr(value[0], "typical"):
        return [(kind.values, kind.typical, kind.rows.tolist()) for kind in value]
    return value


def contents(known: Vocabulary) -> dict[str, Any]:
    """Return all that a vocabulary says, by name."""
    return {
        one.name: plain(getattr(known, one.name))
        for one in fields(known)
        if one.name not in ("readings", "_about")
    }


@given(CHANGES)
def test_sums_that_are_brought_up_to_date_are_those_of_all_statements(
    changes: list[dict[int, str | None]],
) -> None:
    """Statements come, go and are reworded; people and values stay or not."""
    made, texts = Readings(), dict[int, str]()
    for step, change in enumerate(changes):
        gone = {fact for fact in change if fact in texts}
        come = {fact: text for fact, text in change.items() if text is not None}
        texts = {fact: text for fact, text in texts.items() if fact not in gone} | come
        names = frozenset(("ana", "bob") if step % 3 else ("ana", "bob", "clara"))
        values = frozenset(("assam", "keemun", "tea") if step % 2 else ("assam", "green tea", "sencha"))
        made = made.changed(gone, come).with_terms(names).with_contexts(values)
        anew = Readings().changed((), texts).with_terms(names).with_contexts(values)
        for name in ("small", "inside", "actors", "named", "terms", "turned", "contexts"):
            left, right = getattr(made, name), getattr(anew, name)
            assert left == right, name


def told(known: Vocabulary, snapshot: Snapshot) -> dict[Any, Any]:
    """Return the timelines of the kinds and people of a vocabulary, and which facts name these."""
    found: dict[Any, Any] = {}
    for who in sorted(known.people)[:4]:
        found[who] = known.about(who).tolist()
        for kind in known.kinds[:5]:
            line = threads._line(known, snapshot, who, dict(zip(kind.values, kind.typical, strict=True)))
            found[who, kind.values] = line.segments, line.told, line.returned, line.facts.tolist(), line.of
    return found


def write_something(forest: MemForest, random: Random, step: int) -> None:
    """Make a write: new sessions, longer ones, and replacements."""
    ((_, turns),) = make_sessions(random.randint(0, 10_000), sessions=1)
    name = f"s{random.randrange(8)}"
    forest.ingest_session("u", name, turns, replace=True, refresh=False)
    if step % 3 == 0:
        forest.user("u").add(random.choice(turns)["content"], session_id=name)


def test_any_history_gives_the_vocabulary_that_is_made_from_nothing(
    folder: Path, soak_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each of many random writes; with more statements than are read, so that the oldest fall out."""
    monkeypatch.setattr(module, "MAX_FACTS", 60)
    random = Random(soak_seed)
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(soak_seed, sessions=8, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        db = Database(file_of(folder))
        with db.read() as tx:
            kept = load_snapshot(tx)
            vocabulary(tx, kept)
        advanced, heard = 0, 0
        for step in range(14):
            write_something(forest, random, step)
            with db.read() as tx:
                made, read = advance(tx, kept), load_snapshot(tx)
                if made is None:
                    kept = read
                    continue
                advanced += 1
                if step % 4:  # else nobody asks, and what has changed is carried to the next one
                    left, right = contents(vocabulary(tx, made)), contents(vocabulary(tx, read))
                    assert [name for name in right if left[name] != right[name]] == []
                    lines = told(vocabulary(tx, made), made)
                    assert lines == told(vocabulary(tx, read), read)
                    heard += sum(bool(line[0]) for key, line in lines.items() if isinstance(key, tuple))
                assert timelines(made) == timelines(read)
                assert valid_until(made).tolist() == valid_until(read).tolist()
                kept = made
        db.close()
        assert advanced >= 5
        assert heard > 5


def test_only_what_new_statements_tell_is_added_to_a_timeline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question asked again reads no statement, and one after a write those that were written."""
    told: list[int] = []
    tell = threads._tell

    def counted(known: Vocabulary, snapshot: Snapshot, row: int, *args: Any) -> Any:
        told.append(row)
        return tell(known, snapshot, row, *args)

    monkeypatch.setattr(threads, "_tell", counted)
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(3, sessions=12, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        forest.query("u", "Where does Ana live now?")
        first = len(told)
        forest.query("u", "Where does Ana live now?")
        assert len(told) == first > 5
        new = {"speaker": "Ana", "content": "I still live in Davis.", "timestamp": "2031-01-01T10:00:00Z"}
        forest.ingest_session("u", "new", [new])
        forest.query("u", "Where does Ana live now?")
        assert first < len(told) < first + 5


def test_only_what_was_written_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first question about change after a write reads the new statements, and the cache knows their size."""
    asked: list[int] = []
    texts = wordings

    def counted(tx: Tx, facts: Collection[int]) -> dict[int, str]:
        asked.append(len(facts))
        return texts(tx, facts)

    monkeypatch.setattr(module, "wordings", counted)
    with MemForest(folder, fast_config()) as forest:
        for session_id, turns in make_sessions(3, sessions=12, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        forest.query("u", "Where does Ana live now?")
        forest.user("u").add("I live in Rome.", session_id="s0")
        forest.query("u", "Where does Ana live now?")
    first, later = asked
    assert first > 50
    assert 0 < later < 5
