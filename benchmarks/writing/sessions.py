"""The sessions that are written: of a LoCoMo file, or of the conversation that the package's demo shows."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from memforest.importers.detect import read_sessions as read_file_sessions
from memforest.importers.files import FileSession

__all__ = ["DEMO", "USER", "Session", "read_sessions"]

DEMO = "nora_and_mateo.json"
USER = "reader"


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it arrives."""

    id: str
    turns: tuple[Mapping[str, Any], ...]
    timestamp: str | int | float | None

    def request(self, user: str = USER) -> dict[str, Any]:
        """Return the arguments of `ingest_session`."""
        return {
            "user_id": user,
            "session_id": self.id,
            "turns": self.turns,
            "timestamp": self.timestamp,
        }

    def spoken(self) -> list[dict[str, str]]:
        """Return speaker and text of every turn; a picture's caption stands in the text, as memforest has it."""
        said = []
        for turn in self.turns:
            text = str(turn.get("text", turn.get("content", "")))
            caption = turn.get("blip_caption") or turn.get("caption")
            said.append(
                {
                    "speaker": str(turn.get("speaker", turn.get("role", "user"))),
                    "text": f"{text} [image: {caption}]".strip() if caption else text,
                }
            )
        return said


def read_sessions(
    path: Path | None, conversation: str | None = None, most: int | None = 10
) -> tuple[str, Sequence[Session]]:
    """Return a conversation's name and its first sessions; the demo's when there is no file.

    Args:
        path: a LoCoMo file.
        conversation: which of its conversations; the first when None.
        most: how many sessions; None is all.

    Raises:
        InputError: if the file is no conversation.
        ValueError: if the file has no such conversation.
    """
    name = DEMO if path is None else path.name
    file = path or io.BytesIO((files("memforest.data") / "demo" / DEMO).read_bytes())
    memories: dict[str, list[FileSession]] = {}
    for one in read_file_sessions(file, name=name):
        memories.setdefault(one.user or name, []).append(one)
    chosen = next(iter(memories)) if conversation is None else conversation
    if chosen not in memories:
        raise ValueError(f"there is no conversation {chosen!r}; the file has {', '.join(memories)}")
    found = memories[chosen][:most]
    return chosen, [Session(one.session_id, one.turns, one.timestamp) for one in found]
