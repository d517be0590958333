"""Arguments of questions and forests: defaults, bounds to the unit, and messages that say what to write."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.table import each

from memforest import AsyncMemForest, Budget, Config, MemForest, Ranking
from memforest.errors import ConfigError, InputError, MemForestError, TimestampError
from memforest.memory.options import read_question
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import check_options
from memforest.models import HashEmbedder
from memforest.read.query import Query
from memforest.settings import QUESTION_CHARS
from memforest.testing import FrozenClock

NOW = datetime(2024, 6, 1, 12, 0, 0, 123_456, tzinfo=timezone.utc)
CONFIG = Config(
    embedder=HashEmbedder(),
    clock=FrozenClock(NOW),
    timezone="America/New_York",
    top_k=7,
    ranking=Ranking(lexical=0.9),
    query_budget=Budget(max_calls=4),
)


def read(question: Any = "Where?", config: Any = CONFIG, **options: Any) -> Query:
    """Return a checked question."""
    check_options("search", AsyncUserMemory.search, {"question": question, **options})
    return read_question(config, question, **options)


def utc(*parts: int) -> datetime:
    """Return a time in UTC."""
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


def test_what_is_not_given_is_configured() -> None:
    """Counts, weights and budget are the configuration's; the time is the clock's, cut to the millisecond."""
    asked = read()
    assert (asked.question, asked.top_k, asked.max_tokens) == ("Where?", 7, None)
    assert (asked.ranking, asked.budget) == (CONFIG.ranking, CONFIG.query_budget)
    assert (asked.index, asked.mode) == (None, None)
    assert asked.reference == NOW.replace(microsecond=123_000)
    assert (asked.as_of, asked.during, asked.explain, asked.warnings) == (None, None, False, ())
    assert read(config=Config(mode="emb")).mode == "emb"


def test_none_is_as_good_as_not_given() -> None:
    """Every option that has a default takes None for it."""
    names = ("reference_date", "as_of", "during", "top_k", "max_tokens", "index")
    assert read(**dict.fromkeys((*names, "ranking", "mode", "budget"))) == read()


def test_what_is_given_stands_over_what_is_configured() -> None:
    """For this question alone."""
    ranking, budget = Ranking(turn=0.1), Budget(max_tokens=9)
    asked = read(ranking=ranking, budget=budget, top_k=2, mode="emb+planner", explain=True)
    assert (asked.ranking, asked.budget, asked.mode, asked.explain) == (ranking, budget, "emb+planner", True)
    assert asked.top_k == 2


@each(("name", "least"), [("top_k", 1), ("max_tokens", 1)])
@each("wrong", [-1, True, 1.0, "3", "9" * 5000])
def test_counts_are_whole_numbers_from_a_least_one(name: str, least: int, wrong: Any) -> None:
    """The least is taken; one less, a truth value, a fraction and a text are refused with the least."""
    assert getattr(read(**{name: least}), name) == least
    for value in (wrong, least - 1):
        with pytest.raises(InputError, match=name) as caught:
            read(**{name: value})
        assert len(str(caught.value)) < 200


def test_a_long_question_is_read_up_to_a_limit() -> None:
    """At the limit it is whole; of one character more both ends are read, and the warning says how long it was."""
    whole = read("é" * QUESTION_CHARS)
    assert (whole.question, whole.warnings) == ("é" * QUESTION_CHARS, ())
    asked, end = read("é" + "ü" * (QUESTION_CHARS - 1) + "ß"), QUESTION_CHARS // 2 - 1
    assert asked.question == "é" + "ü" * (end - 1) + "\n" + "ü" * (end - 1) + "ß"
    [told] = asked.warnings
    assert f"{QUESTION_CHARS + 1:,}" in told


@each("question", ["", " \n\t\u3000", None, 7, b"Where?", "lone \ud800"])
def test_a_question_is_a_text(question: Any) -> None:
    """Something to read that can be written as UTF-8."""
    with pytest.raises(InputError):
        read(question)


def test_an_unknown_option_is_refused_by_name() -> None:
    """The first of several by the alphabet, with those that there are."""
    with pytest.raises(InputError):
        read(**{"zoom": 1, "limit": 3})


@each("name", ["reference_date", "as_of"])
@each(
    ("given", "meant"),
    [
        ("2024-01-15", utc(2024, 1, 15, 5)),  # midnight in New York
        ("2024-07-15T00:00:00", utc(2024, 7, 15, 4)),  # in summer
        ("2024-01-15T00:00:00+01:00", utc(2024, 1, 14, 23)),
        (date(2024, 1, 15), utc(2024, 1, 15, 5)),
        (utc(2024, 1, 15), utc(2024, 1, 15)),
        (utc(2024, 1, 15) + timedelta(microseconds=999), utc(2024, 1, 15)),
        (1_700_000_000, utc(2023, 11, 14, 22, 13, 20)),
    ],
)
def test_times_are_read_in_the_configured_zone(name: str, given: Any, meant: datetime) -> None:
    """One without an offset is a time of the zone; finer than milliseconds is cut off."""
    asked = read(**{name: given})
    assert (asked.as_of if name == "as_of" else asked.reference) == meant


@pytest.mark.parametrize("name", ["reference_date", "as_of"])
def test_what_is_no_time_is_named(name: str) -> None:
    """The message has the argument's public name and the value."""
    with pytest.raises(TimestampError):
        read(**{name: "soon"})


