"""The salt of an encrypted memory, in a file beside it: without it no key opens the memory or a backup of it.

The file is a JSON object: ``salt`` (hexadecimal digits), ``keys`` (of each key that the memory may be encrypted with what
`memforest.keys.FileKey.check` says of it) and ``plain`` (whether it may be unencrypted). While a memory is encrypted,
decrypted or given another key, two of these hold, so that there is no moment at which the file tells less than is needed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memforest.errors import StoreKeyError
from memforest.keys import Key

OWN_FILE = 0o600
"""Mode of the files that we make: for their owner alone, whatever the umask."""
SALT_BYTES = 32
MOST_BYTES = 10_000
_DIGITS = re.compile("(?:[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class Salt:
    """The salt of a memory, and what its file may be."""

    salt: bytes
    checks: tuple[str, ...] = ()
    """Of each key that the file may be encrypted with."""
    plain: bool = False
    """Whether the file may be unencrypted."""


def salt_file(path: Path) -> Path:
    """Return the file that holds the salt of a memory's file."""
    return path.with_name(path.name + "-salt")


def new_salt() -> bytes:
    """Return a random salt."""
    return secrets.token_bytes(SALT_BYTES)


def read(path: Path) -> Salt | None:
    """Return the salt of a memory's file, None when it has none.

    Raises:
        StoreKeyError: if the file of the salt is damaged.
        OSError: if it cannot be read.
    """
    place = salt_file(path)
    try:
        with place.open("rb") as file:
            found = file.read(MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        return _parsed(json.loads(found))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StoreKeyError(
            f"the salt file {place.name!r} is damaged; put a copy of it back: without the salt no key opens {path.name!r}"
        ) from None


def _parsed(found: dict[str, object]) -> Salt:
    salt, keys, plain = found["salt"], found["keys"], found["plain"]
    if not isinstance(keys, list) or not isinstance(plain, bool):
        raise TypeError
    if not all(isinstance(one, str) and _DIGITS.fullmatch(one) for one in (salt, *keys)):
        raise ValueError
    return Salt(bytes.fromhex(str(salt)), tuple(map(str, keys)), plain)


def write(path: Path, salt: Salt) -> None:
    """Put the salt of a memory's file in the place of the one that is there, whole or not at all; durable on return.

    Raises:
        OSError: if it cannot be written.
    """
    made = _written(path, salt)
    try:
        made.replace(salt_file(path))
    except OSError:
        made.unlink()
        raise
    sync_directory(path.parent)


def make(path: Path, key: Key) -> tuple[Salt, bool]:
    """Return the salt of a new memory, and whether it was made here; another process may have made it just now.

    Raises:
        StoreKeyError: if the one that is there is damaged.
        OSError: if it cannot be written.
    """
    random = new_salt()
    salt = Salt(random, (key.of_file(random).check,))
    made = _written(path, salt)
    try:
        os.link(made, salt_file(path))  # unlike a renaming it puts nothing in the place of what is there
    except FileExistsError:
        return read(path) or salt, False
    except OSError:  # a file system without links
        if (found := read(path)) is not None:
            return found, False
        made.replace(salt_file(path))
    finally:
        made.unlink(missing_ok=True)
    sync_directory(path.parent)
    return salt, True


def _written(path: Path, salt: Salt) -> Path:
    """Write a salt to a new file beside its place and return that."""
    place = path.with_name(f"{salt_file(path).name}-{secrets.token_hex(8)}")
    text = json.dumps({"salt": salt.salt.hex(), "keys": list(salt.checks), "plain": salt.plain})
    number = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWN_FILE)
    try:
        with os.fdopen(number, "wb") as file:
            if sys.platform != "win32":
                os.fchmod(number, OWN_FILE)  # a umask may take away the owner's rights too
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(number)
    except OSError:
        place.unlink()
        raise
    return place


def remove_unfinished(path: Path) -> None:
    """Remove what writers of the salt of a memory's file have left that did not come to their end; none may be at work."""
    for one in path.parent.glob(f"{salt_file(path).name}-*"):
        one.unlink(missing_ok=True)


def erase(path: Path) -> None:
    """Erase the salt of a memory's file: from then on no key opens the file or any backup of it.

    The bytes are overwritten first; what the file system keeps of them elsewhere is out of reach.

    Raises:
        OSError: if it cannot be written.
    """
    remove_unfinished(path)
    place = salt_file(path)
    with suppress(FileNotFoundError):
        with place.open("r+b") as file:
            file.write(bytes(place.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        place.unlink()
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make durable which names a directory has; a no-op on Windows, which offers no such call."""
    if sys.platform == "win32":
        return
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
