"""What a file is, by its structure: foreign logs are refused by name, and messages are read whatever program named their parts."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, MemForest
from memforest.errors import InputError
from memforest.testing import HashEmbedder

AT = "2026-03-04T10:00:00Z"


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """An empty forest in Lisbon's time."""
    with MemForest(tmp_path / "m", Config(embedder=HashEmbedder(), timezone="Europe/Lisbon")) as found:
        yield found


def lines(*records: Any) -> str:
    """Return JSON Lines."""
    return "\n".join(json.dumps(one) for one in records)


def entry(kind: str, role: str, **message: Any) -> dict[str, Any]:
    """Return an event of a coding agent that has its message in an envelope."""
    return {"type": kind, "timestamp": AT, "message": {"role": role, **message}}


PART = [{"type": "text", "text": "The kiln is hot."}]
REFUSED = {
    "coding agent": lines({"type": "session", "id": "s", "timestamp": AT}, entry("message", "user", content=PART)),
    "Google Takeout": json.dumps([{"header": "Gemini Apps", "title": "Prompted where to plant figs", "time": AT, "products": ["Gemini Apps"]}]),
    "Grok": json.dumps({"conversations": [{"conversation": {"id": "g"}, "responses": [{"response": {"message": "Figs?", "sender": "human"}}]}]}),
    "Signal": json.dumps([{"id": "1", "type": "incoming", "body": "Figs?", "sent_at": 1661282700000, "conversationId": "c"}]),
    "LINE": "[LINE] Chat history with Yuki\nSaved on: 2026/03/01 10:00\n\n2026/02/28(Sat)\n10:15\tYuki\tFigs?\n",
    "iMessage": "May 17, 2022  5:29:42 PM (Read by you)\n+15558675309\nFigs?\n",
    "memforest import": lines({"format": "memforest export", "schema": 1, "exported_ms": 1}, {"record": "turn", "text": "Lit."}),
    "'payload'": lines({"timestamp": AT, "type": "order.created", "payload": {"id": 7}}, {"timestamp": AT, "type": "order.paid", "payload": {"text": "Lit."}}),
    "'data'": lines({"id": "1", "timestamp": AT, "type": "kiln.lit", "data": {"content": "Lit."}}, {"id": "2", "timestamp": AT, "type": "kiln.hot", "data": {}}),
    "'level'": json.dumps([{"level": "info", "message": "started", "time": 1784278801}]),
    "'utterance'": json.dumps({"messages": [{"who": "Ana", "utterance": "Light the kiln."}]}),
    "'role'": lines({"role": "system", "content": "You are a potter."}, {"type": "event", "n": 1}, {"type": "input", "input": "Light it."}),
}  # fmt: skip
"""What the refusal names, a program or a key that was seen -> a file."""


def test_a_log_of_another_program_is_refused_by_name(forest: MemForest, tmp_path: Path) -> None:
    """Whatever the file is called, and nothing of it is stored: no prompt of a system alone, and nothing without a speaker."""
    wrong: list[tuple[str, object]] = []
    for number, (named, text) in enumerate(REFUSED.items()):
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        try:
            wrong.append((named, forest.import_file("u", path).files[0]))
        except InputError as exc:
            if named not in str(exc) or not str(exc).startswith(path.name):
                wrong.append((named, exc))
    assert wrong == []
    assert not forest.has_user("u")


def test_in_an_archive_it_is_named_too(forest: MemForest) -> None:
    """Beside a chat as a part that is not read; alone as the reason."""
    log = {"log.jsonl": REFUSED["coding agent"]}
    with pytest.raises(InputError, match=r"log\.jsonl.*coding agent"):
        forest.import_file("u", packed(log))
    chat = json.dumps([{"role": "user", "content": "I fire pots.", "timestamp": AT}])
    result = forest.import_file("u", packed({**log, "chat.json": chat}))
    assert (result.files[0].turns, [one for one in result.problems if "coding agent" in one]) == (
        1,
        result.problems,
    )


TIMES = {
    "timestamp": AT,
    "time": AT,
    "date": AT,
    "created": 1772618400,
    "created_at": AT,
    "createdAt": "2026-03-04T10:00:00.000Z",
    "timestamp_ms": 1772618400000,
    "date_ms": 1772618400000,
    "ts": "1772618400",
    "update_time": 1772618400.0,
}


def test_a_message_has_its_time_under_many_names(forest: MemForest) -> None:
    """In plain messages, in typed parts and around a session; and no time that the caller gives takes its place."""
    wrong = {}
    for key, value in TIMES.items():
        said = {"role": "user", "content": "I fire pots."}
        for form in (
            [{**said, key: value}],
            [{**said, key: value, "content": PART}],
            {key: value, "messages": [said]},
        ):
            result = forest.import_file(
                "u", file_of(form), timestamp="2020-01-01", dry_run=True, session_id="s"
            )
            if f"{result.files[0].start:%Y-%m-%dT%H:%M}" != AT[:16] or result.problems:
                wrong[key] = (result.files[0].start, result.problems)
    assert wrong == {}


def test_a_message_without_a_time_is_told_what_it_has(forest: MemForest) -> None:
    """The keys that were seen, so that one sees how the time is called."""
    result = forest.import_file(
        "u", file_of([{"role": "user", "content": "I fire pots.", "sentOn": AT}]), session_id="s"
    )
    assert "'sentOn'" in result.problems[0]


def test_a_further_time_is_kept_as_metadata(forest: MemForest) -> None:
    """The first that is there is the time; nothing that a message has is lost."""
    turn = {
        "role": "user",
        "content": "I fire pots.",
        "timestamp": AT,
        "date": "2026-03-05",
        "ts": 7,
        "time": None,
    }
    forest.import_file("u", file_of([turn]), session_id="s")
    (stored,) = forest.user("u").turns("s")
    assert (f"{stored.said:%d}", stored.metadata) == ("04", {"date": "2026-03-05", "ts": 7})


