"""When summaries are made: before they are read, with a write, behind it, or at the end; and that nothing else is read of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, make_sessions, memory_of, said, summaries, transaction

from memforest import AsyncMemForest, Config, MemForest
from memforest.concurrency import Turns
from memforest.endpoint import Budget
from memforest.errors import ConfigError, InputError, ModelError, ModelUnavailableError
from memforest.models.calls import Calls
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.read.summaries import Behind
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import SummaryRequest
from memforest.search.forest import INNER
from memforest.search.snapshot import load_snapshot
from memforest.store.connections import Tx
from memforest.trees.attached import Attached
from memforest.trees.memforest import MemForestIndex
from memforest.trees.refresh import Refresher, missing_count

QUESTIONS = ("Where does Ana live?", "What did Ana buy?", "When did Ben move?")


@dataclass
class Model:
    """A chat model that can be held up, or be away."""

    model_id: str = "model"
    away: bool = False
    begun: asyncio.Event | None = None
    go_on: asyncio.Event | None = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer anything."""
        if self.begun is not None and self.go_on is not None:
            self.begun.set()
            await self.go_on.wait()
        if self.away:
            raise ModelUnavailableError("the model is away")
        return ChatReply("fine", prompt_tokens=10, completion_tokens=5)


@dataclass
class Paid:
    """The local summariser behind a model call for every node; it notes which nodes were under way together."""

    model: Model = field(default_factory=Model)
    name: str = "paid@1:model"
    remote: bool = True
    asked: list[SummaryRequest] = field(default_factory=list)

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return summaries, with errors where the call failed."""
        found: list[str | ModelError] = []
        for request in requests:
            self.asked.append(request)
            try:
                await Calls(self.model).complete(ChatRequest("summarise", (Message("user", "sum up"),)))
                found.append(LocalSummariser().summarise_one(request))
            except ModelError as exc:
                found.append(exc)
        return found


def many(n: int, word: str) -> list[str]:
    """Return sentences that become facts of their own."""
    return [f"I bought {i + 2} {word}s in Oslo." for i in range(n)]


def fill(forest: MemForest, **how: Any) -> None:
    """Ingest some sessions."""
    for session_id, turns in make_sessions(5, sessions=4):
        forest.ingest_session("u", session_id, turns, **how)


def dirty(folder: Path) -> int:
    """Return how many summaries are missing."""
    with transaction(file_of(folder)) as tx:
        return missing_count(tx, load_snapshot(tx), Attached(Config()).of(tx))


def made(folder: Path) -> dict[str, Any]:
    """Return the summaries and vectors of all nodes."""
    return summaries(file_of(folder))


def test_a_write_makes_nothing_of_nodes(folder: Path) -> None:
    """Without a model, ingest embeds turns and facts, and neither summarises nor embeds a node."""
    with MemForest(folder, fast_config()) as forest:
        done = forest.ingest_session("u", "s", said(*many(9, "tent")))
        assert set(done.usage.embeds) == {"turn", "fact"}
        assert (done.nodes_refreshed, done.nodes_dirty) == (0, 0)
        assert dirty(folder) > 0
        assert made(folder) == {}
        assert forest.user("u").verify().ok


def test_answers_are_the_same_with_and_without_summaries(folder: Path) -> None:
    """Evidence with its scores and paths, and answers; and asking for it makes no summary."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest)
        before = [(forest.query("u", one).evidence, forest.ask("u", one).answer) for one in QUESTIONS]
        assert made(folder) == {}
        assert forest.flush("u").nodes_refreshed > 0
        assert [(forest.query("u", one).evidence, forest.ask("u", one).answer) for one in QUESTIONS] == before


@pytest.mark.parametrize(
    "read",
    [
        lambda user: user.search("What did Ana buy?", explain=True),
        lambda user: user.tree(depth=9),
    ],
    ids=["explain", "tree"],
)
def test_reading_makes_what_it_reads(folder: Path, read: Any) -> None:
    """What was read is what an eager write would have made, and stands in the file."""
    with MemForest(folder / "eager", fast_config()) as forest:
        fill(forest)
        forest.flush("u")
        expected = read(forest.user("u"))
    with MemForest(folder / "lazy", fast_config()) as forest:
        fill(forest)
        found = read(forest.user("u"))
        assert getattr(found, "evidence", found) == getattr(expected, "evidence", expected)
    assert dirty(folder / "lazy") == 0
    assert made(folder / "lazy") == made(folder / "eager")


