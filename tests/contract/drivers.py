"""One driver a surface: the same small verbs, spoken to Python, the command line, REST and MCP.

Every name that a user types stands here and nowhere else in these tests: methods, commands and options, routes, tools.
What comes back is plain: dicts and lists with the same keys on each surface, times in UTC, sources as
``[session, [turns]]``. What a surface refuses is a `Refused`, with the name of the error where the surface says it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

from memforest.errors import MemForestError
from memforest.testing import HashEmbedder

__all__ = [
    "COMMANDS",
    "EMBEDDER",
    "LAUNCH",
    "MCP_PATH",
    "OTHER_COMMANDS",
    "OTHER_ROUTES",
    "PROMPTS",
    "RESOURCES",
    "ROUTES",
    "SERVE",
    "TOOLS",
    "USER_ROUTE",
    "AsyncSurface",
    "Call",
    "CliSurface",
    "McpSurface",
    "PythonSurface",
    "Ran",
    "Refused",
    "RestSurface",
    "Surface",
    "route",
    "run_command",
    "words",
]

EMBEDDER = HashEmbedder(64)
"""The embedder of all surfaces; the command line and the server are given its name."""
LAUNCH = (
    sys.executable,
    "-c",
    "from importlib.metadata import entry_points as e\n"
    "[main] = e(group='console_scripts', name='memforest')\nmain.load()()",
)
"""How a real process of the program is started."""
SERVE = ("serve", "--json", "--port", "0", "--rate", "none", "--tenant-rate", "none")


class Refused(Exception):
    """A surface did not do what it was asked for.

    Attributes:
        kind: name of the error; empty on a surface that says it in words alone.
        code: exit code or HTTP status; None where there is none.
        message: what the surface says.
    """

    def __init__(self, kind: str, code: int | None, message: str) -> None:
        super().__init__(f"{kind} ({code}): {message}")
        self.kind, self.code, self.message = kind, code, message


@dataclass(frozen=True)
class Call:
    """By what name a surface has a verb, and which arguments it takes there (``ours=theirs`` where they differ)."""

    name: str
    takes: str = ""

    @property
    def names(self) -> dict[str, str]:
        """Our name of each argument -> the surface's."""
        pairs = (one.partition("=") for one in self.takes.split())
        return {ours: theirs or ours for ours, _, theirs in pairs}


