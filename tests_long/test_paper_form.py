"""The paper's own form: which trees are recalled, how leaves are compared, and evidence that is only what browse reached."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply, prompt_of
from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted, searching
from tests_long.test_memory_trees import nodes
from tests_long.worlds import fast_config, fast_folder, file_of, rows

from memforest import AskResult, Config, MemForest, QueryResult, Ranking, load_default_config
from memforest.errors import ConfigError, InputError
from memforest.ports import ChatRequest
from memforest.search.context_scores import Base, base_scores
from memforest.search.filters import Search, first_turns
from memforest.search.snapshot import Snapshot
from memforest.testing import FunctionChat, HashEmbedder
from memforest.trees.attached import make_index
from memforest.trees.memforest_grow import FAMILIES, MemForestSettings, scene_thresholds
from memforest.trees.memforest_recall import (
    Recalled,
    leaf_similarity,
    nearness_to,
    of_leaves,
    recall,
    recall_trees,
)

QUESTION = np.eye(DIMENSION, dtype=np.float32)[0]
FORM: dict[str, Any] = {"evidence": "reached", "families": ["session"]}
THINGS = ("drum", "fiddle", "globe", "lantern", "kettle", "saddle", "anchor", "violin")


def based(snapshot: Snapshot, request: Search | None = None) -> Base:
    """Return base scores without a lexical leg."""
    none = np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
    return base_scores(snapshot, request or searching(axis=0), *none)


def trees_of(snapshot: Snapshot, **settings: Any) -> list[int]:
    """Return the trees that are recalled, best first."""
    found, _ = recall_trees(
        snapshot, planted(snapshot), based(snapshot), QUESTION, MemForestSettings(**settings)
    )
    return [tree for tree, _ in found]


def every_family() -> Snapshot:
    """One tree of each kind over two turns and their facts; the entity's leaves are nearest, the scene's farthest."""
    turns = [Said("Ana", 1), Said("Ana", 2, axis=0)]
    facts = [Fact((0,), axis=0), Fact((1,)), Fact((0,))]
    return hand_made(
        turns,
        facts,
        [
            Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2))),
            Tree("entity", 1, (("fact", 0), ("fact", 1)), axes={5: 0}),
            Tree("scene", 1, (("fact", 1), ("fact", 2))),
        ],
    )


def test_only_trees_of_the_given_kinds_are_recalled() -> None:
    """Neither their roots nor their leaves bring in trees of other kinds."""
    snapshot = every_family()
    assert trees_of(snapshot) == [1, 0, 2]
    assert trees_of(snapshot, families=["scene"]) == [2]
    assert trees_of(snapshot, families=["scene", "session"]) == [0, 2]
    found = recall(
        snapshot, planted(snapshot), based(snapshot), QUESTION, MemForestSettings(families=["scene"])
    )
    assert set(found.leaves) == {6, 7}


@pytest.mark.parametrize("near_leaf_first", [True, False])
def test_trees_of_other_kinds_take_no_place_in_the_pools(near_leaf_first: bool) -> None:
    """With room for one root and one leaf, both are of the family, and not the better ones of another.

    Of one session the root is near, of the other a leaf; equal scores stand by tree, so that each comes first once.
    """
    turns = [
        Said("Ana", 1, axis=0 if near_leaf_first else -1),
        Said("Ana", 1),
        Said("Ana", 2, session=2),
        Said("Ana", 2, session=2),
    ]
    turns[2] = replace(turns[2], axis=-1 if near_leaf_first else 0)
    near_root = {8: 0} if near_leaf_first else {5: 0}
    trees = [
        Tree("entity", 1, (("fact", 0), ("fact", 1)), axes={2: 0}),
        Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2)), axes=near_root),
        Tree("session", 2, (("turns", 2, 3), ("turns", 3, 4)), axes=near_root),
    ]
    snapshot = hand_made(turns, [Fact((1,), axis=0), Fact((3,), axis=0)], trees)
    assert trees_of(snapshot, recall_trees=1, facts_to_trees=1) == [0]
    assert trees_of(snapshot, families=["session"], recall_trees=1, facts_to_trees=1) == [1]


def test_the_pool_of_leaves_is_a_setting() -> None:
    """A tree with a far root is recalled only if its best leaf is among so many."""
    turns = [Said("Ana", day, session=day) for day in range(1, 9)]
    for place in (5, 7):
        turns[place] = replace(turns[place], axis=0)
    trees = [
        Tree("session", n, (("turns", 2 * n, 2 * n + 1), ("turns", 2 * n + 1, 2 * n + 2))) for n in range(4)
    ]
    snapshot = hand_made(turns, trees=trees)
    assert trees_of(snapshot, recall_trees=2, facts_to_trees=1) == [2, 0]
    assert trees_of(snapshot, recall_trees=2, facts_to_trees=2) == [2, 3]
    assert trees_of(snapshot, recall_trees=3, facts_to_trees=2) == [2, 3, 0]


def test_the_beam_is_a_setting() -> None:
    """Of a level no more nodes are gone down to than the beam is wide."""
    turns = [Said("Ana", 1, axis=0), *[Said("Ana", 1)] * 3]
    snapshot = hand_made(turns, trees=[Tree("session", 1, tuple(("turns", n, n + 1) for n in range(4)))])
    for width in (1, 3):
        found = recall(
            snapshot, planted(snapshot), based(snapshot), QUESTION, MemForestSettings(beam_width=width)
        )
        assert set(found.leaves) == set(range(width))


def mixed() -> Snapshot:
    """A chunk whose turn is near and whose fact is not, one the other way round, and one without a fact."""
    turns = [Said("Ana", 1, axis=0), Said("Ana", 1), Said("Ana", 1, axis=0)]
    return hand_made(
        turns,
        [Fact((0,)), Fact((1,), axis=0)],
        [
            Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2), ("turns", 2, 3))),
            Tree("entity", 1, (("fact", 0), ("fact", 1))),
        ],
    )


def test_leaves_are_compared_as_they_are_by_facts_or_aligned() -> None:
    """Eq. 7 over leaves of one kind: a chunk is as near as its turn, as a fact that it supports, or on the facts' scale."""
    snapshot = mixed()
    base = based(snapshot)
    raw = leaf_similarity(snapshot, planted(snapshot), base, QUESTION, "mixed")
    assert raw.tolist() == [1, 0, 1, 0, 0, 1, 0]
    assert leaf_similarity(snapshot, planted(snapshot), base, QUESTION, "facts").tolist() == [
        0,
        1,
        -1,
        0,
        0,
        1,
        0,
    ]
    aligned = leaf_similarity(snapshot, planted(snapshot), base, QUESTION, "aligned")
    assert aligned[[4, 5]].tolist() == [0, 1]
    assert aligned[:3].mean() == pytest.approx(0.5)
    assert aligned[:3].std() == pytest.approx(0.5)
    assert leaf_similarity(snapshot, planted(snapshot), base, QUESTION).tolist() == aligned.tolist()
    alike = hand_made(
        [Said("Ana", 1, axis=0)] * 2, [Fact((0,))], [Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2)))]
    )
    assert leaf_similarity(alike, planted(alike), based(alike), QUESTION)[:2].tolist() == [1, 1]
    near = nearness_to(snapshot, planted(snapshot), QUESTION, QUESTION, MemForestSettings(leaves="facts"))
    assert near([0, 1, 2]) == [0, 1, -1]
    aligned_too = MemForestSettings(leaves="aligned")
    assert nearness_to(snapshot, planted(snapshot), QUESTION, QUESTION, aligned_too)([0, 1, 2]) == [1, 0, 1]


