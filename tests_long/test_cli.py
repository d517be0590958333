"""Tests of the commands, run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.table import each

from memforest import Config, MemForest, __version__
from memforest.cli import main
from memforest.cli.call import to_json
from memforest.cli.screen import clean
from memforest.models import MINILM, MS_MARCO, HashEmbedder
from memforest.reading.prompts import data_block
from memforest.store.directory import file_name

EMBEDDER = "hash-words-1@64"
CHAT = [
    {"speaker": "Bo", "content": "I live in Davis.", "timestamp": "2024-01-05T10:00:00Z", "channel": "sms"},
    {"speaker": "Ana", "content": "I adopted a dog.", "timestamp": "2024-01-05T10:01:00Z", "channel": "mail"},
    {"speaker": "Bo", "content": "I moved to Miami yesterday.", "timestamp": "2024-03-02T10:00:00Z"},
]

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program on a directory of its own, with the word-overlap embedder."""
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, args, input=stdin, catch_exceptions=False)

    return run


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A chat file of one session."""
    return write(tmp_path / "chat.json", CHAT)


@pytest.fixture
def filled(run: Run, chat: Path) -> Run:
    """The program on a directory with the memory of `me`."""
    assert run("ingest", str(chat), "--embedder", EMBEDDER).exit_code == 0
    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output as a terminal without colours, on which things are laid out."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def write(path: Path, value: Any) -> Path:
    """Write a value as JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def data(result: Result) -> Any:
    """Return the data of an envelope, which must be all that was printed."""
    assert result.stderr == ""
    envelope = json.loads(result.stdout)
    assert list(envelope) == ["status", "command", "duration_ms", "user", "data"]
    assert envelope["duration_ms"] >= 0
    assert (envelope["status"] == "ok") == (result.exit_code == 0)
    return envelope["data"]


def test_version_and_help(run: Run) -> None:
    """`--version` prints the package's; no command at all prints the help and is no error."""
    assert run("--version").output == f"memforest {__version__}\n"
    bare = run()
    assert bare.exit_code == 0
    assert bare.output == run("--help").output
    assert "doctor" in bare.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nosuch",), "No such command"),
        (("serach", "x"), "Did you mean 'search'?"),
        (("ask",), "Missing argument 'QUESTION'"),
        (("ask", "x", "--nosuch"), "No such option"),
        (("ask", "x", "--index", "rtree"), "unknown index 'rtree'; known: "),
        (("search", "x", "--index", "flat,"), "unknown index 'flat,'"),
        (("ask", "x", "--top-k", "0"), "0 is not in the range"),
        (("facts", "--filter", "colour"), "KEY=VALUE"),
        (("tree", "--limit", "0"), "0 is not in the range"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run: Run, args: tuple[str, ...], said: str) -> None:
    """Usage errors say what is wrong and where help is, on standard error."""
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert data(run("--json", *args))["error"]


def test_errors_are_one_line_without_a_traceback(filled: Run) -> None:
    """An error of memforest exits with 1; `-v` shows where it came from."""
    result = filled("ask", "Where?", "--as-of", "smarch")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert "smarch" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" in filled("ask", "Where?", "--as-of", "smarch", "-v").stderr
    assert data(filled("ask", "Where?", "--as-of", "smarch", "--json"))["error"] == "TimestampError"


def test_options_work_before_and_after_the_command(filled: Run, tmp_path: Path) -> None:
    """The one nearer to the end wins, and both win over the environment."""
    empty = str(tmp_path / "empty")
    assert filled("--dir", empty, "stats").exit_code == 1
    assert filled("stats", "--dir", empty).exit_code == 1
    assert filled("--dir", empty, "stats", "--dir", str(tmp_path / "memories")).exit_code == 0
    assert data(filled("--json", "stats")) == data(filled("stats", "--json"))


