"""The modes of a query: what each one asks, what happens when a model fails, and what it changes in the ranking."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, said

from memforest import Config, MemForest, QueryResult
from memforest.config import MODES, Ranking
from memforest.errors import (
    BudgetError,
    ConfigError,
    InputError,
    ModelError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
    ReplyError,
    StepError,
)
from memforest.memory.memory import Memory
from memforest.memory.open import open_memory
from memforest.memory.options import read_question
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import check_options
from memforest.models import HashEmbedder
from memforest.models.base import Vectors
from memforest.ports import Answer, AnswerEvidence
from memforest.reading.steps import Steps, choose_steps
from memforest.reading.summarise_local import LocalSummariser
from memforest.records import BrowsePlan, QuestionPlan, SummaryRequest, TimeOperator, TreeCard
from memforest.trees.index import adopted, choose_mode, sub_queries

T = TypeVar("T")

THINGS = [
    "anchor",
    "basket",
    "candle",
    "drum",
    "easel",
    "fiddle",
    "globe",
    "hammer",
    "inkwell",
    "jar",
    "kettle",
    "lantern",
    "mirror",
    "needle",
    "oar",
    "pillow",
    "quilt",
    "rope",
    "saddle",
    "table",
    "umbrella",
    "vase",
    "whistle",
    "xylophone",
    "yarn",
    "zither",
    "bench",
    "clock",
    "desk",
    "engine",
]
COLOURS = ["red", "blue", "green", "black"]
QUESTION = "Which vase did Ana buy?"
GUIDED = [mode for mode in MODES if mode != "emb"]


@dataclass
class Guide:
    """A planner that looks for its own words in every tree, or fails."""

    made: Callable[[Sequence[TreeCard]], BrowsePlan] | None = None
    error: ModelError | None = None
    name: str = "guide-1"
    asked: list[Sequence[TreeCard]] = field(default_factory=list)

    async def plan_browse(
        self, question: str, *, plan: QuestionPlan, reference: datetime, trees: Sequence[TreeCard]
    ) -> BrowsePlan:
        """Return the plan of the test."""
        self.asked.append(trees)
        if self.error is not None:
            raise self.error
        if self.made is not None:
            return self.made(trees)
        return BrowsePlan(tuple((f"vase of {tree.label}",) for tree in trees))


@dataclass
class Browser:
    """A browser that prefers the children with a word, or does as the test says; counts who is under way."""

    word: str = "vase"
    does: Callable[[str, Sequence[TreeCard]], list[int] | ModelError] | None = None
    delay_s: float = 0.0
    name: str = "browser-1"
    asked: list[tuple[str, Sequence[TreeCard]]] = field(default_factory=list)
    under_way: list[str] = field(default_factory=list)
    most_under_way: int = 0
    together: set[frozenset[str]] = field(default_factory=set)
    cancelled: int = 0

    async def choose(
        self, query: str, *, reference: datetime, children: Sequence[TreeCard], most: int
    ) -> list[int]:
        """Return a choice."""
        self.asked.append((query, children))
        self.under_way.append(children[0].label)
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        self.together.add(frozenset(self.under_way))
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way.remove(children[0].label)
        if self.does is not None:
            chosen = self.does(query, children)
            if isinstance(chosen, ModelError):
                raise chosen
            return chosen
        order = sorted(range(len(children)), key=lambda i: self.word not in children[i].summary)
        return order[:most]


class CountingEmbedder(HashEmbedder):
    """Remembers every batch, and can refuse those of sub-queries."""

    def __init__(self) -> None:
        super().__init__(32)
        self.batches: list[list[str]] = []
        self.refuses = ""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed as `HashEmbedder` does."""
        self.batches.append(list(texts))
        if self.refuses and any(self.refuses in text for text in texts):
            raise ModelUnavailableError("the embedding endpoint is gone")
        return await super().embed(texts)