def test_how_leaves_are_compared_decides_which_tree_is_recalled() -> None:
    """A near turn makes its session the best tree, unless only facts are compared."""
    snapshot = hand_made(
        [Said("Ana", 1, axis=0), Said("Ana", 1), Said("Ana", 2)],
        [Fact((1,)), Fact((2,), axis=0)],
        [
            Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2))),
            Tree("entity", 1, (("fact", 0), ("fact", 1))),
        ],
    )
    assert trees_of(snapshot) == [0, 1]
    assert trees_of(snapshot, leaves="facts") == [1, 0]


def reached(snapshot: Snapshot, paths: dict[int, float], **settings: Any) -> list[tuple[int, int, float]]:
    """Return (turn, fact, score) of what leaves stand for, best first."""
    request = searching(axis=0)
    found = of_leaves(
        snapshot,
        planted(snapshot),
        request,
        based(snapshot, request),
        Recalled((), paths),
        MemForestSettings(**settings),
    )
    return [(hit.turn, hit.fact, hit.score) for hit in found.hits]


def test_reached_leaves_are_ranked_by_themselves_or_by_their_path() -> None:
    """Only what was reached is there: turns of chunks, facts at the turn that said them first."""
    snapshot = mixed()
    leaves = {1: 0.9, 4: 0.2, 5: 0.4}
    assert reached(snapshot, leaves, leaves="mixed") == [(1, 1, 1.0), (0, 0, 0.0), (1, -1, 0.0)]
    assert reached(snapshot, leaves, reached_by="path") == [(1, -1, 0.9), (1, 1, 0.4), (0, 0, 0.2)]


