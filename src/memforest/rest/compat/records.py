"""Memories as other memories' clients see them: one record for a fact or a turn, with the fields that they filter by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import exp
from typing import Any

from memforest.errors import InputError, NotFoundError
from memforest.forest.forest import AsyncMemForest
from memforest.limits import MAX_PAGE, MAX_TOP_K
from memforest.memory.inspect.stored import TurnView
from memforest.memory.results import Evidence, FactView
from memforest.rest.compat.filters import Filter, fields_in, matches
from memforest.rest.compat.tokens import no_such_memory, seal

LABELS = ("agent_id", "app_id", "run_id")
"""Who and what a turn belongs to besides its user; kept with the turn's metadata."""

MOST_SCANNED = 20_000
"""Facts that one request looks through for a filter; more have to be narrowed down by the caller."""

DEEP = MAX_TOP_K
"""Evidence that is looked through for a filter when what was found first does not suffice."""

CORRECTED, FORGOTTEN = "corrected", "forgotten"


@dataclass(frozen=True, slots=True)
class Record:
    """A memory: what is known of it to filter by and to show.

    `text` is the statement of a fact, or what was said. `created` is when it was said, `updated` when it was stored or
    corrected last. `run_id` is that of `add`, or the session.
    """

    id: str
    user_id: str
    text: str
    said: str
    speaker: str
    created: datetime
    updated: datetime
    session_id: str
    labels: Mapping[str, str | None]
    metadata: Mapping[str, Any]
    categories: tuple[str, ...] = ()
    score: float | None = None
    superseded: bool = False
    kind: str = "fact"

    def fields(self) -> dict[str, Any]:
        """Return what filters ask of."""
        return {
            "user_id": self.user_id,
            **self.labels,
            "created_at": self.created,
            "updated_at": self.updated,
            "timestamp": self.created,
            "categories": self.categories,
            "metadata": self.metadata,
            "keywords": self.text,
            "memory_ids": self.id,
            "attributes": self.attributes(),
        }

    def attributes(self) -> dict[str, Any]:
        """Return what OpenAI calls attributes: texts, numbers and bools; metadata of that kind, and where it comes from."""
        own = {
            key: value for key, value in self.metadata.items() if isinstance(value, (str, int, float, bool))
        }
        known = {key: value for key, value in self.labels.items() if value is not None}
        return {
            "kind": self.kind,
            "session_id": self.session_id,
            "speaker": self.speaker,
            "said": self.created.timestamp(),
            **known,
            **own,
        }


