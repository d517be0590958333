"""memforest.text: folding, entity keys, tokens, numbers, negation."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.text import (
    MAX_TOKEN_CHARS,
    cut,
    entity_key,
    fold,
    is_binary_looking,
    lexical_tokens,
    negated,
    numbers,
    words,
)


@given(st.text(max_size=200))
def test_fold_is_idempotent(text: str) -> None:
    """Folding a folded text changes nothing."""
    assert fold(fold(text)) == fold(text)


def test_fold_joins_spellings_and_keeps_accents() -> None:
    """Width, case and white space fold; accents, which tell words apart, stay."""
    assert fold("ＡＢＣ  Straße\n") == fold("abc STRASSE")
    assert fold("esta") != fold("está")


@each(
    ("one", "other"),
    [
        ("José", "Jose"),
        ("José", "Jose\u0301"),
        ("the Hague", "Hague"),
        ("Dr. Wu", "wu"),
        ("Caroline's", "caroline"),
        ("ΑΘΗΝΑ", "Αθήνα"),
        ("МОСКВА", "Москва"),
        ("東京。", "東京"),
        ("Søren", "soren"),
    ],
)
def test_entity_key_joins_surface_forms(one: str, other: str) -> None:
    """Surface forms of one name have one key, in any script."""
    assert entity_key(one) is not None
    assert entity_key(one) == entity_key(other)


@each(("one", "other"), [("Tom", "Tim"), ("C", "C++"), ("李明", "李华"), ("Ana Lee", "Ana")])
def test_entity_key_keeps_names_apart(one: str, other: str) -> None:
    """Different names have different keys."""
    assert entity_key(one) != entity_key(other)


@each("name", ["", "  ", "—", "?!", "🙂"])
def test_entity_key_of_nothing_is_none(name: str) -> None:
    """What holds no letter and no digit is no name."""
    assert entity_key(name) is None


@given(st.text(max_size=60))
def test_entity_key_is_stable(name: str) -> None:
    """The key of a name is the same whatever its case, where the case maps back and forth."""
    upper = name.upper()
    if fold(upper) == fold(name):
        assert entity_key(upper) == entity_key(name)


def test_words_keep_marks_of_indic_scripts() -> None:
    """Combining vowel signs do not cut a word."""
    assert words("मैं दिल्ली में") == ["मैं", "दिल्ली", "में"]


@each(
    ("text", "tokens"),
    [
        ("Where did she live in 2016?", ["live", "2016"]),
        ("running runs", ["run", "run"]),
        ("Caroline's O’Brien", ["carolin", "o", "brien"]),
        ("1,500 and 3.5", ["1500", "3.5"]),
        ("東京に", ["東京", "京に"]),
        ("猫 cat", ["猫", "cat"]),
        ("กรุงเทพ", ["กร", "รุ", "ุง", "งเ", "เท", "ทพ"]),
        ("don't won't can't", []),
        ("CAFÉ", ["cafe"]),
    ],
)
def test_lexical_tokens(text: str, tokens: list[str]) -> None:
    """Stop words go, stems and numbers stay, unspaced scripts become bigrams."""
    assert lexical_tokens(text) == tokens


@given(st.text(max_size=300))
def test_lexical_tokens_are_bounded_and_clean(text: str) -> None:
    """No token is empty, longer than the limit, or holds white space."""
    for token in lexical_tokens(text):
        assert 0 < len(token) <= MAX_TOKEN_CHARS
        assert not any(ch.isspace() for ch in token)


def test_lexical_tokens_agree_between_threads() -> None:
    """The stemmer is shared between threads without mixing up their words."""
    vocabulary = [f"{stem}{i:03d}ing" for i in range(200) for stem in ("walk", "talk")]
    alone = [token.upper() for word in vocabulary for token in lexical_tokens(word + "s")]
    found: list[list[str]] = []

    def work() -> None:
        found.append([token.upper() for word in vocabulary for token in lexical_tokens(word + "s")])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


@each(
    ("text", "found"),
    [
        ("two dogs", ("2",)),
        ("2 dogs", ("2",)),
        ("٣ cats", ("3",)),
        ("３ cats", ("3",)),
        ("the third", ("3",)),
        ("三月", ("三",)),
        ("1,000,000", ("1000000",)),
        ("tres perros", ("3",)),
        ("nobody", ()),
    ],
)
def test_numbers_have_a_normal_form(text: str, found: tuple[str, ...]) -> None:
    """A number is the same in words and in digits of any script."""
    assert numbers(text) == found


def test_numbers_keep_their_order() -> None:
    """Two cats and three dogs are not three cats and two dogs."""
    assert numbers("2 cats, 3 dogs") != numbers("3 cats, 2 dogs")


@each(
    "text",
    [
        "Tom doesn't drive",
        "Tom doesn’t drive",
        "Ana never came",
        "Ana no vive aquí",
        "他不喜欢",
        "Ich bin nicht da",
        "Это не он",
    ],
)
def test_negated(text: str) -> None:
    """A denied statement is seen as one in several languages."""
    assert negated(text)


@each(
    "text",
    ["No, I came", "I can't wait to drive", "not only Tom", "Ana vive aquí", "no doubt he came", "Notes"],
)
def test_not_negated(text: str) -> None:
    """Phrases with a negation that denies nothing do not count."""
    assert not negated(text)


def test_binary_is_told_from_text() -> None:
    """Control and replacement characters in bulk are no text; whatever else can be written is."""
    assert is_binary_looking("\x00\x01\x02abc")
    assert is_binary_looking("caf\ufffd \ufffd\ufffd")
    assert not is_binary_looking("aGVsbG8g" * 60)
    assert not is_binary_looking("\ue000 \U0010ffff, and a sentence")
    assert not is_binary_looking("hello\n\tworld 🙂 " + "我在北京。" * 100)
    assert not is_binary_looking("")


def test_everything_is_linear_on_a_megabyte() -> None:
    """One hostile megabyte costs seconds at most, for each function."""
    for blob in ("a" * 1_000_000, "'" * 1_000_000, "1," * 500_000, "é" * 500_000, "東" * 200_000):
        begin = time.monotonic()
        for function in (fold, words, lexical_tokens, numbers, negated, is_binary_looking, entity_key):
            function(blob)
        assert time.monotonic() - begin < 20


def test_cut_stays_within_its_length() -> None:
    """A cut text is one line of at most n characters and says that it was cut."""
    assert cut("a\nb") == "a b"
    assert cut("x" * 100, 10) == "x" * 9 + "…"
    with pytest.raises(ValueError, match="at least 1"):
        cut("x", 0)
