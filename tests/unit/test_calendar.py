"""What people say about time means the days they mean.

The reference of every table is Friday 16 June 2023, 13:00 UTC, in New York.
"""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timedelta, timezone, tzinfo
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import TimestampError
from memforest.reading.date_language import load_language
from memforest.reading.date_phrases import MAX_CHARS, DateSpan, QuestionTime, find_dates, question_time
from memforest.reading.date_rules import OPERATIONS, PREFIXES
from memforest.times import EARLIEST, Interval

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")
FRIDAY = datetime(2023, 6, 16, 13, tzinfo=UTC)


def days(span: DateSpan, zone: tzinfo = NEW_YORK) -> str:
    """Write the local days of a span as "first..last", or just the one day."""
    first = span.start.astimezone(zone).date()
    last = span.end.astimezone(zone).date() - timedelta(days=1)
    return str(first) if first == last else f"{first}..{last}"


def one(text: str, reference: datetime = FRIDAY) -> DateSpan:
    """Return the only date of a text."""
    spans = find_dates(text, reference, NEW_YORK)
    assert len(spans) == 1, spans
    return spans[0]


ENGLISH = [
    # relative days
    ("I went there yesterday.", "yesterday", "2023-06-15", "day"),
    ("yesterday evening we sang", "yesterday evening", "2023-06-15", "day"),
    ("See you today", "today", "2023-06-16", "day"),
    ("are you free tonight?", "tonight", "2023-06-16", "day"),
    ("This morning I ran", "This morning", "2023-06-16", "day"),
    ("Last night was great", "Last night", "2023-06-15", "day"),
    ("the day before yesterday", "the day before yesterday", "2023-06-14", "day"),
    ("Can't wait for tomorrow's opening", "tomorrow", "2023-06-17", "day"),
    ("the day after tomorrow", "the day after tomorrow", "2023-06-18", "day"),
    # so many units away
    ("three hours ago", "three hours ago", "2023-06-16", "day"),
    ("10 hours ago", "10 hours ago", "2023-06-15", "day"),
    ("3 days ago", "3 days ago", "2023-06-13", "day"),
    ("a couple of days ago", "a couple of days ago", "2023-06-14", "day"),
    ("two weeks ago", "two weeks ago", "2023-05-29..2023-06-04", "week"),
    ("two weekends ago", "two weekends ago", "2023-06-03..2023-06-04", "day"),
    ("about 3 months ago", "about 3 months ago", "2023-03-01..2023-03-31", "month"),
    ("half a year ago", "half a year ago", "2022-12-01..2022-12-31", "month"),
    ("a few years ago", "a few years ago", "2018-01-01..2021-12-31", "year"),
    ("ten years ago I moved", "ten years ago", "2013-01-01..2013-12-31", "year"),
    ("two decades ago", "two decades ago", "2000-01-01..2009-12-31", "decade"),
    ("in two weeks we'll meet", "two weeks", "2023-06-26..2023-07-02", "week"),
    ("two weeks from now", "two weeks from now", "2023-06-26..2023-07-02", "week"),
    ("three weeks from Monday", "three weeks from Monday", "2023-07-10", "day"),
    # calendar units
    ("last week", "last week", "2023-06-05..2023-06-11", "week"),
    ("this week", "this week", "2023-06-12..2023-06-18", "week"),
    ("next week", "next week", "2023-06-19..2023-06-25", "week"),
    ("early next week", "early next week", "2023-06-19..2023-06-20", "week"),
    ("last month", "last month", "2023-05-01..2023-05-31", "month"),
    ("next month we will", "next month", "2023-07-01..2023-07-31", "month"),
    ("last year", "last year", "2022-01-01..2022-12-31", "year"),
    ("at the end of last year", "the end of last year", "2022-09-01..2022-12-31", "year"),
    ("the end of the month", "the end of the month", "2023-06-21..2023-06-30", "month"),
    ("earlier this month", "earlier this month", "2023-06-01..2023-06-16", "month"),
    ("later this week", "later this week", "2023-06-16..2023-06-18", "week"),
    ("the past three months", "the past three months", "2023-03-16..2023-06-16", "month"),
    ("in the past few days", "the past few days", "2023-06-11..2023-06-16", "day"),
    ("the past year", "the past year", "2022-06-16..2023-06-16", "year"),
    ("the next two weeks", "the next two weeks", "2023-06-16..2023-06-30", "week"),
    # weekends
    ("last weekend", "last weekend", "2023-06-10..2023-06-11", "day"),
    ("this past weekend", "this past weekend", "2023-06-10..2023-06-11", "day"),
    ("this weekend", "this weekend", "2023-06-17..2023-06-18", "day"),
    ("this weekend I went sailing", "this weekend", "2023-06-10..2023-06-11", "day"),
    ("We sang over the weekend", "the weekend", "2023-06-10..2023-06-11", "day"),
    ("the weekend before last", "the weekend before last", "2023-06-03..2023-06-04", "day"),
    # weekdays
    ("I saw her last Friday", "last Friday", "2023-06-09", "day"),
    ("last Tues we sang", "last Tues", "2023-06-13", "day"),
    ("Last Tuesday night", "Last Tuesday night", "2023-06-13", "day"),
    ("We met on Wednesday", "Wednesday", "2023-06-14", "day"),
    ("I'll see you on Monday", "Monday", "2023-06-19", "day"),
    ("I sat on Sat", "Sat", "2023-06-10", "day"),
    ("this Friday", "this Friday", "2023-06-16", "day"),
    ("I'm going to sing this Monday", "this Monday", "2023-06-19", "day"),
    ("next Friday", "next Friday", "2023-06-23", "day"),
    ("this coming Monday", "this coming Monday", "2023-06-19", "day"),
    # dates
    ("We met on May 3rd", "May 3rd", "2023-05-03", "day"),
    ("we met on may 3rd", "may 3rd", "2023-05-03", "day"),
    ("Oct. 21st", "Oct. 21st", "2023-10-21", "day"),
    ("3 May 2023", "3 May 2023", "2023-05-03", "day"),
    ("Sunday, May 3rd, 2020", "Sunday, May 3rd, 2020", "2020-05-03", "day"),
    ("on the 21st of October, 2022", "the 21st of October, 2022", "2022-10-21", "day"),
    ("It began on the first of May", "the first of May", "2023-05-01", "day"),
    ("the 4th of July", "the 4th of July", "2023-07-04", "day"),
    ("Feb 29", "Feb 29", "2024-02-29", "day"),
    ("May 3-5, 2023", "May 3-5, 2023", "2023-05-03..2023-05-05", "day"),
    ("We flew on the 5th", "the 5th", "2023-06-05", "day"),
    ("We will fly on the 5th", "the 5th", "2023-07-05", "day"),
    ("2023-05-03", "2023-05-03", "2023-05-03", "day"),
    ("at 2023-05-03T10:00:00Z", "2023-05-03", "2023-05-03", "day"),
    ("05/05/2023", "05/05/2023", "2023-05-05", "day"),
    ("25/12/2022", "25/12/2022", "2022-12-25", "day"),
    ("5/23/23", "5/23/23", "2023-05-23", "day"),
    ("03.05.2023", "03.05.2023", "2023-05-03", "day"),
    ("2022-10", "2022-10", "2022-10-01..2022-10-31", "month"),
    # months
    ("It rained in May", "May", "2023-05-01..2023-05-31", "month"),
    ("in june I ran", "june", "2023-06-01..2023-06-30", "month"),
    ("December was crazy", "December", "2022-12-01..2022-12-31", "month"),
    ("We're going to Rome in July", "July", "2023-07-01..2023-07-31", "month"),
    ("last May", "last May", "2023-05-01..2023-05-31", "month"),
    ("last June", "last June", "2022-06-01..2022-06-30", "month"),
    ("next March", "next March", "2024-03-01..2024-03-31", "month"),
    ("in early June", "early June", "2023-06-01..2023-06-10", "month"),
    ("It was the middle of May", "the middle of May", "2023-05-11..2023-05-20", "month"),
    ("Sept. 2021", "Sept. 2021", "2021-09-01..2021-09-30", "month"),
    # years, decades, seasons
    ("in 2019", "2019", "2019-01-01..2019-12-31", "year"),
    ("back in 2015", "2015", "2015-01-01..2015-12-31", "year"),
    ("mid-2022", "mid-2022", "2022-05-01..2022-08-31", "year"),
    ("the second half of 2022", "the second half of 2022", "2022-07-01..2022-12-31", "year"),
    ("in 2015-2018", "2015-2018", "2015-01-01..2018-12-31", "year"),
    ("in the 90s", "the 90s", "1990-01-01..1999-12-31", "decade"),
    ("the early 1990s", "the early 1990s", "1990-01-01..1993-04-30", "decade"),
    ("in the sixties", "the sixties", "1960-01-01..1969-12-31", "decade"),
    ("last summer", "last summer", "2022-06-01..2022-08-31", "season"),
    ("this summer", "this summer", "2023-06-01..2023-08-31", "season"),
    ("last winter", "last winter", "2022-12-01..2023-02-28", "season"),
    ("in the summer of 2019", "the summer of 2019", "2019-06-01..2019-08-31", "season"),
    ("fall 2019", "fall 2019", "2019-09-01..2019-11-30", "season"),
    # holidays
    ("We met at Christmas", "Christmas", "2022-12-25", "day"),
    ("this Christmas", "this Christmas", "2023-12-25", "day"),
    ("on New Year's Eve", "New Year's Eve", "2023-12-31", "day"),
    ("on New Year’s Eve", "New Year’s Eve", "2023-12-31", "day"),
    ("last Halloween", "last Halloween", "2022-10-31", "day"),
    ("on Valentine's Day", "Valentine's Day", "2024-02-14", "day"),
    ("Christmas 2021", "Christmas 2021", "2021-12-25", "day"),
    # beside and inside another date
    ("the week before 9 June", "the week before 9 June", "2023-06-02..2023-06-08", "week"),
    ("the week following 9 June", "the week following 9 June", "2023-06-10..2023-06-16", "week"),
    ("We sang the week of 5 June", "the week of 5 June", "2023-06-05..2023-06-11", "week"),
    ("the weekend after 3 July 2023", "the weekend after 3 July 2023", "2023-07-08..2023-07-09", "day"),
    ("the weekend before 11 June 2023", "the weekend before 11 June 2023", "2023-06-03..2023-06-04", "day"),
    ("the Friday before 15 July 2023", "the Friday before 15 July 2023", "2023-07-14", "day"),
    ("the Friday before 14 July 2023", "the Friday before 14 July 2023", "2023-07-07", "day"),
    ("two days before June 9", "two days before June 9", "2023-06-07", "day"),
    ("a few days before 9 June", "a few days before 9 June", "2023-06-04..2023-06-07", "day"),
    ("It began a week after May 3rd", "a week after May 3rd", "2023-05-08..2023-05-14", "week"),
    ("the month before June 2023", "the month before June 2023", "2023-05-01..2023-05-31", "month"),
    ("the day after Christmas", "the day after Christmas", "2023-12-26", "day"),
    ("the first week of August", "the first week of August", "2023-08-01..2023-08-07", "week"),
    ("the last week of June 2022", "the last week of June 2022", "2022-06-24..2022-06-30", "week"),
    ("the first Monday of May 2023", "the first Monday of May 2023", "2023-05-01", "day"),
    ("We met the last Friday of May", "the last Friday of May", "2023-05-26", "day"),
    ("the week before 2023-05-03", "the week before 2023-05-03", "2023-04-26..2023-05-02", "week"),
]

