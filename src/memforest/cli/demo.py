"""`memforest demo`: a tour of a memory on a sample conversation: what changed when, evidence, and answers.

The demo prints what the engine returns at its default settings. The author of the conversation marked the turns that answer
each question; ``--json`` tells which answers come from them.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from memforest.cli.asking import draw_answer, draw_evidence
from memforest.cli.call import Call, command, flag, takes
from memforest.cli.listing import draw_timeline
from memforest.cli.screen import Screen, write_bar
from memforest.memory.blocking import UserMemory
from memforest.read.receipts import ImportedMemory
from memforest.read.results import AskResult

FILE = "nora_and_mateo.json"
PERSON = "Mateo"
SEARCHED = "Where did Nora live before Bath?"
SHOWN_PIECES = 2
SHOWN_KINDS = ("current", "as_of", "predecessor", "since", "simple", "unanswerable")
"""The demo asks one question of each kind, unless ``--all`` is given."""


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """One question of the demo with its result."""

    asked: Mapping[str, Any]
    result: AskResult

    @property
    def right(self) -> bool:
        """Whether the first citation is a turn that the author marked, or no answer was expected and none came."""
        wanted = {(one["session_id"], one["turn_id"]) for one in self.asked["expects"]}
        if self.result.answer is None:
            return not wanted
        cited = {
            (source.session_id, turn)
            for one in self.result.citations[:1]
            for source in one.sources
            for turn in source.turn_ids
        }
        return bool(wanted & cited)


@command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the memory in this directory, and try other commands on it.",
)
@flag("--all", "every", help="Ask all 20 questions.")
@takes("--embedder", of="NAME", help="Embedder: auto, bge, minilm or none.")
def demo(call: Call, keep: Path | None, every: bool, embedder: str | None) -> None:
    """Try a memory on a sample conversation.

    Two friends talk for eight months about moves, jobs and a wedding, in English and Spanish. The demo reads
    their talk, shows a timeline, and asks questions. It needs no key and no network, and deletes its files
    unless you give --keep.
    """
    started = time.perf_counter()
    content = (files("memforest.data") / "demo" / FILE).read_bytes()
    script = json.loads(content)
    user = call.settled_user = script["user"]
    temporary = tempfile.TemporaryDirectory(prefix="memforest-demo-") if keep is None else nullcontext(keep)
    with temporary as folder:
        call.directory = Path(folder)
        with call.forest(embedder=embedder) as forest:
            with write_bar(quiet=call.as_json) as show:
                result = forest.import_file(user, io.BytesIO(content), on_progress=show)
            (loaded,) = result.memories
            call.warn((*loaded.warnings, *result.problems))
            answers = _ask(forest.user(user), script["questions"], every=every)
            seconds = time.perf_counter() - started
            call.show(
                _data(loaded, answers, keep, seconds),
                lambda screen: _tour(
                    replace(screen, laid_out=True), forest.user(user), keep, script, loaded, answers
                ),
            )


def _ask(memory: UserMemory, questions: Sequence[Mapping[str, Any]], *, every: bool) -> list[DemoAnswer]:
    """Ask the questions, by default the first of each of `SHOWN_KINDS`."""
    first: dict[str, Mapping[str, Any]] = {}
    for asked in questions:
        first.setdefault(asked["kind"], asked)
    return [
        DemoAnswer(
            asked,
            memory.ask(asked["question"], reference_date=asked["reference_date"], as_of=asked.get("as_of")),
        )
        for asked in (questions if every else [first[kind] for kind in SHOWN_KINDS])
    ]


def _data(
    loaded: ImportedMemory, answers: Sequence[DemoAnswer], keep: Path | None, seconds: float
) -> dict[str, Any]:
    return {
        "memory": loaded,
        "seconds": round(seconds, 2),
        "directory": keep,
        "right": sum(one.right for one in answers),
        "wrong": sum(not one.right and one.result.answer is not None for one in answers),
        "answers": [
            {key: one.asked.get(key) for key in ("kind", "question", "as_of")}
            | {key: getattr(one.result, key) for key in ("answer", "reason", "citations")}
            | {"expected": one.asked["answer"], "right": one.right}
            for one in answers
        ],
    }


def _tour(
    screen: Screen,
    memory: UserMemory,
    keep: Path | None,
    script: Mapping[str, Any],
    loaded: ImportedMemory,
    answers: Sequence[DemoAnswer],
) -> None:
    """Print the demo, part by part."""
    screen.heading("1. A conversation comes in")
    screen.line(f"{script['title']}: {loaded.turns} messages in {loaded.sessions} conversations, for example")
    for turn in script["sessions"][0]["turns"][:2]:
        screen.line(f'{turn["timestamp"][:10]} {turn["speaker"]}: "{turn["text"]}"', "dim", indent=2)
    screen.line(f"memforest made {loaded.facts_added} facts of them, without a model or a key.")
    screen.heading(f"2. What changed, and when: where {PERSON} lived")
    draw_timeline(screen, list(memory.timeline(PERSON, attribute="residence")))
    screen.heading("3. Search: the turns that answer a question")
    screen.line(SEARCHED, "bold magenta")
    asked = {one["question"]: one["reference_date"] for one in script["questions"]}
    draw_evidence(
        screen, memory.search(SEARCHED, reference_date=asked[SEARCHED], top_k=SHOWN_PIECES).evidence
    )
    _draw_answers(screen, answers)
    screen.heading("5. Now you")
    folder = "./demo-memory" if keep is None else str(keep)
    rows = [
        (f"memforest search 'moving house' --dir {folder}", "search it"),
        (f"memforest tree Biscuit --dir {folder}", "look inside"),
        ("memforest ingest chat.json", "your own conversations"),
    ]
    if keep is None:
        rows.insert(0, (f"memforest demo --keep {folder}", "keep this memory"))
    screen.table(("bold", "dim"), rows)


def _draw_answers(screen: Screen, answers: Sequence[DemoAnswer]) -> None:
    """Print the answers, and one question without an answer."""
    screen.heading("4. Questions, asked on 19 October 2025")
    unanswered = [one for one in answers if one.result.answer is None]
    for one in [*(one for one in answers if one.result.answer is not None), *unanswered[-1:]]:
        as_of = one.asked.get("as_of")
        screen.line()
        screen.line(one.asked["question"] + (f"  (as of {as_of[:10]})" if as_of else ""), "bold magenta")
        draw_answer(screen, one.result)
    screen.line()
    if more := len(unanswered) - 1:
        screen.line(f"{more} more have no answer: the memory answers only when it is sure.", "dim")
