"""Opening a memory: its settings, its owner, its embedder.

Encrypting the memories of a directory, decrypting them, or giving them another key.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from memforest.config import Config, EmbedderSetting, is_embedder
from memforest.endpoint import EmbeddingEndpoint
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    ModelError,
    NotFoundError,
    SomeUsersFailedError,
    StoreError,
    WeightsError,
)
from memforest.memory.memory import Memory, OpenedWith
from memforest.models.base import CallableEmbedder
from memforest.models.catalog import BGE_SMALL, MINILM, best_installed, open_embedder
from memforest.models.openai import open_embedding_endpoint
from memforest.plain import Result
from memforest.ports import Embedder
from memforest.protection import Key
from memforest.reading.canonical import merge_threshold
from memforest.reading.entities import is_id
from memforest.reading.steps import Steps
from memforest.reading.timestamps import zone_note
from memforest.search import vectors
from memforest.store import derived, meta
from memforest.store.connections import RESTORE, Tx, check_cipher
from memforest.store.database import Database, ensure_schema
from memforest.store.directory import file_name, is_own_name, is_there, make_directory, memory_files
from memforest.store.files import unfinished
from memforest.store.upkeep import purge, recrypt
from memforest.text import cut
from memforest.trees.attached import Attached

MOST_LABEL_CHARS = 64
_NOT_PRIVATE = "{0!r} belongs to another account, and more than its owner can read it; chmod 600 changes that"
_UNFINISHED = "encrypting or decrypting {0!r} was interrupted, and its old file may still exist; run the same command again"
_NO_MODEL = (
    "no embedding model is installed, searching by words only; `memforest doctor` says what to install"
)
SHORT_NAMES = {"minilm": MINILM.model_id, "bge": BGE_SMALL.model_id}


def open_memory(
    directory: Path,
    user_id: str,
    config: Config,
    steps: Steps,
    *,
    label: str | None = None,
    other_embedder: bool = False,
) -> Memory:
    """Open a user's memory, making it if there is none.

    Args:
        directory: of the memories.
        user_id: whose.
        config: the settings.
        steps: what makes memory of sessions.
        label: a new display name.
        other_embedder: the memory may have another embedder than the configured one, and is to be given that: only
            `Memory.rebuild` may be called. With ``embedder="auto"`` it is the best that is installed.

    Raises:
        StoreError: if the file cannot be used, or belongs to another user id.
        EmbedderMismatchError: if the memory was made with another embedder than the one configured.
        StoreKeyError: if the file is encrypted with another key than the one configured, or only one of both is not there.
        ConfigError: if the configured embedder is unknown, there can be no trace where one is configured, or there is a key
            and SQLCipher is not installed.
    """
    path = directory / file_name(user_id)
    if not is_there(path):
        _embedder(path, config, None, steps)  # one that cannot be had must not leave an empty memory behind
        make_directory(directory)
    if steps.calls is not None:
        steps.calls.check_trace()
    db = Database(path, busy_timeout_s=config.busy_timeout_s, key=Key.of(config.key))
    try:
        ensure_schema(db)
        stored = _ensure_settings(db, user_id, config, label)
        opened = _embedder(path, config, None if other_embedder else stored.get("embedder"), steps)
        kept = replace(config, chunk_turns=_chunk_turns(path, stored.get("chunk_turns", "")))
        if kept.chunk_turns != config.chunk_turns:
            opened = replace(opened, chunk_turns=config.chunk_turns)
    except BaseException:
        db.close()
        raise
    notes = (
        None if db.file.private else _NOT_PRIVATE.format(path.name),
        _UNFINISHED.format(path.name) if unfinished(path) else None,
        zone_note(stored.get("timezone"), config.timezone),
    )
    opened = replace(opened, warnings=(*opened.warnings, *(note for note in notes if note)))
    memory = Memory(db, user_id, stored["label"], kept, opened)
    if "sweep" in stored:  # a deletion was interrupted
        memory.sweep()
        purge(db)
    return memory


def _chunk_turns(path: Path, stored: str) -> int:
    """Return how many turns a chunk of a memory has at most.

    Raises:
        CorruptStoreError: if what is stored is no such number.
    """
    if not re.fullmatch("[1-9][0-9]{0,8}", stored):
        raise CorruptStoreError(
            f"{path.name!r} is damaged: the setting 'chunk_turns' is {cut(repr(stored), 40)}; {RESTORE}"
        )
    return int(stored)


def label_of(user_id: str) -> str:
    """Return the display name of a user that has been given none: their id, unless it is plainly no name."""
    return "user" if len(user_id) > MOST_LABEL_CHARS or is_id(user_id) else user_id


def _ensure_settings(db: Database, user_id: str, config: Config, label: str | None) -> dict[str, str]:
    """Return a memory's stored settings; a new memory gets its identity, settings and indexes first."""
    attached = Attached(config)
    with db.read() as tx:
        stored, bare, foreign = _stored(tx), not meta.index_rows(tx), derived.foreign_words(tx)
    renamed = label is not None and stored["label"] != label
    if bare or foreign or stored["user_id"] is None or renamed:
        with db.write() as tx:
            if meta.get(tx, "user_id") is None:
                meta.put(tx, "user_id", user_id)
                meta.put(tx, "label", label or label_of(user_id))
                meta.put(tx, "chunk_turns", str(config.chunk_turns))
            elif label is not None:
                meta.put(tx, "label", label)
            if foreign:
                derived.plain_words(tx)
            attached.begin(tx)
            stored = _stored(tx)
    if stored["user_id"] != user_id:
        raise ForeignStoreError(f"{db.path.name!r} belongs to another user id; it was renamed or copied here")
    return {key: value for key, value in stored.items() if value is not None}