def test_compared_by_facts_a_chunk_stands_for_the_facts_of_its_turns() -> None:
    """A fact that several leaves stand for is there once; a chunk without facts stands for its turns, behind all others."""
    snapshot = mixed()
    paths = {0: 0.1, 1: 0.1, 2: 0.1, 5: 0.1}
    assert reached(snapshot, paths, leaves="facts") == [(1, 1, 1.0), (0, 0, 0.0), (2, -1, -1.0)]
    paths = {1: 0.9, 5: 0.4}
    assert reached(snapshot, paths, leaves="facts", reached_by="path") == [(1, 1, 0.9)]


def test_the_turn_of_a_fact_is_the_one_said_first() -> None:
    """By when it was said, whatever the order of arrival."""
    turns = [Said("Ana", 5), Said("Ana", 2, session=2), Said("Ana", 9, session=3)]
    assert first_turns(hand_made(turns, [Fact((0, 1, 2)), Fact((0, 2))])).tolist() == [1, 0]


def test_thresholds_that_are_set_take_the_place_of_those_measured() -> None:
    """One by one; the others stay those of the embedder."""
    measured = scene_thresholds("minilm-l6-v2-int8@8199be6f")
    settings = MemForestSettings(scene_second=0.5, scene_time=0.0)
    assert scene_thresholds("minilm-l6-v2-int8@8199be6f", settings) == replace(measured, second=0.5, time=0.0)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A memory of twelve sessions in which two people buy things; read by all tests, written by none."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as path:
        fill(Path(path), fast_config())
        yield Path(path)


def says(speaker: str, text: str) -> dict[str, str]:
    """Return a turn."""
    return {"speaker": speaker, "text": text}


def fill(path: Path, config: Config) -> None:
    """Write the sessions."""
    with MemForest(path, config) as forest:
        for day in range(1, 13):
            turns = [
                says(who, f"I bought a {thing}. I sold my harp{thing}. What do you say?")
                for who, thing in things(day)
            ]
            forest.ingest_session("u", f"s{day:02}", turns, timestamp=f"2024-03-{day:02}")


def things(day: int) -> list[tuple[str, str]]:
    """Return who bought what on a day."""
    return [(("Ana", "Bob")[n % 2], f"{thing}{day}") for n, thing in enumerate(THINGS)]


def ask(
    path: Path, config: Config | None = None, question: str = "Who bought a violin7?", **more: Any
) -> QueryResult:
    """Ask a memory, by whatever settings of the index are given."""
    index = {name: more.pop(name) for name in list(more) if name in MemForestSettings.__slots__}
    options = {"top_k": 1000, **more}
    given = replace(config or fast_config(), index_settings={"memforest": index})
    with MemForest(path, given) as forest:
        return forest.query("u", question, **options)


