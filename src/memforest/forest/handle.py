"""Handles on one user's memory: the verbs people type every day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memforest import portal
from memforest.endpoint import Budget
from memforest.forest.options import (
    QueryOptions,
    TimeLike,
    check_flags,
    check_mapping,
    check_text,
    read_budget,
    read_count,
    read_options,
    read_time,
)
from memforest.forest.pool import MemoryPool
from memforest.memory.ingest.batch import Arrival, check_addition
from memforest.memory.inspect import views
from memforest.memory.memory import Memory
from memforest.memory.results import (
    AskResult,
    FactPage,
    FactView,
    FlushResult,
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

        async def write(memory: Memory) -> IngestResult:
            return await memory.append(
                messages,
                session_id=session_id,
                timestamp=when,
                infer=infer,
                metadata=metadata,
                budget=budget,
            )

        # Where it is added is not known before the memory is open: the clock's day names the session.
        new = Arrival(
            "new" if session_id is None else session_id, messages, timestamp=when, metadata=metadata
        )
        return await self._pool.use(
            self.user_id, write, first=lambda label: check_addition(new, self._pool.config, label)
        )

    async def search(self, /, question: str, **options: Unpack[QueryOptions]) -> QueryResult:
        """Return ranked evidence; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.known(self.user_id, lambda memory: memory.query(asked))

    async def ask(self, /, question: str, **options: Unpack[QueryOptions]) -> AskResult:
        """Answer from the best evidence, or abstain; the options are those of `AsyncMemForest.query`."""
        asked = read_options(question, options, self._pool.config)
        return await self._pool.known(self.user_id, lambda memory: memory.ask(asked))

    async def sessions(self) -> list[SessionView]:
        """Return the stored sessions in time order."""
        return await self._look(views.session_views)

    async def get(self, fact_id: str) -> FactView:
        """Return one fact.

        Raises:
            NotFoundError: if there is none with that id.
        """
        check_text("get", "fact_id", fact_id, optional=False)
        return await self._look(views.one_fact, fact_id)

    async def timeline(self, entity: str, *, attribute: str | None = None) -> list[TimelineEntry]:
        """Return what is known of an entity in time order: states with their intervals, and events.

        Raises:
            NotFoundError: if nothing is known of the entity.
        """
        check_text("timeline", "entity", entity, optional=False)
        check_text("timeline", "attribute", attribute)
        return await self._look(views.timeline_of, entity, attribute=attribute)

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
        return await self._pool.known(self.user_id, lambda memory: memory.tree(scope, depth, limit))

    async def stats(self) -> Stats:
        """Return counts, the embedder, the schema and the size on disk."""
        return await self._look(views.stats, self.user_id)

    async def verify(self) -> VerifyReport:
        """Check every invariant that the store can state of itself; `.ok` and `.problems`."""
        return await self._pool.known(self.user_id, Memory.verify)

    async def flush(self, *, budget: Budget | None = None) -> FlushResult:
        """Wait for the summaries that are made behind writes, make those that are left, and return what all that did.

        Args:
            budget: what may be spent on models for those that are left; `Config.ingest_budget` when not given.

        Raises:
            StoreError: if the file cannot be written.
        """
        read_budget("flush", budget)
        return await self._pool.known(self.user_id, lambda memory: memory.flush(budget))

    async def rebuild(
        self, *, scopes: bool = False, stale: bool = False, budget: Budget | None = None
    ) -> Usage:
        """Make what is derived anew from what is stored: word rows, summaries and their vectors.

        Vectors of unchanged texts are kept; `verify` says whether they are.

        Args:
            scopes: derive the scenes anew as well, from all facts in time order, so that they no longer depend on
                the order in which sessions were ingested.
            stale: make only those summaries anew that would be made otherwise now: with another prompt, model or length
                than they were, or for another name.
            budget: what may be spent on models; `Config.ingest_budget` when not given.

        Raises:
            StoreError: if the file cannot be written.
        """
        check_flags("rebuild", scopes=scopes, stale=stale)
        read_budget("rebuild", budget)
        return await self._pool.known(
            self.user_id, lambda memory: memory.rebuild(scopes=scopes, stale=stale, budget=budget)
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
        return await self._pool.known(self.user_id, Memory.repair)

    async def _look(self, view: Callable[..., T], *args: Any, **how: Any) -> T:
        return await self._pool.known(self.user_id, lambda memory: memory.look(view, *args, **how))

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
        return await self._look(
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
    search = portal.blocking(AsyncUserMemory.search)
    ask = portal.blocking(AsyncUserMemory.ask)
    sessions = portal.blocking(AsyncUserMemory.sessions)
    get = portal.blocking(AsyncUserMemory.get)
    list = portal.blocking(AsyncUserMemory.list)
    timeline = portal.blocking(AsyncUserMemory.timeline)
    tree = portal.blocking(AsyncUserMemory.tree)
    stats = portal.blocking(AsyncUserMemory.stats)
    verify = portal.blocking(AsyncUserMemory.verify)
    flush = portal.blocking(AsyncUserMemory.flush)
    rebuild = portal.blocking(AsyncUserMemory.rebuild)
    repair = portal.blocking(AsyncUserMemory.repair)