def test_the_only_user_is_taken_and_several_are_listed(filled: Run, chat: Path) -> None:
    """Without `--user` the only memory is meant; with two, the error names both and the way out."""
    assert json.loads(filled("stats", "--json").stdout)["user"] == "me"
    filled("ingest", str(chat), "--user", "bo", "--embedder", EMBEDDER)
    result = filled("stats")
    assert result.exit_code == 2
    assert "bo, me" in result.stderr
    assert filled("stats", "-u", "bo").exit_code == 0


def test_an_unknown_user_is_named_beside_the_known(filled: Run) -> None:
    """A typing error in `--user` shows who there is, and makes no memory."""
    result = filled("ask", "x", "--user", "nobody")
    assert result.exit_code == 0
    assert "'nobody' has no memory here; there are: me" in result.stderr
    assert "me" in filled("doctor").stdout
    assert "nobody" not in filled("doctor").stdout


def test_an_empty_directory_says_how_to_begin(run: Run) -> None:
    """Reading before anything was written names the commands that make a memory."""
    result = run("ask", "x")
    assert result.exit_code == 1
    assert "memforest ingest" in result.stderr
    assert "memforest demo" in result.stderr


def test_the_environment_names_the_user(run: Run, chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MEMFOREST_USER counts where neither the option nor the file says whose memory it is."""
    monkeypatch.setenv("MEMFOREST_USER", "env")
    named = write(chat.with_name("named.json"), {"user": "file", "sessions": [{"turns": CHAT}]})
    run("ingest", str(chat), str(named), "--embedder", EMBEDDER)
    run("ingest", str(chat), "-u", "option", "--embedder", EMBEDDER)
    assert [run("stats", "-u", user).exit_code for user in ("env", "file", "option")] == [0, 0, 0]


def test_ingest_reports_what_became_of_the_file(run: Run, chat: Path) -> None:
    """Turns, facts, skipped pieces by reason, texts embedded, the size on disk - and again: nothing new."""
    result = run("ingest", str(chat), "--embedder", EMBEDDER)
    assert result.exit_code == 0
    assert "me: 1 session" in result.stdout
    assert "3 added" in result.stdout
    assert EMBEDDER in result.stdout
    (memory,) = data(run("ingest", str(chat), "--json"))["memories"]
    assert (memory["sessions_new"], memory["sessions_unchanged"], memory["turns_added"]) == (0, 1, 0)
    assert memory["bytes"] > 0
    assert memory["errors"] == []


def test_ingest_counts_by_reason(run: Run, tmp_path: Path) -> None:
    """What became no fact is counted under its reason."""
    said = [{**CHAT[0], "content": "How are you?"}, {**CHAT[1], "content": "I adopted a dog."}]
    (memory,) = data(run("ingest", str(write(tmp_path / "a.json", said)), "--embedder", EMBEDDER, "--json"))[
        "memories"
    ]
    assert memory["skipped"]["question"] == 1
    assert memory["facts_added"] == 1


def test_ingest_reads_standard_input(run: Run) -> None:
    """`-` takes messages from a pipe, under the name that `--session` gives."""
    text = "\n".join(json.dumps(turn) for turn in CHAT)
    assert run("ingest", "-", "--session", "s1", "--embedder", EMBEDDER, stdin=text).exit_code == 0
    assert "s1" in run("tree").stdout
    assert "--session" in run("ingest", "-", stdin=text).stderr


def test_ingest_fills_one_memory_per_locomo_sample(run: Run, tmp_path: Path) -> None:
    """LoCoMo files need no `--user`; captions are found, dia_ids are the turns' ids."""
    samples = [
        {
            "sample_id": f"conv-{n}",
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [
                    {"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a dog in the snow"}
                ],
            },
        }
        for n in (1, 2)
    ]
    file = str(write(tmp_path / "locomo.json", samples))
    assert run("ingest", file, "--embedder", EMBEDDER).exit_code == 0
    found = data(run("search", "dog snow", "-u", "conv-2", "--json"))["evidence"]
    assert found[0]["sources"] == [{"session_id": "session_1", "turn_ids": ["D1:1"]}]
    assert found[0]["said"] == "2023-05-08T13:56:00+00:00"
    mixed = run("ingest", file, "-u", "all")
    assert mixed.exit_code == 1
    assert "memories of 2 users" in mixed.stderr