def test_a_view_makes_the_nodes_that_it_shows_and_no_others(folder: Path) -> None:
    """One session's tree is made; the others stay as they are."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest)
        name = forest.user("u").sessions()[0].session_id
        [view] = forest.user("u").tree(name, depth=0)
        assert view.summary
        assert not view.dirty
        assert {key.split(" [")[0] for key in made(folder)} == {f"memforest/session {name}"}


def test_a_memory_without_an_embedder_gets_no_vectors_by_being_read(folder: Path) -> None:
    """Reading with an embedder that the memory does not know writes none of its vectors."""
    with MemForest(folder, fast_config(embedder="none")) as forest:
        fill(forest)
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").tree()[0].summary
        assert forest.query("u", "What did Ana buy?", explain=True).evidence
        assert forest.user("u").stats().vectors == {}
        assert forest.user("u").verify().ok


def test_what_was_replaced_is_in_no_summary(folder: Path) -> None:
    """A summary that tells of an overwritten session goes with it, before anybody has new ones made."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said(*many(9, "zeppelin")), refresh=True)
        forest.ingest_session("u", "t", said(*many(9, "tent"), day=2), refresh=True)
        assert any("zeppelin" in one.summary for one in forest.user("u").tree("Ana"))
        forest.ingest_session("u", "s", said(*many(9, "canoe")), replace=True)
    assert b"zeppelin" not in file_of(folder).read_bytes()
    assert 0 < sum("tent" in text for text, _ in made(folder).values()) == len(made(folder))


def test_what_is_chosen_is_made_with_what_is_missing_beneath_it(folder: Path) -> None:
    """Exactly the nodes of that subtree; a second time none is; the rest stays missing."""
    index = MemForestIndex()
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", said(*many(40, "tent")))
        forest.load("u")
        memory = memory_of(forest._async)
        before, wanted = dirty(folder), list[int]()

        def choose(tx: Tx, snapshot: Any) -> dict[str, list[int]]:
            trees = index.grow(tx, snapshot, None)
            inner = (trees.kind == INNER) & (trees.level == 2)
            top = max(np.flatnonzero(inner).tolist(), key=lambda row: len(trees.children[row]))
            wanted[:] = [top, *trees.children[top]]
            return {index.name: [top]}

        refresher = Refresher(memory.db, memory._cache, lambda tx: [index], LocalSummariser(), None, 60)
        done = asyncio.run(refresher.make(choose))
        assert done.nodes == len(wanted) > 2
        assert dirty(folder) == before - done.nodes
        assert asyncio.run(refresher.make(choose)).nodes == 0


def test_a_node_waits_for_its_own_children_only(folder: Path) -> None:
    """With a model, a tree's next level begins when its own children are done, however slow another tree is."""

    class Slow(Paid):
        done: asyncio.Event

        async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
            if requests[0].kind == "entity":
                await asyncio.wait_for(self.done.wait(), 20)
            made = await super().summarise(requests)
            if requests[0].kind == "session" and requests[0].root:
                self.done.set()
            return made

    async def run() -> None:
        slow = Slow()
        slow.done = asyncio.Event()
        async with AsyncMemForest(folder, fast_config(summariser=slow, refresh="lazy")) as forest:
            await forest.ingest_session("u", "s", said(*many(40, "tent")))
            done = await forest.flush("u")
        assert done.nodes_dirty == 0
        assert done.nodes_refreshed == len(slow.asked)

    asyncio.run(run())
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").verify().ok


