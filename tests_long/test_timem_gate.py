"""The planner and the gate of a recall: what a model is asked, what its failures cost, and what the rules drop."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import CountingChat, local_reply, prompt_of
from tests.doubles.blocks import read_data_block
from tests_long.test_timem_recall import NOW, Teller, memories, remembered, talk
from tests_long.timems import configured
from tests_long.writing_double import Writer

from memforest import Budget, ConfigError, MemForest, Ranking
from memforest.config import Recall
from memforest.errors import ModelError, ModelUnavailableError
from memforest.ports import ChatRequest
from memforest.read.results import QueryResult
from memforest.records import SummaryRequest

UTC = timezone.utc
QUESTION = "How many lamps did Ana buy?"
STEPS = ("plan", "sift")


def asked(forest: MemForest, question: str = QUESTION, *, top_k: int = 900, **how: Any) -> QueryResult:
    """Return what a recall brings."""
    return forest.query("u", question, top_k=top_k, ranking=Ranking(recall=Recall(**how)))


def again(folder: Path, chat: CountingChat) -> MemForest:
    """Open a memory that `remembered` made, with a chat model."""
    own = {"pass_through": False}
    return MemForest(
        folder, configured(own, summariser=Teller(), clock=lambda: NOW, chat=chat, chat_steps=STEPS)
    )


def saying(prompt: str, *replies: Any) -> Callable[[ChatRequest], str]:
    """Return a model that answers one prompt with replies, the last of them again and again, and others by rules."""
    left = list(replies)

    def answer(request: ChatRequest) -> str:
        if prompt_of(request) != prompt:
            return local_reply(request)
        reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, str) else json.dumps(reply)

    return answer


def rows_of(request: ChatRequest, block: str) -> list[dict[str, Any]]:
    """Return the rows of a block of data of a request."""
    return list(read_data_block(request.messages[-1].content, block))


def test_a_question_costs_two_calls(folder: Path) -> None:
    """One plan, one gate, of all that was found; the plan is the model's, and so is what is kept."""
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        seen.append(request)
        if prompt_of(request) == "timem_plan":
            return json.dumps({"complexity": 2, "keywords": ["violin"]})
        return json.dumps({"relevant": [2, 1]})

    chat = CountingChat(answer)
    with remembered(folder, talk(1, sessions=20), chat=chat, chat_steps=STEPS) as forest:
        plain = asked(forest, planner="off", gate="off", complexity=2)
        assert not chat.calls
        found = asked(forest)
        assert dict(chat.calls) == {"timem_plan": 1, "timem_gate": 1}
        assert (found.plan.complexity, found.plan.keywords) == ("complex", ("violin",))
        assert found.trace["recall"]["planner"] == "model"
        shown = rows_of(seen[1], "memories")
        assert len(shown) == len(plain.evidence) == found.trace["gate"]["candidates"]
        levels = [row["level"] for row in shown]
        assert levels == sorted(levels, key=("segment", "session", "day", "week", "profile").index), (
            "by level"
        )
        assert len(found.evidence) == found.trace["gate"]["kept"] == 2
        said = {one.quote for one in found.evidence}
        assert all(any(quote in row["text"] for row in shown[:2]) for quote in said)
        narrow = asked(forest, top_k=1)
        assert len(rows_of(seen[-1], "memories")) == len(shown), "the gate sees what is behind the cut"
        assert len(narrow.evidence) == 1
        asked(forest, complexity=1)
    assert chat.calls["timem_plan"] == 2, "where the complexity is given nobody has to plan"
    assert not chat.repairs.total()


def test_an_unusable_reply_is_asked_for_once_more(folder: Path) -> None:
    """Of the planner and of the gate alike; the second reply counts."""
    chat = CountingChat(saying("timem_plan", "hm", {"complexity": 0, "keywords": []}))
    with remembered(folder, talk(1), chat=chat, chat_steps=STEPS) as forest:
        found = asked(forest)
        assert (found.plan.complexity, chat.calls["timem_plan"], chat.calls["timem_gate"]) == ("simple", 2, 1)
        assert found.plan.keywords, "those of the question where the model has none"
        assert not any("plan" in one for one in found.warnings)
    chat = CountingChat(saying("timem_gate", {"relevant": [999]}, {"relevant": [1, 999, 1]}))
    with again(folder, chat) as forest:
        found = asked(forest)
        assert (chat.calls["timem_plan"], chat.calls["timem_gate"]) == (1, 2)
        assert len(found.evidence) == 1, (
            "an id that does not exist, and one that comes twice, count for nothing"
        )


