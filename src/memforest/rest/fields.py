"""What bodies of requests are made of: times, ids, numbers, and settings of the core as models."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    create_model,
)

from memforest.calendar.timestamp import MICROSECONDS_FROM, SECONDS_FROM
from memforest.config import MODES, Ranking
from memforest.endpoint import Budget
from memforest.limits import MAX_ID_CHARS, MAX_TIME_CHARS, MAX_TOP_K, ROLES
from memforest.memory.inspect.profiles import GRAPH
from memforest.rest.params import ID_PATTERN, checked
from memforest.rest.routing import read_json
from memforest.settings import hints_of
from memforest.systems.registry import INDEXES

T = TypeVar("T")


def _integral(value: object) -> object:
    """Return 5 for 5.0, which is a whole number in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


MOST = 2**53
"""The largest whole number that every reader of JSON keeps (RFC 8259, 6), and SQLite too."""
WholeNumber: TypeAlias = Annotated[int, Strict(), BeforeValidator(_integral)]


def _words(value: str) -> str:
    if "\0" in value or not value.strip():
        raise ValueError("it is blank, or holds a NUL character")
    return value


FIRST_SECONDS = -62_135_596_800
"""UNIX seconds of the first instant that a calendar of Python has, at the start of the year 1."""
UnixTime: TypeAlias = (
    Annotated[float, Strict(), Field(ge=SECONDS_FROM, lt=MICROSECONDS_FROM)]
    | Annotated[float, Strict(), Field(le=-SECONDS_FROM, ge=FIRST_SECONDS)]
)
"""A number that is a time: UNIX seconds, or milliseconds where it is large; before 1970 seconds below 0."""
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST), Strict(), BeforeValidator(_integral)]
TopK: TypeAlias = Annotated[int, Field(ge=1, le=MAX_TOP_K), Strict(), BeforeValidator(_integral)]
Id: TypeAlias = Annotated[
    str,
    AfterValidator(checked),
    Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"pattern": ID_PATTERN}),
]
Words: TypeAlias = Annotated[
    str, AfterValidator(_words), Field(min_length=1, json_schema_extra={"pattern": ID_PATTERN})
]
"""A text of any length, not blank and without NUL."""
Time: TypeAlias = (
    Annotated[str, Field(min_length=1, max_length=MAX_TIME_CHARS, json_schema_extra={"format": "date-time"})]
    | UnixTime
)
"""A time: ISO 8601, a written date, or UNIX seconds; without an offset in the zone of the configuration."""
Span: TypeAlias = Annotated[list[Time], Field(min_length=2, max_length=2)]
OpenSpan: TypeAlias = Annotated[list[Time | None], Field(min_length=2, max_length=2)]
Metadata: TypeAlias = dict[str, Any]
IndexOf: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"enum": list(INDEXES)})
]
IndexOrGraph: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"enum": [*INDEXES, GRAPH]})
]
Mode: TypeAlias = Literal[MODES]  # type: ignore[valid-type]  # a Literal of what the core lists
Role: TypeAlias = Literal[tuple(sorted(ROLES))]  # type: ignore[valid-type]  # likewise


Many: TypeAlias = Annotated[list[T], Field(fail_fast=True)]
"""A list that is read up to the first of its items that is wrong: one that is all wrong is as long as a body may be."""


class Body(BaseModel):
    """A body: what is not among its fields is refused."""

    model_config = ConfigDict(extra="forbid")

    def options(self) -> dict[str, Any]:
        """Return what was given, under the names of the verb's options, as the verb takes it."""
        return {
            name: given(getattr(self, name))
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def given(value: Any) -> Any:
    """Return a value of a body as the core takes it: settings as such, spans as pairs, messages as mappings."""
    if isinstance(value, _Settings):
        return value.of(**{name: given(getattr(value, name)) for name in value.model_fields_set})
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, list):
        return [given(one) for one in value]
    return value


# -- settings of the core as models ------------------------------------------------------------------


class _Settings(BaseModel):
    """Settings of the core, made out of one of their classes."""

    model_config = ConfigDict(extra="forbid")
    of: ClassVar[type]


def _strictly(hint: Any) -> Any:
    """Return a type that takes no text for a number, and settings as a model."""
    if isinstance(hint, type) and is_dataclass(hint):
        return settings_body(hint)
    origin, args = get_origin(hint), get_args(hint)
    base, bounds = (args[0], args[1:]) if origin is Annotated else (hint, ())
    if base in (int, float, bool):
        whole = (Field(le=MOST), Strict(), BeforeValidator(_integral))
        strict = whole if base is int else (Strict(),)
        return Annotated[(base, *bounds, *strict)]
    if origin is Annotated:
        return Annotated[(_strictly(base), *bounds)]
    if origin in (Union, UnionType):
        return Union[tuple(_strictly(one) for one in args)]  # noqa: UP007 - made at run time
    if origin is tuple:
        return Many[_strictly(args[0])]  # type: ignore[misc]  # made at run time
    return hint


@cache
def settings_body(kind: type) -> Any:
    """Return a model of settings: the same fields, and nothing else."""
    found: dict[str, Any] = {}
    for one in fields(kind):
        default = one.default if one.default is not MISSING else None
        found[one.name] = (_strictly(hints_of(kind)[one.name]), default)
    made = create_model(
        kind.__name__, __base__=_Settings, __doc__=(kind.__doc__ or "").split("\n")[0], **found
    )
    made.of = kind
    return made


BudgetBody: Any = settings_body(Budget)
RankingBody: Any = settings_body(Ranking)


def read_budget(text: str) -> Budget:
    """Return the budget that a parameter of a query says in JSON.

    Raises:
        InputError: if it is no JSON.
        RequestValidationError: if it is no budget.
    """
    try:
        made: Budget = given(BudgetBody.model_validate(read_json(text.encode("utf-8", "replace"), "budget")))
    except ValidationError as exc:
        wrong = [{**one, "loc": ("query", "budget", *one["loc"])} for one in exc.errors()]
        raise RequestValidationError(wrong) from None
    return made
