"""The gates: what two figures say of each other, what is recorded, and what becomes of a part that cannot be run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import CodeType

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import gates
from gating import entered, spent
from gating.rows import Row, counted, of_questions, of_rounds, verdict
from sizes import PACKAGE, sizes_of

RIGHT = [1.0, 0.0] * 100


def fails(_: gates.Options) -> list[Row]:
    """Measure nothing."""
    raise LookupError("there is no kettle")


def weighs(_: gates.Options) -> list[Row]:
    """Count something."""
    return [counted("a kettle: grams", "grams", 900)]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a file of recorded figures of the gates' own, and two groups, one of which cannot be run."""
    monkeypatch.setattr(gates, "RECORDED", tmp_path / "gates.json")
    monkeypatch.setattr(
        gates, "GROUPS", {"good": gates.Group("Good", weighs), "bad": gates.Group("Bad", fails)}
    )
    monkeypatch.delenv(gates.LOCOMO, raising=False)
    return tmp_path / "gates.json"


@pytest.mark.parametrize("better", ["more", "less"])
def test_a_change_of_most_questions_is_told_from_chance(better: str) -> None:
    """Where questions changed to one side only, and many did, the verdict says which side that is."""
    base = of_questions("found", RIGHT, better)  # type: ignore[arg-type]  # one of the two
    now = of_questions("found", [1.0] * 40 + RIGHT[40:], better)  # type: ignore[arg-type]  # likewise
    good, bad = ("better", "worse") if better == "more" else ("worse", "better")
    assert verdict(now, base).endswith(good)
    assert verdict(base, now).endswith(bad)
    assert verdict(now, now).startswith("same")


def test_a_few_changes_to_both_sides_are_not_told_from_chance() -> None:
    """Two questions won and one lost is no change, and the verdict says so."""
    now = of_questions("found", [0.0, 1.0, 1.0, 1.0, *RIGHT[4:]])
    assert "chance" in verdict(now, of_questions("found", RIGHT))


def test_the_pairing_finds_what_the_intervals_hide() -> None:
    """Eight questions of 200 won and none lost: the intervals overlap, the paired difference is clear of nothing."""
    base, now = of_questions("found", RIGHT), of_questions("found", [1.0] * 16 + RIGHT[16:])
    assert now.low < base.value < base.high
    assert verdict(now, base).endswith("better")


def test_other_questions_are_compared_by_their_intervals() -> None:
    """Figures of sets of different sizes are only told apart where the intervals are."""
    base = of_questions("found", RIGHT)
    assert "chance" in verdict(of_questions("found", RIGHT[:150]), base)
    assert verdict(of_questions("found", [1.0] * 150), base).endswith("better")


@pytest.mark.parametrize(
    ("rounds", "slower", "told"),
    [
        ((5.0, 5.1, 5.2), 1.0, "better"),
        ((20.0, 21.0, 19.0), 1.0, "worse"),
        ((20.0, 21.0, 19.0), 2.0, "noise"),  # the machine takes twice as long for anything
        ((11.5, 12.0, 11.4), 1.0, "noise"),
        ((2.0, 30.0, 10.0), 1.0, "noise"),
    ],
)
def test_times_count_when_they_differ_by_more_than_a_busy_machine_does(
    rounds: tuple[float, ...], slower: float, told: str
) -> None:
    """A factor is that of the code: the machine's is taken out; a small one, or rounds that overlap, are noise."""
    assert told in verdict(of_rounds("add", "ms", rounds), of_rounds("add", "ms", (10.0, 10.4, 9.8)), slower)


def test_counts_are_compared_as_they_are() -> None:
    """One line less is better, one more is worse."""
    base = counted("lines", "lines", 1000)
    told = [verdict(counted("lines", "lines", count), base) for count in (999, 1000, 1001)]
    assert told[0].endswith("better")
    assert told[1] == "same"
    assert told[2].endswith("worse")


def test_a_row_without_a_base_says_so() -> None:
    """A new row has no verdict."""
    assert "no figure" in verdict(counted("lines", "lines", 1), None)


