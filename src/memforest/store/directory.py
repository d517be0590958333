"""The memories of a directory: the names of their files, whose they are, and who has one."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from memforest.errors import StoreError, StoreLockedError, StoreWriteError
from memforest.plain import Result
from memforest.protection import AnyKey, Key
from memforest.store import meta
from memforest.store.connections import mapped_errors
from memforest.store.database import Database, version
from memforest.store.files import OWN_DIRECTORY, State, state_of

_UNSAFE = re.compile(r"[^a-z0-9]+")
_SUFFIX = ".db"
SLUG_CHARS = 24
_OWN_NAME = re.compile(rf"[a-z0-9-]{{1,{SLUG_CHARS}}}-[0-9a-f]{{20}}\.db")
LOOK_S = 2.0
"""How long listing waits for a file that another process is making, or holds locked."""
LOOK_AGAIN_S = 0.02


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


def owner_of(path: Path, key: AnyKey | None = None) -> str | None:
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


def is_there(path: Path) -> bool:
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


def _owner(path: Path, key: AnyKey | None) -> str | None:
    db = Database(path, busy_timeout_s=LOOK_S, readonly=True, key=key)
    try:
        with db.read() as tx:
            return meta.get(tx, "user_id") if version(tx) else None
    finally:
        db.close()


def has_memory(directory: Path, user_id: str, key: Key | None = None) -> bool:
    """Return whether a user has a memory; so does one whose file cannot be read, which the next call on it says.

    Raises:
        StoreError: if the directory cannot be used.
    """
    path = directory / file_name(user_id)
    if not is_there(path):
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
    found, _ = survey_after(directory, None, sys.maxsize, key)
    return Survey(tuple(sorted(found.users)), found.unreadable)


def survey_after(
    directory: Path, after: str | None, most: int, key: Key | None = None
) -> tuple[Survey, str | None]:
    """Return users with a memory by the names of their files, and the name to go on from; None when these are the last.

    Only the files of these users are opened.

    Args:
        directory: of the memories.
        after: the name of the file behind which to begin; None for the start.
        most: how many users.
        key: of encrypted memories.

    Raises:
        StoreError: if it is no directory, or cannot be listed.
    """
    users: list[str] = []
    unreadable: list[Unreadable] = []
    key = key and key.now()
    last = None
    for path in memory_files(directory):
        if after is not None and path.name <= after:
            continue
        if len(users) == most:
            return Survey(tuple(users), tuple(unreadable)), last
        last = path.name
        try:
            owner = owner_of(path, key)
        except StoreError as exc:
            unreadable.append(Unreadable(path.name, exc))
        else:
            users += [] if owner is None else [owner]
    return Survey(tuple(users), tuple(unreadable)), None


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
