"""A refresh makes each node once, behind its children, and loses nothing when a step or an embedder goes wrong."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shelf import ShelfIndex
from tests_long.worlds import fast_config, file_of, make_sessions, rows, said, summaries, transaction

from memforest import AsyncMemForest, Config, MemForest
from memforest.errors import BudgetError, ModelError, StepError
from memforest.models import HashEmbedder
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.search.forest import Forest
from memforest.search.snapshot import Snapshot, load_snapshot
from memforest.store.connections import Tx
from memforest.trees import attached
from memforest.trees.attached import Attached
from memforest.trees.refresh import missing_count

STORED = "SELECT count(*) FROM artifact"


class Noting:
    """The local summariser; notes what it made of what, in the order in which it ended, and may fail."""

    def __init__(self, *, remote: bool = False) -> None:
        self._local = LocalSummariser()
        self.name, self.remote = self._local.name, remote
        self.asked: list[SummaryRequest] = []
        self.made: list[str] = []
        self.batches: list[int] = []
        self.under_way = self.most = self.cancelled = 0
        self.raises: ModelError | None = None
        self.meanwhile: Any = None
        """What somebody else does while the first summaries are made."""
        self.defect = ""
        """A kind of tree whose summaries end in a defect, while all others take for ever."""
        self.instead: dict[str, ModelError] = {}
        """Kind of tree -> what comes in the place of its summaries."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Summarise, after everybody else has had a turn."""
        self.batches.append(len(requests))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            if self.meanwhile is not None:
                doing, self.meanwhile = self.meanwhile, None
                await doing()
            if self.raises is not None:
                raise self.raises
            if self.defect and requests[0].kind != self.defect:
                await asyncio.Event().wait()
            if self.defect:
                raise ZeroDivisionError("a defect")
            made = await self._local.summarise(requests)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        for request in requests:
            if request.level > 1:  # what stands below has been made before this was asked for
                assert set(request.inputs) <= set(self.made)
        self.asked += requests
        self.made += [str(text) for text in made]
        return [self.instead.get(request.kind, text) for request, text in zip(requests, made, strict=True)]


def many(n: int, word: str) -> list[str]:
    """Return sentences that become facts of their own."""
    return [f"I bought {i + 2} {word}s in Oslo." for i in range(n)]


def dirty(folder: Path) -> int:
    """Return how many summaries are missing."""
    with transaction(file_of(folder)) as tx:
        return missing_count(tx, load_snapshot(tx), Attached(Config()).of(tx))


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_node_is_made_once_behind_its_children(folder: Path, seed: int, remote: bool) -> None:
    """Whether together or each by itself: as many requests as nodes, and the same summaries as any other way."""
    noting = Noting(remote=remote)
    with MemForest(folder / "a", fast_config(summariser=noting)) as forest:
        for name, turns in make_sessions(seed, sessions=3):
            forest.ingest_session("u", name, turns, refresh=False)
        assert noting.asked == []
        forest.resume("u")
        counted = rows(file_of(folder / "a"), STORED)
        assert len(noting.asked) == counted[0][0] > 3
        assert (set(noting.batches) == {1}) is remote
        assert (noting.most > 1) is remote
        forest.resume("u")
        assert len(noting.asked) == counted[0][0]
        assert forest.user("u").verify().ok
    with MemForest(folder / "b", fast_config()) as forest:
        for name, turns in make_sessions(seed, sessions=3):
            forest.ingest_session("u", name, turns, refresh=True)
    assert summaries(file_of(folder / "a")) == summaries(file_of(folder / "b"))


def test_a_request_names_what_the_node_is(folder: Path) -> None:
    """Its tree, how high it stands, whether it is the root, and an interval that holds those of what is below."""
    noting = Noting()
    with MemForest(folder, fast_config(summariser=noting)) as forest:
        forest.ingest_session("u", "s", said(*many(30, "tent")), refresh=True)
    roots = Counter((one.kind, one.label) for one in noting.asked if one.root and one.kind != "scene")
    assert set(roots.values()) == {1}
    assert {("session", "s"), ("entity", "Ana")} <= set(roots)
    for one in noting.asked:
        assert one.start < one.end
        assert one.inputs
        if one.kind == "scene":
            continue  # all of one name
        above = [
            other
            for other in noting.asked
            if (other.kind, other.label) == (one.kind, one.label) and other.root
        ]
        assert all(other.level >= one.level and other.start <= one.start for other in above)


