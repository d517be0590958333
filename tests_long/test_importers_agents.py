"""What becomes of transcripts of coding agents, of what frameworks keep, and of the trees of other chats with assistants."""

from __future__ import annotations

import io
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.table import each
from tests_long.test_importers_formats import ALL, DATA, changed, packed, read, said, stored

from memforest import Config, MemForest
from memforest.errors import InputError
from memforest.importers import ReadOptions, Skips, open_chat
from memforest.models import HashEmbedder

AT = "2026-05-01T10:00:00Z"


def lines(*records: Any) -> bytes:
    """Return JSON Lines."""
    return "\n".join(json.dumps(one) for one in records).encode() + b"\n"


def texts(name: str | bytes, **options: Any) -> list[str]:
    """Return role and text of the turns of a sample, or of a file, in one line each."""
    sessions, skips, _ = read(DATA / name if isinstance(name, str) else name, **options)
    assert skips.wrong == []
    return [f"{role or speaker}: {text}" for one in sessions for role, speaker, text in said(one)]


READ = {
    "claude_code.jsonl": [
        "user: Use Celsius in the kiln controller.",
        "assistant: I look at two files.",
        'tool: Read({"file_path": "kiln.py"})',
        'tool: Read({"file_path": "unit.py"})',
        "tool: UNIT = 'F'",
        "tool: C = 1",
        "user: And Kelvin, please.",
        "assistant: It uses Celsius now.",
        "user: Thanks.",
    ],
    "codex.jsonl": [
        "user: Make the kiln blink.",
        'tool: shell({"command":["ls"]})',
        'tool: {"output":"kiln.py"}',
        'tool: local_shell({"type": "exec", "command": ["cat", "kiln.py"]})',
        "assistant: It blinks.",
    ],
    "copilot.jsonl": [
        "user: Rename the kiln.",
        "assistant: I look.",
        'tool: grep({"pattern": "kiln"})',
        "tool: kiln.py:1",
        "assistant: It is called Vesta.",
    ],
    "cursor.jsonl": ["user: Glaze the pot.", "assistant: I glaze it.", 'tool: Shell({"command": "glaze"})'],
    "gemini_cli.json": [
        "user: Which pots are cracked?",
        'tool: list_pots({"state": "cracked"})',
        "tool: the blue one",
        "assistant: Only the blue one.",
    ],
    "qwen_code.jsonl": ["user: Fill the kiln.", "assistant: I fill it.", 'tool: fill({"shelves": 3})', "tool: full"],
    "kimi.jsonl": [
        "user: Is the clay dry?",
        "assistant: It is dry, but the rim is damp.",
        'tool: Measure({"where": "rim"})',
        "tool: 11 %",
    ],
    "goose.jsonl": ["user: Light the kiln.", "assistant: I light it.", 'tool: light({"cone": 6})', "tool: lit"],
    "cline.json": [
        "user: Sweep the studio.",
        "assistant: I look for the broom.",
        "tool: behind the door",
        "user: Use the small one.",
    ],
    "aider.md": ["user: Paint the door.\nAnd the frame.", "assistant: Both are blue now."],
    "pydantic_ai.json": [
        "user: My wheel squeaks.",
        'tool: shop({"for": "oil"})',
        'tool: {"open": true}',
        "assistant: Oil it.",
    ],
    "langgraph.json": [
        "user: I fired a bowl.",
        'tool: note({"what": "bowl"})',
        "tool: noted",
        "assistant: A bowl, then.",
    ],
    "adk.json": [
        "user: Is it cone 6?",
        "tool: cone({})",
        'tool: {"cone": 6, "sure": true}',
        "assistant: Yes, cone 6.",
    ],
    "ai_sdk.json": ["user: Weigh the clay.", 'tool: weigh({"what": "clay"})', 'tool: {"kg": 9}', "assistant: 9 kg."],
    "sharegpt.json": [
        "user: My cat is called Biscuit.",
        'tool: {"name": "note"}',
        "tool: noted",
        "assistant: A fine name.",
    ],
    "librechat.json": [
        "user: How tall is a bowl?",
        "assistant: Half its width.",
        "tool: measure({})",
        "tool: 9 cm",
        "user: Thanks.",
    ],
    "open_webui.json": ["user: How flat is a plate?", "assistant: Nearly flat."],
}  # fmt: skip
"""A sample -> what is read of it: no prompt, no reasoning, nothing of another branch or of a helper."""


