"""Which tools there are, what each may do, and the profiles that name them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations

from memforest.access import Scope
from memforest.errors import ConfigError
from memforest.mcp import asking, connectors, inspecting, writing
from memforest.mcp.schemas import compact, without

Profile = Literal["read", "default", "full", "openai"]


@dataclass(frozen=True, slots=True)
class Purpose:
    """A tool: its function, its title, and what a caller needs to be allowed."""

    function: Callable[..., Coroutine[Any, Any, Any]]
    title: str
    scope: Scope = "read"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.function.__name__

    @property
    def annotations(self) -> ToolAnnotations:
        """Hints for the host: nothing here reaches beyond the memory."""
        if self.scope == "read":
            return ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return ToolAnnotations(
            read_only_hint=False,
            destructive_hint=self.scope == "delete",
            open_world_hint=False,
        )


_READ = (
    Purpose(asking.search_memory, "Search memory"),
    Purpose(asking.ask_memory, "Ask memory"),
    Purpose(asking.get_timeline, "Timeline"),
    Purpose(asking.list_facts, "List facts"),
)
_DEFAULT = (
    *_READ,
    Purpose(writing.add_memory, "Remember", "write"),
    Purpose(writing.forget_memory, "Forget", "delete"),
)

PROFILES: dict[str, tuple[Purpose, ...]] = {
    "read": _READ,
    "default": _DEFAULT,
    "full": (
        *_DEFAULT,
        Purpose(writing.correct_memory, "Correct a fact", "write"),
        Purpose(inspecting.get_fact, "Show a fact"),
        Purpose(inspecting.list_sessions, "List conversations"),
        Purpose(inspecting.browse_tree, "Browse summaries"),
        Purpose(inspecting.memory_stats, "Count memories"),
    ),
    "openai": (*_DEFAULT, Purpose(connectors.search, "Search"), Purpose(connectors.fetch, "Fetch")),
}


def purposes(profile: str) -> tuple[Purpose, ...]:
    """Return the tools of a profile.

    Raises:
        ConfigError: if there is no such profile.
    """
    if profile not in PROFILES:
        raise ConfigError(f"tools={profile!r}: give one of {', '.join(PROFILES)}")
    return PROFILES[profile]


def tool_of(purpose: Purpose, *, fixed: bool) -> Tool:
    """Return a tool as the SDK keeps it, with compact schemas.

    Args:
        purpose: what it is.
        fixed: leave out the argument `user`.
    """
    function = without(purpose.function, "user") if fixed else purpose.function
    tool = Tool.from_function(
        function, name=purpose.name, title=purpose.title, annotations=purpose.annotations
    )
    tool.parameters = {**compact(tool.parameters), "additionalProperties": False}
    output = tool.fn_metadata.output_schema
    tool.fn_metadata.output_schema = None if output is None else compact(output, nested=False)
    return tool
