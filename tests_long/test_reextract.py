"""Sessions are read again when their chunks would be cut or extracted otherwise now: one at a time, and as if made so."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_corrections import all_shown, fact_of, memory
from tests_long.worlds import (
    CLOCK,
    differences,
    dump,
    fast_config,
    file_of,
    make_sessions,
    rows,
    said,
    summaries,
)

from memforest import MemForest
from memforest.endpoint import Budget
from memforest.errors import BudgetError, StepError
from memforest.memory.blocking import UserMemory
from memforest.reading.extract_local import LocalExtractor, rules_version
from memforest.records import Chunk, ChunkOutcome, Turn
from memforest.store.database import Database

DATA = Path(__file__).parent / "data"
SESSIONS = make_sessions(9, sessions=6, short_forms=False)


class Rules(LocalExtractor):
    """Another version of the rules, which says of every statement what it is; it counts what it reads."""

    def __init__(self, version: int, mark: str = "") -> None:
        super().__init__()
        self.name = f"rules-{version}"
        self.mark = mark
        self.read: list[str] = []
        self.fails: frozenset[str] = frozenset()
        self.over: int | None = None

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract as the rules do, with other words."""
        self.read += [chunk.session_id for chunk in chunks]
        made = await super().extract(chunks)
        if self.over is not None and len(set(self.read)) > self.over:
            return [ChunkOutcome(failure="the budget is used up", left=True) for _ in chunks]
        return [
            ChunkOutcome(failure="no reply") if chunk.session_id in self.fails else self._marked(outcome)
            for chunk, outcome in zip(chunks, made, strict=True)
        ]

    def _marked(self, outcome: ChunkOutcome) -> ChunkOutcome:
        if not self.mark:
            return outcome
        found = [replace(one, text=f"{one.text} {self.mark}") for one in outcome.candidates]
        return replace(outcome, candidates=tuple(found))


def fill(folder: Path, **settings: Any) -> Path:
    """Make a memory of the sessions."""
    with MemForest(folder, fast_config(**settings)) as forest:
        for session_id, turns in SESSIONS:
            forest.ingest_session("u", session_id, turns)
        forest.ingest_session("u", "as it is", said("Kept as it is."), infer=False)
        forest.flush("u")
    return file_of(folder)


def renew(folder: Path, **settings: Any) -> UserMemory:
    """Make anew what is stale, and check the memory."""
    with MemForest(folder, fast_config(**settings)) as forest:
        user = forest.user("u")
        assert user.stale()
        user.rebuild(stale=True)
        assert user.verify().problems == ()
        assert not user.stale()
    return user


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"extractor": Rules(1)}, {"extractor": Rules(2, "so to speak")}),
        ({"extractor": Rules(1, "so to speak")}, {"extractor": Rules(2)}),
        ({"chunk_turns": 2}, {"chunk_turns": 4}),
        ({"chunk_turns": 4}, {"chunk_turns": 1}),
        ({"chunk_turns": 3, "extractor": Rules(1)}, {"chunk_turns": 2, "extractor": Rules(2, "now")}),
    ],
    ids=["other words", "fewer words", "longer chunks", "shorter chunks", "both"],
)
def test_it_is_as_if_it_had_been_made_so(folder: Path, tmp_path: Path, before: Any, after: Any) -> None:
    """Facts, words, vectors, trees and scenes; what is said verbatim is only cut anew."""
    path = fill(folder, **before)
    renew(folder, **after)
    assert differences(dump(fill(tmp_path, **after)), dump(path)) == {}
    made, wanted = summaries(path), summaries(file_of(tmp_path))
    assert made.keys() & wanted.keys()
    assert all(made[node] == wanted[node] for node in made.keys() & wanted.keys())