_ASKED = "as_of during said_by known_at reference_date top_k max_tokens"
_PAGE = "limit cursor"
_REMEMBERED = "statement about attribute value since until replaces"
METHODS = {
    "add": Call("add", "content session_id timestamp metadata idempotency_key"),
    "search": Call("search", f"question {_ASKED} filters"),
    "ask": Call("ask", f"question {_ASKED}"),
    "context": Call("search", f"question {_ASKED}"),
    "timeline": Call("timeline", f"entity attribute kind said_by known_at {_PAGE}"),
    "list_facts": Call("list", f"entity session_id as_of during said_by known_at filters {_PAGE}"),
    "get": Call("get", "fact_id"),
    "sessions": Call("sessions", _PAGE),
    "turns": Call("turns", f"session_id {_PAGE}"),
    "remember": Call("remember", _REMEMBERED),
    "update": Call("update", "fact_id text valid_from valid_to"),
    "forget": Call("forget", "fact_id"),
    "pin": Call("pin", "fact_id"),
    "undo": Call("undo", "key"),
    "history": Call("history", "fact_id"),
    "delete_turn": Call("delete", "session_id turn_id"),
    "delete_session": Call("delete", "session_id"),
    "delete_fact": Call("delete", "fact_id"),
    "delete_entity": Call("delete", "entity"),
    "delete_user": Call("delete_all"),
    "changes": Call("changes", "since until limit after"),
    "diff": Call("diff", "a b entity said_by known_at"),
    "entities": Call("entities", f"kind query {_PAGE}"),
    "relations": Call("relations", "entity as_of"),
    "profile": Call("profile", "participant as_of said_by"),
    "export": Call("export", "target"),
    "import_": Call("import_", "source"),
    "import_file": Call("import_file", "file"),
    "backup": Call("backup", "target"),
    "verify": Call("verify"),
    "stats": Call("stats"),
}
_OPTIONS = "as_of=--as-of during=--during said_by=--said-by known_at=--known-at"
_QUESTION = f"question {_OPTIONS} reference_date=--reference-date top_k=--top-k max_tokens=--max-tokens"
_PAGES = "limit=--limit cursor=--cursor"
COMMANDS = {
    "add": Call("ingest", "file content metadata session_id=--session timestamp=--timestamp"),
    "search": Call("search", f"{_QUESTION} filters=--filter"),
    "ask": Call("ask", _QUESTION),
    "timeline": Call(
        "timeline", "entity attribute=--attribute kind=--kind said_by=--said-by known_at=--known-at"
    ),
    "list_facts": Call("facts", f"{_OPTIONS} {_PAGES} entity=--entity session_id=--session filters=--filter"),
    "sessions": Call("sessions", _PAGES),
    "turns": Call("sessions", f"session_id {_PAGES}"),
    "remember": Call(
        "remember", " ".join(f"{one}=--{one}" for one in _REMEMBERED.split()).replace("=--statement", "")
    ),
    "update": Call("update", "fact_id text valid_from=--from valid_to=--to"),
    "forget": Call("forget", "fact_id"),
    "pin": Call("pin", "fact_id"),
    "undo": Call("undo", "key"),
    "history": Call("history", "fact_id"),
    "delete_turn": Call("delete --yes --turn", "session_id turn_id"),
    "delete_session": Call("delete --yes", "session_id=--session"),
    "delete_fact": Call("delete --yes", "fact_id=--fact"),
    "delete_entity": Call("delete --yes", "entity=--entity"),
    "delete_user": Call("delete --yes --all"),
    "changes": Call("diff --stored", "since until limit=--limit after=--after"),
    "diff": Call("diff", "a b entity=--entity said_by=--said-by known_at=--known-at"),
    "entities": Call("entities", f"kind=--kind query=--query {_PAGES}"),
    "relations": Call("relations", "entity as_of=--as-of"),
    "profile": Call("profile", "participant as_of=--as-of said_by=--said-by"),
    "export": Call("export", "target"),
    "import_": Call("import", "source"),
    "import_file": Call("ingest", "file"),
    "backup": Call("backup", "target"),
    "verify": Call("maintain verify"),
    "stats": Call("stats"),
}
OTHER_COMMANDS = {
    name: name
    for name in (
        *(
            "delete",
            "demo",
            "users",
            "tree",
            "restore",
            "merge",
            "serve",
            "inspect",
            "mcp",
            "doctor",
        ),
        *("entities merge", "entities split", "index", "index list", "index add", "index drop"),
        *("key", "key set", "key remove", "key change", "keys", "keys create", "keys list", "keys revoke"),
        *("maintain", "maintain resume", "maintain rebuild", "maintain repair", "maintain advance"),
    )
}
"""Commands that are none of the verbs above: what these tests call them -> what is typed."""
USER_ROUTE = "/v1/users/{user_id}"
ROUTES = {
    "add": Call("POST /messages", "content session_id timestamp metadata idempotency_key"),
    "search": Call("POST /search", f"question {_ASKED} filters"),
    "ask": Call("POST /ask", f"question {_ASKED}"),
    "context": Call("POST /context", f"question {_ASKED}"),
    "timeline": Call("GET /timeline/{entity}", f"entity attribute kind said_by known_at {_PAGE}"),
    "list_facts": Call("GET /facts", f"entity session_id as_of during said_by known_at filters {_PAGE}"),
    "get": Call("GET /facts/{fact_id}", "fact_id"),
    "sessions": Call("GET /sessions", _PAGE),
    "turns": Call("GET /sessions/{session_id}", f"session_id {_PAGE}"),
    "remember": Call("POST /facts", _REMEMBERED),
    "update": Call("PATCH /facts/{fact_id}", "fact_id text valid_from valid_to"),
    "forget": Call("POST /facts/{fact_id}/forget", "fact_id"),
    "pin": Call("POST /facts/{fact_id}/pin", "fact_id"),
    "undo": Call("POST /corrections/{key}/undo", "key"),
    "history": Call("GET /facts/{fact_id}/history", "fact_id"),
    "delete_turn": Call("DELETE /sessions/{session_id}/turns/{turn_id}", "session_id turn_id"),
    "delete_session": Call("DELETE /sessions/{session_id}", "session_id"),
    "delete_fact": Call("DELETE /facts/{fact_id}", "fact_id"),
    "delete_entity": Call("POST /delete", "entity"),
    "delete_user": Call("DELETE "),
    "changes": Call("GET /changes", "since until limit after"),
    "diff": Call("GET /diff", "a b entity said_by known_at"),
    "entities": Call("GET /entities", f"kind query {_PAGE}"),
    "relations": Call("GET /relations/{entity}", "entity as_of"),
    "profile": Call("POST /profile", "participant as_of said_by"),
    "export": Call("GET /export", "target"),
    "import_": Call("POST /import", "source"),
    "verify": Call("POST /verify"),
    "stats": Call("GET /stats"),
}
OTHER_ROUTES = {
    "users": "/v1/users",
    "user": "/v1/users/{user_id}",
    "session": "/v1/users/{user_id}/sessions/{session_id}",
    "resume": "/v1/users/{user_id}/resume",
    "ingest": "/v1/ingest",
    "jobs": "/v1/jobs",
    "job": "/v1/jobs/{job_id}",
    "watch": "/v1/jobs/{job_id}/events",
    "cancel": "/v1/jobs/{job_id}/cancel",
    "alive": "/livez",
    "ready": "/readyz",
    "numbers": "/metrics",
    "document": "/openapi.json",
}
"""Routes that are none of the verbs above."""
TOOLS = {
    "add": Call("add_memory", "content messages session_id timestamp idempotency_key"),
    "search": Call("search_memory", "question=query as_of during top_k max_tokens filters"),
    "ask": Call("ask_memory", "question as_of reference_date"),
    "timeline": Call("get_timeline", f"entity attribute {_PAGE}"),
    "list_facts": Call("list_facts", f"entity session_id as_of filters {_PAGE}"),
    "get": Call("get_fact", "fact_id"),
    "sessions": Call("list_sessions", _PAGE),
    "remember": Call("remember", _REMEMBERED),
    "update": Call("correct_memory", "fact_id text valid_from valid_to"),
    "forget": Call("forget_memory", "fact_id"),
    "undo": Call("correct_memory", "key=undo"),
    "history": Call("get_fact", "fact_id"),
    "delete_turn": Call("forget_memory", "session_id turn_id"),
    "delete_session": Call("forget_memory", "session_id"),
    "stats": Call("memory_stats"),
}
RESOURCES = {
    "profile": "memory://{user}/profile",
    "timeline": "memory://{user}/timeline/{entity}",
    "turns": "memory://{user}/sessions/{session_id}",
}
"""What a client can read without a tool."""
PROMPTS = {"ask": ("recall", "question"), "changes": ("what_changed", "since")}
"""Prompts: what they are about -> name and argument."""
MCP_PATH = "/mcp"


