"""Conversations of words that nobody else says, and a scanner of files that knows nothing of how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

from tests_long.worlds import file_of, rows

from memforest import MemForest, UserMemory
from memforest.store import derived
from memforest.store.database import Database

__all__ = ["KINDS", "content", "conversation", "counted", "left_in", "random_target", "said_words", "stored"]

START = datetime(2023, 1, 1, 9, tzinfo=timezone.utc)
KINDS = ("turn", "session", "fact", "entity", "window")
_SAID = (
    "I bought a {a} in {B}.",
    "My cousin {B} works at {C}.",
    "{B} adopted two {a}s.",
    "I moved from {B} to {C}.",
    "I like {a} and {c}.",
    "We met {B} near the {a} shop.",
    "Did you see {B}?",
    "She told me about the {a}.",
    "I live in {B} now.",
)


def word(random: Random) -> str:
    """Return a word that the stemmer leaves alone and that chance does not make twice."""
    return "".join(
        random.choice("bcdfgklmnprtvz") + random.choice("aeiou") for _ in range(4)
    ) + random.choice("kmnprt")


def conversation(random: Random, number: int, most: int = 8) -> list[dict[str, Any]]:
    """Return the turns of a session on its own day, each of one to three sentences."""
    turns = []
    for at in range(random.randint(1, most)):
        text = " ".join(
            random.choice(_SAID).format(
                a=word(random), c=word(random), B=word(random).title(), C=word(random).title()
            )
            for _ in range(random.randint(1, 3))
        )
        said = START + timedelta(days=number, minutes=at)
        turns.append(
            {
                "speaker": ("Nora", "Tomas")[at % 2],
                "content": text,
                "timestamp": said.isoformat(),
                "caption": text if at % 3 == 0 else "",
            }
        )
    return turns


def said_words(texts: Iterable[str]) -> set[str]:
    """Return the made-up words of texts."""
    return set(re.findall(r"\b(?:[bcdfgklmnprtvz][aeiou]){4}[kmnprt]", " ".join(texts).lower()))


def stored(folder: Path) -> dict[tuple[str, str], str]:
    """Return (session id, turn id) -> text of every turn that is stored."""
    sql = "SELECT s.session_id, t.turn_id, t.text FROM turn t JOIN session s ON s.id = t.session"
    return {(one, other): text for one, other, text in rows(file_of(folder), sql)}


def content(folder: Path) -> bytes:
    """Return the bytes of all files below a directory, in lower case."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()).lower()


def left_in(folder: Path, words: Iterable[str]) -> list[str]:
    """Return which words stand anywhere in the files of a directory, in UTF-8 or UTF-16; needs summaries that are not compressed."""
    assert derived.LEVEL == 0
    raw = content(folder)
    return [
        word for word in sorted(words) if any(word.encode(name) in raw for name in ("utf-8", "utf-16-le"))
    ]


_COUNTED = {
    "sessions": "session", "turns": "turn", "chunks": "chunk", "facts": "fact", "occurrences": "occurrence",
    "mentions": "mention", "states": "state", "entities": "entity", "aliases": "alias",
    "corrections": "correction", "write_keys": "write_key",
}  # fmt: skip


def counted(folder: Path) -> dict[str, Any]:
    """Return, by layer of a receipt, how many rows there are; of derived layers, which."""
    with closing(Database(file_of(folder), readonly=True)) as db, db.read() as tx:
        found: dict[str, Any] = {
            layer: tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for layer, table in _COUNTED.items()
        }
        found["summaries"] = set(tx.column("SELECT digest FROM artifact"))
        found["vectors"] = {
            (kind, *row)
            for kind in ("turn", "fact")
            for row in tx.execute(f"SELECT item, digest FROM derived_{kind}_vector").fetchall()
        }
        found["word_rows"] = {
            (kind, row[0])
            for kind in ("turn", "fact")
            for row in tx.execute(f"SELECT rowid FROM derived_{kind}_words").fetchall()
        }
        return found


def gone(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, int]:
    """Return how many of each layer are there no longer."""
    return {
        layer: len(before[layer] - after[layer])
        if isinstance(before[layer], set)
        else before[layer] - after[layer]
        for layer in before
    }


def random_target(random: Random, memory: UserMemory, folder: Path, kind: str) -> dict[str, Any] | None:
    """Return the arguments of a deletion of some kind that there is something for; None when there is nothing."""
    turns = sorted(stored(folder))
    if not turns:
        return None
    session_id, turn_id = random.choice(turns)
    if kind == "turn":
        return {"turn": (session_id, turn_id)}
    if kind == "session":
        return {"session_id": session_id}
    if kind == "window":
        number = random.randrange(80)
        start = START + timedelta(days=number)
        return {"during": (start, start + timedelta(minutes=random.choice((2, 1500))))}
    if kind == "fact":
        found = sorted(rows(file_of(folder), "SELECT fact_id FROM fact"))  # those that are hidden too
        return {"fact_id": random.choice(found)[0]} if found else None
    sql = "SELECT label FROM entity WHERE kind != 'participant' ORDER BY id"
    labels = [row[0] for row in rows(file_of(folder), sql)]
    return {"entity": random.choice(labels)} if labels else None


Build = Callable[[MemForest], None]
