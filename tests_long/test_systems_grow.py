"""Routing into trees: activation with back-fill, placements, moving and removing leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from memforest import Config, MemForest
from memforest.models import HashEmbedder

SESSIONS = {
    "s1": [("Nora", "Tom bought a canoe."), ("Mateo", "Tom painted the boathouse.")],
    "s2": [("Nora", "Tom broke his wrist."), ("Mateo", "Poor Tom!")],
}


@pytest.fixture
def forest(tmp_path: Path) -> MemForest:
    """An empty forest with a fast embedder."""
    return MemForest(tmp_path, Config(embedder=HashEmbedder()))


def ingest(forest: MemForest, *names: str) -> None:
    """Ingest sessions by name, a day apart."""
    for name in names:
        day = int(name[1:])
        turns = [
            {"speaker": speaker, "content": text, "timestamp": f"2024-03-{day:02}T10:0{i}:00Z"}
            for i, (speaker, text) in enumerate(SESSIONS[name])
        ]
        forest.ingest_session("u", name, turns)


def scopes(forest: MemForest) -> dict[str, int]:
    """Return the leaves of every tree by its title."""
    return {view.title: view.leaves for view in forest.user("u").tree(depth=0)}


def test_participants_have_a_tree_at_once(forest: MemForest) -> None:
    """Each speaker is an entity with a tree from the first session on."""
    ingest(forest, "s1")
    assert {"entity Nora", "entity Mateo"} <= set(scopes(forest))


def test_an_entity_is_activated_with_all_that_was_said_before(forest: MemForest) -> None:
    """Two facts in one session give no tree; the third, from another session, gives one with all three."""
    ingest(forest, "s1")
    assert "entity Tom" not in scopes(forest)
    ingest(forest, "s2")
    assert scopes(forest)["entity Tom"] == 3
    assert forest.user("u").verify().ok


def test_inactive_entities_have_a_timeline(forest: MemForest) -> None:
    """What is known of an entity is read from its mentions, tree or not."""
    ingest(forest, "s1")
    assert [entry.statement for entry in forest.user("u").timeline("Tom")] == [
        'Nora: "Tom bought a canoe."',
        'Mateo: "Tom painted the boathouse."',
    ]


def test_replacing_a_session_takes_the_tree_away_again(forest: MemForest) -> None:
    """Below the threshold an entity's tree goes; what is still known of it stays."""
    ingest(forest, "s1", "s2")
    turn = {"speaker": "Nora", "content": "The lake is frozen.", "timestamp": "2024-03-02T10:00:00Z"}
    forest.ingest_session("u", "s2", [turn], replace=True)
    assert "entity Tom" not in scopes(forest)
    assert len(forest.user("u").timeline("Tom")) == 2
    assert forest.user("u").verify().ok


def test_a_session_tree_holds_its_chunks(forest: MemForest) -> None:
    """Two turns make one chunk."""
    ingest(forest, "s1", "s2")
    found = scopes(forest)
    assert (found["session s1"], found["session s2"]) == (1, 1)
