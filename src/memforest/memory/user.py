"""Handles on one user's memory: the verbs people type every day.

The verbs that correct one user's memory: update, history, undo, pin, forget.

The verbs of one user's memory that list what was said: sessions, turns; and that look up one fact.

The verbs of one user's memory on whom and what it knows: entities, their relations, and decisions on who is who.

The verbs of one user's memory that read it over time: what was so, what was said, what was known, and what has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from memforest import _sync
from memforest.endpoint import Budget
from memforest.errors import InputError
from memforest.memory.importing import import_into_memory
from memforest.memory.memory import Memory
from memforest.memory.moving import DeletesFromMemory, MergingVerbs, Transfer
from memforest.memory.options import (
    QueryOptions,
    TimeLike,
    check_flags,
    check_text,
    check_texts,
    read_budget,
    read_count,
    read_index,
    read_moment,
    read_options,
    read_rebuild,
    read_time,
    read_window,
)
from memforest.memory.pool import MemoryPool
from memforest.memory.spanned import spanned
from memforest.memory.writing import AddsToMemory
from memforest.plain import Listing
from memforest.progress import Report
from memforest.read import changes, entities, facts, views
from memforest.read.changes import ChangePage, Diff
from memforest.read.entities import Entity, EntityChoice, EntityPage, GraphPicture, PathView, RelationView
from memforest.read.facts import WantedFacts, facts_page, history
from memforest.read.profiles import GRAPH, Profile
from memforest.read.results import AskResult, FlushResult, QueryResult, Usage
from memforest.read.stored import (
    CorrectionView,
    FactPage,
    FactView,
    HistoryEntry,
    IndexView,
    RepairReport,
    SessionPage,
    Stale,
    Stats,
    TimelinePage,
    TreeView,
    TurnPage,
    VerifyReport,
)
from memforest.read.timelines import timeline_page
from memforest.read.views import TreeQuery
from memforest.records import EntityKind
from memforest.settings import MAX_FACT_CHARS, MAX_PAGE, brief
from memforest.text import cut, entity_key
from memforest.times import to_ms
from memforest.write.correct import Update

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CorrectsMemory:
    """The verbs of a handle on one user's memory that correct it."""

    _pool: MemoryPool
    user_id: str

    @spanned("update_memory")
    async def update(
        self,
        fact_id: str,
        text: str | None = None,
        *,
        valid_from: TimeLike | None = None,
        valid_to: TimeLike | None = None,
    ) -> CorrectionView:
        """Correct a statement: hide it, and put another one in its place. What was said stays as it was said.

        The new statement stands at the same turns and counts as said then, by the same speaker; whom it names and what it
        asserts is read by local rules. It holds for whatever is extracted anew from what was said: by ``replace=True`` with
        the same turns, after a rebuild, in a merged memory. `undo` takes it back.

        Args:
            fact_id: of a statement that is shown; of one that was corrected, the newest.
            text: what holds, best with names instead of "I". The old text when not given.
            valid_from: from when on it is so. When not given, what a new text states, else what the old one states.
            valid_to: until when it was so, exclusive.

        Raises:
            InputError: if the text is empty, nothing differs, or the time ends before it begins.
            TimestampError: if a time is none.
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already; the message names what holds now.
            StoreError: if the file cannot be written.
        """
        check_text("update", "fact_id", fact_id, optional=False)
        given = Update(
            _read_text(text),
            read_time(valid_from, self._pool.config, "valid_from"),
            read_time(valid_to, self._pool.config, "valid_to"),
        )
        if given == Update():
            raise InputError("update() is to change nothing; give text, valid_from or valid_to")
        if given.start is not None and given.end is not None and given.end <= given.start:
            raise InputError(
                f"valid_to ({given.end.isoformat()}) is not after valid_from ({given.start.isoformat()})"
            )
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.update(fact_id, given))
        )

    @spanned("update_memory")
    async def pin(self, fact_id: str) -> CorrectionView:
        """Pin a statement: it is among the evidence of every question that it passes the time filters of.

        Where it was not found, it takes the place of the last evidence; the first place stays that of what was found. The pin
        goes on to a statement that corrects it. `undo` takes it back.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it is pinned already, or was corrected or forgotten.
            StoreError: if the file cannot be written.
        """
        check_text("pin", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.mark(fact_id, "pin"))
        )

    @spanned("delete_memory")
    async def forget(self, fact_id: str) -> CorrectionView:
        """Forget a statement: it is not shown any more, however often it is said or extracted. `undo` takes it back.

        What was said stays in the file; to have it gone, delete it.

        Raises:
            NotFoundError: if there is no such fact.
            CorrectionError: if it was corrected or forgotten already.
            StoreError: if the file cannot be written.
        """
        check_text("forget", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.mark(fact_id, "forget"))
        )

    @spanned("update_memory")
    async def undo(self, key: str) -> CorrectionView:
        """Take a correction back: an update, a pin, or a forgetting. What it changed is as if it had not been made.

        Args:
            key: of the correction, as the verb returned it; `history` names those of a statement.

        Raises:
            NotFoundError: if there is no such correction.
            CorrectionError: if it was undone already, or what it made was corrected since.
            StoreError: if the file cannot be written.
        """
        check_text("undo", "key", key, optional=False)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.correct(lambda it: it.undo(key))
        )

    @spanned()
    async def history(self, fact_id: str) -> Sequence[HistoryEntry]:
        """Return what happened to a statement, in the order this memory recorded it: said, corrected, undone, superseded.

        Args:
            fact_id: of the statement as it was said, or of one that corrects it.

        Raises:
            NotFoundError: if there is no such fact, and no correction of one.
        """
        check_text("history", "fact_id", fact_id, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.view(history, fact_id))


