"""Which entities are one: a pure function of their names, kinds and neighbours, and of what people decided."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.graph.named import Choice, Decision, Named, Resolution

__all__ = ["Choice", "Decision", "Named", "Resolution", "resolve"]


def resolve(named: Sequence[Named], choices: Sequence[Choice] = ()) -> Resolution:
    """Return which of the entities are one. Neither the order nor the ids matter, except that ids name the result."""
    groups = {one.id: one.id for one in named}
    by_id = {one.id: one for one in named}
    into: dict[int, int] = {}
    decisions = []
    for choice in sorted(choices, key=lambda one: -one.made_ms):
        ends = (choice.entity, choice.other)
        if choice.same and all(one in by_id for one in ends):
            first, second = (groups[one] for one in ends)
            if first != second:
                groups = {one: first if group == second else group for one, group in groups.items()}
                decisions.append(Decision(*ends, "choice", 1.0))
    for group in set(groups.values()):
        members = [by_id[one] for one, of in groups.items() if of == group]
        stands = min(members, key=lambda one: (one.kind != "participant", -one.supports, one.key))
        into.update({one.id: stands.id for one in members if one is not stands})
    return Resolution(into, tuple(decisions))
