"""Tests of relevance: one scale, talk finds nothing, and what is asked plainly is found."""

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import numpy as np
import pytest

from memforest import Config, MemForest, QueryResult, UserMemory
from memforest.errors import ModelError
from memforest.models import BGE_SMALL, MINILM, LocalReranker
from memforest.models.onnx import OnnxModel
from memforest.search.relevance import Judge
from memforest.search.succession import is_read, open_weights

SAID = (
    "The wifi password is hunter2.",
    "I live in Leeds, near the university.",
    "My sister Ida is getting married in May.",
    "We adopted a greyhound called Pepper last spring.",
    "I'm allergic to hazelnuts, so no pralines for me.",
    "Our standup moved to 9:30 on Tuesdays.",
    "I started learning the cello with Mr Okafor.",
    "Dad's knee operation went fine, he is home again.",
    "We watched the boat race from the bridge and got soaked.",
    "My laptop is a ThinkPad with a broken hinge.",
    "The dentist wants to see me on 14 March.",
    "I hate coriander, it tastes of soap.",
)
HELD_OUT = Path(__file__).parents[2] / "data" / "held_out"
"""Questions and talk by two hands that saw nothing of `data/reading`."""
PLAIN = {
    "What is the wifi password?": "hunter2",
    "wifi password": "hunter2",
    "Where do I live?": "Leeds",
    "Who is getting married?": "Ida",
    "What's my dog called?": "Pepper",
    "Am I allergic to anything?": "hazelnuts",
    "When is the standup?": "9:30",
    "Who teaches me the cello?": "Okafor",
    "How is Dad's knee?": "operation",
    "Which laptop do I have?": "ThinkPad",
    "dentist appointment": "14 March",
    "Which herb do I dislike?": "coriander",
}


