"""Bodies of requests: the options of a verb under their names, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from memforest.limits import MAX_FACT_CHARS
from memforest.rest.fields import (
    Body,
    BudgetBody,
    Count,
    Id,
    IndexOf,
    IndexOrGraph,
    Many,
    Metadata,
    Mode,
    OpenSpan,
    RankingBody,
    Role,
    Span,
    Time,
    TopK,
    WholeNumber,
    Words,
)


def _shown(example: dict[str, Any]) -> ConfigDict:
    """Return what shows an example of a body in the document."""
    return ConfigDict(json_schema_extra={"examples": [example]})


# -- writing ----------------------------------------------------------------------------------------


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

    model_config = _shown({"display_name": "Ana"})

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
                            "content": "I started a new job last week.",
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

    model_config = ConfigDict(json_schema_extra={"examples": [{"content": "I adopted a cat called Miso."}]})

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

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "Ana lives in Porto."}],
            "minProperties": 1,
        }
    )

    text: str | None = Field(
        None, min_length=1, max_length=MAX_FACT_CHARS, description="what holds; the old text when not given"
    )
    valid_from: Time | None = Field(None, description="from when on it is so")
    valid_to: Time | None = Field(None, description="until when it was so, exclusive")


class MergeBody(Body):
    """Options of `merge`."""

    model_config = _shown({"from_user": "ana.old", "same_person": True, "dry_run": True})

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

    model_config = _shown({"source_user_ids": ["ana", "ben"], "target_user_id": "team", "dry_run": True})

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

    model_config = _shown({"participant": "Ana"})

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
            "minProperties": 1,
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

    model_config = _shown({"dry_run": True})

    dry_run: StrictBool = Field(False, description="only count what would go")


class SpendBody(Body):
    """What may be spent on models."""

    model_config = _shown({"budget": {"max_calls": 20}})

    budget: BudgetBody | None = None


class VerifyBody(Body):
    """Options of `verify`."""

    model_config = _shown({"deleted": ["what Ana said of her boss"]})

    deleted: Many[Words] = Field([], description="texts that must be nowhere any more")


class RebuildBody(SpendBody):
    """Options of `rebuild`."""

    model_config = _shown({"stale": True})

    scopes: StrictBool = Field(False, description="make all indexes anew as well, from the start")
    stale: StrictBool = Field(False, description="make anew just what `stale` names")
    index: IndexOf | None = Field(None, description="make only this index anew")
    embedder: StrictBool = Field(False, description="give the memory the configured embedder")
    zone: StrictBool = Field(False, description="let its days be those of the configured zone")


class AdvanceBody(SpendBody):
    """Options of `advance`."""

    model_config = _shown({"as_of": "2026-03-02T00:00:00Z"})

    as_of: Time | None = Field(None, description="the present; the clock's when not given")
    force: StrictBool = Field(False, description="have also what is not due yet")


class AddIndexBody(SpendBody):
    """Options of `add_index`."""

    model_config = _shown({"budget": {"max_calls": 20}})

    settings: dict[str, Any] | None = Field(None, description="laid over those of the configuration")
