"""Claude's memory tool (``memory_20250818``) over a user's memory: the files below ``/memories`` are kept and remembered there.

A command has the outcome of the SDK's tool for local files, with the same texts. Below ``/memories/_timeline`` are files that cannot be
written: what is known of each entity, in time order.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from memforest import _sync
from memforest.concurrency import Turns
from memforest.errors import InputError, MemForestError, NotFoundError
from memforest.integrations.adapter import Bridge, entry_line, needs
from memforest.integrations.documents import Documents, Put
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.times import one_line
from memforest.write.turns import check_id

with needs(("anthropic", "2.12", "3")):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

__all__ = ["AsyncMemForestMemoryTool", "MemForestMemoryTool"]

ROOT = "/memories"
TIMELINES = f"{ROOT}/_timeline"
_MOST_LINES = 999_999
_MOST_TIMELINES = 100
_FOLDER_BYTES = 4096
"""What a folder is shown to weigh, as most file systems have it."""


class AsyncMemForestMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for a client that waits: ``client.beta.messages.run_tools(tools=[tool], …)``.

    Args:
        forest: the memories.
        user: whose memory.
        options: of `Bridge`.
    """

    def __init__(self, forest: AsyncMemForest | MemForest, user: str, **options: Any) -> None:
        super().__init__()
        self._bridge, self._user = Bridge(forest, **options), check_id(user, "user")
        self._documents, self._turns = Documents(self._bridge, "claude"), Turns()

    async def execute(self, command: Any) -> str:
        """Run a command; one after the other.

        Raises:
            ToolError: if it is not possible, or the memory fails; the message is for the model.
        """
        async with self._turns.turn():
            try:
                return str(await super().execute(command))
            except MemForestError as exc:
                if self._bridge.strict:
                    raise
                raise ToolError(f"The memory failed: {exc}") from exc

    async def _files(self) -> dict[str, str]:
        """Return path -> content of all files, and folders, which end in a slash."""
        return {one.name[0]: str(one.value) for one in await self._documents.find(self._user)}

    async def _put(self, files: Mapping[str, str]) -> None:
        puts = [Put(self._user, (path,), text, text or None) for path, text in files.items()]
        await self._documents.put(puts)

    async def _file(self, path: str, name: str) -> str:
        """Return the content of a file that is to be changed."""
        files = await self._files()
        if name in files and name != ROOT:
            return files[name]
        if _is_folder(files, name):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    async def view(self, command: Any) -> str:
        """Return the lines of a file, numbered, or what is in a folder, two levels deep."""
        path, name = command.path, _read(command.path)
        if name == TIMELINES or name.startswith(f"{TIMELINES}/"):
            return await self._timeline(path, name, command)
        files = await self._files()
        if name in files:
            return _numbered(path, files[name], command.view_range)
        if not _is_folder(files, name):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return _listing(
            path,
            {one.removeprefix(f"{name}/"): text for one, text in files.items() if one.startswith(f"{name}/")},
        )

    async def _timeline(self, path: str, name: str, command: Any) -> str:
        memory = self._bridge.forest.user(self._user)
        if name == TIMELINES:
            found = await memory.entities(limit=_MOST_TIMELINES)
            return _listing(path, {f"{one_line(one.name).replace('/', '_')}.md": "" for one in found})
        entity = name[len(TIMELINES) + 1 :].removesuffix(".md")
        try:
            page = await memory.timeline(entity)
        except (NotFoundError, InputError):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.") from None
        return _numbered(path, "\n".join(map(entry_line, page)), command.view_range)

    async def create(self, command: Any) -> str:
        """Write a new file."""
        path, name = command.path, _read(command.path, writes=True)
        files = await self._files()
        _parents(files, path, name)
        if name in files or _is_folder(files, name):
            raise ToolError(f"File {path} already exists")
        await self._put({**_folders(files, name), name: command.file_text})
        return f"File created successfully at: {path}"

    async def str_replace(self, command: Any) -> str:
        """Replace a text that is in a file just once."""
        path, name, old = command.path, _read(command.path, writes=True), command.old_str
        content = await self._file(path, name)
        places = [found.start() for found in re.finditer(f"(?={re.escape(old)})", content)]
        if not places:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if content.count(old) > 1:
            lines = ", ".join(str(content.count("\n", 0, at) + 1) for at in places)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
            )
        new = content.replace(old, command.new_str)
        await self._put({name: new})
        first = max(0, content.count("\n", 0, places[0]) - 2)
        shown = new.split("\n")[first : content.count("\n", 0, places[0]) + 3]
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([head, *_lines(shown, first + 1)])

    async def insert(self, command: Any) -> str:
        """Put a text behind a line of a file; 0 is the beginning."""
        path, name, at = command.path, _read(command.path, writes=True), command.insert_line
        lines = (await self._file(path, name)).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= at <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(at, command.insert_text.rstrip("\n"))
        text = "\n".join(lines)
        await self._put({name: text if text.endswith("\n") else f"{text}\n"})
        return f"The file {path} has been edited."

    async def delete(self, command: Any) -> str:
        """Delete a file, or a folder with all that is in it, and what was learnt from it."""
        path, name = command.path, _read(command.path, writes=True)
        if name == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        gone = [one for one in await self._files() if one == name or one.startswith(f"{name}/")]
        if not gone:
            raise ToolError(f"The path {path} does not exist")
        for one in gone:
            await self._documents.delete(self._user, (one,))
        return f"Successfully deleted {path}"

    async def rename(self, command: Any) -> str:
        """Give a file or a folder another name, or place."""
        old, new = _read(command.old_path, writes=True), _read(command.new_path, writes=True)
        files = await self._files()
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if new in files or _is_folder(files, new):
            raise ToolError(f"The destination {command.new_path} already exists")
        moved = {one: text for one, text in files.items() if one == old or one.startswith(f"{old}/")}
        _parents(files, command.new_path, new)
        if not moved:
            await self._put(_folders(files, new))
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"Cannot move {command.old_path} into itself")
        await self._put(
            {**_folders(files, new), **{f"{new}{one[len(old) :]}": text for one, text in moved.items()}}
        )
        for one in moved:
            await self._documents.delete(self._user, (one,))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear_all_memory(self) -> str:
        """Delete all files; what was said elsewhere stays."""
        for name in await self._files():
            await self._documents.delete(self._user, (name,))
        return "All memory cleared"


class MemForestMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for a client that blocks; the arguments are those of `AsyncMemForestMemoryTool`."""

    def __init__(self, forest: AsyncMemForest | MemForest, user: str, **options: Any) -> None:
        super().__init__()
        self._async = AsyncMemForestMemoryTool(forest, user, **options)

    def execute(self, command: Any) -> str:
        """Run a command; see `AsyncMemForestMemoryTool.execute`."""
        return _sync.run(self._async.execute(command))

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Delete all files; what was said elsewhere stays."""
        return _sync.run(self._async.clear_all_memory())


def _read(path: str, *, writes: bool = False) -> str:
    """Return a path below the root without what changes nothing.

    Raises:
        ToolError: if it leads out of the root, or is to be written and may not.
    """
    plain = unquote(unquote(path)).replace("\\", "/")
    if not path.startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    name = posixpath.normpath(f"{ROOT}/{path[len(ROOT) :].lstrip('/')}")
    if ".." in plain.split("/") or "\0" in plain or not f"{name}/".startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    if writes and f"{name}/".startswith(f"{TIMELINES}/"):
        raise ToolError(f"The path {path} is made of what is known, and cannot be written")
    return name


def _is_folder(files: Mapping[str, str], name: str) -> bool:
    return name == ROOT or any(one.startswith(f"{name}/") for one in files)


def _folders(files: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the folders that a file needs and that are not there yet; each is a document whose name ends in a slash."""
    parts = name.split("/")
    above = ["/".join([*parts[:at], ""]) for at in range(3, len(parts))]
    return {one: "" for one in above if one not in files}


def _parents(files: Mapping[str, str], path: str, name: str) -> None:
    """Raise if a file is where a folder would have to be."""
    parts = name.split("/")
    for above in ("/".join(parts[:at]) for at in range(3, len(parts))):
        if above in files:
            raise ToolError(f"Cannot write {path}: {above} is a file")


def _lines(lines: list[str], first: int) -> list[str]:
    return [f"{number:>6}\t{line}" for number, line in enumerate(lines, first)]


def _numbered(path: str, content: str, view_range: Any) -> str:
    lines, first = content.split("\n"), 1
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0])
        lines = lines[first - 1 : len(lines) if view_range[1] == -1 else view_range[1]]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(_lines(lines, first))


def _listing(path: str, files: Mapping[str, str]) -> str:
    """Return the files of a folder, by their paths in it, with their sizes."""
    sizes: dict[tuple[str, ...], str] = {}
    for name, text in files.items():
        parts = name.split("/")
        hidden = next((n for n, part in enumerate(parts) if part.startswith(".")), len(parts))
        for depth in range(1, min(2, len(parts) - 1, hidden) + 1):
            sizes[tuple(parts[:depth])] = f"{_size(_FOLDER_BYTES)}\t{path}/{'/'.join(parts[:depth])}/"
        if len(parts) <= 2 and hidden == len(parts) and parts[-1]:
            sizes[tuple(parts)] = f"{_size(len(text.encode()))}\t{path}/{name}"
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join([head, f"{_size(_FOLDER_BYTES)}\t{path}", *(sizes[one] for one in sorted(sizes))])


def _size(count: int) -> str:
    """Return a number of bytes as people write it: "0B", "1.5K"."""
    power = min(3, max(0, count.bit_length() - 1) // 10)
    size = count / 1024**power
    return f"{size:.0f}{'BKMG'[power]}" if size == int(size) else f"{size:.1f}{'BKMG'[power]}"
