"""Retention: what was said too long ago goes, by the injected clock, when it is asked for and with writes."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import Config, MemForest, load_default_config
from memforest.errors import ConfigError

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


def kept(folder: Path) -> list[str]:
    """Return the ids of the sessions that are there."""
    return [row[0] for row in rows(file_of(folder), "SELECT session_id FROM session")]


def test_expire_deletes_what_was_said_too_long_ago(tmp_path: Path) -> None:
    """To the millisecond, with a receipt; what is not so old stays."""
    with MemForest(tmp_path, fast_config(clock=lambda: NOW)) as forest:
        forest.ingest_session("u", "old", said("I live in Oslo.", day=1))
        forest.ingest_session("u", "new", said("I like tea.", day=9))
        with pytest.raises(ConfigError):
            forest.user("u").expire()
    # Said on 1 May 2023, 10:00; 244 days and 14 hours later it is the new year.
    for days, left in ((245, ["new", "old"]), (244, ["new"])):
        config = fast_config(clock=lambda: NOW, retention=timedelta(days=days))
        with MemForest(tmp_path, config) as forest:
            counted = forest.user("u").expire(dry_run=True)
            receipt = forest.user("u").expire()
            assert receipt.target == "expired"
            assert receipt.counts() == counted.counts()
            assert kept(tmp_path) == left
    with MemForest(tmp_path, fast_config()) as forest:
        assert forest.user("u").verify(deleted=["oslo"]).ok


def test_a_write_expires_at_most_once_a_day(tmp_path: Path) -> None:
    """It says so in its warnings; the clock may be set back."""
    now = [NOW]
    with MemForest(tmp_path, fast_config(clock=lambda: now[0], retention="30 days")) as forest:
        result = forest.ingest_session("u", "old", said("I live in Oslo."))
        assert any("retention: 1 turn" in warning for warning in result.warnings)
        assert kept(tmp_path) == []
        assert not forest.ingest_session("u", "old", said("I live in Oslo.")).warnings
        assert kept(tmp_path) == ["old"]  # not looked at again on this day
        now[0] += timedelta(hours=25)
        forest.user("u").add("I like tea.", session_id="new")
        assert kept(tmp_path) == ["new"]
        now[0] -= timedelta(days=9)
        forest.ingest_session("u", "old", said("I live in Oslo."))
        assert kept(tmp_path) == ["new"]


@each("given", ["365 days", "52 weeks", "1 day", timedelta(days=3), None])
def test_a_duration_is_read(given: Any) -> None:
    """As text or as an object, also from a file and the environment."""
    config = Config(retention=given)
    assert config.retention is None or isinstance(config.retention, timedelta)
    if isinstance(given, str):
        assert load_default_config(environ={"MEMFOREST_RETENTION": given}).retention == config.retention


@each("given", ["a year", "0 days", "12", "-3 days", timedelta(hours=1), "1 days 2"])
def test_what_is_no_duration_is_refused(given: Any) -> None:
    """With an example of one, or the least."""
    with pytest.raises(ConfigError, match="retention"):
        Config(retention=given)