@each(("name", "expected"), READ.items())
def test_what_was_said_is_read(name: str, expected: list[str]) -> None:
    """The words of the person and of the assistant; tools as tools; all else is counted."""
    assert texts(name) == expected
    assert read(DATA / name)[1].left_out or name.startswith("cline")


@each(
    ("name", "session", "start", "end"),
    [
        ("claude_code.jsonl", "cc-1", "05-01T10:00:04", "05-01T10:00:16"),
        ("codex.jsonl", "cx-1", "05-01T10:00:03", "05-01T10:00:08"),
        ("copilot.jsonl", "cp-1", "05-01T10:00:02", "05-01T10:00:08"),
        ("cursor.jsonl", "cursor", "05-01T10:00:00", "05-01T10:00:00"),
        ("gemini_cli.json", "g-1", "05-01T10:00:01", "05-01T10:00:03"),
        ("qwen_code.jsonl", "q-1", "05-01T10:00:01", "05-01T10:00:03"),
        ("kimi.jsonl", "kimi", "05-01T10:00:01", "05-01T10:00:06"),
        ("goose.jsonl", "go-1", "05-01T10:00:01", "05-01T10:00:03"),
        ("cline.json", "cline", "05-01T10:00:01", "05-01T10:00:03"),
        ("aider.md", "aider/2026-05-01T10:00:00", "05-01T08:00:00", "05-01T08:00:00"),
        ("pydantic_ai.json", "pydantic_ai", "05-01T10:00:00", "05-01T10:00:04"),
        ("langgraph.json", "lg-1", "05-01T10:00:00", "05-01T10:00:00"),
        ("adk.json", "adk-1", "05-01T10:00:01", "05-01T10:00:05"),
        ("ai_sdk.json", "ai-1", "05-01T10:00:01", "05-01T10:00:02"),
        ("librechat.json", "lc-1", "05-01T10:00:01", "05-01T10:00:04"),
        ("open_webui.json", "ow-1", "05-01T10:00:01", "05-01T10:00:03"),
    ],
)
def test_sessions_have_their_own_id_and_times(
    tmp_path: Path, name: str, session: str, start: str, end: str
) -> None:
    """Where the program writes them; aider's are local."""
    found, problems = stored(tmp_path / name, DATA / name)
    assert ([(one[0], *one[2:]) for one in found], problems) == ([(session, start, end)], [])


def test_a_file_without_times_asks_for_one(tmp_path: Path) -> None:
    """ShareGPT has none, and neither have older transcripts of Cursor: nothing is invented."""
    bare = changed("cursor.jsonl", ("<timestamp>Friday, May 1, 2026, 3:30 PM (UTC+5:30)</timestamp>", ""))
    for number, file in enumerate([DATA / "sharegpt.json", bare]):
        found, (problem,) = stored(tmp_path / str(number), file, session_id="s")
        assert (found, "turn 0 has no timestamp" in problem) == ([], True)
        assert len(stored(tmp_path / str(number), file, session_id="s", timestamp=AT)[0]) == 1


def test_what_is_left_out_of_claude_code_is_counted() -> None:
    """Commands and their echo, what is not shown, helpers, and a question that was asked anew with its answer."""
    assert read(DATA / "claude_code.jsonl")[1].left_out == {
        "note of the program": 5,
        "system or hidden message": 5,
        "message of another branch": 2,
        "reasoning of the model": 1,
        "image, sound or file": 1,
    }


def test_a_transcript_of_several_sessions_is_several() -> None:
    """Whichever line belongs to which; lines of no session are notes."""
    one = json.loads((DATA / "claude_code.jsonl").read_text().splitlines()[-1])
    records = [
        {**one, "sessionId": name, "uuid": str(n), "parentUuid": None} for n, name in enumerate("abab")
    ]
    sessions, skips, _ = read(lines({"type": "summary", "summary": "x"}, *records))
    assert [(each.session_id, len(each.turns)) for each in sessions] == [("a", 2), ("b", 2)]
    assert skips.left_out["note of the program"] == 1


def test_trees_that_go_in_circles_end() -> None:
    """A message that follows itself, or one that follows it, is read no more than once."""
    one = json.loads((DATA / "claude_code.jsonl").read_text().splitlines()[-1])
    rounds = [{**one, "uuid": a, "parentUuid": b} for a, b in ("ab", "ba", "cc")]
    assert len(texts(lines(*rounds))) <= 3
    chat = json.loads((DATA / "librechat.json").read_text())
    chat["messages"] = [
        {**chat["messages"][0], "messageId": a, "parentMessageId": b, "children": []} for a, b in ("ab", "ba")
    ]
    assert len(texts(json.dumps(chat).encode())) == 2


