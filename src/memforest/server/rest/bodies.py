"""Parameters and bodies of REST requests: the options of a verb under their names, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, get_args, get_origin
from urllib.parse import quote, unquote

from fastapi import Depends, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    ValidationError,
    create_model,
)

from memforest.endpoint import Budget
from memforest.memory.forest import AsyncMemForest
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import options_of
from memforest.read.profiles import GRAPH
from memforest.reading.timestamps import MICROSECONDS_FROM, SECONDS_FROM
from memforest.server.auth import Access
from memforest.server.rest.routing import Who, read_json
from memforest.settings import (
    MAX_CURSOR_CHARS,
    MAX_FACT_CHARS,
    MAX_ID_CHARS,
    MAX_PAGE,
    MAX_TIME_CHARS,
    ROLES,
    hints_of,
)
from memforest.trees.attached import INDEXES
from memforest.write.turns import check_id

ID_PATTERN = r"^[^\u0000]*[^\s\u0000\u001c-\u001f\u0085][^\u0000]*$"
"""An id has a character that is no blank, and none that is NUL; for the document, as the core checks it."""


def encoded(value: str) -> str:
    """Return an id encoded as one part of a path.

    Example:
        >>> encoded("a/b"), encoded("..")
        ('a%2Fb', '%2E%2E')
    """
    if value in (".", ".."):
        return value.replace(".", "%2E")  # else clients take it for a step within the path
    return quote(value, safe="")


def checked(value: str) -> str:
    """Return a name or id after checking that it is not blank and holds no NUL.

    Raises:
        InputError: if it is none.
    """
    return check_id(value, "it")


def _decoded(value: object) -> str:
    """Return the decoded id of a path part, checked as the core checks ids."""
    try:
        text = unquote(str(value), errors="strict")
    except UnicodeDecodeError:
        raise ValueError("percent-encode it as UTF-8") from None
    return check_id(text, "it")


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
FactId = Annotated[str, _Decode, _id("id of the fact, from `list` or evidence", "f2b6")]
EntityId = Annotated[str, _Decode, _id("any name of the entity", "Ana")]
IndexName = Annotated[str, _Decode, _id("name of the index", "flat")]
CorrectionKey = Annotated[str, _Decode, _id("key of the correction, from the response that made it", "c1")]

PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE, description="most items on the page")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR_CHARS,
        description="`next_cursor` of the previous page of this list",
    ),
]
DryRun = Annotated[bool, Query(description="only count what would be deleted")]


def _object(what: str) -> Any:
    about, kind = f"an object as JSON: {what}", {"contentMediaType": "application/json"}
    return Annotated[str | None, Query(description=about, json_schema_extra=kind)]


Filters: Any = _object("only turns with all of this metadata")
BudgetText: Any = _object("`max_calls` and `max_tokens` for models")
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="a name of this write: a second call with it writes nothing, and returns the first result",
        min_length=1,
        max_length=MAX_ID_CHARS,
    ),
]


async def memory_of(request: Request, user_id: UserId, who: Who) -> AsyncIterator[AsyncUserMemory]:
    """Yield the memory of the user that the path names, as far as the caller may see it, while the request lasts."""
    access: Access = request.app.state.access
    async with access.forest(who) as forest:
        yield forest.user(who.user_id(user_id))


Memory = Annotated[AsyncUserMemory, Depends(memory_of)]
"""The memory of the user that the path names."""


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
Metadata: TypeAlias = dict[str, Any]
IndexOf: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"enum": list(INDEXES)})
]
Role: TypeAlias = Literal[tuple(sorted(ROLES))]  # type: ignore[valid-type]  # likewise


Many: TypeAlias = Annotated[list[T], Field(fail_fast=True)]
"""A list that is read up to the first of its items that is wrong: one that is all wrong is as long as a body may be."""


class Body(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")

    def options(self) -> dict[str, Any]:
        """Return the given fields as options of the verb."""
        return {
            name: given(getattr(self, name))
            for name in type(self).model_fields
            if name in self.model_fields_set
        }


def given_options(body: Body | None) -> dict[str, Any]:
    """Return the given fields of a body that may be left out."""
    return {} if body is None else body.options()


def given(value: Any) -> Any:
    """Return a value of a body as the core takes it: settings as objects, messages as mappings."""
    if isinstance(value, _Settings):
        return value.of(**{name: given(getattr(value, name)) for name in value.model_fields_set})
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, list):
        return [given(one) for one in value]
    return value


class _Settings(BaseModel):
    """The base of models of the core's settings classes."""

    model_config = ConfigDict(extra="forbid")
    of: ClassVar[type]


