"""`verify`: every invariant that a memory can check of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from memforest.facts.canonical import fact_identity, tie_end
from memforest.facts.entities import is_short_form, speaker_key
from memforest.interval import from_ms
from memforest.memory.ingest.restate import restated
from memforest.memory.inspect.job_views import given_up
from memforest.memory.results import Problem, VerifyReport
from memforest.memory.zone import unknown_zone
from memforest.search.texts import digest, index_tokens, mean_digest, turn_text
from memforest.store import checks, contradictions, derived, jobs, meta, sessions
from memforest.store import facts as fact_rows
from memforest.store import scenes as scene_rows
from memforest.store import snapshot as snapshot_rows
from memforest.store import trees as tree_rows
from memforest.store.aliases import unsettled_aliases
from memforest.store.db import Tx
from memforest.store.digests import AGAIN, damaged_turns
from memforest.store.facts import FactRow, OccurrenceRow
from memforest.store.faults import RESTORE, UNEXPECTED
from memforest.store.trees import SqliteArena
from memforest.systems.memforest.scenes import no_scenes, routed_by
from memforest.tree import check

__all__ = ["DERIVED", "first_problem", "verify", "wrong_vectors", "wrong_words"]

CENTROID_ERROR = 1e-4
"""By how much a coordinate of a centroid may be off: it is updated in float32, once per fact that comes or goes."""

OUR_EXTRACTORS = ("local-", "extract@", "verbatim")
"""How the makers of cells begin whose quotes are pieces of turns."""

DERIVED = frozenset({"tree", "placement", "scene", "vector", "words", "job"})
"""Parts that `repair` makes anew from what was said."""


def verify(tx: Tx) -> VerifyReport:
    """Check the file, what was said, the trees, placements, facts, and derived rows of a memory.

    Args:
        tx: a read transaction of a fresh connection (`Database.fresh`) in which nothing was read yet.

    Returns:
        The problems found, in words, and how many things of each kind were looked at. In a damaged file
        nothing else is looked at.
    """
    checked = {"trees": 0, "leaves": 0}
    found = checks.integrity(tx)
    notes = [note for note in (no_scenes(tx), found.note, unknown_zone(tx)) if note is not None]
    if found.file:
        return VerifyReport(tuple(Problem("file", message) for message in found.file), checked)
    problems = [Problem("words", message) for message in found.index]
    for part, find in _PARTS.items():
        try:
            problems += find(tx, checked)
        except UNEXPECTED as exc:
            # Rows that SQLite finds sound and that cannot be: a checker must not trust what it checks.
            problems.append(Problem(part, f"the rows contradict each other: {exc!r}"))
    return VerifyReport(tuple(problems), checked, (*notes, *given_up(tx)))


def first_problem(tx: Tx) -> str | None:
    """Return the first thing that is wrong with a memory and what to do about it; None when nothing is."""
    problems = verify(tx).problems
    if not problems:
        return None
    first = next((one for one in problems if one.part not in DERIVED), problems[0])
    more = f", and {len(problems) - 1} more that verify() lists" if len(problems) > 1 else ""
    if first.part == "turn":  # the message says what helps
        return f"{first.message}{more}"
    return f"{first.message}{more}; {'run repair()' if first.part in DERIVED else RESTORE}"


def _of(part: str, messages: list[str]) -> list[Problem]:
    return [Problem(part, message) for message in messages]


def _turns(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that every turn is what its digest was made of."""
    checked["turns"] = len(checks.indexed_texts(tx, "turn"))
    return [
        Problem("turn", f"{one.name} is not what was stored; {AGAIN}") for one in damaged_turns(tx).values()
    ]


