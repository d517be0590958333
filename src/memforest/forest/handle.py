"""Handles on one user's memory: the verbs people type every day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memforest import portal
from memforest.endpoint import Budget
from memforest.forest.import_verbs import import_into_memory
from memforest.forest.options import (
    QueryOptions,
    TimeLike,
    check_flags,
    check_mapping,
    check_rebuild,
    check_text,
    read_budget,
    read_count,
    read_options,
    read_time,
)
from memforest.forest.pool import MemoryPool
from memforest.interval import floor_ms
from memforest.memory.ingest.turns import Arrival, read_addition
from memforest.memory.inspect import views
from memforest.memory.memory import Memory
from memforest.memory.results import (
    AskResult,
    FactPage,
    FactView,
    FlushResult,
    IndexView,
    IngestResult,
    QueryResult,
    RepairReport,
    SessionView,
    Stats,
    TimelineEntry,
    TreeView,
    Usage,
    VerifyReport,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["AsyncUserMemory", "UserMemory"]

T = TypeVar("T")


class AsyncUserMemory:
    """A handle on one user's memory; made by `AsyncMemForest.user`."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self.user_id = user_id

    async def add(
        self,
        content: str | Mapping[str, Any] | Sequence[Any],
        *,
        session_id: str | None = None,
        timestamp: TimeLike | None = None,
        infer: bool = True,
        metadata: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> IngestResult:
        """Add something said just now: a text (by the user), a message, or a list of messages.

        What has no time of its own is stamped with the clock's and flagged so.

        Args:
            content: text or messages as for `AsyncMemForest.ingest_session`.
            session_id: appended to this session; one session a day when not given.
            timestamp: the time of messages that have none.
            infer: False stores the text verbatim, without extraction.
            metadata: kept with a new session.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            InputError: if a message is malformed, or none has text; nothing was stored, and an unknown user stays
                unknown. One whose text is missing or cannot be text is refused alone: see `IngestResult.refused`.
            StoreError: if the file cannot be written.
        """
        check_flags("add", infer=infer)
        read_budget("add", budget)
        messages: Sequence[Any]
        if isinstance(content, str):
            messages = [{"role": "user", "content": content}]
        else:
            messages = [content] if isinstance(content, Mapping) else content
        when = read_time(timestamp, self._pool.config, "timestamp")

        new = Arrival(session_id, messages, when, infer, metadata=metadata)
        config = self._pool.config
        return await self._pool.use(
            self.user_id,
            lambda memory: memory.append(new, budget=budget),
            first=lambda label: read_addition(new, config, label, floor_ms(config.clock())),
        )

    import_file = import_into_memory

    async def search(self, /, question: str, **options: Unpack[QueryOptions]) -> QueryResult:
        """Return ranked evidence; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.query(asked))

    async def ask(self, /, question: str, **options: Unpack[QueryOptions]) -> AskResult:
        """Answer from the best evidence, or abstain; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.ask(asked))

    async def sessions(self) -> list[SessionView]:
        """Return the stored sessions in time order."""
        return await self._view(views.session_views)

    async def get(self, fact_id: str) -> FactView:
        """Return one fact.

        Raises:
            NotFoundError: if there is none with that id.
        """
        check_text("get", "fact_id", fact_id, optional=False)
        return await self._view(views.one_fact, fact_id)

    async def timeline(self, entity: str, *, attribute: str | None = None) -> list[TimelineEntry]:
        """Return what is known of an entity in time order: states with their intervals, and events.

        Raises:
            NotFoundError: if nothing is known of the entity.
        """
        check_text("timeline", "entity", entity, optional=False)
        check_text("timeline", "attribute", attribute)
        return await self._view(views.timeline_of, entity, attribute=attribute)

    async def tree(
        self, scope: str | None = None, *, depth: int = 1, limit: int | None = None
    ) -> list[TreeView]:
        """Return the trees, or those of one session, entity or scene ("scene 7"), unfolded `depth` levels below the root.

        Summaries that are shown and out of date are made first, as far as that succeeds; `TreeView.dirty` says where not.

        Args:
            scope: name of a session or an entity.
            depth: levels below the root, 0 for the roots alone.
            limit: most nodes; all trees are unfolded alike until it is reached. None for all.

        Raises:
            InputError: if `depth` is below 0 or `limit` below 1.
            NotFoundError: if no tree has that scope.
        """
        check_text("tree", "scope", scope)
        read_count("depth", depth, None, 0)
        read_count("limit", limit, None, 1)
        return await self._pool.use_existing(self.user_id, lambda memory: memory.tree(scope, depth, limit))

    async def stats(self) -> Stats:
        """Return counts, the embedder, the schema and the size on disk."""
        return await self._view(views.stats, self.user_id)

    async def verify(self) -> VerifyReport:
        """Check every invariant that the store can state of itself; `.ok` and `.problems`."""
        return await self._pool.use_existing(self.user_id, Memory.verify)

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

    async def indexes(self) -> Sequence[IndexView]:
        """Return the memory's indexes, by name: how far each lags behind, what it owns, what it says of itself."""
        return await self._view(views.indexes)

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

    async def drop_index(self, name: str) -> None:
        """Take an index away with everything that it has in the file; what was said stays as it is.

        Raises:
            NotFoundError: if the memory does not have it.
            ConfigError: if it is the last one.
            StoreError: if the file cannot be written.
        """
        check_text("drop_index", "name", name, optional=False)
        await self._pool.use_existing(self.user_id, lambda memory: memory.drop_index(name))

    async def advance(
        self, now: TimeLike | None = None, *, budget: Budget | None = None
    ) -> Sequence[IndexView]:
        """Let indexes go on that are not placed by the writes themselves, or are behind, and return how all stand.

        Every ingest does the same for the former; an index closes its calendar windows so when nothing is written. One
        that raises stays where it is: its `reason` says why.

        Args:
            now: the present; the clock's when not given.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            TimestampError: if `now` is no time.
            StoreError: if the file cannot be written.
        """
        read_budget("advance", budget)
        when = read_time(now, self._pool.config, "now")
        return await self._pool.use_existing(self.user_id, lambda memory: memory.advance(when, budget))

    async def rebuild(
        self,
        *,
        scopes: bool = False,
        stale: bool = False,
        index: str | None = None,
        budget: Budget | None = None,
    ) -> Usage:
        """Make what is derived anew from what is stored: word rows, summaries and their vectors.

        Vectors of unchanged texts are kept; `verify` says whether they are.

        Args:
            scopes: make all indexes anew as well, from the start, so that nothing in them depends on the order in
                which sessions were ingested.
            stale: make only those summaries anew that would be made otherwise now: with another prompt, model or length
                than they were, or for another name.
            index: make only this index anew, from the start.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            InputError: if `index` is given together with `scopes` or `stale`.
            NotFoundError: if the memory does not have the index.
            IndexStateError: if an index raises; it lags then, and everything else is made anew.
            StoreError: if the file cannot be written.
        """
        check_rebuild(scopes=scopes, stale=stale, index=index)
        read_budget("rebuild", budget)
        return await self._pool.use_existing(
            self.user_id,
            lambda memory: memory.rebuild(scopes=scopes, stale=stale, index=index, budget=budget),
        )

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

    async def _view(self, view: Callable[..., T], *args: Any, **how: Any) -> T:
        return await self._pool.use_existing(self.user_id, lambda memory: memory.view(view, *args, **how))

    async def list(
        self,
        *,
        offset: int = 0,
        limit: int = 50,
        filters: Mapping[str, Any] | None = None,
        entity: str | None = None,
        session_id: str | None = None,
        as_of: TimeLike | None = None,
    ) -> FactPage:
        """Return a page of facts in time order.

        Args:
            offset: how many matching facts to pass over.
            limit: most facts on the page, 1 to 1000.
            filters: metadata that a supporting turn must have, all of it.
            entity: a name that the fact must mention.
            session_id: a session that must support it.
            as_of: keep what was so at that time.

        Raises:
            InputError: if `offset` or `limit` is out of range.
            NotFoundError: if there is no such entity or session.
        """
        read_count("offset", offset, None, 0)
        read_count("limit", limit, None, 1)
        check_text("list", "entity", entity)
        check_text("list", "session_id", session_id)
        check_mapping("list", "filters", filters)
        when = read_time(as_of, self._pool.config, "as_of")
        return await self._view(
            views.facts_page,
            offset=offset,
            limit=limit,
            filters=filters or {},
            entity=entity,
            session_id=session_id,
            as_of=when,
        )


