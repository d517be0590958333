"""The plan of a question: what it may hold, what the rules fill in, and that nobody reads the question behind it."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import said

from memforest import Config, MemForest, QueryResult
from memforest.errors import InputError, StepError
from memforest.reading.plan_local import plan_question
from memforest.records import QuestionPlan, SubQuery, TimeOperator
from memforest.search.filters import Search
from memforest.search.vectors import question_tokens

NOW = datetime(2024, 6, 1, tzinfo=timezone.utc)
NAMES = {name.casefold(): name for name in ("Ana", "Bob", "Bob Ruiz")}
SOURCE = Path(__file__).resolve().parents[1] / "src" / "memforest"
BEFORE = "Where did Ana live before Miami?"


def test_a_plan_may_be_made_of_sub_queries() -> None:
    """Ids, texts, what depends on what, scope and time are kept as they are given."""
    first = SubQuery("1", "When did Ana move?", scope="short", interval=(NOW, None))
    second = SubQuery("2", "What did she do then?", ("1",), "mixed", (NOW, NOW + timedelta(1)))
    plan = QuestionPlan(complexity="hybrid", keywords=("move",), sub_queries=(first, second))
    assert plan.sub_queries == (first, second)
    assert plan.sub_queries[1].depends_on == ("1",)


@each(
    ("made", "message"),
    [
        (lambda: SubQuery("", "Where?"), "id is ''; give some text"),
        (lambda: SubQuery("1", "  "), "text is '  '; give some text"),
        (lambda: SubQuery("1", "Where?", scope="tiny"), "scope 'tiny'; known: short, long, mixed"),  # type: ignore[arg-type]
        (lambda: SubQuery("1", "Where?", interval=(NOW, NOW)), "the end later"),
        (lambda: SubQuery("1", "Where?", interval=(datetime(2024, 1, 1), None)), "aware"),  # noqa: DTZ001
        (lambda: SubQuery("1", "Where?", interval=NOW), r"\(start, end\)"),  # type: ignore[arg-type]
        (lambda: QuestionPlan(complexity="hard"), "complexity 'hard'; known: simple, hybrid, complex"),  # type: ignore[arg-type]
        (lambda: QuestionPlan(kind="maybe"), "kind 'maybe'; known: simple, current"),  # type: ignore[arg-type]
        (lambda: TimeOperator("when"), "kind 'when'; known: current, as_of"),  # type: ignore[arg-type]
        (lambda: of(a=(), b=("c",)), "'b' depends on 'c', and no sub-query has that id"),
        (lambda: of(a=("a",)), "in a circle: a -> a"),
        (lambda: of(a=("b",), b=("c",), c=("a",)), "in a circle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)"),
        (lambda: QuestionPlan(sub_queries=(SubQuery("1", "Who?"), SubQuery("1", "Why?"))), "two .* the id '1'"),
    ],
)  # fmt: skip
def test_a_plan_that_contradicts_itself_is_refused(made: Any, message: str) -> None:
    """The error names the sub-query, what is wrong with it, and what to give instead."""
    with pytest.raises(InputError, match=message):
        made()


def of(**depends_on: tuple[str, ...]) -> QuestionPlan:
    """Return a plan of sub-queries with what each depends on."""
    return QuestionPlan(sub_queries=tuple(SubQuery(id, id, needs) for id, needs in depends_on.items()))


def plan(question: str) -> QuestionPlan:
    """Return the plan that the rules make."""
    return plan_question(question, reference=NOW, names=NAMES)


def test_the_rules_give_keywords_without_names() -> None:
    """Content words, lower case, each once; no names, and none of the words that only ask."""
    assert plan("Which climbing gym did Ana and Bob Ruiz climb at: a GYM?").keywords == (
        "climbing",
        "gym",
        "climb",
    )
    assert plan("東京でAnaは何をした?").keywords
    assert plan("Who is Ana?").keywords == ()


@each(
    ("question", "complexity"),
    [
        ("What are Ana's hobbies?", "hybrid"),
        ("Where does Ana live now?", "simple"),
        ("When did Ana buy a vase?", "simple"),
        ("Would Ana like a vase?", "complex"),
        ("How many vases did Ana buy?", "hybrid"),
        ("What colour is the vase?", None),
    ],
)
def test_the_rules_tell_complexity_by_words_and_kind(question: str, complexity: str | None) -> None:
    """A list and a count are put together of facts, a time and a state are one, what somebody would do is a judgement."""
    assert plan(question).complexity == complexity
    assert plan(question).sub_queries == ()


@each(
    ("question", "operator"),
    [
        ("What does Ana bake these days?", TimeOperator("current")),
        ("How does Ana feel these days?", TimeOperator("current", manner=True)),
        (
            "When did Ana start at Kinetik?",
            TimeOperator("since", "did Ana start at Kinetik", begins=True),
        ),
        ("Since when does Ana run?", TimeOperator("since", "does Ana run")),
        ("What does anybody bake these days?", None),
        ("What did Ana bake?", None),
    ],
)
def test_the_rules_read_the_operator_that_words_show(question: str, operator: TimeOperator | None) -> None:
    """It needs somebody, and says whether a beginning or a manner is asked for."""
    assert plan(question).operator == operator


def test_the_rules_read_what_is_asked_about() -> None:
    """Topic without names, dates and words of change; whose it is, where it stands, and everybody who is named."""
    found = plan("In May 2023, what new espresso beans was Bob Ruiz obsessed with after Rome?")
    assert found.topic == ("espresso", "beans", "obsessed", "rome")
    assert found.mentions == ("Bob Ruiz", "Rome")
    assert plan("What is Bob's first car?").owners == ("Bob",)


@dataclasses.dataclass
class Fixed:
    """A planner that plans every question alike."""

    made: Any
    name: str = "fixed-1"

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of the test."""
        made: QuestionPlan = self.made
        return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory, without an embedder, of somebody who moved twice, and of another one."""
    folder = tmp_path_factory.mktemp("home")
    with MemForest(folder, Config(embedder="none")) as forest:
        told = ("I live in Davis.", "I moved to Miami.", "I moved to Oslo.", "I bought a vase.")
        for day, text in enumerate(told, start=1):
            forest.ingest_session("u", f"s{day}", said(text, day=day))
    return folder


def asking(home: Path, planner: Any, question: str) -> QueryResult:
    """Return what a query finds; the rules plan it when there is no planner."""
    with MemForest(home, Config(embedder="none", planner=planner)) as forest:
        return forest.query("u", question, reference_date=NOW, top_k=50)


def ranked(result: QueryResult) -> list[tuple[str, float, str]]:
    """Return what a result has, in order."""
    return [(one.text, one.score, one.why) for one in result]


def test_the_text_is_read_once(home: Path) -> None:
    """Two questions of the same tokens are ranked alike under one plan, though the rules tell them apart."""
    where, when = "Where does Ana live?", "When did Ana live?"
    assert question_tokens(where) == question_tokens(when)
    one, two = (asking(home, None, text) for text in (where, when))
    assert ranked(one) != ranked(two)
    for made in (one.plan, two.plan, QuestionPlan()):
        first, second = (asking(home, Fixed(made), text) for text in (where, when))
        assert ranked(first) == ranked(second)
    assert ranked(asking(home, Fixed(two.plan), where)) == ranked(two)


def test_a_plan_of_kind_and_names_alone_leads(home: Path) -> None:
    """A planner need not know the later fields: time order answers by kind, entity, attribute and anchor."""
    made = QuestionPlan("predecessor", ("Ana",), "residence", "Miami")
    found = asking(home, Fixed(made), "Anything?")
    assert found.evidence[0].why.startswith("predecessor")
    assert "Davis" in found.evidence[0].text
    assert not any(one.why for one in asking(home, Fixed(QuestionPlan(entities=("Ana",))), BEFORE))


def test_an_operator_of_the_plan_decides_against_the_words(home: Path) -> None:
    """The words ask for the home before Miami, the plan for the last one: the plan is followed."""
    made = dataclasses.replace(asking(home, None, BEFORE).plan, kind="last", operator=TimeOperator("last"))
    found = asking(home, Fixed(made), BEFORE)
    assert (found.evidence[0].why, "Oslo" in found.evidence[0].text) == ("last: oslo", True)


def test_what_is_no_plan_is_an_error(home: Path) -> None:
    """The error names the planner and what it returned."""
    with pytest.raises(StepError):
        asking(home, Fixed({"kind": "simple"}), "Where?")


def test_no_index_is_handed_the_question() -> None:
    """A search request has no text, and no module of an index reads one or what reads questions; a browse planner does."""
    assert "question" not in {one.name for one in dataclasses.fields(Search)}
    for path in (SOURCE / "systems").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not modules & {"memforest.reading.question_parts", "memforest.reading.plan_local"}, path
        texts = {one for one in attributes if one.endswith(".question")}
        # A weight of the ranking, and what a model is handed that plans, browses or sifts for the question.
        assert texts <= {"weights.question", "self._host.question", "host.question"}, path