def words(name: str, *more: str) -> tuple[str, ...]:
    """Return the words of a command, by its verb or what these tests call it, and what is typed behind it."""
    typed = COMMANDS[name].name if name in COMMANDS else OTHER_COMMANDS[name]
    return (*typed.split(), *more)


def route(name: str, user: str = "", **parts: str) -> str:
    """Return the address of a verb, or of what these tests call so, below the server's."""
    path = OTHER_ROUTES.get(name) or f"{USER_ROUTE}{ROUTES[name].name.partition(' ')[2]}"
    return path.format(
        user_id=quote(user, safe=""), **{key: quote(one, safe="") for key, one in parts.items()}
    )


class Surface:
    """One way to a memory. Each verb returns plain values, the same on every surface that has it.

    Attributes:
        name: what the surface is called.
        directory: where its memories are.
        calls: the verbs that it has, and by what name.
    """

    name = ""
    calls: Mapping[str, Call] = {}

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def offers(cls, verb: str, *options: str) -> bool:
        """Return whether the surface has a verb, with these options."""
        return verb in cls.calls and all(one in cls.calls[verb].names for one in options)

    def refusal(self, kind: str, *, usage: bool = False) -> tuple[str, int | None]:
        """Return what the surface says of an error: its name there, and its code.

        Args:
            kind: name of the error in Python.
            usage: whether a command line can tell it without looking into the memory.
        """
        raise NotImplementedError

    def _do(self, verb: str, user: str, args: Mapping[str, Any]) -> Any:
        """Ask the surface for a verb, and return what it says as JSON would have it."""
        raise NotImplementedError

    def _ask(self, verb: str, user: str, **args: Any) -> Any:
        given = {key: value for key, value in args.items() if value is not None}
        return self._do(verb, user, given)

    def add(self, user: str, session_id: str, content: Any, **options: Any) -> dict[str, Any]:
        """Store what was said in a session."""
        raw = self._ask("add", user, session_id=session_id, content=content, **options)
        return _kept(raw, "session_id turns_added replayed warnings refused")

    def search(self, user: str, question: str, **options: Any) -> dict[str, Any]:
        """Find evidence."""
        raw = self._ask("search", user, question=question, **options)
        return {"evidence": _plain_all(raw["evidence"], _EVIDENCE), "warnings": raw["warnings"]}

    def ask(self, user: str, question: str, **options: Any) -> dict[str, Any]:
        """Answer, or abstain."""
        raw = self._ask("ask", user, question=question, **options)
        cited = raw["citations"] if "citations" in raw else raw["evidence"]
        reason = raw.get("reason") or ""
        return {
            "answer": raw.get("answer"),
            "reason": reason,
            "citations": _plain_all(cited, "text speaker said sources"),
        }

    def context(self, user: str, question: str, **options: Any) -> str:
        """Return evidence as a text for a prompt."""
        raw = self._ask("context", user, question=question, **options)
        return str(raw["context"] if isinstance(raw, dict) else raw)

    def timeline(self, user: str, entity: str, **options: Any) -> dict[str, Any]:
        """Return what is known of an entity in time order."""
        raw = self._ask("timeline", user, entity=entity, **options)
        return _page(raw, "entries", "kind text attribute value start end sources")

    def list_facts(self, user: str, **options: Any) -> dict[str, Any]:
        """Return a page of facts."""
        return _page(self._ask("list_facts", user, **options), "facts", _FACT)

    def get(self, user: str, fact_id: str) -> dict[str, Any]:
        """Return one fact."""
        raw = self._ask("get", user, fact_id=fact_id)
        return _plain(raw.get("fact", raw), _FACT)

    def sessions(self, user: str, **options: Any) -> dict[str, Any]:
        """Return a page of sessions."""
        return _page(
            self._ask("sessions", user, **options), "sessions", "session_id turns start end participants"
        )

    def turns(self, user: str, session_id: str, **options: Any) -> dict[str, Any]:
        """Return a page of the turns of a session."""
        raw = self._ask("turns", user, session_id=session_id, **options)
        return _page(raw, "turns", "id speaker role text said metadata")

    def remember(self, user: str, statement: str, **options: Any) -> dict[str, Any]:
        """Write down what is so."""
        raw = self._ask("remember", user, statement=statement, **options)
        return {"key": raw.get("key") or raw["undo_key"], "fact_id": raw.get("new_fact_id") or raw["fact_id"]}

    def update(self, user: str, fact_id: str, text: str | None = None, **times: Any) -> dict[str, Any]:
        """Correct a fact."""
        return _corrected(self._ask("update", user, fact_id=fact_id, text=text, **times))

    def forget(self, user: str, fact_id: str) -> dict[str, Any]:
        """Hide a fact."""
        return _corrected(self._ask("forget", user, fact_id=fact_id))

    def pin(self, user: str, fact_id: str) -> dict[str, Any]:
        """Pin a fact."""
        return _corrected(self._ask("pin", user, fact_id=fact_id))

    def undo(self, user: str, key: str) -> dict[str, Any]:
        """Take a correction back."""
        return _corrected(self._ask("undo", user, key=key))

    def history(self, user: str, fact_id: str) -> list[dict[str, Any]]:
        """Return what happened to a fact."""
        return _items(self._ask("history", user, fact_id=fact_id), "history", "kind text key")

    def delete_turn(self, user: str, session_id: str, turn_id: str) -> dict[str, int]:
        """Delete one turn."""
        return _gone(self._ask("delete_turn", user, session_id=session_id, turn_id=turn_id))

    def delete_session(self, user: str, session_id: str) -> dict[str, int]:
        """Delete a session."""
        return _gone(self._ask("delete_session", user, session_id=session_id))

    def delete_fact(self, user: str, fact_id: str) -> dict[str, int]:
        """Delete a fact with the sentences that it was made from."""
        return _gone(self._ask("delete_fact", user, fact_id=fact_id))

    def delete_entity(self, user: str, entity: str) -> dict[str, int]:
        """Delete what was said of somebody or something."""
        return _gone(self._ask("delete_entity", user, entity=entity))

    def delete_user(self, user: str) -> dict[str, int]:
        """Delete a whole memory."""
        return _gone(self._ask("delete_user", user))

    def changes(self, user: str, since: str, **options: Any) -> dict[str, Any]:
        """Return what the memory has stored, learnt and deleted."""
        raw = self._ask("changes", user, since=since, **options)
        return _page(raw, "changes", "kind at text session_id fact_id superseded")

    def diff(self, user: str, a: str, b: str, **options: Any) -> list[dict[str, Any]]:
        """Return what was so at one time and not at the other."""
        raw = self._ask("diff", user, a=a, b=b, **options)
        return _items(raw, "entries", "entity attribute change before after at")

    def entities(self, user: str, **options: Any) -> dict[str, Any]:
        """Return whom and what statements name."""
        return _page(self._ask("entities", user, **options), "entities", "name kind supports names")

    def relations(self, user: str, entity: str, **options: Any) -> list[dict[str, Any]]:
        """Return what relates an entity and others."""
        raw = self._ask("relations", user, entity=entity, **options)
        return _items(raw, "relations", "source label target sources")

    def profile(self, user: str, participant: str | None = None, **options: Any) -> list[dict[str, Any]]:
        """Return what is known of who takes part, a section each."""
        raw = self._ask("profile", user, participant=participant, **options)
        return [
            {"participant": one["participant"], "lines": _plain_all(one["lines"], "text kind sources")}
            for one in raw["sections"]
        ]

    def export(self, user: str) -> bytes:
        """Return everything that the memory holds, as a file."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "export.jsonl")
            raw = self._ask("export", user, target=str(target))
            return raw if isinstance(raw, bytes) else target.read_bytes()

    def import_(self, user: str, exported: bytes) -> dict[str, int]:
        """Make a memory of an export."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "export.jsonl")
            source.write_bytes(exported)
            return _kept(self._ask("import_", user, source=str(source)), "sessions turns facts")

    def import_file(self, user: str, file: Path) -> dict[str, int]:
        """Read a file of another program."""
        return _kept(self._ask("import_file", user, file=str(file))["memories"][0], "sessions turns_added")

    def backup(self, user: str, target: Path) -> dict[str, int]:
        """Copy a memory."""
        raw = self._ask("backup", user, target=str(target))
        return _kept(raw["backups"][0] if "backups" in raw else raw, "sessions turns facts")

    def verify(self, user: str) -> dict[str, Any]:
        """Check a memory against itself."""
        return _kept(self._ask("verify", user), "ok problems")

    def stats(self, user: str) -> dict[str, int]:
        """Count what is stored."""
        return _kept(self._ask("stats", user), "sessions turns facts")


