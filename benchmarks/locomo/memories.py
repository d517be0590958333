"""Conversations as memories, through the public surface of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from locomo.conversations import Conversation
from memforest import IngestResult, MemForest

__all__ = ["build", "requests_of"]


def requests_of(conversation: Conversation, user: str, *, infer: bool = True) -> list[dict[str, Any]]:
    """Return a conversation's sessions as arguments of `ingest_session`."""
    return [
        {
            "user_id": user,
            "session_id": session.session_id,
            "turns": session.turns,
            "timestamp": session.timestamp,
            "infer": infer,
        }
        for session in conversation.sessions
    ]


def build(forest: MemForest, conversations: Sequence[Conversation], *, infer: bool = True) -> list[str]:
    """Ingest what is not there yet, one memory per conversation, and return the ids that were.

    Raises:
        MemForestError: if a session is refused.
    """
    made = []
    for conversation in conversations:
        if forest.has_user(conversation.id):
            continue
        for result in forest.ingest_parallel(requests_of(conversation, conversation.id, infer=infer)):
            if not isinstance(result, IngestResult):
                raise result
        made.append(conversation.id)
    return made
