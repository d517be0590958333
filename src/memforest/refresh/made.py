"""Nodes with the summaries made of them: what is asked for, which texts came back, and how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memforest.concurrency import all_of
from memforest.errors import BudgetError, ModelError
from memforest.ports import Summariser, is_remote
from memforest.refresh.requests import NodeWork, fingerprint, maker_of
from memforest.search.texts import digest, mean_digest
from memforest.steps.base import Kept
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.text import cut
from memforest.tree import Node


@dataclass(slots=True)
class Refreshed:
    """The result of a refresh. `left` counts the nodes asked for that are still dirty, `failures` says why."""

    nodes: int = 0
    left: int = 0
    summarise_ms: float = 0.0
    embed_ms: float = 0.0
    store_ms: float = 0.0
    failures: list[str] = field(default_factory=list)

    def plus(self, later: Refreshed) -> Refreshed:
        """Return what two refreshes did, one after the other; the later one says what is left."""
        return Refreshed(
            self.nodes + later.nodes,
            later.left,
            self.summarise_ms + later.summarise_ms,
            self.embed_ms + later.embed_ms,
            self.store_ms + later.store_ms,
            [*self.failures, *later.failures],
        )


@dataclass(frozen=True, slots=True)
class Job:
    """A dirty node as it was read, with the inputs of its summary."""

    node: Node
    work: NodeWork

    def made_by(self, summariser: Summariser) -> tuple[str, bytes]:
        """Return the maker and the fingerprint of the summary that is asked for."""
        maker = maker_of(summariser, self.work.request)
        return maker, fingerprint(self.work.request, maker, kept=self.work.kept)


@dataclass(frozen=True, slots=True)
class Made:
    """A dirty node as it was read, with its summary."""

    job: Job
    text: str

    @property
    def node(self) -> Node:
        """The node as it was read."""
        return self.job.node

    @property
    def vector(self) -> derived.VectorOf:
        """A node with its children's texts has their mean for a vector; a root is compared as a whole.

        So has a leaf the mean of its turns' that a level's own prompt was asked for.
        """
        work = self.job.work
        if not work.vector:
            return "none"
        inside = self.node.level or work.request.prompt
        kept = isinstance(self.text, Kept) and inside and not work.request.root
        return "mean" if kept or work.kept else "own"


async def summarised(jobs: Sequence[Job], summariser: Summariser) -> list[str | ModelError]:
    """Return the texts of nodes in one wave: one call for all of them, or for a remote summariser one each, side by side.

    What is kept costs no call.

    Raises:
        ModelError: if no call can succeed.
    """
    asked = [job.work.request for job in jobs if not job.work.kept]
    if is_remote(summariser):
        replies = await all_of(summariser.summarise([one]) for one in asked)
        texts = iter([text for reply in replies for text in reply])
    else:
        texts = iter(await summariser.summarise(asked) if asked else [])
    return [Kept("\n".join(job.work.request.inputs)) if job.work.kept else next(texts) for job in jobs]


def made_of(jobs: Sequence[Job], texts: Sequence[str | ModelError], done: Refreshed) -> list[Made]:
    """Return nodes with their texts, without those that the step failed on; `done` gets why it failed."""
    made = []
    failed: dict[str, list[str]] = {}
    for job, text in zip(jobs, texts, strict=True):
        request = job.work.request
        if isinstance(text, BudgetError):
            continue  # the ledger has counted it
        if isinstance(text, ModelError):
            failed.setdefault(str(text), []).append(f"{request.kind} {cut(request.label, 40)}")
        else:
            made.append(Made(job, text))
    for reason, scopes in failed.items():
        more = f" and {len(scopes) - 3} more" if len(scopes) > 3 else ""
        done.failures.append(f"{', '.join(scopes[:3])}{more}: {reason}")
    return made


def put(tx: Tx, made: Sequence[Made], summariser: Summariser) -> None:
    """Store summaries; vectors of other texts go."""
    keys = []
    for one in made:
        maker, inputs = one.job.made_by(summariser)
        derived.put_summary(tx, one.node.id, str(one.text), maker, one.vector, inputs)
        keys.append((one.node.id, (mean_digest if one.vector == "mean" else digest)(one.text)))
    # A memory opened without its embedder must not keep vectors of summaries that it has replaced.
    derived.drop_other_vectors(tx, "node", keys)


# -- what need not be made ------------------------------------------------------------------------


def unchanged(tx: Tx, jobs: Sequence[Job], summariser: Summariser, *, embeds: bool) -> list[Job]:
    """Return the nodes that have the summary which is asked for, by its fingerprint, and the vector that it is to have.

    A mean is made anew without a model, so it need not be there.
    """
    ids = [job.node.id for job in jobs]
    stored = derived.summary_makers(tx, ids)
    same = [
        job
        for job in jobs
        if (found := stored.get(job.node.id)) is not None
        and (found.maker, found.inputs) == job.made_by(summariser)
        and (found.vector != "none") == job.work.vector
    ]
    if not embeds:
        return same
    has = derived.stored_vectors(tx, "node", [job.node.id for job in same])
    return [job for job in same if stored[job.node.id].vector != "own" or job.node.id in has]


def keep_unchanged(tx: Tx, jobs: Sequence[Job], summariser: Summariser, *, embeds: bool) -> list[int]:
    """Mark those nodes clean that are `unchanged` now and of the version that was read; return their ids.

    It is looked at again in the write transaction: a deletion takes the summary of every dirty node away. A vector that is a
    mean is dropped, to be made anew: those of the children may be others now.
    """
    same = unchanged(tx, jobs, summariser, embeds=embeds)
    clean = tree_rows.mark_clean(tx, [(job.node.id, job.node.version) for job in same])
    if embeds:
        stored = derived.summary_makers(tx, clean)
        derived.drop_vectors(tx, "node", [node for node in clean if stored[node].vector == "mean"])
    return [job.node.id for job in same if job.node.id in clean]
