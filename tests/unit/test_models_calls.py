"""The one way to a chat model: bounded, counted, within budget, traced, and stopped when it makes no sense."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.table import each

from memforest.endpoint import Budget
from memforest.errors import BudgetError, ConfigError, ModelError, ModelRefusedError, ModelUnavailableError
from memforest.models.calls import Calls, Trace
from memforest.models.ledger import Ledger, current_ledger, keeping
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.records import StepUsage
from memforest.text import count_tokens

NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)


@dataclass
class Paced:
    """A model that takes a while, and notes how many requests it holds."""

    model_id: str = "paced"
    pause_s: float = 0.0
    fail: Callable[[int], ModelError | None] = lambda _n: None
    held: int = 0
    most: int = 0
    asked: list[ChatRequest] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer after the pause, or fail."""
        self.asked.append(request)
        number = len(self.asked)
        self.held += 1
        self.most = max(self.most, self.held)
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.held -= 1
        error = self.fail(number)
        if error is not None:
            raise error
        return ChatReply("fine", prompt_tokens=40, completion_tokens=10, cached_tokens=8, retries=1)


def request(step: str = "extract", text: str = "what was said") -> ChatRequest:
    """Return a request with a prefix of 30 tokens or so."""
    return ChatRequest(step, (Message("system", "x" * 120), Message("user", text)))


def run_all(calls: Calls, ledger: Ledger, count: int) -> list[Any]:
    """Send requests at once, and return replies and errors."""

    async def run() -> list[Any]:
        with keeping(ledger):
            return await asyncio.gather(
                *(calls.complete(request()) for _ in range(count)), return_exceptions=True
            )

    return asyncio.run(run())


def test_no_more_are_in_flight_than_allowed() -> None:
    """The model never holds more requests than `max_in_flight`, and holds that many when there are enough."""
    model = Paced(pause_s=0.01)
    ledger = Ledger()
    run_all(Calls(model, max_in_flight=3), ledger, 10)
    assert (model.most, ledger.most_in_flight) == (3, 3)
    assert ledger.calls == len(model.asked) == 10


def test_questions_go_before_writes_and_long_before_short() -> None:
    """Of those who wait, the steps of a question come first, then the longest request."""
    model = Paced(pause_s=0.01)
    calls = Calls(model, max_in_flight=1)
    waiting = [request("extract", "first"), request("extract", "s"), request("extract", "l" * 400)]
    waiting.append(request("answer", "asked"))

    async def run() -> None:
        await asyncio.gather(*(calls.complete(one) for one in waiting))

    asyncio.run(run())
    assert [one.messages[1].content[0] for one in model.asked] == ["f", "a", "l", "s"]


def test_who_stops_waiting_leaves_the_turn_to_others() -> None:
    """A cancelled call that waited, or was just called, takes nobody's place."""

    async def run() -> int:
        model = Paced(pause_s=0.02)
        calls = Calls(model, max_in_flight=1)
        tasks = [asyncio.ensure_future(calls.complete(request())) for _ in range(6)]
        await asyncio.sleep(0.005)
        for task in tasks[1:4]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(calls.complete(request()), 5)
        return len(model.asked)

    assert asyncio.run(run()) == 4


def test_what_a_call_costs_is_counted_by_step() -> None:
    """Calls, retries and tokens are summed; the constant part of the prompt is told from the rest."""
    ledger = Ledger()
    run_all(Calls(Paced()), ledger, 3)
    used = ledger.steps["extract"]
    assert (used.calls, used.failures, used.retries) == (3, 0, 3)
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (120, 30, 24)
    assert 0.8 < used.prefix_tokens / used.prompt_tokens < 1.0
    assert used.seconds > 0


def test_a_failed_call_counts_with_its_retries() -> None:
    """What could not be had is a call, a failure, and the tries it took."""
    ledger = Ledger()
    failed = Paced(fail=lambda _n: ModelUnavailableError("busy", status=429, retries=5))
    [error] = run_all(Calls(failed), ledger, 1)
    assert isinstance(error, ModelUnavailableError)
    assert ledger.steps["extract"] == StepUsage(1, 1, 5, seconds=ledger.steps["extract"].seconds)


