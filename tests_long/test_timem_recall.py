"""What the timem index brings for a question: budgets, pruning, order and time, held to what is worked out from the turns alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.timems import configured
from tests_long.writing_double import Writer

from memforest import ConfigError, MemForest, Ranking
from memforest.config import BUDGETS, COMPLEXITIES, Recall
from memforest.errors import ModelError
from memforest.models import HashEmbedder
from memforest.read.results import Evidence, QueryResult
from memforest.reading.periods import window_of
from memforest.records import SummaryRequest
from memforest.search.vectors import index_tokens, turn_text
from memforest.store import artifacts
from memforest.store.connections import Connection
from memforest.text import lexical_tokens

UTC = timezone.utc
NOW = datetime(2024, 9, 1, tzinfo=UTC)
QUESTION = "the garden of red tulips and the river"
THINGS = ("garden", "river", "tulips", "kettle", "canoe", "ladder", "violin", "harbour", "oven", "lamp")
ALL = (999,) * 5
Key = tuple[int, str]
"""Level of a node, and its window or session."""


def talk(seed: int, sessions: int = 14, turns: int = 6) -> dict[str, list[dict[str, Any]]]:
    """Return sessions on days of four months, no two turns with the same words."""
    random, made = Random(seed), {}
    for at, day in enumerate(sorted(random.sample(range(120), sessions))):
        begun = datetime(2024, 3, 1, 9, tzinfo=UTC) + timedelta(days=day)
        made[f"s{at:02}"] = [
            {
                "speaker": ("Ana", "Bob")[i % 2],
                "content": f"{' '.join(random.choices(THINGS, k=random.randint(2, 7)))} {at}x{i}.",
                "timestamp": (begun + timedelta(minutes=i)).isoformat(),
            }
            for i in range(random.randint(1, turns))
        ]
    return made


class Teller(Writer):
    """Writes of what it tells, and the first words of it."""

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the texts, and an error in the place of one that is to fail."""
        made = await super().summarise(requests)
        return [
            f"{one.prompt} {one.window or one.start.isoformat()}: {' '.join(' '.join(one.inputs).split()[:9])}"
            if isinstance(text, str)
            else text
            for one, text in zip(requests, made, strict=True)
        ]


@contextmanager
def remembered(
    folder: Path,
    said: Mapping[str, Sequence[dict[str, Any]]],
    own: Mapping[str, Any] | None = None,
    **more: Any,
) -> Iterator[MemForest]:
    """Open a memory of sessions in which every window has a text of its own, unless it is said otherwise."""
    settings = {"pass_through": False, **(own or {})}
    with MemForest(
        folder, configured(settings, **{"summariser": Teller(), "clock": lambda: NOW, **more})
    ) as made:
        for session, turns in said.items():
            made.ingest_session("u", session, list(turns))
        made.user("u").advance()
        yield made


def recalled(forest: MemForest, question: str = QUESTION, *, top_k: int = 900, **how: Any) -> QueryResult:
    """Return what a recall brings; neither a planner nor a gate has a say unless they are asked for."""
    asked = {name: how.pop(name) for name in ("as_of", "during", "said_by", "reference_date") if name in how}
    recall = Recall(**{"planner": "off", "gate": "off", **how})
    return forest.query("u", question, top_k=top_k, ranking=Ranking(recall=recall), **asked)


def memories(found: QueryResult, level: int | None = None) -> list[Evidence]:
    """Return the memories of a level, 1 for the segment, in the order of the evidence; of all levels without one."""
    return [one for one in found.evidence if one.kind == "memory" and level in (None, (one.level or 0) + 1)]


def key_of(one: Evidence) -> Key:
    """Return which node a memory is of."""
    assert one.level is not None
    return one.level + 1, one.window or one.sources[0].session_id


def keys(found: QueryResult) -> set[Key]:
    """Return which memories were recalled."""
    return {key_of(one) for one in memories(found)}


