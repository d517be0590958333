"""The write path with steps that ask models: together, judged, within budget, and resumable wherever it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import local_reply
from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, said

from memforest import Config, MemForest
from memforest.endpoint import Budget
from memforest.errors import BudgetError, MemForestError, ModelError, ModelRefusedError, ModelUnavailableError
from memforest.memory.forest import AsyncMemForest
from memforest.models.calls import Calls
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.read.results import IngestResult
from memforest.reading.extract_local import LocalExtractor
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import Chunk, ChunkOutcome, Equivalence, SummaryRequest
from memforest.testing import FunctionChat


@dataclass
class Model:
    """A chat model that answers nothing of use after a pause, and can refuse or fail."""

    model_id: str = "model"
    pause_s: float = 0.0
    held: int = 0
    most: int = 0
    count: int = 0
    fail: ModelError | None = None
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when three requests are held."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer, or fail."""
        self.count += 1
        self.held += 1
        if self.held >= 3:
            self.busy.set()
        self.most = max(self.most, self.held)
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.held -= 1
        if self.fail is not None:
            raise self.fail
        return ChatReply("", prompt_tokens=20, completion_tokens=5)


@dataclass
class RemoteExtractor:
    """The local extractor, which pays a model call for every chunk first."""

    calls: Calls
    name: str = "remote-1"
    remote: bool = True
    fails_on: str = ""
    groups: list[int] = field(default_factory=list)
    local: LocalExtractor = field(default_factory=LocalExtractor)

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return what the local extractor finds, or why the call could not be made."""
        self.groups.append(len(chunks))
        return list(await asyncio.gather(*(self._one(chunk) for chunk in chunks)))

    async def _one(self, chunk: Chunk) -> ChunkOutcome:
        try:
            await self.calls.complete(ChatRequest("extract", (Message("user", "read"),)))
        except BudgetError as exc:
            return ChunkOutcome(failure=str(exc), left=True)
        except ModelUnavailableError as exc:
            return ChunkOutcome(failure=str(exc))
        if self.fails_on and any(self.fails_on in turn.text for turn in chunk.turns):
            return ChunkOutcome(failure="the reply is no JSON")
        return self.local.extract_chunk(chunk)


@dataclass
class RemoteSummariser:
    """The local summariser, which pays a model call for every node first."""

    calls: Calls
    name: str = "remote-summary@1:model"
    local: LocalSummariser = field(default_factory=LocalSummariser)

    async def summarise(self, requests: Sequence[SummaryRequest]) -> Sequence[str | ModelError]:
        """Return summaries, with an error where the call could not be made."""
        return await asyncio.gather(*(self._one(request) for request in requests))

    async def _one(self, request: SummaryRequest) -> str | ModelError:
        try:
            await self.calls.complete(ChatRequest("summarise", (Message("user", "sum up"),)))
        except (BudgetError, ModelUnavailableError) as exc:
            return exc
        return (await self.local.summarise([request]))[0]


@dataclass
class Judge:
    """Says that statements are the same when they share a word that was told to it; notes what it is asked."""

    words: tuple[str, ...] = ()
    name: str = "judge"
    asked: list[Equivalence] = field(default_factory=list)
    waves: int = 0

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return the first known statement with one of the words, if the new one has it too."""
        self.waves += 1
        self.asked += questions
        return [self._verdict(question) for question in questions]

    def _verdict(self, question: Equivalence) -> int | None:
        for word in self.words:
            if word in question.statement:
                return next((i for i, known in enumerate(question.known) if word in known), None)
        return None


def config(model: Model, *, in_flight: int = 64, **settings: Any) -> Config:
    """Return a configuration whose extractor and summariser pay for every chunk and node."""
    calls = Calls(model, max_in_flight=in_flight)
    steps = {"extractor": RemoteExtractor(calls), "summariser": RemoteSummariser(calls)}
    return fast_config(**{**steps, **settings})