def kinds(found: QueryResult) -> set[str]:
    """Return the kinds of trees along whose paths evidence was found."""
    return {one.path[0].split()[0] for one in found.evidence}


def test_only_what_browse_reached_is_evidence(folder: Path) -> None:
    """Far less than everything, all of it in recalled trees, and the best first."""
    everything, some = ask(folder), ask(folder, evidence="reached")
    recalled = {title for title, _ in some.trace["trees"]}
    assert 0 < len(some.evidence) < len(everything.evidence)
    assert {one.path[0] for one in some.evidence} <= recalled
    assert [one.score for one in some.evidence] == sorted((one.score for one in some.evidence), reverse=True)
    assert "violin7" in some.evidence[0].text


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_all_that_evidence_comes_from(folder: Path, family: str) -> None:
    """Each by itself is recalled and reached, and named in the trace."""
    found = ask(folder, evidence="reached", families=[family])
    assert kinds(found) == {family}
    assert {title.split()[0] for title, _ in found.trace["trees"]} == {family}


@pytest.mark.parametrize("own", [{"families": ["entity"]}, {"leaves": "facts"}, {"leaves": "mixed"}])
def test_recall_changes_no_ranking_of_everything(folder: Path, own: dict[str, Any]) -> None:
    """By default it says where guided modes and the trace look; mode "emb" ranks everything all the same."""
    other, plain = ask(folder, explain=True, mode="emb", **own), ask(folder, explain=True, mode="emb")
    assert [(one.text, one.score) for one in other.evidence] == [
        (one.text, one.score) for one in plain.evidence
    ]
    assert other.trace["trees"] != plain.trace["trees"]


@pytest.mark.parametrize("evidence", ["reached", "roots"])
def test_nothing_to_recall_is_said(tmp_path: Path, evidence: str) -> None:
    """A memory without trees of the kind, and one without vectors, have no evidence and a warning that says why."""
    fill(tmp_path / "plain", Config(embedder="none"))
    with MemForest(tmp_path / "lone", fast_config()) as forest:
        forest.user("u").add(says("Ana", "I bought a drum."))
    lone = ask(tmp_path / "lone", evidence=evidence, families=["scene"])
    plain = ask(tmp_path / "plain", Config(embedder="none"), evidence=evidence)
    for found, why in ((lone, "no tree of the kinds scene"), (plain, "without vectors no trees")):
        assert found.evidence == ()
        assert any(why in warning and "'all'" in warning for warning in found.warnings)


def test_a_browser_decides_what_is_evidence(folder: Path) -> None:
    """In a guided mode the leaves that the model chose are all there is; none, with a warning, if it chose none."""
    asked: list[str] = []

    def browse(chosen: list[int]) -> QueryResult:
        def reply(request: ChatRequest) -> str:
            asked.append(str(request.messages[-1]))
            return json.dumps({"ranked": chosen})

        return ask(folder, fast_config(chat=FunctionChat(reply)), mode="llm", beam_width=1, **FORM)

    first, none = browse([1]), browse([])
    assert first.usage.steps.keys() == none.usage.steps.keys() == {"browse"}
    assert 0 < len(first.evidence) < len(ask(folder, **FORM).evidence)
    assert none.evidence == ()
    assert any("the browser chose no leaf" in warning for warning in none.warnings)
    assert all(re.search(r"most\W+1\b", one) for one in asked)


def test_a_planned_browse_compares_leaves_as_recall_does(folder: Path) -> None:
    """With all session trees recalled either way, what browse by sub-queries says of their leaves differs."""

    def browsed(leaves: str) -> dict[str, float]:
        chat = FunctionChat(local_reply)
        settings: dict[str, Any] = {"families": ["session"], "recall_trees": 50, "leaves": leaves}
        found = ask(folder, fast_config(chat=chat), mode="emb+planner", **settings)
        return {one.quote: one.scores.get("browse", 0.0) for one in found.evidence}

    assert browsed("mixed") == browsed("aligned") != browsed("facts")


