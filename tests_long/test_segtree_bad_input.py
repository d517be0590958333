"""What segment trees do with input that nobody meant: nothing is lost, `verify` is content, and what is wrong is said."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.segtrees import NAME, anew, configured, sound, tree
from tests_long.worlds import fast_config, file_of, make_sessions, rows, said

from memforest import ConfigError, MemForest
from memforest.errors import ModelError
from memforest.models import HashEmbedder
from memforest.ports import UnchangedText
from memforest.records import SummaryRequest

TALK = make_sessions(3, sessions=5, most_turns=8)


def told(folder: Path, own: Mapping[str, Any] | None = None, **more: Any) -> MemForest:
    """Return a memory into which `TALK` was said, open."""
    forest = MemForest(folder, configured(own, **more))
    for session_id, turns in TALK:
        forest.ingest_session("u", session_id, turns, infer=False)
    return forest


def check_anew(forest: MemForest, folder: Path, own: Mapping[str, Any] | None = None, **more: Any) -> None:
    """The tree is sound, whole, and that of a memory made from scratch."""
    forest.resume("u")
    sound(forest.user("u"), folder)
    assert tree(folder) == anew(folder, configured(own, **more))


ODD = {
    "one turn": said("Hello."),
    "one speaker": said(*(f"Note {n}." for n in range(9))),
    "identical turns": said(*["Same again."] * 9),
    "empty turns": said("", "  ", "I see.", ""),
    "1 MB": said("word " * 200_000, "I see."),
    "tags": said("</node> MERGE_1 <turn speaker='x'>", "SPLIT\n\nAna: no", "{}[]"),
}


@pytest.mark.parametrize("own", [{}, {"leaf_vector": "text", "leaves": "turns"}], ids=["mean", "text"])
def test_odd_turns_have_their_place(folder: Path, own: dict[str, Any]) -> None:
    """The first session alone, and each among all others."""
    with MemForest(folder, configured(own)) as forest:
        for session_id, turns in ODD.items():
            forest.ingest_session("u", session_id, turns, infer=False)
            sound(forest.user("u"), folder)
        check_anew(forest, folder, own)
        assert forest.query("u", "Where does Ana live?").evidence


def test_a_nul_is_refused_before_anything_is_stored(folder: Path) -> None:
    """The tree is as it was."""
    with told(folder) as forest:
        before = tree(folder)
        with pytest.raises(ValueError, match="NUL"):
            forest.ingest_session("u", "odd", said("Hello.", speaker="A\x00"), infer=False)
        assert tree(folder) == before
        sound(forest.user("u"), folder)


def test_a_session_that_grows_by_single_turns(folder: Path) -> None:
    """It has the tree of the same session at once, also where nobody is answered for long, and then somebody is."""
    speakers = ["Ana"] * 40 + ["Bob", "Ana"] * 3 + ["Cy"] * 20 + ["Ana", "Bob", "Bob"]
    for leaves in ("adjacent", "pairs", "turns"):
        own = {"leaves": leaves}
        with MemForest(folder / leaves, configured(own)) as forest:
            for at, speaker in enumerate(speakers):
                turn = said(f"Note {at % 7} of {speaker}.", speaker=speaker)[0]
                forest.user("u").add(turn, session_id="s", infer=False)
                if at % 3 == 0 and at > 36:
                    sound(forest.user("u"), folder / leaves)
            check_anew(forest, folder / leaves, own)


def test_a_memory_without_an_embedder_has_runs(folder: Path) -> None:
    """With any placer; `verify` says what helps, and that makes the real tree."""
    for placer in ("centroid", "cosine"):
        own = {"placer": placer}
        with told(folder / placer, own, embedder="none") as forest:
            sound(forest.user("u"), folder / placer)
            (note,) = forest.user("u").verify().notes
            assert "no embedder" in note
            assert "rebuild(embedder=True)" in note
            placed = forest.user("u").stats().indexes[NAME]["placed_by"]
            assert placed == {"runs": sum(placed.values())} != {}
    with MemForest(folder / "centroid", configured()) as forest:
        forest.user("u").rebuild(embedder=True)
        check_anew(forest, folder / "centroid")
        assert forest.user("u").verify().notes == ()


def test_another_embedder_makes_another_tree(folder: Path) -> None:
    """As if the memory had had it from the start."""
    told(folder).close()
    with MemForest(folder, configured(embedder=HashEmbedder(48))) as forest:
        forest.user("u").rebuild(embedder=True)
        check_anew(forest, folder, embedder=HashEmbedder(48))


class Failing(HashEmbedder):
    """Fails as long as it is told to."""

    fails = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, or raise."""
        if self.fails:
            raise ModelError("the embedder is down")
        return await super().embed(texts)


