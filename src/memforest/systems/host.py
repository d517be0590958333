"""The `Host` protocol: an index's access to the file, models and other threads, for work that may wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memforest.refresh.requests import NodeWork
from memforest.search.snapshot import Snapshot
from memforest.steps.choose import Steps
from memforest.store.tx import Tx
from memforest.systems.searching import Search

T = TypeVar("T")

Occasion = Literal["write", "timer", "advance", "force"]
"""Why an index is advanced: behind a write; by a timer; because somebody asked for it, or has added, resumed or rebuilt something; or because
somebody asked that it does what is not due yet, too."""


class Host(Protocol):
    """One memory, as an index may use it outside of a transaction. What it asks models counts for the operation."""

    @property
    def now(self) -> datetime:
        """The present, by the memory's clock."""
        ...

    @property
    def occasion(self) -> Occasion:
        """Why the index is advanced; in a query, as behind a write."""
        ...

    @property
    def question(self) -> str:
        """The question's text, for steps that write for it; empty outside of a query."""
        ...

    @property
    def steps(self) -> Steps:
        """The steps that models do."""
        ...

    @property
    def embeds(self) -> bool:
        """Whether texts can be embedded here and now."""
        ...

    async def read(self, work: Callable[[Tx, Snapshot], T]) -> T:
        """Run work in a read transaction, with the snapshot of its state, in another thread."""
        ...

    async def look(self, work: Callable[[Tx], T]) -> T:
        """Run work in a read transaction alone, in another thread; for what needs no snapshot."""
        ...

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction, in another thread; what it wrote is undone if it raises.

        Other writers come in between two of them, so each is to be short: a tenth of a second, or one leaf.
        """
        ...

    async def ensure_fresh(self, chosen: Callable[[Tx], Collection[int]]) -> list[str]:
        """Bring nodes up to date with what is dirty beneath them, before they are read.

        What it costs counts for the operation. What cannot be made stays as it is.

        Args:
            chosen: names the nodes, in a read transaction.

        Returns:
            Why some of them could not be made.
        """
        ...

    async def consolidate(self, choose: Callable[[Tx], Sequence[NodeWork]]) -> Mapping[int, str]:
        """Make the summaries of nodes whose children have theirs, and their vectors: one wave of a paced index.

        Each is written as soon as it is there, by compare-and-set. A node that has the summary of just this request is marked
        clean without a call. It is tried whatever has failed before, and several waves may be made at once; who
        chooses sees to it that no node is in two. What it costs counts for the operation.

        Args:
            choose: names the nodes, which are dirty, and their requests, in a read transaction.

        Returns:
            Why nodes were not made, by node. Those that are not in it are clean, or have changed meanwhile.

        Raises:
            ModelRefusedError: if no call can succeed; what was made before is written.
        """
        ...

    async def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as stored texts are embedded, shape (n, d).

        A text that the memory has a vector of is not embedded again; the others count for the operation. The vectors
        are rounded as those in the file.

        Raises:
            ModelError: if the embedder fails, or there is none.
            EmbedderMismatchError: if the memory's vectors are of another embedder.
        """
        ...

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, as questions are embedded, shape (n, d).

        Raises:
            ModelError: if the embedder fails, or there is none.
        """
        ...

    async def read_questions(self, texts: Sequence[str]) -> list[Search]:
        """Return further questions as the one that is asked was read: planned by rules, embedded, with its options.

        Raises:
            InputError: outside of a query.
            StepError: if what the planner returns is no plan.
        """
        ...

    def timed(self, step: str) -> AbstractContextManager[None]:
        """Add the wall time of the block to a step of the operation's usage."""
        ...
