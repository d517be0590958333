"""What the adapters of agent frameworks share: a user's memory recalled for a prompt, and messages kept of a run.

An adapter says who the user and which the session is; there is no user by default. What is recalled stands between marks, so
that it is told from what was said when a framework hands the whole conversation back. No framework is imported here.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from math import exp
from typing import Any, TypeVar

from memforest import _sync
from memforest.errors import ConfigError, InputError, MemForestError, MissingPackageError, NotFoundError
from memforest.importers.files import Skips
from memforest.importers.messages import HIDDEN, turns_of, with_placeholders
from memforest.integrations.marks import marked as marked
from memforest.integrations.marks import unmarked as unmarked
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.read.results import Evidence, IngestResult, QueryResult
from memforest.text import is_binary_looking
from memforest.times import one_line
from memforest.write.turns import check_id, messages_of

T = TypeVar("T")

CONTEXT_TOKENS = 2000
"""Tokens of recalled text, estimated, where the caller sets no `max_tokens`."""
_NUMBER = re.compile(r"^\[(\d+)\]", re.MULTILINE)
_INSTRUCTIONS = ("system", "developer")

CALLERS = (ConfigError, InputError, NotFoundError)
"""Errors of what a caller asks for; another question or option puts it right."""

_log = logging.getLogger(__name__)


@contextmanager
def needs(*ranges: tuple[str, str, str]) -> Iterator[None]:
    """Check that frameworks are installed, then run the block that imports them.

    Args:
        ranges: name of a package, the lowest version, and the first one that is too new.

    Raises:
        MissingPackageError: if one is not installed or of another version; the message has the line that installs it.
    """
    line = "pip install " + " ".join(f'"{name}>={low},<{high}"' for name, low, high in ranges)
    for name, low, high in ranges:
        try:
            have = version(name)
        except PackageNotFoundError:
            raise MissingPackageError(f"{name} is not installed; {line}", name=name) from None
        if not _numbers(low) <= _numbers(have) < _numbers(high):
            why = f"{name} {have} is installed, and this adapter works with {low} up to before {high}"
            raise MissingPackageError(f"{why}; {line}", name=name)
    try:
        yield
    except ImportError as exc:
        raise MissingPackageError(f"{exc}; {line}", name=exc.name or ranges[0][0]) from exc


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", text)[:3])


def shown(result: QueryResult, max_tokens: int | None = None) -> str:
    """Return evidence for a prompt, marked: `QueryResult.context`, and a line with the sources of what it shows."""
    text = result.context(max_tokens or CONTEXT_TOKENS)
    places = {
        number: result.evidence[int(number) - 1].sources[0]
        for number in _NUMBER.findall(text)
        if result.evidence[int(number) - 1].sources
    }
    told = [f"[{n}] {one_line(one.session_id)}/{one_line(one.turn_ids[0])}" for n, one in places.items()]
    return marked(f"{text}\nSources: {', '.join(told)}" if told else text)


def scores(evidence: Sequence[Evidence]) -> list[float]:
    """Return the scores of evidence, best first, within 0..1; what leads by its time has at least that of what follows."""
    found = [0.0]
    for one in reversed(evidence):
        found.append(max(found[-1], 1 / (1 + exp(-max(-30.0, min(30.0, one.score))))))
    return found[:0:-1]


def read_messages(
    messages: Any, skips: Skips | None = None, *, ids: bool = True, most: int | None = None
) -> list[dict[str, Any]]:
    """Return the messages of any framework as turns for `add`, each with an id by which it is not stored twice.

    Calls of tools and their results are turns of role ``tool``, which is nobody's statement; images and files are named in place;
    instructions, empty parts and what was recalled are left out. The id is that of the message and a digest of what it
    says; a message without an id is told by its words and by how often they came before.

    Args:
        messages: a list of messages, mappings or objects; see `AsyncMemForest.ingest_session`.
        skips: counts what is left out.
        ids: give an id to messages that have none.
        most: how many characters of a longer text are read, as a turn that is too long would be refused.

    Raises:
        InputError: if one of them is no message.
    """
    skips, tools, seen, turns = skips or Skips(), dict[str, str](), Counter[str](), list[dict[str, Any]]()
    for at, message in enumerate(messages_of(messages)):
        if not isinstance(message, Mapping):
            raise InputError(
                f"message {at} is of the type {type(message).__name__}; give a message with role and content"
            )
        if message.get("role") in _INSTRUCTIONS:
            skips.leave_out(HIDDEN)
            continue
        for number, turn in enumerate(turns_of(with_placeholders(message), tools, skips)):
            content = turn.get("content", turn.get("text"))
            text = clean(unmarked(content if isinstance(content, str) else ""), most)
            if not text:
                skips.leave_out("message without text")
                continue
            own = f"{turn.get('role')}\n{turn.get('speaker', turn.get('name'))}\n{text}"
            seen[own] += 1
            given = message.get("id")
            told = f"{own}\n{number}" if given else f"{own}\n{seen[own]}"
            digest = hashlib.sha256(told.encode()).hexdigest()[:8]
            kept = {key: one for key, one in turn.items() if key not in ("text", "id")}
            own_id = {"id": f"{str(given)[:900]}-{digest}" if given else digest} if given or ids else {}
            turns.append({**kept, "content": text, **own_id})
    return turns


def clean(text: str, most: int | None = None) -> str:
    """Return a text as a turn can hold it: without NUL and halves of characters, and cut; "" for what is no text at all."""
    made = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:most]
    return "" if is_binary_looking(made) else made


class Bridge:
    """The memories of a forest as an adapter uses them.

    A failure of the memory does not end an agent's run: it is logged once, counted in `failures`, and what was asked for is
    empty. What the caller has to put right, such as a missing user, always raises.

    Args:
        forest: an `AsyncMemForest` or a `MemForest`.
        display_name: who the user is in facts, or a function of the user's id; the part of the id behind the last slash
            or colon when not given. A memory that is there keeps its name.
        strict: raise every error.
        recall: options of `search` for what is recalled: ``as_of``, ``during``, ``top_k``, ``max_tokens`` and others.
    """

    def __init__(
        self,
        forest: AsyncMemForest | MemForest,
        *,
        display_name: str | Callable[[str], str] | None = None,
        strict: bool = False,
        recall: Mapping[str, Any] | None = None,
    ) -> None:
        self.forest = forest._async if isinstance(forest, MemForest) else forest
        if not isinstance(self.forest, AsyncMemForest):
            raise InputError(
                f"forest is of the type {type(forest).__name__}; give an AsyncMemForest or a MemForest"
            )
        self.strict, self.recall_options, self.failures = strict, dict(recall or {}), 0
        self._name, self._known = display_name, set[str]()

    async def user(self, user_id: str) -> AsyncUserMemory:
        """Return a user's memory to be written, and register who has none.

        Raises:
            InputError: if the id is no non-empty text.
        """
        check_id(user_id, "user_id")
        if user_id not in self._known:
            if not await self.forest.has_user(user_id):
                name = self._name(user_id) if callable(self._name) else self._name
                name = name or re.split(r"[/:]", user_id.rstrip("/: "))[-1].strip() or user_id
                await self.forest.register_user(user_id, display_name=name)
            self._known.add(user_id)
        return self.forest.user(user_id)

    async def safe(
        self, work: Awaitable[T], nothing: T, *, raises: tuple[type[MemForestError], ...] = CALLERS
    ) -> T:
        """Return what some work returns; `nothing` where the memory fails, unless `strict`.

        Args:
            work: the work.
            nothing: what is returned in its place.
            raises: errors that are raised always.
        """
        try:
            return await work
        except MemForestError as exc:
            if self.strict or isinstance(exc, raises):
                raise
            self.failures += 1
            log = _log.warning if self.failures == 1 else _log.debug
            log("the memory failed, and the agent goes on without it: %s: %s", type(exc).__name__, exc)
            return nothing

    async def search(self, user_id: str, question: str, **options: Any) -> QueryResult | None:
        """Return evidence; None for a blank question, or where the memory fails."""
        given = {name: one for name, one in {**self.recall_options, **options}.items() if one is not None}
        memory, asked = self.forest.user(user_id), clean(unmarked(question))
        return await self.safe(memory.search(asked, **given), None) if asked else None

    async def recall(self, user_id: str, question: str, **options: Any) -> str:
        """Return what the memory has for a question, for a prompt: see `shown`; "" for nothing."""
        given = {**self.recall_options, **options}
        most = given.pop("max_tokens", None)
        result = await self.search(user_id, question, **given)
        return shown(result, most) if result else ""

    async def remember(
        self, user_id: str, session_id: str, messages: Any, **options: Any
    ) -> IngestResult | None:
        """Keep the messages of a session that are new; None where none says anything, or the memory fails."""

        async def add() -> IngestResult | None:
            turns = read_messages(messages, most=self.forest.config.max_turn_chars)
            memory = await self.user(user_id) if turns else None
            return await memory.add(turns, session_id=session_id, **options) if memory else None

        return await self.safe(add(), None, raises=())

    async def timeline(self, user_id: str, entity: str, attribute: str | None = None) -> str:
        """Return what is known of an entity in time order, a dated line an entry, marked; "" for nothing."""
        page = await self.safe(self.forest.user(user_id).timeline(entity, attribute=attribute), ())
        return marked("\n".join(map(entry_line, page)))

    def tools(self, user_id: str, *, writes: bool = True) -> list[Callable[..., Awaitable[str]]]:
        """Return functions for a model to call on one user's memory: search, timeline and, where it may write, remember."""
        check_id(user_id, "user_id")

        async def search_memory(
            query: str, as_of: str | None = None, during: list[str] | None = None, top_k: int | None = None,
            max_tokens: int | None = None,
        ) -> str:  # fmt: skip
            """Search what the user said in earlier conversations.

            Args:
                query: a question, or some words.
                as_of: only what was so at this time, as an ISO 8601 date.
                during: only what was so between these two dates.
                top_k: most pieces of evidence.
                max_tokens: most tokens of the answer.
            """
            how = {"as_of": as_of, "during": during, "top_k": top_k, "max_tokens": max_tokens}
            return await told(self.recall(user_id, query, **how))

        async def timeline(entity: str, attribute: str | None = None) -> str:
            """Tell what is known of a person or thing in time order, with what was so before.

            Args:
                entity: its name.
                attribute: only this, such as "residence".
            """
            return await told(self.timeline(user_id, entity, attribute))

        async def remember(statement: str, since: str | None = None) -> str:
            """Remember a statement about the user for later conversations.

            Args:
                statement: what is so, with names instead of "I".
                since: from when on it is so, as an ISO 8601 date.
            """

            async def write() -> str:
                await (await self.user(user_id)).remember(unmarked(statement), since=since)
                return "Remembered."

            return await told(self.safe(write(), ""), "It could not be remembered.")

        return [search_memory, timeline, remember] if writes else [search_memory, timeline]