def vector_of(text: str) -> Any:
    """Return the unit vector of a text."""
    return np.array(asyncio.run(HashEmbedder(32).embed([text]))[0], dtype=np.float64)


def leaf_of(turn_id: tuple[str, int]) -> tuple[str, int]:
    """Return the segment of a turn."""
    return turn_id[0], turn_id[1] // 2


def above(said: Mapping[str, Sequence[dict[str, Any]]], session: str) -> dict[int, str]:
    """Return the nodes above a session's segments, by level from 2 on."""
    begun = datetime.fromisoformat(said[session][0]["timestamp"])
    units = {3: "day", 4: "week_of_month", 5: "month"}
    return {2: session} | {level: window_of(begun, unit, UTC).key for level, unit in units.items()}  # type: ignore[arg-type]


def turn_of(one: Evidence, said: Mapping[str, Sequence[dict[str, Any]]]) -> tuple[str, int]:
    """Return the session and the position of a turn that is evidence."""
    session = one.sources[0].session_id
    (at,) = [i for i, turn in enumerate(said[session]) if turn["content"] == one.quote]
    return session, at


def leaves_by_score(
    forest: MemForest, said: Mapping[str, Sequence[dict[str, Any]]], **how: Any
) -> list[tuple[str, int]]:
    """Return all leaves, best first, each by its best turn; of equal ones the earlier."""
    found = recalled(forest, **{**how, "complexity": 2, "levels": (1,), "budgets": {"complex": ALL}})
    scores: dict[tuple[str, int], float] = {}
    for one in found.evidence:
        leaf = leaf_of(turn_of(one, said))
        scores[leaf] = max(scores.get(leaf, -np.inf), round(one.score, 9))
    assert sum(len(turns) for turns in said.values()) == len(found.evidence), "every turn has a score"
    return sorted(scores, key=lambda leaf: (-scores[leaf], said[leaf[0]][0]["timestamp"], leaf))


def first_above(
    leaves: Sequence[tuple[str, int]],
    said: Mapping[str, Sequence[dict[str, Any]]],
    budgets: Mapping[int, int],
) -> set[Key]:
    """Return the first nodes above leaves in their order, so many a level."""
    kept: dict[int, list[str]] = {level: [] for level in budgets if level > 1}
    for session, _ in leaves:
        for level, name in above(said, session).items():
            if name not in kept.get(level, [name]) and len(kept[level]) < budgets[level]:
                kept[level].append(name)
    return {(level, name) for level, names in kept.items() for name in names}


@pytest.fixture(name="many", scope="module")
def _many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MemForest, Any]]:
    said = talk(1, sessions=30)
    with remembered(tmp_path_factory.mktemp("many"), said) as forest:
        yield forest, said


@pytest.mark.parametrize("named", ["timem", "locomo"])
@pytest.mark.parametrize("complexity", [0, 1, 2])
def test_a_memory_that_has_enough_fills_each_budget_and_no_more(
    many: Any, named: str, complexity: int
) -> None:
    """So many memories a level as the released configuration says, and the turns of 20 segments."""
    forest, said = many
    found = recalled(forest, complexity=complexity, budgets=named)
    wanted = BUDGETS[named][COMPLEXITIES[complexity]]
    assert [len(memories(found, level)) for level in (2, 3, 4, 5)] == list(wanted[1:])
    leaves = {leaf_of(turn_of(one, said)) for one in found.evidence if one.kind != "memory"}
    assert len(leaves) == wanted[0] == 20
    assert found.trace["recall"]["complexity"] == COMPLEXITIES[complexity]
    whole = {(session, at) for session, at in leaves_by_turn(said) if leaf_of((session, at)) in leaves}
    assert {turn_of(one, said) for one in found.evidence if one.kind != "memory"} == whole


