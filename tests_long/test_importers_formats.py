"""What becomes of each format, from small files of our own making: who said what, when, in which session, and what is left out."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.table import each

from memforest import Config, MemForest
from memforest.errors import InputError
from memforest.importers import FileSession, ReadOptions, Skips, format_names, open_chat
from memforest.models import HashEmbedder

DATA = Path(__file__).parent / "data" / "imports"


def read(file: Any, **options: Any) -> tuple[list[FileSession], Skips, str]:
    """Return a file's sessions, what was not read, and the format."""
    skips = Skips()
    name = None if isinstance(file, Path) else "chat"
    with open_chat(file if isinstance(file, Path) else io.BytesIO(file), name=name) as chat:
        return list(chat.sessions(ReadOptions(**options), skips)), skips, chat.format


def changed(name: str, *pairs: tuple[str, str]) -> bytes:
    """Return a sample file with words replaced, each of which it holds."""
    text = (DATA / name).read_bytes().decode()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


def packed(files: dict[str, bytes | str]) -> bytes:
    """Return a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def slack_files() -> dict[str, bytes | str]:
    """Return the sample of Slack's export."""
    folder = DATA / "slack"
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in sorted(folder.rglob("*.json"))}


def said(session: FileSession) -> list[tuple[str | None, str | None, str]]:
    """Return (role, speaker, text) of a session's turns."""
    return [
        (one.get("role"), one.get("speaker"), one.get("content", one.get("text"))) for one in session.turns
    ]


def stored(tmp_path: Path, file: Any, **options: Any) -> tuple[list[tuple[str, int, str, str]], list[str]]:
    """Import a file; return (session, turns, start, end) of what is stored, and the problems."""
    with MemForest(tmp_path / "m", Config(embedder=HashEmbedder(), timezone="Europe/Madrid")) as forest:
        result = forest.import_file("u", file if isinstance(file, Path) else io.BytesIO(file), **options)
        found = forest.user("u").sessions() if forest.has_user("u") else []
        again = forest.import_file("u", file if isinstance(file, Path) else io.BytesIO(file), **options)
        assert sum(one.sessions_new for one in again.memories) == 0, "the same file again changes nothing"
    times = [
        (one.session_id, one.turns, f"{one.start:%m-%dT%H:%M:%S}", f"{one.end:%m-%dT%H:%M:%S}")
        for one in found
    ]
    return times, result.problems


ALL = {
    "adk.json": "adk",
    "ai_sdk.json": "ai-sdk",
    "aider.md": "aider",
    "chatgpt.json": "chatgpt",
    "claude.json": "claude",
    "claude_code.jsonl": "claude-code",
    "cline.json": "cline",
    "codex.jsonl": "codex",
    "copilot.jsonl": "copilot",
    "cursor.jsonl": "cursor",
    "discord.json": "discord",
    "gemini_cli.json": "gemini-cli",
    "google_chat.json": "google-chat",
    "goose.jsonl": "goose",
    "kimi.jsonl": "kimi",
    "langchain.json": "langchain",
    "langgraph.json": "langgraph",
    "librechat.json": "librechat",
    "locomo.json": "locomo",
    "log.txt": "log",
    "longmemeval.json": "longmemeval",
    "mem0.json": "mem0",
    "messages.jsonl": "messages",
    "messenger.json": "messenger",
    "open_webui.json": "open-webui",
    "openai_chat.json": "openai",
    "openai_responses.json": "openai",
    "pydantic_ai.json": "pydantic-ai",
    "qwen_code.jsonl": "qwen-code",
    "realtalk.json": "realtalk",
    "sharegpt.json": "sharegpt",
    "table.csv": "csv",
    "telegram.json": "telegram",
    "whatsapp_android.txt": "whatsapp",
    "whatsapp_ios.txt": "whatsapp",
}