SPANISH = [
    ("Ayer fui al parque", "Ayer", "2023-06-15", "day"),
    ("anteayer", "anteayer", "2023-06-14", "day"),
    ("Anoche soñé", "Anoche", "2023-06-15", "day"),
    ("Mañana iremos", "Mañana", "2023-06-17", "day"),
    ("pasado mañana", "pasado mañana", "2023-06-18", "day"),
    ("hoy", "hoy", "2023-06-16", "day"),
    ("la semana pasada", "la semana pasada", "2023-06-05..2023-06-11", "week"),
    ("la semana que viene", "la semana que viene", "2023-06-19..2023-06-25", "week"),
    ("el mes pasado", "el mes pasado", "2023-05-01..2023-05-31", "month"),
    ("el año pasado", "el año pasado", "2022-01-01..2022-12-31", "year"),
    ("hace dos semanas", "hace dos semanas", "2023-05-29..2023-06-04", "week"),
    ("hace un par de días", "hace un par de días", "2023-06-14", "day"),
    ("hace unos años", "hace unos años", "2018-01-01..2021-12-31", "year"),
    ("el viernes pasado", "el viernes pasado", "2023-06-09", "day"),
    ("el miercoles pasado", "el miercoles pasado", "2023-06-14", "day"),
    ("el próximo lunes", "el próximo lunes", "2023-06-19", "day"),
    ("el miércoles", "miércoles", "2023-06-21", "day"),
    ("Llovió en mayo", "mayo", "2023-05-01..2023-05-31", "month"),
    ("Llegó el 3 de mayo", "el 3 de mayo", "2023-05-03", "day"),
    ("el 3 de mayo de 2021", "el 3 de mayo de 2021", "2021-05-03", "day"),
    ("en 2019", "2019", "2019-01-01..2019-12-31", "year"),
    ("este fin de semana", "este fin de semana", "2023-06-17..2023-06-18", "day"),
    ("el fin de semana pasado", "el fin de semana pasado", "2023-06-10..2023-06-11", "day"),
    ("el verano pasado", "el verano pasado", "2022-06-01..2022-08-31", "season"),
    ("el verano de 2019", "el verano de 2019", "2019-06-01..2019-08-31", "season"),
    ("a principios de junio", "a principios de junio", "2023-06-01..2023-06-10", "month"),
    ("a finales del año pasado", "a finales del año pasado", "2022-09-01..2022-12-31", "year"),
    ("los últimos tres meses", "los últimos tres meses", "2023-03-16..2023-06-16", "month"),
    ("la primera semana de agosto", "la primera semana de agosto", "2023-08-01..2023-08-07", "week"),
    ("dos días antes del 9 de junio", "dos días antes del 9 de junio", "2023-06-07", "day"),
    ("en Navidad", "Navidad", "2023-12-25", "day"),
    ("en los años 90", "los años 90", "1990-01-01..1999-12-31", "decade"),
]