class Refusing:
    """An answerer that cannot answer."""

    name = "refusing-1"

    def __init__(self, error: ModelError) -> None:
        self.error = error

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Raise."""
        raise self.error


def bought(who: str, session: int) -> list[dict[str, Any]]:
    """Return twelve turns in each of which somebody buys something else."""
    offset = session * 3
    return [
        {
            "speaker": who,
            "content": f"I bought a {COLOURS[i % 4]} {THINGS[offset + i // 4]} in Oslo.",
            "timestamp": f"2024-{session + 1:02}-{3 if who == 'Ana' else 4:02}T10:{i:02}:00Z",
        }
        for i in range(12)
    ]


def fill(forest: MemForest) -> None:
    """Ingest ten sessions each of Ana and Ben: their trees have 120 leaves, that of Oslo has 240."""
    forest.ingest_parallel(
        [
            {"user_id": "u", "session_id": f"{who}{n}", "turns": bought(who, n)}
            for who in ("Ana", "Ben")
            for n in range(10)
        ],
        refresh=True,
    )


@pytest.fixture(scope="module")
def world() -> Iterator[Path]:
    """The directory of a filled memory that no test changes."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as made:
        with MemForest(made, fast_config()) as forest:
            fill(forest)
        yield Path(made)


def steps_of(config: Config, **chosen: Any) -> Steps:
    """Return the local steps with some replaced."""
    return replace(choose_steps(config), **chosen)


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return asyncio.run(job)


def opened(folder: Path, config: Config | None = None, **chosen: Any) -> Memory:
    """Open the memory with other steps."""
    config = config or fast_config()
    return open_memory(folder, "u", config, steps_of(config, **chosen))


def asking(memory: Memory, mode: str | None = None, question: str = QUESTION, **options: Any) -> QueryResult:
    """Query a memory and close it."""
    given = {**options, "mode": mode}
    try:
        return run(memory.query(read_question(memory.config, question, **given)))
    finally:
        memory.close()


def texts(found: QueryResult) -> list[str]:
    """Return the evidence as text."""
    return [one.text for one in found.evidence]


def by_title(found: QueryResult) -> dict[str, dict[str, Any]]:
    """Return how each tree was browsed."""
    return {one["title"]: one for one in found.trace["browse"]}


def test_the_mode_is_the_most_guided_one_that_the_steps_allow() -> None:
    """Without a model it is ``"emb"``; with one, whatever its steps can do; a mode that is asked for is kept."""
    plain = steps_of(fast_config())
    assert choose_mode(None, plain) == "emb"
    both = replace(plain, guide=Guide(), browser=Browser())
    assert choose_mode(None, both) == "llm+planner"
    assert choose_mode(None, replace(plain, browser=Browser())) == "llm"
    assert choose_mode(None, replace(plain, guide=Guide())) == "emb+planner"
    assert [choose_mode(mode, both) for mode in MODES] == list(MODES)


@pytest.mark.parametrize("mode", GUIDED)
def test_a_mode_without_a_model_is_an_error_that_says_how_to_get_one(world: Path, mode: str) -> None:
    """The message names the setting, the steps that are lacking, and the mode that needs no model."""
    with pytest.raises(ConfigError) as error:
        asking(opened(world), mode)
    assert ("'browse'" in str(error.value)) == mode.startswith("llm")
    assert ("'plan'" in str(error.value)) == mode.endswith("planner")


def test_options_are_checked(world: Path) -> None:
    """A mode or budget that is none is refused; the configuration's mode is used when none is given."""
    config = fast_config(mode="llm")
    for options in ({"mode": "best"}, {"budget": 3}):
        with pytest.raises(InputError, match=next(iter(options))):
            check_options("search", AsyncUserMemory.search, {"question": QUESTION, **options})
    assert read_question(config, QUESTION).mode == "llm"
    assert read_question(config, QUESTION, mode="emb").mode == "emb"
    with pytest.raises(ConfigError, match="browse_calls"):
        Config(browse_calls=-1)


def test_emb_asks_nobody_and_is_what_it_is_without_a_model(world: Path) -> None:
    """With a model configured, mode ``"emb"`` has the same evidence, to the bit, and makes no call."""
    guide, browser = Guide(), Browser()
    plain = asking(opened(world), explain=True)
    found = asking(opened(world, guide=guide, browser=browser), "emb", explain=True)
    assert (guide.asked, browser.asked) == ([], [])
    assert found.evidence == plain.evidence
    assert found.trace == plain.trace
    assert found.trace["mode"] == "emb"
    assert found.usage.model_calls == 0
    assert found.warnings == ()


