"""What `--explain` tells of a question, what several indexes are called, and how pairs and doctors' checks are read."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import click
import pytest
from rich.console import Console
from tests.table import each

from memforest import ChatEndpoint, Config, EmbeddingEndpoint
from memforest.cli.asking import _draw_ask, _draw_search
from memforest.cli.call import read_pairs
from memforest.cli.doctor import chat_checks, embedding_checks
from memforest.cli.screen import Screen
from memforest.read.results import AskResult, QueryResult, Usage
from memforest.records import QuestionPlan, StepUsage

UTC = timezone.utc
MARCH = datetime(2024, 3, 1, 9, tzinfo=UTC)
QUIET: dict[str, Any] = {
    "trees": (), "filters": {"as_of": None, "during": None, "turns_kept": 0, "turns": 0, "facts_kept": 0, "facts": 0},
    "time_order": None, "rerank": None,
    "propagation": None,
}  # fmt: skip


def explained(plan: QuestionPlan | None = None, *, usage: Usage | None = None, **why: Any) -> list[str]:
    """Return the lines that are drawn of a question of which this is told."""
    trace = {"explain": {**QUIET, **why}}
    result = QueryResult(
        "Where?", (), plan or QuestionPlan(), MARCH, "memforest", usage or Usage(), trace=trace
    )
    out = io.StringIO()
    screen = Screen(UTC, Console(file=out, width=400, markup=False, emoji=False), laid_out=True)
    _draw_search(screen, result, explain=True)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_plain_question_has_a_plain_plan() -> None:
    """Its kind, what "now" is, and the index; what is not so is not told."""
    plan, *rest = explained()
    assert plan == f"asks {QuestionPlan().kind}; now is 2024-03-01; index memforest"
    assert rest == [""], "no step has a time, and nothing was done besides"


@each(
    ("changed", "said"),
    [
        ({"entities": ("Ana", "Bo\x1b")}, "about Ana, Bo"),
        ({"attribute": "residence"}, "attribute residence"),
        ({"anchor": "the wedding"}, "relative to the wedding"),
        ({"as_of": MARCH - timedelta(days=2)}, "as of 2024-02-28"),
        ({"start": MARCH, "end": MARCH + timedelta(days=3)}, "in 2024-03-01 to 2024-03-04"),
        ({"start": MARCH}, "in since 2024-03-01"),
    ],
)
def test_the_plan_tells_how_the_question_was_read(changed: dict[str, Any], said: str) -> None:
    """Each part that was found, by its name."""
    parts = explained(replace(QuestionPlan(), **changed))[0].split("; ")
    assert said in parts
    assert len(parts) == 4


@each(
    ("why", "line"),
    [
        ({"trees": (("entity Ana", 0.876), ("session s", -0.5))}, "trees: entity Ana 0.88, session s -0.50"),
        ({"time_order": {"why": "it asks for the last", "turns": 3}}, "time order: it asks for the last; 3 turns lead"),
        ({"rerank": {"model": "ms@1", "candidates": 40}}, "rerank: ms@1 read 40 candidates"),
        ({"propagation": {"scorer": "fused", "policy": "top-down", "alpha": 0.1, "horizon": 2}},
         "propagation: top-down of fused relevance, alpha 0.1, horizon 2"),
        ({"filters": {**QUIET["filters"], "as_of": "x", "turns_kept": 1, "turns": 4, "facts_kept": 2, "facts": 5}},
         "time filter: kept 1 of 4 turns and 2 of 5 facts"),
        ({"filters": {**QUIET["filters"], "during": ("x", "y")}}, "time filter: kept 0 of 0 turns and 0 of 0 facts"),
    ],
)  # fmt: skip
def test_what_was_done_to_the_ranking_is_a_line_each(why: dict[str, Any], line: str) -> None:
    """And no line for what was not done."""
    assert explained(**why)[1:] == [line, ""]


GUIDE = {"name": "plan@1:double", "kind": "", "anchor": "", "failure": ""}


@each(
    ("changed", "line"),
    [
        ({}, "guide: plan@1:double: sub-queries"),
        ({"kind": "change"}, "guide: plan@1:double: kind change"),
        ({"kind": "change", "anchor": "May"}, "guide: plan@1:double: kind change; anchor May"),
        ({"kind": "change", "failure": "no JSON\n"}, "guide: plan@1:double: no plan: no JSON"),
    ],
)
def test_the_guide_tells_what_it_took_or_why_not(changed: dict[str, str], line: str) -> None:
    """A plan that failed has no parts."""
    assert explained(guide={**GUIDE, **changed}, mode="llm+planner", browse=())[1:] == [line, ""]


def test_browsing_is_told_tree_by_tree() -> None:
    """The calls together first, then each tree with what was looked for in it, and why it fell back."""
    one = {
        "title": "entity Ana",
        "mode": "llm",
        "calls": 2,
        "levels": 3,
        "leaves": 4,
        "queries": ("a", "b\x1b"),
        "fallback": "",
    }
    two = {**one, "title": "session s", "mode": "emb", "calls": 1, "queries": ("c",), "fallback": "no JSON"}
    assert explained(guide=None, mode="llm", browse=(one, two))[1:] == [
        "browse: llm, 3 calls, 1 of 2 trees by the model",
        "entity Ana: llm, 2 calls, 3 levels, 4 leaves, for a | b",
        "session s: emb, 1 calls, 3 levels, 4 leaves, for c; no JSON",
        "",
    ]  # fmt: skip


def test_what_was_spent_and_how_long_it_took_come_last() -> None:
    """Calls and tokens where a model was asked; of each step whole milliseconds."""
    spent = Usage(
        ms={"plan": 1.4, "rank": 12.6}, steps={"plan": StepUsage(2, prompt_tokens=30, completion_tokens=4)}
    )
    assert explained(usage=spent)[1:] == [
        "2 model calls, 30 prompt and 4 completion tokens",
        "plan 1 ms, rank 13 ms",
    ]
    assert explained(usage=Usage(ms={"rank": 0.2}))[1:] == ["rank 0 ms"]


def test_an_explained_answer_counts_question_and_answer_together() -> None:
    """And names who answered, if somebody did."""
    found = QueryResult("Where?", (), QuestionPlan(), MARCH, "memforest", Usage(ms={"rank": 1.0}),
                        trace={"explain": QUIET, "answerer": "answer@1:double"})  # fmt: skip
    result = AskResult(
        "Where?", None, (), "nobody said so", found, usage=Usage(ms={"rank": 1.0, "answer": 2.0})
    )
    out = io.StringIO()
    _draw_ask(Screen(UTC, Console(file=out, width=200), laid_out=True), result, explain=True)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[:3] == ["Not known: nobody said so", "", "answered by answer@1:double"]
    assert lines[-1] == "rank 1 ms, answer 2 ms"


@each(
    ("pairs", "read"),
    [
        ([], {}),
        (["a=b"], {"a": "b"}),
        (["a=1", "b=1.5", "c=true", "d=null"], {"a": 1, "b": 1.5, "c": True, "d": None}),
        (['a="1"', "b=[1, 2]", 'c={"d": 1}'], {"a": "1", "b": [1, 2], "c": {"d": 1}}),
        (["a=b=c", "d="], {"a": "b=c", "d": ""}),
        (["a=1", "a=2"], {"a": 2}),
        (["a=[1", "b=01"], {"a": "[1", "b": "01"}),
    ],
)
def test_values_of_pairs_are_json_or_text(pairs: list[str], read: dict[str, Any]) -> None:
    """So that numbers compare as numbers; only the first equals sign counts, and the last value of a name."""
    option: Any = None
    assert read_pairs(option, option, pairs) == read


@each("pair", ["a", "=b", "", "="])
def test_a_pair_without_a_name_or_a_sign_is_refused(pair: str) -> None:
    """And shown."""
    option: Any = None
    with pytest.raises(click.BadParameter, match=f"'{pair}' is not of the form KEY=VALUE"):
        read_pairs(option, option, [pair])


HERE = "http://127.0.0.1:9/v1"


def test_without_a_model_there_is_one_check() -> None:
    """It is no fault."""
    (check,) = chat_checks(Config(), connect=True)
    assert (check.name, check.status, check.detail) == ("chat model", "ok", "none: every step is local")
    assert list(embedding_checks(Config(), connect=True)) == []


def test_models_are_told_by_their_steps_and_without_a_key() -> None:
    """One line for each model and address, with the steps that go there; nothing is contacted."""
    chat = ChatEndpoint(
        "big",
        HERE,
        "sk-secret",
        steps={
            "judge": {"model": "small"},
            "plan": {"model": "small"},
            "answer": {"base_url": "http://127.0.0.1:8/v1"},
        },
    )
    checks = list(
        chat_checks(Config(chat=chat, chat_steps=("extract", "judge", "plan", "answer")), connect=False)
    )
    assert {check.status for check in checks} == {"ok"}
    models = [check.detail for check in checks if check.name == "chat model"]
    assert models == [
        f"big at {HERE}, with a key, for extract",
        f"small at {HERE}, with a key, for judge, plan",
        "big at http://127.0.0.1:8/v1, without a key, for answer",
    ]
    assert "sk-secret" not in repr(checks)


def test_one_model_does_every_step() -> None:
    """Which need not be listed."""
    checks = [
        one
        for one in chat_checks(Config(chat=ChatEndpoint("m", HERE)), connect=False)
        if one.name == "chat model"
    ]
    assert [one.detail for one in checks] == [f"m at {HERE}, without a key, for every step"]


def test_a_model_that_cannot_be_reached_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to mend; without a key for OpenAI that is told with nothing contacted."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (check,) = embedding_checks(Config(embedder=EmbeddingEndpoint("m", HERE)), connect=True)
    assert (check.name, check.status, check.detail) == ("new memories", "broken", "m")
    assert "start it, or mend embeddings.base_url" in check.fix
    (check,) = embedding_checks(Config(embedder=EmbeddingEndpoint("m")), connect=False)
    assert (check.status, "OPENAI_API_KEY" in check.fix) == ("broken", True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    (check,) = embedding_checks(Config(embedder=EmbeddingEndpoint("m")), connect=False)
    assert check.detail == "take m at https://api.openai.com/v1, with the key of OPENAI_API_KEY"
