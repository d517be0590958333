"""What the command line promises beside the verbs: output for people, pipes and programs, exit codes, and asking first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.contract.drivers import (
    COMMANDS,
    EMBEDDER,
    LAUNCH,
    OTHER_COMMANDS,
    CliSurface,
    Ran,
    Refused,
    run_command,
    words,
)
from tests.contract.surfaces import STORY, tell

pytestmark = pytest.mark.timeout(180)  # processes with their imports, on a busy machine

ENVELOPE = {"status", "command", "duration_ms", "user", "data"}
READING: list[tuple[str, ...]] = [
    words("search", "Where does Mara live?"),
    words("search", "Where does Mara live?", "--explain"),
    words("ask", "Where does Mara live?"),
    words("sessions"),
    words("turns", "spring"),
    words("list_facts"),
    words("list_facts", "--ids", "--statements"),
    words("timeline", "Mara"),
    words("profile"),
    words("profile", "Mara"),
    words("entities"),
    words("entities", "--choices"),
    words("relations", "Mara"),
    words("relations", "Mara", "Porto"),
    words("changes", "2024-01-01"),
    words("diff", "2024-04-01", "2024-12-01"),
    words("tree"),
    words("tree", "--depth", "3"),
    words("index list"),
    words("maintain advance"),
    words("stats"),
    words("verify"),
]
"""Commands that only look, with what they need to be given."""


MANY = 60
"""Sessions of a file that is interrupted while it is read."""


def json_of(ran: Ran) -> Any:
    """Return the data of an envelope, which must be all that was printed."""
    assert ran.err == ""
    envelope = json.loads(ran.out)
    assert set(envelope) == ENVELOPE
    assert (envelope["status"] == "ok") == (ran.code == 0)
    return envelope["data"]


def process(directory: Path, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
    """Start the program as a process of its own, with its output in pipes."""
    env = {**os.environ, "MEMFOREST_EMBEDDER": EMBEDDER.model_id, "PYTHONUTF8": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([*LAUNCH, "--dir", str(directory), *argv], env=env, **pipes)


@pytest.fixture(scope="session")
def mara(cli: CliSurface) -> str:
    """A user who has told the story."""
    return tell(cli, "mara of the command line")


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> CliSurface:
    """The program on a directory with one user."""
    made = CliSurface(tmp_path_factory.mktemp("alone"))
    tell(made, "mara")
    return made


def test_json_of_each_command_parses(cli: CliSurface, mara: str) -> None:
    """With --json each command prints one object and nothing else, also when it fails."""
    wrong = []
    for argv in READING:
        ran = cli.run(*argv, "--json", user=mara)
        envelope = json.loads(ran.out)
        if set(envelope) != ENVELOPE or ran.code or envelope["user"] != mara or ran.err:
            wrong.append((argv, ran))
    for argv in (
        ("search",),
        ("nosuch",),
        words("list_facts", "--limit", "x"),
        ("turns-of", "x"),
        ("timeline", "Nobody"),
    ):
        failed = json_of(cli.run("--json", *argv, user=mara))
        if not failed["error"] or not failed["message"]:
            wrong.append((argv, failed))
    assert not wrong
    assert "mara of the command line" in json_of(cli.run(*words("users"), "--json"))["users"]


def test_options_stand_before_or_after_the_command(cli: CliSurface, mara: str) -> None:
    """What all commands take is taken in both places, and from the environment."""
    before = json_of(cli.run("--json", *words("list_facts"), user=mara))
    assert (
        json_of(run_command(*words("list_facts"), "--json", "--user", mara, "--dir", str(cli.directory)))
        == before
    )
    env = {"MEMFOREST_DIR": str(cli.directory), "MEMFOREST_USER": mara}
    assert json_of(run_command(*words("list_facts"), "--json", env=env)) == before


def test_json_has_one_shape_for_a_list(cli: CliSurface, mara: str) -> None:
    """The data of a list have the same names whether all of it fits or not, so that a program need not guess."""
    lists = (words("sessions"), words("turns", "spring"), words("list_facts"), words("entities"))
    wrong = []
    for argv in lists:
        whole, page = (json_of(cli.run(*argv, *more, "--json", user=mara)) for more in ((), ("--limit", "1")))
        wrong += (
            [argv]
            if type(whole) is not type(page) or (isinstance(page, dict) and set(whole) != set(page))
            else []
        )
    assert not wrong


COLUMNS: list[tuple[tuple[str, ...], int, int]] = [
    (words("sessions"), 3, 6),
    (words("turns", "summer"), 2, 4),
    (words("list_facts"), 6, 6),
    (words("search", "Where does Mara live?", "--top-k", "4"), 4, 6),
    (words("timeline", "Mara", "--kind", "state"), 3, 7),
    (words("entities"), 5, 6),
    (words("relations", "Mara"), 1, 7),
]
"""Command, how many records it prints at least, and columns of each, as docs/cli.md lists them."""


def test_into_a_pipe_a_record_is_a_line(cli: CliSurface, user: str) -> None:
    """Columns are separated by tabs; no text is cut or coloured, and what was said cannot add a line or a column."""
    tell(cli, user)
    long = "I bought a kettle,\tand a lamp,\nand " + "a very long and patient rope, " * 20 + "in the end."
    cli.add(user, "odd", [{"speaker": "Mara", "content": long, "timestamp": "2024-10-01T08:00:00Z"}])
    wrong = []
    for argv, least, columns in COLUMNS:
        ran = cli.run(*argv, user=user)
        lines = ran.out.splitlines()
        counts = {line.count("\t") + 1 for line in lines}
        if len(lines) < least or counts != {columns} or "\x1b" in ran.out:
            wrong.append((argv, len(lines), counts, ran))
    assert not wrong
    [line] = [
        line for line in cli.run(*words("turns"), "odd", user=user).out.splitlines() if "kettle" in line
    ]
    assert line.endswith("in the end.")


def test_an_answer_is_the_first_line(cli: CliSurface, mara: str) -> None:
    """The citations stand below it, and one who gets no answer gets no record either but the answer's."""
    first, *cited = cli.run(*words("ask"), "Where does Mara live?", user=mara).out.splitlines()
    assert "Porto" in first
    assert all(line.count("\t") == 5 for line in cited)
    assert cited


