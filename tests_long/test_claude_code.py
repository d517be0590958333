"""Claude Code's hooks and plugin: what is recalled, what is kept and what never is, and that no failure holds a session up."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests_long import facades

from memforest import Config, MemForest
from memforest.cli import main
from memforest.integrations import claude_code
from memforest.integrations.claude_code import EVENTS, KEEP, HookError, Notes, Place, answer, keep
from memforest.integrations.claude_code_install import folder
from memforest.integrations.marks import MARK, marked
from memforest.models import HashEmbedder
from memforest.store.directory import file_name
from memforest.times import system_clock

BEGAN = datetime(2026, 5, 1, 10, tzinfo=timezone.utc)
NOBODY = "http://127.0.0.1:9"
"""An address of this machine where no server runs."""
SESSION = "00893aaf-19fa-41d2-8238-13269b9b3ca0"


SLOW = 30.0
"""Seconds within which a hook of two has ended on a machine that has much else to do."""
PATIENT = f"""
import sys
from memforest.integrations import claude_code
claude_code.LIMIT_S = claude_code.SERVER_S = {SLOW}
"""
"""Gives a hook more time, where it is looked at what it says."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where Ana's memory will be; Claude Code's folder is beside it."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("MEMFOREST_EMBEDDER", "hash-words-1@64")
    (tmp_path / "claude" / "projects" / "kiln").mkdir(parents=True)
    return Place(tmp_path / "memories", "ana", NOBODY)


@pytest.fixture
def transcript(place: Place) -> Path:
    """The file of a session, in which nothing has been said."""
    path = claude_code.config_folder() / "projects" / "kiln" / f"{SESSION}.jsonl"
    path.touch()
    return path


def line(role: str, text: Any, number: int, **more: Any) -> str:
    """Return a message as a line of a transcript."""
    message = {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]}
    said = (BEGAN + timedelta(seconds=number)).isoformat()
    whole = {
        "type": role,
        "uuid": f"u{number}",
        "sessionId": SESSION,
        "timestamp": said,
        "message": message,
        **more,
    }
    return json.dumps(whole) + "\n"


def say(path: Path, *lines: str) -> None:
    """Add lines to a transcript."""
    with path.open("a") as file:
        file.writelines(lines)


def payload(event: str, transcript: object = "", **more: Any) -> dict[str, Any]:
    """Return what Claude Code 2.1.332 sent when it ran the plugin, with other ids and paths."""
    shared = {
        "session_id": SESSION,
        "transcript_path": str(transcript),
        "cwd": "/code/kiln",
        "hook_event_name": EVENTS[event],
    }
    own: Mapping[str, dict[str, Any]] = {
        "session-start": {"prompt_id": "5b7c", "source": "compact", "model": "claude-sonnet-4-6"},
        "prompt": {"permission_mode": "default", "prompt_id": "5b7c", "prompt": "Which unit does the kiln use?"},
        "pre-compact": {"prompt_id": "5b7c", "trigger": "manual", "custom_instructions": None},
        "stop": {
            "permission_mode": "default", "prompt_id": "5b7c", "effort": {"level": "high"}, "stop_hook_active": False,
            "last_assistant_message": "Done.", "background_tasks": [], "session_crons": [],
        },
        "session-end": {"prompt_id": "5b7c", "reason": "prompt_input_exit"},
    }  # fmt: skip
    return {**shared, **own[event], **more}


def texts(place: Place, session: str = SESSION) -> list[tuple[str, str]]:
    """Return who said what in a session."""
    with MemForest(place.directory, Config(embedder=HashEmbedder())) as forest:
        return [(one.speaker, one.text) for one in forest.user("ana").turns(session).turns]


def told(answered: dict[str, Any] | None) -> str:
    """Return the context of an answer; "" where there is none."""
    return answered["hookSpecificOutput"]["additionalContext"] if answered else ""


