"""`--explore`: settings of how a question is explored, for one question on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.table import each

from memforest import MemForest, Ranking, load_default_config
from memforest.cli.app import main
from memforest.cli.asking import explore_option, read_explore, with_settings
from memforest.config import Explore, Recall

TURNS = [{"speaker": "Ana", "text": "I live in Porto.", "timestamp": "2024-01-01"}]


def test_values_of_the_command_line_have_the_types_of_the_settings() -> None:
    """Texts, numbers and whether; several in one, with commas between them, or one each."""
    given = ("hops=1,follow_up=off", " reach=graph , similarity=0.5,", "robustness=0")
    read = {"hops": 1, "follow_up": "off", "reach": "graph", "similarity": 0.5, "robustness": 0}
    assert read_explore(given) == read
    assert read_explore(()) == {}


def test_what_is_not_given_stays_as_it_was() -> None:
    """Laid over the ranking's own, whose recall is left alone."""
    old = Ranking(turn=0.1, recall=Recall(gate="off"), explore=Explore(hops=1, known=0.0))
    made = with_settings(old, explore={"known": 0.3, "reach": "graph"})
    assert made == Ranking(turn=0.1, recall=Recall(gate="off"), explore=Explore(hops=1, reach="graph"))
    assert with_settings(Ranking(), explore={"hops": 0}).explore == Explore(hops=0)


@each(
    ("given", "said"),
    [
        ("hops", "names no value; write NAME=VALUE, as in hops=1"),
        ("hop=1", "no setting hop"),
        ("hops=many", "should be a valid integer"),
        ("hops=-1", "greater than or equal to 0"),
        ("sub_queries=6", "less than or equal to 5"),
        ("scope=wide", "'short', 'long' or 'mixed'"),
        ("similarity=0,time=0,robustness=0,entity=0", "ranks by nothing"),
    ],
)
def test_a_wrong_value_is_wrong_usage(given: str, said: str) -> None:
    """With what to write, before a memory is opened."""

    @click.command()
    @explore_option
    def ask(explore: object) -> None:
        raise AssertionError(explore)

    with pytest.raises(click.BadParameter, match=said):
        ask.make_context("ask", ["--explore", given])


def test_both_options_of_a_question_hold_together(folder: Path) -> None:
    """`--recall` beside `--explore`: an index that knows neither answers as ever."""
    with MemForest(folder, load_default_config(embedder="none", indexes=["flat"])) as forest:
        forest.ingest_session("u", "s", TURNS)
    (folder / "settings.toml").write_text('embedder = "none"\n')
    shared = ["--dir", str(folder), "--config", str(folder / "settings.toml"), "--json"]
    options = ["--explore", "hops=1", "--recall", "gate=off", "--explore", "follow_up=off"]
    done = CliRunner().invoke(main, [*shared, "search", "Where does Ana live?", *options])
    assert done.exit_code == 0, done.output
    assert "Porto" in json.loads(done.stdout)["data"]["evidence"][0]["text"]
    wrong = CliRunner().invoke(main, [*shared, "ask", "Where?", "--explore", "hops=x"])
    assert wrong.exit_code == 2