class UserMemory:
    """The blocking twin of `AsyncUserMemory`; made by `MemForest.user`."""

    def __init__(self, handle: AsyncUserMemory) -> None:
        self._async = handle
        self.user_id = handle.user_id

    add = portal.blocking(AsyncUserMemory.add)
    import_file = portal.blocking(AsyncUserMemory.import_file)
    search = portal.blocking(AsyncUserMemory.search)
    ask = portal.blocking(AsyncUserMemory.ask)
    sessions = portal.blocking(AsyncUserMemory.sessions)
    get = portal.blocking(AsyncUserMemory.get)
    list = portal.blocking(AsyncUserMemory.list)
    timeline = portal.blocking(AsyncUserMemory.timeline)
    tree = portal.blocking(AsyncUserMemory.tree)
    stats = portal.blocking(AsyncUserMemory.stats)
    indexes = portal.blocking(AsyncUserMemory.indexes)
    add_index = portal.blocking(AsyncUserMemory.add_index)
    drop_index = portal.blocking(AsyncUserMemory.drop_index)
    advance = portal.blocking(AsyncUserMemory.advance)
    verify = portal.blocking(AsyncUserMemory.verify)
    flush = portal.blocking(AsyncUserMemory.flush)
    rebuild = portal.blocking(AsyncUserMemory.rebuild)
    repair = portal.blocking(AsyncUserMemory.repair)
