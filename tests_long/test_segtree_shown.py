"""What a person sees of a segment tree: views, the drawn tree, the page, counts, and evidence that is a node."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.test_memory_trees import nodes, turn
from tests_long.worlds import fast_config

from memforest import MemForest
from memforest.cli import inspecting, main
from memforest.errors import ConfigError, NotFoundError
from memforest.read.stored import TreeView
from memforest.settings import MAX_TREE_DEPTH

BOTH = ("memforest", "segtree")
TALK = {
    f"day{day}": [
        turn(("Ana", "Bob")[n % 2], f"{topic} {('first', 'second', 'third')[n % 3]} {day}-{n}", day, 8 + n)
        for n in range(6)
    ]
    for day, topic in enumerate(
        ("the boat harbour sail", "a bread oven flour", "the boat harbour sail", "violin lessons concert"), 1
    )
}
Run = Callable[..., Result]


def talked(folder: Path, talk: dict[str, Any] = TALK, **settings: Any) -> MemForest:
    """Return a forest with a memory of both indexes."""
    forest = MemForest(folder, fast_config(indexes=BOTH, index_settings={"segtree": settings}))
    for name, turns in talk.items():
        forest.ingest_session("u", name, turns)
    return forest


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on the directory of `folder`, on a terminal or into a pipe."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "f"))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*args: str, terminal: bool = False) -> Result:
        with monkeypatch.context() as patch:
            if terminal:
                patch.setattr("memforest.cli.screen.Screen.records", False)
            return CliRunner().invoke(main, args, catch_exceptions=False)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the memory of `TALK`."""
    with talked(tmp_path / "f") as forest:
        assert forest.user("u").verify().problems == ()
    return tmp_path / "f"


def leaves_of(view: TreeView) -> list[TreeView]:
    """Return the leaves of a tree, in order."""
    return [one for one in nodes(view) if one.level == 0]


def test_nodes_say_which_leaves_they_span(folder: Path) -> None:
    """Children tile the span of their parent, the root's is [1, T + 1), and a leaf's is its own ordinal."""
    with MemForest(folder, fast_config()) as forest:
        (view,) = forest.user("u").tree(index="segtree", depth=99)
        assert view.span == (1, 13)
        assert [leaf.span for leaf in leaves_of(view)] == [(n, n + 1) for n in range(1, 13)]
        for node in nodes(view):
            assert node.span is not None
            assert node.span[1] - node.span[0] == node.leaves
            if node.children:
                at = [node.span[0], *(child.span[1] for child in node.children if child.span)]
                assert [child.span for child in node.children] == list(pairwise(at))
        assert all(
            one.span is None
            for tree in forest.user("u").tree(index="memforest", depth=9)
            for one in nodes(tree)
        )


def test_leaves_are_what_was_said_with_the_turns_that_say_it(folder: Path) -> None:
    """A line "speaker: text" for each turn, and their session and numbers."""
    with MemForest(folder, fast_config()) as forest:
        (view,) = forest.user("u").tree(index="segtree", depth=99)
        first = leaves_of(view)[0]
        assert first.summary == "Ana: the boat harbour sail first 1-0\nBob: the boat harbour sail second 1-1"
        assert [(one.session_id, one.turn_ids) for one in first.sources] == [("day1", ("0", "1"))]
        said = [turn for leaf in leaves_of(view) for one in leaf.sources for turn in one.turn_ids]
        assert len(said) == sum(map(len, TALK.values()))


def test_trees_are_those_of_the_index_that_is_named(folder: Path) -> None:
    """Titles name no index then; an index that the memory lacks, or nobody knows, is an error that says what to do."""
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        (view,) = user.tree(index="segtree")
        assert (view.title, view.index) == ("conversation of all sessions", "segtree")
        assert {one.index for one in user.tree(index="memforest")} == {"memforest"}
        assert len(user.tree()) == len(user.tree(index="memforest")) + 1
        assert user.tree(index="flat") == []
        with pytest.raises(NotFoundError):
            user.tree("day1", index="segtree")
        with pytest.raises(ConfigError):
            user.tree(index="nosuch")
        user.drop_index("segtree")
        with pytest.raises(NotFoundError, match="add_index"):
            user.tree(index="segtree")