_SETTINGS = ("user_id", "label", "embedder", "dimension", "timezone", "sweep", "chunk_turns")


def _stored(tx: Tx) -> dict[str, str | None]:
    return {key: meta.get(tx, key) for key in _SETTINGS}


def _embedder(path: Path, config: Config, have: str | None, steps: Steps) -> OpenedWith:
    """Return the models to open a memory with; its first write records the embedder for good."""
    automatic = config.embedder == "auto"
    try:
        embedder = embedder_of(config, have)
    except WeightsError as exc:
        if not automatic:
            raise
        return OpenedWith(None, steps, None, (f"searching by words only: {exc}",))
    if embedder is None:
        return OpenedWith(None, steps, None, (_NO_MODEL,) if automatic else ())
    if have is not None and have != embedder.model_id:
        raise vectors.other_embedder(path, have, embedder.model_id)
    return OpenedWith(embedder, steps, merge_threshold(embedder.model_id))


def embedder_for(config: Config, made_with: str) -> str | None:
    """Return the id of the embedder with which a memory that has vectors of one would be opened; None for none.

    Raises:
        ModelError: if the configured one is not installed.
    """
    try:
        embedder = embedder_of(config, made_with)
    except ModelError:
        if config.embedder != "auto":
            raise
        return None
    return None if embedder is None else embedder.model_id


def embedder_of(config: Config, made_with: str | None = None) -> Embedder | None:
    """Return the embedder of a memory, a new one or one that was made with an embedder; None when it would be searched by words only.

    Raises:
        ModelError: if the configured one is not installed.
    """
    if config.embedder != "auto":
        return _configured(config.embedder)
    name = made_with or best_installed()
    return None if name is None else open_embedder(name)


def check_embedder_and_key(config: Config) -> None:
    """Raise if the configured embedder is not known by name, installed or not, or there is a key without SQLCipher; load nothing.

    Raises:
        ConfigError: if that is so.
    """
    if isinstance(config.embedder, str) and config.embedder != "auto":
        with suppress(ModelError):
            _configured(config.embedder)
    if config.key is not None:
        check_cipher()


def _configured(value: EmbedderSetting) -> Embedder | None:
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        return open_embedder(SHORT_NAMES.get(value, value))
    if isinstance(value, EmbeddingEndpoint):
        return open_embedding_endpoint(value)
    if is_embedder(value):
        return value
    assert callable(value)  # a function, as `Config` has checked
    name = getattr(value, "__name__", type(value).__name__)
    return CallableEmbedder(value, model_id=f"callable:{name}")


Progress: TypeAlias = Callable[[int, int, str], object]
"""Called behind each file with how many are done, how many there are, and its name."""


@dataclass(frozen=True, slots=True, repr=False)
class Recrypted(Result):
    """What `encrypt`, `decrypt` or `rekey` did: the names of the files that it changed, and of those that were so already."""

    done: tuple[str, ...]
    already: tuple[str, ...] = ()


def recrypt_all(
    operation: str,
    directory: Path,
    have: Key | None,
    want: Key | None,
    *,
    user_id: str | None,
    timeout_s: float,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Recrypted:
    """Give the memories of a directory another key, or their first, or none, one after the other; see `recrypt`.

    Args:
        operation: its name, for messages.
        directory: where they are.
        have: the key of their files; None for unencrypted ones.
        want: their key from now on; None for unencrypted files.
        user_id: whose; None for all users.
        timeout_s: how long to wait for others who have a file open.
        progress: called behind each file.
        stop: set by another thread to end behind the file that is under way.

    Raises:
        NotFoundError: if that user has no memory.
        StoreError: if that user's file cannot be changed; it is as it was.
        SomeUsersFailedError: if some of all files cannot; all others are done, and these are as they were.
    """
    if user_id is None:
        files = [path for path in memory_files(directory) if is_own_name(path.name)]
    else:
        files = [directory / file_name(user_id)]
        if not files[0].exists():
            raise NotFoundError(f"user {cut(repr(user_id), 60)} has no memory in {directory.name!r}")
    old, new = have and have.now(), want and want.now()
    done, already, failed = list[str](), list[str](), dict[str, StoreError]()
    for number, path in enumerate(files, 1):
        if stop is not None and stop.is_set():
            break
        try:
            (
                done if path.stat().st_size and recrypt(path, old, new, timeout_s=timeout_s) else already
            ).append(path.name)
        except StoreError as exc:
            if user_id is not None:
                raise
            failed[path.name] = exc
        if progress is not None:
            progress(number, len(files), path.name)
    result = Recrypted(tuple(done), tuple(already))
    if failed:
        raise SomeUsersFailedError(operation, {}, failed, [result])
    return result
