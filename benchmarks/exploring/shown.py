"""The way from one participant to another, and what is known of each, printed with the turns that say so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from locomo.baselines import turn_said
from locomo.conversations import Conversation
from memforest import MemForest
from memforest.read.entities import PathView
from memforest.read.profiles import Profile
from memforest.read.stored import Source
from memforest.text import cut

__all__ = ["lines_of_path", "lines_of_profile", "said_in", "shown"]

WIDTH = 150
QUOTES = 2
"""Turns that are quoted of a step or a line."""


def said_in(conversation: Conversation) -> dict[str, str]:
    """Return turn id -> who said what."""
    return {
        str(turn["dia_id"]): f"{turn['speaker']}: {turn_said(turn)}"
        for session in conversation.sessions
        for turn in session.turns
    }


def shown(forest: MemForest, conversation: Conversation) -> Iterator[str]:
    """Yield the lines about the two who talk in a conversation.

    There is the way between them; the first one of several steps from the second to what the graph relates the first to; and a
    profile of each.
    """
    memory, said = forest.user(conversation.id), said_in(conversation)
    people = list(dict.fromkeys(turn["speaker"] for one in conversation.sessions for turn in one.turns))[:2]
    first, second = people
    yield f"{conversation.id}: {first} and {second}"
    yield from lines_of_path(memory.path(first, second), said)
    for one in memory.relations(first):
        if one.source == first and one.target not in people:
            found = memory.path(second, one.target)
            if len(found) > 1:
                yield from lines_of_path(found, said)
                break
    for name in people:
        yield from lines_of_profile(memory.profile(name), said)


def lines_of_path(path: PathView, said: Mapping[str, str]) -> Iterator[str]:
    """Yield a way, step by step, each with turns that say so."""
    yield f"  path {path.source} > {path.target}: " + ("" if path else "none")
    for step in path:
        by = ", ".join(step.labels) or step.kind
        yield f"    {step.source} - {by} - {step.target}  (weight {step.weight:g}, {len(_ids(step.sources))} turns)"
        yield from _quoted(step.sources, said)


def lines_of_profile(profile: Profile, said: Mapping[str, str]) -> Iterator[str]:
    """Yield a profile, line by line, each with turns that say so."""
    for section in profile:
        yield f"  profile of {section.participant}, {len(section.lines)} lines by {profile.maker}"
        for line in section.lines:
            yield f"    {line.kind}: {cut(line.text, WIDTH)}"
            yield from _quoted(line.sources, said)


def _ids(sources: Iterable[Source]) -> list[str]:
    return [turn for source in sources for turn in source.turn_ids]


def _quoted(sources: Iterable[Source], said: Mapping[str, str]) -> Iterator[str]:
    ids = _ids(sources)
    yield from (f"      {turn} {cut(said[turn], WIDTH)}" for turn in ids[:QUOTES])
    if len(ids) > QUOTES:
        yield f"      and {len(ids) - QUOTES} more turns"