@each(("name", "format"), ALL.items())
def test_a_format_is_told_by_its_content(name: str, format: str) -> None:
    """Whatever the file is called; nothing in a good file is wrong, and everything of a stated format is the same."""
    sessions, skips, found = read((DATA / name).read_bytes())
    assert (found, skips.wrong) == (format, [])
    assert sessions
    with open_chat(DATA / name, name="chat", format=format) as chat:
        assert list(chat.sessions(ReadOptions(), Skips())) == sessions


def test_every_format_has_a_sample() -> None:
    """Slack's is an archive."""
    assert set(format_names()) == {*ALL.values(), "slack"}


def test_chatgpt(tmp_path: Path) -> None:
    """Only the current branch; a call of a tool and its result are turns of the tool; times go on."""
    (session,), skips, _ = read(DATA / "chatgpt.json")
    assert (session.session_id, dict(session.metadata)) == ("c-piano", {"title": "Moving the piano"})
    assert said(session) == [
        ("user", None, "I am moving my piano to Ghent in June."),
        ("tool", "browser", 'browser(search("piano movers Ghent"))'),
        ("tool", "browser", "Three firms were found."),
        ("assistant", None, "Three firms in Ghent move pianos."),
        ("user", None, "This is the staircase."),
    ]
    assert skips.left_out == {
        "system or hidden message": 1,
        "reasoning of the model": 1,
        "message of another branch": 1,
        "image, sound or file": 1,
        "conversation without messages": 1,
    }
    assert session.turns[3]["stated_time"] == "2024-05-01T10:00:05+00:00", "before the call that it answers"
    assert stored(tmp_path, DATA / "chatgpt.json") == (
        [("c-piano", 5, "05-01T10:00:01", "05-01T10:01:40")],
        [],
    )


