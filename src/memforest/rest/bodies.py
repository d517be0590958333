"""Bodies of requests: the options of a verb under their names, and nothing else."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    create_model,
)

from memforest.config import MODES, Ranking
from memforest.endpoint import Budget
from memforest.limits import MAX_FACT_CHARS, MAX_ID_CHARS, MAX_TOP_K, ROLES
from memforest.memory.inspect.profiles import GRAPH
from memforest.rest.params import ID_PATTERN, TIME_CHARS, checked
from memforest.settings import hints_of
from memforest.systems.registry import known

__all__ = [
    "AddBody",
    "AddIndexBody",
    "AdvanceBody",
    "AskBody",
    "Body",
    "ContextBody",
    "DeleteBody",
    "DryRunBody",
    "IngestSessionBody",
    "MergeBody",
    "MergeEntitiesBody",
    "MergeUserForestsBody",
    "Message",
    "ProfileBody",
    "RebuildBody",
    "RegisterUserBody",
    "SearchBody",
    "SpendBody",
    "SplitEntityBody",
    "UpdateBody",
    "VerifyBody",
]

FIRST_UNIX, AFTER_UNIX = 1e8, 1e14
"""Numbers that are times: UNIX seconds, from 1e11 on milliseconds."""


def _integral(value: object) -> object:
    """Return 5 for 5.0, which is a whole number in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber: TypeAlias = Annotated[int, Strict(), BeforeValidator(_integral)]
Count: TypeAlias = Annotated[WholeNumber, Field(ge=1)]
Id: TypeAlias = Annotated[
    str,
    AfterValidator(checked),
    Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"pattern": ID_PATTERN}),
]
Time: TypeAlias = (
    Annotated[str, Field(min_length=1, max_length=TIME_CHARS, json_schema_extra={"format": "date-time"})]
    | Annotated[int, Strict(), Field(ge=FIRST_UNIX, lt=AFTER_UNIX)]
    | Annotated[float, Strict(), Field(ge=FIRST_UNIX, lt=AFTER_UNIX)]
)
"""A time: ISO 8601, a written date, or UNIX seconds; without an offset in the zone of the configuration."""
Span: TypeAlias = Annotated[list[Time], Field(min_length=2, max_length=2)]
OpenSpan: TypeAlias = Annotated[list[Time | None], Field(min_length=2, max_length=2)]
Metadata: TypeAlias = dict[str, Any]
IndexOf: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"enum": sorted(known())})
]
IndexOrGraph: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, json_schema_extra={"enum": [*sorted(known()), GRAPH]})
]
Mode: TypeAlias = Literal[MODES]  # type: ignore[valid-type]  # a Literal of what the core lists
Role: TypeAlias = Literal[tuple(sorted(ROLES))]  # type: ignore[valid-type]  # likewise


def _given(*names: str) -> list[Any]:
    """Return a schema for each field, of bodies that give it."""
    return [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]


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
        strict = (Strict(), BeforeValidator(_integral)) if base is int else (Strict(),)
        return Annotated[(base, *bounds, *strict)]
    if origin is Annotated:
        return Annotated[(_strictly(base), *bounds)]
    if origin in (Union, UnionType):
        return Union[tuple(_strictly(one) for one in args)]  # noqa: UP007 - made at run time
    if origin is tuple:
        return list[_strictly(args[0])]  # type: ignore[misc]  # made at run time
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


# -- writing ----------------------------------------------------------------------------------------


class Message(BaseModel):
    """One turn. It has a `role` or a `speaker`, and a text; further fields are kept as its metadata."""

    model_config = ConfigDict(extra="allow")

    role: Role | None = Field(None, description="of a chat protocol; a person's name belongs into `speaker`")
    speaker: Id | None = Field(None, description="who spoke")
    content: str | list[str | dict[str, Any]] | None = Field(
        None, description="what was said: a text, or its parts as chat protocols have them"
    )
    text: str | None = Field(None, description="another name for `content`")
    timestamp: Time | None = Field(None, description="when; else that of the session")
    id: Id | WholeNumber | None = Field(
        None, description="unique in the session; its place there when not given"
    )


class RegisterUserBody(Body):
    """Options of `register_user`."""

    display_name: Id | None = Field(None, description="who an unnamed `user` turn is; the id when not given")
    load_existing: StrictBool = Field(True, description="whether there may be a memory already")


class IngestSessionBody(Body):
    """A session, and options of `ingest_session`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "turns": [
                        {
                            "role": "user",
                            "content": "I moved to Lisbon last week.",
                            "timestamp": "2024-05-01T10:00:00Z",
                        },
                        {
                            "role": "assistant",
                            "content": "How do you like it?",
                            "timestamp": "2024-05-01T10:00:05Z",
                        },
                    ]
                }
            ]
        }
    )

    turns: list[Message] = Field(min_length=1)
    timestamp: Time | None = Field(None, description="the time of turns that have none of their own")
    infer: StrictBool = Field(True, description="extract statements; false stores the turns as they are")
    replace: StrictBool = Field(False, description="overwrite a stored session that differs")
    metadata: Metadata | None = Field(None, description="kept with the session")
    refresh: StrictBool | None = Field(
        None, description="make summaries now (true), later (false), or as configured"
    )
    budget: BudgetBody | None = None


class AddBody(Body):
    """What was said just now, and options of `add`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"content": "I adopted a cat called Miso."}]})

    content: str | Message | list[Message] = Field(description="a text by the user, a message, or several")
    session_id: Id | None = Field(
        None, description="appended to this session; one session a day when not given"
    )
    timestamp: Time | None = Field(
        None, description="the time of messages that have none; now when not given"
    )
    infer: StrictBool = Field(True, description="false stores the text verbatim, without extraction")
    metadata: Metadata | None = Field(None, description="kept with a new session")
    budget: BudgetBody | None = None


