"""Reading JSON of any size value by value: only the value that is being read is held.

Where a file is broken or cut off, what was whole before is read, and the place is named; nothing behind it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

MOST_VALUE = 512 * 1024**2
"""Bytes that one value may have, which is held as a whole: a conversation, or a message."""
MOST_DEPTH = 500
STEP = 1024
"""Bytes that the parser gets at once: the place of a fault is known so exactly."""

_UNDECODED = re.compile("[\ud800-\udfff]")


class JsonEndError(Exception):
    """The JSON ends, or is broken, before a value is whole; that was named. `Reading.json` ends with it."""


class JsonStream:
    """A position in JSON text.

    `elements` and `fields` step through a list or an object; at each step the caller reads what stands there with `value`,
    `elements` or `fields`, or passes over it by going on.

    Args:
        pieces: the text.
        on_fault: called with the place behind which nothing can be read, and the reason.

    Example:
        >>> [value for _, value in JsonStream(["[1, {}, 2]"], print).values()]
        [1, {}, 2]
    """

    def __init__(self, pieces: Iterable[str], on_fault: Callable[[str, str], None]) -> None:
        self._on_fault = on_fault
        self._events = self._parsed(pieces)
        self._next: tuple[str, Any] | None = None
        self._taken = self._depth = 0
        self._read = self._begun = 0
        """Bytes read so far, and those before the value that is being read."""

    def peek(self) -> str:
        """Return what stands here: "start_map", "start_array", or the type of another value; nothing at the end."""
        if self._next is None:
            self._next = next(self._events, ("", None))
        return self._next[0]

    def value(self) -> Any:
        """Return the value that stands here.

        Raises:
            JsonEndError: if it is not whole.
        """
        from ijson import ObjectBuilder

        self._begun, level, builder = self._read, self._depth, ObjectBuilder()
        while True:
            event, value = self._take()
            if not event:
                raise JsonEndError
            builder.event(event, value)
            if self._depth == level:
                return builder.value

    def elements(self) -> Iterator[int]:
        """Yield the numbers of a list's elements, from 0; the stream stands at each of them."""
        return (number for number, _ in enumerate(self._steps("start_array", "end_array")))

    def fields(self) -> Iterator[str]:
        """Yield the keys of an object; the stream stands at the value of each."""
        return self._steps("start_map", "end_map")

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, value) for the elements of a list, as far as they are whole."""
        for number in self.elements():
            try:
                value = self.value()
            except JsonEndError:
                return
            yield number, value

    def _steps(self, opening: str, closing: str) -> Iterator[str]:
        """Yield at each element, with its key in an object; pass over what the caller has left of it."""
        if self.peek() != opening:
            return
        self._take()
        level = self._depth
        while self.peek() not in (closing, ""):
            key = str(self._take()[1]) if opening == "start_map" else ""
            before = self._taken
            yield key
            while self.peek() and (self._taken == before or self._depth > level):
                self._take()
                self._begun = self._read
        self._take()

    def _take(self) -> tuple[str, Any]:
        self.peek()
        taken, self._next = self._next or ("", None), None
        self._taken += 1
        self._depth += taken[0].startswith("start") - taken[0].startswith("end")
        if self._depth > MOST_DEPTH:
            self._on_fault(f"byte {self._read:,}", "the JSON is nested too deeply to be a chat")
            self._events, taken = iter(()), ("", None)
        return taken

    def _parsed(self, pieces: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield the parser's events; name where it fails."""
        import ijson

        found = ijson.sendable_list()
        parser = ijson.basic_parse_coro(found, use_float=True)  # else thousands of digits crash it
        reason = ""
        for part in _parts(pieces):
            try:
                parser.send(part)
            except (ijson.JSONError, ValueError) as exc:
                reason = f"this is not JSON, here or up to {STEP:,} bytes on: {_what(exc)}; what follows is not read"
            yield from found
            found.clear()
            if not reason and self._read - self._begun > MOST_VALUE:
                reason = f"a single value has more than {MOST_VALUE:,} bytes; what follows is not read"
            if reason:
                self._on_fault(f"byte {self._read:,}", reason)
                return
            self._read += len(part)
        try:
            parser.close()
        except ijson.JSONError as exc:
            reason = f"this is not JSON: {_what(exc)}"
            if self._depth or not self._taken:
                reason = "the file ends here, in the middle of its JSON; it is cut off"
        yield from found
        if reason:
            self._on_fault(f"byte {self._read:,}", reason)


def _what(error: Exception) -> str:
    """Return what is wrong, in the parser's words, without the text in which it is."""
    return str(error).splitlines()[0].rpartition("error: ")[2].rstrip(".")


def _parts(pieces: Iterable[str]) -> Iterator[bytes]:
    for piece in pieces:
        # What stands for a byte that is no UTF-8 becomes a NUL, so that the message with it is refused, and no other.
        data = _UNDECODED.sub(r"\\u0000", piece).encode()
        yield from (data[at : at + STEP] for at in range(0, len(data), STEP))
