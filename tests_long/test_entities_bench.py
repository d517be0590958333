"""The set of names that are one and two: how it is read and scored, and the thresholds that come from it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.calibrate_names import NEVER, RULES, TABLE, choose, measured, settings, table

import entities
from entities import FIRST, Case, judged, read_cases, shares
from memforest.graph.names import Least, NamedEntity, least

CASES = read_cases(FIRST)


def written(tmp_path: Path, text: str) -> list[Case]:
    """Return the cases of a file with a text."""
    path = tmp_path / "cases.toml"
    path.write_text(text, encoding="utf-8")
    return read_cases(path)


def test_a_case_is_read(tmp_path: Path) -> None:
    """Neighbours, pairs beside each other and aliases stand on both sides."""
    (case,) = written(
        tmp_path,
        """
        [[case]]
        kind = "k"
        why = "w"
        named = ["person: Ana", "participant: Ana Ruiz", "place: Ana Bay"]
        share = [[0, 1, 2]]
        beside = [[0, 2]]
        called = [[1, "Anita"]]
        one = [[0, 1]]
        """,
    )
    ana, ruiz, bay, *friends = case.named
    assert ana.neighbours == ruiz.neighbours == {friend.id for friend in friends}
    assert all(friend.neighbours == {0, 1} for friend in friends)
    assert [set(one.beside) for one in (ana, ruiz, bay)] == [{2}, set(), {0}]
    assert ruiz.aliases == ("anita",)
    assert case.pairs == {(0, 1): True, (0, 2): False, (1, 2): False}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('named = ["Ana"]', "is no 'kind: name'"),
        ('named = ["friend: Ana"]', "is no 'kind: name'"),
        ('named = ["person: —"]', "is no 'kind: name'"),
        ('named = ["person: Ana"]\nbeside = [[0, 1]]', "there is no entity 1"),
        ('named = ["person: Ana"]\nalone = true', "unknown"),
    ],
)
def test_a_case_that_is_none_is_refused(tmp_path: Path, line: str, told: str) -> None:
    """The message says which case it is."""
    with pytest.raises(ValueError, match=told) as raised:
        written(tmp_path, f'[[case]]\nkind = "k"\nwhy = "w"\none = []\n{line}')
    assert "case 1" in str(raised.value)


def test_the_set_has_what_it_is_for() -> None:
    """Both sides are there in number, every rule has a pair, and no two cases hold the same names."""
    pairs = [one for case in CASES for one in case.pairs.values()]
    assert sum(pairs) >= 50
    assert len(pairs) - sum(pairs) >= 80
    named = [
        tuple((one.key, one.kind) for one in case.named if one.id < entities.ACQUAINTANCE) for case in CASES
    ]
    told = [(one, case.named) for one, case in zip(named, CASES, strict=True)]
    assert len({str(one) for one in told}) == len(CASES)
    assert {case.kind for case in CASES} >= {
        "nicknames", "accents", "cjk", "cyrillic", "initials", "titles", "teams", "misspellings", "father and son"
    }  # fmt: skip


def test_no_two_of_the_set_are_joined_and_most_that_are_one_are() -> None:
    """The rules join nothing wrongly where the thresholds were chosen."""
    precision, recall = shares(list(judged(CASES)))
    assert precision.count == precision.n
    assert recall.percent > 90


def test_shares_count_pairs() -> None:
    """Precision is of what was joined, recall of what is one."""
    named = (
        NamedEntity(0, "ana", "person", "Ana"),
        NamedEntity(1, "ana ruiz", "person", "Ana Ruiz"),
        NamedEntity(2, "bea", "person"),
    )
    case = Case("k", "w", named, (frozenset((0, 1)), frozenset((1, 2))))
    precision, recall = shares(list(judged([case])))
    assert (precision.count, precision.n) == (1, 1)
    assert (recall.count, recall.n) == (1, 2)


def test_the_committed_thresholds_are_what_the_script_writes() -> None:
    """The table is the set's, every rule joins something in it, and no rule joins anything wrongly by itself."""
    text = TABLE.read_text(encoding="utf-8")
    assert table(CASES) == text
    assert {rule for rule, one in json.loads(text)["rules"].items() if one["pairs"] < 1} == set()
    for rule in RULES:
        assert measured(CASES, rule, least()[rule])[1] == measured(CASES, rule, NEVER)[1]


def test_a_rule_is_as_strict_as_it_can_be() -> None:
    """Of settings that join as many, the one that asks for most is chosen; one that joins nothing asks for all."""
    case = Case(
        "k", "w", (NamedEntity(0, "ana", "person", "Ana"), NamedEntity(1, "ana ruiz", "person", "Ana Ruiz")), (frozenset((0, 1)),)
    )  # fmt: skip
    assert choose([case], "part") == (Least(1, 0.5), 1, 1)
    assert choose([case], "typo") == (settings()[0], 0, 0)
    apart = Case("k", "w", case.named, ())
    assert choose([case, apart], "part")[1:] == (0, 1)


def test_the_benchmark_prints_the_table_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first file's wrong pairs are told; of another file only the shares are."""
    folder = tmp_path / "sets"
    folder.mkdir()
    text = '[[case]]\nkind = "k"\nwhy = "secret"\nnamed = ["person: Pip", "person: Quill"]\none = [[0, 1]]\n'
    (folder / "first.toml").write_text(text.replace("secret", "told"), encoding="utf-8")
    (folder / "another.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(entities, "SETS", folder)
    monkeypatch.setattr(entities, "FIRST", folder / "first.toml")
    monkeypatch.setattr(sys, "argv", ["entities.py", "--json", str(tmp_path / "figures.json")])
    assert entities.main() == 0
    printed = capsys.readouterr().out
    assert "missed: Pip | Quill  (k: told)" in printed
    assert "secret" not in printed
    assert printed.index("first: 1 cases") < printed.index("another: 1 cases")
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert figures["another"]["recall"] == {
        "count": 0,
        "n": 1,
        "percent": 0.0,
        "low": 0.0,
        "high": pytest.approx(79.3, abs=0.1),
    }
