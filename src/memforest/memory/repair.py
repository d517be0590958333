"""`repair`: make anew, from what was said, what `verify` finds broken; change nothing that was said.

What is derived (lexical rows, vectors, trees) can be made again and is; turns, sessions, cells and facts
cannot, so problems with them are left to a backup. A damaged file is not touched at all: writing into it may
make what is still readable unreadable.
"""

from __future__ import annotations

from collections.abc import Callable

from memforest.config import Config
from memforest.errors import CorruptStoreError, StoreLockedError, StoreWriteError
from memforest.interval import from_ms, to_ms
from memforest.memory.results import VerifyReport
from memforest.memory.verify import wrong_vectors
from memforest.search.texts import index_tokens
from memforest.store import counts, derived, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store import scenes as scene_rows
from memforest.store import trees as tree_rows
from memforest.store.db import Database, Tx
from memforest.systems.memforest.grow import ForestWriter
from memforest.systems.memforest.scenes import routed_by

__all__ = ["mend", "tidy", "word_anew"]

SAID = ("session", "turn", "cell", "fact", "occurrence")
"""Tables whose rows a repair must leave as many as they were."""

FREE_SHARE = 0.1
"""Share of unused pages from which the file is written anew."""

VACUUM_BYTES = 1 << 30
"""Largest file to write anew: SQLite keeps the copy in memory, as temporary files would hold transcripts."""


def mend(db: Database, config: Config, found: VerifyReport) -> list[str]:
    """Make the broken parts anew in one transaction, and return what was done, in words.

    Raises:
        CorruptStoreError: if that would have changed what was said; nothing was changed then.
        StoreError: if the file cannot be written.
    """
    parts = {problem.part for problem in found.problems}
    wanted = [make for broken, make in _MENDERS if broken & parts]
    if not wanted or parts & {"file", "session"}:
        return []
    with db.write() as tx:
        before = _said(tx)
        did = [make(tx, config) for make in wanted]
        if _said(tx) != before:
            raise CorruptStoreError(f"{db.path.name!r} cannot be repaired; restore it from a backup")
        meta.bump(tx)
    return did


def tidy(db: Database) -> list[str]:
    """Merge the lexical index, give free space back, fold the log in; return what was done, in words."""
    did = []
    try:
        with db.write() as tx:
            derived.purge_words(tx)
        did.append("merged the lexical index")
        share, size = db.free_share()
        if share > FREE_SHARE and size <= VACUUM_BYTES:
            db.vacuum()
            did.append(f"gave back {share:.0%} of the file")
        elif share > FREE_SHARE:
            did.append(
                f"left {share:.0%} of the file unused: writing {size:,} bytes anew takes as much memory"
            )
        db.checkpoint()
        did.append("folded the write-ahead log into the file")
    except (StoreLockedError, StoreWriteError) as exc:
        did.append(f"did not tidy up: {exc}")
    return did


def _said(tx: Tx) -> dict[str, int]:
    found = counts.count_rows(tx)
    return {table: found[table] for table in SAID}


def _words(tx: Tx, _config: Config) -> str:
    derived.drop_words(tx)
    return f"indexed the words of {word_anew(tx)} turns and facts anew"


def _vectors(tx: Tx, _config: Config) -> str:
    wrong = {(kind, item) for kind, item, _ in wrong_vectors(tx)}
    for kind, item in wrong:
        derived.drop_vectors(tx, kind, (item,))
    return f"dropped {len(wrong)} wrong vectors, to be made anew"


def _fell(tx: Tx) -> None:
    """Drop all trees, and the scenes, whose only places are trees."""
    for _, _, head in tree_rows.heads(tx):
        tree_rows.drop_tree(tx, head.tree)
    for scene, members in scene_rows.all_members(tx).items():
        for fact in members:
            scene_rows.take_member(tx, scene, fact)
    for scene, *_ in scene_rows.all_scenes(tx):
        scene_rows.delete_scene(tx, scene)


def _trees(tx: Tx, config: Config) -> str:
    """Plant all trees anew, scenes derived again from all facts; their summaries are left to the refresh."""
    _fell(tx)
    writer = ForestWriter(tx, config)
    for session in sessions.list_sessions(tx):
        turns = [turn for _, turn in sessions.turns(tx, session.row)]
        for cell in sessions.cells(tx, session.row):
            if cell.status != "pending":
                start, end = to_ms(turns[cell.first].said), to_ms(turns[cell.last].said)
                key = (start, f"{session.session_id}\x1f{cell.ordinal:06d}")
                writer.place_cell(session.row, cell.row, key, start, end + 1)
    for entity in fact_rows.entities(tx):
        if entity.active:
            writer.fill(entity.row)
    model = routed_by(tx)
    if model is not None:
        writer.scenes.derive(model)
    writer.close()
    return f"planted {len(writer.touched)} trees anew"


_MENDERS: tuple[tuple[frozenset[str], Callable[[Tx, Config], str]], ...] = (
    (frozenset({"tree", "placement"}), _trees),
    (frozenset({"words"}), _words),
    (frozenset({"vector"}), _vectors),
)


def word_anew(tx: Tx) -> int:
    """Write the word rows of all turns and facts anew, and return how many."""
    made = 0
    for session in sessions.list_sessions(tx):
        for row, turn in sessions.turns(tx, session.row):
            derived.put_words(tx, "turn", row, index_tokens(turn.speaker, turn.text, turn.said))
            made += 1
    for fact in list(fact_rows.iter_facts(tx)):
        derived.put_words(tx, "fact", fact.row, index_tokens(fact.speaker, fact.text, from_ms(fact.said_ms)))
        made += 1
    return made