def test_what_is_sent_and_answered_has_the_shapes_of_the_sdk(place: Place, transcript: Path) -> None:
    """Of the events that its types know; those of a session's start and end have the fields that all have."""
    types = pytest.importorskip("claude_agent_sdk.types")
    inputs = {
        "prompt": types.UserPromptSubmitHookInput,
        "stop": types.StopHookInput,
        "pre-compact": types.PreCompactHookInput,
    }
    for event in EVENTS:
        shape = inputs.get(event, types.BaseHookInput)
        sent = payload(event).keys() - (
            set() if event in inputs else {"hook_event_name", "source", "model", "reason"}
        )
        assert shape.__required_keys__ <= sent <= shape.__required_keys__ | shape.__optional_keys__, event
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    keep(SESSION, str(transcript), place)
    outputs = {
        "prompt": types.UserPromptSubmitHookSpecificOutput,
        "session-start": types.SessionStartHookSpecificOutput,
    }
    for event, shape in outputs.items():
        answered = answer(event, payload(event), place)
        assert answered is not None
        assert answered.keys() <= types.SyncHookJSONOutput.__optional_keys__
        own = answered["hookSpecificOutput"]
        assert shape.__required_keys__ <= own.keys() <= shape.__required_keys__ | shape.__optional_keys__
        assert own["hookEventName"] == EVENTS[event] == payload(event)["hook_event_name"]


def test_new_turns_of_the_user_and_the_assistant_are_kept_once(place: Place, transcript: Path) -> None:
    """Not what tools were asked and gave, nor what the program wrote; a line that is being written waits."""
    tool = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "SECRET=1"}]}
    say(
        transcript,
        line("user", "The kiln uses Celsius.\n<system-reminder>Files changed.</system-reminder>", 1),
        line("user", "", 2, message=tool),
        line("assistant", "I changed it.", 3),
        "no JSON\n",
        json.dumps(
            {
                "type": "api-request-blob",
                "sessionId": SESSION,
                "message": {"role": "user", "content": "Kelvin?"},
            }
        )
        + "\n",
        (late := line("user", "Now Kelvin.", 4))[:40],
    )
    keep(SESSION, str(transcript), place)
    assert texts(place) == [("ana", "The kiln uses Celsius."), ("assistant", "I changed it.")]
    seen = Notes(place, SESSION).read()["offset"]
    assert seen == transcript.stat().st_size - 40
    say(transcript, late[40:])
    keep(SESSION, str(transcript), place)
    whole = [("ana", "The kiln uses Celsius."), ("assistant", "I changed it."), ("ana", "Now Kelvin.")]
    assert texts(place) == whole
    Notes(place, SESSION).file.unlink()
    keep(SESSION, str(transcript), place)
    assert texts(place) == whole
    Notes(place, SESSION).write(offset=10**9)
    transcript.write_text(line("user", "The file was written anew.", 9))
    keep(SESSION, str(transcript), place)
    assert texts(place) == [*whole, ("ana", "The file was written anew.")]


def test_fifty_rounds_of_recall_keep_nothing_that_was_recalled(place: Place, transcript: Path) -> None:
    """Where Claude Code writes it as an attachment, into the words of the user, or a reply repeats it between its marks."""
    say(transcript, line("user", "My kiln is called Vesuvius.", 0))
    keep(SESSION, str(transcript), place)
    for number in range(1, 51):
        context = told(
            answer("prompt", payload("prompt", prompt=f"What is my kiln called, {number}?"), place)
        )
        assert "Vesuvius" in context
        hook = {"type": "hook_additional_context", "hookEvent": "UserPromptSubmit", "content": [context]}
        beside = (
            json.dumps({"type": "attachment", "uuid": f"h{number}", "sessionId": SESSION, "attachment": hook})
            + "\n"
        )
        within = f"What is my kiln called, {number}?\n{context}"
        say(
            transcript,
            beside,
            line("user", within, 2 * number),
            line("assistant", f"{context}It is so, {number}.", 2 * number + 1),
        )
        keep(SESSION, str(transcript), place)
    kept = texts(place)
    assert len(kept) == 101
    assert [text for _, text in kept if "Vesuvius" in text or MARK in text] == ["My kiln is called Vesuvius."]
    assert kept[-2:] == [("ana", "What is my kiln called, 50?"), ("assistant", "It is so, 50.")]


def test_what_the_context_has_already_is_not_recalled(place: Place, transcript: Path) -> None:
    """From where a context began, also after it was compacted: what was said since is before the model's eyes."""
    soon = system_clock() + timedelta(minutes=1)
    answer("session-start", payload("session-start"), place)
    say(
        transcript,
        line("user", "The kiln uses Celsius.", 1),
        line("user", "The kiln uses Kelvin.", 2, timestamp=soon.isoformat()),
    )
    keep(SESSION, str(transcript), place)
    context = told(answer("prompt", payload("prompt"), place))
    assert "Celsius" in context
    assert "Kelvin" not in context
    Notes(place, SESSION).write(since=(soon + timedelta(minutes=1)).isoformat())
    assert "Kelvin" in told(answer("prompt", payload("prompt"), place))


