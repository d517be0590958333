"""The answer chosen by its time among what a reranker finds relevant, and how much the reranker reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memforest import Config, Evidence, MemForest, QueryResult
from memforest.config import Ranking
from memforest.models import CallableReranker, HashEmbedder
from memforest.read.rerank import within_tokens
from memforest.text import count_tokens

PLACES = ("cellar", "attic", "shed", "garage")
SAID = [
    ("Ana", "The ladder stands in the cellar."),
    ("Ben", "Which paint do you like?"),
    ("Ana", "The ladder stands in the attic."),
    ("Ana", "Soup with too much salt again."),
    ("Ana", "The ladder stands in the shed."),
    ("Ana", "The ladder stands in the garage."),
    ("Ben", "Where does the ladder of Ana stand, in the barn?"),
]
"""A turn a day, from 1 March 2024 on."""
READ: list[tuple[str, list[str]]] = []
"""What the reranker below was given."""


def judge(question: str, texts: list[str]) -> list[float]:
    """Score as logits: what is about the ladder answers, less so if it asks; anything else does not."""
    READ.append((question, texts))
    said = [text.rpartition(": ")[2] for text in texts]
    return [6.0 - 2 * text.endswith("?") if "ladder" in text else -9.0 for text in said]


JUDGE = CallableReranker(judge, model_id="judge")


def config(**more: Any) -> Config:
    """Return a configuration with the judge."""
    return Config(**{"embedder": HashEmbedder(), "reranker": JUDGE, **more})


def fill(forest: MemForest, said: Sequence[tuple[str, str]] = SAID) -> None:
    """Ingest a session for each turn, on the days from 1 March on."""
    for day, (who, text) in enumerate(said, 1):
        turn = {"speaker": who, "content": text, "timestamp": f"2024-03-{day:02}T10:00:00Z"}
        forest.ingest_session("u", f"s{day}", [turn])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled memory."""
    folder = tmp_path_factory.mktemp("ladder")
    with MemForest(folder, config()) as forest:
        fill(forest)
    return folder


@pytest.fixture
def forest(place: Path) -> Iterator[MemForest]:
    """The memory, with the judge."""
    READ.clear()
    with MemForest(place, config()) as opened:
        yield opened


def ask(forest: MemForest, question: str, **options: Any) -> QueryResult:
    """Ask the index without timelines, in May 2024."""
    return forest.query("u", question, **{"index": "flat", "reference_date": "2024-05-01", **options})


def shown(evidence: Sequence[Evidence]) -> list[str]:
    """Return the turns of evidence."""
    return [one.quote for one in evidence]


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Which place does Ana's ladder have?", {}),  # a time in the tense alone
        ("Which place did Ana's ladder have before the pantry?", {}),  # nothing tells of the pantry
        ("Which place did Ana's ladder have before the cellar?", {}),  # nothing was said before
        ("Which place did Ana's ladder have in January 2024?", {}),
        ("Which place did Ana's ladder have on 4 March 2024?", {}),  # as many such questions are about events
        ("Since when has Ana had the ladder there?", {}),
        ("Which salt does Ana like now?", {}),  # the only answers are below even odds: see the judge
        ("Which place does Ana's ladder have now?", {"ranking": Ranking(time_order=0)}),
        ("Which place does Ana's ladder have now?", {"ranking": Ranking(rerank=0)}),
    ],
)
def test_nothing_leads(forest: MemForest, question: str, options: dict[str, Any]) -> None:
    """Where no operator is in the words, nothing answers by its time, or it is switched off."""
    if "salt" in question:
        options = {**options, "during": ("2024-03-04", "2024-03-05")}
    assert {one.why for one in ask(forest, question, **options).evidence} == {""}


def test_a_scale_that_is_unknown_chooses_nothing(place: Path) -> None:
    """Numbers that are promised to be no logits order the candidates; how likely one answers they do not say."""
    plain = CallableReranker(judge, model_id="judge")
    question = "Which place did Ana's ladder have before the shed?"
    with MemForest(place, config(reranker=plain)) as forest:
        found = ask(forest, question)
    assert {one.why for one in found.evidence} == {""}
    assert READ[-1][0] == question


def test_without_a_reranker_nothing_is_chosen(place: Path) -> None:
    """The same memory without one: nothing leads."""
    with MemForest(place, config(reranker=None)) as forest:
        assert {one.why for one in ask(forest, "Which place does Ana's ladder have now?").evidence} == {""}


def test_a_timeline_that_leads_is_left_alone(tmp_path: Path) -> None:
    """What a timeline says stands first as without a reranker, though the judge finds other turns better."""
    said = [
        ("Ana", "I live in Davis."),
        ("Ana", "I moved to Oslo."),
        ("Ana", "The ladder stands in the shed."),
    ]
    question = "Where does Ana live now?"
    with MemForest(tmp_path, config(reranker=None)) as forest:
        fill(forest, said)
        plain = forest.query("u", question).evidence[0]
    READ.clear()
    with MemForest(tmp_path, config()) as forest:
        found = forest.query("u", question).evidence
    assert plain.why.startswith("current of residence")
    assert (found[0].quote, found[0].why) == (plain.quote, plain.why)
    assert {one.why for one in found[1:]} == {""}
    assert READ[0][0] == question


def test_a_budget_of_tokens_is_spent_in_order() -> None:
    """Every text with the question once and the frame of three; the first whatever it costs."""
    question, texts = "Where is it?", ["word " * 20, "a b c", "", "word " * 9]
    each = [count_tokens(question) + count_tokens(text) + 3 for text in texts]
    assert [within_tokens(question, texts, sum(each[:n])) for n in range(1, 5)] == [1, 2, 3, 4]
    assert [within_tokens(question, texts, sum(each[:n]) - 1) for n in range(1, 5)] == [1, 1, 2, 3]
    assert within_tokens(question, texts, 10**9) == 4


def test_what_is_behind_the_budget_is_not_read(place: Path) -> None:
    """It follows in its order behind what was read, also where `rerank_top` would allow more."""
    with MemForest(place, config(reranker=None)) as forest:
        before = shown(ask(forest, "Who has the ladder?").evidence)
    READ.clear()
    with MemForest(place, config(rerank_tokens=45)) as forest:
        found = ask(forest, "Who has the ladder?")
    ((_, texts),) = READ
    assert 1 < len(texts) < len(SAID)
    assert [text.partition(": ")[2] for text in texts] == before[: len(texts)]
    assert shown(found.evidence)[len(texts) :] == before[len(texts) :]
    assert sum("rerank" in one.scores for one in found.evidence) in (0, len(texts))


def test_one_candidate_is_always_read(place: Path) -> None:
    """Also where the smallest budget is not enough for it."""
    READ.clear()
    with MemForest(place, config(rerank_tokens=1)) as forest:
        ask(forest, "Who has the ladder?")
    assert [len(texts) for _, texts in READ] == [1]
