"""Figures side by side: of runs, of CSV files in the form of the paper's artifact, and of the papers' tables with what differs."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from memforest.errors import InputError
from memforest.evaluation.measures import MEASURES, Mean, pass_at
from memforest.evaluation.retrieval import Results
from memforest.reading.tokens import read_toml
from memforest.text import cut

__all__ = ["Graded", "Table", "answer_tables", "paper_figures", "read_csv", "retrieval_tables"]

COLUMNS = ("first", "R@5", "R@10", "R@20", "all@10", "MRR", "nDCG@10", "SR@5", "R@512t", "R@2048t", "stale")
"""Measures that the first table shows, where they have values."""
COMPARED = ("first", "R@10", "nDCG@10", "SR@5")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: what it shows, the heads of its columns, and rows of texts, as many as heads."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def percent(value: float, sign: str = "") -> str:
    """Return a share in percent, with a sign where wanted; a dash for none."""
    return "-" if math.isnan(value) else f"{100 * value:{sign}.1f}"


def interval(found: Mean, sign: str = "") -> str:
    """Return a mean with both intervals: ``63.1 [60.0, 66.2] (58.9, 67.3)``, over questions and over conversations."""
    if not found.n:
        return "-"
    (a, b), (c, d) = found.questions, found.conversations
    return f"{percent(found.value, sign)} [{percent(a, sign)}, {percent(b, sign)}] ({percent(c, sign)}, {percent(d, sign)})"


def retrieval_tables(results: Results, base: str | None = None) -> list[Table]:
    """Return the tables of the keyless track: means, intervals, differences from a system, by type, time and cost.

    Args:
        results: of a run.
        base: what the others are compared with; the run's first system by default.
    """
    systems = [name for name, asked in results.records.items() if asked]
    shown = [m for m in COLUMNS if any(results.mean(name, m).n for name in systems)]
    if not systems:
        return []
    base = base if base in systems else systems[0]
    n = max(len(results.records[name]) for name in systems)
    counts = f"{n} questions, {len({one['case'] for one in results.questions.values()})} memories; %"
    means = Table(f"What is found ({counts})", ("system", *shown),
        tuple((name, *(percent(results.mean(name, m).value) for m in shown)) for name in systems),
        "; ".join(f"{m}: {MEASURES[m]}" for m in shown),)  # fmt: skip
    compared = [m for m in COMPARED if m in shown]
    spread = Table(
        "With 95% intervals [over questions] (over conversations)", ("system", *compared),
        tuple((name, *(interval(results.mean(name, m)) for m in compared)) for name in systems),
    )  # fmt: skip
    gaps = Table(
        f"Each minus {base}, question by question, points", ("system", *compared),
        tuple((name, *(interval(results.difference(name, base, m), "+") for m in compared)) for name in systems if name != base),
    )  # fmt: skip
    types = results.types()
    kinds = Table("R@10 by type of question (nDCG@10)", ("system", *types),
        tuple((name, *(f"{percent(results.mean(name, 'R@10', t).value)} ({percent(results.mean(name, 'nDCG@10', t).value)})" for t in types))
        for name in systems),)  # fmt: skip
    return [means, spread, *([gaps] if gaps.rows else []), *([kinds] if len(types) > 1 else []),
        _costs(results, systems),]  # fmt: skip


def _costs(results: Results, systems: Sequence[str]) -> Table:
    rows = []
    for name in systems:
        sums, p = results.sums(name), results.percentile
        rows.append((
            name, f"{p(name, 'ms', 50):.0f} / {p(name, 'ms', 95):.0f}", f"{p(name, 'cpu', 50):.0f}", f"{p(name, 'context', 50):.0f}",
            f"{sum(results.values(name, 'calls')[0]):.0f}", f"{sums['seconds']:.1f}", f"{sums['calls']:.0f}",
            f"{sums['prompt_tokens'] + sums['completion_tokens']:.0f}", f"{sums['facts']:.0f}", f"{sums['bytes'] / 1e6:.1f}",
            percent(results.retained(name)),
        ))  # fmt: skip
    heads = ("system", "ms p50 / p95", "CPU ms", "tokens read", "calls asking", "s writing", "calls writing", "tokens writing",
             "facts", "MB", "Ent-GR")  # fmt: skip
    note = "Systems that share a memory each show its full cost. Only the first baseline embeds; the others reuse its vectors."
    return Table("Time and cost", heads, tuple(rows), note)


@dataclass(frozen=True, slots=True)
class Graded:
    """A row of a CSV in the artifact's form: grades in the order of the runs, None where there is none."""

    method: str
    size: str
    type: str
    qid: str
    judged: tuple[float | None, ...]


