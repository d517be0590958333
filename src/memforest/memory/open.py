"""Opening a memory: the file's name, its owner, its embedder."""

from __future__ import annotations

import re
import time
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from memforest.config import Config
from memforest.endpoint import EmbeddingEndpoint
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    ModelError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
    WeightsError,
)
from memforest.facts.thresholds import merge_threshold
from memforest.keys import FileKey, Key
from memforest.language.participants import is_id
from memforest.memory import vectors, words
from memforest.memory.memory import Memory
from memforest.memory.opened import Opened
from memforest.memory.plain import Result
from memforest.memory.zone import zone_note
from memforest.models import BGE_SMALL, MINILM, CallableEmbedder, Embedder, best_installed, open_embedder
from memforest.models.openai_embed import open_embedding_endpoint
from memforest.ports import EmbedderSetting, is_embedder
from memforest.steps.choose import Steps
from memforest.store import derived, meta, migrations
from memforest.store.db import Database
from memforest.store.engine import check_cipher
from memforest.store.faults import RESTORE, mapped_errors
from memforest.store.files import OWN_DIRECTORY, State, state_of
from memforest.store.tx import Tx
from memforest.systems.attached import Attached
from memforest.text import cut

__all__ = [
    "Survey",
    "Unreadable",
    "check_embedder",
    "check_key",
    "embedder_for",
    "file_name",
    "has_memory",
    "is_own_name",
    "label_of",
    "make_directory",
    "memory_files",
    "open_memory",
    "owner_of",
    "survey",
]

_UNSAFE = re.compile(r"[^a-z0-9]+")
_SUFFIX = ".db"
SLUG_CHARS = 24
MOST_LABEL_CHARS = 64
_OWN_NAME = re.compile(rf"[a-z0-9-]{{1,{SLUG_CHARS}}}-[0-9a-f]{{20}}\.db")
LOOK_S = 2.0
"""How long listing waits for a file that another process is making, or holds locked."""
LOOK_AGAIN_S = 0.02
_NOT_PRIVATE = (
    "{0!r} belongs to somebody else, and others than its owner can read it; chmod 600 takes that away"
)
_UNFINISHED = "encrypting or decrypting {0!r} was interrupted, and what it was may still stand beside it; run the same command again"
SHORT_NAMES = {"minilm": MINILM.model_id, "bge": BGE_SMALL.model_id}
SHAPE_KEYS = ("cell_turns",)
"""Settings that a memory keeps from its first write, because its indexes have their shape by them."""


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


@dataclass(frozen=True, slots=True, repr=False)
class Unreadable(Result):
    """A file among the memories whose user could not be read: its name, and why."""

    file: str
    error: StoreError


@dataclass(frozen=True, slots=True, repr=False)
class Survey(Result):
    """The contents of a directory: the ids of all users with a memory, sorted, and the files that could not be read."""

    users: tuple[str, ...]
    unreadable: tuple[Unreadable, ...] = ()


def memory_files(directory: Path) -> list[Path]:
    """Return the files of a directory that may be memories, sorted; none when it does not exist. Opens no file.

    Raises:
        StoreError: if it is no directory, or cannot be listed.
    """
    try:
        found = sorted(directory.iterdir())  # `Path.glob` passes over what it may not list
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise _no_directory(directory) from None
    except OSError as exc:
        raise StoreError(f"{str(directory)!r} cannot be listed: {exc.strerror}") from exc
    return [path for path in found if path.suffix == _SUFFIX and "-" in path.name]


def is_own_name(name: str) -> bool:
    """Return whether a file's name is one that `file_name` makes."""
    return _OWN_NAME.fullmatch(name) is not None


def owner_of(path: Path, key: Key | FileKey | None = None) -> str | None:
    """Return the id of the user whose memory a file is, None when it was never begun. Writes nothing, makes no file.

    Waits up to `LOOK_S` for a file that is being made or locked. The id in an encrypted file takes its key to read.

    Raises:
        StoreError: if the file cannot be read as ours.
    """
    deadline = time.monotonic() + LOOK_S
    while True:
        before = _state(path)
        try:
            return _owner(path, key)
        except StoreError as exc:
            # A file without a log is read without locks; see `memforest.store.files.DatabaseFile`.
            changed = _state(path) != before
            if not (changed or isinstance(exc, StoreLockedError)) or time.monotonic() >= deadline:
                raise
            time.sleep(LOOK_AGAIN_S)


def _is_there(path: Path) -> bool:
    """Return whether there is a file of that name.

    Raises:
        StoreError: if that cannot be found out, or its directory is none.
    """
    with mapped_errors(path):
        if path.parent.exists() and not path.parent.is_dir():
            raise _no_directory(path.parent)
        return path.exists()


def _no_directory(path: Path) -> StoreError:
    return StoreError(f"{str(path)!r} is a file; name the directory that holds the memories")


def _state(path: Path) -> State | None:
    try:
        return state_of(path)
    except OSError:
        return None


def _owner(path: Path, key: Key | FileKey | None) -> str | None:
    db = Database(path, busy_timeout_s=LOOK_S, readonly=True, key=key)
    try:
        with db.read() as tx:
            return meta.get(tx, "user_id") if migrations.applied(tx) else None
    finally:
        db.close()


def has_memory(directory: Path, user_id: str, key: Key | None = None) -> bool:
    """Return whether a user has a memory; so does one whose file cannot be read, which the next call on it says.

    Raises:
        StoreError: if the directory cannot be used.
    """
    path = directory / file_name(user_id)
    if not _is_there(path):
        return False
    try:
        return owner_of(path, key) is not None
    except StoreError:
        return True


