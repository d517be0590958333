"""One user's memory: the verbs that only read it. Each checks its arguments and hands on the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar

from annotated_types import Ge, Le, MinLen

from memforest.config import Ranking
from memforest.endpoint import Budget
from memforest.errors import InputError, NotFoundError
from memforest.memory.memory import Memory
from memforest.memory.options import (
    TimeLike,
    read_moment,
    read_question,
    read_time,
    read_window,
    to_ms_or_none,
)
from memforest.memory.pool import NOBODY, MemoryPool
from memforest.memory.verbs import takes_options_of, verb
from memforest.plain import Listing
from memforest.read import changes, entities, facts, views
from memforest.read.changes import ChangePage, Diff
from memforest.read.entities import EntityChoice, EntityPage, GraphPicture, PathView, RelationView
from memforest.read.facts import WantedFacts, facts_page, history
from memforest.read.profiles import GRAPH, Profile
from memforest.read.results import AskResult, QueryResult
from memforest.read.stored import (
    FactPage,
    FactView,
    HistoryEntry,
    IndexView,
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
from memforest.settings import MAX_PAGE, MAX_TOP_K
from memforest.text import entity_key
from memforest.times import floor_ms

P = ParamSpec("P")
T = TypeVar("T")

Limit = Annotated[int, Ge(1), Le(MAX_PAGE)]
Positive = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]
Trees = list[TreeView]
Mode = Literal["emb", "emb+planner", "llm", "llm+planner"]

_NO_PROFILE = Profile(None, None, None, (), maker=GRAPH, warnings=("nothing was said to this user's memory",))


class AsyncReader:
    """The verbs of a user's memory that only read it; those that write are `memforest.memory.user.AsyncUserMemory`."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self._config = pool.config
        self.user_id = user_id

    async def _view(self, view: Callable[..., T], *args: Any, nothing: T | None = None, **how: Any) -> T:
        """Return what a view of the memory shows; `nothing` where a name is not found as the user has no memory."""
        async with self._pool.open(self.user_id, "empty") as memory:
            try:
                return await memory.view(view, *args, **how)
            except NotFoundError:
                if nothing is None or memory.user_id != NOBODY or self.user_id == NOBODY:
                    raise
                return nothing

    async def _do(
        self, work: Callable[Concatenate[Memory, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do work on the memory, which must be there."""
        async with self._pool.open(self.user_id, "refused") as memory:
            return await work(memory, *args, **kwargs)

    @verb("search_memory")
    async def search(
        self,
        question: str,
        *,
        reference_date: TimeLike | None = None,
        as_of: TimeLike | None = None,
        during: tuple[TimeLike, TimeLike] | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: Annotated[int, Ge(1), Le(MAX_TOP_K)] | None = None,
        min_relevance: Annotated[float, Ge(0), Le(1)] | None = None,
        max_tokens: Positive | None = None,
        index: str | None = None,
        ranking: Ranking | None = None,
        mode: Mode | None = None,
        budget: Budget | None = None,
        explain: bool = False,
    ) -> QueryResult:
        """Return ranked evidence for a question, best first; the same for the same state and arguments.

        Args:
            question: in any language.
            reference_date: the time that "now" and "last month" refer to. Default: the clock's time.
            as_of: only what was true at that time. A fact of unknown validity counts from the time it was said.
            during: keep what overlaps [start, end).
            said_by: only what was said by that time, as if nothing was said later.
            known_at: only what this memory held at that time, as if nothing was stored later. `warnings` say how much
                of it has been deleted since.
            filters: only turns with all of this metadata. It may come from the turn, its call of `add` or its session.
                `warnings` name a key that no turn has.
            top_k: most evidence returned; `Config.top_k` when not given.
            min_relevance: leave out evidence with a lower `Evidence.relevance`; 0 keeps all. Default:
                `Config.min_relevance`.
            max_tokens: budget for the texts of all evidence together, estimated.
            index: which of the memory's indexes to search: ``"memforest"``, ``"flat"`` for the baseline without trees,
                ``"facts"`` for facts by cosine only, or one that was added. Default: the first of `Config.indexes`
                that the memory has.
            ranking: weights for this question; `Config.ranking` when not given.
            mode: how the recalled trees are browsed; `Config.mode` when not given.
            budget: what may be spent on models; `Config.query_budget` when not given. When it is used up, the rest is
                done without a model, and `warnings` say so.
            explain: fill ``trace["explain"]``. It has the plan, the recalled trees, the effect of filters and time
                order, and for each piece its path and the named parts of its score.

        Raises:
            InputError: if the question is empty or an argument is out of range.
            ConfigError: if the mode needs a chat model and there is none, or the index is unknown.
            NotFoundError: if the memory does not have that index.
            CorruptStoreError: if the settings of the index in the file cannot be read.
        """
        asked = read_question(
            self._config,
            question,
            reference_date=reference_date,
            as_of=as_of,
            during=during,
            said_by=said_by,
            known_at=known_at,
            filters=filters,
            top_k=top_k,
            min_relevance=min_relevance,
            max_tokens=max_tokens,
            index=index,
            ranking=ranking,
            mode=mode,
            budget=budget,
            explain=explain,
        )
        async with self._pool.open(self.user_id, "empty") as memory:
            return await memory.query(asked)

    @verb("search_memory")
    @takes_options_of(search)
    async def ask(self, question: str, **options: Any) -> AskResult:
        """Answer a question from the best evidence, with citations, or abstain. The options are those of `search`."""
        asked = read_question(self._config, question, **options)
        async with self._pool.open(self.user_id, "empty") as memory:
            return await memory.ask(asked)

    @verb()
    async def sessions(self, *, limit: Limit | None = None, cursor: str | None = None) -> SessionPage:
        """Return the stored sessions in time order, all of them or a page.

        While sessions come and go, none is on two pages or missing. One that gains or loses its first turns may move.

        Args:
            limit: most sessions on the page; None for all.
            cursor: `SessionPage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is not one of this listing.
        """
        listing = Listing.of("sessions", self.user_id)
        return await self._view(views.session_page, listing, limit=limit, cursor=cursor)

    @verb()
    async def turns(
        self, session_id: str, *, limit: Limit | None = None, cursor: str | None = None
    ) -> TurnPage:
        """Return the turns of a session, in order, as they were said, all of them or a page.

        Args:
            session_id: which session.
            limit: most turns on the page; None for all.
            cursor: `TurnPage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is not one of this listing.
            NotFoundError: if there is no such session.
        """
        listing = Listing.of("turns", self.user_id, session_id)
        return await self._view(views.turn_page, session_id, listing, limit=limit, cursor=cursor)

    @verb()
    async def get(self, fact_id: str) -> FactView:
        """Return one fact.

        Raises:
            NotFoundError: if there is none with that id.
        """
        return await self._view(facts.one_fact, fact_id)

    @verb()
    async def list(
        self,
        *,
        offset: Natural = 0,
        limit: Limit = 50,
        cursor: str | None = None,
        filters: Mapping[str, Any] | None = None,
        entity: str | None = None,
        session_id: str | None = None,
        as_of: TimeLike | None = None,
        during: tuple[TimeLike, TimeLike] | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
        verdict: Literal["pinned", "forgotten", "corrected"] | None = None,
    ) -> FactPage:
        """Return a page of facts in time order, without corrected and forgotten ones.

        With `cursor` no fact is on two pages or missing while others come and go. With `offset` it may be.

        Args:
            offset: how many matching facts to skip.
            limit: most facts on the page.
            cursor: `FactPage.next_cursor` of the page before, of the same arguments; `limit` may be another.
            filters: only facts from turns with all of this metadata. It may come from the turn, its call of `add` or
                its session. The page's `warnings` name a key that no turn has.
            entity: only facts that mention this name.
            session_id: only facts from this session.
            as_of: keep what was so at that time.
            during: keep what overlaps [start, end).
            said_by: what had been said by that time.
            known_at: what this memory held at that time; the page's `warnings` say how much of it has been deleted since.
            verdict: return instead the facts that are now pinned, forgotten or corrected.

        Raises:
            InputError: if `during` ends before it starts, or the cursor is not one of this listing, or comes with an offset.
            NotFoundError: if there is no such entity or session.
        """
        if offset and cursor is not None:
            raise InputError("list: offset and cursor are two ways to page; give one of them")
        moment = read_moment(said_by, known_at, self._config, filters)
        wanted = WantedFacts(
            filters=filters or {},
            entity=entity,
            session_id=session_id,
            as_of=read_time(as_of, self._config, "as_of"),
            during=read_window(during, self._config),
            verdict=verdict,
        )
        listing = Listing.of("facts", self.user_id, wanted, moment)
        paging = {"cursor": cursor, "offset": offset, "limit": limit}
        return await self._view(
            facts_page, wanted, listing, **paging, moment=moment, nothing=FactPage((), 0, None)
        )

    @verb()
    async def timeline(
        self,
        entity: str,
        *,
        attribute: str | None = None,
        kind: Literal["state", "event"] | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
        limit: Limit | None = None,
        cursor: str | None = None,
    ) -> TimelinePage:
        """Return the states and events of an entity in time order, all of them or a page.

        Args:
            entity: its name.
            attribute: only states of this attribute.
            kind: only states, or only events.
            said_by: what had been said by that time.
            known_at: what this memory held at that time, as far as it was not deleted since.
            limit: most entries on the page; None for all.
            cursor: `TimelinePage.next_cursor` of the page before.

        Raises:
            InputError: if the cursor is not one of this listing.
            NotFoundError: if nothing is known of the entity.
        """
        moment = read_moment(said_by, known_at, self._config)
        listing = Listing.of("timeline", self.user_id, entity_key(entity), attribute, kind, moment)
        how = {"attribute": attribute, "kind": kind, "limit": limit, "cursor": cursor}
        return await self._view(
            timeline_page, entity, listing, **how, moment=moment, nothing=TimelinePage((), 0)
        )

    @verb()
    async def changes(
        self, since: TimeLike, until: TimeLike | None = None, *, limit: Limit = 100, after: str | None = None
    ) -> ChangePage:
        """Return what this memory stored, learnt, merged, ended, corrected and deleted in [since, until).

        The times are those of the memory's clock. The cost of a page does not depend on the size of the memory.

        Args:
            since: the first moment.
            until: the end, exclusive; None for no end.
            limit: most changes on the page.
            after: `ChangePage.next` of the page before.

        Raises:
            InputError: if `until` is not after `since`, or `after` is no `next`.
        """
        start, end = read_time(since, self._config, "since"), read_time(until, self._config, "until")
        if start is None:
            raise InputError("changes(since) takes a time, not None")
        if end is not None and end <= start:
            raise InputError("changes(since, until) takes a since before its until")
        return await self._view(changes.changes_since, start, end, limit, after)

    @verb()
    async def diff(
        self,
        a: TimeLike,
        b: TimeLike | None = None,
        *,
        entity: str | None = None,
        said_by: TimeLike | None = None,
        known_at: TimeLike | None = None,
    ) -> Diff:
        """Compare the states of entities at times `a` and `b`: what was true at only one of them.

        A value that came and went between the two is not in it; `timeline` has it, and the events.

        Args:
            a: one time.
            b: another one; now when not given.
            entity: only of this entity.
            said_by: of what had been said by that time.
            known_at: of what this memory held at that time.

        Raises:
            NotFoundError: if nothing is known of the entity.
        """
        one, other = read_time(a, self._config, "a"), read_time(b, self._config, "b")
        if one is None:
            raise InputError("diff(a, b) takes a time, not None")
        other = other or floor_ms(self._config.clock())
        moment = read_moment(said_by, known_at, self._config)
        return await self._view(
            changes.diff_between, one, other, entity, moment=moment, nothing=Diff(one, other, ())
        )

    @verb()
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
        """Return the profile of a participant or of any other entity, each line with its sources.

        With the index ``"timem"``, a participant's profile is that of the last full month (docs/research/timem.md).
        Without a model, months that have ended are written first. If no month has ended, it is empty, and `warnings`
        say so. For other entities, and without that index, it comes from the entity graph (docs/graph.md) and has no
        month. No model is asked unless `written`.

        Args:
            participant: a name or an alias. None for all participants of that month, or for the best known in the
                graph.
            as_of: the profile at that time, without later months and later turns.
            said_by: the profile from turns that were said by that time, whenever this memory received them.
            index: the index that keeps it, or ``"graph"``; None chooses as above.
            written: let the chat model write the graph's profile of `participant`, in one call. If it fails, the lines
                of the graph are returned, and `warnings` say why.
            budget: what may be spent on that; `Config.query_budget` when not given.

        Raises:
            NotFoundError: if nothing is known of that name, the memory does not have the index, or it keeps no profiles.
            InputError: if `written` is given without a participant, or with an index.
            ConfigError: if there is no such index at all, or no chat model for the step "summarise" that is to write.
            CorruptStoreError: if the settings of that index in the file cannot be read.
        """
        if written and (participant is None or index not in (None, GRAPH)):
            raise InputError(
                "profile(written=True) needs one name and no index; give participant, leave out index"
            )
        at_ms = to_ms_or_none(read_time(as_of, self._config, "as_of"))
        said_ms = to_ms_or_none(read_time(said_by, self._config, "said_by"))
        async with self._pool.open(self.user_id, "empty") as memory:
            try:
                if written and participant is not None:
                    return await memory.written_profile(participant, at_ms, said_ms, budget)
                return await memory.profile(participant, at_ms, said_ms, index)
            except NotFoundError:
                if memory.user_id == self.user_id:
                    raise
                return _NO_PROFILE

    @verb()
    async def entities(
        self,
        kind: EntityKind | None = None,
        query: str | None = None,
        *,
        limit: Limit | None = None,
        cursor: str | None = None,
    ) -> EntityPage:
        """Return the entities that facts name, most often named first. See docs/graph.md.

        Args:
            kind: only of this kind.
            query: only those with all words of this text in one name; case and accents do not matter.
            limit: most entities; None for all.
            cursor: `EntityPage.next_cursor` of the page before. An entity that is named more or less often meanwhile may move.

        Raises:
            InputError: if the query is blank, or the cursor is not one of this listing.
        """
        if query is not None and not query.strip():
            raise InputError("entities(query=...) is blank; leave it out to list all")
        listing = Listing.of("entities", self.user_id, kind, query)
        return await self._view(entities.entities, kind, query, limit, listing, cursor)

    @verb()
    async def relations(self, entity: str, *, as_of: TimeLike | None = None) -> Sequence[RelationView]:
        """Return the relations of an entity: current ones first, then ended ones, each by weight.

        Args:
            entity: any of its names.
            as_of: only relations that held at that time.

        Raises:
            NotFoundError: if nothing is known of the entity; the message has names that are near.
        """
        at_ms = to_ms_or_none(read_time(as_of, self._config, "as_of"))
        return await self._view(entities.relations, entity, at_ms, nothing=())

    @verb()
    async def path(self, a: str, b: str, *, hops: Annotated[int, Ge(1), Le(8)] = 4) -> PathView:
        """Return the shortest path between two entities, each step with its source; false if there is none.

        Args:
            a: the name of one.
            b: the name of the other.
            hops: most steps. With more, nearly everything is linked.

        Raises:
            NotFoundError: if nothing is known of one of them; the message has names that are near.
        """
        return await self._view(entities.path_between, a, b, hops)

    @verb()
    async def graph(self) -> GraphPicture:
        """Return an overview of the graph: its 60 most named entities, and the heaviest 200 edges between them.

        Relations come before facts that only name both.
        """
        return await self._view(entities.picture)

    @verb()
    async def entity_choices(self) -> Sequence[EntityChoice]:
        """Return the current decisions of `merge_entities` and `split_entity`, the oldest first."""
        return await self._view(entities.choices)

    @verb()
    async def history(self, fact_id: str) -> Sequence[HistoryEntry]:
        """Return what happened to a fact, in the order this memory recorded it: said, corrected, undone, superseded.

        Args:
            fact_id: id of the original fact, or of one that corrects it.

        Raises:
            NotFoundError: if there is no such fact, and no correction of one.
        """
        return await self._do(Memory.view, history, fact_id)

    @verb()
    async def tree(
        self,
        scope: str | None = None,
        *,
        index: str | None = None,
        depth: Natural = 1,
        limit: Positive | None = None,
        node: Positive | None = None,
    ) -> Trees:
        """Return the trees, or those of one session, entity or scene ("scene 7"), with `depth` levels below the root.

        Outdated summaries are made first. If that fails, `TreeView.dirty` says so.

        Args:
            scope: name of a session or an entity.
            index: the index whose trees are shown; all indexes of the memory when not given.
            depth: levels below the root, 0 for the roots alone; at most 100 are unfolded.
            limit: most nodes; all trees are unfolded alike until it is reached. None for all.
            node: `TreeView.node_id` of a node: only this one is unfolded, instead of trees.

        Raises:
            InputError: if `node` is given with a scope or an index.
            NotFoundError: if no tree has that scope, there is no such node, or the memory does not have the index.
            ConfigError: if there is no such index at all.
            CorruptStoreError: if the settings of the index in the file cannot be read.
        """
        return await self._do(Memory.tree, TreeQuery(scope, index, depth, limit, node))

    @verb()
    async def stats(self) -> Stats:
        """Return counts, the embedder, the schema and the size on disk."""
        return await self._view(views.stats, self.user_id)

    @verb()
    async def verify(self, *, deleted: Sequence[Annotated[str, MinLen(1)]] = ()) -> VerifyReport:
        """Check the memory for errors; see `.ok` and `.problems`.

        Args:
            deleted: texts that must be gone. Each is searched for in all rows and in the raw bytes of all files, as it
                is and case-folded, in UTF-8 and UTF-16. Each place found is a problem of the part ``"residue"``.

        Raises:
            InputError: if one of the texts is blank.
        """
        if any(not text.strip() for text in deleted):
            raise InputError("verify(deleted) takes a list of texts, none of them empty")
        return await self._do(Memory.verify, tuple(deleted))

    @verb()
    async def stale(self) -> Stale:
        """Return what other settings have made, and why. `rebuild(stale=True)` makes it again. Nothing is written."""
        automatic = self._config.embedder == "auto"
        opening = (
            self._pool.open(self.user_id, "refused")
            if automatic
            else self._pool.apart(self.user_id, gives=False)
        )
        async with opening as memory:
            return await memory.view(views.what_is_stale)

    @verb()
    async def indexes(self) -> Sequence[IndexView]:
        """Return the memory's indexes by name, with their trees and counts."""
        return await self._view(views.indexes)
