"""The double that counts what is asked of a chat model."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

from tests.doubles.replies import all_prompts

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from calendar_tree.double import Counting
from memforest.ports import ChatRequest, Message


def asked(text: str = "Hello!") -> ChatRequest:
    """Return a request by no prompt of the package."""
    return ChatRequest("answer", (Message("system", text), Message("user", "Where?")))


def test_calls_are_counted_by_their_prompts() -> None:
    """Prompts of one step are told apart, and another request is known by its step."""
    double = Counting(reply=lambda _: "so")
    known = [ChatRequest(one.step, (one.first, Message("user", "Where?"))) for one in all_prompts()]

    async def run() -> None:
        for request in (*known, *known, asked()):
            await double.complete(request)

    asyncio.run(run())
    ids = Counter(one.id for one in all_prompts())
    assert len(ids) > 5
    assert double.calls == ids + ids + Counter(["answer"])


def test_calls_that_wait_for_one_another_are_a_chain() -> None:
    """Those that are asked for at once are one, however many of them are let in together."""
    double = Counting(in_flight=2, reply=lambda _: "so")

    async def waves() -> None:
        for count in (5, 1, 3):
            await asyncio.gather(*(double.complete(asked()) for _ in range(count)))

    asyncio.run(waves())
    assert (double.chain, double.most, double.calls.total()) == (3, 2, 9)


def test_calls_take_their_time() -> None:
    """As many waves as do not fit in flight at once, and a reply may be awaited."""

    async def reply(_: ChatRequest) -> str:
        await asyncio.sleep(0.01)
        return "so"

    double = Counting(latency_s=0.02, in_flight=2, reply=reply)

    async def run() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        replies = await asyncio.gather(*(double.complete(asked()) for _ in range(6)))
        assert {one.text for one in replies} == {"so"}
        return loop.time() - began

    assert asyncio.run(run()) >= 0.06
    assert double.chain == 1


def test_a_call_that_fails_was_asked_for() -> None:
    """It counts, and what comes behind it does not wait for it."""

    def fail(_: ChatRequest) -> str:
        raise LookupError("no")

    double = Counting(reply=fail)

    async def twice() -> list[object]:
        return [*await asyncio.gather(*(double.complete(asked()) for _ in range(2)), return_exceptions=True)]

    assert [type(one) for one in asyncio.run(twice())] == [LookupError, LookupError]
    assert (double.calls["answer"], double.chain) == (2, 0)
