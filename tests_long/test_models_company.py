"""A text's stored vector depends on the text alone: not on what was ingested with it."""

import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from memforest import Config, MemForest
from memforest.models import available, open_embedder
from memforest.times import Clock

START = datetime(2023, 5, 1, 9, tzinfo=timezone.utc)
ALONE = "Yesterday I adopted a grey cat from the shelter in Bergen."
COMPANY = (
    "ok",
    "My sister has worked as a nurse in Oslo since 2019, and she never complains about the night shifts.",
    "我住在上海。",
    "We hiked " + "up and down the valley, " * 60 + "and slept badly.",
    "Mi hermano se mudó a Lima en marzo.",
)


def turns(texts: tuple[str, ...]) -> list[dict[str, str]]:
    """Return one person's messages, a minute apart."""
    return [
        {"speaker": "Nora", "text": text, "timestamp": (START + timedelta(minutes=i)).isoformat()}
        for i, text in enumerate(texts)
    ]


def stored_vectors(directory: Path) -> dict[tuple[str, bytes], bytes]:
    """Return (kind, digest of the text) -> the bytes that a memory stores as its vector."""
    (path,) = directory.glob("*.db")
    connection = sqlite3.connect(path)
    try:
        rows = [
            (kind, *row)
            for kind in ("turn", "fact")
            for row in connection.execute(f"SELECT digest, vector FROM derived_{kind}_vector")
        ]
    finally:
        connection.close()
    return {(kind, digest): vector for kind, digest, vector in rows}


@pytest.mark.parametrize("model_id", [status.model_id for status in available() if status.installed])
def test_company_changes_no_byte(tmp_path: Path, clock: Clock, model_id: str) -> None:
    """Turns and facts ingested alone and within a larger batch have the same vector bytes."""
    found = []
    for name, sessions in (
        ("alone", [(ALONE,)]),
        (
            "batch",
            [
                (*COMPANY, ALONE),
                (ALONE, *COMPANY, *(f"{text} Number {i}." for i in range(8) for text in COMPANY)),
            ],
        ),
    ):
        # An embedder of its own for each: a shared cache would hide a difference.
        config = Config(embedder=open_embedder(model_id), clock=clock)
        with MemForest(tmp_path / name, config) as forest:
            for number, texts in enumerate(sessions):
                forest.ingest_session("nora", f"s{number}", turns(texts))
        found.append(stored_vectors(tmp_path / name))
    alone, batch = found
    assert {kind for kind, _ in alone} == {"turn", "fact"}
    assert all(batch[key] == alone[key] for key in alone)
    assert len(batch) > 30