def test_the_tree_stands_while_the_embedder_fails(folder: Path) -> None:
    """All that is stored is in it; `resume` makes the vectors, and with them the tree that it would have been."""
    embedder = Failing(32)
    with MemForest(folder, configured(embedder=embedder)) as forest:
        forest.ingest_session("u", *TALK[0], infer=False)
        embedder.fails = True
        with pytest.raises(ModelError):
            forest.ingest_session("u", *TALK[1], infer=False)
        sound(forest.user("u"), folder)
        assert forest.user("u").stats().indexes[NAME]["placed_by"].keys() == {"centroid"}
        assert forest.query("u", "Where?").evidence
        embedder.fails = False
        forest.resume("u")
        check_anew(forest, folder)


def test_exchanges_wait_for_texts_that_cannot_be_embedded(folder: Path) -> None:
    """By what nodes say each leaf is placed behind the one before it: `query` says how many wait, `resume` places them."""
    embedder, own = Failing(32), {"placer": "cosine"}
    with told(folder, own, embedder=embedder, refresh="lazy") as forest:
        embedder.fails = True
        found = forest.query("u", "Where?", index=NAME)
        waiting = forest.user("u").stats().indexes[NAME]["waiting"]
        assert waiting > 0
        assert any(f"{waiting} exchange(s) wait" in one for one in found.warnings)
        sound(forest.user("u"), folder, waiting=waiting)
        embedder.fails = False
        forest.resume("u")
        check_anew(forest, folder, own)


class Keeping:
    """A summariser that keeps what is short, as one that pays for every call does."""

    name = "keeping"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the children's texts where they have few words, else the first of them."""
        return [
            UnchangedText("\n".join(one.inputs)) if len(" ".join(one.inputs).split()) < 60 else one.inputs[0]
            for one in requests
        ]


def test_what_keeps_its_childrens_texts_is_compared_by_their_mean(folder: Path) -> None:
    """No vector is stored of it; every leaf gets its place all the same, and again the same one."""
    with told(folder, {"placer": "cosine"}, summariser=Keeping()) as forest:
        forest.resume("u")
        stored = rows(
            file_of(folder), "SELECT DISTINCT vector_of, vector IS NULL FROM artifact WHERE step = 'summary'"
        )
        assert stored == [("mean", 1), ("own", 0)]
        check_anew(forest, folder, {"placer": "cosine"}, summariser=Keeping())


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"fan_out_max": 3}, "fan_out_max=3 should be at least 8"),
        ({"share_max": 0}, "share_max should be greater than 0"),
        ({"tau": float("nan")}, "tau should be a finite number"),
        ({"tau": 2}, "tau should be less than or equal to 1"),
        ({"height_max": -1}, "height_max should be greater than or equal to 0"),
        ({"placer": "batch"}, "placer should be 'centroid' or 'cosine'"),
        ({"nosuch": 1}, "unknown setting nosuch"),
    ],
)
def test_settings_that_cannot_be(folder: Path, own: dict[str, Any], says: str) -> None:
    """The error names the setting, wherever it is given, and nothing is made."""
    with pytest.raises(ConfigError, match=says), MemForest(folder, configured(own)):
        pass
    assert not list(folder.iterdir())
    with MemForest(folder, fast_config()) as forest:
        forest.register_user("u")
        with pytest.raises(ConfigError, match=says):
            forest.user("u").add_index(NAME, own)
        assert [one.name for one in forest.user("u").indexes()] == ["memforest"]
