"""The package under test, through its public surface: ingest, ask, and what both cost."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import memforest
from locomo.conversations import Conversation
from memforest import Config, IngestResult, MemForest
from memforest.config import Ranking
from memforest.settings import MAX_TOP_K

__all__ = [
    "ABLATIONS",
    "DEPTH",
    "Ingested",
    "ask_all",
    "build",
    "cold_ms",
    "ingest_cost",
    "ranked_turns",
    "reopened_ms",
    "source_digest",
    "warm_ms",
]

EVERYTHING = MAX_TOP_K
"""More than a conversation has turns."""
DEPTH = 100
"""Evidence asked for in the ablation, whose measures look at 20 turns; every item names at least one."""
COLD_RUNS = 5

ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "lexical leg": {"lexical": 0},
    "turn vectors": {"turn": 0},
    "fact vectors": {"fact": 0},
    "leaf order": {"before": 0, "after": 0, "reply": 0},
    "  reply only": {"reply": 0},
    "speaker": {"speaker": 0},
    "date": {"date": 0},
    "length": {"length": 0},
    "question": {"question": 0},
    "tells a time": {"temporal": 0},
    "session tree": {"session_tree": 0, "session_tree_of_lists": 0},
    "participant tree": {"participant_tree": 0},
    "both flows": {"session_tree": 0, "session_tree_of_lists": 0, "participant_tree": 0},
    "all of trees": {
        "session_tree": 0, "session_tree_of_lists": 0, "participant_tree": 0,
        "before": 0, "after": 0, "reply": 0, "speaker": 0,
    },
    "time order": {"time_order": 0},
    "less for lists": {"session_tree_of_lists": 0.4},
}  # fmt: skip
"""Row of the ablation -> the weights that it changes. "all of trees" is what the forest's scopes, leaf order
and flow add together: without it, three legs and the priors of a single turn are left."""


def source_digest() -> str:
    """Return a digest of the package's source, to tell memories that other code made."""
    root = Path(memforest.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


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


def ranked_turns(
    forest: MemForest, conversation: Conversation, question: str, depth: int = EVERYTHING, **options: Any
) -> list[str]:
    """Return the turns behind all ranked evidence, each once, in the order in which the evidence names them.

    The question is asked at the time of the last session.
    """
    result = forest.query(
        conversation.id,
        question,
        reference_date=conversation.sessions[-1].timestamp,
        top_k=depth,
        **options,
    )
    named = (turn for one in result.evidence for source in one.sources for turn in source.turn_ids)
    return list(dict.fromkeys(named))


def ask_all(forest: MemForest, conversations: Sequence[Conversation], **options: Any) -> list[list[str]]:
    """Return the ranked turns for every question, in order."""
    return [
        ranked_turns(forest, conversation, question.text, **options)
        for conversation in conversations
        for question in conversation.questions
    ]


def changed(weights: Mapping[str, float]) -> Ranking:
    """Return the default weights with some changed."""
    given: dict[str, Any] = dict(weights)
    return replace(Ranking(), **given)


@dataclass(frozen=True, slots=True)
class Ingested:
    """What the ingest of one conversation took: seconds per step, and texts embedded by kind."""

    how: str
    turns: int
    wall: float
    seconds: Mapping[str, float]
    texts: Mapping[str, int]

    @property
    def embed(self) -> float:
        """Seconds spent embedding, in both places where that happens."""
        return self.seconds.get("embed", 0.0) + self.seconds.get("refresh.embed", 0.0)

    @property
    def other_ms_per_turn(self) -> float:
        """Milliseconds a turn of everything but embedding."""
        return (self.wall - self.embed) * 1000 / self.turns

    @property
    def texts_per_turn(self) -> float:
        """Texts that the embedder ran, per turn."""
        return sum(self.texts.values()) / self.turns


def ingest_cost(directory: Path, config: Config, conversation: Conversation, *, batch: bool) -> Ingested:
    """Ingest a conversation into a new memory, as one batch or session by session, and return what it took.

    Raises:
        MemForestError: if a session is refused.
    """
    ms: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    requests = requests_of(conversation, "cost")
    with MemForest(directory, config) as forest:
        forest.register_user("cost")
        started = perf_counter()
        results = (
            forest.ingest_parallel(requests) if batch else [forest.ingest_session(**one) for one in requests]
        )
        wall = perf_counter() - started
    for result in results:
        if not isinstance(result, IngestResult):
            raise result
        ms.update(result.usage.ms)
        texts.update(result.usage.embeds)
    return Ingested(
        how="one batch" if batch else "session by session",
        turns=len(conversation.turn_session),
        wall=wall,
        seconds={step: value / 1000 for step, value in ms.items()},
        texts=dict(texts),
    )


def warm_ms(forest: MemForest, conversation: Conversation) -> dict[str, list[float]]:
    """Return wall and step milliseconds of every question at default options, each asked once."""
    forest.query(conversation.id, "Is anybody there?")
    taken: dict[str, list[float]] = {"total": []}
    for question in conversation.questions:
        started = perf_counter()
        result = forest.query(
            conversation.id, question.text, reference_date=conversation.sessions[-1].timestamp
        )
        taken["total"].append((perf_counter() - started) * 1000)
        for step, ms in result.usage.ms.items():
            taken.setdefault(step, []).append(ms)
    return taken


_COLD = """
import sys, time
began = time.perf_counter()
from memforest import Config, MemForest
loaded = time.perf_counter()
with MemForest(sys.argv[1], Config(embedder=sys.argv[2], reranker=None)) as forest:
    forest.query(sys.argv[3], sys.argv[4])
    print((loaded - began) * 1000, (time.perf_counter() - loaded) * 1000)
"""


def cold_ms(directory: Path, embedder: str, conversation: Conversation) -> dict[str, list[float]]:
    """Return milliseconds of importing the package and of the first query, in processes of their own."""
    question = conversation.questions[0].text
    runs = [
        subprocess.run(
            [sys.executable, "-c", _COLD, str(directory), embedder, conversation.id, question],
            check=True, capture_output=True, text=True,
        ).stdout.split()
        for _ in range(COLD_RUNS)
    ]  # fmt: skip
    times = np.array(runs, dtype=np.float64)
    return {"import": times[:, 0].tolist(), "first query": times[:, 1].tolist()}


def reopened_ms(forest: MemForest, conversation: Conversation) -> list[float]:
    """Return milliseconds of the first query after `close`, with the model loaded and the question known."""
    taken = []
    for _ in range(COLD_RUNS):
        forest.query(conversation.id, conversation.questions[0].text)
        forest.close()
        started = perf_counter()
        forest.query(conversation.id, conversation.questions[0].text)
        taken.append((perf_counter() - started) * 1000)
    return taken
