"""What the commands print things with: cleaned lines, records for pipes, tables for terminals, days and intervals."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.tree import Tree
from tests.table import each

from memforest.cli.call import to_json
from memforest.cli.screen import Screen, clean, columns, counted, size, sources
from memforest.read.stored import Source
from memforest.times import EARLIEST, LATEST, UNSAFE, escaped, json_escape, one_line, printable, shown

UTC = timezone.utc
HOSTILE = "a\x1b[2J\tb\r\n\x9b31mc\u2028d \u202ee\x00"


def drawn(width: int = 60, zone: timezone | ZoneInfo = UTC) -> tuple[Screen, io.StringIO]:
    """Return a screen that lays out, and what is put on it."""
    out = io.StringIO()
    return Screen(zone, Console(file=out, width=width, markup=False, emoji=False), laid_out=True), out


@given(text=st.text(max_size=40), limit=st.none() | st.integers(1, 30))
def test_a_cleaned_text_is_one_short_line(text: str, limit: int | None) -> None:
    """Whatever comes in: nothing unsafe, no white space at the ends or twice, no longer than the limit; cleaning again changes nothing."""
    line = clean(text, limit)
    assert UNSAFE.search(line) is None
    assert line == " ".join(line.split())
    assert limit is None or len(line) <= limit
    assert clean(line, limit) == line


@each(
    ("limit", "line"),
    [(9, "four five"), (8, "four fi…"), (6, "four…"), (5, "four…"), (1, "…"), (None, "four five")],
)
def test_only_a_text_that_is_too_long_gets_an_ellipsis(limit: int | None, line: str) -> None:
    """At its very length it is whole; no blank stands before the ellipsis."""
    assert clean("four  five", limit) == line


@given(st.text(max_size=30))
def test_an_escaped_text_cannot_end_its_quotation(text: str) -> None:
    """Between two marks it reads, as JSON does, as the one line that it was."""
    inside = escaped(text)
    assert json.loads(f'"{inside}"') == one_line(text)


@each(
    ("char", "escape"),
    [("<", "\\u003c"), ("\x9b", "\\u009b"), ("\u202e", "\\u202e"), ("\U000e0041", "\\udb40\\udc41")],
)
def test_the_json_escape_of_a_character_is_of_utf_16(char: str, escape: str) -> None:
    """As one unit of UTF-16, or two."""
    assert json_escape(char) == escape


def test_what_cannot_be_printed_goes_and_the_layout_stays() -> None:
    """Tabs and line breaks are kept, other controls and lone surrogates are not, joiners of scripts are."""
    assert printable("a\tb\nc\rd\x0be\x0cf\x1bg\x7fh\x9fi\ud800j\udfffk") == "a\tb\nc\rdefghijk"
    assert printable("👩\u200d🔬 क्\u200dष") == "👩\u200d🔬 क्\u200dष"


def test_a_value_in_a_message_is_short_whatever_it_is() -> None:
    """Cut at the limit; one that Python cannot write is named by its type."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown("x" * 90, 20) == "'" + "x" * 18 + "…"
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown(deep) == "a value of type list"


@each(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 kB"), (1024**2 - 52, "1023.9 kB"), (1024**2, "1.0 MB"),
     (5 * 1024**3, "5.0 GB"), (3000 * 1024**3, "3000.0 GB")],
)  # fmt: skip
def test_sizes_change_their_unit_at_1024(count: int, text: str) -> None:
    """There is no unit beyond the last."""
    assert size(count) == text


def test_one_thing_is_singular() -> None:
    """Nothing, and several, are plural."""
    assert [counted(n, "leaf node") for n in (0, 1, 2)] == ["0 leaf nodes", "1 leaf node", "2 leaf nodes"]


def test_sources_are_cut_to_a_few_and_say_so() -> None:
    """At most so many sessions, and turns of each; the ellipsis stands for sessions that are left out."""
    four = [Source(f"s{n}", ("1", "2", "3", "4")) for n in range(4)]
    assert sources(four) == "s0 #1, #2, #3; s1 #1, #2, #3; s2 #1, #2, #3 …"
    assert sources(four[:3], 3).endswith("s2 #1, #2, #3")
    assert sources(four, None) == "; ".join(f"s{n} #1, #2, #3, #4" for n in range(4))
    assert sources([Source("a\x1b\tb", ("1\n",))]) == "a b #1"
    assert sources([]) == ""


def at(day: int, hour: int = 0) -> datetime:
    """Return a time of March 2024."""
    return datetime(2024, 3, day, hour, tzinfo=UTC)


@each(
    ("start", "end", "text"),
    [
        (at(1), None, "since 2024-03-01"),
        (at(1), at(2), "2024-03-01"),
        (at(1), at(2, 1), "2024-03-01 to 2024-03-02"),
        (at(1), at(1), "2024-03-01"),
        (at(1), at(4), "2024-03-01 to 2024-03-03"),
        (None, at(4), "until 2024-03-03"),
        (EARLIEST, at(4), "until 2024-03-03"),
        (None, None, "since ?"),
        (EARLIEST, None, "since ?"),
    ],
)
def test_an_interval_is_shown_by_its_days(start: datetime | None, end: datetime | None, text: str) -> None:
    """The end is exclusive: midnight belongs to the day before; an unknown beginning is not made up."""
    assert Screen().interval(start, end) == text


