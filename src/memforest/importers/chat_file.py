"""A chat file as a whole: its format is told, or taken as stated, and its sessions are read as often as wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from memforest.display import listed, shown
from memforest.errors import InputError
from memforest.importers.formats import Format, format_named, format_of, format_of_archive
from memforest.importers.messages import SHAPES
from memforest.importers.parts import FileSession, ReadOptions, Skips
from memforest.importers.reading import JsonShape, Reading, kind_of
from memforest.importers.sample import Sample, take_sample
from memforest.importers.source import Archive, DamagedError, Source, open_source

NO_CHAT = "file of the archive that is no chat"


@dataclass(frozen=True, slots=True)
class _Part:
    """A file that is read, with its format."""

    source: Source
    format: Format
    shape: JsonShape | None

    def sessions(self, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
        """Yield its sessions."""
        if self.format.read is not None:
            yield from self.format.read(Reading(self.source, options, skips, self.shape))


class ChatFile:
    """A chat file that is open; made by `open_chat`, and closed by `close` or as a context manager."""

    def __init__(
        self, name: str, parts: list[_Part], archive: Archive | None = None, *, whole: Format | None = None
    ) -> None:
        self.name = name
        self._parts = parts
        self._archive = archive
        self._whole = whole

    @property
    def format(self) -> str:
        """Name of the format; several, with commas, of an archive of several."""
        found = [self._whole] if self._whole else [part.format for part in self._parts]
        return ", ".join(dict.fromkeys(one.name for one in found))

    def sessions(self, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
        """Yield the sessions, of which only those that are being read are held; `skips` gets what is not read.

        Session ids are unique for each user.

        Raises:
            InputError: if the file cannot be read as its format, or nothing tells the order of its dates.
        """
        seen: set[tuple[str | None, str]] = set()
        for session in self._read(options, skips):
            key = (session.user, session.session_id)
            if key in seen:
                skips.fail(
                    session.where,
                    f"the session id {shown(session.session_id)} came before; ids are unique in a file",
                )
                continue
            seen.add(key)
            yield _owned(session, options.owner)

    def _read(self, options: ReadOptions, skips: Skips) -> Iterator[FileSession]:
        if self._archive is None:
            yield from self._parts[0].sessions(options, skips)
            return
        for where, reason in self._archive.refused:
            skips.fail(where, reason)
        if self._whole is not None and self._whole.read_archive is not None:
            yield from self._read_whole(options, skips, self._archive)
            return
        known = {where for where, _ in self._archive.refused} | {part.source.name for part in self._parts}
        skips.leave_out(NO_CHAT, sum(source.name not in known for source in self._archive.files))
        for part in self._parts:
            own = Skips()
            try:
                for session in part.sessions(options, own):
                    yield replace(session, where=_joined(part.source.name, session.where))
            except InputError as exc:
                own.fail("", str(exc))
            skips.add(own, part.source.name)

    def _read_whole(self, options: ReadOptions, skips: Skips, archive: Archive) -> Iterator[FileSession]:
        readings = [Reading(source, options) for source in archive.files]
        whole = self._whole
        if whole is not None and whole.read_archive is not None:
            yield from whole.read_archive(
                readings, Reading(Source(self.name, archive.files[0].start), options, skips)
            )
        for reading in readings:
            skips.add(reading.skips, reading.source.name)

    def close(self) -> None:
        """Close an archive's file."""
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> ChatFile:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def open_chat(
    file: str | os.PathLike[str] | BinaryIO, *, name: str | None = None, format: str | None = None
) -> ChatFile:
    """Open a chat file or an archive of chat files, and tell its format by what is in it.

    Args:
        file: a path, or a file that is open for reading bytes.
        name: what it is called in messages; its own name when not given.
        format: the name of its format, if it is not to be told by its content.

    Raises:
        InputError: if it cannot be read, is empty, binary or damaged, or no chat of a known format.
    """
    stated = None if format is None else format_named(format)
    opened = open_source(file, name)
    if isinstance(opened, Archive):
        try:
            return _open_archive(opened, stated)
        except InputError:
            opened.close()
            raise
    sample = take_sample(opened)
    found = stated or format_of(sample)
    if found is None or found.read is None:
        raise InputError(_unread(sample, found))
    return ChatFile(opened.name, [_Part(opened, found, sample.shape)])


