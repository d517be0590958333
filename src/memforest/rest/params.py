"""Parameters of paths, queries and headers, of the kinds that many routes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import Depends, Header, Path, Query
from pydantic import AfterValidator, BeforeValidator

from memforest.forest.handle import AsyncUserMemory
from memforest.limits import MAX_CURSOR_CHARS, MAX_ID_CHARS, MAX_PAGE, MAX_TIME_CHARS
from memforest.memory.ingest.turns import check_id
from memforest.rest.deps import Forest, Who
from memforest.systems.registry import INDEXES

ID_PATTERN = r"^[^\u0000]*[^\s\u0000\u001c-\u001f\u0085][^\u0000]*$"
"""An id has a character that is no blank, and none that is NUL; for the document, as the core checks it."""


def encoded(value: str) -> str:
    """Return an id as one part of a path.

    Example:
        >>> encoded("a/b"), encoded("..")
        ('a%2Fb', '%2E%2E')
    """
    if value in (".", ".."):
        return value.replace(".", "%2E")  # else clients take it for a step within the path
    return quote(value, safe="")


def pair(values: Sequence[str] | None) -> tuple[str, str] | None:
    """Return the two values of a parameter that comes twice."""
    return None if values is None else (values[0], values[1])


def checked(value: str) -> str:
    """Return a name or id that is no blank and holds no NUL.

    Raises:
        InputError: if it is none.
    """
    return check_id(value, "it")


def _decoded(value: object) -> str:
    """Return an id out of a path, which came percent-encoded; it is checked as the core checks ids."""
    try:
        text = unquote(str(value), errors="strict")
    except UnicodeDecodeError:
        raise ValueError("percent-encode it as UTF-8") from None
    return checked(text)


def _id(what: str, example: str) -> Any:
    return Path(
        description=f"{what}, percent-encoded: a slash in it is `%2F`. Any text; it never becomes a path.",
        min_length=1,
        max_length=MAX_ID_CHARS,
        json_schema_extra={"pattern": ID_PATTERN},
        openapi_examples={"example": {"value": example}},
    )


_Decode = BeforeValidator(_decoded)

UserId = Annotated[str, _Decode, _id("id of the user", "ana")]
SessionId = Annotated[str, _Decode, _id("id of the session", "2024-05-01")]
TurnId = Annotated[str, _Decode, _id("id of the turn", "0")]
FactId = Annotated[str, _Decode, _id("id of the fact, as `list` and evidence name it", "f2b6")]
EntityId = Annotated[str, _Decode, _id("name of the entity, any of those that it was seen by", "Ana")]
IndexName = Annotated[str, _Decode, _id("name of the index", "flat")]
CorrectionKey = Annotated[str, _Decode, _id("key of the correction, as the verb returned it", "c1")]

TimeText = Annotated[
    str,
    Query(
        description="ISO 8601, a written date, or UNIX seconds; without an offset in the zone of the configuration",
        min_length=1,
        max_length=MAX_TIME_CHARS,
        json_schema_extra={"format": "date-time"},
    ),
]

NameText = Annotated[
    str,
    AfterValidator(checked),
    Query(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="a name or id",
        json_schema_extra={"pattern": ID_PATTERN},
    ),
]
PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE, description="most items on the page")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR_CHARS,
        description="`next_cursor` of the page before; opaque, of this list alone",
    ),
]
DryRun = Annotated[bool, Query(description="only count what would go")]
Filters = Annotated[
    str | None,
    Query(
        description="an object as JSON: metadata that a supporting turn must have, all of it",
        json_schema_extra={"contentMediaType": "application/json"},
    ),
]
BudgetText = Annotated[
    str | None,
    Query(
        description="an object as JSON: `max_calls` and `max_tokens`, what may be spent on models",
        json_schema_extra={"contentMediaType": "application/json"},
    ),
]
IndexText = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="name of an index",
        json_schema_extra={"enum": list(INDEXES)},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="a name of this write: with the same one again nothing is written, and the first result comes back",
        min_length=1,
        max_length=MAX_ID_CHARS,
    ),
]


async def memory_of(user_id: UserId, who: Who, forest: Forest) -> AsyncUserMemory:
    """Return the memory of the user that the path names, as far as the caller may see it."""
    return forest.user(who.user_id(user_id))


Memory = Annotated[AsyncUserMemory, Depends(memory_of)]
"""The memory of the user that the path names."""
