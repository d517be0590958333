"""A small memory of people, places and firms: what the graph's verbs are tried on."""

from __future__ import annotations

from pathlib import Path

from memforest import Config, MemForest

__all__ = ["TOLD", "WHO", "remembered", "tell"]

WHO = "mara"
TOLD = (
    ("2024-01-05", "Mara", "I live in Porto with my sister Lucía."),
    ("2024-01-06", "Iven", "I work at Orrin Labs."),
    ("2024-02-01", "Mara", "Lucía works at Orrin Labs too."),
    ("2024-02-03", "Iven", "Mara visited Madrid in January."),
    ("2024-03-03", "Mara", "I moved to Lisbon."),
    ("2024-03-04", "Iven", "Lucia and I went to Kyoto."),
    ("2024-03-05", "Mara", "My dog is called Rex."),
    ("2024-04-01", "Iven", "Tomas Arlen plays the cello."),
    ("2024-04-02", "Mara", "Tom Arlen plays the cello every Sunday."),
)


def tell(forest: MemForest, told: tuple[tuple[str, str, str], ...] = TOLD, user: str = WHO) -> None:
    """Store each line as a session of its own."""
    for at, (when, who, text) in enumerate(told):
        forest.ingest_session(user, f"{when}-{at}", [{"speaker": who, "content": text, "timestamp": when}])


def remembered(folder: Path, config: Config | None = None) -> MemForest:
    """Return a forest with that memory."""
    forest = MemForest(folder, config or Config(embedder=None))
    tell(forest)
    return forest