def test_a_refusal_stops_every_further_call() -> None:
    """Of twenty calls, two in flight, only those reach the model that were under way."""
    model = Paced(pause_s=0.01, fail=lambda _n: ModelRefusedError("the key is wrong", status=401))
    found = run_all(Calls(model, max_in_flight=2), Ledger(), 20)
    assert all(isinstance(one, ModelRefusedError) for one in found)
    assert len(model.asked) <= 3


def test_a_budget_of_calls_is_kept_exactly() -> None:
    """Exactly so many calls are made; the others are refused, and counted as such."""
    model, ledger = Paced(pause_s=0.001), Ledger(Budget(max_calls=4))
    found = run_all(Calls(model), ledger, 10)
    assert len(model.asked) == 4
    assert sum(isinstance(one, BudgetError) for one in found) == 6
    assert ledger.refused == {"extract": 6}


def test_a_budget_of_tokens_is_not_passed_by_much() -> None:
    """Calls stop where what is used and expected reaches the bound."""
    model, ledger = Paced(pause_s=0.001), Ledger(Budget(max_tokens=500))
    run_all(Calls(model, max_in_flight=2), ledger, 50)
    assert 300 <= ledger.tokens <= 550
    assert ledger.refused["extract"] == 50 - len(model.asked)


def test_embeddings_are_counted_and_not_bounded() -> None:
    """What an embedder behind an endpoint takes is in the ledger, and leaves the budget as it is."""
    ledger = Ledger(Budget(max_calls=2, max_tokens=1000))
    ledger.add("embed", StepUsage(calls=50, prompt_tokens=100_000))
    run_all(Calls(Paced()), ledger, 2)
    assert (ledger.calls, ledger.steps["embed"].calls) == (2, 50)


def test_a_part_counts_for_itself_and_for_the_whole() -> None:
    """Two parts share a budget, and each knows what it spent."""
    whole = Ledger(Budget(max_calls=3))
    first, second = whole.part(), whole.part()
    calls = Calls(Paced())
    run_all(calls, first, 2)
    found = run_all(calls, second, 2)
    assert [isinstance(one, BudgetError) for one in found] == [False, True]
    assert (first.calls, second.calls, whole.calls) == (2, 1, 3)


def test_a_cancelled_call_leaves_no_reservation() -> None:
    """After a cancellation nothing counts as in flight."""

    async def run(ledger: Ledger) -> None:
        with keeping(ledger):
            task = asyncio.ensure_future(Calls(Paced(pause_s=10)).complete(request()))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    ledger = Ledger(Budget(max_calls=2))
    asyncio.run(run(ledger))
    assert ledger.calls == 1
    assert ledger.admit("extract", 1) > 0


def test_without_an_operation_a_call_goes_to_nobodys_ledger() -> None:
    """A call outside of any operation works, and no later operation sees it."""
    asyncio.run(Calls(Paced()).complete(request()))
    assert current_ledger().steps == {}


@each("bad", [-1, 1.5, True, "many"])
def test_a_budget_must_be_a_number(bad: Any) -> None:
    """A bound that is no whole number is refused."""
    with pytest.raises(ConfigError, match="max_calls"):
        Budget(max_calls=bad)


