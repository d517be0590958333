"""Reading the snapshots of the paper's artifact: what was said, and the statements that were extracted from it.

A snapshot is a file of canonical facts, one JSON object a line, and a directory of trees, one JSON file each. The leaves
of its session trees hold the turns of a chunk, with the time of the chunk; a fact's occurrences name chunks. Summaries,
the shape of trees and vectors are not read: they are made anew. Ids in a snapshot never become paths.

Source: the dataclasses that the artifact writes, ``src/build/tree_types.py`` and ``src/utils/types.py`` of
https://github.com/Concyclics/MemForest.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from memforest.display import shown
from memforest.errors import InputError
from memforest.interval import EARLIEST, LATEST
from memforest.limits import ROLES
from memforest.memory.ingest.turns import Arrival
from memforest.types import UNSPOKEN_ROLES, Candidate, Chunk, ChunkOutcome, Mention, Precision

__all__ = ["ArtifactExtractor", "Snapshot", "read_snapshot"]

Ordinals = tuple[int, ...]
"""Where the turns of a chunk stand in their session, without those that nobody says."""

MAX_BYTES = 256_000_000
"""Largest file of a tree, and longest line of facts, that is read."""
DAY_S = 86_400.0
_SPANS: tuple[tuple[float, Precision], ...] = (
    (1.0, "instant"),
    (DAY_S, "day"),
    (7 * DAY_S, "week"),
    (31 * DAY_S, "month"),
    (92 * DAY_S, "season"),
    (366 * DAY_S, "year"),
)
"""Longest interval, in seconds, of each precision."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """A chunk of a session: when it was said, in UNIX seconds, and its turns as (role or speaker, text)."""

    session_id: str
    index: int
    start: float
    end: float
    turns: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Snapshot:
    """A snapshot, ready to be stored: its sessions, and which statements their turns support."""

    arrivals: list[Arrival] = field(default_factory=list)
    statements: dict[str, list[tuple[Ordinals, Mapping[str, Any]]]] = field(default_factory=dict)
    """Session id -> (ordinals of the supporting turns, fact)."""
    facts: int = 0
    problems: list[str] = field(default_factory=list)
    """What could not be read, and where it stands."""


class ArtifactExtractor:
    """Gives the chunks of sessions the statements that the artifact extracted from them; no model is asked."""

    name = "memforest-artifact"

    def __init__(self, snapshot: Snapshot) -> None:
        self._statements = snapshot.statements

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return the statements of each chunk."""
        return [self._outcome(chunk) for chunk in chunks]

    def _outcome(self, chunk: Chunk) -> ChunkOutcome:
        """Return the statements whose first turn is of the chunk; each is told by one of its turns there."""
        turns = {turn.ordinal: turn for turn in chunk.turns}
        made = []
        for ordinals, fact in self._statements.get(chunk.session_id, ()):
            if ordinals and ordinals[0] in turns:
                own = [at for at in ordinals if at in turns]
                by_origin = [at for at in own if turns[at].role == fact.get("origin")]
                told = turns[(by_origin or own)[0]]
                made.append(_candidate(fact, told.ordinal, told.speaker, told.text))
        return ChunkOutcome(tuple(made))


def read_snapshot(tree_store_dir: Path, node_index_dir: Path, facts_jsonl: Path) -> Snapshot:
    """Read a snapshot of the artifact.

    Raises:
        InputError: if there is no directory of trees or no file of facts, or no turns that can be read.
    """
    if not tree_store_dir.is_dir():
        raise InputError(
            f"tree_store_dir {shown(str(tree_store_dir))} is no directory; name that of the trees"
        )
    if not facts_jsonl.is_file():
        raise InputError(
            f"facts_jsonl {shown(str(facts_jsonl))} is no file; name that of the canonical facts"
        )
    found = Snapshot()
    cells = _cells(tree_store_dir, found)
    places = _sessions(cells, found)
    if not found.arrivals:
        why = "; ".join(found.problems[:3]) or "there is no session tree"
        raise InputError(f"nothing that was said can be read in {shown(str(tree_store_dir))}: {why}")
    _facts(facts_jsonl, cells, places, found)
    if node_index_dir.is_dir() and any(node_index_dir.iterdir()):
        found.problems.append("node_index: no vectors are taken; the embedder that is configured makes them")
    return found


# -- turns --------------------------------------------------------------------------------------------


def _cells(directory: Path, found: Snapshot) -> dict[str, _Cell]:
    """Return chunk id -> chunk, of all session trees."""
    cells: dict[str, _Cell] = {}
    for path in sorted(directory.glob("*/*.json")):
        name = f"{path.parent.name}/{path.name}"
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
            tree = json.loads(path.read_bytes())
            if not isinstance(tree, dict) or tree.get("tree_type") != "session":
                continue
            leaves = tree["session_leaves"].items()
        except (OSError, ValueError, RecursionError, KeyError, AttributeError) as exc:
            found.problems.append(f"{name}: {exc!r}")
            continue
        for cell_id, leaf in leaves:
            try:
                cells[cell_id] = _cell(leaf, tree)
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                found.problems.append(f"{name}: chunk {shown(cell_id)}: {exc!r}")
    return cells