def test_roots_are_summaries_of_recalled_trees(folder: Path) -> None:
    """One for each recalled tree, in their order, with the turns beneath as sources."""
    found = ask(folder, evidence="roots")
    assert [one.path for one in found.evidence] == [one.path[:1] + one.path[1:2] for one in found.evidence]
    assert [one.path[0] for one in found.evidence] == [title for title, _ in found.trace["trees"]]
    assert {one.kind for one in found.evidence} == {"memory"}
    assert all((one.turns or 0) > 1 and one.sources for one in found.evidence)


def test_roots_are_not_browsed(folder: Path) -> None:
    """A guided mode asks no model, and says so."""
    config = fast_config(chat=FunctionChat(local_reply))
    found = ask(folder, config, evidence="roots", mode="llm")
    assert found.usage.model_calls == 0
    assert any("browses no trees" in warning for warning in found.warnings)


def test_a_root_that_is_a_leaf_is_what_it_stands_for(tmp_path: Path) -> None:
    """A session of one chunk has no summary, and its turns are the evidence."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.user("u").add(says("Ana", "I bought a drum."))
    found = ask(tmp_path, evidence="roots", families=["session"])
    assert [(one.kind, one.text) for one in found.evidence] == [("turn", "I bought a drum.")]


def test_time_filters_hold_for_what_was_reached(folder: Path) -> None:
    """What was said later is no evidence for an earlier time; what somebody sold before is sold then."""
    for evidence in ("reached", "roots"):
        found = ask(folder, evidence=evidence, during=("2024-03-03", "2024-03-06"))
        assert all(one.said.day <= 5 for one in found.evidence if one.kind != "memory")
    assert ask(folder, evidence="reached", during=("2024-03-03", "2024-03-06")).evidence


def test_facts_index_ranks_facts_by_cosine_alone(folder: Path) -> None:
    """Every evidence is a fact, each there once; the score is the cosine, and nothing else is added."""
    found = ask(folder, index="facts")
    assert {one.kind for one in found.evidence} == {"fact"}
    assert len(found.evidence) == len(rows(file_of(folder), "SELECT id FROM fact"))
    assert all(one.scores == {"cosine": one.score} for one in found.evidence)
    assert len({one.fact_id for one in found.evidence}) == len(found.evidence)
    assert len(ask(folder, index="facts", top_k=10).evidence) == 10


def test_facts_index_without_vectors_ranks_by_words(tmp_path: Path) -> None:
    """And a warning says that this is not what was asked for."""
    fill(tmp_path, Config(embedder="none"))
    found = ask(tmp_path, Config(embedder="none"), index="facts")
    assert "violin7" in found.evidence[0].text
    assert any("compares vectors" in warning for warning in found.warnings)


def test_every_fact_of_a_turn_is_evidence(tmp_path: Path) -> None:
    """Three statements of one turn are three facts with three explanations, and all are in the context."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.user("u").add(says("Ana", "I bought a drum. Bob moved to Oslo last week. My sister is Carla."))
    ways: tuple[dict[str, Any], ...] = ({"index": "facts"}, {"evidence": "reached", "leaves": "facts"})
    for settings in ways:
        found = ask(tmp_path, question="Who bought a drum?", explain=True, **settings)
        assert len({one.fact_id for one in found.evidence} - {None}) == len(found.evidence) == 3
        assert (
            len({one.text for one in found.evidence}) == len({one.quote for one in found.evidence}) + 2 == 3
        )
        explained = found.trace["explain"]["evidence"]
        assert [one["fact_id"] for one in explained] == [one.fact_id for one in found.evidence]
        assert len(found.top_facts) == 3


