"""A statement of a model that is refused is named: in the result, in the trace, and by `ingest -v`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import ChatServer
from tests_long.test_cli_drawing import laid_out

from memforest import ChatEndpoint, Config, MemForest
from memforest.cli.ingest import draw_memories
from memforest.read.receipts import ImportedMemory
from memforest.read.results import MOST_REFUSED, ChunkReport, IngestResult, RefusedStatement
from memforest.testing import ScriptedChat

TURNS = [
    {"id": "t1", "role": "user", "name": "Ann", "content": "I live in Porto.", "timestamp": "2031-05-01"},
    {"id": "t2", "role": "user", "name": "Bob", "content": "I own 3 boats.", "timestamp": "2031-05-01"},
]
KEPT = {"quote": "I live in Porto", "text": "Ann lives in Porto.", "turns": [0]}
WRONG = [
    ({"quote": "I own 3 boats", "text": "Bob owns 5 boats.", "turns": [1]}, "t2", "a number"),
    ({"quote": "I live in Porto", "text": "Ann lives in Lisbon.", "turns": [0]}, "t1", "a name"),
    ({"quote": "I live in Porto", "text": "Ann does not live in Porto.", "turns": [0]}, "t1", "a denial"),
    ({"quote": "I own 3 boats", "text": "Ann owns 3 boats.", "turns": [1]}, "t2", "who it is"),
]


def reply(*statements: dict[str, Any]) -> str:
    """Return the reply of a model that makes these statements."""
    return json.dumps({"statements": statements})


def ingested(folder: Path, *statements: dict[str, Any]) -> IngestResult:
    """Return what becomes of the session when the model makes these statements."""
    chat = ScriptedChat([reply(*statements)])
    with MemForest(folder, Config(chat=chat, chat_steps=["extract"], embedder=None)) as forest:
        return forest.ingest_session("u", "s", TURNS)


def test_the_result_names_what_was_refused(tmp_path: Path) -> None:
    """Which statement, of which turn, and why; beside what was kept, and in the dictionary of the result."""
    found = ingested(tmp_path, KEPT, *(statement for statement, _, _ in WRONG))
    assert found.added == ("Ann lives in Porto.",)
    assert [(one.text, one.turn_id, one.reason) for one in found.refused_statements] == sorted(
        (
            (statement["text"], turn, f"not supported by the turns ({lack})")
            for statement, turn, lack in WRONG
        ),
        key=lambda one: one[1],
    )
    refused = found.to_dict()["chunks"][0]["refused"]
    assert refused[2] == {
        "text": "Bob owns 5 boats.",
        "turn_id": "t2",
        "reason": "not supported by the turns (a number)",
    }
    assert found.refused == (), "those are turns"


def test_pieces_of_turns_are_no_refused_statements(tmp_path: Path) -> None:
    """What the local rules pass over is told by its reason alone, and so is a date that was left out."""
    with MemForest(tmp_path / "local", Config(embedder=None)) as forest:
        found = forest.ingest_session("u", "s", [TURNS[0], {**TURNS[1], "content": "Thanks! How are you?"}])
    assert found.skipped
    assert found.refused_statements == ()
    dated = ingested(tmp_path / "model", {**KEPT, "start": "2020-05-01"})
    assert dated.skipped
    assert dated.refused_statements == ()


def test_of_a_flood_the_first_are_named(tmp_path: Path) -> None:
    """Each cut; the reasons of all are counted."""
    flood = [
        {"quote": "x", "text": f"Ann keeps {at} lions" + " and cubs" * 60, "turns": [0]}
        for at in range(100, 150)
    ]
    found = ingested(tmp_path, *flood)
    assert len(found.refused_statements) == MOST_REFUSED < len(found.skipped)
    assert max(len(one.text) for one in found.refused_statements) <= 240


def test_a_refused_statement_is_safe_to_show() -> None:
    """It is the model's text: on one line, in quotation marks, without what a terminal acts on."""
    one = RefusedStatement('a\x1b[31m"b"\n\u202ec', "t\n1", "a number")
    assert str(one) == '"a [31m\\"b\\" c" (turn t 1): a number'


@pytest.mark.parametrize("verbose", [False, True])
def test_ingest_lists_them_when_asked(verbose: bool) -> None:
    """As many as a result names, whatever the number of sessions."""
    report = ChunkReport(
        ("1",), "extracted", refused=(RefusedStatement("Ann has 5 cats.", "1", "a number"),) * 15
    )
    loaded = ImportedMemory("me")
    for session in ("a", "b"):
        loaded.count(IngestResult(session, 1, chunks=(report,)))
    shown = laid_out(lambda screen: draw_memories(screen, [loaded], Path("m"), verbose=verbose), 140)
    assert shown.count('"Ann has 5 cats." (turn 1): a number') == (MOST_REFUSED if verbose else 0)


@pytest.mark.parametrize("wrong", [0, 2])
def test_the_trace_has_a_record_of_them(tmp_path: Path, wrong: int) -> None:
    """Behind that of the call, through the redaction hook; none when all are kept."""
    statements = [statement for statement, _, _ in WRONG[:wrong]]
    path = tmp_path / "trace.jsonl"
    seen: list[str] = []

    def redact(record: dict[str, Any]) -> dict[str, Any]:
        seen.append(record["step"])
        return {**record, "messages": len(record["messages"])}

    with ChatServer(lambda _body: reply(KEPT, *statements)) as server:
        chat = ChatEndpoint("m", base_url=server.url)
        config = Config(chat=chat, chat_steps=["extract"], embedder=None, trace=path, redact=redact)
        with MemForest(tmp_path / "f", config) as forest:
            forest.ingest_session("u", "s", TURNS)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert seen == ["extract"] * (1 + (wrong > 0))
    assert [one["refused"] for one in records[1:]] == [
        [
            {"turn": statement["turns"][0], "statement": statement["text"], "reason": f"not supported by the turns ({lack})"}
            for statement, _, lack in WRONG[:wrong]
        ]
    ][: wrong > 0]  # fmt: skip
    assert [one["messages"] for one in records] == [2, 0][: len(records)]
    assert {one["operation"] for one in records} == {"ingest"}


def test_a_trace_that_cannot_be_written_loses_no_statement(tmp_path: Path) -> None:
    """The operation is warned of it, as for calls."""
    with ChatServer(lambda _body: reply(KEPT, WRONG[0][0])) as server:
        chat = ChatEndpoint("m", base_url=server.url)
        config = Config(
            chat=chat,
            chat_steps=["extract"],
            embedder=None,
            trace=tmp_path / "t",
            redact=lambda record: record["no"],
        )
        with MemForest(tmp_path / "f", config) as forest:
            found = forest.ingest_session("u", "s", TURNS)
    assert found.added == ("Ann lives in Porto.",)
    assert len(found.refused_statements) == 1
    assert [one for one in found.warnings if "redact failed" in one]