def judged(folder: Path, judge: Judge, batches: Sequence[Sequence[list[dict[str, Any]]]]) -> MemForest:
    """Return a forest into which batches of sessions went, with a judge of near statements."""
    forest = MemForest(folder, fast_config())
    for steps in (forest._async._pool._steps,):
        object.__setattr__(steps, "judge", judge)
    number = 0
    for batch in batches:
        requests = []
        for turns in batch:
            requests.append({"user_id": "u", "session_id": f"s{number}", "turns": turns})
            number += 1
        assert not [one for one in forest.ingest_parallel(requests) if isinstance(one, MemForestError)]
    return forest


def requests(sessions: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return the requests of a parallel ingest into one memory."""
    return [{"user_id": "u", "session_id": name, "turns": turns} for name, turns in sessions]


def results(found: Sequence[IngestResult | MemForestError]) -> list[IngestResult]:
    """Return the results, of which none may be an error."""
    assert not [one for one in found if isinstance(one, MemForestError)], found
    return [one for one in found if isinstance(one, IngestResult)]


def test_all_chunks_of_all_sessions_are_in_flight_together(folder: Path) -> None:
    """A batch has as many requests under way as it has chunks; one session after the other has fewer."""
    sessions = make_sessions(3, sessions=5, most_turns=8)
    chunks = sum(-(-len(turns) // 2) for _, turns in sessions)
    model = Model(pause_s=0.05)
    with MemForest(folder / "batch", config(model)) as forest:
        done = results(forest.ingest_parallel(requests(sessions)))
    assert model.most >= chunks
    assert done[-1].usage.most_in_flight >= chunks
    assert sum(one.usage.steps["extract"].calls for one in done) == chunks


def test_in_flight_stays_within_the_bound(folder: Path) -> None:
    """However many chunks there are, the model holds no more requests than it may."""
    model = Model(pause_s=0.005)
    with MemForest(folder, config(model, in_flight=3)) as forest:
        results(forest.ingest_parallel(requests(make_sessions(3, sessions=5, most_turns=8))))
    assert model.most == 3


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_makes_what_one_by_one_makes(folder: Path, seed: int) -> None:
    """The same sessions in one call, or in several, end in the same memory."""
    sessions = make_sessions(seed, sessions=5)
    with MemForest(folder / "batch", config(Model())) as forest:
        results(forest.ingest_parallel(requests(sessions)))
    with MemForest(folder / "single", config(Model())) as forest:
        for name, turns in sessions:
            forest.ingest_session("u", name, turns)
    assert differences(dump(file_of(folder / "batch")), dump(file_of(folder / "single"))) == {}


def test_a_session_that_comes_twice_in_a_batch_grows(folder: Path) -> None:
    """A longer version of a session later in the same call is what ends up in memory."""
    short, long = said("I moved to Porto."), said("I moved to Porto.", "I work at Initech.")
    with MemForest(folder, config(Model())) as forest:
        done = results(forest.ingest_parallel(requests([("s", short), ("s", long)])))
        assert [one.turns_added for one in done] == [1, 1]
        assert forest.user("u").stats().turns == 2
        assert forest.user("u").verify().ok


def test_one_bad_request_fails_alone(folder: Path) -> None:
    """A malformed session has its error in its place; the others are stored and read."""
    batch = requests(
        [("a", said("I live in Oslo.")), ("b", [{"speaker": "Ana"}]), ("c", said("I have a dog."))]
    )
    with MemForest(folder, config(Model())) as forest:
        first, second, third = forest.ingest_parallel(batch)
        assert isinstance(second, MemForestError)
        assert isinstance(first, IngestResult)
        assert isinstance(third, IngestResult)
        assert third.facts_inserted > 0


def test_a_chunk_that_fails_is_named_and_tried_again(folder: Path) -> None:
    """The chunk's turns and the reason are in the result; resume reads it when the fault is over."""
    settings = config(Model())
    extractor: Any = settings.extractor
    extractor.fails_on = "Initech"
    turns = said("I live in Oslo.", "I like it.", "I work at Initech.", "It is fine.")
    with MemForest(folder, settings) as forest:
        result = forest.ingest_session("u", "s", turns)
        assert [(one.turn_ids, one.failure) for one in result.failed] == [
            (("2", "3"), "the reply is no JSON")
        ]
        extractor.fails_on = ""
        [again] = forest.resume("u")
        assert any("Initech" in text for text in again.added)
        assert forest.user("u").stats().failed_chunks == 0


def test_a_budget_stops_cleanly_and_says_what_is_left(folder: Path) -> None:
    """So many calls are made, what was read is memory, the rest is named, and resume goes on."""
    sessions = make_sessions(5, sessions=4, most_turns=8)
    model = Model()
    with MemForest(folder / "plain", config(Model())) as forest:
        results(forest.ingest_parallel(requests(sessions), refresh=True))
    with MemForest(folder / "budget", config(model)) as forest:
        done = results(forest.ingest_parallel(requests(sessions), budget=Budget(max_calls=5)))
        assert model.count == 5
        left = sum(len(one.left) for one in done)
        assert left == sum(len(one.chunks) for one in done) - 5
        assert f"budget of 5 calls is used up and these are left: {left} chunks" in " ".join(
            done[-1].warnings
        )
        stats = forest.user("u").stats()
        assert stats.unfinished > 0
        assert stats.failed_chunks == 0
        assert forest.user("u").verify().ok
        forest.resume("u")
        assert forest.user("u").stats().dirty_nodes == 0
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "budget"))) == {}