def test_what_is_no_record_goes_to_standard_error(cli: CliSurface, mara: str) -> None:
    """That there is more, and that there is nothing, is not counted as a record."""
    page = cli.run(*words("list_facts"), "--limit", "2", user=mara)
    assert len(page.out.splitlines()) == 2
    assert page.err
    empty = cli.run(*words("list_facts"), "--session", "spring", "--as-of", "1990-01-01", user=mara)
    assert (empty.code, empty.out) == (0, "")


def test_controls_are_taken_out_of_what_is_shown(cli: CliSurface, user: str) -> None:
    """What was said cannot move the cursor, turn the text or end a record; as JSON it is escaped."""
    said = "I live in \x1b[31mBergen\x1b[0m\u202e since \u2066May\u2069."
    cli.add(user, "one", [{"speaker": "Mara\x1b[2J", "content": said, "timestamp": "2024-03-04T09:00:00Z"}])
    for argv in (
        words("list_facts"),
        words("search", "Bergen"),
        words("turns", "one"),
        words("sessions"),
        words("timeline", "Mara"),
    ):
        for more in ((), ("--json",)):
            shown = cli.run(*argv, *more, user=user)
            assert not {"\x1b", "\u202e", "\u2066", "\u2069"} & set(shown.out + shown.err), argv


def test_exit_codes(cli: CliSurface, mara: str, tmp_path: Path) -> None:
    """0: done, also with no answer; 1: an error; 2: wrong usage. Errors are a line on standard error, without a trace."""
    broken = tmp_path / "broken.json"
    broken.write_text('[{"speaker": "Mara", "content": ', encoding="utf-8")
    table: list[tuple[int, tuple[str, ...]]] = [
        (0, words("ask", "What is Mara's shoe size?")),
        (0, words("search", "zzz")),
        (0, ("--version",)),
        (0, ("--help",)),
        (0, ()),
        (1, words("timeline", "Nobody at all")),
        (1, words("search", "boats", "--as-of", "the day of the fair")),
        (1, words("import_file", str(broken))),
        (1, words("import_file", str(tmp_path / "no such file"))),
        (1, words("import_", str(broken))),
        (1, words("delete", "--session", "no such", "--yes")),
        (1, words("history", "no such")),
        (2, words("search")),
        (2, words("search", "a", "b")),
        (2, words("search", "boats", "--nosuch")),
        (2, words("search", "boats", "--top-k", "many")),
        (2, words("list_facts", "--filter", "colour")),
        (2, words("delete")),
        (2, words("delete", "--all", "--session", "spring", "--yes")),
        (2, ("nosuch",)),
    ]
    wrong = []
    for code, argv in table:
        ran = cli.run(*argv, user=mara)
        if ran.code != code or "Traceback" in ran.err or bool(ran.err) != bool(code) or (code and ran.out):
            wrong.append((argv, ran))
    assert not wrong