@each(("text", "words", "expected", "precision"), ENGLISH + SPANISH)
def test_a_phrase_means_these_days(text: str, words: str, expected: str, precision: str) -> None:
    """The words are found where they stand, and mean these local days at this precision."""
    span = one(text)
    assert (span.text, days(span), span.precision) == (words, expected, precision)
    assert text[span.start_char : span.end_char] == words


@each(
    "text",
    [
        *("May I ask you", "May said she would come", "you may be right", "may 3 people come", "1 may not"),
        *("a gift from May", "They march every day", "March is my dog", "in march order", "April said hi"),
        *("June is my sister", "the second time", "on second thought", "the sun sat low", "a sun hat"),
        *("this sun is hot", "I fall often", "spring a leak", "that summer", "the 5th book on the 5th floor"),
        *("We went", "we wed", "Wed was hard", "Mon ami", "1984 pages", "in 1984 pages", "in 2000 dollars"),
        *("room 2019", "in room 2019", "call 555-2019-1234", "+1 2019 555", "version 2019.1", "v2.0.2019"),
        *("192.168.20.23", "at 2023 Main Street", "$2019", "in 2,019 cases", "5/3 of it", "1/2/3", "3-2-1"),
        *("when I was ten", "since I was 5", "a 2-year-old", "10 years old", "for 10 years old kids"),
        *("two years later", "the next day", "next time", "last time", "once a week", "every week"),
        *("every Friday", "on Fridays", "Black Friday", "Christmas tree", "the Christmas party"),
        *("I lived there for 5 years", "for 3 hours", "June 31", "Feb 30, 2023", "31/02/2023", "2023-13-05"),
        *("the 1800s", "99999 years ago", "Tomorrowland", "monthly", "por la mañana", "la mañana", "mayo"),
        *("árbol de Navidad", "los viernes", "hace frío", "la última vez", "2023年13月5日", ""),
    ],
)
def test_what_is_not_a_date_is_left_alone(text: str) -> None:
    """Names, verbs, counts, versions, telephone numbers and recurring days are no dates."""
    assert find_dates(text, FRIDAY, NEW_YORK) == []


