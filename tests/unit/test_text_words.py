"""Words, tokens, numbers, keys and cuts of text in many scripts: each rule by a case, and what holds of any text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.text import (
    DATA_RUN,
    MAX_TOKEN_CHARS,
    STOP_WORDS,
    cut,
    entity_key,
    fold,
    is_binary_looking,
    lexical_tokens,
    lexical_words,
    negated,
    numbers,
    shorten_runs,
    snowball_stem,
    strip_accents,
    word_set,
    words,
)

ODD = st.sampled_from("aZé'’-.,:;!?1٣३一東กあ\u0301\u200d\u00a0 \n_")
TEXTS = st.text(st.one_of(st.characters(), ODD), max_size=60)


@each(
    ("text", "folded"),
    [
        ("", ""),
        ("  Ann \t\n left\u3000 ", "ann left"),
        ("ﬁne ½ Ⅳ ①", "fine 1⁄2 iv 1"),
        ("e\u0301", "é"),
        ("İ", "i\u0307"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("\u1e9e", "ss"),
    ],
)
def test_what_folds_to_what(text: str, folded: str) -> None:
    """Compatibility forms, composed accents, case without a language, one space between words."""
    assert fold(text) == folded


@given(TEXTS)
def test_a_folded_text_has_no_case_and_single_spaces(text: str) -> None:
    """Normal form, case and white space are those of the folded text, whatever they were."""
    found = fold(text)
    assert found == " ".join(found.split())
    assert found == fold(unicodedata.normalize("NFD", text)) == fold(f"\n{text} ")
    assert found.casefold() == found


@each(
    ("text", "plain"),
    [
        ("José Müller", "Jose Muller"),
        ("Ελένη й", "Ελενη и"),
        ("Łódź", "Łodz"),
        ("łøđħıæœ", "lodhiaeoe"),
        ("भी กำ デ", "भी กำ デ"),
        ("한국", "한국"),
        ("plain", "plain"),
    ],
)
def test_accents_go_and_other_marks_stay(text: str, plain: str) -> None:
    """What people leave out when they type; vowel signs and voicing are part of a word."""
    assert strip_accents(text) == plain


@each(
    ("name", "key"),
    [
        ("The Hague", "hague"),
        ("The", "the"),
        ("Dr. Prof. Wu", "wu"),
        ("Dr.", "dr"),
        ("La Paz", "paz"),
        ("Jean-Luc", "jean luc"),
        ("O'Brien", "obrien"),
        ("O’Brien's", "obrien"),
        ("James'", "james"),
        ("AT&T", "at&t"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("user_name", "user name"),
        ("Bob.", "bob"),
        ("Bob (Robert)", "bob robert"),
        ("R2-D2", "r2 d2"),
        ("&", None),
        ("_", None),
        ("'s", None),
        ("नेहा", "नेहा"),
        ("김민수", "김민수"),
        ("\u200bBob", "bob"),
    ],
)
def test_the_key_of_a_name(name: str, key: str | None) -> None:
    """Titles in front while a word follows, marks within and possessives behind say nothing about who is meant."""
    assert entity_key(name) == key


@given(st.text(st.one_of(st.characters(), ODD), max_size=30))
def test_the_key_of_a_key_is_itself(name: str) -> None:
    """Unless it begins with what is taken for a title; and it has something to say, on one line."""
    key = entity_key(name)
    if key is None:
        return
    assert any(ch.isalnum() for ch in key)
    assert key == " ".join(key.split())
    assert entity_key(f"  {name}  ") == key


def test_a_name_of_any_length_has_a_key_of_its_beginning() -> None:
    """A megabyte that is given for a name is cut, and two that differ behind the two hundredth character are one."""
    assert entity_key("a" * 10**6) == "a" * 200
    assert entity_key("a" * 199 + "bc") == "a" * 199 + "b"


@each(
    ("text", "found"),
    [
        ("", []),
        ("Ann's well-known café", ["Ann's", "well", "known", "café"]),
        ("1,500 or 3.5, at 5:30", ["1,500", "or", "3.5", "at", "5", "30"]),
        ("snake_case x2", ["snake", "case", "x2"]),
        ("don’t 'quoted'", ["don’t", "quoted"]),
        ("e\u0301te\u0301", ["été"]),
        ("iPhone東京で買う", ["iPhone", "東京で買う"]),
        ("می‌خواهم", ["می‌خواهم"]),
        ("👍 ok", ["ok"]),
    ],
)
def test_the_words_of_a_text(text: str, found: list[str]) -> None:
    """As they are written; only letters, digits and what joins them."""
    assert words(text) == found


@given(st.text(st.characters(max_codepoint=126), max_size=40))
def test_plain_text_has_the_same_words_the_short_way(text: str) -> None:
    """ASCII takes a simpler pattern: one letter of another script behind it changes none of the words before."""
    assert words(text) == words(f"{text} é")[:-1]
    assert lexical_words(text) == lexical_words(f"{text} é")[:-1]


@given(TEXTS)
def test_tokens_are_those_of_the_words(text: str) -> None:
    """In their order; a stop word has none, and a text says the same in other case."""
    found = lexical_words(text)
    assert [token for _, tokens in found for token in tokens] == lexical_tokens(text)
    assert all(not tokens for word, tokens in found if word in STOP_WORDS)
    if text.isascii():
        assert lexical_words(text.upper()) == lexical_words(text.lower())


@each(
    ("text", "tokens"),
    [
        ("Cats, cats; CATS", ["cat"] * 3),
        ("she's they're I've we'll I'm he'd", []),
        ("Ann's dog", ["ann", "dog"]),
        ("mustn't", []),
        ("rock'n'roll", ["rock", "n", "roll"]),
        ("l'été", ["l", "ete"]),
        ("12,345.67", ["12345.67"]),
        ("1,23", ["1,23"]),
        ("v2.0.1", ["v2", "0.1"]),
        ("5cars þings", ["5car", "þings"]),
        ("x" * 50, ["x" * MAX_TOKEN_CHARS]),
        ("1." * 30 + "1", [("1." * 30)[:MAX_TOKEN_CHARS]]),
        ("é" * 50, ["e" * MAX_TOKEN_CHARS]),
        ("東", ["東"]),
        ("東京都", ["東京", "京都"]),
        ("Москва", ["москв"]),
        ("running Москва", ["run", "москв"]),
    ],
)
def test_the_tokens_of_a_text(text: str, tokens: list[str]) -> None:
    """Stems of Latin words, numbers without separators, pairs of characters, and nothing longer than a token may be."""
    assert lexical_tokens(text) == tokens


def test_stems_are_of_the_language_that_is_named() -> None:
    """The same letters have another stem in the other language."""
    assert snowball_stem("houses", "english") == "hous"
    assert snowball_stem("casas", "spanish") == "cas" != snowball_stem("casas", "english")


def test_a_word_list_may_be_written_as_prose() -> None:
    """Any white space parts words, and each counts once."""
    assert word_set(" a  b\n\ta ") == {"a", "b"}
    assert word_set("") == frozenset()


@each(
    ("text", "found"),
    [
        ("", ()),
        ("1,500,000.25 and 1,50", ("1500000.25", "1,50")),
        ("at 5:30 on 2024.05.07", ("5:30", "2024.05.07")),
        ("twelve dozen, twice, a hundred", ("12", "12", "2", "100")),
        ("zero first tenth", ("0", "1", "10")),
        ("once", ()),
        ("doce gatos y dos perros", ("12", "2")),
        ("someone tenfold", ()),
        ("३ और ٤٥", ("3", "45")),
        ("二十三个", ("二十三",)),
        ("½", ("1", "2")),
        ("x2 2x", ("2", "2")),
    ],
)
def test_the_numbers_of_a_text(text: str, found: tuple[str, ...]) -> None:
    """Separators of thousands go, decimals and times stay; words of two languages count where they are clear."""
    assert numbers(text) == found


@given(st.lists(st.integers(0, 10**9), max_size=6))
def test_a_number_is_the_same_in_every_writing(values: list[int]) -> None:
    """Plain, with separators, in full width and in Arabic digits, in the order of appearance."""
    plain = tuple(str(value) for value in values)
    arabic = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
    wide = str.maketrans("0123456789", "０１２３４５６７８９")
    assert numbers(" ; ".join(plain)) == plain
    assert numbers(" ; ".join(f"{value:,}" for value in values)) == plain
    assert numbers(" ; ".join(plain).translate(arabic)) == numbers(" ; ".join(plain).translate(wide)) == plain


@each(
    ("text", "denied"),
    [
        ("", False),
        ("No", True),
        ("No, he left", False),
        ("no: he left", False),
        ("No, he did not leave", True),
        ("He has no car", True),
        ("Can't wait for it, and it isn't far", True),
        ("couldn't be happier", False),
        ("He couldn't come", True),
        ("nothing but trouble", False),
        ("nothing came", True),
        ("why not go", False),
        ("knot another", False),
        ("DIDN’T GO", True),
        ("Nunca vino", True),
        ("Sin duda vino", False),
        ("sin coche", True),
        ("彼は行かない", True),
        ("안 갔다", True),
        ("我没去", True),
        ("ฉันไม่ไป", True),
        ("我去了", False),
    ],
)
def test_what_denies(text: str, denied: bool) -> None:
    """A negation in any place, but for phrases and a leading "No" that deny nothing by themselves."""
    assert negated(text) is denied


@each(("odd", "binary"), [(0, False), (9, False), (10, False), (11, True), (100, True)])
def test_a_tenth_of_a_text_may_be_odd(odd: int, binary: bool) -> None:
    """Of control characters, surrogates and replacement characters alike; tabs and line breaks are none."""
    for char in "\x00\x1b\ud800\ufffd":
        assert is_binary_looking(char * odd + "a" * (100 - odd)) is binary
    assert not is_binary_looking("\t\r\n" * odd)


@pytest.mark.parametrize("at", [0, 20_000, 39_000])
def test_a_long_text_is_judged_by_its_beginning_middle_and_end(at: int) -> None:
    """A block of bytes in any of the three shows; in between, it is not looked for."""
    text = "a" * 40_000
    assert is_binary_looking(text[:at] + "\0" * 4096 + text[at:])
    assert not is_binary_looking(text[:10_000] + "\0" * 4096 + text[10_000:])


@pytest.mark.parametrize("length", [119, 120, 500])
def test_a_run_of_data_is_cut_to_its_head(length: int) -> None:
    """From 120 visible ASCII characters without a space on; words of other scripts are no data, however long."""
    run = "x" * length
    shown = f"{run[:40]}…" if length >= 120 else run
    assert shorten_runs(f"see {run} (é) {run} now") == f"see {shown} (é) {shown} now"
    assert shorten_runs("é" * length) == "é" * length
    assert bool(DATA_RUN.search(run)) is (length >= 120)


@given(TEXTS, st.integers(1, 30))
def test_a_cut_is_the_beginning_of_the_line(text: str, n: int) -> None:
    """On one line and never too long; whole if it fits, else with an ellipsis behind as much as there is room for."""
    line, found = " ".join(text.split()), cut(text, n)
    assert len(found) <= n
    assert found == (line if len(line) <= n else line[: n - 1] + "…")


def test_a_cut_looks_at_no_more_than_it_needs() -> None:
    """Of a long text with much white space the head is shown; that it was cut is said even if little is left."""
    assert cut("a" + " " * 10_000 + "b", 10) == "a…"
    assert cut(" " * 10_000 + "b", 10) == "…"
    assert cut("x" * 10**6, 1) == "…"
    assert len(cut("word " * 100)) == 80