_EVIDENCE = "text speaker said start end fact_id sources"
_FACT = "fact_id text speaker said start end superseded_by sources"
_TIMES = ("said", "start", "end", "at")


def _kept(raw: Mapping[str, Any], names: str) -> dict[str, Any]:
    """Return some fields of a mapping, None for one that it lacks."""
    return {name: raw.get(name) for name in names.split()}


def _plain(raw: Mapping[str, Any], names: str) -> dict[str, Any]:
    """Return some fields, with times in UTC and sources as lists."""
    found = _kept(raw, names)
    for name in _TIMES:
        if found.get(name) is not None:
            # Python 3.10 does not read "Z".
            when = datetime.fromisoformat(found[name].replace("Z", "+00:00"))
            found[name] = when.astimezone(timezone.utc).isoformat()
    if found.get("sources") is not None:
        found["sources"] = [[one["session_id"], list(one["turn_ids"])] for one in found["sources"]]
    return found


def _plain_all(raw: Sequence[Mapping[str, Any]], names: str) -> list[dict[str, Any]]:
    return [_plain(one, names) for one in raw]


def _page(raw: Any, name: str, names: str) -> dict[str, Any]:
    """Return a page: its items under a name, how many there are in all, and where it goes on."""
    whole = raw if isinstance(raw, dict) else {}
    after = whole.get("next_cursor") or whole.get("next")
    return {name: _items(raw, name, names), "total": whole.get("total"), "next": after}


