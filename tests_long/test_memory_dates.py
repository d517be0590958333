"""Dates of statements in a memory: a field beside the text, the order of numbers, and turns' timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests_long.worlds import fast_config, file_of, rows

from memforest import MemForest
from memforest.errors import ConfigError
from memforest.reading.timestamps import show_dates
from memforest.records import ResolvedDate

UTC = timezone.utc
WEDNESDAY = datetime(2024, 10, 16, 12, tzinfo=UTC)


def turns(*texts: str, at: datetime | str = WEDNESDAY) -> list[dict[str, Any]]:
    """Return what Ana says, all at one time."""
    return [{"speaker": "Ana", "content": text, "timestamp": at} for text in texts]


def dates_in(forest: MemForest) -> list[tuple[str, str]]:
    """Return words and first day of all dates of the user's facts."""
    facts = forest.user("u").list().facts
    return sorted((one.words, f"{one.start:%Y-%m-%d}") for fact in facts for one in fact.dates)


def test_a_date_is_a_field_and_the_text_stays_as_it_was(folder: Path) -> None:
    """Facts and evidence have the words and their days; nothing in brackets stands in the statement."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", turns("I moved to Oslo last week, and yesterday I bought a bed."))
        (fact,) = forest.user("u").list().facts
        assert "(" not in fact.statement
        assert [(one.words, one.precision) for one in fact.dates] == [
            ("last week", "week"),
            ("yesterday", "day"),
        ]
        assert (fact.dates[0].start, fact.dates[0].end) == (fact.start, fact.start + timedelta(days=7))
        (evidence,) = forest.query("u", "Where did Ana move?").evidence
        assert evidence.dates == fact.dates
        assert forest.query("u", "bed?").to_dict()["evidence"][0]["dates"][1]["words"] == "yesterday"
        assert forest.user("u").verify().ok


def test_the_same_session_again_changes_nothing_and_another_day_is_another_fact(folder: Path) -> None:
    """What the words mean is part of what is said: "until Friday" is not the Friday of the week after."""
    with MemForest(folder, fast_config()) as forest:
        said = turns("I have the keys until Friday.")
        assert forest.ingest_session("u", "a", said).facts_inserted == 1
        assert forest.ingest_session("u", "a", said).unchanged
        same = forest.ingest_session("u", "b", said)
        assert (same.facts_inserted, same.facts_merged) == (0, 1)
        later = turns("I have the keys until Friday.", at=WEDNESDAY + timedelta(days=7))
        assert forest.ingest_session("u", "c", later).facts_inserted == 1
        assert dates_in(forest) == [("Friday", "2024-10-18"), ("Friday", "2024-10-25")]
        forest.ingest_session("u", "a", turns("I like jazz."), replace=True)
        assert dates_in(forest) == [("Friday", "2024-10-18"), ("Friday", "2024-10-25")]
        assert forest.user("u").verify().ok


@pytest.mark.parametrize(
    ("texts", "settings", "expected"),
    [
        (["I paid the fee on 03/04/2024."], {"day_first": True}, "2024-04-03"),
        (["I paid the fee on 03/04/2024."], {"day_first": False}, "2024-03-04"),
        (["I was born in Oslo, on 25/12/1990.", "I paid the fee on 03/04/2024."], {}, "2024-04-03"),
        (["I moved to Oslo on 12/25/1990.", "I paid the fee on 03/04/2024."], {}, "2024-03-04"),
        (["I paid the fee on 03/04/2024."], {}, None),
        (["On 25/12/2020 and 12/25/2021 I paid.", "I paid the fee on 03/04/2024."], {}, None),
        (["Pagué la cuota el 03/04/2024."], {}, "2024-04-03"),
    ],
)
def test_the_order_of_numbers_is_configured_or_proven_or_open(
    folder: Path, texts: list[str], settings: dict[str, bool], expected: str | None
) -> None:
    """Where nothing tells it, the date is none, and a warning names it and the setting."""
    with MemForest(folder, fast_config(**settings)) as forest:
        done = forest.ingest_session("u", "s", turns(*texts))
        found = [day for words, day in dates_in(forest) if "03/04/2024" in words]
        assert found == ([] if expected is None else [expected])
        warned = [one for one in done.warnings if "day_first" in one]
        assert len(warned) == (expected is None)
        assert all("'03/04/2024'" in one for one in warned)


def test_what_a_memory_has_proven_holds_for_later_sessions_and_other_order_undoes_it(folder: Path) -> None:
    """One session proves, the next is read by it; a contradiction leaves it open again."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", turns("I moved to Oslo on 25/12/1990."))
        forest.ingest_session("u", "b", turns("I paid the fee on 03/04/2024."))
        assert ("03/04/2024", "2024-04-03") in dates_in(forest)
        forest.ingest_session("u", "c", turns("I moved to Rome on 12/25/1991."))
        assert forest.ingest_session("u", "d", turns("I sold my boat on 05/06/2024.")).warnings
    assert rows(file_of(folder), "SELECT value FROM meta WHERE key = 'day_first'") == [("both",)]


