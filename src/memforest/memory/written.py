"""What writes return: what an ingest stored and learnt, and what a flush made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memforest.memory.chunks import ChunkReport, RefusedStatement
from memforest.memory.plain import Result
from memforest.memory.spending import Usage
from memforest.text import cut
from memforest.types import Refused


@dataclass(frozen=True, slots=True, repr=False)
class IngestResult(Result):
    """What became of a session. `unchanged`: nothing of it was new. `refused`: all of its turns that are not stored.

    `added`, `merged` and `superseded` name facts by their statements (`FactView.statement`), and only what is new. When a
    session grows, its last chunk is read again with the turns behind it, unless it was full; what an earlier write has named
    of that chunk is not named again. A statement of two things may be superseded in each.
    """

    session_id: str
    turns_added: int
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    chunks: tuple[ChunkReport, ...] = ()
    refused: tuple[Refused, ...] = ()
    replaced: bool = False
    trees_updated: int = 0
    nodes_written: int = 0
    nodes_refreshed: int = 0
    """Summaries that were made before the write returned."""
    nodes_dirty: int = 0
    """Nodes of the memory whose summary was out of date when the write returned. They are made behind it, when they are
    read, by `flush` or by `resume`."""
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    redacted: int = 0
    """Turns that redaction has changed, of those that were given."""
    replayed: bool = False
    """The call came again with its idempotency key: nothing was written, and this is what the first one did, as far as
    that is still there. What the first one cost, and its warnings, are not kept."""
    deferred: bool = False
    """The call was to store the turns and no more (``defer=True``): `left` are the chunks that `resume` makes memory of."""

    @property
    def repeated(self) -> bool:
        """The same as `replayed`, by its former name."""
        return self.replayed

    @property
    def unchanged(self) -> bool:
        """Whether the session was stored already, as it came."""
        return self.turns_added == 0 and not self.replaced

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(turn id, reason) of every piece that became no statement."""
        return tuple(pair for chunk in self.chunks for pair in chunk.skipped)

    @property
    def refused_statements(self) -> tuple[RefusedStatement, ...]:
        """Statements of a model that were not kept, and why: of each chunk the first 20."""
        return tuple(one for chunk in self.chunks for one in chunk.refused)

    @property
    def failed(self) -> tuple[ChunkReport, ...]:
        """The chunks whose extraction failed; local rules have read them, until `resume` succeeds."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "failed")

    @property
    def left(self) -> tuple[ChunkReport, ...]:
        """The chunks that were not tried, as the budget did not reach them or the session was deferred; `resume` goes on with them."""
        return tuple(chunk for chunk in self.chunks if chunk.status == "left")

    @property
    def cells_extracted(self) -> int:
        """Number of chunks read without a failure."""
        return sum(chunk.status == "extracted" for chunk in self.chunks)

    @property
    def facts_inserted(self) -> int:
        """Number of new facts."""
        return len(self.added)

    @property
    def facts_merged(self) -> int:
        """Number of facts that gained an occurrence."""
        return len(self.merged)

    def _line(self) -> str:
        if self.unchanged and not self.chunks:
            return f"{cut(repr(self.session_id), 60)}: unchanged"
        counts = f"{self.turns_added} turns and {self.facts_inserted} facts added, {self.facts_merged} merged"
        parts = (("chunks failed", self.failed), ("chunks left", self.left), ("warnings", self.warnings))
        more = "".join(f", {len(found)} {what}" for what, found in parts if found)
        return f"{cut(repr(self.session_id), 60)}: {counts}{more}"


@dataclass(frozen=True, slots=True, repr=False)
class FlushResult(Result):
    """What a flush did, and what was done behind writes since the one before. `nodes_dirty` counts what could not be made."""

    nodes_refreshed: int = 0
    nodes_dirty: int = 0
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()

    def plus(self, later: FlushResult) -> FlushResult:
        """Return what two flushes of one memory did; the later one says what is left."""
        return replace(self.beside(later), nodes_dirty=later.nodes_dirty)

    def beside(self, other: FlushResult) -> FlushResult:
        """Return what flushes of two memories did."""
        return FlushResult(
            self.nodes_refreshed + other.nodes_refreshed,
            self.nodes_dirty + other.nodes_dirty,
            self.usage.plus(other.usage),
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
        )

    def _line(self) -> str:
        more = f", {len(self.warnings)} warnings" if self.warnings else ""
        return f"{self.nodes_refreshed} summaries made, {self.nodes_dirty} out of date{more}"