def test_a_tool_is_nobodys_statement(tmp_path: Path) -> None:
    """What it was asked and what it gave is found by its words; no fact is made of it."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        forest.import_file("u", DATA / "openai_chat.json")
        memory = forest.user("u")
        assert {fact.speaker for fact in memory.list().facts} <= {"u", "assistant"}
        assert memory.search("Graz").evidence
        assert any("It is in Graz." in one.quote for one in memory.search("it is in Graz").evidence)


def test_claude(tmp_path: Path) -> None:
    """Typed parts, pasted text, and the branch that the last message stands on."""
    (session,), skips, _ = read(DATA / "claude.json")
    assert [(turn["id"], *one) for turn, one in zip(session.turns, said(session), strict=True)] == [
        ("q1", "user", None, "I planted two apple trees."),
        ("a1/0", "tool", "weather", 'weather({"place": "Lund"})'),
        ("a1/1", "tool", "weather", "Frost until Sunday."),
        ("a1", "assistant", None, "Cover them until Sunday."),
        ("q2", "tool", "attachment", "Pasted: a list of sorts."),
    ]
    assert skips.left_out["message of another branch"] == 1
    assert stored(tmp_path, DATA / "claude.json") == (
        [("k-garden", 5, "05-01T09:00:05", "05-01T09:05:00")],
        [],
    )


def test_claude_without_branches() -> None:
    """Older exports say of no message what it follows: then all are of one branch."""
    bare = changed("claude.json", ("parent_message_uuid", "was"))
    (session,), skips, _ = read(bare)
    assert len(session.turns) == 6
    assert "message of another branch" not in skips.left_out


@pytest.mark.parametrize("name", ["chatgpt.json", "claude.json"])
def test_an_export_as_it_is_downloaded(name: str) -> None:
    """A zip archive with other files beside the conversations, which are counted."""
    content = (DATA / name).read_bytes()
    archive = packed(
        {"export/conversations.json": content, "user.json": '{"id": "u"}', "x.png": b"\x89PNG\r\n\x1a\n\0"}
    )
    sessions, skips, found = read(archive)
    assert found == name.removesuffix(".json")
    assert [one.turns for one in sessions] == [one.turns for one in read(content)[0]]
    assert skips.left_out["file of the archive that is no chat"] == 2
    assert sessions[0].where == "export/conversations.json, item 0"


@each(
    ("name", "old", "new", "place"),
    [
        ("chatgpt.json", '"author": {"role": "user"}, "create_time": 1714557601.5', '"author": {"role": "owl"}', "item 0, node 'n1'"),
        ("chatgpt.json", '"create_time": 1714557610.0', '"create_time": 1e30', "item 0, node 'n2'"),
        ("claude.json", '"sender": "human", "text": "I planted', '"sender": "owl", "text": "I planted', "item 0, message 0"),
        ("claude.json", '"2024-05-01T09:00:20Z"', '"soon"', "item 0, message 1"),
        ("telegram.json", '"1714557660"', '"1"', "messages[1] (id 2)"),
        ("mem0.json", '"memory": "Lives in Porto"', '"memory": null', "results[1]"),
        ("mem0.json", '"2024-05-01T08:00:00-07:00"', '"soon"', "results[1]"),
        ("longmemeval.json", '{"role": "user", "content": "Tell me a joke."}', "7", "item 0, haystack_sessions[1][0]"),
        ("realtalk.json", '{"clean_text": "Good luck!"', '7, {"clean_text": "Good luck!"', "session_1[1]"),
        ("log.txt", "2024-05-01 10:00:00 Ana", "2024-13-01 10:00:00 Ana", "line 1"),
        ("whatsapp_android.txt", "05/13/24, 12:05 AM", "05/33/24, 12:05 AM", "line 5"),
        ("whatsapp_android.txt", "12:05 AM", "12:05 XY", "line 5"),
        ("table.csv", "13/05/2024;09:30;Bo;Me too.;", "13/05/2024;09:30;Bo", "line 4"),
        ("table.csv", "13/05/2024;09:30", "13/05/2024;25:30", "line 4"),
        ("messages.jsonl", '"Bo", "text"', '"Bo" "text"', "line 2 column"),
        ("langchain.json", '{"type": "human"', '7, {"type": "human"', "item 1"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_named_and_all_others_are_read(name: str, old: str, new: str, place: str) -> None:
    """By its line, or its place in the JSON."""
    good = sum(len(one.turns) for one in read((DATA / name).read_bytes())[0])
    sessions, skips, _ = read(changed(name, (old, new)))
    assert [one.where.startswith(place) for one in skips.wrong] == [True], [str(one) for one in skips.wrong]
    left = sum(len(one.turns) for one in sessions)
    assert 0 < good - left <= 3 or (left == good and ("7," in new))


@each("name", sorted(ALL))
def test_a_file_that_is_cut_off_gives_what_was_whole(name: str) -> None:
    """Wherever it is cut: no error but that of a file that holds nothing yet, and a JSON file's end is named."""
    whole = (DATA / name).read_bytes()
    count = sum(len(one.turns) for one in read(whole)[0])
    read_some = 0
    for cut in range(1, len(whole), 41):
        refused = ""
        try:
            sessions, skips, _ = read(whole[:cut])
        except InputError as exc:
            sessions, skips, refused = [], Skips(), str(exc)
        assert refused == "" or refused.startswith("chat")
        assert sum(len(one.turns) for one in sessions) <= count + (
            name == "aider.md"
        )  # "###" is no question yet
        assert refused or skips.wrong or not (name.endswith(".json") and whole[cut:].strip())
        read_some += bool(sessions)
    of_one = (
        "locomo",
        "longmemeval",
        "claude.",
        "adk",
        "ai_sdk",
        "gemini_cli",
        "langgraph",
        "librechat",
        "open_webui",
        "sharegpt",
    )
    assert read_some or len(whole) < 600 or name.startswith(of_one)


def test_chat_completions(tmp_path: Path) -> None:
    """`content: null` is no error, and a picture is counted; the time is that of the object."""
    (session,), skips, _ = read(DATA / "openai_chat.json")
    assert said(session) == [
        ("system", None, "You help with orders."),
        ("user", None, "My parcel is late."),
        ("tool", "track", 'track({"order": 7})'),
        ("tool", "track", "It is in Graz."),
        ("assistant", None, "Your parcel is in Graz."),
    ]
    assert skips.left_out == {"image, sound or file": 1}
    assert stored(tmp_path, DATA / "openai_chat.json")[0] == [
        ("order-7", 5, "05-01T10:00:00", "05-01T10:00:00")
    ]