def whole(bounds: Sequence[Any]) -> Sequence[Any]:
    """Return the bounds of a whole number, with an upper one in any case."""
    return (
        bounds if any(getattr(one, "le", None) is not None for one in bounds) else (*bounds, Field(le=MOST))
    )


def _json_type(hint: Any) -> Any:
    """Return the JSON type of an option or setting: lists for pairs and sequences, texts or numbers for times, objects for settings.

    None accepts a text for a number.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if datetime in args:
            return Time | None if type(None) in args else Time
        return Union[tuple(_json_type(one) for one in args)]  # noqa: UP007 - made at run time
    base, bounds = (args[0], args[1:]) if origin is Annotated else (hint, ())
    if isinstance(base, type) and is_dataclass(base):
        return settings_body(base)
    if base in (bool, float):
        return Annotated[(base, *bounds, Strict())]
    if base is int:
        return Annotated[(int, *whole(bounds), Strict(), BeforeValidator(_integral))]
    if base is str:
        return Id
    if origin is tuple and args[1] is not Ellipsis:
        return Annotated[list[Union[tuple(map(_json_type, args))]], Field(min_length=2, max_length=2)]  # type: ignore[misc]  # noqa: UP007
    if origin is Mapping:
        return dict[args]  # type: ignore[misc, valid-type]  # made at run time
    if origin in (Sequence, tuple):
        return Many[_json_type(args[0])]  # type: ignore[misc]  # made at run time
    return hint


@cache
def settings_body(kind: type) -> Any:
    """Return the model of a settings class, with the same fields but for experimental ones, and no others."""
    found: dict[str, Any] = {}
    for one in fields(kind):
        if "experimental" in one.metadata:
            continue
        default = one.default if one.default is not MISSING else None
        found[one.name] = (_json_type(hints_of(kind)[one.name]), default)
    made = create_model(
        kind.__name__, __base__=_Settings, __doc__=(kind.__doc__ or "").split("\n")[0], **found
    )
    made.of = kind
    return made


BudgetBody: Any = settings_body(Budget)


def read_budget(text: str) -> Budget:
    """Return the budget in a query parameter, which is JSON.

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


def shown_as(example: dict[str, Any], **more: Any) -> ConfigDict:
    """Return the config of a body with an example in the document, and further keywords of its schema."""
    return ConfigDict(json_schema_extra={"examples": [example], **more})


class Message(BaseModel):
    """One turn. It has a `role` or a `speaker`, and a text. Other fields are stored as its metadata."""

    model_config = ConfigDict(extra="allow")

    role: Role | None = Field(None, description="role in a chat protocol; put a person's name into `speaker`")
    speaker: Id | None = Field(None, description="who spoke")
    content: str | Many[str | dict[str, Any]] | None = Field(
        None, description="a text, or content parts as in chat protocols"
    )
    timestamp: Time | None = Field(None, description="default: the time of the session")
    id: Id | WholeNumber | None = Field(None, description="unique in the session. Default: its place there")


INDEX = (IndexOf | None, Field(None, description="name of an index"))
INSTEAD: Mapping[str, Any] = {
    "question": (Words, Field(description="in any language")),
    "index": INDEX,
    "turns": (Many[Message], Field(min_length=1, description="the turns of the session, in order")),
    "content": (
        str | Message | Many[Message],
        Field(description="a text by the user, a message, or several"),
    ),
    "text": (
        Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)] | None,
        Field(None, description="the right statement. Default: the old text"),
    ),
    "statement": (Words, Field(description='what is true, best with names instead of "I"')),
    "deleted": (Many[Words], Field([], description="texts that must be gone")),
    "settings": (dict[str, Any] | None, Field(None, description="override those of the configuration")),
    "source_user_ids": (
        Many[Id],
        Field(
            min_length=1,
            json_schema_extra={"uniqueItems": True},
            description="the users to merge, in this order",
        ),
    ),
}
"""Type and field of the options that JSON has otherwise than Python."""


