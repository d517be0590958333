"""Asks a model for a reply of a known form: sends, reads tolerantly, validates, and asks once more if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Template
from typing import TypeVar, get_origin

from pydantic import ValidationError

from memforest.errors import ReplyError
from memforest.models.base import ChatReply, ChatRequest, Message
from memforest.models.calls import Calls
from memforest.models.ledger import current_ledger
from memforest.steps.llm.parse import find_json
from memforest.steps.llm.prompt import Prompt, Value, data_block, prompt_data
from memforest.steps.llm.replies import Reply, json_schema, problems_of
from memforest.text import cut
from memforest.types import StepUsage

T = TypeVar("T", bound=Reply)

CUT_SHORT = "the reply was cut short"
"""The note on a reply of which only the complete items are there."""

_SHOWN_CHARS = 8_000
"""Characters of an unusable reply that are sent back; the rest would not help to mend it."""


async def ask(
    calls: Calls,
    prompt: Prompt[T],
    values: Mapping[str, Value],
    *,
    max_tokens: int,
    check: Callable[[T], str | None] | None = None,
    form: type[T] | None = None,
) -> T:
    """Return the model's reply to a prompt.

    A reply that cannot be used is sent back once, with what is wrong. Every such reply counts as a failure of the
    step. A reply that was cut short is used if it has a complete item, and says so in its notes.

    Args:
        calls: the way to the model.
        prompt: what is asked.
        values: the prompt's variables.
        max_tokens: most tokens of the reply.
        check: returns what is wrong with a well-formed reply, None if nothing.
        form: a narrower form of the prompt's reply, which holds for this request only.

    Raises:
        ReplyError: if the second reply is unusable, too.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    messages = prompt.messages(**values)
    kind = form or prompt.reply
    problem, text = "", ""
    for _ in range(2):
        request = ChatRequest(prompt.step, messages, json_schema(kind), max_tokens, strict=not kind.sparse)
        answer = await calls.complete(request)
        text = answer.text
        try:
            reply = read_reply(answer, kind)
        except ReplyError as exc:
            problem = str(exc)
        else:
            wrong = check(reply) if check is not None else None
            if wrong is None:
                return reply
            problem = wrong
        current_ledger().add(prompt.step, StepUsage(failures=1))
        shown = text.strip()[:_SHOWN_CHARS] or "(nothing)"
        messages = (*messages[:2], Message("assistant", shown), Message("user", _repair(problem)))
    raise ReplyError(f"{prompt.id}: {problem}", reply=cut(text, 400))


def read_reply(answer: ChatReply, kind: type[T]) -> T:
    """Return a model's reply as its type.

    Raises:
        ReplyError: if there is no reply of that type in it; says what is wrong, without what was given.
    """
    lists = [name for name, one in kind.model_fields.items() if get_origin(one.annotation) is list]
    needed = [name for name in lists if kind.model_fields[name].is_required()]
    if not answer.text.strip():
        raise ReplyError("it is empty")
    found = find_json(answer.text, kind.model_fields.keys(), needed[0] if len(needed) == 1 else None)
    if found is None and answer.finish == "length":
        raise ReplyError("it was cut short before there was any JSON; say less")
    if found is None:
        raise ReplyError("there is no JSON in it that fits the schema")
    value, whole = found
    notes: list[str] = []
    try:
        reply = kind.model_validate(value, context=notes)
    except ValidationError as exc:
        what = problems_of(exc)
        raise ReplyError(what if whole else f"it was cut short; say less ({what})") from None
    if not any(getattr(reply, name) for name in lists):
        if not whole:
            raise ReplyError("it was cut short before its first item was complete; say less")
        if notes:
            raise ReplyError(notes[0])
    for note in [CUT_SHORT] * (not whole) + notes:
        reply.note(note)
    return reply


@lru_cache(maxsize=1)
def _repair_text() -> Template:
    return Template(prompt_data("repair")["user"].strip())


def _repair(problem: str) -> str:
    """Return the message that asks for another reply; what is wrong may hold words of the reply, so it is data."""
    return _repair_text().substitute(problem=data_block("problem", [{"problem": problem}]))