def test_responses() -> None:
    """Items of the Responses API, with what was asked where it is kept with them."""
    (session,), skips, _ = read(DATA / "openai_responses.json")
    assert said(session) == [
        ("user", None, "What does Ines teach?"),
        ("tool", "look_up", 'look_up({"who": "Ines"})'),
        ("tool", "look_up", "Ines teaches chemistry."),
        ("assistant", None, "She teaches chemistry."),
    ]
    assert skips.left_out == {"reasoning of the model": 1}


@each(
    ("message", "expected"),
    [
        ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "1"}}, [("tool", "f", "f(1)")]),
        ({"role": "function", "name": "f", "content": "2", "tool_call_id": None}, [("tool", "f", "2")]),
        ({"role": "assistant", "content": "Wait.", "tool_calls": [{"name": "f", "args": {}}]}, [("assistant", None, "Wait."), ("tool", "f", "f({})")]),
        ({"role": "assistant", "content": None, "refusal": "I cannot."}, [("assistant", None, "I cannot.")]),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "3"}]}, [("tool", "tool", "3")]),
        ({"role": "assistant", "content": [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "x", "name": "f", "input": {}}]}, [("assistant", None, "Hm."), ("tool", "f", "f({})")]),
        ({"type": "web_search_call", "id": "w", "status": "completed", "action": "find"}, None),
        ({"role": "assistant", "content": None}, []),
    ],
)  # fmt: skip
def test_calls_in_every_dialect(message: Any, expected: Any) -> None:
    """Old and new calls, refusals, Anthropic's parts; a message of nothing is counted."""
    hello = {"role": "user", "content": "Hello.", "refusal": None}
    (session,), skips, _ = read(json.dumps([hello, message]).encode())
    if expected is not None:
        assert said(session)[1:] == expected
    assert bool(expected == []) == (skips.left_out == {"message without text": 1})


def test_langchain() -> None:
    """Both forms, in one file."""
    (session,), _, _ = read(DATA / "langchain.json")
    assert said(session) == [
        ("system", None, "Be brief."),
        ("user", None, "I sold my boat."),
        ("tool", "note", 'note({"what": "boat"})'),
        ("tool", "note", "noted"),
        ("assistant", None, "I wrote that down."),
    ]


def test_without_any_time_the_session_is_named(tmp_path: Path) -> None:
    """LangChain keeps none; it is asked for, and nothing is invented."""
    found, (problem,) = stored(tmp_path, DATA / "langchain.json")
    assert found == []
    assert "turn 0 has no timestamp" in problem
    assert stored(tmp_path, DATA / "langchain.json", timestamp="2024-05-01")[0][0][1] == 5


def test_mem0(tmp_path: Path) -> None:
    """A memory is a turn at the time when it was made; it says what it is, and nobody said it."""
    sessions, skips, _ = read(DATA / "mem0.json")
    assert {one.session_id: [turn["content"] for turn in one.turns] for one in sessions} == {
        "mem0/2024-05-02": ["Allergic to walnuts"],
        "mem0/2024-05-01": ["Lives in Porto"],
        "trip": ["Prefers trains"],
    }
    assert {one.user for one in sessions} == {"ruth"}
    assert {(turn["speaker"], turn["kind"]) for one in sessions for turn in one.turns} == {
        ("mem0", "memory that mem0 made")
    }
    assert sessions[0].turns[0]["topic"] == "health"
    assert skips.left_out == {"relation between entities": 1}
    assert ("trip", 1, "05-02T14:00:00", "05-02T14:00:00") in stored(tmp_path, DATA / "mem0.json")[0]
    listed = json.dumps(json.loads((DATA / "mem0.json").read_bytes())["results"]).encode()
    assert [one.turns for one in read(listed)[0]] == [one.turns for one in sessions]


