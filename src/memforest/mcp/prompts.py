"""Prompts that a person picks: what memory recalls on a question, and what has changed since a time."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from memforest.mcp.arguments import User, given
from memforest.mcp.desk import memory_of
from memforest.mcp.quoted import found_text, quote, quoted
from memforest.memory.results import Change

MOST_TOKENS = 2_000
MOST_CHANGES = 100


async def recall(
    ctx: Context, question: Annotated[str, Field(description="What to recall")], user: User
) -> str:
    """Answer a question from what memory recalls."""
    async with memory_of(ctx, user, "read") as memory:
        result = await memory.search(question, max_tokens=MOST_TOKENS)
    return (
        f"Answer this question from the evidence below, and say so if it does not answer it: {quote(question)}\n\n"
        f"{found_text(result)}"
    )


async def what_changed(
    ctx: Context,
    since: Annotated[str, Field(description="ISO 8601")],
    user: User,
    until: Annotated[str, Field(description="ISO 8601; now if left out")] = "",
) -> str:
    """Sum up what memory has learnt, corrected and forgotten since a time."""
    async with memory_of(ctx, user, "read") as memory:
        page = await memory.changes(since, given(until), limit=MOST_CHANGES)
    more = f"\nThere are more than these {MOST_CHANGES}." if page.next else ""
    lines = quoted([_line(one) for one in page], "Nothing has changed.")
    return f"Sum up for me what has changed in my memory since {quote(since)}.\n\n{lines}{more}"


def _line(one: Change) -> str:
    count = f" {one.count}" if one.count > 1 else ""
    about = [quote(text) for text in (one.text or one.session_id,) if text]
    superseded = f" instead of {', '.join(quote(text) for text in one.superseded)}" if one.superseded else ""
    words = [word for word in (one.kind + count, one.what, *about) if word]
    return f"{one.at:%Y-%m-%d %H:%M} UTC, {' '.join(words)}{superseded}"


PROMPTS = (recall, what_changed)