async def told(work: Awaitable[str], nothing: str = "Nothing is known of that.") -> str:
    """Return what a tool tells a model; an argument that cannot be is told too, as the model can put it right."""
    try:
        return await work or nothing
    except CALLERS as exc:
        return f"Not possible: {exc}"


def waiting(work: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Return the blocking twin of an async function; it may be called inside a running loop, which then waits."""

    @wraps(work)
    def wait(*args: Any, **kwargs: Any) -> T:
        return _sync.run(work(*args, **kwargs))

    return wait


def entry_line(entry: Any) -> str:
    """Return one entry of a timeline as a dated line."""
    start = f"{entry.start:%Y-%m-%d}" if entry.start else "?"
    end = f" to {entry.end:%Y-%m-%d}" if entry.end else " on" if entry.kind == "state" else ""
    what = f"{one_line(entry.attribute)}: {one_line(entry.value)}; " if entry.kind == "state" else ""
    return f'{start}{end}: {what}said: "{one_line(entry.text)}"'


def session_of(session_id: object) -> str:
    """Return a session's id.

    Raises:
        InputError: if there is none.
    """
    return check_id(session_id, "session_id")


def last_said(messages: Sequence[Any]) -> str:
    """Return the text of the last message of a user; "" if there is none."""
    turns = [turn for turn in read_messages(messages) if turn.get("role") in ("user", "human")]
    return str(turns[-1]["content"]) if turns else ""
