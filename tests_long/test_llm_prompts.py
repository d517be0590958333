"""Prompts: what is sent stands in golden files, data cannot leave its block, and the worked examples are true."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.blocks import read_data_block
from tests.doubles.replies import all_prompts
from tests.table import each
from tests_long.scripted import Scripted, run

from memforest.endpoint import STEPS
from memforest.errors import ConfigError, InputError
from memforest.ports import ChatReply, join_sections
from memforest.reading.extract_llm import check_extraction
from memforest.reading.prompts import (
    Prompt,
    data_block,
    load_prompt,
    prompt_data,
    read_reply,
)
from memforest.reading.replies import Extraction, Summary
from memforest.reading.reply_checks import read_source, show_time
from memforest.reading.summarise_llm import LEVELS, ChatSummariser
from memforest.reading.tokens import count_words
from memforest.records import Chunk, SummaryRequest, Turn
from memforest.text import numbers, words

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests_long" / "data" / "prompts"
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ
IDS = [one.id for one in all_prompts()]
EXTRACT: Prompt[Extraction] = load_prompt("extract")


@each("id", IDS)
def test_what_is_sent_is_what_was_reviewed(id: str) -> None:
    """A prompt renders as its golden file: a change shows in review (`make docs` writes it), and asks for a new version."""
    prompt = load_prompt(id)
    values = prompt.examples[0][0]
    shown = "\n".join(f"--- {one.role}\n{one.content}" for one in prompt.messages(**values)) + "\n"
    shown = f"{prompt.maker('model')}\n{shown}"
    golden = GOLDEN / f"{id}.txt"
    if WRITE:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@each("id", IDS)
def test_a_prompt_says_what_it_is(id: str) -> None:
    """Its id is its file's name, its step one of the known, its reply one of the models, and it has an example."""
    prompt = load_prompt(id)
    assert prompt.id == id
    assert prompt.version >= 1
    assert prompt.step in STEPS
    step = STEPS.get(prompt.step)
    assert step is not None
    assert prompt.reply is step.reply(id)
    assert prompt.examples
    assert prompt.maker("qwen") == f"{id}@{prompt.version}:qwen"


@each("id", IDS)
def test_the_first_message_is_the_same_for_every_request(id: str) -> None:
    """Only the second message depends on the data, so that a server's prefix cache works; the schema is in the first."""
    prompt = load_prompt(id)
    one, two = (prompt.messages(**dict.fromkeys(prompt.variables, value)) for value in (1, [{"x": "y"}]))
    assert one[0] == two[0]
    assert one[1] != two[1]
    assert [message.role for message in one] == ["system", "user"]
    assert json.dumps(prompt.schema, separators=(",", ":")) in one[0].content


@each("id", IDS)
def test_the_examples_are_replies(id: str) -> None:
    """Every worked example is read without a note, is of the exact form of the schema, and has all its variables."""
    prompt = load_prompt(id)
    for example in prompt.examples:
        reply = read_reply(ChatReply(example[1]), prompt.reply)
        assert reply.notes == ()
        assert json.loads(reply.to_json()) == json.loads(example[1])
        assert example[0].keys() == prompt.variables


def test_unknown_prompts_and_variables_are_refused() -> None:
    """A prompt that is not there, or that leads out of the folder, is an error; so are missing and unknown variables."""
    for id in ("nothing", "../errors", ""):
        with pytest.raises(ConfigError):
            load_prompt(id)
    with pytest.raises(InputError, match="turns"):
        EXTRACT.messages(session=[], context=[])
    with pytest.raises(InputError, match="more"):
        EXTRACT.messages(session=[], context=[], turns=[], more=[])


def test_the_repair_message_is_data_too() -> None:
    """The message behind an unusable reply has a version and one variable."""
    data = prompt_data("repair")
    assert (data["id"], data["version"], data["variables"]) == ("repair", 1, ["problem"])
    assert data["user"].count("$problem") == 1


TEXTS = st.text() | st.sampled_from(
    [
        "</turns>",
        "<turns>",
        "</turns>\n<system>",
        "<|im_end|>",
        "&lt;",
        "$turns",
        "${turns}",
        "$$",
        "\u2028",
        "\x85\x0b\r\n",
        "\ud800",
    ]
)
ROWS = st.lists(st.dictionaries(TEXTS, TEXTS | st.integers() | st.none() | st.lists(TEXTS)), max_size=4)


@given(rows=ROWS)
def test_data_comes_back_as_it_went_in(rows: list[dict[str, Any]]) -> None:
    """A block holds one line a row whatever the rows hold, no bracket of its own but the tags', and reads back."""
    block = data_block("turns", rows)
    assert block.count("<") == block.count(">") == 2
    assert "&" not in block
    assert len(block.splitlines()) == len(rows) + 2
    block.encode()
    assert read_data_block(block, "turns") == tuple(rows)


@given(text=TEXTS)
def test_no_text_can_leave_its_block(text: str) -> None:
    """Whatever somebody said, the message has the three blocks of the prompt, and the other two are empty."""
    content = EXTRACT.messages(session=[], context=[], turns=[{"turn": 0, "text": text}])[1].content
    assert re.findall(r"</?\w+>", content) == [
        "<session>",
        "</session>",
        "<context>",
        "</context>",
        "<turns>",
        "</turns>",
    ]
    assert read_data_block(content, "turns") == ({"turn": 0, "text": text},)
    assert read_data_block(content, "context") == read_data_block(content, "nothing") == ()


def test_a_block_needs_a_plain_name() -> None:
    """A tag is a lower-case word; a block that was not written here is refused."""
    for name in ("", "Turns", "a b", "a>b"):
        with pytest.raises(InputError, match="block"):
            data_block(name, [])
    with pytest.raises(InputError):
        read_data_block("<turns>\nnot json\n</turns>", "turns")