def test_a_tree_that_is_one_exchange_is_shown(tmp_path: Path) -> None:
    """It is a leaf with a title."""
    with talked(tmp_path / "f", {"one": [turn("Ana", "Hello.", 1)]}) as forest:
        (view,) = forest.user("u").tree(index="segtree")
        assert (view.level, view.leaves, view.summary, view.children) == (0, 1, "Ana: Hello.", ())


def test_a_very_high_tree_is_unfolded_as_far_as_views_are(tmp_path: Path, run: Run) -> None:
    """With its bounds off a tree may be as high as it has leaves; views and JSON stop before Python does."""
    talk = {"long": [turn("Ana", f"word{n} other{n}", 1 + n // 20, n % 20) for n in range(130)]}
    with talked(
        tmp_path / "f", talk, leaves="turns", tau=1.0, fall=1.0, height_max=0, fan_out_max=0
    ) as forest:
        (view,) = forest.user("u").tree(index="segtree", depth=100_000)
        assert view.level > MAX_TREE_DEPTH
        assert view.level - min(node.level for node in nodes(view) if node.level) >= MAX_TREE_DEPTH - 1
    shown = json.loads(run("tree", "--index", "segtree", "--depth", "9999", "--json").stdout)
    assert shown["status"] == "ok"
    assert run("tree", "--index", "segtree", "--depth", "9999", terminal=True).exit_code == 0


def test_the_only_tree_is_drawn_unfolded(folder: Path, run: Run) -> None:
    """Days, how many leaves and which; leaves say a turn a line. With other trees beside it the root alone is listed."""
    shown = run("tree", "--index", "segtree", "--depth", "9", terminal=True).stdout
    assert "of all sessions 2023-05-01 to 2023-05-04 · 12 leaves, 1 to 12" in shown
    lines = [line.strip("│├└─ ") for line in shown.splitlines()]
    at = lines.index("2023-05-01 · leaf 1")
    assert lines[at + 1 : at + 3] == [
        "Ana: the boat harbour sail first 1-0",
        "Bob: the boat harbour sail second 1-1",
    ]
    assert len(run("tree", "--index", "segtree").stdout.splitlines()) > 1
    listed = [line for line in run("tree").stdout.splitlines() if "segtree" in line]
    assert [line.split("\t")[:2] + line.split("\t")[7:] for line in listed] == [
        ["0", "conversation of all sessions (segtree)", "1 to 12"]
    ]


def test_a_leaf_of_many_lines_is_cut(tmp_path: Path, run: Run) -> None:
    """What is left out is counted, and a line is cut by itself."""
    said = "\n".join(f"line {n} " + "x" * 300 for n in range(130))
    with talked(tmp_path / "f", {"s": [turn("Ana", said, 1), turn("Bob", "Yes.", 1)]}):
        pass
    lines = run("tree", "--index", "segtree", terminal=True).stdout.splitlines()
    assert any("… 123 more lines" in line for line in lines)
    assert sum("line" in line for line in lines) == inspecting.LEAF_LINES + 1


def test_a_wide_tree_is_drawn_to_a_limit_that_is_said(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where neither depth nor limit is given; into a pipe the remark stands on standard error."""
    monkeypatch.setattr(inspecting, "DRILLED_NODES", 2)
    cut = run("tree", "--index", "segtree")
    assert len(cut.stdout.splitlines()) == 1
    assert "Only 2 nodes are shown; --limit or --depth shows more." in cut.stderr
    whole = run("tree", "--index", "segtree", "--depth", "9")
    assert len(whole.stdout.splitlines()) > 12
    assert "drawn" not in whole.stderr + run("tree", "--index", "segtree", "--limit", "3").stderr


def test_stats_have_the_columns_of_the_shape(folder: Path, run: Run) -> None:
    """In words on a line of their own, and in JSON."""
    shown = next(line for line in run("stats").stdout.splitlines() if "\tsegtree: " in line)
    for name in (
        "nodes",
        "leaves 12",
        "height",
        "depth max",
        "depth mean",
        "depth std",
        "branching",
        "waiting 0",
    ):
        assert f" {name}" in shown
    assert shown.endswith("placed by centroid 12")
    found = json.loads(run("stats", "--json").stdout)["data"]["indexes"]["segtree"]
    assert (found["leaves"], found["waiting"], found["placed_by"]) == (12, 0, {"centroid": 12})


def test_the_commands_of_the_page_run(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of docs/research/segtree.md, one after the other, on a memory of the demo conversation."""
    monkeypatch.chdir(tmp_path)
    demo = Path(str(files("memforest.data") / "demo" / "nora_and_mateo.json"))
    assert run("ingest", str(demo), "--embedder", "hash-words-1@64").exit_code == 0
    page = Path(__file__).resolve().parents[1] / "docs" / "research" / "segtree.md"
    lines = re.findall(r"^\$ memforest (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 9
    for line in lines:
        done = run(*shlex.split(line))
        assert (done.exit_code, bool(done.stdout)) == (0, True), line


@pytest.mark.parametrize("how", ["delete", "forget"])
def test_what_is_gone_or_hidden_is_nowhere(tmp_path: Path, run: Run, how: str) -> None:
    """Neither in leaves nor in what stretches say, drawn, counted or as evidence."""
    secret = [turn("Ana", "I live in Zanzibar.", 2), turn("Bob", "I work at Acme.", 2, 11)]
    with talked(tmp_path / "f", {**TALK, "secret": secret}) as forest:
        user = forest.user("u")
        assert "Zanzibar" in repr(user.tree(index="segtree", depth=99)[0].to_dict())
        fact = next(one.fact_id for one in user.list() if "Zanzibar" in one.text)
        if how == "forget":
            user.forget(fact)
        else:
            user.delete(fact)
        assert user.verify().problems == ()
        found = forest.query("u", "Where does Ana live?", index="segtree", top_k=100)
        assert "Zanzibar" not in repr(found.to_dict())
        forest.resume("u")
    shown = [run("tree", "--index", "segtree", "--depth", "99", *more).stdout for more in ((), ("--json",))]
    for text in (*shown, run("stats", "--json").stdout):
        assert "Zanzibar" not in text
    assert "Bob: I work at Acme." in shown[0]


def test_a_stretch_that_is_evidence_says_which_leaves_it_has(tmp_path: Path, run: Run) -> None:
    """In the object, in the context's line, on the terminal and in JSON."""
    settings: dict[str, Any] = {
        "admissible": "all",
        "scorer": "cosine",
        "propagate": "bottom-up",
        "expand": False,
    }
    with talked(tmp_path / "f", **settings) as forest:
        found = forest.query("u", "boat harbour sail", index="segtree", top_k=30)
        memory = next(one for one in found.evidence if one.kind == "memory")
        spans = {one.span for one in nodes(forest.user("u").tree(index="segtree", depth=99)[0]) if one.level}
        assert memory.span is not None
        assert memory.span in spans
        assert memory.turns == 2 * (memory.span[1] - memory.span[0])
        line = next(
            line for line in found.context().splitlines() if f"summary of {memory.turns} turns" in line
        )
        assert f"level {memory.level}, {memory.leaves}, summary of" in line
        assert all(one.span is None and one.leaves == "" for one in found.evidence if one.kind != "memory")
    config = tmp_path / "c.toml"
    config.write_text(
        "[index.segtree]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    )
    asked = ("search", "boat harbour sail", "--index", "segtree", "--top-k", "30", "--config", str(config))
    assert f"level {memory.level}, {memory.leaves}, 2023-05-" in run(*asked).stdout
    listed = json.loads(run(*asked, "--json").stdout)["data"]["evidence"]
    assert list(memory.span) in [one["span"] for one in listed if one["kind"] == "memory"]
