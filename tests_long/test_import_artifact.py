"""Snapshots of the paper's artifact become memories: what was said and what was extracted, without asking again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config

from memforest import InputError, MemForest
from memforest.steps.local.extract import LocalExtractor

DAY = 1_683_194_400.0  # 2023-05-04 10:00 UTC


def leaf(
    index: int, *turns: tuple[str, str], session: str = "talk-1", facts: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a leaf of a session tree, as the artifact writes it."""
    return {
        "cell_id": f"{session}#cell_{index:04}",
        "session_id": session,
        "cell_index": index,
        "time_start": DAY + 600 * index,
        "time_end": DAY + 600 * index + 60,
        "raw_turns": [{"role": role, "content": text} for role, text in turns],
        "raw_text": "",
        "fact_ids": list(facts),
    }


def fact(text: str, *cells: str, **more: Any) -> dict[str, Any]:
    """Return a canonical fact, as the artifact writes it."""
    where: list[dict[str, Any]] = [{"session_id": "talk-1", "cell_id": cell, "item_id": "i", "source_turn_ids": [], "source_spans": [],
              "participants": [], "time_text": "", "time_start": None, "time_end": None, "metadata": {}} for cell in cells]  # fmt: skip
    return {"fact_id": f"fact_{abs(hash(text)):x}", "fact_text": text, "origin": "user", "entities": [], "topics": [],
            "occurrences": where, "metadata": {}, "time_start": None, "time_end": None} | more  # fmt: skip


@pytest.fixture
def snapshot(folder: Path) -> Path:
    """A small snapshot: a session tree, a tree that is none, and facts."""
    trees = folder / "snapshot" / "trees"
    (trees / "session").mkdir(parents=True)
    (trees / "entity").mkdir()
    leaves = [
        leaf(0, ("user", "I moved to Porto last week."), ("assistant", "Nice! How is it?")),
        leaf(1, ("user", "Sunny. I work at Acme now."), ("assistant", "Good luck.")),
    ]
    tree = {"tree_id": "session:talk-1", "tree_type": "session", "tree_key": "sess_0001", "nodes": {},
            "session_leaves": {one["cell_id"]: one for one in leaves}}  # fmt: skip
    (trees / "session" / "session_talk-1.json").write_text(json.dumps(tree), encoding="utf-8")
    (trees / "entity" / "entity_user.json").write_text(json.dumps({"tree_type": "entity"}), encoding="utf-8")
    (folder / "snapshot" / "node_index").mkdir()
    (folder / "snapshot" / "node_index" / "emb_store.json").write_text("{}", encoding="utf-8")
    facts = [
        fact("The user moved to Porto.", "talk-1#cell_0000", entities=["Porto"], topics=["home"],
             time_start=DAY - 7 * 86_400, time_end=DAY),
        fact("The user works at Acme.", "talk-1#cell_0001", entities=["Acme"]),
        fact("The user likes sun.", "talk-1#cell_0001", time_start=0, time_end=float("nan")),
    ]  # fmt: skip
    lines = "".join(json.dumps(one) + "\n" for one in facts)
    (folder / "snapshot" / "facts.jsonl").write_text(lines, encoding="utf-8")
    return folder / "snapshot"


def given(snapshot: Path) -> dict[str, Any]:
    """Return the arguments that name a snapshot."""
    return {
        "tree_store_dir": snapshot / "trees",
        "node_index_dir": str(snapshot / "node_index"),
        "facts_jsonl": snapshot / "facts.jsonl",
    }


def test_a_snapshot_becomes_a_memory(folder: Path, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns with their times, facts with their sources, entities and stated times; nothing is extracted."""

    async def never(*_args: Any) -> None:
        raise AssertionError("extracted again")

    monkeypatch.setattr(LocalExtractor, "extract", never)
    with MemForest(folder / "here", fast_config()) as forest:
        result = forest.import_user_from_legacy("../ann", **given(snapshot))
        assert (result.n_facts, result.n_sessions, result.n_turns) == (3, 1, 4)
        assert result.n_trees >= 2
        assert [one for one in result.problems if "node_index" not in one] == []
        memory = forest.user("../ann")
        found = {one.statement: one for one in memory.list().facts}
        assert set(found) == {"The user moved to Porto.", "The user works at Acme.", "The user likes sun."}
        moved = found["The user moved to Porto."]
        assert (moved.precision, moved.start.timestamp()) == ("week", DAY - 7 * 86_400)
        assert "Porto" in moved.entities
        assert [(one.session_id, one.turn_ids) for one in moved.sources] == [("talk-1", ("0",))]
        assert found["The user likes sun."].precision == "unknown"
        assert memory.verify().problems == ()
        assert memory.search("Where does the user work?").evidence[0].quote.endswith("I work at Acme now.")
        with pytest.raises(InputError, match="overwrite"):
            forest.import_user_from_legacy("../ann", **given(snapshot))
        memory.add("I bought a lamp.", session_id="own", infer=False)
        again = forest.import_user_from_legacy("../ann", overwrite=True, **given(snapshot))
        assert again.n_facts == 3
        assert {one.session_id for one in memory.sessions()} == {"own", "talk-1"}
    assert sorted(path.name for path in snapshot.iterdir()) == ["facts.jsonl", "node_index", "trees"]
    assert sorted(path.suffix for path in (folder / "here").iterdir()) == [".db"]


def test_what_cannot_be_read_is_named_and_all_else_is_stored(folder: Path, snapshot: Path) -> None:
    """Lines, trees and chunks, each with where it stands."""
    (snapshot / "trees" / "session" / "broken.json").write_text("{", encoding="utf-8")
    wrong = leaf(0, ("user", "Hello."), session="talk-2") | {"time_start": None}
    tree = {
        "tree_type": "session",
        "tree_key": "talk-2",
        "session_leaves": {"x": wrong, "y": {"raw_turns": []}},
    }
    (snapshot / "trees" / "session" / "timeless.json").write_text(json.dumps(tree), encoding="utf-8")
    with (snapshot / "facts.jsonl").open("a", encoding="utf-8") as file:
        file.write(
            "[1]\n\nnonsense\n"
            + json.dumps(fact("Of nowhere.", "gone"))
            + "\n"
            + json.dumps({"fact_text": 3})
            + "\n"
        )
    with MemForest(folder / "here", fast_config()) as forest:
        result = forest.import_user_from_legacy("ann", **given(snapshot))
        told = "\n".join(result.problems)
        for part in ("broken.json", "'x'", "'y'", "line 4", "line 6", "Of nowhere.", "line 8"):
            assert part in told
        assert (result.n_facts, result.n_turns) == (3, 4)
        assert forest.user("ann").verify().problems == ()


def test_snapshots_that_are_none(folder: Path, snapshot: Path) -> None:
    """An error that names the argument; no memory is made."""
    with MemForest(folder / "here", fast_config()) as forest:
        for name, value in (
            ("tree_store_dir", folder / "no"),
            ("facts_jsonl", folder / "no"),
            ("facts_jsonl", 3),
        ):
            with pytest.raises(InputError, match=name):
                forest.import_user_from_legacy("ann", **(given(snapshot) | {name: value}))
        (snapshot / "trees" / "session" / "session_talk-1.json").unlink()
        with pytest.raises(InputError, match="nothing"):
            forest.import_user_from_legacy("ann", **given(snapshot))
        assert forest.list_users() == []