@pytest.mark.parametrize("remote", [False, True])
def test_a_step_that_fails_as_a_whole_leaves_its_nodes(folder: Path, remote: bool) -> None:
    """What was stored stays and answers; the result says so once, and the next refresh makes all of it."""
    noting = Noting(remote=remote)
    noting.raises = StepError("the server is gone")
    with MemForest(folder, fast_config(summariser=noting)) as forest:
        result = forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
        assert [w for w in result.warnings if "summaries are left" in w and "the server is gone" in w]
        assert len(result.warnings) == 1
        assert result.nodes_dirty == dirty(folder) > 1
        assert (result.nodes_refreshed, noting.under_way) == (0, 0)
        assert forest.query("u", "What did Ana buy?").evidence
        noting.raises = None
        forest.resume("u")
        assert dirty(folder) == 0
        assert forest.user("u").verify().ok


def test_a_defect_of_a_step_is_raised_and_nothing_goes_on_behind_it(folder: Path) -> None:
    """Its other calls are cancelled and have ended; the memory is sound, and complete once the step is."""
    noting = Noting(remote=True)
    noting.defect = "entity"
    with MemForest(folder, fast_config(summariser=noting)) as forest:
        with pytest.raises(ZeroDivisionError):
            forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
        assert noting.cancelled > 1
        assert noting.under_way == 0
        assert forest.user("u").stats().turns == 20
        assert forest.user("u").verify().ok
        noting.defect = ""
        forest.resume("u")
        assert dirty(folder) == 0


def test_a_failure_of_many_scopes_is_told_in_one_line(folder: Path) -> None:
    """Three of them by name, the others by number, and the reason once."""
    noting = Noting()
    noting.instead = {"session": StepError("the model refused")}
    with MemForest(folder, fast_config(summariser=noting)) as forest:
        for number in range(6):
            forest.ingest_session(
                "u", f"s{number}", said(*many(4, f"tent{number}"), day=number + 1), refresh=False
            )
        result = forest.ingest_session("u", "s6", said("I live in Oslo.", day=9), refresh=True)
    (line,) = [one for one in result.warnings if "refused" in one]
    assert len(re.findall(r"session s\d", line)) == 3
    more = re.search(r" and (\d+) more: the model refused$", line)
    assert more is not None
    assert int(more[1]) + 3 == sum(
        request.kind == "session" and request.level == 1 for request in noting.asked
    )


def test_what_a_budget_left_is_no_failure_of_a_node(folder: Path) -> None:
    """The budget is told of by itself; the node stays dirty without a line for every scope, and what is above waits."""
    noting = Noting()
    noting.instead = {"entity": BudgetError("used up")}
    with MemForest(folder, fast_config(summariser=noting)) as forest:
        result = forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
        assert not any("used up" in line for line in result.warnings)
        assert {request.level for request in noting.asked if request.kind == "entity"} == {1}
        assert dirty(folder) == result.nodes_dirty > 1
        noting.instead = {}
        forest.resume("u")
        assert dirty(folder) == 0


class Fickle(HashEmbedder):
    """The hashing embedder, which fails on some texts, or lets somebody write while it reads them."""

    def __init__(self) -> None:
        super().__init__(32)
        self.odd: set[str] = set()
        self.meanwhile: Any = None

    async def embed(self, texts: Sequence[str]) -> Any:
        """Embed, or do what was told for an odd text."""
        if self.odd & set(texts):
            if self.meanwhile is None:
                raise ModelError("the embedder is out of order")
            doing, self.meanwhile = self.meanwhile, None
            await doing()
        return await super().embed(texts)


