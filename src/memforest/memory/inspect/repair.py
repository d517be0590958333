"""`repair`: rebuild, from the turns, what `verify` finds broken; no turn is changed.

What is derived (lexical rows, vectors, trees, scenes) can be made again and is; turns, sessions, cells and facts
cannot, so problems with them are left to a backup. A damaged turn is named and nothing is made of it: what was made
of it before the damage, its words and its vector, may be the last trace of what was said. A damaged file is not
touched at all: writing into it may make what is still readable unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memforest.config import Config
from memforest.errors import CorruptStoreError, StoreLockedError, StoreWriteError
from memforest.interval import to_ms
from memforest.memory.inspect.verify import wrong_vectors, wrong_words
from memforest.memory.results import VerifyReport
from memforest.memory.words import index_rows
from memforest.store import counts, derived, job_checks, meta, next_vectors
from memforest.store.db import Database
from memforest.store.disposal import purge, vacuum
from memforest.store.leaves import drop_strays
from memforest.store.tx import Tx
from memforest.systems.attached import Attached

SAID = ("session", "turn", "cell", "fact", "occurrence")
"""Tables whose rows a repair must leave as many as they were."""

FREE_SHARE = 0.1
"""Share of unused pages from which the file is written anew."""

VACUUM_BYTES = 1 << 30
"""Largest file to write anew: SQLite keeps the copy in memory, as temporary files would hold transcripts."""


@dataclass(frozen=True, slots=True)
class _Context:
    """What a repair may need: the settings, the memory's indexes, and what was found."""

    config: Config
    attached: Attached
    found: VerifyReport


def repair_parts(db: Database, config: Config, attached: Attached, found: VerifyReport) -> list[str]:
    """Rebuild the broken parts in one transaction, and return what was done, in words.

    Raises:
        CorruptStoreError: if that would have changed what was said; nothing was changed then.
        StoreError: if the file cannot be written.
    """
    parts = {problem.part for problem in found.problems}
    wanted = [make for broken, make in _REPAIRS if broken & parts]
    if not wanted or parts & {"file", "session"}:
        return []
    with db.write() as tx:
        before = _said(tx)
        did = [make(tx, _Context(config, attached, found)) for make in wanted]
        if _said(tx) != before:
            raise CorruptStoreError(f"{db.path.name!r} cannot be repaired; restore it from a backup")
        meta.bump(tx)
    return did


def reclaim_space(db: Database) -> list[str]:
    """Merge the lexical index, give free space back, fold the log in; return what was done, in words."""
    did = []
    try:
        with db.write() as tx:
            derived.purge_words(tx)
        did.append("merged the lexical index")
        with db.read() as tx:
            share, size = counts.free_share(tx)
        if share > FREE_SHARE and size <= VACUUM_BYTES:
            vacuum(db)
            did.append(f"gave back {share:.0%} of the file")
        elif share > FREE_SHARE:
            did.append(
                f"left {share:.0%} of the file unused: writing {size:,} bytes anew takes as much memory"
            )
        purge(db)
        did.append("folded the write-ahead log into the file")
    except (StoreLockedError, StoreWriteError) as exc:
        did.append(f"did not tidy up: {exc}")
    return did


def _said(tx: Tx) -> dict[str, int]:
    found = counts.count_rows(tx)
    return {table: found[table] for table in SAID}


def _words(tx: Tx, _context: _Context) -> str:
    """Rebuild the lexical index from its rows, and the rows that do not match their turn or fact."""
    derived.reindex_words(tx)
    wrong = wrong_words(tx)
    for kind, item, _ in wrong:
        derived.clear_words(tx, kind, item)
    index_rows(tx, {(kind, item) for kind, item, _ in wrong})
    return f"made the lexical index anew, and the words of {len(wrong)} turns and facts"


def _vectors(tx: Tx, _context: _Context) -> str:
    wrong = {(kind, item) for kind, item, _ in wrong_vectors(tx)}
    for kind, item in wrong:
        derived.drop_vectors(tx, kind, (item,))
    if next_vectors.problems(tx):
        next_vectors.drop(tx)
    return f"dropped {len(wrong)} wrong vectors, to be made anew"


def _indexes(tx: Tx, context: _Context) -> str:
    """Clear the broken indexes, which `resume` then rebuilds, and delete what belongs to no index of the memory."""
    gone = context.attached.drop_strays(tx)
    drop_strays(tx)
    broken = sorted({one.index for one in context.found.problems if one.index is not None})
    for name in broken:
        context.attached.clear(tx, name, "was found broken; repair() makes it anew")
    did = [f"made the index {name!r} anew" for name in broken]
    did += [f"dropped what was left of the index {name!r}" for name in gone]
    return "; ".join(did) or "dropped leaves of no tree"


def _jobs(tx: Tx, context: _Context) -> str:
    """Reset jobs with impossible rows to `waiting`, and delete unreadable ones; an index adds its jobs again."""
    anew, forgotten = job_checks.repair(tx, now_ms=to_ms(context.config.clock()))
    return f"let {anew} jobs wait anew, and forgot {forgotten} that could not be read"


_REPAIRS: tuple[tuple[frozenset[str], Callable[[Tx, _Context], str]], ...] = (
    (frozenset({"words"}), _words),
    (frozenset({"vector"}), _vectors),
    (frozenset({"tree", "placement", "scene", "index"}), _indexes),
    (frozenset({"job"}), _jobs),
)


def rebuild_words(tx: Tx) -> int:
    """Rebuild the lexical index and the word rows of all turns and facts, and return how many rows."""
    derived.reindex_words(tx)
    return index_rows(tx)