def test_the_log_of_gemini_is_played_again() -> None:
    """A later line of an id counts, a patch brings messages, and a rewind takes them back."""
    head = {"sessionId": "g", "startTime": AT, "lastUpdated": AT, "messages": []}
    user = {"id": "1", "timestamp": AT, "type": "user", "content": "Light it."}
    reply = {"id": "2", "timestamp": AT, "type": "gemini", "content": [{"text": "Li"}]}
    more = {"$set": {"messages": [user, {**reply, "content": [{"text": "Lit."}]}], "lastUpdated": AT}}
    again = {"id": "3", "timestamp": AT, "type": "user", "content": "No, wait."}
    assert texts(lines(head, user, reply, more)) == ["user: Light it.", "assistant: Lit."]
    file = lines(
        head, user, reply, again, {"$rewindTo": "3"}, {"$rewindTo": "unknown"}, {"$set": {"summary": "x"}}
    )
    assert texts(file) == ["user: Light it.", "assistant: Li"]
    assert read(file)[1].left_out["message of another branch"] == 1


def test_older_files_of_codex() -> None:
    """Their lines are the items themselves, which have the time of the session."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Make it beep."}]}
    file = lines(
        {"id": "old", "timestamp": AT, "instructions": None, "git": {}}, {"record_type": "state"}, item
    )
    (session,), _, form = read(file)
    assert (form, session.session_id, session.timestamp, len(session.turns)) == ("codex", "old", AT, 1)


def test_a_rollback_of_codex_takes_back_as_many_questions_as_it_says() -> None:
    """And none if it says something odd."""
    rolled = {"timestamp": AT, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}
    asked = [{"timestamp": AT, "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}}
             for text in ("One.", "Two.", "Three.")]  # fmt: skip
    head = {"timestamp": AT, "type": "session_meta", "payload": {"id": "x"}}
    assert texts(lines(head, *asked, rolled)) == ["user: One."]
    for odd in (0, -1, 4, "2", None):
        rolled["payload"] = {"type": "thread_rolled_back", "num_turns": odd}
        assert len(texts(lines(head, *asked, rolled))) == 3


@each(
    ("text", "left"),
    [
        ("<system-reminder>x</system-reminder>Go.<system-reminder>y\nz</system-reminder>", "Go."),
        ("<user_query>\nGo.\n</user_query>", "Go."),
        ("Go <b>there</b>.", "Go <b>there</b>."),
        ("<system-reminder> Go.", "<system-reminder> Go."),
        ("</system-reminder> Go. <system-reminder>", "</system-reminder> Go. <system-reminder>"),
        ("# Context from my IDE setup:\n\n- x\n\n## My request for Codex:\nGo.", "Go."),
        ("<bash-input>ls</bash-input>", None),
        ("<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>", None),
        ("[Request interrupted by user for tool use]", None),
        ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>", None),
    ],
)
def test_what_a_program_writes_into_the_words_of_a_person_is_left_out(text: str, left: str | None) -> None:
    """Tags of agents with what is in them; what the person wrote stays as it is, tags that close nothing too."""
    user = {
        "type": "user",
        "sessionId": "s",
        "uuid": "1",
        "timestamp": AT,
        "message": {"role": "user", "content": text},
    }
    reply = {**user, "type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": text}}
    assert texts(lines(user, reply)) == [*([f"user: {left}"] if left else []), f"assistant: {text}"]


def test_many_tags_that_close_nothing_are_read_through_once() -> None:
    """A text of 500 kB of them takes no time."""
    text = "<system-reminder>" * 30_000 + "</skill>"
    user = {"type": "user", "sessionId": "s", "timestamp": AT, "message": {"role": "user", "content": text}}
    assert texts(lines(user)) == [f"user: {text}"]


@each(
    ("name", "old", "new", "place"),
    [
        ("claude_code.jsonl", "2026-05-01T10:00:06.000Z", "soon", "line 9"),
        ("copilot.jsonl", "2026-05-01T10:00:04.000Z", "soon", "line 5"),
        ("gemini_cli.json", "2026-05-01T10:00:01.000Z", "soon", "message 0"),
        ("adk.json", "1777629601.5", '"soon"', "message 0"),
        ("sharegpt.json", '"human"', '"owl"', "item 0, message 1"),
        ("librechat.json", "2026-05-01T10:00:01.000Z", "soon", "message 0"),
        ("open_webui.json", '"role": "user"', '"role": "owl"', "item 0, node 'n1'"),
        ("ai_sdk.json", '"role": "user"', '"role": "owl"', "message 1"),
        ("discord.json", "2026-05-01T10:00:00.123+00:00", "soon", "messages[0] (id 1)"),
        ("messenger.json", "1777629600000", '"soon"', "messages[2]"),
        ("google_chat.json", "Friday, May 1, 2026 at 9:15:02", "soon", "messages[0] (id s/t/1)"),
        ("cursor.jsonl", '{"type": "turn_ended"', '{"type"', "line 3 column"),
    ],
)
def test_a_wrong_message_is_named_and_all_others_are_read(name: str, old: str, new: str, place: str) -> None:
    """By its line, or its place in the JSON; the others are read."""
    good = sum(len(one.turns) for one in read(DATA / name)[0])
    sessions, skips, _ = read(changed(name, (old, new)))
    assert skips.wrong[0].where.startswith(place), [str(one) for one in skips.wrong]
    assert 0 < sum(len(one.turns) for one in sessions) >= good - 2 - (name == "discord.json")


def test_a_conversation_without_messages_is_named() -> None:
    """The others of the list are read, wherever it stands."""
    good = json.loads((DATA / "sharegpt.json").read_text())[0]
    for items in ([{"id": "x", "conversations": 7}, good], [good, {"id": "x"}]):
        sessions, skips, _ = read(json.dumps(items).encode())
        assert (len(sessions), [str(one).startswith("item ") for one in skips.wrong]) == (1, [True])


@pytest.mark.parametrize("key", ["values", "channel_values", "checkpoint"])
def test_the_latest_state_of_a_thread_counts(key: str) -> None:
    """A history has its states in any order; earlier ones are counted. Dumps of messages are read as LangChain's."""

    def state(count: int, when: str) -> dict[str, Any]:
        human = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
        held = {
            "messages": [
                {**human, "kwargs": {"content": f"Bowl {n}.", "type": "human"}} for n in range(count)
            ]
        }
        if key == "checkpoint":
            return {"config": {"configurable": {"thread_id": "t"}}, key: {"ts": when, "channel_values": held}}
        return {key: held, "metadata": {"thread_id": "t"}, "created_at" if key == "values" else "ts": when}

    states = [
        state(2, "2026-05-02T10:00:00Z"),
        state(3, "2026-05-03T10:00:00Z"),
        state(1, "2026-05-01T10:00:00Z"),
    ]
    (session,), skips, form = read(json.dumps(states).encode())
    assert (form, session.session_id, session.timestamp) == ("langgraph", "t", "2026-05-03T10:00:00Z")
    assert (len(session.turns), skips.left_out) == (3, {"earlier state of a thread": 2})


