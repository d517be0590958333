"""`Memory` and `AsyncMemory` of mem0's open source, in process, over a forest: mem0 need not be installed.

Arguments and results are those of `mem0ai` 2.2, those of older versions are taken too, and so are the times that mem0 has for its
platform alone. What a call cannot mean here is an `InputError`, which is a `ValueError` as it is there. docs/integrations.md says what
differs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from platformdirs import user_data_path

from memforest import _sync
from memforest.config import load_default_config
from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError, InputError, NotFoundError
from memforest.integrations import records
from memforest.integrations.adapter import Bridge, read_messages
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import Principal
from memforest.settings import MAX_TOP_K
from memforest.times import shown

Forest: TypeAlias = AsyncMemForest | MemForest
_Asked: TypeAlias = tuple[int, records.Filter, list[records.Memories]]

TIMES = ("as_of", "during", "said_by", "known_at")
"""Options of `search` that mem0 does not have: those of memforest's own."""
ADDRESSES = {"openai": None, "ollama": "http://localhost:11434/v1", "lmstudio": "http://localhost:1234/v1"}
"""Providers whose models are used as mem0 would, and where they are."""
_FIELDS = (*records.IDS, "actor_id", "role", "created_at", "updated_at", "metadata")
_UNSET: Any = object()
_CALLER = Principal()

_log = logging.getLogger(__name__)


class UnknownMemoryError(NotFoundError, InputError):
    """There is no memory with this id to change; in mem0 that is a `ValueError`."""


