"""Parameters and bodies of REST requests: the options of a verb under their names, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, get_args, get_origin
from urllib.parse import quote, unquote

from fastapi import Depends, Header, Path, Query
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

from memforest.config import MODES, Ranking
from memforest.endpoint import Budget
from memforest.memory.user import AsyncUserMemory
from memforest.read.profiles import GRAPH
from memforest.reading.timestamps import MICROSECONDS_FROM, SECONDS_FROM
from memforest.server.rest.routing import Forest, Who, read_json
from memforest.settings import (
    MAX_CURSOR_CHARS,
    MAX_FACT_CHARS,
    MAX_ID_CHARS,
    MAX_PAGE,
    MAX_TIME_CHARS,
    MAX_TOP_K,
    ROLES,
    hints_of,
)
from memforest.trees.attached import INDEXES
from memforest.write.turns import check_id

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
_JSON: Any = {"contentMediaType": "application/json"}
_FILTERS = "an object as JSON: metadata that a supporting turn must have, all of it"
_BUDGET = "an object as JSON: `max_calls` and `max_tokens`, what may be spent on models"
Filters = Annotated[str | None, Query(description=_FILTERS, json_schema_extra=_JSON)]
BudgetText = Annotated[str | None, Query(description=_BUDGET, json_schema_extra=_JSON)]
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
_PATTERN: Any = {"pattern": ID_PATTERN}
Id: TypeAlias = Annotated[
    str, AfterValidator(checked), Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra=_PATTERN)
]
Words: TypeAlias = Annotated[str, AfterValidator(_words), Field(min_length=1, json_schema_extra=_PATTERN)]
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


def shown_as(example: dict[str, Any], **more: Any) -> ConfigDict:
    """Return what shows an example of a body in the document, and further keywords of its schema."""
    return ConfigDict(json_schema_extra={"examples": [example], **more})


class Message(BaseModel):
    """One turn. It has a `role` or a `speaker`, and a text; further fields are kept as its metadata."""

    model_config = ConfigDict(extra="allow")

    role: Role | None = Field(None, description="of a chat protocol; a person's name belongs into `speaker`")
    speaker: Id | None = Field(None, description="who spoke")
    content: str | Many[str | dict[str, Any]] | None = Field(
        None, description="what was said: a text, or its parts as chat protocols have them"
    )
    timestamp: Time | None = Field(None, description="when; else that of the session")
    id: Id | WholeNumber | None = Field(
        None, description="unique in the session; its place there when not given"
    )


class RegisterUserBody(Body):
    """Options of `register_user`."""

    model_config = shown_as({"display_name": "Ana"})

    display_name: Id | None = Field(None, description="who an unnamed `user` turn is; the id when not given")
    load_existing: StrictBool = Field(True, description="whether there may be a memory already")


class IngestSessionBody(Body):
    """A session, and options of `ingest_session`."""

    model_config = shown_as(
        {
            "turns": [
                {
                    "role": "user",
                    "content": "I started a new job last week.",
                    "timestamp": "2024-05-01T10:00:00Z",
                },
                {"role": "assistant", "content": "How do you like it?", "timestamp": "2024-05-01T10:00:05Z"},
            ]
        }
    )

    turns: Many[Message] = Field(min_length=1)
    timestamp: Time | None = Field(None, description="the time of turns that have none of their own")
    infer: StrictBool = Field(True, description="extract statements; false stores the turns as they are")
    replace: StrictBool = Field(False, description="overwrite a stored session that differs")
    metadata: Metadata | None = Field(None, description="kept with the session")
    refresh: StrictBool | None = Field(
        None, description="make summaries now (true), later (false), or as configured"
    )
    defer: StrictBool = Field(False, description="store the turns and no more; `resume` makes memory of them")
    budget: BudgetBody | None = None


class AddBody(Body):
    """What was said just now, and options of `add`."""

    model_config = shown_as({"content": "I adopted a cat called Miso."})

    content: str | Message | Many[Message] = Field(description="a text by the user, a message, or several")
    session_id: Id | None = Field(
        None,
        description="appended to this session; one session for each day on which something was said when not given",
    )
    timestamp: Time | None = Field(
        None, description="the time of messages that have none; now when not given"
    )
    infer: StrictBool = Field(True, description="false stores the text verbatim, without extraction")
    metadata: Metadata | None = Field(None, description="kept with each of the messages")
    budget: BudgetBody | None = None


class UpdateBody(Body):
    """Options of `update`: at least one."""

    model_config = shown_as({"text": "Ana lives in Porto."}, minProperties=1)

    text: str | None = Field(
        None, min_length=1, max_length=MAX_FACT_CHARS, description="what holds; the old text when not given"
    )
    valid_from: Time | None = Field(None, description="from when on it is so")
    valid_to: Time | None = Field(None, description="until when it was so, exclusive")


class MergeBody(Body):
    """Options of `merge`."""

    model_config = shown_as({"from_user": "ana.old", "same_person": True, "dry_run": True})

    from_user: Id = Field(description="whose memory")
    dry_run: StrictBool = Field(False, description="write nothing, and return what would be done")
    same_person: StrictBool | None = Field(None, description="whether both users are one person")
    same: dict[str, str] | None = Field(
        None, description="names there -> names here, of who is called otherwise here"
    )
    apart: Many[Id] = Field([], description="names there of who has the name of somebody else here")
    refresh: StrictBool | None = None
    budget: BudgetBody | None = None


class MergeUserForestsBody(Body):
    """Options of `merge_user_forests`."""

    model_config = shown_as({"source_user_ids": ["ana", "ben"], "target_user_id": "team", "dry_run": True})

    source_user_ids: Many[Id] = Field(
        min_length=1,
        json_schema_extra={"uniqueItems": True},
        description="whose memories, merged in this order",
    )
    target_user_id: Id = Field(description="into whose")
    overwrite: StrictBool = Field(
        False, description="a session of the target with the id of another is replaced by it"
    )
    same_person: StrictBool | None = Field(None, description="whether all users are one person")
    dry_run: StrictBool = Field(False, description="write nothing, and return what would be done")
    refresh: StrictBool | None = None
    budget: BudgetBody | None = None


class MergeEntitiesBody(Body):
    """Two names that are one entity."""

    model_config = shown_as({"a": "Mel", "b": "Melanie"})

    a: Id
    b: Id


class SplitEntityBody(Body):
    """A name that is not one with the others of an entity."""

    model_config = shown_as({"entity": "Melanie", "name": "Mel"})

    entity: Id = Field(description="any name of the entity")
    name: Id = Field(description="the one that is somebody or something else")


class SearchBody(Body):
    """A question, and options of `search`."""

    model_config = shown_as({"question": "Where does Ana live?", "top_k": 5})

    question: Words = Field(description="in any language")
    reference_date: Time | None = Field(
        None, description='what "now" is in the question; the clock\'s time when not given'
    )
    as_of: Time | None = Field(None, description="keep what was so at that time")
    during: Span | None = Field(None, description="keep what overlaps [start, end)")
    said_by: Time | None = Field(None, description="what had been said by that time")
    known_at: Time | None = Field(None, description="what this memory held at that time")
    filters: Metadata | None = Field(
        None, description="only what was said in turns with all of this metadata"
    )
    top_k: TopK | None = Field(None, description="most evidence returned")
    max_tokens: Count | None = Field(None, description="for the texts of all evidence together, estimated")
    index: IndexOf | None = Field(None, description="the index to search")
    ranking: RankingBody | None = Field(None, description="weights for this question")
    mode: Mode | None = Field(None, description="how the recalled trees are browsed")
    budget: BudgetBody | None = Field(None, description="for calls of models")
    explain: StrictBool = Field(
        False, description="put the plan, the trees and the parts of scores into `trace.explain`"
    )


class AskBody(SearchBody):
    """A question, and options of `ask`."""


class ContextBody(SearchBody):
    """A question, and options of `search` and of `QueryResult.context`; `max_tokens` is that of the context."""

    max_tokens: Count = Field(2000, description="of the context, estimated")
    statements: StrictBool = Field(False, description="add the statements that local rules have made")


class ProfileBody(Body):
    """Options of `profile`."""

    model_config = shown_as({"participant": "Ana"})

    participant: Id | None = Field(None, description="whose, by name or alias")
    as_of: Time | None = Field(None, description="the profile that was in force at that time")
    said_by: Time | None = Field(None, description="the one that had been said by that time")
    index: IndexOrGraph | None = Field(None, description='the index that keeps it, or "graph"')
    written: StrictBool = Field(
        False, description="have the chat model write it, in one call; of one participant"
    )
    budget: BudgetBody | None = None


class DeleteBody(Body):
    """What to delete: exactly one of a fact, a turn, a session, an entity and a stretch of time."""

    model_config = shown_as({"entity": "Bob", "dry_run": True}, minProperties=1)

    fact_id: Id | None = None
    turn: Annotated[list[Id], Field(min_length=2, max_length=2)] | None = Field(
        None, description="session id and turn id"
    )
    session_id: Id | None = None
    entity: Id | None = Field(None, description="who spoke, or who or what was spoken of")
    during: OpenSpan | None = Field(
        None, description="[start, end), of when it was said; a start of null is the beginning"
    )
    dry_run: StrictBool = Field(False, description="only count what would go")


class DryRunBody(Body):
    """Options of `expire`."""

    model_config = shown_as({"dry_run": True})

    dry_run: StrictBool = Field(False, description="only count what would go")


class SpendBody(Body):
    """What may be spent on models."""

    model_config = shown_as({"budget": {"max_calls": 20}})

    budget: BudgetBody | None = None


class VerifyBody(Body):
    """Options of `verify`."""

    model_config = shown_as({"deleted": ["what Ana said of her boss"]})

    deleted: Many[Words] = Field([], description="texts that must be nowhere any more")


class RebuildBody(SpendBody):
    """Options of `rebuild`."""

    model_config = shown_as({"stale": True})

    scopes: StrictBool = Field(False, description="make all indexes anew as well, from the start")
    stale: StrictBool = Field(False, description="make anew just what `stale` names")
    index: IndexOf | None = Field(None, description="make only this index anew")
    embedder: StrictBool = Field(False, description="give the memory the configured embedder")
    zone: StrictBool = Field(False, description="let its days be those of the configured zone")


class AdvanceBody(SpendBody):
    """Options of `advance`."""

    model_config = shown_as({"as_of": "2026-03-02T00:00:00Z"})

    as_of: Time | None = Field(None, description="the present; the clock's when not given")
    force: StrictBool = Field(False, description="have also what is not due yet")


class AddIndexBody(SpendBody):
    """Options of `add_index`."""

    model_config = shown_as({"budget": {"max_calls": 20}})

    settings: dict[str, Any] | None = Field(None, description="laid over those of the configuration")
