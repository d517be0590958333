"""Bodies of mem0's routes, with every option of its client: those that work, those that change nothing, those that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from memforest.errors import InputError
from memforest.limits import MAX_TOP_K
from memforest.rest.compat.filters import IDS
from memforest.rest.compat.records import LABELS
from memforest.rest.compat.wire import Given, unmapped
from memforest.rest.fields import Many

TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
Share = Annotated[float, Field(ge=0, le=1)]

_INSTEAD = {
    "enable_graph": "Entities and relations are kept always: GET /v1/users/{user_id}/graph.",
    "output_graph": "GET /v1/users/{user_id}/graph, or entities and relations there.",
    "custom_categories": "Statements get topics of their own, which are shown as categories; put yours into metadata.",
    "custom_instructions": "What is extracted is set by the server's configuration.",
    "agent_custom_instructions": "What is extracted is set by the server's configuration.",
    "includes": "Leave out of the messages what is not to be kept, or delete it.",
    "excludes": "Leave out of the messages what is not to be kept, or delete it.",
    "structured_data_schema": "Put structured data into metadata.",
    "expiration_date": "Give update a time in `valid_to` over /v1, delete what is not to be kept, or set Config.retention.",
    "immutable": "What was said is never changed; a correction can be undone.",
    "only_metadata_based_search": "List with a filter instead (get_all).",
}


class Body(Given):
    """A body with options that are read and change nothing here."""

    refuses: ClassVar[tuple[str, ...]] = ()

    version: Any = None
    api_version: Any = None
    output_format: Any = None
    async_mode: Any = None
    source: Any = None
    org_id: Any = None
    org_name: Any = None
    project_id: Any = None
    project_name: Any = None

    def check(self) -> None:
        """Raise if an option is set that cannot be honoured.

        Raises:
            UnmappedError: naming the first one and what to use instead.
        """
        for name in self.refuses:
            if getattr(self, name) not in (None, False, "", [], {}):
                raise unmapped(f"The option {name}", _INSTEAD[name])


class Ids(Body):
    """A body that may name ids by themselves, beside those in ``filters``."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None


class Owner(Ids):
    """A body that says whose something is, by itself or in ``filters``."""

    filters: Mapping[str, Any] | None = None

    def owner(self) -> dict[str, str]:
        """Return the ids that are given.

        Raises:
            InputError: if ``filters`` holds anything else than ids here.
        """
        names = IDS
        if unknown := [name for name in self.filters or {} if name not in names]:
            raise InputError(
                f"filters: {unknown[0][:40]!r} is no id; what is added belongs to {', '.join(names)}"
            )
        both = {**(self.filters or {}), **{name: value for name in names if (value := getattr(self, name))}}
        if wrong := [
            name for name, value in both.items() if value is not None and not isinstance(value, str)
        ]:
            raise InputError(f"filters: {wrong[0]} takes one text here")
        return {name: value for name, value in both.items() if value}


class Add(Owner):
    """The body of ``v3/memories/add``."""

    refuses: ClassVar[tuple[str, ...]] = (
        *("enable_graph", "output_graph", "custom_categories", "custom_instructions"),
        *("agent_custom_instructions", "includes", "excludes", "structured_data_schema"),
        *("expiration_date", "immutable"),
    )

    messages: str | dict[str, Any] | Many[dict[str, Any]]
    metadata: dict[str, Any] | None = None
    infer: bool = True
    timestamp: int | float | str | None = None
    enable_graph: Any = None
    output_graph: Any = None
    custom_categories: Any = None
    custom_instructions: Any = None
    agent_custom_instructions: Any = None
    includes: Any = None
    excludes: Any = None
    structured_data_schema: Any = None
    expiration_date: Any = None
    immutable: Any = None

    def turns(self) -> list[dict[str, Any]]:
        """Return the messages as turns, each with whom it belongs to."""
        given = self.messages
        if isinstance(given, str):
            messages: list[dict[str, Any]] = [{"role": "user", "content": given}]
        else:
            messages = [given] if isinstance(given, dict) else given
        owner = self.owner()
        labels = {name: owner[name] for name in LABELS if name in owner}
        kept = {} if not self.metadata else {"metadata": self.metadata}
        return [{**one, **labels, "run_id": labels.get("run_id"), **kept} for one in messages]


class List(Ids):
    """The body of ``v3/memories/``."""

    refuses: ClassVar[tuple[str, ...]] = ("enable_graph", "output_graph")

    filters: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    categories: Many[str] | None = None
    fields: Many[str] | None = None
    start_date: str | None = None
    end_date: str | None = None
    latest_only: bool | None = None
    show_expired: bool | None = None
    enable_graph: Any = None
    output_graph: Any = None

    def condition(self) -> dict[str, Any] | None:
        """Return all conditions as one filter of mem0; None when there is none."""
        created = {"gte": self.start_date, **_until(self.end_date)}
        dated = {name: value for name, value in created.items() if value is not None}
        ids = {name: one for name in IDS if (one := getattr(self, name)) is not None}
        parts: list[Any] = [
            self.filters,
            ids,
            self.metadata and {"metadata": self.metadata},
            self.categories and {"categories": {"in": self.categories}},
            dated and {"created_at": dated},
        ]
        found = [part for part in parts if part]
        return {"AND": found} if found else None


def _until(end: str | None) -> dict[str, str | None]:
    """Return the condition of an end; a day is part of what it ends."""
    try:
        return {"lt": (date.fromisoformat(end or "") + timedelta(days=1)).isoformat()}
    except (ValueError, OverflowError):  # a time, the last day that there is, or neither
        return {"lte": end}


class Search(List):
    """The body of ``v3/memories/search``."""

    refuses: ClassVar[tuple[str, ...]] = ("enable_graph", "output_graph", "only_metadata_based_search")

    query: Annotated[str, Field(min_length=1)]
    top_k: TopK = 10
    limit: TopK | None = None
    threshold: Share | None = None
    reference_date: int | float | str | None = None
    rerank: bool | None = None
    keyword_search: bool | None = None
    filter_memories: bool | None = None
    only_metadata_based_search: Any = None


class Update(Given):
    """The body of a PUT to one memory."""

    text: str | None = None
    metadata: Any = None
    timestamp: int | float | str | None = None
    expiration_date: Any = None

    def check(self) -> None:
        """Raise if it asks for what cannot be.

        Raises:
            UnmappedError: naming it and what to use instead.
        """
        if self.metadata is not None:
            raise unmapped(
                "Changing metadata",
                "It is kept with what was said; delete that and add it again with other metadata.",
            )
        if self.expiration_date is not None:
            raise unmapped("The option expiration_date", _INSTEAD["expiration_date"])


class One(Update):
    """One memory of a batch."""

    memory_id: str


class Batch(Given):
    """The body of a batch."""

    memories: Annotated[Many[One], Field(min_length=1, max_length=1000)]
