"""`memforest entities`, `relations`, `path`, `merge-entities`, `split-entity` and `profile` of anything that is named."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.known_people import WHO, remembered

from memforest import Config, MemForest
from memforest.cli.app import main
from memforest.cli.entities import draw_choices, draw_entities, draw_path, draw_relations
from memforest.cli.screen import Screen


@pytest.fixture(name="filled")
def _filled(folder: Path) -> Path:
    remembered(folder).close()
    (folder / "settings.toml").write_text('embedder = "none"\n')
    return folder


def run(folder: Path, *args: str) -> Result:
    """Run a command on the folder."""
    return CliRunner().invoke(main, ["--dir", str(folder), "--config", str(folder / "settings.toml"), *args])


def rows(folder: Path, *args: str) -> list[list[str]]:
    """Return the records that a command prints into a pipe."""
    done = run(folder, *args)
    assert done.exit_code == 0, done.output
    return [line.split("\t") for line in done.stdout.splitlines()]


def data(folder: Path, *args: str) -> Any:
    """Return the data of a command with ``--json``."""
    return json.loads(run(folder, *args, "--json").stdout)["data"]


def test_entities_are_a_line_each(filled: Path) -> None:
    """Name, kind, statements, role, names with their counts, and why they are one."""
    found = rows(filled, "entities")
    assert found[0][:4] == ["Mara", "participant", "5", "speaker"]
    [lucia] = [row for row in found if row[0] == "Lucía"]
    assert lucia[3:5] == ["named", "Lucía 2, Lucia 1"]
    assert {row[0] for row in rows(filled, "entities", "--kind", "place")} == {
        "Porto",
        "Madrid",
        "Lisbon",
        "Kyoto",
    }
    assert [row[0] for row in rows(filled, "entities", "--query", "lucia")] == ["Lucía"]
    cut = run(filled, "entities", "--limit", "1")
    assert (len(cut.stdout.splitlines()), "--limit shows more" in cut.stderr) == (1, True)
    assert "No entity matches" in run(filled, "entities", "--query", "nobody").stderr
    assert data(filled, "entities", "--limit", "1")["entities"][0]["names"] == {"Mara": 5}
    assert run(filled, "entities", "--kind", "animal").exit_code == 2
    assert run(filled, "entities", "--choices", "--kind", "place").exit_code == 2


def test_relations_have_their_time(filled: Path) -> None:
    """Source, label, target, weight, since, until, sources; what holds first."""
    found = [row for row in rows(filled, "relations", "Mara") if row[1] == "residence"]
    assert [row[2:6] for row in found] == [
        ["Lisbon", "1", "2024-03-03", ""],
        ["Porto", "1", "2024-01-05", "2024-03-02"],
    ]
    assert found[0][6].startswith("2024-03-03-4 #")
    early = run(filled, "relations", "Kyoto", "--as-of", "1999-01-01")
    assert (early.stdout, "no relation is known at that time" in early.stderr) == ("", True)
    wrong = run(filled, "relations", "Marra")
    assert (wrong.exit_code, "near are: 'Mara'" in wrong.stderr) == (1, True)


def test_a_path_is_a_line_a_step(filled: Path) -> None:
    """With the words that say so; none is a warning and no error."""
    found = rows(filled, "relations", "Orrin Labs", "Lisbon")
    assert found[-1][:3] == ["Mara", "residence", "Lisbon"]
    assert found[-1][5] == "I moved to Lisbon."
    none = run(filled, "relations", "Orrin Labs", "Rex", "--hops", "1")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no path of 1 step or fewer" in none.stderr
    assert "both names are the same entity" in run(filled, "relations", "Lucia", "Lucía").stderr
    assert data(filled, "relations", "Orrin Labs", "Lisbon")["steps"][-1]["labels"] == ["residence"]
    assert run(filled, "relations", "Mara", "Rex", "--hops", "9").exit_code == 2


def test_two_names_are_merged_and_split(filled: Path) -> None:
    """Each prints the entity as it is then; what was decided is listed, and counts in every command."""
    [merged] = rows(filled, "entities", "merge", "Rex", "Lucia")
    assert "Rex" in merged[4]
    assert "Lucía" in merged[4]
    assert merged[5]
    [choice] = rows(filled, "entities", "--choices")
    assert choice[2] == "same"
    assert {choice[1], choice[3]} == {"Rex", "Lucía"}
    [split] = rows(filled, "entities", "split", "Lucía", "Rex")
    assert split[4] == "Rex 1"
    assert rows(filled, "entities", "--choices")[0][2] == "apart"
    again = run(filled, "entities", "split", "Lucía", "Rex")
    assert (again.exit_code, "is no name of 'Lucía'" in again.stderr) == (1, True)


def test_nothing_decided_is_said(filled: Path) -> None:
    """On standard error, as it is no record."""
    done = run(filled, "entities", "--choices")
    assert (done.exit_code, done.stdout, "no names were merged or split" in done.stderr) == (0, "", True)


def test_a_profile_of_what_never_spoke(filled: Path) -> None:
    """From a memory that has no index of profiles."""
    found = rows(filled, "profile", "Lucia")
    assert {row[1] for row in found} == {"Lucía"}
    assert {"state", "fact"} <= {row[2] for row in found}
    assert all(row[4] for row in found)
    assert run(filled, "profile", "Mara", "--index", "graph").exit_code == 0
    for wrong in (("Mara", "--index", "graph", "--since", "2024-01-01"), ("--written",)):
        assert run(filled, "profile", *wrong).exit_code == 2
    unmade = run(filled, "profile", "Mara", "--written")
    assert (unmade.exit_code, "needs a chat model" in unmade.stderr) == (1, True)


def test_on_a_terminal_it_is_laid_out(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In words, with sources below."""
    screen = Screen(laid_out=True)
    with MemForest(filled, Config(embedder=None)) as forest:
        memory = forest.user(WHO)
        memory.merge_entities("Rex", "Kyoto")
        draw_entities(screen, memory.entities().entities)
        draw_relations(screen, memory.relations("Mara"))
        draw_path(screen, memory.path("Orrin Labs", "Lisbon"))
        (choice,) = memory.entity_choices()
        draw_choices(screen, [choice, replace(choice, verdict="apart")])
    shown = capsys.readouterr().out
    assert "5 facts" in shown
    assert "2024-01-05 to 2024-03-02" in shown
    assert "Mara residence Porto" in shown
    assert "Mara – residence – Lisbon" in shown
    assert "Mara residence Lisbon, since 2024-03-03" in shown
    assert "I moved to Lisbon." in shown
    assert " is " in shown
    assert " is not " in shown


def test_explain_says_how_a_question_was_taken_apart(filled: Path) -> None:
    """Its parts with what they entered by, and the follow-up with what it follows; of other indexes nothing of the kind."""
    assert run(filled, "index", "add", "hmem").exit_code == 0
    question = ("search", "Where does Mara's sister work?", "--explain", "--index")
    shown = run(filled, *question, "hmem").stdout
    assert "part 1, short: Where does Mara's sister work?; by way of Mara" in shown
    assert "follow-up of 1, short: Where does Lucía work?; by way of Lucía" in shown
    assert "+0.00" not in shown
    assert "part 1" not in run(filled, *question, "memforest").stdout
