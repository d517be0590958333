"""What deleting, merging, exporting, importing and backing up return: typed, frozen, ready to print or to serialise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memforest.importers.files import FileSession, SkippedPart
from memforest.plain import Result, plain
from memforest.read.results import MOST_REFUSED, FlushResult, IngestResult, RefusedStatement, Usage
from memforest.read.stored import Stats

LAYERS = (
    "sessions",
    "turns",
    "chunks",
    "facts",
    "occurrences",
    "mentions",
    "states",
    "relations",
    "entities",
    "aliases",
    "choices",
    "summaries",
    "vectors",
    "word_rows",
    "corrections",
    "write_keys",
    "files",
)
"""What is counted, from what was said to what was made of it."""


@dataclass(frozen=True, slots=True, repr=False)
class DeleteReceipt(Result):
    """The result of a deletion. It holds no words and no ids of what went.

    `gone` counts, by layer, the rows that are no longer there; of summaries, vectors and word rows, those that went, also where
    they are made anew from what is left. `changed` counts rows that stay and were
    changed: sessions that lost something, turns that lost a sentence, facts that are worded, dated or attributed
    otherwise now, corrections that lost one of their places or words.

    `secure_delete` is what the file says of that pragma: whether what is freed is overwritten at once; None where nothing
    was written. If it is not, the file was written anew (`vacuumed`). `wal_pending` is true while another connection reads an older state: then the
    log still holds it, and `save()`, or closing the memory, finishes. A dry run has written nothing: its counts are
    those that the deletion would have.
    """

    target: str
    gone: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False
    secure_delete: bool | None = None
    wal_pending: bool = False
    vacuumed: bool = False
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self.gone.values()) or any(self.changed.values())

    def counts(self) -> DeleteReceipt:
        """Return the counts alone, as they are the same for a dry run and the deletion."""
        return replace(
            self, dry_run=False, wal_pending=False, vacuumed=False, secure_delete=None, warnings=()
        )

    def _line(self) -> str:
        gone = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.gone.items() if count)
        marks = [word for word in ("dry_run", "wal_pending", "vacuumed") if getattr(self, word)]
        return f"{self.target}: {gone or 'nothing'} gone{''.join(f', {mark}' for mark in marks)}"


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(Result):
    """The result of `merge`: what came from another memory, or with `dry_run` what would come.

    `sessions_added` are new here, `sessions_grown` were here in part, `sessions_same` were here already. `renamed` are
    sessions whose id was taken here: id there to id here. `people` are those who are called otherwise here: key there to
    name here. `participants_joined` and `entities_joined` name who and what of both memories has one name, and is one
    now. A fact of the other memory is inserted, or merged with one that was here. `summaries_copied` were made
    there, and are asked for here.
    """

    user_id: str
    """Whose memory was merged."""
    dry_run: bool = False
    sessions_added: int = 0
    sessions_grown: int = 0
    sessions_same: int = 0
    turns_added: int = 0
    facts_inserted: int = 0
    facts_merged: int = 0
    entities_added: int = 0
    corrections_added: int = 0
    summaries_copied: int = 0
    nodes_refreshed: int = 0
    nodes_dirty: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    participants_joined: tuple[str, ...] = ()
    entities_joined: tuple[str, ...] = ()
    elapsed_sec: float = 0.0
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ForestMergeResult(Result):
    """The result of merging several memories into one: the sums, and what each brought.

    The counts are those of `MergeResult`.
    """

    target_user_id: str
    merged: tuple[MergeResult, ...] = ()

    @property
    def source_user_ids(self) -> tuple[str, ...]:
        """Whose memories were merged, in order."""
        return tuple(one.user_id for one in self.merged)

    @property
    def sessions_added(self) -> int:
        """Sessions that are new."""
        return sum(one.sessions_added for one in self.merged)

    @property
    def facts_inserted(self) -> int:
        """Facts that are new."""
        return sum(one.facts_inserted for one in self.merged)

    @property
    def facts_merged(self) -> int:
        """Facts that were there already."""
        return sum(one.facts_merged for one in self.merged)

    @property
    def summaries_copied(self) -> int:
        """Summaries that were made there, and are asked for here."""
        return sum(one.summaries_copied for one in self.merged)

    @property
    def elapsed_sec(self) -> float:
        """Wall time of all merges, in seconds."""
        return sum(one.elapsed_sec for one in self.merged)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums, and what each memory brought, as plain values."""
        sums = (
            "source_user_ids",
            "sessions_added",
            "facts_inserted",
            "facts_merged",
            "summaries_copied",
            "elapsed_sec",
        )
        return {**Result.to_dict(self), **{name: plain(getattr(self, name)) for name in sums}}

    def _line(self) -> str:
        counts = ("facts_inserted", "facts_merged", "summaries_copied")
        return ", ".join(f"{name}={getattr(self, name)}" for name in counts)


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult(Result):
    """What an export wrote: sessions, turns, facts, bytes; `rows` counts all of its records by name.

    `path` is None when it went to a stream.
    """

    user_id: str
    path: str | None
    sessions: int
    turns: int
    facts: int
    bytes: int
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class MemoryImport(Result):
    """What an import stored; `rows` counts all records of the file by name.

    `embedded` counts the texts whose vectors were made here. `damaged` names turns that were damaged before they were
    exported; they are stored as they were, and left out of evidence.
    """

    user_id: str
    sessions: int
    turns: int
    facts: int
    embedded: int = 0
    damaged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class BackupResult(Result):
    """What a backup holds, as read back from it: sessions, turns, facts, bytes.

    `damaged` names turns that are damaged in the memory too (`verify`).
    """

    user_id: str
    path: str
    sessions: int
    turns: int
    facts: int
    bytes: int
    damaged: tuple[str, ...] = ()


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
