"""What holds of the index hmem and of the graph whatever is asked and stored: calls, waves, transactions, scopes, edges, R."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import CountingChat, local_reply, prompt_of
from tests.doubles.blocks import read_data_block
from tests_long import hmems
from tests_long.test_hmem_parts import LINES, NOW, PLAN, QUESTION, Model, answers, asked, explored, with_model
from tests_long.test_hmem_search import asked as searched
from tests_long.test_hmem_search import memories, remember, talk
from tests_long.worlds import file_of

from memforest import AskResult, Budget, MemForest, UserMemory
from memforest.errors import ModelRefusedError, ModelUnavailableError
from memforest.ports import ChatReply, ChatRequest
from memforest.reading.question_parts import parts_of
from memforest.records import QuestionPlan
from memforest.search.scores import robustness
from memforest.store.database import Database
from memforest.text import fold
from memforest.times import DAY_MS

UTC = timezone.utc
KAYAKS = LINES[1][1]


def query_of(request: ChatRequest) -> str:
    """Return the sub-query that a request is about."""
    return str(read_data_block(request.messages[-1].content, "query")[0]["query"])


def chain(length: int, *, each_waits: bool = False) -> dict[str, Any]:
    """Return a plan with as many parts; each may wait for the one before."""
    texts = [
        "Where does Ana work?",
        "What did Ana buy?",
        "Who is the boss of Bob?",
        "What makes Orrin?",
        "Where sleeps the dog of Ana?",
    ]
    return {
        "queries": [
            {"id": str(at), "text": text, "depends_on": [str(at - 1)] if each_waits and at else []}
            for at, text in enumerate(texts[:length])
        ]
    }


def wants_more(query: str) -> dict[str, Any]:
    """Miss something after every part, and ask for it with a name that everybody's evidence has; also after a follow-up."""
    return {
        "answer": "",
        "missing": "the name of the mayor",
        "query": f"Which mayor has a name? {len(query)} Helena",
    }


@pytest.mark.parametrize("parts", [1, 3, 5])
@pytest.mark.parametrize("further", [False, True])
def test_a_question_is_one_plan_one_call_a_part_one_a_follow_up_and_one_answer(
    tmp_path: Path, parts: int, further: bool
) -> None:
    """1 + K + follow-ups + 1 calls, however often a model wants more: a part has one follow-up, and a follow-up none."""
    model = Model(chain(parts), wants_more if further else lambda _: {"answer": "Orrin"})
    with with_model(tmp_path, model) as forest:
        found: AskResult = forest.ask(
            "u", "Where does Ana work, and what of Bob, Orrin and the dog?", index="hmem"
        )
    trace = explored(found.result)
    follow_ups = trace["follow_ups"]["asked"]
    assert follow_ups == (parts if further else 0)
    assert (
        Counter(one.get("follows") for one in trace["sub_queries"] if "follows" in one).total() == follow_ups
    )
    assert all(
        times == 1
        for times in Counter(one.get("follows") for one in trace["sub_queries"] if "follows" in one).values()
    )
    calls = dict(model.chat.calls)
    assert calls.pop("hmem_plan") == 1
    assert calls.pop("hmem_reason") == parts + follow_ups
    assert sum(calls.values()) == 1
    assert not model.chat.repairs.total()
    assert found.usage.model_calls == 1 + parts + follow_ups + 1


def test_the_double_keeps_to_it(tmp_path: Path) -> None:
    """With the local rules as the model, too: as many calls as its trace says."""
    with with_model(tmp_path, Model()) as forest:
        forest.close()
    chat = CountingChat(local_reply)
    with MemForest(
        tmp_path, hmems.configured(clock=lambda: NOW, chat=chat, chat_steps=("plan", "answer"))
    ) as forest:
        found: AskResult = forest.ask("u", "What do Ana and Bob both do?", index="hmem")
    trace = explored(found.result)
    parts = [one for one in trace["sub_queries"] if "follows" not in one]
    assert len(parts) == 2
    assert chat.calls.total() == 1 + len(parts) + trace["follow_ups"]["asked"] + 1