@pytest.mark.parametrize(
    ("times", "settings", "expected", "warned"),
    [
        (["01/02/2023"], {}, "2023-01-02", True),
        (["01/02/2023"], {"day_first": True}, "2023-02-01", False),
        (["01/02/2023"], {"day_first": False}, "2023-01-02", False),
        (["01/02/2023", "13/02/2023"], {}, "2023-02-01", False),
        (["2023-02-01"], {}, "2023-02-01", False),
    ],
)
def test_a_timestamp_that_can_be_read_both_ways(
    folder: Path, times: list[str], settings: dict[str, bool], expected: str, warned: bool
) -> None:
    """It is read as configured, or as the session's others prove; else month first, and a warning says so."""
    said = [turns(f"I painted door {at}.", at=time)[0] for at, time in enumerate(times)]
    with MemForest(folder, fast_config(**settings)) as forest:
        done = forest.ingest_session("u", "s", said)
        first = min(fact.said for fact in forest.user("u").list().facts)
        assert f"{first:%Y-%m-%d}" == expected
        assert [("month first" in one and "day_first" in one) for one in done.warnings] == [True] * warned


def test_the_environment_sets_the_order() -> None:
    """As words; anything else is refused by name."""
    from memforest import load_default_config

    assert load_default_config(environ={"MEMFOREST_DAY_FIRST": "true"}).day_first is True
    assert load_default_config(environ={"MEMFOREST_DAY_FIRST": "False"}).day_first is False
    assert load_default_config(environ={}).day_first is None
    with pytest.raises(ConfigError, match="MEMFOREST_DAY_FIRST"):
        load_default_config(environ={"MEMFOREST_DAY_FIRST": "perhaps"})


def test_dates_are_shown_beside_the_words_that_do_not_say_them() -> None:
    """Days as people write them, in the zone; words with a year need nothing."""
    week = ResolvedDate(
        "last week", datetime(2024, 1, 22, tzinfo=UTC), datetime(2024, 1, 29, tzinfo=UTC), "week"
    )
    year = ResolvedDate("2019", datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), "year")
    since = ResolvedDate("for five years", datetime(2019, 1, 1, tzinfo=UTC), None, "year")
    said = datetime(2024, 2, 2, tzinfo=UTC)
    assert show_dates((week, year), UTC, said) == "22–28 January 2024"
    assert show_dates((since, week), UTC, said) == "for five years: since 2019; last week: 22–28 January 2024"
    assert show_dates((year,), UTC, said) == ""
    today = ResolvedDate("today", said, datetime(2024, 2, 3, tzinfo=UTC), "day")
    assert show_dates((today,), UTC, said) == ""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("New MVP deadline: 29 March", "2025-03-29"),
        ("Entrega prototipo: 29 marzo 2025", "2025-03-29"),
        ("Reunión clientes 29 de marzo", "2025-03-29"),
        ("Abgabe ist nicht am 29 March", None),
        ("Встреча 29 March", None),
    ],
)
def test_text_without_function_words_gets_its_dates(folder: Path, text: str, day: str | None) -> None:
    """Read in the languages that have rules, unless it has words or letters of another one."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", turns(text))
        assert [found for _, found in dates_in(forest)] == ([] if day is None else [day])
