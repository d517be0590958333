"""What the graph tells of an entity, as a chat model writes it: one call, and the lines as they were where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from memforest.errors import ModelError
from memforest.memory.inspect.profiled import Profile, ProfileLine, ProfileSection
from memforest.memory.inspect.profiles import MOST_QUOTES
from memforest.memory.inspect.stored import turn_sources
from memforest.steps.choose import Steps


async def written(steps: Steps, told: Profile, kind: str, reference: datetime, zone: tzinfo) -> Profile:
    """Return a profile of one entity as the model of the step "summarise" writes it; each line has the sources of those it is made of.

    A line of which nothing may be quoted is not shown to the model. Where the call fails, or its reply is refused, the profile stays as it is,
    and its warnings say why.

    Args:
        steps: those of the memory.
        told: what the graph tells of the entity.
        kind: what the entity is.
        reference: the present, or the time of which it is told.
        zone: whose days are shown.

    Raises:
        ConfigError: if no chat model does the step.
    """
    from memforest.steps.llm.entity_file import entity_file
    from memforest.steps.llm.explore import Told
    from memforest.steps.llm.prompt import load_prompt

    if not told:
        return told
    [section] = told
    shown = [line for line in section if line.quotes]
    lines = [Told(line.text, min(one.said for one in line.quotes)) for line in shown]
    try:
        filed = await entity_file(steps, section.participant, kind, lines, reference, zone=zone)
    except ModelError as exc:
        why = f"the profile is not written by the model: {exc}"
        return replace(told, warnings=(*told.warnings, why))
    made = tuple(
        _line(one.text, [shown[at] for at in one.sources]) for one in (*filed.lasting, *filed.recent)
    )
    model = "" if steps.calls is None else steps.calls.model_id
    maker = load_prompt("hmem_profile").maker(model)
    return replace(told, sections=(ProfileSection(section.participant, made),), maker=maker)


def _line(text: str, made_of: Sequence[ProfileLine]) -> ProfileLine:
    """Return a line with what those rest on that it was made of."""
    pairs = [(one.session_id, turn) for line in made_of for one in line.sources for turn in one.turn_ids]
    quotes = tuple(dict.fromkeys(quote for line in made_of for quote in line.quotes))
    facts = tuple(dict.fromkeys(fact for line in made_of for fact in line.fact_ids))
    return ProfileLine(text, "written", turn_sources(pairs), quotes[:MOST_QUOTES], facts)
