"""Verifying a memory: every invariant that can be checked from its file, and that deleted texts are nowhere in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from memforest.errors import IndexStateError
from memforest.read.corrections import verdicts
from memforest.read.stored import Problem, VerifyReport
from memforest.reading.canonical import fact_identity, is_short_form, speaker_key, tie_end
from memforest.reading.timestamps import unknown_zone
from memforest.search.as_of import restated
from memforest.search.cache import forest_of
from memforest.search.snapshot import as_one, load_snapshot
from memforest.search.vectors import digest, index_tokens, turn_text
from memforest.store import artifacts, checks, corrections, derived, meta, reads, sessions
from memforest.store import facts as facts_rows
from memforest.store.connections import RESTORE, UNEXPECTED, Tx, mapped_errors
from memforest.store.facts import FactRow, OccurrenceRow, wrong_aliases
from memforest.store.sessions import AGAIN, damaged_turns
from memforest.store.upkeep import bytes_with, rows_with
from memforest.times import from_ms
from memforest.trees.attached import Attached

OUR_EXTRACTORS = ("local-", "extract@", "verbatim")
"""How the makers of chunks begin whose quotes are pieces of turns."""

DERIVED = frozenset({"tree", "vector", "summary", "words"})
"""Parts that `repair` makes anew from what was said."""


_Find = Callable[[Tx, dict[str, int]], list[Problem]]


def verify(tx: Tx, attached: Attached) -> VerifyReport:
    """Check the file, what was said, the trees, facts, and derived rows of a memory.

    Args:
        tx: a read transaction of a fresh connection (`Database.fresh`) in which nothing was read yet.
        attached: the memory's indexes.

    Returns:
        The problems found, in words, and how many things of each kind were looked at. In a damaged file
        nothing else is looked at.
    """
    checked = {"trees": 0, "leaves": 0}
    file, index, unchecked = checks.integrity(tx)
    if file:
        return VerifyReport(tuple(Problem("file", message) for message in file), checked)
    problems = [Problem("words", message) for message in index]
    notes = [note for note in (unchecked, unknown_zone(tx)) if note is not None]
    parts: dict[str, _Find] = {**_PARTS, "tree": partial(_trees, attached=attached)}
    for part, find in parts.items():
        try:
            problems += find(tx, checked)
        except UNEXPECTED as exc:
            # Rows that SQLite finds sound and that cannot be: a checker must not trust what it checks.
            problems.append(Problem(part, f"the rows contradict each other: {exc!r}"))
    return VerifyReport(tuple(problems), checked, (*attached.notes(tx), *notes))


def first_problem(tx: Tx, attached: Attached) -> str | None:
    """Return the first problem of a memory and what to do about it; None when there is none."""
    problems = [
        one for one in verify(tx, attached).problems if one.part != "tree"
    ]  # trees are stored nowhere
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
    """Return a problem for each turn whose text does not match its digest."""
    checked["turns"] = sum(1 for _ in checks.indexed_texts(tx, "turn"))
    return [
        Problem("turn", f"{one.name} is not what was stored; {AGAIN}") for one in damaged_turns(tx).values()
    ]


def _sessions(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that turns are numbered without gaps, and that chunks cover them."""
    checked["sessions"] = len(sessions.list_sessions(tx))
    return _of("session", checks.contradictions(tx, "session"))


