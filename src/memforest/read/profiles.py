"""Profiles: what is known of participants by a month's end, or of anything by now, with the words that each line rests on.

Lines come from an index or from the graph; a chat model may write those of the graph in one call (`written`), and they stay as
they are where it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import islice

from memforest.errors import ModelError, NotFoundError
from memforest.graph.profile import profile_of, salient
from memforest.plain import Result, Several
from memforest.ports import FoundLine, LineKind
from memforest.read.entities import called, graph_in, place_named, quoted, require
from memforest.read.stored import Source, turn_sources
from memforest.read.views import ViewContext
from memforest.reading.steps import Steps
from memforest.reading.timestamps import zone_of
from memforest.records import EntityKind
from memforest.store import facts as facts_rows
from memforest.store.reads import muted_turns
from memforest.store.sessions import StoredTurn, turns_with_ids
from memforest.text import cut
from memforest.times import from_ms
from memforest.trees.attached import INDEXES
from memforest.trees.index import FoundProfile, ProfileRequest


@dataclass(frozen=True, slots=True, repr=False)
class DatedQuote(Result):
    """A turn as it was said, with when and where."""

    said: datetime
    speaker: str
    text: str
    session_id: str
    turn_id: str

    def _line(self) -> str:
        return f"{self.said:%Y-%m-%d} {self.speaker}: {cut(self.text, 80)}"


@dataclass(frozen=True, slots=True, repr=False)
class ProfileLine(Result):
    """One line of a participant's profile.

    `kind`: a ``"state"`` in force, a ``"change"`` of the month, an ``"event"`` of their past, whom or what they name often
    (``"entity"``), what they ``"said"``, where no statement is known of them, or a line that a chat model has ``"written"``. The
    graph tells besides of a ``"relation"`` with somebody or something, and of each ``"fact"`` that was said last.
    `sources` are the turns that it rests on, of more than 32 the first and the last 16, and `quotes` some of them: the first
    and the last ones. `fact_ids` are the statements that a line was composed of; a written one has none.
    """

    text: str
    kind: LineKind
    sources: tuple[Source, ...]
    quotes: tuple[DatedQuote, ...] = ()
    fact_ids: tuple[str, ...] = ()

    def _line(self) -> str:
        return f"{self.kind}: {cut(self.text, 120)}"


@dataclass(frozen=True, slots=True, repr=False)
class ProfileSection(Several[ProfileLine]):
    """The profile of one participant. Iterating gives the lines."""

    _of = "lines"
    participant: str
    lines: tuple[ProfileLine, ...]

    def _line(self) -> str:
        return f"{self.participant}: {len(self)} lines"


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Several[ProfileSection]):
    """The profile in force: a section a participant, of the last month that had ended. An empty one is false.

    With the maker ``"graph"`` it is of no month: its sections tell what the graph has of entities by the time asked for.
    `month` is its calendar key (``"2024-05"``) and [start, end) its time; None without a profile, and `warnings` say why.
    `maker` is what made the lines: rules, a prompt with its model, or ``"composed"`` where the month's text is no profile and
    its lines were made of the statements. `since` quotes what they have said since it ended, the last of `said_since` turns.
    `unsupported` are lines of the month's text that are not shown, because no turn supports them as that participant's.

    Iterating gives the sections.
    """

    _of = "sections"
    month: str | None
    start: datetime | None
    end: datetime | None
    sections: tuple[ProfileSection, ...]
    maker: str = ""
    since: tuple[DatedQuote, ...] = ()
    said_since: int = 0
    unsupported: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def _line(self) -> str:
        who = ", ".join(f"{one.participant} ({len(one)} lines)" for one in self)
        when = self.month or ("now" if self.maker == "graph" else "no month yet")
        return f"{when}: {who or 'nobody'}"


GRAPH = "graph"
"""Who makes a profile where no index does."""
MOST_SECTIONS = 12
"""Entities that the graph tells of where none is named."""

MOST_QUOTES = 3
"""Turns that are quoted below a line."""


def kept_profile(
    context: ViewContext, wanted: ProfileRequest, index: str | None, warnings: Sequence[str]
) -> Profile | None:
    """Return the profile that an index keeps; None where that is for the graph to tell.

    Args:
        context: the transaction.
        wanted: what is asked for.
        index: which index; None for the one that keeps profiles, if there is one, of those who speak.
        warnings: go before those of the profile.

    Raises:
        NotFoundError: if the memory does not have the index that was named, it keeps no profiles, or nobody of that name is known.
    """
    attached, tx = context.attached, context.tx
    keeper = (
        attached.get(context.snapshot.indexes, index)
        if index is not None
        else next((one for one in attached.of(tx) if one.profiles), None)
    )
    if keeper is None:
        return None
    if not keeper.profiles:
        keeping = " and ".join(repr(one) for one, made in INDEXES.items() if made.profiles)
        raise NotFoundError(
            f"the index {index!r} keeps no profiles; give index={keeping}, or leave it out for a profile from the graph"
        )
    try:
        found = keeper.profile(tx, context.snapshot, wanted)
    except NotFoundError:
        # Who never spoke may be known all the same.
        if index is not None or place_named(graph_in(context), wanted.participant or "") is None:
            raise
        return None
    return _view(context, found, warnings)


def graph_profile(context: ViewContext, wanted: ProfileRequest) -> Profile:
    """Return what the graph tells of an entity, or of those who take part: what lasts, then what was said last.

    Args:
        context: the transaction, of the moment by which was said what is told.
        wanted: whose profile, and at which time.

    Raises:
        NotFoundError: if nothing is known of the entity.
    """
    graph, tx = graph_in(context), context.tx
    if wanted.participant is not None:
        places = [require(graph, wanted.participant)]
    else:
        places = salient(graph, MOST_SECTIONS)
        places = [one for one in places if graph.kinds[one] == "participant"] or places
    zone = zone_of(tx, context.config)
    names, _ = called(context, graph, places)
    lines = {
        place: profile_of(tx, context.snapshot, graph, place, wanted.as_of_ms, zone=zone) for place in places
    }
    shown = iter(_lines(context, [line for some in lines.values() for line in some]))
    sections = tuple(
        ProfileSection(names[place], tuple(islice(shown, len(some)))) for place, some in lines.items() if some
    )
    who = "anybody" if wanted.participant is None else quoted(wanted.participant)
    warnings = () if sections else (f"no statement tells of {who}",)
    return Profile(None, None, None, sections, maker=GRAPH, warnings=warnings)


def profile_and_kind(context: ViewContext, wanted: ProfileRequest) -> tuple[Profile, EntityKind, tzinfo]:
    """Return what the graph tells of one entity, what it is, and the memory's zone.

    Raises:
        NotFoundError: as `graph_profile`.
    """
    graph = graph_in(context)
    kind = graph.kinds[require(graph, wanted.participant or "")]
    return graph_profile(context, wanted), kind, zone_of(context.tx, context.config)


def _view(context: ViewContext, found: FoundProfile, warnings: Sequence[str]) -> Profile:
    since = turns_with_ids(context.tx, found.since)
    of: dict[str, list[ProfileLine]] = {name: [] for name in found.participants}
    for line, shown in zip(found.lines, _lines(context, found.lines), strict=True):
        of[line.participant].append(shown)
    has = found.month is not None
    return Profile(
        month=found.month,
        start=from_ms(found.start_ms) if has else None,
        end=from_ms(found.end_ms) if has else None,
        sections=tuple(ProfileSection(name, tuple(lines)) for name, lines in of.items() if lines),
        maker=found.maker,
        since=tuple(_quote(since[turn]) for turn in found.since),
        said_since=found.said_since,
        unsupported=found.unsupported,
        warnings=(*warnings, *found.warnings),
    )


def _lines(context: ViewContext, found: Sequence[FoundLine]) -> list[ProfileLine]:
    """Return lines with their sources; a turn that also says something hidden is named, and not quoted."""
    texts = turns_with_ids(context.tx, {turn for line in found for turn in line.turns})
    facts = facts_rows.facts_with_ids(context.tx, {fact for line in found for fact in line.facts})
    muted = frozenset(muted_turns(context.tx))
    lines = []
    for line in found:
        shown = [turn for turn in line.turns if turn not in muted]
        if len(shown) > MOST_QUOTES:
            shown = [*shown[: MOST_QUOTES - 1], shown[-1]]
        one = ProfileLine(
            text=line.text,
            kind=line.kind,
            sources=turn_sources([(texts[turn].session_id, texts[turn].turn_id) for turn in line.turns]),
            quotes=tuple(_quote(texts[turn]) for turn in shown),
            fact_ids=tuple(facts[fact].fact_id for fact in line.facts if fact in facts),
        )
        lines.append(one)
    return lines


def _quote(turn: StoredTurn) -> DatedQuote:
    return DatedQuote(from_ms(turn.said_ms), turn.speaker, turn.text, turn.session_id, turn.turn_id)


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
    from memforest.reading.explore_llm import EvidenceLine as Told
    from memforest.reading.explore_llm import entity_file
    from memforest.reading.prompts import load_prompt

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
        _profile_line(one.text, [shown[at] for at in one.sources]) for one in (*filed.lasting, *filed.recent)
    )
    model = "" if steps.calls is None else steps.calls.model_id
    maker = load_prompt("hmem_profile").maker(model)
    return replace(told, sections=(ProfileSection(section.participant, made),), maker=maker)


def _profile_line(text: str, made_of: Sequence[ProfileLine]) -> ProfileLine:
    """Return a line with what those rest on that it was made of."""
    pairs = [(one.session_id, turn) for line in made_of for one in line.sources for turn in one.turn_ids]
    quotes = tuple(dict.fromkeys(quote for line in made_of for quote in line.quotes))
    facts = tuple(dict.fromkeys(fact for line in made_of for fact in line.fact_ids))
    return ProfileLine(text, "written", turn_sources(pairs), quotes[:MOST_QUOTES], facts)
