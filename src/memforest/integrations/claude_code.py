"""The hooks of Claude Code: what its sessions are told of a memory, and what is kept of them.

Claude Code runs a command at points of a session, gives it JSON on standard input, and reads JSON from its output
(https://code.claude.com/docs/en/hooks). `answer` does what one of them asks for:

    session-start                     recalls what is known of the project; marks when this context began
    prompt                            recalls what is known of what the user asks
    pre-compact, stop, session-end    start a process of its own that keeps the new turns of the transcript

Whatever happens, a hook says nothing and ends with the exit code 0: after `LIMIT_S` at the latest. Keeping is no part of
that time, and goes on without the session; Claude Code gives a session's end 1.5 seconds.

A running server is used where there is one, as a process that first loads a memory takes a second. What is recalled stands between
the marks of `memforest.integrations.marks`; the transcript is read without them, and without tools, so that nothing comes back as
something said. A question is answered from what had been said when its context began: the rest is before the model's eyes.

What has been read is remembered in a small file for each session, in ``claude-code`` in the directory of the memories: an offset
and times, no text. Reading the same once more changes nothing, as each turn has its id from the transcript.

Imports little, so that it starts at once: ``python -m memforest.integrations.claude_code EVENT`` is what hooks run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from memforest.errors import MemForestError

if TYPE_CHECKING:
    from memforest.integrations.adapter import Bridge

T = TypeVar("T")

EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
    "session-end": "SessionEnd",
}
"""What a hook is called here -> its event in Claude Code."""
KEEP = "keep"
"""What the process is called that a hook starts to keep turns."""
LIMIT_S = 1.8
"""Seconds until a hook gives up; starting Python takes part of the 2 that it may take."""
SERVER_S = 1.4
"""Seconds that a server has for an answer."""
KEEP_S = 600.0
"""Seconds that keeping may take, outside of the session."""
ROUND_BYTES = 1 << 20
"""How much of a transcript is kept at once; a process that is ended goes on from there next time."""
RECALL_TOKENS = 1200
"""Most tokens of what is recalled; Claude Code takes 10,000 characters of a hook."""
MOST_ASKED = 2000
"""Most characters of a prompt that are searched for."""
DEFAULT_SERVER = "http://127.0.0.1:8420"
_OLD_S = 90 * 86_400


class HookError(MemForestError):
    """Why a hook did nothing; `memforest claude-code status` tells it."""


@dataclass(frozen=True)
class Place:
    """Where a hook finds the memory.

    Args:
        directory: that of the memories.
        user: whose memory; None for the only one there is.
        server: the address of `memforest serve`.
        key: its key.
        config: a file of settings, for where no server runs.
    """

    directory: Path
    user: str | None = None
    server: str = DEFAULT_SERVER
    key: str | None = None
    config: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether the server would be one of this machine."""
        return urlsplit(self.server).hostname in ("127.0.0.1", "localhost", "::1")

    @classmethod
    def of(cls, options: Sequence[str]) -> Place:
        """Return the place that the options of `options` name; the environment has the key."""
        given = dict(zip(options[::2], options[1::2], strict=True))
        server, key = given.get("--server", DEFAULT_SERVER), os.environ.get("MEMFOREST_SERVER_KEY")
        return cls(Path(given["--dir"]), given.get("--user"), server, key, given.get("--config"))

    def options(self) -> list[str]:
        """Return the options that name this place; the key is no part of them."""
        given = {"dir": str(self.directory.absolute()), "user": self.user, "config": self.config}
        given["server"] = None if self.server == DEFAULT_SERVER else self.server
        return [part for name, one in given.items() if one is not None for part in (f"--{name}", one)]

    def whose(self) -> str:
        """Return the user.

        Raises:
            HookError: if none is named and there is not just one.
        """
        if self.user is not None:
            return self.user
        from memforest.config import load_default_config
        from memforest.protection import Key
        from memforest.store.directory import survey

        known = survey(self.directory, Key.of(load_default_config(file=self.config).key)).users
        if len(known) != 1:
            raise HookError(f"{len(known)} users have a memory here: choose one with --user")
        return known[0]

    def ask(self, user: str, what: str = "", body: Any = None, seconds: float = 0.0) -> Any:
        """Return what the server answers; None where this machine has none that knows the user, and the memory is opened here.

        Args:
            user: whose memory.
            what: a path below that of the user.
            body: is sent as JSON by POST; without one it is a GET.
            seconds: how long it may take; `SERVER_S` for 0.

        Raises:
            HookError: if it does not answer, or refuses.
        """
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        try:
            at = urlsplit(self.server)
            kind = {"http": HTTPConnection, "https": HTTPSConnection}[at.scheme]
            with closing(kind(str(at.hostname), at.port, timeout=seconds or SERVER_S)) as made:
                made.request(
                    method, f"{at.path.rstrip('/')}/v1/users/{quote(user, safe='')}{what}", sent, headers
                )
                got = made.getresponse()
                status, read = got.status, got.read()
            if status < 300:
                return json.loads(read)
        except ConnectionRefusedError:
            status = 404
        except (OSError, HTTPException, ValueError, KeyError) as exc:
            raise HookError(f"the server {self.server!r} does not answer: {exc!r}") from exc
        if status == 404 and self.is_here:
            return None
        raise HookError(f"the server {self.server!r} answered {status}, or does not run")