class Gate:
    """A model whose answers about some parts come only when as many of them have been asked at once."""

    model_id = "gate"

    def __init__(self, plan: Any, together: tuple[str, ...]) -> None:
        self.plan, self.together = plan, together
        self.waiting: set[str] = set()
        self.events: list[tuple[str, str]] = []
        self.all_there = asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the plan, or an answer once the others are there; without them, nothing after a while."""
        prompt = prompt_of(request)
        if prompt == "hmem_plan":
            return ChatReply(json.dumps(self.plan))
        if prompt != "hmem_reason":
            return ChatReply(local_reply(request))
        query = query_of(request)
        self.events.append(("begin", query))
        if query in self.together:
            self.waiting.add(query)
            if self.waiting == set(self.together):
                self.all_there.set()
            try:
                await asyncio.wait_for(self.all_there.wait(), 5)
            except asyncio.TimeoutError:
                raise ModelUnavailableError("the others were not asked at once") from None
        self.events.append(("end", query))
        return ChatReply(json.dumps({"answer": "Orrin"}))


def test_parts_that_wait_for_nothing_are_asked_at_once_and_others_behind_them(tmp_path: Path) -> None:
    """Three calls are under way together; the part that needs one of them begins when it has ended."""
    plan = {
        "queries": [
            {"id": "d", "text": "What does that employer make?", "depends_on": ["a"]},
            *chain(3)["queries"],
        ]
    }
    plan["queries"][1]["id"] = "a"
    texts = tuple(one["text"] for one in plan["queries"][1:])
    gate = Gate(plan, texts)
    with with_model(tmp_path, Model()):
        pass
    config = hmems.configured(clock=lambda: NOW, chat=gate, chat_steps=("plan", "answer"))
    with MemForest(tmp_path, config) as forest:
        found = asked(forest, "Where does Ana work, and what of Bob and what was bought?")
    assert not found.warnings
    assert {one["answer"] for one in explored(found)["sub_queries"]} == {"Orrin"}
    assert {query for kind, query in gate.events[:3] if kind == "begin"} == set(texts)
    begun = gate.events.index(("begin", plan["queries"][0]["text"]))
    assert begun > gate.events.index(("end", texts[0]))


class Watch:
    """How many transactions are open, how many there were, and how many were when a model was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[str] = []
        self.opened = Counter[str]()
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        for kind in ("read", "write"):
            monkeypatch.setattr(Database, kind, self._counted(kind))

    def _counted(self, kind: str) -> Callable[..., Any]:
        whole = getattr(Database, kind)

        @contextmanager
        def inside(database: Database) -> Iterator[Any]:
            with whole(database) as tx:
                self.open.append(kind)
                self.opened[kind] += 1
                try:
                    yield tx
                finally:
                    self.open.pop()

        return inside

    def chat(self, reply: Callable[[ChatRequest], str]) -> CountingChat:
        """Return a model that replies so, and notes what is open."""

        def noting(request: ChatRequest) -> str:
            self.asked.append((str(prompt_of(request)), tuple(self.open)))
            return reply(request)

        return CountingChat(noting)


def test_nothing_is_asked_while_a_transaction_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the plan, nor a part, nor a follow-up, nor the answer: each part waits for the one before here."""
    model = Model(chain(3, each_waits=True), wants_more)
    with with_model(tmp_path, model) as forest:
        forest.close()
    watch = Watch(monkeypatch)
    config = hmems.configured(
        clock=lambda: NOW, chat=watch.chat(model._answer), chat_steps=("plan", "answer")
    )
    with MemForest(tmp_path, config) as forest:
        forest.ask("u", "Where does Ana work, and what of the boss?", index="hmem")
    assert Counter(prompt for prompt, _ in watch.asked)["hmem_reason"] == 6
    assert [one for one in watch.asked if one[1]] == []
    assert watch.opened["read"] > len(watch.asked)


def test_no_memory_and_no_profile_is_written_while_a_transaction_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where a question needs memories that are out of date, nor where a profile is wanted."""
    watch = Watch(monkeypatch)
    own = {"schedule": (0.3, 0.2, 0.1)}
    config = hmems.configured(
        own,
        clock=lambda: NOW,
        chat=watch.chat(local_reply),
        chat_steps=("summarise",),
        refresh="lazy",
    )
    with MemForest(tmp_path, config) as forest:
        for session, turns in talk(7, 3).items():
            forest.ingest_session("u", session, turns)
        before = len(watch.asked)
        assert memories(searched(forest, "What did Ana buy?", scope="long"))
        memory = forest.user("u")
        assert memory.profile("Ana", written=True)
    made = Counter(prompt for prompt, _ in watch.asked[before:])
    assert set(made) == {"hmem_memory", "hmem_profile"}
    assert [one for one in watch.asked if one[1]] == []


