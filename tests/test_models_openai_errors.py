"""Every error of the `openai` client becomes one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from memforest.endpoint import ChatEndpoint
from memforest.errors import ModelError, ModelRefusedError, ModelRequestError, ModelUnavailableError
from memforest.models.openai_client import Target
from memforest.models.openai_errors import Place, mapped

PLACE = Place(Target.of(ChatEndpoint("m", base_url="http://127.0.0.1:1/v1"), "chat"), "m", "chat", 1.0)
OURS = (ModelUnavailableError, ModelRefusedError, ModelRequestError)


def classes(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    """Return a class and all below it."""
    yield kind
    for one in kind.__subclasses__():
        yield from classes(one)


class _Sent:
    """As much of a request as is read."""

    def __init__(self, tries: str) -> None:
        self.headers = {"x-stainless-retry-count": tries}


def raised(kind: type[BaseException], **fields: Any) -> ModelError:
    """Raise an error of the client as it comes, and return what becomes of it."""
    error = kind.__new__(kind)
    defaults = {"request": _Sent("3"), "status_code": 400, "body": None, "param": None, "code": None}
    for name, value in {**defaults, **fields}.items():
        setattr(error, name, value)
    with pytest.raises(ModelError) as caught, mapped(PLACE):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize("kind", list(classes(openai.OpenAIError)), ids=lambda kind: kind.__name__)
def test_no_error_of_the_client_is_left(kind: type[BaseException]) -> None:
    """Whatever class the client raises, one of our three comes out, with a message."""
    found = raised(kind)
    assert type(found) in OURS
    assert str(found)


@pytest.mark.parametrize(
    ("kind", "status", "ours"),
    [
        (openai.BadRequestError, 400, ModelRequestError),
        (openai.AuthenticationError, 401, ModelRefusedError),
        (openai.PermissionDeniedError, 403, ModelRefusedError),
        (openai.NotFoundError, 404, ModelRefusedError),
        (openai.ConflictError, 409, ModelUnavailableError),
        (openai.UnprocessableEntityError, 422, ModelRequestError),
        (openai.RateLimitError, 429, ModelUnavailableError),
        (openai.InternalServerError, 500, ModelUnavailableError),
        (openai.APIStatusError, 413, ModelRequestError),
        (openai.APIStatusError, 408, ModelUnavailableError),
        (openai.APIStatusError, 307, ModelRefusedError),
    ],
)
def test_a_status_decides(kind: type[BaseException], status: int, ours: type[ModelError]) -> None:
    """Each class of status errors becomes the error that its status means."""
    found = raised(kind, status_code=status)
    assert type(found) is ours
    assert getattr(found, "status", None) == status


@pytest.mark.parametrize("kind", [openai.APIConnectionError, openai.APITimeoutError])
def test_a_lost_connection_tells_the_tries(kind: type[BaseException]) -> None:
    """An error without a reply has no status, and says how often it was tried again."""
    found = raised(kind)
    assert isinstance(found, ModelUnavailableError)
    assert (found.status, found.retries) == (None, 3)