def test_scene_thresholds_are_settings(tmp_path: Path) -> None:
    """Above 1 no fact joins another's scene; far below 0 all stand in one."""
    counts = {}
    for join in (2.0, -1.0):
        path = tmp_path / str(join)
        settings = {"scene_join": join, "scene_second": 2.0, "scene_time": 0.0}
        with MemForest(path, fast_config(index_settings={"memforest": settings})) as forest:
            turns = [says("Ana", f"I bought a {thing}.") for thing in THINGS]
            forest.ingest_session("u", "s", turns, timestamp="2024-03-01")
            counts[join] = forest.user("u").stats().indexes["memforest"]["scenes"]
    assert counts == {2.0: len(THINGS), -1.0: 1}


def test_the_papers_form_is_a_preset(folder: Path) -> None:
    """Its settings are one table, which the index accepts, and it does what they say."""
    table: Any = load_default_config("memforest_paper", environ={}).index_settings["memforest"]
    settings = make_index("memforest", table).settings
    assert (settings.evidence, settings.leaves, settings.summarise) == ("reached", "facts", "every")
    found = ask(folder, **table)
    assert {one.kind for one in found.evidence} == {"fact"}
    assert len({one.fact_id for one in found.evidence}) == len(found.evidence)


def test_a_user_can_be_required_to_be_new(tmp_path: Path) -> None:
    """`load_existing=False` opens no memory that there is, and loses none."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.register_user("u", load_existing=False)
        forest.user("u").add(says("Ana", "I bought a drum."))
        forest.register_user("u", load_existing=True)
        with pytest.raises(InputError):
            forest.register_user("u", load_existing=False)
        assert forest.user("u").stats().turns == 1
        with pytest.raises(InputError, match="load_existing"):
            forest.register_user("v", load_existing="no")  # type: ignore[arg-type]
        assert not forest.has_user("v")


def test_every_inner_node_is_summarised_if_that_is_set(tmp_path: Path) -> None:
    """As in Alg. 1, line 26: no node keeps its children's texts, where by default many do."""
    kept: dict[str, int] = {}
    for summarise in ("kept", "every"):
        path = tmp_path / summarise
        settings = {"memforest": {"summarise": summarise}}
        config = fast_config(chat=FunctionChat(local_reply), index_settings=settings)
        with MemForest(path, config) as forest:
            for day in (1, 2, 3):
                turns = [says(who, f"I bought a {thing}.") for who, thing in things(day)]
                forest.ingest_session("u", f"s{day}", turns, timestamp=f"2024-03-{day:02}")
            forest.flush("u")
        kept[summarise] = len(rows(file_of(path), "SELECT 1 FROM artifact WHERE vector_of = 'mean'"))
    assert kept["every"] == 0 < kept["kept"]


PLACES = ("Porto", "Lisbon", "Faro", "Braga", "Evora", "Sintra")


class Preset:
    """A memory of twelve sessions of a preset, whose models are doubles, and what these were asked while it was written."""

    def __init__(self, folder: Path, *names: str, **settings: Any) -> None:
        self.prompts: list[tuple[str, str]] = []
        doubles: dict[str, Any] = {"chat": FunctionChat(self._reply), "embedder": HashEmbedder(64)}
        self.forest = MemForest(folder, load_default_config(*names, environ={}, **{**doubles, **settings}))
        for number in range(12):
            thing, day = (
                THINGS[number % 8],
                datetime(2024, 3, 1, tzinfo=timezone.utc) + timedelta(days=5 * number),
            )
            said = [
                (f"I bought {thing} {number}-{at} in {PLACES[at]}.", f"What is it, {thing} {number}-{at}?")
                for at in range(4)
            ]
            turns = [turn for asked in said for turn in map(says, ("Ana", "Bob"), asked)]
            self.forest.ingest_session("u", f"s{number}", turns, timestamp=day.isoformat())
        self.forest.user("u").advance(force=True)
        self.forest.flush("u")
        self.wrote, self.prompts = Counter(name for name, _ in self.prompts), []

    def _reply(self, request: ChatRequest) -> str:
        self.prompts.append((prompt_of(request) or request.step, request.messages[-1].content))
        return local_reply(request)

    def ask(self, question: str = "What did Ana buy in Porto?", **how: Any) -> AskResult:
        """Return the answer."""
        self.prompts = []
        return self.forest.ask("u", question, **how)

    @property
    def asked(self) -> Counter[str]:
        """How often each prompt was asked for the last answer."""
        return Counter(name for name, _ in self.prompts)

    @property
    def read(self) -> list[dict[str, Any]]:
        """The pieces of evidence that the answering prompt held."""
        (text,) = [text for name, text in self.prompts if name.endswith("answer")]
        rows = text.split("<evidence>\n")[1].split("\n</evidence>")[0].splitlines()
        return [json.loads(row) for row in rows]


