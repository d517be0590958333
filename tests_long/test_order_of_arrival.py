"""What is answered depends on what was said and when, not on the order in which it came into the memory."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import Session, fast_config, file_of, make_sessions, rows

from memforest import MemForest, Ranking

INDEXES = ("memforest", "segtree")
QUESTIONS = (
    "Where did Ana live before Miami?", "Where does Bob live now?", "Who works at Acme?", "What did Melanie buy first?",
    "When did Carla Díaz move to Lisbon?", "Which city did Ana move to last?", "Who adopted 3 cats?", "zebra",
)  # fmt: skip
SHAPELESS = Ranking(session_tree=0, session_tree_of_lists=0, participant_tree=0)
"""Without what flows down the trees: which leaves share an inner node depends on the order of arrival, as documented."""


def ingest(forest: MemForest, sessions: list[Session]) -> None:
    """Store each session at once."""
    for session_id, turns in sessions:
        forest.ingest_session("u", session_id, turns)


def add_one_by_one(forest: MemForest, sessions: list[Session]) -> None:
    """Store each turn by itself."""
    for session_id, turns in sessions:
        for turn in turns:
            forest.user("u").add(turn, session_id=session_id)


def known(directory: Path, forest: MemForest, ranking: Ranking) -> dict[str, Any]:
    """Return what a memory knows and answers."""
    user = forest.user("u")
    found: dict[str, Any] = {
        "facts": [(f.text, f.said, f.entities, f.sources, f.superseded_by) for f in user.list(limit=1000).facts],
        "kinds": rows(file_of(directory), "SELECT key, kind FROM entity"),
        "timelines": [repr(user.timeline(name)) for name in ("Ana", "Bob", "Melanie", "Carla Díaz", "Acme")
                      if (name.casefold().replace("í", "i"),) in rows(file_of(directory), "SELECT key FROM entity")],
    }  # fmt: skip
    for index in (*INDEXES, "flat"):
        for question in QUESTIONS:
            result = forest.query("u", question, index=index, ranking=ranking, top_k=8)
            found[f"{index}: {question}"] = [
                (one.text, one.quote, one.sources, round(one.score, 6), one.why) for one in result.evidence
            ]
    return found


@pytest.mark.parametrize("how", ["one by one", "another order"])
def test_the_order_of_arrival_does_not_matter(folder: Path, soak_seed: int, how: str) -> None:
    """Facts, kinds of entities, timelines and ranked evidence are those of the sessions in order, each at once."""
    sessions = make_sessions(900 + soak_seed, sessions=5, short_forms=False)
    found = []
    for name, arrange in (("in order", list), (how, lambda given: given)):
        with MemForest(folder / name.replace(" ", "-"), fast_config(indexes=INDEXES)) as forest:
            given = arrange(sessions)
            if name == "another order":
                given = Random(soak_seed).sample(sessions, len(sessions))
            (add_one_by_one if name == "one by one" else ingest)(forest, given)
            found.append(known(folder / name.replace(" ", "-"), forest, SHAPELESS))
    for part in found[0]:
        assert found[1][part] == found[0][part], part


@pytest.mark.parametrize("order", ["de", "ed"])
def test_an_entitys_kind_is_the_surest_of_its_mentions(folder: Path, order: str) -> None:
    """Whichever mention came first: one that tells nothing takes nothing away."""
    said = {"d": ("2023-02-01", "I met Quito yesterday."), "e": ("2023-03-01", "I live in Quito.")}
    with MemForest(folder, fast_config(indexes=INDEXES)) as forest:
        for name in order:
            day, text = said[name]
            forest.ingest_session("u", name, [{"speaker": "Bob", "text": text, "timestamp": day}])
        assert rows(file_of(folder), "SELECT kind FROM entity WHERE key = 'quito'") == [("place",)]


def test_equal_scores_go_by_when_it_was_said(folder: Path) -> None:
    """The same words in three sessions that came the wrong way round: they are one piece, of the one that was said first."""
    with MemForest(folder, fast_config(indexes=INDEXES)) as forest:
        for day in (3, 1, 2):
            turn = {"speaker": "Ana", "text": "Lovely!", "timestamp": f"2023-05-{day:02}"}
            forest.ingest_session("u", f"s{day}", [turn])
        for index in (*INDEXES, "flat"):
            [found] = forest.query("u", "zebra", index=index).evidence
            assert (found.said.day, [one.day for one in found.said_each]) == (1, [1, 2, 3])
