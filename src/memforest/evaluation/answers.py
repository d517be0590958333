"""The track with models: answers from what was found, grades by a judge, and what that costs; and drafting questions of one's own.

The model that answers and the judge have endpoints of their own. Every (system, question, run) is graded once and written down in
``answers.jsonl``; replies are kept in ``calls.jsonl`` by what was asked, so that nothing is paid twice. Without a model memforest's
own `ask` answers, and without a judge the words of the answer are compared with the right one's: a stand-in that says less.
"""

from __future__ import annotations

import asyncio
import csv
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from memforest import _sync
from memforest.config import Config
from memforest.endpoint import Budget
from memforest.errors import BudgetError, ConfigError, InputError, ModelError
from memforest.evaluation.cases import Case, Question
from memforest.evaluation.measures import abstains, contains, fama, normal_tokens, rouge_l, token_f1
from memforest.evaluation.retrieval import Journal, Plan, Report, Results, run_retrieval
from memforest.evaluation.systems import BASELINES, ForestSystem, open_system, settings_of
from memforest.memory.blocking import UserMemory
from memforest.models.calls import Calls
from memforest.models.ledger import Ledger, keeping
from memforest.ports import ChatModel, ChatReply, ChatRequest, Message
from memforest.read.results import fit
from memforest.reading.prompts import data_block
from memforest.reading.replies import find_json
from memforest.reading.tokens import read_toml
from memforest.text import count_tokens

__all__ = ["ANSWERS", "Answering", "Estimate", "draft", "estimate", "run_answers"]

ANSWERS = 8
"""Columns of answers and grades in the artifact's CSV."""
ANSWER_TOKENS, GRADE_TOKENS = 300, 8
_ANSWER_GUESS = 40
"""Tokens that an answer is expected to take."""