def test_path_makes_what_is_missing_with_the_write(folder: Path) -> None:
    """What an earlier write left too, and the trees of which an overwritten session took something."""
    with MemForest(folder, fast_config(refresh="path")) as forest:
        forest.ingest_session("u", "s1", said(*many(9, "tent"), speaker="Ben"), refresh=False)
        assert dirty(folder) > 0
        done = forest.ingest_session("u", "s2", said(*many(9, "car"), "Ben bought a red kite.", day=3))
        assert done.nodes_refreshed > 0
        assert dirty(folder) == 0
        forest.ingest_session("u", "s2", said(*many(2, "boat"), speaker="Cleo", day=3), replace=True)
        assert dirty(folder) == 0


def test_close_makes_what_is_left(folder: Path) -> None:
    """With the policy of that name only."""
    for policy, left in (("lazy", True), ("close", False)):
        with MemForest(folder / policy, fast_config(refresh=policy)) as forest:
            fill(forest)
            assert dirty(folder / policy) > 0
        assert (dirty(folder / policy) > 0) is left


def test_an_unknown_policy_is_refused() -> None:
    """So is a flag that is none of True, False and None."""
    with pytest.raises(ConfigError):
        Config(refresh="soon")  # type: ignore[arg-type]
    with MemForest("unused") as forest, pytest.raises(InputError, match="refresh"):
        forest.ingest_session("u", "s", said("Hi."), refresh="no")  # type: ignore[arg-type]


def test_ingest_returns_before_its_summaries_are_made(folder: Path) -> None:
    """With a model they are made behind the write; flush waits for them, and says what they were and cost."""

    async def run() -> None:
        model = Model(begun=asyncio.Event(), go_on=asyncio.Event())
        async with AsyncMemForest(folder, fast_config(summariser=Paid(model))) as forest:
            done = await forest.ingest_session("u", "s", said(*many(9, "tent")))
            assert done.facts_inserted == 9
            assert (done.nodes_refreshed, "summarise" in done.usage.steps) == (0, False)
            assert done.nodes_dirty == 0
            await asyncio.wait_for(model.begun.wait(), 20)  # type: ignore[union-attr]
            assert (await forest.query("u", "What did Ana buy?")).evidence
            more = await forest.ingest_session("u", "s2", said(*many(9, "car"), day=2))
            model.go_on.set()  # type: ignore[union-attr]
            did = await forest.flush("u")
            assert did.nodes_dirty == 0
            assert did.nodes_refreshed > 0 == more.nodes_refreshed
            spent = (await forest.user("u").stats()).spent
            assert set(spent) == {"refresh"}
            assert spent["refresh"]["summarise"].calls == did.usage.steps["summarise"].calls
            assert (await forest.flush("u")).nodes_refreshed == 0

    asyncio.run(run())


def test_a_session_s_tree_holds_up_no_other_behind_a_write(folder: Path) -> None:
    """However slow it is: flush makes the others beside it, waits for it, and leaves nothing."""

    class Slow(Paid):
        done: asyncio.Event

        async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
            if requests[0].kind == "session":
                await asyncio.wait_for(self.done.wait(), 20)
            made = await super().summarise(requests)
            if requests[0].kind == "entity" and requests[0].root:
                self.done.set()
            return made

    async def run() -> None:
        slow = Slow()
        slow.done = asyncio.Event()
        async with AsyncMemForest(folder, fast_config(summariser=slow)) as forest:
            await forest.ingest_session("u", "s", said(*many(40, "tent")))
            did = await forest.flush("u")
        assert did.nodes_dirty == 0
        assert did.nodes_refreshed == len(slow.asked)

    asyncio.run(run())


def test_what_fails_behind_a_write_is_told_once(folder: Path) -> None:
    """By the next result of a write; what failed stays dirty, and flush makes it when the model is back."""
    model = Model(away=True)

    async def run() -> None:
        async with AsyncMemForest(folder, fast_config(summariser=Paid(model))) as forest:
            assert not (await forest.ingest_session("u", "s1", said(*many(9, "tent")))).warnings
            await memory_of(forest)._summaries._behind.wait()
            second = await forest.ingest_session("u", "s2", said("It rains.", day=2), refresh=False)
            third = await forest.ingest_session("u", "s3", said("It snows.", day=3), refresh=False)
            assert "away" in second.warnings[0]
            assert third.warnings == ()
            model.away = False
            assert (await forest.flush("u")).nodes_dirty == 0

    asyncio.run(run())