class Marked(Noting):
    """Its summaries of one kind of tree are marked, and known to an embedder."""

    def __init__(self, embedder: Fickle) -> None:
        super().__init__()
        self.embedder = embedder

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Summarise, and tell the embedder which texts these are."""
        made = await super().summarise(requests)
        self.embedder.odd |= {str(text) for text in made if not isinstance(text, ModelError)}
        return made


def test_vectors_that_cannot_be_made_leave_the_summaries(folder: Path) -> None:
    """They are counted in the result, nothing is made twice, and `resume` makes the vectors alone."""
    embedder = Fickle()
    marked = Marked(embedder)
    config = fast_config(embedder=embedder, summariser=marked)
    with MemForest(folder, config) as forest:
        result = forest.ingest_session("u", "s", said(*many(20, "tent")), refresh=True)
        assert any(
            re.search(r"the vectors of \d+ summaries are left: .*out of order", w) for w in result.warnings
        )
        assert (result.nodes_dirty, dirty(folder)) == (0, 0)
        assert forest.user("u").stats().vectors.get("node", 0) == 0
        asked = len(marked.asked)
        embedder.odd.clear()
        forest.resume("u")
        assert forest.user("u").stats().vectors["node"] > 0
        assert len(marked.asked) == asked
        assert forest.user("u").verify().ok


def test_a_vector_of_a_summary_that_was_replaced_meanwhile_is_thrown_away(folder: Path) -> None:
    """Another process writes and refreshes while the vectors are made: each vector is of the text that is stored."""
    embedder = Fickle()
    config = fast_config(embedder=embedder, summariser=Marked(embedder))

    async def run() -> None:
        async with AsyncMemForest(folder, config) as forest, AsyncMemForest(folder, fast_config()) as other:

            async def write() -> None:
                await other.ingest_session("u", "t", said("I bought a red car.", day=3), refresh=True)

            embedder.meanwhile = write
            await forest.ingest_session("u", "s", said(*many(12, "tent")), refresh=True)
            assert embedder.meanwhile is None
            embedder.odd.clear()
            assert (await other.user("u").verify()).ok
            await forest.resume("u")
            assert (await forest.user("u").verify()).ok

    asyncio.run(run())
    assert dirty(folder) == 0


class Interrupted(Noting):
    """While it makes the second part of Ana's tree, it lets somebody write once the first part is stored."""

    def __init__(self, folder: Path) -> None:
        super().__init__(remote=True)
        self.folder = folder
        self.later: Any = None

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Summarise; one of the parts takes longer."""
        (one,) = requests
        first = any("bought 2 tents" in text for text in one.inputs)
        if one.kind == "entity" and one.level == 1 and not first and self.later is not None:
            doing, self.later = self.later, None
            while rows(file_of(self.folder), STORED) == [(0,)]:  # noqa: ASYNC110 - only the file tells
                await asyncio.sleep(0)
            await doing()
        return await super().summarise(requests)


def test_a_node_is_made_of_what_its_children_say_now(folder: Path) -> None:
    """One child is made, and then the memory changes below both: what stands above is of the tree as it is now."""
    interrupted = Interrupted(folder)
    early = said("I sold a boat in Oslo.", day=1)

    async def run() -> None:
        config = fast_config(summariser=interrupted)
        async with AsyncMemForest(folder, config) as forest, AsyncMemForest(folder, fast_config()) as other:

            async def write() -> None:
                await other.ingest_session("u", "early", early, refresh=False)

            interrupted.later = write
            await forest.ingest_session("u", "s", said(*many(14, "tent"), day=9), refresh=True)
            assert interrupted.later is None
            assert (await forest.user("u").verify()).ok
            await forest.resume("u")

    asyncio.run(run())
    with MemForest(folder / "quiet", fast_config()) as quiet:
        for name, turns in (("s", said(*many(14, "tent"), day=9)), ("early", early)):
            quiet.ingest_session("u", name, turns, refresh=True)
    assert summaries(file_of(folder)) == summaries(file_of(folder / "quiet"))
    assert dirty(folder) == 0


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("what", ["replace", "rebuild", "resume", "shorter"])
def test_whatever_others_do_while_summaries_are_made_the_memory_is_sound(
    folder: Path, what: str, remote: bool
) -> None:
    """Nodes that are gone, others in their place, or made by somebody else: what was made of the old ones is not written."""
    noting = Noting(remote=remote)

    async def run() -> None:
        config = fast_config(summariser=noting)
        async with AsyncMemForest(folder, config) as forest, AsyncMemForest(folder, fast_config()) as other:
            verbs: dict[str, Callable[[], Awaitable[object]]] = {
                "replace": lambda: other.ingest_session(
                    "u", "s", said("It rains.", day=9), replace=True, refresh=False
                ),
                "rebuild": lambda: other.rebuild("u"),
                "resume": lambda: other.resume("u"),
                "shorter": lambda: other.ingest_session(
                    "u", "s", said(*many(3, "tent"), day=9), replace=True
                ),
            }

            async def doing() -> None:
                await verbs[what]()

            noting.meanwhile = doing
            await forest.ingest_session("u", "s", said(*many(14, "tent"), day=9), refresh=True)
            assert noting.meanwhile is None
            assert (await other.user("u").verify()).ok
            await forest.resume("u")
            assert dirty(folder) == 0
            assert (await forest.user("u").verify()).ok

    asyncio.run(run())


class Sparse(ShelfIndex):
    """The shelf, which asks for summaries on the second level of its trees alone."""

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Ask for nothing below or above."""
        grown = super().grow(tx, snapshot, old)
        return replace(grown, told=np.flatnonzero(grown.level == 2))


def test_a_node_that_needs_no_summary_is_up_to_date_without_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked for it, and what stands above it is made all the same, of the texts that there are."""
    noting = Noting()
    monkeypatch.setitem(attached.INDEXES, "shelf", Sparse)
    with MemForest(folder, fast_config(summariser=noting, indexes=("memforest", "shelf"))) as forest:
        forest.ingest_session("u", "s", said(*many(70, "tent")), refresh=True)
        assert dirty(folder) == 0
        own = [one for one in noting.asked if one.kind == "shelf"]
        assert own
        assert all(one.inputs == () for one in own)
        with transaction(file_of(folder)) as tx:
            assert len(own) == len(Sparse().grow(tx, load_snapshot(tx), None).told)
        assert forest.user("u").verify().ok
        forest.resume("u")
        assert len(own) == sum(one.kind == "shelf" for one in noting.asked)