@dataclass(frozen=True)
class Answering:
    """Who answers and who grades.

    Args:
        model: answers; None for memforest's own `ask`.
        judge: grades; None compares words.
        runs: how often each question is answered, 1 to 8.
        context_tokens: most tokens of evidence that the model reads.
        budget: of both models together.
        in_flight: most requests under way at once.
        model_size: as the artifact's CSV has it ("30B").
    """

    model: ChatModel | None = None
    judge: ChatModel | None = None
    runs: int = 1
    context_tokens: int = 2000
    budget: Budget = field(default_factory=Budget)
    in_flight: int = 16
    model_size: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= ANSWERS:
            raise ConfigError(f"runs={self.runs} is out of range; give 1 to {ANSWERS}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would spend on models beyond what is done: an upper bound of prompts, as contexts count as full."""

    questions: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    memory_calls: int
    memory_tokens: int

    def cost(self, prompt: float, completion: float) -> float:
        """Return what it costs at prices of a million tokens of prompts and replies."""
        return (
            (self.prompt_tokens + self.memory_tokens) * prompt + self.completion_tokens * completion
        ) / 1e6


@lru_cache(maxsize=1)
def _prompts() -> dict[str, Any]:
    return read_toml("evaluation", "prompts.toml")


def _answer_request(bench: str, question: Question, asked: str, context: str) -> ChatRequest:
    texts = _prompts()["answer"]
    system = texts[texts["of"].get(bench, "default")].strip()
    rows = [{"line": line} for line in context.splitlines()]
    user = f"{data_block('evidence', rows)}\nToday is {asked}.\n{data_block('question', [{'text': question.text}])}"
    return ChatRequest("answer", (Message("system", system), Message("user", user)), max_tokens=ANSWER_TOKENS)


def _grade_request(question: Question, answer: str) -> ChatRequest:
    system = _prompts()["texts"]["grader"].format(rubric=_prompts()["grade"][question.rubric].strip())
    told = {"question": question.text, "reference": question.answer, "answer": answer}
    return ChatRequest("grade", (Message("system", system), Message("user", data_block("graded", [told]))),
        max_tokens=GRADE_TOKENS,)  # fmt: skip


_GRADE = re.compile(r"\b(IN)?(CORRECT|WRONG|RIGHT|YES|NO)\b", re.I)


def read_grade(text: str) -> float | None:
    """Return the grade that a judge gave, 1 or 0: by its last word of those that are one; None where there is none.

    >>> read_grade("CORRECT"), read_grade("It is not incorrect... WRONG."), read_grade("hm")
    (1.0, 0.0, None)
    """
    found = [*_GRADE.finditer(text)]
    if not found:
        return None
    negated, word = found[-1].groups()
    return float((word.upper() in ("CORRECT", "RIGHT", "YES")) != bool(negated))


def word_grade(question: Question, answer: str) -> float:
    """Return whether an answer is right by its words: it holds all of the right one's, or abstains where there is none."""
    if question.abstain or not question.answer:
        return float(abstains(answer) if question.abstain else False)
    return float(
        contains(answer, question.answer) or set(normal_tokens(question.answer)) <= set(normal_tokens(answer))
    )


def estimate(plan: Plan, answering: Answering) -> Estimate:
    """Return what a run would spend, at most, if nothing were done yet; nothing is made and no model is asked."""
    asks, grades = answering.model is not None, answering.judge is not None
    guided = (0 if plan.config.chat is None
        else sum(settings_of(name).kind not in BASELINES for name in plan.systems))  # fmt: skip
    questions = prompts = memory_calls = memory_tokens = 0
    for case in plan.read():
        said = sum(count_tokens(turn.line) + 8 for turn in case.turns)  # a row of JSON each
        room = min(said, round(1.5 * answering.context_tokens))
        for one in case.questions:
            questions += 1
            prompts += asks * (_size(_answer_request(plan.bench, one, "2024-01-01", "")) + room)
            prompts += grades * (_size(_grade_request(one, "")) + _ANSWER_GUESS)
        chunks = math.ceil(len(case.turns) / plan.config.chunk_turns)
        memory_calls += guided * math.ceil(
            1.5 * chunks
        )  # a chunk each, and half as many judgements and summaries
        memory_tokens += guided * (said * 3 + chunks * _CHUNK_PROMPT)
    times = len(plan.systems) * answering.runs
    calls, replies = ((asks + grades) * questions * times,
        (asks * _ANSWER_GUESS + grades * 2) * questions * times,)  # fmt: skip
    return Estimate(questions, calls, prompts * times, replies, memory_calls, memory_tokens)


def _size(request: ChatRequest) -> int:
    return sum(count_tokens(message.content) for message in request.messages)


_CHUNK_PROMPT = 1500
"""Tokens of instructions that go with a chunk."""


def run_answers(
    plan: Plan, out: Path, answering: Answering, report: Report = lambda *_: None, *, jobs: int = 1
) -> tuple[Results, str]:
    """Find, answer and grade what is not done yet, write the CSV files, and return the results and why it stopped early.

    The reason is empty when all is done; otherwise the budget is used up, or a model failed, and the same call goes on.

    Args:
        plan: what is measured.
        out: the folder of the run.
        answering: who answers and grades.
        report: is told how far it has come.
        jobs: as for `run_retrieval`.

    Raises:
        InputError: as `run_retrieval`; or if without a model a system other than memforest's is to answer.
    """
    if answering.model is None and (
        bad := [one for one in plan.systems if not isinstance(_kind(one, plan.config, out), ForestSystem)]
    ):
        raise InputError(
            f"without a model only memforest's own systems answer, not {bad[0]!r}; name a model (--model)"
        )
    results = run_retrieval(plan, out, report, jobs=jobs)
    done = Journal(out / "answers.jsonl", "system", "qid", "run", mend=True)
    grading = _Grading(plan, out, answering, done)
    todo = ((name, case, one, run)
        for case in plan.read() for name in plan.systems for one in case.questions for run in range(1, answering.runs + 1)
        if (name, one.id, run) not in done.records)  # fmt: skip
    stopped = _sync.run(grading.all(todo, results, report))
    write_csv(out, Results(out), done, answering.model_size)
    return Results(out), stopped


def _kind(name: str, config: Config, out: Path) -> object:
    (out / "memories").mkdir(parents=True, exist_ok=True)
    return open_system(name, out / "memories", config)


_Todo = tuple[str, Case, Question, int]


class _Grading:
    """Answers and grades, so many at once; every reply that was paid is kept."""

    def __init__(self, plan: Plan, out: Path, answering: Answering, done: Journal) -> None:
        self._plan, self._out, self._with, self._done = plan, out, answering, done
        self._kept = Journal(out / "calls.jsonl", "key", mend=True)
        self._model, self._judge = (None if one is None else Calls(one, max_in_flight=answering.in_flight)
            for one in (answering.model, answering.judge))  # fmt: skip
        self._own = ({name: open_system(name, out / "memories", plan.config) for name in plan.systems}
            if answering.model is None else {})  # fmt: skip
        self._count = 0

    async def all(self, todo: Iterator[_Todo], results: Results, report: Report) -> str:
        """Do all that is to be done, and return why it stopped early; empty if it did not."""
        stopped: list[str] = []

        async def work() -> None:
            for one in todo:
                if stopped:
                    return
                try:
                    await self._one(*one, results)
                except BudgetError as exc:
                    stopped.append(f"{exc}; give more, and run it again to go on")
                except ModelError as exc:
                    stopped.append(f"{exc}; run it again to go on")
                self._count += 1
                report("answers", self._count, self._count)

        with keeping(Ledger(self._with.budget, "evaluate")):
            await asyncio.gather(*(work() for _ in range(self._with.in_flight)))
        return stopped[0] if stopped else ""

    async def _one(self, name: str, case: Case, question: Question, run: int, results: Results) -> None:
        began = time.perf_counter()
        if self._model is None:
            system = self._own[name]
            assert isinstance(system, ForestSystem)  # as `run_answers` has seen to
            text = (await asyncio.to_thread(system.ask, case, question)).answer or ""
            used = ChatReply(text)
        else:
            context = self._context(name, case, question, results)
            asked = f"{question.asked or case.asked:%d %B %Y}"
            used = await self._reply(
                self._model, _answer_request(self._plan.bench, question, asked, context), str(run)
            )
            text = used.text.strip()
        seconds = time.perf_counter() - began
        grade: float | None
        if self._judge is None:
            grade, graded = word_grade(question, text), ChatReply("")
        else:
            graded = await self._reply(self._judge, _grade_request(question, text), "")
            grade = read_grade(graded.text)
        stale = [one for one in question.stale if contains(text, one)]
        self._done.add({
            "system": name, "qid": question.id, "run": run, "answer": text, "judge": grade, "seconds": round(seconds, 4),
            "prompt_tokens": used.prompt_tokens + graded.prompt_tokens,
            "completion_tokens": used.completion_tokens + graded.completion_tokens,
            "f1": token_f1(text, question.answer), "rouge_l": rouge_l(text, question.answer), "abstained": abstains(text),
            "stale": float(bool(stale)) if question.stale else None,
            "fama": None if grade is None or not question.stale else fama(grade, text, question.stale),
        })  # fmt: skip

    def _context(self, name: str, case: Case, question: Question, results: Results) -> str:
        if name.partition("@")[0] == "full":
            lines = [turn.line for turn in case.before(question)]
            kept = [
                *reversed(fit(lines[::-1], self._with.context_tokens))
            ]  # the latest that fit, in time order
            return "\n".join(lines[::-1][at] for at in kept)
        lines = [text.replace("\n", " / ") for text, _ in results.records[name][question.id]["pieces"]]
        return "\n".join(lines[at] for at in fit(lines, self._with.context_tokens))

    async def _reply(self, calls: Calls, request: ChatRequest, run: str) -> ChatReply:
        told = json.dumps(
            [calls.model_id, request.step, run, [message.content for message in request.messages]]
        )
        key = sha256(told.encode()).hexdigest()
        if kept := self._kept.records.get((key,)):
            return ChatReply(kept["text"], kept["prompt_tokens"], kept["completion_tokens"])
        reply = await calls.complete(request)
        self._kept.add({"key": key, "text": reply.text, "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,})  # fmt: skip
        return reply


def write_csv(out: Path, results: Results, done: Journal, size: str) -> None:
    """Write what was answered: ``questions.csv`` as the paper's artifact has it, ``details.csv`` and ``memories.csv``."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    details = []
    for (name, qid, run), one in done.records.items():
        asked, found = results.questions[qid], results.records[name][qid]
        row = rows.setdefault((name, qid), {
            "method": name, "model_size": size, "question_type": asked["type"], "qid": qid, "question": asked["question"],
            "gold_answer": asked["answer"],
        })  # fmt: skip
        row |= {f"answer_{run}": one["answer"],
            f"judge_{run}": "" if one["judge"] is None else int(one["judge"]),}  # fmt: skip
        details.append({
            "method": name, "qid": qid, "question_type": asked["type"], "run": run, "seconds_retrieval": found["ms"] / 1000,
            "seconds_answer": one["seconds"], **{key: one[key] for key in _DETAILS}, "retrieval_calls": found["calls"],
            "retrieval_tokens": found["tokens"], "context_tokens": found["context"], "evidence_recall": found["measures"].get("R@10"),
        })  # fmt: skip
    columns = ["method", "model_size", "question_type", "qid", "question", "gold_answer"]
    columns += [f"{what}_{n}" for what in ("answer", "judge") for n in range(1, ANSWERS + 1)]
    _write(out / "questions.csv", columns, list(rows.values()))
    _write(out / "details.csv", list(details[0]) if details else ["method"], details)
    _write(
        out / "memories.csv", list(results.memories[0]) if results.memories else ["system"], results.memories
    )


_DETAILS = ("prompt_tokens", "completion_tokens", "f1", "rouge_l", "abstained", "stale", "fama")


def _write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


def draft(
    memory: UserMemory, model: ChatModel, count: int = 20, *, budget: Budget | None = None
) -> list[dict[str, Any]]:
    """Return proposed questions about a memory, as lines of a file for `own_cases`: to be read and mended before they are used.

    Facts are taken evenly over the time of the memory, ten a call; each question's evidence is the turn its fact was read from.

    Args:
        memory: to be asked about.
        model: writes the questions.
        count: how many facts are shown to it.
        budget: of the model.

    Raises:
        InputError: if the memory holds no fact.
        ModelError: if the model cannot be used.
    """
    facts, cursor = [], None
    while True:
        page = memory.list(limit=1000, cursor=cursor)
        facts += [one for one in page if one.sources]
        if (cursor := page.next_cursor) is None:
            break
    if not facts:
        raise InputError("the memory has no facts to ask about; add some with `memforest ingest`")
    chosen = [facts[int(at * len(facts) / min(count, len(facts)))] for at in range(min(count, len(facts)))]
    calls, lines = Calls(model), list[dict[str, Any]]()
    for first in range(0, len(chosen), 10):
        part = chosen[first : first + 10]
        rows = [{"number": n, "said": f"{one.said:%Y-%m-%d}", "by": one.speaker, "statement": one.statement or one.text}
                for n, one in enumerate(part, 1)]  # fmt: skip
        messages = (Message("system", _prompts()["texts"]["draft"]),
            Message("user", data_block("statements", rows)),)  # fmt: skip
        with keeping(Ledger(budget or Budget(), "evaluate")):
            reply = _sync.run(calls.complete(ChatRequest("draft", messages, max_tokens=1500)))
        told = (find_json(reply.text, {"questions"}) or ({}, False))[0]
        for one in told.get("questions", ()):
            number = one.get("number") if isinstance(one, dict) else None
            if (
                isinstance(number, int)
                and 0 < number <= len(part)
                and one.get("question")
                and one.get("answer")
            ):
                source = part[number - 1].sources[0]
                evidence = [f"{source.session_id}/{source.turn_ids[0]}"]
                lines.append(
                    {"question": str(one["question"]), "answer": str(one["answer"]), "evidence": evidence}
                )
    return lines
