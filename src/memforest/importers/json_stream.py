"""Reading JSON of any size value by value: only the value that is being read is held.

A value that is broken is named with its line, and reading goes on behind it where brackets and quotes tell its end. Where
a file ends too early, what was whole before is read, and the end is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

MOST_VALUE = 512 * 1024**2
"""Characters that one value may have, which is held as a whole: a conversation, or a message."""

_SPACE = re.compile(r"[ \t\r\n]*")
_STRUCTURE = re.compile(r'["\[\]{}]')
_IN_STRING = re.compile(r'["\\]')
_SCALAR_END = re.compile(r"[\s,\]}]")
_DECODE = json.JSONDecoder().raw_decode


class _Broken:
    """The type of `BROKEN`."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN = _Broken()
"""Stands for a value that could not be read, and was named."""


class _EndError(Exception):
    """The text ends before a value does."""


class JsonStream:
    """A position in JSON text.

    `elements` and `fields` step through a list or an object; at each step the caller reads what stands there with `value`,
    `elements` or `fields`, or passes over it by going on.

    Args:
        pieces: the text.
        on_fault: called with the place of what cannot be read, and the reason.

    Example:
        >>> [value for _, value in JsonStream(["[1, {}, 2]"], print).values()]
        [1, {}, 2]
    """

    def __init__(self, pieces: Iterator[str] | list[str], on_fault: Callable[[str, str], None]) -> None:
        self._pieces = iter(pieces)
        self._on_fault = on_fault
        self._text = ""
        self._at = 0
        self.line = 1
        """The line of the position, from 1."""
        self.steps = 0
        """Values and brackets read so far: tells whether a step was made."""
        self._ended = False
        """The early end has been named."""

    # -- what stands here -----------------------------------------------------------------------

    def peek(self) -> str:
        """Return the next character that is no space; nothing at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._go(found.end() if found else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self, name: str = "") -> Any:
        """Return the value that stands here, or `BROKEN` if it is not JSON, which is named; `name` says what it is."""
        self.peek()
        walk = _Walk(self._at)
        while True:
            fault: tuple[str, str] | None = None
            try:
                found, end = _DECODE(self._text, self._at)
                if self._text[end - 1] in '"]}' or _SCALAR_END.match(self._text, end):
                    self._step(end)
                    return found
            except json.JSONDecodeError as exc:
                fault = (self._place(exc.pos), exc.msg)
            except RecursionError:
                fault = (f"line {self.line}", "it is nested too deeply")
            except ValueError as exc:  # a number of thousands of digits
                fault = (f"line {self.line}", str(exc))
            stop = walk.end(self._text)
            if stop is not None:
                fault = fault or (self._place(end), "there is more than a number")
                self._step(stop)
                self._on_fault(f"{name}, {fault[0]}" if name else fault[0], f"this is not JSON: {fault[1]}")
                return BROKEN
            if not self._more(walk, keep=True):
                self._step(len(self._text))
                if fault is None:
                    return found  # a number, which ends with the text
                self._name_end()
                return BROKEN

    def _place(self, at: int) -> str:
        line = self.line + self._text.count("\n", self._at, at)
        return f"line {line} column {at - self._text.rfind(chr(10), 0, at)}"

    def skip(self) -> None:
        """Pass over the value that stands here without reading it."""
        self.peek()
        walk = _Walk(self._at)
        while (stop := walk.end(self._text)) is None:
            self._go(min(walk.at, len(self._text)))
            if not self._more(walk):
                self.steps += 1
                self._name_end()
                return
        self._step(stop)

    # -- lists and objects ------------------------------------------------------------------------

    def elements(self) -> Iterator[int]:
        """Yield the numbers of a list's elements, from 0; the stream stands at each of them."""
        number = 0
        try:
            for _ in self._parts("[", "]"):
                before = self.steps
                yield number
                if self.steps == before:
                    self.skip()
                number += 1
        except _EndError:
            self._name_end()

    def fields(self) -> Iterator[str]:
        """Yield the keys of an object; the stream stands at the value of each."""
        try:
            for _ in self._parts("{", "}"):
                if (key := self.value()) is BROKEN:
                    continue
                if self.peek() != ":":
                    self._on_fault(f"line {self.line}", "this is not JSON: a ':' is missing behind a key")
                    continue
                self._step(self._at + 1)
                before = self.steps
                yield str(key)
                if self.steps == before:
                    self.skip()
        except _EndError:
            self._name_end()

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, value) for the elements of a list that can be read; the others are named."""
        for number in self.elements():
            if (value := self.value(f"item {number}")) is not BROKEN:
                yield number, value

    def _parts(self, opening: str, closing: str) -> Iterator[None]:
        """Step from comma to comma of a list or an object, up to behind its closing bracket."""
        if self.peek() != opening:
            raise _EndError
        self._step(self._at + 1)
        if self.peek() == closing:
            self._step(self._at + 1)
            return
        while True:
            yield
            sign = self.peek()
            if sign not in (",", closing):
                sign = self._resynchronise(closing)
            if not sign:
                raise _EndError
            self._step(self._at + 1)
            if sign == closing:
                return
            if self.peek() == closing:
                self._on_fault(f"line {self.line}", "this is not JSON: a ',' has nothing behind it")
                self._step(self._at + 1)
                return

    def _resynchronise(self, closing: str) -> str:
        """Go to the next comma or closing bracket of this level, where something else stands; name what was passed over."""
        if self.peek() not in ("", "]", "}"):
            self._on_fault(f"line {self.line}", "this is not JSON: a ',' is missing")
        while (sign := self.peek()) and sign not in (",", closing):
            if sign in "]}":
                self._on_fault(
                    f"line {self.line}",
                    f"this is not JSON: the {sign!r} closes nothing; what follows is not read",
                )
                self._ended = True
                return ""
            if sign in '"[{':
                self.skip()
            else:
                self._go(self._at + 1)
        return sign

    def _name_end(self) -> None:
        if not self._ended:
            self._on_fault(
                f"behind line {self.line}", "the file ends here, in the middle of its JSON; it is cut off"
            )
        self._ended = True

    # -- the text held ----------------------------------------------------------------------------

    def _go(self, at: int) -> None:
        self.line += self._text.count("\n", self._at, at)
        self._at = at

    def _step(self, at: int) -> None:
        self._go(at)
        self.steps += 1

    def _more(self, walk: _Walk | None = None, *, keep: bool = False) -> bool:
        """Read on, and drop what is behind the position; return whether there was more.

        With `keep` the value at the position is held, and as much as is held is read again: so a long one is not read over and
        over.
        """
        wanted = len(self._text) - self._at if keep else 0
        if wanted > MOST_VALUE:
            self._on_fault(f"line {self.line}", f"a single value has more than {MOST_VALUE:,} characters")
            self._ended = True
            return False
        got = []
        for piece in self._pieces:
            got.append(piece)
            wanted -= len(piece)
            if wanted <= 0:
                break
        if got:
            if walk is not None:
                walk.at -= self._at
            self._text = "".join((self._text[self._at :], *got))
            self._at = 0
        return bool(got)


class _Walk:
    """Looks for the end of a value by brackets and quotes alone; goes on where it stood when there is more text."""

    def __init__(self, at: int) -> None:
        self.at = at
        self._depth = 0
        self._quoted = self._begun = False

    def end(self, text: str) -> int | None:
        """Return where the value ends; None when it does not end in this text."""
        while self.at < len(text):
            if self._quoted:
                closed = self._in_quotes(text)
            elif self._begun:
                found = _STRUCTURE.search(text, self.at)
                closed = found is not None and self._sign(found[0])
                self.at = len(text) if found is None else found.end()
            elif text[self.at] in '"[{':
                self._sign(text[self.at])
                self._begun, closed = True, False
                self.at += 1
            else:
                scalar = _SCALAR_END.search(text, self.at)
                return None if scalar is None else scalar.start()
            if closed:
                return self.at
        return None

    def _sign(self, sign: str) -> bool:
        """Count a bracket or a quote; return whether the value ends with it."""
        if sign == '"':
            self._quoted = True
            return False
        self._depth += 1 if sign in "[{" else -1
        return self._depth <= 0

    def _in_quotes(self, text: str) -> bool:
        """Go on to the closing quote; return whether the value ends with it."""
        found = _IN_STRING.search(text, self.at)
        if found is None:
            self.at = len(text)
        elif found[0] == '"':
            self._quoted = False
            self.at = found.end()
            return self._depth == 0
        else:
            self.at = found.end() + 1  # what is escaped may come with the next piece
        return False
