"""Whatever a memory has been through, in whatever order: it is whole, and holds what one made of the rest holds."""

from __future__ import annotations

import os

import pytest
from tests.contract.lives import live

FEW = 6
MANY = max(int(os.environ.get("MEMFOREST_SOAK_SEEDS", FEW)), FEW)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(FEW, MANY))]
)
def test_any_life_ends_like_a_memory_of_what_remains(seed: int) -> None:
    """Adding, late turns, replacing, deleting, correcting, merging, moving, rebuilding, reopening, a kill.

    At the end it equals a memory made anew from the turns that are left: what is read, what is found and in which order.
    """
    assert live(seed).done.total()