@pytest.mark.parametrize(
    "row", [of_questions("found", [1 / 3, 1.0, 0.0]), of_rounds("add", "ms", (1.0, 2.0))]
)
def test_a_row_comes_back_from_a_file(row: Row) -> None:
    """What is written is read again, up to the digits that are kept."""
    again = Row.read(json.loads(json.dumps(row.as_json())))
    assert (again.name, again.each, again.n, again.noise) == (row.name, row.each, row.n, row.noise)
    assert again.value == pytest.approx(row.value, rel=1e-4)
    assert "no figure" not in verdict(row, again)


def test_a_part_that_cannot_be_run_is_named_and_the_others_are_shown(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1 and the group is named with its error; the other group has its row."""
    assert gates.main(["--kept", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "a kettle: grams" in shown.out
    assert "there is no kettle" in shown.err
    assert "bad" in shown.err
    assert not recorded.exists()


def test_worse_figures_fail_nothing(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded is the base of the next run, and a worse figure only says so."""
    arguments = ["--kept", str(tmp_path), "--only", "good"]
    assert gates.main([*arguments, "--record"]) == 0
    kept = json.loads(recorded.read_text(encoding="utf-8"))
    kept["good"]["rows"][0]["value"] = 450
    recorded.write_text(json.dumps(kept), encoding="utf-8")
    capsys.readouterr()
    assert gates.main(arguments) == 0
    assert "worse" in capsys.readouterr().out


def test_recording_some_groups_leaves_the_others(recorded: Path, tmp_path: Path) -> None:
    """A record of one group does not take that of another away."""
    recorded.write_text(json.dumps({"bad": {"about": gates.about(), "rows": []}}), encoding="utf-8")
    gates.main(["--kept", str(tmp_path), "--only", "good", "--record"])
    assert set(json.loads(recorded.read_text(encoding="utf-8"))) == {"good", "bad"}


def test_no_file_of_conversations_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a LoCoMo file its group says that there is no data, and the exit code stays 0."""
    monkeypatch.delenv(gates.LOCOMO, raising=False)
    assert gates.main(["--kept", str(tmp_path), "--only", "locomo"]) == 0
    assert "no data" in capsys.readouterr().out


def test_an_unknown_group_is_refused() -> None:
    """A misspelled group does not run nothing."""
    with pytest.raises(SystemExit):
        gates.main(["--only", "sise"])


def test_every_group_has_recorded_figures_of_one_commit() -> None:
    """The record has rows for each group, each name once, and says for all of them the same commit."""
    kept = gates.read_record(gates.RECORDED)
    assert set(kept) == set(gates.GROUPS)
    assert len({one["about"]["commit"] for one in kept.values()}) == 1
    for group, one in kept.items():
        assert len(gates.recorded_rows(kept, group)) == len(one["rows"]) > 0


def test_a_figure_that_is_no_longer_measured_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A row of the record that nothing measures now does not vanish silently."""
    base = {"a teapot: grams": counted("a teapot: grams", "grams", 500)}
    gates.print_group("Weights", [counted("a kettle: grams", "grams", 900)], base)
    shown = capsys.readouterr().out
    assert "a kettle" in shown
    assert "a teapot" in shown


def test_everything_that_is_timed_takes_some_time(tmp_path: Path) -> None:
    """A tiny memory is made and measured: it has facts, sessions and files, and no time is zero."""
    made = spent.make(tmp_path, "memforest", 20)
    took = spent.measure(made.folder, made)
    assert made.sessions > 0
    assert made.megabytes > 0
    assert len(took) == 4
    assert all(ms > 0 for ms in took.values())


def test_functions_that_a_call_enters_are_counted_once_and_without_comprehensions() -> None:
    """Functions of the package count, in threads of the call too; what is no function of it does not."""
    seen: set[CodeType] = set()
    with entered.recorded(seen):
        found = entered.entered(lambda: sizes_of(Path(spent.__file__).parent), seen)
    assert not found  # nothing of the package
    assert seen
    codes = entered.ours({compile("[x for x in ()]", str(PACKAGE / "made.py"), "exec")})
    assert not codes
