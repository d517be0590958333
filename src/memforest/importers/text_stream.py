"""Bytes of a file as text, piece by piece and line by line: UTF-8, or UTF-16 and UTF-32 by their byte order marks."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from memforest.importers.source import DamagedError, Watched

PIECE = 1 << 20
"""Bytes that are read at once."""
MOST_LINE = 16 * 1024**2
"""Characters that a line may have."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNDECODED = re.compile("[\ud800-\udfff]")
"""What stands for a byte that is no UTF-8 (PEP 383), or for half a character of UTF-16."""

OnFault = Callable[[str, str], None]
"""Called with the place of what cannot be read, and the reason."""


def encoding_of(head: bytes) -> str:
    """Return the encoding of a file that begins so: by its byte order mark, else UTF-8."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8-sig")


def pieces_of(stream: Watched, on_fault: OnFault) -> Iterator[str]:
    """Yield a file's text in pieces. A line with bytes that are no UTF-8 is named; a surrogate stands for each of them.

    No text with a surrogate can be stored, so whatever message holds it is refused by itself. Where a file is damaged, its
    text ends, and the place is named.
    """
    line, named = 1, 0
    decoder: codecs.IncrementalDecoder | None = None
    data = b"-"
    while data:
        try:
            data = stream.read(PIECE)
            if decoder is None:
                encoding = encoding_of(data)
                errors = "surrogateescape" if encoding == "utf-8-sig" else "surrogatepass"
                decoder = codecs.getincrementaldecoder(encoding)(errors)
            text = decoder.decode(data, final=not data)
        except DamagedError as exc:
            on_fault(f"behind line {line}", str(exc))
            return
        except UnicodeDecodeError as exc:
            on_fault(
                f"behind line {line}", f"this is not {exc.encoding}: {exc.reason}; what follows is not read"
            )
            return
        behind = 0
        while (found := _UNDECODED.search(text, behind)) is not None:
            line += text.count("\n", behind, found.start())
            if line != named:
                on_fault(f"line {line}", "there are bytes that are no UTF-8; save the file as UTF-8")
            named = line
            behind = text.find("\n", found.start())
            behind = len(text) if behind < 0 else behind
        line += text.count("\n", behind)
        if text:
            yield text


def lines_of(stream: Watched, on_fault: OnFault) -> Iterator[tuple[int, str]]:
    """Yield (number, line) for every line that can be read, from 1, without its end. Only line feeds end a line, as in files."""
    number, rest = 0, ""
    for piece in pieces_of(stream, on_fault):
        rest += piece
        whole = rest.split("\n")
        rest = whole.pop()
        for line in whole:
            number += 1
            if _is_usable(line, number, on_fault):
                yield number, line.removesuffix("\r")
        if len(rest) > MOST_LINE:
            on_fault(
                f"line {number + 1}",
                f"the line has more than {MOST_LINE:,} characters; what follows is not read",
            )
            return
    if rest and _is_usable(rest, number + 1, on_fault):
        yield number + 1, rest.removesuffix("\r")


def _is_usable(line: str, number: int, on_fault: OnFault) -> bool:
    """Return whether a line is text; bytes that are no UTF-8 were named when they were read."""
    if _UNDECODED.search(line):
        return False
    if "\0" in line:
        on_fault(f"line {number}", "there is a NUL character, which is no text")
        return False
    return True
