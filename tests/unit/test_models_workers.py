"""Worker threads under models: every item once, at most so many at a time, nothing goes on behind the caller's back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import ConfigError
from memforest.models.local import _ENTRY_OVERHEAD_BYTES, _GROUP, Workers, _VectorCache
from memforest.models.onnx import _MAX_WORD_CHARS, WordPiece


def ran(items: Sequence[int], workers: int) -> tuple[list[list[int]], int]:
    """Return the groups that were run, in the order of their results, and the most at once."""
    lock, busy, most = threading.Lock(), 0, 0

    def work(group: Sequence[int]) -> list[int]:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        with lock:
            busy -= 1
        return list(group)

    groups: list[list[int]] = []
    pool = Workers(workers, "test")
    asyncio.run(pool.run(work, items, groups.append))
    pool.close()
    return groups, most


@given(items=st.integers(0, 40), workers=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_every_item_is_run_once_in_small_groups(items: int, workers: int) -> None:
    """No more at once than there are workers; a few items are spread over all of them."""
    groups, most = ran(range(items), workers)
    assert sorted(one for group in groups for one in group) == list(range(items))
    assert most <= workers
    assert all(1 <= len(group) <= _GROUP for group in groups)
    assert all((len(group) - 1) * workers < items for group in groups), "nobody takes more than a fair share"
    assert all(group == list(range(group[0], group[0] + len(group))) for group in groups)


def test_groups_are_begun_in_the_order_of_the_items() -> None:
    """A single worker returns them so."""
    assert ran(range(10), 1)[0] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert sorted(ran(range(2), 2)[0]) == [[0], [1]]


def test_results_come_on_the_event_loop() -> None:
    """So that who collects them needs no lock; the work is in threads of the pool's name."""
    places: list[int] = []
    names: list[str] = []

    def work(_group: Sequence[int]) -> None:
        names.append(threading.current_thread().name)

    asyncio.run(
        Workers(2, "our-name").run(work, range(9), lambda _done: places.append(threading.get_ident()))
    )
    assert set(places) == {threading.get_ident()}
    assert all(name.startswith("our-name") for name in names)


def test_an_error_ends_all_lanes() -> None:
    """It is the caller's; what has not begun is not run, and the pool can be used again."""
    begun: list[int] = []
    pool = Workers(2, "test")

    def work(group: Sequence[int]) -> None:
        begun.extend(group)
        raise KeyError(group[0])

    with pytest.raises(KeyError):
        asyncio.run(pool.run(work, range(1000), lambda _done: None))
    assert len(begun) <= 3 * _GROUP
    asyncio.run(pool.run(lambda group: None, range(3), lambda _done: None))


def test_an_error_of_the_collector_ends_them_too() -> None:
    """It is as if the work had failed."""
    done = count()

    def collect(_result: object) -> None:
        next(done)
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        asyncio.run(Workers(1, "test").run(lambda group: group, range(100), collect))
    assert next(done) == 1


def test_cancelling_stops_after_the_groups_under_way() -> None:
    """None is begun afterwards."""
    begun: list[int] = []
    go, seen = threading.Event(), threading.Event()

    def work(group: Sequence[int]) -> None:
        begun.extend(group)
        seen.set()
        assert go.wait(20)

    async def run() -> None:
        task = asyncio.ensure_future(Workers(1, "test").run(work, range(100), lambda _done: None))
        assert await asyncio.to_thread(seen.wait, 20)
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert begun == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_a_worker(count: int) -> None:
    """By default one or two; a number below one is told."""
    with pytest.raises(ConfigError, match=f"workers must be at least 1, got {count}"):
        Workers(count, "test")
    assert Workers(None, "test").count in (1, 2)
    assert Workers(7, "test").count == 7