@pytest.mark.parametrize("error", [ModelUnavailableError("gone"), ModelRefusedError("key")])
@pytest.mark.parametrize("failing", ["hmem_plan", "hmem_reason", "hmem_answer"])
def test_a_step_that_fails_is_done_by_its_local_form_and_said(
    tmp_path: Path, failing: str, error: Any
) -> None:
    """The evidence is there all the same; the trace names who did the step, and a warning why."""

    def reply(request: ChatRequest) -> str:
        if prompt_of(request) == failing:
            raise error
        return model._answer(request)

    model = Model(reasons=lambda query: {"answer": "Orrin"} if "work" in query else {"answer": ""})
    with with_model(tmp_path, model) as forest:
        forest.close()
    config = hmems.configured(clock=lambda: NOW, chat=CountingChat(reply), chat_steps=("plan", "answer"))
    with MemForest(tmp_path, config) as forest:
        found: AskResult = forest.ask("u", QUESTION, index="hmem")
    trace, said = explored(found.result), " ".join(found.result.warnings)
    assert found.result.evidence
    assert str(error) in said
    if failing == "hmem_plan":
        assert trace["planner"] == "rules"
        assert "taken apart by rules" in said
    elif failing == "hmem_reason":
        assert all("answer" not in one for one in trace["sub_queries"])
        assert said.count("was not answered by itself") == 3
    else:
        assert found.result.trace["answerer"].startswith("local")
        assert "the local answerer answered" in said


@pytest.mark.parametrize("most", range(7))
def test_the_budget_of_the_configuration_bounds_all_of_it(tmp_path: Path, most: int) -> None:
    """Plan, parts, follow-ups and answer together: never a call more, and always evidence; what was left is said."""
    model = Model(PLAN, answers)
    with with_model(tmp_path, model) as forest:
        forest.close()
    config = hmems.configured(
        clock=lambda: NOW, chat=model.chat, chat_steps=("plan", "answer"), query_budget=Budget(max_calls=most)
    )
    with MemForest(tmp_path, config) as forest:
        found: AskResult = forest.ask("u", QUESTION, index="hmem")
    assert model.chat.calls.total() == min(most, 5)
    assert found.result.evidence
    assert bool(found.result.warnings) == (most < 5)


@pytest.mark.parametrize("seed", [11, 12])
def test_short_has_no_memory_and_long_no_turn_by_itself(tmp_path: Path, seed: int) -> None:
    """Of random talk, whatever part or moment is asked about, and with every way of looking; MIXED has both kinds.

    MIXED comes first: it has the memories written, so that SHORT could find them.
    """
    random, said = Random(seed), talk(seed, 10)
    kinds: dict[str, set[str]] = {"mixed": set(), "long": set(), "short": set()}
    with remember(tmp_path, said) as forest:
        for scope, seen in kinds.items():
            for question in (
                "What did Ana buy?",
                "What do Ana and Bob both own?",
                "What about the lamp?",
                "river",
            ):
                how: dict[str, Any] = {"similarity_of": random.choice(("fused", "cosine"))}
                how["reach"] = random.choice(("all", "graph"))
                if random.random() < 0.4:
                    how["as_of"] = datetime(2024, 3, 1, tzinfo=UTC) + timedelta(days=random.randint(40, 130))
                found = searched(forest, question, scope=scope, **how)
                seen |= {one.kind for one in found.evidence}
                if scope == "long":
                    assert all(one.fact_id for one in found.evidence if one.kind != "memory")
    assert "memory" not in kinds["short"]
    assert "turn" not in kinds["long"]
    assert kinds["mixed"] == {"turn", "fact", "memory"}


