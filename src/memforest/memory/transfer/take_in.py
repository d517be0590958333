"""Reading an export into a memory that holds nothing yet: one transaction, so all of it comes in or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from memforest.errors import InputError
from memforest.facts.wording import wording_rules
from memforest.interval import from_ms
from memforest.memory.transfer.export import SETTINGS, kept_by_indexes
from memforest.memory.transfer.lines import LineReader
from memforest.search.texts import index_tokens
from memforest.store import feed, indexes, meta
from memforest.store import trees as tree_rows
from memforest.store import wordings as word_digests
from memforest.store.digests import turn_digest
from memforest.store.import_rows import (
    RowWriter,
    Unfit,
    holds_something,
    insert_words,
    note_all,
    without_triggers,
)
from memforest.store.parts import MEMORY, STRUCTURE, SUMMARIES, VECTORS, Part, own_parts
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.systems.registry import INDEXES
from memforest.text import cut

WORDS_BATCH = 512


def _values(part: Part, names: str) -> Callable[[list[Any]], Any]:
    """Return the function from a row to the values of some of its columns."""
    columns = [one.name for one in part.columns]
    return itemgetter(*(columns.index(name) for name in names.split()))


_OF = {part.record: part for part in MEMORY}
_COLUMNS = {
    part.record: (
        frozenset(one.name for one in part.columns),
        itemgetter(*(one.name for one in part.columns)),
    )
    for part in (*MEMORY, *STRUCTURE)
    if not part.block
}
_INDEXED = {kind: _values(_OF[kind], "speaker text said_ms") for kind in ("turn", "fact")}
_DIGESTED = _values(
    _OF["turn"], "session metadata digest ordinal turn_id speaker role text said_ms time_source"
)
_WHOLE = re.compile("[1-9][0-9]{0,8}")


class TakeIn:
    """An import inside one write transaction; `run` does it.

    Args:
        tx: a write transaction.
        attached: the memory's indexes.
        lines: the export.
        embedder: the id of the embedder that the memory has, or will be opened with; None without one.
        check: called at each line; what it raises ends the import.

    Raises:
        InputError: if the memory holds something, or was written before.
    """

    def __init__(
        self, tx: Tx, attached: Attached, lines: LineReader, embedder: str | None, check: Callable[[], None]
    ) -> None:
        if holds_something(tx):
            raise InputError(
                "this memory was written already, and an export is imported into a new one; import it for another user "
                "id, and merge the two"
            )
        self._tx = tx
        self._attached = attached
        self._lines = lines
        self._check = check
        self._settings = _settings(lines)
        made_with = self._settings.get("embedder")
        self._same = made_with is None or made_with == embedder
        self._parts: dict[str, Part] = {}
        self._left: set[str] = set()
        """Records that are passed over: what is derived, and cannot be used here."""
        self._carried: list[str] = []
        self._words: dict[str, list[tuple[int, str]]] = {"turn": [], "fact": []}
        self._sessions: list[Any] = []
        self.damaged: list[str] = []
        """The turns that are not what was said; they were damaged before they were exported."""
        self.warnings: list[str] = []
        if not self._same:
            self.warnings.append(
                f"the memory was made with the embedder {cut(repr(made_with), 60)} and is here with "
                f"{'none' if embedder is None else repr(embedder)}: its vectors, trees and scenes are made anew"
            )

    def run(self) -> dict[str, int]:
        """Insert everything, and return how many rows of each record there were.

        Raises:
            InputError: if a line is wrong, or the file is not as it was written; it names the line.
        """
        tx = self._tx
        records = self._lines.records()
        with without_triggers(tx):
            try:
                first, scopes = self._take_indexes(records)
                writer = RowWriter(tx, scopes)
                self._take_settings()
                while first is not None:
                    self._check()
                    self._take(writer, first)
                    first = next(records, None)
                writer.finish()
            except Unfit as exc:
                raise self._lines.wrong(str(exc), exc.line) from exc
            self._flush_words()
            note_all(tx)
        for name in self._carried:
            indexes.move(tx, name, feed.position(tx))
        if self._lines.header.get("summaries") is not True:
            tree_rows.mark_all_dirty(tx)
            self._attached.reopen(tx)
        meta.bump(tx)
        return dict(self._lines.rows)

    # -- settings and indexes -----------------------------------------------------------------

    def _take_settings(self) -> None:
        for key, value in self._settings.items():
            if key != "embedder" or self._same:
                meta.put(self._tx, key, value)

    def _take_indexes(self, records: Any) -> tuple[dict[str, Any] | None, dict[tuple[str, str], str]]:
        """Give the memory the indexes of the file; return the first record behind them, and what scopes refer to."""
        rows = []
        one = next(records, None)
        while one is not None and one.get("record") == "index":
            rows.append(_index(one))
            one = next(records, None)
        for row in rows:
            if row["name"] not in INDEXES:
                raise Unfit(f"is of an index {cut(repr(row['name']), 60)}, which there is not")
        if rows:
            for old in indexes.rows(self._tx):
                indexes.drop_tables(self._tx, old.name)
                indexes.remove(self._tx, old.name)
            for row in rows:
                self._attached.add(self._tx, row["name"], json.loads(row["settings"]))
        return one, self._take_structure(rows)

    def _take_structure(self, rows: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
        """Settle which records are read; the trees of all indexes that are carried, or of none."""
        wanted = [row for row in rows if row["carried"]]
        usable = self._same and all(INDEXES[row["name"]].carried is not None for row in wanted)
        wordings = self._lines.header.get("wordings") == wording_rules().hex()
        if wordings:
            word_digests.drop_wordings(self._tx, wording_rules())
        parts = [*MEMORY, *STRUCTURE, SUMMARIES, *VECTORS]
        scopes = {}
        for row in wanted if usable else []:
            name, refers = row["name"], INDEXES[row["name"]].carried or {}
            parts += own_parts(self._tx, name, refers)
            scopes.update({(name, kind): of for kind, of in refers.items()})
            for key, value in row["kept"].items():
                meta.put(self._tx, key, value)
            indexes.change(self._tx, name, row["settings"])
            self._carried.append(name)
        self._parts = {part.record: part for part in parts}
        if not wordings:
            self._left.add("wordings")
        if not self._same:
            self._left.update(part.record for part in VECTORS)
        if not usable:
            self._left.update(part.record for part in (*STRUCTURE, SUMMARIES, VECTORS[-1]))
        return scopes

    # -- rows ---------------------------------------------------------------------------------

    def _take(self, writer: RowWriter, record: dict[str, Any]) -> None:
        name = record.pop("record", None)
        part = self._parts.get(name) if isinstance(name, str) else None
        if part is None:
            if isinstance(name, str) and (name in self._left or kept_by_indexes(f"{name}_", list(INDEXES))):
                return
            raise Unfit(f"is of an unknown record {cut(repr(name), 60)}")
        if name in self._left:
            return
        for values in _rows(record, part):
            if name in ("turn", "fact"):
                self._index(writer, part, values)
            elif name == "session":
                self._sessions.append(values[0])
            writer.add(self._lines.number, part, values)

    def _index(self, writer: RowWriter, part: Part, values: list[Any]) -> None:
        """Make the word row of a turn or a fact; of a damaged turn there is none."""
        speaker, text, said_ms = _INDEXED[part.record](values)
        try:
            if part.record == "turn" and self._is_damaged(values):
                return
            tokens = index_tokens(speaker, text, from_ms(said_ms))
        except (TypeError, AttributeError, LookupError, ValueError) as exc:
            raise Unfit(f"cannot be read: {exc}") from exc
        waiting = self._words[part.record]
        waiting.append((writer.count(part.record) + 1, " ".join(tokens)))
        if len(waiting) >= WORDS_BATCH:
            self._flush_words()

    def _is_damaged(self, values: list[Any]) -> bool:
        number, metadata, digest, *said = _DIGESTED(values)
        session = self._sessions[number - 1]
        stored = json.dumps(metadata, ensure_ascii=False) if metadata else "{}"
        if turn_digest((session, *said, stored)).hex() == digest:
            return False
        self.damaged.append(f"turn {cut(repr(said[1]), 60)} of session {cut(repr(session), 60)}")
        return True

    def _flush_words(self) -> None:
        for kind, rows in self._words.items():
            insert_words(self._tx, kind, rows)
            rows.clear()


def _settings(lines: LineReader) -> dict[str, str]:
    """Return the settings in the header.

    Raises:
        InputError: if one of them cannot be.
    """
    found = lines.header.get("settings")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise lines.wrong("has no settings")
    if unknown := found.keys() - set(SETTINGS):
        raise lines.wrong(f"has an unknown setting {cut(repr(min(unknown)), 60)}")
    if not found.get("label") or not _WHOLE.fullmatch(found.get("cell_turns", "")):
        raise lines.wrong("has no display name, or a number of turns in a chunk that cannot be")
    return found


def _index(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an index.

    Raises:
        Unfit: if it cannot be one.
    """
    kinds = {"name": str, "settings": str, "carried": bool, "kept": dict}
    if record.keys() != kinds.keys() | {"record"}:
        raise Unfit("is no index")
    if not all(type(record[key]) is kind for key, kind in kinds.items()):
        raise Unfit("is no index")
    name, kept = record["name"], record["kept"]
    if not all(isinstance(value, str) and kept_by_indexes(key, [name]) for key, value in kept.items()):
        raise Unfit(f"keeps what is not of the index {cut(repr(name), 60)}")
    try:
        given = json.loads(record["settings"])
    except ValueError as exc:
        raise Unfit(f"has settings that are no JSON: {exc}") from exc
    if not isinstance(given, dict):
        raise Unfit("has settings that are no JSON object")
    return dict(record)


def _rows(record: Mapping[str, Any], part: Part) -> list[list[Any]]:
    """Return the rows in a record, each as a list of values.

    Raises:
        Unfit: if it has other columns.
    """
    if part.block:
        rows = record.get("rows")
        width = len(part.columns) + bool(part.numbered)
        if len(record) != 1 or not isinstance(rows, list):
            raise Unfit("has no rows")
        if not all(isinstance(row, list) and len(row) == width for row in rows):
            raise Unfit(f"has a row that is no list of {width} values")
        return rows
    names, values_of = _COLUMNS[part.record]
    if len(record) != len(names) or not names.issuperset(record):
        wrong = sorted(names ^ record.keys())
        raise Unfit(f"lacks, or has too much: {cut(', '.join(wrong), 120)}")
    return [list(values_of(record))]
