"""Times, clocks, zones, embedders and processes as they should not be: hmem says so or is right, and nothing is lost."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long import hmems
from tests_long.test_hmem_tree import START, TALK, said

from memforest import MemForest, UserMemory
from memforest.errors import EmbedderMismatchError
from memforest.models import HashEmbedder

NOW = datetime(2024, 6, 20, tzinfo=timezone.utc)


def at(when: datetime, *lines: str, minutes: float = 1) -> list[dict[str, Any]]:
    """Return turns that are said one after the other from an instant on."""
    return [
        {
            "role": "user",
            "content": line,
            "timestamp": (when + timedelta(minutes=minutes * number)).isoformat(),
        }
        for number, line in enumerate(lines or TALK)
    ]


def levels(folder: Path) -> set[int]:
    """Return the levels on which there are nodes."""
    return {level for level, _ in hmems.shape(folder)}


def years(memory: UserMemory) -> list[str]:
    """Return the years of which there are trees."""
    return [tree.title for tree in memory.tree(index="hmem", depth=0)]


def test_an_event_before_all_others_makes_the_memory_older(tmp_path: Path) -> None:
    """A memory of one day has weeks; one thing that was told a year before, and it has months and years, of all that there is."""
    with MemForest(tmp_path, hmems.configured()) as forest:
        forest.ingest_session("ana", "s0", said(0))
        assert levels(tmp_path) == {0, 1, 4}
        before = {node: place for node, place in hmems.shape(tmp_path).items() if node[0] == 0}
        forest.ingest_session("ana", "early", at(START - timedelta(days=365)))
        after = hmems.sound(forest.user("ana"), tmp_path)
        assert levels(tmp_path) == {0, 1, 2, 3, 4}
        assert {node: after[node] for node in before if node in after}.items() <= before.items()
        assert years(forest.user("ana")) == ["year 2023", "year 2024"]


def test_a_clock_that_is_behind_changes_no_tree_and_no_answer(tmp_path: Path) -> None:
    """What is said after the present has trees, and questions of before it are answered: no age is below 0."""
    with MemForest(tmp_path, hmems.configured(clock=lambda: START - timedelta(days=400))) as forest:
        for session in range(6):
            forest.ingest_session("ana", f"s{session}", said(session))
        hmems.sound(forest.user("ana"), tmp_path)
        assert levels(tmp_path) == {0, 1, 2, 3, 4}
        scores = []
        for days in (10, 300):
            early = (START - timedelta(days=days)).isoformat()
            found = forest.query("ana", "What did I paint green?", reference_date=early)
            assert "kitchen" in found.evidence[0].text
            scores.append([round(one.score, 9) for one in found.evidence])
        assert scores[0] == scores[1]


def test_a_memory_of_one_instant(tmp_path: Path) -> None:
    """All was told at once, some of it twice: order is that of the session, and nothing is told twice."""
    with MemForest(tmp_path, hmems.configured(clock=lambda: NOW)) as forest:
        forest.ingest_session("ana", "s0", at(START, *TALK, TALK[0], minutes=0))
        memory = forest.user("ana")
        found = hmems.sound(memory, tmp_path)
        forest.flush()
        assert len({name for level, name in found if level == 0}) == len(TALK)
        assert {window for (level, _), (_, window) in found.items() if level == 1} == {"2024-01/2024-W04"}
        assert forest.query("ana", "What about the red bicycle?").evidence


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("kind", ["facts", "turns"])
def test_the_ends_of_time(tmp_path: Path, zone: str, kind: str) -> None:
    """The years 1 and 9999 have trees too, in zones far from UTC, and events of them are found."""
    ends = (datetime(1, 1, 1, tzinfo=timezone.utc), datetime(9999, 12, 31, 23, tzinfo=timezone.utc))
    config = hmems.configured({"events": kind}, timezone=zone, clock=lambda: NOW)
    with MemForest(tmp_path, config) as forest:
        for number, when in enumerate(reversed(ends)):
            lines = [f"{line[:-1]} {number}." for line in TALK]
            forest.ingest_session("ana", f"s{number}", at(when, *lines))
        memory = forest.user("ana")
        memory.advance(force=True)
        forest.flush()
        hmems.sound(memory, tmp_path, zone, kind=kind)
        assert years(memory) == ["year 1", "year 9999"]
        for asked in ("0001-01-02", "2024-01-01", "9999-12-31"):
            assert forest.query(
                "ana", "Who painted the kitchen green in 9999?", reference_date=asked
            ).evidence
        forest.delete_session("ana", "s0")
        hmems.sound(memory, tmp_path, zone, kind=kind)
        assert years(memory) == ["year 1"]


def test_a_day_that_a_zone_skips_and_one_that_it_has_twice(tmp_path: Path) -> None:
    """Every event is in one window of its days.

    Apia had no 30 December 2011, Lisbon an hour twice on 29 October 2023, and St John's the last hour of October 2009 again in November.
    """
    for zone, when in (
        ("Pacific/Apia", datetime(2011, 12, 29, 20, tzinfo=timezone.utc)),
        ("Europe/Lisbon", datetime(2023, 10, 28, 22, tzinfo=timezone.utc)),
        ("America/St_Johns", datetime(2009, 10, 31, 23, 30, tzinfo=timezone.utc)),
    ):
        folder = tmp_path / zone.replace("/", "-")
        with MemForest(folder, hmems.configured(timezone=zone)) as forest:
            forest.ingest_session("ana", "s", at(when, *TALK, minutes=50))
            assert hmems.sound(forest.user("ana"), folder, zone)


def test_another_embedder_has_everything_joined_anew(tmp_path: Path) -> None:
    """It is refused until the memory is embedded anew; then trees are those of the new vectors, with their likenesses."""
    with MemForest(tmp_path, hmems.configured()) as forest:
        for session in range(3):
            forest.ingest_session("ana", f"s{session}", said(session))
        forest.flush()
        before = hmems.shape(tmp_path)
    with MemForest(tmp_path, hmems.configured(embedder=HashEmbedder(48))) as forest:
        with pytest.raises(EmbedderMismatchError):
            forest.ingest_session("ana", "s3", said(3))
        forest.rebuild("ana", embedder=True)
        memory = forest.user("ana")
        forest.ingest_session("ana", "s3", said(3))
        forest.flush()
        found = hmems.sound(memory, tmp_path)
        assert {at: found[at] for at in before if at in found} != before
        assert hmems.texts(tmp_path).keys() == {node for node in found if 1 <= node[0] <= 3}
        assert not memory.stale().indexes


def test_an_embedder_that_comes_later_has_trees_of_everything(tmp_path: Path) -> None:
    """Without one there are words and names, and a note says so; with one there are trees of all that was told before."""
    with MemForest(tmp_path, hmems.configured(embedder=None)) as forest:
        forest.ingest_session("ana", "s0", said(0))
        memory = forest.user("ana")
        found = forest.query("ana", "What did I paint green?")
        assert "kitchen" in found.evidence[0].text
        assert any("no embedder" in one for one in found.warnings)
        assert any("no embedder" in one for one in memory.stats().notes)
        assert memory.verify().ok
        assert hmems.shape(tmp_path) == {}
    with MemForest(tmp_path, hmems.configured()) as forest:
        forest.rebuild("ana", embedder=True)
        forest.ingest_session("ana", "s1", said(1))
        assert len(hmems.sound(forest.user("ana"), tmp_path)) > 2 * len(TALK)


@pytest.mark.parametrize("kind", ["facts", "turns"])
def test_added_later_it_places_what_is_there(tmp_path: Path, kind: str) -> None:
    """Nothing is extracted again for it, and trees are as if it had been there; statements that are turns as they stand too."""
    with MemForest(tmp_path / "later", hmems.configured(indexes=("flat",), index_settings={})) as forest:
        forest.ingest_session("ana", "s0", said(0))
        forest.ingest_session("ana", "s1", said(1), infer=False)
        memory = forest.user("ana")
        facts = [one.fact_id for one in memory.list(limit=100)]
        memory.add_index("hmem", {"schedule": "loose", "events": kind})
        found = hmems.sound(memory, tmp_path / "later", kind=kind)
        assert [one.fact_id for one in memory.list(limit=100)] == facts
    with MemForest(tmp_path / "there", hmems.configured({"events": kind})) as forest:
        forest.ingest_session("ana", "s0", said(0))
        forest.ingest_session("ana", "s1", said(1), infer=False)
        assert hmems.shape(tmp_path / "there") == found
