"""The verbs of one user's memory that read it over time: what was so, what was said, what was known, and what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.forest.options import (
    TimeLike,
    check_flags,
    check_text,
    read_budget,
    read_count,
    read_index,
    read_moment,
    read_time,
    read_window,
)
from memforest.forest.reading import ReadsMemory
from memforest.forest.spanned import spanned
from memforest.interval import to_ms
from memforest.limits import MAX_PAGE
from memforest.memory.cursors import Listing
from memforest.memory.inspect import changes
from memforest.memory.inspect.fact_pages import WantedFacts, facts_page
from memforest.memory.inspect.paged import TimelinePage
from memforest.memory.inspect.profiles import GRAPH
from memforest.memory.inspect.timeline_views import timeline_page
from memforest.memory.results import ChangePage, Diff, FactPage, Profile
from memforest.text import cut, entity_key

_NO_PROFILE = Profile(None, None, None, (), maker=GRAPH, warnings=("nothing was said to this user's memory",))


def _ms(when: datetime | None) -> int | None:
    return None if when is None else to_ms(when)


class ReadsOverTime(ReadsMemory):
    """The verbs of a handle on one user's memory that read it over time."""

    @spanned()
    async def timeline(
        self,
        entity: str,
        *,
        attribute: str | None = None,
        kind: Literal["state", "event"] | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TimelinePage:
        """Return what is known of an entity in time order: states with their intervals, and events; all of it or a page.

        Args:
            entity: its name.
            attribute: only states of this attribute.
            kind: only ``"state"``, or only ``"event"``.
            said_by: what had been said by that time.
            known_at: what this memory held at that time, as far as it was not deleted since.
            limit: most entries on the page, 1 to 1000; None for all.
            cursor: `TimelinePage.next_cursor` of the page before.

        Raises:
            InputError: if `kind` is none of these, `limit` is out of range, or the cursor is none of this listing.
            NotFoundError: if nothing is known of the entity.
        """
        check_text("timeline", "entity", entity, optional=False)
        check_text("timeline", "attribute", attribute)
        if kind not in (None, "state", "event"):
            raise InputError(f"timeline: kind {cut(repr(kind), 60)} is none; give state or event")
        read_count("limit", limit, None, 1, MAX_PAGE)
        moment = read_moment(said_by, known_at, self._pool.config)
        listing = Listing.of("timeline", self.user_id, entity_key(entity), attribute, kind, moment)
        return await self._view(
            timeline_page,
            entity,
            listing,
            attribute=attribute,
            kind=kind,
            limit=limit,
            cursor=cursor,
            moment=moment,
            nothing=TimelinePage((), 0),
        )

    @spanned()
    async def list(
        self,
        *,
        offset: int = 0,
        limit: int = 50,
        cursor: str | None = None,
        filters: Mapping[str, Any] | None = None,
        entity: str | None = None,
        session_id: str | None = None,
        as_of: TimeLike | None = None,
        during: tuple[TimeLike, TimeLike] | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
        verdict: str | None = None,
    ) -> FactPage:
        """Return a page of facts in time order, without those that were corrected or forgotten.

        From page to page by `cursor` no fact is there twice or missing while others come and go; by `offset` it may be. A
        fact whose own time changes meanwhile, as it was first said earlier than was known, may move. A page costs what is
        on it, however large the memory is, unless it is of another time, or by metadata.

        Args:
            offset: how many matching facts to pass over.
            limit: most facts on the page, 1 to 1000.
            cursor: `FactPage.next_cursor` of the page before, of the same arguments; `limit` may be another.
            filters: only what was said in turns that have all of this metadata, of their own, of their call of `add` or of their
                session; the page's `warnings` name a key that none has.
            entity: a name that the fact must mention.
            session_id: a session that must support it.
            as_of: keep what was so at that time.
            during: keep what overlaps [start, end).
            said_by: what had been said by that time.
            known_at: what this memory held at that time; the page's `warnings` say how much of it has been deleted since.
            verdict: instead return those that are ``"pinned"``, ``"forgotten"`` or ``"corrected"`` now.

        Raises:
            InputError: if `offset` or `limit` is out of range, `during` ends before it starts, there is no such verdict, the
                cursor is none of this listing, or comes with an `offset`.
            NotFoundError: if there is no such entity or session.
        """
        read_count("offset", offset, None, 0)
        read_count("limit", limit, None, 1, MAX_PAGE)
        check_text("list", "entity", entity)
        check_text("list", "session_id", session_id)
        check_text("list", "verdict", verdict)
        if offset and cursor is not None:
            raise InputError("list: offset and cursor are two ways to page; give one of them")
        moment = read_moment(said_by, known_at, self._pool.config, filters)
        wanted = WantedFacts(
            filters=filters or {},
            entity=entity,
            session_id=session_id,
            as_of=read_time(as_of, self._pool.config, "as_of"),
            during=read_window(during, self._pool.config),
            verdict=verdict,
        )
        listing = Listing.of("facts", self.user_id, wanted, moment)
        return await self._view(
            facts_page,
            wanted,
            listing,
            cursor=cursor,
            offset=offset,
            limit=limit,
            moment=moment,
            nothing=FactPage((), 0, None),
        )

    @spanned()
    async def profile(
        self,
        participant: str | None = None,
        *,
        as_of: TimeLike | None = None,
        said_by: TimeLike | None = None,
        index: str | None = None,
        written: bool = False,
        budget: Budget | None = None,
    ) -> Profile:
        """Return the profile in force, each line with its sources: of who takes part, or of anything else that is named.

        Who takes part has one of the last month that had ended, where the index ``"timem"`` keeps it, see docs/timem.md. Without a
        model what has ended is written first; no model is asked. Where no month had ended, it is empty and false, and `warnings`
        say so. Of all others, and in a memory without that index, the graph tells what lasts and what was said last, see
        docs/graph.md; such a profile has no month. A model is asked for it with `written` alone.

        Args:
            participant: whose, by name or alias; None for all who took part in that month, or for those of whom the graph knows
                most. Of one it is the last month in which they did.
            as_of: the profile that was in force at that time: months that ended later are not told, nor what was said later.
            said_by: the one that had been said by that time, whenever this memory received it.
            index: the index that keeps it, or ``"graph"`` for what the graph tells; None chooses as above.
            written: have the chat model write what the graph tells of `participant`, in one call; where it fails, the lines are
                those of the graph, and `warnings` say why.
            budget: what may be spent on that; `Config.query_budget` when not given.

        Raises:
            NotFoundError: if nothing is known of that name, the memory does not have the index, or it keeps no profiles.
            InputError: if `written` is given without a participant, or with an index.
            ConfigError: if there is no such index at all, or no chat model for the step "summarise" that is to write.
        """
        check_text("profile", "participant", participant)
        check_text("profile", "index", index)
        check_flags("profile", written=written)
        read_budget("profile", budget)
        if index not in (None, GRAPH):
            read_index(index)
        if written and (participant is None or index not in (None, GRAPH)):
            raise InputError(
                "profile(written=True) is of one name, and of no index; give participant, leave out index"
            )
        config = self._pool.config
        at_ms, said_ms = _ms(read_time(as_of, config, "as_of")), _ms(read_time(said_by, config, "said_by"))
        if written and participant is not None:
            return await self._pool.read(
                self.user_id,
                lambda memory: memory.written_profile(participant, at_ms, said_ms, budget),
                nothing=_NO_PROFILE,
            )
        return await self._pool.read(
            self.user_id,
            lambda memory: memory.profile(participant, at_ms, said_ms, index),
            nothing=_NO_PROFILE,
        )

    async def changes(
        self,
        since: TimeLike,
        until: TimeLike | None = None,
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> ChangePage:
        """Return what this memory has stored, learnt, merged, superseded, corrected and deleted in [since, until), in order.

        The times are those at which the memory did so, by its clock. A change is found by index: a page costs what is on
        it, however large the memory is.

        Args:
            since: from when on.
            until: up to before when; None for no end.
            limit: most changes on the page, 1 to 1000.
            after: `ChangePage.next` of the page before.

        Raises:
            InputError: if `limit` is out of range, `until` is not after `since`, or `after` is no `next`.
        """
        read_count("limit", limit, None, 1, MAX_PAGE)
        check_text("changes", "after", after)
        config = self._pool.config
        start, end = read_time(since, config, "since"), read_time(until, config, "until")
        if start is None:
            raise InputError("changes(since) takes a time, not None")
        if end is not None and end <= start:
            raise InputError("changes(since, until) takes a since before its until")
        return await self._view(changes.changes_since, start, end, limit, after)

    @spanned()
    async def diff(
        self,
        a: TimeLike,
        b: TimeLike,
        *,
        entity: str | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
    ) -> Diff:
        """Return what was so at `a` and not at `b`, and the other way round: the states of entities, by valid time.

        A value that came and went between the two is in none of them; `timeline` has it, and the events.

        Args:
            a: one time.
            b: another one.
            entity: only of this entity.
            said_by: of what had been said by that time.
            known_at: of what this memory held at that time.

        Raises:
            NotFoundError: if nothing is known of the entity.
        """
        check_text("diff", "entity", entity)
        config = self._pool.config
        one, other = read_time(a, config, "a"), read_time(b, config, "b")
        if one is None or other is None:
            raise InputError("diff(a, b) takes two times, not None")
        moment = read_moment(said_by, known_at, config)
        return await self._view(
            changes.diff_between, one, other, entity, moment=moment, nothing=Diff(one, other, ())
        )