def test_emb_with_a_planner_makes_one_call_and_embeds_all_sub_queries_at_once(world: Path) -> None:
    """One plan for all trees; of the texts of all sub-queries the embedder gets one batch."""
    embedder = CountingEmbedder()
    guide, browser = Guide(), Browser()
    memory = opened(world, fast_config(embedder=embedder), guide=guide, browser=browser)
    found = asking(memory, "emb+planner")
    assert (len(guide.asked), len(browser.asked)) == (1, 0)
    question, sub = embedder.batches
    assert question[0] == QUESTION
    assert set(sub) >= {f"vase of {tree.label}" for tree in guide.asked[0]}
    assert len(set(sub)) == len(sub)
    for tree in found.trace["browse"]:
        assert (tree["mode"], tree["calls"], tree["fallback"]) == ("emb", 0, None)
        assert tree["queries"] == [f"vase of {tree['title'].split(' ', 1)[1]}"]
        assert tree["leaves"] > 0


def test_llm_asks_only_where_there_is_a_choice(world: Path) -> None:
    """Of Ana's tree of 120 leaves: nothing for the few nodes below the root, one call for the 17 below those, then for the leaves of the ten kept."""
    guide, browser = Guide(), Browser()
    found = asking(opened(world, guide=guide, browser=browser), "llm")
    assert guide.asked == []
    of_ana = [children for _, children in browser.asked if children[0].label == "Ana"]
    assert [len(children) for children in of_ana[:1]] == [17]
    assert {card.leaves for children in of_ana[1:] for card in children} == {1}
    below = sum(len(children) for children in of_ana[1:])
    assert 48 < below <= 80
    assert len(of_ana) == 1 + -(-below // 24)
    tree = by_title(found)["entity Ana"]
    assert (tree["mode"], tree["calls"], tree["levels"], tree["leaves"]) == ("llm", len(of_ana), 3, 10)
    assert sum(one["calls"] for one in found.trace["browse"]) == len(browser.asked) <= 32
    assert {query for query, _ in browser.asked} == {QUESTION}
    assert all(len(children) > 10 or len(children) <= 24 for _, children in browser.asked)
    assert "guide" not in found.trace


def test_llm_with_a_planner_asks_for_each_tree_and_sub_query(world: Path) -> None:
    """One plan; each tree is asked about by its own sub-queries, two of them twice."""
    guide = Guide(lambda trees: BrowsePlan(tuple((f"a of {t.label}", f"b of {t.label}") for t in trees)))
    browser = Browser()
    found = asking(opened(world, fast_config(browse_calls=99), guide=guide, browser=browser), "llm+planner")
    assert len(guide.asked) == 1
    for query, children in browser.asked:
        assert query in (f"a of {children[0].label}", f"b of {children[0].label}")
    queries = [query for query, children in browser.asked if children[0].label == "Ana"]
    assert queries.count("a of Ana") == queries.count("b of Ana") > 0
    assert by_title(found)["entity Ana"]["queries"] == ["a of Ana", "b of Ana"]
    assert found.trace["guide"] == {"name": "guide-1", "kind": None, "anchor": None, "failure": None}
    assert found.trace["mode"] == "llm+planner"


def test_the_default_with_a_model_is_the_most_guided(world: Path) -> None:
    """No mode given, a model there: planned and browsed by it."""
    guide, browser = Guide(), Browser()
    assert asking(opened(world, guide=guide, browser=browser)).trace["mode"] == "llm+planner"
    assert (len(guide.asked), len(browser.asked) > 0) == (1, True)


@pytest.mark.parametrize("mode", ["llm", "llm+planner"])
def test_nobody_is_asked_where_everything_fits(folder: Path, mode: str) -> None:
    """A small memory's trees are kept whole: no call of the browser, and every leaf is worth the same."""
    config = fast_config()
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "s1", said("I bought a vase.", "I sold a drum.", "It rained in Oslo."))
    guide, browser = Guide(), Browser()
    found = asking(opened(folder, guide=guide, browser=browser), mode)
    assert browser.asked == []
    assert len(guide.asked) == (mode == "llm+planner")
    assert {one.scores["browse"] for one in found.evidence} == {0.5}


def test_trees_are_asked_about_at_the_same_time(world: Path) -> None:
    """Several trees, and several parts of one, are under way together."""
    browser = Browser(delay_s=0.05)
    asking(opened(world, browser=browser), "llm")
    assert browser.most_under_way >= 6
    assert any({"Ana", "Ben", "Oslo"} <= labels for labels in browser.together)


