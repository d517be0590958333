"""What a question brings in the index hmem: scopes, F, entities, parts, and what is not said twice."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests_long import hmems

from memforest import ConfigError, MemForest, Ranking
from memforest.config import Explore
from memforest.models import HashEmbedder
from memforest.read.results import Evidence, QueryResult
from memforest.search.vectors import turn_text

UTC = timezone.utc
NOW = datetime(2024, 9, 1, tzinfo=UTC)
THINGS = ("garden", "river", "tulips", "kettle", "canoe", "ladder", "violin", "harbour", "oven", "lamp")
PEOPLE = ("Carla", "Dora", "Emil")
QUESTION = "What did Ana buy for the garden by the river?"
Said = dict[str, list[dict[str, Any]]]


def talk(seed: int, sessions: int = 12) -> Said:
    """Return sessions on days of four months: statements that are much alike, and questions that state nothing."""
    random, made = Random(seed), Said()
    for at, day in enumerate(sorted(random.sample(range(120), sessions))):
        begun = datetime(2024, 3, 1, 9, tzinfo=UTC) + timedelta(days=day)
        lines = [
            f"I bought {random.choice(('a', 'another'))} {random.choice(THINGS)} and a {random.choice(THINGS)} "
            f"with {random.choice(PEOPLE)}."
            for _ in range(random.randint(3, 6))
        ]
        lines.insert(1, f"What about the {random.choice(THINGS)}?")
        made[f"s{at:02}"] = [
            {
                "speaker": ("Ana", "Bob")[i % 2],
                "content": line,
                "timestamp": (begun + timedelta(minutes=i)).isoformat(),
            }
            for i, line in enumerate(lines)
        ]
    return made


def remember(folder: Path, said: Said, own: dict[str, Any] | None = None, **more: Any) -> MemForest:
    """Return an open memory of sessions, with every memory of its trees written."""
    loose = {"schedule": (0.5, 0.4, 0.3), **(own or {})}
    made = MemForest(folder, hmems.configured(loose, clock=lambda: NOW, **more))
    for session, turns in said.items():
        made.ingest_session("u", session, turns)
    made.user("u").advance()
    return made


@pytest.fixture(name="forest", scope="module")
def _forest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    with remember(tmp_path_factory.mktemp("hmem"), talk(1)) as made:
        yield made


def asked(forest: MemForest, question: str = QUESTION, *, top_k: int = 900, **how: Any) -> QueryResult:
    """Return what a question brings."""
    plain = {name: how.pop(name) for name in ("as_of", "during", "reference_date", "explain") if name in how}
    ranking = Ranking(explore=Explore(**how))
    return forest.query("u", question, top_k=top_k, ranking=ranking, index="hmem", **plain)


def memories(found: QueryResult) -> list[Evidence]:
    """Return the memories among the evidence."""
    return [one for one in found.evidence if one.kind == "memory"]


def turn_ids(one: Evidence) -> set[str]:
    """Return the turns behind a piece of evidence."""
    return {f"{source.session_id}/{turn}" for source in one.sources for turn in source.turn_ids}


def test_scopes_bring_what_they_say(forest: MemForest) -> None:
    """SHORT has no memory, LONG no turn by itself, MIXED both, and each of the statements."""
    mixed, long, short = (asked(forest, scope=scope) for scope in ("mixed", "long", "short"))
    kinds = [{one.kind for one in found.evidence} for found in (short, long, mixed)]
    assert kinds == [{"fact", "turn"}, {"fact", "memory"}, {"fact", "turn", "memory"}]
    assert {one.level for one in memories(mixed)} <= {1, 2, 3}
    statements = [[one.text for one in found.evidence if one.kind == "fact"] for found in (short, long)]
    assert statements[0] == statements[1]


@pytest.mark.parametrize("scope", ["short", "long", "mixed"])
@pytest.mark.parametrize("similarity_of", ["fused", "cosine"])
def test_without_the_tree_turns_stand_by_themselves(
    forest: MemForest, scope: str, similarity_of: str
) -> None:
    """No event and no memory in any scope, where without long memory there are events; a turn is as like as its own words."""
    how: dict[str, Any] = {"scope": scope, "similarity_of": similarity_of, "entity": 0, "known": 0}
    bare, short = asked(forest, tree=False, **how), asked(forest, **{**how, "scope": "short"})
    assert {one.kind for one in bare.evidence} == {"turn"}
    # What one person says again in the same words is one piece of evidence, with all of its turns as sources.
    turns = [turn for one in bare.evidence for source in one.sources for turn in source.turn_ids]
    assert len(turns) == sum(map(len, talk(1).values()))
    assert {one.kind for one in short.evidence} == {"fact", "turn"}
    if similarity_of == "cosine":
        question, *rows = asyncio.run(
            HashEmbedder(32).embed([QUESTION, *(turn_text(one.speaker, one.quote) for one in bare.evidence)])
        )
        for one, vector in zip(bare.evidence, rows, strict=True):
            assert one.scores.get("similarity", 0.0) == pytest.approx(
                0.7 * float(vector @ question), abs=5e-3
            )


def test_of_a_memory_without_statements_turns_are_the_events(tmp_path: Path) -> None:
    """Where nothing is stated, and turns are events, LONG brings turns: each of them is one."""
    said = {
        session: [turn for turn in turns if turn["content"].endswith("?")]
        for session, turns in talk(2, 6).items()
    }
    with remember(tmp_path, said, {"events": "turns"}) as forest:
        found = asked(forest, "What about the lamp?", scope="long")
    assert {one.kind for one in found.evidence} in ({"turn"}, {"turn", "memory"})
    asked_for = {(turn["speaker"], turn["content"]) for turns in said.values() for turn in turns}
    assert len([one for one in found.evidence if one.kind == "turn"]) == len(asked_for)


@pytest.mark.parametrize("similarity_of", ["fused", "cosine"])
def test_parts_sum_to_the_score_and_evidence_stands_by_it(forest: MemForest, similarity_of: str) -> None:
    """Of turns, statements and memories alike, with and without a time that is asked about."""
    for question in (QUESTION, "What did Ana buy in April 2024?"):
        found = asked(forest, question, scope="mixed", similarity_of=similarity_of)
        scores = [one.score for one in found.evidence]
        assert scores == sorted(scores, reverse=True)
        for one in found.evidence:
            assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-9)
        assert any("time" in one.scores for one in found.evidence) == ("April" in question)


def test_literal_scores_are_those_of_the_paper(forest: MemForest) -> None:
    """S is the better cosine of the turn and what it states, R of its age and how often it was told, T 0 without a time."""
    found = asked(forest, scope="short", similarity_of="cosine", entity=0, known=0, reference_date=NOW)
    embedder = HashEmbedder(32)

    def vector(text: str) -> Any:
        return np.array(asyncio.run(embedder.embed([text]))[0], dtype=np.float64)

    whole = vector(QUESTION)
    checked = 0
    for one in found.evidence:
        assert set(one.scores) <= {"similarity", "robustness"}
        if one.kind != "turn":
            continue
        said = float(vector(turn_text(one.speaker, one.quote)) @ whole)
        assert one.scores.get("similarity", 0.0) == pytest.approx(0.7 * said, abs=5e-3)
        age = (NOW - one.said) / timedelta(days=1)
        assert one.scores["robustness"] == pytest.approx(0.15 * math.exp(-age / 365), abs=1e-9)
        checked += 1
    assert checked > 5


def test_what_is_told_again_holds_longer(tmp_path: Path) -> None:
    """R of a statement: n is how often it was told again, r when it was told last; 0 as its weight leaves it out."""
    days = (1, 20, 40)
    said = {
        f"s{day}": [
            {
                "speaker": "Ana",
                "content": "I own a red canoe.",
                "timestamp": f"2024-0{1 + day // 30}-{1 + day % 30:02}T09:00:00Z",
            }
        ]
        for day in days
    }
    at = datetime(2025, 2, 10, 9, tzinfo=UTC)
    with remember(tmp_path, said) as forest:
        (one,) = asked(forest, "What does Ana own?", scope="short", reference_date=at).evidence
        last = datetime(2024, 2, 11, 9, tzinfo=UTC)
        age = (at - last) / timedelta(days=1)
        wanted = math.exp(-age / (365 * (1 + 0.5 * math.log(1 + 2))))
        assert one.scores["robustness"] == pytest.approx(0.15 * wanted, abs=1e-9)
        (one,) = asked(forest, "What does Ana own?", scope="short", robustness=0).evidence
        assert "robustness" not in one.scores


def test_a_time_that_is_asked_about_counts(forest: MemForest) -> None:
    """What was told in the month fits better than what was told months later."""
    question = "What did Ana buy in April 2024?"
    found = asked(forest, question, scope="short", similarity=0, robustness=0, entity=0, time=1)
    inside = [one.score for one in found.evidence if one.said.month == 4]
    outside = [one.score for one in found.evidence if one.said.month != 4]
    assert min(inside) > max(outside)
    assert min(outside) >= 0


def test_entities_alone_lead_to_evidence_where_that_is_asked_for(forest: MemForest) -> None:
    """With ``reach="graph"`` and no hop, what a question's only entity is not in is no evidence; with ``"all"`` it is."""
    question = "What was bought with Dora?"
    how: dict[str, Any] = {"reach": "graph", "hops": 0, "entities": 1, "scope": "short"}
    found = asked(forest, question, explain=True, **how)
    assert found.evidence
    explored = found.trace["explain"]["explored"]
    assert explored["hops"] == 0
    assert [one["named"] for one in explored["parts"]] == [["Dora"]]
    assert all("Dora" in one.text for one in found.evidence)
    assert len(asked(forest, question, **{**how, "reach": "all"}).evidence) > len(found.evidence)