def test_a_closed_forest_loses_no_summary(folder: Path) -> None:
    """Closing ends what goes on; the marks are in the file, and resume makes what was left."""

    async def run() -> None:
        model = Model(begun=asyncio.Event(), go_on=asyncio.Event())
        async with AsyncMemForest(folder, fast_config(summariser=Paid(model))) as forest:
            await forest.ingest_session("u", "s", said(*many(9, "tent")))
            await asyncio.wait_for(model.begun.wait(), 20)  # type: ignore[union-attr]

    asyncio.run(run())
    assert dirty(folder) > 0
    with MemForest(folder, fast_config(summariser=Paid())) as forest:
        assert forest.user("u").verify().ok
        forest.resume("u")
        assert dirty(folder) == 0
        assert forest.user("u").verify().ok


def test_what_is_made_behind_keeps_to_what_the_write_may_spend(folder: Path) -> None:
    """The rest of its budget; what that does not reach is left, and flush says so."""
    with MemForest(folder, fast_config(summariser=Paid())) as forest:
        forest.ingest_session("u", "s", said(*many(30, "tent")), budget=Budget(max_calls=2))
        did = forest.flush("u", budget=Budget(max_calls=0))
        assert did.usage.steps["summarise"].calls == 2
        assert did.nodes_dirty > 0
        assert any("budget" in one for one in did.warnings)
        assert forest.flush("u").nodes_dirty == 0


def test_what_goes_on_behind_a_write_keeps_its_memory_open(folder: Path) -> None:
    """Files of other users are closed before the one that is written to."""

    async def run() -> None:
        model = Model(begun=asyncio.Event(), go_on=asyncio.Event())
        config = fast_config(summariser=Paid(model), max_open_files=3)
        async with AsyncMemForest(folder, config) as forest:
            await forest.ingest_session("u", "s", said(*many(9, "tent")))
            await asyncio.wait_for(model.begun.wait(), 20)  # type: ignore[union-attr]
            for other in "abc":
                await forest.ingest_session(other, "s", said("Hello there."), refresh=False)
            assert "u" in forest._pool.opened
            model.go_on.set()  # type: ignore[union-attr]
            assert (await forest.flush("u")).warnings == ()

    asyncio.run(run())


def test_several_requests_are_one_run() -> None:
    """What comes while a run is under way is one more run, with what all of them may spend."""

    async def run() -> list[Budget]:
        seen: list[Budget] = []
        go_on = asyncio.Event()

        async def job(budget: Budget) -> None:
            seen.append(budget)
            await go_on.wait()

        behind = Behind(job)
        behind.begin(Budget(max_calls=1))
        await asyncio.sleep(0)
        behind.begin(Budget(max_calls=2))
        behind.begin(Budget(max_calls=3))
        go_on.set()
        assert await behind.wait()
        assert not await behind.wait()
        return seen

    assert asyncio.run(run()) == [Budget(max_calls=1), Budget(max_calls=5)]


def test_an_error_behind_a_write_is_raised_where_it_is_waited_for() -> None:
    """One that the job does not deal with is a bug, and must not be lost."""

    async def run() -> None:
        async def job(_budget: Budget) -> None:
            raise ZeroDivisionError

        behind = Behind(job)
        behind.begin(Budget())
        with pytest.raises(ZeroDivisionError):
            await behind.wait()
        assert not behind.at_work

    asyncio.run(run())


def test_loops_in_several_threads_take_turns() -> None:
    """A lock that is held on one event loop holds up another one, and not for longer than it is held."""
    turns, order = Turns(), []

    async def second() -> None:
        async with turns.turn() as waited:
            order.append(("second", waited))

    async def run() -> None:
        async with turns.turn() as waited:
            other = asyncio.create_task(asyncio.to_thread(asyncio.run, second()))
            await asyncio.sleep(0)
            order.append(("first", waited))
        await other

    asyncio.run(run())
    assert [name for name, _ in order] == ["first", "second"]
    assert order[0][1] is False