def test_a_wrong_command_suggests_the_right_one(cli: CliSurface) -> None:
    """Who mistypes is told what there is that looks like it."""
    for name in ("search", "timeline", "sessions"):
        [meant] = words(name)
        ran = cli.run(meant[:-2] + meant[-1])
        assert (ran.code, meant in ran.err) == (2, True), meant
    assert "--limit" in cli.run(*words("list_facts"), "--limt", "3").err


def test_help_of_each_command(cli: CliSurface) -> None:
    """Every command says what it does and takes, and the program's help names each."""
    names = {call.name.partition(" --")[0] for call in COMMANDS.values()} | set(OTHER_COMMANDS.values())
    listed = cli.run("--help").out
    wrong: list[tuple[str, object]] = []
    for name in sorted(names):
        ran = cli.run(*name.split(), "--help")
        if ran.code or ran.err or f"memforest {name}" not in ran.out or name.split()[0] not in listed:
            wrong.append((name, ran))
        options = {theirs for one in COMMANDS.values() if one.name == name for theirs in one.names.values()}
        wrong += [(name, one) for one in options if one.startswith("--") and one not in ran.out]
    assert not wrong


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes on Windows")
def test_a_reader_that_has_enough_is_no_error(cli: CliSurface) -> None:
    """`| head -1` ends the program quietly, with exit code 0."""
    talk = [
        {
            "speaker": "Mara",
            "content": f"Rope {n} " + "is long and patient, " * 120,
            "timestamp": "2024-10-01",
        }
        for n in range(60)
    ]
    cli.run(
        *words("import_file"), "-", "--session", "ropes", "--no-infer", user="ropes", stdin=json.dumps(talk)
    )
    with process(cli.directory, "--user", "ropes", *words("turns"), "ropes", "--limit", "1000") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_ctrl_c_is_130_and_keeps_what_was_stored(tmp_path: Path) -> None:
    """What was reported as stored stays, the memory is whole, and the same command finishes."""
    sessions = [
        {
            "session_id": f"s{n}",
            "turns": [
                {
                    "speaker": "Mara",
                    "content": f"I own {n + 2} boats.",
                    "timestamp": f"2024-01-{n % 28 + 1:02}",
                }
            ],
        }
        for n in range(MANY)
    ]
    file, cli = tmp_path / "many.json", CliSurface(tmp_path / "memories")
    file.write_text(json.dumps({"sessions": sessions}), encoding="utf-8")
    with process(cli.directory, *words("import_file"), str(file), "--user", "mara", "--json") as running:
        while running.poll() is None and not held(cli):
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        running.wait(60)
    assert running.returncode == 130
    stored = cli.stats("mara")["sessions"]
    assert 0 < stored < MANY
    assert cli.verify("mara")["ok"]
    assert cli.import_file("mara", file)["turns_added"] == MANY - stored
    assert cli.stats("mara")["turns"] == MANY


def held(cli: CliSurface) -> bool:
    """Return whether a session is stored, asked while another process writes."""
    try:
        return any(cli.directory.glob("*")) and cli.stats("mara")["sessions"] > 0
    except Refused:
        return False


def test_nothing_is_deleted_without_yes(cli: CliSurface, user: str) -> None:
    """Where nobody can be asked it refuses and says what to give; a dry run counts what would go and deletes nothing."""
    tell(cli, user)
    before = cli.stats(user)
    for target in (("--session", "spring"), ("--turn", "spring", "0"), ("--entity", "Tom"), ("--all",)):
        ran = cli.run(*words("delete"), *target, user=user)
        assert ran.code != 0, target
        assert "--yes" in ran.err, target
        dry = json_of(cli.run("--json", *words("delete"), *target, "--dry-run", user=user))
        assert dry["gone"]["turns"] > 0, target
    assert cli.stats(user) == before
    assert cli.delete_session(user, "spring")["turns"] == 2
    assert cli.stats(user)["turns"] == before["turns"] - 2


def test_no_text_of_one_user_in_the_output_of_another(cli: CliSurface, mara: str, user: str) -> None:
    """Whatever is asked about Mara, errors included, nothing that another one said or is called by comes out."""
    said = "I live in Vexholm, and own a brindlecap."
    message = {"speaker": "Ottoline", "content": said, "timestamp": "2024-05-02T07:30:00Z"}
    cli.add(user, "letters from Quaymoor", [message])
    asked = [
        *READING,
        words("ask", "Where does Ottoline live?"),
        words("search", "Where does Ottoline live?", "--top-k", "50"),
        words("timeline", "Ottoline"),
        words("turns", "letters"),
    ]
    wrong = []
    for argv in asked:
        for more in ((), ("--json",)):
            ran = cli.run(*argv, *more, user=mara)
            shown = (ran.out + ran.err).lower()
            wrong += (
                [(argv, ran)] if any(one in shown for one in ("vexholm", "brindlecap", "quaymoor")) else []
            )
    assert not wrong