class UpdateBody(Body):
    """Options of `update`: at least one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "Ana lives in Porto."}],
            "anyOf": _given("text", "valid_from", "valid_to"),
        }
    )

    text: str | None = Field(
        None, min_length=1, max_length=MAX_FACT_CHARS, description="what holds; the old text when not given"
    )
    valid_from: Time | None = Field(None, description="from when on it is so")
    valid_to: Time | None = Field(None, description="until when it was so, exclusive")


class MergeBody(Body):
    """Options of `merge`."""

    from_user: Id = Field(description="whose memory")
    dry_run: StrictBool = Field(False, description="write nothing, and return what would be done")
    same_person: StrictBool | None = Field(None, description="whether both users are one person")
    same: dict[str, str] | None = Field(
        None, description="names there -> names here, of who is called otherwise here"
    )
    apart: list[Id] = Field([], description="names there of who has the name of somebody else here")
    refresh: StrictBool | None = None
    budget: BudgetBody | None = None


class MergeUserForestsBody(Body):
    """Options of `merge_user_forests`."""

    source_user_ids: list[Id] = Field(
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

    model_config = ConfigDict(json_schema_extra={"examples": [{"a": "Mel", "b": "Melanie"}]})

    a: Id
    b: Id


class SplitEntityBody(Body):
    """A name that is not one with the others of an entity."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"entity": "Melanie", "name": "Mel"}]})

    entity: Id = Field(description="any name of the entity")
    name: Id = Field(description="the one that is somebody or something else")


# -- asking -----------------------------------------------------------------------------------------

QUESTION: dict[str, Any] = {"examples": [{"question": "Where does Ana live?", "top_k": 5}]}


class SearchBody(Body):
    """A question, and options of `search`."""

    model_config = ConfigDict(json_schema_extra=QUESTION)

    question: str = Field(
        min_length=1, description="in any language", json_schema_extra={"pattern": ID_PATTERN}
    )
    query_time: Time | None = Field(None, description="another name for `reference_date`")
    reference_date: Time | None = Field(
        None, description='what "now" is in the question; the clock\'s time when not given'
    )
    as_of: Time | None = Field(None, description="keep what was so at that time")
    during: Span | None = Field(None, description="keep what overlaps [start, end)")
    said_by: Time | None = Field(None, description="what had been said by that time")
    known_at: Time | None = Field(None, description="what this memory held at that time")
    top_k: Annotated[WholeNumber, Field(ge=1, le=MAX_TOP_K)] | None = Field(
        None, description="most evidence returned"
    )
    max_facts: Annotated[WholeNumber, Field(ge=0, le=MAX_TOP_K)] | None = Field(
        None, description="most of `top_facts`"
    )
    max_tokens: Count | None = Field(None, description="for the texts of all evidence together, estimated")
    index: IndexOf | Annotated[list[IndexOf], Field(min_length=1)] | None = Field(
        None, description="which indexes to search; several are fused"
    )
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

    participant: Id | None = Field(None, description="whose, by name or alias")
    as_of: Time | None = Field(None, description="the profile that was in force at that time")
    said_by: Time | None = Field(None, description="the one that had been said by that time")
    index: IndexOrGraph | None = Field(None, description='the index that keeps it, or "graph"')
    written: StrictBool = Field(
        False, description="have the chat model write it, in one call; of one participant"
    )
    budget: BudgetBody | None = None


# -- keeping ----------------------------------------------------------------------------------------


class DeleteBody(Body):
    """What to delete: exactly one of a fact, a turn, a session, an entity and a stretch of time."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"entity": "Bob", "dry_run": True}],
            "oneOf": _given("fact_id", "turn", "session_id", "entity", "during"),
        }
    )

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

    dry_run: StrictBool = Field(False, description="only count what would go")


class SpendBody(Body):
    """What may be spent on models."""

    budget: BudgetBody | None = None


class VerifyBody(Body):
    """Options of `verify`."""

    deleted: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="texts that must be nowhere any more"
    )


class RebuildBody(SpendBody):
    """Options of `rebuild`."""

    scopes: StrictBool = Field(False, description="make all indexes anew as well, from the start")
    stale: StrictBool = Field(False, description="make anew just what `stale` names")
    index: IndexOf | None = Field(None, description="make only this index anew")
    embedder: StrictBool = Field(False, description="give the memory the configured embedder")
    zone: StrictBool = Field(False, description="let its days be those of the configured zone")


class AdvanceBody(SpendBody):
    """Options of `advance`."""

    as_of: Time | None = Field(None, description="the present; the clock's when not given")
    force: StrictBool = Field(False, description="have also what is not due yet")


class AddIndexBody(SpendBody):
    """Options of `add_index`."""

    settings: dict[str, Any] | None = Field(None, description="laid over those of the configuration")