def _open_archive(archive: Archive, stated: Format | None) -> ChatFile:
    names = [source.name for source in archive.files]
    whole = format_of_archive(names) if stated is None else stated if stated.read_archive else None
    if whole is not None and archive.files:
        return ChatFile(archive.name, [], archive, whole=whole)
    parts = []
    for source in archive.files:
        try:
            sample = take_sample(source)
        except DamagedError as exc:
            archive.refused.append((source.name, str(exc).removeprefix(f"{source.name}: ")))
            continue
        except InputError:
            continue  # a picture, say; it is counted among the files that are no chat
        found = format_of(sample)
        if found is not None and found.read is None:
            archive.refused.append((source.name, f"this looks like {found.title}"))
        elif found is not None and (stated is None or found is stated):
            parts.append(_Part(source, found, sample.shape))
    if stated is None and any(not part.format.is_plain for part in parts):
        parts = [part for part in parts if not part.format.is_plain]
    if not parts:
        wanted = "a known format" if stated is None else f"the format {stated.name!r}"
        more = f"; {archive.refused[0][0]}: {archive.refused[0][1]}" if archive.refused else ""
        raise InputError(
            f"{archive.name}: the archive has {len(names)} files, and none is a chat of {wanted}{more}"
        )
    return ChatFile(archive.name, parts, archive)


def read_sessions(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    name: str | None = None,
    format: str | None = None,
    options: ReadOptions | None = None,
) -> list[FileSession]:
    """Return all sessions of a chat file at once.

    Raises:
        InputError: as `open_chat`; and if any part of the file cannot be read.
    """
    skips = Skips()
    with open_chat(file, name=name, format=format) as chat:
        found = list(chat.sessions(options or ReadOptions(), skips))
    if skips.wrong:
        raise InputError(_joined(chat.name, str(skips.wrong[0])))
    return found


def _joined(name: str, where: str) -> str:
    return f"{name}, {where}" if where else name


def _owned(session: FileSession, owner: str | None) -> FileSession:
    """Return a session in which the turns of the memory's owner have the role ``user``."""
    if owner is None or not any(_is_by(turn, owner) for turn in session.turns):
        return session
    return replace(
        session,
        turns=tuple({**turn, "role": "user"} if _is_by(turn, owner) else turn for turn in session.turns),
    )


def _is_by(turn: Mapping[str, object], owner: str) -> bool:
    speaker = turn.get("speaker")
    return isinstance(speaker, str) and "role" not in turn and speaker.casefold() == owner.casefold()


def _unread(sample: Sample, known: Format | None) -> str:
    """Say what is wrong with a file of no format that is read: what it looks like, or what is in it."""
    name = sample.name
    if sample.fault:
        return f"{name}, {sample.fault}"
    if sample.shape is not None and not sample.objects and not sample.items:
        return f"{name}: {'the list is empty' if sample.shape == 'array' else 'the object has no keys'}; it should hold {SHAPES}"
    if sample.shape is not None:
        wrong = next((n for n, one in enumerate(sample.items) if not isinstance(one, Mapping)), None)
        if wrong is not None:
            kind = kind_of(sample.items[wrong])
            return f"{name}, item {wrong}: there is a {kind} where a message should be: {SHAPES}"
        looks = f"this looks like {known.title}: " if known else ""
        return f"{name}: {looks}{_seen(sample)}; the file should hold {SHAPES}"
    return (
        f"{name}, line 1: this is no chat of a known format; it should hold {SHAPES}. If it is one, name it with format "
        "(--format)"
    )


def _seen(sample: Sample) -> str:
    """Return which keys the values of a file have, and those of its messages where they hold some."""
    outer, inner = sample.objects[0], sample.messages
    what = "the object has" if sample.shape == "object" else "the objects have"
    within = f", and its messages {listed(inner[0])}" if inner and inner[0] is not outer else ""
    return f"{what} {listed(outer)}{within}"