_NEEDED = ("method", "question_type", "qid", "judge_1")
_GRADES = {"": None, "nan": None, "1": 1.0, "1.0": 1.0, "true": 1.0, "correct": 1.0, "0": 0.0, "0.0": 0.0,
    "false": 0.0, "wrong": 0.0,}  # fmt: skip


def read_csv(path: Path) -> list[Graded]:
    """Return the rows of a CSV as the paper's artifact has it: ``method, model_size, question_type, qid, ..., judge_1..judge_8``.

    Raises:
        InputError: if it cannot be read, lacks a column, or a grade is neither 0, 1 nor empty.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            heads = reader.fieldnames or ()
            if missing := [one for one in _NEEDED if one not in heads]:
                raise InputError(
                    f"{path.name}: the column {missing[0]!r} is missing; the file has {cut(', '.join(heads), 200) or 'nothing'}"
                )
            grades = sorted(
                (one for one in heads if re.fullmatch(r"judge_\d+", one)), key=lambda one: int(one[6:])
            )
            found = []
            for row in reader:
                judged = [(row.get(one) or "").strip().lower() for one in grades]
                if bad := next((one for one in judged if one not in _GRADES), None):
                    raise InputError(
                        f"{path.name}, line {reader.line_num}: the grade {cut(repr(bad), 40)} should be 0, 1 or empty"
                    )
                graded = tuple(_GRADES[one] for one in judged)
                found.append(Graded(
                    row["method"], row.get("model_size") or "", row["question_type"], row["qid"], graded
                    ))  # fmt: skip
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise InputError(f"{path.name} cannot be read: {exc}") from exc
    return found


def answer_tables(rows: Sequence[Graded]) -> list[Table]:
    """Return pass@1 and pass@k by method and type beside the papers' figures, and the curves over k."""
    sizes = dict.fromkeys(one.size for one in rows)
    return [table for size in sizes for table in _of_size(size, [one for one in rows if one.size == size])]


def _of_size(size: str, rows: Sequence[Graded]) -> list[Table]:
    methods, types = list(dict.fromkeys(r.method for r in rows)), list(dict.fromkeys(r.type for r in rows))
    runs = max((len(r.judged) for r in rows), default=0)
    runs = max((k for k in range(1, runs + 1)
        if any(r.judged[k - 1] is not None for r in rows if len(r.judged) >= k)), default=1,)  # fmt: skip
    named = f" ({size})" if size else ""
    tables = []
    for k in dict.fromkeys((1, runs)):
        made: list[tuple[str, ...]] = []
        for method in methods:
            own = [r for r in rows if r.method == method]
            made.append((method, *(percent(mean([pass_at(r.judged, k) for r in own if t in (None, r.type)]))
                for t in (None, *types)), str(len(own)),))  # fmt: skip
            told = paper_figures(method, size, types) if k == 1 else None
            if told is not None:
                source, figures = told
                made.append((f"  {source}", *("-" if one is None else f"{one:.1f}" for one in figures), ""))
                gaps = (None if one is None or ours == "-" else float(ours) - one
                    for ours, one in zip(made[-2][1:], figures, strict=False))  # fmt: skip
                made.append(
                    ("  ours minus theirs", *("-" if one is None else f"{one:+.1f}" for one in gaps), "")
                )
        tables.append(Table(f"pass@{k}{named}, %", ("method", "overall", *types, "n"), tuple(made)))
    curve = tuple(
        (method, *(percent(mean([pass_at(r.judged, k) for r in rows if r.method == method])) for k in range(1, runs + 1)),
        _deviation([r for r in rows if r.method == method], runs)) for method in methods)  # fmt: skip
    heads = ("method", *(f"pass@{k}" for k in range(1, runs + 1)), "mean ± sd of runs")
    return [*tables, Table(f"Over runs{named}, %", heads, curve)] if runs > 1 else tables


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are there, NaN of none."""
    kept = [one for one in values if not math.isnan(one)]
    return sum(kept) / len(kept) if kept else math.nan


def _deviation(rows: Sequence[Graded], runs: int) -> str:
    by_run = [mean(one for r in rows if (one := r.judged[k]) is not None) for k in range(runs)
        if all(len(r.judged) > k for r in rows)]  # fmt: skip
    return f"{percent(mean(by_run))} ± {100 * float(np.std(by_run, ddof=1)):.2f}" if len(by_run) > 1 else "-"


@lru_cache(maxsize=1)
def paper_tables() -> Mapping[str, Any]:
    """Return the papers' figures, from ``figures.toml``."""
    found: Mapping[str, Any] = read_toml("evaluation", "figures.toml")
    return found