def survey(directory: Path, key: Key | None = None) -> Survey:
    """Return all users with a memory in a directory, and the files whose user could not be read.

    One file of another program, or a damaged one, says nothing against the memories beside it, nor does one that is
    encrypted with another key. Nothing is written.

    Raises:
        StoreError: if it is no directory, or cannot be listed.
    """
    users, unreadable = [], []
    key = key and key.now()
    for path in memory_files(directory):
        try:
            owner = owner_of(path, key)
        except StoreError as exc:
            unreadable.append(Unreadable(path.name, exc))
            continue
        if owner is not None:
            users.append(owner)
    return Survey(tuple(sorted(users)), tuple(unreadable))


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
    if not _is_there(path):
        _embedder(path, config, None, steps)  # one that cannot be had must not leave an empty memory behind
        make_directory(directory)
    if steps.calls is not None:
        steps.calls.check_trace()
    db = Database(path, busy_timeout_s=config.busy_timeout_s, key=Key.of(config.key))
    try:
        migrations.apply(db, config.clock())
        stored = _ensure_settings(db, user_id, config, label)
        opened = _embedder(path, config, None if other_embedder else stored.get("embedder"), steps)
        kept = replace(config, cell_turns=_cell_turns(path, stored["cell_turns"]))
        if kept.cell_turns != config.cell_turns:
            opened = replace(opened, cell_turns=config.cell_turns)
    except BaseException:
        db.close()
        raise
    if not db.file.private:
        opened = replace(opened, warnings=(*opened.warnings, _NOT_PRIVATE.format(path.name)))
    if db.file.unfinished:
        opened = replace(opened, warnings=(*opened.warnings, _UNFINISHED.format(path.name)))
    if note := zone_note(stored.get("timezone"), config.timezone):
        opened = replace(opened, warnings=(*opened.warnings, note))
    return Memory(db, user_id, stored["label"], kept, opened)


def _cell_turns(path: Path, stored: str) -> int:
    """Return how many turns a chunk of a memory has at most.

    Raises:
        CorruptStoreError: if what is stored is no such number.
    """
    if not re.fullmatch("[1-9][0-9]{0,8}", stored):
        raise CorruptStoreError(
            f"{path.name!r} is damaged: the setting 'cell_turns' is {cut(repr(stored), 40)}; {RESTORE}"
        )
    return int(stored)


def make_directory(directory: Path) -> None:
    """Make the directory, accessible to its owner alone; an existing one is left as it is.

    Raises:
        StoreWriteError: if it cannot be made.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.mkdir(mode=OWN_DIRECTORY)
        except FileExistsError:
            if not directory.is_dir():
                raise
        else:
            directory.chmod(OWN_DIRECTORY)  # a umask may take away the owner's rights too
    except OSError as exc:
        raise StoreWriteError(
            f"cannot make the directory {directory.name!r}: {exc.strerror}; choose another"
        ) from exc


def label_of(user_id: str) -> str:
    """Return the display name of a user that has been given none: their id, unless it is plainly no name."""
    return "user" if len(user_id) > MOST_LABEL_CHARS or is_id(user_id) else user_id


def _ensure_settings(db: Database, user_id: str, config: Config, label: str | None) -> dict[str, str]:
    """Return a memory's stored settings; a new memory gets its identity, settings and indexes first."""
    attached = Attached(config)
    with db.read() as tx:
        stored, behind, foreign = _stored(tx), attached.is_behind(tx), derived.foreign_words(tx)
    # A memory of an older version lacks the settings of what it did not have.
    lacks = [key for key in SHAPE_KEYS if stored[key] is None]
    recut = stored[words.KEY] != words.WORDS
    if (
        lacks
        or behind
        or recut
        or foreign
        or stored["user_id"] is None
        or (label is not None and stored["label"] != label)
    ):
        with db.write() as tx:
            if meta.get(tx, "user_id") is None:
                meta.put(tx, "user_id", user_id)
                meta.put(tx, "label", label or label_of(user_id))
            elif label is not None:
                meta.put(tx, "label", label)
            for key in lacks:
                if meta.get(tx, key) is None:
                    meta.put(tx, key, str(getattr(config, key)))
            if foreign:
                derived.plain_words(tx)
            if recut:
                words.renew_words(tx)
            attached.begin(tx)
            stored = _stored(tx)
    if stored["user_id"] != user_id:
        raise ForeignStoreError(f"{db.path.name!r} belongs to another user id; it was renamed or copied here")
    return {key: value for key, value in stored.items() if value is not None}


def _stored(tx: Tx) -> dict[str, str | None]:
    return {
        key: meta.get(tx, key)
        for key in ("user_id", "label", "embedder", "dimension", "timezone", words.KEY, *SHAPE_KEYS)
    }


def _embedder(path: Path, config: Config, have: str | None, steps: Steps) -> Opened:
    """Return the models to open a memory with; its first write records the embedder for good."""
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
        raise vectors.other_embedder(path, have, embedder.model_id)
    return Opened(embedder, steps, merge_threshold(embedder.model_id))


def embedder_for(config: Config, made_with: str) -> str | None:
    """Return the id of the embedder with which a memory that has vectors of one would be opened; None for none.

    Raises:
        ModelError: if the configured one is not installed.
    """
    if config.embedder != "auto":
        embedder = _configured(config.embedder)
        return None if embedder is None else embedder.model_id
    try:
        return open_embedder(made_with).model_id
    except ModelError:
        return None


def check_embedder(config: Config) -> None:
    """Raise if the configured embedder is not known by name, installed or not; load nothing.

    Raises:
        ConfigError: if there is no such embedder.
    """
    if isinstance(config.embedder, str) and config.embedder != "auto":
        with suppress(ModelError):
            _configured(config.embedder)


def check_key(config: Config) -> None:
    """Raise if there is a key and SQLCipher is not installed; load nothing.

    Raises:
        ConfigError: if that is so.
    """
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