def test_what_is_known_of_a_named_entity_counts(tmp_path: Path) -> None:
    """What tells a state of Ana has a part of its own in a question about her; not about Bob, and not without the switch."""
    lines = (("Ana", "I work at Orrin."), ("Bob", "I painted the kitchen green."), ("Ana", "I saw a heron."))
    said = {
        f"s{at}": [{"speaker": who, "content": line, "timestamp": f"2024-03-{at + 1:02}T09:00:00Z"}]
        for at, (who, line) in enumerate(lines)
    }
    with remember(tmp_path, said) as forest:
        cases: list[tuple[str, dict[str, Any], dict[str, float]]] = [
            ("What does Ana like?", {}, {lines[0][1]: 0.3}),
            ("What does Ana like?", {"known": 0.1}, {lines[0][1]: 0.1}),
            ("What does Ana like?", {"known": 0}, {}),
            ("What does Bob like?", {}, {}),
        ]
        for question, how, wanted in cases:
            found = asked(forest, question, scope="short", **how)
            parts = {one.quote: one.scores["profile"] for one in found.evidence if one.scores.get("profile")}
            assert parts == pytest.approx(wanted)
            assert len(found.evidence) == len(lines)


def test_more_hops_reach_more(forest: MemForest) -> None:
    """Each hop leads to entities around those before, and to what is said of them."""
    question = "What was bought with Dora?"
    how: dict[str, Any] = {"reach": "graph", "entities": 3, "scope": "short"}
    sizes = [len(asked(forest, question, hops=hops, **how).evidence) for hops in (0, 1, 2)]
    assert sizes[0] <= sizes[1] <= sizes[2]
    assert sizes[0] < sizes[2]


