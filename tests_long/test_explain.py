"""Why a result is as it is: parts that add up, and what filters, diversity and the reranker did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, Evidence, InputError, MemForest, QueryResult
from memforest.config import Ranking
from memforest.models import HashEmbedder

NOW = "2024-12-01"
HOBBIES = ("pottery", "fencing", "baking", "chess")
QUESTIONS = [
    "What hobbies has Ana tried?",
    "When did Ana buy the canoe?",
    "Where did Ana live before Oslo?",
    "Where does Ana live now?",
    "What did Ben say in March 2024?",
    "accordion",
]


def turns(month: int, said: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return dated turns."""
    return [
        {"speaker": who, "content": text, "timestamp": f"2024-{month:02}-01T10:{at:02}:00Z"}
        for at, (who, text) in enumerate(said)
    ]


def fill(forest: MemForest) -> None:
    """Ingest four sessions: one talks much of hobbies, the others a little."""
    forest.ingest_session(
        "u",
        "s1",
        turns(1, [("Ana", f"I tried {one} as a hobby, a fine hobby.") for one in HOBBIES]),
    )
    forest.ingest_session(
        "u",
        "s2",
        turns(3, [("Ben", "I live in Porto."), ("Ana", "I live in Davis. I tried sailing as a hobby.")]),
    )
    forest.ingest_session(
        "u", "s3", turns(6, [("Ana", "I moved to Oslo."), ("Ben", "Do you like the hobby of fishing?")])
    )
    forest.ingest_session(
        "u", "s4", turns(9, [("Ana", "I bought a canoe."), ("Ana", "Rowing is a hobby that I tried.")])
    )


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> MemForest:
    """A forest without a reranker."""
    made = MemForest(
        tmp_path_factory.mktemp("plain"), Config(embedder=HashEmbedder(), indexes=("memforest", "segtree"))
    )
    fill(made)
    return made


def backwards(_question: str, texts: list[str]) -> list[int]:
    """Score the candidates in the opposite of their order."""
    return list(range(len(texts)))


def reranking(folder: Path, **settings: Any) -> MemForest:
    """Return a filled forest whose reranker turns the candidates around."""
    config = Config(embedder=HashEmbedder(), **{"reranker": backwards, "rerank_top": 5, **settings})
    made = MemForest(folder, config)
    fill(made)
    return made


def ask(forest: MemForest, question: str, **options: Any) -> QueryResult:
    """Return a query's result."""
    return forest.query("u", question, reference_date=NOW, **options)


def texts(found: Sequence[Evidence]) -> list[str]:
    """Return the quotes."""
    return [one.quote for one in found]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("index", ["memforest", "segtree", "flat"])
def test_parts_sum_to_the_score(forest: MemForest, question: str, index: str) -> None:
    """The named parts of every piece of evidence add up to its score, also of one that time order leads with."""
    found = ask(forest, question, index=index, explain=True, top_k=50)
    assert found.evidence
    for one, why in zip(found.evidence, found.trace["explain"]["evidence"], strict=True):
        assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-9)
        assert sum(why["parts"].values()) == pytest.approx(why["score"], abs=1e-9)
        assert why["parts"] == one.scores


def test_a_lead_is_no_part(forest: MemForest) -> None:
    """What time order puts in front keeps its score, and the explanation says how many turns it put there."""
    found = ask(forest, "Where did Ana live before Oslo?", explain=True)
    assert "lead" not in found.evidence[0].scores
    why = found.trace["explain"]
    assert why["time_order"] == {
        "why": found.evidence[0].why,
        "turns": sum(bool(one.why) for one in found.evidence),
    }
    assert ask(forest, "accordion", explain=True).trace["explain"]["time_order"] is None