@each(
    ("text", "direction", "start", "end"),
    [
        ("since 2016", "since", "2016-01-01", None),
        ("ever since last March", "since", "2023-03-01", None),
        ("It was shut from May on", "since", "2023-05-01", None),
        ("desde 2016", "since", "2016-01-01", None),
        ("until May 2023", "until", None, "2023-06-01"),
        ("no later than next Monday", "until", None, "2023-06-20"),
        ("before June 2023", "before", None, "2023-06-01"),
        ("antes de 2020", "before", None, "2020-01-01"),
        ("after 2015", "after", "2016-01-01", None),
        ("I have lived here for 5 years", "for", "2018-01-01", None),
        ("We've had them for 3 years now", "for", "2020-01-01", None),
        ("vivo aquí desde hace cinco años", "for", "2018-01-01", None),
        ("in 2016", "at", "2016-01-01", "2017-01-01"),
    ],
)
def test_a_date_may_be_a_bound(text: str, direction: str, start: str | None, end: str | None) -> None:
    """The words around a date say whether it is a point, a beginning or an end."""
    span = one(text)
    window = span.window
    assert window is not None
    assert span.direction == direction
    assert (None if window.start == EARLIEST else str(window.start.astimezone(NEW_YORK).date())) == start
    assert (None if window.end is None else str(window.end.astimezone(NEW_YORK).date())) == end


