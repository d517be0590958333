"""`verify`: every invariant that a memory can check of itself."""

from __future__ import annotations

from memforest.facts.canonical import fact_identity
from memforest.interval import from_ms
from memforest.memory.results import Problem, VerifyReport
from memforest.memory.views import Look
from memforest.search.texts import digest, turn_text
from memforest.store import checks
from memforest.store import facts as fact_rows
from memforest.store import trees as tree_rows
from memforest.store.trees import SqliteArena
from memforest.tree import check, leaves

__all__ = ["verify"]


def verify(look: Look) -> VerifyReport:
    """Check the file, the trees, placements, facts, and derived rows of a memory.

    Returns:
        The problems found, in words, and how many things of each kind were looked at.
    """
    problems = [Problem("file", message) for message in checks.file_problems(look.tx)]
    problems += [Problem("session", message) for message in checks.session_problems(look.tx)]
    checked = {"trees": 0, "leaves": 0}
    problems += _trees(look, checked)
    problems += _facts(look, checked)
    problems += _vectors(look, checked)
    problems += [Problem("words", message) for message in checks.word_problems(look.tx)]
    return VerifyReport(tuple(problems), checked)


def _trees(look: Look, checked: dict[str, int]) -> list[Problem]:
    """Check each tree's shape, and that placements and leaves are inverse maps."""
    arena = SqliteArena(look.tx)
    problems = []
    placed: dict[int, tuple[str, int, int]] = {}
    for kind, scope, head in tree_rows.heads(look.tx):
        name = f"{kind} tree {scope}"
        problems += [Problem("tree", f"{name}: {message}") for message in check(arena, head)]
        if head.root is not None:
            for leaf in leaves(arena, head):
                placed[leaf.id] = (leaf.item_kind or "", leaf.item or 0, head.tree)
        checked["trees"] += 1
    checked["leaves"] = len(placed)
    stored = checks.all_placements(look.tx)
    for leaf_id in sorted(placed.keys() ^ stored.keys()):
        where = "has no placement" if leaf_id in placed else "is placed but in no tree"
        problems.append(Problem("placement", f"leaf {leaf_id} {where}"))
    for leaf_id in sorted(placed.keys() & stored.keys()):
        if placed[leaf_id] != stored[leaf_id]:
            problems.append(
                Problem("placement", f"leaf {leaf_id} stands for another item than its placement says")
            )
    problems += [Problem("placement", message) for message in checks.unplaced_items(look.tx)]
    return problems


def _facts(look: Look, checked: dict[str, int]) -> list[Problem]:
    """Check each fact's identity, its first occurrence, and that something supports it."""
    problems = []
    facts = list(fact_rows.iter_facts(look.tx))
    occurrences = fact_rows.occurrences(look.tx, [fact.row for fact in facts])
    for fact in facts:
        times = [None if ms is None else from_ms(ms) for ms in (fact.start_ms, fact.end_ms)]
        if fact.fact_id != fact_identity(fact.text, times[0], times[1]):
            problems.append(
                Problem("fact", f"{fact.fact_id}: the text or time is not what the identity was made of")
            )
        found = occurrences[fact.row]
        if not found or not all(one.turns for one in found):
            problems.append(Problem("fact", f"{fact.fact_id}: nothing supports it"))
        elif (found[0].said_ms, found[0].tie) != (fact.said_ms, fact.tie):
            problems.append(Problem("fact", f"{fact.fact_id}: it is not dated by its first occurrence"))
    checked["facts"] = len(facts)
    return problems


def _vectors(look: Look, checked: dict[str, int]) -> list[Problem]:
    """Check that each vector is of the text it stands for, of one model, and of unit length."""
    problems = [Problem("vector", message) for message in checks.vector_problems(look.tx)]
    expected = {
        **{("turn", row): turn_text(speaker, text) for row, speaker, text in checks.turn_texts(look.tx)},
        **{("fact", row): text for row, text in checks.fact_texts(look.tx)},
        **{("node", row): text for row, text in checks.summary_texts(look.tx)},
    }
    for kind, item, stored in checks.vector_digests(look.tx):
        text = expected.get((kind, item))
        if text is None or digest(text) != stored:
            problems.append(Problem("vector", f"the vector of {kind} {item} is not of its present text"))
        checked["vectors"] = checked.get("vectors", 0) + 1
    return problems
