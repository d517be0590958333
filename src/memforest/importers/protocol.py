"""Messages of chat protocols as turns: what was said, and beside it, as turns of role ``tool``, what tools were asked and gave.

Known are the messages of OpenAI's Chat Completions (https://platform.openai.com/docs/api-reference/chat), the items of its
Responses API (https://platform.openai.com/docs/api-reference/responses), and typed parts as Anthropic's messages have them.
A call of a tool is nobody's statement, and neither is its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memforest.importers.drafts import tool_call, tool_result
from memforest.importers.parts import Skips
from memforest.limits import CAPTION, ROLES, SPEAKER, TEXT, TIME_KEYS

_CALLS = ("tool_calls", "function_call")
_CALL_ITEMS = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""Type of an item that asks a tool -> the field of what it is asked."""
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")
_REASONING = ("reasoning", "thinking", "redacted_thinking")
UNSAID = ("type", "status", "refusal", "annotations", "audio", "logprobs", "phase")
"""Fields of a message that say nothing of what was said."""
_NAMES = ("sender", "sender_name", "author")
"""Where other programs have the name of who speaks, or an object with a ``name``; what only names a role is the role."""
_INSTRUCTIONS = ("system", "developer")
_TEXT_PARTS = (None, "text", "input_text", "output_text", "refusal", "summary_text")


def is_protocol_message(message: Mapping[str, Any]) -> bool:
    """Return whether a message has what only chat protocols have: calls of tools, no text, a type, or typed parts."""
    content = message.get("content")
    return (
        any(key in message for key in (*_CALLS, "tool_call_id", "call_id"))
        or message.get("type") in (*_CALL_ITEMS, *_RESULT_ITEMS, *_REASONING)
        or ("role" in message and "content" in message and content is None)
        or (isinstance(content, list) and any(isinstance(one, Mapping) and "type" in one for one in content))
        or "choices" in message
        or "refusal" in message
    )