def _sessions(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that turns are numbered without gaps, and that cells cover them."""
    checked["sessions"] = len(sessions.list_sessions(tx))
    return _of("session", checks.session_problems(tx) + contradictions.cell_contradictions(tx))


def _settings(tx: Tx, _checked: dict[str, int]) -> list[Problem]:
    """Check settings, counters and the change log, and that texts are texts."""
    return _of("setting", contradictions.setting_contradictions(tx)) + _of(
        "text", contradictions.undecodable_texts(tx)
    )


def _words(tx: Tx, _checked: dict[str, int]) -> list[Problem]:
    """Check that the lexical index has the words of what there is, and nothing else."""
    return [Problem("words", f"{kind} {item} {message}") for kind, item, message in wrong_words(tx)]


def wrong_words(tx: Tx) -> list[tuple[Literal["turn", "fact"], int, str]]:
    """Return (kind, item, what is wrong) of every word row that has to be made anew.

    The words of a damaged turn stay as they are: they may be those of what was said.
    """
    problems: list[tuple[Literal["turn", "fact"], int, str]] = []
    damaged = damaged_turns(tx)
    kinds: tuple[Literal["turn", "fact"], ...] = ("turn", "fact")
    for kind in kinds:
        stored = dict(derived.all_words(tx, kind))
        for row, speaker, text, said_ms in checks.indexed_texts(tx, kind):
            have = stored.pop(row, None)
            if kind == "turn" and row in damaged:
                continue
            if have is None:
                problems.append((kind, row, "is not in the lexical index"))
            elif have != " ".join(index_tokens(speaker, text, from_ms(said_ms))):
                problems.append((kind, row, "is in the lexical index with other words"))
        problems += [(kind, row, "is in the lexical index and does not exist") for row in stored]
    return problems


def _trees(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check each tree's shape, that no node or leaf is outside, and that what has leaves has them where it belongs."""
    arena = SqliteArena(tx)
    problems = []
    for kind, scope, head in tree_rows.heads(tx):
        name = f"{kind} tree {scope}"
        broken = check(arena, head)
        problems += [Problem("tree", f"{name}: {message}") for message in broken]
        checked["leaves"] += 0 if broken else head.count
        checked["trees"] += 1
    if not problems:
        problems += [Problem("tree", f"node {node} is in no tree") for node in checks.orphans(tx)]
    problems += _of("placement", checks.unplaced_items(tx))
    return problems + _of("placement", contradictions.leaf_contradictions(tx))


def _facts(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check each fact's identity, that it stands as its occurrences have it, and what hangs on it."""
    facts = list(fact_rows.iter_facts(tx))
    occurrences = fact_rows.occurrences(tx, [fact.row for fact in facts])
    checked["facts"] = len(facts)
    messages = [
        f"{fact.fact_id}: {message}"
        for fact in facts
        for message in _of_fact(tx, fact, occurrences[fact.row])
    ]
    messages += [f"{one}: its quote or its speaker is not of its turns" for one in _misquoted(tx)]
    messages += checks.state_problems(tx)
    return _of("fact", messages + contradictions.fact_contradictions(tx))


def _of_fact(tx: Tx, fact: FactRow, found: list[OccurrenceRow]) -> list[str]:
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    if fact.fact_id != fact_identity(fact.text, times[0], times[1]):
        return ["the text or time is not what the identity was made of"]
    if not found or not all(one.turns for one in found):
        return ["nothing supports it"]
    if restated(tx, fact, found) != fact:
        return ["it is not worded, attributed or dated by its occurrences"]
    return [
        f"occurrence {one.row} is not worded as its place says"
        for one in found
        if not one.tie.endswith(tie_end(fact_identity(one.text, times[0], times[1])))
    ]


def _misquoted(tx: Tx) -> list[str]:
    """Return the facts with an occurrence whose quote has words that its turns have not, or that nobody there said.

    Damaged turns are no measure. Of an extractor that is not ours it is not known how it quotes.
    """
    damaged = damaged_turns(tx).keys()
    wrong = []
    for one in checks.quotations(tx):
        if damaged.isdisjoint(one.turns) and one.maker.startswith(OUR_EXTRACTORS):
            said = "".join(one.text.split())
            words = one.quote.split()
            if one.speaker not in one.speakers or not words or not all(word in said for word in words):
                wrong.append(one.fact_id)
    return wrong


def _entities(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that entities are keyed by their names, and aliases by what uses them."""
    entities = {entity.row: entity for entity in fact_rows.entities(tx)}
    checked["entities"] = len(entities)
    messages = [
        f"entity {entity.label!r}: it is not keyed by its name"
        for entity in entities.values()
        if speaker_key(entity.label) != entity.key
    ]
    heard = {speaker_key(name) for name in sessions.speakers(tx)}
    messages += [
        f"entity {entity.label!r}: it takes part and never speaks"
        for entity in entities.values()
        if entity.kind == "participant" and entity.key not in heard
    ]
    messages += [f"alias {key!r} {message}" for key, message in unsettled_aliases(tx)]
    for key, entity in snapshot_rows.names(tx).items():
        if key != entities[entity].key and not is_short_form(key, entities[entity].key):
            messages.append(f"alias {key!r} is not short for {entities[entity].label!r}")
    return _of("entity", messages + contradictions.entity_contradictions(tx))


def _vectors(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that each vector is of the text it stands for, of one model, and of unit length."""
    found = wrong_vectors(tx)
    checked["vectors"] = len(checks.vector_digests(tx))
    return [Problem("vector", f"the vector of {kind} {item} {message}") for kind, item, message in found]


def wrong_vectors(tx: Tx) -> list[tuple[derived.ItemKind, int, str]]:
    """Return (kind, item, what is wrong) of every vector that has to be made anew.

    The vector of a damaged turn stays: it may be that of what was said, and none is made of what stands there now.
    """
    problems = checks.vector_problems(tx)
    damaged = damaged_turns(tx)
    turns = checks.indexed_texts(tx, "turn")
    expected = {
        **{("turn", row): turn_text(speaker, text) for row, speaker, text, _ in turns},
        **{("fact", row): text for row, _, text, _ in checks.indexed_texts(tx, "fact")},
        **{("node", row): text for row, text in checks.summary_texts(tx)},
    }
    for kind, item, stored in checks.vector_digests(tx):
        text = expected.get((kind, item))
        if kind == "turn" and item in damaged:
            continue
        if text is None or stored not in (digest(text), mean_digest(text) if kind == "node" else b""):
            problems.append((kind, item, "is not of its present text"))
    return problems


def _scenes(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that scenes and their trees are one to one, and that centroids and memberships are those of the facts."""
    members = scene_rows.all_members(tx)
    trees = {scope: head.count for kind, scope, head in tree_rows.heads(tx) if kind == "scene"}
    messages = [f"scene {scene} has no tree" for scene in sorted(members.keys() - trees.keys())]
    messages += [
        f"there is a tree of scene {scene}, which is none" for scene in sorted(trees.keys() - members.keys())
    ]
    model = meta.get(tx, "embedder")
    for scene, made_by, size, centroid in scene_rows.all_scenes(tx):
        if made_by != model:
            messages.append(f"scene {scene} is of vectors by {made_by!r}, not {model!r}")
        if not size == len(members[scene]) == trees.get(scene, size):
            messages.append(
                f"scene {scene}: size {size}, {len(members[scene])} members, {trees.get(scene)} leaves"
            )
        vectors = [one.vector for one in scene_rows.member_vectors(tx, scene)]
        if len(vectors) < size:
            continue  # a missing vector is made anew by the next write; nothing can be compared till then
        if not np.allclose(np.mean(vectors, axis=0), centroid, atol=CENTROID_ERROR):
            messages.append(f"scene {scene}: the centroid is not the mean of its facts' vectors")
    messages += scene_rows.membership_problems(tx, routed=routed_by(tx) is not None)
    checked["scenes"] = len(members)
    return [Problem("scene", message) for message in messages]


def _jobs(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that jobs have a state, a lease and a payload that can be."""
    checked["jobs"] = jobs.total(tx)
    return _of("job", jobs.job_problems(tx))


_PARTS: dict[str, Callable[[Tx, dict[str, int]], list[Problem]]] = {
    "turn": _turns,
    "session": _sessions,
    "setting": _settings,
    "tree": _trees,
    "fact": _facts,
    "entity": _entities,
    "vector": _vectors,
    "scene": _scenes,
    "words": _words,
    "job": _jobs,
}