class Notes:
    """What is remembered of one session, or with "last" of the last failure: a small JSON object in a file."""

    def __init__(self, place: Place, session: str) -> None:
        self.file = place.directory / "claude-code" / f"{quote(session, safe='')[:100]}.json"

    def read(self) -> dict[str, Any]:
        """Return it; nothing where there is none, or it is damaged."""
        with suppress(OSError, ValueError, TypeError):
            return dict(json.loads(self.file.read_bytes()))
        return {}

    def write(self, **what: Any) -> None:
        """Change some of it, and delete the notes of sessions that nobody has gone on with for 90 days.

        Raises:
            OSError: if it cannot be written.
        """
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = self.file.with_suffix(f".{os.getpid()}")
        made.write_text(json.dumps({**self.read(), **what}))
        made.replace(self.file)
        for one in self.file.parent.iterdir():
            if one.stat().st_mtime < _now().timestamp() - _OLD_S:
                one.unlink(missing_ok=True)


def answer(event: str, payload: Mapping[str, Any], place: Place) -> dict[str, Any] | None:
    """Do what a hook asks for, and return its answer; None for none.

    Args:
        event: one of `EVENTS`, or `KEEP`.
        payload: what Claude Code sends.
        place: where the memory is.

    Raises:
        HookError: if it cannot be done.
        MemForestError: if the memory fails.
    """
    session, asked = str(payload.get("session_id") or ""), ""
    if not session:
        raise HookError("the input has no session_id")
    notes = Notes(place, session)
    if event == KEEP:
        keep(session, payload.get("transcript_path"), place)
    elif event == "session-start":
        notes.write(since=_now().isoformat())
        project = Path(str(payload.get("cwd") or "")).name
        asked = f"What was decided, preferred, planned or left to do in {project}?"
    elif event == "prompt":
        asked = str(payload.get("prompt") or "").strip()[:MOST_ASKED]
    else:
        place.whose()
        _start(payload, place)
    if not asked or asked.startswith("/") or not (told := recall(asked, place, notes.read().get("since"))):
        return None
    own = {"hookEventName": EVENTS[event], "additionalContext": told}
    return {"hookSpecificOutput": own, "suppressOutput": True}


def recall(asked: str, place: Place, said_by: str | None) -> str:
    """Return what the memory has for a question, marked; "" for nothing.

    Args:
        asked: the question.
        place: where the memory is.
        said_by: only what had been said by that time.

    Raises:
        HookError: as `Place.ask`.
        MemForestError: if the memory fails.
    """
    from memforest.integrations.marks import marked, unmarked

    if not (asked := unmarked(asked)):
        return ""
    user, how = place.whose(), {"max_tokens": RECALL_TOKENS} | ({"said_by": said_by} if said_by else {})
    got = place.ask(user, "/context", {"question": asked, **how})
    if got is not None:
        return marked(str(got["context"])) if isinstance(got, dict) and got.get("context") else ""
    return _here(place, lambda bridge: bridge.recall(user, asked, **how))


def _here(place: Place, do: Callable[[Bridge], Coroutine[Any, Any, T]]) -> T:
    """Return what is done with the memories of the directory, in this process; without the reranker, for which there is no time."""
    import asyncio

    from memforest.config import load_default_config
    from memforest.integrations.adapter import Bridge
    from memforest.memory.forest import AsyncMemForest

    config = load_default_config(file=place.config, reranker=None)

    async def work() -> T:
        async with AsyncMemForest(place.directory, config) as forest:
            return await do(Bridge(forest, strict=True))

    return asyncio.run(work())