@each(
    ("part", "expected"),
    [
        ({"type": "dynamic-tool", "toolName": "f", "toolCallId": "c", "input": {}, "errorText": "no"}, ["tool: f({})", "tool: no"]),
        ({"type": "tool-invocation", "toolInvocation": {"toolName": "f", "args": {"a": 1}, "result": [1, "b"]}}, ['tool: f({"a": 1})', "tool: 1\nb"]),
        ({"type": "tool-f", "toolCallId": "c", "input": 1, "output": {"content": [{"type": "text", "text": "t"}, {"type": "image", "mimeType": "image/png", "data": "A"}], "isError": False}},
         ["tool: f(1)", "tool: t\n(image, sound or file)"]),
        ({"type": "source-url", "url": "https://pots.example"}, []),
        ({"type": "data-pot", "data": {}}, []),
        (7, []),
        (None, []),
    ],
)  # fmt: skip
def test_parts_of_the_ai_sdk(part: Any, expected: list[str]) -> None:
    """Calls in their old and new form, results that are wrapped, and what is no text, which is counted."""
    message = {"id": "1", "role": "user", "createdAt": AT, "parts": [{"type": "text", "text": "Hi."}]}
    assert texts(
        json.dumps([message, {**message, "id": "2", "role": "assistant", "parts": [part]}]).encode()
    ) == ["user: Hi.", *expected]