def test_slack(tmp_path: Path) -> None:
    """Names for ids; a session for each channel and day and one for each thread; a program's posts are no statements."""
    archive = packed(slack_files())
    sessions, skips, found = read(archive)
    assert found == "slack"
    assert {one.session_id: said(one) for one in sessions} == {
        "allotment/2024-05-01": [
            (None, "Raj Rao", "The shed has a new lock."),
            ("tool", "Rain Bot", "Rain expected tonight."),
        ],
        "allotment/2024-05-02": [(None, "Tove", "The beans have flowers.")],
        "allotment/1714557600.000200": [
            (
                None,
                "Tove",
                "Who waters the beans, @Raj Rao? See the plan (https://example.org/plan) & the list",
            ),
            (None, "Raj Rao", "I do, until Friday."),
            (None, "Tove", "Thank you, then I take Saturday."),
        ],
        "general/2024-05-01": [(None, "Raj Rao", "Good morning.")],
    }
    assert sessions[0].turns[0]["edited"] == "1714558100.000000"
    assert skips.left_out == {"notice of the app": 1, "image, sound or file": 1, "message without text": 1}
    assert len(stored(tmp_path, archive)[0]) == 4


def test_one_day_of_slack() -> None:
    """A single file is read too; ids of people stay, as their names are in another file."""
    sessions, _, found = read((DATA / "slack" / "general" / "2024-05-01.json").read_bytes())
    assert (found, said(sessions[0])) == ("slack", [(None, "U2", "Good morning.")])


def test_a_broken_day_of_slack_is_named() -> None:
    """All other days are read, and a user list that is broken costs the names only."""
    files = slack_files() | {
        "general/2024-05-01.json": '[{"type": "message", "ts": "soon", "text": "x"}, 7',
        "users.json": "[",
    }
    sessions, skips, _ = read(packed(files))
    places = {one.where for one in skips.wrong}
    assert {"general/2024-05-01.json, item 0", "general/2024-05-01.json, item 1"} < places
    assert {place.split(",")[0] for place in places} == {"general/2024-05-01.json", "users.json"}
    assert said(sessions[1])[0][1] == "U1"


def test_telegram(tmp_path: Path) -> None:
    """A session a day; texts in parts; what was forwarded is in its own author's name."""
    sessions, skips, _ = read(DATA / "telegram.json")
    assert {one.session_id: said(one) for one in sessions} == {
        "4711/2024-05-01": [
            (None, "Oskar", "I found a flat in Turku."),
            (None, "Lena", "See https://example.org for movers."),
        ],
        "4711/2024-05-02": [(None, "City of Turku", "The library moves in June.")],
    }
    assert sessions[1].turns[0]["forwarded_by"] == "Lena"
    assert sessions[0].turns[1]["reply_to"] == "2"
    assert skips.left_out == {"notice of the app": 1, "image, sound or file": 1}
    assert stored(tmp_path, DATA / "telegram.json")[0][0] == (
        "4711/2024-05-01",
        2,
        "05-01T10:01:00",
        "05-01T10:02:00",
    )


def test_all_chats_of_a_telegram_account() -> None:
    """Each chat by its own id."""
    chat = json.loads((DATA / "telegram.json").read_bytes())
    account = {
        "about": "x",
        "personal_information": {"id": 1},
        "chats": {"about": "y", "list": [chat, {**chat, "id": 9}]},
    }
    sessions, _, found = read(json.dumps(account).encode())
    assert (found, len(sessions), sessions[2].session_id) == ("telegram", 4, "9/2024-05-01")
    assert sessions[2].place(0) == "chats.list[1].messages[1] (id 2)"


def test_whatsapp_of_android(tmp_path: Path) -> None:
    """The 13th proves that the month comes first; lines go on; times are those of the memory's zone."""
    sessions, skips, _ = read(DATA / "whatsapp_android.txt")
    assert [(one.session_id, said(one)) for one in sessions] == [
        ("whatsapp_android/2024-05-01", [(None, "Ana", "I bought a tent.\nIt is green.")]),
        ("whatsapp_android/2024-05-13", [(None, "Bo Ek", "We meet at noon: bring the map")]),
    ]
    assert skips.left_out.total() == 2
    found, problems = stored(tmp_path, DATA / "whatsapp_android.txt")
    assert (found[1][2], problems) == ("05-12T22:05:00", [])
    with MemForest(tmp_path / "m") as forest:
        assert forest.user("u").list().facts[0].said == datetime(2024, 5, 1, 7, 41, tzinfo=timezone.utc)


