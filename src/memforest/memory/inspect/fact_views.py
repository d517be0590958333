"""Views of facts, and whom a name means."""

from __future__ import annotations

from collections.abc import Sequence

from memforest.errors import NotFoundError
from memforest.interval import from_ms
from memforest.memory.inspect.stored import FactView, turn_sources
from memforest.memory.inspect.views import ViewContext
from memforest.memory.quoting import Quotes
from memforest.store import counts
from memforest.store import evidence as texts
from memforest.store import facts as fact_rows
from memforest.store.corrections import VERDICTS
from memforest.store.facts import FactRow
from memforest.store.snapshot import entity_names
from memforest.systems.standing import Standing
from memforest.text import cut, entity_key


def one_fact(context: ViewContext, fact_id: str) -> FactView:
    """Return one fact.

    Raises:
        NotFoundError: if there is none with that id.
    """
    fact = fact_rows.fact_by_id(context.tx, fact_id)
    if fact is None:
        raise NotFoundError(f"there is no fact {cut(repr(fact_id), 60)}; ids come from lists and searches")
    return fact_views(context, [fact])[0]


def fact_views(context: ViewContext, facts: Sequence[FactRow]) -> list[FactView]:
    """Return the views of facts."""
    rows, snapshot = [fact.row for fact in facts], None if context.moment is None else context.snapshot
    without = () if snapshot is None else snapshot.without
    occurrences = fact_rows.occurrences(context.tx, rows, without)
    sources = texts.fact_sources(context.tx, rows, without)
    if snapshot is None:
        standing = Standing.read(context.tx, rows)
    else:
        standing = Standing.at_moment(context.tx, snapshot, rows)
    labels = entity_names(context.tx, {one for several in standing.named.values() for one in several})
    quotes = Quotes.read(context.tx, rows, snapshot)
    found = []
    for fact in facts:
        end_ms = standing.ends.get(fact.row, fact.end_ms)
        corrected_ms = quotes.corrected_ms(fact.row)
        found.append(
            FactView(
                fact_id=fact.fact_id,
                text=quotes.text(fact.row, fact.text),
                speaker=fact.speaker,
                said=from_ms(fact.said_ms),
                start=from_ms(fact.leaf_key[0]),
                end=None if end_ms is None else from_ms(end_ms),
                precision=fact.precision,
                negated=fact.negated,
                entities=tuple(sorted({labels[entity].label for entity in standing.named[fact.row]})),
                topics=fact.topics,
                sources=turn_sources(sources[fact.row]),
                wordings=tuple(dict.fromkeys(one.text for one in occurrences[fact.row])),
                stored=from_ms(fact.stored_ms),
                superseded_by=standing.after.get(fact.row) if end_ms is not None else None,
                dates=fact.dates,
                statement=fact.text,
                spoken=quotes.of(fact.row) or (),
                verdict=VERDICTS[context.verdict(fact)],
                corrected=None if corrected_ms is None else from_ms(corrected_ms),
            )
        )
    return found


def naming(context: ViewContext, entity: int) -> list[int]:
    """Return the facts that name an entity at the moment, by row id."""
    mentions = context.snapshot.mentions
    found: list[int] = context.snapshot.facts.ids[mentions[mentions[:, 1] == entity, 0]].tolist()
    return found


def entity_row(context: ViewContext, name: str) -> int:
    """Return the row of the entity with a name or alias.

    Raises:
        NotFoundError: if nothing is known of it, or was at the moment.
    """
    found = fact_rows.entity_by_key(context.tx, entity_key(name) or "")
    timed = context.moment is not None and context.moment[:2] != (None, None)
    if found is None or (timed and found.row not in context.snapshot.entities):
        known = ", ".join(repr(cut(one, 40)) for one in sorted(counts.most_named(context.tx, 8)))
        raise NotFoundError(
            f"nothing is known of {cut(repr(name), 60)}; known are for example: {known or 'nobody yet'}"
        )
    return found.row
