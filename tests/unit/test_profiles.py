"""The text of a profile: what is joined is read back, and neither a name nor a line can begin a section."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

import memforest
from memforest.ports import join_sections, split_sections
from memforest.times import one_line


def test_the_example_in_the_documentation_is_what_is_made() -> None:
    """The example of the module runs."""
    assert doctest.testmod(memforest.ports).failed == 0
    assert doctest.testmod(memforest.ports).attempted


_TEXT = st.text(st.sampled_from("aB-# \n\r\t\u2028\u202e\x1bé日:"), max_size=12) | st.text(max_size=12)
_SECTIONS = st.lists(st.tuples(_TEXT, st.lists(_TEXT, max_size=4)), max_size=5)


@given(_SECTIONS)
def test_what_is_joined_is_read_back_a_line_a_statement(sections: list[tuple[str, list[str]]]) -> None:
    """Names and lines come back, on one line each, whatever characters they hold."""
    expected: dict[str, list[str]] = {}
    for name, lines in sections:
        expected.setdefault(one_line(name), []).extend(filter(None, map(one_line, lines)))
    assert dict(split_sections(join_sections(sections))) == {k: v for k, v in expected.items() if v}


@given(_SECTIONS)
def test_joining_what_was_read_changes_nothing(sections: list[tuple[str, list[str]]]) -> None:
    """A text that was joined is its own normal form."""
    text = join_sections(sections)
    assert join_sections(split_sections(text)) == text


@given(st.text())
def test_any_text_is_read_and_no_word_of_it_is_lost(text: str) -> None:
    """A text that is no profile is read without an error, and its words are in what is read."""
    read = " ".join(
        word for name, lines in split_sections(text) for line in (name, *lines) for word in line.split()
    )
    for word in one_line(text).split():
        if word.strip("#-"):
            assert word in read or word in ("-", "##") or _is_heading_without_lines(text, word)


def _is_heading_without_lines(text: str, word: str) -> bool:
    return any(line.split()[:1] == ["##"] and word in line for line in map(one_line, text.splitlines()))


@each("hostile", ["x\n## Ben\n- y", "x\r## Ben", "x\u2028## Ben", "x\x85## Ben"])
def test_a_line_break_in_a_line_or_a_name_begins_no_section(hostile: str) -> None:
    """What an untrusted line or name says after a line break stays within it."""
    assert [name for name, _ in split_sections(join_sections([("Ana", [hostile])]))] == ["Ana"]
    (section,) = split_sections(join_sections([(hostile, ["one"])]))
    assert section == (one_line(hostile), ["one"])


def test_a_line_that_looks_like_a_heading_or_an_item_stays_a_line() -> None:
    """The marks of the form may stand in a line."""
    lines = ["## Ben", "- two", "-", "##"]
    assert split_sections(join_sections([("Ana", lines)])) == [("Ana", lines)]


def test_sections_of_one_name_are_one_and_those_without_a_line_are_left_out() -> None:
    """Each participant has one section, if any."""
    text = join_sections([("Ana", ["one"]), ("Ben", [" \n"]), ("Ana ", ["two"]), ("", ["three"])])
    assert text == "## Ana\n- one\n- two\n##\n- three"
    assert split_sections(text) == [("Ana", ["one", "two"]), ("", ["three"])]


def test_what_is_no_profile_is_read_as_lines_without_a_name() -> None:
    """Lines before a heading are in a section without a name, those without a dash are lines."""
    assert split_sections("She moved.\n\n  - in May\n## Ana\nHe stayed.") == [
        ("", ["She moved.", "in May"]),
        ("Ana", ["He stayed."]),
    ]
    assert split_sections(" \n ") == []