class Remote(Rules):
    """Asks a model for each chunk, so that the chunks of several sessions go to it at once; it counts how many do."""

    remote = True
    waiting = most = 0

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract when all that will come has come."""
        self.waiting += len(chunks)
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0)
        made = await super().extract(chunks)
        self.waiting -= len(chunks)
        return made


def test_a_model_reads_several_sessions_at_once(folder: Path, tmp_path: Path) -> None:
    """And each is written by itself; with a model the end is the same."""
    path = fill(folder, extractor=Rules(1))
    chunks = len(rows(path, "SELECT id FROM chunk WHERE maker = 'rules-1'"))
    model = Remote(2, "so to speak")
    renew(folder, extractor=model)
    assert (model.most, len(model.read)) == (chunks, chunks)
    assert differences(dump(fill(tmp_path, extractor=Rules(2, "so to speak"))), dump(path)) == {}


def test_only_what_is_stale_is_read(folder: Path) -> None:
    """A session that is written by the new rules is not read again, and a second run reads nothing."""
    fill(folder, extractor=Rules(1))
    with MemForest(folder, fast_config(extractor=Rules(2))) as forest:
        forest.ingest_session("u", "new", said("I live in Rome.", "I work at Acme."))
    again = Rules(2)
    renew(folder, extractor=again)
    assert set(again.read) == {name for name, _ in SESSIONS}
    again.read.clear()
    with MemForest(folder, fast_config(extractor=again)) as forest:
        forest.user("u").rebuild(stale=True)
    assert again.read == []


def test_what_is_stale_is_said(folder: Path) -> None:
    """By `stats`, with the way out, and by `stale` with reasons and counts."""
    path = fill(folder, extractor=Rules(1))
    chunks = len(rows(path, "SELECT id FROM chunk WHERE maker = 'rules-1'"))
    settings = {"memforest": {"session_k": 5}}
    with MemForest(folder, fast_config(extractor=Rules(2), chunk_turns=1, index_settings=settings)) as forest:
        found, notes = forest.user("u").stale(), "\n".join(forest.user("u").stats().notes)
    assert found.chunks["extracted by rules-1, now it is rules-2"] == chunks
    assert found.chunks["not of 1 turns, as chunk_turns says"] > 0
    assert found.sessions >= len(SESSIONS)
    assert found.indexes == {"memforest": "session_k is 3, and 5 is set"}
    assert (
        f"{chunks} chunks were extracted by rules-1, now it is rules-2; rebuild(stale=True) reads them"
        in notes
    )
    assert "session_k is 3, and 5 is set; rebuild(index='memforest')" in notes
    with MemForest(folder, fast_config(extractor=Rules(1))) as forest:
        assert not forest.user("u").stale()


def test_facts_that_are_said_again_have_been_known_since_then(folder: Path) -> None:
    """When a fact was stored is no matter of when it was extracted again."""
    path = fill(folder, extractor=Rules(1))
    before = dict(rows(path, "SELECT fact_id, stored_ms FROM fact"))
    renew(folder, extractor=Rules(2), clock=lambda: CLOCK + timedelta(days=9))
    assert dict(rows(path, "SELECT fact_id, stored_ms FROM fact")) == before
    renew(folder, extractor=Rules(3, "again"), clock=lambda: CLOCK + timedelta(days=9))
    said_again = rows(path, "SELECT stored_ms FROM fact WHERE text LIKE '% again'")
    assert said_again
    assert set(before.values()).isdisjoint({ms for (ms,) in said_again})


def test_a_session_that_cannot_be_read_stays_as_it_is(folder: Path) -> None:
    """All others are read; the error names it, and the same call tries it again."""
    path = fill(folder, extractor=Rules(1))
    before = dump(path)["occurrences"]
    failing = Rules(2, "so to speak")
    failing.fails = frozenset({"s2"})
    with (
        MemForest(folder, fast_config(extractor=failing)) as forest,
        pytest.raises(StepError),
    ):
        forest.user("u").rebuild(stale=True)
    now = dump(path)["occurrences"]
    of_it = [[one for one in state if str(one[1]).startswith("s2/")] for state in (before, now)]
    assert of_it[0]
    assert of_it[0] == of_it[1]
    made = {maker for (maker,) in rows(path, "SELECT maker FROM chunk")}
    assert made == {"rules-1", "rules-2", "verbatim"}
    renew(folder, extractor=Rules(2, "so to speak"))


def test_a_budget_that_is_used_up_is_gone_on_with(folder: Path) -> None:
    """What was read stays, and only the rest is read by the next call."""
    fill(folder, extractor=Rules(1))
    first, second = Rules(2), Rules(2)
    first.over = 2
    with (
        MemForest(folder, fast_config(extractor=first)) as forest,
        pytest.raises(BudgetError),
    ):
        forest.user("u").rebuild(stale=True, budget=Budget(max_calls=2))
    renew(folder, extractor=second)
    assert len(set(second.read)) == 4


def test_it_goes_on_after_it_was_interrupted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session is one transaction: old facts before it, new ones behind it, and progress is told."""
    fill(folder, extractor=Rules(1))
    done: list[tuple[str, int, int]] = []

    def stop(*now: Any) -> None:
        done.append(now)
        if now == ("sessions", 3, 6):
            raise KeyboardInterrupt

    with (
        MemForest(folder, fast_config(extractor=Rules(2, "now"))) as forest,
        pytest.raises(KeyboardInterrupt),
    ):
        forest.user("u").rebuild(stale=True, progress=stop)
    assert done == [("sessions", at, 6) for at in range(4)]
    after = Rules(2, "now")
    renew(folder, extractor=after)
    assert len(set(after.read)) == 3
    assert differences(dump(fill(tmp_path, extractor=Rules(2, "now"))), dump(file_of(folder))) == {}


def test_a_reader_sees_a_session_as_it_was_or_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every transaction all of a session's statements are of one version, and none is missing."""
    path = fill(folder, extractor=Rules(1))
    write, seen = Database.write, []

    def looked(self: Database) -> Any:
        seen.append(rows(path, "SELECT session, count(DISTINCT maker) FROM chunk GROUP BY session"))
        return write(self)

    monkeypatch.setattr(Database, "write", looked)
    renew(folder, extractor=Rules(2, "now"))
    assert len(seen) > len(SESSIONS)
    assert {makers for state in seen for _, makers in state} == {1}
    assert len({len(state) for state in seen}) == 1


