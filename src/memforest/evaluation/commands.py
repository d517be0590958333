"""`memforest eval`: measure memories on benchmarks or on questions of your own, and put figures side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    """Measure memories by benchmarks, or by your own questions."""


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_run_options = options(
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the run; eval-BENCH by default.",
    ),
    repeated(
        "--type", "types", of="TYPE", help="Only questions of this type, or all but it with a minus in front."
    ),
    click.option(
        "--memories", "most", type=click.IntRange(min=1), help="Only the first N memories of the files."
    ),
    click.option(
        "--share",
        type=click.FloatRange(0, 1),
        default=1.0,
        help="Only this share of the questions, always the same ones.",
    ),
    click.option(
        "--top-k",
        type=click.IntRange(1, 100),
        default=10,
        show_default=True,
        help="Pieces that a model reads.",
    ),
    click.option("--seed", type=int, default=7, show_default=True, help="Of the intervals, and of --share."),
    click.option(
        "--jobs",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Processes that share the memories.",
    ),
)
_answer_options = options(
    takes("--model", of="NAME", help="The chat model that answers; 'ask' for memforest's own answers."),
    takes("--base-url", of="URL", help="Its OpenAI-compatible endpoint."),
    takes("--judge", of="NAME", help="The chat model that grades; without one, words are compared."),
    takes("--judge-url", of="URL", help="Its endpoint."),
    takes("--model-size", of="TEXT", default="", help="As it stands in the CSV: 30B."),
    click.option(
        "--runs", type=click.IntRange(1, 8), default=1, show_default=True, help="Answers to each question."
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        default=0.7,
        show_default=True,
        help="Of the answers, with several runs.",
    ),
    click.option(
        "--context-tokens",
        type=click.IntRange(min=1),
        default=2000,
        show_default=True,
        help="Evidence that the model reads.",
    ),
    click.option(
        "--max-calls", type=click.IntRange(min=0), help="Most calls of models; the same command goes on."
    ),
    click.option(
        "--max-tokens", type=click.IntRange(min=0), help="Most tokens of models; the same command goes on."
    ),
    click.option(
        "--price", type=(float, float), help="Of a million tokens sent and received, for --estimate."
    ),
    flag("--estimate", help="Say what models would cost at most, and do nothing."),
)
_data_option = click.option(
    "--data", type=_FILE, multiple=True, required=True, help="A file of the benchmark; may be repeated."
)


@command(group=eval)
@click.argument("bench")
@_data_option
@repeated("--system", "systems", of="NAME", help="What is measured; everything that comes along by default.")
@_run_options
@_answer_options
def run(call: Call, /, bench: str, data: Sequence[Path], systems: Sequence[str], **given: Any) -> None:
    """Measure systems on a benchmark: own, locomo, longmemeval, longmemeval-mab, longmemeval-v2, locomo-plus, realtalk or realmem.

    Without --model no model and no key is needed: what is found is measured. A run that was stopped is gone on with by the same
    command. A system is an index with a mode (memforest:emb), a preset (timem_paper), a baseline (bm25), or package.module:Class;
    settings follow behind @ (memforest@top_k=5).
    """
    from memforest.evaluation.systems import system_names

    _measure(call, _plan(call, bench, data, systems or system_names(), given), given)


@command(group=eval)
@click.argument("file", type=_FILE)
@repeated("--system", "systems", of="NAME", help="What is measured; memforest, bm25 and dense by default.")
@_run_options
@_answer_options
def own(call: Call, /, file: Path, systems: Sequence[str], **given: Any) -> None:
    """Measure with questions of your own: FILE has a question a line, and sessions or the memory of --user are asked.

    A line is {"question": "...", "answer": "...", "evidence": ["words of the turn that tells it"]}; `eval draft` proposes some.
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
    """Measure the rows of a paper's table in the recall of evidence, beside the paper's figures: memforest-table6, timem-table4 ..."""
    from memforest.evaluation.tables import reproduced, reproduction

    rows = reproduction(name)
    asked = [row[1] for row in rows["rows"] if len(row) < 4 or call.config().chat is not None]
    plan = _plan(call, bench, data, asked, {**given, "out": given["out"] or Path(f"eval-{name}")})
    with progress_bars(quiet=call.as_json) as show:
        from memforest.evaluation.retrieval import run_retrieval

        results = run_retrieval(plan, _out(plan, given, name), show, jobs=given["jobs"])
    _show(call, [reproduced(rows, results)])


@command(group=eval)
@click.argument("files", type=_FILE, nargs=-1, required=True)
def table(call: Call, /, files: Sequence[Path]) -> None:
    """Print pass@1 to pass@8 by method and type of CSV files as the paper's artifact has them, beside the papers' figures."""
    from memforest.evaluation.tables import answer_tables, read_csv

    _show(call, answer_tables([row for file in files for row in read_csv(file)]))


@command(group=eval)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@takes("--against", of="SYSTEM", help="What the others are compared with; the first one by default.")
def report(call: Call, /, folder: Path, against: str | None) -> None:
    """Print the tables of a run again, and write its page anew."""
    from memforest.evaluation.page import write_page
    from memforest.evaluation.retrieval import Results
    from memforest.evaluation.tables import retrieval_tables

    results = Results(folder)
    write_page(results, folder / "report.html")
    _show(call, retrieval_tables(results, against), folder / "report.html")


@command(group=eval)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@takes("--model", of="NAME", required=True, help="The chat model that proposes questions.")
@takes("--base-url", of="URL", help="Its OpenAI-compatible endpoint.")
@click.option(
    "--facts",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Facts that are shown to it, ten a call.",
)
def draft(call: Call, /, file: Path, model: str, base_url: str | None, facts: int) -> None:
    """Let a model propose questions about the memory of --user, and write them to FILE for `eval own`; read them before use."""
    from memforest.evaluation.answers import draft as drafted

    if file.exists():
        raise StopCommand(f"{file} exists already; name another file")
    with call.forest() as forest:
        lines = drafted(call.memory(forest), _model(model, base_url, None), facts)
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines), encoding="utf-8")
    call.show(
        lines,
        lambda screen: screen.line(
            f"{len(lines)} questions are in {file}; read and mend them, then `memforest eval own {file}`"
        ),
    )


def _plan(
    call: Call, bench: str, data: Sequence[Path], systems: Sequence[str], given: dict[str, Any]
) -> Plan:
    from memforest.evaluation.retrieval import Plan

    taken = {key: given[key] for key in ("types", "most", "share", "top_k", "seed")}
    return Plan(bench, tuple(data), tuple(systems), call.config(), **taken)


def _out(plan: Plan, given: dict[str, Any], name: str = "") -> Path:
    out: Path = given["out"] or Path(f"eval-{name or plan.bench}")
    return out


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
            f"{found.calls} calls, at most {found.prompt_tokens} tokens sent, some {found.completion_tokens} received",
        ),
        ("memories", f"some {found.memory_calls} calls and {found.memory_tokens} tokens"),
        *([("cost", f"at most some {found.cost(*price):.2f}")] if price else []),
    ]
    call.show(found, lambda screen: screen.fields(rows))