@pytest.mark.parametrize(
    "reply", ["hm", "", {"complexity": 7, "keywords": []}, ModelUnavailableError("it is down")]
)
def test_a_plan_that_fails_is_made_by_rules(folder: Path, reply: Any) -> None:
    """At the cost of one retry at most, and with a warning; the gate is asked all the same."""
    chat = CountingChat(saying("timem_plan", reply))
    with remembered(folder, talk(1), chat=chat, chat_steps=STEPS) as forest:
        found = asked(forest)
    assert found.plan.complexity == "hybrid", "as the rules have it"
    assert any("was told by rules" in one for one in found.warnings)
    assert chat.calls["timem_plan"] <= 2
    assert chat.calls["timem_gate"] == 1
    assert found.trace["recall"]["planner"] == "rules"


@pytest.mark.parametrize("reply", ["hm", {"relevant": [901, 902]}, {"relevant": "all"}])
def test_a_gate_that_fails_keeps_all(folder: Path, reply: Any) -> None:
    """With a warning, after one retry."""
    chat = CountingChat(saying("timem_gate", reply))
    with remembered(folder, talk(1), chat=chat, chat_steps=STEPS) as forest:
        found = asked(forest, complexity=1)
        plain = asked(forest, complexity=1, gate="off")
    assert chat.calls["timem_gate"] == 2
    assert [one.text for one in found.evidence] == [one.text for one in plain.evidence]
    assert any("all that was recalled is kept" in one for one in found.warnings)
    assert found.trace["gate"]["by"] == "nobody"


@pytest.mark.parametrize(("turns", "kept"), [(1, 1), (2, 2), (3, 3), (5, 5), (6, 5), (9, 5)])
def test_a_gate_that_keeps_nothing(folder: Path, turns: int, kept: int) -> None:
    """Leaves the best five of three or more, and all of fewer."""
    said = [
        {"speaker": "Ana", "content": f"I bought lamp {at}.", "timestamp": NOW - timedelta(days=1)}
        for at in range(turns)
    ]
    chat = CountingChat(saying("timem_gate", {"relevant": []}))
    with remembered(folder, {"s": said}, chat=chat, chat_steps=STEPS) as forest:
        found = asked(forest, complexity=1, levels=(1,))
        plain = asked(forest, complexity=1, levels=(1,), gate="off")
    assert len(plain.evidence) == turns
    assert [one.text for one in found.evidence] == [one.text for one in plain.evidence][:kept]
    assert chat.calls["timem_gate"] == 1
    assert not any("gate" in one for one in found.warnings)


def test_a_budget_that_is_spent_costs_the_plan_and_the_gate_and_not_the_answer(folder: Path) -> None:
    """Rules plan, and all is kept; one call is the planner's."""
    chat = CountingChat()
    with remembered(folder, talk(1), chat=chat, chat_steps=STEPS) as forest:
        for most, calls in ((0, {}), (1, {"timem_plan": 1})):
            chat.calls.clear()
            found = forest.query("u", QUESTION, top_k=900, budget=Budget(max_calls=most))
            assert dict(chat.calls) == calls
            assert found.evidence
            assert any("all that was recalled is kept" in one for one in found.warnings)


def test_who_is_asked_for_has_to_be_there(folder: Path) -> None:
    """A model is named where it is missing; rules and nobody ask none although there is one."""
    with remembered(folder, talk(1)) as forest:
        wanted: list[dict[str, Any]] = [{"planner": "model"}, {"gate": "model"}]
        for how, name in zip(wanted, ("planner", "gate"), strict=True):
            with pytest.raises(ConfigError, match=rf"Recall\({name}='model'\) needs a chat model"):
                asked(forest, **how)
    chat = CountingChat()
    with again(folder, chat) as forest:
        for who in ("rules", "off"):
            assert asked(forest, planner=who, gate=who).evidence
        assert not chat.calls
        asked(forest, planner="model", gate="model", complexity=0)
        assert dict(chat.calls) == {"timem_plan": 1, "timem_gate": 1}


def day(number: int, *texts: str, month: int = 5) -> list[dict[str, Any]]:
    """Return what Ana says on a day."""
    begun = datetime(2024, month, number, 9, tzinfo=UTC)
    return [
        {"speaker": "Ana", "content": text, "timestamp": begun + timedelta(minutes=at)}
        for at, text in enumerate(texts)
    ]


