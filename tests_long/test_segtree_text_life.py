"""What happens to a memory whose leaves a model has placed: deletions, changes, late sessions, other prompts, two processes."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path
from typing import Any

import pytest
from tests_long.text_placing import (
    POLICIES,
    Setup,
    by_tag,
    checked,
    expected,
    leaves,
    makers,
    say,
    shape,
    talk,
    turns_of,
)

from memforest import AsyncMemForest
from memforest.systems.segtree import by_text
from memforest.types import PlaceRequest

SAID = talk(20, 3)
SECRET = "zebrafinch"


def without(tree: str, number: int) -> str:
    """Return a drawn tree without a leaf: a node that has one child left is that child."""
    tree = re.sub(rf"\b{number}\b", "", tree)
    while (found := re.sub(r"\[(\d+|\[[^\[\]]*\])\]", r"\1", _tidy(tree))) != tree:
        tree = found
    return tree


def _tidy(tree: str) -> str:
    return tree.replace("  ", " ").replace("[ ", "[").replace(" ]", "]")


def shown(setup: Setup, since: tuple[int, int] = (0, 0)) -> str:
    """Return everything that placer and summariser were shown."""
    return repr((setup.asked[since[0] :], setup.teller.requests[since[1] :]))


# -- what goes and what changes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotate", "at"), [*((policy, 9) for policy in POLICIES), ("append", 0), ("append", 19)]
)
def test_what_is_deleted_is_nowhere_afterwards(folder: Path, annotate: str, at: int) -> None:
    """In no summary, no candidate and no prompt; the other leaves stay where they are, and nobody is asked again."""
    said = [f"{one} {SECRET}" if one.startswith(f"Remark {at} ") else one for one in SAID]
    setup = Setup("own", annotate)
    setup.teller.words = SECRET
    with setup.open(folder) as forest:
        say(forest, said)
        tree = shape(folder)
        assert SECRET in shown(setup)
        before = len(setup.asked), len(setup.teller.requests)
        forest.delete_turn("u", "s", f"t{at}")
        forest.resume("u")
        assert shape(folder) == without(tree, at)
        assert len(setup.asked) == before[0]
        say(forest, ["Remark 20 on #topic3.", "Remark 21 on #topic5."], "next", hour=5)
        forest.flush()
        assert SECRET not in shown(setup, before)
        assert sum(makers(folder).values()) == 21
        report = forest.user("u").verify(deleted=[SECRET])
        assert report.ok, report.problems


def test_what_is_left_of_an_exchange_stands_where_it_stood(folder: Path) -> None:
    """A turn that loses the one it was paired with joins its neighbours; that is no new question to the placer."""
    setup = Setup("own", "path", settings={"leaves": "adjacent"})
    with setup.open(folder) as forest:
        say(forest, SAID)
        say(forest, ["Remark 20 on #topic3.", "Remark 21 on #topic3."], "next", hour=5)
        before = len(setup.asked)
        forest.delete_turn("u", "s", "t7")
        forest.resume("u")
        assert len(setup.asked) == before
        assert [int(one) for one in re.findall(r"\d+", shape(folder))] == [0, 2, 4, *range(8, 21, 2)]
        assert makers(folder) == {"chooser@1": 9, "beside": 1}
        forest.flush()
        checked(forest)


def test_a_session_that_is_told_anew(folder: Path) -> None:
    """All its turns are new ones: they and what is behind them are placed again, each once."""
    setup = Setup("own", "path")
    with setup.open(folder) as forest:
        say(forest, SAID[:8], "first")
        say(forest, SAID[8:], "second", hour=2)
        other = [*SAID[:7], "Remark 70 on #topic99."]
        forest.ingest_session("u", "first", turns_of(other), infer=False, replace=True)
        assert shape(folder) == expected([*other, *SAID[8:]], "path")[0]
        assert makers(folder) == {"chooser@1": 20}
        forest.flush()
        checked(forest)


@pytest.mark.parametrize("late", ["rebuild", "arrival", "refuse"])
def test_a_session_that_comes_late(folder: Path, late: str) -> None:
    """It takes its place in time, and what is behind it is placed anew; or the end; or none."""
    setup = Setup("own", "path", settings={"late": late})
    with setup.open(folder) as forest:
        say(forest, SAID[:8], "first", hour=0)
        say(forest, SAID[8:14], "third", hour=4)
        before = len(setup.asked)
        say(forest, SAID[14:], "second", hour=2)
        in_time = [*SAID[:8], *SAID[14:], *SAID[8:14]]
        order = {"rebuild": in_time, "arrival": SAID, "refuse": SAID[:14]}[late]
        assert shape(folder) == expected(order, "path")[0]
        assert len(setup.asked) - before == {"rebuild": 12, "arrival": 6, "refuse": 0}[late]
        checked(forest)
        forest.user("u").rebuild(index="segtree")
        again = in_time if late == "refuse" else order
        assert shape(folder) == expected(again, "path")[0]
        checked(forest)


@pytest.mark.parametrize("annotate", ["lazy", "append"])
def test_a_session_that_goes_on(folder: Path, annotate: str) -> None:
    """Turns that are added go to the end; an exchange that they complete stays, and every turn is in one leaf."""
    setup = Setup("own", annotate, settings={"leaves": "adjacent"})
    with setup.open(folder) as forest:
        for count in (3, 4, 9, 20):
            forest.ingest_session("u", "s", turns_of(SAID[:count]), infer=False)
            checked(forest)
        assert len(leaves(folder)) == len(set(leaves(folder))) == 10
        assert len(setup.asked) <= 10
        assert None not in makers(folder)


# -- other models ---------------------------------------------------------------------------------


def test_another_summariser_makes_the_summaries_stale_and_nothing_else(folder: Path) -> None:
    """`rebuild(stale=True)` makes every summary once; leaves stay where they are, and nobody is asked about them."""
    setup = Setup("own", "path")
    with setup.open(folder) as forest:
        say(forest, SAID)
    tree, inner = shape(folder), shape(folder).count("[")
    other = Setup("own", "path")
    other.teller.name = "teller@2"
    with other.open(folder) as forest:
        assert forest.user("u").stale().summaries == inner
        forest.user("u").rebuild(stale=True)
        forest.flush()
        assert len(other.teller.requests) == inner
        assert other.asked == []
        assert forest.user("u").stale().summaries == 0
        checked(forest)
    assert shape(folder) == tree


def test_another_placer_places_what_comes_from_now_on(folder: Path) -> None:
    """What the first one placed stays, and the counts say who placed what; `rebuild` asks the new one about all."""
    with Setup("own").open(folder) as forest:
        say(forest, SAID)
    tree = shape(folder)
    other = Setup("own", rule=lambda request: None)
    other.chooser.name = "splitter@1"
    with other.open(folder) as forest:
        forest.user("u").rebuild(stale=True)
        assert shape(folder) == tree
        say(forest, ["Remark 20 on #topic3."], "next", hour=5)
        placed = forest.user("u").stats().indexes["segtree"]["placed_by"]
        assert placed == {"chooser@1": 20, "splitter@1": 1}
        forest.user("u").rebuild(index="segtree")
        assert makers(folder) == {"splitter@1": 21}
        checked(forest)


# -- at the same time -----------------------------------------------------------------------------


async def _delete(folder: Path, at: int) -> None:
    """Delete a turn from elsewhere, where there is no placer."""
    async with AsyncMemForest(folder, Setup("own", more={"placer": None}).config) as other:
        await other.delete_turn("u", "s", f"t{at}")


@pytest.mark.parametrize("at", [7, 6, 2])
def test_a_deletion_while_the_placer_thinks(folder: Path, at: int) -> None:
    """Of what is being placed, of its neighbour, or elsewhere: the placer is asked again about what there is then."""
    gone: list[int] = []

    async def rule(request: PlaceRequest) -> int | None:
        if "Remark 7 " in request.text and not gone:
            gone.append(at)
            await _delete(folder, at)
        return by_tag(request)

    setup = Setup("own", rule=rule)
    with setup.open(folder) as forest:
        say(forest, SAID)
        forest.flush()
        assert gone == [at]
        assert [int(one) for one in re.findall(r"\d+", shape(folder))] == [n for n in range(20) if n != at]
        assert None not in makers(folder)
        assert checked(forest)


@pytest.mark.parametrize("annotate", POLICIES)
def test_a_deletion_before_the_summaries(
    folder: Path, annotate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leaf that goes right behind its placing is in no summary that is made of it then."""
    said = [*SAID[:7], f"Remark 7 on #topic1, {SECRET}.", *SAID[8:]]
    make = by_text._annotate
    gone: list[tuple[int, int]] = []
    setup = Setup("own", annotate)

    async def deleted_first(host: Any, settings: Any, exchange: Any, above: Any) -> list[str]:
        if exchange.first == 7 and not gone:
            gone.append((len(setup.asked), len(setup.teller.requests)))
            await _delete(folder, 7)
        failures: list[str] = await make(host, settings, exchange, above)
        return failures

    monkeypatch.setattr(by_text, "_annotate", deleted_first)
    with setup.open(folder) as forest:
        assert say(forest, said) == ()
        forest.flush()
        assert gone
        assert SECRET not in shown(setup, gone[0])
        assert sum(makers(folder).values()) == 19
        report = forest.user("u").verify(deleted=[SECRET])
        assert report.ok, report.problems


