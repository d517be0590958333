"""Opening a memory: the file's name, its owner, its embedder."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memforest.config import Config
from memforest.endpoint import EmbeddingEndpoint
from memforest.errors import (
    ConfigError,
    ForeignStoreError,
    StoreError,
    StoreWriteError,
    WeightsError,
)
from memforest.facts.thresholds import merge_threshold
from memforest.memory.memory import Memory, Opened
from memforest.memory.vectors import other_embedder
from memforest.models import BGE_SMALL, MINILM, CallableEmbedder, Embedder, best_installed, open_embedder
from memforest.models.openai_embed import open_embedding_endpoint
from memforest.steps.choose import Steps
from memforest.store import meta, migrations
from memforest.store.db import Database, Tx

__all__ = ["file_name", "list_users", "memory_files", "open_memory", "owner_of", "survey"]

_UNSAFE = re.compile(r"[^a-z0-9]+")
_SUFFIX = ".db"
SLUG_CHARS = 24
SHORT_NAMES = {"minilm": MINILM.model_id, "bge": BGE_SMALL.model_id}
SHAPE_KEYS = ("cell_turns", "session_k", "entity_k", "scene_k")
"""Settings that a memory keeps from its first write, because its trees have their shape by them."""


def file_name(user_id: str) -> str:
    """Return the file name of a user's memory: a readable slug and a hash of the exact id.

    The id itself never becomes a path. Ids that differ in any byte get different files, on
    case-insensitive file systems too.

    Example:
        >>> file_name("../Alice").split("-")[0], file_name("Alice") == file_name("alice")
        ('alice', False)
    """
    plain = unicodedata.normalize("NFKD", user_id).encode("ascii", "ignore").decode().lower()
    slug = _UNSAFE.sub("-", plain).strip("-")[:SLUG_CHARS].strip("-") or "user"
    return f"{slug}-{blake2b(user_id.encode(), digest_size=10).hexdigest()}{_SUFFIX}"


def memory_files(directory: Path) -> list[Path]:
    """Return the database files of a directory, sorted; reads nothing in them."""
    return sorted(directory.glob(f"*-*{_SUFFIX}"))


def owner_of(path: Path) -> str | None:
    """Return the id of the user whose memory a file is, None when it was never begun.

    Raises:
        StoreError: if the file cannot be read as ours.
    """
    db = Database(path)
    try:
        with db.read() as tx:
            return meta.get(tx, "user_id") if migrations.applied(tx) else None
    finally:
        db.close()


def list_users(directory: Path) -> list[str]:
    """Return the ids of all users with a memory in a directory, sorted; files that are no memory are passed over."""
    return survey(directory)[0]


def survey(directory: Path) -> tuple[list[str], list[StoreError]]:
    """Return the ids of all users with a memory in a directory, sorted, and why other files there are none.

    One file of another program, or a damaged one, says nothing against the memories beside it.
    """
    users, errors = [], []
    for path in memory_files(directory):
        try:
            owner = owner_of(path)
        except StoreError as exc:
            errors.append(exc)
            continue
        if owner is not None:
            users.append(owner)
    return sorted(users), errors


def open_memory(
    directory: Path, user_id: str, config: Config, steps: Steps, *, label: str | None = None
) -> Memory:
    """Open a user's memory, making it if there is none.

    Raises:
        StoreError: if the file cannot be used, or belongs to another user id.
        EmbedderMismatchError: if the memory was made with another embedder than the one configured.
        ConfigError: if the configured embedder is unknown.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreWriteError(
            f"cannot make the directory {directory.name!r}: {exc.strerror}; choose another"
        ) from exc
    db = Database(directory / file_name(user_id), busy_timeout_s=config.busy_timeout_s)
    try:
        migrations.apply(db, config.clock())
        stored = _settle(db, user_id, config, label)
        opened = _embedder(db, config, stored.get("embedder"), steps)
    except BaseException:
        db.close()
        raise
    kept = replace(
        config,
        cell_turns=int(stored["cell_turns"]),
        session_k=int(stored["session_k"]),
        entity_k=int(stored["entity_k"]),
        scene_k=int(stored["scene_k"]),
    )
    return Memory(db, user_id, stored["label"], kept, opened)


def _settle(db: Database, user_id: str, config: Config, label: str | None) -> dict[str, str]:
    """Write a new memory's identity, or read and check a stored one's."""
    with db.read() as tx:
        stored = _stored(tx)
    # A memory of an older version lacks the settings of what it did not have.
    lacks = [key for key in SHAPE_KEYS if stored[key] is None]
    if lacks or stored["user_id"] is None or (label is not None and stored["label"] != label):
        with db.write() as tx:
            if meta.get(tx, "user_id") is None:
                meta.put(tx, "user_id", user_id)
                meta.put(tx, "label", label or (user_id if len(user_id) <= 64 else "user"))
            elif label is not None:
                meta.put(tx, "label", label)
            for key in lacks:
                if meta.get(tx, key) is None:
                    meta.put(tx, key, str(getattr(config, key)))
            stored = _stored(tx)
    if stored["user_id"] != user_id:
        raise ForeignStoreError(f"{db.path.name!r} belongs to another user id; it was renamed or copied here")
    return {key: value for key, value in stored.items() if value is not None}


def _stored(tx: Tx) -> dict[str, str | None]:
    return {key: meta.get(tx, key) for key in ("user_id", "label", "embedder", "dimension", *SHAPE_KEYS)}


def _embedder(db: Database, config: Config, have: str | None, steps: Steps) -> Opened:
    """Find the embedder to open a memory with; the memory keeps it from its first write on."""
    if config.embedder == "auto":
        try:
            name = have or best_installed()
            embedder = None if name is None else open_embedder(name)
        except WeightsError as exc:
            return Opened(None, steps, None, (f"searching by words only: {exc}",))
        if embedder is None:
            fix = "no embedding model is installed, searching by words only; `memforest doctor` says what to install"
            return Opened(None, steps, None, (fix,))
    else:
        embedder = _configured(config.embedder)
    if embedder is None:
        return Opened(None, steps, None)
    if have is not None and have != embedder.model_id:
        raise other_embedder(db, have, embedder.model_id)
    return Opened(embedder, steps, merge_threshold(embedder.model_id))


def _configured(value: Any) -> Embedder | None:
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        return open_embedder(SHORT_NAMES.get(value, value))
    if isinstance(value, EmbeddingEndpoint):
        return open_embedding_endpoint(value)
    if hasattr(value, "embed") and hasattr(value, "model_id"):
        return value  # type: ignore[no-any-return]  # has the port's attributes
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return CallableEmbedder(value, model_id=f"callable:{name}")
    raise ConfigError(
        f"embedder={value!r}: give 'auto', 'minilm', 'bge', 'none', an EmbeddingEndpoint, an Embedder or a "
        "function of texts"
    )
