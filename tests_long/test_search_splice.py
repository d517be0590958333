"""Splices: rows that are new, gone or read again, and where each of the others has moved to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memforest.search.snapshot import as_array, rows_of, sorted_splice, spliced

IDS = st.sets(st.integers(0, 30), max_size=15)


@given(st.permutations(range(12)), st.lists(st.integers(-2, 14), max_size=10), st.integers(0, 12))
def test_a_row_is_found_by_its_id(order: list[int], wanted: list[int], length: int) -> None:
    """In whatever order the ids stand; what is missing is -1."""
    ids = order[:length]
    found = rows_of(as_array(ids), as_array(wanted)).tolist()
    assert found == [ids.index(one) if one in ids else -1 for one in wanted]


@given(IDS, IDS, IDS)
def test_a_sorted_table_after_a_splice_is_what_reading_all_of_it_gives(
    old: set[int], changed: set[int], stored: set[int]
) -> None:
    """Ids that were changed are read again if they are stored, and gone if not; all others stay."""
    before = sorted(old)
    read = sorted(changed & stored)
    after = sorted((old - changed) | set(read))
    splice = sorted_splice(as_array(before), changed, as_array(read))
    ids = np.concatenate([as_array(before), as_array(read)])[splice.take]
    assert ids.tolist() == after
    assert {after[row] for row in splice.read.tolist()} == set(read)
    for row, one in enumerate(before):
        assert splice.now[row] == (after.index(one) if one in after else -1)
    for row, one in enumerate(after):
        assert splice.source[row] == (before.index(one) if one in before else -1)


@given(st.integers(0, 10), st.lists(st.integers(0, 10), max_size=6))
def test_read_rows_stand_before_the_kept_row_at_their_place(kept: int, places: list[int]) -> None:
    """In the order in which they were read, where several have one place."""
    at = sorted(min(place, kept) for place in places)
    splice = spliced(
        as_array(range(kept)), np.arange(kept), as_array(range(100, 100 + len(at))), as_array(at)
    )
    expected: list[int] = []
    for row in range(kept + 1):
        expected += [kept + i for i, place in enumerate(at) if place == row]
        expected += [row] if row < kept else []
    assert splice.take.tolist() == expected
