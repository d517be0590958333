"""Reading the sessions of a request: whose they are, what they are called in a job, and what is wrong with some."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from memforest.access import Principal
from memforest.errors import MemForestError
from memforest.intake.live import digest_of, hash_of
from memforest.intake.stored import SessionRow
from memforest.intake.told import told
from memforest.intake.views import JobView
from memforest.memory.ingest.turns import check_id
from memforest.memory.plain import plain

_KEY_BYTES = 16


def sessions_of(
    who: Principal, requests: Sequence[Mapping[str, Any]]
) -> tuple[list[SessionRow], dict[int, MemForestError]]:
    """Return the sessions of a request by what they are called in a job, and what is wrong with some, by place."""
    sessions: list[SessionRow] = []
    problems: dict[int, MemForestError] = {}
    for place, request in enumerate(requests):
        try:
            user_id = who.user_id(check_id(request.get("user_id"), "user_id"))
            session_id = check_id(request.get("session_id"), "session_id")
            sessions.append(SessionRow(place, hash_of(user_id), digest_of(user_id, session_id)))
        except MemForestError as exc:
            problems[place] = exc
            sessions.append(SessionRow(place, None, None, "refused", type(exc).__name__))
    return sessions, problems


def with_messages(view: JobView, problems: Mapping[int, MemForestError]) -> JobView:
    """Return a job with what the core says of its refused sessions, which is kept nowhere."""
    return replace(
        view,
        refused=tuple(
            replace(one, message=told(problems[one.place])) if one.place in problems else one
            for one in view.refused
        ),
    )


def key_digest(who: Principal, key: str) -> str:
    """Return a digest of an idempotency key, which is the caller's own."""
    return blake2b(f"{who.user}\0{key}".encode(), digest_size=_KEY_BYTES, person=b"ingest").hexdigest()


def request_digest(key: str, requests: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of a request that says nothing without its key."""
    text = json.dumps(plain(list(requests)), sort_keys=True)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_KEY_BYTES, key=key.encode()).hexdigest()