def test_memforest_paper_reads_what_browse_reached(tmp_path: Path) -> None:
    """Ten facts of reached leaves; every dirty node and chunk is summarised, one call plans, and others only browse."""
    made = Preset(tmp_path, "default_4b", "memforest_paper")
    with made.forest as forest:
        sizes = forest.user("u").stats().indexes["memforest"]
        assert made.wrote["extract"] == 48
        inner = Counter(
            view.title.split()[0]
            for tree in forest.user("u").tree(depth=99)
            for view in [replace(one, title=tree.title) for one in nodes(tree)]
            if view.children
        )
        for kind, count in inner.items():
            assert made.wrote[f"summarise_{kind}"] >= count + (48 if kind == "session" else 0)
        assert set(made.wrote) <= {
            "extract",
            "judge",
            "summarise_session",
            "summarise_entity",
            "summarise_scene",
        }
        assert sizes["trees"] > 12
        found = made.ask(explain=True)
        assert (made.asked["plan"], made.asked["answer"]) == (1, 1)
        assert set(made.asked) <= {"plan", "browse", "answer"}
        assert len(made.read) == len(found.result.evidence) == 10
        assert all(one["browsed"] is not None for one in found.result.trace["explain"]["evidence"])


def test_timem_paper_reads_what_the_gate_kept(tmp_path: Path) -> None:
    """Memories of every level within the budgets, as texts, the lowest first; a call a window, and two before the answer."""
    made = Preset(tmp_path, "timem_paper")
    preset = make_index("timem", made.forest.config.index_settings["timem"]).settings.recall
    with made.forest as forest:
        levels = forest.user("u").stats().indexes["timem"]["levels"]
        prompts = ("timem_segment", "timem_session", "timem_day", "timem_week", "timem_profile")
        assert [made.wrote[one] for one in prompts] == list(levels.values())
        assert set(made.wrote) == set(prompts)
        gates: dict[int, int] = {}
        for complexity, budget in ((0, (20, 4, 0, 0, 1)), (1, (20, 4, 2, 0, 1)), (2, (20, 4, 4, 2, 1))):
            own = replace(preset, complexity=complexity)
            found = made.ask("When did Ana buy a drum in Porto?", ranking=Ranking(recall=own))
            gate, shown = found.result.trace["gate"], found.result.evidence
            assert (gate["by"], gate["candidates"]) == ("model", sum(budget))
            assert len(made.read) == len(shown) == gate["kept"] > 10
            assert all("summary_of_turns" in one for one in made.read)
            counts = Counter(one.level for one in shown)
            assert all(counts[level] <= most for level, most in enumerate(budget))
            assert [one.level for one in shown] == sorted(one.level or 0 for one in shown)
            assert made.asked == Counter(["timem_gate", "answer"])
            gates[complexity] = gate["kept"]
        assert gates[2] > gates[0]
        made.ask()
        assert made.asked == Counter(["timem_plan", "timem_gate", "answer"])


