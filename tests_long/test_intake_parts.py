"""Tests of the parts of ingest jobs: what sessions are called, what is told of errors, counts, events and budgets."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.taking_in import Tenants, request

from memforest import errors
from memforest.errors import InputError, NotFoundError
from memforest.progress import IngestProgress
from memforest.server import jobs
from memforest.server.auth import Principal
from memforest.server.jobs import ENDED, Job, JobState, Progress, hash_of, sentence, summed, told, user_of
from memforest.store.directory import file_name
from memforest.times import to_ms

ANYBODY = Principal()
ANA = Principal(user="ana")
LONG = "x" * 200


def job(**more: Any) -> Job:
    """Return a job."""
    return Job("j", None, None, 0, 3, **more)


@pytest.mark.parametrize("user", ["ana", "Ana", "a/b", "../x", "Zoë", LONG, "\x7f"])
def test_a_user_is_found_by_the_hash_of_the_memorys_file(
    folder: Path, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user is called; and nobody by the hash of somebody who has none."""
    monkeypatch.setattr(
        "memforest.server.jobs.owner_of", lambda path, _key: {file_name(user): user}[path.name]
    )
    with pytest.raises(NotFoundError):
        user_of(folder, hash_of(user), None)
    (folder / file_name(user)).touch()
    assert user_of(folder, hash_of(user), None) == user
    with pytest.raises(NotFoundError):
        user_of(folder, hash_of(user + "2"), None)
    assert hash_of(user).isalnum()


def test_what_is_no_session_is_refused_at_its_place(folder: Path) -> None:
    """A wrong id, a missing one, and another user than the key's; the others keep their places."""

    async def main() -> None:
        intake = jobs.Intake(Tenants(folder).access())
        users = [request(user, "s") for user in ("", "ana")]
        sessions = [request("ana", session) for session in ("\0", "t", "")]
        made = await intake.submit(ANA, [*users, *sessions, {"turns": []}, request("bob", "s")])
        refused = {one.place: one.error for one in made.refused}
        assert refused == {
            **dict.fromkeys((0, 5, 6), "NotFoundError"),
            **dict.fromkeys((2, 4), "InputError"),
        }
        assert (made.sessions, made.received, made.users) == (7, 2, 1)
        await intake.close()

    asyncio.run(main())


def test_a_refused_session_is_told_with_the_cores_message_where_it_is_known() -> None:
    """Later, when nobody knows it any more, the sentence of its class is there."""
    made = job(refused=[(1, "InputError"), (3, "InputError")])
    assert {one.message for one in made.view().refused} == {sentence("InputError")}
    shown = made.view({1: InputError("the session has no turns")})
    assert [one.message for one in shown.refused] == ["the session has no turns", sentence("InputError")]


def test_idempotency_keys_are_the_callers_own_and_tell_nothing() -> None:
    """The same key of two users is two; a digest of a request needs its key, and does not hang on the order of fields."""
    callers = (
        ANA,
        ANYBODY,
        Principal(user="bob"),
        Principal(tenant="ana"),
        Principal(tenant="t", user="ana"),
    )
    assert len({jobs.key_digest(who, "k") for who in callers}) == len(callers)
    sent = [{"user_id": "ana", "session_id": "s", "turns": []}]
    turned = [dict(reversed(sent[0].items()))]
    assert jobs.request_digest("k", sent) == jobs.request_digest("k", turned)
    assert jobs.request_digest("k", sent) != jobs.request_digest("l", sent)
    assert jobs.request_digest("k", sent) != jobs.request_digest("k", [*sent, *sent])


@each("name", [*errors.__all__, "KeyError", "", "__doc__"])
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
    made = job(error="StoreWriteError", turns=3)
    made.state, made.ended_ms = "failed", to_ms(when)
    shown = made.view()
    assert (shown.made_at.year, shown.ended_at, shown.turns) == (1970, when, 3)
    assert (shown.error, shown.message) == ("StoreWriteError", sentence("StoreWriteError"))
    assert job().view().ended_at is None
    ended = {state for state in get_args(JobState) if job(state=state).view().ended}
    assert ended == ENDED == {"finished", "failed", "cancelled"}


def step(stage: Any, session: str | None, done: int, failed: int, total: int) -> IngestProgress:
    """Return what `resume` tells."""
    return IngestProgress(stage, "ana", session, done, failed, total)


def test_chunks_and_sessions_of_a_user_are_summed() -> None:
    """Of chunks the latest of each session counts; a session with a failed chunk is not memory yet."""
    progress = Progress()
    for done in range(4):
        progress.take(step("extracted", "s", done, 1, 5))
    progress.take(step("extracted", "t", 1, 0, 1))
    progress.take(step("refreshed", None, 2, 0, 2))
    assert summed(progress.chunks) == (4, 1, 6)
    progress.take(step("finished", "s", 0, 1, 1))
    progress.take(step("finished", "t", 1, 0, 1))
    assert progress.finished == 1


def test_a_job_is_left_as_long_as_a_user_is() -> None:
    """Each user ends by itself, and the first error stays; sessions of another job of the user are not counted."""
    made = job(left={"u": 3, "v": 1, "w": 1})
    assert made.note("u", 2, (1, 0, 4))
    assert not made.note("u", 0, (1, 0, 4)), "nothing is new"
    assert (made.state, made.done, made.left["u"]) == ("running", 2, 1)
    made.note("u", 9, (4, 0, 4))
    assert (made.done, made.left["u"]) == (3, 0)
    made.finish_user("v", errors.ModelRefusedError("no"))
    made.finish_user("w", errors.StoreWriteError())
    assert made.state == "running"
    made.finish_user("u", None)
    assert (made.done, made.left, made.error, made.state) == (3, {}, "ModelRefusedError", "failed")
    view = made.view()
    assert (view.chunks, view.chunks_done, view.chunks_failed) == (4, 4, 0)


def test_work_in_the_background_is_the_tenants_and_nobodys_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees all users of the tenant, and no other tenant."""
    seen: list[Principal] = []

    class Asked(Tenants):
        def ingesting(self, principal: Principal) -> Any:
            seen.append(principal)
            return super().ingesting(principal)

    async def main() -> None:
        access = Asked(folder)
        access.taking("acme").go.set()
        monkeypatch.setattr(jobs, "owner_of", lambda path, _key: path.name.split("-")[0])
        intake = jobs.Intake(access.access())
        who = Principal(tenant="acme", user="ana", key="k")
        async for _ in await intake.watch(who, (await intake.submit(who, [request("ana", "s")])).id):
            pass
        await intake.close()

    asyncio.run(main())
    assert seen == [Principal(tenant="acme", key="ingest")]