def test_cards_say_what_a_planner_needs(world: Path) -> None:
    """Kind, name, interval, leaves and summary of every recalled tree, in the order of recall."""
    guide = Guide()
    found = asking(opened(world, guide=guide), "emb+planner")
    (cards,) = guide.asked
    assert [f"{card.kind} {card.label}" for card in cards] == [title for title, _ in found.trace["trees"]]
    ana = next(card for card in cards if card.label == "Ana")
    assert ana.leaves == 120
    assert (ana.start.isoformat(), ana.end.year) == ("2024-01-03T10:00:00+00:00", 2024)
    assert ana.summary


def test_leaves_that_were_chosen_come_up(world: Path) -> None:
    """What the browser puts first gains most of the weight and rises; without the weight the order is that of emb."""
    question, browser = "What did Ana get?", Browser(word="basket")
    every = fast_config(browse_calls=999, index_settings={"memforest": {"recall_trees": 99}})

    def places(mode: str, **options: Any) -> list[int]:
        found = asking(opened(world, every, browser=browser), mode, question, top_k=240, **options)
        baskets = [i for i, one in enumerate(found.evidence) if one.speaker == "Ana" and "basket" in one.text]
        assert len(baskets) == 4
        assert mode == "emb" or any(found.evidence[i].scores["browse"] > 0.7 for i in baskets)
        return baskets

    plain, chosen = places("emb"), places("llm", ranking=Ranking(guided=2.0))
    assert all(after < before for before, after in zip(plain, chosen, strict=True))
    off = asking(opened(world, every, browser=browser), "llm", question, ranking=Ranking(guided=0))
    assert texts(off) == texts(asking(opened(world), "emb", question))


@pytest.mark.parametrize("mode", GUIDED)
def test_parts_sum_to_the_score(world: Path, mode: str) -> None:
    """The browse part is one of the parts, between 0 and the weight, and paths lead to the leaf that was reached."""
    found = asking(opened(world, guide=Guide(), browser=Browser()), mode, explain=True, top_k=30)
    for one, why in zip(found.evidence, found.trace["explain"]["evidence"], strict=True):
        assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-9)
        assert why["browsed"] is None or 0 < why["browsed"] <= 1
        assert one.scores.get("browse", 0.0) == pytest.approx(why["browsed"] or 0.0)
    assert any(one.path[0].startswith("entity") for one in found.evidence if one.scores.get("browse"))
    assert found.trace["explain"]["browse"] == found.trace["browse"]
    assert found.trace["explain"]["mode"] == mode


def test_another_sub_query_never_lowers_a_leaf(world: Path) -> None:
    """A leaf has its best score over sub-queries: with one more, whose choices are the opposite, none loses."""

    def does(query: str, children: Sequence[TreeCard]) -> list[int]:
        return list(range(10)) if query == "first" else list(range(9, -1, -1))

    def parts(*queries: str) -> dict[str, float]:
        guide = Guide(lambda trees: BrowsePlan((queries,) * len(trees)))
        memory = opened(world, fast_config(browse_calls=99), guide=guide, browser=Browser(does=does))
        found = asking(memory, "llm+planner", top_k=240)
        return {one.text: one.scores.get("browse", 0.0) for one in found.evidence}

    one, both = parts("first"), parts("first", "last")
    assert all(both[text] >= part for text, part in one.items())
    assert any(both[text] > part for text, part in one.items())


def test_an_empty_choice_prunes_the_tree(world: Path) -> None:
    """Nothing of a tree in which nothing is promising is reached; the query's own ranking remains."""
    browser = Browser(does=lambda _query, _children: [])
    found = asking(opened(world, browser=browser), "llm")
    pruned = {title for title, tree in by_title(found).items() if tree["calls"]}
    assert {"entity Ana", "entity Ben", "entity Oslo"} <= pruned
    assert {by_title(found)[title]["leaves"] for title in pruned} == {0}
    assert {by_title(found)[title]["mode"] for title in pruned} == {"llm"}
    assert len(found.evidence) == 10
    assert found.warnings == ()


def test_a_choice_is_taken_for_what_it_is_worth(world: Path) -> None:
    """Positions that do not exist, or come twice, are passed over, and no more is kept than the beam."""
    browser = Browser(does=lambda _, children: [-1, 99, 3, 3, *range(len(children))])
    tree = by_title(asking(opened(world, browser=browser), "llm"))["entity Ana"]
    assert (tree["mode"], tree["leaves"]) == ("llm", 10)


