"""Merging with a model: nothing is extracted again, and few of the calls of ingesting are made."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import ChatServer
from tests_long.worlds import fast_config, make_sessions, said

from memforest import Budget, ChatEndpoint, Config, MemForest
from memforest.models import HashEmbedder
from memforest.read.results import Usage

NEAR = {
    "a": "I love hiking in the hills near Davis.",
    "b": "I love hiking in the hills near Davis a lot.",
}


def calls(*used: Usage) -> Mapping[str, int]:
    """Return how many calls each step made; vectors are no calls of the model."""
    found: dict[str, int] = {}
    for usage in used:
        for step, one in usage.steps.items():
            if step != "embed" and one.calls:
                found[step] = found.get(step, 0) + one.calls
    return found


def config(server: ChatServer) -> Config:
    """Return a configuration whose steps ask the server."""
    return fast_config(chat=ChatEndpoint(model="double", base_url=server.url), embedder=HashEmbedder(64))


def test_merging_extracts_nothing_and_makes_few_calls(folder: Path) -> None:
    """At most a quarter of the calls of ingesting all of it into one memory, with the summaries of both."""
    with ChatServer(keep_bodies=False) as server, MemForest(folder, config(server)) as forest:
        ingested = []
        forest.register_user("one")
        merged = []
        for user, seed in (("a", 81), ("b", 82)):
            forest.register_user(user)
            for name, turns in make_sessions(seed, sessions=3):
                forest.ingest_session(user, f"{user}-{name}", turns)
                ingested.append(forest.ingest_session("all", f"{user}-{name}", turns).usage)
            merged += [forest.user("one").merge(user).usage, forest.user("one").flush().usage]
        ingested.append(forest.user("all").flush().usage)
        assert forest.user("one").verify().problems == ()
        assert forest.user("one").stats().facts == forest.user("all").stats().facts
    assert "extract" not in calls(*merged)
    assert sum(calls(*merged).values()) <= sum(calls(*ingested).values()) / 4


@pytest.mark.parametrize("allowed", [None, 0], ids=["judged", "no calls allowed"])
def test_near_statements_are_judged_within_the_budget(folder: Path, allowed: int | None) -> None:
    """One call at most is made; where none may be, everything is merged, and what is near stays apart."""
    with ChatServer(keep_bodies=False) as server, MemForest(folder, config(server)) as forest:
        for day, (user, text) in enumerate(NEAR.items(), 1):
            forest.ingest_session(user, f"{user}-s", said(text, speaker="Ana", day=day))
        result = forest.user("a").merge("b", budget=Budget(max_calls=allowed))
        assert (calls(result.usage).get("judge", 0) > 0) == (allowed is None)
        assert result.sessions_added == 1
        assert forest.user("a").verify().problems == ()