@dataclass(slots=True)
class Memories:
    """One user's memory, read for one request.

    Args:
        forest: the memories of the caller's tenant.
        user: who the caller may see.
    """

    forest: AsyncMemForest
    user: str
    _turns: dict[str, dict[str, TurnView]] = field(default_factory=dict)

    async def fact(self, fact_id: str) -> FactView:
        """Return a fact; of one that was corrected, the one that holds instead.

        Raises:
            NotFoundError: if there is none, or it was forgotten.
        """
        handle = self.forest.user(self.user)
        try:
            view = await handle.get(fact_id)
            if view.verdict == CORRECTED:
                entries = await handle.history(fact_id)
                later = [entry.fact_id for entry in entries if entry.kind == CORRECTED]
                for newer in reversed(later):
                    view = await handle.get(newer)
                    if view.verdict not in (CORRECTED, FORGOTTEN):
                        return view
        except NotFoundError:
            raise no_such_memory() from None
        if view.verdict in (CORRECTED, FORGOTTEN):
            raise no_such_memory()
        return view

    async def turn(self, session_id: str, turn_id: str) -> TurnView:
        """Return a turn; a session is read once.

        Raises:
            NotFoundError: if there is none.
        """
        if session_id not in self._turns:
            try:
                turns = await self.forest.user(self.user).turns(session_id)
            except NotFoundError:
                raise no_such_memory() from None
            self._turns[session_id] = {turn.id: turn for turn in turns}
        found = self._turns[session_id].get(turn_id)
        if found is None:
            raise no_such_memory()
        return found

    async def of_fact(self, view: FactView, wanted: Filter | None = None) -> Record | None:
        """Return the record of a fact: that of the first turn it was said in that passes a filter; None if none does."""
        async for record in self._sayings(view):
            if wanted is None or matches(wanted, record.fields()):
                return record
        return None

    async def of_turn(self, session_id: str, turn_id: str) -> Record:
        """Return the record of a turn.

        Raises:
            NotFoundError: if there is none.
        """
        turn = await self.turn(session_id, turn_id)
        return self._of_turn(session_id, turn)

    async def page(
        self, wanted: Filter, *, offset: int, limit: int, latest: bool = False
    ) -> tuple[list[Record], int]:
        """Return the facts that pass a filter, in time order, and how many do in all.

        Args:
            wanted: the filter.
            offset: how many to pass over.
            limit: most records.
            latest: leave out what another value has taken the place of.

        Raises:
            InputError: if that is more to look through than one request may.
        """
        handle = self.forest.user(self.user)
        if not latest and not fields_in(wanted) - {"user_id"}:
            if not matches(wanted, {"user_id": self.user}):
                return [], 0
            page = await handle.list(offset=offset, limit=limit)
            return [record for view in page if (record := await self.of_fact(view))], page.total
        found: list[Record] = []
        count = 0
        async for view in self._facts():
            record = await self.of_fact(view, wanted)
            if record is not None and not (latest and record.superseded):
                count += 1
                if offset < count <= offset + limit:
                    found.append(record)
        return found, count

    async def search(
        self,
        question: str,
        wanted: Filter,
        *,
        most: int,
        least: float = 0.0,
        latest: bool = False,
        **options: Any,
    ) -> list[Record]:
        """Return what answers a question and passes a filter, best first, and each memory once.

        Args:
            question: the question.
            wanted: the filter.
            most: most records.
            least: the lowest score.
            latest: leave out what another value has taken the place of.
            options: of the verb `search`.
        """
        plain = not latest and not fields_in(wanted) - {"user_id"}
        records: dict[str, Record] = {}
        for top in (most,) if plain else sorted({min(DEEP, 4 * most), DEEP}):
            result = await self.forest.user(self.user).search(question, top_k=top, **options)
            for one, score in zip(result.evidence, _scores(result.evidence), strict=True):
                if score < least or len(records) == most:
                    return list(records.values())
                record = await self._of_evidence(one, wanted)
                if record is not None and not (latest and record.superseded):
                    records.setdefault(record.id, replace(record, score=score))
            if len(result.evidence) < top or len(records) == most:
                break
        return list(records.values())

    async def _facts(self) -> AsyncIterator[FactView]:
        handle, read = self.forest.user(self.user), 0
        page = await handle.list(limit=MAX_PAGE)
        while True:
            for view in page:
                await asyncio.sleep(0)  # a filter may be long, and others wait
                yield view
            read += len(page)
            if page.next_cursor is None:
                return
            if read >= MOST_SCANNED:
                raise InputError(
                    f"this filter would look through more than {MOST_SCANNED:,} memories; search instead, or leave it out"
                )
            page = await handle.list(cursor=page.next_cursor, limit=MAX_PAGE)

    async def _of_evidence(self, one: Evidence, wanted: Filter) -> Record | None:
        if one.kind == "memory":
            return None  # a summary, which is nobody's to correct or delete
        try:
            if one.fact_id is not None:
                return await self.of_fact(await self.fact(one.fact_id), wanted)
            record = await self.of_turn(one.sources[0].session_id, one.sources[0].turn_ids[0])
        except NotFoundError:
            return None  # deleted since the search
        return record if matches(wanted, record.fields()) else None

    async def _sayings(self, view: FactView) -> AsyncIterator[Record]:
        verbatim = view.statement == f"{view.speaker}: {view.text}"
        for source in view.sources:
            for turn_id in source.turn_ids:
                turn = await self.turn(source.session_id, turn_id)
                said = self._of_turn(source.session_id, turn)
                yield replace(
                    said,
                    id=seal("f", self.user, view.fact_id),
                    text=view.text if verbatim else view.statement or view.text,
                    said=view.text,
                    speaker=view.speaker,
                    created=view.said,
                    updated=view.corrected or view.stored,
                    categories=view.topics,
                    superseded=view.superseded_by is not None,
                    kind="fact",
                )

    def _of_turn(self, session_id: str, turn: TurnView) -> Record:
        kept = dict(turn.metadata)
        nested = kept.pop("metadata", None)
        labels = {name: kept.pop(name, session_id if name == "run_id" else None) for name in LABELS}
        return Record(
            id=seal("t", self.user, session_id, turn.id),
            user_id=self.user,
            text=turn.text,
            said=turn.text,
            speaker=turn.speaker,
            created=turn.said,
            updated=turn.stored,
            session_id=session_id,
            labels=labels,
            metadata={**kept, **(nested if isinstance(nested, Mapping) else {})},
            kind="turn",
        )


def _scores(evidence: tuple[Evidence, ...]) -> list[float]:
    """Return scores within (0, 1) that never rise from one piece of evidence to the next.

    Ours are sums of weighted parts without bounds. What puts a piece first whatever its parts are (`lead`) is left out.
    """
    found: list[float] = []
    for one in reversed(evidence):
        raw = one.score - one.scores.get("lead", 0.0)
        bounded = 1 / (1 + exp(-max(-30.0, min(30.0, raw))))
        found.append(max(bounded, found[-1] if found else 0.0))
    return found[::-1]
