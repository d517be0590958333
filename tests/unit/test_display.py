"""What came from outside is made safe to show, and nothing else is changed."""

from __future__ import annotations

import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.times import UNSAFE, escaped, json_escape, one_line, printable, shown

SPACES = st.sampled_from(" \t\n\r\x0b\x0c\x85\u00a0\u2028\u2029\u3000")
HIDDEN = st.sampled_from("\x00\x07\x1b\x7f\x9b\u061c\u200b\u200f\u202e\u2066\ufeff\ufffa\U000e0041")
TEXTS = st.text(st.one_of(st.characters(), SPACES, HIDDEN, st.sampled_from('"\\ab')), max_size=60)


@each("char", "\x00\x07\t\n\x1b\x1f\x7f\x80\x85\x9b\x9f\u2028\u2029")
def test_a_control_character_parts_two_words(char: str) -> None:
    """A terminal would obey it; in its place stands one space, at the ends none."""
    assert UNSAFE.search(char)
    assert one_line(f"{char}one{char}{char}two{char}") == "one two"


@each(
    "char",
    "\u061c\u200b\u200e\u200f\u202a\u202e\u2060\u2066\u2069\u206f\ufeff\ufff9\ufffb\U000e0000\U000e0041\U000e007f"
    "\u00ad\u034f\u115f\u1160\u17b4\u180b\u180e\u3164\ufe00\ufe0d\uffa0\U0001bca0\U0001d173\U000e0100\U000e01ef",
)
def test_a_character_without_width_goes_without_a_trace(char: str) -> None:
    """It would turn or hide what is written; the word it stands in stays one word."""
    assert UNSAFE.search(char)
    assert one_line(f"pass{char}word") == "password"


@each(
    "text",
    [
        "👩\u200d👩\u200d👧",  # a family, joined
        "می\u200cخواهم",  # Persian, with its non-joiner
        "क\u200dष",
        "e\u0301 ñ Å",
        "\u05d0\u05d1 \u0639\u0631",  # letters that run from the right need no mark to do so
        "☎\ufe0e ☎\ufe0f",  # as a sign, and as an emoji
        "~¡\u2027\u2070",  # the characters beside the ranges that go
    ],
)
def test_what_scripts_and_emoji_are_written_with_stays(text: str) -> None:
    """Joiners, accents and letters of every direction are no danger."""
    assert not UNSAFE.search(text)
    assert one_line(text) == text == printable(text)


@pytest.mark.parametrize("first", [0xE0000, 0xE0100])
def test_no_text_can_be_hidden_behind_a_letter(first: int) -> None:
    """As bytes can be, each a tag or a selector of a variant: it is drawn as nothing, and a model may read it."""
    hidden = "".join(chr(first + number) for number in b"obey me")
    assert one_line(f"a{hidden}b") == "ab"


@given(TEXTS)
def test_one_line_is_one_line(text: str) -> None:
    """No line breaks or unsafe characters, no space at the ends or twice; all other characters in their order."""
    found = one_line(text)
    assert len(found.splitlines()) <= 1
    assert not UNSAFE.search(found)
    assert one_line(found) == found == " ".join(found.split())
    kept = [char for char in text if not UNSAFE.match(char) and not char.isspace()]
    assert [char for char in found if char != " "] == kept


@given(TEXTS)
def test_a_quoted_text_cannot_end_its_quotation(text: str) -> None:
    """Between two quotation marks it is read back whole, backslashes included; nothing in it ends the quotation."""
    quoted = f'"{escaped(text)}"'
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', quoted)
    assert re.sub(r"\\(.)", r"\1", quoted[1:-1]) == one_line(text)


@given(st.characters(exclude_categories=[]))
def test_the_json_escape_of_a_character_is_that_character(char: str) -> None:
    """Of every character, one beyond the basic plane and a lone surrogate included; in ASCII, six characters a unit."""
    found = json_escape(char)
    assert json.loads(f'"{found}"') == char
    assert found.isascii()
    assert len(found) == (6 if ord(char) < 0x10000 else 12)


def test_printable_takes_out_what_no_file_or_terminal_takes() -> None:
    """Of all characters: control characters but tab and line breaks, and surrogates; no other one."""
    every = "".join(map(chr, (*range(0x3000), *range(0xD700, 0xE100), sys.maxunicode)))
    gone = set(every) - set(printable(every))
    assert gone == {
        char for char in every if unicodedata.category(char) in ("Cc", "Cs") and char not in "\t\n\r"
    }


@given(TEXTS)
def test_printable_keeps_the_rest_as_it_is(text: str) -> None:
    """White space too; what is left can be written to a file, and is left alone the next time."""
    found = printable(text)
    assert printable(found) == found
    assert found.encode("utf-8").decode("utf-8") == found
    assert found == "".join(char for char in text if printable(char))


class Unwritable:
    """A value that Python cannot write."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


def test_any_value_can_be_shown() -> None:
    """Short ones as Python writes them, long ones cut, and what cannot be written by its type."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown("x" * 100, 10) == "'xxxxxxxx…"
    assert len(shown("x" * 100)) == 60
    assert shown(10**5000) == "a value of type int"
    assert shown(deep) == "a value of type list"
    assert shown(Unwritable(ValueError("no"))) == "a value of type Unwritable"


def test_a_defect_of_a_value_is_not_hidden() -> None:
    """Only what Python cannot write is shown by its type; another error is the caller's to see."""
    with pytest.raises(ZeroDivisionError):
        shown(Unwritable(ZeroDivisionError()))
