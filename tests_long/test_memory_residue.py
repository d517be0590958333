"""What a memory keeps: no row without an owner, and no text of a session that was replaced."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from memforest import MemForest
from memforest.store import derived

START = datetime(2023, 5, 1, 9, tzinfo=timezone.utc)
MARKERS = ("quixplotz", "Zorblatt", "vrukkam")
"""Nonsense that the stemmer leaves alone: a verb's object, a name, a last word."""
OWNERS = {
    "turn": "SELECT id FROM turn",
    "fact": "SELECT id FROM fact",
}


def turns(texts: Sequence[str]) -> list[dict[str, str]]:
    """Return a conversation of two, a minute between turns."""
    return [
        {
            "speaker": ("Nora", "Tomas")[i % 2],
            "text": text,
            "timestamp": (START + timedelta(minutes=i)).isoformat(),
        }
        for i, text in enumerate(texts)
    ]


def secret(number: int) -> list[str]:
    """Return turns that hold every marker."""
    return [
        f"I bought a {MARKERS[0]} for my cousin {MARKERS[1]} in {2000 + number}.",
        f"My neighbour {MARKERS[1]} repaired {number + 2} bicycles near {MARKERS[2]}.",
        f"I told {MARKERS[1]} about the trip to {MARKERS[2]}.",
        "The weather was fine and we swam in the lake.",
    ]


def plain(number: int) -> list[str]:
    """Return turns without a marker."""
    return [
        f"I planted {number + 2} apple trees behind the house.",
        f"My sister visited Oslo in {2000 + number}.",
        "The weather was fine and we swam in the lake.",
    ]


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store summaries as they are: a compressed one would hide what is looked for in the files."""
    monkeypatch.setattr(derived, "LEVEL", 0)


def bytes_of(directory: Path) -> bytes:
    """Return everything that the files of a directory hold, in lower case."""
    return b"\0".join(path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()).lower()


def rows(directory: Path, sql: str) -> list[tuple[int, ...]]:
    """Return what a query finds in the one memory of a directory."""
    (path,) = directory.glob("*.db")
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def told(directory: Path, marker: str) -> bool:
    """Return whether a summary tells of a marker."""
    return rows(directory, f"SELECT count(*) FROM artifact WHERE instr(lower(text), '{marker.lower()}')") != [
        (0,)
    ]


def orphans(directory: Path) -> dict[str, int]:
    """Return how many derived rows of each kind have no owner."""
    found = {
        kind: rows(directory, f"SELECT count(*) FROM derived_{kind}_vector WHERE item NOT IN ({owner})")[0][0]
        for kind, owner in OWNERS.items()
    }
    for kind in ("turn", "fact"):
        sql = f"SELECT count(*) FROM derived_{kind}_words WHERE rowid NOT IN ({OWNERS[kind]})"
        found[f"{kind} words"] = rows(directory, sql)[0][0]
    return found


def test_derived_rows_have_owners(forest: MemForest, tmp_path: Path) -> None:
    """Appends and replacements leave exactly one vector for every turn and fact, and no other."""
    directory = tmp_path / "forest"
    for number in range(6):
        forest.ingest_session("nora", f"s{number}", turns(secret(number)))
    for number in range(6):  # appends: the last, half-full chunk is cut anew
        forest.ingest_session("nora", f"s{number}", turns([*secret(number), *plain(number)]))
    for number in range(0, 6, 2):
        forest.ingest_session("nora", f"s{number}", turns(plain(number)), replace=True)
    forest.user("nora").add("I sold the boat.")
    assert set(orphans(directory).values()) == {0}
    for kind, owner in OWNERS.items():
        have = rows(directory, f"SELECT count(*) FROM derived_{kind}_vector")
        assert have == rows(directory, f"SELECT count(*) FROM ({owner})")


def test_growth_is_bounded(forest: MemForest, tmp_path: Path) -> None:
    """Replacing a session again and again does not let the memory grow."""
    directory = tmp_path / "forest"
    tables = (
        "turn",
        "fact",
        "occurrence",
        "mention",
        "state",
        "entity",
        "derived_turn_vector",
        "derived_fact_vector",
        "artifact",
    )
    counted = []
    for round_ in range(8):
        texts = secret(1) if round_ % 2 else plain(1)
        forest.ingest_session("nora", "s", turns(texts), replace=True)
        forest.flush("nora")
        counted.append([rows(directory, f"SELECT count(*) FROM {table}")[0][0] for table in tables])
    assert counted[0] == counted[2] == counted[4] == counted[6]
    assert counted[1] == counted[3] == counted[5] == counted[7]


@pytest.mark.parametrize("sessions", [1, 3, 24])
def test_replaced_text_is_gone(forest: MemForest, tmp_path: Path, sessions: int) -> None:
    """No byte of a replaced session's words is left in the files, not even before they are closed."""
    directory = tmp_path / "forest"
    for number in range(sessions):
        forest.ingest_session("nora", f"s{number}", turns(secret(number)))
        forest.ingest_session("nora", f"p{number}", turns(plain(number)))
    forest.flush("nora")
    assert all(told(directory, marker) for marker in MARKERS)
    assert all(marker.lower().encode() in bytes_of(directory) for marker in MARKERS)
    for number in range(sessions):
        forest.ingest_session("nora", f"s{number}", turns(plain(number + 100)), replace=True)
    left = [marker for marker in MARKERS if marker.lower().encode() in bytes_of(directory)]
    assert left == []
    forest.close()
    left = [marker for marker in MARKERS if marker.lower().encode() in bytes_of(directory)]
    assert left == []


