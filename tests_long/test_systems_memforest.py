"""The indexes end to end, through the public surface: paths, traces, order, one candidate per fact."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import OFF

from memforest import Config, Evidence, MemForest
from memforest.config import Ranking
from memforest.models import HashEmbedder

SESSIONS = {
    "spring": [
        ("Nora", "I bought a red canoe in Lisbon."),
        ("Mateo", "Where will you paddle it?"),
        ("Nora", "On the lake behind the old mill, every Sunday."),
        ("Mateo", "My sister Clara adopted two greyhounds."),
    ],
    "summer": [
        ("Mateo", "The greyhounds ate my favourite hat."),
        ("Nora", "I sold the canoe to Tom yesterday."),
        ("Mateo", "I started learning the accordion."),
    ],
    "autumn": [
        ("Nora", "The mill burned down last night."),
        ("Mateo", "I play the accordion in a band now."),
        ("Nora", "I bought a red canoe in Lisbon."),
    ],
}


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> MemForest:
    """A forest with one small memory."""
    made = MemForest(tmp_path_factory.mktemp("forest"), Config(embedder=HashEmbedder()))
    ingest(made)
    return made


def ingest(forest: MemForest) -> None:
    """Ingest the three sessions, two months apart."""
    for month, (name, turns) in zip((3, 6, 9), SESSIONS.items(), strict=True):
        forest.ingest_session(
            "u",
            name,
            [
                {"speaker": s, "content": t, "timestamp": f"2024-{month:02}-01T10:0{i}:00Z"}
                for i, (s, t) in enumerate(turns)
            ],
        )


def top(forest: MemForest, question: str, **options: object) -> Evidence:
    """Return the first evidence."""
    return forest.query("u", question, reference_date="2024-10-01", **options).evidence[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("index", ["memforest", "flat"])
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did Mateo start to learn?", "I started learning the accordion."),
        ("What did the greyhounds eat?", "The greyhounds ate my favourite hat."),
        ("To whom did Nora sell the canoe?", "I sold the canoe to Tom yesterday."),
    ],
)
def test_the_right_turn_comes_first(forest: MemForest, index: str, question: str, said: str) -> None:
    """Both indexes find a plainly worded turn."""
    assert top(forest, question, index=index).quote == said


def test_every_evidence_has_a_path(forest: MemForest) -> None:
    """From the scope down to a leaf: the tree's title, then one interval per node."""
    for one in forest.query("u", "What about the canoe?", top_k=50).evidence:
        title, *intervals = one.path
        assert title.split(" ")[0] in ("session", "entity", "scene")
        assert len(intervals) >= 2
        assert all(len(span) == len("2024-03-01..2024-03-01") for span in intervals)


def test_the_trace_names_the_recalled_trees(forest: MemForest) -> None:
    """Trees with their scores, best first, where they are looked into; the flat index looks into none."""
    assert forest.query("u", "What about the accordion band?").trace["trees"] == []
    trees = forest.query("u", "What about the accordion band?", explain=True).trace["trees"]
    assert [score for _, score in trees] == sorted((score for _, score in trees), reverse=True)
    assert {"entity Mateo", "session autumn"} <= {title for title, _ in trees}
    assert forest.query("u", "What about the accordion?", index="flat", explain=True).trace["trees"] == []


def test_a_fact_is_one_candidate(forest: MemForest) -> None:
    """What was said twice comes once, with both turns as its sources."""
    found = forest.query("u", "Who bought a red canoe in Lisbon?", top_k=50).evidence
    ids = [one.fact_id for one in found if one.fact_id]
    assert len(ids) == len(set(ids))
    canoe = next(one for one in found if "Lisbon" in one.text)
    assert {source.session_id for source in canoe.sources} == {"spring", "autumn"}


def test_equal_questions_get_equal_answers(forest: MemForest, tmp_path: Path) -> None:
    """Order and scores depend on state and arguments alone, also in another memory with the same content."""
    question = "What happened at the mill?"
    first = forest.query("u", question, reference_date="2024-10-01", top_k=50)
    again = forest.query("u", question, reference_date="2024-10-01", top_k=50)
    assert (first.evidence, first.top_facts, first.trace) == (again.evidence, again.top_facts, again.trace)
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as other:
        ingest(other)
        twin = other.query("u", question, reference_date="2024-10-01", top_k=50)
    assert [(e.text, e.score, e.path) for e in twin.evidence] == [
        (e.text, e.score, e.path) for e in first.evidence
    ]


def test_a_deeper_cut_only_adds(forest: MemForest) -> None:
    """The first three of ten are the three of three."""
    ten = forest.query("u", "Where is the lake?", top_k=10).evidence
    assert forest.query("u", "Where is the lake?", top_k=3).evidence == ten[:3]


@pytest.mark.parametrize("name", OFF)
def test_every_weight_can_be_switched_off(forest: MemForest, name: str) -> None:
    """With a weight of 0 its part is gone from the scores, and ranking goes on."""
    part = {"before": "", "after": "", "reply": "", "session_tree": "session_tree"}.get(name, name)
    ranking = replace(Ranking(), **{name: OFF[name]})
    found = forest.query(
        "u", "When did Nora sell the canoe in June 2024?", ranking=ranking, top_k=50
    ).evidence
    assert found
    assert not any(one.scores.get(part) for one in found)


def test_transitions_come_from_time_order(forest: MemForest, tmp_path: Path) -> None:
    """The value before another one leads, although another statement is nearer to the question's words."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as other:
        for month, city in ((1, "Davis"), (4, "Miami"), (8, "Oslo")):
            turn = {
                "speaker": "Ana",
                "content": f"I live in {city}.",
                "timestamp": f"2023-{month:02}-01T10:00:00Z",
            }
            other.ingest_session("u", f"s{month}", [turn])
        found = other.query("u", "Where did Ana live before Miami?", reference_date="2024-01-01")
        flat = other.query("u", "Where did Ana live before Miami?", reference_date="2024-01-01", index="flat")
    assert "Davis" in found.evidence[0].text
    assert found.evidence[0].why
    assert "Miami" in flat.evidence[0].text


def test_an_empty_memory_has_no_evidence(tmp_path: Path) -> None:
    """A registered user who has said nothing yet can be asked."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as empty:
        empty.register_user("u")
        for index in ("memforest", "flat"):
            assert empty.query("u", "Anybody?", index=index).evidence == ()
