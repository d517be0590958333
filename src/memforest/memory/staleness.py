"""What of a memory would be made otherwise now: chunks, summaries and indexes, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from memforest.config import Config
from memforest.memory.inspect.stored import Stale
from memforest.ports import Summariser
from memforest.refresh.requests import Describe, makers_of, stale_nodes
from memforest.store import derived, meta, next_vectors, stale
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.changed import outdated

VERBATIM = "verbatim"
"""Maker of what a session with ``infer=False`` has."""


@dataclass(frozen=True, slots=True)
class Present:
    """What makes a memory's parts now: the extractor's name with its version, who summarises, and turns per chunk."""

    extractor: str
    summariser: Summariser
    cell_turns: int
    embedder: str | None


def what_is_stale(tx: Tx, config: Config, attached: Attached, present: Present, describe: Describe) -> Stale:
    """Return what `rebuild(stale=True)` would make anew; it reads every summary's inputs."""
    return Stale(
        chunks=_chunks(tx, present),
        sessions=len(stale.stale_sessions(tx, present.extractor, present.cell_turns)),
        summaries=len(stale_nodes(tx, describe, present.summariser)),
        indexes=outdated(tx, config, attached),
        texts=next_vectors.lacking_count(tx)
        if present.embedder not in (None, meta.get(tx, "embedder"))
        else 0,
        next_embedder=next_vectors.next_embedder(tx),
    )


def _chunks(tx: Tx, present: Present) -> dict[str, int]:
    """Return reason -> number of chunks."""
    found = {
        f"extracted by {maker}, now it is {present.extractor}": count
        for infer, maker, count in stale.cells_by_maker(tx)
        if infer and maker != present.extractor
    }
    if cut := stale.cells_cut_otherwise(tx, present.cell_turns):
        found[f"not of {present.cell_turns} turns, as cell_turns says"] = cut
    return found


def stale_notes(tx: Tx, config: Config, attached: Attached, present: Present) -> list[str]:
    """Return what is stale in words, as far as counting finds it: of summaries only those of another maker."""
    found = [
        f"{count} chunks were {why}; rebuild(stale=True) reads them again"
        for why, count in _chunks(tx, present).items()
    ]
    found += [
        f"{count} summaries were made by {maker}, now it is {present.summariser.name}; rebuild(stale=True) makes them anew"
        for maker, count in derived.summaries_of_others(tx, makers_of(present.summariser)).items()
    ]
    found += [
        f"the index {name!r} would be made otherwise now: {why}; rebuild(index={name!r}) does"
        for name, why in outdated(tx, config, attached).items()
    ]
    if (model := next_vectors.next_embedder(tx)) is not None:
        left = next_vectors.lacking_count(tx)
        found.append(
            f"the embedder {model!r} has been begun with, and {left} texts lack its vectors; rebuild(embedder=True) goes on"
        )
    return found