def _place_at_once(folder: str, annotate: str, gate: Any, answers: Any) -> None:
    """Place what waits in this process, at the same moment as another."""
    setup = Setup("own", annotate)
    with setup.open(Path(folder)) as forest:
        forest.query("u", "Hello?", index="flat")
        gate.wait()
        forest.resume("u")
        answers.put(len(setup.asked))


@pytest.mark.timeout(200)
def test_two_processes_place_at_once(folder: Path) -> None:
    """Both end; each leaf is there once, where the replies say, and the memory is sound."""
    with Setup("own", more={"placer": None}).open(folder) as forest:
        say(forest, SAID)
    assert makers(folder) == {None: 20}
    spawn = multiprocessing.get_context("spawn")
    gate, answers = spawn.Barrier(2), spawn.Queue()
    made = [
        spawn.Process(target=_place_at_once, args=(str(folder), "append", gate, answers)) for _ in range(2)
    ]
    for process in made:
        process.start()
    asked = [answers.get(timeout=120) for _ in made]
    for process in made:
        process.join()
    assert sum(asked) >= 18
    assert makers(folder) == {"chooser@1": 20}
    assert len(leaves(folder)) == len(set(leaves(folder))) == 20
    assert shape(folder) == expected(SAID, "lazy")[0]
    with Setup("own", "append").open(folder) as forest:
        forest.flush()
        checked(forest)
