"""The verbs that merge memories: of one user into another's, and of several."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from memforest.display import shown
from memforest.endpoint import Budget
from memforest.errors import (
    EmbedderMismatchError,
    InputError,
    NotFoundError,
    StoreKeyError,
)
from memforest.forest.options import (
    check_flags,
    check_mapping,
    check_path,
    check_refresh,
    check_texts,
    read_budget,
)
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.memory.ingest.turns import check_id
from memforest.memory.memory import Memory
from memforest.memory.merge.names import Asked
from memforest.memory.merge.report import ForestMergeResult, MergeResult
from memforest.memory.merge.run import MergeOptions


def merge_options(
    verb: str,
    *,
    same_person: bool | None,
    same: Mapping[str, str] | None,
    apart: Collection[str],
    dry_run: bool = False,
    overwrite: bool = False,
    refresh: bool | None = None,
) -> MergeOptions:
    """Return the options of a merge.

    Raises:
        InputError: if one is of the wrong type.
    """
    check_flags(verb, dry_run=dry_run, overwrite=overwrite)
    check_refresh(verb, refresh)
    if same_person is not None:
        check_flags(verb, same_person=same_person)
    check_mapping(verb, "same", same)
    check_texts(verb, "apart", apart)
    return MergeOptions(Asked(same_person, same or {}, tuple(apart)), dry_run, overwrite, refresh)


async def merge_from(
    target: MemoryPool,
    target_user: str,
    source: MemoryPool,
    source_user: str,
    options: MergeOptions,
    budget: Budget | None,
) -> MergeResult:
    """Merge the memory of one user into that of another, which is made if there is none; not by a dry run."""

    async def into(memory: Memory) -> MergeResult:
        return await source.use_existing(
            source_user, lambda other: memory.merge(other, options, budget=budget)
        )

    if source is target and check_id(source_user, "from_user") == check_id(target_user, "user_id"):
        raise InputError(
            f"the memory of {shown(target_user)} cannot be merged into itself; name another user"
        )
    try:
        await source.use_existing(source_user, _nothing)  # who is not there leaves no memory behind
    except EmbedderMismatchError as exc:
        raise EmbedderMismatchError(
            f"{exc}; to merge memories of two embedders, re-embed one of them first with that of the other"
        ) from exc
    except StoreKeyError as exc:
        raise StoreKeyError(
            f"{exc}; memories are merged under one key: encrypt, rekey or decrypt the other one first"
        ) from exc
    if options.dry_run:
        return await target.use_existing(target_user, into)
    return await target.use(target_user, into)


async def _nothing(memory: Memory) -> None:
    """Do nothing with an open memory."""


class MergingVerbs:
    """The part of `AsyncUserMemory` that merges."""

    def __init__(self, pool: MemoryPool, user_id: str) -> None:
        self._pool = pool
        self.user_id = user_id

    @spanned("upsert_memory")
    async def merge(
        self,
        from_user: str,
        *,
        dry_run: bool = False,
        same_person: bool | None = None,
        same: Mapping[str, str] | None = None,
        apart: Sequence[str] = (),
        directory: str | Path | None = None,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> MergeResult:
        """Merge another user's memory into this one; the other stays as it is.

        Sessions, statements, corrections and trees are copied, and nothing is extracted again. A session that is here
        already is left, one that has grown there grows here; one whose id is taken by another gets another id, and
        `renamed` says so. Merging again brings what is new since. Every turn keeps whose memory it came from.

        People and things of one name become one, and `participants_joined` and `entities_joined` name them. The two
        users are two people, unless `same_person` says otherwise; if they have one display name it must say so.

        Args:
            from_user: whose memory.
            dry_run: write nothing, and return what would be done.
            same_person: True if both users are one person: what the other said is then this user's. False if they have
                one name and are two: the other one is then called "NAME (USER)".
            same: names there -> names here, of who or what is called otherwise here.
            apart: names there of who or what has the name of somebody else here; they become "NAME (USER)".
            directory: the other memory's forest, if it is not this one.
            refresh: as in `AsyncMemForest.ingest_session`.
            budget: what may be spent on models, which judge near statements and make summaries; `Config.ingest_budget`
                when not given.

        Raises:
            InputError: if both are one memory, or the caller has to say who is who.
            NotFoundError: if the other user has no memory, or this one in a dry run.
            EmbedderMismatchError: if the vectors of the two are of different embedders.
            CorruptStoreError: if the other memory is damaged; sessions that were merged before are whole.
            StoreKeyError: if it is encrypted with another key than this one, or only one of both is.
            SchemaVersionError: if another version has written it.
            StoreError: if a file cannot be read, or this one not be written.
        """
        options = merge_options(
            "merge", same_person=same_person, same=same, apart=apart, dry_run=dry_run, refresh=refresh
        )
        read_budget("merge", budget)
        if directory is None:
            return await merge_from(self._pool, self.user_id, self._pool, from_user, options, budget)
        check_path("merge", "directory", directory)
        other = MemoryPool(_existing(directory), self._pool.config)
        try:
            return await merge_from(self._pool, self.user_id, other, from_user, options, budget)
        finally:
            await other.close()


class MergingForest:
    """The part of `AsyncMemForest` that merges."""

    _pool: MemoryPool

    @spanned("upsert_memory")
    async def merge_user_forests(
        self,
        source_user_ids: Sequence[str],
        target_user_id: str,
        *,
        overwrite: bool = False,
        same_person: bool | None = None,
        dry_run: bool = False,
        refresh: bool | None = None,
        budget: Budget | None = None,
    ) -> ForestMergeResult:
        """Merge several users' memories into one, which is made if there is none; the others stay as they are.

        Args:
            source_user_ids: whose, merged in this order.
            target_user_id: into whose.
            overwrite: a session of the target that has the id of another one, with other turns, is replaced by it. In the
                paper's artifact the whole target is; here nothing goes that is not replaced.
            same_person: see `AsyncUserMemory.merge`, also for the others.
            dry_run: write nothing, and return what would be done.
            refresh: as in `ingest_session`.
            budget: what may be spent on models for each memory.

        Raises:
            InputError: if a user is named twice, or is the target, or it has to be said who is who.
            NotFoundError: if one of them has no memory; nothing was merged then.
        """
        if isinstance(source_user_ids, (str, bytes)) or not isinstance(source_user_ids, Sequence):
            raise InputError(f"source_user_ids must be a list of user ids, not {shown(source_user_ids)}")
        wanted = [check_id(one, "source_user_ids") for one in source_user_ids]
        check_id(target_user_id, "target_user_id")
        if len(set(wanted)) < len(wanted) or not wanted:
            raise InputError("source_user_ids must name each user once, and at least one")
        options = merge_options(
            "merge_user_forests",
            same_person=same_person,
            same=None,
            apart=(),
            dry_run=dry_run,
            overwrite=overwrite,
            refresh=refresh,
        )
        read_budget("merge_user_forests", budget)
        for one in wanted:
            await self._pool.use_existing(one, _nothing)
        found = [
            await merge_from(self._pool, target_user_id, self._pool, one, options, budget) for one in wanted
        ]
        return ForestMergeResult(target_user_id, tuple(found))


def _existing(directory: str | Path) -> Path:
    """Return a directory that is there.

    Raises:
        NotFoundError: if there is none.
    """
    path = Path(directory)
    if not path.is_dir():
        raise NotFoundError(
            f"there is no directory {shown(str(directory))}; name the one that holds the memories"
        )
    return path