def test_what_asks_for_nothing_gets_nothing(place: Place, transcript: Path) -> None:
    """Commands, blanks, what was recalled itself, and a memory that is empty."""
    assert answer("prompt", payload("prompt"), place) is None
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    keep(SESSION, str(transcript), place)
    for prompt in ("/clear", "  ", marked("[1] The kiln uses Celsius."), None):
        assert answer("prompt", payload("prompt", prompt=prompt), place) is None
    with pytest.raises(HookError, match="no session_id"):
        answer("prompt", {"prompt": "Which unit?"}, place)


def test_only_transcripts_of_claude_code_are_read(place: Place, transcript: Path, tmp_path: Path) -> None:
    """Whatever path a hook is told, and wherever a link leads."""
    outside = tmp_path / "outside.jsonl"
    outside.write_text(line("user", "My pin is 1234.", 1))
    link, other = transcript.with_name("link.jsonl"), transcript.with_name("notes.txt")
    link.symlink_to(outside)
    other.write_text(outside.read_text())
    for path in (outside, link, other, transcript.parent, transcript.with_name("none.jsonl"), None, 7, "\0"):
        with pytest.raises((HookError, ValueError), match=r"no transcript|null"):
            keep(SESSION, path if path is None or isinstance(path, (int, str)) else str(path), place)
    assert not place.directory.exists()


def test_it_is_the_named_user_or_the_only_one(place: Place, transcript: Path) -> None:
    """Never one that nobody chose."""
    anybody = Place(place.directory, None, NOBODY)
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    for _ in range(2):
        with pytest.raises(HookError, match="0 users have a memory"):
            keep(SESSION, str(transcript), anybody)
        with pytest.raises(HookError, match="0 users"):
            answer("stop", payload("stop", transcript), anybody)
    keep(SESSION, str(transcript), place)
    assert "Celsius" in told(answer("prompt", payload("prompt"), anybody))
    with MemForest(place.directory, Config(embedder=HashEmbedder())) as forest:
        forest.register_user("bob")
    with pytest.raises(HookError, match="2 users have a memory here: choose one with --user"):
        answer("prompt", payload("prompt"), anybody)


@pytest.fixture
def server(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], Place]]:
    """A server of the same memories that takes keys: gives the place of a key."""
    pytest.importorskip("fastapi")
    from memforest.memory.forest import AsyncMemForest

    monkeypatch.setattr(claude_code, "SERVER_S", SLOW)
    forest = AsyncMemForest(place.directory, Config(embedder=HashEmbedder()))
    with facades.served(facades.keyed_app(forest)) as url:
        yield lambda key: Place(place.directory, "ana", url, key)


def test_a_running_server_does_the_same(
    server: Callable[[str | None], Place], place: Place, transcript: Path
) -> None:
    """With ids of turns that are the same; a user whom it does not know yet is made here."""
    served = server("writer")
    for number in (1, 2, 3):
        say(transcript, line("user", f"The kiln uses unit {number}.", number))
        keep(SESSION, str(transcript), place if number == 2 else served)
    Notes(place, SESSION).file.unlink()
    keep(SESSION, str(transcript), served)
    assert texts(place) == [("ana", f"The kiln uses unit {number}.") for number in (1, 2, 3)]
    by_server, here = (told(answer("prompt", payload("prompt"), one)) for one in (served, place))
    assert by_server.startswith(f"<{MARK}>")
    assert here.partition("\nSources: ")[0] == by_server.removesuffix(f"\n</{MARK}>")
    with pytest.raises(HookError, match="answered 401"):
        answer("prompt", payload("prompt"), server(None))
    with pytest.raises(HookError, match="answered 403"):
        keep(SESSION, str(said_more(transcript)), server("reader"))
    assert len(texts(place)) == 3


def said_more(path: Path) -> Path:
    """Add a line to a transcript, and return its path."""
    say(path, line("user", "One more.", 9))
    return path