def _settings(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check settings, counters and the change log, and that texts are texts."""
    return _of("setting", checks.contradictions(tx, "setting")) + _of("text", checks.undecodable_texts(tx))


def _words(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Return a problem for each missing, wrong or surplus row of the lexical index."""
    return [Problem("words", f"{kind} {item} {message}") for kind, item, message in wrong_words(tx)]


def wrong_words(tx: Tx) -> list[tuple[Literal["turn", "fact"], int, str]]:
    """Return (kind, item, what is wrong) of every word row that is wrong or missing.

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


def _trees(tx: Tx, checked: dict[str, int], attached: Attached) -> list[Problem]:
    """Return what is wrong with the trees that each index grows."""
    problems = []
    snapshot = as_one(load_snapshot(tx))
    for index in attached.of(tx):
        try:
            forest = forest_of(tx, snapshot, index)
            found = index.check(forest)
        except (IndexStateError, *UNEXPECTED) as exc:  # a checker must not trust what it checks
            found = [f"the trees cannot be made: {exc}"]
        else:
            checked["trees"] += len(forest.tree_kind)
            checked["leaves"] += len(forest) - len(forest.inner)
        problems += [Problem("tree", f"{index.name}: {message}", index.name) for message in found]
    return problems


def _facts(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check each fact's identity, its wording and time against its occurrences, and its mentions and states."""
    facts = list(facts_rows.iter_facts(tx))
    occurrences = facts_rows.occurrences(tx, [fact.row for fact in facts])
    checked["facts"] = len(facts)
    messages = [
        f"{fact.fact_id}: {message}"
        for fact in facts
        for message in _of_fact(tx, fact, occurrences[fact.row])
    ]
    messages += [f"{one}: its quote or its speaker is not of its turns" for one in _misquoted(tx)]
    return _of("fact", messages + checks.contradictions(tx, "fact"))


def _of_fact(tx: Tx, fact: FactRow, found: list[OccurrenceRow]) -> list[str]:
    times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
    if fact.fact_id != fact_identity(fact.text, times[0], times[1], fact.dates):
        return ["the text or time is not what the identity was made of"]
    if not found or not all(one.turns for one in found):
        return ["nothing supports it"]
    if restated(tx, fact, found) != fact:
        return ["it is not worded, attributed or dated by its occurrences"]
    return [
        f"occurrence {one.row} is not worded as its place says"
        for one in found
        if not one.tie.endswith(tie_end(fact_identity(one.text, times[0], times[1], one.dates)))
    ]


def _misquoted(tx: Tx) -> list[str]:
    """Return the facts with an occurrence whose quote or speaker does not occur in its turns.

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


def _corrections(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check corrections, the statements that they made, and that facts have the verdicts that follow from them."""
    found = corrections.all_corrections(tx)
    checked["corrections"] = len(found)
    messages = checks.contradictions(tx, "correction")
    for one in found:
        times = [None if ms is None else from_ms(ms) for ms in (one.start_ms, one.end_ms)]
        if one.made is not None and one.made != fact_identity(one.text or "", times[0], times[1]):
            messages.append(f"correction {one.key}: what it made is not what its text and time make")
    facts = list(facts_rows.iter_facts(tx)) if found else corrections.decided_facts(tx)
    now = verdicts(tx, facts)
    messages += [
        f"{fact.fact_id}: what is decided of it is not what the corrections say"
        for fact in facts
        if fact.verdict != now[fact.row]
    ]
    return _of("correction", messages)


def _entities(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that entities are keyed by their names, and aliases by what uses them."""
    entities = facts_rows.entities(tx)
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
    messages += [f"alias {key!r} {message}" for key, message in wrong_aliases(tx)]
    for key, entity in reads.names(tx).items():
        if key != entities[entity].key and not is_short_form(key, entities[entity].key):
            messages.append(f"alias {key!r} is not short for {entities[entity].label!r}")
    return _of("entity", messages + checks.contradictions(tx, "entity"))


def _vectors(tx: Tx, checked: dict[str, int]) -> list[Problem]:
    """Check that each vector is of the text it stands for, of one model, and of unit length."""
    found = wrong_vectors(tx)
    checked["vectors"] = len(checks.vector_digests(tx))
    problems = [f"the vector of {kind} {item} {message}" for kind, item, message in found]
    checked["summaries"] = len(artifacts.known(tx, artifacts.OF_TREES))
    return [
        *(Problem("vector", message) for message in (*problems, *meta.next_problems(tx))),
        *(Problem("summary", message) for message in artifacts.damaged(tx)),
    ]


def wrong_vectors(tx: Tx) -> list[tuple[derived.ItemKind, int, str]]:
    """Return (kind, item, what is wrong) of every vector that is wrong or missing.

    The vector of a damaged turn stays: it may be that of what was said, and none is made of what stands there now.
    """
    problems = checks.vector_problems(tx)
    damaged = damaged_turns(tx)
    turns = list(checks.indexed_texts(tx, "turn"))
    expected = {
        **{("turn", row): turn_text(speaker, text) for row, speaker, text, _ in turns},
        **{("fact", row): text for row, _, text, _ in checks.indexed_texts(tx, "fact")},
    }
    for kind, item, stored in checks.vector_digests(tx):
        text = expected.get((kind, item))
        if kind == "turn" and item in damaged:
            continue
        if text is None or stored != digest(text):
            problems.append((kind, item, "is not of its present text"))
    return problems


_PARTS: dict[str, _Find] = {
    "turn": _turns,
    "session": _sessions,
    "setting": _settings,
    "fact": _facts,
    "correction": _corrections,
    "entity": _entities,
    "vector": _vectors,
    "words": _words,
}


def with_residue(tx: Tx, path: Path, report: VerifyReport, deleted: Sequence[str]) -> VerifyReport:
    """Return a report with a problem for each place where one of the texts is; texts are named by their number, from 0.

    Args:
        tx: a read transaction.
        path: the memory's file.
        report: what was found otherwise.
        deleted: texts that nothing in the memory is to say.

    Raises:
        StoreError: if a file cannot be read.
    """
    with mapped_errors(path):
        problems = [
            Problem("residue", f"deleted text {at} is in {name!r}, at byte {place}")
            for at, name, place in bytes_with(path, deleted)
        ]
    problems += [
        Problem("residue", f"deleted text {at} is in {place}") for at, place in rows_with(tx, deleted)
    ]
    checked = {**report.checked, "deleted texts": len(deleted)}
    return replace(report, problems=(*report.problems, *problems), checked=checked)
