"""Arguments that several tools have. A text that is left out is empty: no verb takes an empty one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from memforest.limits import MAX_ID_CHARS, STORED_ROLES

MOST_ITEMS = 200
"""Pieces of evidence, or items of a page: what one result may hold for a model to read."""
Id = Annotated[str, Field(max_length=MAX_ID_CHARS)]
User = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
AsOf = Annotated[str, Field(description="ISO 8601; what was so then")]
During = Annotated[
    Optional[list[str]],  # noqa: UP045  # a union written with | is none to what reads annotations on Python 3.10
    Field(min_length=2, max_length=2, description="[start, end), ISO 8601"),
]
Filters = Annotated[Optional[dict[str, Any]], Field(description="metadata")]  # noqa: UP045  # as above
Cursor = Annotated[str, Field(description="next_cursor of the last page")]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS)]
Tokens = Annotated[Optional[int], Field(ge=1)]  # noqa: UP045  # as above
TopK = Annotated[int, Field(ge=1, le=MOST_ITEMS)]


class Message(BaseModel):
    """A message of a conversation, as the core takes it; what else it has, calls of tools too, goes to the core as it is."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"required": ["content"]})

    role: str = Field("user", json_schema_extra={"enum": list(STORED_ROLES)})
    # Told to models as a text: hosts fail over schemas with alternatives. What comes from programs may have parts.
    content: Annotated[Union[str, list[Any]], WithJsonSchema({"type": "string"})] = ""  # noqa: UP007  # as above
    speaker: str = ""
    timestamp: str = ""
    id: Id = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """Take null as left out."""
        return (
            {key: one for key, one in value.items() if one is not None}
            if isinstance(value, Mapping)
            else value
        )

    def plain(self) -> dict[str, Any]:
        """Return the fields that were given, as a mapping."""
        return {"role": self.role, **{key: value for key, value in self.model_dump().items() if value}}


def given(text: str) -> str | None:
    """Return a text, None for one that was left out."""
    return text or None


def window(during: list[str] | None) -> tuple[str, str] | None:
    """Return a stretch of time as the core takes it."""
    return None if during is None else (during[0], during[1])