def test_days_are_those_of_the_zone() -> None:
    """One instant has two days, and the last day before an end is reckoned there too."""
    madrid = Screen(zone=ZoneInfo("Europe/Madrid"))
    late = datetime(2024, 6, 30, 22, 30, tzinfo=UTC)
    assert (Screen().day(late), madrid.day(late)) == ("2024-06-30", "2024-07-01")
    assert madrid.last_day(late - timedelta(minutes=30)) == "2024-06-30"
    assert madrid.last_day(late) == "2024-07-01"


def test_the_ends_of_time_are_no_days() -> None:
    """What stands for "always" has no day in any zone, and none overflows."""
    for zone in (UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Pago_Pago")):
        assert [Screen(zone=zone).day(one) for one in (None, EARLIEST, LATEST)] == ["?"] * 3


def test_a_record_is_one_line_of_cleaned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """No column can bring a tab or a line break of its own; empty ones keep their place."""
    Screen(laid_out=False).record("1", HOSTILE, "", "é")
    assert capsys.readouterr().out == "1\ta [2J b 31mc d e\t\té\n"


def test_a_table_in_a_pipe_is_records(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a row, whatever the chunks hold; styles and wrapping are gone."""
    table = columns("bold", "")
    table.add_row("name", Text("two\nlines " + "long " * 60, style="red"))
    table.add_row("", "x")
    Screen(laid_out=False).put(table)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "name\ttwo lines " + ("long " * 60).strip()
    assert second == "\tx"


def test_what_is_no_table_is_drawn_in_a_pipe_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A tree has no rows; it is printed as it is."""
    Screen(laid_out=False).put(Tree("root"))
    assert capsys.readouterr().out == "root\n"


def test_a_line_in_a_pipe_is_not_wrapped_or_indented(capsys: pytest.CaptureFixture[str]) -> None:
    """It is whole, and cleaned."""
    Screen(laid_out=False).line("word " * 80 + "\x1b[1m", "bold", indent=4)
    assert capsys.readouterr().out == ("word " * 80).strip() + " [1m\n"


def test_a_line_on_a_terminal_is_wrapped_within_its_indentation() -> None:
    """All parts of it, and nothing is wider than the terminal."""
    screen, out = drawn(20)
    screen.line("one two three four five six", indent=2)
    lines = out.getvalue().splitlines()
    assert [line.strip() for line in lines] == ["one two three four", "five six"]
    assert all(line.startswith("  ") and len(line.rstrip()) <= 20 for line in lines)


def test_a_heading_stands_off() -> None:
    """An empty line before it; what would be a control is not in it."""
    screen, out = drawn()
    screen.heading("1. Wh\x1bat")
    assert out.getvalue() == "\n1. Wh at\n"


@each("width", [12, 24, 40, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(width: int) -> None:
    """The last column folds, wide characters included; nothing of it is lost."""
    screen, out = drawn(width)
    table = columns("green", "")
    text = "日本語のとても長い文 " * 6
    table.add_row("day", text)
    screen.put(table)
    lines = out.getvalue().splitlines()
    assert max(cell_len(line.rstrip()) for line in lines) <= width
    assert "".join("".join(lines).split()).replace("day", "") == "".join(text.split())


def test_a_screen_lays_out_where_it_is_a_terminal_or_told_to() -> None:
    """Into a file or a pipe there are records; `laid_out` decides against both."""
    pipe, tty = Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True)
    assert [Screen(console=one).records for one in (pipe, tty)] == [True, False]
    assert [Screen(console=one, laid_out=True).records for one in (pipe, tty)] == [False, False]
    assert [Screen(console=one, laid_out=False).records for one in (pipe, tty)] == [True, True]


def test_markup_and_smileys_stay_text() -> None:
    """What a user said is no markup, in lines, headings and tables."""
    screen, out = drawn()
    screen.line("[bold]x[/bold] :smile: https://a.example/b 12")
    table = columns("")
    table.add_row(Text("[red]y[/red]"))
    screen.put(table)
    assert out.getvalue().split() == [
        "[bold]x[/bold]", ":smile:", "https://a.example/b", "12", "[red]y[/red]"]  # fmt: skip


@given(text=st.text(max_size=30), line=st.booleans(), ascii_only=st.booleans())
def test_json_is_safe_and_reads_back(text: str, line: bool, ascii_only: bool) -> None:
    """Whatever the text: no character that acts, one line where asked, ASCII where asked, and the same value."""
    made = to_json({"a": text, "b": [text]}, line=line, ascii_only=ascii_only)
    assert UNSAFE.search(made.replace("\n", "")) is None
    assert ("\n" in made) != line
    assert not ascii_only or made.isascii()
    assert json.loads(made) == {"a": text, "b": [text]}