def test_a_budget_that_ends_in_the_summaries_leaves_dirty_nodes(folder: Path) -> None:
    """Facts are there, and what is not summarised waits for resume; one line says so."""
    sessions = make_sessions(5, sessions=4, most_turns=8)
    chunks = sum(-(-len(turns) // 2) for _, turns in sessions)
    settings = config(Model(), ingest_budget=Budget(max_calls=chunks + 1))
    with MemForest(folder, settings) as forest:
        last = results(forest.ingest_parallel(requests(sessions), refresh=True))[-1]
        assert last.nodes_dirty > 0
        [warning] = last.warnings
        assert f"{last.nodes_dirty} summaries" in warning
        forest.resume("u", budget=Budget())
        assert forest.user("u").stats().dirty_nodes == 0


def test_a_refused_key_loses_nothing(folder: Path) -> None:
    """The error names the fix and what to do; after it resume makes of the turns what it would have been."""
    sessions = make_sessions(7, sessions=3)
    model = Model(fail=ModelRefusedError("the key is refused; set chat.api_key", status=401))
    with MemForest(folder / "plain", config(Model())) as forest:
        results(forest.ingest_parallel(requests(sessions), refresh=True))
    with MemForest(folder / "refused", config(model, in_flight=2)) as forest:
        errors = forest.ingest_parallel(requests(sessions))
        assert all(isinstance(one, ModelRefusedError) for one in errors)
        assert "set chat.api_key" in str(errors[0])
        assert "are stored, and resume()" in str(errors[0])
        assert model.count <= 3
        assert forest.user("u").stats().turns == sum(len(turns) for _, turns in sessions)
        model.fail = None
        forest.resume("u")
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "refused"))) == {}


def test_a_key_that_is_refused_while_summaries_are_made_keeps_the_result(folder: Path) -> None:
    """What was extracted is in the result; the summaries are named as left."""
    refused, fine = Model(fail=ModelRefusedError("the key is refused", status=401)), Model()
    settings = config(fine, summariser=RemoteSummariser(Calls(refused)))
    with MemForest(folder, settings) as forest:
        result = forest.ingest_session("u", "s", said(*["I moved to Oslo."] * 8), refresh=True)
        assert result.facts_inserted > 0
        assert result.nodes_dirty > 0
        assert any("the key is refused" in one for one in result.warnings)