def test_equal_queries_have_equal_results(world: Path) -> None:
    """However fast which call is answered: evidence, trace and warnings are the same, at a limit too."""

    def once(delays: Sequence[float]) -> QueryResult:
        class Uneven(Browser):
            async def choose(self, query: str, **how: Any) -> list[int]:
                self.delay_s = delays[len(self.asked) % len(delays)]
                return await super().choose(query, **how)

        memory = opened(world, fast_config(browse_calls=9), guide=Guide(), browser=Uneven())
        return asking(memory, "llm+planner", explain=True)

    one, other = once([0.0, 0.03, 0.01]), once([0.02, 0.0])
    assert one.evidence == other.evidence
    assert one.trace == other.trace
    assert one.warnings == other.warnings


def test_time_order_filters_and_flat_stay_as_they_are(world: Path, folder: Path) -> None:
    """A lead leads in every mode, filters keep what they keep, and an index without trees is searched as ever."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest)
        forest.ingest_session("u", "h1", said("I live in Davis.", day=1))
        forest.ingest_session("u", "h2", said("I moved to Miami.", day=20))
    before = "Where did Ana live before Miami?"
    for mode in ("emb", "llm"):
        found = asking(opened(folder, browser=Browser()), mode, before)
        assert "Davis" in found.evidence[0].text
        assert found.evidence[0].why
    during = ("2024-03-01", "2024-04-01")
    kept = asking(opened(world, browser=Browser()), "llm", during=during, top_k=100)
    assert {one.said.month for one in kept.evidence} <= {1, 2, 3}
    flat = asking(opened(world, browser=Browser()), "llm", index="flat")
    assert flat.evidence == asking(opened(world), index="flat").evidence
    assert "does not browse trees" in flat.warnings[0]
    assert asking(opened(world, browser=Browser()), index="flat").warnings == ()  # nobody asked for a mode


def test_a_kind_and_an_anchor_are_adopted_only_when_they_are_valid() -> None:
    """A kind where the rules found none, and an anchor whose words are the question's; never against the rules."""
    question = "Where was Ana before she joined the choir?"
    simple = QuestionPlan()

    def taken(plan: QuestionPlan, kind: str | None, anchor: str | None) -> tuple[str, str | None]:
        made = adopted(plan, BrowsePlan((), kind, anchor), question)
        return made.kind, made.anchor

    assert taken(simple, "predecessor", "joined the choir") == ("predecessor", "joined the choir")
    assert taken(simple, "predecessor", "joining the army") == ("predecessor", None)
    assert taken(simple, "wild guess", "the") == ("simple", None)
    assert taken(simple, None, None) == ("simple", None)
    ruled = QuestionPlan(kind="when", anchor="choir")
    assert taken(ruled, "predecessor", "joined the choir") == ("when", "choir")


def test_an_adopted_kind_decides_on_the_operator() -> None:
    """What the words alone had shown gives way to another kind; of the same kind it stays, and gets the anchor."""
    made = BrowsePlan((), "predecessor", "choir")
    read = TimeOperator("predecessor", manner=True)
    for operator, becomes in (
        (TimeOperator("first"), TimeOperator("predecessor", "choir")),
        (read, replace(read, anchor="choir")),
        (None, TimeOperator("predecessor", "choir")),
    ):
        assert adopted(QuestionPlan(operator=operator), made, "Before the choir?").operator == becomes
    kept = adopted(QuestionPlan(operator=read), BrowsePlan((), "list", None), "Before the choir?")
    assert (kept.kind, kept.operator) == ("list", read)


def test_an_adopted_kind_is_the_results(world: Path) -> None:
    """The result's plan and the trace say what was adopted."""
    guide = Guide(lambda trees: BrowsePlan((("vase",),) * len(trees), kind="list", anchor="Ana"))
    found = asking(opened(world, guide=guide), "emb+planner", "Ana and her vase of Oslo")
    assert found.plan.kind == "list" == found.question_type
    assert (found.trace["guide"]["kind"], found.trace["guide"]["anchor"]) == ("list", "Ana")


def test_sub_queries_are_bounded() -> None:
    """Empty ones are the question, repeated ones are asked once, long ones are cut, and at most three are."""
    plan = BrowsePlan(((" ", ""), ("a", "a  ", "b"), ("c", "d", "e", "f"), ("x" * 9_000,)))
    found = sub_queries(plan, "Q?", 4)
    assert found[:3] == [("Q?",), ("a", "b"), ("c", "d", "e")]
    assert len(found[3][0]) == 500
    with pytest.raises(StepError):
        sub_queries(plan, "Q?", 5)


