"""Mapping the `openai` client's errors to ours: each names the setting to change, and never the key.

    try again later    408, 409, 425, 429, 5xx, time-outs, lost connections   ModelUnavailableError
    mend a setting     401, 402, 403, 404, 405, redirections, no JSON         ModelRefusedError
    mend the request   400, 413, 422 and the rest                             ModelRequestError

The client has tried again before it raises (`max_retries`): on 408, 409, 429, 5xx, time-outs and lost connections,
after 0.5 s, doubled up to 8 s, less up to a quarter at random, or after what ``Retry-After`` says; more than a minute
or two, by its version, is not waited for. See https://github.com/openai/openai-python#retries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memforest.display import printable
from memforest.errors import ModelError, ModelRefusedError, ModelRequestError, ModelUnavailableError
from memforest.models.openai_client import Target, variable
from memforest.text import cut

if TYPE_CHECKING:
    import openai

MOST_CHARS = 300
"""Of a server's own words in a message."""
AGAIN = frozenset({408, 409, 425, 429})
REFUSED = frozenset({401, 402, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class Place:
    """Which model is asked, where, and by which section of the settings; for messages."""

    target: Target
    model: str
    section: str
    timeout_s: float
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Further texts that no message may hold."""

    def __str__(self) -> str:
        kind = {"chat": "chat model", "embeddings": "embedding model"}.get(self.section, "model")
        return f"the {kind} {self.model!r} at {self.target.address}"

    def setting(self, name: str) -> str:
        """Return how a setting is called, in a file and in the environment."""
        other = ", OPENAI_API_KEY" if name == "api_key" and self.target.base_url is None else ""
        return f"{self.section}.{name} ({variable(self.section, name.upper())}{other})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, as they are and as JSON writes them; the longest first."""
        told = {printable(one) for one in (*self.target.secrets, *self.hidden)} - {""}
        forms = told | {json.dumps(one, ensure_ascii=False)[1:-1] for one in told}
        return tuple(sorted(forms, key=len, reverse=True))

    def holds_secret(self, text: str) -> bool:
        """Return whether a secret stands in a text, in capitals or small letters and however often it is quoted."""
        bare = _bare(text)
        return any(_bare(secret) in bare for secret in self.secrets)

    def clean(self, text: str) -> str:
        """Return a text in one line, cut, without what is secret and what no terminal and no file can hold."""
        # What cannot be printed goes first: it may stand inside a secret.
        text = printable(text)
        if secrets := self.secrets:
            text = re.sub("|".join(map(re.escape, secrets)), "***", text, flags=re.IGNORECASE)
        return cut(text, MOST_CHARS)


@contextmanager
def mapped(place: Place) -> Iterator[None]:
    """Raise the client's errors as errors of memforest.

    Raises:
        ModelUnavailableError, ModelRefusedError, ModelRequestError: see above. The client's error is the cause,
            unless its text holds a secret.
    """
    from openai import OpenAIError

    try:
        yield
    except OpenAIError as exc:
        hidden = place.holds_secret(f"{exc} {exc.__cause__}")
        raise _ours(exc, place) from (None if hidden else exc)


def _bare(text: str) -> str:
    return printable(text).replace("\\", "").lower()


def _ours(exc: openai.OpenAIError, place: Place) -> ModelError:
    import openai

    if isinstance(exc, openai.APIStatusError):
        spent = exc.code == "insufficient_quota"  # comes as 429, and waiting does not help
        return _of_status(402 if spent else exc.status_code, _said(exc), _retries(exc), place)
    if isinstance(exc, openai.APIConnectionError):
        retries = _retries(exc)
        if isinstance(exc, openai.APITimeoutError):
            what = f"{place} gave no whole answer within {place.timeout_s:g} s"
            fix = f"look whether it is overloaded, or raise {place.section}.timeout_s"
        else:
            what = f"{place} cannot be reached: {place.clean(str(exc.__cause__ or exc))}"
            fix = f"start it, or mend {place.setting('base_url')}"
        return ModelUnavailableError(f"{what}{_tried(retries)}; {fix}", retries=retries)
    # The rest is raised for what is not asked for here: streams, parsed replies, web sockets, other ways to log in.
    return ModelRequestError(f"{place}: {type(exc).__name__}: {place.clean(str(exc))}")


def _of_status(status: int, said: str, retries: int, place: Place) -> ModelError:
    words = place.clean(said)
    what = f"{place} says {status}{': ' + words if words else ''}"
    if status in AGAIN or status >= 500:
        return ModelUnavailableError(
            f"{what}{_tried(retries)}; try again later", status=status, retries=retries
        )
    if status in REFUSED or status < 400:
        return ModelRefusedError(f"{what}; {_fix(status, place)}", status=status)
    return ModelRequestError(what, status=status)


def _fix(status: int, place: Place) -> str:
    if status == 401:
        return f"the key is wrong or missing: mend {place.setting('api_key')}"
    if status == 402:
        return f"the account has no credit: add some, or use another {place.setting('api_key')}"
    if status == 403:
        return f"the key has no permission for this model: mend {place.setting('api_key')} or {place.setting('model')}"
    if status == 404:
        return (
            f"there is no such model or address: mend {place.setting('model')} or {place.setting('base_url')}, "
            "which mostly ends in /v1"
        )
    return f"that is no address of this kind: mend {place.setting('base_url')}, which mostly ends in /v1"


def _tried(retries: int) -> str:
    return f" ({retries} {'retry' if retries == 1 else 'retries'})" if retries else ""


def _retries(exc: openai.APIError) -> int:
    """Return how often a failed request had been sent again: the client writes it on each."""
    count = exc.request.headers.get("x-stainless-retry-count", "")
    return int(count) if count.isdigit() else 0


def _said(exc: openai.APIStatusError) -> str:
    body: Any = exc.body
    if not isinstance(body, Mapping):
        return str(body or "")
    return _words(body.get("message") or body.get("detail") or body.get("error") or "")


def _words(said: Any) -> str:
    """Return what a server says, however it is nested."""
    try:
        return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return ""  # nothing that anybody could read


def complaint(exc: openai.APIStatusError) -> str:
    """Return what a server finds wrong with a request, in lower case, with the parameter that it names."""
    return f"{_said(exc)} {exc.param if isinstance(exc.param, str) else ''}".lower()


def read_json(response: Any, place: Place) -> dict[str, Any]:
    """Read the body of a successful reply.

    Raises:
        ModelRefusedError: if it is something else than JSON: the address is that of something else.
        ModelUnavailableError: if it is broken JSON, or longer than any reply of such a model.
        ModelError: if it tells of an error after all, as some gateways do.
    """
    from memforest.models.openai_http import CUT

    if CUT in response.extensions:
        most = f"{place.target.most_bytes / 1e6:,.0f} MB"
        what = f"{place} sent a reply of more than {most}, which was not read"
        raise ModelUnavailableError(f"{what}; look what answers at {place.setting('base_url')}", status=200)
    content: bytes = response.content
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as exc:
        if not content or content.lstrip()[:1] in (b"{", b"["):
            raise ModelUnavailableError(f"{place} sent a reply that is broken: {exc}", status=200) from exc
        body = None
    if not isinstance(body, dict):
        what = f"{place} answers with something else than the JSON of an OpenAI-compatible endpoint"
        raise ModelRefusedError(f"{what}; {_fix(405, place)}", status=200)
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, Mapping) else None
        said = error.get("message") if isinstance(error, Mapping) else error
        status = code if isinstance(code, int) and 400 <= code <= 599 else 500
        raise _of_status(status, _words(said or error), 0, place)
    return body