def test_the_scope_of_each_part_holds_for_what_it_brings(tmp_path: Path) -> None:
    """Two parts of one question: what only the LONG one reaches is never a turn by itself, and no memory comes by the SHORT one."""
    said = talk(5, 8)
    plan = {
        "queries": [
            {"id": "s", "text": "What did Ana buy for the river?", "scope": "short"},
            {"id": "l", "text": "What did Bob buy for the garden?", "scope": "long"},
        ]
    }
    for kept, wrong in (("s", "memory"), ("l", "turn")):
        only = {"queries": [one for one in plan["queries"] if one["id"] == kept]}
        model = Model(only)
        folder = tmp_path / kept
        with remember(folder, said, chat=model.chat, chat_steps=("plan", "answer")) as forest:
            assert memories(
                searched(forest, "What did Ana buy?", scope="mixed", planner="off", follow_up="off")
            )
            found = searched(forest, "What did Ana and Bob buy for the river and the garden?")
            assert found.evidence
            assert wrong not in {one.kind for one in found.evidence}
    model = Model(plan)
    with remember(tmp_path / "both", said, chat=model.chat, chat_steps=("plan", "answer")) as forest:
        both = searched(forest, "What did Ana and Bob buy for the river and the garden?")
    assert {one.kind for one in both.evidence} == {"turn", "fact", "memory"}
    assert memories(both)


TOLD = (
    "I live in Porto with my sister Lucía.",
    "Lucia works at Orrin Labs.",
    "Tomas Arlen visited Porto.",
    "Tom Arlen plays the cello at Orrin Labs.",
    "ORRIN LABS is in Porto.",
    "I visited Bergen with Tomas Arlen and Rex.",
    "My dog is called Rex.",
    "I moved to Lisbon.",
    "Lisbet works at Orrin Labs.",
    "Dr. Arlen met Lucía in Lisbon.",
)


def tell(forest: MemForest, seed: int) -> UserMemory:
    """Store the lines in an order of their own, some twice, in small sessions."""
    random = Random(seed)
    lines = [*TOLD, *random.sample(TOLD, 4)]
    random.shuffle(lines)
    for at in range(0, len(lines), 3):
        turns = [
            {
                "speaker": random.choice(("Mara", "Iven")),
                "content": line,
                "timestamp": (
                    datetime(2024, 1, 5, tzinfo=UTC) + timedelta(days=3 * at, minutes=i)
                ).isoformat(),
            }
            for i, line in enumerate(lines[at : at + 3])
        ]
        forest.ingest_session("u", f"s{at}", turns)
    return forest.user("u")


def held(memory: UserMemory) -> set[tuple[str, str]]:
    """Return the turns that there are."""
    return {(one.session_id, turn.id) for one in memory.sessions() for turn in memory.turns(one.session_id)}


def graph_is_sound(memory: UserMemory, folder: Path) -> int:
    """Check edges, relations, names and events against what is stored; return how many relations there are."""
    turns = held(memory)
    entities = list(memory.entities())
    keys = [each for one in entities for each in {(fold(name), one.kind) for name in one.names}]
    assert len(keys) == len(set(keys))
    relations = [one for each in entities for one in memory.relations(each.name)]
    for one in entities:
        own = [(each.source, each.label.casefold(), each.target) for each in memory.relations(one.name)]
        assert len(own) == len(set(own))
    for found in relations:
        behind = {(source.session_id, turn) for source in found.sources for turn in source.turn_ids}
        assert behind
        assert behind <= turns
        assert found.weight >= 1
        assert found.source != found.target
    picture = memory.graph()
    named = [node.name for node in picture.nodes]
    for edge in picture.edges:
        (step,) = memory.path(named[edge.source], named[edge.target], hops=1)
        if edge.kind != "overlap":
            assert {(at.session_id, turn) for at in step.sources for turn in at.turn_ids} <= turns
            assert step.sources
    hmems.sound(memory, folder)
    return len(relations)