def test_whatsapp_of_ios() -> None:
    """Brackets, seconds and left-to-right marks; the year's end proves the day first. The archive names the chat."""
    content = (DATA / "whatsapp_ios.txt").read_bytes()
    with open_chat(io.BytesIO(packed({"_chat.txt": content})), name="WhatsApp Chat - Climbers.zip") as chat:
        sessions = list(chat.sessions(ReadOptions(), Skips()))
    assert [(one.session_id, said(one)) for one in sessions] == [
        ("WhatsApp Chat - Climbers/2023-12-31", [(None, "Ana", "Happy new year")]),
        ("WhatsApp Chat - Climbers/2024-01-01", [(None, "Bo Ek", "And to you.")]),
    ]


@each(
    ("line", "hour"),
    [
        ("1/5/24, 9:41 p. m. - Ana: x", 21),
        ("13/5/24 21:41 - Ana: x", 21),
        ("13/05/2024 às 21:41 - Ana: x", 21),
        ("13.05.24, 21:41 - Ana: x", 21),
        ("[2024/5/13 下午9:41:05] Ana: x", 21),
        ("2024/5/13 上午12:41 - Ana: x", 0),
        ("2024년 5월 13일 오후 9:41, Ana : x", 21),
        ("[13/05/2024, 9:41:05\u202fPM] Ana: x", 21),
        ("2024-05-13 21.41 - Ana: x", 21),
        ("13/05/2024, 12:41 pm - Ana: x", 12),
    ],
)
def test_clocks_of_other_phones(line: str, hour: int) -> None:
    """Halves of the day in the words of several languages, and dates in their orders."""
    (session,), skips, _ = read(f"{line}\n".encode(), day_first=True)
    assert (said(session), skips.wrong) == ([(None, "Ana", "x")], [])
    assert datetime.fromisoformat(session.turns[0]["timestamp"]).hour == hour
    assert session.session_id.startswith("chat/2024-05-")


def test_days_of_a_chat_without_a_name() -> None:
    """From standard input: the day alone names the session."""
    with open_chat(io.BytesIO(b"2024-05-01 10:00 Ana: x\n2024-05-02 10:00 Bo: y\n")) as chat:
        found = [one.session_id for one in chat.sessions(ReadOptions(), Skips())]
    assert found == ["2024-05-01", "2024-05-02"]


def test_an_object_with_a_memory_of_its_own_is_a_session() -> None:
    """Only a text under `memory` is one of mem0's."""
    turn = {"role": "user", "content": "Hi", "timestamp": "2024-05-01"}
    assert read(json.dumps([{"id": "a", "memory": {}, "messages": [turn]}]).encode())[2] == "messages"


def days(dates: Iterable[str], form: str) -> bytes:
    """Return a chat or table with a message on each day."""
    if form == "csv":
        return ("date,from,text\n" + "".join(f"{date} 10:00,Ana,x\n" for date in dates)).encode()
    if form == "log":
        return "".join(f"{date} 10:00 Ana: x\n" for date in dates).encode()
    return "".join(f"{date}, 10:00 - Ana: x\n" for date in dates).encode()


@each("form", ["whatsapp", "csv", "log"])
@each(
    ("dates", "first"),
    [
        (["03/04/2024", "25/04/2024"], "2024-04-03"),
        (["03/04/2024", "04/25/2024"], "2024-03-04"),
        (["03/04/2024", "04/04/2024", "01/05/2024"], "2024-04-03"),
        (["03/30/2024", "04/01/2024"], "2024-03-30"),
        (["04/04/2024"], "2024-04-04"),
    ],
)
def test_the_order_of_day_and_month_is_proven_by_the_file(form: str, dates: list[str], first: str) -> None:
    """By a number above 12, or by days that go on in one order only."""
    sessions, skips, _ = read(days(dates, form))
    assert (sessions[0].session_id, skips.wrong) == (f"chat/{first}", [])