_PLAIN = re.compile(r"[^a-z0-9]")


def plain_type(name: str) -> str:
    """Return a type of questions under the name that figures have it by.

    >>> plain_type("single_hop"), plain_type("SS-User"), plain_type("open-ended")
    ('singlehop', 'singlesessionuser', 'opendomain')
    """
    folded = _PLAIN.sub("", name.lower())
    aliases: Mapping[str, str] = paper_tables()["aliases"]
    return aliases.get(folded, folded)


def paper_figures(method: str, size: str, types: Sequence[str]) -> tuple[str, list[float | None]] | None:
    """Return what a paper has for a method: where, and its figures overall and for each type, None for those it lacks."""
    wanted = _PLAIN.sub("", method.lower())
    for table in paper_tables()["accuracy"]:
        columns = [plain_type(one) for one in table["columns"]]
        figures = next(
            (row for name, row in table["rows"].items() if _PLAIN.sub("", name.lower()) == wanted), None
        )
        if (
            figures is not None
            and table["size"].lower() in ("", size.lower())
            and {plain_type(t) for t in types} & set(columns)
        ):
            by = dict(zip(columns, figures, strict=True))
            return table["source"], [by.get("overall"), *(by.get(plain_type(t)) for t in types)]
    return None


def reproduction(name: str) -> Mapping[str, Any]:
    """Return what is run for a paper's table: its title, and rows of label, system, the paper's figure, and "model" for some.

    Raises:
        InputError: if there is none of that name; "table6" is MemForest's.
    """
    known: Mapping[str, Mapping[str, Any]] = paper_tables()["reproduce"]
    found = known.get(name, known.get(f"memforest-{name}"))
    if found is None:
        raise InputError(f"unknown table {cut(repr(name), 40)}; known: {', '.join(known)}")
    return found


def reproduced(rows: Mapping[str, Any], results: Results) -> Table:
    """Return the rows of a paper's table as they were measured, beside its figures, with what differs."""
    made, measure = [], rows.get("measure", "R@10")
    for label, system, *more in rows["rows"]:
        figure = f"{more[0]:.1f}" if more else "-"
        if not results.records.get(system):
            made.append((label, system, "needs a chat model ([chat] in --config)", "-", "-", "-", figure))
            continue
        sums = results.sums(system)
        speed = f"{sums['facts'] / sums['seconds']:.0f}" if sums["seconds"] else "-"
        found = (interval(results.mean(system, measure)), percent(results.mean(system, "nDCG@10").value),
            percent(results.retained(system)),)  # fmt: skip
        made.append((label, system, *found, speed, figure))
    heads = ("row", "system", f"{measure} [questions] (conversations)", "nDCG@10", "Ent-GR", "facts/s",
        "the paper's",)  # fmt: skip
    note = ("The paper's column is its own measure, with its models and data; ours is the recall of evidence with local steps. "
            "Orders may be compared, figures may not.")  # fmt: skip
    return Table(rows["title"], heads, tuple(made), note)
