"""Placers and summaries that fail: a leaf goes by likeness and its maker says so, or it waits with the reason; nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests_long.text_placing import Setup, Teller, by_tag, checked, leaves, makers, say, shape, talk, turns_of
from tests_long.worlds import file_of, rows

from memforest import Budget, MemForest
from memforest.errors import (
    BudgetError,
    IndexStateError,
    ModelRefusedError,
    ModelRequestError,
    ModelUnavailableError,
    StepError,
)
from memforest.models import HashEmbedder
from memforest.types import PlaceRequest

SAID = talk(16)


def failing(wrong: dict[int, Any]) -> Callable[[PlaceRequest], Any]:
    """Return a rule that for some remarks returns something wrong, or raises it."""

    def rule(request: PlaceRequest) -> Any:
        at = int(re.findall(r"\d+", request.text)[0])
        if at not in wrong:
            return by_tag(request)
        if isinstance(wrong[at], Exception):
            raise wrong[at]
        return wrong[at]

    return rule


def reason(forest: MemForest) -> str | None:
    """Return why the index has stopped."""
    [view] = forest.user("u").indexes()
    return view.reason


NOT_THERE = "chose what is not there"
WRONG: list[tuple[Any, str]] = [
    (99, NOT_THERE),
    (-1, NOT_THERE),
    (float("nan"), NOT_THERE),
    (True, NOT_THERE),
    ("MERGE_1", NOT_THERE),
    (ValueError("Remark 7 is a secret"), "raised ValueError"),
    (StepError("no"), "raised StepError"),
    (ModelRequestError("too long", status=400), "raised ModelRequestError"),
]


def test_a_wrong_choice_is_made_by_likeness(folder: Path) -> None:
    """Of that leaf alone; its maker says why, in no words of the placer's, and the write warns."""
    setup = Setup("own", rule=failing(dict(enumerate((one for one, _ in WRONG), 4))), settings={"tau": -1.0})
    with setup.open(folder) as forest:
        warnings = say(forest, SAID)
        whys = [why for _, why in WRONG]
        assert sorted(warnings) == sorted(
            f"some exchanges are placed by likeness, as chooser@1 {why}" for why in set(whys)
        )
        found = [
            one[1:]
            for one in sorted(rows(file_of(folder), "SELECT first, maker, level FROM ix_segtree_exchange"))
        ]
        assert [one[0] for one in found[4:12]] == [f"cosine, as chooser@1 {why}" for why in whys]
        assert all(
            one[1] is not None for one in found[4:12]
        )  # like something, as everything is with this tau
        assert makers(folder)["chooser@1"] == 8
        assert len(set(leaves(folder))) == 16
        checked(forest)


@pytest.mark.parametrize("placer", ["batch", "pointwise"])
def test_an_unusable_reply_is_repaired_once(folder: Path, placer: str) -> None:
    """With a usable second reply the model decides; without one, likeness does."""
    setup = Setup(placer)
    answer = setup.chat._function
    bad = {"Remark 5 ": 1, "Remark 9 ": 9}

    def reply(request: Any) -> Any:
        for said, left in bad.items():
            if left and "<exchange>\n" in request.messages[1].content and said in _exchange(request):
                bad[said] -= 1
                return "MERGE, I would say"
        return answer(request)

    setup.chat._function = reply
    with setup.open(folder) as forest:
        say(forest, SAID)
        name = f"place_{placer}@1:function"
        assert makers(folder) == {name: 15, f"cosine, as {name} gave no usable reply": 1}
        assert bad == {"Remark 5 ": 0, "Remark 9 ": 7}
        assert forest.user("u").stats().indexes["segtree"]["placed_by"] == makers(folder)
        checked(forest)


def _exchange(request: Any) -> str:
    return str(request.messages[1].content).split("<exchange>")[-1]


@pytest.mark.parametrize(
    ("placer", "where", "annotate", "error"),
    [
        ("batch", "placer", "lazy", ModelUnavailableError("no connection")),
        ("own", "placer", "append", ModelRefusedError("the key is refused", status=401)),
        ("own", "summaries", "lazy", ModelUnavailableError("no connection")),
        ("batch", "summaries", "append", BudgetError("used up")),
    ],
)
def test_leaves_wait_while_no_call_can_succeed(
    folder: Path, placer: str, where: str, annotate: str, error: Exception
) -> None:
    """With the reason; turns are found meanwhile, the query says how many wait, and `resume` goes on without anything twice."""
    down: list[Exception] = [error]

    def rule(request: PlaceRequest) -> Any:
        if down and where == "placer" and "Remark 7 " in request.text:
            raise down[0]
        return by_tag(request)

    def fails(request: Any) -> Any:
        return down[0] if down and where == "summaries" and "Remark 6 " in str(request.inputs) else None

    setup = Setup(placer, annotate, rule=rule, teller=Teller(fails))
    name = "chooser@1" if placer == "own" else "place_batch@1:function"
    with setup.open(folder) as forest:
        [*_, warning] = say(forest, SAID)
        assert "stays behind" in warning
        waits = makers(folder)[None]
        assert 9 <= waits < 16
        assert str(error) in str(reason(forest))
        checked(forest)
        found = forest.query("u", "What about Remark 15?", index="segtree")
        assert any("Remark 15" in one.text for one in found.evidence)
        assert any(f"{waits} exchange(s) wait" in one for one in found.warnings)
        forest.resume("u")
        assert makers(folder)[None] == waits
        down.clear()
        forest.resume("u")
        assert makers(folder) == {name: 16}
        assert reason(forest) is None
        assert shape(folder) == _whole(folder / "whole")
        say(forest, ["Remark 16 on #topic3."], "next", hour=5)
        assert makers(folder) == {name: 17}
        checked(forest)