@pytest.fixture(scope="module")
def robin(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A memory of a few things that one person told."""
    with MemForest(tmp_path_factory.mktemp("robin"), Config(embedder="minilm-l6-v2-int8")) as forest:
        user = forest.user("robin")
        for day, text in enumerate(SAID, 1):
            user.add(text, timestamp=f"2024-01-{day:02}T10:00:00+00:00", session_id=f"day-{day}")
        yield user


@pytest.mark.parametrize("model", [MINILM, BGE_SMALL])
def test_each_local_embedder_has_weights(model: OnnxModel) -> None:
    """The weights of each embedder tell shares."""
    judge = open_weights(model.model_id, Judge)
    assert judge is not None
    found = judge.of_features(2.0, np.zeros((3, len(judge.pair_shift))))
    assert ((found > 0) & (found < 1)).all()


def test_talk_finds_nothing(robin: UserMemory) -> None:
    """Of messages that ask for nothing, by hands that saw no others, nine in ten find nothing, and `ask` abstains from all."""
    files = (tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(HELD_OUT.glob("*.toml")))
    talk = [text for tables in files for text in tables["chat"]["lines"]]
    assert len(talk) >= 210
    found = {text: robin.search(text) for text in talk}
    heard = [text for text, result in found.items() if result]
    assert len(heard) <= 0.1 * len(talk), heard
    assert all(robin.ask(text).abstained for text in talk)


@pytest.mark.parametrize(("question", "answer"), PLAIN.items())
def test_what_is_asked_plainly_is_found(robin: UserMemory, question: str, answer: str) -> None:
    """The statement that answers is found, first, and with more relevance than any other."""
    first, *others = robin.search(question)
    assert answer in first.quote
    assert first.relevance is not None
    assert all(one.relevance is not None and one.relevance <= first.relevance for one in others)


def test_ask_answers_it(tmp_path: Path) -> None:
    """What is asked plainly is answered: nothing of it is left out."""
    with MemForest(tmp_path, Config(embedder="minilm-l6-v2-int8")) as forest:
        user = forest.user("robin")
        user.add(SAID[0], timestamp="2024-01-05T10:00:00+00:00")
        assert "hunter2" in (user.ask("What is the wifi password?").answer or "")


def test_what_was_said_later_leads_only_if_it_may_answer(robin: UserMemory) -> None:
    """A later statement about something else does not lead, however much it looks like a change."""
    first = robin.search("Where do I live?").evidence[0]
    assert "Leeds" in first.quote


def test_less_relevance_is_left_out(robin: UserMemory) -> None:
    """`min_relevance` leaves out what has less, 0 nothing, and the rest keeps its order."""

    def quotes(result: QueryResult) -> list[str]:
        return [one.quote for one in result]

    every = robin.search("Which laptop do I have?", min_relevance=0)
    assert len(every) == 10
    some = robin.search("Which laptop do I have?", min_relevance=0.1)
    assert quotes(some) == [one.quote for one in every if (one.relevance or 0) >= 0.1]
    assert not robin.search("Thanks!", min_relevance=1)


def test_key_words_find_what_has_them_and_short_talk_nothing(tmp_path: Path) -> None:
    """A thing that is looked up by its name alone is no talk, in a memory of one message too."""
    with MemForest(tmp_path, Config(embedder="minilm-l6-v2-int8", reranker="none")) as forest:
        user = forest.user("robin")
        user.add("Mail me at robin@example.org.", timestamp="2024-01-05T10:00:00+00:00")
        for words in ("mail", "Mail address", "email"):
            assert [one.quote for one in user.search(words)] == ["Mail me at robin@example.org."], words
        for talk in ("ok thanks", "haha", "great, bye"):
            assert not user.search(talk), talk


def test_pinned_statements_stay(tmp_path: Path) -> None:
    """What a person has pinned is among the evidence of talk too."""
    with MemForest(tmp_path, Config(embedder="minilm-l6-v2-int8")) as forest:
        user = forest.user("robin")
        user.add(SAID[4], timestamp="2024-01-05T10:00:00+00:00")
        (fact,) = user.list()
        user.pin(fact.fact_id)
        assert [one.pinned for one in user.search("Thanks!")] == [True]


@pytest.mark.parametrize(
    ("said", "question", "judged"),
    [
        ("Vivo en Valparaíso, cerca del puerto.", "¿Dónde vivo ahora?", True),
        ("Ich wohne in Bamberg, gleich am Dom.", "Wo wohne ich jetzt?", True),
        ("J'habite à Namur depuis trois ans.", "Où est-ce que j'habite ?", True),
        ("我家就在厦门，出门走五分钟就是海。", "我现在住在哪里？", False),
        ("Я живу в Казани, у самой реки.", "Где я сейчас живу?", False),
        ("我家就在厦门，出门走五分钟就是海。", "Where do I live?", False),
    ],
)
def test_other_scripts_are_not_judged(tmp_path: Path, said: str, question: str, judged: bool) -> None:
    """Of what is in another script nothing is said, and nothing is left out."""
    with MemForest(tmp_path, Config(embedder="minilm-l6-v2-int8")) as forest:
        user = forest.user("robin")
        user.add(said, timestamp="2024-01-05T10:00:00+00:00")
        (found,) = user.search(question, min_relevance=0)
        assert (found.relevance is not None) == judged
        assert len(user.search(question, min_relevance=1)) == 1 - judged


def test_without_weights_nothing_is_left_out(tmp_path: Path) -> None:
    """An embedder without weights, or none, says nothing of relevance."""
    with MemForest(tmp_path, Config(embedder="none")) as forest:
        user = forest.user("robin")
        user.add(SAID[0], timestamp="2024-01-05T10:00:00+00:00")
        assert [one.relevance for one in user.search("What is the wifi password?", min_relevance=1)] == [None]


@pytest.mark.parametrize(
    "text", ["wifi", "Where does Zoë live?", "¿Dónde vive Ana?", "What is 北京 called?", "👍"]
)
def test_latin_letters_are_read(text: str) -> None:
    """Names, emoji and single words of another script do not make a text that script's."""
    assert is_read(text)


def test_ask_says_where_pairs_cannot_be_read(robin: UserMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it goes by what else is known, with a warning."""

    async def fails(self: LocalReranker, question: str, texts: list[str]) -> None:
        raise ModelError("the weights are gone")

    monkeypatch.setattr(LocalReranker, "read_states", fails)
    found = robin.ask(next(iter(PLAIN)))
    assert found.answer or found.nearest
    assert any("without the reranker" in one for one in found.result.warnings)
