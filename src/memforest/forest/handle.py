"""Handles on one user's memory: the verbs people type every day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memforest import portal
from memforest.endpoint import Budget
from memforest.forest.correcting import CorrectsMemory
from memforest.forest.deleting import DeletesFromMemory
from memforest.forest.import_verbs import import_into_memory
from memforest.forest.knowing import KnowsEntities
from memforest.forest.merging import MergingVerbs
from memforest.forest.options import (
    QueryOptions,
    TimeLike,
    check_flags,
    check_text,
    check_texts,
    read_budget,
    read_count,
    read_options,
    read_rebuild,
    read_time,
)
from memforest.forest.over_time import ReadsOverTime
from memforest.forest.spanned import spanned
from memforest.forest.transfer import Transfer
from memforest.forest.writing import AddsToMemory
from memforest.memory.inspect import views
from memforest.memory.inspect.stored import Stale
from memforest.memory.inspect.trees import Wanted
from memforest.memory.memory import Memory
from memforest.memory.progress import Report
from memforest.memory.results import (
    AskResult,
    FlushResult,
    IndexView,
    QueryResult,
    RepairReport,
    Stats,
    TreeView,
    Usage,
    VerifyReport,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        wanted = Wanted(scope, index, depth, limit, node)
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
                extracted by another extractor, prompt, model or version of its rules, or are not of `Config.cell_turns`
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

    add = portal.blocking(AsyncUserMemory.add)
    import_file = portal.blocking(AsyncUserMemory.import_file)
    search = portal.blocking(AsyncUserMemory.search)
    ask = portal.blocking(AsyncUserMemory.ask)
    sessions = portal.blocking(AsyncUserMemory.sessions)
    turns = portal.blocking(AsyncUserMemory.turns)
    get = portal.blocking(AsyncUserMemory.get)
    list = portal.blocking(AsyncUserMemory.list)
    update = portal.blocking(AsyncUserMemory.update)
    history = portal.blocking(AsyncUserMemory.history)
    undo = portal.blocking(AsyncUserMemory.undo)
    pin = portal.blocking(AsyncUserMemory.pin)
    forget = portal.blocking(AsyncUserMemory.forget)
    timeline = portal.blocking(AsyncUserMemory.timeline)
    profile = portal.blocking(AsyncUserMemory.profile)
    entities = portal.blocking(AsyncUserMemory.entities)
    relations = portal.blocking(AsyncUserMemory.relations)
    path = portal.blocking(AsyncUserMemory.path)
    graph = portal.blocking(AsyncUserMemory.graph)
    merge_entities = portal.blocking(AsyncUserMemory.merge_entities)
    split_entity = portal.blocking(AsyncUserMemory.split_entity)
    entity_choices = portal.blocking(AsyncUserMemory.entity_choices)
    changes = portal.blocking(AsyncUserMemory.changes)
    diff = portal.blocking(AsyncUserMemory.diff)
    tree = portal.blocking(AsyncUserMemory.tree)
    stats = portal.blocking(AsyncUserMemory.stats)
    indexes = portal.blocking(AsyncUserMemory.indexes)
    add_index = portal.blocking(AsyncUserMemory.add_index)
    drop_index = portal.blocking(AsyncUserMemory.drop_index)
    advance = portal.blocking(AsyncUserMemory.advance)
    verify = portal.blocking(AsyncUserMemory.verify)
    flush = portal.blocking(AsyncUserMemory.flush)
    export = portal.blocking(AsyncUserMemory.export)
    import_ = portal.blocking(AsyncUserMemory.import_)
    backup = portal.blocking(AsyncUserMemory.backup)
    rebuild = portal.blocking(AsyncUserMemory.rebuild)
    stale = portal.blocking(AsyncUserMemory.stale)
    repair = portal.blocking(AsyncUserMemory.repair)
    delete = portal.blocking(AsyncUserMemory.delete)
    delete_all = portal.blocking(AsyncUserMemory.delete_all)
    expire = portal.blocking(AsyncUserMemory.expire)
    merge = portal.blocking(AsyncUserMemory.merge)