@pytest.mark.parametrize("seed", range(3))
def test_every_edge_and_event_has_a_turn_and_is_there_once(tmp_path: Path, seed: int) -> None:
    """Also when turns have gone, and when people have joined names and set them apart."""
    random = Random(seed)
    with MemForest(tmp_path, hmems.configured()) as forest:
        memory = tell(forest, seed)
        assert graph_is_sound(memory, tmp_path) > 3
        memory.merge_entities("Rex", "Bergen")
        graph_is_sound(memory, tmp_path)
        session = random.choice(memory.sessions()).session_id
        forest.delete_turn("u", session, memory.turns(session)[0].id)
        forest.delete_session("u", random.choice(memory.sessions()).session_id)
        graph_is_sound(memory, tmp_path)


def test_names_that_look_alike_lead_to_each_other_and_are_no_names_of_each_other(tmp_path: Path) -> None:
    """A repair edge changes no name: with and without it every entity has the names that it was told by."""
    lines = ("Samuel Okoro rows.", "Samantha Lind rows.", "Sam paints.")
    with MemForest(tmp_path, hmems.configured()) as forest:
        for at, line in enumerate(lines):
            forest.ingest_session(
                "u", str(at), [{"speaker": "Mara", "content": line}], timestamp="2024-01-01"
            )
        memory = forest.user("u")
        overlaps = [edge for edge in memory.graph().edges if edge.kind == "overlap"]
        assert len(overlaps) == 2
        assert {frozenset(one.names) for one in memory.entities()} == {
            frozenset({name}) for name in ("Mara", "Samuel Okoro", "Samantha Lind", "Sam")
        }
        assert not any(one.decisions for one in memory.entities())
        assert not memory.relations("Sam")
        with closing(sqlite3.connect(file_of(tmp_path))) as db:
            kept = "SELECT (SELECT count(*) FROM alias WHERE key = 'sam') + (SELECT count(*) FROM alias_use WHERE key = 'sam')"
            assert db.execute(kept).fetchone() == (0,)


@given(
    st.lists(st.integers(0, 4_000_000), min_size=2, max_size=6, unique=True),
    st.lists(st.integers(0, 5000), min_size=2, max_size=6, unique=True),
    st.sampled_from((0.01, 1.0, 365.0, 36500.0)),
    st.sampled_from((0.0, 0.5, 3.0)),
)
def test_what_has_held_is_above_0_falls_with_age_and_rises_with_n(
    ages: list[int], times: list[int], decay: float, gain: float
) -> None:
    """Of any age up to the year 9999 and beyond, and for the clock that is wrong."""
    at = 4_000_000 * DAY_MS
    last = at - np.sort(np.array(ages, dtype=np.int64)) * DAY_MS
    by_age = robustness(last, np.full(len(last), times[0]), at, decay_days=decay, reinforcement=gain)
    assert ((by_age > 0) & (by_age <= 1)).all()
    assert (np.diff(by_age) <= 0).all()
    often = np.sort(np.array(times, dtype=np.int64))
    by_times = robustness(np.full(len(often), last[-1]), often, at, decay_days=decay, reinforcement=gain)
    assert (np.diff(by_times) >= 0).all()
    default = robustness(at - np.array([1, 2, 3]) * 100 * DAY_MS, np.array([0, 0, 0]), at)
    assert (np.diff(default) < 0).all()
    assert (np.diff(robustness(np.full(3, at - 100 * DAY_MS), np.array([0, 1, 2]), at)) > 0).all()
    assert robustness(np.array([at + DAY_MS]), np.array([0]), at).tolist() == [1.0]


@given(st.integers(1, 60))
def test_never_more_parts_than_are_allowed(people: int) -> None:
    """Sixty people who are put side by side are one question."""
    names = tuple(f"Q{chr(97 + at // 26)}{chr(97 + at % 26)}o" for at in range(people))
    plan = QuestionPlan(mentions=names, entities=names)
    listed = ", ".join(names[:-1]) + f" and {names[-1]}" if people > 1 else names[0]
    parts = parts_of(plan, f"What do {listed} both collect?")
    assert len(parts) == (people if people <= 5 else 1)
