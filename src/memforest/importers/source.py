"""Files and the files of zip archives as streams that can be opened again; nothing is unpacked to disk.

What an archive says of its sizes is checked before anything is read, and what comes out of it while it is read: a
small archive that grows without bounds is refused. Names in an archive are labels and never paths of this machine.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from memforest.display import shown
from memforest.errors import InputError

MOST_UNPACKED = 64 * 1024**3
"""Bytes that the files of an archive may have together."""
MOST_RATIO = 200
"""Times its packed size that a file of an archive may have. Chats pack to a tenth; deflate at most to a thousandth."""
RATIO_FROM = 16 * 1024**2
"""Bytes from which the ratio counts: small files may well be repetitive."""
MOST_FILES = 1_000_000
"""Files that an archive may have."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_FAULTS = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What opening and reading raise: the system's errors, and those of an archive that is damaged or unusual."""


class DamagedError(InputError):
    """A file ends early or is damaged; what was read of it before is right."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that can be opened again and again; `name` is for messages, `size` its bytes where they are known."""

    name: str
    start: Callable[[], BinaryIO]
    size: int | None = None
    is_named: bool = True
    """Whether the name is the file's own."""
    archive: str | None = None
    """The name of the archive that it is in."""
    modified: str | None = None
    """When it was written, by the archive's clock, which tells no zone."""

    @property
    def stem(self) -> str:
        """The name without folders and ending; nothing for a file without a name of its own."""
        return _stem(self.name) if self.is_named else ""

    @property
    def archive_stem(self) -> str:
        """The name of its archive without ending; nothing without one."""
        return _stem(self.archive or "")

    @contextmanager
    def open(self) -> Iterator[Watched]:
        """Give the bytes from the start.

        Raises:
            InputError: if the file cannot be opened; reading raises `DamagedError` where it fails.
        """
        try:
            stream = self.start()
        except _FAULTS as exc:
            raise InputError(f"{self.name}: cannot be read: {_reason(exc)}") from exc
        try:
            yield Watched(stream, self.name, self.size)
        finally:
            stream.close()


class Watched:
    """Bytes of a file: an error of reading names the file, and what comes is counted against what was announced."""

    def __init__(self, stream: BinaryIO, name: str, most: int | None) -> None:
        self._stream, self._name, self._most = stream, name, most
        self.count = 0
        """Bytes read so far."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most so many; none at the end.

        Raises:
            DamagedError: if they cannot be read, or are more than the file should have.
        """
        try:
            data = self._stream.read(size)
        except _FAULTS as exc:
            raise DamagedError(f"the file is damaged or ends early ({_reason(exc)})") from exc
        self.count += len(data)
        if self._most is not None and self.count > self._most:
            raise DamagedError("more comes out of the archive than it announces; it looks like a zip bomb")
        return data


class Archive:
    """A zip archive: its files in order of their names, and those that are refused, with the reason."""

    def __init__(self, name: str, packed: BinaryIO) -> None:
        """Open an archive and check what it says of its files.

        Raises:
            InputError: if it is damaged, or grows beyond bounds.
        """
        self.name = name
        self.refused: list[tuple[str, str]] = []
        self._packed = packed
        try:
            self._zip = zipfile.ZipFile(packed)
        except _FAULTS as exc:
            packed.close()
            raise InputError(
                f"{name}: the zip archive is damaged or ends early ({_reason(exc)}); download it again"
            ) from exc
        try:
            self.files = self._checked(self._zip.infolist())
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Close the archive's file."""
        self._zip.close()
        self._packed.close()

    def _checked(self, entries: Sequence[zipfile.ZipInfo]) -> list[Source]:
        files = [one for one in entries if not one.is_dir()]
        if len(files) > MOST_FILES:
            raise InputError(f"{self.name}: the archive has {len(files)} files, more than {MOST_FILES}")
        whole = sum(one.file_size for one in files)
        if whole > MOST_UNPACKED:
            raise InputError(
                f"{self.name}: the archive unpacks to {whole:,} bytes, more than {MOST_UNPACKED:,}; it looks like a zip bomb"
            )
        found = []
        for one in sorted(files, key=lambda entry: entry.filename):
            if problem := _problem(one):
                self.refused.append((one.filename, problem))
            else:
                start: Any = partial(self._zip.open, one)
                # A zip archive that does not tell when has the year in which the format begins.
                written = (
                    "{}-{:02}-{:02} {:02}:{:02}:{:02}".format(*one.date_time)
                    if one.date_time > (1981,)
                    else None
                )
                found.append(Source(one.filename, start, one.file_size, archive=self.name, modified=written))
        packed = sum(one.compress_size for one in files)
        if whole > RATIO_FROM and whole > MOST_RATIO * max(1, packed):
            raise InputError(
                f"{self.name}: the archive unpacks to {whole // max(1, packed)} times its size; it looks like a zip bomb"
            )
        return found


def _stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _problem(entry: zipfile.ZipInfo) -> str | None:
    """Return why a file of an archive is not read; None when it may be."""
    parts = entry.filename.replace("\\", "/").split("/")
    if ".." in parts or entry.filename[:1] in "/\\" or ":" in parts[0]:
        return "its path leads out of the archive"
    if entry.flag_bits & 1:
        return "it is encrypted; unpack the archive with its password and zip it again"
    if entry.file_size > RATIO_FROM and entry.file_size > MOST_RATIO * max(1, entry.compress_size):
        return f"it unpacks to {entry.file_size // max(1, entry.compress_size)} times its size, as a zip bomb does"
    return None


def open_source(file: str | os.PathLike[str] | BinaryIO, name: str | None = None) -> Source | Archive:
    """Return a file, or an archive where it is one; what cannot be read twice, such as a pipe, is read into memory.

    Args:
        file: a path, or a file that is open for reading bytes.
        name: what the file is called in messages; its own name when not given.

    Raises:
        InputError: if the file cannot be read, is a directory, or is an archive that is damaged or grows beyond bounds.
    """
    path = Path(file) if isinstance(file, (str, os.PathLike)) else None
    known = path if path is not None else getattr(file, "name", None)
    is_named = isinstance(known, (str, Path)) and not str(known).startswith("<")
    label = name or (
        Path(str(known)).name if is_named else "standard input" if known == "<stdin>" else "the file"
    )
    data = _regular(path, label) if path is not None else _content(file, label)

    def start() -> BinaryIO:
        return path.open("rb") if path is not None and data is None else io.BytesIO(data or b"")

    source = Source(label, start, is_named=is_named or name is not None)
    with source.open() as stream:
        is_zip = stream.read(4) in _ZIP
    return Archive(label, start()) if is_zip else source


def _regular(path: Path, label: str) -> bytes | None:
    """Return None for a file that can be read again, and what comes out of one that cannot, such as a pipe."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{label} is a directory; name the files in it, or put it into a zip archive")
        return None if stat.S_ISREG(mode) else path.read_bytes()
    except (OSError, ValueError) as exc:
        raise InputError(f"cannot read {shown(str(path), 300)}: {_reason(exc)}") from exc


def _content(file: object, label: str) -> bytes:
    read = getattr(file, "read", None)
    if not callable(read):
        raise InputError(f"the file must be a path or a file open for reading bytes, not {shown(file)}")
    content = read()
    if not isinstance(content, bytes):
        raise InputError(f"{label} is open for reading text; open it for reading bytes (mode 'rb')")
    return content


def _reason(exc: Exception) -> str:
    return str(exc.strerror or exc) if isinstance(exc, OSError) else str(exc)