@pytest.mark.parametrize(
    "guide",
    [
        Guide(error=ReplyError("not JSON")),
        Guide(error=ModelUnavailableError("gone")),
        Guide(lambda _: BrowsePlan((("one",),))),
    ],
    ids=["reply", "gone", "too few"],
)
def test_without_a_plan_trees_are_browsed_by_the_question(world: Path, guide: Guide) -> None:
    """The planner's failure is told, and everything else goes on."""
    browser = Browser()
    found = asking(opened(world, guide=guide, browser=browser), "llm+planner")
    assert {query for query, _ in browser.asked} == {QUESTION}
    assert found.trace["guide"]["failure"]
    assert found.trace["guide"]["failure"] in found.warnings[0]
    assert found.plan == asking(opened(world)).plan


FAILURES = [
    StepError("no choice"),
    ReplyError("not JSON"),
    ModelUnavailableError("the endpoint is gone", status=503),
    BudgetError("the budget of 3 model calls is used up"),
    ModelRequestError("too long", status=400),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_tree_that_cannot_be_browsed_by_the_model_is_browsed_by_embedding(
    world: Path, error: ModelError
) -> None:
    """Only that tree; the trace has the reason, and a warning says for how many trees."""

    def does(_query: str, children: Sequence[TreeCard]) -> list[int] | ModelError:
        return error if children[0].label == "Ana" else list(range(10))

    found = asking(opened(world, browser=Browser(does=does)), "llm")
    trees = by_title(found)
    assert {title for title, tree in trees.items() if tree["fallback"]} == {"entity Ana"}
    assert (trees["entity Ana"]["mode"], trees["entity Ana"]["fallback"]) == ("emb", str(error))
    assert (trees["entity Ana"]["calls"], trees["entity Ana"]["leaves"]) == (1, 10)
    assert trees["entity Ben"]["mode"] == "llm"
    assert found.warnings == (f"{error}: 1 of {len(trees)} trees were browsed by embedding",)


def test_a_tree_that_failed_is_asked_about_no_more(world: Path) -> None:
    """When one sub-query fails, the tree's other one is not followed further either."""
    guide = Guide(lambda trees: BrowsePlan((("good", "bad"),) * len(trees)))

    def does(query: str, children: Sequence[TreeCard]) -> list[int] | ModelError:
        return StepError("no choice") if query == "bad" else list(range(10))

    browser = Browser(does=does)
    found = asking(opened(world, guide=guide, browser=browser), "llm+planner")
    asked = [query for query, children in browser.asked if children[0].label == "Ana"]
    assert sorted(asked) == ["bad", "good"]
    assert by_title(found)["entity Ana"]["fallback"] == "no choice"


def test_what_the_model_chose_before_it_failed_is_kept(world: Path) -> None:
    """The way goes on by embedding from the nodes that were chosen, not from the root."""
    browser = Browser(does=lambda _, nodes: [0] if nodes[0].leaves > 1 else StepError("no choice"))
    found = asking(opened(world, browser=browser), "llm", top_k=200)
    tree = by_title(found)["entity Ana"]
    assert (tree["mode"], tree["levels"], tree["fallback"]) == ("llm", 3, None)  # the rest fits the beam
    wide = Browser(does=lambda _, nodes: [0, 1, 2] if nodes[0].leaves > 1 else StepError("no choice"))
    tree = by_title(asking(opened(world, browser=wide), "llm"))["entity Ana"]
    assert (tree["mode"], tree["levels"], tree["leaves"], tree["fallback"]) == ("emb", 3, 10, "no choice")
    first_months = {one.said.month for one in found.evidence if one.path[0] == "entity Ana"}
    assert first_months == {1}


def test_the_fallback_of_the_question_costs_no_embedding(world: Path) -> None:
    """Trees that are browsed by the question have its vector already; sub-queries are embedded then, all at once."""
    embedder = CountingEmbedder()
    browser = Browser(does=lambda _query, _children: StepError("no"))
    config = fast_config(embedder=embedder)
    asking(opened(world, config, browser=browser), "llm")
    assert len(embedder.batches) == 1
    embedder.batches.clear()
    asking(opened(world, config, guide=Guide(), browser=Browser()), "llm+planner")
    assert len(embedder.batches) == 1  # nothing fell back, so no sub-query needs a vector
    embedder.batches.clear()
    asking(opened(world, config, guide=Guide(), browser=browser), "llm+planner")
    assert len(embedder.batches) == 2


def test_sub_queries_that_cannot_be_embedded_give_way_to_the_question(world: Path) -> None:
    """The question's vector is there already, so the query goes on with that and says so."""
    embedder = CountingEmbedder()
    embedder.refuses = "vase of"
    found = asking(opened(world, fast_config(embedder=embedder), guide=Guide()), "emb+planner")
    assert "the embedding endpoint is gone" in found.warnings[0]
    assert all(tree["leaves"] for tree in found.trace["browse"])


@pytest.mark.parametrize("where", ["plan", "browse"])
def test_a_refused_key_does_not_stop_retrieval(world: Path, where: str) -> None:
    """The query has the results of emb, and a warning that names what to mend."""
    refused = ModelRefusedError("401: the key is refused; set ChatEndpoint(api_key=...)", status=401)
    guide = Guide(error=refused if where == "plan" else None)
    browser = Browser(does=lambda _query, _children: refused)
    found = asking(opened(world, guide=guide, browser=browser), "llm+planner")
    assert found.evidence == asking(opened(world)).evidence
    assert found.plan == asking(opened(world)).plan
    assert len(found.warnings) == 1
    assert "api_key" in found.warnings[0]
    assert found.trace["mode"] == "emb"


def test_a_refusal_cancels_the_calls_under_way(world: Path) -> None:
    """No call goes on behind the query's back."""

    class OneRefused(Browser):
        async def choose(self, query: str, **how: Any) -> list[int]:
            if how["children"][0].label == "Ben":
                raise ModelRefusedError("no")
            return await super().choose(query, **how)

    browser = OneRefused(delay_s=30)
    asking(opened(world, browser=browser), "llm")
    assert browser.cancelled == len(browser.asked) > 0
    assert browser.under_way == []


def test_what_is_no_failure_of_a_model_is_not_hidden(world: Path) -> None:
    """A defect of a port comes out as it is."""

    def does(_query: str, _children: Sequence[TreeCard]) -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asking(opened(world, browser=Browser(does=does)), "llm")


@pytest.mark.parametrize("limit", [0, 1, 5, 12])
def test_browse_calls_are_limited(world: Path, limit: int) -> None:
    """Never more calls than allowed; the trees that are left are browsed by embedding, best trees served first."""
    browser = Browser()
    found = asking(opened(world, fast_config(browse_calls=limit), browser=browser), "llm")
    assert len(browser.asked) <= limit
    left = [tree for tree in found.trace["browse"] if tree["fallback"]]
    assert left
    assert {tree["fallback"] for tree in left} == {f"the limit of {limit} browse calls is reached"}
    assert all(tree["mode"] == "emb" and tree["leaves"] for tree in left)
    assert found.warnings == ()


def test_without_an_embedder_nothing_is_recalled_and_nobody_asked(folder: Path) -> None:
    """There is nothing to recall trees by: the query is that of emb, and a warning says why."""
    config = fast_config(embedder="none")
    with MemForest(folder, config) as forest:
        forest.ingest_session("u", "s1", said("I bought a vase.", "I sold a drum."))
    guide, browser = Guide(), Browser()
    found = asking(opened(folder, config, guide=guide, browser=browser), "llm+planner")
    assert (guide.asked, browser.asked) == ([], [])
    assert "embedder" in found.warnings[0]
    assert found.evidence == asking(opened(folder, config)).evidence


def test_an_empty_memory_asks_nobody(folder: Path) -> None:
    """There is nothing to browse, and nothing to warn of."""
    guide, browser = Guide(), Browser()
    found = asking(opened(folder, guide=guide, browser=browser), "llm+planner")
    assert (found.evidence, found.warnings, guide.asked, browser.asked) == ((), (), [], [])


class NoSummariser:
    """A summariser whose model is away."""

    name = "away"
    asked = 0

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return an error for each node."""
        self.asked += 1
        return [ModelUnavailableError("the summariser is away")] * len(requests)


def test_a_question_makes_the_summaries_that_it_reads(folder: Path) -> None:
    """A guided one those of all trees, before a model sees them; a question by embedding none."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s1", bought("Ana", 1))
        dirty = forest.user("u").stats().dirty_nodes
        assert dirty > 0
        forest.query("u", QUESTION)
        assert forest.user("u").stats().dirty_nodes == dirty
    guide = Guide()
    found = asking(opened(folder, guide=guide, browser=Browser()), "llm+planner")
    assert found.warnings == ()
    assert all(card.summary for cards in guide.asked for card in cards)
    with MemForest(folder, fast_config()) as forest:
        assert forest.user("u").stats().dirty_nodes == 0