def _items(raw: Any, name: str, names: str) -> list[dict[str, Any]]:
    """Return the items of a list, or of a page that has them under a name."""
    return _plain_all(raw[name] if isinstance(raw, dict) else raw, names)


def _corrected(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": raw.get("key") or raw.get("undo_key"), "new_fact_id": raw.get("new_fact_id")}


def _gone(raw: Mapping[str, Any]) -> dict[str, int]:
    return {name: count for name, count in (raw.get("gone") or {}).items() if count}


def _as_json(value: Any) -> Any:
    """Return a result as JSON would have it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in value]
    return value


class PythonSurface(Surface):
    """The handle of a user, in this process."""

    name = "python"
    calls = METHODS

    def __init__(self, directory: Path, forest: Any) -> None:
        super().__init__(directory)
        self.forest = forest

    def refusal(self, kind: str, *, usage: bool = False) -> tuple[str, int | None]:
        """Return the class that is raised."""
        return kind, None

    def _do(self, verb: str, user: str, args: Mapping[str, Any]) -> Any:
        call, given = self.calls[verb], dict(args)
        if verb == "delete_turn":
            given = {"turn": (given["session_id"], given["turn_id"])}
        try:
            found = self._call(user, call.name, given)
            return found.context() if verb == "context" else _as_json(found)
        except MemForestError as error:
            raise Refused(type(error).__name__, None, str(error)) from error

    def _call(self, user: str, method: str, given: Mapping[str, Any]) -> Any:
        return getattr(self.forest.user(user), method)(**given)


class AsyncSurface(PythonSurface):
    """The same handle, awaited in an event loop of another thread.

    Args:
        directory: where the memories are.
        forest: an open `AsyncMemForest`.
        portal: runs coroutines in the loop of the forest.
    """

    name = "async"

    def __init__(self, directory: Path, forest: Any, portal: Any) -> None:
        super().__init__(directory, forest)
        self.portal = portal

    def _call(self, user: str, method: str, given: Mapping[str, Any]) -> Any:
        async def work() -> Any:
            return await getattr(self.forest.user(user), method)(**given)

        return self.portal.call(work)


@dataclass(frozen=True)
class Ran:
    """What a command did: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@cache
def _program() -> Any:
    """Return what the installed script calls."""
    [entry] = entry_points(group="console_scripts", name="memforest")
    return entry.load()


def run_command(*argv: str, stdin: str | bytes = "", env: Mapping[str, str] | None = None) -> Ran:
    """Run the program in this process, with arguments as a shell would give them and output into a pipe."""
    main = _program()
    given = stdin.encode() if isinstance(stdin, str) else stdin
    settings = {"MEMFOREST_EMBEDDER": EMBEDDER.model_id, "COLUMNS": "80", **(env or {})}
    code = 0
    with _streams(given) as (out, err), mock.patch.dict(os.environ, settings):
        with mock.patch.object(sys, "argv", ["memforest", *argv]):
            try:
                main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(code, out.getvalue().decode(), err.getvalue().decode())


@contextlib.contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Put pipes in the place of the standard streams."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")),
        mock.patch.object(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8")),
        mock.patch.object(sys, "stderr", io.TextIOWrapper(err, encoding="utf-8")),
    ):
        yield out, err