def test_explanation_says_what_was_done(forest: MemForest) -> None:
    """Plan, trees, filters, and each evidence's place, path, and how near the path was."""
    found = ask(
        forest,
        "What hobbies has Ana tried?",
        explain=True,
        as_of="2024-05-01",
    )
    why = found.trace["explain"]
    assert why["plan"]["kind"] == found.plan.kind == "list"
    assert why["trees"] == found.trace["trees"] != []
    kept = why["filters"]
    assert (kept["turns"], kept["turns_kept"]) == (10, 6)
    assert kept["as_of"].isoformat() == "2024-05-01T00:00:00+00:00"
    assert kept["during"] is None
    assert why["rerank"] is None
    assert [one["place"] for one in why["evidence"]] == list(range(1, len(found.evidence) + 1))
    assert [one["path"] for one in why["evidence"]] == [one.path for one in found.evidence]
    near = [one["browsed"] for one in why["evidence"] if one["browsed"] is not None]
    assert near
    assert all(-1 <= one <= 1.001 for one in near)


def test_without_explain_the_trace_is_short(forest: MemForest) -> None:
    """The explanation is there when it is asked for, and only then; it changes no evidence."""
    plain, explained = ask(forest, QUESTIONS[0]), ask(forest, QUESTIONS[0], explain=True)
    assert "explain" not in plain.trace
    assert plain.evidence == explained.evidence
    with pytest.raises(InputError, match="explain"):
        ask(forest, "canoe", explain="yes")


def test_a_reranker_orders_the_first_candidates_only(forest: MemForest, tmp_path: Path) -> None:
    """The first five are turned around by a heavy weight; the others stay where they were, and the sum is right."""
    plain = ask(forest, "What hobbies has Ana tried?", top_k=8)
    with reranking(tmp_path, ranking=Ranking(rerank=50.0)) as other:
        found = ask(other, "What hobbies has Ana tried?", top_k=8, explain=True)
        assert texts(found.evidence) == texts(plain.evidence[:5][::-1] + plain.evidence[5:])
        for one in found.evidence:
            assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-9)
        why = found.trace["explain"]
        assert why["rerank"] == {"model": "callable:backwards", "candidates": 5}
        assert [one["place_before_rerank"] for one in why["evidence"]] == [5, 4, 3, 2, 1, 6, 7, 8]
        short = ask(other, "What hobbies has Ana tried?", top_k=2)
        assert texts(short.evidence) == texts(found.evidence[:2])


def test_no_candidate_that_was_not_read_comes_before_one_that_was(tmp_path: Path) -> None:
    """What the reranker adds is never negative, however bad it finds a candidate."""
    with reranking(tmp_path, ranking=Ranking(rerank=0.5)) as forest:
        found = ask(forest, "What hobbies has Ana tried?", top_k=8).evidence
        read = ["rerank" in one.scores for one in found]
        assert read == [True] * 5 + [False] * 3
        assert min(one.scores["rerank"] for one in found[:5]) == 0
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_weight_of_zero_switches_the_reranker_off(forest: MemForest, tmp_path: Path) -> None:
    """It is not even called then."""

    def fails(_question: str, _texts: list[str]) -> list[float]:
        raise AssertionError("called")

    with reranking(tmp_path, reranker=fails) as other:
        off = replace(Ranking(), rerank=0.0)
        assert texts(ask(other, "canoe", ranking=off).evidence) == texts(ask(forest, "canoe").evidence)
        assert ask(other, "canoe", ranking=off).trace["reranker"] is None


def test_the_reranker_reads_the_turn_before(tmp_path: Path) -> None:
    """It gets the question, and each candidate behind the end of the turn before it in the session."""
    read: list[tuple[str, list[str]]] = []

    def reads(question: str, candidates: list[str]) -> list[float]:
        read.append((question, candidates))
        return [0.0] * len(candidates)

    with reranking(tmp_path, reranker=reads) as forest:
        forest.ingest_session(
            "u", "s5", turns(11, [("Ben", "so " * 500 + "what next?"), ("Ana", "A zeppelin.")])
        )
        before = texts(ask(forest, "zeppelin", ranking=Ranking(rerank=0)).evidence)
        found = ask(forest, "zeppelin")
    ((question, candidates),) = read
    assert question == "zeppelin"
    assert candidates[0].endswith("so what next? Ana: A zeppelin.")
    assert len(candidates[0]) < 450
    assert len(candidates) == 5
    assert texts(found.evidence) == before  # equal scores change nothing