def test_vague_and_relative_words_are_flagged() -> None:
    """`approx` marks vague wording, `relative` what needed the reference."""
    assert one("a few years ago").approx
    assert one("early June").approx
    assert one("about two years ago").approx
    assert not one("two years ago").approx
    assert one("two years ago").relative
    assert one("We met on May 3rd").relative
    assert not one("May 3rd, 2023").relative
    assert not one("the week before 9 June 2023").relative


@each(
    ("text", "expected"),
    [
        ("between March and May 2022", ["2022-03-01..2022-05-31"]),
        ("from November to May 2022", ["2021-11-01..2022-05-31"]),
        ("from November 2021 to May", ["2021-11-01..2022-05-31"]),
        ("between June and August", ["2023-06-01..2023-08-31"]),
        ("entre marzo y mayo de 2022", ["2022-03-01..2022-05-31"]),
        ("from 2015 to 2018", ["2015-01-01..2018-12-31"]),
        ("Saturday was great, and Sunday too", ["2023-06-10", "2023-06-11"]),
    ],
)
def test_several_dates(text: str, expected: list[str]) -> None:
    """The ends of a range share the year that one of them names, and are one stretch."""
    assert [days(span) for span in find_dates(text, FRIDAY, NEW_YORK)] == expected


@each(
    "clause",
    ["I will sing in", "we are going to sing in", "I'll sing in", "Cantaremos en", "voy a cantar en"],
)
def test_the_future_tense_turns_a_bare_month_around(clause: str) -> None:
    """A month without a year is the latest, but the coming one in a clause about the future."""
    before, august = ("Llovió en", "agosto") if clause.endswith("en") else ("It rained in", "August")
    assert days(one(f"{clause} {august}.")) == "2023-08-01..2023-08-31"
    assert days(one(f"{clause} casa. {before} {august}.")) == "2022-08-01..2022-08-31"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20 August was hot.", "2022-08-20"),
        ("Jess booked a van for 24 July.", "2023-07-24"),
        ("My last day is 29 August.", "2023-08-29"),
    ],
)
def test_what_is_planned_lies_ahead(text: str, expected: str) -> None:
    """A date without a year is the coming one unless the verb is in the past; so is what was booked for it."""
    assert days(one(text)) == expected


