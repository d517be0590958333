"""The program in a pipe: a record a line, whole, so that `grep`, `cut`, `wc -l` and `head` do what they should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest import Config, MemForest
from memforest.cli import main
from memforest.models import HashEmbedder

LONG = "I live in Davis, " + "which is a town of bicycles and of wind, " * 12 + "as you know."
SESSIONS = [
    ("first\tday", [{"speaker": "Bo", "text": LONG, "timestamp": "2024-01-05"}]),
    (
        "second",
        [
            {"speaker": "Bo", "text": "I moved to Miami yesterday.", "timestamp": "2024-03-02"},
            {"speaker": "Ana", "text": "I adopted a dog.\nIts name is Rex.", "timestamp": "2024-03-02"},
        ],
    ),
]
DAY = r"\d{4}-\d\d-\d\d"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one memory."""
    with MemForest(tmp_path / "memories", Config(embedder=HashEmbedder())) as forest:
        for session_id, turns in SESSIONS:
            forest.ingest_session("bo", session_id, turns)
        forest.user("bo").search("Where?")
    return tmp_path / "memories"


def piped(folder: Path, *args: str) -> list[str]:
    """Return the lines that a command prints where it is not on a terminal."""
    result = CliRunner().invoke(main, ["--dir", str(folder), *args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("args", "count", "line"),
    [
        (("users",), 1, "bo"),
        (("sessions",), 2, rf"{DAY}\t{DAY}\t(first day|second)\t[12] turns?\tBo[^\t]*\t"),
        (("facts",), 4, rf"{DAY}\t(?:{DAY})?\t[^\t]+\t(Bo|Ana)\t(first day|second) #\d\tf1:\w+"),
        (("search", "Where does Bo live?"), 3, rf"\[\d\]\t{DAY}\t-?\d+\.\d+\t[^\t]+\t(Bo|Ana)\t[^\t]+"),
        (("search", "Where does Bo live?", "--top-k", "1"), 1, r"\[1\]\t.*"),
        (
            ("timeline", "Bo", "--kind", "state"),
            2,
            rf"{DAY}\t(?:{DAY})?\tstate\tresidence\t(Davis|Miami)\t[^\t]+\t[^\t]+",
        ),
        (("tree", "--depth", "1"), None, rf"\d\t[^\t]*\t{DAY}\t{DAY}\t\d+\t[^\t]*\t"),
        (("stats",), None, r"[\w ]+\t[^\t]+"),
        (("doctor",), None, r"(ok|note|broken)\t[\w ]+\t[^\t]+|[^\t]+"),
    ],
)
def test_a_record_is_a_line(folder: Path, args: tuple[str, ...], count: int | None, line: str) -> None:
    """Whatever it holds: columns are separated by tabs, and nothing is cut, wrapped, padded or coloured."""
    found = piped(folder, *args)
    assert len(found) == count or count is None
    for one in found:
        assert re.fullmatch(line, one), one
        assert "\x1b" not in one


def test_a_long_text_is_whole_on_its_line(folder: Path) -> None:
    """So that it can be searched for what stands at its end."""
    [fact] = [line for line in piped(folder, "facts") if "Davis" in line]
    assert "as you know" in fact
    [found] = [line for line in piped(folder, "search", "bicycles and wind") if "Davis" in line]
    assert "as you know" in found
    assert any("as you know" in line for line in piped(folder, "timeline", "Bo"))


def test_what_is_no_record_goes_to_standard_error(folder: Path) -> None:
    """That there is more, or nothing: it must not be counted or cut as a record."""
    runner = CliRunner()
    for args, said in (
        (("facts", "--limit", "1"), "1 to 1 of 4; the next page: --offset 1"),
        (("facts", "--as-of", "1999-01-01"), "No facts match."),
        (("search", "Where?", "--as-of", "1999-01-01"), "no evidence in memory"),
    ):
        result = runner.invoke(main, ["--dir", str(folder), *args])
        assert said in result.stderr
        assert len(result.stdout.splitlines()) == (1 if "--limit" in args else 0)


def test_an_answer_is_a_line_and_each_citation_too(folder: Path) -> None:
    """The answer first."""
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        turn = {
            "speaker": "Bo",
            "text": "I moved to Miami with two red suitcases.",
            "timestamp": "2024-03-03",
        }
        forest.ingest_session("bo", "third", [turn])
    answer, *cited = piped(folder, "ask", "Where did Bo move with two red suitcases?")
    assert "Miami" in answer
    assert [one.split("\t")[0] for one in cited] == ["[1]"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes on Windows")
def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    """`| head -1` leaves no traceback behind, and the exit code is that of the command."""
    with MemForest(folder, Config(embedder=HashEmbedder())) as forest:
        turns = [
            {"speaker": "Bo", "text": f"I bought {n} tents. {LONG}", "timestamp": "2024-04-01"}
            for n in range(2, 400)
        ]
        forest.ingest_session("bo", "many", turns, infer=False)
    for args in (
        ("search", "Who bought tents?", "--top-k", "400"),
        ("facts", "--limit", "400", "--json"),
        ("tree", "--depth", "9"),
    ):
        code = f"from memforest.cli import main; main({['--dir', str(folder), *args]!r})"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert (process.stderr.read(), process.wait(60), args) == (b"", 0, args)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_output_that_cannot_be_written_is_one_line(folder: Path, more: tuple[str, ...]) -> None:
    """A full disk under a redirection: no traceback, and the exit code says so."""
    code = f"from memforest.cli import main; main({['--dir', str(folder), 'facts', *more]!r})"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False, timeout=50
        )
    assert ran.returncode == 1
    assert ran.stderr == b"Error: cannot write the output: No space left on device\n"