class CliSurface(Surface):
    """The program, by its arguments; what it says with ``--json``."""

    name = "cli"
    calls = COMMANDS

    def refusal(self, kind: str, *, usage: bool = False) -> tuple[str, int | None]:
        """Return the error's name and 1; 2 of wrong usage, whose name is the parser's own."""
        return ("", 2) if usage else (kind, 1)

    def run(self, *argv: str, user: str | None = None, stdin: str | bytes = "") -> Ran:
        """Run a command on the directory."""
        whose = () if user is None else ("--user", user)
        return run_command("--dir", str(self.directory), *whose, *argv, stdin=stdin)

    def argv(self, verb: str, args: Mapping[str, Any]) -> list[str]:
        """Return the words of a command."""
        call, found, values = self.calls[verb], [], []
        for ours, value in args.items():
            theirs = call.names[ours]
            if not theirs.startswith("--"):
                values.append(str(value))
            elif isinstance(value, Mapping):
                found += [word for key, one in value.items() for word in (theirs, f"{key}={one}")]
            else:
                found += [theirs, *([*map(str, value)] if isinstance(value, (list, tuple)) else [str(value)])]
        words = call.name.split()
        # Behind "--" nothing is an option; the last word of a command may itself be an option that takes the values.
        end = ["--"] if values and not words[-1].startswith("--") else []
        return [*words, *found, *end, *values]

    def _do(self, verb: str, user: str, args: Mapping[str, Any]) -> Any:
        given, stdin = dict(args), ""
        if verb == "add":
            stdin, given = _as_file(given)
        ran = self.run("--json", *self.argv(verb, given), user=user, stdin=stdin)
        said = json.loads(ran.out)["data"]
        if ran.code:
            raise _cli_refusal(ran.code, said)
        return _added(said) if verb == "add" else said