def test_the_day_is_that_of_the_zone() -> None:
    """At 03:00 UTC it is still the evening before in New York."""
    night = datetime(2023, 6, 16, 3, tzinfo=UTC)
    assert days(one("today", night)) == "2023-06-15"
    assert one("today", night).start == datetime(2023, 6, 15, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "hours"), [(date(2023, 3, 12), 23), (date(2023, 11, 5), 25), (date(2023, 5, 3), 24)]
)
def test_days_are_as_long_as_the_clocks_say(day: date, hours: int) -> None:
    """The day of a change to or from summer time has 23 or 25 hours."""
    span = one(f"on {day.isoformat()}")
    assert span.end - span.start == timedelta(hours=hours)


@each("languages", [(), ("de",), ("xx-YY",), ("../en",)])
def test_a_language_without_a_table_still_has_plain_dates(languages: tuple[str, ...]) -> None:
    """ISO, numeric, East Asian and bare-year dates need no words."""
    text = "Seit 2019, am 2023-05-03 und 25/12/2022; 2023年5月3日; 2023년 5월 3일; gestern"
    spans = find_dates(text, FRIDAY, NEW_YORK, languages)
    assert [days(span) for span in spans] == [
        *("2019-01-01..2019-12-31", "2023-05-03", "2022-12-25", "2023-05-03", "2023-05-03"),
    ]


def test_a_regional_code_finds_its_language() -> None:
    """``es-MX`` uses the table of ``es``."""
    assert find_dates("ayer", FRIDAY, NEW_YORK, ("es-MX",))


@pytest.mark.parametrize(
    "text", ["hasta man\u0303ana, el pro\u0301ximo lu\u0301nes", "E\u0301l vino el mie\u0301rcoles"]
)
def test_decomposed_accents_keep_their_places(text: str) -> None:
    """Positions are those of the text as given, also when its accents are separate characters."""
    spans = find_dates(text, FRIDAY, NEW_YORK)
    assert spans
    assert all(text[s.start_char : s.end_char] == s.text for s in spans)
    assert any("\u0301" in s.text or "\u0303" in s.text for s in spans)


def test_a_naive_reference_is_refused() -> None:
    """Without a zone, "today" has no meaning."""
    with pytest.raises(TimestampError):
        find_dates("today", datetime(2023, 6, 16), NEW_YORK)  # noqa: DTZ001


WORDS = st.sampled_from(
    [*sorted(set(re.findall(r"\w+|[^\w\s]", " ".join(row[0] for row in ENGLISH + SPANISH)))), *"\n٣0", "9999"]
)


@settings(deadline=None)
@given(
    st.text(max_size=80) | st.lists(WORDS, max_size=14).map(" ".join),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from([UTC, NEW_YORK, ZoneInfo("Pacific/Apia"), timezone(timedelta(hours=-12))]),
)
@example(
    "next decade in 200 years, the week before 1 January 0001", datetime(9999, 12, 31, tzinfo=UTC), NEW_YORK
)
@example("9999 years ago, last year", datetime(1, 1, 1, tzinfo=UTC), NEW_YORK)
def test_any_text_at_any_time(text: str, reference: datetime, zone: tzinfo) -> None:
    """No text fails; spans lie in the text, in order, apart, and each is longer than nothing."""
    spans = find_dates(text, reference, zone)
    end = 0
    for span in spans:
        assert end <= span.start_char < span.end_char <= len(text)
        assert text[span.start_char : span.end_char] == span.text
        assert span.start < span.end
        assert span.start.utcoffset() == span.end.utcoffset() == timedelta(0)
        end = span.end_char
    question_time(text, reference, zone)


@each("unit", ["on Friday ", "1-", "3 years ago ", "have for 2 ", "\n", "last ", "e\u0301", "2023年"])
def test_time_grows_with_the_length_only(unit: str) -> None:
    """Ten times the text takes about ten times as long, whatever it repeats; not a hundred times."""

    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        start = time.perf_counter()
        find_dates(text, FRIDAY, NEW_YORK)
        return time.perf_counter() - start

    seconds(1000)
    short = min(seconds(4_000) for _ in range(3))
    assert seconds(40_000) < 40 * short + 0.2


