"""Reading JSON out of a model's reply: whatever it is wrapped in, and as much of it as is complete."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

MAX_DEPTH = 32
"""Deepest nesting that is read; no reply needs more than five."""
MAX_CHARS = 200_000
"""Characters of a reply that are read; a reply of 4,096 tokens has some 16,000."""

_OPEN = re.compile(r"""\{\s*["'\w{}]|\[\s*["'{\[\]\d-]|\{\s*$""")
"""A bracket with what a value may begin with behind it: "[sic]" and "[" as a smile begin none."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],]', re.DOTALL)
_CLOSING = str.maketrans("{[", "}]")
_ALONE = re.compile(r"\W{0,20}(?:json\W{0,20})?", re.IGNORECASE)
"""What may stand around an empty list that is the reply; in a remark "[]" says nothing."""


def find_json(
    text: str, names: Collection[str], listed: str | None = None
) -> tuple[dict[str, Any], bool] | None:
    """Return the JSON object of a reply and whether it is whole; None if there is none.

    Of several the last whole one counts, else the one that the text ends in, up to its last complete item: a model that
    thinks aloud ends with what it means. Any object goes before a bare list, which may be a remark.

    Args:
        text: what the model wrote.
        names: the properties of the object; one of them at least must be there.
        listed: the property that is meant when the model wrote a bare list; None when a list is no reply.

    >>> find_json('Sure! {"ranked": [2, 0,]} Anything else?', {"ranked"})
    ({'ranked': [2, 0]}, True)
    >>> find_json('{"ranked": [2, 0, 1', {"ranked"})
    ({'ranked': [2, 0]}, False)
    """
    said = _without_reasoning(text[:MAX_CHARS])
    best, rank, at, whole = None, (False, False), 0, True
    while whole and (opening := _OPEN.search(said, at)) is not None:
        start = opening.start()
        at, missing = _end_of(said, start)
        whole = not missing
        value = _loaded(said[start:at] + missing)
        if value == [] and not (_ALONE.fullmatch(said[:start]) and _ALONE.fullmatch(said[at:])):
            continue
        found = _unwrapped(value, names, listed)
        mine = (found is not None and found != {listed: value}, whole)
        if found is not None and mine >= rank:
            best, rank = (found, whole), mine
    return best


def _end_of(text: str, start: int) -> tuple[int, str]:
    """Return where the value that begins at a bracket ends, or its last complete item, and the brackets that are missing then."""
    stack, end, missing = "", start + 1, "}" if text[start] == "{" else "]"
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if sign == '"' or len(stack) > MAX_DEPTH:  # a string without an end, or no reply
            break
        if sign in "{[":
            stack += sign
        elif sign in "}]":
            stack = stack[:-1]
            if not stack:
                return token.end(), ""
        # An item of a list is complete or not there; of an object each member is.
        if sign in "}],[" and "[" not in stack[:-1]:
            end = token.start() + (sign != ",")
            missing = stack[::-1].translate(_CLOSING)
    return end, missing


def _loaded(text: str) -> Any:
    """Return the value of a text as JSON, mended where a model wrote it badly; None where there is none."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        import json_repair
    try:
        # As text: its own values have half characters where JSON has them as pairs.
        return json.loads(
            json_repair.repair_json(text, skip_json_loads=True), parse_constant=lambda _name: None
        )
    except (ValueError, RecursionError):
        return None


def _without_reasoning(text: str) -> str:
    """Return a reply without the reasoning in front of it; one that starts with its JSON has none."""
    text = text.lstrip("\ufeff \t\r\n")
    _, mark, behind = text.rpartition("</think>")
    return behind if mark and not text.startswith(("{", "[")) and _OPEN.search(behind) else text


def _unwrapped(value: Any, names: Collection[str], listed: str | None) -> dict[str, Any] | None:
    """Return the object that was meant: itself, the only member or item of what was written, or around a bare list."""
    only = value
    if isinstance(value, (dict, list)) and len(value) == 1:
        (only,) = value.values() if isinstance(value, dict) else value
    for one in (value, only):
        if isinstance(one, dict) and not one.keys().isdisjoint(names):
            return one
    return {listed: value} if isinstance(value, list) and listed is not None else None