@pytest.mark.parametrize("pair", [("2024-01-01", "2024-01-02"), ["2024-01-01", date(2024, 1, 2)]])
def test_a_window_is_a_pair_of_times(pair: Any) -> None:
    """Tuple or list, each read like any time."""
    assert read(during=pair).during == (utc(2024, 1, 1, 5), utc(2024, 1, 2, 5))
    shortest = (utc(2024, 1, 1), utc(2024, 1, 1) + timedelta(milliseconds=1))
    assert read(during=shortest).during == shortest


@each(
    ("wrong", "said"),
    [
        (("2024-01-01", "2024-01-01"), "a start before its end"),
        (("2024-01-02", "2024-01-01"), "a start before its end"),
        (("2024-01-01", None), "a start before its end"),
        ((None, "2024-01-01"), "a start before its end"),
        (("2024-01-01",), "a pair"),
        (("2024-01-01", "2024-01-02", "2024-01-03"), "a pair"),
        ("2024", "a pair"),
        ({"start": 1, "end": 2}, "a pair"),
        (("soon", "2024-01-01"), r"during\[0\]"),
        (("2024-01-01", "later"), r"during\[1\]"),
    ],
)
def test_a_window_that_is_none_is_refused(wrong: Any, said: str) -> None:
    """Empty, turned around, half, or with an end that is no time."""
    with pytest.raises(InputError, match=said):
        read(during=wrong)


def test_one_index_is_named() -> None:
    """Or none, which is the memory's own choice."""
    assert (read(index="flat").index, read().index) == ("flat", None)


@each(
    ("wrong", "kind", "said"),
    [
        ("nothing", ConfigError, "nothing.*memforest"),
        (7, InputError, "index"),
        (["flat"], InputError, "index"),
    ],
)
def test_indexes_that_cannot_be_searched_are_refused(
    wrong: Any, kind: type[MemForestError], said: str
) -> None:
    """Unknown, named twice, none at all, or no names."""
    with pytest.raises(kind, match=said):
        read(index=wrong)


@each(
    ("option", "wrong", "said"),
    [
        ("mode", "fast", "mode"),
        ("mode", 3, "mode=3"),
        ("ranking", {"turn": 1.0}, "Ranking"),
        ("budget", {"max_calls": 2}, "Budget"),
        ("budget", 3, "Budget"),
        ("explain", 1, "explain"),
        ("explain", "no", "explain"),
    ],
)
def test_options_of_the_wrong_kind_say_what_to_write(option: str, wrong: Any, said: str) -> None:
    """The name of the option, and where it can be told the call that is meant."""
    with pytest.raises(InputError, match=said):
        read(**{option: wrong})


class BytesPath(os.PathLike[bytes]):
    """A path of bytes."""

    def __fspath__(self) -> bytes:
        return b"here"


@each("kind", [MemForest, AsyncMemForest])
@each(
    ("given", "said"),
    [
        ({"directory": None}, "takes a path, not None"),
        ({"directory": ""}, "takes a path"),
        ({"directory": b"here"}, "takes a path"),
        ({"directory": 7}, "takes a path, not 7"),
        ({"directory": BytesPath()}, "takes a path, not <.*BytesPath"),
        (
            {"directory": "a", "config": {"top_k": 3}},
            r"not a dict; write MemForest\(directory, Config\(top_k=...\)\)",
        ),
        ({"directory": "a", "config": 3}, r"Config\(top_k=5\)"),
        ({"directory": "a", "config": Config}, "takes a Config"),
        ({"directory": "a", "max_workers": 0}, "max_workers=0.*at least 1"),
        ({"directory": "a", "max_workers": True}, "max_workers=True"),
        ({"directory": "a", "max_workers": 2.0}, "max_workers=2.0"),
        ({"directory": "a", "config": Config(embedder="word2vec")}, "word2vec"),
        ({"directory": "a", "config": Config(indexes=["nothing"])}, "nothing"),
    ],
)
def test_a_forest_refuses_what_it_cannot_use(
    kind: Callable[..., object], given: dict[str, Any], said: str
) -> None:
    """Before anything is done, and both classes alike."""
    with pytest.raises(ConfigError, match=said):
        kind(**given)


def test_making_a_forest_touches_no_disk(tmp_path: Path) -> None:
    """The directory comes with the first write; looking for users makes none."""
    for directory in (tmp_path / "a", str(tmp_path / "b")):
        with MemForest(directory, Config(embedder="none"), max_workers=1) as forest:
            assert (forest.list_users(), forest.has_user("u")) == ([], False)
            assert forest.config.embedder == "none"
    assert list(tmp_path.iterdir()) == []