def test_text_beyond_the_cap_is_not_read() -> None:
    """A date behind the documented limit is not found, one before it is."""
    assert find_dates("yesterday" + " " * MAX_CHARS + "today", FRIDAY, NEW_YORK)[-1].text == "yesterday"


def test_dates_in_a_long_text_are_those_of_its_sentences() -> None:
    """Cutting a long text into pieces loses nothing that stands in a sentence."""
    sentence = "We met two weeks before last Friday, as I said on May 3rd. "
    expected = [days(span) for span in find_dates(sentence, FRIDAY, NEW_YORK)]
    assert [days(span) for span in find_dates(sentence * 50, FRIDAY, NEW_YORK)] == expected * 50


@each(
    ("question", "start", "end"),
    [
        ("What did Ann do in May 2023?", "2023-05-01", "2023-06-01"),
        ("Where did she go last summer?", "2022-06-01", "2022-09-01"),
        ("Where did Bob live before June 2023?", None, "2023-06-01"),
        ("What happened between March and May 2023?", "2023-03-01", "2023-06-01"),
        ("What happened from last Monday until yesterday?", "2023-06-12", "2023-06-16"),
        ("Who came on 7 May 2023?", "2023-05-07", "2023-05-08"),
        ("What did he play back in 2022?", "2022-01-01", "2023-01-01"),
        ("Where has he lived since 2016?", "2016-01-01", None),
        ("Where did he live after 2016?", "2017-01-01", None),
        ("What will Bob do in July?", "2023-07-01", "2023-08-01"),
        ("¿Dónde vivía antes de 2020?", None, "2020-01-01"),
    ],
)
def test_a_question_states_its_window(question: str, start: str | None, end: str | None) -> None:
    """The window is the one stated, with open ends where the words leave them open."""
    found = question_time(question, FRIDAY, UTC)
    window, as_of = found.window, found.as_of
    assert as_of is None
    assert window is not None
    assert (None if window.start == EARLIEST else str(window.start.date())) == start
    assert (None if window.end is None else str(window.end.date())) == end


@each(
    "question",
    [
        *("Where did she live before moving to Miami?", "How long has she lived there, for 5 years?"),
        *("What does he do on Fridays?", "What was the first time they met?", "May I ask who came?"),
    ],
)
def test_a_question_without_dates_has_no_window(question: str) -> None:
    """Events, durations, recurring days and order are left to the planner."""
    assert question_time(question, FRIDAY, UTC) == QuestionTime()


def test_as_of_is_an_instant() -> None:
    """It counts what began on the day named; "as of today" is now."""
    found = question_time("Where did Bob live as of 1 June 2022?", FRIDAY, UTC)
    assert (found.window, found.as_of) == (None, datetime(2022, 6, 1, 23, 59, 59, 999000, tzinfo=UTC))
    found = question_time("Where does Bob live as of today?", FRIDAY, UTC)
    assert (found.window, found.as_of) == (None, FRIDAY)
    found = question_time("As of May 2022, who had met in 2019?", FRIDAY, UTC)
    window, as_of = found.window, found.as_of
    assert window == Interval(datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC))
    assert as_of == datetime(2022, 5, 31, 23, 59, 59, 999000, tzinfo=UTC)


def test_every_language_file_is_sound() -> None:
    """Each file compiles, names only operations that exist, and its patterns never match nothing."""
    names = [entry.name.removesuffix(".toml") for entry in (files("memforest.data") / "time").iterdir()]
    assert {"any", "en", "es"} <= set(names)
    for name in names:
        language = load_language(name)
        assert language is not None
        assert language.code == name
        assert {rule.op for rule in language.rules} <= set(OPERATIONS)
        assert {rule.op for rule in language.prefixes} <= set(PREFIXES)
        for rule in (*language.rules, *language.prefixes):
            assert rule.regex.search("") is None, rule.regex.pattern
