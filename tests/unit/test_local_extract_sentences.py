"""memforest.reading.tokens and language: cutting a turn, guessing its language."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.reading.tokens import MAX_PIECE_CHARS, detect_language, split_sentences


@each(
    ("text", "pieces"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Wu came. He left.", ["Dr. Wu came.", "He left."]),
        ("Come at 3 p.m. on Friday.", ["Come at 3 p.m. on Friday."]),
        ("It cost 3.50 here.", ["It cost 3.50 here."]),
        ("See https://a.example/b.c?d=e. Then go.", ["See https://a.example/b.c?d=e.", "Then go."]),
        ("我在北京。你呢？", ["我在北京。", "你呢？"]),
        ("one line\nnext line", ["one line", "next line"]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ("Done... Wow!! 🙂", ["Done...", "Wow!! 🙂"]),
        ("He said no. I left.", ["He said no.", "I left."]),
    ],
)
def test_split_sentences(text: str, pieces: list[str]) -> None:
    """Sentences end where readers see an end, in several scripts."""
    assert [piece.text for piece in split_sentences(text)] == pieces


@given(st.text(alphabet=st.sampled_from("aZé東。.!? \n\"'1…"), max_size=300))
def test_pieces_are_cut_from_the_text(text: str) -> None:
    """Pieces are trimmed, in order, within the limit, and together hold every letter of the text."""
    pieces = split_sentences(text)
    assert all(piece.text == text[piece.start : piece.end] == piece.text.strip() for piece in pieces)
    assert all(0 < len(piece.text) <= MAX_PIECE_CHARS for piece in pieces)
    assert [p.start for p in pieces] == sorted(p.start for p in pieces)
    kept = "".join(ch for piece in pieces for ch in piece.text if ch.isalnum())
    assert kept == "".join(ch for ch in text if ch.isalnum())


@each("blob", ["." * 1_000_000, " " * 1_000_000, "\n" * 1_000_000, "a." * 500_000, '"' * 1_000_000])
def test_splitting_is_linear(blob: str) -> None:
    """A hostile megabyte does not hang the splitter."""
    begin = time.monotonic()
    split_sentences(blob)
    assert time.monotonic() - begin < 20


@each(
    ("text", "code"),
    [
        ("I went to the market with my sister", "en"),
        ("Pottery!", "en"),
        ("vivo en Madrid", "es"),
        ("¿Y tú?", "es"),
        ("Je suis allé à Paris", "other"),
        ("Ich bin nicht da", "other"),
        ("我住在北京", "other"),
        ("Я живу в Москве", "other"),
        ("", "other"),
    ],
)
def test_detect_language(text: str, code: str) -> None:
    """Function words tell English and Spanish from the rest."""
    assert detect_language(text) == code
