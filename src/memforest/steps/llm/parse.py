"""Reading JSON out of a model's reply: whatever it is wrapped in, and as much of it as there is.

Taken as they come: prose around it, code fences, ``<think>`` blocks closed or not, a byte-order mark, trailing commas,
NaN, Python's literals, line breaks inside strings. A text that ends too early yields what was complete: whole items of
a list, whole members of an object. Work is linear in the text, and depth is bounded, whatever the text is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_DEPTH = 32
"""Deepest nesting that is read; no reply needs more than five."""
MAX_CHARS = 200_000
"""Characters of a reply that are read; a reply of 4,096 tokens has some 16,000."""

_OPEN = re.compile(r"[{\[]")
_ALONE = re.compile(r"[^\w\[]*(?:json[^\w\[]*)?\[\s*\]\W*", re.IGNORECASE)
"""An empty list and nothing else, in a fence perhaps; only looked for in `ALONE_CHARS` or fewer."""
ALONE_CHARS = 40
_BLANK = re.compile(r"\s*")
# Unrolled, so that an open string fails in one pass.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(r"[-+]?\w[\w.+-]{0,40}")
_BAD_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
_WORDS: dict[str, Any] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "NaN": None,
    "Infinity": None,
    "-Infinity": None,
}
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON value in a text, or what there is of it.

    It is ``"whole"``, ``"cut"`` where the text ended before it did, or ``"broken"`` where something stood in it that
    cannot.
    """

    value: Any
    state: Literal["whole", "cut", "broken"]