@pytest.mark.parametrize("policy", ["top-down", "bottom-up"])
def test_segtree_paper_reads_ten_nodes(tmp_path: Path, policy: str) -> None:
    """Leaves with all their turns, and what stretches say; every stretch on the way of a new leaf is annotated by a call."""
    table: Any = load_default_config("segtree_paper", environ={}).index_settings["segtree"]
    made = Preset(
        tmp_path, "segtree_paper", index_settings={"segtree": {**table, "tau": 0.3, "propagate": policy}}
    )
    with made.forest as forest:
        shape = forest.user("u").stats().indexes["segtree"]
        assert (shape["leaves"], shape["waiting"], shape["placed_by"]) == (48, 0, {"cosine": 48})
        (tree,) = forest.user("u").tree(index="segtree", depth=99)
        # A stretch begins with its second child, and every leaf from there on changes it.
        dirtied = [one.leaves - one.children[0].leaves for one in nodes(tree) if one.children]
        assert made.wrote == {"summarise_conversation": sum(dirtied)}
        found = made.ask()
        assert made.asked == Counter(["answer"])
        shown = found.result.evidence
        leaves = {
            one.sources[0].session_id + str(int(one.sources[0].turn_ids[0]) // 2)
            for one in shown
            if one.kind == "turn"
        }
        stretches = [one.node_id for one in shown if one.kind == "memory"]
        assert len(leaves) + len(set(stretches)) == 10
        assert len(made.read) == len(shown) == 2 * len(leaves) + len(stretches)
        for one in shown:
            if one.kind == "turn":
                assert one.fact_id is None
        assert len(made.ask(top_k=3).result.evidence) <= 6


def test_segtree_keeps_short_texts_unless_every_node_is_to_be_summarised(tmp_path: Path) -> None:
    """The same tree costs fewer calls by default."""
    table: Any = load_default_config("segtree_paper", environ={}).index_settings["segtree"]
    calls = {}
    for summarise in ("kept", "every"):
        own = {**table, "tau": 0.3, "summarise": summarise}
        made = Preset(tmp_path / summarise, "segtree_paper", index_settings={"segtree": own})
        calls[summarise] = made.wrote["summarise_conversation"]
        made.forest.close()
    assert calls["kept"] < calls["every"]


def test_hmem_paper_reads_the_answers_of_the_parts(tmp_path: Path) -> None:
    """One call plans, one answers each part, and one puts the answers together with the best of their evidence."""
    made = Preset(tmp_path, "hmem_paper")
    with made.forest as forest:
        sizes = forest.user("u").stats().indexes["hmem"]
        assert set(made.wrote) <= {"extract", "judge", "hmem_memory"}
        assert made.wrote["extract"] == 48
        assert sizes["L1"] >= sizes["L2"] >= sizes["L3"] >= sizes["L4"] > 0
        found = made.ask("What did Ana buy in Porto and what did Ana buy in Faro?")
        parts = found.result.trace["explore"]["sub_queries"]
        assert (made.asked["hmem_plan"], made.asked["hmem_reason"]) == (1, len(parts))
        assert sum(made.asked.values()) == 2 + len(parts)
        assert len(made.read) == len(found.result.evidence) <= 10


def test_presets_are_laid_over_each_other() -> None:
    """A form keeps the models that came before, unless it has its own; those are taken as a whole."""

    def load(*names: str) -> Any:
        return load_default_config(*names, environ={})

    paper, alone = load("default_30b", "memforest_paper"), load("memforest_paper")
    assert paper == load("memforest_paper", "default_30b")
    assert (paper.chat, paper.embedder) == (load("default_30b").chat, load("default_30b").embedder)
    assert (paper.index_settings, alone.chat) == (alone.index_settings, None)
    served = load("timem_paper", "default_30b")
    assert served.chat == load("default_30b").chat
    assert (served.indexes, served.top_k) == (("timem",), 100)
    own = load("default_30b", "timem_paper")
    assert (own.chat, own.embedder) == (load("timem_paper").chat, load("timem_paper").embedder)
    with pytest.raises(ConfigError, match="'paper'"):
        load("default_30b", "paper")