_MOVED = {"role": "user", "content": "I started a new job last week.", "timestamp": "2024-05-01T10:00:00Z"}
_ASKS = {"role": "assistant", "content": "How do you like it?", "timestamp": "2024-05-01T10:00:05Z"}
_ASKED = {"question": "Where does Ana live?", "top_k": 5}
_SPENT = {"budget": {"max_calls": 20}}
EXAMPLES: Mapping[str, dict[str, Any]] = {
    "register_user": {"display_name": "Ana"},
    "ingest_session": {"turns": [_MOVED, _ASKS]},
    "add": {"content": "I adopted a cat called Miso."},
    "remember": {"statement": "Ana's gym is Corehouse.", "attribute": "gym", "value": "Corehouse"},
    "search": _ASKED,
    "ask": _ASKED,
    "profile": {"participant": "Ana"},
    "update": {"text": "Ana lives in Porto."},
    "delete": {"entity": "Bob", "dry_run": True},
    "merge_entities": {"a": "Mel", "b": "Melanie"},
    "split_entity": {"entity": "Melanie", "name": "Mel"},
    "merge": {"from_user": "ana.old", "same_person": True, "dry_run": True},
    "merge_user_forests": {"source_user_ids": ["ana", "ben"], "target_user_id": "team", "dry_run": True},
    "verify": {"deleted": ["what Ana said of her boss"]},
    "rebuild": {"stale": True},
    "expire": {"dry_run": True},
    "flush": _SPENT,
    "resume": _SPENT,
    "advance": {"as_of": "2026-03-02T00:00:00Z"},
    "add_index": _SPENT,
}
"""Verb -> an example of its body, for the document."""


def body_of(verb: Callable[..., Any], leave: Sequence[str] = (), *, name: str = "", **own: Any) -> type[Body]:
    """Return the model of a request's body: the options of a verb in their JSON types.

    Args:
        verb: of a user's memory or of a forest.
        leave: options that the path has, or that JSON cannot say.
        name: of a model that is no whole body.
        **own: type and field of an option that is another one here.
    """
    found: dict[str, Any] = {}
    for option, declared in options_of(verb).model_fields.items():
        if option in (*leave, "idempotency_key", "on_progress", "progress"):
            continue
        hint = (
            Annotated[(declared.annotation, *declared.metadata)] if declared.metadata else declared.annotation
        )
        default = ... if declared.is_required() else [] if declared.default == () else declared.default
        typed = (_json_type(hint), Field(default, description=declared.description))
        found[option] = INSTEAD.get(option, typed)
    verb_name = inspect.unwrap(verb).__name__
    made = create_model(
        name or f"{verb_name.title().replace('_', '')}Body",
        __base__=Body,
        __doc__=f"Options of `{verb_name}`.",
        **{**found, **own},
    )
    if not name:
        made.model_config.update(shown_as(EXAMPLES[verb_name]))
    made.model_rebuild(force=True)
    return made


RegisterUserBody: Any = body_of(AsyncMemForest.register_user, ("user_id",))
IngestSessionBody: Any = body_of(AsyncMemForest.ingest_session, ("user_id", "session_id"))
_MESSAGE = (Id | None, Field(None, description="id of the message that says it. Default: the last one"))
Statement: Any = body_of(AsyncUserMemory.remember, name="Statement", source=_MESSAGE)
AddBody: Any = body_of(
    AsyncUserMemory.add,
    statements=(Many[Statement], Field([], description="what you understood of these messages")),
)
MergeBody: Any = body_of(AsyncUserMemory.merge, ("directory",))
MergeUserForestsBody: Any = body_of(AsyncMemForest.merge_user_forests)
SearchBody: Any = body_of(AsyncUserMemory.search)


class ContextBody(SearchBody):  # type: ignore[misc]  # made at run time
    """Options of `search` and of `QueryResult.context`; `max_tokens` is that of the context."""

    max_tokens: Count = Field(2000, description="most tokens of the context, estimated")
    statements: StrictBool = Field(False, description="add the statements that local rules made")


ProfileBody: Any = body_of(
    AsyncUserMemory.profile,
    index=(
        Annotated[IndexOf, Field(json_schema_extra={"enum": [*INDEXES, GRAPH]})] | None,
        Field(None, description='the index that keeps profiles, or "graph"'),
    ),
)
ResumeBody: Any = body_of(AsyncMemForest.resume, ("user_id",))
AddIndexBody: Any = body_of(AsyncUserMemory.add_index, ("name",))
