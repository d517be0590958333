"""Tests of the parts of ingest jobs: what sessions are called, what is told of errors, pages, and tenants that are kept open."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.taking_in import Tenants as Doubles
from tests_long.taking_in import request

from memforest import errors
from memforest.endpoint import Budget
from memforest.errors import InputError, NotFoundError
from memforest.server import job_rows, jobs
from memforest.server.auth import Principal
from memforest.server.job_rows import NOT_RECEIVED, JobRow, JobRows, SessionRow, sentence, told
from memforest.server.job_runs import JobRun, LiveJob, TenantJobs, digest_of, hash_of, user_of
from memforest.store.directory import file_name

ANYBODY = Principal()
ANA = Principal(user="ana")
LONG = "x" * 200


def row(**more: Any) -> JobRow:
    """Return a job as it is stored."""
    plain: dict[str, Any] = dict.fromkeys(
        (
            *("turns", "refreshed", "users", "sessions", "received", "done"),
            *("chunks", "chunks_done", "chunks_failed", "last_event"),
        ),
        0,
    )
    bare = dict.fromkeys(("owner", "ended_ms", "error", "max_calls", "max_tokens", "request"))
    return JobRow(
        **{"number": 7, "id": "j", "state": "queued", "made_ms": 0, "changed_ms": 1, **plain, **bare, **more}
    )


def jobs_of(folder: Path) -> TenantJobs:
    """Return a tenant without jobs."""
    return TenantJobs(ANYBODY, folder, JobRows(folder / "jobs.sqlite"), asyncio.Semaphore(1))


@pytest.mark.parametrize("user", ["ana", "Ana", "a/b", "../x", "Zoë", LONG, "\x7f"])
def test_a_user_is_found_by_the_hash_of_the_memorys_file(
    folder: Path, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user is called; and nobody by the hash of somebody who has none."""
    monkeypatch.setattr(
        "memforest.server.job_runs.owner_of", lambda path, _key: {file_name(user): user}[path.name]
    )
    assert user_of(folder, hash_of(user), None) is None
    (folder / file_name(user)).touch()
    assert user_of(folder, hash_of(user), None) == user
    assert user_of(folder, hash_of(user + "2"), None) is None
    assert hash_of(user).isalnum()


def test_sessions_of_two_users_are_never_called_alike() -> None:
    """Also where their ids begin alike for as long as you like, and where one session is named as the other's user."""
    pairs = [("ana", "s"), ("ana", "t"), ("bob", "s"), (f"{LONG}a", "s"), (f"{LONG}b", "s"), ("s", "ana")]
    assert len({digest_of(*pair) for pair in pairs}) == len(pairs)
    assert digest_of("ana", "s") == digest_of("ana", "s")
    assert all(word not in digest_of("ana-maria", "monday") for word in ("ana", "monday"))


def test_what_is_no_session_is_refused_at_its_place() -> None:
    """A wrong id, a missing one, and another user than the key's; the others keep their places."""
    given = [request("ana", "s"), request("", "s"), request("ana", "\0"), {"turns": []}, request("bob", "s")]
    sessions, problems = jobs.sessions_of(ANA, given)
    assert [one.place for one in sessions] == [0, 1, 2, 3, 4]
    assert [one.state for one in sessions] == ["new", *["refused"] * 4]
    assert {place: type(problem) for place, problem in problems.items()} == {
        **dict.fromkeys((1, 2, 3), InputError),
        4: NotFoundError,
    }
    assert sessions[0].digest == digest_of("ana", "s")
    assert {one.file for one in sessions[1:]} == {one.digest for one in sessions[1:]} == {None}


def test_a_refused_session_is_told_with_the_cores_message_where_it_is_known() -> None:
    """Later, when nobody knows it any more, the sentence of its class is there."""
    refused = [SessionRow(place, None, None, "refused", "InputError") for place in (1, 3)]
    view = job_rows.view_of(row(), refused)
    assert {one.message for one in view.refused} == {sentence("InputError")}
    shown = jobs.with_messages(view, {1: InputError("the session has no turns")})
    assert [one.message for one in shown.refused] == ["the session has no turns", sentence("InputError")]


def test_idempotency_keys_are_the_callers_own_and_tell_nothing() -> None:
    """The same key of two users is two; a digest of a request needs its key, and does not hang on the order of fields."""
    assert len({jobs.key_digest(who, "k") for who in (ANA, ANYBODY, Principal(user="bob"))}) == 3
    sent = [{"user_id": "ana", "session_id": "s", "turns": []}]
    turned = [dict(reversed(sent[0].items()))]
    assert jobs.request_digest("k", sent) == jobs.request_digest("k", turned)
    assert jobs.request_digest("k", sent) != jobs.request_digest("l", sent)
    assert jobs.request_digest("k", sent) != jobs.request_digest("k", [*sent, *sent])


@each("name", [*errors.__all__, NOT_RECEIVED, "KeyError", "", "__doc__"])
def test_every_error_has_a_sentence(name: str) -> None:
    """One that names no class and nothing of the request, for every class there is and any other text."""
    text = sentence(name)
    assert text.endswith(".")
    assert "Error" not in text


