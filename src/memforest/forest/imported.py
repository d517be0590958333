"""What `import_file` returns: what each file holds, and what became of it in each memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memforest.importers import FileSession, SkippedPart
from memforest.memory.chunks import MOST_REFUSED, RefusedStatement
from memforest.memory.plain import Result
from memforest.memory.results import FlushResult, IngestResult, Stats, Usage


@dataclass(slots=True, repr=False)
class ImportedFile(Result):
    """What a file holds. Times are aware UTC; `start` and `end` are those of the first and the last turn, None without any."""

    source: str
    """The file's name."""
    format: str
    users: list[str] = field(default_factory=list)
    """Whose memories it is for."""
    sessions: int = 0
    turns: int = 0
    start: datetime | None = None
    end: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Parts that are no messages (notices, pictures, other branches) -> how many."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What is stored otherwise than the file has it -> how often."""
    wrong: Sequence[SkippedPart] = ()
    """The first parts that cannot be read and are not stored, with their places."""
    wrong_count: int = 0
    """How many there are."""

    def see(self, user: str, turns: int, span: tuple[datetime, datetime] | None) -> None:
        """Count a session."""
        if user not in self.users:
            self.users.append(user)
        self.sessions += 1
        self.turns += turns
        if span is not None:
            self.start = span[0] if self.start is None else min(self.start, span[0])
            self.end = span[1] if self.end is None else max(self.end, span[1])


@dataclass(slots=True, repr=False)
class ImportedMemory(Result):
    """What became of one user's sessions so far."""

    user: str
    sessions: int = 0
    """How many the files hold."""
    turns: int = 0
    sessions_new: int = 0
    sessions_unchanged: int = 0
    sessions_failed: int = 0
    turns_added: int = 0
    facts_added: int = 0
    facts_merged: int = 0
    facts_superseded: int = 0
    turns_refused: int = 0
    """Turns without text, which were not stored; `warnings` say why."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Pieces of turns that became no fact, by reason."""
    refused: list[RefusedStatement] = field(default_factory=list)
    """The first statements of a model that were not kept."""
    failed_chunks: int = 0
    failure: str | None = None
    """Why the first of them failed."""
    nodes_dirty: int = 0
    """Nodes whose summary is out of date; they are made when they are read."""
    left_chunks: int = 0
    """Chunks that the budget did not reach."""
    model_calls: int = 0
    model_tokens: int = 0
    """Prompt and completion tokens."""
    model_failures: int = 0
    seconds: float = 0.0
    embedded: Counter[str] = field(default_factory=Counter)
    """Texts the model ran, by kind."""
    embedder: str | None = None
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Sessions that were not stored, with file, place and reason."""

    def count(self, result: IngestResult) -> None:
        """Add one session's result."""
        if result.unchanged and not result.chunks:
            self.sessions_unchanged += 1
        else:
            self.sessions_new += 1
        self.turns_added += result.turns_added
        self.turns_refused += len(result.refused)
        self.facts_added += len(result.added)
        self.facts_merged += len(result.merged)
        self.facts_superseded += len(result.superseded)
        self.skipped.update(reason for _, reason in result.skipped)
        self.refused += result.refused_statements[: MOST_REFUSED - len(self.refused)]
        self.failed_chunks += len(result.failed)
        if self.failure is None and result.failed:
            self.failure = result.failed[0].failure
        self.nodes_dirty = result.nodes_dirty
        self.left_chunks += len(result.left)
        self._spend(result.usage)
        self.warnings += [text for text in result.warnings if text not in self.warnings]

    def add(self, made: FlushResult) -> None:
        """Add the summaries that were made behind the sessions."""
        self.nodes_dirty = made.nodes_dirty
        self._spend(made.usage)
        self.warnings += [text for text in made.warnings if text not in self.warnings]

    def _spend(self, usage: Usage) -> None:
        self.model_calls += usage.model_calls
        self.model_tokens += usage.prompt_tokens + usage.completion_tokens
        self.model_failures += usage.failures
        self.embedded.update(usage.embeds)

    def close(self, stats: Stats) -> None:
        """Note the state at the end."""
        self.embedder = stats.embedder
        self.bytes = stats.bytes


@dataclass(frozen=True, slots=True, repr=False)
class ImportResult(Result):
    """What `import_file` found and did; with `dry_run` nothing was stored, and only what the files hold is counted."""

    files: tuple[ImportedFile, ...] = ()
    memories: tuple[ImportedMemory, ...] = ()
    dry_run: bool = False

    @property
    def problems(self) -> list[str]:
        """Everything that was not stored although it should be: parts of files, and sessions, with their places."""
        parts = [f"{file.source}, {part}" for file in self.files for part in file.wrong]
        more = [
            f"{file.source}: and {file.wrong_count - len(file.wrong)} more parts that cannot be read"
            for file in self.files
            if file.wrong_count > len(file.wrong)
        ]
        return [*parts, *more, *(error for memory in self.memories for error in memory.errors)]


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import has come: the session that was just stored, all memories so far, and the totals of the files."""

    session: FileSession
    memories: Sequence[ImportedMemory]
    sessions_total: int
    turns_total: int