def test_a_tools_words_are_nobodys(tmp_path: Path) -> None:
    """No fact is made of what a coding agent's tool printed."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder())) as forest:
        forest.import_file("u", DATA / "copilot.jsonl")
        assert {fact.speaker for fact in forest.user("u").list().facts} <= {"u", "assistant"}


def test_chats_of_people() -> None:
    """Names, bots as tools, notices counted; mojibake is repaired, and the newest message comes last."""
    assert texts("discord.json") == [
        "Mira: I fired the blue kiln.",
        "Jo: Which cone?",
        "tool: The kiln is at 900 °C.",
    ]
    assert texts("google_chat.json") == ["Ana: The fair moved to June.", "tool: 900 °C"]
    assert texts("messenger.json") == ["Ana: What will you bring?", "Zoë: I’ll bring café beans ☕"]
    sessions, skips, _ = read(DATA / "messenger.json")
    assert [one.session_id for one in sessions] == ["inbox/zoe_1/2026-05-01", "inbox/zoe_1/2026-05-02"]
    assert (sessions[0].metadata, skips.left_out) == (
        {"chat": {"name": "Zoë"}},
        {"image, sound or file": 1, "notice of the app": 1},
    )


def test_what_is_right_is_not_repaired() -> None:
    """Only what reads as UTF-8 that was taken for Latin-1; the export of encrypted chats is right as it is."""
    chat = {"participants": ["Ana", "Zoë"], "threadName": "Zoë", "messages": [
        {"isUnsent": False, "media": [], "reactions": [], "senderName": "Zoë", "text": "é à ☕", "timestamp": 1777629600000, "type": "text"}]}  # fmt: skip
    assert texts(json.dumps(chat).encode()) == ["Zoë: é à ☕"]
    assert texts(changed("discord.json", ("the blue kiln", "cafÃ©")))[0] == "Mira: I fired cafÃ©."


def test_parts_of_a_long_chat_of_messenger_are_apart() -> None:
    """The app cuts it where it likes: two files of it may have messages of one day."""
    content = (DATA / "messenger.json").read_bytes()
    sessions, skips, _ = read(
        packed({"inbox/zoe_1/message_1.json": content, "inbox/zoe_1/message_2.json": content})
    )
    assert [one.session_id for one in sessions][::2] == ["inbox/zoe_1/2026-05-01", "inbox/zoe_1#2/2026-05-01"]
    assert skips.wrong == []


def test_a_chat_without_an_id_is_called_like_its_folder() -> None:
    """Google calls every file `messages.json`."""
    content = (DATA / "google_chat.json").read_bytes()
    sessions, _, _ = read(
        packed(
            {
                "Takeout/Google Chat/Groups/DM a/messages.json": content,
                "Takeout/Google Chat/Groups/DM b/messages.json": content,
            }
        )
    )
    assert [one.session_id for one in sessions] == ["DM a/2026-05-01", "DM b/2026-05-01"]


def test_reactions_of_signal_export_are_no_words() -> None:
    """They stand behind a message, in brackets."""
    chat = "[2026-05-01 10:00] Ana: Is it cone 6?\n(- Me: yes, Bo: 👍 -)\n[2026-05-01 10:01] Me: A list (- a - b -) stays.\n"
    (session,), skips, _ = read(chat.encode())
    assert [one[2] for one in said(session)] == ["Is it cone 6?", "A list (- a - b -) stays."]
    assert skips.left_out == {"reaction": 1}


ODD: list[Any] = [7, None, [], {}, "x", "", True, -1, 1e30, [None], [[]], {"a": 1}, [PART := {"type": "text", "text": "t"}], PART, AT,
                  {"text": {"value": [1]}}, [1, {"name": 1, "args": 2}]]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below one."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [place for key, one in below for place in places(one, (*path, key))]
    return [path, *found] if path else found


def test_an_odd_value_anywhere_is_named_or_counted(soak_seed: int) -> None:
    """Whatever stands where a text, a part, a time or an id should: nothing but our own errors comes out, in any format."""
    rng = random.Random(soak_seed)
    for name in sorted(one for one in ALL if one.endswith((".json", ".jsonl"))):
        text = (DATA / name).read_text(encoding="utf-8")
        whole = [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)
        for _ in range(20):
            value = json.loads(json.dumps(whole))
            for _ in range(rng.choice([1, 1, 2])):
                *path, last = rng.choice([one for one in places(value) if len(one) > 1 or name.endswith("n")])
                held = value
                for key in path:
                    held = held[key]
                held[last] = rng.choice(ODD)
            file = lines(*value) if name.endswith("l") else json.dumps(value).encode()
            for format in (None, ALL[name]):
                with suppress(InputError), open_chat(io.BytesIO(file), name="chat", format=format) as chat:
                    assert all(one.turns for one in chat.sessions(ReadOptions(), Skips()))
