"""`memforest eval`: measure memories on benchmarks or on questions of your own, and compare the figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, StopCommand, command, flag, group, options, repeated, takes
from memforest.cli.screen import Screen, progress_bars

if TYPE_CHECKING:
    from memforest.evaluation.answers import Answering
    from memforest.evaluation.retrieval import Plan
    from memforest.evaluation.tables import Table
    from memforest.ports import ChatModel


@group()
def eval(call: Call) -> None:
    """Measure memories on benchmarks or on your own questions."""


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _usually(name: str, default: Any, kind: Any, about: str) -> Callable[[Any], Any]:
    return click.option(name, type=kind, default=default, show_default=True, help=about)


_run_options = options(
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the results. Default: eval-BENCH.",
    ),
    repeated("--type", "types", of="TYPE", help="Only questions of this type; -TYPE leaves the type out."),
    click.option(
        "--memories", "most", type=click.IntRange(min=1), help="Only the first N memories of the files."
    ),
    _usually("--share", 1.0, click.FloatRange(0, 1), "Only this share of the questions."),
    _usually("--top-k", 10, click.IntRange(1, 100), "Pieces of evidence for each question."),
    _usually("--seed", 7, int, "Random seed of the intervals and of --share."),
    _usually("--jobs", 1, click.IntRange(1, 64), "Processes to use."),
)
_answer_options = options(
    takes("--model", of="NAME", help="The chat model that answers, or 'ask' for memforest itself."),
    takes("--base-url", of="URL", help="The model's OpenAI-compatible endpoint."),
    takes("--judge", of="NAME", help="The chat model that grades. Without it, words are compared."),
    takes("--judge-url", of="URL", help="The judge's endpoint."),
    takes("--model-size", of="TEXT", default="", help="The model's size for the CSV, e.g. 30B."),
    _usually("--runs", 1, click.IntRange(1, 8), "Answers to each question."),
    _usually(
        "--temperature",
        0.7,
        click.FloatRange(min=0),
        "Temperature of the answers, if there are several runs.",
    ),
    _usually("--context-tokens", 2000, click.IntRange(min=1), "Most tokens of evidence for the model."),
    click.option(
        "--max-calls", type=click.IntRange(min=0), help="Most calls to models; the same command goes on."
    ),
    click.option(
        "--max-tokens", type=click.IntRange(min=0), help="Most tokens to use; the same command goes on."
    ),
    click.option("--price", type=(float, float), help="Prices of a million tokens, sent and received."),
    flag("--estimate", help="Only say what the models would cost at most."),
)
_data_option = click.option(
    "--data", type=_FILE, multiple=True, required=True, help="A file of the benchmark; may be repeated."
)


@command(group=eval)
@click.argument("bench")
@_data_option
@repeated(
    "--system", "systems", of="NAME", help="What to measure. Default: every system that needs no model."
)
@_run_options
@_answer_options
def run(call: Call, /, bench: str, data: Sequence[Path], systems: Sequence[str], **given: Any) -> None:
    """Measure systems on a benchmark.

    BENCH is own, locomo, longmemeval, longmemeval-mab, longmemeval-v2, locomo-plus, realtalk or realmem. Without
    --model it measures the evidence, and needs no model and no key. If a run stops, the same command goes on.

    A system is an index with a mode (memforest:emb), a preset (timem_paper), a baseline (bm25) or
    package.module:Class. Settings follow after @ (memforest@top_k=5).
    """
    from memforest.evaluation.systems import system_names

    _measure(call, _plan(call, bench, data, systems or system_names(), given), given)


@command(group=eval)
@click.argument("file", type=_FILE)
@repeated("--system", "systems", of="NAME", help="What to measure. Default: memforest, bm25 and dense.")
@_run_options
@_answer_options
def own(call: Call, /, file: Path, systems: Sequence[str], **given: Any) -> None:
    """Measure with questions of your own.

    FILE has one question a line: {"question": "...", "answer": "...", "evidence": ["words of the turn that tells it"]}.
    The questions go to the memory of --user, or to the sessions in FILE. `eval draft` proposes questions.
    """
    from memforest.evaluation.cases import own_cases

    plan = _plan(call, "own", [file], systems or ("memforest", "bm25", "dense"), given)
    if call.user is not None:
        plan = replace(plan, cases=tuple(own_cases(file, _memory(call))))
    _measure(call, plan, given)


@command(group=eval)
@click.argument("name")
@_data_option
@takes("--bench", of="NAME", default="locomo", show_default=True, help="The benchmark of the file.")
@_run_options
def reproduce(call: Call, /, name: str, data: Sequence[Path], bench: str, **given: Any) -> None:
    """Measure the rows of a paper's table, beside the paper's figures. NAME is memforest-table6, timem-table4 and so on."""
    from memforest.evaluation.tables import reproduced, reproduction

    rows = reproduction(name)
    asked = [row[1] for row in rows["rows"] if len(row) < 4 or call.config().chat is not None]
    plan = _plan(call, bench, data, asked, given)
    with progress_bars(quiet=call.as_json) as show:
        from memforest.evaluation.retrieval import run_retrieval

        results = run_retrieval(plan, _out(plan, given, name), show, jobs=given["jobs"])
    _show(call, [reproduced(rows, results)])


@command(group=eval)
@click.argument("files", type=_FILE, nargs=-1, required=True)
def table(call: Call, /, files: Sequence[Path]) -> None:
    """Print pass@1 to pass@8 of CSV files in the form of the MemForest artifact, beside the papers' figures."""
    from memforest.evaluation.tables import answer_tables, read_csv

    _show(call, answer_tables([row for file in files for row in read_csv(file)]))