@given(keys=st.lists(st.integers(0, 5)), room=st.integers(0, 4))
@settings(max_examples=40)
def test_the_cache_keeps_what_was_used_last(keys: list[int], room: int) -> None:
    """As many as there is room for, as a list that is moved by hand would have it."""
    row = np.zeros(4, dtype=np.float32)
    cache = _VectorCache(room * (row.nbytes + _ENTRY_OVERHEAD_BYTES))
    used: list[int] = []
    for key in keys:
        name = bytes([key])
        assert (cache.get(name) is not None) == (key in used)
        cache.put(name, row)
        used = [one for one in used if one != key] + [key]
        used = used[max(0, len(used) - room) :]
    assert [one for one in range(6) if cache.get(bytes([one])) is not None] == sorted(used)


PIECES = ["[CLS]", "[SEP]", "[UNK]", "a", "b", "ab", "aba", "##a", "##b", "##ba", "c"]
TINY = WordPiece({piece: at for at, piece in enumerate(PIECES)})


def longest_first(word: str) -> list[str]:
    """Return the pieces of a word by trying all prefixes, the longest first; none of it is known if a rest is not."""
    pieces: list[str] = []
    while word:
        mark = "##" if pieces else ""
        piece = next((mark + word[:n] for n in range(len(word), 0, -1) if mark + word[:n] in PIECES), None)
        if piece is None:
            return ["[UNK]"]
        pieces.append(piece)
        word = word[len(piece) - len(mark) :]
    return pieces


@given(words=st.lists(st.text("abc", min_size=1, max_size=6), max_size=4), most=st.integers(2, 12))
def test_words_are_cut_into_the_longest_known_pieces(words: list[str], most: int) -> None:
    """From left to right, and the whole text at its end."""
    pieces = [piece for word in words for piece in longest_first(word)]
    ids = TINY.encode(" ".join(words), max_tokens=most)
    assert [PIECES[one] for one in ids] == ["[CLS]", *pieces[: most - 2], "[SEP]"]


@pytest.mark.parametrize("length", [_MAX_WORD_CHARS, _MAX_WORD_CHARS + 1])
def test_a_word_may_be_so_long(length: int) -> None:
    """A longer one is unknown as a whole."""
    ids = TINY.encode("b" + "a" * (length - 1), max_tokens=500)
    assert len(ids) == (length + 2 if length == _MAX_WORD_CHARS else 3)


@each(
    ("text", "pieces"),
    [
        ("a,b", ["a", "[UNK]", "b"]), ("A", ["a"]), ("á", ["a"]), ("a\u00adb", ["ab"]), ("a\u200bb", ["ab"]), ("a\tb\nc\rb", ["a", "b", "c", "b"]),
        ("a\u3000b", ["a", "b"]), ("a\x00b\ufffd", ["ab"]), ("a中b", ["a", "[UNK]", "b"]), ("a\u2028b", ["a", "b"]), ("\ue000", []), ("a$b", ["a", "[UNK]", "b"]),
        ("ａ", ["[UNK]"]), ("", []), (" \n", []),
    ],
)  # fmt: skip
def test_characters_are_dropped_parted_or_folded(text: str, pieces: list[str]) -> None:
    """Controls and private ones go, punctuation and ideographs stand alone, accents and case do not count."""
    assert [PIECES[one] for one in TINY.encode(text, max_tokens=50)] == ["[CLS]", *pieces, "[SEP]"]


@pytest.mark.parametrize("missing", ["[CLS]", "[SEP]", "[UNK]"])
def test_a_vocabulary_has_its_special_pieces(missing: str) -> None:
    """All that are missing are named."""
    with pytest.raises(ConfigError, match=rf"lacks the special pieces \['\{missing}'\]"):
        WordPiece({piece: at for at, piece in enumerate(PIECES) if piece != missing})


class Counting(dict[str, int]):
    """A vocabulary that counts how often it is asked."""

    asked = 0

    def __contains__(self, piece: object) -> bool:
        self.asked += 1
        return super().__contains__(piece)


def test_a_huge_text_costs_what_fits() -> None:
    """Words behind the cut are not looked up."""
    vocabulary = Counting((piece, at) for at, piece in enumerate(PIECES))
    ids = WordPiece(vocabulary).encode("".join(f"{'a' * n} " for n in range(1, 2000)), max_tokens=10)
    assert len(ids) == 10
    assert vocabulary.asked < 100