def test_a_trace_has_a_line_per_call(tmp_path: Path) -> None:
    """Every call is there with what was asked, answered and spent, failures too; only its owner may read it."""
    path = tmp_path / "trace.jsonl"
    model = Paced(fail=lambda n: ModelUnavailableError("gone") if n == 2 else None)
    run_all(Calls(model, trace=Trace(path, clock=lambda: NOON)), Ledger(operation="ingest"), 2)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["error"] for line in lines] == [None, "ModelUnavailableError: gone"]
    assert lines[0]["at"] == NOON.isoformat()
    assert (lines[0]["operation"], lines[0]["step"], lines[0]["model"]) == ("ingest", "extract", "paced")
    assert lines[0]["messages"][1] == {"role": "user", "content": "what was said"}
    assert lines[0]["reply"] == "fine"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_trace_is_redacted_before_it_is_written(tmp_path: Path) -> None:
    """The hook decides what is written; None keeps a record out."""
    path = tmp_path / "trace.jsonl"

    def redact(record: dict[str, Any]) -> dict[str, Any] | None:
        if record["step"] == "answer":
            return None
        return {key: value for key, value in record.items() if key not in ("messages", "reply")}

    calls = Calls(Paced(), trace=Trace(path, clock=lambda: NOON, redact=redact))
    asyncio.run(calls.complete(request("extract", "a secret")))
    asyncio.run(calls.complete(request("answer")))
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) == 1
    assert "secret" not in text


@pytest.mark.parametrize("kind", ["directory", "link", "no directory"])
def test_a_path_that_can_be_no_trace_is_refused_before_a_model_is_paid(tmp_path: Path, kind: str) -> None:
    """A directory in the file's place, a link to somewhere else, a directory that is not there."""
    path = tmp_path / "trace.jsonl"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "elsewhere").write_text("", encoding="utf-8")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path = tmp_path / "not there" / "trace.jsonl"
    calls = Calls(Paced(), trace=Trace(path, clock=lambda: NOON))
    with pytest.raises(ConfigError):
        calls.check_trace()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_trace_that_cannot_be_written_costs_no_reply(caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk the operation is warned once, and the log too, however many calls it makes."""
    calls = Calls(Paced(), trace=Trace("/dev/full", clock=lambda: NOON))
    calls.check_trace()
    ledger = Ledger(operation="ingest")
    run_all(calls, ledger, 3)
    assert ledger.steps["extract"].calls == 3
    [warning] = ledger.warnings
    assert "'full'" in warning
    assert "No space left" in warning
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_hook_that_fails_writes_nothing_and_costs_no_reply(tmp_path: Path) -> None:
    """Not the record as it was either: it is what the hook was to take something out of."""
    path = tmp_path / "trace.jsonl"

    def redact(record: dict[str, Any]) -> dict[str, Any]:
        raise KeyError(record["step"])

    ledger = Ledger()
    run_all(Calls(Paced(), trace=Trace(path, clock=lambda: NOON, redact=redact)), ledger, 1)
    assert "KeyError" in ledger.warnings[0]
    assert not path.exists()


def test_a_trace_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    """Before the first record is in it."""
    path = tmp_path / "trace.jsonl"
    path.touch(mode=0o644)
    path.chmod(0o644)
    run_all(Calls(Paced(), trace=Trace(path, clock=lambda: NOON)), Ledger(), 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@each("told", [10**30, -1, 1.5, float("nan"), "12", True, None])
def test_usage_that_cannot_be_believed_is_estimated(told: Any) -> None:
    """Whatever a model says that it has used can be added up and stored."""

    class Boastful(Paced):
        async def complete(self, request: ChatRequest) -> ChatReply:
            return ChatReply(
                "fine", prompt_tokens=told, completion_tokens=told, cached_tokens=told, retries=told
            )

    ledger = Ledger()
    run_all(Calls(Boastful()), ledger, 1)
    used = ledger.steps["extract"]
    assert used.prompt_tokens == sum(count_tokens(one.content) for one in request().messages)
    assert (used.completion_tokens, used.cached_tokens, used.retries) == (count_tokens("fine"), 0, 0)


@pytest.mark.parametrize("reply", [None, "fine", ChatReply(None)])  # type: ignore[arg-type]
def test_what_is_no_reply_is_refused_by_name(reply: Any) -> None:
    """A model of one's own that returns something else is named."""

    class Odd(Paced):
        async def complete(self, request: ChatRequest) -> ChatReply:
            return reply  # type: ignore[no-any-return]

    with pytest.raises(ModelError):
        asyncio.run(Calls(Odd()).complete(request()))