def _read_text(text: str | None) -> str | None:
    """Return the text of an update, without blanks around it.

    Raises:
        InputError: if it is empty, too long, or no text that can be stored.
    """
    check_text("update", "text", text)
    if text is None:
        return None
    if not text.strip():
        raise InputError("the text is empty; forget(fact_id) hides a statement without another in its place")
    if len(text) > MAX_FACT_CHARS:
        raise InputError(f"the text has {len(text)} characters; a statement has {MAX_FACT_CHARS} at most")
    return text.strip()


T = TypeVar("T")


class ReadsMemory:
    """The verbs of a handle on one user's memory that list what was said."""

    _pool: MemoryPool
    user_id: str

    async def _view(self, view: Callable[..., T], *args: Any, nothing: T | None = None, **how: Any) -> T:
        return await self._pool.read(
            self.user_id, lambda memory: memory.view(view, *args, **how), nothing=nothing
        )

    @spanned()
    async def sessions(self, *, limit: int | None = None, cursor: str | None = None) -> SessionPage:
        """Return the stored sessions in time order, all of them or a page.

        No session is on two pages or on none while others come and go. One that gains or loses its first turns may move.

        Args:
            limit: most sessions on the page, 1 to 1000; None for all.
            cursor: `SessionPage.next_cursor` of the page before.

        Raises:
            InputError: if `limit` is out of range, or the cursor is none of this listing.
        """
        read_count("limit", limit, None, 1, MAX_PAGE)
        listing = Listing.of("sessions", self.user_id)
        return await self._view(views.session_page, listing, limit=limit, cursor=cursor)

    @spanned()
    async def turns(
        self, session_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> TurnPage:
        """Return the turns of a session, in order, as they were said, all of them or a page.

        Args:
            session_id: which session.
            limit: most turns on the page, 1 to 1000; None for all.
            cursor: `TurnPage.next_cursor` of the page before.

        Raises:
            InputError: if `limit` is out of range, or the cursor is none of this listing.
            NotFoundError: if there is no such session.
        """
        check_text("turns", "session_id", session_id, optional=False)
        read_count("limit", limit, None, 1, MAX_PAGE)
        listing = Listing.of("turns", self.user_id, session_id)
        return await self._view(views.turn_page, session_id, listing, limit=limit, cursor=cursor)

    @spanned()
    async def get(self, fact_id: str) -> FactView:
        """Return one fact.

        Raises:
            NotFoundError: if there is none with that id.
        """
        check_text("get", "fact_id", fact_id, optional=False)
        return await self._view(facts.one_fact, fact_id)


MOST_HOPS = 8
"""Most hops of a way: further apart everything is linked with everything."""


class KnowsEntities(ReadsMemory):
    """The verbs of a handle on one user's memory that tell of its graph."""

    @spanned()
    async def entities(
        self,
        kind: EntityKind | None = None,
        query: str | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EntityPage:
        """Return whom and what statements name, those that most statements name first. See docs/graph.md.

        Args:
            kind: only of this kind.
            query: only those of which one name holds all words of this text, whatever their case and accents.
            limit: most entities, up to 1,000; None for all.
            cursor: `EntityPage.next_cursor` of the page before. One that is named more or less often meanwhile may move.

        Raises:
            InputError: if there is no such kind, the query is blank, `limit` is out of range, or the cursor is none of this
                listing.
        """
        check_text("entities", "kind", kind)
        check_text("entities", "query", query)
        read_count("limit", limit, None, 1, MAX_PAGE)
        if kind is not None and kind not in get_args(EntityKind):
            raise InputError(
                f"entities(kind={brief(kind)}): there is no such kind; there are {', '.join(get_args(EntityKind))}"
            )
        if query is not None and not query.strip():
            raise InputError("entities(query=...) is blank; leave it out for all")
        listing = Listing.of("entities", self.user_id, kind, query)
        return await self._view(entities.entities, kind, query, limit, listing, cursor)

    @spanned()
    async def relations(self, entity: str, *, as_of: TimeLike | None = None) -> Sequence[RelationView]:
        """Return what was said of an entity and another one: those that hold first, then by weight. Nothing is left out that ended.

        Args:
            entity: its name, any of those that it was seen by.
            as_of: only what held at that time.

        Raises:
            NotFoundError: if nothing is known of the entity; the message has names that are near.
        """
        check_text("relations", "entity", entity, optional=False)
        when = read_time(as_of, self._pool.config, "as_of")
        return await self._view(entities.relations, entity, None if when is None else to_ms(when), nothing=())

    @spanned()
    async def path(self, a: str, b: str, *, hops: int = 4) -> PathView:
        """Return the shortest way from one entity to another, each step with what says so; a false one where there is none.

        Args:
            a: the name of one.
            b: the name of the other.
            hops: most steps, 1 to 8.

        Raises:
            InputError: if `hops` is out of range.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        check_text("path", "a", a, optional=False)
        check_text("path", "b", b, optional=False)
        if read_count("hops", hops, 4, 1) > MOST_HOPS or hops is None:
            raise InputError(f"hops={hops}: give a whole number of 1 to {MOST_HOPS}")
        return await self._view(entities.path_between, a, b, hops)

    @spanned()
    async def graph(self) -> GraphPicture:
        """Return a picture of the graph: its most named entities, 60 at most, and the heaviest 200 edges between them.

        Relations come before statements that only name both.
        """
        return await self._view(entities.picture)

    @spanned("update_memory")
    async def merge_entities(self, a: str, b: str) -> Entity:
        """Decide that two names are one entity, and return it. What was said stays; `split_entity` takes it back.

        It holds for what is said later too, and over every rule. What was decided before on the two counts no more.

        Args:
            a: one name.
            b: another one.

        Raises:
            InputError: if both names are one and the same already in what was said.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
            StoreError: if the file cannot be written.
        """
        check_text("merge_entities", "a", a, optional=False)
        check_text("merge_entities", "b", b, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.merge_entities(a, b))

    @spanned("update_memory")
    async def split_entity(self, entity: str, name: str) -> Entity:
        """Decide that a name is not one with the others of an entity, and return what it is now; `merge_entities` takes it back.

        It holds for what is said later too, and over every rule.

        Args:
            entity: any name of the entity.
            name: the one that is somebody or something else.

        Raises:
            InputError: if the name is none of the entity's, or the only one that it has; of a name that is spelled in several
                ways, these stay together.
            NotFoundError: if nothing is known of one of them; the message has names that are near.
            StoreError: if the file cannot be written.
        """
        check_text("split_entity", "entity", entity, optional=False)
        check_text("split_entity", "name", name, optional=False)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.split_entity(entity, name))

    @spanned()
    async def entity_choices(self) -> Sequence[EntityChoice]:
        """Return what was decided by `merge_entities` and `split_entity` and counts, the oldest first."""
        return await self._view(entities.choices)


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


class AsyncUserMemory(
    AddsToMemory, CorrectsMemory, DeletesFromMemory, KnowsEntities, MergingVerbs, ReadsOverTime, Transfer
):
    """A handle on one user's memory; made by `AsyncMemForest.user`."""

    import_file = import_into_memory

    @spanned("search_memory")
    async def search(self, /, question: str, **options: Unpack[QueryOptions]) -> QueryResult:
        """Return ranked evidence; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.read(self.user_id, lambda memory: memory.query(asked))

    @spanned("search_memory")
    async def ask(self, /, question: str, **options: Unpack[QueryOptions]) -> AskResult:
        """Answer from the best evidence, or abstain; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.read(self.user_id, lambda memory: memory.ask(asked))

    @spanned()
    async def tree(
        self,
        scope: str | None = None,
        *,
        index: str | None = None,
        depth: int = 1,
        limit: int | None = None,
        node: int | None = None,
    ) -> list[TreeView]:
        """Return the trees, or those of one session, entity or scene ("scene 7"), unfolded `depth` levels below the root.

        Summaries that are shown and out of date are made first, as far as that succeeds; `TreeView.dirty` says where not.

        Args:
            scope: name of a session or an entity.
            index: the index whose trees are shown; all indexes of the memory when not given.
            depth: levels below the root, 0 for the roots alone; at most 100 are unfolded.
            limit: most nodes; all trees are unfolded alike until it is reached. None for all.
            node: `TreeView.node_id` of a node: only this one is unfolded, instead of trees.

        Raises:
            InputError: if `depth` is below 0, `limit` or `node` below 1, or `node` is given with a scope or an index.
            NotFoundError: if no tree has that scope, there is no such node, or the memory does not have the index.
            ConfigError: if there is no such index at all.
        """
        check_text("tree", "scope", scope)
        check_text("tree", "index", index)
        read_count("depth", depth, None, 0)
        read_count("limit", limit, None, 1)
        read_count("node", node, None, 1)
        wanted = TreeQuery(scope, index, depth, limit, node)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.tree(wanted))

    @spanned()
    async def stats(self) -> Stats:
        """Return counts, the embedder, the schema and the size on disk."""
        return await self._view(views.stats, self.user_id)

    @spanned()
    async def verify(self, *, deleted: Sequence[str] = ()) -> VerifyReport:
        """Check every invariant that the store can state of itself; `.ok` and `.problems`.

        Args:
            deleted: texts that must be nowhere any more: each is looked for in the raw bytes of all files of the memory,
                folded and as it is, in UTF-8 and UTF-16, and in all rows, of which some are compressed. A place where
                one is found is a problem of part ``"residue"``.

        Raises:
            InputError: if `deleted` is no list of texts, or one of them is empty.
        """
        check_texts("verify", "deleted", deleted)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.verify(tuple(deleted)))

    @spanned()
    async def flush(self, *, budget: Budget | None = None) -> FlushResult:
        """Wait for the summaries that are made behind writes, make those that are left, and return what all that did.

        Args:
            budget: what may be spent on models for those that are left; `Config.ingest_budget` when not given.

        Raises:
            StoreError: if the file cannot be written.
        """
        read_budget("flush", budget)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.flush(budget))

    # -- indexes ------------------------------------------------------------------------------

    @spanned()
    async def indexes(self) -> Sequence[IndexView]:
        """Return the memory's indexes, by name: how far each lags behind, what it owns, what it says of itself."""
        return await self._view(views.indexes)

    @spanned()
    async def add_index(
        self, name: str, settings: Mapping[str, Any] | object | None = None, *, budget: Budget | None = None
    ) -> IndexView:
        """Add an index, let it place everything that the memory holds, and return what is there then.

        It is placed in short transactions: others read and write meanwhile, and after a crash `resume` goes on. One that
        this version cannot use (written by another version of it) is made anew.

        Args:
            name: of an index that there is.
            settings: its settings, laid over those of `Config.index_settings`; they are kept in the file.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            ConfigError: if there is no such index, the memory has it already, or a setting is unknown or cannot be.
            IndexStateError: if the index raises. It lags then; `resume` tries again, and `drop_index` takes it away.
            StoreError: if the file cannot be written.
        """
        check_text("add_index", "name", name, optional=False)
        read_budget("add_index", budget)
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.add_index(name, settings, budget)
        )

    @spanned()
    async def drop_index(self, name: str) -> None:
        """Take an index away with everything that it has in the file; what was said stays as it is.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if it is the last one.
            StoreError: if the file cannot be written.
        """
        check_text("drop_index", "name", name, optional=False)
        await self._pool.use_existing(self.user_id, lambda memory: memory.drop_index(name))

    @spanned()
    async def advance(
        self, as_of: TimeLike | None = None, *, force: bool = False, budget: Budget | None = None
    ) -> Sequence[IndexView]:
        """Let indexes go on that are not placed by the writes themselves, or are behind, and return how all stand.

        Every ingest does the same for the former; an index closes its calendar windows so when nothing is written. One
        that raises stays where it is: its `reason` says why.

        Args:
            as_of: the present; the clock's when not given.
            force: have also what is not due yet, such as calendar windows that have not ended.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            TimestampError: if `as_of` is no time.
            InputError: if `force` is no bool.
            StoreError: if the file cannot be written.
        """
        read_budget("advance", budget)
        check_flags("advance", force=force)
        when = read_time(as_of, self._pool.config, "as_of")
        return await self._pool.use_existing(
            self.user_id, lambda memory: memory.advance(when, force=force, budget=budget)
        )

    @spanned()
    async def rebuild(
        self,
        *,
        scopes: bool = False,
        stale: bool = False,
        index: str | None = None,
        embedder: bool = False,
        progress: Report | None = None,
        budget: Budget | None = None,
    ) -> Usage:
        """Make what is derived anew from what is stored: word rows, summaries and their vectors.

        Vectors of unchanged texts are kept; `verify` says whether they are. A call that is interrupted is finished by the
        same call.

        Args:
            scopes: make all indexes anew as well, from the start, so that nothing in them depends on the order in
                which sessions were ingested.
            stale: make anew just what `stale` names: read sessions again, one after the other, whose chunks were
                extracted by another extractor, prompt, model or version of its rules, or are not of `Config.chunk_turns`
                turns; indexes whose settings are others now; summaries that would be made otherwise, with another prompt,
                model or length than they were, or for another name. Until a session is read, what was extracted of it before
                is served.
            index: make only this index anew, from the start, with the settings that the configuration names for it.
            embedder: give the memory the configured embedder in the place of the one that it was made with: make all
                vectors anew beside the old ones, which are used until all are there, then switch in one transaction; nothing
                else is made anew. With ``Config(embedder="auto")`` it is the best that is installed.
            progress: called with what is being made, how many of it are done, and how many there are; in another thread.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            InputError: if `index` or `embedder` is given together with another one, or there is no embedder.
            ModelError: if the embedder fails; what was made is kept.
            NotFoundError: if the memory does not have the index.
            IndexStateError: if an index raises; it lags then, and everything else is made anew.
            StepError: if some sessions could not be read again; they are as they were, and everything else is made anew.
            BudgetError: if the budget is used up; what was made stays, and the same call goes on.
            StoreError: if the file cannot be written.
        """
        what = read_rebuild(scopes=scopes, stale=stale, index=index, embedder=embedder, progress=progress)
        read_budget("rebuild", budget)
        use = self._pool.use_apart if embedder else self._pool.use_existing
        return await use(self.user_id, lambda memory: memory.rebuild(what, budget))

    @spanned()
    async def stale(self) -> Stale:
        """Return what would be made otherwise now, and why; `rebuild(stale=True)` makes that anew. Nothing is written."""
        if self._pool.config.embedder == "auto":
            return await self._pool.use_existing(self.user_id, Memory.stale)
        return await self._pool.use_apart(self.user_id, Memory.stale, gives=False)

    @spanned()
    async def repair(self) -> RepairReport:
        """Repair what can be made anew from what was said, and finish what an interrupted write left.

        Lexical rows, vectors, trees and scenes that `verify` finds broken are made anew, sessions and summaries
        finished, the index merged, and free space given back. Turns, sessions and facts are never changed, of a
        damaged turn nothing is made, and a file that SQLite itself finds damaged is not touched at all: `.left`
        names what is left. A damaged turn is healed by its session, ingested again with ``replace=True``.

        Raises:
            StoreError: if the file cannot be written.
        """
        return await self._pool.use_existing(self.user_id, Memory.repair)


