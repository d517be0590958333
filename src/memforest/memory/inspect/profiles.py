"""Profiles as they are shown: the lines that an index found, with the words they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memforest.errors import NotFoundError
from memforest.interval import from_ms
from memforest.memory.inspect.profiled import (
    DatedQuote,
    Profile,
    ProfileChange,
    ProfileChanges,
    ProfileLine,
    ProfileSection,
)
from memforest.memory.inspect.stored import turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.store import facts as fact_rows
from memforest.store.evidence import TurnText, turn_texts
from memforest.store.snapshot import muted_turns
from memforest.systems.base import MemoryIndex
from memforest.systems.profiling import FoundLine, FoundProfile, ProfileRequest
from memforest.systems.registry import known
from memforest.text import fold

__all__ = ["MOST_QUOTES", "profile_changes", "profile_views"]

MOST_QUOTES = 3
"""Turns that are quoted below a line."""
_LASTING = frozenset({"state", "entity", "topic", "written"})
"""Kinds of lines that end: what happened or was said in a month does not."""


def profile_views(
    context: ViewContext, wanted: Sequence[ProfileRequest], warnings: Sequence[str]
) -> list[Profile]:
    """Return the profiles in force by the instants of some requests.

    Args:
        context: the transaction.
        wanted: what is asked for.
        warnings: go before those of each profile.

    Raises:
        NotFoundError: if the memory has no index that keeps profiles, or nobody of a name ever spoke.
    """
    index = _keeper(context)
    muted = frozenset(muted_turns(context.tx))
    return [_view(context, index.profile(context.tx, one), muted, warnings) for one in wanted]


def _keeper(context: ViewContext) -> MemoryIndex:
    """Return the index that keeps profiles."""
    names = [name for name, made in sorted(known().items()) if made.profiles]
    has = {index.name for index in context.attached.of(context.tx)}
    for name in names:
        if name in has:
            return context.attached.get(context.tx, name)
    adds = " or ".join(f"add_index({name!r})" for name in names)
    raise NotFoundError(f"this memory has no index that keeps profiles; {adds} makes one")


def _view(
    context: ViewContext, found: FoundProfile, muted: frozenset[int], warnings: Sequence[str]
) -> Profile:
    turns = {turn for line in found.lines for turn in line.turns} | set(found.since)
    texts = turn_texts(context.tx, turns)
    facts = fact_rows.facts_with_ids(context.tx, {fact for line in found.lines for fact in line.facts})
    ids = {row: fact.fact_id for row, fact in facts.items()}
    of: dict[str, list[ProfileLine]] = {name: [] for name in found.participants}
    for line in found.lines:
        of[line.participant].append(_line(line, texts, ids, muted))
    has = found.month is not None
    return Profile(
        month=found.month,
        start=from_ms(found.start_ms) if has else None,
        end=from_ms(found.end_ms) if has else None,
        sections=tuple(ProfileSection(name, tuple(lines)) for name, lines in of.items() if lines),
        maker=found.maker,
        out_of_date=found.out_of_date,
        since=tuple(_quote(texts[turn]) for turn in found.since),
        said_since=found.said_since,
        unsupported=found.unsupported,
        warnings=(*warnings, *found.warnings),
    )


def _line(
    line: FoundLine, texts: Mapping[int, TurnText], ids: Mapping[int, str], muted: frozenset[int]
) -> ProfileLine:
    """Return a line with its sources; what also tells of something that is hidden is named, and not quoted."""
    shown = [turn for turn in line.turns if turn not in muted]
    if len(shown) > MOST_QUOTES:
        shown = [*shown[: MOST_QUOTES - 1], shown[-1]]
    return ProfileLine(
        text=line.text,
        kind=line.kind,
        sources=turn_sources([(texts[turn].session_id, texts[turn].turn_id) for turn in line.turns]),
        quotes=tuple(_quote(texts[turn]) for turn in shown),
        fact_ids=tuple(ids[fact] for fact in line.facts if fact in ids),
    )


def _quote(turn: TurnText) -> DatedQuote:
    return DatedQuote(from_ms(turn.said_ms), turn.speaker, turn.text, turn.session_id, turn.turn_id)


# -- two profiles -----------------------------------------------------------------------------------


def profile_changes(before: Profile, after: Profile) -> ProfileChanges:
    """Return what the later of two profiles tells and the earlier does not, and the other way round.

    A line that went and one that came are one change where they are the only ones of that participant and kind that tell
    of the same: of one attribute, topic or name.
    """
    old = {one.participant: one.lines for one in before}
    new = {one.participant: one.lines for one in after}
    found: list[ProfileChange] = []
    for name in dict.fromkeys([*new, *old]):
        came, went = _only(new.get(name, ()), old.get(name, ())), _only(old.get(name, ()), new.get(name, ()))
        went = [line for line in went if line.kind in _LASTING]
        pairs = {
            about: (gone[0], here[0])
            for about, here in _by_about(came).items()
            if about is not None and len(here) == 1 and len(gone := _by_about(went).get(about, [])) == 1
        }
        paired = {id(line) for pair in pairs.values() for line in pair}
        found += [ProfileChange(name, "changed", *pair) for pair in pairs.values()]
        found += [ProfileChange(name, "begun", None, line) for line in came if id(line) not in paired]
        found += [ProfileChange(name, "ended", line, None) for line in went if id(line) not in paired]
    warnings = tuple(dict.fromkeys((*before.warnings, *after.warnings)))
    return ProfileChanges(before.month, after.month, tuple(found), warnings)


def _only(lines: Sequence[ProfileLine], others: Sequence[ProfileLine]) -> list[ProfileLine]:
    """Return the lines that are not told among others."""
    told = {(line.kind, fold(line.text)) for line in others}
    return [line for line in lines if (line.kind, fold(line.text)) not in told]


def _by_about(lines: Sequence[ProfileLine]) -> dict[tuple[str, str] | None, list[ProfileLine]]:
    """Return lines by what they tell of; None for those of which that cannot be said."""
    found: dict[tuple[str, str] | None, list[ProfileLine]] = {}
    for line in lines:
        found.setdefault(_about(line), []).append(line)
    return found


def _about(line: ProfileLine) -> tuple[str, str] | None:
    """Return what a composed line tells of: a state of its attribute, a name or topic of itself without its count."""
    if line.kind == "state":
        return line.kind, line.text.partition(": ")[0]
    if line.kind in ("entity", "topic"):
        return line.kind, line.text.rpartition(" (")[0]
    return None