@pytest.mark.parametrize(
    "address",
    [
        "ftp://127.0.0.1",
        "127.0.0.1:8420",
        "http://",
        "http://memory.invalid:1",
        "http://[",
        "http://127.0.0.1:99999",
    ],
)
def test_an_address_that_leads_nowhere_is_said(
    place: Place, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no memory of this machine is asked in its place."""

    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror("unknown host")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(HookError, match="does not answer"):
        answer("prompt", payload("prompt"), Place(place.directory, "ana", address))


def hook(place: Place, event: str, sent: bytes | None, **more: Any) -> tuple[int, bytes, bytes, float]:
    """Run a hook as Claude Code does: exit code, output, errors, seconds; None leaves its input open."""
    began = time.monotonic()
    command = [sys.executable, "-m", "memforest.integrations.claude_code", event, *place.options()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        if sent is not None:
            run.stdin.write(sent)
            run.stdin.close()
        code = run.wait()
        took = time.monotonic() - began
        return code, run.stdout.read(), run.stderr.read(), took


def failure(place: Place) -> str:
    """Return why a hook did nothing the last time."""
    return str(Notes(place, "last").read().get("why"))


def test_no_failure_is_seen_by_a_session(place: Place, transcript: Path) -> None:
    """Each ends with 0 and without a word, and says for `status` why."""
    asked = json.dumps(payload("prompt")).encode()
    for event, sent, why in (
        ("prompt", b"", "JSONDecodeError"),
        ("prompt", b"{", "JSONDecodeError"),
        ("stop", b"[]", "not a JSON object"),
        ("stop", b'"\xff"', "UnicodeDecodeError"),
        ("session-end", b"[" * 100_000, "Recursion"),
        ("pre-compact", b"{}", "no session_id"),
        (KEEP, json.dumps(payload("stop")).encode(), "no transcript"),
        ("prompt", asked, "does not answer: KeyError"),
    ):
        where = place if "KeyError" not in why else Place(place.directory, "ana", "nowhere")
        code, out, err, took = hook(where, event, sent)
        assert (code, out, err) == (0, b"", b""), event
        assert took < SLOW
        assert why in failure(place)


@pytest.mark.skipif(sys.platform == "win32", reason="the shell's way to close a stream")
def test_a_closed_output_is_no_failure(
    server: Callable[[str | None], Place], place: Place, transcript: Path
) -> None:
    """Nobody reads: neither an error nor an exit code tells of it; with a reader there is an answer."""
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    keep(SESSION, str(transcript), place)
    where = server("root")
    program = f"{PATIENT}claude_code.run(sys.argv[1], claude_code.Place.of(sys.argv[2:]))"
    command = shlex.join([sys.executable, "-c", program, "prompt", *where.options()])
    sent = json.dumps(payload("prompt")).encode()
    env = {**os.environ, "MEMFOREST_SERVER_KEY": "root"}
    for closed in (False, True):
        line_of = f"{command} >&-" if closed else command
        done = subprocess.run(["sh", "-c", line_of], input=sent, capture_output=True, check=False, env=env)
        assert (done.returncode, done.stderr) == (0, b"")
        assert ("Celsius" in done.stdout.decode()) is not closed


def test_what_never_answers_is_waited_for_in_vain_but_not_long(place: Place, transcript: Path) -> None:
    """A server that takes a request and says nothing, an input that does not end, a memory that is locked."""
    asked = json.dumps(payload("prompt")).encode()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        silent = Place(place.directory, "ana", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        code, out, err, took = hook(silent, "prompt", asked)
        assert (code, out, err) == (0, b"", b"")
        assert "does not answer: TimeoutError" in failure(place) or "too long" in failure(place)
        assert claude_code.SERVER_S <= took < SLOW
    code, out, err, took = hook(place, "prompt", None)
    assert (code, out, err) == (0, b"", b"")
    assert "too long" in failure(place)
    assert claude_code.LIMIT_S <= took < SLOW
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    keep(SESSION, str(transcript), place)
    with sqlite3.connect(place.directory / file_name("ana")) as other:
        other.execute("BEGIN EXCLUSIVE")
        code, _, err, took = hook(place, "prompt", asked)
        assert (code, err) == (0, b"")
        assert took < SLOW


def test_a_large_transcript_is_read_from_where_the_last_hook_ended(place: Place, transcript: Path) -> None:
    """Fifty million bytes of what tools gave: a hook does not read them, and what keeps does so once."""
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x" * 500_000}],
    }
    say(
        transcript,
        *(line("user", "", number, message=result) for number in range(100)),
        line("user", "It uses Celsius.", 100),
    )
    assert transcript.stat().st_size > 50_000_000
    keep(SESSION, str(transcript), place)
    assert texts(place) == [("ana", "It uses Celsius.")]
    say(transcript, line("user", "Now it uses Kelvin.", 101))
    changed = transcript.read_bytes().replace(b"It uses Celsius.", b"It uses Newtons.")
    transcript.write_bytes(changed)  # which nobody sees who does not read it again
    keep(SESSION, str(transcript), place)
    say(transcript, line("user", "And now Rankine.", 102))
    code, out, err, took = hook(place, "stop", json.dumps(payload("stop", transcript)).encode())
    assert (code, out, err) == (0, b"", b"")
    assert took < SLOW
    until = time.monotonic() + 60
    while Notes(place, SESSION).read()["offset"] < transcript.stat().st_size and time.monotonic() < until:
        time.sleep(0.1)
    assert texts(place)[1:] == [("ana", "Now it uses Kelvin."), ("ana", "And now Rankine.")]


def cli(*args: str, code: int = 0) -> str:
    """Run a command, and return its output."""
    done = CliRunner().invoke(main, args, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_the_plugin_comes_and_goes_and_nothing_else_does(place: Place, tmp_path: Path) -> None:
    """Its hooks run what they name; `status` says whose memory it is; other files in its folder stay as they were."""
    other = folder() / "hooks" / "mine.txt"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    settings = tmp_path / "claude" / "settings.json"
    settings.write_text('{"hooks":  {}}')
    before = {path: path.read_bytes() for path in (tmp_path / "claude").rglob("*") if path.is_file()}
    at = ("--dir", str(place.directory), "--user", "ana")
    assert "without a terminal" in cli("claude-code", "install", *at, code=2)
    assert not (folder() / ".mcp.json").exists()
    shown = cli("claude-code", "install", *at, "--server", NOBODY, "--yes")
    assert "+++ " in shown
    assert "UserPromptSubmit" in shown
    hooks = json.loads((folder() / "hooks" / "hooks.json").read_text())["hooks"]
    assert set(hooks) == set(EVENTS.values())
    for event, theirs in EVENTS.items():
        command = hooks[theirs][0]["hooks"][0]
        assert command["type"] == "command"
        assert shlex.split(command["command"])[3] == event
        assert Place.of(shlex.split(command["command"])[4:]) == place
    if find_spec("mcp") is not None:
        tools = json.loads((folder() / ".mcp.json").read_text())["mcpServers"]["memory"]
        assert tools["args"] == ["-m", "memforest", *at, "mcp"]
    assert json.loads((folder() / ".claude-plugin" / "plugin.json").read_text())["name"] == "memforest"
    assert "Nothing to change" in cli("claude-code", "install", *at, "--server", NOBODY, "--yes")
    state = json.loads(cli("claude-code", "status", "--json"))["data"]
    assert (state["installed"], state["user"]) == (True, "ana")
    cli("claude-code", "install", *at, "--no-mcp", "--yes")
    assert not (folder() / ".mcp.json").exists()
    cli("claude-code", "uninstall", "--yes")
    assert {path: path.read_bytes() for path in (tmp_path / "claude").rglob("*") if path.is_file()} == before
    other.unlink()
    other.parent.rmdir()
    cli("claude-code", "install", *at, "--yes")
    cli("claude-code", "uninstall", "--yes")
    assert not folder().exists()


def test_a_plugin_of_somebody_else_is_left_alone(place: Place) -> None:
    """Also where it has our name; and where nobody is named, nothing is written."""
    manifest = folder() / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"name": "memforest", "description": "Mine."}')
    at = ("--dir", str(place.directory), "--user", "ana", "--yes")
    for command in ("install", "uninstall"):
        more = at if command == "install" else ("--yes",)
        assert "another plugin" in cli("claude-code", command, *more, code=1)
    assert json.loads(manifest.read_text())["description"] == "Mine."
    manifest.unlink()
    assert "0 users have a memory" in cli(
        "claude-code", "install", "--dir", str(place.directory), "--yes", code=1
    )
    assert (
        "0 users"
        in json.loads(cli("claude-code", "status", "--dir", str(place.directory), "--json"))["data"][
            "problem"
        ]
    )
    assert not manifest.exists()


def test_the_command_hook_is_the_same(place: Place, transcript: Path) -> None:
    """`memforest hook prompt` answers as the plugin's command does."""
    say(transcript, line("user", "The kiln uses Celsius.", 1))
    keep(SESSION, str(transcript), place)
    program = f"{PATIENT}from memforest.cli import main; main()"
    command = [sys.executable, "-c", program, "hook", "prompt", *place.options()]
    done = subprocess.run(
        command,
        input=json.dumps(payload("prompt")).encode(),
        capture_output=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0
    assert "Celsius" in told(json.loads(done.stdout))
    assert "prompts" in cli("hook", "prompts", code=2)
