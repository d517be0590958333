"""`memforest doctor` and `maintain repair`: check the installation, its models and its memories, and repair memories."""

from __future__ import annotations

import asyncio
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from rich.text import Text

from memforest import __version__
from memforest.cli.call import Call, command, flag
from memforest.cli.screen import Screen, clean, counted
from memforest.config import Config
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ForeignStoreError, MemForestError, ModelError
from memforest.memory.blocking import MemForest
from memforest.models.catalog import ModelStatus, available, open_embedder, open_reranker, reranker_status
from memforest.models.openai import OpenAIChat, OpenAIEmbedder
from memforest.models.openai_client import RequestTarget
from memforest.ports import ChatRequest, Message
from memforest.protection import Key
from memforest.read.stored import Stats
from memforest.read.views import unknown_note
from memforest.reading.timestamps import zone_note
from memforest.store.connections import cipher_version, sqlite_abilities
from memforest.store.directory import is_own_name, memory_files, owner_of

Status = Literal["ok", "note", "broken"]

E = TypeVar("E", ChatEndpoint, EmbeddingEndpoint)

TRIAL_TIMEOUT_S = 30.0
"""Time limit of the one try: whoever runs `doctor` wants to know soon."""
TRIAL_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. ``"broken"`` stops work; ``"note"`` makes it worse."""

    name: str
    status: Status
    detail: str
    fix: str = ""


def chat_checks(config: Config, *, connect: bool) -> Iterator[Check]:
    """Check the chat models, with their steps and without keys; with `connect`, ask each for a word."""
    chat = config.chat
    if chat is None:
        yield Check("chat model", "ok", "none: every step is local")
    if not isinstance(chat, ChatEndpoint):
        return
    steps: dict[tuple[str | None, str], list[str]] = {}
    for step in config.chat_steps:
        own = chat.for_step(step)
        steps.setdefault((own.base_url, own.model), []).append(step)
    for done in steps.values():
        endpoint = chat.for_step(done[0])
        work = "every step" if len(steps) == 1 else ", ".join(done)
        ask = partial(_reply, endpoint, done[0]) if connect else None
        yield _answers("chat model", endpoint, "chat", ask, behind=f", for {work}")


def embedding_checks(config: Config, *, connect: bool) -> Iterator[Check]:
    """Check the embedding endpoint, if there is one; with `connect`, let it embed a word."""
    endpoint = config.embedder
    if isinstance(endpoint, EmbeddingEndpoint):
        ask = partial(_vector, endpoint) if connect else None
        yield _answers("new memories", endpoint, "embeddings", ask, before="take ")


def _answers(
    name: str,
    endpoint: ChatEndpoint | EmbeddingEndpoint,
    section: str,
    ask: Callable[[], Coroutine[Any, Any, str]] | None,
    *,
    before: str = "",
    behind: str = "",
) -> Check:
    """Check that an endpoint can be addressed and, if `ask` is given, that it answers."""
    try:
        detail = f"{before}{_described(endpoint, section)}{behind}"
        if ask is not None:
            detail += f"; {asyncio.run(ask())}"
    except ModelError as exc:
        return Check(name, "broken", f"{endpoint.model}{behind}", str(exc))
    return Check(name, "ok", detail)


def _described(endpoint: ChatEndpoint | EmbeddingEndpoint, section: str) -> str:
    target = RequestTarget.of(endpoint, section)
    key = "with a key" if endpoint.api_key else "without a key"
    if endpoint.base_url is None and not endpoint.api_key:
        key = "with the key of OPENAI_API_KEY"
    return f"{endpoint.model} at {target.address}, {key}"


async def _reply(endpoint: ChatEndpoint, step: str) -> str:
    chat = OpenAIChat(_once(endpoint))
    ask = ChatRequest(step, (Message("user", "Reply with the word: ready"),), max_tokens=TRIAL_TOKENS)
    started = time.perf_counter()
    try:
        await chat.complete(ask)
    finally:
        await chat.close()
    return f"it answers ({time.perf_counter() - started:.1f} s)"


async def _vector(endpoint: EmbeddingEndpoint) -> str:
    embedder = OpenAIEmbedder(_once(endpoint))
    started = time.perf_counter()
    try:
        await embedder.embed(["memory"])
    finally:
        await embedder.close()
    return f"it answers ({embedder.dimension} numbers a text, {time.perf_counter() - started:.1f} s)"


def _once(endpoint: E) -> E:
    """Return an endpoint that is tried once."""
    return replace(endpoint, max_retries=0, timeout_s=min(endpoint.timeout_s, TRIAL_TIMEOUT_S))


_STYLES: dict[Status, str] = {"ok": "green", "note": "yellow", "broken": "bold red"}
MIN_PYTHON = (3, 10)
REINSTALL = "pip install --force-reinstall onnxruntime"

MOST_PROBLEMS = 20
"""Most problems of one memory to name."""


@command()
@flag("--connect", help="Ask each configured endpoint for a word. Without it, nothing is contacted.")
def doctor(call: Call, connect: bool) -> None:
    """Check this installation and its memories.

    It checks Python, SQLite and the directory, and runs the embedders and the reranker. It lists the configured
    endpoints, and opens every memory. The exit code is 1 if something is broken.
    """
    config = call.config()
    remote = [*chat_checks(config, connect=connect), *embedding_checks(config, connect=connect)]
    taken = isinstance(config.embedder, EmbeddingEndpoint)
    checks = [
        *_program(config),
        *_directory(call.folder),
        *_embedders(trial=not taken),
        _reranker(config),
        *remote,
    ]
    # Which reranker is configured does not matter here, and one that is missing must not stop the look around.
    with call.forest(reranker="none") as forest:
        checks += _memories(forest, call.folder)
    _show(call, checks, "Everything you need works.")


@command()
def repair(call: Call) -> None:
    """Repair the memory of --user, or all memories. No turn is changed.

    It finishes unfinished sessions and summaries. Index rows, vectors and trees that `maintain verify` finds broken
    are made again from the turns. Free space is given back. It names damaged files and those of another program or a
    newer version, and leaves them alone. The exit code is 1 if something is still broken.
    """
    with call.forest(reranker="none") as forest:
        files = memory_files(call.folder) if call.folder.is_dir() else []
        _show(
            call, [one for path in files for one in _repaired(forest, path, call.user)], "Nothing is broken."
        )


def _show(call: Call, checks: list[Check], well: str) -> None:
    """Print checks; exit with 1 if something is broken."""
    broken = sum(check.status == "broken" for check in checks)
    verdict = f"{counted(broken, 'check')} failed." if broken else well
    data = {"checks": checks, "broken": broken}
    call.show(data, lambda screen: _draw(screen, checks, verdict, ok=not broken), ok=not broken)
    if broken:
        click.get_current_context().exit(1)


def _program(config: Config) -> Iterator[Check]:
    yield Check("memforest", "ok", __version__)
    right = sys.version_info >= MIN_PYTHON
    fix = "" if right else f"use Python {'.'.join(map(str, MIN_PYTHON))} or newer"
    yield Check("python", "ok" if right else "broken", platform.python_version(), fix)
    version, lacks = sqlite_abilities()
    fix = "use a Python with a newer SQLite" if lacks else ""
    has = f"lacks {', '.join(lacks)}" if lacks else "with FTS5 and STRICT tables"
    yield Check("sqlite", "broken" if lacks else "ok", f"{version} {has}", fix)
    # A key without SQLCipher does not come this far.
    encrypted = f"a key is configured; SQLCipher {cipher_version()}" if config.key else ""
    yield Check("encryption", "ok", encrypted or "none: no key is configured")


def _directory(folder: Path) -> Iterator[Check]:
    """Check that the directory, or its nearest existing parent, takes a new file."""
    place = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".memforest-doctor-"):
            pass
    except OSError as exc:
        fix = "choose another with --dir or MEMFOREST_DIR, or make it writable"
        yield Check("directory", "broken", f"{folder} cannot be written: {exc.strerror or exc}", fix)
        return
    begun = "" if place == folder else " (made by the first ingest)"
    yield Check("directory", "ok", f"{folder} can be written{begun}")


def _embedders(*, trial: bool) -> Iterator[Check]:
    """Check which embedding models are installed and whether the best one runs.

    Without a trial, new memories take another model.
    """
    statuses = available(verify=True)
    for status in statuses:
        state: Status = "ok" if status.installed else "note"
        yield Check("embedder", state, _installed(status), "" if status.installed else status.fix)
    if not trial:
        return
    best = next((status for status in statuses if status.installed), None)
    if best is None:
        detail = "none: new memories search by words only, and find less"
        yield Check("new memories", "note", detail, statuses[-1].fix)
        return
    try:
        rows = asyncio.run(open_embedder(best.model_id).embed(["memory"]))
    except MemForestError as exc:  # a wheel of the runtime may be there and not work
        yield Check("new memories", "broken", f"{best.model_id} does not run: {exc}", REINSTALL)
    else:
        yield Check("new memories", "ok", f"take {best.model_id} ({rows.shape[1]} numbers a text); it runs")


def _reranker(config: Config) -> Check:
    """Check whether the local reranker is installed and runs. It is optional."""
    status = reranker_status(verify=True)
    if not status.installed:
        asked = config.reranker == "local"
        return Check("reranker", "broken" if asked else "note", _installed(status), status.fix)
    try:
        asyncio.run(open_reranker(status.model_id).score("memory?", ["memory"]))
    except MemForestError as exc:
        return Check("reranker", "broken", f"{status.model_id} does not run: {exc}", REINSTALL)
    return Check("reranker", "ok", f"{_installed(status)}; it runs")


def _installed(status: ModelStatus) -> str:
    """Describe whether a model is installed and whole."""
    if status.installed:
        return f"{status.name}: installed, checksum right, licence {status.licence}"
    return f"{status.name}: {'damaged' if status.path else 'not installed'}"


def _memories(forest: MemForest, folder: Path) -> Iterator[Check]:
    """Check every memory of the directory."""
    files = memory_files(folder) if folder.is_dir() else []
    if not files:
        yield Check("memories", "ok", "none yet", "memforest ingest FILE, or memforest demo to see one")
    for path in files:
        yield from _memory(forest, path)


def _repaired(forest: MemForest, path: Path, only: str | None) -> Iterator[Check]:
    """Repair one memory, and report what was repaired and what was not."""
    try:
        user = owner_of(path, Key.of(forest.config.key))
        if user is None or only not in (None, user):
            return
        report = forest.user(user).repair()
    except MemForestError as exc:
        foreign = isinstance(exc, ForeignStoreError)
        yield Check("repair", "note" if foreign else "broken", f"{path.name}: not touched", str(exc))
        return
    if report.did:
        yield Check("repair", "ok", f"{user}: {'; '.join(report.did)}")
    for problem in report.left[:MOST_PROBLEMS]:
        fix = "restore this file from a backup, or ingest its sessions into a new directory"
        yield Check("repair", "broken", f"{user}: not repaired: {problem.part}: {problem.message}", fix)


def _memory(forest: MemForest, path: Path) -> Iterator[Check]:
    """Check that one memory opens, what is left to do in it, and whether its time zone is the configured one."""
    try:
        user = owner_of(path, Key.of(forest.config.key))
        if user is None:
            fix = "delete it" if is_own_name(path.name) else "not a file of memforest: move it elsewhere"
            yield Check("memory", "note", f"{path.name} is an empty file", fix)
            return
        forest.load(user)
        found = forest.user(user).stats()
    except MemForestError as exc:
        yield Check("memory", "broken", f"{path.name}: {exc}")
        return
    yield _state(user, found)
    if note := zone_note(found.timezone, forest.config.timezone):
        yield Check("time zone", "note", f"{user}: {note}")
    if note := unknown_note(found.known, found.embedder or ""):
        yield Check("embedder", "note", f"{user}: {note}")
    for note in found.stale:
        yield Check(
            "stale", "note", f"{user}: {note}", "memforest maintain rebuild --dry-run counts what is stale"
        )


def _state(user: str, found: Stats) -> Check:
    detail = (
        f"{user}: {counted(found.sessions, 'session')}, {counted(found.facts, 'fact')}, "
        f"{found.embedder or 'words only'}, indexes {', '.join(found.indexes)}"
    )
    if found.failed_chunks or found.unfinished:  # summaries that are out of date are made when they are read
        left = f"{found.failed_chunks} chunks failed"
        unread = f", {counted(found.unfinished, 'session')} unread" if found.unfinished else ""
        return Check("memory", "note", f"{detail}; {left}{unread}", "memforest maintain resume")
    return Check("memory", "ok", detail)


def _draw(screen: Screen, checks: list[Check], verdict: str, *, ok: bool) -> None:
    def detail(check: Check) -> Text:
        found = Text(clean(check.detail))
        if check.fix:
            found.append(f"\n{clean(check.fix)}", style="dim" if check.status == "ok" else "bold")
        return found

    rows = ((Text(check.status, style=_STYLES[check.status]), check.name, detail(check)) for check in checks)
    screen.table(("", "", ""), rows)
    screen.line(verdict, "green" if ok else "bold red")