def test_a_bad_session_is_named_and_the_others_are_stored(run: Run, tmp_path: Path) -> None:
    """One malformed session does not stop a file: it is named with its place, and the exit code is 1."""
    sessions = [
        {"session_id": "good", "turns": CHAT},
        {"session_id": "bad", "turns": [{"role": "user", "content": "no time"}]},
        {"session_id": "fine", "turns": CHAT},
    ]
    file = str(write(tmp_path / "chats.json", {"sessions": sessions}))
    result = run("ingest", file, "--embedder", EMBEDDER)
    assert result.exit_code == 1
    assert "Error: chats.json, session 'bad' (sessions[1]): turn 0 has no timestamp" in result.stderr
    assert "--timestamp" in result.stderr
    assert data(run("stats", "--json"))["sessions"] == 2
    assert run("ingest", file, "--timestamp", "2024-05-01").exit_code == 0


def test_trees_are_refreshed_when_the_last_session_fails(run: Run, tmp_path: Path) -> None:
    """With a policy that makes summaries with the write, what becomes of the last session does not matter."""
    sessions = [{"session_id": f"s{n}", "turns": CHAT} for n in range(4)] + [{"turns": [{"role": "user"}]}]
    config = tmp_path / "memforest.toml"
    config.write_text('refresh = "path"\n', encoding="utf-8")
    file = str(write(tmp_path / "a.json", {"sessions": sessions}))
    run("ingest", file, "--embedder", EMBEDDER, "--config", str(config))
    assert data(run("stats", "--json"))["dirty_nodes"] == 0


def test_a_conflict_names_the_option(filled: Run, chat: Path) -> None:
    """A session that differs is refused until `--replace` is given."""
    write(chat, [{**CHAT[0], "content": "I live in Boston."}, *CHAT[1:]])
    refused = filled("ingest", str(chat))
    assert refused.exit_code == 1
    assert "--replace" in refused.stderr
    assert filled("ingest", str(chat), "--replace").exit_code == 0
    assert "Boston" in filled("facts").stdout


def test_two_files_with_one_session_are_refused(run: Run, chat: Path, tmp_path: Path) -> None:
    """Nothing is stored when two files would become one session by accident."""
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other" / "chat.json", CHAT[:1])
    result = run("ingest", str(chat), str(other))
    assert result.exit_code == 1
    assert "both have the session 'chat'" in result.stderr
    assert run("stats").exit_code == 1