@command(group=eval)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@takes("--against", of="SYSTEM", help="The system to compare with. Default: the first one.")
def report(call: Call, /, folder: Path, against: str | None) -> None:
    """Print the tables of a run again, and write its page again."""
    from memforest.evaluation.page import write_page
    from memforest.evaluation.retrieval import Results
    from memforest.evaluation.tables import retrieval_tables

    results = Results(folder)
    write_page(results, folder / "report.html")
    _show(call, retrieval_tables(results, against), folder / "report.html")


@command(group=eval)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@takes("--model", of="NAME", required=True, help="The chat model that proposes questions.")
@takes("--base-url", of="URL", help="The model's OpenAI-compatible endpoint.")
@_usually("--facts", 20, click.IntRange(1, 1000), "Facts that the model sees, ten in each call.")
def draft(call: Call, /, file: Path, model: str, base_url: str | None, facts: int) -> None:
    """Let a model propose questions about the memory of --user. Read FILE before you use it with `eval own`."""
    from memforest.evaluation.answers import draft as drafted

    if file.exists():
        raise StopCommand(f"{file} exists already; name another file")
    with call.forest() as forest:
        lines = drafted(call.memory(forest), _model(model, base_url, None), facts)
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines), encoding="utf-8")
    told = f"{file} has {len(lines)} questions. Read and mend them, then run `memforest eval own {file}`."
    call.show(lines, lambda screen: screen.line(told))


def _plan(
    call: Call, bench: str, data: Sequence[Path], systems: Sequence[str], given: dict[str, Any]
) -> Plan:
    from memforest.evaluation.retrieval import Plan

    taken = {key: given[key] for key in ("types", "most", "share", "top_k", "seed")}
    return Plan(bench, tuple(data), tuple(systems), call.config(), **taken)


def _out(plan: Plan, given: dict[str, Any], name: str = "") -> Path:
    return Path(given["out"] or f"eval-{name or plan.bench}")


def _measure(call: Call, plan: Plan, given: dict[str, Any]) -> None:
    from memforest.evaluation.answers import estimate, run_answers
    from memforest.evaluation.page import write_page
    from memforest.evaluation.retrieval import run_retrieval
    from memforest.evaluation.tables import answer_tables, read_csv, retrieval_tables

    out, stopped, tables = _out(plan, given), "", list["Table"]()
    answering = _answering(given)
    if given["estimate"]:
        _show_estimate(call, estimate(plan, answering), given["price"])
        return
    with progress_bars(quiet=call.as_json) as show:
        if given["model"] is None and given["judge"] is None:
            results = run_retrieval(plan, out, show, jobs=given["jobs"])
        else:
            results, stopped = run_answers(plan, out, answering, show, jobs=given["jobs"])
            tables = answer_tables(read_csv(out / "questions.csv"))
    write_page(results, out / "report.html")
    _show(call, [*tables, *retrieval_tables(results)], out / "report.html")
    if stopped:
        raise StopCommand(f"stopped early: {stopped}")


def _answering(given: dict[str, Any]) -> Answering:
    from memforest.endpoint import Budget
    from memforest.evaluation.answers import Answering

    warmth = given["temperature"] if given["runs"] > 1 else 0.0
    return Answering(
        None if given["model"] in (None, "ask") else _model(given["model"], given["base_url"], warmth),
        None if given["judge"] is None else _model(given["judge"], given["judge_url"], 0.0),
        given["runs"], given["context_tokens"], Budget(given["max_calls"], given["max_tokens"]), model_size=given["model_size"],
    )  # fmt: skip


def _model(name: str, base_url: str | None, temperature: float | None) -> ChatModel:
    """Return a chat model: behind an endpoint, or an object that ``package.module:NAME`` names."""
    from pkgutil import resolve_name

    from memforest.endpoint import ChatEndpoint
    from memforest.models.openai import OpenAIChat

    if base_url is None and ":" in name and "." in name.partition(":")[0]:
        try:
            made: ChatModel = resolve_name(name)
        except (ImportError, AttributeError, ValueError) as exc:
            raise StopCommand(f"the model {name!r} cannot be imported: {exc}") from exc
        return made
    return OpenAIChat(ChatEndpoint(name, base_url, temperature=temperature))


def _memory(call: Call) -> Any:
    from memforest.evaluation.cases import case_of

    with call.forest() as forest:
        return case_of(call.memory(forest))


def _show(call: Call, tables: Sequence[Table], page: Path | None = None) -> None:
    def draw(screen: Screen) -> None:
        for one in tables:
            screen.heading(one.title)
            screen.table([""] * len(one.columns), [one.columns, *one.rows])
            if one.note:
                screen.line(one.note, "dim")
        if page is not None:
            screen.line(f"page: {page}")

    call.show({"tables": tables, "page": None if page is None else str(page)}, draw)


def _show_estimate(call: Call, found: Any, price: tuple[float, float] | None) -> None:
    rows = [
        (
            "answers and grades",
            f"{found.calls} calls, at most {found.prompt_tokens} tokens sent, about {found.completion_tokens} received",
        ),
        ("memories", f"about {found.memory_calls} calls and {found.memory_tokens} tokens"),
        *([("cost", f"at most about {found.cost(*price):.2f}")] if price else []),
    ]
    call.show(found, lambda screen: screen.fields(rows))