def test_a_cancelled_batch_is_finished_by_resume(folder: Path) -> None:
    """Turns are stored before the first call; a cancelled task leaves no request behind."""
    sessions = make_sessions(9, sessions=4)
    with MemForest(folder / "plain", config(Model())) as forest:
        results(forest.ingest_parallel(requests(sessions), refresh=True))

    async def cancelled() -> None:
        model = Model(pause_s=30)
        async with AsyncMemForest(folder / "cancelled", config(model)) as forest:
            task = asyncio.ensure_future(forest.ingest_parallel(requests(sessions)))
            await asyncio.wait_for(model.busy.wait(), 20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert model.held == 0
            assert (await forest.user("u").stats()).unfinished == len(sessions)

    asyncio.run(cancelled())
    with MemForest(folder / "cancelled", config(Model())) as forest:
        assert forest.user("u").stats().spent["ingest"]["extract"].calls > 0
        forest.resume("u")
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "cancelled"))) == {}


def test_what_was_spent_is_kept_with_the_memory(folder: Path) -> None:
    """`stats` sums over calls what their results say, by operation and step."""
    sessions = make_sessions(3, sessions=4)
    with MemForest(folder, config(Model())) as forest:
        done = results(forest.ingest_parallel(requests(sessions[:2]), refresh=True))
        done += [forest.ingest_session("u", name, turns, refresh=True) for name, turns in sessions[2:]]
        spent = forest.user("u").stats().spent["ingest"]
    for step in ("extract", "summarise"):
        used = [one.usage.steps[step] for one in done if step in one.usage.steps]
        assert spent[step].calls == sum(one.calls for one in used) > 0
        assert spent[step].prompt_tokens == sum(one.prompt_tokens for one in used) > 0
    assert sum(one.usage.model_calls for one in done) == sum(one.calls for one in spent.values())


def test_another_summariser_makes_only_its_rows_stale(folder: Path) -> None:
    """A rebuild of what is stale makes every summary of the other maker anew, and a second one makes none."""
    sessions = make_sessions(3, sessions=4, most_turns=8)
    with MemForest(folder, fast_config()) as forest:
        results(forest.ingest_parallel(requests(sessions), refresh=True))
        before = forest.user("u").stats().makers["summaries"]
    model = Model()
    with MemForest(folder, config(model, extractor=None)) as forest:
        said = "\n".join(forest.user("u").stats().stale)
        assert all(f"{count} summaries were made by {by}" in said for by, count in before.items())
        assert forest.user("u").stale().summaries == sum(before.values())
        forest.rebuild("u", stale=True)
        assert forest.user("u").stats().stale == ()
        assert forest.user("u").stats().makers["summaries"] == {
            "remote-summary@1:model": sum(before.values())
        }
        assert model.count == sum(before.values())
        forest.rebuild("u", stale=True)
        assert model.count == sum(before.values())
        assert forest.user("u").verify().ok


LONG = "grey kitten named Miso from the animal shelter at Harbour Street beside the old bakery and the red church in Porto"
NEAR = (f"I adopted a small {LONG}.", f"I adopted a little {LONG}.")
"""Near by their words, and worded otherwise, so that rules leave them apart."""


def test_a_judge_merges_what_rules_cannot(folder: Path) -> None:
    """The later statement becomes an occurrence of the earlier fact; both wordings are kept."""
    judge = Judge(("Miso",))
    with judged(folder, judge, [[said(NEAR[0])], [said(NEAR[1], day=2)]]) as forest:
        [fact] = forest.user("u").list().facts
        assert len(fact.wordings) == 2
        assert {source.session_id for source in fact.sources} == {"s0", "s1"}
        assert forest.user("u").verify().ok


