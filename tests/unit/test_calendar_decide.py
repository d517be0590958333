"""Which May or Thursday is meant, and when that is left open: the coming one, unless something says otherwise.

Everything is said on Wednesday 16 October 2024, 12:00 UTC.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from importlib.util import find_spec

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.date_language import load_language
from memforest.reading.date_phrases import find_dates, question_time
from memforest.reading.date_rules import day_comes_first

UTC = timezone.utc
WEDNESDAY = datetime(2024, 10, 16, 12, tzinfo=UTC)


def days(text: str, languages: tuple[str, ...] = ("en", "es"), day_first: bool | None = None) -> list[str]:
    """Return the first day of each date of a text."""
    found = find_dates(text, WEDNESDAY, UTC, languages, day_first=day_first)
    return [span.start.date().isoformat() for span in found]


@each(
    ("text", "expected"),
    [
        # the nearest verb: in the clause to the left, then to the right, then in the sentence
        ("We sailed on Saturday.", "2024-10-12"),
        ("We're sailing on Saturday.", "2024-10-19"),
        ("On Saturday we sailed.", "2024-10-12"),
        ("The ferry was full, so we're crossing on Saturday.", "2024-10-19"),
        ("The ferry on Saturday was full.", "2024-10-12"),
        ("The ferry on Saturday will be full.", "2024-10-19"),
        ("Did you sail on Saturday?", "2024-10-12"),
        ("Are you sailing on Saturday?", "2024-10-19"),
        ("I remember sailing on Saturday.", "2024-10-12"),
        ("My aunt lands on 3 November.", "2024-11-03"),
        ("My aunt landed on 3 August.", "2024-08-03"),
        ("Her exhibition is in May.", "2025-05-01"),
        ("Her exhibition opened in May.", "2024-05-01"),
        # what is arranged lies ahead, also when arranging is over
        ("We booked a boat for 9 November.", "2024-11-09"),
        ("The regatta has been moved to Thursday.", "2024-10-17"),
        ("On Saturday Noor sailed.", "2024-10-12"),
        ("We watched a movie on Monday.", "2024-10-14"),
        # no verb
        ("Regatta 17 June", "2025-06-17"),
        ("Boat inspection Thursday 3pm", "2024-10-17"),
        ("14 October: first swim in the new pool", "2024-10-14"),
        # bounds
        ("No sailing since March.", "2024-03-01"),
        ("I've been sailing since December.", "2023-12-01"),
        ("I have the boat until June.", "2025-06-01"),
        ("We rented the boat until June.", "2024-06-01"),
        ("They want it back by the 1st.", "2024-11-01"),
        # the year, the month and the weekday that the sentence tells
        ("Last year we sailed to Skye in March.", "2023-01-01 2023-03-01"),
        ("In 2018 we married on 4 August.", "2018-01-01 2018-08-04"),
        ("I'm seeing Noor on Friday 18 October.", "2024-10-18"),
        ("Friday 11 October: keel painted.", "2024-10-11"),
        ("We're open from May to September.", "2025-05-01"),
        ("I'll be gone Monday to Thursday.", "2024-10-21"),
        ("It ran from 3 to 11 August.", "2024-08-03"),
        ("I'm in Leith 3-5 November.", "2024-11-03"),
        # "this"
        ("this Monday", "2024-10-21"),
        ("This Monday was rough.", "2024-10-14"),
        ("This weekend we raced.", "2024-10-12"),
        ("This summer was dry.", "2024-06-01"),
        # a season with a past verb
        ("In the summer we sailed to Skye.", "2024-06-01"),
    ],
)
def test_english_chooses_by_the_nearest_verb(text: str, expected: str) -> None:
    """Past: the latest. Anything else: the coming one."""
    assert " ".join(days(text, ("en",))) == expected


@each(
    ("text", "expected"),
    [
        ("Navegamos; el sábado llegó mi tía.", "2024-10-12"),
        ("Mi tía llega el sábado.", "2024-10-19"),
        ("Compré el barco el viernes.", "2024-10-11"),
        ("Compraré el barco el viernes.", "2024-10-18"),
        ("Ayer remé y el viernes voy a remar.", "2024-10-15 2024-10-18"),
        ("Reservé mesa para el viernes.", "2024-10-18"),
        ("Tengo regata el 5 de noviembre.", "2024-11-05"),
        ("Desde marzo vivo en Vigo.", "2024-03-01"),
        ("Hasta junio tengo el barco.", "2025-06-01"),
        ("En 2018 nos casamos el 4 de agosto.", "2018-01-01 2018-08-04"),
        ("Entrega: 29 de marzo", "2025-03-29"),
        ("El viernes 18 de octubre hay regata.", "2024-10-18"),
    ],
)
def test_spanish_chooses_by_the_nearest_verb(text: str, expected: str) -> None:
    """The accents that are written tell the tenses apart."""
    assert " ".join(days(text, ("es",))) == expected


DOUBTS = {
    "recurring days": [
        *(
            "Every Friday we race.",
            "We always race on Friday.",
            "On Fridays we race.",
            "Rent was due on the 1st.",
        ),
        *(
            "Her birthday is 4 December.",
            "I get paid on the 25th.",
            "He was born on 3 May.",
            "We race Monday to Friday.",
        ),
        *("Los viernes remamos en mayo.", "Mi cumpleaños es el 4 de diciembre.", "Cada año remamos en mayo."),
    ],
    "a plain present": [
        "I row on Saturday.",
        "We have choir on Thursday.",
        "She trains on the 5th.",
        "I work on the weekend.",
    ],
    "a verb that leaves it open": [
        *("She said she would row on Friday.", "I was going to row on Friday.", "We wanted to row in May."),
        *("Dijo que vendría el viernes.", "Iba a remar el viernes."),
    ],
    "a tale of another time": [
        *("When I was ten we rowed in June.", "That year we rowed in May.", "Decades ago they rowed in May."),
        *("The novel opens in May.", "In the film she left in May.", "Cuando era niña remaba en julio."),
    ],
    "a name or a noun": [
        *(
            "We watched Friday Night Racing.",
            "The office was at 12 March Street.",
            "The Friday crowd was loud.",
        ),
        *(
            "It was a Friday.",
            "My Monday was long.",
            "Black Friday was loud.",
            "By the following Monday it was sold.",
        ),
    ],
    "what is left unread": [
        "Monday 21 was cold.",
        "We met Friday 12th.",
        "We sailed 2 weeks and 2 days ago.",
    ],
    "a weekday that is today's": ["We row on Wednesday.", "We rowed on Wednesday.", "Remamos el miércoles."],
    "a season without a past verb": [
        "In the winter I row.",
        "In spring the bay is lovely.",
        "En invierno remo.",
    ],
    "most of a year away": [
        "We raced on 30 October.",
        "In September there's a race.",
        "Boat show 10 September",
    ],
    "two years in a sentence": ["In 2018, and again in 2020, we raced on 4 August."],
    "no such weekday": ["I'm seeing Noor on Friday 17 October."],
    "an order of numbers that nothing tells": ["The race was on 03/04/2024.", "It starts on 3/4."],
    "no language": ["3月4日"],
    "no single day": ["I rowed the other day.", "Remé el otro día."],
}


@each(("rule", "text"), [(rule, text) for rule, texts in DOUBTS.items() for text in texts])
def test_in_doubt_there_is_no_date(rule: str, text: str) -> None:
    """A date that is not said is better than a wrong one; a year of its own is told all the same."""
    language = "es" if any(word in text for word in ("rem", "Rem", "vendría", "cumple")) else "en"
    found = find_dates(text, WEDNESDAY, UTC, (language,))
    assert [span.text for span in found if span.precision != "year"] == [], rule


def test_what_is_in_doubt_can_be_asked_for_with_its_readings() -> None:
    """Who can ask which it is gets both days, and that nothing was decided."""
    assert find_dates("We row on Friday at dawn.", WEDNESDAY, UTC, ("en",)) == []
    (span,) = find_dates("We row on Friday at dawn.", WEDNESDAY, UTC, ("en",), doubtful=True)
    assert not span.decided
    assert {one.start.day for one in span.readings} == {11, 18}
    assert find_dates("Every Friday we row.", WEDNESDAY, UTC, ("en",), doubtful=True) == []
    (sure,) = find_dates("We row on 18 October 2024.", WEDNESDAY, UTC, ("en",), doubtful=True)
    assert sure.decided
    assert sure.readings == (sure.interval,)


def test_the_order_of_numbers_is_told() -> None:
    """03/04/2024 is a date for who knows the order; what can be read in one way needs no telling."""
    assert days("We raced on 03/04/2024.", ("en",), day_first=True) == ["2024-04-03"]
    assert days("We raced on 03/04/2024.", ("en",), day_first=False) == ["2024-03-04"]
    assert days("We raced on 13/04/2024.", ("en",), day_first=False) == ["2024-04-13"]
    assert days("We raced on 3/19.", ("en",), day_first=True) == ["2024-03-19"]
    assert days("Remamos el 03/04/2024.", ("es",)) == ["2024-04-03"]
    assert [day_comes_first(3, 4, None), day_comes_first(4, 4, None), day_comes_first(3, 19, True)] == [
        None,
        False,
        False,
    ]


def test_a_full_stop_is_no_part_of_a_date() -> None:
    """The words of a date end with its last word."""
    (span,) = find_dates("We raced on 19 September. It rained.", WEDNESDAY, UTC, ("en",))
    assert span.text == "19 September"


@each(
    ("question", "expected"),
    [
        ("What did Noor do on 6 May?", "2024-05-06"),
        ("What did Noor do on 18 October?", "2023-10-18"),  # the coming one is two days away: in doubt
        ("What does Noor do on Friday?", "2024-10-11"),
        ("What will Noor do on 6 May?", "2025-05-06"),
    ],
)
def test_a_question_in_doubt_looks_back(question: str, expected: str) -> None:
    """A memory holds what was."""
    window = question_time(question, WEDNESDAY, UTC).window
    assert window is not None
    assert window.start.date().isoformat() == expected


FURTHER = [
    ("Wir heirateten am 5. März 2024.", ["2024-03-05"]),
    ("Nous partons le 14 février 2025.", ["2025-02-14"]),
    ("Mudámos em 3 de outubro de 2023.", ["2023-10-03"]),
    ("Мы приехали 7 мая 2024 года.", ["2024-05-07"]),
    ("Seit 2019, im März.", ["2019-01-01"]),
    ("Am 5. März und im Mai.", []),
]


@each(("text", "expected"), FURTHER)
def test_further_languages_have_full_dates_with_the_extra(text: str, expected: list[str]) -> None:
    """Without the extra there is no table of them, and their years are found as in any language."""
    if find_spec("dateparser") is None:
        assert load_language("mul") is None
        expected = [f"{one[:4]}-01-01" for one in expected]
    assert days(text, ("mul",)) == expected


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAYS = st.dates(date(1990, 1, 1), date(2100, 1, 1))


@given(DAYS, st.integers(0, 6))
def test_a_weekday_is_one_of_the_seven_days_around(today: date, weekday: int) -> None:
    """With a past verb it is one of the last six days, with a future one of the next six, and today's is neither."""
    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    name = WEEKDAYS[weekday]
    for text, side in ((f"We rowed on {name}.", -1), (f"We will row on {name}.", 1)):
        found = find_dates(text, now, UTC, ("en",))
        if today.weekday() == weekday:
            assert found == []
        else:
            (span,) = found
            assert span.start.weekday() == weekday
            assert 0 < side * (span.start.date() - today).days < 7


@given(DAYS, DAYS)
def test_a_date_is_on_the_side_of_its_verb_and_never_far_with_the_other_near(
    today: date, named: date
) -> None:
    """Of the days of one name, at most a year apart, it is the one that the verb points at, or none."""
    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    words = f"{named.day} {named:%B}" if (named.month, named.day) != (2, 29) else "1 March"
    for verb, side in (("rowed", -1), ("will row", 1)):
        for span in find_dates(f"We {verb} on {words}.", now, UTC, ("en",)):
            away = side * (span.start.date() - today).days
            assert 0 <= away <= 366
            assert not (away > 290 and 366 - away < 60)


@given(DAYS, DAYS)
def test_a_full_date_means_the_same_whenever_it_is_said(today: date, named: date) -> None:
    """Nothing is decided where a year is named."""
    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    (span,) = find_dates(
        f"Every year since, she would mark {named.day} {named:%B} {named.year}.", now, UTC, ("en",)
    )
    assert (span.start.date(), span.end.date(), span.relative) == (named, named + timedelta(days=1), False)
