"""The trace of model calls: one line of JSON a call, private, appended to by many, and no way round what it is."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memforest.errors import ConfigError, ModelUnavailableError
from memforest.models.calls import Trace, TraceError
from memforest.ports import ChatReply, ChatRequest, Message

NOON = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
REQUEST = ChatRequest("extract", (Message("system", "be brief"), Message("user", "hello")))
REPLY = ChatReply("fine", prompt_tokens=40, completion_tokens=10, cached_tokens=8, finish="stop")
posix = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has other permissions and no pipes with names"
)


def trace(path: Path | str, **more: Any) -> Trace:
    """Return a trace whose clock stands still."""
    return Trace(path, clock=lambda: NOON, **more)


def write(to: Trace, reply: ChatReply | None = REPLY, **more: Any) -> None:
    """Write a record of one call."""
    to.write("ingest", "a model", more.get("request", REQUEST), reply, more.get("error"), 1.23456789)


def lines(path: Path) -> list[Any]:
    """Return the records of a trace."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_record_holds_all_of_a_call(tmp_path: Path) -> None:
    """When, by whom, for what, how long and how much; messages in their order, and the reply."""
    write(trace(tmp_path / "t"))
    assert lines(tmp_path / "t") == [{
        "at": "2024-06-01T12:00:00+00:00", "operation": "ingest", "step": "extract", "model": "a model", "seconds": 1.234568,
        "prompt_tokens": 40, "completion_tokens": 10, "cached_tokens": 8, "finish": "stop", "error": None,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}], "reply": "fine",
    }]  # fmt: skip


def test_a_failed_call_has_its_error_and_no_reply(tmp_path: Path) -> None:
    """Nothing was spent that one knows of."""
    write(trace(tmp_path / "t"), None, error=ModelUnavailableError("busy", status=503))
    (record,) = lines(tmp_path / "t")
    assert record["error"] == "ModelUnavailableError: busy"
    assert (record["reply"], record["finish"]) == (None, None)
    assert [record[f"{kind}_tokens"] for kind in ("prompt", "completion", "cached")] == [0, 0, 0]


@given(said=st.text(), replied=st.text())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_one_line_of_ascii(tmp_path: Path, said: str, replied: str) -> None:
    """Line breaks, controls and lone surrogates are escaped, and read back as they were."""
    path = tmp_path / "t"
    path.unlink(missing_ok=True)
    write(trace(path), ChatReply(replied), request=ChatRequest("s", (Message("user", said),)))
    assert path.read_bytes().isascii()
    assert path.read_bytes().count(b"\n") == 1
    (record,) = lines(path)
    assert (record["messages"][0]["content"], record["reply"]) == (said, replied)


def test_records_are_appended(tmp_path: Path) -> None:
    """To what was in the file before, by whatever trace; nothing that is there is lost."""
    path = tmp_path / "t"
    path.write_text('{"old": 1}\n', encoding="utf-8")
    write(trace(path))
    write(trace(str(path)))
    assert [("old" in one) for one in lines(path)] == [True, False, False]


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    """Of several traces of one file, too, as several processes have; long lines, each whole."""
    path = tmp_path / "t"
    request = ChatRequest("s", (Message("user", "x" * 20_000),))

    def work() -> None:
        mine = trace(path)
        for _ in range(10):
            write(mine, request=request)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(one["messages"][0]["content"]) for one in lines(path)] == [20_000] * 40


@posix
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o640, 0o777, 0o600, 0o400 | 0o200])
def test_nobody_else_may_read_what_was_said(tmp_path: Path, mode: int) -> None:
    """A file that was there is closed to others by the check already, and one that is made is closed from the start."""
    path = tmp_path / "t"
    path.touch()
    path.chmod(mode)
    trace(path).check()
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    old = os.umask(0)
    try:
        write(trace(tmp_path / "new"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_checking_makes_no_file(tmp_path: Path) -> None:
    """A trace to which nothing is written leaves nothing; one that is there stays as it is."""
    trace(tmp_path / "t").check()
    assert list(tmp_path.iterdir()) == []
    write(trace(tmp_path / "t"))
    trace(tmp_path / "t").check()
    assert len(lines(tmp_path / "t")) == 1


@posix
def test_a_link_is_neither_followed_nor_written_through(tmp_path: Path) -> None:
    """By the check, and by a write that comes after it; one that leads nowhere makes no file there."""
    target = tmp_path / "elsewhere"
    link = tmp_path / "t"
    link.symlink_to(target)
    with pytest.raises(ConfigError):
        trace(link).check()
    with pytest.raises(TraceError):
        write(trace(link))
    assert not target.exists()


@posix
def test_a_pipe_without_a_reader_is_no_wait(tmp_path: Path) -> None:
    """It would hold up the first call for ever."""
    os.mkfifo(tmp_path / "t")
    with pytest.raises(ConfigError):
        trace(tmp_path / "t").check()


@pytest.mark.parametrize("path", ["a\x00b", "", "no/such/place/t"])
def test_a_path_that_is_none_is_told(tmp_path: Path, path: str) -> None:
    """What it was, why, and what to give; a write beside the check fails as a trace does."""
    given_path = str(tmp_path) if not path else str(tmp_path / path)
    with pytest.raises(ConfigError):
        trace(given_path).check()
    with pytest.raises(TraceError):
        write(trace(given_path))


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Before a model is paid."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError):
            trace(tmp_path / "t").check()
    finally:
        tmp_path.chmod(0o700)


def test_the_hook_sees_everything_and_decides(tmp_path: Path) -> None:
    """What it returns is written as it is; what it may not see is nothing."""
    seen: list[dict[str, Any]] = []

    def redact(record: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(record))
        return {"step": record["step"], "words": len(record["reply"])}

    write(trace(tmp_path / "t", redact=redact))
    assert lines(tmp_path / "t") == [{"step": "extract", "words": 4}]
    write(trace(tmp_path / "plain"))
    assert seen == lines(tmp_path / "plain")


def test_a_record_that_the_hook_keeps_is_not_written(tmp_path: Path) -> None:
    """Not as a line of nothing, either; the others are."""
    to = trace(tmp_path / "t", redact=lambda record: None if record["step"] == "s" else record)
    write(to, request=ChatRequest("s", ()))
    assert not (tmp_path / "t").exists()
    write(to)
    assert [one["step"] for one in lines(tmp_path / "t")] == ["extract"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed here")
def test_no_file_stays_open(tmp_path: Path) -> None:
    """However many records are written, checked or refused."""
    to, files = trace(tmp_path / "t"), Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    for _ in range(20):
        write(to)
        to.check()
        with pytest.raises(TraceError):
            write(trace(tmp_path))
    assert len(list(files.iterdir())) < before + 10, "others may have opened some meanwhile"


@posix
def test_what_its_owner_may_do_with_a_trace_stays(tmp_path: Path) -> None:
    """Only what others may is taken."""
    path = tmp_path / "t"
    for mode, left in ((0o700, 0o700), (0o777, 0o600), (0o200, 0o200)):
        path.touch()
        path.chmod(mode)
        write(trace(path))
        assert stat.S_IMODE(path.stat().st_mode) == left


@pytest.mark.parametrize("made", [{"a": {1, 2}}, object(), {("a", "b"): 1}])
def test_what_a_hook_makes_that_is_no_json_is_left_out(tmp_path: Path, made: Any) -> None:
    """With the kind of the error alone: its text may hold what the hook was to take out."""
    with pytest.raises(TraceError):
        write(trace(tmp_path / "t", redact=lambda _record: made))
    assert not (tmp_path / "t").exists()