class Quoting(Writer):
    """Writes what it was given, word by word, and of each month one sentence more."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the texts."""
        await super().summarise(requests)
        more = {"profile": " Much happened."}
        return [" ".join(one.inputs) + more.get(one.prompt, "") for one in requests]


def test_what_is_said_already_is_dropped(folder: Path) -> None:
    """A memory each sentence of which stands in what is kept; one that says one sentence more stays. Turns are never dropped so."""
    said = {
        "a": day(6, "I bought a red lamp.", "The oven is new."),
        "b": day(20, "I bought a blue lamp.", "It rains."),
    }
    with remembered(folder, said, summariser=Quoting()) as forest:
        everything = asked(forest, gate="off", complexity=2)
        assert {one.level for one in memories(everything)} == {1, 2, 3, 4}
        found = asked(forest, gate="rules", complexity=2)
        turns = {one.text for one in everything.evidence if one.kind != "memory"}
        assert {one.text for one in found.evidence if one.kind != "memory"} == turns
        left = memories(found)
        assert {one.level for one in left} <= {4}, "the month alone may say more than its turns"
        texts = asked(forest, gate="rules", complexity=2, levels=(2, 3, 4, 5))
        assert texts.evidence, "without turns something is left that says it"
        told = " ".join(one.text for one in texts.evidence)
        assert "red lamp" in told
        assert "blue lamp" in told
        assert len(texts.evidence) < len(memories(everything))


def test_what_has_ended_is_dropped_unless_the_question_asks_for_then(folder: Path) -> None:
    """Of a question for one fact as it is now; a question for a time, a count or a person gets it."""
    said = {
        "a": day(6, "I live in Porto.", "The oven is new."),
        "b": day(20, "I live in Oslo now.", "It rains."),
        "c": day(2, "I live in Kyoto now.", "The lamp is red.", month=7),
    }
    with remembered(folder, said) as forest:

        def cities(question: str, **how: Any) -> set[str]:
            found = asked(forest, question, **{"planner": "rules", "gate": "rules", "levels": (1,), **how})
            return {
                city for city in ("Porto", "Oslo", "Kyoto") if any(city in one.text for one in found.evidence)
            }

        every = {"Porto", "Oslo", "Kyoto"}
        assert cities("Where does Ana live?", gate="off") == every
        assert cities("Where does Ana live?") == {"Kyoto"}
        assert cities("Where did Ana live in May 2024?") >= {"Porto", "Oslo"}
        assert cities("Where did Ana live before Oslo?") == every
        assert cities("Where does Ana live?", complexity=1) == every


def test_what_is_far_below_the_best_is_dropped_but_never_everything(folder: Path) -> None:
    """The nearest few stay whatever their score, fewer the less a question needs; the best stays at its place."""
    said = {
        f"s{at:02}": day(at + 1, f"I bought lamp number {at}." if at < 3 else f"The sea was calm {at}.")
        for at in range(28)
    }
    with remembered(folder, said) as forest:
        counts = []
        for complexity in (0, 1, 2):
            how: dict[str, Any] = {"complexity": complexity, "levels": (1,)}
            plain = asked(forest, "Which lamp did Ana buy?", gate="off", **how).evidence
            found = asked(forest, "Which lamp did Ana buy?", gate="rules", **how).evidence
            assert {one.text for one in found} <= {one.text for one in plain}
            assert found[0].text == plain[0].text
            assert sum("lamp" in one.text for one in found) == 3
            counts.append((len(plain), len(found)))
        assert [plain for plain, _ in counts] == [20, 20, 20]
        assert 3 <= counts[0][1] < counts[1][1] <= counts[2][1] <= 20
        nothing = asked(forest, "zebra xylophone", gate="rules", complexity=0, levels=(1,))
        assert nothing.evidence


def test_a_hybrid_question_keeps_all_that_tells_a_time(folder: Path) -> None:
    """However far from the best; a simple question does not."""
    said = {f"s{at:02}": day(at + 1, f"I bought lamp number {at}.") for at in range(14)}
    said |= {f"t{at:02}": day(at + 20, f"The sea was calm on 4 March 2021, {at} waves.") for at in range(5)}
    with remembered(folder, said) as forest:
        dated = [
            sum(
                "March" in one.text
                for one in asked(
                    forest, "Which lamp did Ana buy?", complexity=grade, levels=(1,), gate=gate
                ).evidence
            )
            for gate in ("off", "rules")
            for grade in (0, 1)
        ]
    assert dated == [5, 5, 0, 5]