def test_who_speaks_has_several_names(forest: MemForest) -> None:
    """A name, an object with a name, or what is the name of a role; a role that is there goes before. In `add` as in files."""
    spoken: list[tuple[dict[str, Any], tuple[str | None, str]]] = [
        ({"sender": "Mira"}, (None, "Mira")),
        ({"sender_name": "Mira"}, (None, "Mira")),
        ({"author": {"name": "Mira", "id": 7}}, (None, "Mira")),
        ({"sender": "Assistant"}, ("assistant", "assistant")),
        ({"role": "user", "speaker": "Jo", "author": "Mira"}, ("user", "Jo")),
        ({"type": "ai"}, ("assistant", "assistant")),
    ]
    messages = [{**who, "text" if "type" not in who else "content": "I fire pots.", "ts": 1772618400 + at}
                for at, (who, _) in enumerate(spoken)]  # fmt: skip
    wrong = []
    for at, (message, (_, expected)) in enumerate(zip(messages, spoken, strict=True)):
        forest.import_file(f"u{at}", file_of([message]), session_id="s")
        forest.user(f"a{at}").add([message], session_id="s")
        for user in (f"u{at}", f"a{at}"):
            (turn,) = forest.user(user).turns("s")
            if (turn.role, turn.speaker, turn.said.year) != (*expected, 2026):
                wrong.append((message, turn))
    assert wrong == []


def test_goose_is_read_where_it_is_plain_messages(forest: MemForest) -> None:
    """With its own times; the line that tells of the session is no turn."""
    text = lines(
        {"id": "g", "description": "Kiln", "working_dir": "/x", "message_count": 2},
        {"id": "1", "role": "user", "created": 1772618400, "content": [{"type": "text", "text": "Light the kiln."}]},
        {"id": "2", "role": "assistant", "created": 1772618460, "content": PART},
    )  # fmt: skip
    forest.import_file("u", io.BytesIO(text.encode()), session_id="s", timestamp="2020-01-01")
    assert [(one.role, one.text, f"{one.said:%H:%M}") for one in forest.user("u").turns("s")] == [
        ("user", "Light the kiln.", "10:00"),
        ("assistant", "The kiln is hot.", "10:01"),
    ]


def test_whatsapp_without_a_space_behind_the_colon(forest: MemForest) -> None:
    """A message that begins with a number too; a time of day or an address in a notice is none."""
    chat = (
        "[2026/7/9 02:28:09] Alice: Hey\n[2026/7/9 02:28:37] Bob:Hi\n[2026/7/9 02:29:00] Bob:12:30 at the kiln?\n"
        "[2026/7/9 02:29:10] Bob started a call at 12:30\n[2026/7/9 02:29:20] Learn more at https://kiln.example/x\n"
    )
    result = forest.import_file("u", io.BytesIO(chat.encode()), session_id="s")
    assert sum(result.files[0].left_out.values()) == 2
    assert [(one.speaker, one.text) for one in forest.user("u").turns("s/2026-07-09")] == [
        ("Alice", "Hey"), ("Bob", "Hi"), ("Bob", "12:30 at the kiln?"),
    ]  # fmt: skip


MEMORY = (
    "**Work**\n\nRena repairs kilns in Faro.\n\nShe dislikes gas kilns.\n\n## Tools:\n\nShe owns a Testo 925."
)


def test_what_claude_keeps_in_mind_is_read(forest: MemForest) -> None:
    """As nobody's words, of the day on which the archive has it; one of a later day comes beside it."""
    account = {
        "account_uuid": "a",
        "conversations_memory": MEMORY,
        "project_memories": {"p": "The stall opens in May."},
    }
    for month in (3, 4):
        result = forest.import_file(
            "rena", packed({"memories.json": json.dumps([account])}, (2026, month, 5, 9, 0, 0))
        )
        assert result.problems == []
        account["conversations_memory"] = MEMORY.replace("Faro", "Beja")
    memory = forest.user("rena")
    assert [one.session_id for one in memory.sessions()] == [
        "memory/a/2026-03-05", "memory/p/2026-03-05", "memory/a/2026-04-05", "memory/p/2026-04-05",
    ]  # fmt: skip
    turns = [
        (one.speaker, one.role, one.text, one.metadata["section"])
        for one in memory.turns("memory/a/2026-03-05")
    ]
    assert turns == [
        ("claude", None, "Rena repairs kilns in Faro.", "Work"),
        ("claude", None, "She dislikes gas kilns.", "Work"),
        ("claude", None, "She owns a Testo 925.", "Tools"),
    ]
    assert "Testo" in memory.search("the Testo 925").evidence[0].text


def test_what_claude_keeps_in_mind_without_a_time_is_asked_for_one(forest: MemForest) -> None:
    """Nothing is invented; its own time, or that of the caller, is taken."""
    account = {"conversations_memory": MEMORY}
    assert "timestamp" in forest.import_file("u", file_of([account])).problems[0]
    assert forest.import_file("u", file_of([account]), timestamp="2026-03-05").problems == []
    own = forest.import_file("v", file_of({**account, "updated_at": 1, "created_at": AT}))
    assert f"{own.files[0].start:%Y-%m-%d}" == AT[:10]


def file_of(value: Any) -> io.BytesIO:
    """Return a file of JSON that is open."""
    return io.BytesIO(json.dumps(value).encode())


def packed(
    files: dict[str, str], when: tuple[int, int, int, int, int, int] = (2026, 3, 5, 9, 0, 0)
) -> io.BytesIO:
    """Return a zip archive whose files were written then."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, when), text)
    return io.BytesIO(target.getvalue())