def test_without_an_embedder_words_and_entities_find_and_it_says_so(tmp_path: Path) -> None:
    """There are no trees and no vectors; the answer names both what did the work and what would help."""
    with remember(tmp_path, talk(3, 3), embedder=None) as forest:
        found = asked(forest, "Who bought tulips with Emil?", scope="mixed")
    assert found.evidence
    assert not memories(found)
    assert any("no embedder" in one and "entities" in one for one in found.warnings)


def test_a_turn_and_its_statement_are_one(forest: MemForest) -> None:
    """No statement stands there twice, and no turn beside a statement that it supports."""
    found = asked(forest, scope="mixed")
    facts = [one.fact_id for one in found.evidence if one.kind == "fact"]
    assert len(facts) == len(set(facts))
    told = {turn for one in found.evidence if one.kind == "fact" for turn in turn_ids(one)}
    assert not any(turn_ids(one) & told for one in found.evidence if one.kind == "turn")


def test_no_memory_whose_events_are_all_there(forest: MemForest) -> None:
    """A memory among the first pieces has an event that none of the pieces before it is; and none stands for one event."""
    for question in (QUESTION, "Who bought a lamp?", "What does Bob own?"):
        before: set[str] = set()
        for one in asked(forest, question, scope="mixed").evidence:
            if one.kind == "memory":
                assert one.turns is not None
                assert one.turns > 1
                assert turn_ids(one) - before
            else:
                before |= turn_ids(one)