def test_without_user_the_only_one_is_meant(alone: CliSurface, cli: CliSurface, mara: str) -> None:
    """With several, the program guesses none: it fails, and names whom there is to choose from."""
    assert "Porto" in alone.run(*words("ask"), "Where does Mara live?").out
    assert cli.run(*words("users")).out.splitlines() == json_of(cli.run(*words("users"), "--json"))["users"]
    many = cli.run(*words("ask"), "Where does Mara live?")
    assert many.code in (1, 2)
    assert many.out == ""


def test_a_file_that_is_wrong_in_part(cli: CliSurface, user: str, tmp_path: Path) -> None:
    """What cannot be stored is named with its file, all else is stored, and the exit code is 1."""
    file = tmp_path / "mixed.json"
    good = {"session_id": "good", "turns": STORY["spring"]}
    bad = {"session_id": "bad", "turns": [{"speaker": "Mara", "content": "Hello."}]}  # without a time
    file.write_text(json.dumps({"sessions": [good, bad]}), encoding="utf-8")
    dry = cli.run(*words("import_file"), str(file), "--dry-run", user=user)
    assert "mixed.json" in dry.out + dry.err
    assert user not in cli.run(*words("users")).out.splitlines()
    ran = cli.run(*words("import_file"), str(file), user=user)
    assert (ran.code, "mixed.json" in ran.err) == (1, True)
    assert cli.stats(user) == {"sessions": 1, "turns": 2, "facts": 2}


@pytest.mark.xfail(
    strict=True, reason="issue 31: ingest --json names an error of the program's inside, StopCommand"
)
def test_a_refused_file_names_an_error_of_the_library(cli: CliSurface, user: str) -> None:
    """What JSON calls the error is one of `memforest.errors`, as everywhere."""
    message = {"speaker": "Mara", "content": "Hello.", "timestamp": "the day of the fair"}
    with pytest.raises(Refused) as refused:
        cli.add(user, "one", [message])
    assert refused.value.kind == "TimestampError"


def test_a_session_that_differs_is_kept(cli: CliSurface, user: str) -> None:
    """Another text under the same session is refused; a longer one is added to; --replace overwrites."""
    cli.add(user, "spring", STORY["spring"])
    other = [{**STORY["spring"][0], "content": "I live in Narvik."}, STORY["spring"][1]]
    with pytest.raises(Refused) as refused:
        cli.add(user, "spring", other)
    assert refused.value.code == 1
    assert "I live in Bergen." in [one["text"] for one in cli.turns(user, "spring")["turns"]]
    assert cli.add(user, "spring", [*STORY["spring"], STORY["summer"][0]])["turns_added"] == 1
    ran = cli.run(
        *words("import_file"), "-", "--session", "spring", "--replace", user=user, stdin=json.dumps(other)
    )
    assert ran.code == 0
    assert cli.turns(user, "spring")["turns"][0]["text"] == "I live in Narvik."


def test_backup_and_restore(alone: CliSurface, tmp_path: Path) -> None:
    """A backup is restored into an empty directory as it was; over a memory that is there nothing is restored."""
    copy, other = tmp_path / "copy.sqlite", CliSurface(tmp_path / "other")
    alone.backup("mara", copy)
    assert other.run(*words("restore"), str(copy)).code == 0
    assert other.search("mara", "Where does Mara live?") == alone.search("mara", "Where does Mara live?")
    assert other.run(*words("restore"), str(copy)).code == 1
    assert alone.run(*words("doctor")).code == 0


def test_keys_are_shown_once(tmp_path: Path) -> None:
    """Into a pipe `keys create` prints the key alone; lists and files have none, and who is revoked is named so."""
    cli = CliSurface(tmp_path)
    made = cli.run(*words("keys create"), "laptop", "--scope", "read")
    key = made.out.strip()
    assert (made.code, len(made.out.splitlines()), key[:4]) == (0, 1, "mfk_")
    listed = cli.run(*words("keys list"))
    assert "laptop" in listed.out
    assert key not in listed.out
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and key.encode() in one.read_bytes()]
    assert cli.run(*words("keys revoke"), "laptop").code == 0
    assert "revoked" in cli.run(*words("keys list")).out
    assert cli.run(*words("keys revoke"), "no such").code == 1