class Flaky(HashEmbedder):
    """Fails on what nodes say, as long as it is told to."""

    down = True

    async def embed(self, texts: Sequence[str]) -> Any:
        """Embed, or fail."""
        if self.down and any("It is about" in text for text in texts):
            raise ModelUnavailableError("the embedder is down")
        return await super().embed(texts)


def test_a_vector_that_cannot_be_made_is_waited_for(folder: Path) -> None:
    """No candidate is passed over because its vector is missing; when the embedder is back, the tree is the one it would have been."""
    flaky = Flaky(32)
    setup = Setup("cosine", settings={"tau": 0.85}, more={"embedder": flaky})
    with setup.open(folder) as forest:
        say(forest, SAID)
        assert "the embedder is down" in str(reason(forest))
        assert makers(folder)[None] == 14
        checked(forest)
        flaky.down = False
        forest.resume("u")
        assert makers(folder) == {"cosine": 16}
        checked(forest)
    with Setup("cosine", settings={"tau": 0.85}).open(folder / "whole") as forest:
        say(forest, SAID)
    assert shape(folder) == shape(folder / "whole")


def _whole(folder: Path) -> str:
    with Setup("own").open(folder) as forest:
        say(forest, SAID)
    return shape(folder)


@pytest.mark.parametrize("placer", ["batch", "cosine"])
def test_a_budget_that_is_used_up_in_the_middle(folder: Path, placer: str) -> None:
    """What could not be decided with up to date texts waits, whoever the calls were for; each resume goes on."""
    setup = Setup(placer, more={"chat_steps": ("place", "summarise"), "summariser": None, "summary_words": 8})
    with setup.open(folder) as forest:
        forest.ingest_session("u", "s", _turns(), infer=False, budget=Budget(max_calls=5))
        waits = makers(folder)[None]
        assert waits > 0
        assert "used up" in str(reason(forest))
        asked = len(setup.chat.requests)
        assert asked <= 5
        for _ in range(30):
            if None not in makers(folder):
                break
            forest.resume("u", budget=Budget(max_calls=12))
            checked(forest)
        assert None not in makers(folder)
        assert len(leaves(folder)) == len(set(leaves(folder))) == 16
        assert reason(forest) is None
    whole = Setup(placer, more=setup.more)
    with whole.open(folder / "whole") as forest:
        forest.ingest_session("u", "s", _turns(), infer=False)
    assert shape(folder) == shape(folder / "whole")


def _turns() -> list[dict[str, Any]]:
    """Return turns that are too long to be kept as they are."""
    much = "It was said at length, with very many words of no importance at all, once more and again."
    return turns_of([f"{one} {much}" for one in SAID])


def test_without_an_embedder_it_goes_by_count(folder: Path) -> None:
    """The model still decides; where it cannot, the number of leaves does, and the maker says so."""
    setup = Setup("own", rule=failing({7: 99}), more={"embedder": "none"})
    with setup.open(folder) as forest:
        say(forest, SAID)
        assert makers(folder) == {"chooser@1": 15, "runs, as chooser@1 chose what is not there": 1}
        checked(forest)


@pytest.mark.parametrize(
    ("placer", "fix"), [("batch", r"Config\(chat=...\) with 'place'"), ("own", "Config.placer=")]
)
def test_a_placer_that_is_not_there(folder: Path, placer: str, fix: str) -> None:
    """Adding the index says what to give; it stays behind, the memory is used, and with the placer it goes on."""
    nobody = Setup(placer, more={"chat": None, "placer": None, "indexes": ("memforest",)})
    with nobody.open(folder) as forest:
        say(forest, SAID)
        with pytest.raises(IndexStateError, match=fix):
            forest.user("u").add_index("segtree")
        assert forest.query("u", "What about Remark 15?").evidence
        found = forest.query("u", "What about Remark 15?", index="segtree")
        assert any("Remark 15" in one.text for one in found.evidence)
        assert any("16 exchange(s) wait" in one for one in found.warnings)
        say(forest, ["Remark 16 on #topic3."], "next", hour=5)
        checked(forest)
    with Setup(placer, more={"indexes": ("memforest",)}).open(folder) as forest:
        forest.resume("u")
        assert sum(makers(folder).values()) == 17
        assert None not in makers(folder)
        checked(forest)