def test_nothing_tells_what_came_later(forest: MemForest) -> None:
    """Of an earlier moment no memory is there that tells of later events, and nothing that was said later."""
    then = datetime(2024, 4, 20, tzinfo=UTC)
    found = asked(forest, scope="mixed", as_of=then)
    assert found.evidence
    assert all(one.said <= then for one in found.evidence)
    assert len(memories(found)) < len(memories(asked(forest, scope="mixed")))


def test_a_window_keeps_what_overlaps_it(forest: MemForest) -> None:
    """Only what was said in the window, and memories of which some event was."""
    window = (datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC))
    found = asked(forest, scope="mixed", during=window)
    assert found.evidence
    for one in found.evidence:
        if one.kind != "memory":
            assert window[0] <= one.said < window[1]


def test_parts_take_turns(forest: MemForest) -> None:
    """Of two people who are put beside each other, the first two pieces are the best of each; scores still fall."""
    found = asked(forest, "What do Ana and Bob both own?", scope="short")
    parts = found.trace["explore"]["sub_queries"]
    assert [one["text"] for one in parts] == ["What does Ana own?", "What does Bob own?"]
    alone = [asked(forest, one["text"], scope="short", planner="off").evidence[0].text for one in parts]
    assert [one.text for one in found.evidence[:2]] == alone
    scores = [one.score for one in found.evidence]
    assert scores == sorted(scores, reverse=True)
    for one in found.evidence:
        assert sum(one.scores.values()) == pytest.approx(one.score, abs=1e-9)
    everything = {one.text for one in asked(forest, planner="off", scope="short").evidence}
    assert {one.text for one in found.evidence} == everything


def test_nobody_takes_a_question_apart_that_is_to_stay_whole(forest: MemForest) -> None:
    """With ``planner="off"`` it is its only part; a model that is asked for and not there is refused."""
    found = asked(forest, "What do Ana and Bob both own?", planner="off")
    assert len(found.trace["explore"]["sub_queries"]) == 1
    hows: list[dict[str, Any]] = [{"planner": "model"}, {"follow_up": "model"}]
    for how in hows:
        with pytest.raises(ConfigError):
            asked(forest, **how)


def test_the_order_of_sessions_makes_no_difference(tmp_path: Path, forest: MemForest) -> None:
    """The same talk in another order brings the same pieces with the same scores."""
    said = dict(reversed(talk(1).items()))
    with remember(tmp_path, said) as other:
        pairs = [
            [(one.text, round(one.score, 6)) for one in asked(each).evidence] for each in (forest, other)
        ]
    assert pairs[0] == pairs[1]


def test_an_empty_memory_has_nothing(tmp_path: Path) -> None:
    """Nothing is found, and nothing breaks."""
    with MemForest(tmp_path, hmems.configured()) as forest:
        forest.register_user("u")
        assert not asked(forest).evidence