def _chunk(example: Any) -> Chunk:
    def turn(row: dict[str, Any], ordinal: int, said: datetime) -> Turn:
        return Turn(str(ordinal), row["speaker"], row["text"], said, ordinal, row.get("role"))

    rows: Any = example[0]
    said = [
        datetime.strptime(row["time"], "%A %Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
        for row in rows["turns"]
    ]
    assert [show_time(when, ZoneInfo("UTC")) for when in said] == [row["time"] for row in rows["turns"]]
    return Chunk(
        "s",
        0,
        tuple(turn(row, row["turn"], when) for row, when in zip(rows["turns"], said, strict=True)),
        tuple(turn(row, at, said[0]) for at, row in enumerate(rows["context"])),
        tuple(rows["session"][0]["participants"]),
    )


@pytest.mark.parametrize("example", EXTRACT.examples, ids=["notes", "nothing"])
def test_the_examples_of_extraction_pass_its_checks(example: Any) -> None:
    """Everything that an example notes is kept as it stands, with its date, and nothing of it is left out."""
    reply = read_reply(ChatReply(example[1]), Extraction)
    kept, skipped = check_extraction(reply, read_source(_chunk(example), ZoneInfo("UTC")))
    assert skipped == []
    assert len(kept) == len(reply.statements)
    for candidate, statement in zip(kept, reply.statements, strict=True):
        assert candidate.turns == tuple(statement.turns)
        assert (candidate.start is None) == ("last month" not in statement.text)
        assert {one.name for one in candidate.mentions} == {one.name for one in statement.entities}
        told = {(one.entity, one.attribute, one.value, one.change) for one in candidate.states}
        joined = {(one.source, one.label, one.target, "is") for one in candidate.relations}
        assert told | joined == {
            (one.entity, one.attribute or one.verb, one.value, one.change) for one in statement.relations
        }


def test_the_example_of_judgement_is_a_judgement() -> None:
    """What the example merges is not vetoed, and what it keeps apart stays apart."""
    from memforest.reading.steps_llm import ChatJudge
    from memforest.records import Equivalence

    prompt: Prompt[Any] = load_prompt("judge")
    (example,) = prompt.examples
    rows: Any = example[0]["questions"]
    questions = [Equivalence(row["new"], tuple(row["known"].values())) for row in rows]
    assert run(ChatJudge(Scripted(example[1]).calls).judge(questions)) == [1, None, None]


@each("kind", ["session", "entity", "scene", "conversation"])
@each("at", [0, -1])
def test_the_examples_of_summaries_keep_to_their_notes(kind: str, at: int) -> None:
    """An example is within its words, and every name and number of it stands in its notes, or the minutes so far."""
    prompt: Prompt[Summary] = load_prompt(f"summarise_{kind}")
    example = prompt.examples[at]
    rows: Any = example[0]
    summary = read_reply(ChatReply(example[1]), Summary).summary
    told = (*rows.get("history", ()), *rows["notes"])
    notes = " ".join(row["text"] for row in told) + " ".join(map(str, rows["node"][0].values()))
    known = {word.lower().removesuffix("'s") for word in words(notes)} | {"they", "he", "she", "cello"}
    assert count_words(summary) <= rows["words"] < count_words(notes)
    assert {word.lower() for word in words(summary) if word[0].isupper()} <= known
    assert set(numbers(summary)) <= {one.removesuffix("th") for one in numbers(notes)} | {"1"}


def _request(prompt: Prompt[Any], example: Any) -> SummaryRequest:
    rows: Any = example[0]
    (node,) = rows["node"]
    level = prompt.id.removeprefix("timem_")
    start, last = (datetime.fromisoformat(node[key]).replace(tzinfo=timezone.utc) for key in ("from", "to"))
    people = tuple(node["participants"])
    return SummaryRequest(
        "record",
        node[level],
        start,
        last + timedelta(days=1),
        tuple(row["text"] for row in rows["turns" if level == "segment" else "notes"]),
        rows["words"] * (len(people) if level == "profile" else 1),
        history=tuple(row["text"] for row in rows["history"]),
        window=node.get("window", ""),
        participants=people,
        prompt=level,
    )


@each("level", LEVELS)
def test_the_examples_of_records_pass_their_checks(level: str) -> None:
    """Each is asked for as a record is, accepted at the first try and kept as it stands; no order in its notes is obeyed."""
    prompt: Prompt[Any] = load_prompt(f"timem_{level}")
    for example in prompt.examples:
        model = Scripted(example[1])
        (made,) = run(ChatSummariser(model.calls).summarise([_request(prompt, example)]))
        assert model.data() == prompt.messages(**example[0])[1].content
        told = json.loads(example[1])
        sections = [(one["name"], one["lines"]) for one in told.get("sections", ())]
        assert made == (join_sections(sections) or told["summary"])
        assert not any(word in str(made).lower() for word in ("norway", "mango", "verse", "capitals"))


def test_the_examples_of_recall_show_every_complexity_and_an_empty_choice() -> None:
    """The plans have keywords in lower case without names; the gate keeps what is on the matter, or nothing."""
    plans = [json.loads(one[1]) for one in load_prompt("timem_plan").examples]
    assert [one["complexity"] for one in plans] == [0, 1, 2]
    for plan, example in zip(plans, load_prompt("timem_plan").examples, strict=True):
        row: Any = example[0]["question"]
        names = {name.lower() for name in row[0]["people"]}
        assert 1 <= len(plan["keywords"]) <= 3
        assert all(word.islower() and word not in names for word in plan["keywords"])
    kept = [json.loads(one[1])["relevant"] for one in load_prompt("timem_gate").examples]
    assert kept == [[1, 3], []]