def _as_file(args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return messages as a file on standard input, and the other arguments; metadata are further keys of a message."""
    given = dict(args)
    content, more = given.pop("content"), given.pop("metadata", {})
    messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
    return json.dumps([{**more, **one} for one in messages]), {**given, "file": "-"}


def _added(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the command says of the memory that it wrote, as `add` has it."""
    [memory] = said["memories"]
    return {**memory, "warnings": memory["warnings"], "refused": memory["refused"]}


def _cli_refusal(code: int, said: Mapping[str, Any]) -> Refused:
    kind = "" if code == 2 else str(said.get("error", ""))
    return Refused(kind, code, str(said.get("message", said)))


class RestSurface(Surface):
    """The routes of a server.

    Args:
        directory: where the server's memories are.
        client: an `httpx.Client` of the server.
    """

    name = "rest"
    calls = ROUTES
    statuses: Mapping[str, int] = {
        "InputError": 422,
        "TimestampError": 422,
        "ConfigError": 422,
        "NotFoundError": 404,
        "CorrectionError": 409,
        "IdempotencyError": 409,
        "SessionConflictError": 409,
    }

    def __init__(self, directory: Path, client: Any) -> None:
        super().__init__(directory)
        self.client = client

    def refusal(self, kind: str, *, usage: bool = False) -> tuple[str, int | None]:
        """Return the last part of the problem's type, and the status."""
        return kind, self.statuses[kind]

    def _do(self, verb: str, user: str, args: Mapping[str, Any]) -> Any:
        method, _, path = self.calls[verb].name.partition(" ")
        given = dict(args)
        more: dict[str, Any] = {}
        where = route(verb, user, **{name: str(given.pop(name)) for name in re.findall(r"\{(\w+)\}", path)})
        if "idempotency_key" in given:
            more["headers"] = {"Idempotency-Key": given.pop("idempotency_key")}
        if verb == "export":
            del given["target"]
        if verb == "import_":
            more["headers"] = {"Content-Type": "application/octet-stream"}
            more["content"] = Path(given.pop("source")).read_bytes()
        elif method in ("GET", "DELETE"):
            more["params"] = {
                key: json.dumps(one) if isinstance(one, dict) else one for key, one in given.items()
            }
        elif given:
            more["json"] = given
        return self.send(method, where, **more)

    def send(self, method: str, url: str, **more: Any) -> Any:
        """Return the body of a response, or raise its problem.

        Raises:
            Refused: if the server does not do it.
        """
        response = self.client.request(method, url, **more)
        if response.status_code >= 400:
            problem = response.json()
            kind = problem["type"].rpartition(":")[2]
            raise Refused(kind, response.status_code, problem.get("detail", ""))
        kind = response.headers.get("content-type", "")
        return response.json() if kind.startswith("application/json") else response.content


class McpSurface(Surface):
    """The tools of a server, by the official client.

    Args:
        directory: where the server's memories are.
        client: an open `mcp.Client`.
        portal: runs coroutines in the loop of the client.
    """

    name = "mcp"
    calls = TOOLS

    def __init__(self, directory: Path, client: Any, portal: Any) -> None:
        super().__init__(directory)
        self.client, self.portal = client, portal

    def refusal(self, kind: str, *, usage: bool = False) -> tuple[str, int | None]:
        """Return nothing: what is wrong is said in words, with the mark of an error."""
        return "", None

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a tool as the client has it."""

        async def work() -> Any:
            return await self.client.call_tool(tool, arguments)

        return self.portal.call(work)

    def _do(self, verb: str, user: str, args: Mapping[str, Any]) -> Any:
        call, given = self.calls[verb], dict(args)
        if verb == "add" and not isinstance(given["content"], str):
            given["messages"] = given.pop("content")
        result = self.call(call.name, user=user, **{call.names[key]: one for key, one in given.items()})
        if result.is_error:
            raise Refused("", None, " ".join(getattr(one, "text", "") for one in result.content))
        return result.structured_content
