"""A memory's days are those of one zone, from its first write on, whatever is configured later."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.cli import main
from memforest.errors import ConfigError
from memforest.testing import FrozenClock

SESSION = said("I live in Oslo.", "I have a red car.")
LATE = FrozenClock("2024-06-01T23:30:00+00:00")  # 2 June in Madrid, 1 June in New York


def zone_in(folder: Path) -> list[tuple[object, ...]]:
    """Return what the file says."""
    return rows(file_of(folder), "SELECT value FROM meta WHERE key = 'timezone'")


def put_zone(folder: Path, name: str | None) -> None:
    """Give a closed file another zone, or none."""
    with closing(sqlite3.connect(file_of(folder), isolation_level=None)) as conn:
        conn.execute("DELETE FROM meta WHERE key = 'timezone'")
        if name is not None:
            conn.execute("INSERT INTO meta VALUES ('timezone', ?)", (name,))


def in_madrid(folder: Path) -> None:
    """Make a memory whose days are Madrid's."""
    with MemForest(folder, fast_config(timezone="Europe/Madrid")) as forest:
        forest.register_user("u")
        assert forest.user("u").stats().timezone is None
        assert forest.ingest_session("u", "s", SESSION).warnings == ()
        assert forest.user("u").stats().timezone == "Europe/Madrid"


def test_the_first_write_keeps_the_zone(folder: Path) -> None:
    """Being registered is none; a file of an older version gets its zone at the next write."""
    in_madrid(folder)
    assert zone_in(folder) == [("Europe/Madrid",)]
    put_zone(folder, None)
    with MemForest(folder, fast_config(timezone="Asia/Tokyo")) as forest:
        assert forest.query("u", "Where?").warnings == ()
        assert forest.user("u").stats().timezone is None
        forest.user("u").add("I sold it.", session_id="more")
    assert zone_in(folder) == [("Asia/Tokyo",)]


def test_another_zone_is_said_and_moves_no_day(folder: Path) -> None:
    """Everything is found as before; each result, `stats` and `doctor` name both zones and the remedy."""
    in_madrid(folder)
    with MemForest(folder, fast_config(timezone="Europe/Madrid")) as forest:
        before = forest.query("u", "Where do you live?").evidence
    with MemForest(folder, fast_config(timezone="America/New_York", clock=LATE)) as forest:
        found = forest.query("u", "Where do you live?")
        assert [one.text for one in found.evidence] == [one.text for one in before]
        added = forest.user("u").add("I sold the car.")
        assert added.session_id == "live-2024-06-02"
        again = forest.ingest_session("u", "s", SESSION)
        stats = forest.user("u").stats()
        for notes in (found.warnings, added.warnings, again.warnings, stats.notes):
            [note] = [one for one in notes if "Madrid" in one]
            assert "'America/New_York'" in note
            assert "set timezone='Europe/Madrid'" in note
        assert stats.timezone == "Europe/Madrid"
        report = forest.user("u").verify()
        assert (report.ok, report.notes) == (True, ())
    assert zone_in(folder) == [("Europe/Madrid",)]
    shown = " ".join(CliRunner().invoke(main, ["doctor", "--dir", str(folder)]).output.split())
    assert "time zone u: the days of this memory are those of 'Europe/Madrid'" in shown


@pytest.mark.parametrize("name", ["Mars/Olympus_Mons", "../../etc/passwd", "", "Europe", "a\x1b[31m\nb"])
def test_a_zone_that_is_not_known_here_is_named_and_the_memory_searchable(folder: Path, name: str) -> None:
    """Only what needs the memory's days is refused; nothing is lost, and the name in the file stays."""
    in_madrid(folder)
    put_zone(folder, name)
    with MemForest(folder, fast_config(clock=LATE)) as forest:
        found = forest.query("u", "Where do you live?")
        assert "Oslo" in found.evidence[0].text
        assert any("does not know; update it (pip install -U tzdata)" in one for one in found.warnings)
        user = forest.user("u")
        with pytest.raises(ConfigError):
            user.add("I sold the car.")
        assert user.add("I sold the car.", session_id="named").turns_added == 1
        report = user.verify()
        assert report.ok
        assert any("time zone data" in note for note in report.notes)
    assert zone_in(folder) == [(name,)]
