"""The quick start of docs/serving.md by the client that `make serve-check` generates; run in the environment with its packages."""

from __future__ import annotations

import sys
from typing import Any

from memforest_client import AuthenticatedClient
from memforest_client.api.asking import ask, context, search
from memforest_client.api.facts import history, list_, update
from memforest_client.api.messages import add
from memforest_client.api.sessions import ingest_session, turns
from memforest_client.api.timeline import timeline
from memforest_client.api.users import delete_user, has_user, list_users
from memforest_client.models import AddBody, ContextBody, IngestSessionBody, SearchBody, UpdateBody
from memforest_client.models.ask_body import AskBody

USER = "quick start/№ 1"
"""An id as people have them: with blanks, a slash, and more than ASCII."""
TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": "I live in Davis.", "timestamp": "2024-05-01T10:00:00Z"},
    {"role": "assistant", "content": "Nice.", "timestamp": "2024-05-01T10:00:05Z"},
]
LATER = {"role": "user", "content": "I moved to Miami.", "timestamp": "2024-05-20T09:00:00Z"}


def check(so: object, what: str) -> None:
    """End the run unless something is so."""
    if not so:
        raise SystemExit(f"quick start: {what}")
    print(f"quick start: {what}: ok")


def write(client: AuthenticatedClient) -> None:
    """Tell two sessions and a message."""

    def put(session: str, said: list[dict[str, Any]]) -> int:
        body = IngestSessionBody.from_dict({"turns": said})
        return int(ingest_session.sync_detailed(USER, session, client=client, body=body).status_code)

    check(put("monday", TURNS) == 201, "a session is stored")
    check(put("monday", TURNS) == 200, "the same session changes nothing")
    check(put("monday", [{**TURNS[0], "content": "No."}]) == 409, "another one is a conflict")
    check(put("later", [LATER]) == 201, "a later session is stored")
    check(turns.sync(USER, "monday", client=client).total == 2, "its turns are told")
    said = AddBody.from_dict({"content": "My cat is called Miso."})
    first, again = (add.sync(USER, client=client, body=said, idempotency_key="one") for _ in range(2))
    check((first.replayed, again.replayed) == (False, True), "a message that is sent again is stored once")


def read(client: AuthenticatedClient) -> None:
    """Ask in each way."""
    question = {"question": "Where do I live?"}
    found = search.sync(USER, client=client, body=SearchBody.from_dict({**question, "top_k": 5}))
    check(any("Miami" in one.text for one in found.evidence), "a question finds what was said")
    early = SearchBody.from_dict({**question, "said_by": "2024-05-10T00:00:00Z"})
    check(
        not any("Miami" in one.text for one in search.sync(USER, client=client, body=early).evidence),
        "what was said later is not there",
    )
    check(
        ask.sync(USER, client=client, body=AskBody.from_dict(question)).citations,
        "an answer has its evidence",
    )
    check(
        "Davis" in context.sync(USER, client=client, body=ContextBody.from_dict(question)).context,
        "context holds quotations",
    )
    check(timeline.sync(USER, USER, client=client), "a timeline is told")


def correct(client: AuthenticatedClient) -> None:
    """Correct a fact and look at its history."""
    [fact] = [one for one in list_.sync(USER, client=client).facts if "Miso" in one.text]
    body = UpdateBody.from_dict({"text": "The cat is called Mochi."})
    check(update.sync(USER, fact.fact_id, client=client, body=body).kind == "update", "a fact is corrected")
    kinds = [str(one.kind) for one in history.sync(USER, fact.fact_id, client=client)]
    check(kinds[-1].endswith("corrected"), "its history tells so")


def main() -> None:
    """Run it."""
    url, key = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token=key)
    write(client)
    read(client)
    correct(client)
    check(USER in str(list_users.sync(client=client)), "the user is listed")
    check(delete_user.sync(USER, client=client).gone, "the user is deleted")
    check(has_user.sync_detailed(USER, client=client).status_code == 404, "and is not there any more")


if __name__ == "__main__":
    main()