@dataclass(slots=True)
class _Level:
    """An open list or object; `key` is that of the member to come."""

    value: list[Any] | dict[str, Any]
    key: str | None = None
    ready: bool = True
    """Whether an item may stand here: at the beginning and behind a comma."""

    def put(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is not None:
            self.value[self.key] = value
            self.key = None
        self.ready = False


@dataclass(slots=True)
class _Reader:
    """Reads one value that begins with a bracket; `at` is where it stands in the text."""

    text: str
    at: int
    levels: list[_Level] = field(default_factory=list)
    ended: bool = False
    """Whether the text ended inside the value."""

    def read(self) -> Found:
        """Return the value, as far as it goes; `at` is behind it, or where it goes wrong."""
        while self.at < len(self.text):
            done = self._step()
            if done is not None:
                return done
            self.at = self._skip(self.at)
        self.ended = True
        return Found(self._closed(), "cut")

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def _step(self) -> Found | None:
        """Read one token; return the value when it ends here."""
        ch = self.text[self.at]
        if ch in "{[":
            if len(self.levels) == MAX_DEPTH or not self._may_begin():
                return self._failed()
            self.levels.append(_Level({} if ch == "{" else []))
            self.at += 1
            return None
        level = self.levels[-1]
        if ch in "}]":
            return self._close(level, ch)
        if ch == ",":
            if level.ready or level.key is not None:
                return self._failed()
            level.ready = True
            self.at += 1
            return None
        return self._scalar(level)

    def _may_begin(self) -> bool:
        """Return whether a value may stand here; an object wants a key before it."""
        if not self.levels:
            return True
        level = self.levels[-1]
        # A comma between two items of a list may be missing: what is meant is plain.
        return isinstance(level.value, list) or level.key is not None

    def _close(self, level: _Level, ch: str) -> Found | None:
        if (ch == "]") != isinstance(level.value, list) or level.key is not None:
            return self._failed()
        self.at += 1
        self.levels.pop()
        if not self.levels:
            return Found(level.value, "whole")
        self.levels[-1].put(level.value)
        return None

    def _scalar(self, level: _Level) -> Found | None:
        """Read a key with its colon, a string, a number or a word."""
        if not level.ready:
            return self._failed()
        string = self.text[self.at] == '"'
        found = (_STRING if string else _SCALAR).match(self.text, self.at)
        if found is None:
            return self._cut() if string else self._failed()
        if isinstance(level.value, dict) and level.key is None:
            return self._key(level, found, string=string)
        if found.end() == len(self.text) and not string:
            return self._cut()  # "2" may have been the beginning of "23"
        if string:
            level.put(_unquoted(found.group()))
        elif found.group() in _WORDS:
            level.put(_WORDS[found.group()])
        elif _NUMBER.fullmatch(found.group()):
            level.put(_number(found.group()))
        else:
            return self._failed()
        self.at = found.end()
        return None

    def _key(self, level: _Level, found: re.Match[str], *, string: bool) -> Found | None:
        if not string:
            return self._failed()
        behind = self._skip(found.end())
        if behind == len(self.text):
            return self._cut()
        if self.text[behind] != ":":
            return self._failed()
        level.key = _unquoted(found.group())
        self.at = behind + 1
        return None

    def _cut(self) -> Found:
        """Return the value read so far when the text ends inside a string, a number or a word."""
        self.at, self.ended = len(self.text), True
        return Found(self._closed(), "cut")

    def _failed(self) -> Found:
        """Return the value read so far when the next character is not allowed."""
        return Found(self._closed(), "broken")

    def _closed(self) -> Any:
        """Return the value with its open levels closed: unfinished members of objects stay, unfinished items of lists go."""
        value: Any = None
        inner = False
        while self.levels:
            level = self.levels.pop()
            if inner and isinstance(level.value, dict):
                level.put(value)
            value, inner = level.value, True
        return value


def _unquoted(text: str) -> str:
    """Return the string that a literal spells; an unknown escape stands for itself."""
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        fixed = _BAD_ESCAPE.sub(lambda m: m.group() if m[1] else "\\\\" + m[2], text)
        return str(json.loads(fixed, strict=False))


def _number(text: str) -> int | float | None:
    value = float(text) if set(text) & set(".eE") else int(text)
    return value if abs(value) < 1e300 else None


def find_values(text: str) -> Iterator[Found]:
    """Yield the JSON objects and lists of a text, in order; inside one that goes wrong no other is looked for."""
    at = 0
    while (opening := _OPEN.search(text, at)) is not None:
        reader = _Reader(text, opening.start())
        found = reader.read()
        yield found
        if reader.ended:
            return
        at = max(reader.at, opening.start() + 1)


_STATES = {"broken": 0, "cut": 1, "whole": 2}


def find_json(text: str, names: Collection[str], listed: str | None = None) -> Found | None:
    """Return the JSON object of a reply, None if there is none.

    Of several the last whole one counts, else the last that was cut: a model that thinks aloud ends with what it
    means.

    Args:
        text: what the model wrote.
        names: the properties of the object; one of them at least must be there.
        listed: the property that is meant when the model wrote a bare list; None when a list is no reply.

    >>> find_json('Sure! {"ranked": [2, 0,]} Anything else?', {"ranked"})
    Found(value={'ranked': [2, 0]}, state='whole')
    >>> find_json('{"ranked": [2, 0, 1', {"ranked"})
    Found(value={'ranked': [2, 0]}, state='cut')
    """
    plain = _plain(text)
    if plain is not None and (value := _unwrapped(plain, names, listed)) is not None:
        return Found(value, "whole")
    best: Found | None = None
    rank = (False, -1)
    said = _without_reasoning(text[:MAX_CHARS])
    alone = len(said) <= ALONE_CHARS and _ALONE.fullmatch(said) is not None
    broken = False
    for found in find_values(said):
        broken |= found.state == "broken"
        if isinstance(found.value, list) and (broken or not (found.value or alone)):
            continue  # a part of something that is broken, or "[]" in a remark: no reply that says "nothing"
        value = _unwrapped(found.value, names, listed)
        # A bare list may be a remark, or a part of an object that is broken: any object goes before.
        mine = (not isinstance(found.value, list) or value != {listed: found.value}, _STATES[found.state])
        if value is not None and mine >= rank:
            best, rank = Found(value, found.state), mine
    return best


def _plain(text: str) -> Any:
    """Return the value of a text that is JSON and nothing else, as most replies are; None for any other text."""
    if len(text) > MAX_CHARS:
        return None
    try:
        value = json.loads(
            text.strip("\ufeff \t\r\n"),
            parse_constant=lambda _name: None,
            parse_int=_number,
            parse_float=_number,
        )
    except (ValueError, RecursionError):
        return None
    return value if _is_shallow(value) else None


def _is_shallow(value: Any) -> bool:
    """Return whether a value is nested no deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False


def _without_reasoning(text: str) -> str:
    """Return a reply without the reasoning in front of it; one that starts with its JSON has none."""
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith(("{", "[")):
        return text
    _, mark, behind = text.rpartition("</think>")
    return behind if mark and _OPEN.search(behind) else text


def _unwrapped(value: Any, names: Collection[str], listed: str | None) -> dict[str, Any] | None:
    """Return the object that was meant: itself, the only member of another, or around a bare list."""
    if isinstance(value, list) and len(value) == 1 and _has(value[0], names):
        return dict(value[0])
    if isinstance(value, list):
        return None if listed is None else {listed: value}
    if _has(value, names):
        return dict(value)
    if isinstance(value, dict) and len(value) == 1:
        (inner,) = value.values()
        return dict(inner) if _has(inner, names) else None
    return None


def _has(value: Any, names: Collection[str]) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint(names)
