"""Summaries by a model: one call for each node whose children are too long to be kept as they are.

A prompt for each kind of tree, as a session, a stretch of conversation, a person and a theme are told differently, and one
for records that have an instruction, a history or a window of their own. A request that names a level's own prompt is
answered by `memforest.steps.llm.records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from memforest.concurrency import all_of
from memforest.errors import ModelError, ModelRefusedError
from memforest.interval import local_time
from memforest.language.counting import count_words
from memforest.language.language import detect_language
from memforest.models.calls import Calls
from memforest.steps.base import Kept
from memforest.steps.llm.clauses import forms_of
from memforest.steps.llm.prompt import Prompt, Value, load_prompt
from memforest.steps.llm.record_checks import MIN_SHARED, TOO_LONG
from memforest.steps.llm.records import RecordWriter
from memforest.steps.llm.replies import Summary
from memforest.steps.llm.shown import MAX_CHARS, not_blank, numbered, readable, within
from memforest.steps.llm.structured import ask
from memforest.types import SummaryRequest

__all__ = ["MAX_CHARS", "MIN_SHARED", "TOO_LONG", "VERBATIM", "ChatSummariser"]

VERBATIM = 3
"""Times the words of a summary that a node inside a tree keeps as they are. Every call saved is a call that cannot
lose a fact; what stands above reads the facts themselves. Ten sessions one by one took 0.84 calls a turn with 2, 0.71
with 3 (`benchmarks/write_path.py`)."""
MAX_REPLY_TOKENS = 2048

_STRETCH = "conversation"
_KINDS = {"session": "conversation", "entity": "entry", "scene": "theme", _STRETCH: "stretch"}
"""Kind of tree -> what its prompt calls the label."""
_RECORD = "consolidate"
_NAMED = ("session", "entity", "scene", _RECORD)
"""Kinds whose prompts' versions have stood in the summariser's name from the first."""


class ChatSummariser:
    """The `Summariser` that asks a chat model.

    A node keeps its children's texts without a call when they have few words together: as many as a summary may have
    for a root, `VERBATIM` times as many for a node inside a tree and for the root of a scene; not if every node is to be
    summarised (`SummaryRequest.summarise`). A stretch of conversation that is carried on (with a history) keeps what it has
    and what comes to it in the same way.

    Args:
        calls: the way to the model.
        timezone: the zone in which a node's days are written: a name or a tzinfo.
    """

    remote = True

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompts: Mapping[str, Prompt[Summary]] = {
            **{kind: load_prompt(f"summarise_{kind}") for kind in _KINDS},
            _RECORD: load_prompt(_RECORD),
        }
        versions = [self._prompts[kind].version for kind in _NAMED]
        later = self._prompts[_STRETCH].version
        versions += [later] if later > 1 else []  # stored names say nothing of its first version
        self.name = f"summarise@{'.'.join(map(str, versions))}:{calls.model_id}"
        self._records = RecordWriter(calls, self._zone)

    def maker_of(self, request: SummaryRequest) -> str:
        """Return what is recorded as the maker of a request's summary.

        That is the prompt of a level that has one of its own, with version and model: ``"timem_day@1:model"``; else `name`.
        """
        return self._records.maker_of(request) or self.name

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return one summary per request, in order, with an error in the place of one that could not be made.

        Raises:
            ModelRefusedError: if no call can succeed.
        """
        return await all_of(self._summarise(request) for request in requests)

    async def _summarise(self, request: SummaryRequest) -> str | ModelError:
        try:
            return await self._made(request)
        except ModelRefusedError:
            raise
        except ModelError as exc:
            return exc

    async def _made(self, request: SummaryRequest) -> str:
        if self._records.writes(request):
            return await self._records.write(request)
        inputs = not_blank(request.inputs)
        before = not_blank(request.history) if request.kind == _STRETCH else []
        if not inputs:
            return "\n".join(before)
        whole = request.root and request.kind != "scene"
        room = request.max_words if whole else VERBATIM * request.max_words
        if request.summarise == "kept" and sum(map(count_words, (*before, *inputs))) <= room:
            text = "\n".join((*before, *inputs))
            return text if before else Kept(text)  # of what is carried on, the children are not what was read
        kind = _prompt_of(request)
        reply = await ask(
            self._calls,
            self._prompts[kind],
            self._data(kind, request, inputs),
            max_tokens=MAX_REPLY_TOKENS,
            check=_Check(inputs, request),
        )
        return within(reply.summary, request.max_words)

    def _data(self, kind: str, request: SummaryRequest, inputs: Sequence[str]) -> Mapping[str, Value]:
        days = {"from": _day(request.start, self._zone), "to": _day(request.end, self._zone)}
        notes = numbered("note", readable(inputs))
        history = numbered("record", readable(not_blank(request.history)))
        if kind != _RECORD:
            node = {_KINDS[kind]: request.label, **days}
            values: dict[str, Value] = {"node": [node], "notes": notes, "words": request.max_words}
            return values | ({"history": history} if kind == _STRETCH else {})
        record: dict[str, Any] = {"record": request.label, "level": request.level}
        record |= {"window": request.window} if request.window else {}
        record |= {**days, "participants": list(request.participants)}
        return {
            "node": [record],
            "instruction": [{"text": request.instruction}],
            "history": history,
            "notes": notes,
            "words": request.max_words,
        }


def _prompt_of(request: SummaryRequest) -> str:
    """Return which prompt a request needs: that of its kind of tree, or that of records."""
    if request.instruction or request.window or (request.history and request.kind != _STRETCH):
        return _RECORD
    return request.kind if request.kind in _KINDS else "scene"


class _Check:
    """Says what is wrong with the summary of one node."""

    def __init__(self, inputs: Sequence[str], request: SummaryRequest) -> None:
        self._inputs = inputs
        self._request = request

    def __call__(self, reply: Summary) -> str | None:
        size, most = count_words(reply.summary), self._request.max_words
        if not any(ch.isalnum() for ch in reply.summary):
            return "the summary is empty"
        if size > TOO_LONG * most:
            return f"the summary has {size} words; at most {most} are allowed"
        text = "\n".join((*self._inputs, *self._request.history))
        if detect_language(reply.summary) != detect_language(text):
            return None  # a translation shares few words
        mine = forms_of(reply.summary)
        shared = len(mine & forms_of(f"{text} {self._request.label}"))
        return (
            None
            if shared >= MIN_SHARED * len(mine)
            else "the summary is about something that is not in the notes"
        )


def _day(moment: datetime, zone: tzinfo) -> str:
    """Return a day for the model; at either end of time as it is."""
    return f"{local_time(moment, zone):%Y-%m-%d}"
