"""mem0's memories, as ``get_all`` returns them: statements that its model made, with the time at which it made them.

Shape: a list, or an object with ``results`` (or ``memories``), of objects with ``id``, ``memory``, ``created_at``,
``updated_at``, ``metadata``, ``user_id``, ``agent_id``, ``run_id``. Nobody said these sentences, so their speaker is "mem0",
and their metadata say what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memforest.importers.drafts import Draft, in_time_order, session_of
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading, kind_of
from memforest.importers.sample import Sample
from memforest.limits import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS

_LISTS = ("results", "memories")
_KEPT = ("agent_id", "app_id", "actor_id", "updated_at", "categories")
_MEANT = frozenset({"role", "kind", *SPEAKER, *TEXT, *TIME_KEYS, *ID, *CAPTION, *_KEPT})
"""Keys that mean something in a turn, so that metadata of these names are kept apart."""


def recognises(sample: Sample) -> bool:
    """Return whether there are memories with ids."""
    found = list(sample.objects)
    for key in _LISTS:
        listed = sample.fields.get(key)
        found += [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return any(isinstance(one.get("memory"), str) and "id" in one for one in found)


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield a session for each run, or for the memories made on one day; all memories are held at once, to be sorted."""
    held: dict[tuple[str | None, str], list[Draft]] = {}
    for where, memory in _memories(reading):
        if not isinstance(memory, Mapping) or not isinstance(memory.get("memory"), str):
            reading.skips.fail(where, f"there is a {kind_of(memory)} without the text of a memory")
            continue
        stamp = memory.get("created_at")
        said = None if stamp is None else reading.read_time(stamp, f"{where}.created_at")
        if stamp is not None and said is None:
            continue
        user, run = memory.get("user_id"), memory.get("run_id")
        day = "" if said is None else f"/{said.astimezone(reading.options.zone).date()}"
        key = (None if user is None else str(user), str(run) if run else f"mem0{day}")
        held.setdefault(key, []).append(Draft(where, _turn(memory), said))
    for (user, name), drafts in held.items():
        yield session_of(
            name, in_time_order(drafts), metadata={"source": "mem0"}, where=drafts[0].where, user=user
        )


def _memories(reading: Reading) -> Iterator[tuple[str, Any]]:
    if reading.shape != "object":
        yield from reading.records()
        return
    with reading.json() as stream:
        for key in stream.fields():
            if key in _LISTS and stream.peek() == "start_array":
                for number, value in stream.values():
                    yield f"{key}[{number}]", value
            elif key == "relations" and isinstance(relations := stream.value(), list):
                reading.skips.leave_out("relation between entities", len(relations))


def _turn(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a turn; its own metadata and ids are kept."""
    given = memory.get("metadata")
    own = {key: one for key, one in given.items() if key not in _MEANT} if isinstance(given, Mapping) else {}
    turn: dict[str, Any] = {
        "speaker": "mem0",
        "content": memory["memory"],
        "kind": "memory that mem0 made",
        **own,
        **{key: memory[key] for key in _KEPT if memory.get(key) is not None},
    }
    if isinstance(given, Mapping) and len(own) < len(given):
        turn["mem0_metadata"] = {key: one for key, one in given.items() if key in _MEANT}
    if memory.get("id") is not None:
        turn["id"] = str(memory["id"])
    if memory.get("created_at") is not None:
        turn["timestamp"] = memory["created_at"]
    return turn