def test_only_what_came_with_the_request_is_told() -> None:
    """The messages of stores, models and settings may name files and endpoints."""
    assert told(InputError("the session has no turns")) == "the session has no turns"
    assert told(NotFoundError("no such user")) == "no such user"
    for kind in (
        errors.CorruptStoreError,
        errors.ModelRefusedError,
        errors.ConfigError,
        errors.StoreKeyError,
    ):
        assert "/srv" not in told(kind("/srv/memories/ana.db"))


def test_a_job_is_shown_as_it_is_stored() -> None:
    """Times are in UTC, to the millisecond; an error is told by its class and a sentence; only three states are ends."""
    when = datetime(2026, 3, 2, 9, 0, 0, 123000, tzinfo=timezone.utc)
    ms = job_rows.ms_of(when)
    shown = job_rows.view_of(
        row(state="failed", made_ms=ms, ended_ms=ms, error="StoreWriteError", turns=3), []
    )
    assert (shown.made_at, shown.ended_at, shown.turns) == (when, when, 3)
    assert (shown.error, shown.message) == ("StoreWriteError", "The disk is full or cannot be written.")
    assert job_rows.view_of(row(), []).ended_at is None
    ended = {state for state in get_args(job_rows.JobState) if job_rows.view_of(row(state=state), []).ended}
    assert ended == job_rows.ENDED == {"finished", "failed", "cancelled"}


@each("number", [0, 1, 7, 10**9, 10**17])
def test_a_cursor_leads_back_to_its_job(number: int) -> None:
    """And is no number to look at."""
    cursor = job_rows.cursor_of(number)
    assert job_rows.number_of(cursor) == number
    assert not cursor.isdigit()


@each("cursor", ["", "j1", "ZjE", "ag", "ai0x", "é", "a" * 200, "akk", "=", "\ud800"])
def test_what_is_no_cursor_is_an_input_error(cursor: str) -> None:
    """Not base64, not a number, negative, too long, of another list, no text that could be encoded."""
    with pytest.raises(InputError, match="next_cursor"):
        job_rows.number_of(cursor)


def test_a_budget_is_that_of_the_request_and_none_where_it_has_none() -> None:
    """Either bound alone is one."""
    none = frozenset[str]()
    assert LiveJob.of(row(), none).budget is None
    assert LiveJob.of(row(max_calls=3), none).budget == Budget(3, None)
    assert LiveJob.of(row(max_tokens=0), none).budget == Budget(None, 0)


def test_who_watches_is_woken_once_for_each_change() -> None:
    """Whoever waits from then on waits for the next one."""

    async def main() -> None:
        job = LiveJob(1, "j", frozenset())
        before = job.wake
        job.notify()
        assert before.is_set()
        assert not job.wake.is_set()

    asyncio.run(main())


def test_a_job_that_is_forgotten_ends_the_runs_that_are_its_alone(folder: Path) -> None:
    """One that another job waits for as well goes on."""

    async def main() -> None:
        tenant = jobs_of(folder)
        own, shared = JobRun({1}), JobRun({1, 2})
        tenant.runs = {"a": own, "b": shared}
        tenant.pending = {"c": {1, 2}, "d": {1}}
        assert tenant.forget(1) == [own]
        assert tenant.pending == {"c": {2}, "d": set()}
        assert shared.jobs == {2}
        assert tenant.forget(3) == []

    asyncio.run(main())


def test_few_tenants_that_have_nothing_to_do_are_kept_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those used last are; one with a job, and one that is in use, are never closed."""
    monkeypatch.setattr(jobs, "MOST_IDLE", 2)

    async def main() -> None:
        known = jobs.Intake(Doubles(folder).access())
        with known._tenant(Principal(tenant="busy")) as busy:
            busy.jobs[1] = LiveJob(1, "j", frozenset())
        with known._tenant(Principal(tenant="held")) as held:
            for number in range(5):
                with known._tenant(Principal(tenant=str(number))):
                    pass
            names = {one.who.tenant for one in known._known.values()}
            assert {"busy", "held"} <= names
            assert names.isdisjoint({"0", "1", "2"})
            with known._tenant(Principal(tenant="held", user="ana", key="k")) as again:
                assert again is held
        assert len(known._known) <= 3

    asyncio.run(main())


def test_work_in_the_background_is_the_tenants_and_nobodys_key() -> None:
    """It sees all users of the tenant, and no other tenant."""
    who = jobs.background("acme")
    assert (who.tenant, who.user, who.key) == ("acme", None, "ingest")


def test_files_of_jobs_are_found_where_they_are_made(folder: Path) -> None:
    """The server's own and those of tenants; neither directories nor other files of that name."""
    assert jobs.job_files(folder) == []
    for place in (folder, folder / "tenants" / "a-0", folder / "elsewhere" / "b"):
        (place / "server").mkdir(parents=True)
        (place / "server" / "jobs.sqlite").touch()
    (folder / "tenants" / "c-0" / "server" / "jobs.sqlite").mkdir(parents=True)
    assert jobs.job_files(folder) == [
        folder / "server" / "jobs.sqlite",
        folder / "tenants" / "a-0" / "server" / "jobs.sqlite",
    ]