def test_verbatim_names_and_zones(run: Run, tmp_path: Path) -> None:
    """`--no-infer` stores the words as they are, `--name` says who the user is, `--timezone` where."""
    said = [{"role": "user", "content": "How odd?", "timestamp": "2024-07-01 00:30"}]
    file = str(write(tmp_path / "a.json", said))
    args = ("--no-infer", "--name", "Ana", "--timezone", "Europe/Madrid", "--embedder", EMBEDDER)
    assert run("ingest", file, *args).exit_code == 0
    (fact,) = data(run("facts", "--json"))["facts"]
    assert (fact["text"], fact["said"]) == ("How odd?", "2024-06-30T22:30:00+00:00")
    assert run("ingest", file, "--timezone", "Mars/Base").exit_code == 1


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02", b'{"a": ', b"caf\xe9", b"42"])
def test_bad_files_store_nothing(run: Run, tmp_path: Path, content: bytes) -> None:
    """A file that cannot be read is named in one line, and no memory is begun."""
    (tmp_path / "bad.json").write_bytes(content)
    result = run("ingest", str(tmp_path / "bad.json"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: bad.json")
    assert not (tmp_path / "memories").exists()


def test_a_first_ingest_that_fails_leaves_no_memory(run: Run, tmp_path: Path) -> None:
    """Not even when the user was given a name on the way; with one good session there is one."""
    untimed = write(tmp_path / "untimed.json", [{"role": "user", "content": "Hello."}])
    for more in ((), ("--name", "Ana")):
        assert run("ingest", str(untimed), "--user", "new", *more).exit_code == 1
        assert not (tmp_path / "memories").exists()
    assert (
        run("ingest", str(untimed), "--user", "new", "--name", "Ana", "--timestamp", "2024-01-01").exit_code
        == 0
    )
    assert run("users").stdout == "new\n"
    assert "Ana" in run("sessions").stdout


def test_missing_files_and_directories_are_named(run: Run, tmp_path: Path) -> None:
    """A path that leads nowhere, or to a directory, is an error with its name."""
    assert "nosuch.json" in run("ingest", str(tmp_path / "nosuch.json")).stderr
    assert "is a directory" in run("ingest", str(tmp_path)).stderr


def test_another_embedder_is_refused_with_the_fix(filled: Run, chat: Path) -> None:
    """A memory keeps its embedder; the error says how to open it."""
    result = filled("ingest", str(chat), "--embedder", "minilm")
    assert result.exit_code == 1
    assert EMBEDDER in result.stderr


@pytest.mark.usefixtures("terminal")
def test_search_shows_rank_day_text_and_source(filled: Run) -> None:
    """Each piece of evidence has its number, its day, and the session and turns that it comes from."""
    result = filled("search", "Who adopted a dog?", "--top-k", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("[1] 2024-01-05 ")
    assert "Ana · chat #1" in result.stdout


def test_search_takes_the_time_options(filled: Run) -> None:
    """`--as-of`, `--during`, `--reference-date`, `--max-tokens` and `--index` reach the engine."""

    def texts(*args: str) -> list[str]:
        found = data(filled("search", "Where does Bo live?", "--json", *args))["evidence"]
        return [one["quote"] for one in found]

    miami = "I moved to Miami yesterday."
    assert miami in texts()
    assert miami not in texts("--as-of", "2024-02-01")
    assert texts("--during", "2024-03-01", "2024-03-03", "--index", "flat")[0] == miami
    assert len(texts("--max-tokens", "25")) < len(texts())
    asked = data(filled("search", "x", "--json", "--reference-date", "2024-05-01"))
    assert asked["reference_date"] == "2024-05-01T00:00:00+00:00"


def test_explain_shows_parts_and_path(filled: Run) -> None:
    """`--explain` adds how the question was read, what the score is made of, and the path to the leaf."""
    shown = filled("search", "Where does Bo live now?", "--explain").stdout
    assert "asks current" in shown
    assert "score " in shown
    assert "path session chat" in shown.replace("\n", " ")
    assert "trees: " in shown
    assert "time order: " in shown
    assert "time filter" not in shown
    assert "time filter: kept" in filled("search", "Bo", "--explain", "--as-of", "2024-02-01").stdout
    why = data(filled("search", "Where does Bo live now?", "--explain", "--json"))["trace"]["explain"]
    for one in why["evidence"]:
        assert sum(one["parts"].values()) == pytest.approx(one["score"], abs=1e-9)


@pytest.mark.skipif(MS_MARCO.find() is None, reason=f"not installed: {MS_MARCO.fix}")
def test_rerank_reads_the_best_again(filled: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The explanation says which model read how many, unless it is switched off; doctor says that it runs."""
    asked = ("search", "Where does Bo live now?", "--explain")
    monkeypatch.setenv("MEMFOREST_RERANKER", "local")
    assert f"rerank: {MS_MARCO.model_id} read" in filled(*asked).stdout
    assert "rerank:" not in filled(*asked, "--no-rerank").stdout
    assert f"{MS_MARCO.name}: installed" in " ".join(filled("doctor").stdout.split())


def test_a_missing_reranker_is_no_mystery(filled: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for without its weights, the command that installs them is named; doctor goes on and names it too."""
    monkeypatch.setattr("memforest.models.catalog.MS_MARCO", replace(MS_MARCO, package="no_such_package"))
    checks = data(filled("doctor", "--json"))["checks"]
    (check,) = [one for one in checks if one["name"] == "reranker"]
    assert (check["status"], check["fix"]) == ("note", MS_MARCO.fix)
    monkeypatch.setenv("MEMFOREST_RERANKER", "local")
    failed = filled("search", "Bo")
    assert failed.exit_code == 1
    assert MS_MARCO.fix in failed.stderr
    assert filled("doctor").exit_code == 1


@pytest.mark.usefixtures("terminal")
def test_ask_answers_with_numbered_citations(filled: Run) -> None:
    """The answer is followed by the number of its citation, and the citation by its source."""
    result = filled("ask", "Where did Bo move yesterday?")
    assert result.exit_code == 0
    assert "Miami" in result.stdout
    assert "[1] 2024-03-02" in result.stdout
    assert "chat #2" in result.stdout
    assert data(filled("ask", "Where did Bo move yesterday?", "--json"))["citations"]


def test_ask_abstains_without_failing(filled: Run) -> None:
    """No answer is an answer: the reason is given and the exit code is 0."""
    result = filled("ask", "What is the boiling point of tungsten?")
    assert result.exit_code == 0
    assert result.stdout.startswith("Not known")
    assert data(filled("ask", "What is the boiling point of tungsten?", "--json"))["answer"] is None


@pytest.mark.usefixtures("terminal")
def test_facts_are_paged_and_filtered(filled: Run) -> None:
    """A page says what comes next; entity, session and metadata filters narrow it."""
    page = filled("facts", "--limit", "1")
    assert "the next page: --offset 1" in page.stdout
    everything = data(filled("facts", "--json"))
    assert everything["total"] == len(everything["facts"]) == 3
    for args in (("--filter", "channel=mail"), ("--entity", "Ana")):
        found = data(filled("facts", "--json", *args))["facts"]
        assert ["dog" in one["text"] for one in found] == [True]
    assert data(filled("facts", "--filter", "channel=fax", "--json"))["total"] == 0
    assert filled("facts", "--session", "nosuch").exit_code == 1


@pytest.mark.usefixtures("terminal")
def test_timeline_shows_states_with_their_intervals(filled: Run) -> None:
    """A residence that changed is shown with the days it held; `--kind` keeps states or events."""
    shown = filled("timeline", "Bo", "--attribute", "residence").stdout
    assert "2024-01-05 to " in shown
    assert "Davis" in shown
    assert "since 2024-03-0" in shown
    kinds = {one["kind"] for one in data(filled("timeline", "Bo", "--kind", "state", "--json"))}
    assert kinds == {"state"}
    assert filled("timeline", "Zed").exit_code == 1


@pytest.mark.usefixtures("terminal")
def test_tree_draws_and_drills_down(filled: Run) -> None:
    """The forest shows every tree with interval and leaves; a scope unfolds its trees."""
    forest = filled("tree").stdout
    assert "session trees" in forest
    assert "entity trees" in forest
    assert "leaves" in forest
    inside = filled("tree", "chat").stdout
    assert "Miami" in inside
    assert "├──" in inside
    assert filled("tree", "nosuch").exit_code == 1


def test_stats_and_verify(filled: Run) -> None:
    """Counts, embedder and size; and that nothing is wrong."""
    assert EMBEDDER in filled("stats").stdout
    assert data(filled("stats", "--json"))["turns"] == 3
    assert filled("maintain", "verify").exit_code == 0
    assert data(filled("maintain", "verify", "--json"))["ok"] is True


def test_verify_fails_on_a_damaged_memory(filled: Run, tmp_path: Path) -> None:
    """A file whose content was changed behind our back is reported with exit code 1."""
    import sqlite3

    conn = sqlite3.connect(tmp_path / "memories" / file_name("me"))
    conn.execute("UPDATE fact SET text = 'Bo lives in Rome.' WHERE id = 1")
    conn.commit()
    conn.close()
    result = filled("maintain", "verify")
    assert result.exit_code == 1
    assert "fact: " in result.stdout
    assert data(filled("maintain", "verify", "--json"))["problems"]


def test_resume_finishes_what_is_left(filled: Run, tmp_path: Path) -> None:
    """Summaries that an interrupted ingest left out of date are made."""
    with MemForest(tmp_path / "memories", Config(embedder=HashEmbedder(64))) as forest:
        forest.ingest_session("me", "more", CHAT, refresh=False)
        assert forest.user("me").stats().dirty_nodes > 0
    assert filled("maintain", "resume").exit_code == 0
    assert data(filled("stats", "--json"))["dirty_nodes"] == 0
    assert data(filled("maintain", "resume", "--json", "-u", "me"))["users"] == ["me"]


def test_doctor_says_what_works_and_what_is_missing(filled: Run) -> None:
    """Versions, the directory, embedders with what a new memory takes, and every memory."""
    result = filled("doctor")
    assert result.exit_code == 0
    for part in (__version__, "FTS5", "can be written", MINILM.name, "new memories", "me: 1 session"):
        assert part in " ".join(result.stdout.split())


def test_doctor_fails_on_a_broken_memory(filled: Run, tmp_path: Path) -> None:
    """A file that cannot be opened is named, the others are still looked at, and the exit code is 1."""
    (tmp_path / "memories" / "broken-0123.db").write_bytes(b"this is no database, but long enough" * 9)
    result = filled("doctor")
    assert result.exit_code == 1
    assert "broken-0123.db" in result.stdout
    assert "me: 1 session" in result.stdout
    checks = data(filled("doctor", "--json"))["checks"]
    assert [one["status"] for one in checks].count("broken") == 1


def test_doctor_does_not_make_the_directory(run: Run, tmp_path: Path) -> None:
    """Looking leaves nothing behind."""
    assert run("doctor").exit_code == 0
    assert not (tmp_path / "memories").exists()


EVIL = "I own a \x1b[2J\x1b]0;gotcha\x07red [bold]kite[/bold] \x9b31m called :smile: \u202etxt."


def test_no_escape_sequence_reaches_the_terminal(run: Run, tmp_path: Path) -> None:
    """Controls are stripped from stored text in every view, and markup stays text."""
    said = [{**CHAT[0], "speaker": "E\x1b[31mve", "content": EVIL}]
    file = str(write(tmp_path / "evil.json", {"session_id": "s\x1b[1m", "turns": said}))
    shown = [
        run(*args)
        for args in (
            ("ingest", file, "-u", "u\x1b[7m", "--embedder", EMBEDDER),
            ("search", "red kite", "--explain"),
            ("ask", "What kite do I own?"),
            ("facts",),
            ("tree", "--depth", "3"),
            ("stats",),
            ("doctor",),
            ("ask", "x", "-u", "\x1b[5m"),
            ("facts", "--json"),
            ("tree", "\x1b[5m"),
        )
    ]
    for result in shown:
        assert not set(result.output) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "[bold]kite[/bold]" in shown[3].output
    assert ":smile:" in shown[3].output


ACTED_ON = [0x00, 0x1B, 0x7F, 0x85, 0x9B, 0x2028]
UNSEEN = [0x61C, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0xE0041]


@each("code", [*ACTED_ON, *UNSEEN])
def test_what_terminals_act_on_is_never_printed(code: int) -> None:
    """C0, DEL, C1 and line separators become spaces, marks without width are left out; joiners of emoji stay.

    In JSON all of them are escaped, and come back.
    """
    assert clean(f"a{chr(code)}b") == ("a b" if code in ACTED_ON else "ab")
    assert chr(code) not in to_json({"name": f"a{chr(code)}b"})
    assert json.loads(to_json({"name": f"a{chr(code)}b"})) == {"name": f"a{chr(code)}b"}
    assert chr(code) not in data_block("turns", [{"text": f"a{chr(code)}b"}])
    assert clean("👩\u200d🔬 café") == "👩\u200d🔬 café"