def test_a_judge_is_asked_once_for_a_whole_batch(folder: Path) -> None:
    """Statements of one call are compared with each other too, in one wave."""
    judge = Judge(("Miso",))
    with judged(folder, judge, [[said(NEAR[0]), said(NEAR[1], day=2)]]) as forest:
        assert len(forest.user("u").list().facts) == 1
        assert judge.waves == 1
        assert [one.statement for one in judge.asked] == [f'Ana: "I adopted a little {LONG}."']


def test_a_judge_that_says_no_leaves_two_facts(folder: Path) -> None:
    """What is not the same stays apart."""
    judge = Judge()
    with judged(folder, judge, [[said(NEAR[0])], [said(NEAR[1], day=2)]]) as forest:
        assert len(forest.user("u").list().facts) == 2
        assert len(judge.asked) == 1


@pytest.mark.parametrize(
    "other",
    [
        f"I never adopted a small {LONG}.",
        f"I adopted a small {LONG} on 3 March 2023.",
        f"I adopted 3 small {LONG}.",
    ],
)
def test_a_judge_is_never_asked_about_what_differs_in_kind(folder: Path, other: str) -> None:
    """Polarity, stated time and numbers make two facts, whatever a model would say."""
    judge = Judge(("Miso",))
    with judged(folder, judge, [[said(NEAR[0])], [said(other, day=2)]]) as forest:
        assert judge.asked == []
        assert len(forest.user("u").list().facts) == 2


def test_a_judge_is_not_asked_about_what_rules_merge(folder: Path) -> None:
    """The same words again need no model."""
    judge = Judge(("Miso",))
    with judged(folder, judge, [[said(NEAR[0])], [said(NEAR[0], day=2)]]) as forest:
        assert judge.asked == []
        assert len(forest.user("u").list().facts) == 1


def test_a_judged_occurrence_can_be_taken_back(folder: Path) -> None:
    """Overwriting the session that said it otherwise leaves the fact as it was first said."""
    judge = Judge(("Miso",))
    with judged(folder, judge, [[said(NEAR[0])], [said(NEAR[1], day=2)]]) as forest:
        forest.ingest_session("u", "s1", said("The weather is nice in Oslo.", day=2), replace=True)
        [fact] = forest.user("u").list(entity="Miso").facts if forest.user("u").list().facts else [None]
        assert fact is not None
        assert fact.wordings in ((), (fact.statement,))
        assert forest.user("u").verify().ok


def test_a_reply_that_was_cut_short_is_kept_and_completed(folder: Path) -> None:
    """Its whole statements are memory at once, the chunk counts as failed, and resume adds the rest and no double."""
    cuts = [True]

    def reply(request: ChatRequest) -> ChatReply:
        text = local_reply(request)
        if request.step == "extract" and cuts:
            cuts.pop()
            return ChatReply(text[: text.rindex('{"quote"') + 30], finish="length")
        return ChatReply(text)

    turns = said("I moved to Porto. I adopted a grey cat named Miso.", "I work at Initech as a nurse.")
    with MemForest(folder / "plain", fast_config(chat=FunctionChat(local_reply))) as forest:
        whole = forest.ingest_session("u", "s", turns)
    with MemForest(folder / "cut", fast_config(chat=FunctionChat(reply))) as forest:
        first = forest.ingest_session("u", "s", turns)
        assert 0 < first.facts_inserted < whole.facts_inserted
        assert "cut short" in str(first.failed[0].failure)
        forest.resume("u")
        assert forest.user("u").stats().failed_chunks == 0
        assert all(len(fact.sources) == 1 for fact in forest.user("u").list().facts)
        assert forest.user("u").stats().occurrences == whole.facts_inserted
        assert forest.user("u").verify().ok
    parts = ["facts", "occurrences", "entities", "mentions", "states", "trees"]
    assert differences(dump(file_of(folder / "plain")), dump(file_of(folder / "cut")), parts) == {}
