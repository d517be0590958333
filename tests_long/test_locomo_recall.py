"""The recall benchmark: reading, counting, intervals, and a whole run on a tiny file."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import locomo_recall
import paper_tables
from locomo import memories
from locomo.conversations import read_conversations
from locomo.measures import MEASURES, interval, measure
from memforest.models import MS_MARCO

SESSION_OF = {"D1:1": "s1", "D1:2": "s1", "D1:3": "s1", "D2:1": "s2", "D2:2": "s2"}


def sample(name: str = "conv-1") -> dict[str, Any]:
    """Return a sample in LoCoMo's shape, written for this test."""
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "I bought a kayak."},
                {"speaker": "Bob", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a photo of a heron"},
            ],
            "session_2_date_time": "9:05 am on 1 June, 2023",
            "session_2": [
                {"speaker": "Bob", "dia_id": "D2:1", "text": "I sold my accordion to a neighbour."}
            ],
            "session_3_date_time": "9:05 am on 2 June, 2023",
        },
        "qa": [
            {"question": "What did Ana buy?", "evidence": ["D1:1"], "category": 4},
            {"question": "Which bird did Bob see?", "evidence": ["D:1:02; D2:1"], "category": 1},
            {"question": "What did Bob sell?", "evidence": ["D2:1", "D9:9"], "category": 2},
            {"question": "Nothing to find", "evidence": ["D9:9"], "category": 3},
            {"question": "No evidence at all", "category": 3},
            {"question": "Adversarial", "evidence": ["D1:1"], "category": 5},
        ],
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of two conversations."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps([sample("conv-1"), sample("conv-2")]), encoding="utf-8")
    return path


def test_questions_with_usable_evidence_are_kept(file: Path) -> None:
    """Odd spellings of ids are read, unknown turns ignored, category 5 and what has no turn left out."""
    one, two = read_conversations(file)
    assert [sorted(question.gold) for question in one.questions] == [["D1:1"], ["D1:2", "D2:1"], ["D2:1"]]
    assert [session.session_id for session in one.sessions] == ["session_1", "session_2"]
    assert two.id == "conv-2"


def test_measures_by_hand() -> None:
    """Two supporting turns at places 1 and 7: half at 5, all at 10, and the discounted gain of both."""
    ranked = ["D1:1", "D1:3", "x", "y", "z", "w", "D2:1"]
    where = {**SESSION_OF, **dict.fromkeys("xyzw", "s3")}
    found = dict(zip(MEASURES, measure(ranked, frozenset({"D1:1", "D2:1"}), where), strict=True))
    gain = (1 + 1 / math.log2(8)) / (1 + 1 / math.log2(3))
    assert found["nDCG@10"] == pytest.approx(gain)
    assert {name: found[name] for name in MEASURES if name != "nDCG@10"} == {
        "R@5": 0.5, "R@10": 1, "R@20": 1, "R@50": 1, "all@20": 1, "SR@5": 1, "SR@10": 1
    }  # fmt: skip


def test_nothing_found_is_zero() -> None:
    """A ranking without the turn scores zero everywhere but for its session."""
    found = dict(zip(MEASURES, measure(["D1:2"], frozenset({"D1:1"}), SESSION_OF), strict=True))
    assert sum(found[name] for name in MEASURES if not name.startswith("SR")) == 0
    assert found["SR@5"] == 1


def test_intervals_hold_the_mean_and_are_seeded() -> None:
    """The same seed gives the same interval; it surrounds the mean, and clusters widen it."""
    values = np.array([0.0] * 50 + [1.0] * 50)
    clusters = np.repeat([0, 1, 2, 3], 25)
    low, high = interval(values, None, 1)
    assert low < values.mean() < high
    assert interval(values, None, 1) == (low, high)
    wide = interval(values, clusters, 1)
    assert wide[1] - wide[0] > high - low
    assert interval(np.ones(10), None, 1) == (1.0, 1.0)


