"""How memories are recalled, as a setting: in Python, in a file, of an index, and on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each

from memforest import Config, Ranking, load_default_config
from memforest.config import BUDGETS, COMPLEXITIES, LEAVES, Recall
from memforest.errors import ConfigError
from memforest.reading.question_parts import complexity_of
from memforest.records import QuestionPlan
from memforest.settings import NoSettings, checked, settings_of


def test_the_budgets_are_those_of_the_paper() -> None:
    """App. B.3 and the released configuration: the runs differ in the days of a complex question alone."""
    assert Recall().budgets_of("simple") == {1: 20, 2: 4, 5: 1}
    assert Recall().budgets_of("hybrid") == {1: 20, 2: 4, 3: 2, 5: 1}
    assert Recall().budgets_of("complex") == {1: 20, 2: 4, 3: 4, 4: 2, 5: 1}
    assert Recall(budgets="locomo").budgets_of("complex") == {1: 20, 2: 4, 3: 2, 4: 2, 5: 1}
    assert [name for name in COMPLEXITIES if BUDGETS["timem"][name] != BUDGETS["locomo"][name]] == ["complex"]


def test_levels_and_budgets_of_ones_own() -> None:
    """Levels take out of the budgets; what a mapping does not name is as it was; a budget of 0 is no level."""
    assert Recall(levels=(2, 3, 4, 5)).budgets_of("complex") == {2: 4, 3: 4, 4: 2, 5: 1}
    assert Recall(levels=[1]).levels == (1,)
    own = Recall(budgets={"simple": (5, 0, 3)})
    assert own.budgets_of("simple") == {1: 5, 3: 3}
    assert own.budgets_of("hybrid") == Recall().budgets_of("hybrid")
    assert (own.leaves_of("simple"), own.leaves_of("complex")) == (5, 20)
    assert Recall(budgets={"simple": (0, 4)}).leaves_of("simple") == LEAVES
    assert hash(own) == hash(Recall())
    assert own != Recall()


@each(
    ("given", "said"),
    [
        ({"levels": ()}, "names no level"),
        ({"levels": (7,)}, "less than or equal to 6"),
        ({"levels": (0,)}, "greater than or equal to 1"),
        ({"complexity": 3}, "less than or equal to 2"),
        ({"weight": 1.5}, "less than or equal to 1"),
        ({"planner": "nobody"}, "'auto', 'model', 'rules' or 'off'"),
        ({"order": "time"}, "'score' or 'level'"),
        ({"budgets": {"simple": ()}}, "gives 'simple' 0 numbers"),
        ({"budgets": {"simple": (1,) * 7}}, "gives 'simple' 7 numbers"),
        ({"budgets": {"simple": (-1,)}}, "greater than or equal to 0"),
        ({"budgets": {"easy": (1,)}}, "'simple', 'hybrid' or 'complex'"),
        ({"budgets": dict.fromkeys(COMPLEXITIES, (0, 0, 0))}, "recalls nothing: of the levels"),
        ({"levels": (4,), "complexity": 0}, "above 0 for a question that is simple; give it one"),
        ({"leaf": 3}, "unknown setting leaf"),
    ],
)
def test_what_recalls_nothing_is_refused_with_what_to_write(given: dict[str, Any], said: str) -> None:
    """Before any question is asked."""
    with pytest.raises(ConfigError, match=said):
        Recall(**given)


def test_a_ranking_takes_no_mapping() -> None:
    """As no other setting that is an object."""
    with pytest.raises(ConfigError):
        Ranking(recall={"gate": "off"})  # type: ignore[arg-type]


def test_a_file_has_it_as_a_table_of_its_own(tmp_path: Path) -> None:
    """Each setting is checked, and a wrong one is named with its place."""
    file = tmp_path / "memforest.toml"
    file.write_text(
        "[ranking]\nlexical = 0.5\n[ranking.recall]\ngate = 'off'\nlevels = [1, 2]\n"
        "[ranking.recall.budgets]\ncomplex = [9, 3]\n"
    )
    made = load_default_config(file=file, environ={}).ranking
    assert made == Ranking(lexical=0.5, recall=Recall(gate="off", levels=(1, 2), budgets={"complex": (9, 3)}))
    file.write_text("[ranking.recall]\ngate = 'never'\n")
    with pytest.raises(ConfigError):
        load_default_config(file=file, environ={})
    file.write_text("[ranking.recall]\ngates = 'off'\n")
    with pytest.raises(ConfigError):
        load_default_config(file=file, environ={})
    file.write_text("[ranking.recall]\nlevels = []\n")
    with pytest.raises(ConfigError):
        load_default_config(file=file, environ={})
    file.write_text("[ranking]\nrecall = 'none'\n")
    assert load_default_config(file=file, environ={}).ranking == Ranking()


def test_settings_inside_of_settings_are_told_by_their_type() -> None:
    """Only where the type is a class of settings, or may be."""
    assert settings_of(Recall) is Recall
    assert settings_of(Recall | None) is Recall
    assert [settings_of(hint) for hint in (int, list[int], int | None, dict[str, int])] == [None] * 4
    assert checked({"own": {}}, {"own": NoSettings}, "") == {"own": NoSettings()}
    assert checked({"own": {}}, {"own": dict}, "") == {"own": {}}


def test_the_default_of_every_memory_is_the_index_s_own() -> None:
    """A configuration says nothing of recall unless it is asked to."""
    assert Config().ranking.recall is None


@each(
    ("question", "complexity"),
    [
        ("What is the name of Ana's cat?", None),
        ("How many canoes has Ana bought?", "hybrid"),
        ("What do Ana and Bob have in common?", "hybrid"),
        ("How has her view of sailing changed over the years?", "hybrid"),
        ("Does she paint more often than Bob?", "hybrid"),
        ("Would Ana like a kettle?", "complex"),
        ("Which colours does Bob prefer?", "complex"),
        ("What kind of person is Ana?", "complex"),
        ("Can you suggest a present for her?", "complex"),
        ("What should I cook for Bob?", "complex"),
        ("¿Qué tipo de persona es Ana?", "complex"),
        ("¿Cuántas veces ha ido Ana a Porto?", "hybrid"),
        ("Was für ein Mensch ist Ana?", "complex"),
        ("Wie oft war Ana in Porto?", "hybrid"),
        ("Combien de fois est-elle allée à Porto ?", "hybrid"),
        ("アナは何が好きですか", None),
        ("Who is Wouldham?", None),
    ],
)
def test_words_tell_how_much_a_question_needs(question: str, complexity: str | None) -> None:
    """Several facts put together, or a judgement; of a plain question the rules cannot tell."""
    assert complexity_of(question, QuestionPlan()) == complexity


def test_a_kind_tells_it_where_no_word_does() -> None:
    """A list is of several facts, a time and a state are one; words go first."""
    assert complexity_of("What did Ana buy?", QuestionPlan(kind="list")) == "hybrid"
    assert complexity_of("When did Ana go?", QuestionPlan(kind="when")) == "simple"
    assert complexity_of("How many did she buy since May?", QuestionPlan(kind="since")) == "hybrid"