class AsyncMemory:
    """mem0's `AsyncMemory` over a forest.

    Args:
        config: of mem0, as for `from_config`, or its `MemoryConfig`; None has the directory of the command line.
        forest: the memories, in the place of a config; it stays open when this is closed.
        user: whose memories are meant where a call names no user; without one such a call is an error.

    Raises:
        ConfigError: if the config is none, or there is a forest too.
        InputError: if the forest is none.
    """

    def __init__(self, config: Any = None, *, forest: Forest | None = None, user: str | None = None) -> None:
        self.ignored: tuple[str, ...] = ()
        """Names of the settings of `config` that have no counterpart."""
        self._owned, self.default_user = forest is None, _ids({"user_id": user}).get("user_id")
        if forest is None:
            directory, settings, self.ignored = _read_config({} if config is None else config)
            forest = AsyncMemForest(directory, load_default_config(**settings))
        elif config is not None:
            raise ConfigError("give either a config or a forest: a forest has its own config")
        self.forest = Bridge(forest).forest

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> AsyncMemory:
        """Return a memory with the settings of mem0 that can be mapped; the others are named in a warning and in `ignored`.

        `vector_store.config.path`, else the place of `history_db_path`, says where the directory `memforest` is;
        `collection_name` becomes part of its name. `llm` reads statements and `embedder` makes vectors if they name a model
        of a provider of `ADDRESSES`; otherwise both are local.

        Raises:
            ConfigError: if it is no mapping, or a value cannot be.
        """
        return cls(config_dict)

    async def add(
        self, messages: Any, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None,
        metadata: dict[str, Any] | None = None, timestamp: Any | None = None, expiration_date: Any | None = None,
        infer: bool = True, memory_type: str | None = None, prompt: str | None = None, llm: Any | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Keep messages, and return the memories that were made of them under ``results``.

        Args:
            messages: a text by the user, a message, or a list of messages.
            user_id: whose memory.
            agent_id: kept with what was said, to be filtered by.
            run_id: the session; that of the day when not given.
            metadata: kept with what was said, to be filtered by.
            timestamp: when it was said: Unix seconds, ISO 8601 or a datetime; now when not given.
            infer: False keeps the messages as they are.
            expiration_date: refused, and so are the rest.
            memory_type: of mem0's own.
            prompt: of mem0's own; what is extracted is set by the configuration of the forest.
            llm: likewise.

        Raises:
            InputError: if no user is named, a message is none, or an option is refused; nothing was stored.
        """
        _refuse("add", expiration_date=expiration_date, memory_type=memory_type, prompt=prompt, llm=llm)
        owner = self._owner(user_id=user_id, agent_id=agent_id, run_id=run_id)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InputError(f"metadata is of the type {type(metadata).__name__}; give a mapping")
        given = {"role": "user", "content": messages} if isinstance(messages, str) else messages
        listed = given if isinstance(given, Sequence) else [given]
        said = read_messages(listed, ids=False, most=self.forest.config.max_turn_chars)
        turns = records.labelled(said, owner, metadata)
        handle, memories = self.forest.user(owner["user_id"]), records.Memories(self.forest, owner["user_id"])
        result = await records.add_at_its_time(handle, turns, owner.get("run_id"), timestamp, infer)
        made = await records.made_by(memories, result)
        return {"results": [{**one.shown(("memory", "actor_id", "role")), "event": "ADD"} for one in made]}

    async def search(
        self, /, query: str, *, top_k: int = 20, filters: dict[str, Any] | None = None, threshold: float = 0.1,
        rerank: bool = False, explain: bool = False, reference_date: Any | None = None, show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the memories that answer a query and pass a filter under ``results``, best first.

        Args:
            query: a question, or some words.
            top_k: most of them.
            filters: ids and metadata, with the operators of mem0.
            threshold: the lowest score, from 0 to 1. Scores are not those of vectors; see docs/integrations.md.
            reference_date: what "now" and "last month" in the query are relative to.
            rerank: changes nothing, and so do the next two.
            explain: changes nothing.
            show_expired: changes nothing.
            kwargs: ``user_id``, ``agent_id``, ``run_id`` and ``limit`` of older versions, and `TIMES`, as in memforest's `search`.

        Raises:
            InputError: if no user is named, or an option is unknown or out of range.
        """
        most, wanted, memories = self._asked("search", top_k, filters, kwargs, *TIMES)
        if not isinstance(threshold, (int, float, type(None))) or not 0 <= (threshold or 0) <= 1:
            raise InputError(f"threshold is {shown(threshold)}; give a number from 0 to 1")
        how = {"reference_date": reference_date, **{name: kwargs.get(name) for name in TIMES}}
        how["least"], most = threshold or 0.0, min(most, MAX_TOP_K)
        found = await records.search(memories, [query], wanted, most, **how) if most else []
        return {"results": [_item(one, score=one.score) for one in found]}

    async def get_all(
        self, /, *, filters: dict[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **kwargs: Any
    ) -> dict[str, Any]:  # fmt: skip
        """Return the memories that pass a filter under ``results``, in time order.

        Args:
            filters: as for `search`.
            top_k: most of them.
            show_expired: changes nothing.
            kwargs: ``user_id``, ``agent_id``, ``run_id`` and ``limit`` of older versions.

        Raises:
            InputError: if no user is named, or an option is unknown or out of range.
        """
        most, wanted, memories = self._asked("get_all", top_k, filters, kwargs)
        found = [one for each in memories if most for one in (await each.page(wanted, 0, most))[0]]
        found.sort(key=lambda one: one.fields["created_at"])
        return {"results": [_item(one) for one in found[:most]]}

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return one memory, of a corrected one what holds instead; None if there is none with this id."""
        with suppress(NotFoundError):
            return {**_item(await self._found(memory_id), score=None), "id": memory_id}
        return None

    async def update(
        self, memory_id: str, text: str | None = None, metadata: dict[str, Any] | None = None,
        expiration_date: Any = _UNSET, data: str | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """Correct the text of a memory; memforest's `undo` takes it back.

        Args:
            memory_id: which.
            text: what holds.
            metadata: refused; delete the memory and add it again with other metadata.
            expiration_date: refused.
            data: the text, by its older name.

        Raises:
            UnknownMemoryError: if there is no such memory.
            InputError: if there is no text, or the memory is a message that was kept as it is.
        """
        _refuse("update", metadata=metadata, expiration_date=expiration_date)
        text = data if text is None else text
        if text is None:
            raise InputError("update has nothing to change; give it a text")
        await records.correct(self.forest, await self._found(memory_id), text)
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory with the words that it was made from.

        Raises:
            UnknownMemoryError: if there is no such memory.
        """
        await records.delete(self.forest, await self._found(memory_id))
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Delete what was said to a user's memory with these ids; with the user's alone, the whole memory.

        Raises:
            InputError: if no id is given, or no user is named.
        """
        if user_id is None and agent_id is None and run_id is None:
            raise InputError("delete_all needs an id; reset() deletes the memories of all users")
        owner = self._owner(user_id=user_id, agent_id=agent_id, run_id=run_id)
        memories, wanted = records.Memories(self.forest, owner["user_id"]), records.read_mem0(owner)
        await records.delete_matching(memories, wanted)
        return {"message": "Memories deleted successfully!"}

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return what became of a memory, oldest first; nothing of one that there is none of any more."""
        with suppress(NotFoundError):
            sealed = records.unseal(memory_id, _CALLER)
            told = await records.history(records.Memories(self.forest, sealed.user), memory_id, sealed)
            return [{**one, "is_deleted": one["event"] == "DELETE"} for one in told]
        return []

    async def reset(self) -> None:
        """Delete the memories of all users of the forest."""
        for user in await self.forest.list_users():
            with suppress(NotFoundError):
                await self.forest.delete_user(user)

    def close(self) -> None:
        """Close the forest, if it was made here; it opens again at its next use."""
        if self._owned:
            _sync.run(self.forest.close())

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()

    def _owner(self, **ids: Any) -> dict[str, str]:
        """Return the ids that are given, and whose memory is meant among them."""
        owner = {"user_id": self.default_user, **_ids(ids)}
        if owner["user_id"] is None:
            raise InputError("the user is missing: give user_id, or use Memory(user=...)")
        return owner

    def _asked(self, verb: str, top_k: Any, filters: Any, more: Mapping[str, Any], *times: str) -> _Asked:
        """Return how many are wanted, the filter, and whose memories are meant; ids may stand beside the filter."""
        options = (*records.IDS, "limit", *times)
        if unknown := ", ".join(sorted(more.keys() - {*options})):
            raise InputError(f"{verb} has no option {unknown}; its other options are {', '.join(options)}")
        parts = [one for one in (_translated(filters), _ids(more)) if one]
        wanted = records.read_mem0({"AND": parts} if parts else None)
        if self.default_user is not None and records.users_of(wanted) is None:
            wanted = records.Filter("all", (wanted, records.condition(("user_id",), "eq", self.default_user)))
        most = top_k if more.get("limit") is None else more["limit"]
        if type(most) is not int or most < 0:
            raise InputError(f"top_k is {shown(most)}; give a whole number, 0 or more")
        return most, wanted, records.meant(self.forest, _CALLER, wanted)

    async def _found(self, memory_id: str) -> records.Memory:
        try:
            sealed = records.unseal(memory_id, _CALLER)
            return await records.Memories(self.forest, sealed.user).find(sealed)
        except NotFoundError as exc:
            raise UnknownMemoryError(str(exc)) from None


class Memory:
    """mem0's `Memory` over a forest: the blocking twin of `AsyncMemory`, with the same arguments."""

    def __init__(self, config: Any = None, *, forest: Forest | None = None, user: str | None = None) -> None:
        self._async = AsyncMemory(config, forest=forest, user=user)
        self.forest, self.ignored = self._async.forest, self._async.ignored

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """Return a memory with the settings of mem0 that can be mapped; see `AsyncMemory.from_config`."""
        return cls(config_dict)

    add = _sync.blocking(AsyncMemory.add)
    search = _sync.blocking(AsyncMemory.search)
    get_all = _sync.blocking(AsyncMemory.get_all)
    get = _sync.blocking(AsyncMemory.get)
    update = _sync.blocking(AsyncMemory.update)
    delete = _sync.blocking(AsyncMemory.delete)
    delete_all = _sync.blocking(AsyncMemory.delete_all)
    history = _sync.blocking(AsyncMemory.history)
    reset = _sync.blocking(AsyncMemory.reset)

    def close(self) -> None:
        """Close the forest, if it was made here; it opens again at its next use."""
        self._async.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _ids(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids that are given, as mem0 reads them: trimmed, and a number as text."""
    found = {name: given[name] for name in records.IDS if given.get(name) is not None}
    for name, value in found.items():
        if not isinstance(value, (str, int)) or not str(value).strip():
            raise InputError(f"{name} is {shown(value)}; give a text that is not empty")
        found[name] = str(value).strip()
    return found


def _refuse(verb: str, **given: Any) -> None:
    for name, value in given.items():
        if value not in (None, _UNSET, {}):
            raise InputError(f"{verb}: {name} has no counterpart; docs/integrations.md says what to use")


def _translated(given: Any) -> Any:
    """Return a filter of the open source as one of the platform: what is no field is a key of metadata."""
    if isinstance(given, list):
        return [_translated(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    known, own = dict[str, Any](), dict[str, Any]()
    for name, value in given.items():
        if name in records.GROUPS:
            known[name] = _translated(value)
        elif name in records.IDS and isinstance(value, (str, int)):
            known |= _ids({name: value})
        else:
            (known if name in _FIELDS else own)[name] = value
    both = {"AND": [known, {"metadata": own}]}
    return both if known and own else {"metadata": own} if own else known


def _item(record: records.Memory, **more: Any) -> dict[str, Any]:
    """Return a memory in the shape of the open source; of a fact, also from when to when it is so."""
    item = {name: one for name, one in record.shown(("memory", *_FIELDS)).items() if one is not None}
    item["hash"] = hashlib.md5(item["memory"].encode(), usedforsecurity=False).hexdigest()
    ends = {} if record.fact is None else {"valid_from": record.fact.start, "valid_to": record.fact.end}
    more |= {name: at and at.isoformat() for name, at in ends.items()}
    return {**item, "metadata": record.fields["metadata"] or None, **more}


def _flat(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings that are given, by their paths with dots."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif value is not None:
            yield f"{before}{key}", value


def _read_config(config: Any) -> tuple[Path, dict[str, Any], tuple[str, ...]]:
    """Return the directory, settings of `Config`, and the names of what is ignored."""
    given = config.model_dump(exclude_unset=True) if hasattr(config, "model_dump") else config
    if not isinstance(given, Mapping):
        raise ConfigError(f"the config is of the type {type(config).__name__}; give mem0's as a mapping")
    flat = {name: one for name, one in _flat(given) if name != "version"}
    chat, embedder = _endpoint(flat, "llm"), _endpoint(flat, "embedder")
    settings = {"chat": ChatEndpoint(**chat), "chat_steps": ("extract",)} if chat else dict[str, Any]()
    settings |= {"embedder": EmbeddingEndpoint(**embedder)} if embedder else {}
    path, log = (flat.pop(name, None) for name in ("vector_store.config.path", "history_db_path"))
    own = flat.pop("vector_store.config.collection_name", None)
    name = f"memforest-{quote(str(own), safe='')}" if own else "memforest"
    root = path or (log and log != ":memory:" and Path(str(log)).parent)
    if ignored := tuple(sorted(flat)):
        _log.warning("settings of mem0 without a counterpart are ignored: %s", ", ".join(ignored))
    folder = Path(str(root)).expanduser() / name if root else user_data_path(name, appauthor=False)
    return folder, settings, ignored


def _endpoint(flat: dict[str, Any], section: str) -> dict[str, Any]:
    """Take a model out of a config; nothing where its provider is none of `ADDRESSES`, or no model is named."""
    provider, inner = flat.get(f"{section}.provider", "openai"), f"{section}.config."
    if provider not in ADDRESSES or f"{inner}model" not in flat:
        return {}
    address = flat.pop(f"{inner}{provider}_base_url", ADDRESSES[provider])
    if provider == "ollama" and not str(address).rstrip("/").endswith("/v1"):
        address = f"{str(address).rstrip('/')}/v1"
    flat.pop(f"{section}.provider", None)
    return {"base_url": address, **{name: flat.pop(f"{inner}{name}", None) for name in ("model", "api_key")}}