def _cell(leaf: Mapping[str, Any], tree: Mapping[str, Any]) -> _Cell:
    """Return a leaf of a session tree.

    Raises:
        ValueError: if it has no session, no time or no text; a KeyError or TypeError if it is none.
    """
    session_id = leaf.get("session_id") or tree.get("tree_key")
    if not isinstance(session_id, str) or not session_id.strip():
        raise ValueError("it has no session id")
    turns = tuple(
        (str(turn["role"]), turn["content"])
        for turn in leaf["raw_turns"]
        if isinstance(turn["content"], str) and turn["content"].strip()
    )
    if not turns:
        raise ValueError("it has no turns with text")
    start, end = _seconds(leaf["time_start"]), _seconds(leaf.get("time_end"))
    if start is None:
        raise ValueError(f"time_start {shown(leaf['time_start'])} is no time")
    return _Cell(session_id, int(leaf.get("cell_index", 0)), start, max(start, end or start), turns)


def _seconds(value: object) -> float | None:
    """Return a time in UNIX seconds, None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if EARLIEST.timestamp() <= value < LATEST.timestamp() else None


def _sessions(cells: Mapping[str, _Cell], found: Snapshot) -> dict[str, Ordinals]:
    """Add the sessions that the chunks are of, and return chunk id -> the ordinals of its turns."""
    by_session: dict[str, list[tuple[str, _Cell]]] = defaultdict(list)
    for cell_id, cell in cells.items():
        by_session[cell.session_id].append((cell_id, cell))
    places: dict[str, Ordinals] = {}
    for session_id, ones in sorted(by_session.items()):
        turns: list[dict[str, Any]] = []
        now = -math.inf
        for cell_id, cell in sorted(ones, key=lambda one: (one[1].index, one[1].start, one[0])):
            places[cell_id] = tuple(
                at
                for at, (role, _) in enumerate(cell.turns, len(turns))
                if role.strip().lower() not in UNSPOKEN_ROLES
            )
            for at, (role, text) in enumerate(cell.turns):
                # Of the times within a chunk the first and the last are known.
                now = max(now, cell.end if 0 < at == len(cell.turns) - 1 else cell.start)
                turns.append({**_who(role), "content": text, "timestamp": now})
        found.arrivals.append(Arrival(session_id, turns, metadata={"imported_from": "memforest-artifact"}))
    return places


def _who(role: str) -> dict[str, str]:
    return {"role": role} if role.strip().lower() in ROLES else {"speaker": role.strip() or "unknown"}


# -- facts --------------------------------------------------------------------------------------------


def _facts(path: Path, cells: Mapping[str, _Cell], places: Mapping[str, Ordinals], found: Snapshot) -> None:
    """Add the statements that the chunks support."""
    for number, fact in _lines(path, found):
        text = fact.get("fact_text")
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            found.problems.append(f"{path.name}, line {number}: it has no fact_text")
            continue
        said = list(_said_in(fact, cells))
        for cell_id, occurrence in said:
            stated = _stated({**fact, **occurrence}, cells[cell_id])
            found.statements.setdefault(cells[cell_id].session_id, []).append((places[cell_id], stated))
        if said:
            found.facts += 1
        else:
            why = f"no session tree has the chunk in which {shown(text)} was said"
            found.problems.append(f"{path.name}, line {number}: {why}")


def _said_in(fact: Mapping[str, Any], cells: Mapping[str, _Cell]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the chunks that a fact was said in, with its occurrences there."""
    occurrences = fact.get("occurrences")
    for one in occurrences if isinstance(occurrences, list) else ():
        cell_id = one.get("cell_id") if isinstance(one, dict) else None
        if isinstance(cell_id, str) and cell_id in cells:
            yield cell_id, {key: value for key, value in one.items() if value is not None}


def _lines(path: Path, found: Snapshot) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of a JSON Lines file with their line numbers; a line that is none is named."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_BYTES), b""), 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ValueError(f"it is a {type(value).__name__}, not an object")
            except (ValueError, RecursionError) as exc:
                found.problems.append(f"{path.name}, line {number}: {exc}")
            else:
                yield number, value


def _stated(fact: Mapping[str, Any], cell: _Cell) -> dict[str, Any]:
    """Return a fact with the time that it states: none where the artifact took that of the chunk, or it cannot be."""
    start, end = _seconds(fact.get("time_start")), _seconds(fact.get("time_end"))
    if not start or (start, end) == (cell.start, cell.end):
        start = end = None
    elif end is None or end <= start:
        end = start + 1.0
    return {**fact, "time_start": start, "time_end": end}


def _candidate(fact: Mapping[str, Any], turn: int, speaker: str, quote: str) -> Candidate:
    start, end = fact["time_start"], fact["time_end"]
    return Candidate(
        text=fact["fact_text"].strip(),
        turns=(turn,),
        speaker=speaker,
        quote=quote,
        start=None if start is None else _time(start),
        end=None if start is None else _time(end),
        precision="unknown" if start is None else _precision(end - start),
        mentions=tuple(Mention(name) for name in _texts(fact.get("entities"))),
        topics=tuple(_texts(fact.get("topics"))),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 3), timezone.utc)


def _precision(seconds: float) -> Precision:
    return next((name for span, name in _SPANS if seconds <= span), "decade")


def _texts(value: object) -> list[str]:
    found = value if isinstance(value, list) else []
    return list(dict.fromkeys(one.strip() for one in found if isinstance(one, str) and one.strip()))