def _start(payload: Mapping[str, Any], place: Place) -> None:
    """Start the process that keeps the turns; it is in a session of its own, as Claude Code ends what it started."""
    import subprocess

    line = [sys.executable, "-m", "memforest.integrations.claude_code", KEEP, *place.options()]
    sent = json.dumps({name: payload.get(name) for name in ("session_id", "transcript_path")})
    made = subprocess.Popen(  # noqa: S603  # our own command
        line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
    )  # fmt: skip
    assert made.stdin is not None
    with made.stdin as pipe:
        pipe.write(sent.encode())


def config_folder() -> Path:
    """Return where Claude Code has its settings and transcripts."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()


def keep(session: str, transcript: object, place: Place) -> None:
    """Keep the turns of a transcript that are new, as they were said: of the user and of the assistant, not of tools.

    Args:
        session: the id of Claude Code's session.
        transcript: its path, which must be below `config_folder`: hooks are told it, and read nothing else for anybody.
        place: where the memory is.

    Raises:
        HookError: if it is no transcript, or the server fails.
        MemForestError: if the memory fails.
        OSError: if it cannot be read.
    """
    path, user = Path(str(transcript or "")).expanduser().resolve(), place.whose()
    if not path.is_relative_to(config_folder().resolve()) or path.suffix != ".jsonl" or not path.is_file():
        raise HookError(f"there is no transcript {str(transcript)[:200]!r} in {config_folder()}")
    notes = Notes(place, session)
    for behind, turns in _rounds(path, notes.read().get("offset", 0)):
        _add(turns, session, user, place)
        notes.write(offset=behind)


def _rounds(path: Path, behind: int) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield the new turns of a transcript, and the offset behind them: of whole lines, as the last may be in writing."""
    import io

    from memforest.importers.assistants import LAYOUTS
    from memforest.importers.files import FileReader, ReadOptions, SourceFile

    with path.open("rb") as file:
        behind = file.seek(behind if behind <= path.stat().st_size else 0)
        while lines := b"".join(one for one in file.readlines(ROUND_BYTES) if one.endswith(b"\n")):
            source = SourceFile(path.name, partial(io.BytesIO, lines), is_named=True)
            found = LAYOUTS["claude-code"].read(FileReader(source, ReadOptions(), shape="lines"))
            behind += len(lines)
            turns = (one for part in found for one in part.turns)
            yield behind, [one for one in turns if one.get("role") in ("user", "assistant")]


def _add(turns: list[Mapping[str, Any]], session: str, user: str, place: Place) -> None:
    """Add turns to a session, by the server where one runs."""
    from memforest.integrations.adapter import read_messages

    if not (told := read_messages(turns)):
        return
    if place.ask(user) is None:
        _here(place, lambda bridge: bridge.remember(user, session, turns))
    else:
        place.ask(user, "/messages", {"content": told, "session_id": session}, KEEP_S)


def run(event: str, place: Place) -> None:
    """Answer a hook on standard input and output, and end the process: with 0, in time, and silent if anything fails."""
    limit = KEEP_S if event == KEEP else LIMIT_S
    late = (place, event, "it took too long; a running `memforest serve` answers at once")
    for timer in (threading.Timer(limit - 0.1, _failed, late), threading.Timer(limit, os._exit, (0,))):
        timer.daemon = True
        timer.start()
    try:
        payload = json.loads(sys.stdin.buffer.read())
        if not isinstance(payload, dict):
            raise HookError("the input is not a JSON object")
        if told := answer(event, payload, place):
            os.write(sys.stdout.fileno(), (json.dumps(told) + "\n").encode())
    finally:  # without a word: nothing but an exit code of 0 lets every session go on
        if (exc := sys.exc_info()[1]) is not None:
            _failed(place, event, f"{type(exc).__name__}: {exc}")
        os._exit(0)


def _failed(place: Place, event: str, why: str) -> None:
    with suppress(OSError):
        Notes(place, "last").write(event=event, why=why[:500], when=_now().isoformat())


def _now() -> datetime:
    return datetime.now(timezone.utc)  # noqa: TID251  # the injected clock is of a module that takes a tenth of a second to import


if __name__ == "__main__":
    run(sys.argv[1], Place.of(sys.argv[2:]))
