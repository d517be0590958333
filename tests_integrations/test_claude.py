"""Claude's memory tool: the outcome of every command is that of the SDK's tool for local files."""

from __future__ import annotations

import re
import tempfile
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from memforest import AsyncMemForest, Config, MemForest
from memforest.integrations.claude import AsyncMemForestMemoryTool, MemForestMemoryTool
from memforest.testing import FrozenClock, HashEmbedder

PATHS = st.sampled_from(
    ["/memories", "/memories/a.txt", "/memories/d", "/memories/d/b.md", "/memories/d/e/c", "/memories/.h"]
)
TEXTS = st.sampled_from(["", "one\n", "one\ntwo\none", "I live in Porto.\n", "aaa", "x\r\ny"])


def outcome(tool: Any, command: str, **given: Any) -> str:
    """Return what a command says, or the message of its error; sizes of folders are those of a file system."""
    try:
        told = tool.call({"command": command, **given})
    except ToolError as exc:
        return f"error: {exc}"
    except OSError:
        return "error"
    return re.sub(r"^\S+(\t\S*(?:/|/memories|/d|/d/e))$", r"*\1", told, flags=re.MULTILINE)


class FileMachine(RuleBasedStateMachine):
    """Both tools get the same commands, and say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.files = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
        self.forest = MemForest(self.folder.name, Config(embedder=HashEmbedder()))
        self.ours = MemForestMemoryTool(self.forest, "bob", strict=True)
        self.theirs = BetaLocalFilesystemMemoryTool(self.files.name)

    def teardown(self) -> None:
        """Close."""
        self.forest.close()
        self.folder.cleanup()
        self.files.cleanup()

    def alike(self, command: str, **given: Any) -> None:
        """Check one command."""
        one, other = outcome(self.ours, command, **given), outcome(self.theirs, command, **given)
        assert one == other or (other == "error" and one.startswith("error")), (command, given)

    @rule(path=PATHS, lines=st.sampled_from([None, [1, 1], [2, -1], [0, 9], [3, 1]]))
    def view(self, path: str, lines: Any) -> None:
        """Look."""
        self.alike("view", path=path, view_range=lines)

    @rule(path=PATHS, text=TEXTS)
    def create(self, path: str, text: str) -> None:
        """Write a file."""
        self.alike("create", path=path, file_text=text)

    @rule(path=PATHS, old=st.sampled_from(["one", "aa", "I", "\n", "nowhere"]), new=TEXTS)
    def str_replace(self, path: str, old: str, new: str) -> None:
        """Change a file."""
        self.alike("str_replace", path=path, old_str=old, new_str=new)

    @rule(path=PATHS, line=st.integers(-1, 3), text=TEXTS)
    def insert(self, path: str, line: int, text: str) -> None:
        """Put a text into a file."""
        self.alike("insert", path=path, insert_line=line, insert_text=text)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        """Delete."""
        self.alike("delete", path=path)

    @rule(path=PATHS, new=PATHS)
    def rename(self, path: str, new: str) -> None:
        """Move."""
        self.alike("rename", old_path=path, new_path=new)


TestFileMachine = FileMachine.TestCase


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/memories/../etc", "../memories", "/memories/%2e%2e/x", "/memories/%252e%252e/x", "/memories/a/../../b",
     "/memories/..\\x", "/memories/\0", "memories/a", "", "/memories/%2e./x"],
)  # fmt: skip
async def test_no_path_leads_out(forest: AsyncMemForest, path: str) -> None:
    """Absolute paths, dots and encoded dots are refused by every command."""
    tool = AsyncMemForestMemoryTool(forest, "bob")
    for given in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ):
        with pytest.raises(ToolError, match="Path"):
            await tool.call(given)


async def test_files_are_remembered_and_timelines_are_read(
    forest: AsyncMemForest, clock: FrozenClock
) -> None:
    """What a file says is found as memory, its entities have timelines, and nothing is left of it when it is deleted."""
    tool = AsyncMemForestMemoryTool(forest, "bob", strict=True)
    await tool.call({"command": "create", "path": "/memories/home.md", "file_text": "I live in Porto."})
    clock.advance(days=150)
    await tool.call({"command": "create", "path": "/memories/new.md", "file_text": "I moved to Lisbon."})
    assert "Lisbon" in (await forest.query("bob", "Where does bob live?")).evidence[0].text
    told = await tool.call({"command": "view", "path": "/memories/_timeline/bob.md"})
    assert "2023-01-09 to 2023-06-08" in told
    assert "bob.md" in await tool.call({"command": "view", "path": "/memories/_timeline"})
    for command in (
        {"command": "delete", "path": "/memories/_timeline"},
        {"command": "create", "path": "/memories/_timeline/x", "file_text": ""},
    ):
        with pytest.raises(ToolError, match="cannot be written"):
            await tool.call(command)
    other = AsyncMemForestMemoryTool(forest, "eve", strict=True)
    assert "home.md" not in await other.call({"command": "view", "path": "/memories"})
    await tool.call({"command": "delete", "path": "/memories/home.md"})
    assert (await forest.user("bob").verify(deleted=["Porto"])).ok


async def test_a_damaged_memory_is_told_to_the_model(forest: AsyncMemForest) -> None:
    """The run goes on with an error of the tool; strict raises."""
    tool = AsyncMemForestMemoryTool(forest, "bob")
    await tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
    await forest.close()
    for path in forest.directory.glob("*.db"):
        path.write_bytes(b"no database " * 999)
    with pytest.raises(ToolError, match="The memory failed"):
        await tool.call({"command": "view", "path": "/memories"})