def test_a_whole_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All systems are scored on the same questions, and a rerun on kept memories gives the same figures."""
    arguments = [str(file), "--work", str(tmp_path / "work"), "--no-cost"]
    assert locomo_recall.main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["head"]["questions"] == 6
    assert set(report["overall"]) == {"BM25", "dense", "z-fusion", "flat", "memforest"}
    assert all(chunks["R@20"]["mean"] == 100 for name, chunks in report["overall"].items())
    assert report["differences"]["flat"]["R@20"]["mean"] == 0
    assert locomo_recall.main(arguments) == 0
    printed = capsys.readouterr().out
    for name in ("minilm", "n = 6", "z-fusion", "by category", "over conversations"):
        assert name in printed


def test_the_papers_tables(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every choice of families and every way of retrieval has a row, of the same questions."""
    arguments = [str(file), "--work", str(tmp_path), "--conversations", "1"]
    assert paper_tables.main(arguments) == 0
    printed = capsys.readouterr().out
    for name in (*paper_tables.rows(), "minilm", "n = 3", "seed: 7"):
        assert name in printed
    of = {line[:26].strip(): line[26:].split() for line in printed.splitlines()}
    assert of["default"][6] == "100.0"
    assert of["emb, scene"][6] == "0.0"  # the only scenes are of a single fact, which are not recalled


def test_rows_without_the_session_trees_flow_are_without_that_of_lists() -> None:
    """A question that wants a list has a weight of its own, which the rows of the ablation switch off, too."""
    for row in ("session tree", "both flows", "all of trees"):
        assert (
            memories.ABLATIONS[row]["session_tree"] == memories.ABLATIONS[row]["session_tree_of_lists"] == 0
        )


def test_leads_are_listed_with_their_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A question about change is listed with the led turn, whether that is gold, and the gain over no lead."""
    one = sample()
    one["conversation"]["session_2"] = [
        {"speaker": "Ana", "dia_id": "D2:1", "text": "I live in Lisbon now."},
        {"speaker": "Bob", "dia_id": "D2:2", "text": "Where did Ana live before Lisbon, I wonder?"},
    ]
    one["conversation"]["session_1"] = [
        {"speaker": "Ana", "dia_id": "D1:1", "text": "I live in Porto."},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "Good for you, I sold my accordion."},
    ]
    one["qa"] = [
        {"question": "Where did Ana live before Lisbon?", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Bob sell?", "evidence": ["D1:2"], "category": 4},
    ]
    path = tmp_path / "change.json"
    path.write_text(json.dumps([one]), encoding="utf-8")
    assert locomo_recall.main([str(path), "--work", str(tmp_path / "work"), "--leads"]) == 0
    printed = capsys.readouterr().out
    assert "leads: 1 of 2 questions; first led turn is gold: 1" in printed
    assert "GOLD D1:1: 'I live in Porto.'" in printed
    assert float(printed.split()[0]) > 0


@pytest.mark.skipif(MS_MARCO.find() is None, reason=f"not installed: {MS_MARCO.fix}")
def test_reranked_beside_the_default(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same questions without and with the reranker, paired, with what a query takes either way."""
    arguments = [str(file), "--work", str(tmp_path / "work"), "--rerank"]
    assert locomo_recall.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rerank"]
    for name in ("R@5", "R@10", "R@20", "nDCG@10"):
        without, with_it = (found["overall"][system][name]["mean"] for system in ("memforest", "reranked"))
        assert with_it - without == pytest.approx(found["difference"][name]["mean"])
    assert found["reranker"] == MS_MARCO.model_id
    assert "rerank" in found["ms"]["reranked"]
    assert "rerank" not in found["ms"]["memforest"]
    locomo_recall.print_report({"head": {"questions": 6, "embedder": "minilm"}, "rerank": found})
    assert f"with {MS_MARCO.model_id}" in capsys.readouterr().out