@pytest.mark.parametrize("form", ["whatsapp", "csv", "log"])
def test_an_order_that_nothing_proves_is_asked_for(form: str) -> None:
    """And taken as stated; dates that contradict the order are named, and so is a file of both orders."""
    with pytest.raises(InputError):
        read(days(["03/04/2024", "04/05/2024"], form))
    with pytest.raises(InputError):
        read(days(["25/04/2024", "04/26/2024"], form))
    assert read(days(["03/04/2024"], form), day_first=True)[0][0].session_id == "chat/2024-04-03"
    assert read(days(["03/04/2024"], form), day_first=False)[0][0].session_id == "chat/2024-03-04"


def test_days_are_those_of_the_zone() -> None:
    """A message just after midnight UTC is of the day before, west of Greenwich."""
    chat = changed("telegram.json", ("1714557660", "1714525200"))
    assert read(chat)[0][0].session_id == "4711/2024-05-01"
    assert read(chat, zone=ZoneInfo("America/Lima"))[0][0].session_id == "4711/2024-04-30"


def test_a_table(tmp_path: Path) -> None:
    """Columns by their names, date and time in two of them, a text of two lines; other columns are metadata."""
    sessions, _, _ = read(DATA / "table.csv")
    assert [said(one) for one in sessions] == [
        [(None, "Ana", "I like rye;\nand oats.")],
        [(None, "Bo", "Me too.")],
        [(None, "Ana", "Good.")],
    ]
    assert sessions[0].turns[0]["Mood"] == "calm"
    assert stored(tmp_path, DATA / "table.csv")[0][0] == (
        "table/2024-05-01",
        1,
        "05-01T08:00:00",
        "05-01T08:00:00",
    )


@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
def test_a_table_of_sessions(delimiter: str) -> None:
    """A session column groups rows, wherever they stand, and times put them in order; roles are roles."""
    rows = [
        "Conversation ID,role,content,timestamp",
        "a,user,later,2024-05-02",
        "b,human,hi,2024-05-01",
        "a,Ana,first,2024-05-01",
    ]
    sessions, _, _ = read("\n".join(rows).replace(",", delimiter).encode())
    assert {one.session_id: said(one) for one in sessions} == {
        "a": [(None, "Ana", "first"), ("user", None, "later")],
        "b": [("human", None, "hi")],
    }


def test_a_log() -> None:
    """Lines go on with the message above; what names no speaker is counted."""
    (session,), skips, _ = read(DATA / "log.txt")
    assert said(session) == [(None, "Ana", "I found the key.\nIt was under the mat."), (None, "bo", "Good.")]
    assert skips.left_out == {"line that names no speaker": 1}


def test_longmemeval(tmp_path: Path) -> None:
    """A memory for each question; its answer, and marks of where that is, are not read."""
    sessions, _, _ = read(DATA / "longmemeval.json")
    assert [(one.user, one.session_id, one.timestamp) for one in sessions] == [
        ("q-1", "s-a", "2024/02/10 (Sat) 02:21"),
        ("q-1", "s-b", "2024/02/11 (Sun) 10:00"),
    ]
    assert sessions[0].turns[0] == {"role": "user", "content": "I bought a kettle."}
    assert stored(tmp_path, DATA / "longmemeval.json")[0][0] == ("s-a", 2, "02-10T01:21:00", "02-10T01:21:00")


def test_realtalk(tmp_path: Path) -> None:
    """Numbered sessions with names and times; a caption is part of the text."""
    (session,), _, _ = read(DATA / "realtalk.json")
    assert said(session) == [(None, "Emma", "I start my new job today."), (None, "Kofi", "Good luck!")]
    assert stored(tmp_path, DATA / "realtalk.json")[0] == [
        ("session_1", 2, "02-27T07:30:10", "02-27T07:31:00")
    ]