def test_stale_summaries_go_at_once(forest: MemForest, tmp_path: Path) -> None:
    """With the refresh put off, no summary tells of the replaced session; questions are answered all the same."""
    directory = tmp_path / "forest"
    for number in range(12):
        forest.ingest_session("nora", f"s{number}", turns(secret(number)))
    forest.flush("nora")
    assert all(told(directory, marker) for marker in MARKERS)
    for number in range(12):
        forest.ingest_session("nora", f"s{number}", turns(plain(number)), replace=True, refresh=False)
    assert not [marker for marker in MARKERS if marker.lower().encode() in bytes_of(directory)]
    assert forest.query("nora", "Who planted apple trees?").evidence
    forest.resume("nora")
    assert forest.user("nora").stats().dirty_nodes == 0
    assert set(orphans(directory).values()) == {0}


def test_a_session_that_grew_turn_by_turn_leaves_nothing_when_it_is_replaced(tmp_path: Path) -> None:
    """Half-full chunks are cut anew as it grows; until then their old words may stay, as the turns do; then all go."""
    said = turns(secret(1))
    with MemForest(tmp_path) as forest:
        for size in range(1, len(said) + 1):
            forest.ingest_session("u", "grown", said[:size])
        assert all(marker.lower().encode() in bytes_of(tmp_path) for marker in MARKERS)
        forest.ingest_session("u", "grown", turns(plain(1)), replace=True)
        forest.save()
        assert [marker for marker in MARKERS if marker.lower().encode() in bytes_of(tmp_path)] == []


def test_repair_takes_old_words_of_a_grown_session_out(tmp_path: Path) -> None:
    """`repair` merges the lexical index: what was cut anew is in it no longer."""
    said = turns(secret(1))
    with MemForest(tmp_path) as forest:
        for size in range(1, len(said) + 1):
            forest.ingest_session("u", "grown", said[:size])
        assert forest.user("u").repair().ok
    deleted = rows(tmp_path, "SELECT count(*) FROM derived_fact_words_content")
    assert deleted == rows(tmp_path, "SELECT count(*) FROM fact")
    (segments,) = rows(tmp_path, "SELECT count(DISTINCT segid) FROM derived_fact_words_idx")
    assert segments[0] <= 1