def test_without_summaries_nobody_is_asked(folder: Path) -> None:
    """Trees that cannot be summarised say nothing to a model: the query is that of emb, and says what helps."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s1", bought("Ana", 1), refresh=False)
    guide, browser, away = Guide(), Browser(), NoSummariser()
    found = asking(opened(folder, guide=guide, browser=browser, summariser=away), "llm+planner")
    assert (guide.asked, browser.asked, away.asked) == ([], [], 1)
    assert "is away" in found.warnings[0]
    assert "resume()" in found.warnings[-1]
    assert found.evidence == asking(opened(folder)).evidence


def test_what_could_not_be_made_is_not_tried_again_by_every_question(folder: Path) -> None:
    """A model that is away is asked once; a write, or a flush, lets it be asked again."""
    away = NoSummariser()
    with MemForest(folder, fast_config(summariser=away)) as forest:
        forest.ingest_session("u", "s1", bought("Ana", 1))
        first, second = (forest.query("u", QUESTION, explain=True) for _ in range(2))
        assert (away.asked, "is away" in first.warnings[0]) == (1, True)
        assert "flush()" in second.warnings[0]
        assert first.evidence == second.evidence == forest.query("u", QUESTION).evidence
        forest.ingest_session("u", "s2", bought("Ben", 2))
        forest.query("u", QUESTION, explain=True)
        assert away.asked == 2
        assert forest.flush("u").warnings
        assert away.asked == 3


def test_a_tree_without_its_summaries_is_browsed_by_embedding(folder: Path) -> None:
    """Others are not held up by it."""

    class NotOfAna(LocalSummariser):
        async def summarise(self, requests: Sequence[SummaryRequest]) -> Any:
            made = await super().summarise(requests)
            low = [(one.kind, one.label, one.level) == ("entity", "Ana", 1) for one in requests]
            return [
                ModelError("not now") if refused else text for refused, text in zip(low, made, strict=True)
            ]

    config = fast_config(summariser=NotOfAna())
    with MemForest(folder, config) as forest:
        fill(forest)
    found = by_title(asking(opened(folder, config, browser=Browser()), "llm"))
    assert (found["entity Ana"]["mode"], found["entity Ben"]["mode"]) == ("emb", "llm")
    assert "no summary" in found["entity Ana"]["fallback"]


def test_the_memory_may_change_while_a_model_thinks(folder: Path) -> None:
    """What was replaced meanwhile is not in the result, what stayed is scored by its leaf, and nothing breaks."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest)

        class Meanwhile(Browser):
            done = False

            async def choose(self, query: str, **how: Any) -> list[int]:
                if not self.done:
                    self.done = True
                    new = said("I bought a violet spoon.", day=3)
                    await asyncio.to_thread(forest.ingest_session, "u", "Ana7", new, replace=True)
                return await super().choose(query, **how)

        memory = opened(folder, browser=Meanwhile())
        gone = bought("Ana", 7)
        found = asking(memory, "llm", top_k=300)
    assert not {turn["content"] for turn in gone} & {
        one.quote for one in found.evidence if one.speaker == "Ana"
    }
    assert any("violet" in one.quote for one in found.evidence)
    assert any(one.scores.get("browse") for one in found.evidence)


@pytest.mark.parametrize(
    "error", [*FAILURES, ModelRefusedError("401: mend api_key")], ids=lambda error: type(error).__name__
)
def test_the_local_answerer_answers_where_a_model_cannot(world: Path, error: ModelError) -> None:
    """The answer is the local one's, and the trace and a warning say so."""

    def answered(**chosen: Any) -> Any:
        memory = opened(world, fast_config(answer_threshold=0.3), **chosen)
        try:
            return run(memory.ask(read_question(memory.config, "Did Ana buy a red vase in Oslo?")))
        finally:
            memory.close()

    local, found = answered(), answered(answerer=Refusing(error))
    assert found.answer == local.answer is not None
    assert found.citations == local.citations
    assert found.result.trace["answerer"] == local.result.trace["answerer"] == "local-quote-1"
    assert found.result.warnings == (f"{error}: the local answerer answered",)
    assert local.result.warnings == ()
    assert set(found.usage.ms) == {*found.result.usage.ms, "answer"}