class UserMemory:
    """The blocking twin of `AsyncUserMemory`; made by `MemForest.user`."""

    def __init__(self, handle: AsyncUserMemory) -> None:
        self._async = handle
        self.user_id = handle.user_id

    add = _sync.blocking(AsyncUserMemory.add)
    import_file = _sync.blocking(AsyncUserMemory.import_file)
    search = _sync.blocking(AsyncUserMemory.search)
    ask = _sync.blocking(AsyncUserMemory.ask)
    sessions = _sync.blocking(AsyncUserMemory.sessions)
    turns = _sync.blocking(AsyncUserMemory.turns)
    get = _sync.blocking(AsyncUserMemory.get)
    list = _sync.blocking(AsyncUserMemory.list)
    update = _sync.blocking(AsyncUserMemory.update)
    history = _sync.blocking(AsyncUserMemory.history)
    undo = _sync.blocking(AsyncUserMemory.undo)
    pin = _sync.blocking(AsyncUserMemory.pin)
    forget = _sync.blocking(AsyncUserMemory.forget)
    timeline = _sync.blocking(AsyncUserMemory.timeline)
    profile = _sync.blocking(AsyncUserMemory.profile)
    entities = _sync.blocking(AsyncUserMemory.entities)
    relations = _sync.blocking(AsyncUserMemory.relations)
    path = _sync.blocking(AsyncUserMemory.path)
    graph = _sync.blocking(AsyncUserMemory.graph)
    merge_entities = _sync.blocking(AsyncUserMemory.merge_entities)
    split_entity = _sync.blocking(AsyncUserMemory.split_entity)
    entity_choices = _sync.blocking(AsyncUserMemory.entity_choices)
    changes = _sync.blocking(AsyncUserMemory.changes)
    diff = _sync.blocking(AsyncUserMemory.diff)
    tree = _sync.blocking(AsyncUserMemory.tree)
    stats = _sync.blocking(AsyncUserMemory.stats)
    indexes = _sync.blocking(AsyncUserMemory.indexes)
    add_index = _sync.blocking(AsyncUserMemory.add_index)
    drop_index = _sync.blocking(AsyncUserMemory.drop_index)
    advance = _sync.blocking(AsyncUserMemory.advance)
    verify = _sync.blocking(AsyncUserMemory.verify)
    flush = _sync.blocking(AsyncUserMemory.flush)
    export = _sync.blocking(AsyncUserMemory.export)
    import_ = _sync.blocking(AsyncUserMemory.import_)
    backup = _sync.blocking(AsyncUserMemory.backup)
    rebuild = _sync.blocking(AsyncUserMemory.rebuild)
    stale = _sync.blocking(AsyncUserMemory.stale)
    repair = _sync.blocking(AsyncUserMemory.repair)
    delete = _sync.blocking(AsyncUserMemory.delete)
    delete_all = _sync.blocking(AsyncUserMemory.delete_all)
    expire = _sync.blocking(AsyncUserMemory.expire)
    merge = _sync.blocking(AsyncUserMemory.merge)