def test_a_changed_setting_of_an_index_is_taken_by_its_rebuild(folder: Path, tmp_path: Path) -> None:
    """The fan-out of a memory is the configured one then, as if it had been made with it."""
    path = fill(folder)
    settings = {"memforest": {"session_k": 5, "entity_k": 4, "scene_join": 0.9}}
    with MemForest(folder, fast_config(index_settings=settings)) as forest:
        forest.user("u").rebuild(index="memforest")
        assert not forest.user("u").stale().indexes
        assert forest.user("u").verify().ok
    assert differences(dump(fill(tmp_path, index_settings=settings)), dump(path)) == {}


def test_other_thresholds_of_scenes_need_no_rebuild(folder: Path) -> None:
    """They are no kept setting: scenes are those of whoever reads, and nothing is out of date."""
    fill(folder)
    counts = []
    for join in (None, 2.0, -1.0, None):
        settings = {"memforest": {"scene_join": join, "scene_second": 2.0}}
        with MemForest(folder, fast_config(index_settings=settings)) as forest:
            assert not forest.user("u").stale()
            counts.append(forest.user("u").stats().indexes["memforest"]["scenes"])
            assert forest.user("u").verify().ok
    assert counts[0] == counts[3]
    assert counts[1] > counts[0] > counts[2]


def test_the_version_of_the_rules_tells_what_they_make() -> None:
    """Raise `RULES` in `reading/extract_local.py` when only `made` differs; then write the file anew (`make docs`)."""
    made = blake2b(digest_size=8)
    extractor = LocalExtractor()
    demo = json.loads((files("memforest.data") / "demo" / "nora_and_mateo.json").read_text(encoding="utf-8"))
    talks = [one["turns"] for one in demo["sessions"]] + [turns for _, turns in make_sessions(1, sessions=40)]
    for number, talk in enumerate(talks):
        turns = tuple(
            Turn(
                str(at),
                one["speaker"],
                one.get("text") or one["content"],
                datetime.fromisoformat(one["timestamp"]),
                at,
            )
            for at, one in enumerate(talk)
        )
        names = tuple(dict.fromkeys(turn.speaker for turn in turns))
        outcome = repr(extractor.extract_chunk(Chunk(f"s{number}", 0, turns, (), names)))
        made.update(re.sub(r"\b[A-Z]\w+\(", "(", outcome).encode())  # what a class is called is no rule
    now = {"version": rules_version(), "made": made.hexdigest()}
    path = DATA / "rules_version.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    if "MEMFOREST_WRITE_DOCS" in os.environ and known["version"] != now["version"]:
        path.write_text(json.dumps(now) + "\n", encoding="utf-8")
        known = now
    assert known == now


@pytest.mark.parametrize(
    "settings",
    [{"chunk_turns": 1}, {"extractor": Rules(2)}, {"extractor": Rules(3, "indeed"), "chunk_turns": 1}],
    ids=["other chunks", "other rules", "other words"],
)
def test_corrections_hold_for_what_is_read_again(folder: Path, settings: dict[str, Any]) -> None:
    """What was corrected or forgotten is not shown again, and what stands in its place is."""
    with memory(folder) as forest:
        user = forest.user("u")
        user.update(fact_of(user, "Davis"), "Bob lives in Portland.")
        user.forget(fact_of(user, "Acme"))
    with MemForest(folder, fast_config(**settings)) as forest:
        user = forest.user("u")
        assert user.stale()
        user.rebuild(stale=True)
        assert user.verify().problems == ()
        shown = all_shown(user)
        assert ("Davis" in shown, "Acme" in shown, "Portland" in shown) == (False, False, True)
        assert not user.stale()


@pytest.mark.parametrize("chunk_turns", [1, 2, 3])
def test_what_lies_beside_something_deleted_is_not_cut_otherwise(tmp_path: Path, chunk_turns: int) -> None:
    """A chunk of which a turn was deleted holds those that are there: it is not stale, and stays sound when it is made anew."""
    talk = [
        {"speaker": "Ana", "content": f"I own {at} boats.", "timestamp": f"2024-02-05T10:0{at}:00Z"}
        for at in range(7)
    ]
    for at in range(7):
        folder = tmp_path / str(at)
        with MemForest(folder, fast_config(chunk_turns=chunk_turns)) as forest:
            forest.ingest_session("u", "s", talk)
            memory = forest.user("u")
            memory.delete(turn=("s", memory.turns("s")[at].id))
            assert not memory.stale().chunks
            memory.rebuild(stale=True)
            assert memory.verify().ok
        with MemForest(folder, fast_config(chunk_turns=5 - chunk_turns)) as forest:
            memory = forest.user("u")
            assert memory.stale().chunks
            memory.rebuild(stale=True)
            assert memory.verify().ok
            assert not memory.stale().chunks