def leaves_by_turn(said: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[tuple[str, int]]:
    """Yield every turn."""
    for session, turns in said.items():
        for at in range(len(turns)):
            yield session, at


def test_budgets_of_ones_own_and_of_0(many: Any) -> None:
    """A level with 0 is not recalled; without segments the memories above the best 20 are; a short mapping ends there."""
    forest, said = many
    own = recalled(forest, complexity=2, budgets={"complex": (3, 0, 7)})
    days = len({above(said, session)[3] for session, _ in leaves_by_score(forest, said)[:3]})
    assert [len(memories(own, level)) for level in (2, 3, 4, 5)] == [0, days, 0, 0]
    assert len({leaf_of(turn_of(one, said)) for one in own.evidence if one.kind != "memory"}) == 3
    none = recalled(forest, complexity=2, budgets={"complex": (0, 4, 4, 2, 1)})
    assert {one.kind for one in none.evidence} == {"memory"}
    assert keys(none) == keys(recalled(forest, complexity=2))
    with pytest.raises(ConfigError):
        recalled(forest, complexity=0, budgets={"simple": (0, 0)})


@pytest.mark.parametrize("levels", [(1,), (2, 3, 4, 5), (3,), (2, 5), None])
def test_only_the_levels_that_are_asked_for_come(many: Any, levels: tuple[int, ...] | None) -> None:
    """Those that come are the same as with all of them, hierarchical or flat; segments are turns."""
    forest, _ = many
    found = recalled(forest, complexity=2, levels=levels)
    whole = recalled(forest, complexity=2)
    wanted = {1, 2, 3, 4, 5} if levels is None else set(levels)
    assert {level for level, _ in keys(found)} == wanted - {1}
    assert keys(found) == {one for one in keys(whole) if one[0] in wanted}
    assert any(one.kind != "memory" for one in found.evidence) == (1 in wanted)
    flat = recalled(forest, complexity=2, levels=levels, flat=True)
    assert {level for level, _ in keys(flat)} <= wanted - {1}
    assert any(one.kind != "memory" for one in flat.evidence) <= (1 in wanted)


def test_flat_is_one_pool_by_own_scores(many: Any) -> None:
    """As many as the budgets are together: what stays is better than all that does not, whatever its level."""
    forest, said = many
    pool = recalled(forest, complexity=2, flat=True, budgets={"complex": (999,) * 5})
    scores: dict[Any, float] = {key_of(one): one.score for one in memories(pool)}
    for one in pool.evidence:
        if one.kind != "memory":
            leaf = leaf_of(turn_of(one, said))
            scores[leaf] = max(scores.get(leaf, -np.inf), one.score)
    for total in (1, 5, 31):
        budget = (total - 1, 1, 0, 0, 0) if total > 1 else (0, 1)
        found = recalled(forest, complexity=2, flat=True, budgets={"complex": (*budget, 0, 0, 0)[:5]})
        known = {one: score for one, score in scores.items() if one[0] == 2 or isinstance(one[0], str)}
        if total == 1:
            known = {one: score for one, score in known.items() if one[0] == 2}
        best = set(sorted(known, key=lambda one: -known[one])[:total])
        leaves = {leaf_of(turn_of(one, said)) for one in found.evidence if one.kind != "memory"}
        assert keys(found) | leaves == best, total


def test_who_plans_says_how_much(many: Any) -> None:
    """Rules by the words; nobody gives every question the same; what is forced holds whatever the words."""
    forest, _ = many
    asked = {"simple": "When did Ana buy the kettle?", "hybrid": "How many kettles did Ana buy?"}
    asked["complex"] = "What kind of person is Ana?"
    for name, question in asked.items():
        for how, wanted in (
            ({"planner": "rules"}, name),
            ({"planner": "auto"}, name),
            ({"planner": "off"}, "hybrid"),
            ({"planner": "rules", "complexity": 2}, "complex"),
            ({"planner": "rules", "complexity": 0}, "simple"),
        ):
            found = recalled(forest, question, **how)
            assert found.plan.complexity == found.trace["recall"]["complexity"] == wanted, (question, how)
            assert len(memories(found, 3)) == BUDGETS["timem"][wanted][2]
            assert not found.usage.steps
    assert recalled(forest, "The violin, please.", planner="rules").plan.complexity == "simple"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("leaves", ["fused", "paper"])
def test_pruning_is_that_of_all_memories_above_the_leaves(folder: Path, seed: int, leaves: str) -> None:
    """Best: in the order of their best leaf; own: by their own scores, whatever is below."""
    said = talk(100 + seed)
    numbers = (7, 3, 2, 2, 1)
    budgets = dict(enumerate(numbers, 1))
    how: dict[str, Any] = {"complexity": 2, "leaves": leaves, "weight": 0.6}
    with remembered(folder, said) as forest:
        ranked = leaves_by_score(forest, said, **how)[:7]
        some = {"budgets": {"complex": numbers}, **how}
        assert keys(recalled(forest, prune="best", **some)) == first_above(ranked, said, budgets)
        wide = recalled(forest, prune="own", **{**some, "budgets": {"complex": (7, 99, 99, 99, 99)}})
        every = first_above(ranked, said, dict.fromkeys(range(1, 6), 99))
        assert keys(wide) == every
        kept: set[Key] = set()
        for level in (2, 3, 4, 5):
            here = sorted(memories(wide, level), key=lambda one: -round(one.score, 9))
            kept |= {key_of(one) for one in here[: budgets[level]]}
        assert keys(recalled(forest, prune="own", **some)) == kept


def test_its_own_score_is_by_the_text_of_a_memory(folder: Path) -> None:
    """With `prune="own"` the cosine of the text counts, and words are those of the leaves below on average."""
    said = talk(7)
    with remembered(folder, said) as forest:
        found = recalled(
            forest, complexity=2, prune="own", leaves="paper", weight=0.6, budgets={"complex": ALL}
        )
        asked = vector_of(QUESTION)
        near = np.array([max(float(asked @ vector_of(one.text)), 0.0) for one in memories(found)])
        got = np.array([one.scores["dense"] for one in memories(found)])
        assert np.count_nonzero(near > 0.02) > 5
        assert np.allclose(got, near * (got @ near) / (near @ near), atol=5e-3), "one divisor for all"
        assert all(abs(sum(one.scores.values()) - one.score) < 1e-6 for one in memories(found))


def eq7(
    said: Mapping[str, Sequence[dict[str, Any]]],
    texts: Mapping[tuple[str, int], str],
    *,
    weight: float,
    k1: float,
    b: float,
    channel: int = 40,
) -> dict[tuple[str, int], float]:
    """Return the score of every leaf by the formula, from what was said and the embedder alone."""
    asked = vector_of(QUESTION)
    dense: dict[tuple[str, int], float] = {}
    words: dict[tuple[str, int], list[str]] = {}
    for session, turns in said.items():
        for at, turn in enumerate(turns):
            when = datetime.fromisoformat(turn["timestamp"])
            words.setdefault(leaf_of((session, at)), []).extend(
                index_tokens(turn["speaker"], turn["content"], when)
            )
    for leaf in words:
        part = said[leaf[0]][2 * leaf[1] : 2 * leaf[1] + 2]
        if leaf in texts:
            vector = vector_of(texts[leaf])
        else:
            vector = sum(vector_of(turn_text(one["speaker"], one["content"])) for one in part)
        dense[leaf] = max(float(asked @ vector / (np.linalg.norm(vector) or 1.0)), 0.0)
    order = sorted(words, key=lambda leaf: (said[leaf[0]][0]["timestamp"], leaf))
    wanted = set(lexical_tokens(QUESTION))
    mean = sum(len(one) for one in words.values()) / len(words)
    lexical = dict.fromkeys(words, 0.0)
    for token in wanted:
        has = sum(token in one for one in words.values())
        idf = np.log(1 + (len(words) - has + 0.5) / (has + 0.5))
        for leaf, one in words.items():
            times = one.count(token)
            lexical[leaf] += idf * times * (k1 + 1) / (times + k1 * (1 - b + b * len(one) / mean))
    out = dict.fromkeys(words, 0.0)
    for share, values in ((weight, dense), (1 - weight, lexical)):
        for leaf in sorted(order, key=lambda leaf: (-values[leaf], order.index(leaf)))[:channel]:
            out[leaf] += share * values[leaf] / (max(values.values()) or 1.0)
    return out


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize(
    ("weight", "k1", "b"), [(0.9, 1.5, 0.75), (0.5, 1.5, 0.75), (0, 0.4, 0.1), (1, 1.5, 1)]
)
def test_leaves_of_the_paper_are_those_of_equation_7(
    folder: Path, texts: bool, weight: float, k1: float, b: float
) -> None:
    """Each channel counts for its 40 best leaves alone, and by its largest value; then 20 stay."""
    said = talk(11, sessions=24, turns=8)

    def fails(request: Any) -> str | None:
        return None if texts or request.prompt != "segment" else "no"

    with remembered(folder, said, summariser=Teller(fails)) as forest:
        how: dict[str, Any] = {"complexity": 2, "leaves": "paper", "levels": (1,)}
        how |= {"weight": weight, "k1": k1, "b": b}
        shown = recalled(forest, show="texts", budgets={"complex": ALL}, **how)
        told = {
            leaf_of((one.sources[0].session_id, position(one, said))): one.text for one in memories(shown)
        }
        assert bool(told) == texts
        wanted = eq7(said, told, weight=weight, k1=k1, b=b)
        assert len(wanted) > 50, "some leaves are in neither channel"
        every = recalled(forest, budgets={"complex": ALL}, **how)
        got = {leaf_of(turn_of(one, said)): one.score for one in every.evidence}
        assert got.keys() == wanted.keys()
        assert max(abs(got[leaf] - wanted[leaf]) for leaf in got) < 2e-3
        first = {leaf_of(turn_of(one, said)) for one in recalled(forest, **how).evidence}
        assert len(first) == 20
        assert min(got[leaf] for leaf in first) >= max(got[leaf] for leaf in got.keys() - first)


def position(one: Evidence, said: Mapping[str, Sequence[dict[str, Any]]]) -> int:
    """Return the position of the first turn of a segment that is shown by its text."""
    turns = said[one.sources[0].session_id]
    return [datetime.fromisoformat(turn["timestamp"]) for turn in turns].index(one.start)


@pytest.mark.parametrize("reference", [None, datetime(2024, 4, 20, tzinfo=UTC)])
def test_the_orders(many: Any, reference: datetime | None) -> None:
    """By score; or by level and how far from the question's time (eq. 11). Neither drops anything."""
    forest, _ = many
    how: dict[str, Any] = {"complexity": 2, "reference_date": reference}
    by_score, by_level = (recalled(forest, order=one, **how).evidence for one in ("score", "level"))
    scores = [round(one.score, 9) for one in by_score]
    assert scores == sorted(scores, reverse=True)
    asked = reference or NOW

    def away(one: Evidence) -> float:
        start, end = (one.start, one.end) if one.kind == "memory" else (one.said, one.said)
        assert end is not None
        return max((start - asked).total_seconds(), (asked - end).total_seconds(), 0)

    def level(one: Evidence) -> int:
        return one.level or 0

    keyed = [(level(one), away(one)) for one in by_level]
    assert keyed == sorted(keyed)
    assert {key[0] for key in keyed} == {0, 1, 2, 3, 4}
    assert {one.text for one in by_level} == {one.text for one in by_score}


def test_a_memory_comes_with_its_level_its_window_and_its_time(many: Any) -> None:
    """And all the turns that it tells of, by their sessions; a session has no window."""
    forest, said = many
    found = recalled(forest, complexity=2)
    for one in memories(found):
        level, name = key_of(one)
        below = [session for session in said if above(said, session)[level] == name]
        assert (one.window is None) == (level == 2)
        assert {source.session_id for source in one.sources} == set(below)
        assert one.turns == sum(len(said[session]) for session in below)
        times = [datetime.fromisoformat(turn["timestamp"]) for session in below for turn in said[session]]
        assert (one.start, one.said) == (min(times), max(times))
        assert one.text.startswith(("session", "day", "week", "profile")[level - 2])
    turns = [one for one in found.evidence if one.kind != "memory"]
    assert {(one.level, one.window) for one in turns} == {(None, None)}


def test_segments_are_shown_by_their_texts_where_they_have_one(folder: Path) -> None:
    """And by their turns elsewhere; the same leaves either way."""
    said = talk(3)

    def fails(request: SummaryRequest) -> str | None:
        return "no" if request.prompt == "segment" and request.start.month == 5 else None

    with remembered(folder, said, summariser=Teller(fails)) as forest:
        how: dict[str, Any] = {"complexity": 2, "levels": (1,)}
        turns, texts = recalled(forest, **how), recalled(forest, show="texts", **how)
    leaves = {leaf_of(turn_of(one, said)) for one in turns.evidence}
    told = {(one.sources[0].session_id, position(one, said) // 2) for one in memories(texts, 1)}
    rest = {leaf_of(turn_of(one, said)) for one in texts.evidence if one.kind != "memory"}
    assert told | rest == leaves
    assert not told & rest
    assert told
    assert rest == {
        leaf for leaf in leaves if datetime.fromisoformat(said[leaf[0]][0]["timestamp"]).month == 5
    }
    assert all(one.text.startswith("segment") for one in memories(texts, 1))


def test_only_memories_with_a_text_are_recalled(folder: Path) -> None:
    """A day that failed gives its place to the next best; its turns are found all the same."""
    said, failed = talk(5), {"2024-03"}

    def fails(request: SummaryRequest) -> str | None:
        return "no" if request.prompt == "day" and (request.window or "")[:7] in failed else None

    with remembered(folder, said, summariser=Teller(fails)) as forest:
        found = recalled(forest, complexity=2, budgets={"complex": (999, 999, 2, 999, 999)})
        ranked = leaves_by_score(forest, said)
    march = {session for session, turns in said.items() if turns[0]["timestamp"][:7] in failed}
    assert 0 < len(march) < len(said)
    days = {name for _, name in first_above([one for one in ranked if one[0] not in march], said, {3: 2})}
    assert {one.window for one in memories(found, 3)} == days
    assert not any((one.window or "").startswith("2024-03") for one in memories(found)), "parents wait"
    assert {key_of(one)[1] for one in memories(found, 2)} == set(said), "sessions are written"
    shown = {turn_of(one, said)[0] for one in found.evidence if one.kind != "memory"}
    assert march <= shown


def test_no_row_is_read_but_of_what_is_returned(folder: Path, tmp_path: Path) -> None:
    """A query of a memory three times as large makes hardly more statements, and looks at the rows of its own memories."""
    made, looked = [], []
    execute, texts = Connection.execute, artifacts.found

    def counted(self: Any, *args: Any) -> Any:
        made.append(args[0])
        return execute(self, *args)

    def read(tx: Any, digests: Any) -> Any:
        looked.extend(digests)
        return texts(tx, digests)

    counts = []
    for where, sessions in ((folder, 24), (tmp_path, 72)):
        with remembered(where, talk(2, sessions=sessions, turns=2)) as forest:
            forest.flush()  # nothing is made behind it
            recalled(forest, complexity=2, top_k=31)
            made.clear()
            looked.clear()
            with patch.object(Connection, "execute", counted), patch.object(artifacts, "found", read):
                found = recalled(forest, complexity=2, top_k=900)
            counts.append(len(made))
        assert len(set(looked)) == len(memories(found)) == 11
    assert 5 < counts[1] <= counts[0] + 10, "72 turns more, and as many sessions"


def test_a_profile_of_june_is_no_evidence_for_may(folder: Path) -> None:
    """As of a moment no memory comes with a leaf behind it; during a window all that overlap it; a question that states one too."""
    said = talk(9, sessions=40, turns=3)
    how: dict[str, Any] = {"complexity": 2, "budgets": {"complex": ALL}}
    moment = datetime(2024, 5, 10, 12, tzinfo=UTC)
    starts = {session: datetime.fromisoformat(turns[0]["timestamp"]) for session, turns in said.items()}
    before = {session for session, at in starts.items() if at <= moment}
    later = set(said) - before
    with remembered(folder, said) as forest:
        everything = keys(recalled(forest, **how))
        then = recalled(forest, as_of=moment, **how)
        hidden = {(level, name) for one in later for level, name in above(said, one).items()}
        assert keys(then) == everything - hidden
        assert (5, "2024-05") in hidden & everything
        assert (5, "2024-04") in keys(then)
        assert {turn_of(one, said)[0] for one in then.evidence if one.kind != "memory"} == before

        week = (datetime(2024, 5, 6, tzinfo=UTC), datetime(2024, 5, 13, tzinfo=UTC))
        within = {one for one, at in starts.items() if week[0] <= at < week[1]}
        during = recalled(forest, during=week, **how)
        assert within
        assert keys(during) == {(level, name) for one in within for level, name in above(said, one).items()}
        assert {turn_of(one, said)[0] for one in during.evidence if one.kind != "memory"} == within

        asked = recalled(forest, "What did Ana see in the garden in May 2024?", **how)
        assert {name for level, name in keys(asked) if level == 5} == {"2024-05"}
        assert all(name.startswith("2024-05") for level, name in keys(asked) if level > 2)


@pytest.mark.parametrize("flat", [False, True])
def test_what_was_said_later_in_a_segment_moves_no_score_of_an_earlier_moment(
    folder: Path, tmp_path: Path, flat: bool
) -> None:
    """Its text tells of both turns, so that neither the text nor its vector counts by the moment of the first."""
    found = []
    for where, later in ((folder, "the garden of red tulips and the river"), (tmp_path, "ovens")):
        said = talk(6)
        said["s03"] = [{**said["s03"][0], "content": "a harbour"}, {**said["s03"][0], "content": later}]
        moment = datetime.fromisoformat(said["s03"][0]["timestamp"])
        said["s03"][1]["timestamp"] = (moment + timedelta(minutes=5)).isoformat()
        with remembered(where, said) as forest:
            asked = recalled(
                forest, complexity=2, leaves="paper", flat=flat, said_by=moment + timedelta(minutes=1)
            )
        found.append([(one.text, one.score) for one in asked.evidence])
    assert any(text == "a harbour" for text, _ in found[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("leaves", ["fused", "paper"])
@pytest.mark.parametrize("flat", [False, True])
def test_without_an_embedder_words_find_leaves_and_a_warning_says_so(
    folder: Path, leaves: str, flat: bool
) -> None:
    """With the fix; memories are pruned by what is below them."""
    said = talk(4)
    with remembered(folder, said, embedder=None) as forest:
        for prune in ("best", "own"):
            found = recalled(forest, "violin", complexity=2, leaves=leaves, flat=flat, prune=prune)
            turns = [one for one in found.evidence if one.kind != "memory"]
            assert memories(found)
            assert any("no embedder" in one and "rebuild(embedder=True)" in one for one in found.warnings)
            best = max(turns, key=lambda one: one.score)
            session, at = turn_of(best, said)
            part = said[session][at // 2 * 2 : at // 2 * 2 + 2]
            assert any("violin" in turn["content"] for turn in part)


def test_an_empty_memory_and_one_turn(folder: Path) -> None:
    """Nothing, and that turn, whatever the settings."""
    with MemForest(folder, configured()) as forest:
        forest.register_user("u")
        for how in ({}, {"flat": True}, {"leaves": "paper"}, {"prune": "own"}):
            assert not recalled(forest, **how).evidence
        forest.ingest_session("u", "one", talk(1)["s00"][:1])
        for how in ({}, {"flat": True}, {"leaves": "paper"}, {"prune": "own"}, {"show": "texts"}):
            found = recalled(forest, **how).evidence
            assert [one.kind == "memory" for one in found if not one.level] == ["show" in how], how