def is_talk(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records are messages: half of them at least have a text and who speaks, and not only a system's.

    The log of a program may hold a prompt among its events: where nobody else speaks, it is no chat.
    """
    voices = [_voice(one) for one in messages]
    heard = [one for one in voices if one is not None]
    return bool(heard) and 2 * len(heard) >= len(voices) and ("said" in heard or len(set(voices)) == 1)


def _voice(message: Mapping[str, Any]) -> str | None:
    """Return what a record is: "said", "system", "tool", or of an "unknown" role; None if it is no message."""
    kind = message.get("type")
    if isinstance(kind, str) and (kind.endswith("_call") or kind in (*_RESULT_ITEMS, *_REASONING)):
        return "tool"
    message = with_speaker(message)
    role, content = (
        message.get("role"),
        next((message[key] for key in TEXT if message.get(key) is not None), ""),
    )
    has_text = isinstance(content, (str, list)) and not {*TEXT, *CAPTION, *_CALLS}.isdisjoint(message)
    if not has_text or (role is None and not any(message.get(key) for key in SPEAKER)):
        return None
    folded = "user" if role is None else str(role).strip().casefold()
    return "system" if folded in _INSTRUCTIONS else "said" if folded in ROLES else "unknown"


def with_speaker(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with who speaks under the name that is read, where it stands under another."""
    if any(message.get(key) is not None for key in ("role", *SPEAKER)):
        return message
    key = next((key for key in _NAMES if message.get(key)), None)
    who = None if key is None else message[key]
    name = who.get("name") if isinstance(who, Mapping) else who
    if not isinstance(name, str):
        return message
    left = {other: one for other, one in message.items() if other != key}
    return {**left, "role" if name.casefold() in ROLES else "speaker": name}


def turns_of(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> list[Mapping[str, Any]]:
    """Return a message as turns, in order; a plain message as it is.

    Args:
        message: the message.
        tools: id of a call -> name of its tool, as far as the session has been read; it is added to.
        skips: counts what is left out.
    """
    message = with_speaker(message)
    if not is_protocol_message(message):
        return [message]
    shared = {key: message[key] for key in TIME_KEYS if message.get(key) is not None}
    return [{**turn, **shared} for turn in _turns(message, tools, skips)]


def _turns(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> Iterator[dict[str, Any]]:
    kind = message.get("type")
    if kind in _REASONING:
        skips.leave_out("reasoning of the model")
        return
    if kind in _CALL_ITEMS:
        yield _called(message.get("name"), message.get(_CALL_ITEMS[kind]), message.get("call_id"), tools)
        if output := _text(message.get("output"), skips):
            yield tool_result(message.get("name"), output)
        return
    if kind in _RESULT_ITEMS:
        yield _result(message.get("call_id"), None, message.get("output"), tools, skips)
        return
    if isinstance(kind, str) and kind.endswith("_call"):
        yield tool_call(
            kind, {key: one for key, one in message.items() if key not in ("id", "type", "status")}
        )
        return
    said = [*_said(message, tools, skips), *_calls(message, tools)]
    if not said:
        skips.leave_out("message without text")
    yield from said


def _calls(message: Mapping[str, Any], tools: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the calls beside the words of a message."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            given = call.get("function")
            function = given if isinstance(given, Mapping) else call
            asked = next((function[key] for key in ("arguments", "args", "input") if key in function), "")
            yield _called(function.get("name"), asked, call.get("id"), tools)
    if isinstance(old := message.get("function_call"), Mapping):
        yield _called(old.get("name"), old.get("arguments"), None, tools)


def _said(message: Mapping[str, Any], tools: dict[str, str], skips: Skips) -> Iterator[dict[str, Any]]:
    """Yield the words of a message, and the calls and results among its typed parts."""
    left = {key: one for key, one in message.items() if key not in (*_CALLS, *TIME_KEYS, *UNSAID)}
    role, content = message.get("role"), message.get("content")
    if role in ("tool", "function"):
        if text := _text(content, skips):
            given = _result(message.get("tool_call_id"), message.get("name"), text, tools, skips)
            yield {**{key: one for key, one in left.items() if key not in ("name", "content")}, **given}
        return
    parts = content if isinstance(content, list) else []
    if text := _text(content, skips) or _text(message.get("refusal"), skips):
        yield {**left, "content": text}
    elif not isinstance(content, (list, str, type(None))):
        yield dict(message)  # to be refused by name
    for part in parts:
        if isinstance(part, Mapping) and part.get("type") == "tool_use":
            yield _called(part.get("name"), part.get("input"), part.get("id"), tools)
        elif isinstance(part, Mapping) and part.get("type") == "tool_result":
            yield _result(part.get("tool_use_id"), None, part.get("content"), tools, skips)


def _called(name: object, asked: object, call: object, tools: dict[str, str]) -> dict[str, Any]:
    if isinstance(call, str):
        tools[call] = str(name or "tool")
    turn = tool_call(name, asked)
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def _result(
    call: object, name: object, output: object, tools: Mapping[str, str], skips: Skips
) -> dict[str, Any]:
    known = tools.get(call) if isinstance(call, str) else None
    turn = tool_result(name or known, _text(output, skips) or "(no text)")
    return {**turn, "tool_call_id": call} if isinstance(call, str) else turn


def _text(content: object, skips: Skips) -> str:
    """Return the text of content, which may be a list of typed parts; parts that are no text are counted."""
    if isinstance(content, str):
        return content if content.strip() else ""
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part if isinstance(part, str) else None
        if isinstance(part, Mapping) and kind in _TEXT_PARTS:
            text = part.get("refusal") if kind == "refusal" else part.get("text")
        if isinstance(text, str):
            texts.append(text)
        elif kind in _REASONING:
            skips.leave_out("reasoning of the model")
        elif kind not in ("tool_use", "tool_result"):
            skips.leave_out("image, sound or file")
    return "\n".join(text for text in texts if text.strip())
